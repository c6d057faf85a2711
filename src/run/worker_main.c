/* A worker as a whole process: the one place of the library that prints. See culm.h. */
#include "run/worker.h"

#include <culm.h>
#include <stdio.h>

int culm_worker_main(int argc, char **argv) {
    if (argc < 1 || !argv) {
        return culm_status_exit_code(CULM_ERR_ARGUMENT);
    }
    struct culm_worker_memory memory = {0};
    struct culm_error error = {0};
    int code = culm_run_worker(argc, argv, &memory, &error);
    if (error.text[0]) {
        fprintf(stderr, "culm worker: %s\n", error.text);
    }
    if (memory.process_bytes) {
        fprintf(stderr, "memory: blobs %.1f MB at most, process %.1f MB at most, %zu allocations\n",
                (double)memory.blobs_bytes / 1e6, (double)memory.process_bytes / 1024 / 1e3,
                memory.allocations);
    }
    return code;
}

/* The hidden command `culm worker`: what the launcher starts. Its output is the worker's log. */
#include "run/worker.h"

#include "cli/command.h"

int culm_cli_worker(int argc, char **argv) {
    struct culm_worker_memory memory = {0};
    struct culm_error error = {0};
    int code = culm_worker_main(argc, argv, &memory, &error);
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

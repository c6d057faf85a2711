/* A worker as a whole process. See culm/train.h. */
#include "run/worker.h"

#include <culm/train.h>

int culm_worker_main(int argc, char **argv) {
    if (argc < 1 || !argv) {
        return culm_status_exit_code(CULM_ERR_ARGUMENT);
    }
    return culm_participant_main("culm worker", argc, argv, culm_run_worker);
}

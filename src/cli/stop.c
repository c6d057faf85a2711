/* `culm stop DIR`: as SIGTERM to its launcher. */
#include "cli/command.h"

#include "run/status.h"

#include <inttypes.h>
#include <stdio.h>

const struct culm_usage culm_usage_stop = {
    .command = "stop",
    .arguments = "DIR",
    .min_arguments = 1,
    .max_arguments = 1,
    .summary = "Stops the run in DIR, and waits until it has ended",
    .details =
        "The run saves what it has done, and its launcher ends with exit code 75, as after\n"
        "SIGTERM; --resume goes on with nothing to do again. The exit code is 0, or 1 if no\n"
        "run is at work in DIR.\n",
};

struct values {
    char unused;
};

static enum culm_status run(const struct culm_arguments *arguments, void *values, int *ret_code,
                            struct culm_error *error) {
    struct culm_error problem;
    int64_t pid;
    (void)values;
    (void)error;
    enum culm_status status = culm_run_stop(arguments->items[0], &pid, &problem);
    if (status == CULM_OK) {
        printf("process %" PRId64 " has ended\n", pid);
        return CULM_OK;
    }
    fprintf(stderr, "culm stop: %s\n", problem.text);
    *ret_code = status == CULM_ERR_NOT_FOUND ? 1 : culm_status_exit_code(status);
    return CULM_OK;
}

int culm_cli_stop(int argc, char **argv) {
    struct values values = {0};
    return culm_cli_run(&culm_usage_stop, argc, argv, &values, run);
}

/* `culm stop DIR`: as SIGTERM to its launcher; `culm stop RUN --cluster PLACE`: by its key. */
#include "cli/command.h"
#include "cli/options.h"

#include "run/status.h"

#include <inttypes.h>
#include <stdio.h>

struct values {
    const char *cluster;
};

static const struct culm_option options[] = {
    CULM_OPTION("cluster", TEXT, "etcd://HOST:PORT", struct values, cluster,
                "the store of keys at which the run of that name is"),
};

const struct culm_usage culm_usage_stop = {
    .command = "stop",
    .arguments = "DIR|RUN",
    .min_arguments = 1,
    .max_arguments = 1,
    .summary = "Stops a run, and waits until it has ended",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .details =
        "The run saves what it has done, and its launcher, or with --cluster all its nodes, end "
        "with\n"
        "exit code 75, as after SIGTERM; --resume goes on with nothing to do again. The exit code "
        "is\n"
        "0, or 1 if nobody is at work for it.\n",
};

static enum culm_status stop(const struct values *given, const char *what,
                             struct culm_error *error) {
    const struct culm_run_place place = {.store = given->cluster, .name = what};
    int64_t pid = 0;
    bool done = false;
    if (given->cluster) {
        const enum culm_status status = culm_run_stop_at(&place, &done, error);
        if (status == CULM_OK) {
            printf("'%s' %s\n", what, done ? "is done" : "was stopped");
        }
        return status;
    }
    const enum culm_status status = culm_run_stop(what, &pid, error);
    if (status == CULM_OK) {
        printf("process %" PRId64 " has ended\n", pid);
    }
    return status;
}

static enum culm_status run(const struct culm_arguments *arguments, void *values, int *ret_code,
                            struct culm_error *error) {
    struct culm_error problem;
    (void)error;
    const enum culm_status status = stop(values, arguments->items[0], &problem);
    if (status != CULM_OK) {
        fprintf(stderr, "culm stop: %s\n", problem.text);
        *ret_code = status == CULM_ERR_NOT_FOUND ? 1 : culm_status_exit_code(status);
    }
    return CULM_OK;
}

int culm_cli_stop(int argc, char **argv) {
    struct values values = {0};
    return culm_cli_run(&culm_usage_stop, argc, argv, &values, run);
}

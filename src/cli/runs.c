/* `culm runs --cluster PLACE [--json]`: all runs of a store of keys. */
#include "cli/command.h"
#include "cli/options.h"

#include "run/status.h"

#include <jansson.h>
#include <stdio.h>

struct values {
    const char *cluster;
    bool json;
};

static const struct culm_option options[] = {
    CULM_OPTION("cluster", TEXT, "etcd://HOST:PORT", struct values, cluster,
                "the store of keys (etcd://H1:P,H2:P,...)"),
    CULM_OPTION("json", FLAG, NULL, struct values, json, "prints one JSON array, on one line"),
};

const struct culm_usage culm_usage_runs = {
    .command = "runs",
    .arguments = "",
    .summary = "Lists the runs that were created with --cluster at a store of keys",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .details = "The state is one of: waiting (nobody leads it now), running, stopped (--resume "
               "goes on), done.\n",
};

static enum culm_status run(const struct culm_arguments *arguments, void *values, int *ret_code,
                            struct culm_error *error) {
    const struct values *given = values;
    json_t *runs = NULL, *one;
    struct culm_error problem;
    size_t index;
    (void)arguments;
    if (!given->cluster) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "--cluster etcd://HOST:PORT is missing");
    }
    const enum culm_status status = culm_run_list(given->cluster, &runs, &problem);
    if (status != CULM_OK) {
        fprintf(stderr, "culm runs: %s\n", problem.text);
        *ret_code = culm_status_exit_code(status);
        return CULM_OK;
    }
    if (given->json) {
        culm_cli_print_json(runs);
        return CULM_OK;
    }
    json_array_foreach(runs, index, one) {
        const char *leader = json_string_value(json_object_get(one, "leader"));
        printf("%-24s %-8s %s, term %lld, %lld nodes%s%s\n",
               json_string_value(json_object_get(one, "name")),
               json_string_value(json_object_get(one, "state")),
               json_string_value(json_object_get(one, "job")),
               (long long)json_integer_value(json_object_get(one, "term")),
               (long long)json_integer_value(json_object_get(one, "nodes")),
               leader ? ", led at " : "", leader ? leader : "");
    }
    json_decref(runs);
    return CULM_OK;
}

int culm_cli_runs(int argc, char **argv) {
    struct values values = {0};
    return culm_cli_run(&culm_usage_runs, argc, argv, &values, run);
}

/* `culm keys new FILE`: a secret that the nodes of a run share. */
#include "cli/command.h"

#include "run/launches.h"

#include <string.h>

const struct culm_usage culm_usage_keys = {
    .command = "keys",
    .arguments = "new FILE",
    .min_arguments = 2,
    .max_arguments = 2,
    .summary = "Makes a secret for a run on several machines",
    .details =
        "new writes a token of 256 random bits into a new file that only you can read. A run that "
        "is given\n"
        "it with --token-file lets in who has a copy, and encrypts what its machines say to each "
        "other\n"
        "with it. A file that is there is never written over.\n",
};

struct values {
    char unused;
};

static enum culm_status run(const struct culm_arguments *arguments, void *values, int *ret_code,
                            struct culm_error *error) {
    (void)values;
    (void)ret_code;
    if (strcmp(arguments->items[0], "new") != 0) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "'%.60s' is not 'new'",
                              arguments->items[0]);
    }
    return culm_token_new(arguments->items[1], error);
}

int culm_cli_keys(int argc, char **argv) {
    struct values values = {0};
    return culm_cli_run(&culm_usage_keys, argc, argv, &values, run);
}

/* `culm version`. */
#include "cli/command.h"
#include "cli/options.h"

#include "run/references.h"

#include <culm.h>

#include <jansson.h>
#include <openssl/crypto.h>
#include <uv.h>
#include <yaml.h>

const struct culm_usage culm_usage_version = {
    .command = "version",
    .arguments = "",
    .summary = "Prints the version of the program and its libraries",
};

static enum culm_status run(const struct culm_arguments *arguments, void *values, int *ret_code,
                            struct culm_error *error) {
    (void)arguments;
    (void)values;
    (void)ret_code;
    (void)error;
    printf("culm %s (%s)\n", culm_version(), culm_build_commit());
    printf("libuv %s, libyaml %s, jansson %s, %s\n", uv_version_string(), yaml_get_version_string(),
           jansson_version_str(), OpenSSL_version(OPENSSL_VERSION));
    return CULM_OK;
}

int culm_cli_version(int argc, char **argv) {
    return culm_cli_run(&culm_usage_version, argc, argv, NULL, run);
}

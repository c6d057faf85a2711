/* `culm version`. */
#include "cli/command.h"
#include "cli/options.h"

#include "run/version.h"

#include <jansson.h>
#include <openssl/crypto.h>
#include <uv.h>
#include <yaml.h>

static const struct culm_usage usage = {
    .command = "version",
    .arguments = "",
    .summary = "Prints the version of the program and its libraries",
};

int culm_cli_version(int argc, char **argv) {
    struct culm_arguments arguments;
    struct culm_error error = {0};
    if (culm_options_parse(&usage, argc, argv, NULL, &arguments, &error)) {
        return culm_cli_fail("version", &error);
    }
    if (arguments.help) {
        culm_usage_print(&usage, stdout);
        return 0;
    }
    printf("culm %s (%s)\n", CULM_VERSION, CULM_GIT);
    printf("libuv %s, libyaml %s, jansson %s, %s\n", uv_version_string(), yaml_get_version_string(),
           jansson_version_str(), OpenSSL_version(OPENSSL_VERSION));
    return 0;
}

/* `culm help [COMMAND]`, and `culm help config`: the reference of every key. */
#include "cli/command.h"
#include "cli/dispatch.h"
#include "cli/options.h"

#include "run/commands.h"

#include <stdlib.h>
#include <string.h>

struct values {
    bool markdown;
};

static const struct culm_option options[] = {
    CULM_OPTION("markdown", FLAG, NULL, struct values, markdown,
                "with 'config': as a Markdown table"),
};

static const struct culm_usage usage = {
    .command = "help",
    .arguments = "[COMMAND | config]",
    .max_arguments = 1,
    .summary = "Explains a command, or every configuration key",
    .options = options,
    .option_count = sizeof options / sizeof *options,
};

static enum culm_status run(const struct culm_arguments *arguments, void *values, int *ret_code,
                            struct culm_error *error) {
    const struct values *v = values;
    if (!arguments->count) {
        culm_commands_print(stdout);
        return CULM_OK;
    }
    if (strcmp(arguments->items[0], "config") == 0) {
        char *text = culm_config_reference(v->markdown);
        if (!text) {
            return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
        }
        fputs(text, stdout);
        free(text);
        return CULM_OK;
    }
    const struct culm_command *command = culm_command_find(arguments->items[0]);
    if (!command) {
        *ret_code = culm_command_unknown(arguments->items[0]);
        return CULM_OK;
    }
    char *call[] = {(char *)command->name, (char *)"--help", NULL};
    *ret_code = command->run(2, call);
    return CULM_OK;
}

int culm_cli_help(int argc, char **argv) {
    struct values values = {0};
    return culm_cli_run(&usage, argc, argv, &values, run);
}

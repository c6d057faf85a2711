/* `culm help [COMMAND]`, and `culm help config`: the reference of every key. */
#include "cli/command.h"
#include "cli/dispatch.h"
#include "cli/options.h"

#include "train/config.h"

#include <stdlib.h>
#include <string.h>

struct values {
    bool markdown;
};

static const struct culm_option options[] = {
    {"markdown", CULM_OPTION_FLAG, NULL, offsetof(struct values, markdown),
     "with 'config': as a Markdown table"},
};

static const struct culm_usage usage = {
    .command = "help",
    .arguments = "[COMMAND | config]",
    .max_arguments = 1,
    .summary = "Explains a command, or every configuration key",
    .options = options,
    .option_count = sizeof options / sizeof *options,
};

static int print_reference(bool markdown) {
    char *text = culm_train_config_reference(markdown);
    if (!text) {
        fprintf(stderr, "culm help: out of memory\n");
        return 4;
    }
    fputs(text, stdout);
    free(text);
    return 0;
}

int culm_cli_help(int argc, char **argv) {
    struct values values = {0};
    struct culm_arguments arguments;
    struct culm_error error = {0};
    if (culm_options_parse(&usage, argc, argv, &values, &arguments, &error)) {
        return culm_cli_fail("help", &error);
    }
    if (arguments.help) {
        culm_usage_print(&usage, stdout);
        return 0;
    }
    if (!arguments.count) {
        culm_commands_print(stdout);
        return 0;
    }
    if (!strcmp(arguments.items[0], "config")) {
        return print_reference(values.markdown);
    }
    const struct culm_command *command = culm_command_find(arguments.items[0]);
    if (!command) {
        return culm_command_unknown(arguments.items[0]);
    }
    char *call[] = {(char *)command->name, (char *)"--help", NULL};
    return command->run(2, call);
}

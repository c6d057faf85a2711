/* `culm help [COMMAND]`, and `culm help config`: the reference of every key. The same as manual
 * pages and as Markdown, and completions for shells. */
#include "cli/command.h"
#include "cli/completion.h"
#include "cli/dispatch.h"
#include "cli/manual.h"
#include "cli/markdown.h"
#include "cli/options.h"

#include "run/references.h"

#include <stdlib.h>
#include <string.h>

struct values {
    bool markdown, man;
    int completion; /* enum culm_shell; -1: not asked for */
};

static const struct culm_option options[] = {
    CULM_OPTION("markdown", FLAG, NULL, struct values, markdown,
                "prints Markdown: of all commands, of one, or with 'config' of its keys"),
    CULM_OPTION("man", FLAG, NULL, struct values, man,
                "prints the manual page, for man(1); with 'config' culm.yaml(5)"),
    CULM_OPTION("completion", WORD, "bash|zsh|fish", struct values, completion,
                "prints a script that completes command lines", .words = culm_shell_names),
};

const struct culm_usage culm_usage_help = {
    .command = "help",
    .arguments = "[COMMAND | config] [PART]",
    .max_arguments = 2,
    .summary = "Explains a command, or every configuration key",
    .options = options,
    .option_count = sizeof options / sizeof *options,
};

/* Of `culm train`, or of a command with a configuration of its own. */
static enum culm_status config(const struct values *v, const char *of, struct culm_error *error) {
    const struct culm_command *command = of ? culm_command_find(of) : NULL;
    bool trains = !of || strcmp(of, "train") == 0;
    if (!trains && (!command || !command->usage || !command->usage->config)) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "'%.60s' has no configuration of this kind; see 'culm help'", of);
    }
    if (!trains && v->man) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "there is no manual page of it; leave out --man");
    }
    if (v->man) {
        culm_manual_config(stdout);
        return CULM_OK;
    }
    char *text = trains ? culm_config_reference(v->markdown) : command->usage->config(v->markdown);
    if (!text) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    fputs(text, stdout);
    free(text);
    return CULM_OK;
}

static enum culm_status run(const struct culm_arguments *arguments, void *values, int *ret_code,
                            struct culm_error *error) {
    const struct values *v = values;
    if (v->completion >= 0) {
        culm_completion_print((enum culm_shell)v->completion, stdout);
        return CULM_OK;
    }
    if (!arguments->count) {
        (v->man        ? culm_manual_program
         : v->markdown ? culm_markdown_commands
                       : culm_commands_print)(stdout);
        return CULM_OK;
    }
    if (strcmp(arguments->items[0], "config") == 0) {
        return config(v, arguments->count > 1 ? arguments->items[1] : NULL, error);
    }
    const struct culm_command *command = culm_command_find(arguments->items[0]);
    if (!command || ((v->man || v->markdown) && !command->usage)) {
        *ret_code = culm_command_unknown(arguments->items[0]);
    } else if (v->man) {
        culm_manual_command(command, stdout);
    } else if (v->markdown) {
        culm_markdown_command(command, stdout);
    } else {
        bool part = arguments->count > 1;
        char *call[] = {(char *)command->name, (char *)(part ? arguments->items[1] : "--help"),
                        (char *)(part ? "--help" : NULL), NULL};
        *ret_code = command->run(part ? 3 : 2, call);
    }
    return CULM_OK;
}

int culm_cli_help(int argc, char **argv) {
    struct values values = {.completion = -1};
    return culm_cli_run(&culm_usage_help, argc, argv, &values, run);
}

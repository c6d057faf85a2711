/* Finding a command, and listing them. */
#include "cli/dispatch.h"

#include "base/words.h"

#include <string.h>
#include <sys/resource.h>

const struct culm_command *culm_command_find(const char *name) {
    for (const struct culm_command *row = culm_commands(); row->name; row++) {
        if (!strcmp(row->name, name)) {
            return row;
        }
    }
    return NULL;
}

void culm_commands_print(FILE *out) {
    fprintf(out, "usage: culm COMMAND [ARGUMENT]...\n\n");
    for (const struct culm_command *row = culm_commands(); row->name; row++) {
        if (row->summary) {
            fprintf(out, "  culm %-10s %s\n", row->name, row->summary);
        }
    }
    fprintf(out, "\nculm COMMAND --help explains a command; culm help config lists every key of a "
                 "configuration.\n");
}

int culm_command_unknown(const char *name) {
    struct culm_nearest near = {.word = name};
    for (const struct culm_command *row = culm_commands(); row->name; row++) {
        if (row->summary) {
            culm_nearest_try(&near, row->name);
        }
    }
    fprintf(stderr, "culm: unknown command '%.60s'%s%s%s; see 'culm help'\n", name,
            near.nearest ? "; did you mean '" : "", near.nearest ? near.nearest : "",
            near.nearest ? "'" : "");
    return 2;
}

static int run(int argc, char **argv) {
    const char *name = argv[1];
    if (!strcmp(name, "--help") || !strcmp(name, "-h")) {
        name = "help";
    } else if (!strcmp(name, "--version")) {
        name = "version";
    }
    const struct culm_command *command = culm_command_find(name);
    return command ? command->run(argc - 1, argv + 1) : culm_command_unknown(name);
}

/* The memory has the run's token, and keys of clouds. A limit of 1 is none that a core file fits into, and the one at which Linux
 * does not hand it to a program either (core(5)). */
static void leave_no_core(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_CORE, &limit) == 0 && limit.rlim_cur > 1) {
        limit.rlim_cur = 1;
        (void)setrlimit(RLIMIT_CORE, &limit);
    }
}

int culm_dispatch(int argc, char **argv) {
    leave_no_core();
    if (argc < 2) {
        culm_commands_print(stderr);
        return 2;
    }
    int code = run(argc, argv);
    struct culm_error error;
    if (culm_cli_flush(&error) != CULM_OK && code == 0) {
        fprintf(stderr, "culm %s: %s\n", argv[1], error.text);
        return culm_status_exit_code(error.status);
    }
    return code;
}

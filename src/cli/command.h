/*
 * The commands. Each is one file with one function of this form: argv[0] is the command's name, it
 * prints for itself and returns the exit code of README.md (0 done, 1 failed, 2 usage, 3
 * configuration or input, 4 environment, 75 stopped by a signal and resumable).
 */
#ifndef CULM_CLI_COMMAND_H
#define CULM_CLI_COMMAND_H

#include "base/status.h"

struct culm_command {
    const char *name;
    const char *summary; /* for the list; NULL: not listed */
    int (*run)(int argc, char **argv);
};

int culm_cli_bench(int argc, char **argv);
int culm_cli_eval(int argc, char **argv);
int culm_cli_model(int argc, char **argv);
int culm_cli_generate(int argc, char **argv);
int culm_cli_help(int argc, char **argv);
int culm_cli_report(int argc, char **argv);
int culm_cli_train(int argc, char **argv);
int culm_cli_version(int argc, char **argv);
int culm_cli_worker(int argc, char **argv);

/* The table, which ends with a row without a name. It is in main.c. */
const struct culm_command *culm_commands(void);

/* Prints "culm COMMAND: ERROR" to standard error and returns the error's exit code. */
int culm_cli_fail(const char *command, const struct culm_error *error);
/* The same of something that is no error; "": nothing. */
void culm_cli_note(const char *command, const char *note);

#endif

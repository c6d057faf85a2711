/* From argv to a command of the table. */
#ifndef CULM_CLI_DISPATCH_H
#define CULM_CLI_DISPATCH_H

#include "cli/command.h"

#include <stdio.h>

/* argv[0] is the program. Runs the command and sees to it that standard output was written. */
int culm_dispatch(int argc, char **argv);
const struct culm_command *culm_command_find(const char *name); /* or NULL */
void culm_commands_print(FILE *out);
/* Says so on standard error, with the nearest name; returns 2. */
int culm_command_unknown(const char *name);

#endif

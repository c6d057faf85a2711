/*
 * Manual pages: the option tables and the rows of the configuration, as roff for man(1).
 *
 * What a page says is what --help and `culm help config` say; nothing about an option or a key is
 * written here. Thread: any.
 */
#ifndef CULM_CLI_MANUAL_H
#define CULM_CLI_MANUAL_H

#include "cli/command.h"

#include <stdio.h>

/* What culm(1) lists beside the commands; the last row has no name. */
struct culm_manual_row {
    const char *name, *means;
};
extern const struct culm_manual_row culm_manual_exit_codes[], culm_manual_variables[];

void culm_manual_program(FILE *out);                                     /* culm(1) */
void culm_manual_command(const struct culm_command *command, FILE *out); /* culm-train(1), ... */
void culm_manual_config(FILE *out);                                      /* culm.yaml(5) */

#endif

/*
 * The reference of all commands as Markdown, for docs/commands.md: the option tables once more, as the
 * manual pages have them (cli/manual.h).
 *
 * A command is a heading, its forms, its options as a table, and what --help says below them. Thread: any.
 */
#ifndef CULM_CLI_MARKDOWN_H
#define CULM_CLI_MARKDOWN_H

#include "cli/command.h"

#include <stdio.h>

void culm_markdown_commands(FILE *out); /* all, then exit codes and environment variables */
void culm_markdown_command(const struct culm_command *command, FILE *out); /* with its parts */

#endif

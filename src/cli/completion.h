/*
 * Completions for bash, zsh and fish: scripts that know the commands, their options and what these
 * take, the published models and the keys of a configuration, all from the tables.
 *
 * What they do not do: run `culm`. Thread: any.
 */
#ifndef CULM_CLI_COMPLETION_H
#define CULM_CLI_COMPLETION_H

#include <stdio.h>

enum culm_shell { CULM_SHELL_BASH, CULM_SHELL_ZSH, CULM_SHELL_FISH };
extern const char *const culm_shell_names[];

void culm_completion_print(enum culm_shell shell, FILE *out);

#endif

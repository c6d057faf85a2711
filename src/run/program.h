/* Where the `culm` program is, of which workers and evaluations are processes. */
#ifndef CULM_RUN_PROGRAM_H
#define CULM_RUN_PROGRAM_H

#include "base/file.h"

/* `named`, when it is not NULL; else the one beside the library or program that this code is part
 * of (in its folder, or in bin/ above it), the installed one, or the first in PATH.
 * CULM_ERR_NOT_FOUND: none of them is there, or not executable. */
enum culm_status culm_program_find(const char *named, char ret_path[CULM_PATH_MAX],
                                   struct culm_error *error);

#endif

/*
 * `culm edge status DIR`, also as `culm status DIR`. Thread: the main one.
 */
#ifndef CULM_CLI_EDGE_STATUS_H
#define CULM_CLI_EDGE_STATUS_H

#include "base/status.h"

#include <stdbool.h>

/* Prints how the run goes; *ret_code: 0 if it is well or has ended, else 1. *ret_on, which may be NULL:
 * it has not ended. */
enum culm_status culm_cli_edge_status(const char *dir, bool json, int *ret_code, bool *ret_on,
                                      struct culm_error *error);

#endif

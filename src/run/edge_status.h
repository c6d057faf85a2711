/*
 * How a run of `culm edge` goes, as its folder tells: the process is asked at DIR/socket; what is left of one that has
 * ended, its events say. Nothing here prints. Thread: the caller's.
 */
#ifndef CULM_RUN_EDGE_STATUS_H
#define CULM_RUN_EDGE_STATUS_H

#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>

/* Whether a run of `culm edge` is in that folder, or has been. */
bool culm_edge_status_is_there(const char *dir);
/* {"state", "ill", ...}, as docs/formats.md has it:
 *
 *     preparing, running, ending   it answers
 *     frozen                       it is there, and nothing in it moves; or it does not even answer
 *     silent                       it is there, and cannot be asked
 *     ended                        it has said `done`
 *     dead                         it has not, and is gone
 *
 * "ill" says why it is not well, and is null if it is. The caller's. CULM_ERR_NOT_FOUND: there is no such run;
 * CULM_ERR_CONFIG: it is of another command. */
enum culm_status culm_edge_status(const char *dir, json_t **ret_status, struct culm_error *error);

#endif

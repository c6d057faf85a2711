/*
 * The process that merges a package on while a run uses it (edge.remerge): `culm merge --watch PACKAGE
 * RUN`. It ends with the thread that has started it. Thread: that one.
 */
#ifndef CULM_RUN_EDGE_REMERGE_H
#define CULM_RUN_EDGE_REMERGE_H

#include "base/status.h"

#include <sys/types.h>

/* What it says for people goes to RUN/remerge.log. CULM_ERR_NOT_FOUND: there is no program `culm`. */
enum culm_status edge_remerge_start(const char *package, const char *run, pid_t *ret_pid,
                                    struct culm_error *error);
/* Asks it to end, and waits until it has; a second later it is killed, since all that it writes may be
 * cut off anywhere. */
void edge_remerge_stop(pid_t pid);

#endif

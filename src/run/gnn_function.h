/*
 * A worker as a function of AWS Lambda: the process `bootstrap`, which is asked to work again and again.
 *
 *     invocation ─▶ event: where to call, token, name ─▶ a newcomer, which works until the run is over or
 *     the deadline is near ─▶ answer ─▶ (frozen for any time) ─▶ the next invocation
 *
 * What it knows of a run it keeps for the next invocation (gnn_node.h). An event is
 *
 *     {"culm": 1, "role": "worker", "address": "tcp:HOST:PORT", "token": T, "name": N, "memory_mb": M}
 *
 * and an answer {"node": N, "came": true|false, "why": TEXT}. One that is turned away (it was delivered
 * twice, or the run is over) has done nothing wrong and answers so too; one that cannot call fails.
 * Errors go to standard error, which is the function's log.
 *
 * Thread: one, for all of it.
 */
#ifndef CULM_RUN_GNN_FUNCTION_H
#define CULM_RUN_GNN_FUNCTION_H

#include "base/status.h"

#include <jansson.h>

#define CULM_GNN_EVENT_FORMAT 1

/* What an engine sends; NULL: out of memory. */
json_t *culm_gnn_function_event(const char *address, const char *token, const char *name,
                                int64_t memory_mb);

/* Until the service is gone; the exit code. */
int culm_gnn_function_run(void);

#endif

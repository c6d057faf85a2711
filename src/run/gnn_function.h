/*
 * A worker as a function of AWS Lambda: the process `bootstrap`, which handles one invocation after
 * the other.
 *
 *     invocation ─▶ event: address, token, name ─▶ joins as a newcomer, and works until the run is
 *     over or the deadline is near ─▶ answer ─▶ (frozen, for any time) ─▶ the next invocation
 *
 * What it has learned of a run is kept for the next invocation (gnn_node.h). An event is
 *
 *     {"culm": 1, "role": "worker", "address": "tcp:HOST:PORT", "token": T, "name": N,
 *      "memory_mb": M}
 *
 * and an answer is {"node": N, "came": true|false, "why": TEXT}. If the worker is refused (the
 * invocation was delivered twice, or the run is over), that is not an error, and the answer says
 * "came": false. If it cannot connect, the invocation fails. Errors are also written to standard
 * error, which is the function's log.
 *
 * Thread: one.
 */
#ifndef CULM_RUN_GNN_FUNCTION_H
#define CULM_RUN_GNN_FUNCTION_H

#include "base/status.h"

#include <jansson.h>

#define CULM_GNN_EVENT_FORMAT 1

/* The event that the engine sends; NULL: out of memory. */
json_t *culm_gnn_function_event(const char *address, const char *token, const char *name,
                                int64_t memory_mb);

/* Runs until the service is gone; returns the exit code. */
int culm_gnn_function_run(void);

#endif

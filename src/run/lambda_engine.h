/*
 * The engine `lambda` (cluster/engine.h): each worker is an invocation of a function of AWS Lambda
 * (gnn_function.h is the function's side).
 *
 * An invocation is a request that lasts as long as the worker works. The worker leaves before the
 * function's deadline; a new start then makes the next invocation, which gets a warm process if
 * there is one. So a run may last longer than a function may.
 *
 * Throttled requests are repeated without limit, with growing pauses; failed ones a few times. A
 * request whose answer was lost is repeated as well; if the function then runs twice, the second
 * worker is refused. There are at most `concurrency` requests at once. A start is given up if no
 * worker has joined within a minute.
 *
 * Thread: see cluster/engine.h.
 */
#ifndef CULM_RUN_LAMBDA_ENGINE_H
#define CULM_RUN_LAMBDA_ENGINE_H

#include "cluster/engine.h"
#include "gnn/config.h"

/* Checks first that the function may be invoked (culm_lambda_target_check). The configuration is
 * borrowed during the call. CULM_ERR_CONFIG, CULM_ERR_IO, CULM_ERR_MACHINE. */
enum culm_status culm_lambda_engine_new(const struct culm_gnn_config *config,
                                        struct culm_engine **ret_engine, struct culm_error *error);

#endif

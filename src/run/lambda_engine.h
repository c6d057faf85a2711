/*
 * The engine `lambda` (cluster/engine.h): each worker is an invocation of a function of AWS Lambda
 * (gnn_function.h says what that does).
 *
 * An invocation is a request that lasts as long as the worker works, at most until the function's
 * deadline, before which the worker leaves; the next start is the next invocation, and finds a warm
 * process if there is one. So a run may last longer than a function may.
 *
 * When the service is throttled it is asked again, ever less often, for as long as it takes; when it or
 * the network fails, a few times. A request whose answer got lost is sent again: the function may then
 * run twice, and the second is turned away. No more requests are out than `concurrency`. A start that no
 * worker has followed for a minute is given up.
 */
#ifndef CULM_RUN_LAMBDA_ENGINE_H
#define CULM_RUN_LAMBDA_ENGINE_H

#include "cluster/engine.h"
#include "gnn/config.h"

/* Asks first whether the function may be invoked (culm_lambda_target_check). The configuration is
 * borrowed for the call. CULM_ERR_CONFIG, CULM_ERR_IO, CULM_ERR_MACHINE: one line. */
enum culm_status culm_lambda_engine_new(const struct culm_gnn_config *config,
                                        struct culm_engine **ret_engine, struct culm_error *error);

#endif

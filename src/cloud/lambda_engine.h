/*
 * The engine `lambda` (cluster/engine.h): each worker is an invocation of a function of AWS
 * Lambda, which takes an event and joins the run.
 *
 * An invocation is a request that lasts as long as the worker works. The worker leaves before the
 * function's deadline; a new start then makes the next invocation, which gets a warm process if
 * there is one. So a run may last longer than a function may.
 *
 * Throttled requests are repeated without limit, with growing pauses; failed ones a few times. A
 * request whose answer was lost is repeated as well; if the function then runs twice, the second
 * worker is refused. There are at most `concurrency` requests at once; that of a lost worker counts
 * until it is answered, which is at the function's time-out at the latest. A start is given up if no
 * worker has joined within a minute.
 *
 * Thread: see cluster/engine.h.
 */
#ifndef CULM_CLOUD_LAMBDA_ENGINE_H
#define CULM_CLOUD_LAMBDA_ENGINE_H

#include "cloud/lambda_call.h"
#include "cluster/engine.h"

#include <jansson.h>

struct culm_lambda_engine_options {
    struct culm_lambda_function function;
    int64_t memory_mb;   /* that the function must have; 0: any amount */
    int64_t concurrency; /* requests at once, > 0 */
    /* The event that tells a worker where to join, and how. NULL: out of memory. */
    json_t *(*event)(const char *address, const char *token, const char *name, int64_t memory_mb);
};

/* Checks first that the function may be invoked (culm_lambda_target_check). Options are borrowed
 * during the call. CULM_ERR_CONFIG, CULM_ERR_IO, CULM_ERR_MACHINE. */
enum culm_status culm_lambda_engine_new(const struct culm_lambda_engine_options *options,
                                        struct culm_engine **ret_engine, struct culm_error *error);

#endif

/*
 * The Runtime API of AWS Lambda, from the side of the function: asks for invocations and answers them.
 *
 * HTTP/1.1 in the clear, to the address in AWS_LAMBDA_RUNTIME_API, which is on the same machine; one
 * connection for each request. Between an answer and the next invocation the process may be frozen for
 * any time, so waiting for one has no limit.
 * docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html
 *
 * It knows nothing of what a function does. Thread: one, which blocks.
 */
#ifndef CULM_RUN_LAMBDA_RUNTIME_H
#define CULM_RUN_LAMBDA_RUNTIME_H

#include "base/status.h"
#include "net/address.h"

#include <stdint.h>

#define CULM_LAMBDA_ID_SIZE 128
#define CULM_LAMBDA_EVENT_MAX ((size_t)6 << 20) /* bytes of an event, or of an answer to it */

struct culm_lambda_runtime {
    char host[CULM_ADDRESS_SIZE], address[CULM_ADDRESS_SIZE];
};

struct culm_lambda_invocation {
    char id[CULM_LAMBDA_ID_SIZE];
    int64_t deadline_ms; /* since 1970; the process is killed then */
    char *event;         /* owned; ends with a NUL that does not count */
    size_t event_bytes;
};

/* `api`: "HOST:PORT". CULM_ERR_CONFIG. */
enum culm_status culm_lambda_runtime_init(struct culm_lambda_runtime *runtime, const char *api,
                                          struct culm_error *error);
/* Waits for the next one, however long. CULM_ERR_CLOSED, CULM_ERR_IO, CULM_ERR_FORMAT: the service is
 * gone, or is none. */
enum culm_status culm_lambda_next(const struct culm_lambda_runtime *runtime,
                                  struct culm_lambda_invocation *ret_invocation,
                                  struct culm_error *error);
void culm_lambda_invocation_release(struct culm_lambda_invocation *invocation);
/* What came of it: a JSON text. */
enum culm_status culm_lambda_answer(const struct culm_lambda_runtime *runtime, const char *id,
                                    const char *json, struct culm_error *error);
/* It failed; id NULL: the function could not start, and ends. `type`: "Culm.Join". */
enum culm_status culm_lambda_fail(const struct culm_lambda_runtime *runtime, const char *id,
                                  const char *type, const char *message, struct culm_error *error);

#endif

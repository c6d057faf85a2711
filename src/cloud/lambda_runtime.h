/*
 * The function's side of the Runtime API of AWS Lambda: requests invocations and answers them.
 *
 * It speaks HTTP/1.1 without encryption to the address in AWS_LAMBDA_RUNTIME_API, which is on the
 * same machine, with one connection per request. Between an answer and the next invocation the
 * process may be frozen for any time, so waiting for an invocation has no time limit.
 * docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html
 *
 * It does not know what the function does. Thread: one, which blocks.
 */
#ifndef CULM_CLOUD_LAMBDA_RUNTIME_H
#define CULM_CLOUD_LAMBDA_RUNTIME_H

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
    char *event;         /* owned; followed by a NUL that event_bytes does not count */
    size_t event_bytes;
};

/* `api`: "HOST:PORT". CULM_ERR_CONFIG. */
enum culm_status culm_lambda_runtime_init(struct culm_lambda_runtime *runtime, const char *api,
                                          struct culm_error *error);
/* Waits for the next invocation without a time limit. CULM_ERR_CLOSED, CULM_ERR_IO: the service is
 * gone; CULM_ERR_FORMAT: it is not such a service. */
enum culm_status culm_lambda_next(const struct culm_lambda_runtime *runtime,
                                  struct culm_lambda_invocation *ret_invocation,
                                  struct culm_error *error);
void culm_lambda_invocation_release(struct culm_lambda_invocation *invocation);
/* Answers an invocation with a JSON text. */
enum culm_status culm_lambda_answer(const struct culm_lambda_runtime *runtime, const char *id,
                                    const char *json, struct culm_error *error);
/* Reports that an invocation has failed; id NULL: that the function could not start, and ends.
 * `type`: such as "Culm.Join". */
enum culm_status culm_lambda_fail(const struct culm_lambda_runtime *runtime, const char *id,
                                  const char *type, const char *message, struct culm_error *error);

#endif

/*
 * One request Invoke of AWS Lambda: how it is addressed and signed (SigV4, by libcurl), and what its
 * outcome means. Who sends it, and again, is lambda_engine.c.
 * docs.aws.amazon.com/lambda/latest/api/API_Invoke.html
 *
 * Thread: one at a time for each object.
 */
#ifndef CULM_RUN_LAMBDA_CALL_H
#define CULM_RUN_LAMBDA_CALL_H

#include "gnn/config.h"
#include "run/lambda_curl.h"

#include <stdint.h>

#define CULM_LAMBDA_PAYLOAD_MAX ((size_t)6 << 20)

/* A function, and the right to invoke it. */
struct culm_lambda_target {
    const struct culm_curl *curl;
    char url[1024], signer[160], name[200]; /* name: for people */
    char *key, *secret;
    struct curl_slist *headers, *dry_headers;
};

/* Of the configuration and the variables AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN,
 * AWS_REGION and AWS_DEFAULT_REGION. CULM_ERR_CONFIG: one line, what is missing; CULM_ERR_MACHINE. To be
 * released also after a failure. */
enum culm_status culm_lambda_target_init(struct culm_lambda_target *target,
                                         const struct culm_gnn_lambda_config *config,
                                         struct culm_error *error);
void culm_lambda_target_release(struct culm_lambda_target *target);
/* Asks, without running anything, whether the function is there and may be invoked. CULM_ERR_CONFIG:
 * it says no; CULM_ERR_IO: nobody answers there. That it is busy is no error. */
enum culm_status culm_lambda_target_check(const struct culm_lambda_target *target,
                                          struct culm_error *error);

/* What came back, as far as it matters. */
struct culm_lambda_reply {
    char body[2048], kind[80]; /* kind: the service's word for an error */
    size_t body_bytes;         /* of which `body` has the first */
    bool function_error;
    int64_t retry_after_s;
};

enum culm_lambda_verdict {
    CULM_LAMBDA_DONE,      /* the function answered; *ret_why "": as it should */
    CULM_LAMBDA_THROTTLED, /* later, as often as it takes */
    CULM_LAMBDA_AGAIN,     /* something failed that may not fail again */
    CULM_LAMBDA_NEVER,     /* it would be the same again */
};

/* A request with these bytes, which are borrowed, for curl->multi_add_handle; NULL: out of memory. Its
 * private pointer is `private`. */
CURL *culm_lambda_call(const struct culm_lambda_target *target, const char *payload,
                       size_t payload_bytes, struct culm_lambda_reply *reply, void *private);
/* What it has come to. */
enum culm_lambda_verdict culm_lambda_judge(const struct culm_lambda_target *target, CURL *call,
                                           CURLcode code, const struct culm_lambda_reply *reply,
                                           struct culm_error *ret_why);

/* How long to wait before it is sent once more: a time that doubles with each pause, of which up to half,
 * as `seed` draws, is left out; or as long as the service asks for. At most CULM_LAMBDA_PAUSE_MAX_MS. */
#define CULM_LAMBDA_PAUSE_MAX_MS 20000u
uint64_t culm_lambda_pause_ms(const struct culm_lambda_reply *reply, uint64_t seed,
                              uint32_t pauses);

#endif

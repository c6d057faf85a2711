/*
 * A single Invoke request of AWS Lambda: addresses it, has libcurl sign it (SigV4), and interprets
 * the outcome. lambda_engine.c sends requests and repeats them.
 * docs.aws.amazon.com/lambda/latest/api/API_Invoke.html
 *
 * Thread: any, one at a time for each object.
 */
#ifndef CULM_RUN_LAMBDA_CALL_H
#define CULM_RUN_LAMBDA_CALL_H

#include "gnn/config.h"
#include "run/lambda_curl.h"

#include <stdint.h>

#define CULM_LAMBDA_PAYLOAD_MAX ((size_t)6 << 20)

/* A function, with the credentials to invoke it. */
struct culm_lambda_target {
    const struct culm_curl *curl;
    char url[1024], signer[160], name[200]; /* name: for messages */
    char *key, *secret;
    struct curl_slist *headers, *dry_headers;
};

/* Fills in the target from the configuration and the environment variables AWS_ACCESS_KEY_ID,
 * AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION and AWS_DEFAULT_REGION. CULM_ERR_CONFIG:
 * something is missing; CULM_ERR_MACHINE: libcurl is. The target is to be released even after a
 * failure. */
enum culm_status culm_lambda_target_init(struct culm_lambda_target *target,
                                         const struct culm_gnn_lambda_config *config,
                                         struct culm_error *error);
void culm_lambda_target_release(struct culm_lambda_target *target);
/* Asks the service, without running anything (DryRun), whether the function exists and may be
 * invoked. CULM_ERR_CONFIG: no; CULM_ERR_IO: nobody answers. Being throttled is not an error. */
enum culm_status culm_lambda_target_check(const struct culm_lambda_target *target,
                                          struct culm_error *error);

/* The relevant parts of a response. */
struct culm_lambda_reply {
    char body[2048], kind[80]; /* the beginning of the body; the service's name of an error */
    size_t body_bytes;         /* length of the whole body */
    bool function_error;
    int64_t retry_after_s;
};

enum culm_lambda_verdict {
    CULM_LAMBDA_DONE,      /* the function has answered; ret_why->text "": without an error */
    CULM_LAMBDA_THROTTLED, /* try again later, without limit */
    CULM_LAMBDA_AGAIN,     /* try again a few times: the failure may be temporary */
    CULM_LAMBDA_NEVER,     /* do not try again: the result would be the same */
};

/* A request with this payload, which is borrowed, for curl->multi_add_handle. Its private pointer
 * is `private`. NULL: out of memory. */
CURL *culm_lambda_call(const struct culm_lambda_target *target, const char *payload,
                       size_t payload_bytes, struct culm_lambda_reply *reply, void *private);
/* Interprets the outcome of a request. */
enum culm_lambda_verdict culm_lambda_judge(const struct culm_lambda_target *target, CURL *call,
                                           CURLcode code, const struct culm_lambda_reply *reply,
                                           struct culm_error *ret_why);

/* How long to wait before a request is sent again: a time that doubles with each pause, shortened
 * at random (by `seed`) by up to half, or what the service asks for. At most
 * CULM_LAMBDA_PAUSE_MAX_MS. */
#define CULM_LAMBDA_PAUSE_MAX_MS 20000u
uint64_t culm_lambda_pause_ms(const struct culm_lambda_reply *reply, uint64_t seed,
                              uint32_t pauses);

#endif

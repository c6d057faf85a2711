/*
 * A single Invoke request of AWS Lambda: addresses it, has libcurl sign it (SigV4), and interprets
 * the outcome. lambda_engine.c sends requests and repeats them.
 * docs.aws.amazon.com/lambda/latest/api/API_Invoke.html
 *
 * Thread: any, one at a time for each object.
 */
#ifndef CULM_CLOUD_LAMBDA_CALL_H
#define CULM_CLOUD_LAMBDA_CALL_H

#include "cloud/aws_keys.h"
#include "cloud/curl.h"

#include <stdint.h>

#define CULM_LAMBDA_PAYLOAD_MAX ((size_t)6 << 20)

/* Which function, as configured under `lambda`. NULL: not given. */
struct culm_lambda_function {
    const char *name, *region, *endpoint;
};

/* A function, with the credentials to invoke it. */
struct culm_lambda_target {
    const struct culm_curl *curl;
    char url[1024], signer[160], name[200]; /* name: for messages */
    struct culm_aws aws;
};

/* Fills in the target from what is configured, the environment variables AWS_REGION and
 * AWS_DEFAULT_REGION, and the keys that aws_init finds. CULM_ERR_CONFIG: something is missing;
 * CULM_ERR_MACHINE: libcurl is. The target is to be released even after a failure. */
enum culm_status culm_lambda_target_init(struct culm_lambda_target *target,
                                         const struct culm_lambda_function *configured,
                                         struct culm_error *error);
/* Before requests are made, has the keys renewed if they may be old, or have `expired`, which the service
 * has said. It may wait for an endpoint for some seconds. After an error, they are as they were. */
enum culm_status culm_lambda_target_renew(struct culm_lambda_target *target, bool expired,
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

/* A request for curl->multi_add_handle. */
struct culm_lambda_request {
    CURL *easy; /* NULL: none */
    struct curl_slist *headers;
    struct culm_lambda_reply reply;
};

enum culm_lambda_verdict {
    CULM_LAMBDA_DONE,      /* the function has answered; ret_why->text "": without an error */
    CULM_LAMBDA_THROTTLED, /* try again later, without limit */
    CULM_LAMBDA_EXPIRED,   /* the same, with keys that are renewed first */
    CULM_LAMBDA_AGAIN,     /* try again a few times: the failure may be temporary */
    CULM_LAMBDA_NEVER,     /* do not try again: the result would be the same */
};

/* Makes a request with this payload, which is borrowed. Its private pointer is `private`. False: out of
 * memory. */
bool culm_lambda_request_make(const struct culm_lambda_target *target, const char *payload,
                              size_t payload_bytes, struct culm_lambda_request *request,
                              void *private);
void culm_lambda_request_release(const struct culm_lambda_target *target,
                                 struct culm_lambda_request *request);
/* Interprets the outcome of a request. */
enum culm_lambda_verdict culm_lambda_judge(const struct culm_lambda_target *target,
                                           const struct culm_lambda_request *request, CURLcode code,
                                           struct culm_error *ret_why);

/* How long to wait before a request is sent again: a time that doubles with each pause, shortened
 * at random (by `seed`) by up to half, or what the service asks for. At most
 * CULM_LAMBDA_PAUSE_MAX_MS. */
#define CULM_LAMBDA_PAUSE_MAX_MS 20000u
uint64_t culm_lambda_pause_ms(const struct culm_lambda_reply *reply, uint64_t seed,
                              uint32_t pauses);

#endif

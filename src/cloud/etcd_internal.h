/* Shared by the files of etcd; nobody else includes it. See etcd.h. */
#ifndef CULM_CLOUD_ETCD_INTERNAL_H
#define CULM_CLOUD_ETCD_INTERNAL_H

#include "base/buf.h"
#include "cloud/curl.h"
#include "cloud/etcd.h"

#include <jansson.h>

#define ETCD_MEMBERS 16
#define ETCD_ANSWER_MAX ((size_t)64 << 20)

struct etcd {
    struct culm_keys keys; /* first */
    const struct culm_curl *curl;
    CURL *easy;                     /* keeps its connections */
    char member[ETCD_MEMBERS][300]; /* URLs, without a '/' at their end */
    int members, first;             /* who is asked first */
    int64_t ask_ms;
    char prefix[200]; /* with a '/' at its end */
    char place[400];  /* as people wrote it */
    bool secure;
    const char *user, *password, *ca, *cert, *key; /* of the environment; NULL: none */
    char token[256];                               /* of that user; "": none yet */
};

/* How far a call may be repeated at another member. */
enum etcd_repeat {
    ETCD_REPEAT_ANY,   /* as often as wanted */
    ETCD_REPEAT_UNSENT /* only where the call has certainly not been heard */
};

/* Asks one member after the other. The answer is the caller's. CULM_ERR_NOT_FOUND, CULM_ERR_ARGUMENT: as etcd says; others as in
 * net/keys.h. */
enum culm_status etcd_ask(struct etcd *etcd, const char *path, const json_t *question,
                          enum etcd_repeat repeat, json_t **ret_answer, struct culm_error *error);
/* A stream of answers, a line each, until `hear` returns false, or so much time has passed (fine if it has returned true at
 * least once, or the time was shorter than one that an answer may take). */
enum culm_status etcd_follow(struct etcd *etcd, const char *path, const json_t *question,
                             int64_t ms, bool (*hear)(void *ctx, const json_t *line), void *ctx,
                             struct culm_error *error);

#endif

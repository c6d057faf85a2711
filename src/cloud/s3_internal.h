/* Shared by the files of S3; nobody else includes it. See s3.h. */
#ifndef CULM_CLOUD_S3_INTERNAL_H
#define CULM_CLOUD_S3_INTERNAL_H

#include "base/buf.h"
#include "base/sha256.h"
#include "cloud/aws_keys.h"
#include "cloud/curl.h"
#include "cloud/s3.h"

#include <pthread.h>

#define S3_IDLE 8

struct s3 {
    struct culm_storage storage;
    const struct culm_curl *curl;
    char base[600];   /* URL of the bucket, without a '/' at its end */
    char prefix[300]; /* "" or "PREFIX/" */
    char bucket[64], region[64], signer[100];
    bool open;              /* without encryption, on this machine: proxies are bypassed */
    atomic_bool conditions; /* If-None-Match is known there, as far as we know */
    pthread_mutex_t lock;   /* of what follows */
    struct culm_aws aws;
    CURL *idle[S3_IDLE]; /* connections that may be used again */
    size_t idle_count;
};

enum s3_method { S3_GET, S3_PUT, S3_DELETE };

struct s3_request {
    enum s3_method method;
    const char *name;  /* of an object; NULL: the bucket */
    const char *query; /* sorted, and with escapes; NULL: none */
    const void *data;  /* of a put */
    size_t len;
    bool fresh;
    struct culm_buf *body; /* what was answered, up to max_bytes of it */
};

/* Makes the request, again and again if it may help, for as long as the storage has patience. Errors as in storage.h;
 * CULM_ERR_UNSUPPORTED: `fresh` is not known there. */
enum culm_status s3_perform(struct s3 *s3, const struct s3_request *request,
                            struct culm_error *error);
/* The text of the first <NAME> at or after *at in XML, which has no entities; *at goes behind it. False: there is none. */
bool s3_xml_next(const char **at, const char *name, const char **ret_text, size_t *ret_len);

#endif

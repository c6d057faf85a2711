/*
 * Buckets of Amazon S3, and of servers that speak as it does, as a storage (store/storage.h). Requests are signed (SigV4) with
 * keys from where AWS's own clients take them (aws_keys.h), which are taken anew when they expire. What fails for a time is
 * asked again, with growing pauses.
 *
 * An object that must be new is put with If-None-Match. docs.aws.amazon.com/AmazonS3/latest/API
 * Thread: see storage.h.
 */
#ifndef CULM_CLOUD_S3_H
#define CULM_CLOUD_S3_H

#include "store/storage.h"

struct culm_s3_options {
    const char *place; /* "s3://BUCKET[/PREFIX]" */
    const char *
        endpoint; /* a URL; NULL: AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, else Amazon's of the region */
    const char *region; /* NULL: AWS_REGION or AWS_DEFAULT_REGION, else us-east-1 */
};

/* Asks nobody but for keys. CULM_ERR_CONFIG: it is no such place, or there are no keys; CULM_ERR_MACHINE: libcurl is not
 * installed; CULM_ERR_IO: the source of keys does not answer. */
enum culm_status culm_s3_open(const struct culm_s3_options *options,
                              struct culm_storage **ret_storage, struct culm_error *error);
/* Whether a text is meant as such a place. */
bool culm_s3_is_place(const char *place);

#endif

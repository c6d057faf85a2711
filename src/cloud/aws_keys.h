/*
 * Keys to sign requests to AWS with, from where AWS's own clients take them, in their order:
 *
 *   the environment  AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN
 *   a file           ~/.aws/credentials or AWS_SHARED_CREDENTIALS_FILE: [default] or [AWS_PROFILE] in it
 *   a container      AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or _FULL_URI, with what is in
 *                    AWS_CONTAINER_AUTHORIZATION_TOKEN or the file _TOKEN_FILE
 *   an instance      the metadata service of EC2 (version 2), or AWS_EC2_METADATA_SERVICE_ENDPOINT;
 *                    not if AWS_EC2_METADATA_DISABLED is true
 *
 * Which of these it is is found out once. Keys of roles expire after some hours, and their source has new
 * ones by then: a file is read again each time, an endpoint asked again shortly before they expire. The
 * environment of a process does not change, so keys in it that expire cannot be replaced.
 *
 * docs.aws.amazon.com/sdkref/latest/guide/standardized-credentials.html
 * Thread: any, one at a time for each object.
 */
#ifndef CULM_CLOUD_AWS_KEYS_H
#define CULM_CLOUD_AWS_KEYS_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct culm_aws_keys {
    char *id, *secret, *token; /* token NULL: there is none */
    int64_t expires_s;         /* since 1970; 0: not known */
};

enum culm_aws_source {
    CULM_AWS_ENVIRONMENT,
    CULM_AWS_FILE,
    CULM_AWS_CONTAINER,
    CULM_AWS_INSTANCE,
};

struct culm_aws {
    struct culm_aws_keys keys;
    enum culm_aws_source source;
    char *place, *profile;                    /* a path or a URL; of a file */
    char *authorization, *authorization_path; /* of a container */
};

/* Finds the source, by the environment as it is now, and takes its keys. It may wait for an endpoint for
 * some seconds. CULM_ERR_CONFIG: there are none; the error says what is missing. Another error: the
 * source that the environment names has none now. To be released even after a failure. */
enum culm_status aws_init(struct culm_aws *aws, struct culm_error *error);
/* Takes the source's keys anew, if it may have others: an endpoint is asked only if its keys expire within
 * minutes, or have been `refused`. After an error they are those that it had. */
enum culm_status aws_renew(struct culm_aws *aws, bool refused, struct culm_error *error);
void aws_release(struct culm_aws *aws);

/* Whether "HOST[:PORT][/...]" is this machine. */
bool aws_is_here(const char *host);

/* For tests: takes keys from the text of a file, which is changed; and from what an endpoint answers. False:
 * they are not there, or not whole. */
bool aws_keys_of_file(char *text, const char *profile, struct culm_aws_keys *ret_keys);
bool aws_keys_of_answer(const char *text, struct culm_aws_keys *ret_keys);
void aws_keys_release(struct culm_aws_keys *keys);

#endif

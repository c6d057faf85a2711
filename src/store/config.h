/* What a configuration says of checkpoints: the section `checkpoint`. Thread: constant after loading. */
#ifndef CULM_STORE_CONFIG_H
#define CULM_STORE_CONFIG_H

#include "base/config.h"

/* By what the best checkpoint is chosen, of those that are evaluated. */
enum culm_best { CULM_BEST_NONE, CULM_BEST_LOSS, CULM_BEST_ACCURACY };
extern const char *const culm_best_names[]; /* "none", "loss", "accuracy", NULL */

struct culm_checkpoint_config {
    int64_t every, keep;          /* every 0: only at the end */
    enum culm_best best;          /* NONE where jobs do not evaluate checkpoints */
    char *to, *endpoint, *region; /* NULL: the run directory alone; as the environment says */
};
/* The rows of the latter, the same in each job. */
#define CULM_CHECKPOINT_STORAGE_ROWS(type_)                                                        \
    CULM_CONFIG_TEXT(                                                                              \
        "to", type_, to, "", "a folder or s3://BUCKET/PREFIX",                                     \
        CULM_CONFIG_RESUMABLE | CULM_CONFIG_EMPTY,                                                 \
        "where else each checkpoint is kept, apart from the run directory: a folder, "             \
        "or a bucket of S3 with a prefix. `--resume` goes on from there, also in a "               \
        "new or empty `--out` on another machine"),                                                \
        CULM_CONFIG_TEXT("endpoint", type_, endpoint, "", "a URL",                                 \
                         CULM_CONFIG_RESUMABLE | CULM_CONFIG_EMPTY,                                \
                         "the server of S3; default: `AWS_ENDPOINT_URL_S3`, `AWS_ENDPOINT_URL`, "  \
                         "or Amazon's"),                                                           \
        CULM_CONFIG_TEXT("region", type_, region, "", "a name",                                    \
                         CULM_CONFIG_RESUMABLE | CULM_CONFIG_EMPTY,                                \
                         "the region of the bucket; default: `AWS_REGION`, `AWS_DEFAULT_REGION`, " \
                         "or us-east-1")
extern const struct culm_config_table culm_checkpoint_config_table;

#endif

/*
 * What `culm model show` and `culm bench step` are about: a named model, or that of a configuration
 * file. Thread: the caller's.
 */
#ifndef CULM_RUN_SUBJECT_H
#define CULM_RUN_SUBJECT_H

#include "train/network.h"

struct culm_subject {
    char name[64];
    bool named;                      /* a published model, not a configuration */
    struct culm_train_config config; /* owned: culm_subject_release */
    int64_t batch;                   /* the configuration's micro-batch; 1 for a name */
};

/* CULM_ERR_CONFIG for what is neither a known name nor a readable configuration. `alone`: for one
 * process; what a configuration says of pipelines, stages and lanes becomes 1 each. */
enum culm_status culm_subject_find(const char *name_or_path, bool alone,
                                   struct culm_subject *ret_subject, struct culm_error *error);
void culm_subject_release(struct culm_subject *subject);
/* Its graph for training, compiled as one stage. Both are the caller's. */
enum culm_status culm_subject_compile(const struct culm_subject *subject,
                                      struct culm_graph **ret_graph, struct culm_stage **ret_stage,
                                      struct culm_error *error);

#endif

/*
 * What `culm model show` and `culm bench step` are about: a named model, or that of a configuration
 * file.
 */
#ifndef CULM_CLI_SUBJECT_H
#define CULM_CLI_SUBJECT_H

#include "model/model.h"

struct culm_subject {
    char name[64], arch[32];
    struct culm_model_options options; /* batch: of the configuration's micro-batch; 1 for a name */
};

/* CULM_ERR_CONFIG for what is neither a known name nor a readable configuration. */
enum culm_status culm_subject_find(const char *name_or_path, struct culm_subject *ret_subject,
                                   struct culm_error *error);
/* Its graph, compiled as one stage. Both are the caller's. */
enum culm_status culm_subject_compile(const struct culm_subject *subject,
                                      struct culm_graph **ret_graph, struct culm_stage **ret_stage,
                                      struct culm_error *error);

#endif

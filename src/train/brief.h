/*
 * The brief: what the launcher tells each worker, so that a worker reads nothing of configuration
 * or plan from files that somebody may have edited since.
 *
 *     {"config": "YAML", "choices": {"cuts": [...], "algorithms": [...]}, "inputs": {...},
 *      "lineage": {...}}
 *
 * The last only of a run that was resumed with other settings (store/lineage.h).
 * From the same brief every worker makes the same plan. Thread: any.
 */
#ifndef CULM_TRAIN_BRIEF_H
#define CULM_TRAIN_BRIEF_H

#include "base/buf.h"
#include "store/inputs.h"
#include "train/choices.h"
#include "train/spans.h"

struct culm_brief {
    char *config_text;               /* owned */
    struct culm_train_config config; /* its pins are those of `inputs` */
    struct culm_choices choices;
    struct culm_inputs inputs;
    struct culm_train_spans spans; /* the configuration's, if any step was done with others */
};

/* `lineage` may be NULL. False: out of memory, or over the buffer's limit. */
bool culm_brief_write(const char *config_text, const struct culm_choices *choices,
                      const struct culm_inputs *inputs, const struct culm_lineage *lineage,
                      struct culm_buf *out);
/* CULM_ERR_FORMAT when it is none; CULM_ERR_CONFIG. Its configuration borrows from *ret_brief, which
 * stays where it is. */
enum culm_status culm_brief_read(const void *data, size_t len, struct culm_brief *ret_brief,
                                 struct culm_error *error);
void culm_brief_release(struct culm_brief *brief); /* fine on a zeroed struct */

#endif

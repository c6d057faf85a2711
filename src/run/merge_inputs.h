/*
 * What merging works on: the models of a workload, each once, and the frames of its feeds.
 *
 * Of the frames of a feed the last part (`held_out`) is never seen while merging: it decides at the end.
 * Of those before it, the first part is fitted to and the last checked; each is thinned out evenly to what
 * memory is for. Thread: one.
 */
#ifndef CULM_RUN_MERGE_INPUTS_H
#define CULM_RUN_MERGE_INPUTS_H

#include "merge/judge.h"
#include "merge/workload.h"

#include "base/sha256.h"

#include <signal.h>

enum culm_merge_part { CULM_MERGE_FIT, CULM_MERGE_CHECK, CULM_MERGE_HELD, CULM_MERGE_PARTS };

/* Frames of a feed as an input wants them. */
struct culm_merge_set {
    int32_t feed;                              /* of the workload */
    const char *labels;                        /* of the query; NULL: none */
    const struct culm_vision_model *right_for; /* whose boxes or points they are; NULL: numbers */
    struct culm_vision_input input;
    struct culm_merge_frames part[CULM_MERGE_PARTS];
    int32_t *label[CULM_MERGE_PARTS];
    struct culm_answer *right[CULM_MERGE_PARTS]; /* [count of the part]; of what is not fitted to */
};

struct culm_merge_inputs {
    const struct culm_workload *workload;
    struct culm_vision_model **vision; /* [models] */
    struct culm_merge_model *model;    /* [models] */
    char (*identity)[CULM_SHA256_HEX]; /* [models] */
    int32_t models;
    int32_t *model_of, *set_of; /* [queries] */
    struct culm_merge_set *set;
    int32_t sets;
    struct culm_merge_frames *fit; /* [models]: of all queries of the model */
    bool *fit_is_own;              /* [models] */
};

/* `structure`: graphs and layers alone; neither weights nor feeds are opened. Release it also after a
 * failure. */
enum culm_status culm_merge_inputs_open(const struct culm_workload *workload, bool structure,
                                        struct culm_merge_inputs *inputs, struct culm_error *error);
/* Reads the frames. CULM_ERR_STOPPED once *stop is set; CULM_ERR_CONFIG for labels that the model of
 * their query does not answer. */
enum culm_status culm_merge_inputs_read(struct culm_merge_inputs *inputs,
                                        const volatile sig_atomic_t *stop,
                                        struct culm_error *error);
void culm_merge_inputs_release(struct culm_merge_inputs *inputs); /* fine on a zeroed struct */

#endif

/*
 * The inputs of a merge: the models of a workload, each once, and the frames of its feeds.
 *
 * The last part of a feed (`held_out`) is never seen while merging. The last two thirds of it decide
 * at the end; its first third is set aside for what a model that misses its target there gives up.
 * The frames before it are cut into at most ten consecutive pieces. The first 70 % of each piece is
 * fitted to and the rest checked, so that rare scenes occur in both. Each of the four parts is
 * thinned out evenly to a limited number of frames.
 *
 * Thread: one.
 */
#ifndef CULM_RUN_MERGE_INPUTS_H
#define CULM_RUN_MERGE_INPUTS_H

#include "merge/judge.h"
#include "query/workload.h"

#include "base/sha256.h"

#include <stdatomic.h>

enum culm_merge_part {
    CULM_MERGE_FIT,
    CULM_MERGE_CHECK,
    CULM_MERGE_ASIDE, /* none of a short feed, and none with other methods than `culm` */
    CULM_MERGE_HELD,
    CULM_MERGE_PARTS
};

/* Frames of one feed, as one kind of input needs them. */
struct culm_merge_set {
    int32_t feed;                              /* index in the workload */
    const char *labels;                        /* of the query; NULL: none */
    const struct culm_vision_model *right_for; /* whose boxes or points labels are; NULL: classes */
    struct culm_vision_input input;
    struct culm_merge_frames part[CULM_MERGE_PARTS];
    double step[CULM_MERGE_PARTS]; /* frames of the feed from one of a part to the next */
    int32_t *label[CULM_MERGE_PARTS];
    struct culm_answer *right[CULM_MERGE_PARTS]; /* [frames]; NULL for what is fitted to */
    char note[400]; /* which files of its folder are left out; "": none */
    int64_t bad;    /* pictures that cannot be read, which are left out, too */
    char first_bad[CULM_ERROR_MAX];
};

struct culm_merge_inputs {
    const struct culm_workload *workload;
    struct culm_vision_model **vision;        /* [models] */
    struct culm_merge_model *model;           /* [models] */
    char (*identity)[CULM_SHA256_HEX];        /* [models] */
    char (*structure)[CULM_VISION_STRUCTURE]; /* [models] */
    int32_t models;
    int32_t *model_of, *set_of; /* [queries] */
    struct culm_merge_set *set;
    int32_t sets;
    size_t frame_bytes;            /* of the frames of all sets */
    struct culm_merge_frames *fit; /* [models]: what the model is fitted to, see merge_fit.h */
    /* Tells how far a feed has been read: so many frames of so many (0: not known yet). NULL: nobody wants to know. */
    void (*told)(void *ctx, const char *feed, int64_t frames, int64_t of);
    void *ctx;
    bool *fit_is_own; /* [models]: whether its frames are a copy */
};

/* `structure`: only graphs and layers; neither weights nor feeds are opened. Release the inputs
 * even after a failure. */
enum culm_status culm_merge_inputs_open(const struct culm_workload *workload, bool structure,
                                        struct culm_merge_inputs *inputs, struct culm_error *error);
/* Reads the frames. CULM_ERR_STOPPED once *stop is set; CULM_ERR_CONFIG: a label that the query's
 * model cannot answer; CULM_ERR_MACHINE: more frames than memory. */
enum culm_status culm_merge_inputs_read(struct culm_merge_inputs *inputs, const atomic_bool *stop,
                                        struct culm_error *error);
/* Of the classes that labels name in the frames at the end, set aside or decisive, how many there are, and how
 * many do not occur in those that are fitted to. 0 where labels are not classes. */
enum culm_status culm_merge_inputs_unseen(const struct culm_merge_inputs *inputs, size_t query,
                                          int32_t *ret_classes, int32_t *ret_unseen,
                                          struct culm_error *error);
void culm_merge_inputs_release(struct culm_merge_inputs *inputs); /* fine on a zeroed struct */

#endif

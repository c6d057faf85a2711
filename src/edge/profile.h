/*
 * Profiles: how long models run, in batches of which size, what memory that takes, and how fast
 * tensors are loaded; as JSON.
 *
 *     {"format": 1, "device": "...", "threads": 1, "load": {"mb_per_s": 900.0, "ms": 0.05},
 *      "models": {"yolo-fastest-1.1-coco": {"run_ms": {"1": 11.2, "2": 21.0},
 *                                           "activation_bytes": {"1": 7000000, "2": 13600000},
 *                                           "prefix_ms": {"41": {"1": 7.9, "2": 15.1}},
 *                                           "tensors": {"conv0.weight": 3456, ...}}}}
 *
 * A model is called as its file is, without folder and ending. `tensors` may be left out: then the
 * model must be there itself. A tensor may also be {"bytes": 3456, "kind": "conv 3>32 3x3"}: in
 * different models the k-th of a kind could be shared. Sizes of batches that a profile lacks are
 * worked out from the two nearest ones. "load" may be left out (as fast as can be), and
 * "activation_bytes" (none). "prefix_ms" tells how long so many operators take, with which another
 * model begins, too; where it is left out that is worked out from what they compute.
 *
 * Thread: constant after reading.
 */
#ifndef CULM_EDGE_PROFILE_H
#define CULM_EDGE_PROFILE_H

#include "edge/layout.h"

#define CULM_EDGE_PROFILE_FORMAT 1

struct culm_edge_prefix_times {
    int32_t operators;
    double run_ms[CULM_EDGE_SIZES_MAX]; /* of the same sizes; 0: not known */
};
struct culm_edge_times {
    int32_t sizes; /* ascending */
    int32_t batch[CULM_EDGE_SIZES_MAX];
    double run_ms[CULM_EDGE_SIZES_MAX];
    double activation_bytes[CULM_EDGE_SIZES_MAX];
    int32_t prefixes;
    struct culm_edge_prefix_times prefix[CULM_EDGE_PREFIX_MAX];
};
struct culm_edge_profile_tensor {
    char *name;
    int64_t bytes;
    char *kind; /* NULL: it is like no other */
};
struct culm_edge_profile_model {
    char *name;
    struct culm_edge_times times;
    struct culm_edge_profile_tensor *tensor; /* in the order of the file */
    int32_t tensor_count;                    /* 0: not said */
};
struct culm_edge_profile {
    char device[128];
    int64_t threads;
    double mb_per_s, load_ms; /* mb_per_s 0: loading takes no time */
    struct culm_edge_profile_model *model;
    int32_t model_count, model_capacity;
};

/* CULM_ERR_FORMAT, CULM_ERR_CONFIG: "profile 'FILE': what is wrong". */
enum culm_status culm_edge_profile_read(const char *path, struct culm_edge_profile *ret_profile,
                                        struct culm_error *error);
enum culm_status culm_edge_profile_parse(const char *text, size_t len, const char *name,
                                         struct culm_edge_profile *ret_profile,
                                         struct culm_error *error);
enum culm_status culm_edge_profile_write(const struct culm_edge_profile *profile, const char *path,
                                         struct culm_error *error);
void culm_edge_profile_release(struct culm_edge_profile *profile); /* fine on a zeroed struct */

/* NULL: it has none of that name. */
const struct culm_edge_profile_model *
culm_edge_profile_find(const struct culm_edge_profile *profile, const char *model);
/* The model of that name, added if it is new. NULL: out of memory. */
struct culm_edge_profile_model *culm_edge_profile_add(struct culm_edge_profile *profile,
                                                      const char *model);
/* What a batch of that size takes. */
void culm_edge_times_of(const struct culm_edge_times *times, int32_t batch, uint64_t *ret_run_ns,
                        size_t *ret_activation_bytes);
/* The share of it that the first `operators` take, in a batch of the nearest size for which that is
 * known; 0: for none. */
double culm_edge_times_share(const struct culm_edge_times *times, int32_t operators, int32_t batch);
/* Notes all that are known in `from` for the size times->batch[b], of which run_ms is there. */
void culm_edge_times_shares(struct culm_edge_times *times, int32_t b,
                            const struct culm_edge_times *from);
/* Notes it for that size. With more prefixes than there is room for, the first one goes. */
void culm_edge_times_set_share(struct culm_edge_times *times, int32_t operators, int32_t b,
                               double share);

#endif

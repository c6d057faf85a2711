/*
 * Profiles, read and written as JSON: how long models run in batches of each size, how much memory
 * that takes, and how fast tensors load.
 *
 *     {"format": 1, "device": "...", "threads": 1, "load": {"mb_per_s": 900.0, "ms": 0.05},
 *      "models": {"yolo-fastest-1.1-coco": {"run_ms": {"1": 11.2, "2": 21.0},
 *                                           "activation_bytes": {"1": 7000000, "2": 13600000},
 *                                           "prefix_ms": {"41": {"1": 7.9, "2": 15.1}},
 *                                           "tensors": {"conv0.weight": 3456, ...}}}}
 *
 * A model has the name of its file, without folder and extension. "tensors" may be left out; the
 * model file itself must then be there. A tensor may also be {"bytes": 3456, "kind": "conv 3>32
 * 3x3"}: the k-th tensors of one kind and size in different models could be shared. Times for batch
 * sizes that a profile lacks are interpolated from the two nearest sizes. "load" may be left out
 * (loading takes no time), and so may "activation_bytes" (none). "prefix_ms" says how long the
 * first so many operators take, where another model begins with the same ones; where it is left
 * out, that is estimated from the amount of computation.
 *
 * Thread: any; constant after reading.
 */
#ifndef CULM_LIVE_PROFILE_H
#define CULM_LIVE_PROFILE_H

#include "edge/layout.h"

#define CULM_LIVE_PROFILE_FORMAT 1

struct culm_live_prefix_times {
    int32_t operators;
    double run_ms[CULM_EDGE_SIZES_MAX]; /* by the sizes of the model; 0: not known */
};
struct culm_live_times {
    int32_t sizes; /* how many batch sizes are known; they ascend */
    int32_t batch[CULM_EDGE_SIZES_MAX];
    double run_ms[CULM_EDGE_SIZES_MAX];
    double activation_bytes[CULM_EDGE_SIZES_MAX];
    int32_t prefixes;
    struct culm_live_prefix_times prefix[CULM_EDGE_PREFIX_MAX];
};
struct culm_live_profile_tensor {
    char *name;
    int64_t bytes;
    char *kind; /* NULL: it cannot be shared with another model */
};
struct culm_live_profile_model {
    char *name;
    struct culm_live_times times;
    struct culm_live_profile_tensor *tensor; /* in the order of the file */
    int32_t tensor_count;                    /* 0: the profile does not list them */
};
struct culm_live_profile {
    char device[128];
    int64_t threads;
    double mb_per_s, load_ms; /* mb_per_s 0: loading takes no time */
    struct culm_live_profile_model *model;
    int32_t model_count, model_capacity;
};

/* CULM_ERR_FORMAT: "profile 'NAME': what is wrong"; CULM_ERR_MEMORY. Reading a file also has the
 * errors of culm_file_read. */
enum culm_status culm_live_profile_read(const char *path, struct culm_live_profile *ret_profile,
                                        struct culm_error *error);
enum culm_status culm_live_profile_parse(const char *text, size_t len, const char *name,
                                         struct culm_live_profile *ret_profile,
                                         struct culm_error *error);
enum culm_status culm_live_profile_write(const struct culm_live_profile *profile, const char *path,
                                         struct culm_error *error);
void culm_live_profile_release(struct culm_live_profile *profile); /* fine on a zeroed struct */

/* The model of that name; NULL: there is none. */
const struct culm_live_profile_model *
culm_live_profile_find(const struct culm_live_profile *profile, const char *model);
/* The model of that name, added if it is new. NULL: out of memory. */
struct culm_live_profile_model *culm_live_profile_add(struct culm_live_profile *profile,
                                                      const char *model);
/* The time and memory that a batch of that size takes. */
void culm_live_times_of(const struct culm_live_times *times, int32_t batch, uint64_t *ret_run_ns,
                        size_t *ret_activation_bytes);
/* The share of a model's run time that its first `operators` operators take, for the nearest batch
 * size for which that is known; 0: it is known for none. */
double culm_live_times_share(const struct culm_live_times *times, int32_t operators, int32_t batch);
/* Sets all shares that `from` knows for the size times->batch[b], whose run_ms must be set. */
void culm_live_times_shares(struct culm_live_times *times, int32_t b,
                            const struct culm_live_times *from);
/* Sets one such share. When there is no room for another prefix, the first one is dropped. */
void culm_live_times_set_share(struct culm_live_times *times, int32_t operators, int32_t b,
                               double share);

#endif

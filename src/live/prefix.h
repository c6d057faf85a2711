/*
 * Computing the common beginning of several models once.
 *
 * Two models on one feed may begin with the same operators on the same numbers. What these make of
 * a frame is then the same bit for bit, and need be computed only once. A *cut* lies between two
 * operators of a model's stage. The values computed before it that the rest of the model reads, one
 * or a few, *cross* the cut. When the first model reaches the cut, they are copied to the front of
 * the activations' memory, where they stay until the next model has continued from them. A model
 * may have several cuts; what crosses each is put behind what crosses the ones before it, at the
 * same place in every model.
 *
 * A model gets no cut if keeping these values would cost it a batch size, or the memory to run at
 * all.
 *
 * Thread: the caller's.
 */
#ifndef CULM_LIVE_PREFIX_H
#define CULM_LIVE_PREFIX_H

#include "graph/stage.h"
#include "live/profile.h"
#include "vision/model.h"

#define CULM_LIVE_CROSSING_MAX 4
#define CULM_LIVE_CUTS_MAX (CULM_EDGE_PREFIX_MAX - 1)

struct culm_live_cut {
    uint64_t id;                          /* the same id means the same values at the same place */
    int32_t operators;                    /* how many come before the cut */
    double work;                          /* their share of the model's floating-point operations */
    int32_t values;                       /* how many cross it */
    size_t bytes[CULM_LIVE_CROSSING_MAX]; /* of each of these, for one picture */
};
struct culm_live_trunk { /* the cuts of a query */
    int32_t cuts;        /* those of shorter prefixes first */
    struct culm_live_cut cut[CULM_LIVE_CUTS_MAX];
};

/* What has to be known of a query to look for cuts. */
struct culm_live_beginning {
    const struct culm_stage *stage; /* for inference on one picture; NULL: it shares nothing */
    const int32_t *source; /* [parameters of the graph] the same source means the same numbers */
    const struct culm_vision_input *input;
    int32_t feed;
    const struct culm_live_times *times;
    /* [sizes][operators + 1] when each operator was reached, as a share of the run; NULL: not
     * measured. */
    float *const *reached;
    /* Equal for queries whose whole models do the same; 0: there is no such other. Below 2^32. */
    uint64_t twin;
};

/* Finds the cuts of `count` queries, without those that only twins share. CULM_ERR_MEMORY. */
enum culm_status culm_live_trunks(const struct culm_live_beginning *of, int32_t count,
                                  struct culm_live_trunk *ret_trunk, struct culm_error *error);
/* Finds cuts and enters those that fit into the layout's limit into its queries: as prefixes, and
 * by adding what is kept to activation_bytes, which must be that of the models alone before. Sets
 * the stage of each query in `of` that has no room to NULL. CULM_ERR_MEMORY. */
enum culm_status culm_live_prefixes_lay(struct culm_live_beginning *of,
                                        const struct culm_edge_layout *layout,
                                        struct culm_edge_query *query,
                                        struct culm_live_trunk *ret_trunk,
                                        struct culm_error *error);

/* Bytes at the front of the activations' memory that what crosses the first `cuts` cuts takes in a
 * batch of this size; whole pages. */
size_t culm_live_kept_bytes(const struct culm_live_trunk *trunk, int32_t cuts, int32_t batch);

/* Finds the values of a stage's program that cross the cut after its first `operators` operators:
 * ret_value[CULM_LIVE_CROSSING_MAX], in an order that depends on the operators alone. Returns how
 * many they are; -1: too many, the rest also reads the picture itself, or memory is out. */
int32_t culm_live_crossing(const struct culm_stage *stage, int32_t operators, int32_t *ret_value);
/* Copies these values from a run that has reached the cut to `at`; or from `at` into a run that is
 * to continue from the cut. */
void culm_live_crossing_keep(const struct culm_stage *stage, const struct culm_stage_run *run,
                             const int32_t *value, int32_t count, char *at);
void culm_live_crossing_take(const struct culm_stage *stage, const struct culm_stage_run *run,
                             const int32_t *value, int32_t count, const char *at);

#endif

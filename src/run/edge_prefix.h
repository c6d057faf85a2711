/*
 * What models have in common at their beginning.
 *
 * The first operators of two models on one feed may be the same, on the same numbers: what they
 * make of a frame is then the same, to the last bit, and is made once. A *cut* lies between two
 * operators of a model's stage. What the rest reads of what came before it, one value or a few,
 * *crosses* the cut: it is copied to the front of the activations' memory when the first model
 * comes there, and stays there until the next model has begun with it. With several cuts each has
 * its place behind those before it, the same place in every model.
 *
 * A model that could run larger batches, or only then at all, if it kept nothing has no cut.
 *
 * Thread: the caller's.
 */
#ifndef CULM_RUN_EDGE_PREFIX_H
#define CULM_RUN_EDGE_PREFIX_H

#include "edge/profile.h"
#include "graph/stage.h"
#include "vision/model.h"

#define CULM_EDGE_CROSSING_MAX 4
#define CULM_EDGE_CUTS_MAX (CULM_EDGE_PREFIX_MAX - 1)

struct culm_edge_cut {
    uint64_t id;                          /* equal where what crosses is */
    int32_t operators;                    /* before it */
    double work;                          /* their share of the model's floating-point operations */
    int32_t values;                       /* that cross */
    size_t bytes[CULM_EDGE_CROSSING_MAX]; /* of each, of one picture */
};
struct culm_edge_trunk {
    int32_t cuts; /* shorter prefixes first */
    struct culm_edge_cut cut[CULM_EDGE_CUTS_MAX];
};

/* A query as cuts are looked for. */
struct culm_edge_beginning {
    const struct culm_stage *stage; /* for inference, of one picture; NULL: it shares nothing */
    const int32_t *source;          /* [parameters of the graph] equal where the numbers are */
    const struct culm_vision_input *input;
    int32_t feed;
    const struct culm_edge_times *times;
    float *const *reached; /* [sizes][operators + 1] of the stage: when each was reached, as a share
                              of a run; NULL: not measured */
    uint64_t twin; /* equal where whole models do the same; 0: there is no other. Below 2^32 */
};

/* The cuts of `count` queries; a cut that only twins share is left out. CULM_ERR_MEMORY. */
enum culm_status culm_edge_trunks(const struct culm_edge_beginning *of, int32_t count,
                                  struct culm_edge_trunk *ret_trunk, struct culm_error *error);
/* Looks for cuts and puts them into the layout's queries, as far as they fit into its limit:
 * prefixes, and what is kept beside their activations, which must be those of the models alone.
 * `of` is changed: who has no room has no stage any more. CULM_ERR_MEMORY. */
enum culm_status culm_edge_prefixes_lay(struct culm_edge_beginning *of,
                                        const struct culm_edge_layout *layout,
                                        struct culm_edge_query *query,
                                        struct culm_edge_trunk *ret_trunk,
                                        struct culm_error *error);

/* Bytes of the activations' memory that the first `cuts` cuts take in batches of this size: whole
 * pages. */
size_t culm_edge_kept_bytes(const struct culm_edge_trunk *trunk, int32_t cuts, int32_t batch);

/* The values of a stage's program that cross the cut behind so many operators, in an order that
 * follows from the operators alone: ret_value[CULM_EDGE_CROSSING_MAX]. -1: more than that,
 * something behind it reads the picture, or there is no memory to find out. */
int32_t culm_edge_crossing(const struct culm_stage *stage, int32_t operators, int32_t *ret_value);
/* Of a run that has come there: copies them to `at`, or from there. */
void culm_edge_crossing_keep(const struct culm_stage *stage, const struct culm_stage_run *run,
                             const int32_t *value, int32_t count, char *at);
void culm_edge_crossing_take(const struct culm_stage *stage, const struct culm_stage_run *run,
                             const int32_t *value, int32_t count, const char *at);

#endif

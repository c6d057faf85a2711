/*
 * The layout of a run on a graph: counts and sizes, which are all that the protocol knows of the
 * model and of the graph.
 *
 * The vertices are divided into *intervals*, which are fixed for the run; a server owns whole
 * intervals. In an epoch, every interval goes through the same *steps* in order. A step computes
 * each vertex on its own, from the rows that a *gather* has produced, and makes the rows that the
 * next gather reads. A gather adds up rows of neighbours, which may belong to intervals of other
 * servers. With two layers, each multiplied before it is gathered, the steps are:
 *
 *     constant input ─▶ FORWARD 0 ─▶ gather 0 ─▶ LOSS 1 ─▶ gather 1 (transposed) ─▶ BACKWARD 0
 *                                        and, without dropout:
 *     constant input ─▶ EVALUATE 0 ─▶ gather 2 ─▶ SCORE 1
 *
 * Training steps come first and evaluation steps after them; both use the same weights.
 *
 * Thread: constant.
 */
#ifndef CULM_INTERVAL_LAYOUT_H
#define CULM_INTERVAL_LAYOUT_H

#include "base/set.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define CULM_GNN_INTERVALS_MAX 4096
#define CULM_GNN_STAGES_MAX 16 /* parts of the network between gathers */
#define CULM_GNN_STEPS_MAX (3 * CULM_GNN_STAGES_MAX)
#define CULM_GNN_NODES_MAX 4112 /* alive at once: 4096, and parameter servers on top */
#define CULM_GNN_BLOCKS_MAX 8   /* per interval */

enum culm_gnn_step_kind {
    CULM_GNN_FORWARD,
    CULM_GNN_LOSS,     /* the last stage, forward and backward */
    CULM_GNN_BACKWARD, /* backward; recomputes the forward pass of the stage unless it was kept */
    CULM_GNN_EVALUATE, /* forward without dropout */
    CULM_GNN_SCORE,    /* the last stage without dropout; counts correct predictions */
};

struct culm_gnn_step {
    enum culm_gnn_step_kind kind;
    int32_t stage;
    int32_t rows; /* the gather whose result enters the stage; -1: the interval's constant input */
    int32_t d_rows; /* BACKWARD: the gather whose result is the gradient of the stage's output */
    int32_t makes;  /* the gather that reads this step's output; -1: none does */
    bool gradient;  /* computes the interval's share of the gradient of the stage's weights */
    bool remote;    /* given to workers, if there are any */
    /* Computed in blocks of rows, in order, so that a worker can start before all rows have
     * arrived. Sums over rows follow the same order wherever the step is computed, so their bits
     * are the same. */
    bool streams;
    /* BACKWARD: whoever ran the stage's forward step may have kept the activations needed here. */
    bool kept;
};

struct culm_gnn_gather {
    bool transposed;     /* follows the edges backwards */
    size_t row_bytes;    /* of an input row; an output row may have another size */
    size_t sent_bytes;   /* of the part of it that neighbours read: in slices, there is no more */
    int32_t sent_floats; /* elements of that part */
    bool edges;          /* attention: computes a value per edge from the rows at both ends */
    bool constant;       /* reads the same rows in every epoch; they are sent only once */
};

struct culm_gnn_layout {
    int32_t intervals;
    int64_t *first; /* [intervals + 1] first vertex of each interval, in the order of the run */
    int32_t train_steps, steps, train_gathers, gathers;
    struct culm_gnn_step step[CULM_GNN_STEPS_MAX];
    struct culm_gnn_gather gather[CULM_GNN_STEPS_MAX];
    /* [transposed][intervals] the intervals whose rows a gather of this one reads, itself
     * included. */
    struct culm_set *reads[2];
    /* [transposed][intervals] the inverse: the intervals that read rows of this one. */
    struct culm_set *read_by[2];
    int64_t *edges[2]; /* [transposed][intervals] rows that a gather of the interval adds up */
    /* A block has at least block_least rows, and a multiple of block_unit; block_unit 0: steps are
     * never divided into blocks. */
    int64_t block_least, block_unit;
    int32_t stages;
    size_t gradient_bytes[CULM_GNN_STAGES_MAX]; /* of each stage's weights; 0: it has none */
    size_t payload_max;                         /* of any message */
    bool scores; /* SCORE makes a struct culm_gnn_scored (roc.h) of each row, sent with DONE */
};

/* Allocates a layout of `intervals` empty intervals. CULM_ERR_MEMORY; nothing stays allocated
 * then. */
enum culm_status culm_gnn_layout_init(struct culm_gnn_layout *layout, int32_t intervals,
                                      struct culm_error *error);
void culm_gnn_layout_release(struct culm_gnn_layout *layout); /* fine on a zeroed struct */
/* Number of vertices of an interval; each has one row. */
static inline int64_t culm_gnn_layout_rows(const struct culm_gnn_layout *layout, int32_t interval) {
    return layout->first[interval + 1] - layout->first[interval];
}
/* The number of blocks in which a step of an interval with `rows` rows is computed; 1 if the step
 * does not stream. Servers compute it and tell workers. */
int32_t culm_gnn_layout_blocks(const struct culm_gnn_layout *layout, int32_t step, int64_t rows);
/* The number of rows in block `block` of `blocks`, out of `rows`; *ret_first is the first of them.
 * All blocks but the last have the same number of rows. */
int64_t culm_gnn_layout_block(const struct culm_gnn_layout *layout, int64_t rows, int32_t blocks,
                              int32_t block, int64_t *ret_first);
/* Records in `reads` and `read_by` that `interval` reads rows of `other`. CULM_ERR_MEMORY. */
enum culm_status culm_gnn_layout_reads(struct culm_gnn_layout *layout, bool transposed,
                                       int32_t interval, int32_t other);
/* Fills in the steps and gathers of a network of `stages` stages. row_bytes[stages - 1] and
 * d_row_bytes[stages - 1] are the sizes of the rows that are gathered between stages, forward and
 * backward; gradient_bytes[stages] are the sizes of the gradients. Lets neighbours read whole rows,
 * of f32, and makes no step remote; the caller changes both afterwards if need be. A single stage has
 * no gathers. */
void culm_gnn_layout_steps(struct culm_gnn_layout *layout, int32_t stages, const size_t *row_bytes,
                           const size_t *d_row_bytes, const size_t *gradient_bytes);

#endif

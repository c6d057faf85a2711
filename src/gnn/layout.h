/*
 * A run on a graph as counts and sizes: all that the protocol knows of a model and of a graph.
 *
 * The vertices are cut into *intervals*, fixed for the run; a server owns whole ones. In an epoch
 * every interval goes through the same *steps*, one after the other. A step computes each vertex by
 * itself from the rows that came out of a *gather*, and makes rows that the next gather reads: those
 * of neighbours too, whoever owns them. Of a network with two layers, multiplied first:
 *
 *     constant input ─▶ FORWARD 0 ─▶ gather 0 ─▶ LOSS 1 ─▶ gather 1 (transposed) ─▶ BACKWARD 0
 *                                        and, without dropout:
 *     constant input ─▶ EVALUATE 0 ─▶ gather 2 ─▶ SCORE 1
 *
 * The steps of training come first, those of an evaluation behind them. Both use the same weights.
 *
 * Thread: constant.
 */
#ifndef CULM_GNN_LAYOUT_H
#define CULM_GNN_LAYOUT_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define CULM_GNN_INTERVALS_MAX 1024
#define CULM_GNN_STAGES_MAX 16 /* stretches of the network between gathers */
#define CULM_GNN_STEPS_MAX (3 * CULM_GNN_STAGES_MAX)
#define CULM_GNN_NODES_MAX 1024 /* alive at once */
#define CULM_GNN_BLOCKS_MAX 8   /* of an interval */

/* Intervals, one bit each. */
struct culm_gnn_set {
    uint64_t word[CULM_GNN_INTERVALS_MAX / 64];
};

static inline bool culm_gnn_set_has(const struct culm_gnn_set *set, int32_t interval) {
    return set->word[interval / 64] >> (interval % 64) & 1;
}
static inline void culm_gnn_set_add(struct culm_gnn_set *set, int32_t interval) {
    set->word[interval / 64] |= 1ull << (interval % 64);
}
static inline void culm_gnn_set_remove(struct culm_gnn_set *set, int32_t interval) {
    set->word[interval / 64] &= ~(1ull << (interval % 64));
}
bool culm_gnn_set_empty(const struct culm_gnn_set *set);
/* What is in both. */
struct culm_gnn_set culm_gnn_set_both(const struct culm_gnn_set *a, const struct culm_gnn_set *b);
/* What is in a and not in b. */
struct culm_gnn_set culm_gnn_set_minus(const struct culm_gnn_set *a, const struct culm_gnn_set *b);

enum culm_gnn_step_kind {
    CULM_GNN_FORWARD,
    CULM_GNN_LOSS,     /* the last stage, forward and backward */
    CULM_GNN_BACKWARD, /* with what its forward made, computed again */
    CULM_GNN_EVALUATE, /* forward without dropout */
    CULM_GNN_SCORE,    /* the last stage without dropout; counts what is right */
};

struct culm_gnn_step {
    enum culm_gnn_step_kind kind;
    int32_t stage;
    int32_t rows; /* the gather whose result enters the stage; -1: the interval's constant input */
    int32_t d_rows; /* BACKWARD: the gather whose result is the gradient of what the stage made */
    int32_t makes;  /* the gather that reads what it makes; -1: none does */
    bool gradient;  /* it makes the interval's share of the gradient of the stage's weights */
    bool remote;    /* for workers, where there are any */
    /* It is computed block by block, the rows of one after those of the other, so that a worker can
     * begin with those that have come. Sums over rows go in that order, whoever computes them. */
    bool streams;
    /* BACKWARD: whoever has done the forward of its stage may have kept what this needs. */
    bool kept;
};

struct culm_gnn_gather {
    bool transposed;    /* over the edges backwards */
    size_t row_bytes;   /* of a row that it reads; what it makes may have another size */
    int32_t row_floats; /* numbers in it */
    bool edges;         /* each edge's share is computed from both ends: attention */
    bool constant;      /* it reads the same rows in every epoch, which are sent once */
};

struct culm_gnn_layout {
    int32_t intervals;
    int64_t *first; /* [intervals + 1] vertices, in the order of the run */
    int32_t train_steps, steps, train_gathers, gathers;
    struct culm_gnn_step step[CULM_GNN_STEPS_MAX];
    struct culm_gnn_gather gather[CULM_GNN_STEPS_MAX];
    /* [transposed][intervals] whose rows a gather of an interval reads; its own are among them. */
    struct culm_gnn_set *reads[2];
    /* [transposed][intervals] the same, the other way round: by whom its rows are read. */
    struct culm_gnn_set *read_by[2];
    int64_t *edges[2]; /* [transposed][intervals] rows that a gather of an interval adds up */
    int64_t block_least,
        block_unit; /* rows of a block: at least, and a multiple of; 0: no blocks */
    int32_t stages;
    size_t gradient_bytes[CULM_GNN_STAGES_MAX]; /* of each stage's weights; 0: it has none */
    size_t payload_max;                         /* of any message */
    bool scores; /* SCORE makes a struct culm_gnn_scored (roc.h) of each row, for DONE to carry */
};

/* Allocates for so many intervals, all empty. CULM_ERR_MEMORY; nothing is left then. */
enum culm_status culm_gnn_layout_init(struct culm_gnn_layout *layout, int32_t intervals,
                                      struct culm_error *error);
void culm_gnn_layout_release(struct culm_gnn_layout *layout); /* fine on a zeroed one */
/* Rows of an interval. */
static inline int64_t culm_gnn_layout_rows(const struct culm_gnn_layout *layout, int32_t interval) {
    return layout->first[interval + 1] - layout->first[interval];
}
/* How many blocks a step of an interval with `rows` rows is computed in, which workers are told; 1 for a
 * step that does not stream. */
int32_t culm_gnn_layout_blocks(const struct culm_gnn_layout *layout, int32_t step, int64_t rows);
/* How many of `rows` rows block `block` of `blocks` has, and from which on. All blocks but the last have the
 * same number. */
int64_t culm_gnn_layout_block(const struct culm_gnn_layout *layout, int64_t rows, int32_t blocks,
                              int32_t block, int64_t *ret_first);
/* Notes that `interval` reads rows of `other`, over the edges forwards or backwards. */
void culm_gnn_layout_reads(struct culm_gnn_layout *layout, bool transposed, int32_t interval,
                           int32_t other);
/* The steps of a network of `stages` stretches, with the row sizes of its gathers [stages - 1], forward
 * and backward, and the sizes of its gradients [stages]. Rows are taken to be f32, and no step to be remote:
 * the caller changes that afterwards. A single stage has no gather at all. */
void culm_gnn_layout_steps(struct culm_gnn_layout *layout, int32_t stages, const size_t *row_bytes,
                           const size_t *d_row_bytes, const size_t *gradient_bytes);

#endif

/*
 * The order of a sum: a fixed balanced tree over its parts.
 *
 * Sums of floats depend on their order, so the order is given by the number of parts alone, and not
 * by which machine made which part, or when it came: a node of the tree [lo, hi) is the sum over its
 * parts, formed as left + right, and splits at lo + ceil((hi - lo) / 2). Whoever has both halves may
 * form a node; whoever has all the nodes that it takes may form the root. Of five parts, with node 0,
 * the root, on the left:
 *
 *     [0,5) ─┬─ [0,3) ─┬─ [0,2) ─┬─ part 0
 *            │         │         └─ part 1
 *            │         └─ part 2
 *            └─ [3,5) ─┬─ part 3
 *                      └─ part 4
 *
 * What a part is (the lane of a global batch, an interval of a graph) is the caller's. A *slice* is
 * the sum over one node of the tree; the slices of a sum stand in an array, one a node. Thread: none
 * of its own; a tree is constant after _init.
 */
#ifndef CULM_LEDGER_FOLD_H
#define CULM_LEDGER_FOLD_H

#include "base/blob.h"
#include "base/status.h"

/* All nodes below one follow it, and nothing between them. */
struct culm_fold_node {
    int32_t lo, hi, left, right, parent; /* -1: none */
};

struct culm_fold_tree {
    int32_t parts, count;
    int32_t *leaf;               /* [parts] */
    struct culm_fold_node *node; /* [count] */
};

/* parts >= 1. False: out of memory; then there is nothing to release. */
bool culm_fold_tree_init(struct culm_fold_tree *tree, int32_t parts);
void culm_fold_tree_release(struct culm_fold_tree *tree); /* fine on a zeroed one */
/* Is `node` equal to, or below, `ancestor`? */
bool culm_fold_tree_covers(const struct culm_fold_tree *tree, int32_t ancestor, int32_t node);

struct culm_slice {
    struct culm_blob *blob; /* NULL: it is not here */
    size_t offset_bytes;
};

/* --- slices as they come: in any order, some of them more than once --- */

/* Takes a reference, and lets go of those below. One that is covered already is left alone. Returns how many parts
 * are covered that were not: the sum is whole when all are, which the caller counts. */
int32_t culm_fold_add(const struct culm_fold_tree *tree, struct culm_slice *slice, int32_t node,
                      struct culm_blob *blob, size_t offset_bytes);
/* Lets go of all of them. */
void culm_fold_clear(const struct culm_fold_tree *tree, struct culm_slice *slice);

/* --- the sum --- */

struct culm_fold_ops {
    void (*copy)(void *self, void *out, const void *a, size_t bytes);
    /* out = a + b, element by element; out may be a. */
    void (*add)(void *self, void *out, const void *a, const void *b, size_t bytes);
};

struct culm_fold {
    const struct culm_fold_tree *tree;
    const struct culm_slice *slice; /* [tree->count]; of each node that is not here, both halves */
    size_t size_bytes;              /* of every slice, and of the sum */
    struct culm_blob_pool *pool;    /* gives room for one partial sum a level */
    const struct culm_fold_ops *ops;
    void *self;
};

/* The sum over `root`, to out. CULM_ERR_MEMORY; CULM_ERR_INTERNAL: a slice is missing. */
enum culm_status culm_fold_sum(const struct culm_fold *fold, int32_t root, void *out,
                               struct culm_error *error);

#endif

/* The tree, what of it is there, and the sum in its order. */
#include "ledger/fold.h"

#include <stdlib.h>

static int32_t grow(struct culm_fold_tree *tree, int32_t lo, int32_t hi, int32_t parent) {
    int32_t at = tree->count++;
    tree->node[at] = (struct culm_fold_node){lo, hi, -1, -1, parent};
    if (hi - lo == 1) {
        tree->leaf[lo] = at;
        return at;
    }
    int32_t middle = lo + (hi - lo + 1) / 2;
    tree->node[at].left = grow(tree, lo, middle, at);
    tree->node[at].right = grow(tree, middle, hi, at);
    return at;
}

bool culm_fold_tree_init(struct culm_fold_tree *tree, int32_t parts) {
    *tree = (struct culm_fold_tree){.parts = parts};
    tree->leaf = calloc((size_t)parts, sizeof *tree->leaf);
    tree->node = calloc(2 * (size_t)parts, sizeof *tree->node);
    if (!tree->leaf || !tree->node) {
        culm_fold_tree_release(tree);
        return false;
    }
    grow(tree, 0, parts, -1);
    return true;
}

void culm_fold_tree_release(struct culm_fold_tree *tree) {
    free(tree->leaf);
    free(tree->node);
    *tree = (struct culm_fold_tree){0};
}

bool culm_fold_tree_covers(const struct culm_fold_tree *tree, int32_t ancestor, int32_t node) {
    return tree->node[ancestor].lo <= tree->node[node].lo &&
           tree->node[node].hi <= tree->node[ancestor].hi;
}

/* --- what is there --- */

/* One past the last node below it. */
static int32_t end_of(const struct culm_fold_tree *tree, int32_t node) {
    return node + 2 * (tree->node[node].hi - tree->node[node].lo) - 1;
}

int32_t culm_fold_add(const struct culm_fold_tree *tree, struct culm_slice *slice, int32_t node,
                      struct culm_blob *blob, size_t offset_bytes) {
    for (int32_t at = node; at >= 0; at = tree->node[at].parent) {
        if (slice[at].blob) {
            return 0;
        }
    }
    int32_t more = tree->node[node].hi - tree->node[node].lo;
    for (int32_t i = node + 1; i < end_of(tree, node); i++) {
        if (slice[i].blob) {
            more -= tree->node[i].hi - tree->node[i].lo;
            culm_blob_clear(&slice[i].blob);
        }
    }
    slice[node] = (struct culm_slice){culm_blob_ref(blob), offset_bytes};
    return more;
}

void culm_fold_clear(const struct culm_fold_tree *tree, struct culm_slice *slice) {
    for (int32_t i = 0; i < tree->count; i++) {
        culm_blob_clear(&slice[i].blob);
    }
}

/* --- the sum --- */

static const void *data_of(const struct culm_slice *slice) {
    return (const char *)slice->blob->data + slice->offset_bytes;
}

/* A node is either given as a slice or is the sum of its two halves; the left half comes first. */
enum culm_status culm_fold_sum(const struct culm_fold *fold, int32_t root, void *out,
                               struct culm_error *error) {
    const struct culm_fold_node *at = &fold->tree->node[root];
    if (fold->slice[root].blob) {
        fold->ops->copy(fold->self, out, data_of(&fold->slice[root]), fold->size_bytes);
        return CULM_OK;
    }
    if (at->left < 0) {
        return culm_error_set(error, CULM_ERR_INTERNAL, "part %d of a sum is missing", at->lo);
    }
    enum culm_status status = culm_fold_sum(fold, at->left, out, error);
    if (status != CULM_OK) {
        return status;
    }
    if (fold->slice[at->right].blob) {
        fold->ops->add(fold->self, out, out, data_of(&fold->slice[at->right]), fold->size_bytes);
        return CULM_OK;
    }
    struct culm_blob *partial = NULL;
    status = culm_blob_pool_get(fold->pool, fold->size_bytes, &partial);
    if (status != CULM_OK) {
        return culm_error_set(error, status, "out of memory for a sum of %zu bytes",
                              fold->size_bytes);
    }
    status = culm_fold_sum(fold, at->right, partial->data, error);
    if (status == CULM_OK) {
        fold->ops->add(fold->self, out, out, partial->data, fold->size_bytes);
    }
    culm_blob_unref(partial);
    return status;
}

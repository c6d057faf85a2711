/*
 * Recognizes channel shuffles: [N,C,H,W] reshaped to [N,g,C/g,H,W], groups and their channels
 * exchanged, and reshaped to [N,C,H,W] again, perhaps with its dimensions in another order. Our
 * graphs have at most four dimensions, and this operator needs no more.
 */
#include "onnx/pass.h"
#include "onnx/view.h"

struct shuffle {
    int axis; /* of the source: [groups, each] there, [each, groups] here */
    int64_t groups;
    int perm[4]; /* of the source's dimensions afterwards */
};

static bool shuffle_of(const struct culm_onnx_graph *graph, const struct culm_onnx_view *view,
                       struct shuffle *ret) {
    const struct culm_onnx_value *x = &graph->value[view->source];
    bool used[4] = {false};
    ret->axis = -1;
    if (view->rank != 4 || x->rank != 4) {
        return false;
    }
    for (int i = 0; i < 4; i++) {
        const struct culm_onnx_view_dim *dim = &view->dim[i];
        const struct culm_onnx_atom *a = dim->atom;
        int from = dim->count ? a->source_dim : -1;
        ret->perm[i] = from;
        if (dim->count == 0) {
            continue;
        }
        if (dim->count == 2 && ret->axis < 0 && a[1].source_dim == from && a[0].stride == 1 &&
            a[1].stride == a[0].size && a[0].size * a[1].size == x->dim[from]) {
            ret->axis = from;
            ret->groups = a[1].size;
        } else if (dim->count != 1 || a->stride != 1 || a->size != x->dim[from]) {
            return false;
        }
        used[from] = true;
    }
    for (int i = 0, next = 0; i < 4; i++) { /* dimensions of 1 have no order */
        while (next < 4 && used[next]) {
            next++;
        }
        if (ret->perm[i] < 0) {
            ret->perm[i] = next++;
        }
    }
    return ret->axis > 0;
}

static bool shuffle(struct culm_onnx_graph *graph, int32_t index, int32_t x,
                    const struct shuffle *how) {
    const struct culm_attributes attributes = {.axis = how->axis, .groups = how->groups};
    const int *perm = how->perm;
    if (perm[0] == 0 && perm[1] == 1 && perm[2] == 2 && perm[3] == 3) {
        bool fine = culm_onnx_become(graph, index, "shuffle", &x, 1);
        graph->node[index].culm = attributes;
        return fine;
    }
    int64_t dim[4];
    for (int i = 0; i < 4; i++) {
        dim[i] = graph->value[x].dim[i];
    }
    int32_t made = culm_onnx_insert(graph, index, "shuffle", &x, 1, &attributes, 4, dim);
    return made >= 0 && culm_onnx_become_transpose(graph, index, made, 4, perm);
}

bool culm_onnx_fuse_shuffles(struct culm_onnx_graph *graph) {
    int32_t count = graph->node_count;
    for (int32_t i = 0; i < count; i++) {
        const struct culm_onnx_node *node = &graph->node[i];
        struct culm_onnx_view view;
        struct shuffle how;
        if (!node->dead && culm_onnx_is_ours(node, "reshape") && node->output[0] >= 0 &&
            graph->value[node->output[0]].rank == 4 &&
            culm_onnx_view_of(graph, node->output[0], 0, &view) > 1 &&
            shuffle_of(graph, &view, &how) && !shuffle(graph, i, view.source, &how)) {
            return false;
        }
    }
    return culm_onnx_sort(graph);
}

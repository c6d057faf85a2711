/* Views: up to the source, and down again taking its dimensions apart. See view.h. */
#include "onnx/view.h"

#include "onnx/rewrite.h"

#include <string.h>

#define STEPS_MAX 16

static bool push(struct culm_onnx_view_dim *dim, struct culm_onnx_atom atom) {
    if (atom.size == 1) {
        return true;
    }
    struct culm_onnx_atom *last = dim->count ? &dim->atom[dim->count - 1] : NULL;
    if (last && last->source_dim == atom.source_dim && last->stride == atom.stride * atom.size) {
        last->size *= atom.size; /* they form one run */
        last->stride = atom.stride;
        return true;
    }
    if (dim->count == CULM_ONNX_ATOMS_MAX) {
        return false;
    }
    dim->atom[dim->count++] = atom;
    return true;
}

static bool regroup(struct culm_onnx_view *view, const struct culm_onnx_value *to) {
    struct culm_onnx_view_dim all = {0}, dim[CULM_ONNX_RANK_MAX] = {0};
    int at = 0;
    for (int i = 0; i < view->rank; i++) {
        for (int k = 0; k < view->dim[i].count; k++) {
            if (!push(&all, view->dim[i].atom[k])) {
                return false;
            }
        }
    }
    for (int i = 0; i < to->rank; i++) {
        for (int64_t need = to->dim[i]; need > 1;) {
            if (at == all.count) {
                return false;
            }
            struct culm_onnx_atom *atom = &all.atom[at], major = *atom;
            if (atom->size < 1) { /* no regrouping needed */
                return false;
            }
            if (need >= atom->size) {
                if (need % atom->size != 0) {
                    return false;
                }
                need /= atom->size;
                at++;
            } else {
                if (atom->size % need != 0) {
                    return false;
                }
                atom->size /= need;
                major = (struct culm_onnx_atom){major.source_dim, need, major.stride * atom->size};
                need = 1;
            }
            if (!push(&dim[i], major)) {
                return false;
            }
        }
    }
    memcpy(view->dim, dim, sizeof dim);
    view->rank = to->rank;
    return at == all.count;
}

static bool step_down(const struct culm_onnx_graph *graph, const struct culm_onnx_node *node,
                      struct culm_onnx_view *view) {
    const struct culm_onnx_value *y = &graph->value[node->output[0]];
    int perm[CULM_ONNX_RANK_MAX];
    if (culm_onnx_is_ours(node, "reshape")) {
        return regroup(view, y);
    }
    if (culm_onnx_order(graph, node, perm)) {
        struct culm_onnx_view_dim dim[CULM_ONNX_RANK_MAX];
        memcpy(dim, view->dim, sizeof dim);
        for (int i = 0; i < view->rank; i++) {
            view->dim[i] = dim[perm[i]];
        }
        return true;
    }
    if (culm_onnx_is_ours(node, "slice")) {
        struct culm_onnx_view_dim *dim = &view->dim[node->culm.axis];
        if (dim->count != 1) {
            return false;
        }
        view->offset[dim->atom[0].source_dim] += node->culm.start * dim->atom[0].stride;
        dim->atom[0].size = node->culm.length;
        dim->count = dim->atom[0].size > 1;
        return true;
    }
    double number = 1;
    for (int i = 0; i < 2; i++) {
        culm_onnx_scalar(graph, culm_onnx_input(graph, node, i), &number);
    }
    view->scale *= culm_onnx_is(node, "Div") ? 1 / number : number;
    return true;
}

/* The input that a node only views; -1: the node computes something. */
static int32_t step_up(const struct culm_onnx_graph *graph, const struct culm_onnx_node *node,
                       int through) {
    double number;
    if (culm_onnx_is_ours(node, "reshape") || culm_onnx_is(node, "Transpose") ||
        ((through & CULM_ONNX_VIEW_SLICES) && culm_onnx_is_ours(node, "slice"))) {
        return culm_onnx_input(graph, node, 0);
    }
    bool factors = (through & CULM_ONNX_VIEW_FACTORS) != 0;
    bool mul = factors && culm_onnx_is(node, "Mul"), div = factors && culm_onnx_is(node, "Div");
    for (int i = 0; i < (mul ? 2 : div ? 1 : 0); i++) {
        int32_t x = culm_onnx_input(graph, node, i);
        if (culm_onnx_scalar(graph, culm_onnx_input(graph, node, 1 - i), &number) && number != 0 &&
            culm_onnx_same_shape(graph, x, node->output[0])) {
            return x;
        }
    }
    return -1;
}

int culm_onnx_view_of(const struct culm_onnx_graph *graph, int32_t value, int through,
                      struct culm_onnx_view *ret_view) {
    const struct culm_onnx_node *steps[STEPS_MAX];
    int count = 0;
    for (; count < STEPS_MAX; count++) {
        const struct culm_onnx_node *node = culm_onnx_maker(graph, value);
        int32_t up = node ? step_up(graph, node, through) : -1;
        if (up < 0) {
            break;
        }
        steps[count] = node;
        value = up;
    }
    for (int first = count;; first--) { /* drops the topmost step until the rest can be followed */
        struct culm_onnx_view view = {.source = value, .scale = 1};
        const struct culm_onnx_value *v = &graph->value[value];
        bool fine = true;
        view.rank = v->rank;
        for (int i = 0; i < v->rank; i++) {
            push(&view.dim[i], (struct culm_onnx_atom){i, v->dim[i], 1});
        }
        int i = first;
        while (i > 0 && fine) {
            fine = step_down(graph, steps[--i], &view);
        }
        if (fine) {
            *ret_view = view;
            return first;
        }
        value = steps[first - 1]->output[0];
    }
}

bool culm_onnx_view_is(const struct culm_onnx_view *view, int from, int to,
                       const struct culm_onnx_atom *atoms, int count) {
    struct culm_onnx_view_dim has = {0}, wanted = {0};
    for (int i = from; i < to; i++) {
        for (int k = 0; k < view->dim[i].count; k++) {
            push(&has, view->dim[i].atom[k]);
        }
    }
    for (int i = 0; i < count; i++) {
        push(&wanted, atoms[i]);
    }
    if (has.count != wanted.count) {
        return false;
    }
    for (int i = 0; i < has.count; i++) {
        if (has.atom[i].source_dim != wanted.atom[i].source_dim ||
            has.atom[i].size != wanted.atom[i].size ||
            has.atom[i].stride != wanted.atom[i].stride) {
            return false;
        }
    }
    return true;
}

/*
 * Recognizes attention that is written out: softmax(scale q k^T + mask) v, by heads.
 *
 * It starts at the product with v and goes up through whatever exporters put there: dropout,
 * softmax, masks that are added or chosen by Where, and factors anywhere. Where the heads come from
 * is found out with views (view.h), and what a mask means by trying (mask.h). q, k and v may be
 * thirds of one value, which is then used as a whole. ONNX's own Attention (opset 23) is the same
 * with its parts named.
 */
#include "onnx/mask.h"
#include "onnx/pass.h"
#include "onnx/view.h"

#include <math.h>
#include <string.h>

#define EVERYTHING (CULM_ONNX_VIEW_SLICES | CULM_ONNX_VIEW_FACTORS)

struct attention {
    struct culm_onnx_view q, k, v; /* [.., T, D] each */
    int q_rank, v_rank;
    bool k_flipped; /* [.., D, T] */
    double scale, dropout;
    bool causal;
    int32_t mask; /* input of the graph; -1: none */
};

static bool last_axis(const struct culm_onnx_graph *graph, const struct culm_onnx_node *softmax) {
    int rank = graph->value[culm_onnx_input(graph, softmax, 0)].rank;
    int64_t axis = culm_onnx_int(softmax, "axis", graph->opset < 13 ? 1 : -1);
    return axis == -1 || axis == rank - 1;
}

/* Takes a mask into account. False: not a mask, or of another input than the mask before. */
static bool add_mask(const struct culm_onnx_graph *graph, int32_t mask,
                     enum culm_onnx_mask_kind kind, int32_t scores, struct attention *a) {
    const struct culm_onnx_value *s = &graph->value[scores];
    struct culm_onnx_mask found;
    /* with [B*H,T,T] the batch cannot be told from the heads: the mask must be the same for all */
    int64_t batch = s->rank == 4 ? s->dim[0] : 1;
    /* one exporter (opset 23) adds booleans as they are */
    if (kind == CULM_ONNX_MASK_ADDED && mask >= 0 && graph->value[mask].type == CULM_ONNX_BOOL) {
        kind = CULM_ONNX_MASK_SHOWS;
    }
    if (mask < 0 || !culm_onnx_mask_of(graph, mask, kind, batch, s->dim[s->rank - 2],
                                       s->dim[s->rank - 1], &found)) {
        return false;
    }
    a->causal |= found.causal;
    if (found.input >= 0 && a->mask >= 0 && a->mask != found.input) {
        return false;
    }
    a->mask = found.input >= 0 ? found.input : a->mask;
    return true;
}

/* Goes up from the input of the softmax to the product q k^T. */
static bool scores(const struct culm_onnx_graph *graph, int32_t value, struct attention *a) {
    for (int depth = 0; depth < 8 && value >= 0; depth++) {
        const struct culm_onnx_node *node = culm_onnx_maker(graph, value);
        double number;
        if (!node) {
            return false;
        }
        int32_t x = culm_onnx_input(graph, node, 0), y = culm_onnx_input(graph, node, 1);
        if (culm_onnx_is(node, "MatMul") && graph->value[x].rank >= 3 &&
            graph->value[x].rank == graph->value[y].rank) {
            culm_onnx_view_of(graph, x, EVERYTHING, &a->q);
            culm_onnx_view_of(graph, y, EVERYTHING, &a->k);
            a->k_flipped = true;
            a->scale *= a->q.scale * a->k.scale;
            a->q_rank = graph->value[x].rank;
            return true;
        }
        if ((culm_onnx_is(node, "Mul") || culm_onnx_is(node, "Div")) &&
            culm_onnx_scalar(graph, y, &number)) {
            a->scale *= culm_onnx_is(node, "Div") ? 1 / number : number;
            value = x;
        } else if (culm_onnx_is(node, "Mul") && culm_onnx_scalar(graph, x, &number)) {
            a->scale *= number;
            value = y;
        } else if (culm_onnx_is(node, "Add")) {
            /* the one that leads to a product of activations is not the mask */
            if (culm_onnx_same_shape(graph, x, value) &&
                add_mask(graph, y, CULM_ONNX_MASK_ADDED, value, a)) {
                value = x;
            } else if (culm_onnx_same_shape(graph, y, value) &&
                       add_mask(graph, x, CULM_ONNX_MASK_ADDED, value, a)) {
                value = y;
            } else {
                return false;
            }
        } else if (culm_onnx_is(node, "Where") && culm_onnx_same_shape(graph, y, value) &&
                   culm_onnx_scalar(graph, culm_onnx_input(graph, node, 2), &number) &&
                   number <= -1000 && add_mask(graph, x, CULM_ONNX_MASK_SHOWS, value, a)) {
            value = y;
        } else if (culm_onnx_is(node, "Where") && culm_onnx_scalar(graph, y, &number) &&
                   culm_onnx_same_shape(graph, culm_onnx_input(graph, node, 2), value) &&
                   number <= -1000 && add_mask(graph, x, CULM_ONNX_MASK_HIDES, value, a)) {
            value = culm_onnx_input(graph, node, 2);
        } else {
            return false;
        }
    }
    return false;
}

/* Where [B,T,C] or [B*T,C] is split into heads. */
struct heads {
    int64_t batch, length, heads, width;
    int64_t offset; /* into C */
    bool flat;      /* the source is [B*T,C] */
};

static bool heads_of(const struct culm_onnx_graph *graph, const struct culm_onnx_view *view,
                     bool flipped, struct heads *ret_heads) {
    const struct culm_onnx_value *source = &graph->value[view->source];
    int time = view->rank - (flipped ? 1 : 2), inner = view->rank - (flipped ? 2 : 1);
    int64_t lead = 1, size[2] = {1, 1};
    bool flat = source->rank == 2;
    int last = source->rank - 1;
    if (view->rank < 3 || source->rank < 2 || source->rank > 3 || view->offset[0] != 0 ||
        (!flat && view->offset[1] != 0)) {
        return false;
    }
    for (int i = 0; i < view->rank; i++) {
        int64_t n = 1;
        for (int k = 0; k < view->dim[i].count; k++) {
            n *= view->dim[i].atom[k].size;
        }
        if (i == time || i == inner) {
            size[i == inner] = n;
        } else {
            lead *= n;
        }
    }
    struct heads h = {.length = size[0], .width = size[1], .flat = flat};
    if (h.length < 1 || h.width < 1) {
        return false;
    }
    h.batch = flat ? source->dim[0] / h.length : source->dim[0];
    h.heads = h.batch ? lead / h.batch : 0;
    h.offset = view->offset[last];
    const struct culm_onnx_atom outer[] = {{0, h.batch, flat ? h.length : 1},
                                           {last, h.heads, h.width}};
    const struct culm_onnx_atom of_time = {flat ? 0 : 1, h.length, 1};
    const struct culm_onnx_atom of_width = {last, h.width, 1};
    if (h.heads < 1 || !culm_onnx_view_is(view, 0, view->rank - 2, outer, 2) ||
        !culm_onnx_view_is(view, time, time + 1, &of_time, 1) ||
        !culm_onnx_view_is(view, inner, inner + 1, &of_width, 1)) {
        return false;
    }
    *ret_heads = h;
    return true;
}

/* The value [B,T,H*D] that the heads come from. */
static int32_t operand(struct culm_onnx_graph *graph, int32_t before,
                       const struct culm_onnx_view *view, const struct heads *h) {
    int32_t x = view->source;
    const struct culm_onnx_value *v = &graph->value[x];
    int64_t dim[3] = {h->batch, h->length, v->dim[v->rank - 1]};
    if (h->flat) {
        x = culm_onnx_insert(graph, before, "reshape", &x, 1, NULL, 3, dim);
    }
    if (x >= 0 && dim[2] != h->heads * h->width) {
        const struct culm_attributes part = {
            .axis = 2, .start = h->offset, .length = h->heads * h->width};
        dim[2] = part.length;
        x = culm_onnx_insert(graph, before, "slice", &x, 1, &part, 3, dim);
    }
    return x;
}

/* Inserts attention in front of node `index`, which from then on only moves the heads back to where
 * they were expected; the transposes behind it undo that. */
static bool put(struct culm_onnx_graph *graph, int32_t index, const struct attention *a) {
    struct heads q, k, v;
    if (!heads_of(graph, &a->q, false, &q) || !heads_of(graph, &a->k, a->k_flipped, &k) ||
        !heads_of(graph, &a->v, false, &v) || q.batch != k.batch || k.batch != v.batch ||
        q.heads != k.heads || k.heads != v.heads || q.width != k.width || k.width != v.width ||
        k.length != v.length || (a->causal && q.length != k.length)) {
        return true;
    }
    int64_t width = q.heads * q.width;
    double usual = 1 / sqrt((double)q.width), factor = a->scale / usual;
    bool whole = a->q.source == a->k.source && a->k.source == a->v.source && !q.flat &&
                 fabs(factor - 1) < 1e-4 && q.offset == 0 && k.offset == width &&
                 v.offset == 2 * width && graph->value[a->q.source].dim[2] == 3 * width;
    struct culm_attributes attributes = {
        .heads = q.heads, .causal = a->causal, .dropout = a->dropout};
    int32_t inputs[4] = {a->q.source, -1, -1, a->mask};
    const int64_t out[3] = {q.batch, q.length, width};
    if (!whole) {
        inputs[0] = operand(graph, index, &a->q, &q);
        inputs[1] = operand(graph, index, &a->k, &k);
        inputs[2] = operand(graph, index, &a->v, &v);
        if (inputs[0] < 0 || inputs[1] < 0 || inputs[2] < 0) {
            return false;
        }
        if (fabs(factor - 1) >= 1e-4) {
            const struct culm_attributes affine = {.scale = factor};
            inputs[0] = culm_onnx_insert(graph, index, "affine", inputs, 1, &affine, 3, out);
        }
    }
    int32_t made = culm_onnx_insert(graph, index, "attention", inputs, 4, &attributes, 3, out);
    const int64_t by_head[4] = {q.batch, q.length, q.heads, q.width};
    int32_t heads =
        made < 0 ? -1 : culm_onnx_insert(graph, index, "reshape", &made, 1, NULL, 4, by_head);
    const int perm[4] = {0, 2, 1, 3};
    if (heads < 0) {
        return false;
    }
    int32_t y = graph->node[index].output[0];
    if (graph->value[y].rank == 4) {
        return culm_onnx_become_transpose(graph, index, heads, 4, perm);
    }
    const int64_t moved[4] = {q.batch, q.heads, q.length, q.width};
    int32_t turned = culm_onnx_insert(graph, index, "reshape", &heads, 1, NULL, 4, moved);
    return turned >= 0 &&
           culm_onnx_become_transpose(graph, graph->value[turned].node, heads, 4, perm) &&
           culm_onnx_become(graph, index, "reshape", &turned, 1);
}

/* P v, with P = softmax(..), perhaps with dropout. */
static bool spelled(struct culm_onnx_graph *graph, int32_t index) {
    const struct culm_onnx_node *node = &graph->node[index];
    struct attention a = {.scale = 1, .mask = -1};
    int32_t p = culm_onnx_input(graph, node, 0), v = culm_onnx_input(graph, node, 1);
    const struct culm_onnx_node *maker = culm_onnx_maker(graph, p);
    if (culm_onnx_is_ours(maker, "dropout")) {
        a.dropout = maker->culm.dropout;
        maker = culm_onnx_maker(graph, culm_onnx_input(graph, maker, 0));
    }
    if (!culm_onnx_is(maker, "Softmax") || !last_axis(graph, maker) || graph->value[v].rank < 3 ||
        graph->value[v].rank > 4 || graph->value[v].rank != graph->value[p].rank ||
        !scores(graph, culm_onnx_input(graph, maker, 0), &a)) {
        return true;
    }
    culm_onnx_view_of(graph, v, EVERYTHING, &a.v);
    return a.v.scale != 1 || put(graph, index, &a);
}

/* ONNX's Attention, opset 23. */
static bool named(struct culm_onnx_graph *graph, int32_t index) {
    const struct culm_onnx_node *node = &graph->node[index];
    struct attention a = {.mask = -1, .causal = culm_onnx_int(node, "is_causal", 0) != 0};
    int32_t q = culm_onnx_input(graph, node, 0), k = culm_onnx_input(graph, node, 1),
            v = culm_onnx_input(graph, node, 2), mask = culm_onnx_input(graph, node, 3);
    if (k < 0 || v < 0 || graph->value[q].rank != 4 || graph->value[k].rank != 4 ||
        graph->value[v].rank != 4 || culm_onnx_input(graph, node, 4) >= 0 ||
        culm_onnx_input(graph, node, 5) >= 0 || culm_onnx_float(node, "softcap", 0) != 0) {
        return true;
    }
    const int64_t *dim = graph->value[q].dim;
    a.scale = culm_onnx_float(node, "scale", 1 / sqrt((double)dim[3]));
    culm_onnx_view_of(graph, q, EVERYTHING, &a.q);
    culm_onnx_view_of(graph, k, EVERYTHING, &a.k);
    culm_onnx_view_of(graph, v, EVERYTHING, &a.v);
    a.scale *= a.q.scale * a.k.scale;
    if (mask >= 0) {
        struct culm_onnx_mask found;
        enum culm_onnx_mask_kind kind =
            graph->value[mask].type == CULM_ONNX_BOOL ? CULM_ONNX_MASK_SHOWS : CULM_ONNX_MASK_ADDED;
        if (!culm_onnx_mask_of(graph, mask, kind, dim[0], dim[2], graph->value[k].dim[2], &found)) {
            return true;
        }
        a.causal |= found.causal;
        a.mask = found.input;
    }
    return a.v.scale != 1 || put(graph, index, &a);
}

bool culm_onnx_fuse_attention(struct culm_onnx_graph *graph) {
    static const struct culm_onnx_rule rules[] = {
        {"MatMul", .apply = spelled},
        {"Attention", .apply = named},
        {0},
    };
    return culm_onnx_for_each(graph, rules, NULL);
}

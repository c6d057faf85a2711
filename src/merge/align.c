/* Permutes channels. See align.h.
 *
 * For each model: find which values have to keep their channels in a common order (struct ties);
 * record what each layer puts out on the frames (struct trail); for each such order, match the
 * channels with those of earlier models by correlation, and permute all weights that produce or
 * read them. */
#include "merge/align.h"

#include "base/grow.h"
#include "graph/ops.h"
#include "merge/steps.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLES 2048 /* positions of a value at which channels are compared */

static enum culm_status no_memory(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "merging: out of memory");
}

/* --- values that share an order of channels --- */

/* Consecutive channels of a value. A group is named by the value in which its channels begin. */
struct segment {
    int32_t group; /* a value; use its root */
    int64_t count;
};

/* For each value, the segments that its channels consist of: one, or several behind a
 * concatenation. */
struct ties {
    const struct culm_graph *graph;
    struct segment *segment;
    int32_t segments, capacity;
    int32_t *first, *count; /* [values]: range of segments */
    int32_t *up;            /* [values]: union-find of groups */
    bool *blocked;          /* [values]: at a root, whether the group has to keep its order */
    bool failed;            /* out of memory */
};

static int32_t root(const struct ties *t, int32_t group) {
    while (t->up[group] != group) {
        group = t->up[group];
    }
    return group;
}

static int64_t channels(const struct culm_graph *graph, int32_t value) {
    const struct culm_shape *shape = &graph->value[value].shape;
    return shape->rank > 0 ? culm_last_dim(shape) : 1;
}

static void block(struct ties *t, int32_t value) {
    for (int32_t i = 0; value >= 0 && i < t->count[value]; i++) {
        t->blocked[root(t, t->segment[t->first[value] + i].group)] = true;
    }
}

static void append(struct ties *t, int32_t value, struct segment segment) {
    if (!CULM_GROW(t->segment, t->capacity, t->segments + 1)) {
        t->failed = true;
        return;
    }
    t->segment[t->segments++] = segment;
    t->count[value]++;
}

/* Gives a value channels of its own. */
static void begin(struct ties *t, int32_t value) {
    t->first[value] = t->segments;
    t->count[value] = 0;
    append(t, value, (struct segment){value, channels(t->graph, value)});
}

/* The channels of `value` are those of `from`. */
static void derive(struct ties *t, int32_t value, int32_t from) {
    if (channels(t->graph, value) != channels(t->graph, from)) {
        block(t, from);
        block(t, value);
        return;
    }
    t->first[value] = t->first[from];
    t->count[value] = t->count[from];
}

/* Makes two values keep their channels in one order, segment by segment; blocks both if their
 * segments differ. */
static void tie(struct ties *t, int32_t a, int32_t b) {
    if (a < 0 || b < 0) {
        return;
    }
    bool alike = t->count[a] == t->count[b];
    for (int32_t i = 0; alike && i < t->count[a]; i++) {
        alike = t->segment[t->first[a] + i].count == t->segment[t->first[b] + i].count;
    }
    if (!alike) {
        block(t, a);
        block(t, b);
    }
    for (int32_t i = 0; alike && i < t->count[a]; i++) {
        const int32_t x = root(t, t->segment[t->first[a] + i].group);
        const int32_t y = root(t, t->segment[t->first[b] + i].group);
        t->up[y] = x;
        t->blocked[x] = t->blocked[x] || t->blocked[y];
    }
}

/* Whether a node concatenates along the channels. */
static bool joins_channels(const struct culm_graph *graph, const struct culm_node_desc *node) {
    return node->op == &culm_op_concat &&
           node->attributes.axis == graph->value[node->output[0]].shape.rank - 1;
}

static void join(struct ties *t, const struct culm_node_desc *node) {
    const int32_t out = node->output[0];
    t->first[out] = t->segments;
    t->count[out] = 0;
    for (int32_t i = 0; i < node->op->inputs && !t->failed; i++) {
        for (int32_t k = 0; node->input[i] >= 0 && k < t->count[node->input[i]]; k++) {
            append(t, out, t->segment[t->first[node->input[i]] + k]);
        }
    }
}

static bool is_depthwise(const struct culm_graph *graph, const struct culm_node_desc *node) {
    return node->op == &culm_op_conv && node->attributes.groups > 1 &&
           culm_input_shape(graph, node, 1)->dim[1] == 1 &&
           node->attributes.groups == channels(graph, node->output[0]);
}

static bool passes_channels(const struct culm_op *op) {
    static const struct culm_op *const pass[] = {
        &culm_op_activation,       &culm_op_maxpool, &culm_op_avgpool, &culm_op_resize,
        &culm_op_adaptive_avgpool, &culm_op_affine,  &culm_op_pad,     &culm_op_add,
        &culm_op_residual,         &culm_op_dropout};
    for (size_t i = 0; i < sizeof pass / sizeof *pass; i++) {
        if (pass[i] == op) {
            return true;
        }
    }
    return false;
}

static void tie_node(struct ties *t, const struct culm_node_desc *node) {
    const struct culm_graph *graph = t->graph;
    int32_t out = node->output[0];
    if (node->op == &culm_op_conv) {
        if (is_depthwise(graph, node)) {
            derive(t, out, node->input[0]);
        } else if (node->attributes.groups > 1) {
            block(t, node->input[0]);
            block(t, out);
        }
    } else if (node->op == &culm_op_batchnorm) {
        derive(t, out, node->input[0]);
        tie(t, node->input[5], out);
    } else if (joins_channels(graph, node)) {
        join(t, node);
    } else if (passes_channels(node->op)) {
        derive(t, out, node->input[0]);
        if (node->op->inputs > 1) {
            tie(t, node->input[1], out);
        }
    } else if (node->op == &culm_op_reshape && graph->value[out].shape.rank == 2 &&
               channels(graph, out) == channels(graph, node->input[0])) {
        derive(t, out, node->input[0]); /* what was pooled to one position */
    } else if (node->op != &culm_op_linear) {
        for (int32_t i = 0; i < node->op->inputs; i++) {
            block(t, node->input[i]);
        }
        for (int32_t i = 0; i < node->op->outputs; i++) {
            block(t, node->output[i]);
        }
    }
}

static void release_ties(struct ties *t) {
    free(t->segment);
    free(t->first);
    free(t->count);
    free(t->up);
    free(t->blocked);
}

/* Release them also after a failure. */
static enum culm_status find_ties(const struct culm_graph *graph, struct ties *t,
                                  struct culm_error *error) {
    const size_t values = (size_t)graph->value_count + 1;
    *t = (struct ties){.graph = graph,
                       .first = calloc(values, sizeof *t->first),
                       .count = calloc(values, sizeof *t->count),
                       .up = malloc(values * sizeof *t->up),
                       .blocked = calloc(values, sizeof *t->blocked)};
    if (!t->first || !t->count || !t->up || !t->blocked) {
        return no_memory(error);
    }
    for (int32_t v = 0; v < graph->value_count; v++) {
        t->up[v] = v;
        t->blocked[v] = graph->value[v].kind != CULM_VALUE_TEMPORARY;
        begin(t, v);
    }
    for (int32_t i = 0; i < graph->node_count && !t->failed; i++) {
        tie_node(t, &graph->node[i]);
    }
    for (int32_t i = 0; i < graph->output_count; i++) {
        block(t, graph->output[i].value);
    }
    return t->failed ? no_memory(error) : CULM_OK;
}

/* Iterates over the segments of a value that belong to a group. *segment starts as -1 and becomes
 * the segment's index, *offset its first channel. False: there are no more. */
static bool next_segment(const struct ties *t, int32_t value, int32_t group, int32_t *segment,
                         int64_t *offset) {
    for (int32_t i = 0, at = t->first[value]; i < t->count[value]; i++) {
        if (i == 0) {
            *offset = 0;
        }
        if (i > *segment && root(t, t->segment[at + i].group) == group) {
            *segment = i;
            return true;
        }
        *offset += t->segment[at + i].count;
    }
    return false;
}

/* --- moving channels --- */

/* Permutes rows of `row` numbers: new row i is old row order[i]. */
static void move_rows(float *data, int64_t rows, int64_t row, const int32_t *order, float *work) {
    memcpy(work, data, (size_t)(rows * row) * sizeof *data);
    for (int64_t i = 0; i < rows; i++) {
        memcpy(data + i * row, work + order[i] * row, (size_t)row * sizeof *data);
    }
}

/* Permutes columns [first, first + count) of [outer, columns, inner]. */
static void move_columns(float *data, int64_t outer, int64_t columns, int64_t inner, int64_t first,
                         int64_t count, const int32_t *order, float *work) {
    for (int64_t o = 0; o < outer; o++) {
        move_rows(data + (o * columns + first) * inner, count, inner, order, work);
    }
}

/* The permutation of the channels of one group. */
struct moving {
    struct culm_merge_model *model;
    const struct ties *ties;
    int32_t group;
    int64_t count;        /* channels */
    const int32_t *order; /* [count] */
    float *work;
};

static float *weight_of(const struct moving *m, const struct culm_node_desc *node, int32_t input) {
    return m->model->aligned[m->model->graph->value[node->input[input]].param];
}

/* Permutes the output channels, from `first` on, of a node that produces them. */
static void move_makers(const struct moving *m, const struct culm_node_desc *node, int64_t first) {
    const struct culm_graph *graph = m->model->graph;
    if (node->op == &culm_op_batchnorm) {
        const int32_t norm = (int32_t)(node - graph->node);
        for (int32_t i = 0; i < CULM_MERGE_NORM_PARAMS; i++) {
            int32_t p = culm_merge_norm_param(graph, norm, i);
            move_rows(m->model->aligned[p] + first, m->count, 1, m->order, m->work);
        }
        return;
    }
    const struct culm_shape *w = culm_input_shape(graph, node, 1);
    const bool conv = node->op == &culm_op_conv;
    if (node->input[2] >= 0) {
        move_rows(weight_of(m, node, 2) + first, m->count, 1, m->order, m->work);
    }
    if (conv || node->attributes.transposed) {
        const int64_t row = w->dim[1] * (conv ? w->dim[2] * w->dim[3] : 1);
        move_rows(weight_of(m, node, 1) + first * row, m->count, row, m->order, m->work);
    } else {
        move_columns(weight_of(m, node, 1), w->dim[0], w->dim[1], 1, first, m->count, m->order,
                     m->work);
    }
}

/* Permutes the input channels, from `first` on, of a layer that reads them. */
static void move_readers(const struct moving *m, const struct culm_node_desc *node, int64_t first) {
    const struct culm_shape *w = culm_input_shape(m->model->graph, node, 1);
    const bool conv = node->op == &culm_op_conv;
    if (conv || node->attributes.transposed) {
        move_columns(weight_of(m, node, 1), w->dim[0], w->dim[1], conv ? w->dim[2] * w->dim[3] : 1,
                     first, m->count, m->order, m->work);
    } else {
        move_rows(weight_of(m, node, 1) + first * w->dim[1], m->count, w->dim[1], m->order,
                  m->work);
    }
}

static void move_node(const struct moving *m, const struct culm_node_desc *node) {
    const bool layer = node->op == &culm_op_conv || node->op == &culm_op_linear;
    const bool makes = layer || node->op == &culm_op_batchnorm;
    const bool reads = layer && !is_depthwise(m->model->graph, node);
    int64_t first = 0;
    for (int32_t at = -1; makes && next_segment(m->ties, node->output[0], m->group, &at, &first);) {
        move_makers(m, node, first);
    }
    for (int32_t at = -1; reads && next_segment(m->ties, node->input[0], m->group, &at, &first);) {
        move_readers(m, node, first);
    }
}

/* --- comparing --- */

/* A layer's output at some positions: [samples, channels], each channel shifted and scaled to mean
 * 0 and length 1, so that products are correlations. */
struct trail {
    float *at;
    int64_t samples, rows;
};

static enum culm_status keep(struct culm_steps *steps, int32_t value, struct trail *trail,
                             struct culm_error *error) {
    const struct culm_shape *shape = &steps->graph->value[value].shape;
    const float *from = culm_steps_value(steps, value);
    int64_t rows = culm_row_count(shape), c = culm_last_dim(shape);
    int64_t samples = rows < SAMPLES ? rows : SAMPLES;
    trail->at = malloc((size_t)(samples * c) * sizeof *trail->at + 4);
    if (!trail->at) {
        return no_memory(error);
    }
    trail->samples = samples;
    trail->rows = rows;
    for (int64_t i = 0; i < samples; i++) {
        memcpy(trail->at + i * c, from + i * rows / samples * c, (size_t)c * sizeof *from);
    }
    for (int64_t k = 0; k < c; k++) {
        double sum = 0, squares = 0;
        for (int64_t i = 0; i < samples; i++) {
            sum += trail->at[i * c + k];
        }
        for (int64_t i = 0; i < samples; i++) {
            double off = trail->at[i * c + k] - sum / (double)samples;
            squares += off * off;
        }
        double by = squares > 1e-20 ? 1 / sqrt(squares) : 0;
        for (int64_t i = 0; i < samples; i++) {
            trail->at[i * c + k] = (float)((trail->at[i * c + k] - sum / (double)samples) * by);
        }
    }
    return CULM_OK;
}

/* Records the trails of all layers of a model, as it is aligned so far. */
static enum culm_status walk(const struct culm_merge_model *model,
                             const struct culm_fit_frames *frames, struct culm_device *device,
                             struct trail *trail, struct culm_error *error) {
    struct culm_steps steps;
    enum culm_status status =
        culm_steps_init(&steps, model, frames->count, frames->image, model->aligned, device, error);
    while (status == CULM_OK && steps.cursor < steps.count) {
        int32_t node = steps.cursor;
        culm_steps_step(&steps);
        for (int32_t l = 0; l < model->layers.count && status == CULM_OK; l++) {
            if (model->layers.layer[l].node == node) {
                status = keep(&steps, model->graph->node[node].output[0], &trail[l], error);
            }
        }
    }
    culm_steps_release(&steps);
    return status;
}

struct pair {
    float alike;
    int32_t a, b;
};

static int by_likeness(const void *x, const void *y) {
    const struct pair *a = x, *b = y;
    if (a->alike != b->alike) {
        return a->alike < b->alike ? 1 : -1;
    }
    return a->a != b->a ? (a->a > b->a) - (a->a < b->a) : (a->b > b->b) - (a->b < b->b);
}

/* Greedily pairs the most similar channels: order[a] = b. */
static enum culm_status match_channels(const float *likeness, int64_t c, int32_t *order,
                                       struct culm_error *error) {
    struct pair *pair = malloc((size_t)(c * c) * sizeof *pair);
    bool *taken = calloc((size_t)c, sizeof *taken);
    enum culm_status status = pair && taken ? CULM_OK : no_memory(error);
    for (int64_t i = 0; i < c * c && status == CULM_OK; i++) {
        pair[i] = (struct pair){likeness[i], (int32_t)(i / c), (int32_t)(i % c)};
    }
    if (status == CULM_OK) {
        qsort(pair, (size_t)(c * c), sizeof *pair, by_likeness);
        for (int64_t a = 0; a < c; a++) {
            order[a] = -1;
        }
        for (int64_t i = 0; i < c * c; i++) {
            if (order[pair[i].a] < 0 && !taken[pair[i].b]) {
                order[pair[i].a] = pair[i].b;
                taken[pair[i].b] = true;
            }
        }
    }
    free(pair);
    free(taken);
    return status;
}

/* --- one model after another --- */

struct aligning {
    struct culm_merge_model *const *models;
    int32_t count;
    const struct culm_share *share;
    const struct culm_fit_frames *frames;
    struct culm_device *device;
    struct trail **trail; /* [models][layers] */
    int32_t *place;       /* [models]: in the order in which they are aligned */
    int64_t moved;
    struct culm_error *error;
};

/* A layer of an earlier model that has the same frames and is in the same instance; NULL: none. */
static const struct culm_member *earlier(const struct aligning *al, int32_t model, int32_t layer) {
    int32_t i = al->share->of[model][layer];
    for (int32_t m = 0; i >= 0 && m < al->share->match.instance[i].count; m++) {
        const struct culm_member *member = &al->share->match.instance[i].member[m];
        if (al->place[member->model] < al->place[model] &&
            al->frames[member->model].image == al->frames[model].image) {
            return member;
        }
    }
    return NULL;
}

/* Adds up the similarity of channels over the layers that produce values of a group. False: there
 * is nothing to compare. */
static bool compare(const struct aligning *al, int32_t k, const struct ties *t, int32_t group,
                    float *likeness, float *work) {
    const struct culm_merge_model *model = al->models[k];
    int64_t c = channels(model->graph, group);
    bool any = false;
    memset(likeness, 0, (size_t)(c * c) * sizeof *likeness);
    for (int32_t l = 0; l < model->layers.count; l++) {
        const int32_t out = model->graph->node[model->layers.layer[l].node].output[0];
        const struct culm_member *other = earlier(al, k, l);
        const struct trail *b = &al->trail[k][l];
        const struct trail *a = other ? &al->trail[other->model][other->layer] : NULL;
        if (!a || !a->at || !b->at || a->rows != b->rows) {
            continue;
        }
        const int64_t width = channels(model->graph, out);
        int64_t first = 0;
        for (int32_t at = -1; next_segment(t, out, group, &at, &first);) {
            CULM_RUN(al->device, gemm, .trans_a = true, .m = c, .n = c, .k = a->samples,
                     .a = a->at + first, .b = b->at + first, .lda = width, .ldb = width, .c = work,
                     .ldc = c);
            for (int64_t i = 0; i < c * c; i++) {
                likeness[i] += work[i];
            }
            any = true;
        }
    }
    return any;
}

static enum culm_status align_group(struct aligning *al, int32_t k, const struct ties *t,
                                    int32_t group) {
    struct culm_merge_model *model = al->models[k];
    int64_t c = channels(model->graph, group), most = c * c;
    for (int32_t p = 0; p < model->param_count; p++) {
        int64_t elements = culm_merge_param_elements(model, p);
        most = elements > most ? elements : most;
    }
    float *likeness = malloc((size_t)(c * c) * sizeof *likeness);
    float *work = malloc((size_t)most * sizeof *work);
    int32_t *order = malloc((size_t)c * sizeof *order);
    enum culm_status status = likeness && work && order ? CULM_OK : no_memory(al->error);
    if (status == CULM_OK && compare(al, k, t, group, likeness, work) &&
        !(status = match_channels(likeness, c, order, al->error))) {
        const struct moving moving = {model, t, group, c, order, work};
        for (int32_t i = 0; i < model->graph->node_count; i++) {
            move_node(&moving, &model->graph->node[i]);
        }
        for (int64_t i = 0; i < c; i++) {
            al->moved += order[i] != i;
        }
    }
    free(likeness);
    free(work);
    free(order);
    return status;
}

static enum culm_status align_model(struct aligning *al, int32_t k) {
    struct culm_merge_model *model = al->models[k];
    struct ties ties = {0};
    enum culm_status status = find_ties(model->graph, &ties, al->error);
    for (int32_t v = 0; v < model->graph->value_count && status == CULM_OK && al->place[k] > 0;
         v++) {
        const bool group = ties.segment[ties.first[v]].group == v && ties.up[v] == v;
        if (group && !ties.blocked[v] && model->graph->value[v].shape.rank > 1) {
            status = align_group(al, k, &ties, v);
        }
    }
    release_ties(&ties);
    return status;
}

static enum culm_status walk_model(struct aligning *al, int32_t k) {
    int32_t layers = al->models[k]->layers.count;
    for (int32_t l = 0; l < layers && al->trail[k]; l++) {
        free(al->trail[k][l].at);
    }
    free(al->trail[k]);
    al->trail[k] = calloc((size_t)layers + 1, sizeof **al->trail);
    return al->trail[k] ? walk(al->models[k], &al->frames[k], al->device, al->trail[k], al->error)
                        : no_memory(al->error);
}

/* Fixed models first, each kind as given. */
static void put_in_order(struct aligning *al, int32_t *order) {
    int32_t next = 0;
    for (int fixed = 1; fixed >= 0; fixed--) {
        for (int32_t k = 0; k < al->count; k++) {
            if (al->models[k]->fixed == fixed) {
                al->place[k] = next;
                order[next++] = k;
            }
        }
    }
}

enum culm_status culm_align(struct culm_merge_model *const *models, int32_t count,
                            const struct culm_share *share, const struct culm_fit_frames *frames,
                            struct culm_device *device, int64_t *ret_moved,
                            struct culm_error *error) {
    struct aligning al = {.models = models,
                          .count = count,
                          .share = share,
                          .frames = frames,
                          .device = device,
                          .trail = calloc((size_t)count + 1, sizeof *al.trail),
                          .error = error};
    int32_t *order = calloc((size_t)count + 1, sizeof *order);
    al.place = calloc((size_t)count + 1, sizeof *al.place);
    enum culm_status status = al.trail && al.place && order ? CULM_OK : no_memory(error);
    if (status == CULM_OK) {
        put_in_order(&al, order);
    }
    for (int32_t i = 0; i < count && status == CULM_OK; i++) {
        const int32_t k = order[i];
        if (models[k]->fixed) {
            status = walk_model(&al, k);
            continue;
        }
        for (int32_t p = 0; p < models[k]->param_count; p++) {
            memcpy(models[k]->aligned[p], models[k]->original[p],
                   4 * (size_t)culm_merge_param_elements(models[k], p));
        }
        if (!(status = walk_model(&al, k)) && !(status = align_model(&al, k))) {
            status = walk_model(&al, k); /* later models are compared with the aligned one */
        }
    }
    for (int32_t k = 0; k < count && al.trail; k++) {
        for (int32_t l = 0; al.trail[k] && l < models[k]->layers.count; l++) {
            free(al.trail[k][l].at);
        }
        free(al.trail[k]);
    }
    free(al.trail);
    free(al.place);
    free(order);
    if (ret_moved) {
        *ret_moved = al.moved;
    }
    return status;
}

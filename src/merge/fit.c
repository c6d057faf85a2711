/* Merging without training. See fit.h. */
#include "merge/fit.h"

#include "graph/ops.h"
#include "merge/objectness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A model being walked. */
struct walker {
    struct culm_merge_model *model;
    struct culm_steps original, merged;
    bool ahead;        /* the original has already executed the operator that `merged` is at */
    int32_t waits;     /* the instance it waits for; -1: none */
    int32_t layer;     /* the layer at the current operator; -1: none */
    int32_t *layer_of; /* [nodes]; -1: not a layer */
    const bool *held;  /* [parameters]: keep their values; NULL: none */
};

struct walk {
    struct walker *walker;
    int32_t count;
    const struct culm_share *share; /* NULL: a single model */
    const struct culm_fit_options *options;
    struct culm_device *device;
    bool *solved; /* [instances] */
    double *harm; /* [instances]; NULL: not wanted */
    struct culm_error *error;
};

static enum culm_status no_memory(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "merging: out of memory");
}

/* --- batch norms --- */

/* Statistics by channel. */
struct channels {
    double *mean, *variance;     /* of what the norm reads now */
    double *wanted, *covariance; /* mean of what the original's reads, and covariance with it */
};

/* x and was are [rows, c]; summed in the order of rows. */
static void measure(const struct channels *of, const float *restrict x, const float *restrict was,
                    int64_t rows, int64_t c) {
    double *restrict mean = of->mean, *restrict wanted = of->wanted;
    double *restrict variance = of->variance, *restrict covariance = of->covariance;
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t k = 0; k < c; k++) {
            mean[k] += x[r * c + k];
            wanted[k] += was[r * c + k];
        }
    }
    for (int64_t k = 0; k < c; k++) {
        mean[k] /= (double)rows;
        wanted[k] /= (double)rows;
    }
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t k = 0; k < c; k++) {
            double d = x[r * c + k] - mean[k];
            variance[k] += d * d;
            covariance[k] += d * (was[r * c + k] - wanted[k]);
        }
    }
    for (int64_t k = 0; k < c; k++) {
        variance[k] /= (double)rows;
        covariance[k] /= (double)rows;
    }
}

/* Fits one batch norm. x: what it reads now; was: what the original's reads. A norm is linear, so
 * what the original's puts out follows from `was` and its own parameters. */
static enum culm_status fit_norm(struct walker *w, const struct culm_node_desc *node,
                                 struct culm_error *error) {
    const struct culm_graph *graph = w->merged.graph;
    const struct culm_shape *shape = culm_input_shape(graph, node, 0);
    int64_t rows = culm_row_count(shape), c = culm_last_dim(shape);
    const float *x = culm_steps_value(&w->merged, node->input[0]);
    const float *was = culm_steps_value(&w->original, node->input[0]);
    float *value[CULM_MERGE_NORM_PARAMS];
    const float *from[CULM_MERGE_NORM_PARAMS];
    for (int i = 0; i < CULM_MERGE_NORM_PARAMS; i++) {
        int32_t p = culm_merge_norm_param(graph, w->merged.cursor, i);
        value[i] = w->model->value[p];
        from[i] = w->model->aligned[p];
    }
    double *room = calloc(4 * (size_t)c, sizeof *room);
    if (!room) {
        return no_memory(error);
    }
    const struct channels of = {room, room + c, room + 2 * c, room + 3 * c};
    measure(&of, x, was, rows, c);
    double eps = node->attributes.eps;
    for (int64_t k = 0; k < c; k++) {
        double gain = from[0][k] / sqrt((double)from[3][k] + eps);
        double slope = of.variance[k] > 1e-12 ? of.covariance[k] * gain / of.variance[k] : 0;
        value[0][k] = (float)(slope * sqrt(of.variance[k] + eps));
        value[1][k] = (float)((of.wanted[k] - from[2][k]) * gain + from[1][k]);
        value[2][k] = (float)of.mean[k];
        value[3][k] = (float)of.variance[k];
    }
    free(room);
    return CULM_OK;
}

/* --- heads --- */

/* The head whose map this operator produces; NULL: none. */
static const struct culm_yolo_head *head_of(const struct walker *w,
                                            const struct culm_node_desc *node) {
    const struct culm_vision_model *vision = w->model->vision;
    for (int32_t h = 0; h < vision->head_count; h++) {
        if (w->merged.graph->output[vision->head[h].output].value == node->output[0]) {
            return &vision->head[h];
        }
    }
    return NULL;
}

/* Least squares pull what is rare towards what is common, which makes a head less confident. Shifts
 * the bias of a private head until as many boxes are likely as in the original. */
static enum culm_status fit_head(const struct walker *w, const struct culm_node_desc *node,
                                 const struct culm_yolo_head *head, struct culm_error *error) {
    const struct culm_vision_layer *layer = &w->model->layers.layer[w->layer];
    const int64_t each = 5 + head->classes;
    const int64_t boxes = culm_elements(&w->merged.graph->value[node->output[0]].shape) / each;
    const float *now = culm_steps_value(&w->merged, node->output[0]);
    const float *was = culm_steps_value(&w->original, node->output[0]);
    float *room = malloc(4 * (size_t)boxes);
    if (!room) {
        return no_memory(error);
    }
    const float by = culm_objectness_shift(now, was, boxes, each, room);
    for (int32_t a = 0; a < head->anchors && layer->bias >= 0; a++) {
        w->model->value[layer->bias][a * each + 4] += by;
    }
    free(room);
    return CULM_OK;
}

/* --- layers --- */

static const struct culm_node_desc *node_of(const struct walker *w) {
    return &w->merged.graph->node[w->merged.cursor];
}

static struct culm_solve_owner owner_of(const struct walker *w) {
    const struct culm_node_desc *node = node_of(w);
    const struct culm_vision_layer *layer = &w->model->layers.layer[w->layer];
    return (struct culm_solve_owner){
        .graph = w->merged.graph,
        .node = node,
        .x = culm_steps_value(&w->merged, node->input[0]),
        .y = culm_steps_value(&w->original, node->output[0]),
        .weight = w->model->aligned[layer->weight],
        .bias = layer->bias >= 0 ? w->model->aligned[layer->bias] : NULL,
        .norm = layer->norm >= 0,
        .importance = 1,
    };
}

/* Solves for the owners' common weights, and stores them in the first owner. */
static enum culm_status solve(struct walk *walk, struct walker *const *owners, int32_t count,
                              double ridge) {
    struct culm_solve_options options = walk->options->solve;
    struct culm_solve_owner *owner = calloc((size_t)count, sizeof *owner);
    enum culm_status status = owner ? CULM_OK : no_memory(walk->error);
    options.ridge = ridge;
    for (int32_t i = 0; i < count && owner; i++) {
        owner[i] = owner_of(owners[i]);
    }
    const struct culm_vision_layer *first = &owners[0]->model->layers.layer[owners[0]->layer];
    if (status == CULM_OK) {
        status =
            culm_solve(owner, count, &options, walk->device, owners[0]->model->value[first->weight],
                       first->bias >= 0 ? owners[0]->model->value[first->bias] : NULL, walk->error);
    }
    free(owner);
    return status;
}

/* A layer that takes another's weights also takes the batch norm behind it, so that a model whose
 * first layers are taken over computes exactly what the other one does. */
static void copy_norms(const struct walk *walk, struct culm_merge_model *const *models,
                       int32_t instance) {
    const struct culm_instance *of = &walk->share->match.instance[instance];
    const struct culm_member *first = culm_share_first(walk->share, instance);
    const struct culm_merge_model *from = models[first->model];
    const int32_t norm = from->layers.layer[first->layer].norm;
    for (int32_t m = 0; m < of->count && norm >= 0; m++) {
        const struct culm_merge_model *to = models[of->member[m].model];
        const int32_t own =
            walk->share->in[instance][m] ? to->layers.layer[of->member[m].layer].norm : -1;
        for (int i = 0; i < CULM_MERGE_NORM_PARAMS && own >= 0 && to != from; i++) {
            const int32_t a = culm_merge_norm_param(from->graph, norm, i);
            const int32_t b = culm_merge_norm_param(to->graph, own, i);
            memcpy(to->value[b], from->aligned[a], 4 * (size_t)culm_merge_param_elements(to, b));
        }
    }
}

static bool held(const struct walker *w, int32_t param) { return w->held && w->held[param]; }

/* Whether the batch norm at hand is not to be fitted: it is held, was copied, or is the one that is
 * copied. */
static bool norm_copied(const struct walk *walk, const struct walker *w, int32_t self) {
    if (held(w, culm_merge_norm_param(w->model->graph, w->merged.cursor, 0))) {
        return true;
    }
    for (int32_t l = 0; l < w->model->layers.count && walk->options->copy; l++) {
        const int32_t instance = w->model->layers.layer[l].norm == w->merged.cursor
                                     ? culm_share_of(walk->share, self, l)
                                     : -1;
        if (instance >= 0) {
            const struct culm_member *first = culm_share_first(walk->share, instance);
            return walk->walker[first->model].model->layers.layer[first->layer].norm >= 0;
        }
    }
    return false;
}

/* Solves for an instance, for those of its models that wait for it. */
static enum culm_status solve_instance(struct walk *walk, int32_t instance) {
    struct walker **owners = calloc((size_t)walk->count, sizeof *owners);
    struct culm_merge_model **models = calloc((size_t)walk->count, sizeof *models);
    enum culm_status status = owners && models ? CULM_OK : no_memory(walk->error);
    int32_t count = 0;
    for (int32_t k = 0; k < walk->count && status == CULM_OK; k++) {
        models[k] = walk->walker[k].model;
        if (walk->walker[k].waits == instance) {
            owners[count++] = &walk->walker[k];
        }
    }
    if (status == CULM_OK && !walk->options->copy) {
        status = solve(walk, owners, count, walk->options->solve.ridge);
    }
    if (status == CULM_OK) {
        /* The first owner to arrive need not be the first member. */
        const struct culm_member *first = culm_share_first(walk->share, instance);
        const struct culm_vision_layer *to = &models[first->model]->layers.layer[first->layer];
        const struct culm_vision_layer *from = &owners[0]->model->layers.layer[owners[0]->layer];
        if (!walk->options->copy && models[first->model] != owners[0]->model) {
            memcpy(models[first->model]->value[to->weight], owners[0]->model->value[from->weight],
                   4 * (size_t)culm_merge_param_elements(owners[0]->model, from->weight));
            if (to->bias >= 0) {
                memcpy(models[first->model]->value[to->bias], owners[0]->model->value[from->bias],
                       4 * (size_t)culm_merge_param_elements(owners[0]->model, from->bias));
            }
        }
        culm_share_copy(walk->share, models, instance);
        if (walk->options->copy) {
            copy_norms(walk, models, instance);
        }
        walk->solved[instance] = true;
    }
    for (int32_t i = 0; i < count; i++) {
        owners[i]->waits = -1;
    }
    free(owners);
    free(models);
    return status;
}

/* How much of y is lost in x: the share of y's variance that remains after the best scale and shift
 * of each channel, averaged over channels. */
static double lost(const float *x, const float *y, int64_t rows, int64_t c) {
    int64_t step = rows > 2048 ? rows / 2048 : 1;
    double harm = 0;
    for (int64_t k = 0; k < c; k++) {
        double n = 0, sx = 0, sy = 0, xx = 0, yy = 0, xy = 0;
        for (int64_t r = 0; r < rows; r += step) {
            double a = x[r * c + k], b = y[r * c + k];
            n++;
            sx += a;
            sy += b;
            xx += a * a;
            yy += b * b;
            xy += a * b;
        }
        double vx = xx / n - sx / n * (sx / n), vy = yy / n - sy / n * (sy / n);
        double cov = xy / n - sx / n * (sy / n);
        harm += vy > 1e-12 ? 1 - (vx > 1e-12 ? cov * cov / (vx * vy) : 0) : 0;
    }
    return harm / (double)c;
}

static double harm_of(const struct walker *w, const struct culm_node_desc *node) {
    const struct culm_shape *shape = &w->merged.graph->value[node->output[0]].shape;
    return lost(culm_steps_value(&w->merged, node->output[0]),
                culm_steps_value(&w->original, node->output[0]), culm_row_count(shape),
                culm_last_dim(shape));
}

/* Executes operators until the model has to wait for others or ends. */
static enum culm_status advance(struct walk *walk, struct walker *w, int32_t self) {
    enum culm_status status = CULM_OK;
    while (w->waits < 0 && w->merged.cursor < w->merged.count && status == CULM_OK) {
        const struct culm_node_desc *node = node_of(w);
        w->layer = w->layer_of[w->merged.cursor];
        if (node->op == &culm_op_batchnorm && !norm_copied(walk, w, self)) {
            /* before executing: what both read may be gone afterwards */
            status = fit_norm(w, node, walk->error);
        }
        if (!w->ahead && status == CULM_OK) {
            culm_steps_step(&w->original);
            w->ahead = true;
        }
        int32_t instance =
            w->layer >= 0 && walk->share ? culm_share_of(walk->share, self, w->layer) : -1;
        if (instance >= 0 && !walk->solved[instance]) {
            w->waits = instance;
            return CULM_OK;
        }
        const bool solves = w->layer >= 0 && instance < 0 && walk->options->private_ridge >= 0 &&
                            !held(w, w->model->layers.layer[w->layer].weight);
        if (solves) {
            status = solve(walk, &w, 1, walk->options->private_ridge);
        }
        if (status == CULM_OK) {
            culm_steps_step(&w->merged);
            w->ahead = false;
            const struct culm_yolo_head *head = solves ? head_of(w, node) : NULL;
            status = head ? fit_head(w, node, head, walk->error) : CULM_OK;
            if (instance >= 0 && walk->harm) {
                double harm = harm_of(w, node);
                walk->harm[instance] = harm > walk->harm[instance] ? harm : walk->harm[instance];
            }
        }
    }
    return status;
}

/* The instance to solve for next: one that all its models wait for, else the first that any model
 * waits for. -1: all models have ended. */
static int32_t next_instance(const struct walk *walk) {
    int32_t any = -1;
    for (int32_t i = 0; i < walk->share->match.count; i++) {
        int32_t waiting = 0;
        for (int32_t k = 0; k < walk->count; k++) {
            waiting += walk->walker[k].waits == i;
        }
        if (waiting > 0 && waiting == culm_share_count(walk->share, i)) {
            return i;
        }
        any = any < 0 && waiting > 0 ? i : any;
    }
    return any;
}

static bool shares(const struct walk *walk, int32_t model) {
    bool any = !walk->share;
    for (int32_t l = 0; l < walk->walker[model].model->layers.count && !any; l++) {
        any = culm_share_of(walk->share, model, l) >= 0;
    }
    return any;
}

/* Models that share nothing are not walked. */
static enum culm_status start(struct walk *walk, struct culm_merge_model *const *models,
                              const struct culm_fit_frames *frames) {
    enum culm_status status = CULM_OK;
    for (int32_t k = 0; k < walk->count && status == CULM_OK; k++) {
        struct walker *w = &walk->walker[k];
        w->model = models[k];
        w->waits = -1;
        if (!shares(walk, k)) {
            continue;
        }
        int32_t nodes = models[k]->graph->node_count;
        w->layer_of = malloc(((size_t)nodes + 1) * sizeof *w->layer_of);
        if (!w->layer_of) {
            return no_memory(walk->error);
        }
        for (int32_t i = 0; i < nodes; i++) {
            w->layer_of[i] = -1;
        }
        for (int32_t l = 0; l < models[k]->layers.count; l++) {
            w->layer_of[models[k]->layers.layer[l].node] = l;
        }
        for (int32_t p = 0; p < models[k]->param_count; p++) {
            if (!held(w, p)) {
                memcpy(models[k]->value[p], models[k]->aligned[p],
                       4 * (size_t)culm_merge_param_elements(models[k], p));
            }
        }
        if ((status = culm_steps_init(&w->original, models[k], frames[k].count, frames[k].image,
                                      models[k]->aligned, walk->device, walk->error)) ||
            (status = culm_steps_init(&w->merged, models[k], frames[k].count, frames[k].image,
                                      models[k]->value, walk->device, walk->error))) {
            return status;
        }
    }
    return status;
}

static void release(struct walk *walk) {
    for (int32_t k = 0; k < walk->count && walk->walker; k++) {
        free(walk->walker[k].layer_of);
        culm_steps_release(&walk->walker[k].original);
        culm_steps_release(&walk->walker[k].merged);
    }
    free(walk->walker);
    free(walk->solved);
}

enum culm_status culm_fit(struct culm_merge_model *const *models, int32_t count,
                          const struct culm_share *share, const struct culm_fit_frames *frames,
                          const struct culm_fit_options *options, struct culm_device *device,
                          double *ret_harm, struct culm_error *error) {
    struct walk walk = {.walker = calloc((size_t)count + 1, sizeof *walk.walker),
                        .count = count,
                        .share = share,
                        .options = options,
                        .device = device,
                        .solved = calloc((size_t)share->match.count + 1, sizeof *walk.solved),
                        .harm = ret_harm,
                        .error = error};
    for (int32_t i = 0; i < share->match.count && ret_harm; i++) {
        ret_harm[i] = 0;
    }
    enum culm_status status =
        walk.walker && walk.solved ? start(&walk, models, frames) : no_memory(error);
    for (bool more = true; more && status == CULM_OK;) {
        for (int32_t k = 0; k < count && status == CULM_OK; k++) {
            status = advance(&walk, &walk.walker[k], k);
        }
        int32_t instance = status == CULM_OK ? next_instance(&walk) : -1;
        more = instance >= 0;
        if (more) {
            status = solve_instance(&walk, instance);
        }
    }
    release(&walk);
    return status;
}

enum culm_status culm_fit_alone(struct culm_merge_model *model,
                                const struct culm_fit_frames *frames, const bool *held_params,
                                const struct culm_fit_options *options, struct culm_device *device,
                                struct culm_error *error) {
    struct walker alone = {.held = held_params};
    struct walk walk = {
        .walker = &alone, .count = 1, .options = options, .device = device, .error = error};
    enum culm_status status = start(&walk, &model, frames);
    status = status == CULM_OK ? advance(&walk, &alone, 0) : status;
    free(alone.layer_of);
    culm_steps_release(&alone.original);
    culm_steps_release(&alone.merged);
    return status;
}

/* --- trials --- */

static void exchange(float *own, float *other, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        const float was = own[i];
        own[i] = other[i];
        other[i] = was;
    }
}

/* Executes the last operator again, first with the trial's weights and then with the model's own,
 * which restores its output. */
static enum culm_status try_layer(struct culm_steps *steps, struct culm_merge_model *model,
                                  struct culm_fit_trial *trial, const float *was,
                                  struct culm_error *error) {
    const struct culm_vision_layer *layer = &model->layers.layer[trial->layer];
    const int32_t value = steps->graph->node[layer->node].output[0];
    const struct culm_shape *shape = &steps->graph->value[value].shape;
    const int64_t weights = culm_merge_param_elements(model, layer->weight);
    const int64_t biases = layer->bias >= 0 ? culm_merge_param_elements(model, layer->bias) : 0;
    float *other = malloc(4 * (size_t)(weights + biases));
    if (!other) {
        return no_memory(error);
    }
    memcpy(other, trial->weight, 4 * (size_t)weights);
    if (biases > 0) {
        memcpy(other + weights, trial->bias, 4 * (size_t)biases);
    }
    for (int again = 0; again < 2; again++) {
        exchange(model->value[layer->weight], other, weights);
        exchange(biases > 0 ? model->value[layer->bias] : NULL, other + weights, biases);
        steps->cursor--;
        culm_steps_step(steps);
        if (!again) {
            trial->harm = lost(culm_steps_value(steps, value), was, culm_row_count(shape),
                               culm_last_dim(shape));
        }
    }
    free(other);
    return CULM_OK;
}

enum culm_status culm_fit_try(struct culm_merge_model *model, const struct culm_fit_frames *frames,
                              struct culm_fit_trial *trials, int32_t count,
                              struct culm_device *device, struct culm_error *error) {
    struct culm_steps steps;
    enum culm_status status =
        culm_steps_init(&steps, model, frames->count, frames->image, model->value, device, error);
    while (status == CULM_OK && steps.cursor < steps.count) {
        const int32_t node = steps.cursor, value = steps.graph->node[node].output[0];
        const size_t bytes = 4 * (size_t)culm_elements(&steps.graph->value[value].shape);
        float *was = NULL;
        culm_steps_step(&steps);
        for (int32_t t = 0; t < count && status == CULM_OK; t++) {
            if (model->layers.layer[trials[t].layer].node != node) {
                continue;
            }
            if (!was && (was = malloc(bytes))) {
                memcpy(was, culm_steps_value(&steps, value), bytes);
            }
            status = was ? try_layer(&steps, model, &trials[t], was, error) : no_memory(error);
        }
        free(was);
    }
    culm_steps_release(&steps);
    return status;
}

/* The symbolic executor. See symbolic.h. */
#include "sim/symbolic.h"

#include "base/rng.h"
#include "ledger/order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLICES 3 /* of each tensor */

struct element {
    uint64_t digest, count;
    uint32_t ids[CULM_IDS_PARTS + 1]; /* no padding */
};

struct symbolic {
    struct culm_exec exec; /* first member */
    const struct culm_layout *layout;
    const struct culm_run_shape *shape;
    struct culm_blob_pool *pool;
    struct culm_symbolic_store *store;
    uint64_t seed, random;
    uint64_t **state; /* [stages][param_count] digests; NULL: none */
    uint64_t **made;  /* the same, as it was made: what `state` must still be */
    /* [stages][param_count * SLICES] of a state that is being copied: each slice has the digest of the whole tensor
     * that it is a part of, and is stepped alone; NULL: none. */
    uint64_t **slice;
    /* Flips. A gradient's stays with its blob, which is kept so that no other takes its place. */
    bool due[CULM_FLIP_COUNT];
    uint64_t flip;
    struct culm_blob *flipped;
    uint64_t
        *normed; /* [param_count] of the gradients that the last norms were taken of; 0: none */
    int64_t flips;
    bool misreads;
    struct culm_order order;
};

/* --- layout --- */

enum culm_status culm_symbolic_layout_new(const struct culm_run_shape *shape,
                                          int32_t params_per_stage,
                                          struct culm_layout *ret_layout) {
    int32_t stages = shape->stages, n = params_per_stage;
    struct culm_layout layout = {.stages = stages};
    layout.param_count = stages * n;
    layout.grad_count = stages * n + 2; /* the tied use, and the statistics */
    layout.stage = calloc((size_t)stages, sizeof *layout.stage);
    layout.grad = calloc((size_t)layout.grad_count, sizeof *layout.grad);
    layout.param = calloc((size_t)layout.param_count, sizeof *layout.param);
    if (!layout.stage || !layout.grad || !layout.param) {
        culm_layout_release(&layout);
        return CULM_ERR_MEMORY;
    }
    int32_t grad = 0;
    for (int32_t s = 0; s < stages; s++) {
        struct culm_stage_desc *stage = &layout.stage[s];
        bool last = s == stages - 1;
        bool tied = last && stages > 1; /* one stage has the tensor once, with two uses */
        int32_t *params = calloc((size_t)n + 1, sizeof *params);
        if (!params) {
            culm_layout_release(&layout);
            return CULM_ERR_MEMORY;
        }
        for (int32_t i = 0; i < n; i++) {
            params[i] = s * n + i;
            layout.param[s * n + i] =
                (struct culm_param_desc){.stages = culm_stage_set_of(s),
                                         .state_bytes = SLICES * sizeof(uint64_t),
                                         .slices = SLICES,
                                         .slice_bytes = sizeof(uint64_t)};
        }
        stage->params = params;
        stage->param_count = n + tied;
        params[n] = 0;
        stage->first_grad = grad;
        stage->reads = s == 0 || last;
        stage->grad_count = n + (last ? 2 : 0);
        for (int32_t i = 0; i < stage->grad_count; i++) {
            int32_t param = i < n ? s * n + i : i == n ? 0 : -1;
            layout.grad[grad++] = (struct culm_grad_desc){
                s, param, (size_t)i * sizeof(struct element), sizeof(struct element)};
        }
        stage->grad_bytes = (size_t)stage->grad_count * sizeof(struct element);
        stage->input_bytes = s > 0 ? sizeof(struct element) : 0;
        stage->output_bytes = last ? 0 : sizeof(struct element);
        stage->activation_bytes = sizeof(struct element);
        stage->state_bytes = (size_t)stage->param_count * sizeof(uint64_t);
    }
    culm_stage_set_add(&layout.param[0].stages, stages - 1);
    *ret_layout = layout;
    return CULM_OK;
}

/* --- store --- */

void culm_symbolic_store_init(struct culm_symbolic_store *store, uint64_t seed,
                              uint32_t fail_percent) {
    *store = (struct culm_symbolic_store){.random = culm_rng_mix(seed, 99),
                                          .fail_percent = fail_percent};
    for (size_t i = 0; i < sizeof store->checkpoint / sizeof *store->checkpoint; i++) {
        store->checkpoint[i].version = -1;
    }
}

static bool is_damaged(const struct culm_symbolic_checkpoint *checkpoint) {
    uint64_t any = 0;
    for (size_t w = 0; w < sizeof checkpoint->damaged / sizeof *checkpoint->damaged; w++) {
        any |= checkpoint->damaged[w];
    }
    return any != 0;
}

static int64_t newest_to(const struct culm_symbolic_store *store, int64_t most) {
    int64_t newest = -1;
    for (size_t i = 0; i < sizeof store->checkpoint / sizeof *store->checkpoint; i++) {
        const struct culm_symbolic_checkpoint *at = &store->checkpoint[i];
        bool whole = at->published && !is_damaged(at) && at->version <= most;
        newest = whole && at->version > newest ? at->version : newest;
    }
    return newest;
}

int64_t culm_symbolic_store_newest(const struct culm_symbolic_store *store) {
    return newest_to(store, INT64_MAX);
}

bool culm_symbolic_store_damage(struct culm_symbolic_store *store, int32_t param) {
    int64_t newest = culm_symbolic_store_newest(store);
    for (size_t i = 0; i < sizeof store->checkpoint / sizeof *store->checkpoint && newest >= 0;
         i++) {
        if (store->checkpoint[i].version == newest) {
            culm_bits_add(store->checkpoint[i].damaged, param);
        }
    }
    return newest >= 0;
}

/* Removes the pieces of one attempt at a version, or all up to that version. */
static void forget_pieces(struct culm_symbolic_store *store, int64_t version,
                          const int32_t *attempt_or_null) {
    int32_t kept = 0;
    for (int32_t i = 0; i < store->piece_count; i++) {
        const struct culm_symbolic_piece *at = &store->piece[i];
        if (attempt_or_null ? at->version != version || at->attempt != *attempt_or_null
                            : at->version > version) {
            store->piece[kept++] = store->piece[i];
        }
    }
    store->piece_count = kept;
}

static bool has_piece(const struct culm_symbolic_store *store, int64_t version, int32_t stage,
                      int32_t node, int32_t attempt) {
    for (int32_t i = 0; i < store->piece_count; i++) {
        const struct culm_symbolic_piece *at = &store->piece[i];
        if (at->version == version && at->stage == stage && at->node == node &&
            at->attempt == attempt) {
            return true;
        }
    }
    return false;
}

/* After `version` was published: the `keep` newest up to it stay, and none of a later step does. */
static void prune(struct culm_symbolic_store *store, int64_t version) {
    forget_pieces(store, version, NULL);
    size_t count = sizeof store->checkpoint / sizeof *store->checkpoint;
    for (size_t i = 0; i < count && store->keep > 0; i++) {
        int64_t newer = 0, self = store->checkpoint[i].version;
        for (size_t k = 0; k < count; k++) {
            int64_t other = store->checkpoint[k].version;
            newer += store->checkpoint[k].published && other > self && other <= version;
        }
        if (newer >= store->keep || self > version) {
            store->checkpoint[i] = (struct culm_symbolic_checkpoint){.version = -1};
        }
    }
}

static struct culm_symbolic_checkpoint *checkpoint_of(struct culm_symbolic_store *store,
                                                      int64_t version, bool create) {
    size_t count = sizeof store->checkpoint / sizeof *store->checkpoint;
    for (size_t i = 0; i < count; i++) {
        if (store->checkpoint[i].version == version) {
            return &store->checkpoint[i];
        }
    }
    for (size_t i = 0; i < count && create; i++) {
        if (store->checkpoint[i].version < 0) {
            store->checkpoint[i] = (struct culm_symbolic_checkpoint){.version = version};
            return &store->checkpoint[i];
        }
    }
    return NULL;
}

/* --- tasks --- */

static enum culm_status wrong(struct culm_task *task, const char *what) {
    return culm_error_set(&task->job.error, CULM_ERR_INTERNAL,
                          "symbolic: %s (kind %d, stage %d, micro %d, step %lld)", what, task->kind,
                          task->stage, task->micro, (long long)task->iteration);
}

static uint64_t mix3(uint64_t a, uint64_t b, uint64_t c) {
    return culm_rng_mix(culm_rng_mix(a, b), c);
}

static uint64_t weights(const struct symbolic *x, int32_t stage) {
    uint64_t digest = 7;
    for (int32_t i = 0; i < x->layout->stage[stage].param_count; i++) {
        digest = culm_rng_mix(digest, x->state[stage][i]);
    }
    return digest;
}

static bool whole(const struct symbolic *x, int32_t stage) {
    size_t bytes = (size_t)x->layout->stage[stage].param_count * sizeof(uint64_t);
    return x->state[stage] && memcmp(x->state[stage], x->made[stage], bytes) == 0;
}

static enum culm_status damaged(struct culm_task *task, int32_t stage, const char *what) {
    task->damaged = true;
    task->stage = stage;
    return culm_error_set(&task->job.error, CULM_ERR_INTERNAL,
                          "%s of stage %d is not what was put into memory", what, stage);
}

static void tell_made(const struct symbolic *x, struct culm_task *task) {
    size_t bytes = (size_t)x->layout->stage[task->stage].param_count * sizeof(uint64_t);
    if (task->state_digest) {
        memcpy(task->state_digest, x->made[task->stage], bytes);
    }
}

/* The first sample that the task's stage is given. */
static uint64_t first_read(const struct symbolic *x, const struct culm_task *task) {
    uint64_t first = culm_run_shape_first_sample(x->shape, task->iteration, task->micro);
    uint64_t global = (uint64_t)x->shape->global_samples;
    if (!x->misreads || !x->layout->stage[task->stage].reads) {
        return first;
    }
    return first >= global ? first - global : first + global;
}

/* What F(stage, micro) of this iteration works on: samples or the activation, the weights, the
 * dropout's key. */
static uint64_t forward_digest(const struct symbolic *x, const struct culm_task *task) {
    uint64_t first = first_read(x, task);
    uint64_t input = task->stage == 0 ? mix3(x->seed, 11, first)
                                      : ((const struct element *)task->input->data)->digest;
    return mix3(mix3(input, weights(x, task->stage), first), (uint64_t)task->stage, 5);
}

static enum culm_status run_forward(struct symbolic *x, struct culm_task *task) {
    if (!x->state[task->stage] || (task->stage > 0 && !task->input)) {
        return wrong(task, "forward without state or input");
    }
    if (task->frc && __atomic_load_n(&task->job.stop, __ATOMIC_RELAXED) && task->cursor < 3) {
        task->cursor++;
        return CULM_ERR_AGAIN;
    }
    uint64_t digest = forward_digest(x, task);
    *(struct element *)task->activations->data = (struct element){.digest = digest, .count = 1};
    if (task->output) {
        *(struct element *)task->output->data =
            (struct element){.digest = mix3(digest, 6, 0), .count = 1};
    }
    return CULM_OK;
}

static struct element sum_of(struct element left, struct element right, uint64_t digest) {
    struct element sum = {.digest = digest, .count = left.count + right.count};
    for (int p = 0; p < CULM_IDS_PARTS; p++) {
        sum.ids[p] = left.ids[p] + right.ids[p];
    }
    return sum;
}

static enum culm_status run_backward(struct symbolic *x, struct culm_task *task) {
    const struct culm_stage_desc *desc = &x->layout->stage[task->stage];
    bool last = task->stage == x->layout->stages - 1;
    if (!x->state[task->stage] || !task->activations || (!last && !task->d_output) ||
        (task->stage > 0 && !task->input)) {
        return wrong(task, "backward without state, activations or gradient");
    }
    uint64_t kept = ((const struct element *)task->activations->data)->digest;
    if (kept != forward_digest(x, task) && whole(x, task->stage)) {
        return wrong(task, "backward with activations of another forward");
    }
    uint64_t above = last ? 17 : ((const struct element *)task->d_output->data)->digest;
    uint64_t digest = mix3(kept, above, 8);
    struct element *grads = task->grads->data;
    uint64_t ids = culm_order_ids(&x->order, first_read(x, task), x->shape->micro_samples);
    for (int32_t i = 0; i < desc->grad_count; i++) {
        uint64_t share = mix3(digest, (uint64_t)(desc->first_grad + i), 9);
        struct element own = {.digest = share, .count = 1};
        for (int p = 0; p < CULM_IDS_PARTS && desc->reads; p++) {
            own.ids[p] = culm_order_ids_part(ids, p);
        }
        grads[i] = task->first ? own : sum_of(grads[i], own, culm_rng_mix(grads[i].digest, share));
    }
    if (task->d_input) {
        *(struct element *)task->d_input->data =
            (struct element){.digest = mix3(digest, 10, 0), .count = 1};
    }
    return CULM_OK;
}

static void fold_copy(void *self, void *out, const void *a, size_t bytes) {
    (void)self;
    memcpy(out, a, bytes);
}

static void fold_add(void *self, void *out, const void *a, const void *b, size_t bytes) {
    (void)self;
    struct element *to = out;
    const struct element *left = a, *right = b;
    for (size_t i = 0; i < bytes / sizeof *to; i++) {
        to[i] = sum_of(left[i], right[i], mix3(left[i].digest, right[i].digest, 12));
    }
}

/* Both uses of the tied parameter, in order; every gradient must count every micro-batch once. */
static enum culm_status total(const struct symbolic *x, struct culm_task *task, int32_t param,
                              uint64_t *ret_digest) {
    uint64_t digest = 13;
    for (int32_t g = 0; g < x->layout->grad_count; g++) {
        if (x->layout->grad[g].param != param) {
            continue;
        }
        if (!task->grad[g]) {
            return wrong(task, "a reduced gradient is missing");
        }
        const struct element *grad = task->grad[g]->data;
        if (grad->count != (uint64_t)x->shape->micros) {
            return wrong(task, "a gradient counts a micro-batch twice or not at all");
        }
        bool flipped = task->grad[g] == x->flipped;
        digest = culm_rng_mix(digest, grad->digest ^ (flipped ? 1ull << x->flip % 64 : 0));
    }
    *ret_digest = digest;
    return CULM_OK;
}

static double positive(uint64_t digest) { return (double)(digest >> 12) * 0x1p-52 + 1.0; }

/* A flip of a gradient that is due comes to pass in one that this task reads. */
static void flip_gradient(struct symbolic *x, enum culm_flip what, const struct culm_task *task,
                          const struct culm_stage_set *stages) {
    if (!x->due[what]) {
        return;
    }
    int32_t count = 0, chosen = -1;
    for (int32_t g = 0; g < x->layout->grad_count; g++) {
        int32_t param = x->layout->grad[g].param;
        if (param >= 0 && task->grad[g] &&
            culm_stage_set_meets(&x->layout->param[param].stages, stages) &&
            culm_rng_mix(x->flip, (uint64_t)g) % (uint64_t)++count == 0) {
            chosen = g;
        }
    }
    if (chosen >= 0) {
        culm_blob_clear(&x->flipped);
        x->flipped = culm_blob_ref(task->grad[chosen]);
        x->due[what] = false;
        x->flips++;
    }
}

static enum culm_status run_norm(struct symbolic *x, struct culm_task *task) {
    flip_gradient(x, CULM_FLIP_GRADIENT, task, &task->stages);
    for (int32_t s = 0; s < x->layout->stages; s++) {
        if (culm_stage_set_has(&task->stages, s) && !whole(x, s)) {
            return damaged(task, s, "the state");
        }
    }
    for (int32_t p = 0; p < x->layout->param_count; p++) {
        uint64_t digest = 0;
        if (!culm_stage_set_meets(&x->layout->param[p].stages, &task->stages)) {
            continue;
        }
        enum culm_status status = total(x, task, p, &digest);
        if (status != CULM_OK) {
            return status;
        }
        task->norm[p] = positive(digest);
        x->normed[p] = digest;
    }
    for (int32_t s = 0; s < x->layout->stages && task->ids; s++) {
        const struct culm_stage_desc *desc = &x->layout->stage[s];
        task->ids[s] = 0;
        if (desc->reads && culm_stage_set_has(&task->stages, s)) {
            const struct element *last = task->grad[desc->first_grad + desc->grad_count - 1]->data;
            task->ids[s] = culm_order_ids_told(last->ids);
        }
    }
    if (culm_stage_set_has(&task->stages, x->layout->stages - 1)) {
        const struct element *statistics = task->grad[x->layout->grad_count - 1]->data;
        task->loss = positive(statistics->digest);
        task->weight = 1;
        task->samples = (int64_t)statistics->count * x->shape->micro_samples;
    }
    return CULM_OK;
}

static uint64_t stepped(uint64_t state, uint64_t grad, const struct culm_task *task) {
    uint64_t clip;
    memcpy(&clip, &task->clip, sizeof clip);
    return mix3(mix3(state, grad, clip), (uint64_t)task->iteration, 14);
}

static enum culm_status run_advance(struct symbolic *x, struct culm_task *task) {
    uint64_t digest = 0;
    enum culm_status status =
        total(x, task, x->layout->stage[task->stage].params[task->index], &digest);
    if (status == CULM_OK && (!x->slice[task->stage] || task->from_slice >= task->to_slice)) {
        status = wrong(task, "nothing has come that could be stepped");
    }
    for (int32_t i = task->from_slice; i < task->to_slice && status == CULM_OK; i++) {
        uint64_t *slice = &x->slice[task->stage][task->index * SLICES + i];
        *slice = stepped(*slice, digest, task);
    }
    return status;
}

static enum culm_status run_step(struct symbolic *x, struct culm_task *task) {
    const struct culm_stage_desc *desc = &x->layout->stage[task->stage];
    const struct culm_stage_set stage = culm_stage_set_of(task->stage);
    flip_gradient(x, CULM_FLIP_APPLIED, task, &stage);
    for (int32_t i = 0; i < desc->param_count; i++) {
        if (i == desc->param_count / 2 && x->exec.world) {
            const struct culm_fault_point point = {CULM_PHASE_STEP, task->iteration, -1};
            x->exec.world->ops->fault(x->exec.world, &point);
        }
        uint64_t digest = 0;
        enum culm_status status = total(x, task, desc->params[i], &digest);
        if (status != CULM_OK) {
            return status;
        }
        if (x->state[task->stage][i] != x->made[task->stage][i]) {
            return damaged(task, task->stage, "the state");
        }
        if (digest != x->normed[desc->params[i]]) {
            return damaged(task, task->stage, "a gradient");
        }
        x->state[task->stage][i] = stepped(x->state[task->stage][i], digest, task);
        if (x->due[CULM_FLIP_RESULT] && i == desc->param_count - 1) {
            x->state[task->stage][i] ^= 1ull << x->flip % 64;
            x->due[CULM_FLIP_RESULT] = false;
            x->flips++;
        }
        x->made[task->stage][i] = x->state[task->stage][i];
    }
    tell_made(x, task);
    return CULM_OK;
}

static uint64_t *state_of(struct symbolic *x, int32_t stage) {
    if (!x->state[stage]) {
        size_t params = (size_t)x->layout->stage[stage].param_count;
        x->state[stage] = calloc(params, sizeof(uint64_t));
        x->made[stage] = calloc(params, sizeof(uint64_t));
        if (!x->made[stage]) {
            free(x->state[stage]);
            x->state[stage] = NULL;
        }
    }
    return x->state[stage];
}

static enum culm_status run_load(struct symbolic *x, struct culm_task *task) {
    const struct culm_stage_desc *desc = &x->layout->stage[task->stage];
    uint64_t *state = state_of(x, task->stage);
    if (!state) {
        return CULM_ERR_MEMORY;
    }
    const struct culm_symbolic_checkpoint *from =
        task->source[0] ? checkpoint_of(x->store, task->version, false) : NULL;
    if (task->source[0] && (!from || !from->published)) {
        return wrong(task, "load of a checkpoint that is not there");
    }
    for (int32_t i = 0; i < desc->param_count; i++) {
        if (from && culm_bits_has(from->damaged, desc->params[i])) {
            return culm_error_set(&task->job.error, CULM_ERR_FORMAT,
                                  "the simulated checkpoint of step %lld is damaged",
                                  (long long)task->version);
        }
        state[i] =
            from ? from->param[desc->params[i]] : mix3(x->seed, 15, (uint64_t)desc->params[i]);
    }
    memcpy(x->made[task->stage], state, (size_t)desc->param_count * sizeof *state);
    tell_made(x, task);
    return CULM_OK;
}

static enum culm_status run_import(struct symbolic *x, struct culm_task *task) {
    const size_t params = (size_t)x->layout->stage[task->stage].param_count;
    if (!x->slice[task->stage]) {
        x->slice[task->stage] = calloc(params * SLICES, sizeof(uint64_t));
    }
    if (!x->slice[task->stage]) {
        return CULM_ERR_MEMORY;
    }
    uint64_t *slice = &x->slice[task->stage][task->index * SLICES + task->from_slice];
    memcpy(slice, task->input->data, sizeof *slice);
    return task->digest == culm_rng_mix(*slice, 16)
               ? CULM_OK
               : wrong(task, "a copied slice has another digest");
}

static enum culm_status run_complete(struct symbolic *x, struct culm_task *task) {
    const int32_t params = x->layout->stage[task->stage].param_count;
    uint64_t *state = state_of(x, task->stage);
    const uint64_t *slice = x->slice[task->stage];
    if (!state || !slice) {
        return state ? wrong(task, "nothing has come that could be complete") : CULM_ERR_MEMORY;
    }
    for (int32_t i = 0; i < params * SLICES; i++) {
        if (slice[i] != slice[i / SLICES * SLICES]) {
            return wrong(task, "slices of one tensor are at different versions");
        }
        state[i / SLICES] = x->made[task->stage][i / SLICES] = slice[i];
    }
    tell_made(x, task);
    return CULM_OK;
}

static enum culm_status run_save(struct symbolic *x, struct culm_task *task) {
    const struct culm_stage_desc *desc = &x->layout->stage[task->stage];
    if (culm_rng_below(&x->store->random, 100) < x->store->fail_percent) {
        return culm_error_set(&task->job.error, CULM_ERR_IO, "no space left on the simulated disk");
    }
    if (x->exec.world) {
        const struct culm_fault_point point = {CULM_PHASE_CHECKPOINT, task->iteration, -1};
        x->exec.world->ops->fault(x->exec.world, &point);
    }
    const uint64_t *state = task->input->data;
    size_t room = sizeof x->store->piece / sizeof x->store->piece[0];
    if (!has_piece(x->store, task->version, task->stage, task->node, task->attempt)) {
        if ((size_t)x->store->piece_count == room) {
            return wrong(task, "the simulated disk is full of pieces");
        }
        x->store->piece[x->store->piece_count++] =
            (struct culm_symbolic_piece){task->version, task->stage, task->node, task->attempt};
    }
    size_t used = (size_t)snprintf(task->text, sizeof task->text, "%d %d", task->stage, task->node);
    for (int32_t i = 0; i < desc->param_count && used < sizeof task->text; i++) {
        used += (size_t)snprintf(task->text + used, sizeof task->text - used, " %016llx",
                                 (unsigned long long)state[i]);
    }
    return used < sizeof task->text ? CULM_OK : wrong(task, "too many parameters for a piece");
}

static enum culm_status run_publish(struct symbolic *x, struct culm_task *task) {
    if (culm_rng_below(&x->store->random, 100) < x->store->fail_percent) {
        return culm_error_set(&task->job.error, CULM_ERR_IO, "cannot rename on the simulated disk");
    }
    struct culm_symbolic_checkpoint *to = checkpoint_of(x->store, task->version, true);
    if (!to) {
        return wrong(task, "the simulated disk holds no more checkpoints");
    }
    /* Another one that leads, or led, may have published it. */
    const bool there = to->published && !is_damaged(to) && !task->weights_only;
    for (int32_t p = 0; p < task->piece_count && !there; p++) {
        char *at = NULL;
        int32_t stage = (int32_t)strtol(task->pieces[p], &at, 10);
        int32_t node = (int32_t)strtol(at, &at, 10);
        if (!has_piece(x->store, task->version, stage, node, task->attempt)) {
            return wrong(task, "a piece is not there");
        }
        for (int32_t i = 0; i < x->layout->stage[stage].param_count; i++) {
            int32_t param = x->layout->stage[stage].params[i];
            uint64_t digest = strtoull(at, &at, 16);
            if (culm_bits_has(to->have, param) && to->param[param] != digest) {
                return wrong(task, "two copies of a tensor differ");
            }
            to->param[param] = digest;
            culm_bits_add(to->have, param);
        }
    }
    if (task->weights_only) {
        *to = (struct culm_symbolic_checkpoint){.version = -1}; /* nothing to go on from */
        x->store->weights = task->version;
        forget_pieces(x->store, task->version, &task->attempt);
        snprintf(task->text, sizeof task->text, "weights-%lld", (long long)task->version);
        return CULM_OK;
    }
    to->published = true;
    memset(to->damaged, 0, sizeof to->damaged); /* written anew */
    if (!x->store->may_prune || x->store->may_prune(x->store->prune_context, &x->exec)) {
        prune(x->store, task->version);
    }
    snprintf(task->text, sizeof task->text, "step-%lld", (long long)task->version);
    return CULM_OK;
}

/* A disk that fails may seem to have room, or to have none. */
static enum culm_status run_room(struct symbolic *x, struct culm_task *task) {
    static const enum culm_room_for room[] = {CULM_ROOM_NOTHING, CULM_ROOM_WEIGHTS, CULM_ROOM_ALL};
    const bool full = x->store->fail_percent >= 100;
    task->room = room[culm_rng_below(&x->store->random, full ? 2 : 3)];
    snprintf(task->text, sizeof task->text, "%s",
             task->held && culm_rng_below(&x->store->random, 2) ? "/elsewhere" : "");
    snprintf(task->note, sizeof task->note, "the simulated disk is full");
    return CULM_OK;
}

static enum culm_status run_discard(struct symbolic *x, const struct culm_task *task) {
    forget_pieces(x->store, task->version, &task->attempt);
    return CULM_OK;
}

static enum culm_status run_finish(struct symbolic *x, struct culm_task *task) {
    const struct culm_symbolic_checkpoint *from =
        checkpoint_of(x->store, strtoll(task->text + strlen("step-"), NULL, 10), false);
    if (!from || !from->published) {
        return wrong(task, "the last checkpoint is not there");
    }
    uint64_t digest = 1;
    for (int32_t p = 0; p < x->layout->param_count; p++) {
        digest = culm_rng_mix(digest, from->param[p]);
    }
    snprintf(task->weights, sizeof task->weights, "%016llx", (unsigned long long)digest);
    snprintf(task->state, sizeof task->state, "%016llx", (unsigned long long)~digest);
    return CULM_OK;
}

static enum culm_status run_find(struct symbolic *x, struct culm_task *task) {
    int64_t newest = newest_to(x->store, task->version);
    task->version = newest < 0 ? 0 : newest;
    task->text[0] = '\0';
    if (newest >= 0) {
        snprintf(task->text, sizeof task->text, "step-%lld", (long long)newest);
    }
    return CULM_OK;
}

static enum culm_status execute(struct culm_exec *exec, struct culm_task *task) {
    struct symbolic *x = (struct symbolic *)exec;
    static const struct culm_fold_ops fold = {fold_copy, fold_add};
    const struct culm_symbolic_store *store = x->store;
    enum culm_status refused = store->refuse ? store->refuse(store->refuse_context, task) : CULM_OK;
    if (refused != CULM_OK) {
        return culm_error_set(&task->job.error, refused, "as it was drawn");
    }
    switch (task->kind) {
    case CULM_TASK_LOAD: return run_load(x, task);
    case CULM_TASK_DROP:
        free(x->state[task->stage]);
        free(x->made[task->stage]);
        free(x->slice[task->stage]);
        x->state[task->stage] = x->made[task->stage] = x->slice[task->stage] = NULL;
        return CULM_OK;
    case CULM_TASK_FORWARD:
    case CULM_TASK_BACKWARD: {
        bool forward = task->kind == CULM_TASK_FORWARD;
        enum culm_status status = forward ? run_forward(x, task) : run_backward(x, task);
        bool damage = status == CULM_OK && task->late && !whole(x, task->stage);
        return damage ? damaged(task, task->stage, "the state") : status;
    }
    case CULM_TASK_FOLD: return culm_task_fold(task, x->pool, &fold, NULL);
    case CULM_TASK_NORM: return run_norm(x, task);
    case CULM_TASK_STEP: return run_step(x, task);
    case CULM_TASK_EXPORT:
        if (x->state[task->stage][task->index] != x->made[task->stage][task->index]) {
            return damaged(task, task->stage, "the state");
        }
        memcpy(task->output->data, &x->state[task->stage][task->index], sizeof(uint64_t));
        task->digest = culm_rng_mix(x->state[task->stage][task->index], 16);
        return CULM_OK;
    case CULM_TASK_IMPORT: return run_import(x, task);
    case CULM_TASK_ADVANCE: return run_advance(x, task);
    case CULM_TASK_COMPLETE: return run_complete(x, task);
    case CULM_TASK_SNAPSHOT:
        if (!whole(x, task->stage)) {
            return damaged(task, task->stage, "the state");
        }
        memcpy(task->output->data, x->state[task->stage], task->output->size_bytes);
        return CULM_OK;
    case CULM_TASK_SAVE: return run_save(x, task);
    case CULM_TASK_PUBLISH: return run_publish(x, task);
    case CULM_TASK_DISCARD: return run_discard(x, task);
    case CULM_TASK_FINISH: return run_finish(x, task);
    case CULM_TASK_FIND: return run_find(x, task);
    case CULM_TASK_ROOM: return run_room(x, task);
    }
    return wrong(task, "unknown task");
}

static const struct culm_exec_ops symbolic_ops = {sizeof symbolic_ops, execute};

struct culm_exec *culm_symbolic_new(const struct culm_layout *layout,
                                    const struct culm_run_shape *shape, struct culm_blob_pool *pool,
                                    struct culm_symbolic_store *store, struct culm_world *world,
                                    uint64_t seed) {
    struct symbolic *x = calloc(1, sizeof *x);
    if (!x) {
        return NULL;
    }
    x->exec = (struct culm_exec){&symbolic_ops, world};
    x->layout = layout;
    x->shape = shape;
    x->pool = pool;
    x->store = store;
    x->seed = seed;
    culm_order_init(&x->order, seed, CULM_SYMBOLIC_SAMPLES);
    x->normed = calloc((size_t)layout->param_count, sizeof *x->normed);
    x->state = calloc((size_t)layout->stages, sizeof *x->state);
    x->made = calloc((size_t)layout->stages, sizeof *x->made);
    x->slice = calloc((size_t)layout->stages, sizeof *x->slice);
    if (!x->normed || !x->state || !x->made || !x->slice) {
        culm_symbolic_free(&x->exec);
        return NULL;
    }
    return &x->exec;
}

void culm_symbolic_free(struct culm_exec *exec) {
    struct symbolic *x = (struct symbolic *)exec;
    for (int32_t s = 0; x && s < x->layout->stages; s++) {
        free(x->state ? x->state[s] : NULL);
        free(x->made ? x->made[s] : NULL);
        free(x->slice ? x->slice[s] : NULL);
    }
    if (x) {
        culm_blob_clear(&x->flipped);
        free(x->normed);
        free(x->state);
        free(x->made);
        free(x->slice);
    }
    free(x);
}

bool culm_symbolic_flip(struct culm_exec *exec, enum culm_flip what, uint64_t random) {
    struct symbolic *x = (struct symbolic *)exec;
    x->flip = random;
    if (what == CULM_FLIP_READER) {
        x->misreads = true;
        return true;
    }
    if (what != CULM_FLIP_STATE) {
        x->due[what] = true;
        return true;
    }
    for (int32_t i = 0; i < x->layout->stages; i++) {
        int32_t s = (int32_t)((random + (uint64_t)i) % (uint64_t)x->layout->stages);
        if (x->state[s] && whole(x, s)) {
            uint64_t params = (uint64_t)x->layout->stage[s].param_count;
            x->state[s][random / 64 % params] ^= 1ull << random % 64;
            x->flips++;
            return true;
        }
    }
    return false;
}

bool culm_symbolic_damaged(const struct culm_exec *exec) {
    const struct symbolic *x = (const struct symbolic *)exec;
    for (int32_t s = 0; s < x->layout->stages; s++) {
        if (x->state[s] && !whole(x, s)) {
            return true;
        }
    }
    return false;
}

int64_t culm_symbolic_flips(const struct culm_exec *exec) {
    return ((const struct symbolic *)exec)->flips;
}

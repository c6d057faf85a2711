/* GEMEL on real models. See search_gemel.h. */
#include "merge/search_gemel.h"

#include "base/buf.h"
#include "merge/answer_samples.h"
#include "merge/checks.h"
#include "merge/gemel.h"
#include "merge/joint.h"
#include "merge/search_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define EPOCHS 10
#define BATCH 2
#define MODELS_MAX CULM_CHECKS_MODELS_MAX

struct work {
    struct culm_search *s;
    struct culm_match match; /* of the models that may be merged */
    int32_t *instance_of;    /* [match.count]: index in the search's match */
    struct culm_match_groups groups;
    struct culm_gemel gemel;
    struct culm_answer_samples *samples; /* [models] */
    float **kept;                        /* [models]: values as last kept */
    float **tried;                       /* [models]: values of the set that is kept; NULL: none */
    /* The current attempt: */
    uint64_t pool;
    int32_t model_of[MODELS_MAX]; /* [parts] */
    int32_t parts;
    float ***value; /* [parts][parameters] */
    struct culm_joint *joint;
    uint64_t sound; /* the models that are kept, as a mask */
};

static uint64_t bit(int32_t model) { return (uint64_t)1 << model; }

static enum culm_status no_memory(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "merging: out of memory");
}

/* --- what there is to share --- */

static enum culm_status find_match(struct work *w, struct culm_error *error) {
    const struct culm_match *all = &w->s->share->match;
    w->match.instance = calloc((size_t)all->count + 1, sizeof *w->match.instance);
    w->instance_of = calloc((size_t)all->count + 1, sizeof *w->instance_of);
    if (!w->match.instance || !w->instance_of) {
        return no_memory(error);
    }
    for (int32_t i = 0; i < all->count; i++) {
        const struct culm_instance *from = &all->instance[i];
        struct culm_instance *to = &w->match.instance[w->match.count];
        *to = (struct culm_instance){.signature = from->signature, .bytes = from->bytes};
        to->member = calloc((size_t)from->count, sizeof *to->member);
        if (!to->member) {
            return no_memory(error);
        }
        for (int32_t m = 0; m < from->count; m++) {
            if (w->s->may[from->member[m].model]) {
                to->member[to->count++] = from->member[m];
            }
        }
        if (to->count > 1) {
            w->instance_of[w->match.count++] = i;
        } else {
            free(to->member);
        }
    }
    return CULM_OK;
}

/* Makes `models` share instance i. */
static void share(const struct work *w, int32_t i, uint64_t models) {
    int32_t own = w->instance_of[i];
    const struct culm_instance *instance = &w->s->share->match.instance[own];
    for (int32_t m = 0; m < instance->count; m++) {
        w->s->share->in[own][m] =
            __builtin_popcountll(models) > 1 && models >> instance->member[m].model & 1;
    }
}

/* --- samples --- */

static int32_t query_of(const struct culm_search *s, int32_t model) {
    for (int32_t q = 0; q < s->query_count; q++) {
        if (s->query[q].model == model) {
            return q;
        }
    }
    return -1;
}

static enum culm_status prepare(struct work *w, int32_t model, struct culm_error *error) {
    struct culm_search *s = w->s;
    const struct culm_merge_frames *frames = &s->frames[model];
    int32_t q = query_of(s, model);
    w->kept[model] = culm_merge_model_save(s->models[model]);
    if (!w->kept[model]) {
        return no_memory(error);
    }
    if (q < 0 || !s->may[model]) {
        return CULM_OK;
    }
    struct culm_answer_samples *samples = &w->samples[model];
    const struct culm_merge_model *own = s->models[model];
    enum culm_status status =
        culm_answer_samples_init(samples, frames, culm_elements(&own->graph->field[0].shape),
                                 own->vision->classes, BATCH, error);
    samples->input = &own->vision->input;
    return status == CULM_OK
               ? culm_judge_answer(s->query[q].judge, own->original, frames, samples->answer, error)
               : status;
}

/* --- an attempt --- */

static void end_attempt(struct work *w) {
    culm_joint_free(w->joint);
    w->joint = NULL;
    for (int32_t i = 0; i < w->parts && w->value; i++) {
        free(w->value[i]);
    }
    free(w->value);
    w->value = NULL;
    w->parts = 0;
    for (int32_t k = 0; k < w->s->count; k++) {
        free(w->tried[k]);
        w->tried[k] = NULL;
    }
}

/* Copies the weights of the first member of each instance to all others. */
static void copy_shared(const struct work *w) {
    for (int32_t i = 0; i < w->match.count; i++) {
        if (culm_share_count(w->s->share, w->instance_of[i]) > 1) {
            culm_share_copy(w->s->share, w->s->models, w->instance_of[i]);
        }
    }
}

static enum culm_status begin_attempt(struct work *w, struct culm_error *error) {
    struct culm_search *s = w->s;
    struct culm_joint_part part[MODELS_MAX] = {0};
    w->pool = culm_gemel_pool(&w->gemel);
    w->sound = 0;
    for (int32_t k = 0; k < s->count; k++) {
        culm_merge_model_restore(s->models[k], w->kept[k]);
    }
    for (int32_t i = 0; i < w->match.count; i++) {
        share(w, i, culm_gemel_shared(&w->gemel, i) & w->pool);
    }
    copy_shared(w);
    s->ops->attempt(s->ctx, s->round + 1, w->gemel.attempts, s, "train");
    w->value = calloc((size_t)s->count + 1, sizeof *w->value);
    for (int32_t k = 0; k < s->count && w->value; k++) {
        if (!(w->pool >> k & 1)) {
            continue;
        }
        int32_t i = w->parts++;
        w->model_of[i] = k;
        w->value[i] = culm_share_addresses(s->share, s->models, k);
        if (!w->value[i]) {
            return no_memory(error);
        }
        part[i] = (struct culm_joint_part){
            .model = s->models[k]->vision,
            .value = w->value[i],
            .samples = {&w->samples[k], s->frames[k].count, culm_answer_samples_get}};
    }
    if (!w->value) {
        return no_memory(error);
    }
    const struct culm_joint_config config = {
        .optimizer = {.name = CULM_OPTIMIZER_SGD,
                      .lr = s->config->lr,
                      .momentum = 0.9,
                      .weight_decay = 5e-4},
        .aim = CULM_JOINT_ANSWERS,
        .batch = BATCH,
        .seed = s->config->seed + (uint64_t)w->gemel.attempts,
    };
    return culm_joint_new(&config, part, w->parts, s->device, &w->joint, error);
}

/* --- looks --- */

/* *ret_share: the smallest share of its target that a query of the model reaches. */
static enum culm_status look_at(struct work *w, int32_t model, bool tell, double *ret_share,
                                struct culm_error *error) {
    struct culm_search *s = w->s;
    *ret_share = HUGE_VAL;
    for (int32_t q = 0; q < s->query_count; q++) {
        struct culm_search_query *query = &s->query[q];
        if (query->model != model) {
            continue;
        }
        if (s->ops->stop(s->ctx)) {
            return culm_error_set(error, CULM_ERR_STOPPED, "stopped; continue with --resume");
        }
        enum culm_status status = culm_judge_now(query->judge, s->models[model]->value,
                                                 &query->check, query->wanted, &query->now, error);
        if (status != CULM_OK) {
            return status;
        }
        double asked = query->target * query->original;
        double share = asked > 0 ? query->now / asked : 1;
        *ret_share = share < *ret_share ? share : *ret_share;
        if (tell) {
            s->ops->check(s->ctx, s->round + 1, query, query->now >= asked);
        }
    }
    return CULM_OK;
}

static uint64_t models_in(const struct work *w, uint64_t parts) {
    uint64_t models = 0;
    for (int32_t i = 0; i < w->parts; i++) {
        models |= parts >> i & 1 ? bit(w->model_of[i]) : 0;
    }
    return models;
}

static int64_t worth(void *ctx, uint64_t parts) {
    const struct work *w = ctx;
    return culm_gemel_worth(&w->gemel, models_in(w, parts));
}

/* Whether two members of an instance have equal weights. */
static bool alike(const struct work *w, const struct culm_member *a, const struct culm_member *b) {
    const struct culm_merge_model *one = w->s->models[a->model], *other = w->s->models[b->model];
    const struct culm_vision_layer *from = &one->layers.layer[a->layer];
    const struct culm_vision_layer *to = &other->layers.layer[b->layer];
    size_t weight = sizeof(float) * (size_t)culm_merge_param_elements(one, from->weight);
    size_t bias =
        from->bias < 0 ? 0 : sizeof(float) * (size_t)culm_merge_param_elements(one, from->bias);
    return memcmp(one->value[from->weight], other->value[to->weight], weight) == 0 &&
           (!bias || memcmp(one->value[from->bias], other->value[to->bias], bias) == 0);
}

/* The largest subset of `models` that have equal weights in an instance. */
static uint64_t most_alike(const struct work *w, int32_t i, uint64_t models) {
    const struct culm_instance *instance = &w->match.instance[i];
    uint64_t best = 0;
    for (int32_t m = 0; m < instance->count; m++) {
        uint64_t set = 0;
        for (int32_t n = 0; n < instance->count && models >> instance->member[m].model & 1; n++) {
            if (models >> instance->member[n].model & 1 &&
                alike(w, &instance->member[m], &instance->member[n])) {
                set |= bit(instance->member[n].model);
            }
        }
        best = __builtin_popcountll(set) > __builtin_popcountll(best) ? set : best;
    }
    return best;
}

static void copy_layer(const struct work *w, const struct culm_member *from,
                       const struct culm_member *to) {
    const struct culm_merge_model *a = w->s->models[from->model], *b = w->s->models[to->model];
    const struct culm_vision_layer *x = &a->layers.layer[from->layer];
    const struct culm_vision_layer *y = &b->layers.layer[to->layer];
    memcpy(b->value[y->weight], a->value[x->weight],
           sizeof(float) * (size_t)culm_merge_param_elements(b, y->weight));
    if (y->bias >= 0) {
        memcpy(b->value[y->bias], a->value[x->bias],
               sizeof(float) * (size_t)culm_merge_param_elements(b, y->bias));
    }
}

/* Copies the instance's weights in the first model of `from` to all models of `to`. */
static void spread(const struct work *w, int32_t i, uint64_t to, uint64_t from) {
    const struct culm_instance *instance = &w->match.instance[i];
    int32_t first = 0;
    while (!(from >> instance->member[first].model & 1)) {
        first++;
    }
    for (int32_t m = 0; m < instance->count; m++) {
        if (m != first && to >> instance->member[m].model & 1) {
            copy_layer(w, &instance->member[first], &instance->member[m]);
        }
    }
}

/* Sets up what would ship if only `set` succeeded: models in `set` as they are now, all others as
 * last kept, except for the confirmed layers that they share with `set`. */
static void put_set(struct work *w, float *const *now, uint64_t set) {
    struct culm_search *s = w->s;
    for (int32_t k = 0; k < s->count; k++) {
        culm_merge_model_restore(s->models[k], set >> k & 1 ? now[k] : w->kept[k]);
    }
    for (int32_t i = 0; i < w->match.count; i++) {
        uint64_t old = w->gemel.confirmed[i];
        uint64_t models = old | (culm_gemel_shared(&w->gemel, i) & set);
        if (w->gemel.fixed && models & set) {
            spread(w, i, models, models & set);
            share(w, i, models);
        } else {
            share(w, i, most_alike(w, i, models));
        }
    }
}

/* Reduces `met` to the models that may be kept, given that those they share confirmed layers with
 * have to cope with the new weights (culm_gemel_sound). Leaves models and share as put_set. */
static enum culm_status find_sound(struct work *w, float *const *now, uint64_t met,
                                   uint64_t *ret_sound, struct culm_error *error) {
    uint64_t set = met;
    for (bool changed = true; changed;) {
        uint64_t held = 0;
        put_set(w, now, set);
        for (int32_t k = 0; k < w->s->count && w->gemel.fixed; k++) {
            double share = 0;
            if (!(w->pool & ~set & bit(k))) {
                continue;
            }
            enum culm_status status = look_at(w, k, false, &share, error);
            if (status != CULM_OK) {
                return status;
            }
            held |= share >= 1 ? bit(k) : 0;
        }
        uint64_t sound = culm_gemel_sound(&w->gemel, set, held);
        changed = sound != set;
        set = sound;
    }
    *ret_sound = set;
    return CULM_OK;
}

/* A better set than before has met its targets: keeps it and ships it at once. The models then go
 * on training from where they were. */
static enum culm_status keep(struct work *w, uint64_t parts, struct culm_error *error) {
    struct culm_search *s = w->s;
    float **now = calloc((size_t)s->count + 1, sizeof *now);
    uint64_t set = 0;
    enum culm_status status = now ? CULM_OK : no_memory(error);
    for (int32_t k = 0; k < s->count && status == CULM_OK; k++) {
        now[k] = culm_merge_model_save(s->models[k]);
        status = now[k] ? CULM_OK : no_memory(error);
    }
    if (status == CULM_OK) {
        status = find_sound(w, now, models_in(w, parts), &set, error);
    }
    if (status == CULM_OK && __builtin_popcountll(set) > 1 &&
        (!w->gemel.fixed || culm_gemel_worth(&w->gemel, set) > 0)) {
        for (int32_t k = 0; k < s->count && status == CULM_OK; k++) {
            free(w->tried[k]);
            w->tried[k] = culm_merge_model_save(s->models[k]);
            status = w->tried[k] ? CULM_OK : no_memory(error);
        }
        w->sound = set;
        if (status == CULM_OK && culm_share_saved(s->share) > 0) {
            status = s->ops->ship(s->ctx, ++s->round, error);
        }
    }
    for (int32_t k = 0; k < s->count && now; k++) {
        if (now[k]) {
            culm_merge_model_restore(s->models[k], now[k]);
        }
        free(now[k]);
    }
    free(now);
    for (int32_t i = 0; i < w->match.count; i++) {
        share(w, i, culm_gemel_shared(&w->gemel, i) & w->pool);
    }
    return status;
}

static enum culm_status look(struct work *w, struct culm_checks *checks, struct culm_error *error) {
    enum culm_status status = CULM_OK;
    int32_t part;
    copy_shared(w);
    while (status == CULM_OK && (part = culm_checks_next(checks)) >= 0) {
        double share = 0;
        status = look_at(w, w->model_of[part], true, &share, error);
        culm_checks_saw(checks, part, share);
    }
    return status == CULM_OK && culm_checks_looked(checks)
               ? keep(w, culm_checks_kept(checks), error)
               : status;
}

static enum culm_status train(struct work *w, struct culm_checks *checks,
                              struct culm_error *error) {
    struct culm_search *s = w->s;
    const int64_t batches = culm_checks_batches(checks);
    const int64_t all = (int64_t)(checks->config.epochs * (double)checks->config.epoch_batches);
    enum culm_status status = CULM_OK;
    double loss = 0;
    for (int32_t i = 0; i < w->parts; i++) {
        culm_joint_weight(w->joint, i, culm_checks_weight(checks, i));
    }
    for (int64_t b = 0; b < batches && status == CULM_OK && isfinite(loss); b++) {
        if (s->ops->stop(s->ctx)) {
            return culm_error_set(error, CULM_ERR_STOPPED, "stopped; continue with --resume");
        }
        status = culm_joint_run(w->joint, 1, &loss, error);
        s->ops->step(s->ctx, checks->trained + b + 1, all, loss);
    }
    culm_checks_trained(checks, batches, isfinite(loss));
    return status;
}

/* The parts, nearest to their targets first. */
static void sort_parts(const struct work *w, const struct culm_checks *checks, int32_t *ret_model) {
    int32_t order[MODELS_MAX];
    for (int32_t i = 0; i < w->parts; i++) {
        int32_t at = i;
        for (; at > 0 && checks->model[order[at - 1]].accuracy < checks->model[i].accuracy; at--) {
            order[at] = order[at - 1];
        }
        order[at] = i;
    }
    for (int32_t i = 0; i < w->parts; i++) {
        ret_model[i] = w->model_of[order[i]];
    }
}

static enum culm_status attempt(struct work *w, struct culm_error *error) {
    struct culm_checks checks;
    struct culm_checks_config config = {.epochs = w->s->config->steps > 0 ? EPOCHS : 0};
    enum culm_status status = begin_attempt(w, error);
    if (status != CULM_OK) {
        return status;
    }
    config.models = w->parts;
    config.epoch_batches = culm_joint_epoch_batches(w->joint);
    config.worth = w->gemel.fixed ? worth : NULL;
    config.ctx = w;
    for (int32_t i = 0; i < w->parts; i++) {
        config.target[i] = 1;
    }
    culm_checks_begin(&checks, &config);
    while (status == CULM_OK && culm_checks_state_of(&checks) == CULM_CHECKS_GOING) {
        status = look(w, &checks, error);
        if (status == CULM_OK && culm_checks_state_of(&checks) == CULM_CHECKS_GOING) {
            if (search_late(w->s)) {
                break;
            }
            status = train(w, &checks, error);
        }
    }
    for (int32_t k = 0; k < w->s->count && status == CULM_OK && w->sound; k++) {
        free(w->kept[k]);
        w->kept[k] = w->tried[k];
        w->tried[k] = NULL;
    }
    if (status == CULM_OK) {
        int32_t nearest[MODELS_MAX];
        sort_parts(w, &checks, nearest);
        culm_gemel_tried(&w->gemel, w->sound, nearest, w->parts);
    }
    return status;
}

/* --- going on in another process --- */

#define STATE "culm-gemel-search-1"
#define STATE_MAX ((size_t)1 << 40)

static size_t floats_of(const struct culm_merge_model *model) {
    size_t all = 0;
    for (int32_t p = 0; p < model->param_count; p++) {
        all += (size_t)culm_merge_param_elements(model, p);
    }
    return all;
}

/* Stores what has been tried so far and the values every model was last kept with. */
static enum culm_status save(const struct work *w, struct culm_error *error) {
    const struct culm_search *s = w->s;
    struct culm_buf out, text;
    if (!s->ops->keep) {
        return CULM_OK;
    }
    culm_buf_init(&out, STATE_MAX);
    culm_buf_init(&text, STATE_MAX);
    enum culm_status status = culm_gemel_write(&w->gemel, &text, error);
    culm_buf_string(&out, STATE);
    culm_buf_i32(&out, s->round);
    culm_buf_u64(&out, text.len);
    culm_buf_bytes(&out, text.data, text.len);
    for (int32_t k = 0; k < s->count; k++) {
        size_t floats = floats_of(s->models[k]);
        culm_buf_u64(&out, floats);
        culm_buf_bytes(&out, w->kept[k], floats * sizeof **w->kept);
    }
    if (status == CULM_OK) {
        status = out.failed ? no_memory(error) : s->ops->keep(s->ctx, out.data, out.len, error);
    }
    culm_buf_release(&out);
    culm_buf_release(&text);
    return status;
}

/* False: the state belongs to another search; only w->kept may have changed. */
static bool read_state(struct work *w, const void *data, size_t len) {
    struct culm_reader in = culm_reader_of(data, len);
    char format[sizeof STATE];
    culm_read_string(&in, format, sizeof format);
    int32_t round = culm_read_i32(&in);
    uint64_t text_len = culm_read_u64(&in);
    if (in.failed || strcmp(format, STATE) != 0 || round < w->s->round || round > INT32_MAX / 2 ||
        text_len > in.len - in.at) {
        return false;
    }
    const char *text = (const char *)in.data + in.at;
    in.at += text_len;
    for (int32_t k = 0; k < w->s->count; k++) {
        size_t floats = floats_of(w->s->models[k]);
        if (culm_read_u64(&in) != floats) {
            return false;
        }
        culm_read_bytes(&in, w->kept[k], floats * sizeof **w->kept);
    }
    if (!culm_reader_done(&in) || culm_gemel_read(&w->gemel, text, text_len, NULL) != CULM_OK) {
        return false;
    }
    w->s->round = round;
    return true;
}

static enum culm_status load(struct work *w, struct culm_error *error) {
    struct culm_search *s = w->s;
    void *data = NULL;
    size_t len = 0;
    enum culm_status status = s->ops->recall ? s->ops->recall(s->ctx, &data, &len, error) : CULM_OK;
    for (int32_t k = 0; status == CULM_OK && data && k < s->count; k++) {
        culm_merge_model_revert(s->models[k]);
    }
    if (status == CULM_OK && data && !read_state(w, data, len)) {
        for (int32_t k = 0; k < s->count && status == CULM_OK; k++) { /* start over */
            free(w->kept[k]);
            w->kept[k] = culm_merge_model_save(s->models[k]);
            status = w->kept[k] ? CULM_OK : no_memory(error);
        }
    }
    free(data);
    return status;
}

/* --- all of it --- */

/* Leaves models and share as shipped. In the published version a model that shares a confirmed
 * layer may have been left behind with older weights; it does not share, then. */
static void finish(struct work *w) {
    struct culm_search *s = w->s;
    for (int32_t k = 0; k < s->count; k++) {
        culm_merge_model_restore(s->models[k], w->kept[k]);
    }
    for (int32_t i = 0; i < w->match.count; i++) {
        share(w, i, most_alike(w, i, w->gemel.confirmed[i]));
    }
}

static void release(struct work *w) {
    int32_t count = w->s->count;
    end_attempt(w);
    for (int32_t k = 0; k < count; k++) {
        culm_answer_samples_release(&w->samples[k]);
        free(w->kept[k]);
    }
    free(w->samples);
    free(w->kept);
    free(w->tried);
    free(w->instance_of);
    culm_gemel_release(&w->gemel);
    culm_match_groups_release(&w->groups);
    culm_match_release(&w->match);
}

enum culm_status culm_search_gemel(struct culm_search *search, struct culm_error *error) {
    const bool fixed = search->config->method == CULM_MERGE_GEMEL_FIXED;
    if (search->count > MODELS_MAX) {
        return culm_error_set(error, CULM_ERR_UNSUPPORTED,
                              "merge.method: '%s' merges at most %d models; `culm` merges more",
                              culm_merge_method_names[search->config->method], MODELS_MAX);
    }
    const size_t count = (size_t)search->count + 1;
    struct work w = {.s = search,
                     .samples = calloc(count, sizeof *w.samples),
                     .kept = calloc(count, sizeof *w.kept),
                     .tried = calloc(count, sizeof *w.tried)};
    if (!w.samples || !w.kept || !w.tried) {
        free(w.samples);
        free(w.kept);
        free(w.tried);
        return no_memory(error);
    }
    enum culm_status status = CULM_OK;
    for (int32_t k = 0; k < search->count && status == CULM_OK; k++) {
        status = prepare(&w, k, error);
    }
    if (status != CULM_OK || (status = find_match(&w, error)) ||
        (status = culm_match_find_groups(&w.match, !fixed, &w.groups, error)) ||
        (status = culm_gemel_begin(&w.gemel, &w.match, &w.groups, fixed, error)) ||
        (status = load(&w, error))) {
        release(&w);
        return status;
    }
    while (status == CULM_OK && !culm_gemel_over(&w.gemel) && !search_late(search)) {
        status = attempt(&w, error);
        end_attempt(&w);
        status = status == CULM_OK ? save(&w, error) : status;
    }
    finish(&w);
    release(&w);
    return status;
}

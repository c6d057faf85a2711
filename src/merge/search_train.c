/*
 * Joint training of what is shared, towards what the originals say.
 *
 * Every step takes samples of every model, as many of each as its pictures are small. What is checked
 * is the mean of the weights of the last steps, which is better than any of them and as good as what a
 * smaller rate would come to later. What meets its targets ships at once, without the models that do
 * not; training goes on for these, and for something to spare. A model that would not get there in the
 * steps that are left, by how it came nearer so far, lets layers go: those that save least for what they
 * lost. They go on from the numbers that they shared.
 */
#include "merge/joint.h"
#include "merge/search_parts.h"

#include "base/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define RATE 2e-3    /* where every model takes FULL samples; the root of that for fewer */
#define FULL 32      /* samples */
#define GENTLE 0.07  /* of the rate, where no layer leaves: what is near is not to be spoilt */
#define WARM_UP 20   /* steps after which the rate is the full one */
#define AVERAGE 0.98 /* of the mean of weights, kept in a step */
#define CHECKS 12    /* at least */
#define HISTORY 3    /* checks by which it is judged how a model comes nearer */
#define SPARE 0.5    /* of what may be lost: when there is enough to spare */
#define PIXELS 25088 /* of a step, of each model */
#define EACH_MIN 4   /* samples */
#define EACH_MAX 64
#define SMALL 4096              /* pixels of a picture that has many variants */
#define ROOM ((int64_t)1 << 30) /* bytes of what originals said, of all models */

/* --- samples --- */

/* Every frame comes as it is, and moved by a little, each second time mirrored. */
struct samples {
    const struct culm_merge_frames *frames;
    int64_t h, w, c, variants;
    uint64_t seed;
};

static int64_t inside(int64_t at, int64_t count) {
    return at < 0 ? 0 : at < count ? at : count - 1;
}

static enum culm_status get(void *ctx, int64_t sample, float *ret_image,
                            struct culm_wanted *ret_wanted, struct culm_error *error) {
    const struct samples *from = ctx;
    const int64_t variant = sample / from->frames->count, one = from->h * from->w * from->c;
    const float *frame = from->frames->image + sample % from->frames->count * one;
    (void)error;
    *ret_wanted = (struct culm_wanted){.label = -1};
    if (variant == 0) {
        memcpy(ret_image, frame, 4 * (size_t)one);
        return CULM_OK;
    }
    uint64_t random = culm_rng_mix(from->seed, (uint64_t)sample);
    const int64_t reach = from->w / 14 > 0 ? from->w / 14 : 1;
    const int64_t dy = (int64_t)culm_rng_below(&random, (uint64_t)(2 * reach + 1)) - reach;
    const int64_t dx = (int64_t)culm_rng_below(&random, (uint64_t)(2 * reach + 1)) - reach;
    for (int64_t y = 0; y < from->h; y++) {
        for (int64_t x = 0; x < from->w; x++) {
            int64_t fx = inside(x + dx, from->w);
            fx = variant % 2 ? from->w - 1 - fx : fx;
            memcpy(ret_image + (y * from->w + x) * from->c,
                   frame + (inside(y + dy, from->h) * from->w + fx) * from->c, 4 * (size_t)from->c);
        }
    }
    return CULM_OK;
}

/* --- models with one address for each shared tensor --- */

struct training {
    struct culm_search *s;
    const double *harm; /* NULL: no layer leaves */
    int64_t steps;
    struct samples *samples;            /* [models] */
    struct culm_joint_answers *answers; /* [models] */
    struct culm_joint *joint;
    struct culm_joint_part *part; /* of the models that share something */
    float ***value;               /* [parts][parameters] */
    int32_t parts;
    double rate;
    int64_t taken; /* steps of this joint: its optimizer began anew, so the first are small */
    double (*seen)[HISTORY]; /* [models]: ratios, the last first */
    int32_t looks;           /* of this joint */
    int32_t group;           /* attempts at training so far */
};

static void part_ways(struct training *t) {
    culm_joint_free(t->joint);
    for (int32_t i = 0; i < t->parts && t->value; i++) {
        free(t->value[i]);
    }
    t->joint = NULL;
    t->parts = 0;
    t->taken = 0;
    t->looks = 0;
}

static void release(struct training *t) {
    part_ways(t);
    for (int32_t k = 0; k < t->s->count && t->answers; k++) {
        free(t->answers[k].value);
        free(t->answers[k].known);
    }
    free(t->samples);
    free(t->answers);
    free(t->part);
    free(t->value);
    free(t->seen);
}

static enum culm_status prepare(struct training *t, struct culm_error *error) {
    struct culm_search *s = t->s;
    const size_t count = (size_t)s->count + 1;
    t->samples = calloc(count, sizeof *t->samples);
    t->answers = calloc(count, sizeof *t->answers);
    t->part = calloc(count, sizeof *t->part);
    t->value = calloc(count, sizeof *t->value);
    t->seen = calloc(count, sizeof *t->seen);
    if (!t->samples || !t->answers || !t->part || !t->value || !t->seen) {
        return search_no_memory(error);
    }
    for (int32_t k = 0; k < s->count; k++) {
        const int64_t *dim = s->models[k]->graph->field[0].shape.dim;
        t->samples[k] = (struct samples){.frames = &s->frames[k],
                                         .h = dim[1],
                                         .w = dim[2],
                                         .c = dim[3],
                                         .variants = dim[1] * dim[2] <= SMALL ? 8 : 2,
                                         .seed = s->config->seed};
    }
    return CULM_OK;
}

static int64_t each_of(const struct samples *samples) {
    int64_t each = PIXELS / (samples->h * samples->w);
    return each < EACH_MIN ? EACH_MIN : each > EACH_MAX ? EACH_MAX : each;
}

static enum culm_status join(struct training *t, uint64_t seed, struct culm_error *error) {
    struct culm_search *s = t->s;
    int64_t least = FULL;
    for (int32_t k = 0; k < s->count; k++) {
        if (!search_shares(s, k)) {
            continue;
        }
        struct samples *samples = &t->samples[k];
        least = each_of(samples) < least ? each_of(samples) : least;
        if (!(t->value[t->parts] = culm_share_addresses(s->share, s->models, k))) {
            return search_no_memory(error);
        }
        t->part[t->parts] = (struct culm_joint_part){
            .model = s->models[k]->vision,
            .value = t->value[t->parts],
            .original = (const float *const *)s->models[k]->aligned,
            .samples = {samples, samples->frames->count * samples->variants, get},
            .each = each_of(samples),
            .room = ROOM / s->count,
            .answers = &t->answers[k]};
        t->parts++;
    }
    t->rate = RATE * sqrt((double)least / FULL) * (t->harm ? 1 : GENTLE);
    const struct culm_joint_config config = {.optimizer = {.name = CULM_OPTIMIZER_ADAM,
                                                           .lr = t->rate,
                                                           .beta1 = 0.9,
                                                           .beta2 = 0.99,
                                                           .eps = 1e-8},
                                             .aim = CULM_JOINT_OUTPUTS,
                                             .batch = 1,
                                             .average = AVERAGE,
                                             .seed = seed};
    return culm_joint_new(&config, t->part, t->parts, s->device, &t->joint, error);
}

static void copy_shared(const struct culm_search *s) {
    for (int32_t i = 0; i < s->share->match.count; i++) {
        if (culm_share_count(s->share, i) > 1) {
            culm_share_copy(s->share, s->models, i);
        }
    }
}

/* --- steps --- */

static enum culm_status learn(struct training *t, int64_t step, int64_t count,
                              struct culm_error *error) {
    struct culm_search *s = t->s;
    const int64_t steps = t->steps;
    enum culm_status status = CULM_OK;
    for (int64_t i = 0; i < count && status == CULM_OK; i++, step++) {
        double loss, part = (double)step / (double)steps;
        if (search_stopped(s)) {
            return search_stop(error);
        }
        double warm = t->taken < WARM_UP ? (double)(t->taken + 1) / WARM_UP : 1;
        t->taken++;
        culm_joint_rate(t->joint, t->rate * warm * (1 - 0.95 * part));
        status = culm_joint_run(t->joint, 1, &loss, error);
        s->ops->step(s->ctx, step + 1, steps, loss);
    }
    return status;
}

/* --- who gets there --- */

static void note(struct training *t) {
    for (int32_t k = 0; k < t->s->count; k++) {
        memmove(&t->seen[k][1], &t->seen[k][0], (HISTORY - 1) * sizeof t->seen[k][0]);
        t->seen[k][0] = search_ratio(t->s, k);
    }
    t->looks++;
}

/* Whether a model that misses its target would not meet it within half of the checks that are left. */
static bool hopeless(const struct training *t, int32_t model, int64_t left) {
    const double *seen = t->seen[model];
    if (!search_shares(t->s, model) || seen[0] >= 1 || t->looks < HISTORY) {
        return false;
    }
    double nearer = (seen[0] - seen[HISTORY - 1]) / (HISTORY - 1);
    return nearer <= 0 || (1 - seen[0]) / nearer > (double)left / 2;
}

static double worth(const struct training *t, int32_t i) {
    const struct culm_instance *instance = &t->s->share->match.instance[i];
    return (double)instance->bytes / (t->harm[i] * t->harm[i] + 1e-6);
}

/* Of the layers that a model shares, the one that is worth least leaves; false: it shares none. */
static bool leave(struct training *t, int32_t model, int64_t *gone) {
    struct culm_share *share = t->s->share;
    int32_t worst = -1, member = -1;
    for (int32_t i = 0; i < share->match.count; i++) {
        const struct culm_instance *instance = &share->match.instance[i];
        for (int32_t m = 0; m < instance->count && culm_share_count(share, i) > 1; m++) {
            if (instance->member[m].model == model && share->in[i][m] &&
                (worst < 0 || worth(t, i) < worth(t, worst))) {
                worst = i;
                member = m;
            }
        }
    }
    if (worst >= 0) {
        share->in[worst][member] = false;
        *gone += share->match.instance[worst].bytes;
    }
    return worst >= 0;
}

/* A tenth of a model's layers. */
static void let_go(struct training *t, int32_t model) {
    const struct culm_merge_model *own = t->s->models[model];
    int64_t bytes = 0, gone = 0;
    for (int32_t l = 0; l < own->layers.count; l++) {
        bytes += t->s->share->of[model][l] >= 0 ? own->layers.layer[l].bytes : 0;
    }
    while (gone * 10 < bytes && leave(t, model, &gone)) {
    }
}

/* *ret_left: whether layers left; then training begins anew with what is still shared. */
static enum culm_status give_up_some(struct training *t, int64_t step, int64_t left, bool *ret_left,
                                     struct culm_error *error) {
    struct culm_search *s = t->s;
    *ret_left = false;
    for (int32_t k = 0; k < s->count; k++) {
        if (hopeless(t, k, left)) {
            let_go(t, k);
            *ret_left = true;
        }
    }
    if (!*ret_left || culm_share_saved(s->share) == 0) {
        return CULM_OK;
    }
    search_revert_alone(s);
    part_ways(t);
    s->ops->attempt(s->ctx, s->round + 1, ++t->group, s, "train");
    return join(t, s->config->seed + (uint64_t)step, error);
}

/* --- the whole --- */

static enum culm_status go(struct training *t, struct search_state *shipped,
                           struct culm_error *error) {
    struct culm_search *s = t->s;
    int64_t steps = t->steps, every = steps / CHECKS > 10 ? steps / CHECKS : 10, met = 0;
    enum culm_status status = CULM_OK;
    for (int64_t step = 0, count; step < steps && status == CULM_OK; step += count) {
        double least;
        bool left = false;
        count = steps - step < every ? steps - step : every;
        if ((status = learn(t, step, count, error))) {
            break;
        }
        culm_joint_exchange(t->joint);
        copy_shared(s);
        if ((status = search_check(s, &least, error)) ||
            (status = search_offer(s, shipped, error))) {
            break;
        }
        note(t);
        if (least >= 1) {
            const struct culm_search_query *query = s->query;
            bool spare = true;
            for (int32_t q = 0; q < s->query_count; q++) {
                double enough = query[q].target + SPARE * (1 - query[q].target);
                spare = spare && (!search_shares(s, query[q].model) ||
                                  query[q].now >= enough * query[q].original);
            }
            if (spare || ++met > CHECKS / 2) {
                break;
            }
        } else if (t->harm && step + count >= steps / 4) {
            status = give_up_some(t, step + count, (steps - step - count) / every, &left, error);
        }
        if (s->ops->late(s->ctx) || culm_share_saved(s->share) < shipped->bytes ||
            culm_share_saved(s->share) == 0) {
            break;
        }
        if (!left) {
            culm_joint_exchange(t->joint);
        }
    }
    return status;
}

enum culm_status search_train(struct culm_search *s, const double *harm, int64_t steps,
                              struct search_state *shipped, struct culm_error *error) {
    struct training t = {.s = s, .harm = harm, .steps = steps};
    enum culm_status status = prepare(&t, error);
    if (status == CULM_OK && !(status = join(&t, s->config->seed, error))) {
        status = go(&t, shipped, error);
    }
    release(&t);
    return status;
}

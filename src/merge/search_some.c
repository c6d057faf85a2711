/* Sharing only some of what a model could share. See search_some.h. */
#include "merge/search_some.h"

#include "merge/fit.h"
#include "merge/search_parts.h"
#include "merge/search_walks.h"

#include <stdlib.h>
#include <string.h>

#define HOPELESS 0.7 /* share of a layer's output from which on losing it is not worth a try */
#define GIVE_UP_TRIES 8
#define CLOSE 0.05 /* share of the bytes that is not worth another try */

struct trying {
    struct culm_search *s;
    const struct search_some *some;
    struct culm_merge_model *own;
    float **given; /* [parameters]: weights to take over; NULL: none, it is the model's own */
    struct culm_fit_trial *trial;
    int32_t count, *order; /* of trials, best first */
    bool *held;
    char *share; /* with all layers that may share */
    char *best_share;
    float *best;
    double *best_now; /* [queries] */
    int64_t bytes;    /* of the best */
};

static void release(struct trying *t) {
    for (int32_t p = 0; p < t->own->param_count && t->given; p++) {
        free(t->given[p]);
    }
    free(t->given);
    free(t->trial);
    free(t->order);
    free(t->held);
    free(t->share);
    free(t->best_share);
    free(t->best);
    free(t->best_now);
}

static bool keep_given(struct trying *t, int32_t param) {
    const size_t bytes = 4 * (size_t)culm_merge_param_elements(t->own, param);
    t->given[param] = malloc(bytes + 1);
    if (t->given[param]) {
        memcpy(t->given[param], t->own->value[param], bytes);
    }
    return t->given[param] != NULL;
}

static void align_back(const struct trying *t) {
    for (int32_t p = 0; p < t->own->param_count; p++) {
        memcpy(t->own->value[p], t->own->aligned[p],
               4 * (size_t)culm_merge_param_elements(t->own, p));
    }
}

static enum culm_status prepare(struct trying *t, struct culm_error *error) {
    const struct culm_vision_layers *layers = &t->own->layers;
    const size_t params = (size_t)t->own->param_count + 1, most = (size_t)layers->count + 1;
    t->given = calloc(params, sizeof *t->given);
    t->held = calloc(params, sizeof *t->held);
    t->trial = calloc(most, sizeof *t->trial);
    t->order = calloc(most, sizeof *t->order);
    t->best_now = calloc((size_t)t->s->query_count + 1, sizeof *t->best_now);
    t->share = culm_share_text(t->s->share);
    bool made = t->given && t->held && t->trial && t->order && t->best_now && t->share;
    for (int32_t l = 0; l < layers->count && made; l++) {
        const struct culm_vision_layer *layer = &layers->layer[l];
        if (!t->some->may[l]) {
            continue;
        }
        made = keep_given(t, layer->weight) && (layer->bias < 0 || keep_given(t, layer->bias));
        if (made) {
            t->trial[t->count++] =
                (struct culm_fit_trial){.layer = l,
                                        .weight = t->given[layer->weight],
                                        .bias = layer->bias >= 0 ? t->given[layer->bias] : NULL};
        }
    }
    align_back(t);
    return made ? CULM_OK : search_no_memory(error);
}

static int64_t bytes_of(const struct trying *t, int32_t trial) {
    return t->own->layers.layer[t->trial[trial].layer].bytes;
}

/* The loss is squared since small losses leave the answers as they are. */
static double worth(const struct trying *t, int32_t trial) {
    const double harm = t->trial[trial].harm;
    return (double)bytes_of(t, trial) / (harm * harm + 1e-6);
}

/* The layers that are worth a try, best first. */
static int32_t sort(const struct trying *t) {
    int32_t count = 0;
    for (int32_t i = 0; i < t->count; i++) {
        int32_t at = count;
        if (t->trial[i].harm > HOPELESS) {
            continue;
        }
        for (; at > 0 && worth(t, t->order[at - 1]) < worth(t, i); at--) {
            t->order[at] = t->order[at - 1];
        }
        t->order[at] = i;
        count++;
    }
    return count;
}

/* Shares the first `count` of the order, and makes the rest of the model fit these. */
static enum culm_status take(struct trying *t, int32_t count, struct culm_error *error) {
    const struct culm_vision_layers *layers = &t->own->layers;
    culm_share_put(t->s->share, t->share);
    memset(t->held, 0, (size_t)t->own->param_count);
    for (int32_t i = 0; i < count; i++) {
        t->held[layers->layer[t->trial[t->order[i]].layer].weight] = true;
    }
    align_back(t);
    for (int32_t i = 0; i < t->count; i++) {
        const struct culm_vision_layer *layer = &layers->layer[t->trial[i].layer];
        if (!t->held[layer->weight]) {
            culm_share_exit(t->s->share, (struct culm_member){t->some->model, t->trial[i].layer});
            continue;
        }
        memcpy(t->own->value[layer->weight], t->given[layer->weight],
               4 * (size_t)culm_merge_param_elements(t->own, layer->weight));
        if (layer->bias >= 0) {
            memcpy(t->own->value[layer->bias], t->given[layer->bias],
                   4 * (size_t)culm_merge_param_elements(t->own, layer->bias));
            t->held[layer->bias] = true;
        }
    }
    search_attempt(t->s, "some");
    return search_fit_alone(t->s, t->some->model, t->held, error);
}

static enum culm_status keep_best(struct trying *t, int64_t bytes, struct culm_error *error) {
    free(t->best);
    free(t->best_share);
    t->best = culm_merge_model_save(t->own);
    t->best_share = culm_share_text(t->s->share);
    t->bytes = bytes;
    for (int32_t q = 0; q < t->s->query_count; q++) {
        t->best_now[q] = t->s->query[q].now;
    }
    return t->best && t->best_share ? CULM_OK : search_no_memory(error);
}

/* What the model is in the end. */
static void settle(const struct trying *t) {
    for (int32_t q = 0; q < t->s->query_count; q++) {
        struct culm_search_query *query = &t->s->query[q];
        if (query->model == t->some->model) {
            query->now = t->best ? t->best_now[q] : query->original;
        }
    }
    if (t->best) {
        culm_share_put(t->s->share, t->best_share);
        culm_merge_model_restore(t->own, t->best);
        return;
    }
    culm_share_put(t->s->share, t->share);
    for (int32_t i = 0; i < t->count; i++) {
        culm_share_exit(t->s->share, (struct culm_member){t->some->model, t->trial[i].layer});
    }
    align_back(t);
}

/* The number of layers whose bytes come nearest to the middle between `low` and `high` of them. */
static int32_t between(const struct trying *t, const int64_t *sum, int32_t low, int32_t high) {
    int32_t middle = low + 1;
    while (middle + 1 < high && 2 * sum[middle] < sum[low] + sum[high]) {
        middle++;
    }
    (void)t;
    return middle;
}

static enum culm_status halve(struct trying *t, int32_t count, const int64_t *sum,
                              struct culm_error *error) {
    struct culm_search *s = t->s;
    int32_t low = 0, high = count + 1; /* too many */
    enum culm_status status = CULM_OK;
    for (int32_t i = 0;
         i < t->some->tries && high - low > 1 && status == CULM_OK && !search_late(s); i++) {
        const int32_t next = i == 0 ? count : between(t, sum, low, high);
        if (i > 0 && (double)(sum[high - 1] - sum[low]) < CLOSE * (double)sum[count]) {
            break;
        }
        if (search_stopped(s)) {
            return search_stop(error);
        }
        if ((status = take(t, next, error)) ||
            (status = search_check_model(s, t->some->model, error))) {
            break;
        }
        if (search_ratio(s, t->some->model) < 1) {
            high = next;
            continue;
        }
        low = next;
        status = keep_best(t, sum[next], error);
        if (status == CULM_OK && t->some->found) {
            status = t->some->found(t->some->ctx, error);
        }
    }
    return status;
}

enum culm_status search_some(struct culm_search *s, const struct search_some *some,
                             int64_t *ret_bytes, struct culm_error *error) {
    struct trying t = {.s = s, .some = some, .own = s->models[some->model]};
    int64_t *sum = calloc((size_t)t.own->layers.count + 2, sizeof *sum);
    enum culm_status status = sum ? prepare(&t, error) : search_no_memory(error);
    if (status == CULM_OK && t.count > 0) {
        status = search_try_layers(s, some->model, t.trial, t.count, error);
    }
    if (status == CULM_OK) {
        const int32_t worth_it = sort(&t);
        int32_t count = 0;
        for (; count < worth_it; count++) {
            sum[count + 1] = sum[count] + bytes_of(&t, t.order[count]);
            if (some->most > 0 && sum[count + 1] > some->most) {
                break;
            }
        }
        sum[count + 1] = sum[count];
        status = count > 0 ? halve(&t, count, sum, error) : CULM_OK;
    }
    if (status == CULM_OK) {
        settle(&t);
    }
    *ret_bytes = t.bytes;
    release(&t);
    free(sum);
    return status;
}

enum culm_status culm_search_give_up(struct culm_search *s, int32_t model, int64_t most,
                                     int64_t *ret_bytes, struct culm_error *error) {
    const struct culm_merge_model *own = s->models[model];
    bool *may = calloc((size_t)own->layers.count + 1, sizeof *may);
    if (!may) {
        return search_no_memory(error);
    }
    for (int32_t l = 0; l < own->layers.count; l++) {
        may[l] = culm_share_with(s->share, (struct culm_member){model, l});
    }
    const struct search_some some = {
        .model = model, .may = may, .most = most, .tries = GIVE_UP_TRIES};
    const enum culm_status status = search_some(s, &some, ret_bytes, error);
    free(may);
    return status;
}

/* States, checks and shipping. See search_parts.h. */
#include "merge/search_parts.h"

#include "vision/agree.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SPARE 0.5  /* share of what may be lost */
#define MARGIN 0.5 /* standard errors */

enum culm_status search_no_memory(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "merging: out of memory");
}

void search_state_release(struct search_state *state, int32_t count) {
    for (int32_t k = 0; k < count && state->saved; k++) {
        free(state->saved[k]);
    }
    free(state->saved);
    free(state->share);
    free(state->now);
    *state = (struct search_state){.own = state->own, .whole = state->whole};
}

enum culm_status search_save(const struct culm_search *s, struct search_state *state,
                             struct culm_error *error) {
    search_state_release(state, s->count);
    state->saved = calloc((size_t)s->count + 1, sizeof *state->saved);
    state->share = culm_share_text(s->share);
    state->bytes = culm_share_saved(s->share);
    state->now = calloc((size_t)s->query_count + 1, sizeof *state->now);
    bool ok = state->saved && state->share && state->now;
    for (int32_t q = 0; q < s->query_count && ok; q++) {
        state->now[q] = s->query[q].now;
    }
    for (int32_t k = 0; k < s->count && ok; k++) {
        if (!state->own || state->own[k]) {
            state->saved[k] = culm_merge_model_save(s->models[k]);
            ok = state->saved[k] != NULL;
        }
    }
    if (!ok) {
        search_state_release(state, s->count);
        return search_no_memory(error);
    }
    return CULM_OK;
}

void search_restore(const struct culm_search *s, const struct search_state *state) {
    for (int32_t k = 0; k < s->count; k++) {
        if (state->saved[k]) {
            culm_merge_model_restore(s->models[k], state->saved[k]);
        }
    }
    culm_share_put(s->share, state->share);
}

void search_attempt(struct culm_search *s, const char *way) {
    s->ops->attempt(s->ctx, s->round + 1, s->tried++, s, way);
}

bool search_shares(const struct culm_search *s, int32_t model) {
    return culm_share_any(s->share, model);
}

void search_revert_alone(const struct culm_search *s) {
    for (int32_t k = 0; k < s->count; k++) {
        if (!search_shares(s, k)) {
            culm_merge_model_revert(s->models[k]);
        }
    }
}

bool search_stopped(const struct culm_search *s) { return s->ops->stop(s->ctx); }

double search_until(const struct culm_search *s) {
    return s->until > 0 && s->until < 1 ? s->until : 1;
}

bool search_late(const struct culm_search *s) { return s->ops->spent(s->ctx) >= search_until(s); }

enum culm_status search_stop(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_STOPPED, "stopped; continue with --resume");
}

/* The least accuracy that a query may have, with the margin. */
static double least_of(const struct culm_search *s, const struct culm_search_query *query) {
    const double t = query->target, may_go = fmax(1 - t, 0);
    const double error = sqrt(fmax(t, 0) * may_go / (double)(query->check.count + 1));
    const double margin =
        s->config->method == CULM_MERGE_CULM ? fmin(MARGIN * error, SPARE * may_go) : 0;
    return (t + margin) * query->original;
}

static double ratio_of(const struct culm_search *s, const struct culm_search_query *query) {
    return query->now / least_of(s, query);
}

double search_ratio(const struct culm_search *s, int32_t model) {
    double least = HUGE_VAL;
    for (int32_t q = 0; q < s->query_count; q++) {
        if (s->query[q].model == model) {
            least = fmin(least, ratio_of(s, &s->query[q]));
        }
    }
    return least;
}

/* --- objectness of detectors --- */

/* What may be added to the objectness of all boxes, smallest change first. */
static const float surer[] = {0, 0.25F, -0.25F, 0.5F, -0.5F, 0.75F, 1, 1.5F, 2};
#define SURER ((int32_t)(sizeof surer / sizeof surer[0]))

/* The layer that produces a head's map; NULL if it is shared or has no bias. */
static const struct culm_vision_layer *own_head(const struct culm_search *s, int32_t model,
                                                int32_t head) {
    const struct culm_merge_model *own = s->models[model];
    const int32_t value = own->graph->output[own->vision->head[head].output].value;
    for (int32_t l = 0; l < own->layers.count; l++) {
        const struct culm_vision_layer *layer = &own->layers.layer[l];
        if (own->graph->node[layer->node].output[0] == value) {
            return layer->bias >= 0 && culm_share_of(s->share, model, l) < 0 ? layer : NULL;
        }
    }
    return NULL;
}

static bool may_be_surer(const struct culm_search *s, int32_t model) {
    bool may =
        s->config->method == CULM_MERGE_CULM && s->models[model]->vision->kind == CULM_ANSWER_BOXES;
    for (int32_t h = 0; h < s->models[model]->vision->head_count && may; h++) {
        may = own_head(s, model, h) != NULL;
    }
    for (int32_t q = 0; q < s->query_count; q++) {
        may = may && (s->query[q].model != model || !s->query[q].check.label);
    }
    return may;
}

static void make_surer(const struct culm_search *s, int32_t model, float by) {
    for (int32_t h = 0; h < s->models[model]->vision->head_count; h++) {
        const struct culm_yolo_head *head = &s->models[model]->vision->head[h];
        float *bias = s->models[model]->value[own_head(s, model, h)->bias];
        for (int32_t a = 0; a < head->anchors; a++) {
            bias[a * (5 + head->classes) + 4] += by;
        }
    }
}

/* How many boxes a query may report for each one of its original after an adjustment. */
#define TOLD_MOST 1.25

static int64_t boxes_of_original(const struct culm_search_query *query) {
    int64_t boxes = 0;
    for (int64_t i = 0; i < query->check.count; i++) {
        boxes += query->wanted[i].box_count;
    }
    return boxes;
}

/* Average precision hardly punishes wrong boxes that rank below the right ones, so their number has
 * to be limited separately. */
static bool few_enough(int64_t told, int64_t told_as_is, int64_t original) {
    return told <= told_as_is || (double)told <= TOLD_MOST * (double)original;
}

/* Adjusts the objectness of a detector's heads, and with it checks its queries: boxes just above
 * the score threshold are easily lost. Takes the smallest change that leaves something to spare,
 * else the one with the best accuracy; never one that makes a query report too many boxes. */
static enum culm_status check_surer(struct culm_search *s, int32_t model,
                                    struct culm_error *error) {
    double *accuracy = calloc((size_t)s->query_count * SURER + 1, sizeof *accuracy);
    double most = -1, least[SURER], spare[SURER];
    int64_t told[SURER];
    bool few[SURER];
    int32_t best = 0;
    enum culm_status status = accuracy ? CULM_OK : search_no_memory(error);
    for (int32_t i = 0; i < SURER; i++) {
        least[i] = spare[i] = HUGE_VAL;
        few[i] = true;
    }
    for (int32_t q = 0; q < s->query_count && status == CULM_OK; q++) {
        const struct culm_search_query *query = &s->query[q];
        double *of = &accuracy[q * SURER];
        if (query->model != model) {
            continue;
        }
        status = culm_judge_surer(query->judge, s->models[model]->value, &query->check,
                                  query->wanted, surer, SURER, of, told, error);
        for (int32_t i = 0; i < SURER && status == CULM_OK; i++) {
            few[i] = few[i] && few_enough(told[i], told[0], boxes_of_original(query));
            least[i] = fmin(least[i], of[i] / least_of(s, query));
            spare[i] = fmin(spare[i], of[i] / search_enough(query));
        }
    }
    for (int32_t i = 0; i < SURER && most < HUGE_VAL; i++) {
        if (few[i] && (spare[i] >= 1 || least[i] > most)) {
            best = i;
            most = spare[i] >= 1 ? HUGE_VAL : least[i];
        }
    }
    for (int32_t q = 0; q < s->query_count && status == CULM_OK; q++) {
        s->query[q].now = s->query[q].model == model ? accuracy[q * SURER + best] : s->query[q].now;
    }
    if (status == CULM_OK && surer[best] != 0) {
        make_surer(s, model, surer[best]);
    }
    free(accuracy);
    return status;
}

double search_enough(const struct culm_search_query *query) {
    return (query->target + SPARE * (1 - query->target)) * query->original;
}

/* A model that check_surer has adjusted has its accuracy already. */
static enum culm_status check_query(struct culm_search *s, struct culm_search_query *query,
                                    struct culm_error *error) {
    if (search_stopped(s)) {
        return search_stop(error);
    }
    enum culm_status status =
        may_be_surer(s, query->model)
            ? CULM_OK
            : culm_judge_now(query->judge, s->models[query->model]->value, &query->check,
                             query->wanted, &query->now, error);
    if (status == CULM_OK) {
        s->ops->check(s->ctx, s->round + 1, query, ratio_of(s, query) >= 1);
    }
    return status;
}

enum culm_status search_check(struct culm_search *s, double *ret_least, struct culm_error *error) {
    enum culm_status status = CULM_OK;
    *ret_least = HUGE_VAL;
    for (int32_t k = 0; k < s->count && status == CULM_OK; k++) {
        if (!search_shares(s, k) || !may_be_surer(s, k)) {
            continue;
        }
        status = search_stopped(s) ? search_stop(error) : check_surer(s, k, error);
    }
    for (int32_t q = 0; q < s->query_count && status == CULM_OK; q++) {
        struct culm_search_query *query = &s->query[q];
        if (search_shares(s, query->model) && !(status = check_query(s, query, error))) {
            *ret_least = fmin(*ret_least, ratio_of(s, query));
        }
    }
    return status;
}

enum culm_status search_check_model(struct culm_search *s, int32_t model,
                                    struct culm_error *error) {
    enum culm_status status = may_be_surer(s, model) ? check_surer(s, model, error) : CULM_OK;
    for (int32_t q = 0; q < s->query_count && status == CULM_OK; q++) {
        status = s->query[q].model == model ? check_query(s, &s->query[q], error) : CULM_OK;
    }
    return status;
}

/* Whether a query's model gives its original's answers. */
static enum culm_status query_equals(const struct culm_search *s,
                                     const struct culm_search_query *query, bool *ret_equal,
                                     struct culm_error *error) {
    struct culm_answer *said = calloc((size_t)query->check.count + 1, sizeof *said);
    enum culm_status status = said ? culm_judge_answer(query->judge, s->models[query->model]->value,
                                                       &query->check, said, error)
                                   : search_no_memory(error);
    *ret_equal = status == CULM_OK;
    for (int64_t i = 0; i < query->check.count && said; i++) {
        if (*ret_equal) {
            const struct culm_agreement of = culm_agreement_of(
                &said[i], &query->wanted[i], query->judge->score, query->check.size[i].width);
            *ret_equal = of.missed == 0 && of.added == 0;
        }
        culm_answer_release(&said[i]);
    }
    free(said);
    return status;
}

enum culm_status search_equals(const struct culm_search *s, int32_t model, bool *ret_equal,
                               struct culm_error *error) {
    enum culm_status status = CULM_OK;
    *ret_equal = true;
    for (int32_t q = 0; q < s->query_count && status == CULM_OK && *ret_equal; q++) {
        if (s->query[q].model == model) {
            status = query_equals(s, &s->query[q], ret_equal, error);
        }
    }
    return status;
}

/* --- what ships --- */

/* Puts in the models and instances of other groups as they are in the whole. */
static void put_others(const struct culm_search *s, const struct search_state *group) {
    for (int32_t k = 0; k < s->count; k++) {
        if (!group->own[k]) {
            culm_merge_model_restore(s->models[k], group->whole->saved[k]);
        }
    }
    culm_share_put_others(s->share, group->own, group->whole->share);
}

enum culm_status search_ship(struct culm_search *s, struct search_state *shipped,
                             struct culm_error *error) {
    enum culm_status status = search_save(s, shipped, error);
    if (status == CULM_OK && shipped->whole) {
        put_others(s, shipped);
        status = search_save(s, shipped->whole, error);
    }
    s->tried = 0;
    return status == CULM_OK ? s->ops->ship(s->ctx, ++s->round, error) : status;
}

enum culm_status search_offer(struct culm_search *s, struct search_state *shipped,
                              struct culm_error *error) {
    struct search_state before = {.own = shipped->own};
    double least = HUGE_VAL;
    enum culm_status status = search_save(s, &before, error);
    if (status != CULM_OK) {
        return status;
    }
    for (int32_t k = 0; k < s->count; k++) {
        double ratio = search_ratio(s, k);
        if (search_shares(s, k) && ratio < 1) {
            culm_share_leave(s->share, k);
        } else if (search_shares(s, k)) {
            least = fmin(least, ratio);
        }
    }
    int64_t bytes = culm_share_saved(s->share);
    if (bytes > shipped->bytes ||
        (bytes > 0 && bytes == shipped->bytes && least > shipped->least)) {
        search_revert_alone(s);
        status = search_ship(s, shipped, error);
        shipped->least = least;
    }
    if (status == CULM_OK) {
        search_restore(s, &before);
    }
    search_state_release(&before, s->count);
    return status;
}

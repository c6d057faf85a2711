/* States, checks, and what ships. See search_parts.h. */
#include "merge/search_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum culm_status search_no_memory(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "merging: out of memory");
}

void search_state_release(struct search_state *state, int32_t count) {
    for (int32_t k = 0; k < count && state->saved; k++) {
        free(state->saved[k]);
    }
    free(state->saved);
    free(state->share);
    *state = (struct search_state){0};
}

enum culm_status search_save(const struct culm_search *s, struct search_state *state,
                             struct culm_error *error) {
    search_state_release(state, s->count);
    state->saved = calloc((size_t)s->count + 1, sizeof *state->saved);
    state->share = culm_share_text(s->share);
    state->bytes = culm_share_saved(s->share);
    bool ok = state->saved && state->share;
    for (int32_t k = 0; k < s->count && ok; k++) {
        state->saved[k] = culm_merge_model_save(s->models[k]);
        ok = state->saved[k] != NULL;
    }
    return ok ? CULM_OK : search_no_memory(error);
}

void search_restore(const struct culm_search *s, const struct search_state *state) {
    for (int32_t k = 0; k < s->count; k++) {
        culm_merge_model_restore(s->models[k], state->saved[k]);
    }
    culm_share_put(s->share, state->share);
}

bool search_shares(const struct culm_search *s, int32_t model) {
    for (int32_t l = 0; l < s->models[model]->layers.count; l++) {
        if (culm_share_of(s->share, model, l) >= 0) {
            return true;
        }
    }
    return false;
}

void search_revert_alone(const struct culm_search *s) {
    for (int32_t k = 0; k < s->count; k++) {
        if (!search_shares(s, k)) {
            culm_merge_model_revert(s->models[k]);
        }
    }
}

bool search_stopped(const struct culm_search *s) { return s->ops->stop(s->ctx); }

enum culm_status search_stop(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_STOPPED, "stopped; --resume goes on");
}

static double ratio_of(const struct culm_search_query *query) {
    return query->now / (query->target * query->original);
}

double search_ratio(const struct culm_search *s, int32_t model) {
    double least = HUGE_VAL;
    for (int32_t q = 0; q < s->query_count; q++) {
        if (s->query[q].model == model) {
            least = fmin(least, ratio_of(&s->query[q]));
        }
    }
    return least;
}

enum culm_status search_check(struct culm_search *s, double *ret_least, struct culm_error *error) {
    enum culm_status status = CULM_OK;
    *ret_least = HUGE_VAL;
    for (int32_t q = 0; q < s->query_count && status == CULM_OK; q++) {
        struct culm_search_query *query = &s->query[q];
        if (!search_shares(s, query->model)) {
            continue;
        }
        if (search_stopped(s)) {
            return search_stop(error);
        }
        status = culm_judge_now(query->judge, s->models[query->model]->value, &query->check,
                                query->wanted, &query->now, error);
        if (status == CULM_OK) {
            *ret_least = fmin(*ret_least, ratio_of(query));
            s->ops->check(s->ctx, s->round + 1, query, ratio_of(query) >= 1);
        }
    }
    return status;
}

enum culm_status search_ship(struct culm_search *s, struct search_state *shipped,
                             struct culm_error *error) {
    enum culm_status status = search_save(s, shipped, error);
    return status == CULM_OK ? s->ops->ship(s->ctx, ++s->round, error) : status;
}

enum culm_status search_offer(struct culm_search *s, struct search_state *shipped,
                              struct culm_error *error) {
    struct search_state before = {0};
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

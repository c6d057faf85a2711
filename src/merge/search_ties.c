/* Attempts to tie layers. See search_ties.h. */
#include "merge/search_ties.h"

#include "merge/search_ties_parts.h"

#include <stdlib.h>

#define PROBES 2 /* failed attempts in a row before it ends */
#define PART 8   /* the first attempt ties one candidate in so many */

/* Whether a model has the tensor of one of these candidates. */
static bool is_hit(const struct search_ties *t, int32_t model,
                   const struct search_tie_candidate *candidate, int32_t count) {
    bool hit = false;
    for (int32_t l = 0; l < t->s->models[model]->layers.count; l++) {
        const struct culm_member holder =
            culm_share_holder(t->s->share, (struct culm_member){model, l});
        for (int32_t i = 0; i < count && !hit; i++) {
            hit = search_ties_same(holder, candidate[i].layer);
        }
    }
    return hit;
}

/* Ties the first `count` candidates at once; ships if that meets the targets. */
static enum culm_status attempt(const struct search_ties *t,
                                const struct search_tie_candidate *candidate, int32_t count,
                                bool *ret_met, struct culm_error *error) {
    struct culm_search *s = t->s;
    enum culm_status status = CULM_OK;
    bool *hit = calloc((size_t)s->count + 1, sizeof *hit);
    if (!hit) {
        return search_no_memory(error);
    }
    for (int32_t k = 0; k < s->count; k++) {
        hit[k] = search_ties_own(t, k) && is_hit(t, k, candidate, count);
    }
    for (int32_t i = 0; i < count; i++) {
        search_ties_tie(t, candidate[i].layer, candidate[i].from);
    }
    search_attempt(s, "tie");
    for (int32_t k = 0; k < s->count && status == CULM_OK; k++) {
        status = hit[k] ? search_ties_fit_norms(t, k, t->shipped->saved[k], error) : CULM_OK;
    }
    double least;
    if (status == CULM_OK && !(status = search_ties_check(t, hit, ret_met, &least, error)) &&
        !*ret_met) {
        status = search_ties_train(t, hit, least, ret_met, error);
    }
    free(hit);
    return status == CULM_OK && *ret_met ? search_ship(s, t->shipped, error) : status;
}

/* Sets the accuracy of all queries as shipped, without changing any value. */
static enum culm_status look(const struct search_ties *t, struct culm_error *error) {
    struct culm_search *s = t->s;
    enum culm_status status = CULM_OK;
    for (int32_t q = 0; q < s->query_count && status == CULM_OK; q++) {
        struct culm_search_query *query = &s->query[q];
        status = search_stopped(s)
                     ? search_stop(error)
                     : culm_judge_now(query->judge, s->models[query->model]->value, &query->check,
                                      query->wanted, &query->now, error);
    }
    return status;
}

/* Attempts, starting with an eighth of the candidates. After a success, looks for more; after a
 * failure, tries half as many. now[queries]: scratch memory. */
static enum culm_status go(const struct search_ties *t, struct search_tie_candidate *candidate,
                           double *now, struct culm_error *error) {
    struct culm_search *s = t->s;
    int32_t count, many = -1;
    enum culm_status status = search_ties_find(t, candidate, &count, error);
    if (status != CULM_OK || count == 0 || (status = look(t, error))) {
        return status;
    }
    many = (count + PART - 1) / PART;
    for (int32_t missed = 0; missed < PROBES && many > 0 && !search_late(s);) {
        bool met = false;
        for (int32_t q = 0; q < s->query_count; q++) {
            now[q] = s->query[q].now;
        }
        if ((status = attempt(t, candidate, many, &met, error))) {
            break;
        }
        if (met) {
            missed = 0;
            if ((status = search_ties_find(t, candidate, &count, error))) {
                break;
            }
            many = many < count ? many : count;
            continue;
        }
        missed++;
        many /= 2;
        search_restore(s, t->shipped);
        for (int32_t q = 0; q < s->query_count; q++) {
            s->query[q].now = now[q];
        }
    }
    return status;
}

/* Finds the kin: models connected by shared tensors are tied together, others on their own. */
static enum culm_status find_kin(struct search_ties *t, struct culm_error *error) {
    const struct culm_search *s = t->s;
    t->kin = calloc((size_t)s->count + 1, sizeof *t->kin);
    for (int32_t k = 0; k < s->count && t->kin; k++) {
        t->kin[k] = k;
        for (int32_t l = 0; l < s->models[k]->layers.count; l++) {
            const int32_t a = t->kin[k];
            const int32_t b = t->kin[culm_share_holder(s->share, (struct culm_member){k, l}).model];
            for (int32_t m = 0; m <= k; m++) {
                t->kin[m] = t->kin[m] == a || t->kin[m] == b ? (a < b ? a : b) : t->kin[m];
            }
        }
    }
    return t->kin ? CULM_OK : search_no_memory(error);
}

/* One kin after another; the time that one does not use is left to those after it. */
static enum culm_status each_kin(struct search_ties *t, struct search_tie_candidate *candidate,
                                 double *now, struct culm_error *error) {
    struct culm_search *s = t->s;
    int32_t left = 0;
    enum culm_status status = CULM_OK;
    for (int32_t k = 0; k < s->count; k++) {
        left += t->kin[k] == k;
    }
    for (int32_t k = 0; k < s->count && status == CULM_OK; k++) {
        if (t->kin[k] != k) {
            continue;
        }
        const double spent = s->ops->spent(s->ctx);
        s->until = spent + (1 - spent) / left--;
        t->whose = k;
        status = search_late(s) ? CULM_OK : go(t, candidate, now, error);
    }
    s->until = 0;
    return status;
}

enum culm_status search_tie(struct culm_search *s, struct search_state *shipped,
                            struct culm_error *error) {
    struct search_ties t = {.s = s, .shipped = shipped};
    int32_t layers = 1;
    for (int32_t k = 0; k < s->count; k++) {
        layers += s->models[k]->layers.count;
    }
    struct search_tie_candidate *candidate = calloc((size_t)layers, sizeof *candidate);
    double *now = calloc((size_t)s->query_count + 1, sizeof *now);
    search_restore(s, shipped);
    enum culm_status status = candidate && now ? CULM_OK : search_no_memory(error);
    if (status == CULM_OK && !search_late(s) && !(status = search_ties_find_idle(&t, error)) &&
        !(status = find_kin(&t, error))) {
        status = each_kin(&t, candidate, now, error);
    }
    search_ties_release(&t);
    free(candidate);
    free(now);
    return status;
}

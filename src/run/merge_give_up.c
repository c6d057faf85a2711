/*
 * What a model gives up that misses a target on the frames that decide: layers, not everything.
 *
 * Which layers these are is judged on frames that were set aside for this alone, together with those
 * that are checked, so that the frames that are reported have no part in the choice. Frames set
 * aside are unseen, too: whoever misses its target on these and the deciding ones together gives up
 * layers as well.
 */
#include "run/merge_internal.h"

#include <stdlib.h>
#include <string.h>

static bool stopped(void *ctx) { return ((struct culm_merging *)ctx)->stopped; }

static double no_time(void *ctx) {
    (void)ctx;
    return 0;
}

struct giving_up {
    struct culm_search_query *query; /* [queries]: as they are judged here */
    struct culm_merge_frames *both;  /* [queries]: frames set aside, then those that are checked */
    struct culm_answer **wanted;     /* [queries][frames of both]: owned */
};

static void append(struct culm_merge_frames *to, const struct culm_merge_frames *from,
                   int64_t one) {
    memcpy(to->image + to->count * one, from->image, 4 * (size_t)(from->count * one));
    memcpy(to->size + to->count, from->size, (size_t)from->count * sizeof *from->size);
    if (to->label) {
        memcpy((int32_t *)(uintptr_t)to->label + to->count, from->label,
               (size_t)from->count * sizeof *from->label);
    }
    if (to->right) {
        memcpy((struct culm_answer *)(uintptr_t)to->right + to->count, from->right,
               (size_t)from->count * sizeof *from->right);
    }
    to->count += from->count;
}

static void release_joined(struct culm_merge_frames *both) {
    free(both->image);
    free(both->size);
    free((void *)(uintptr_t)both->label);
    free((void *)(uintptr_t)both->right);
}

/* What is set aside and another part of a set, as one. What is right in them stays the set's. */
static enum culm_status join_parts(const struct culm_merge_set *set, enum culm_merge_part part,
                                   struct culm_merge_frames *ret, struct culm_error *error) {
    const struct culm_merge_frames *aside = &set->part[CULM_MERGE_ASIDE];
    const struct culm_merge_frames *check = &set->part[part];
    const int64_t one = (int64_t)set->input.width * set->input.height * set->input.channels;
    const size_t count = (size_t)(aside->count + check->count);
    *ret = (struct culm_merge_frames){
        .image = aligned_alloc(64, (4 * count * (size_t)one + 127) / 64 * 64),
        .size = calloc(count + 1, sizeof *ret->size),
        .label = check->label ? calloc(count + 1, sizeof *ret->label) : NULL,
        .right = check->right ? calloc(count + 1, sizeof *ret->right) : NULL};
    if (!ret->image || !ret->size || (check->label && !ret->label) ||
        (check->right && !ret->right)) {
        return merging_no_memory(error);
    }
    append(ret, aside, one);
    append(ret, check, one);
    return CULM_OK;
}

/* Lets a query of the model be judged on these. */
static enum culm_status judge_both(struct culm_merging *m, struct giving_up *g, size_t q,
                                   struct culm_error *error) {
    struct culm_merge_frames *both = &g->both[q];
    const struct culm_merge_model *model = m->models[m->in.model_of[q]];
    enum culm_status status =
        join_parts(&m->in.set[m->in.set_of[q]], CULM_MERGE_CHECK, both, error);
    if (status != CULM_OK) {
        return status;
    }
    g->wanted[q] = calloc((size_t)both->count + 1, sizeof **g->wanted);
    if (!g->wanted[q]) {
        return merging_no_memory(error);
    }
    g->query[q].check = *both;
    g->query[q].wanted = g->wanted[q];
    status = culm_judge_answer(&m->judge[q], model->original, both, g->wanted[q], error);
    return status ? status
                  : culm_judge_now(&m->judge[q], model->original, both, g->wanted[q],
                                   &g->query[q].original, error);
}

static void release(struct culm_merging *m, struct giving_up *g) {
    for (size_t q = 0; q < m->workload.query_count && g->wanted && g->both; q++) {
        for (int64_t i = 0; i < g->both[q].count && g->wanted[q]; i++) {
            culm_answer_release(&g->wanted[q][i]);
        }
        free(g->wanted[q]);
        release_joined(&g->both[q]);
    }
    free(g->wanted);
    free(g->both);
    free(g->query);
}

enum culm_status merging_give_up(struct culm_merging *m, int32_t model, int64_t most,
                                 int64_t *ret_bytes, struct culm_error *error) {
    static const struct culm_search_ops ops = {.attempt = merging_tell_attempt,
                                               .check = merging_tell_check,
                                               .stop = stopped,
                                               .spent = no_time};
    const size_t count = m->workload.query_count;
    struct giving_up g = {.query = calloc(count + 1, sizeof *g.query),
                          .both = calloc(count + 1, sizeof *g.both),
                          .wanted = calloc(count + 1, sizeof *g.wanted)};
    enum culm_status status = g.query && g.both && g.wanted ? CULM_OK : merging_no_memory(error);
    for (size_t q = 0; q < count && status == CULM_OK; q++) {
        g.query[q] = m->query[q];
        status = m->in.model_of[q] == model ? judge_both(m, &g, q, error) : CULM_OK;
    }
    if (status == CULM_OK) {
        struct culm_search search = {
            .models = m->models,
            .count = m->in.models,
            .share = &m->share,
            .frames = m->in.fit,
            .query = g.query,
            .query_count = (int32_t)count,
            .may = m->may,
            .config = &m->workload.merge,
            .device = m->device,
            .ops = &ops,
            .ctx = m,
            .round = (int32_t)(m->counts > m->after ? m->counts - m->after : 0)};
        status = culm_search_give_up(&search, model, most, ret_bytes, error);
    }
    release(m, &g);
    return status;
}

enum culm_status merging_unseen(struct culm_merging *m, size_t q, const struct culm_answer *held,
                                double *original, double *ret_accuracy, bool *ret_ok,
                                struct culm_error *error) {
    const struct culm_merge_set *set = &m->in.set[m->in.set_of[q]];
    const struct culm_merge_frames *aside = &set->part[CULM_MERGE_ASIDE];
    const struct culm_merge_model *model = m->models[m->in.model_of[q]];
    const size_t count = (size_t)(aside->count + set->part[CULM_MERGE_HELD].count);
    struct culm_answer *wanted = calloc(count + 1, sizeof *wanted);
    struct culm_merge_frames both = {0};
    *ret_ok = true;
    enum culm_status status =
        wanted ? join_parts(set, CULM_MERGE_HELD, &both, error) : merging_no_memory(error);
    if (status == CULM_OK && aside->count > 0) {
        status = culm_judge_answer(&m->judge[q], model->original, aside, wanted, error);
        memcpy(wanted + aside->count, held,
               (size_t)set->part[CULM_MERGE_HELD].count * sizeof *held);
    }
    if (status == CULM_OK && aside->count > 0 && (both.label || both.right)) {
        status = culm_judge_now(&m->judge[q], model->original, &both, wanted, original, error);
    }
    if (status == CULM_OK && aside->count > 0 &&
        !(status =
              culm_judge_now(&m->judge[q], model->value, &both, wanted, ret_accuracy, error))) {
        *ret_ok = *ret_accuracy >= m->workload.queries[q].target * *original;
    }
    for (int64_t i = 0; i < aside->count && wanted; i++) { /* the others are the caller's */
        culm_answer_release(&wanted[i]);
    }
    free(wanted);
    release_joined(&both);
    return status;
}

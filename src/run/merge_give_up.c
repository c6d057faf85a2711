/*
 * What a model gives up that misses a target on the frames that decide: layers, not everything.
 *
 * Which layers these are is judged on frames that were set aside for this alone (or, where nothing
 * is to be found on these, on the frames that are checked), so that the frames that decide have no
 * part in the choice.
 */
#include "run/merge_internal.h"

#include <stdlib.h>

static bool stopped(void *ctx) { return ((struct culm_merging *)ctx)->stopped; }

static double no_time(void *ctx) {
    (void)ctx;
    return 0;
}

struct giving_up {
    struct culm_search_query *query; /* [queries]: as they are judged here */
    struct culm_answer **wanted;     /* [queries][frames set aside]: owned */
};

/* Lets a query of the model be judged on the frames set aside for it. */
static enum culm_status judge_aside(struct culm_merging *m, struct giving_up *g, size_t q,
                                    struct culm_error *error) {
    const struct culm_merge_frames *aside = &m->in.set[m->in.set_of[q]].part[CULM_MERGE_ASIDE];
    const struct culm_merge_model *model = m->models[m->in.model_of[q]];
    double original = 0;
    g->wanted[q] = calloc((size_t)aside->count + 1, sizeof **g->wanted);
    if (!g->wanted[q]) {
        return merging_no_memory(error);
    }
    enum culm_status status = CULM_OK;
    if (aside->count > 0 &&
        ((status = culm_judge_answer(&m->judge[q], model->original, aside, g->wanted[q], error)) ||
         (status = culm_judge_now(&m->judge[q], model->original, aside, g->wanted[q], &original,
                                  error)))) {
        return status;
    }
    if (original > 0 && culm_accuracy_wanted(m->judge[q].accuracy) > 0) {
        g->query[q].check = *aside;
        g->query[q].wanted = g->wanted[q];
        g->query[q].original = original;
    }
    return CULM_OK;
}

static void release(struct culm_merging *m, struct giving_up *g) {
    for (size_t q = 0; q < m->workload.query_count && g->wanted; q++) {
        const int64_t count = m->in.set[m->in.set_of[q]].part[CULM_MERGE_ASIDE].count;
        for (int64_t i = 0; i < count && g->wanted[q]; i++) {
            culm_answer_release(&g->wanted[q][i]);
        }
        free(g->wanted[q]);
    }
    free(g->wanted);
    free(g->query);
}

enum culm_status merging_give_up(struct culm_merging *m, int32_t model, struct culm_error *error) {
    static const struct culm_search_ops ops = {.attempt = merging_tell_attempt,
                                               .check = merging_tell_check,
                                               .stop = stopped,
                                               .spent = no_time};
    const size_t count = m->workload.query_count;
    struct giving_up g = {.query = calloc(count + 1, sizeof *g.query),
                          .wanted = calloc(count + 1, sizeof *g.wanted)};
    enum culm_status status = g.query && g.wanted ? CULM_OK : merging_no_memory(error);
    for (size_t q = 0; q < count && status == CULM_OK; q++) {
        g.query[q] = m->query[q];
        status = m->in.model_of[q] == model ? judge_aside(m, &g, q, error) : CULM_OK;
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
        status = culm_search_give_up(&search, model, error);
    }
    release(m, &g);
    return status;
}

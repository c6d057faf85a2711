/* Going on from an earlier search. See search_seed.h. */
#include "merge/search_seed.h"

#include "merge/search_groups.h"
#include "merge/search_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_kept(const struct culm_search *s, int32_t model) {
    return s->seed && s->seed->value[model];
}

static int32_t tensor_of(const struct culm_search *s, struct culm_member layer) {
    return is_kept(s, layer.model) ? s->seed->tensor[layer.model][layer.layer] : 0;
}

/* Whether any other layer of a kept model has one of the model's tensors. */
static bool shares(const struct culm_search *s, int32_t model) {
    for (int32_t l = 0; l < s->models[model]->layers.count; l++) {
        const int32_t tensor = tensor_of(s, (struct culm_member){model, l});
        for (int32_t k = 0; k < s->count && tensor > 0; k++) {
            for (int32_t m = 0; m < s->models[k]->layers.count; m++) {
                if ((k != model || m != l) && tensor_of(s, (struct culm_member){k, m}) == tensor) {
                    return true;
                }
            }
        }
    }
    return false;
}

static void forget(const struct culm_search *s, int32_t model) {
    free(s->seed->value[model]);
    s->seed->value[model] = NULL;
}

/* Whether all queries of a model meet their targets with the values that it has now. Nothing of
 * these is adjusted. */
static enum culm_status check_model(struct culm_search *s, int32_t model, bool *ret_met,
                                    struct culm_error *error) {
    enum culm_status status = CULM_OK;
    for (int32_t q = 0; q < s->query_count && status == CULM_OK; q++) {
        struct culm_search_query *query = &s->query[q];
        if (query->model == model) {
            status = search_stopped(s)
                         ? search_stop(error)
                         : culm_judge_now(query->judge, s->models[model]->value, &query->check,
                                          query->wanted, &query->now, error);
        }
    }
    *ret_met = search_ratio(s, model) >= 1;
    for (int32_t q = 0; q < s->query_count && status == CULM_OK; q++) {
        if (s->query[q].model == model) {
            s->ops->check(s->ctx, s->round + 1, &s->query[q], *ret_met);
        }
    }
    return status;
}

enum culm_status search_seed_check(struct culm_search *s, struct culm_error *error) {
    enum culm_status status = CULM_OK;
    bool met, fewer = true;
    for (int32_t k = 0; k < s->count && status == CULM_OK; k++) {
        if (!is_kept(s, k)) {
            continue;
        }
        if (!s->may[k] || !shares(s, k)) {
            forget(s, k);
            continue;
        }
        culm_merge_model_restore(s->models[k], s->seed->value[k]);
        status = check_model(s, k, &met, error);
        if (status == CULM_OK && !met) {
            forget(s, k);
        }
        culm_merge_model_revert(s->models[k]);
    }
    while (fewer) { /* one that is forgotten may be the last that another has shared with */
        fewer = false;
        for (int32_t k = 0; k < s->count; k++) {
            if (is_kept(s, k) && !shares(s, k)) {
                forget(s, k);
                fewer = true;
            }
        }
    }
    for (int32_t k = 0; k < s->count; k++) {
        struct culm_merge_model *model = s->models[k];
        model->fixed = is_kept(s, k);
        if (model->fixed) {
            culm_merge_model_restore(model, s->seed->value[k]);
        }
        for (int32_t p = 0; model->fixed && p < model->param_count; p++) {
            memcpy(model->aligned[p], model->value[p],
                   4 * (size_t)culm_merge_param_elements(model, p));
        }
        culm_merge_model_revert(model);
    }
    return status;
}

void search_seed_join(const struct culm_search *s, int32_t *up) {
    for (int32_t k = 0; k < s->count; k++) {
        for (int32_t l = 0; l < s->models[k]->layers.count; l++) {
            const int32_t tensor = tensor_of(s, (struct culm_member){k, l});
            for (int32_t other = 0; other < k && tensor > 0; other++) {
                for (int32_t m = 0; m < s->models[other]->layers.count; m++) {
                    if (tensor_of(s, (struct culm_member){other, m}) == tensor) {
                        search_groups_join(up, k, other);
                        break;
                    }
                }
            }
        }
    }
}

/* --- what is shared --- */

static bool is_in_group(const struct search_groups *groups, int32_t group, int32_t model) {
    return group < 0 || groups->of[model] == group;
}

/* Of the members of an instance that are kept: the tensor that most of them have, the first among
 * equals; 0: none that two have. */
static int32_t common_tensor(const struct culm_search *s, const struct search_groups *groups,
                             int32_t group, const struct culm_instance *instance) {
    int32_t best = 0, most = 1;
    for (int32_t m = 0; m < instance->count; m++) {
        const int32_t tensor = tensor_of(s, instance->member[m]);
        int32_t count = 0;
        for (int32_t n = 0; n < instance->count && tensor > 0; n++) {
            count += tensor_of(s, instance->member[n]) == tensor &&
                     is_in_group(groups, group, instance->member[n].model);
        }
        if (count > most) {
            best = tensor;
            most = count;
        }
    }
    return best;
}

static void put_instances(const struct culm_search *s, const struct search_groups *groups,
                          int32_t group) {
    for (int32_t i = 0; i < s->share->match.count; i++) {
        const struct culm_instance *instance = &s->share->match.instance[i];
        const int32_t tensor = common_tensor(s, groups, group, instance);
        for (int32_t m = 0; m < instance->count; m++) {
            s->share->in[i][m] = tensor > 0 && tensor_of(s, instance->member[m]) == tensor &&
                                 is_in_group(groups, group, instance->member[m].model);
        }
    }
}

static bool is_same(struct culm_member a, struct culm_member b) {
    return a.model == b.model && a.layer == b.layer;
}

/* Ties a layer with the first that has its tensor, unless they share it already. */
static void tie_with_first(const struct culm_search *s, const struct search_groups *groups,
                           int32_t group, struct culm_member layer) {
    const int32_t tensor = tensor_of(s, layer);
    for (int32_t k = 0; k <= layer.model && tensor > 0; k++) {
        for (int32_t l = 0; l < s->models[k]->layers.count; l++) {
            const struct culm_member first = {k, l};
            if (tensor_of(s, first) != tensor || !is_in_group(groups, group, k)) {
                continue;
            }
            if (!is_same(culm_share_holder(s->share, first), culm_share_holder(s->share, layer))) {
                culm_share_tie(s->share, layer, first);
            }
            return;
        }
    }
}

void search_seed_put(const struct culm_search *s, const struct search_groups *groups,
                     int32_t group) {
    culm_share_untie(s->share);
    put_instances(s, groups, group);
    for (int32_t k = 0; k < s->count; k++) {
        culm_merge_model_revert(s->models[k]);
        if (is_kept(s, k) && is_in_group(groups, group, k)) {
            culm_merge_model_restore(s->models[k], s->seed->value[k]);
        }
        for (int32_t l = 0; l < s->models[k]->layers.count; l++) {
            if (is_in_group(groups, group, k)) {
                tie_with_first(s, groups, group, (struct culm_member){k, l});
            }
        }
    }
}

/* --- who comes first --- */

static double squares(const struct culm_merge_model *model, float *const *of) {
    double sum = 0;
    for (int32_t l = 0; l < model->layers.count; l++) {
        const int32_t p = model->layers.layer[l].weight;
        for (int64_t i = 0; i < culm_merge_param_elements(model, p); i++) {
            sum += (double)of[p][i] * of[p][i];
        }
    }
    return sum;
}

/* Whether a kept model has its original's weights, in whatever order: then others were built on
 * it. */
static bool has_its_own(const struct culm_merge_model *model) {
    const double is = squares(model, model->aligned), was = squares(model, model->original);
    return fabs(is - was) <= 1e-6 * was;
}

void search_seed_rank(const struct culm_search *s, const struct search_groups *groups,
                      int32_t *rank) {
    for (int32_t group = 0; group < groups->count; group++) {
        int32_t last = 0;
        for (int pass = 0; pass < 3; pass++) { /* bases; others that are kept; those left alone */
            for (int32_t k = 0; k < s->count; k++) {
                const bool own = groups->of[k] == group && rank[k] == 0;
                const bool now = pass == 0   ? is_kept(s, k) && has_its_own(s->models[k])
                                 : pass == 1 ? is_kept(s, k)
                                             : s->seed->tried[k];
                rank[k] = own && now ? ++last : rank[k];
            }
        }
    }
}

int64_t search_seed_open(const struct culm_search *s, const struct search_groups *groups,
                         int32_t group, const int32_t *rank) {
    int64_t bytes = 0;
    bool any = false;
    for (int32_t k = 0; k < s->count; k++) {
        any = any || (groups->of[k] == group && rank[k] > 0);
        for (int32_t l = 0; l < s->models[k]->layers.count; l++) {
            const bool open = groups->of[k] == group && rank[k] == 0 && s->share->of[k][l] >= 0;
            bytes += open ? s->models[k]->layers.layer[l].bytes : 0;
        }
    }
    return any ? bytes : 0;
}

/* Instances and groups. See match.h. There are at most a few thousand layers, so searching is
 * linear. */
#include "merge/match.h"

#include "base/grow.h"

#include <stdlib.h>
#include <string.h>

static bool alike(const struct culm_vision_signature *a, const struct culm_vision_signature *b,
                  enum culm_match_rule rule) {
    return rule == CULM_MATCH_EQUAL ? culm_vision_signature_equal(a, b)
                                    : culm_vision_signature_fits(a, b);
}

static enum culm_status no_memory(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "matching layers: out of memory");
}

static bool join(struct culm_instance *instance, struct culm_member member) {
    if (!CULM_GROW(instance->member, instance->capacity, instance->count + 1)) {
        return false;
    }
    instance->member[instance->count++] = member;
    return true;
}

static struct culm_instance *find(struct culm_match *match,
                                  const struct culm_vision_signature *signature, int32_t model,
                                  enum culm_match_rule rule) {
    for (int32_t i = 0; i < match->count; i++) {
        struct culm_instance *instance = &match->instance[i];
        /* Models are visited one after the other, so only the last member can be this model's. */
        if ((rule == CULM_MATCH_INSIDE || instance->member[instance->count - 1].model != model) &&
            alike(&instance->signature, signature, rule)) {
            return instance;
        }
    }
    return NULL;
}

/* Drops instances with a single member, and adds up what the others save. */
static void keep_shared(struct culm_match *match) {
    int32_t kept = 0;
    for (int32_t i = 0; i < match->count; i++) {
        struct culm_instance *instance = &match->instance[i];
        if (instance->count < 2) {
            free(instance->member);
            continue;
        }
        match->saved_bytes += instance->bytes * (instance->count - 1);
        match->instance[kept++] = *instance;
    }
    match->count = kept;
}

enum culm_status culm_match_find(const struct culm_vision_layers *const *models, int32_t count,
                                 enum culm_match_rule rule, struct culm_match *ret_match,
                                 struct culm_error *error) {
    *ret_match = (struct culm_match){0};
    for (int32_t m = 0; m < count; m++) {
        for (int32_t l = 0; l < models[m]->count; l++) {
            const struct culm_vision_layer *layer = &models[m]->layer[l];
            struct culm_instance *instance = find(ret_match, &layer->signature, m, rule);
            if (!instance) {
                if (!CULM_GROW(ret_match->instance, ret_match->capacity, ret_match->count + 1)) {
                    return no_memory(error);
                }
                instance = &ret_match->instance[ret_match->count++];
                *instance =
                    (struct culm_instance){.signature = layer->signature, .bytes = layer->bytes};
            }
            if (!join(instance, (struct culm_member){m, l})) {
                return no_memory(error);
            }
            ret_match->total_bytes += layer->bytes;
        }
    }
    keep_shared(ret_match);
    return CULM_OK;
}

void culm_match_release(struct culm_match *match) {
    for (int32_t i = 0; i < match->count; i++) {
        free(match->instance[i].member);
    }
    free(match->instance);
    *match = (struct culm_match){0};
}

/* Appends the members that are in group `which`, if there are at least two. */
static bool divide_off(struct culm_match *to, const struct culm_instance *from,
                       const int32_t *group, int32_t which) {
    struct culm_instance part = {.signature = from->signature, .bytes = from->bytes};
    for (int32_t m = 0; m < from->count; m++) {
        if (group[from->member[m].model] == which && !join(&part, from->member[m])) {
            free(part.member);
            return false;
        }
    }
    if (part.count < 2 || !CULM_GROW(to->instance, to->capacity, to->count + 1)) {
        free(part.member);
        return part.count < 2;
    }
    to->instance[to->count++] = part;
    return true;
}

enum culm_status culm_match_divide(struct culm_match *match, const int32_t *group, int32_t models,
                                   struct culm_error *error) {
    struct culm_match divided = {.total_bytes = match->total_bytes,
                                 .saved_bytes = match->saved_bytes};
    for (int32_t i = 0; i < match->count; i++) {
        for (int32_t which = 0; which < models; which++) {
            if (!divide_off(&divided, &match->instance[i], group, which)) {
                culm_match_release(&divided);
                return no_memory(error);
            }
        }
    }
    *match = divided;
    return CULM_OK;
}

int32_t culm_match_prefix(const struct culm_vision_layers *const *models, int32_t count,
                          int64_t *ret_bytes) {
    *ret_bytes = 0;
    for (int32_t l = 0;; l++) {
        for (int32_t m = 0; m < count; m++) {
            if (l >= models[m]->count ||
                !culm_vision_signature_equal(&models[0]->layer[l].signature,
                                             &models[m]->layer[l].signature)) {
                return l;
            }
        }
        if (count == 0) {
            return 0;
        }
        *ret_bytes += models[0]->layer[l].bytes;
    }
}

/* --- groups --- */

static bool same_models(const struct culm_instance *a, const struct culm_instance *b) {
    bool same = a->count == b->count;
    for (int32_t i = 0; i < a->count && same; i++) {
        same = a->member[i].model == b->member[i].model;
    }
    return same;
}

static bool same_group(const struct culm_instance *a, const struct culm_instance *b) {
    return culm_vision_signature_fits(&a->signature, &b->signature) && same_models(a, b);
}

/* By size, largest first; stable. */
static void sort_instances(const struct culm_match *match, int32_t *order) {
    for (int32_t i = 0; i < match->count; i++) {
        int32_t at = i;
        for (; at > 0 && match->instance[order[at - 1]].bytes < match->instance[i].bytes; at--) {
            order[at] = order[at - 1];
        }
        order[at] = i;
    }
}

/* The released code stores a run of one kind of layer only when another kind follows, so it loses
 * the last run. */
static int32_t without_last_kind(const struct culm_match *match, const int32_t *order) {
    int32_t kept = match->count;
    while (kept > 0 &&
           culm_vision_signature_fits(&match->instance[order[kept - 1]].signature,
                                      &match->instance[order[match->count - 1]].signature)) {
        kept--;
    }
    return kept;
}

/* Splits order[from, to), a run of one kind, into groups by models. Appends the groups to `groups`
 * and their instances to `gathered`. */
static void gather(const struct culm_match *match, const int32_t *order, int32_t from, int32_t to,
                   int32_t *gathered, bool *taken, struct culm_match_groups *groups) {
    for (int32_t i = from; i < to; i++) {
        if (taken[i]) {
            continue;
        }
        struct culm_match_group group = {.first = groups->instances};
        const struct culm_instance *first = &match->instance[order[i]];
        for (int32_t j = i; j < to; j++) {
            const struct culm_instance *instance = &match->instance[order[j]];
            if (!taken[j] && same_models(first, instance)) {
                taken[j] = true;
                gathered[groups->instances++] = order[j];
                group.saved_bytes += instance->bytes * (instance->count - 1);
                group.count++;
            }
        }
        groups->group[groups->count++] = group;
    }
}

static void sort_groups(struct culm_match_groups *groups) {
    for (int32_t i = 1; i < groups->count; i++) {
        struct culm_match_group group = groups->group[i];
        int32_t at = i;
        for (; at > 0 && groups->group[at - 1].saved_bytes < group.saved_bytes; at--) {
            groups->group[at] = groups->group[at - 1];
        }
        groups->group[at] = group;
    }
}

/* Writes `order` group by group, joining neighbours of one kind in the same models. */
static void flatten(const struct culm_match *match, const int32_t *gathered,
                    struct culm_match_groups *groups) {
    int32_t at = 0, kept = 0;
    for (int32_t g = 0; g < groups->count; g++) {
        struct culm_match_group group = groups->group[g];
        memcpy(&groups->order[at], &gathered[group.first], (size_t)group.count * sizeof *gathered);
        group.first = at;
        at += group.count;
        struct culm_match_group *last = kept ? &groups->group[kept - 1] : NULL;
        if (last && same_group(&match->instance[groups->order[last->first]],
                               &match->instance[groups->order[group.first]])) {
            last->count += group.count;
            last->saved_bytes += group.saved_bytes;
        } else {
            groups->group[kept++] = group;
        }
    }
    groups->count = kept;
}

enum culm_status culm_match_find_groups(const struct culm_match *match, bool released,
                                        struct culm_match_groups *ret_groups,
                                        struct culm_error *error) {
    size_t count = (size_t)(match->count > 0 ? match->count : 1);
    int32_t *order = calloc(count, sizeof *order), *gathered = calloc(count, sizeof *gathered);
    bool *taken = calloc(count, sizeof *taken);
    *ret_groups = (struct culm_match_groups){
        .order = calloc(count, sizeof *ret_groups->order),
        .group = calloc(count, sizeof *ret_groups->group),
    };
    enum culm_status status = CULM_OK;
    if (!order || !gathered || !taken || !ret_groups->order || !ret_groups->group) {
        culm_match_groups_release(ret_groups);
        status = no_memory(error);
    } else {
        sort_instances(match, order);
        int32_t all = released ? without_last_kind(match, order) : match->count;
        for (int32_t from = 0, to; from < all; from = to) {
            for (to = from + 1;
                 to < all && culm_vision_signature_fits(&match->instance[order[from]].signature,
                                                        &match->instance[order[to]].signature);
                 to++) {
            }
            gather(match, order, from, to, gathered, taken, ret_groups);
        }
        sort_groups(ret_groups);
        flatten(match, gathered, ret_groups);
    }
    free(order);
    free(gathered);
    free(taken);
    return status;
}

void culm_match_groups_release(struct culm_match_groups *groups) {
    free(groups->order);
    free(groups->group);
    *groups = (struct culm_match_groups){0};
}

/* Groups of models, by union-find. See search_groups.h. */
#include "merge/search_groups.h"

#include "merge/search_parts.h"
#include "merge/search_seed.h"

#include <stdlib.h>
#include <string.h>

#define MOST 0.6 /* of what the model with less to share could share */

static int32_t root(const int32_t *up, int32_t model) {
    while (up[model] != model) {
        model = up[model];
    }
    return model;
}

/* common[models][models]: the bytes that two models have in common; on the diagonal, what the model
 * could share at all. */
static void count_common(const struct culm_search *s, int64_t *common) {
    for (int32_t i = 0; i < s->share->match.count; i++) {
        const struct culm_instance *instance = &s->share->match.instance[i];
        for (int32_t a = 0; a < instance->count; a++) {
            for (int32_t b = 0; b < instance->count; b++) {
                const int32_t x = instance->member[a].model, y = instance->member[b].model;
                common[x * s->count + y] += s->may[x] && s->may[y] ? instance->bytes : 0;
            }
        }
    }
}

void search_groups_join(int32_t *up, int32_t one, int32_t other) {
    const int32_t a = root(up, one), b = root(up, other);
    up[a > b ? a : b] = a > b ? b : a;
}

/* Joins models that belong together; the root of a group is its first model. */
static void join(const struct culm_search *s, const int64_t *common, int32_t *up) {
    for (int32_t a = 0; a < s->count; a++) {
        up[a] = a;
        for (int32_t b = 0; b < a; b++) {
            const int64_t x = common[a * s->count + a], y = common[b * s->count + b];
            const int64_t both = common[a * s->count + b];
            if (both > 0 && (double)both >= MOST * (double)(x < y ? x : y)) {
                search_groups_join(up, a, b);
            }
        }
    }
}

static void count_bytes(const struct culm_search *s, struct search_groups *groups) {
    memset(groups->bytes, 0, ((size_t)s->count + 1) * sizeof *groups->bytes);
    for (int32_t i = 0; i < s->share->match.count; i++) {
        const struct culm_instance *instance = &s->share->match.instance[i];
        const int32_t group = groups->of[instance->member[0].model];
        if (group >= 0) {
            groups->bytes[group] += instance->bytes * (instance->count - 1);
        }
    }
}

/* Numbers the groups that can save anything, largest first. */
static bool number(const struct culm_search *s, struct search_groups *groups) {
    int32_t *first = groups->of; /* [models]: the first model of its group */
    int32_t *rank = calloc((size_t)s->count + 1, sizeof *rank);
    if (!rank) {
        return false;
    }
    for (int32_t a = 0; a < s->count; a++) {
        rank[a] = 0;
        for (int32_t b = 0; b < s->count && first[a] == a; b++) {
            rank[a] += first[b] == b && b != a &&
                       (groups->bytes[b] > groups->bytes[a] ||
                        (groups->bytes[b] == groups->bytes[a] && b < a));
        }
        rank[a] = groups->bytes[a] > 0 ? rank[a] : -1;
        groups->count += first[a] == a && groups->bytes[a] > 0;
    }
    for (int32_t a = 0; a < s->count; a++) {
        first[a] = first[a] >= 0 ? rank[first[a]] : -1;
    }
    free(rank);
    return true;
}

enum culm_status search_groups_find(const struct culm_search *s, struct search_groups *ret_groups,
                                    struct culm_error *error) {
    const size_t count = (size_t)s->count + 1;
    struct search_groups *groups = ret_groups;
    int64_t *common = calloc(count * count, sizeof *common);
    *groups = (struct search_groups){.of = calloc(count, sizeof *groups->of),
                                     .bytes = calloc(count, sizeof *groups->bytes)};
    enum culm_status status =
        common && groups->of && groups->bytes ? CULM_OK : search_no_memory(error);
    if (status == CULM_OK) {
        count_common(s, common);
        join(s, common, groups->of);
        search_seed_join(s, groups->of);
        for (int32_t k = 0; k < s->count; k++) {
            groups->of[k] = s->may[k] ? root(groups->of, k) : -1;
        }
        status = culm_share_divide(s->share, groups->of, error);
    }
    if (status == CULM_OK) {
        count_bytes(s, groups);
        status = number(s, groups) ? CULM_OK : search_no_memory(error);
    }
    if (status == CULM_OK) {
        count_bytes(s, groups);
    }
    free(common);
    return status;
}

void search_groups_release(struct search_groups *groups) {
    free(groups->of);
    free(groups->bytes);
    *groups = (struct search_groups){0};
}

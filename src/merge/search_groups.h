/*
 * Divides models into groups that have much in common.
 *
 * Two models belong together if what they have in common is most of what either could share at all.
 * Layers that unrelated models happen to have in common are not worth making one wait for the
 * other: each group is searched on its own, and no layer is shared between groups.
 *
 * Private to search.h. Thread: any.
 */
#ifndef CULM_MERGE_SEARCH_GROUPS_H
#define CULM_MERGE_SEARCH_GROUPS_H

#include "merge/search.h"

struct search_groups {
    int32_t *of;    /* [models]: the model's group; -1: it may not be merged, or shares with none */
    int64_t *bytes; /* [groups]: what each could save, largest first */
    int32_t count;
};

/* Finds the groups, and divides the instances of s->share among them; models that may not be merged
 * are left out. The caller releases the groups, even after a failure. CULM_ERR_MEMORY. */
enum culm_status search_groups_find(const struct culm_search *s, struct search_groups *ret_groups,
                                    struct culm_error *error);
void search_groups_release(struct search_groups *groups);
/* Joins the sets of two models in up[models], a union-find whose roots are the first of each. */
void search_groups_join(int32_t *up, int32_t one, int32_t other);

#endif

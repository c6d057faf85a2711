/*
 * Models that have much in common. Inside of search.h; not for others.
 *
 * Two models belong together if what they have in common is most of what either could share at all. A
 * layer that two others happen to have in common is not worth making one wait for the other: each group
 * is searched for itself, and no layer is shared between groups. Thread: any.
 */
#ifndef CULM_MERGE_SEARCH_GROUPS_H
#define CULM_MERGE_SEARCH_GROUPS_H

#include "merge/search.h"

struct search_groups {
    int32_t *of;    /* [models]: its group, or -1: it shares with none, or may not */
    int64_t *bytes; /* [groups]: that it could save; the most first */
    int32_t count;
};

/* Divides the instances of the share among groups, and leaves models out that may not be merged. The
 * caller releases it, also after a failure. */
enum culm_status search_groups_find(const struct culm_search *s, struct search_groups *ret_groups,
                                    struct culm_error *error);
void search_groups_release(struct search_groups *groups);

#endif

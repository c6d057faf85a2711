/*
 * Forms of queries: each runs either merged, on the weights that merging made for it, or plain, on
 * its own original weights.
 *
 * Merging keeps its promise of accuracy for each query separately, so any set of queries may run
 * plain while the others run merged. A few of these sets are considered: all, none, and some in
 * between that favour the queries whose own weights add the fewest bytes. Earlier rounds of a
 * package are not considered: what the last round says of a query was measured last, and may be
 * that the query must not be merged.
 *
 * Thread: the caller's.
 */
#ifndef CULM_LIVE_FORMS_H
#define CULM_LIVE_FORMS_H

#include "live/catalog.h"

#define CULM_LIVE_FORMS_MAX 5

/* The sources of one query's parameters: merged, and its own. */
struct culm_live_form {
    const int32_t *merged, *original; /* [count] */
    int32_t count;                    /* 0: the query does not count */
};
/* Whether the two forms of the query differ at all. */
bool culm_live_form_differs(const struct culm_live_form *form);
/* The sets to consider, with a bit for each query that runs plain: first all queries whose forms
 * differ, last the empty set; only the empty set if no query's forms differ or edge.originals is
 * `never`. Returns how many sets there are; -1: out of memory. */
int32_t culm_live_form_sets(const struct culm_live_catalog *catalog,
                            const struct culm_live_store *store, const struct culm_live_form *form,
                            int32_t queries, uint64_t ret_plain[CULM_LIVE_FORMS_MAX]);

/* The layouts of a catalog for one way of sharing, one for each of these sets. */
struct culm_live_forms {
    struct culm_live_store store;
    struct culm_live_laid *laid[CULM_LIVE_FORMS_MAX];
    uint64_t plain[CULM_LIVE_FORMS_MAX];
    int32_t count;
    int32_t *own[CULM_EDGE_QUERIES_MAX]; /* by part: sources of its own weights */
    /* The layout that was chosen last, with the originals that watch merged queries in it [live/watched.h],
     * behind the queries of the catalog; NULL: there are none. */
    struct culm_live_laid *watched;
};
/* As culm_live_catalog_lay. Must be released after a failure too. */
enum culm_status culm_live_forms_lay(const struct culm_live_catalog *catalog,
                                     enum culm_live_sharing sharing,
                                     const struct culm_package_round *round,
                                     struct culm_live_forms *forms, struct culm_error *error);
void culm_live_forms_release(struct culm_live_forms *forms); /* fine on a zeroed struct */
/* The layout in which every query is merged. */
struct culm_live_laid *culm_live_forms_merged(const struct culm_live_forms *forms);
/* Lets queries share their beginnings in each of the layouts, whose limits must be set, and chooses
 * one as culm_edge_choose does, without the originals that watch merged queries; the plan is for the
 * layout with these (`watched`). frames: see culm_edge_plan_options. */
enum culm_status culm_live_forms_choose(const struct culm_live_catalog *catalog,
                                        struct culm_live_forms *forms, int64_t frames,
                                        int32_t *ret_chosen, struct culm_edge_plan *ret_plan,
                                        struct culm_error *error);
/* The layout that is played: `watched`, or the chosen one. */
static inline const struct culm_edge_layout *
culm_live_forms_played(const struct culm_live_forms *forms, int32_t chosen) {
    return forms->watched ? &forms->watched->layout : &forms->laid[chosen]->layout;
}

#endif

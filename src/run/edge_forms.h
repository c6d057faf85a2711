/*
 * Forms of queries: on what they were merged into, or on their own weights.
 *
 * Either is right by what merging promised, query by query, so any set of queries may run on their
 * own weights while the others are merged. Of these sets a few are looked at: all, none, and some
 * between, in which whoever adds fewest bytes by it has its own. Earlier rounds of a package are
 * not among them: what the last one says of a query was measured last, and may be that it must not
 * be merged.
 *
 * Thread: the caller's.
 */
#ifndef CULM_RUN_EDGE_FORMS_H
#define CULM_RUN_EDGE_FORMS_H

#include "run/edge_catalog.h"

#define CULM_EDGE_FORMS_MAX 5

/* Of one query: the source of each of its parameters when it is merged, and of its own weights. */
struct culm_edge_form {
    const int32_t *merged, *original; /* [count] */
    int32_t count;                    /* 0: it is not there */
};
/* Whether it makes a difference. */
bool culm_edge_form_differs(const struct culm_edge_form *form);
/* Which queries have their own weights, as bits: first all that differ, last none; where no query
 * differs, or where edge.originals is `never`, none alone. Returns how many sets; -1: out of
 * memory. */
int32_t culm_edge_form_sets(const struct culm_edge_catalog *catalog,
                            const struct culm_edge_store *store, const struct culm_edge_form *form,
                            int32_t queries, uint64_t ret_plain[CULM_EDGE_FORMS_MAX]);

/* The layouts of a catalog for one way of sharing, one for each set. */
struct culm_edge_forms {
    struct culm_edge_store store;
    struct culm_edge_laid *laid[CULM_EDGE_FORMS_MAX];
    uint64_t plain[CULM_EDGE_FORMS_MAX];
    int32_t count;
};
/* As culm_edge_catalog_lay. Release it after a failure too. */
enum culm_status culm_edge_forms_lay(const struct culm_edge_catalog *catalog,
                                     enum culm_edge_sharing sharing,
                                     const struct culm_package_round *round,
                                     struct culm_edge_forms *forms, struct culm_error *error);
void culm_edge_forms_release(struct culm_edge_forms *forms); /* fine on a zeroed struct */
/* The layout in which every query is merged. */
struct culm_edge_laid *culm_edge_forms_merged(const struct culm_edge_forms *forms);
/* What queries have in common at their beginning is run once; then as culm_edge_choose, of layouts
 * whose limit is set. frames: as of culm_edge_plan_options. */
enum culm_status culm_edge_forms_choose(const struct culm_edge_catalog *catalog,
                                        struct culm_edge_forms *forms, int64_t frames,
                                        int32_t *ret_chosen, struct culm_edge_plan *ret_plan,
                                        struct culm_error *error);

#endif

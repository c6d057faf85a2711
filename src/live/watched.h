/*
 * Layouts in which the originals of merged queries look at samples, to notice drift: as a run lays them
 * [live/layout.c], for those who predict one.
 *
 * Thread: the caller's.
 */
#ifndef CULM_LIVE_WATCHED_H
#define CULM_LIVE_WATCHED_H

#include "live/catalog.h"

/* The units of the layout that culm_live_watched_lay makes of these sources, which are added to the store, so
 * that they have the numbers that they have in a run. */
enum culm_status culm_live_watched_units(const struct culm_live_catalog *catalog,
                                         int32_t *const *merged, int32_t *const *own,
                                         struct culm_live_store *store, struct culm_error *error);
/* The layout `laid`, whose queries are those of the catalog, and behind these, for each that does not
 * run on its own tensors (own[query][part]: their sources), its original, which samples; as many as
 * there is room for. Queries of the catalog keep their numbers. *ret_watched: NULL if nothing is to be
 * watched; culm_live_laid_free frees it. CULM_ERR_MEMORY. */
enum culm_status culm_live_watched_lay(const struct culm_live_catalog *catalog,
                                       const struct culm_live_laid *laid, int32_t *const *own,
                                       struct culm_live_store *store,
                                       struct culm_live_laid **ret_watched,
                                       struct culm_error *error);
/* How an original that looks at samples is scheduled: number `number` of `originals`, which take turns, for
 * a query with this deadline. The frames of a check are spread over its interval: those in a row would
 * show the same thing. `rarely`: how many intervals there are to a check. */
void culm_live_watched_fill(const struct culm_drift_config *drift, double rarely, uint64_t number,
                            uint64_t originals, uint64_t deadline_ns, struct culm_edge_query *to);

#endif

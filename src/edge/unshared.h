/*
 * The same queries, sharing less: of some tensors that several queries share, each query gets a
 * copy of its own.
 *
 * A plan does not mention tensors, so a plan found for a layout that shares less can also be tried
 * for one that shares more.
 *
 * Thread: any.
 */
#ifndef CULM_EDGE_UNSHARED_H
#define CULM_EDGE_UNSHARED_H

#include "edge/layout.h"

struct culm_edge_unshared {
    struct culm_edge_layout layout;
    struct culm_edge_query *query;
    size_t *bytes;
    int32_t *list;
};

/* Keeps at most `share` (0 to 1) of the bytes that `layout` saves by sharing, preferring its
 * largest tensors. Prefixes are not shared at all. Borrows the feeds of `layout`. Must be released
 * after a failure too. CULM_ERR_MEMORY. */
enum culm_status culm_edge_unshared_init(struct culm_edge_unshared *unshared,
                                         const struct culm_edge_layout *layout, double share);
void culm_edge_unshared_release(struct culm_edge_unshared *unshared); /* fine on a zeroed one */

/* Whether any tensor is used by more than one query. CULM_ERR_MEMORY. */
enum culm_status culm_edge_shares_any(const struct culm_edge_layout *layout, bool *ret_any);

#endif

/*
 * The same queries sharing less: some tensors that several use become each one's own, of the same
 * bytes.
 *
 * A plan says nothing of tensors, so a plan that was found where less is shared can be tried where
 * more is.
 *
 * Thread: any.
 */
#ifndef CULM_EDGE_LESS_H
#define CULM_EDGE_LESS_H

#include "edge/layout.h"

struct culm_edge_less {
    struct culm_edge_layout layout;
    struct culm_edge_query *query;
    size_t *bytes;
    int32_t *list;
};

/* Of what `layout` saves by sharing, `share` (0 to 1) at most stays saved: by its largest tensors.
 * No beginnings are shared. It borrows the feeds of `layout`. Release it after a failure too.
 * CULM_ERR_MEMORY */
enum culm_status culm_edge_less_init(struct culm_edge_less *less,
                                     const struct culm_edge_layout *layout, double share);
void culm_edge_less_release(struct culm_edge_less *less); /* fine on a zeroed one */

/* Whether two queries use the same tensor. CULM_ERR_MEMORY */
enum culm_status culm_edge_shares_any(const struct culm_edge_layout *layout, bool *ret_any);

#endif

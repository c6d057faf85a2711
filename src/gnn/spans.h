/*
 * The optimizer of an epoch, where a resumed run was given another one than it had (store/lineage.h):
 * an epoch that is done again is done as it was. Thread: constant after reading.
 */
#ifndef CULM_GNN_SPANS_H
#define CULM_GNN_SPANS_H

#include "gnn/config.h"
#include "store/lineage.h"

struct culm_gnn_span {
    int64_t after; /* the epochs after this one, up to the next span's */
    struct culm_optimizer_config optimizer;
};

struct culm_gnn_spans {
    struct culm_gnn_span *span; /* [count], ascending; of the first `after` is 0 */
    size_t count;
};

/* What the configuration says of it. */
struct culm_optimizer_config culm_gnn_optimizer_of(const struct culm_gnn_config *config);

/* With one span, of `config`, for a lineage without settings. CULM_ERR_CONFIG: a configuration in it is
 * none; CULM_ERR_MEMORY. */
enum culm_status culm_gnn_spans_read(const struct culm_lineage *lineage,
                                     const struct culm_gnn_config *config,
                                     struct culm_gnn_spans *ret_spans, struct culm_error *error);
void culm_gnn_spans_release(struct culm_gnn_spans *spans); /* fine on a zeroed one */

/* Of epoch 1, 2, ...; there is at least one span. */
const struct culm_optimizer_config *culm_gnn_spans_at(const struct culm_gnn_spans *spans,
                                                      int64_t epoch);
/* Whether all of these epochs have the same optimizer, so that it does not matter that the run was
 * resumed. */
bool culm_gnn_spans_exact(const struct culm_gnn_spans *spans, int64_t epochs);

#endif

/*
 * Trains one model that builds on another's layers towards its own original. What it took over is
 * frozen; everything private moves, including batch norms. While it misses its targets, some layers
 * that it took over become private, too, starting from their present weights.
 *
 * Private to search.h.
 */
#ifndef CULM_MERGE_SEARCH_ALONE_H
#define CULM_MERGE_SEARCH_ALONE_H

#include "merge/search.h"

/* frozen[parameters]: what must not move; cleared for layers that become private. *ret_met: whether
 * the model met its targets at some check. If so, the model and `now` of its queries are those of
 * the best such check; otherwise they are undefined. */
enum culm_status search_train_alone(struct culm_search *s, int32_t model, bool *frozen,
                                    bool *ret_met, struct culm_error *error);
/* Whether a model's queries are checked by so few frames that the checks say little, so that it is
 * to be trained in any case. Always false if the workload allows no training. */
bool search_hardly_checked(const struct culm_search *s, int32_t model);

#endif

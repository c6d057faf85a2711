/*
 * A model that took over another's layers is trained, alone, towards what its original says. What it took over stays as it
 * is, and what is private moves, batch norms with it. Where that does not meet its targets, the layers with the fewest bytes
 * become private too, and go on from where they are. Inside of search.h; not for others.
 */
#ifndef CULM_MERGE_SEARCH_ALONE_H
#define CULM_MERGE_SEARCH_ALONE_H

#include "merge/search.h"

/* frozen: by parameter, what may not move; of layers that become private it is cleared. *ret_met: whether it met its targets
 * at a check; then the model, and `now` of its queries, are as at the best of these checks, and else they are undefined. */
enum culm_status search_train_alone(struct culm_search *s, int32_t model, bool *frozen,
                                    bool *ret_met, struct culm_error *error);
/* Whether a model's queries are checked by so few frames that these say little: then it is trained in any case. */
bool search_hardly_checked(const struct culm_search *s, int32_t model);

#endif

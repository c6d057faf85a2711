/*
 * Layers that share whatever model they are in and whatever their stride and padding: of one model, too.
 *
 * What is left of a model that took over another's layers may hold some that it does without (idle.h): these have the
 * numbers of any other of their kind, which costs nothing. Others are tied to the layer of their kind that does most
 * nearly what they do, those that lose least for their bytes; all batch norms of the models that have one of them
 * are fitted to what they made before, and what is private is trained, a little. Inside of search.h; not for others.
 */
#ifndef CULM_MERGE_SEARCH_TIES_H
#define CULM_MERGE_SEARCH_TIES_H

#include "merge/search_parts.h"

/* Those that the models of a group do without; `shipped` is its state. */
enum culm_status search_tie_idle(struct culm_search *s, struct search_state *shipped,
                                 struct culm_error *error);
/* The others, of all models. What a model says must stay above its target by half of what may be lost: one that
 * misses it in the end keeps nothing of what it shared before, either. */
enum culm_status search_tie(struct culm_search *s, struct search_state *shipped,
                            struct culm_error *error);

#endif

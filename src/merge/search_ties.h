/*
 * Tied layers: layers that share a tensor whatever models they are in, even the same one, and
 * whatever their stride, padding and dilation.
 *
 * A model that builds on another's layers may be left with idle layers (idle.h). They take the
 * weights of any other layer of their shape, which costs nothing. Other layers are tied to the one
 * that best does what they do, those first that lose least for the bytes they save; then all batch
 * norms of the models concerned are fitted to what they put out before, and what is private is
 * trained a little.
 *
 * Private to search.h.
 */
#ifndef CULM_MERGE_SEARCH_TIES_H
#define CULM_MERGE_SEARCH_TIES_H

#include "merge/search_parts.h"

/* Ties the idle layers of one group; `shipped` is the group's state. */
enum culm_status search_tie_idle(struct culm_search *s, struct search_state *shipped,
                                 struct culm_error *error);
/* Ties other layers, of all models; `shipped` is the whole. Every query has to stay above its
 * target by half of what it may lose: a model that misses its target in the end would lose what it
 * shared before as well. */
enum culm_status search_tie(struct culm_search *s, struct search_state *shipped,
                            struct culm_error *error);

#endif

/*
 * What is shared is trained block by block, towards the features that the originals have there: after least squares, which
 * know of no function between layers, and before whole models are trained. Inside of search.h; not for others.
 */
#ifndef CULM_MERGE_SEARCH_BLOCKS_H
#define CULM_MERGE_SEARCH_BLOCKS_H

#include "merge/search_parts.h"

/* From front to back: `steps` steps in all, of which each block has as many; for fewer steps than blocks there are as many
 * blocks as steps. What comes before a block stays as it is then; in the block, what is private moves as well. Where models
 * have layers in different orders, a tensor that lies in the block of one and not of another stays, too: nobody would look at
 * what it does there. */
enum culm_status search_blocks(struct culm_search *s, int64_t steps, struct culm_error *error);

#endif

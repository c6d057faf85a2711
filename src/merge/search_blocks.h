/*
 * Trains what is shared block by block, towards the originals' features at the end of each block.
 * It comes after least squares, which know nothing of the activations between layers, and before
 * whole models are trained.
 *
 * Private to search.h.
 */
#ifndef CULM_MERGE_SEARCH_BLOCKS_H
#define CULM_MERGE_SEARCH_BLOCKS_H

#include "merge/search_parts.h"

/* Trains `steps` steps in all, spread evenly over the blocks, from front to back; with fewer steps
 * than blocks there are as many blocks as steps. Layers before a block are frozen; inside it, what
 * is private moves as well. If models have their layers in different orders, a tensor can be in one
 * model's block and outside of another's; it is frozen, since nobody would see what it does to the
 * other. */
enum culm_status search_blocks(struct culm_search *s, int64_t steps, struct culm_error *error);

#endif

/*
 * Who sits where, so that the loss of a machine, or of a zone, costs no stage its last copy.
 *
 * Copies of stage s are in the slots of s, and with redundancy in those before them around each ring: of owners, and of their
 * shadows (view.h). Sitting is *exposed* for each stage whose copies are all on one machine, and, less, in one
 * zone. Only who stands by is moved, or all of them, before they load.
 *
 * Pure functions of their arguments. Thread: none of its own.
 */
#ifndef CULM_PIPELINE_PLACE_H
#define CULM_PIPELINE_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#define CULM_PLACE_MOST                                                                            \
    1024 /* nodes; more are seated in their order, as they have many copies of each stage */

struct culm_place_node {
    uint64_t machine, zone; /* equal: the same one */
};

struct culm_place {
    int32_t pipelines, stages;
    bool redundant;
    int32_t *seat; /* [pipelines * stages] index of a node, or -1: nobody sits there */
};

/* Stages without copies on two machines, times 2^20, and those without copies in two zones. */
int64_t culm_place_exposed(const struct culm_place *place, const struct culm_place_node *node);
/* The same of those stages alone of which a slot of `stage` has copies. */
int64_t culm_place_exposed_at(const struct culm_place *place, const struct culm_place_node *node,
                              int32_t stage);
/* Seats nodes 0 to count-1, of which the first that there is room for get a seat, into an empty place: in their
 * order, if that is not exposed, or nothing better is found. */
void culm_place_all(struct culm_place *place, const struct culm_place_node *node, int32_t count);

#endif

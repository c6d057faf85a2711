/*
 * Things by number: those that are there, in the order of their numbers, which may be any. Memory and
 * searches depend on how many there are, not on how many there ever were or on how large numbers get.
 * To look one up takes logarithmic time; to add or to remove one moves those behind it, which are
 * none where numbers only grow. Thread: none of its own.
 *
 *     for (int32_t i = culm_ids_from(&ids, 0); i < ids.count; i = culm_ids_from(&ids, id + 1))
 *
 * meets each, whatever is added or removed meanwhile.
 */
#ifndef CULM_BASE_IDS_H
#define CULM_BASE_IDS_H

#include <stdbool.h>
#include <stdint.h>

struct culm_ids { /* zeroed: empty */
    int32_t *id;  /* [count], rising */
    void **thing; /* [count] */
    int32_t count, id_capacity, thing_capacity;
};

/* The place of the first number that is not below `id`; count: there is none. */
int32_t culm_ids_from(const struct culm_ids *ids, int32_t id);
/* NULL: it is not there. */
void *culm_ids_find(const struct culm_ids *ids, int32_t id);
bool culm_ids_has(const struct culm_ids *ids, int32_t id);
/* Adds one that is not there. False: out of memory. */
bool culm_ids_put(struct culm_ids *ids, int32_t id, void *thing);
/* Removes it, and returns it; NULL: it is not there. */
void *culm_ids_take(struct culm_ids *ids, int32_t id);
/* Gives the thing at `id` the number `to`, which no other has. Needs no memory. */
void culm_ids_renumber(struct culm_ids *ids, int32_t id, int32_t to);
void culm_ids_release(struct culm_ids *ids); /* not what is in it */

#endif

/* A sorted array of numbers, and one of things beside it. See ids.h. */
#include "base/ids.h"

#include "base/grow.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int32_t culm_ids_from(const struct culm_ids *ids, int32_t id) {
    int32_t low = 0, high = ids->count;
    if (high && ids->id[high - 1] < id) {
        return high; /* as of most that are added */
    }
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (ids->id[middle] < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* -1: it is not there. */
static int32_t place_of(const struct culm_ids *ids, int32_t id) {
    int32_t at = culm_ids_from(ids, id);
    return at < ids->count && ids->id[at] == id ? at : -1;
}

void *culm_ids_find(const struct culm_ids *ids, int32_t id) {
    int32_t at = place_of(ids, id);
    return at < 0 ? NULL : ids->thing[at];
}

bool culm_ids_has(const struct culm_ids *ids, int32_t id) { return place_of(ids, id) >= 0; }

bool culm_ids_put(struct culm_ids *ids, int32_t id, void *thing) {
    int32_t at = culm_ids_from(ids, id);
    assert(at == ids->count || ids->id[at] != id);
    if (!CULM_GROW(ids->id, ids->id_capacity, ids->count + 1) ||
        !CULM_GROW(ids->thing, ids->thing_capacity, ids->count + 1)) {
        return false;
    }
    size_t behind = (size_t)(ids->count - at);
    memmove(&ids->id[at + 1], &ids->id[at], behind * sizeof *ids->id);
    memmove(&ids->thing[at + 1], &ids->thing[at], behind * sizeof *ids->thing);
    ids->id[at] = id;
    ids->thing[at] = thing;
    ids->count++;
    return true;
}

void *culm_ids_take(struct culm_ids *ids, int32_t id) {
    int32_t at = place_of(ids, id);
    if (at < 0) {
        return NULL;
    }
    void *thing = ids->thing[at];
    size_t behind = (size_t)(ids->count - at - 1);
    memmove(&ids->id[at], &ids->id[at + 1], behind * sizeof *ids->id);
    memmove(&ids->thing[at], &ids->thing[at + 1], behind * sizeof *ids->thing);
    ids->count--;
    return thing;
}

void culm_ids_renumber(struct culm_ids *ids, int32_t id, int32_t to) {
    assert(culm_ids_has(ids, id));
    void *thing = culm_ids_take(ids, id);
    bool put = culm_ids_put(ids, to, thing); /* there is room: one has gone */
    assert(put);
    (void)put;
}

void culm_ids_release(struct culm_ids *ids) {
    free(ids->id);
    free(ids->thing);
    *ids = (struct culm_ids){0};
}

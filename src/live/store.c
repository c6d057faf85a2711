/* Sources and units. See store.h. */
#include "live/store.h"

#include "base/grow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGE 16384 /* a source of at least so many bytes is a unit of its own */

void culm_live_store_release(struct culm_live_store *store) {
    for (int32_t u = 0; u < store->unit_count; u++) {
        free(store->unit[u].source);
    }
    free(store->unit);
    free(store->source);
    *store = (struct culm_live_store){0};
}

int32_t culm_live_store_source(struct culm_live_store *store, const char *key, size_t bytes,
                               int32_t place) {
    for (int32_t s = store->source_count - 1; s >= 0; s--) {
        if (strcmp(store->source[s].key, key) == 0 && store->source[s].bytes == bytes) {
            return s;
        }
    }
    if (!CULM_GROW(store->source, store->source_capacity, store->source_count + 1)) {
        return -1;
    }
    struct culm_live_source *source = &store->source[store->source_count];
    *source = (struct culm_live_source){.bytes = bytes, .place = place, .unit = -1};
    snprintf(source->key, sizeof source->key, "%s", key);
    return store->source_count++;
}

/* Finds or adds the unit of exactly these sources; -1: out of memory. */
static int32_t unit_of(struct culm_live_store *store, const int32_t *sources, int32_t count) {
    size_t size = (size_t)count * sizeof *sources, at = 0;
    int32_t unit = store->unit_count - 1;
    while (unit >= 0 && (store->unit[unit].count != count ||
                         memcmp(store->unit[unit].source, sources, size) != 0)) {
        unit--;
    }
    if (unit < 0) {
        int32_t *copy = malloc(size);
        if (!copy || !CULM_GROW(store->unit, store->unit_capacity, store->unit_count + 1)) {
            free(copy);
            return -1;
        }
        memcpy(copy, sources, size);
        unit = store->unit_count++;
        store->unit[unit] = (struct culm_live_unit){.source = copy, .count = count};
    }
    for (int32_t i = 0; i < count; i++) {
        struct culm_live_source *source = &store->source[sources[i]];
        source->unit = unit;
        source->offset = at;
        at += (source->bytes + 63) / 64 * 64;
    }
    store->unit[unit].bytes =
        (at + CULM_LIVE_UNIT_PAGE - 1) / CULM_LIVE_UNIT_PAGE * CULM_LIVE_UNIT_PAGE;
    return unit;
}

static bool group(struct culm_live_store *store) {
    int32_t *same = malloc(((size_t)store->source_count + 1) * sizeof *same);
    bool ok = same != NULL;
    for (int32_t s = 0; ok && s < store->source_count; s++) {
        const struct culm_live_source *source = &store->source[s];
        if (!source->users || source->unit >= 0) {
            continue;
        }
        int32_t count = 0;
        if (source->bytes >= LARGE) {
            same[count++] = s;
        }
        for (int32_t other = s; source->bytes < LARGE && other < store->source_count; other++) {
            if (store->source[other].bytes < LARGE && store->source[other].users == source->users) {
                same[count++] = other;
            }
        }
        ok = unit_of(store, same, count) >= 0;
    }
    free(same);
    return ok;
}

static int ascending(const void *a, const void *b) {
    return *(const int32_t *)a - *(const int32_t *)b;
}

enum culm_status culm_live_store_units(struct culm_live_store *store,
                                       const struct culm_live_needs *needs, int32_t queries,
                                       size_t **ret_bytes, int32_t **ret_list, int32_t *ret_count,
                                       struct culm_error *error) {
    for (int32_t s = 0; s < store->source_count; s++) {
        store->source[s].users = 0;
        store->source[s].unit = -1;
    }
    for (int32_t q = 0; q < queries; q++) {
        ret_list[q] = NULL;
        ret_count[q] = 0;
        for (int32_t i = 0; i < needs[q].count; i++) {
            store->source[needs[q].source[i]].users |= 1ull << q;
        }
    }
    bool ok = group(store);
    for (int32_t q = 0; ok && q < queries; q++) {
        int32_t *list = malloc(((size_t)needs[q].count + 1) * sizeof *list), count = 0;
        ok = list != NULL;
        for (int32_t i = 0; ok && i < needs[q].count; i++) {
            list[i] = store->source[needs[q].source[i]].unit;
        }
        if (ok) {
            qsort(list, (size_t)needs[q].count, sizeof *list, ascending);
        }
        for (int32_t i = 0; ok && i < needs[q].count; i++) {
            if (count == 0 || list[count - 1] != list[i]) {
                list[count++] = list[i];
            }
        }
        ret_list[q] = list;
        ret_count[q] = count;
    }
    size_t *bytes = ok ? malloc(((size_t)store->unit_count + 1) * sizeof *bytes) : NULL;
    if (!bytes) {
        for (int32_t q = 0; q < queries; q++) {
            free(ret_list[q]);
            ret_list[q] = NULL;
        }
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for tensors");
    }
    for (int32_t u = 0; u < store->unit_count; u++) {
        bytes[u] = store->unit[u].bytes;
    }
    *ret_bytes = bytes;
    return CULM_OK;
}

/* What is in memory, and what to evict. See residency.h. */
#include "edge/residency.h"

#include <stdlib.h>
#include <string.h>

static void fill_users(const struct culm_edge_layout *layout, uint64_t *users) {
    for (int32_t q = 0; q < layout->query_count; q++) {
        const struct culm_edge_query *query = &layout->query[q];
        for (int32_t i = 0; !query->gone && i < query->tensor_count; i++) {
            users[query->tensor[i]] |= 1ull << q;
        }
    }
}

struct sized {
    size_t bytes;
    int32_t tensor;
};

static int larger_first(const void *a, const void *b) {
    const struct sized *one = a, *other = b;
    return one->bytes != other->bytes ? (one->bytes < other->bytes ? 1 : -1)
                                      : one->tensor - other->tensor;
}

static bool fill_sizes(const struct culm_edge_layout *layout, int32_t *by_size) {
    size_t count = (size_t)layout->tensor_count;
    struct sized *sized = malloc((count + 1) * sizeof *sized);
    if (!sized) {
        return false;
    }
    for (size_t t = 0; t < count; t++) {
        sized[t] = (struct sized){layout->tensor_bytes[t], (int32_t)t};
    }
    qsort(sized, count, sizeof *sized, larger_first);
    for (size_t t = 0; t < count; t++) {
        by_size[t] = sized[t].tensor;
    }
    free(sized);
    return true;
}

enum culm_status culm_edge_residency_init(struct culm_edge_residency *residency,
                                          const struct culm_edge_layout *layout) {
    size_t count = (size_t)layout->tensor_count + 1;
    *residency = (struct culm_edge_residency){.layout = layout};
    residency->state = calloc(count, sizeof *residency->state);
    residency->users = calloc(count, sizeof *residency->users);
    residency->by_size = malloc(count * sizeof *residency->by_size);
    residency->bucket_next = malloc(count * sizeof *residency->bucket_next);
    residency->bucket = malloc((CULM_EDGE_QUERIES_MAX + 2) * sizeof *residency->bucket);
    if (!residency->state || !residency->users || !residency->by_size || !residency->bucket_next ||
        !residency->bucket || !fill_sizes(layout, residency->by_size)) {
        culm_edge_residency_release(residency);
        return CULM_ERR_MEMORY;
    }
    fill_users(layout, residency->users);
    return CULM_OK;
}

void culm_edge_residency_release(struct culm_edge_residency *residency) {
    free(residency->state);
    free(residency->users);
    free(residency->by_size);
    free(residency->bucket);
    free(residency->bucket_next);
    *residency = (struct culm_edge_residency){0};
}

void culm_edge_residency_go_on(struct culm_edge_residency *residency,
                               struct culm_edge_residency *fresh) {
    memcpy(fresh->state, residency->state, (size_t)residency->layout->tensor_count);
    fresh->bytes = residency->bytes;
    culm_edge_residency_release(residency);
    *residency = *fresh;
    *fresh = (struct culm_edge_residency){0};
}

size_t culm_edge_residency_missing(const struct culm_edge_residency *residency, int32_t query) {
    const struct culm_edge_query *of = &residency->layout->query[query];
    size_t bytes = 0;
    for (int32_t i = 0; i < of->tensor_count; i++) {
        if (residency->state[of->tensor[i]] == CULM_EDGE_ABSENT) {
            bytes += residency->layout->tensor_bytes[of->tensor[i]];
        }
    }
    return bytes;
}

static int32_t next_turn(uint64_t users, const int32_t *turn) {
    int32_t soonest = CULM_EDGE_QUERIES_MAX;
    for (; users; users &= users - 1) {
        int32_t when = turn[__builtin_ctzll(users)];
        soonest = when < soonest ? when : soonest;
    }
    return soonest;
}

/* A rank by how long ago a tensor was last used, higher if longer ago. Since queries are visited in
 * a fixed cycle, the query whose next turn is the furthest away is the one that was visited most
 * recently. A tensor's last use is thus that of its user with the latest turn. */
static int32_t last_turn(uint64_t users, const int32_t *turn) {
    int32_t latest = -1;
    for (; users; users &= users - 1) {
        int32_t when = turn[__builtin_ctzll(users)];
        latest = when > latest ? when : latest;
    }
    return latest < 0 ? CULM_EDGE_QUERIES_MAX : CULM_EDGE_QUERIES_MAX - 1 - latest;
}

int32_t culm_edge_residency_victims(struct culm_edge_residency *residency, size_t most_bytes,
                                    const int32_t *turn, uint64_t pinned, int32_t before,
                                    enum culm_edge_eviction eviction, int32_t *ret_tensor) {
    const size_t *bytes = residency->layout->tensor_bytes;
    size_t left = residency->bytes;
    int32_t count = 0, tensors = residency->layout->tensor_count;
    pinned |= culm_edge_pins(residency->layout);
    if (left <= most_bytes) {
        return 0;
    }
    for (int32_t b = 0; b <= CULM_EDGE_QUERIES_MAX; b++) {
        residency->bucket[b] = -1;
    }
    for (int32_t i = 0; i < tensors; i++) { /* pushes to the front: the last one is evicted first */
        int32_t tensor = eviction == CULM_EDGE_LEAST_RECENT   ? tensors - 1 - i
                         : eviction == CULM_EDGE_BELADY_SMALL ? residency->by_size[i]
                                                              : residency->by_size[tensors - 1 - i];
        uint64_t users = residency->users[tensor];
        if (residency->state[tensor] == CULM_EDGE_RESIDENT && !(users & pinned)) {
            int32_t when = next_turn(users, turn);
            if (when >= before) {
                when = eviction == CULM_EDGE_LEAST_RECENT ? last_turn(users, turn) : when;
                residency->bucket_next[tensor] = residency->bucket[when];
                residency->bucket[when] = tensor;
            }
        }
    }
    for (int32_t b = CULM_EDGE_QUERIES_MAX; b >= 0 && left > most_bytes; b--) {
        for (int32_t t = residency->bucket[b]; t >= 0 && left > most_bytes;
             t = residency->bucket_next[t]) {
            int32_t next = residency->bucket_next[t];
            while (eviction == CULM_EDGE_BELADY && next >= 0 && bytes[next] >= left - most_bytes) {
                t = next;
                next = residency->bucket_next[t];
            }
            ret_tensor[count++] = t;
            left -= bytes[t];
        }
    }
    if (left > most_bytes) {
        return -1;
    }
    /* The tensors chosen last may have made it unnecessary to evict some of the others. */
    for (int32_t v = count - 1; v >= 0 && eviction != CULM_EDGE_LEAST_RECENT; v--) {
        if (bytes[ret_tensor[v]] <= most_bytes - left &&
            residency->users[ret_tensor[v]]) { /* what nobody uses goes in any case */
            left += bytes[ret_tensor[v]];
            memmove(ret_tensor + v, ret_tensor + v + 1, (size_t)(--count - v) * sizeof *ret_tensor);
        }
    }
    return count;
}

/* --- rounds of an order --- */

static size_t visit(struct culm_edge_residency *residency, const int32_t *order, int32_t count,
                    int32_t at, size_t most_bytes, enum culm_edge_eviction eviction,
                    int32_t *victim) {
    const struct culm_edge_query *query = &residency->layout->query[order[at]];
    size_t missing = culm_edge_residency_missing(residency, order[at]);
    size_t keep = most_bytes > missing ? most_bytes - missing : 0;
    int32_t turn[CULM_EDGE_QUERIES_MAX];
    for (int32_t q = 0; q < CULM_EDGE_QUERIES_MAX; q++) {
        turn[q] = CULM_EDGE_QUERIES_MAX;
    }
    for (int32_t i = 0; i < count; i++) {
        turn[order[(at + i) % count]] = i;
    }
    int32_t victims =
        culm_edge_residency_victims(residency, keep, turn, 1ull << order[at], 0, eviction, victim);
    for (int32_t v = 0; v < victims; v++) {
        culm_edge_residency_set(residency, victim[v], CULM_EDGE_ABSENT);
    }
    for (int32_t i = 0; i < query->tensor_count; i++) {
        culm_edge_residency_set(residency, query->tensor[i], CULM_EDGE_RESIDENT);
    }
    return missing;
}

#define ROUNDS 8 /* the first half fills the memory; the second half is counted */

int64_t culm_edge_cycle_work(const struct culm_edge_layout *layout, int32_t count) {
    return (int64_t)ROUNDS * count * (layout->tensor_count + 16);
}

int64_t culm_edge_cycle_bytes(const struct culm_edge_layout *layout, const int32_t *order,
                              int32_t count, const size_t *activation_bytes, size_t frames_bytes,
                              enum culm_edge_eviction eviction, size_t *ret_missing) {
    struct culm_edge_residency residency = {0};
    int64_t total = -1;
    int32_t *victim = malloc(((size_t)layout->tensor_count + 1) * sizeof *victim);
    if (victim && culm_edge_residency_init(&residency, layout) == CULM_OK) {
        size_t room = layout->limit_bytes - frames_bytes;
        for (int32_t time = 0; time < ROUNDS * count; time++) {
            int32_t at = time % count;
            size_t missing = visit(&residency, order, count, at, room - activation_bytes[order[at]],
                                   eviction, victim);
            total = time == 0 || time == ROUNDS / 2 * count ? 0 : total;
            total += (int64_t)missing;
            if (ret_missing) {
                ret_missing[at] = missing;
            }
        }
        total = count ? total / (ROUNDS / 2) : 0;
    }
    culm_edge_residency_release(&residency);
    free(victim);
    return total;
}

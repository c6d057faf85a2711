/* Checks of a layout, and sums over it. See layout.h. */
#include "edge/layout.h"

#include <stdlib.h>

#define MB 1048576.0 /* as edge.memory counts them */

size_t culm_edge_query_bytes(const struct culm_edge_layout *layout, int32_t query) {
    size_t bytes = 0;
    for (int32_t i = 0; i < layout->query[query].tensor_count; i++) {
        bytes += layout->tensor_bytes[layout->query[query].tensor[i]];
    }
    return bytes;
}

static bool uses(const struct culm_edge_query *query, int32_t tensor) {
    int32_t low = 0, high = query->tensor_count;
    while (low < high) {
        int32_t middle = (low + high) / 2;
        if (query->tensor[middle] < tensor) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < query->tensor_count && query->tensor[low] == tensor;
}

/* Of the tensors of some queries, a bit for each, which may have gone: each counted once. */
static size_t bytes_of(const struct culm_edge_layout *layout, uint64_t queries) {
    size_t bytes = 0;
    for (int32_t t = 0; t < layout->tensor_count; t++) {
        bool used = false;
        for (uint64_t left = queries; left && !used; left &= left - 1) {
            used = uses(&layout->query[__builtin_ctzll(left)], t);
        }
        bytes += used ? layout->tensor_bytes[t] : 0;
    }
    return bytes;
}

size_t culm_edge_distinct_bytes(const struct culm_edge_layout *layout) {
    uint64_t queries = 0;
    for (int32_t q = 0; q < layout->query_count; q++) {
        queries |= layout->query[q].gone ? 0 : 1ull << q;
    }
    return bytes_of(layout, queries);
}

uint64_t culm_edge_pins(const struct culm_edge_layout *layout) {
    uint64_t pins = 0;
    for (int32_t q = 0; q < layout->query_count; q++) {
        pins |= layout->query[q].pin && !layout->query[q].gone ? 1ull << q : 0;
    }
    return pins;
}

size_t culm_edge_need_bytes(const struct culm_edge_layout *layout, int32_t query) {
    const uint64_t pins = culm_edge_pins(layout);
    return pins & ~(1ull << query) ? bytes_of(layout, pins | 1ull << query)
                                   : culm_edge_query_bytes(layout, query);
}

int32_t culm_edge_prefix_of_both(const struct culm_edge_layout *layout, int32_t query,
                                 int32_t other) {
    const struct culm_edge_query *of = &layout->query[query], *with = &layout->query[other];
    for (int32_t i = of->prefixes - 1; i >= 0 && of->feed == with->feed && !with->gone; i--) {
        for (int32_t j = 0; j < with->prefixes; j++) {
            if (of->prefix[i].id == with->prefix[j].id) {
                return i;
            }
        }
    }
    return -1;
}

static bool watched(const struct culm_edge_layout *layout, int32_t feed) {
    for (int32_t q = 0; q < layout->query_count; q++) {
        if (!layout->query[q].gone && layout->query[q].feed == feed) {
            return true;
        }
    }
    return false;
}

size_t culm_edge_frames_bytes(const struct culm_edge_layout *layout, int32_t slots) {
    size_t bytes = 0;
    for (int32_t f = 0; f < layout->feed_count; f++) {
        if (!layout->feed[f].gone && watched(layout, f)) {
            bytes += (size_t)(slots + 1) * layout->feed[f].frame_bytes;
        }
    }
    return bytes;
}

void culm_edge_memory_range(const struct culm_edge_layout *layout, size_t *ret_least,
                            size_t *ret_most) {
    size_t frames = culm_edge_frames_bytes(layout, CULM_EDGE_SLOTS_MIN), alone = 0, most = 0;
    for (int32_t q = 0; q < layout->query_count; q++) {
        const struct culm_edge_query *query = &layout->query[q];
        size_t activations = query->gone ? 0 : query->activation_bytes[query->batches - 1];
        size_t bytes =
            query->gone ? 0 : culm_edge_need_bytes(layout, q) + query->activation_bytes[0];
        alone = bytes > alone ? bytes : alone;
        most = activations > most ? activations : most;
    }
    *ret_least = frames + alone;
    *ret_most = frames + culm_edge_distinct_bytes(layout) + most;
    *ret_most = *ret_most > *ret_least ? *ret_most : *ret_least;
}

static bool query_is_sound(const struct culm_edge_layout *layout,
                           const struct culm_edge_query *query) {
    bool sound = query->feed >= 0 && query->feed < layout->feed_count && query->batches >= 1 &&
                 query->batches <= CULM_EDGE_SIZES_MAX && query->batch[0] == 1 &&
                 query->prefixes >= 0 && query->prefixes <= CULM_EDGE_PREFIX_MAX &&
                 query->deadline_ns > 0;
    for (int32_t b = 1; sound && b < query->batches; b++) {
        sound = query->batch[b] > query->batch[b - 1] && query->batch[b] <= CULM_EDGE_VISIT_MAX;
    }
    for (int32_t b = 0; sound && b < query->batches; b++) {
        sound = query->run_ns[b] > 0;
    }
    for (int32_t i = 0; sound && i < query->prefixes * query->batches; i++) {
        const struct culm_edge_prefix *prefix = &query->prefix[i / query->batches];
        int32_t b = i % query->batches;
        sound = prefix->id != 0 && prefix->run_ns[b] < query->run_ns[b] &&
                prefix->keep_bytes[b] <= query->activation_bytes[b];
    }
    for (int32_t i = 0; sound && i < query->tensor_count; i++) {
        sound = query->tensor[i] >= 0 && query->tensor[i] < layout->tensor_count &&
                (i == 0 || query->tensor[i] > query->tensor[i - 1]);
    }
    return sound;
}

enum culm_status culm_edge_layout_check(const struct culm_edge_layout *layout,
                                        struct culm_error *error) {
    bool sound = layout->query_count >= 0 && layout->query_count <= CULM_EDGE_QUERIES_MAX &&
                 layout->feed_count >= 0 && layout->feed_count <= CULM_EDGE_FEEDS_MAX &&
                 layout->tensor_count >= 0 && layout->load_ns_per_byte >= 0;
    for (int32_t f = 0; sound && f < layout->feed_count; f++) {
        sound = layout->feed[f].period_ns > 0;
    }
    for (int32_t q = 0; sound && q < layout->query_count; q++) {
        sound = layout->query[q].gone || query_is_sound(layout, &layout->query[q]);
    }
    if (!sound) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "the layout of queries contradicts itself");
    }
    size_t frames = culm_edge_frames_bytes(layout, CULM_EDGE_SLOTS_MIN);
    for (int32_t q = 0; q < layout->query_count; q++) {
        const struct culm_edge_query *query = &layout->query[q];
        if (query->gone) {
            continue;
        }
        size_t bytes = culm_edge_query_bytes(layout, q), need = culm_edge_need_bytes(layout, q);
        size_t total = need + query->activation_bytes[0] + frames;
        if (total > layout->limit_bytes && need > bytes) {
            return culm_error_set(error, CULM_ERR_CONFIG,
                                  "query '%s' takes %.2f MB beside %.2f MB of pinned queries' "
                                  "weights, and the limit is "
                                  "%.2f MB; pin fewer queries, or set edge.memory to at least %.2f",
                                  query->name, (double)(total - (need - bytes)) / MB,
                                  (double)(need - bytes) / MB, (double)layout->limit_bytes / MB,
                                  (double)total / MB + 0.005);
        }
        if (total > layout->limit_bytes) {
            return culm_error_set(
                error, CULM_ERR_CONFIG,
                "query '%s' takes %.2f MB (weights %.2f, activations %.2f, frames "
                "%.2f), but the limit is %.2f MB; set edge.memory to min, or to "
                "at least %.2f",
                query->name, (double)total / MB, (double)bytes / MB,
                (double)query->activation_bytes[0] / MB, (double)frames / MB,
                (double)layout->limit_bytes / MB, (double)total / MB + 0.005);
        }
    }
    return CULM_OK;
}

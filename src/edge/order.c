/* The search for an order. See order.h. */
#include "edge/order.h"

#include <string.h>

struct search {
    const struct culm_edge_layout *layout;
    const size_t *activation_bytes;
    size_t frames_bytes;
    int32_t count;
    int32_t order[CULM_EDGE_QUERIES_MAX], best[CULM_EDGE_QUERIES_MAX];
    int64_t best_bytes; /* -1: none yet */
    uint64_t best_ns;   /* what shared prefixes save in a round of it */
    bool kin;           /* some queries have a prefix in common */
    int64_t work, most_work;
    bool failed;
};

static int64_t bytes_of(struct search *search, const int32_t *order) {
    int64_t bytes =
        culm_edge_cycle_bytes(search->layout, order, search->count, search->activation_bytes,
                              search->frames_bytes, CULM_EDGE_BELADY, NULL);
    search->failed |= bytes < 0;
    search->work += culm_edge_cycle_work(search->layout, search->count);
    return bytes;
}

/* The time saved in a round by queries that continue from what the one before them has computed.
 * The first query of a round does not: the last one of the round before had other frames. */
static uint64_t shared_ns(const struct search *search, const int32_t *order) {
    uint64_t ns = 0;
    for (int32_t i = 1; i < search->count; i++) {
        int32_t query = order[i];
        int32_t shared = culm_edge_prefix_of_both(search->layout, query, order[i - 1]);
        ns += shared >= 0 ? search->layout->query[query].prefix[shared].run_ns[0] : 0;
    }
    return ns;
}

static bool consider(struct search *search, const int32_t *order) {
    int64_t bytes = bytes_of(search, order);
    uint64_t ns = search->kin ? shared_ns(search, order) : 0;
    if (search->best_bytes >= 0 &&
        (bytes > search->best_bytes || (bytes == search->best_bytes && ns <= search->best_ns))) {
        return false;
    }
    search->best_bytes = bytes;
    search->best_ns = ns;
    memmove(search->best, order, (size_t)search->count * sizeof *order);
    return true;
}

static void swap(int32_t *one, int32_t *other) {
    int32_t value = *one;
    *one = *other;
    *other = value;
}

/* Tries all orders of what is at `at` and behind it, in lexicographical order. */
static void try_all(struct search *search, int32_t at) {
    if (at >= search->count - 1) {
        consider(search, search->order);
        return;
    }
    for (int32_t i = at; i < search->count && (search->best_bytes != 0 || search->kin); i++) {
        int32_t chosen = search->order[i];
        memmove(search->order + at + 1, search->order + at, (size_t)(i - at) * sizeof chosen);
        search->order[at] = chosen;
        try_all(search, at + 1);
        memmove(search->order + at, search->order + at + 1, (size_t)(i - at) * sizeof chosen);
        search->order[i] = chosen;
    }
}

static int64_t all_work(const struct search *search) {
    int64_t orders = 1;
    for (int32_t i = 2; i < search->count; i++) {
        orders *= i;
    }
    return orders * culm_edge_cycle_work(search->layout, search->count);
}

/* Bytes of `to` that `from` does not have. */
static size_t distance(const struct culm_edge_layout *layout, int32_t from, int32_t to) {
    const struct culm_edge_query *one = &layout->query[from], *other = &layout->query[to];
    size_t bytes = 0;
    int32_t i = 0;
    for (int32_t j = 0; j < other->tensor_count; j++) {
        while (i < one->tensor_count && one->tensor[i] < other->tensor[j]) {
            i++;
        }
        if (i == one->tensor_count || one->tensor[i] != other->tensor[j]) {
            bytes += layout->tensor_bytes[other->tensor[j]];
        }
    }
    return bytes;
}

static void nearest_neighbours(struct search *search) {
    for (int32_t at = 1; at < search->count; at++) {
        int32_t nearest = at;
        size_t least = SIZE_MAX;
        for (int32_t i = at; i < search->count; i++) {
            size_t bytes = distance(search->layout, search->order[at - 1], search->order[i]);
            if (bytes < least) {
                least = bytes;
                nearest = i;
            }
        }
        swap(&search->order[at], &search->order[nearest]);
    }
}

static bool turned_round(struct search *search) {
    for (int32_t from = 1; from < search->count - 1; from++) {
        for (int32_t to = from + 1; to < search->count && search->work < search->most_work; to++) {
            memcpy(search->order, search->best, sizeof search->order);
            for (int32_t i = from, j = to; i < j; i++, j--) {
                swap(&search->order[i], &search->order[j]);
            }
            if (consider(search, search->order)) {
                return true;
            }
        }
    }
    return false;
}

static bool moved(struct search *search) {
    for (int32_t from = 1; from < search->count; from++) {
        for (int32_t to = 1; to < search->count && search->work < search->most_work; to++) {
            memcpy(search->order, search->best, sizeof search->order);
            int32_t query = search->order[from];
            memmove(search->order + from, search->order + from + 1,
                    (size_t)(search->count - from - 1) * sizeof query);
            memmove(search->order + to + 1, search->order + to,
                    (size_t)(search->count - to - 1) * sizeof query);
            search->order[to] = query;
            if (consider(search, search->order)) {
                return true;
            }
        }
    }
    return false;
}

int32_t culm_edge_order_given(const struct culm_edge_layout *layout, int32_t *ret_order) {
    int32_t count = 0;
    for (int32_t q = 0; q < layout->query_count; q++) {
        if (!layout->query[q].gone) {
            ret_order[count++] = q;
        }
    }
    return count;
}

int32_t culm_edge_order_find(const struct culm_edge_layout *layout, const size_t *activation_bytes,
                             size_t frames_bytes, int64_t most_work, int32_t *ret_order,
                             int64_t *ret_work) {
    struct search search = {.layout = layout,
                            .activation_bytes = activation_bytes,
                            .frames_bytes = frames_bytes,
                            .best_bytes = -1,
                            .most_work = most_work};
    search.count = culm_edge_order_given(layout, search.order);
    for (int32_t i = 0; i < search.count; i++) {
        for (int32_t j = 0; j < i; j++) {
            search.kin |= culm_edge_prefix_of_both(layout, search.order[i], search.order[j]) >= 0;
        }
    }
    if (search.count <= CULM_EDGE_ORDER_EXACT && all_work(&search) <= most_work) {
        try_all(&search, 1);
    } else {
        consider(&search, search.order);
        nearest_neighbours(&search);
        consider(&search, search.order);
        while ((search.best_bytes > 0 || search.kin) && search.work < most_work &&
               (turned_round(&search) || moved(&search))) {
        }
    }
    if (search.failed) {
        return -1;
    }
    if (ret_work) {
        *ret_work = search.work;
    }
    memcpy(ret_order, search.best, (size_t)search.count * sizeof *ret_order);
    return search.count;
}

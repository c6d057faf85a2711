/* Layouts that share less. See unshared.h. */
#include "edge/unshared.h"

#include <stdlib.h>
#include <string.h>

/* How many queries use each tensor: [tensor_count], NULL: out of memory. */
static int32_t *count_users(const struct culm_edge_layout *layout, int32_t *ret_uses) {
    int32_t *users = calloc((size_t)layout->tensor_count + 1, sizeof *users);
    *ret_uses = 0;
    for (int32_t q = 0; q < layout->query_count && users; q++) {
        const struct culm_edge_query *query = &layout->query[q];
        *ret_uses += query->tensor_count;
        for (int32_t i = 0; i < query->tensor_count && !query->gone; i++) {
            users[query->tensor[i]]++;
        }
    }
    return users;
}

enum culm_status culm_edge_shares_any(const struct culm_edge_layout *layout, bool *ret_any) {
    int32_t uses, *users = count_users(layout, &uses);
    bool any = false;
    for (int32_t t = 0; t < layout->tensor_count && users; t++) {
        any |= users[t] > 1;
    }
    if (users) {
        *ret_any = any;
    }
    free(users);
    return users ? CULM_OK : CULM_ERR_MEMORY;
}

struct sized {
    size_t bytes;
    int32_t tensor;
};

static int largest_first(const void *a, const void *b) {
    const struct sized *one = a, *other = b;
    return one->bytes != other->bytes
               ? (one->bytes < other->bytes ? 1 : -1)
               : (one->tensor > other->tensor) - (one->tensor < other->tensor);
}

/* Decides which tensors are no longer shared, and sets users[t] to 1 for these. */
static enum culm_status thin_out(const struct culm_edge_layout *layout, double share,
                                 int32_t *users) {
    struct sized *shared = calloc((size_t)layout->tensor_count + 1, sizeof *shared);
    int32_t count = 0;
    double saved = 0, left;
    if (!shared) {
        return CULM_ERR_MEMORY;
    }
    for (int32_t t = 0; t < layout->tensor_count; t++) {
        if (users[t] > 1) {
            shared[count++] = (struct sized){layout->tensor_bytes[t], t};
            saved += (double)layout->tensor_bytes[t] * (users[t] - 1);
        }
    }
    qsort(shared, (size_t)count, sizeof *shared, largest_first);
    left = saved * share;
    for (int32_t i = 0; i < count; i++) {
        int32_t *of = &users[shared[i].tensor];
        double saves = (double)shared[i].bytes * (*of - 1);
        if (saves > left) {
            *of = 1;
        } else {
            left -= saves;
        }
    }
    free(shared);
    return CULM_OK;
}

static int ascending(const void *a, const void *b) {
    return *(const int32_t *)a - *(const int32_t *)b;
}

/* The first user of a tensor keeps it; every other one gets its own, appended at the end. */
static void part(struct culm_edge_unshared *unshared, const struct culm_edge_layout *layout,
                 const int32_t *users, bool *taken) {
    int32_t *list = unshared->list;
    unshared->layout.tensor_count = layout->tensor_count;
    memcpy(unshared->bytes, layout->tensor_bytes,
           (size_t)layout->tensor_count * sizeof *unshared->bytes);
    for (int32_t q = 0; q < layout->query_count; q++) {
        struct culm_edge_query *query = &unshared->query[q];
        *query = layout->query[q];
        query->prefixes = 0;
        query->tensor = list;
        for (int32_t i = 0; i < query->tensor_count; i++) {
            int32_t t = layout->query[q].tensor[i];
            list[i] = t;
            if (users[t] == 1 && taken[t]) {
                list[i] = unshared->layout.tensor_count;
                unshared->bytes[unshared->layout.tensor_count++] = layout->tensor_bytes[t];
            }
            taken[t] |= !query->gone;
        }
        qsort(list, (size_t)query->tensor_count, sizeof *list, ascending);
        list += query->tensor_count;
    }
}

enum culm_status culm_edge_unshared_init(struct culm_edge_unshared *unshared,
                                         const struct culm_edge_layout *layout, double share) {
    int32_t uses, *users = count_users(layout, &uses);
    bool *taken = calloc((size_t)layout->tensor_count + 1, sizeof *taken);
    *unshared = (struct culm_edge_unshared){
        .layout = *layout,
        .query = calloc((size_t)layout->query_count + 1, sizeof *unshared->query),
        .bytes = calloc((size_t)layout->tensor_count + (size_t)uses + 1, sizeof *unshared->bytes),
        .list = calloc((size_t)uses + 1, sizeof *unshared->list)};
    bool there = users && taken && unshared->query && unshared->bytes && unshared->list;
    enum culm_status status = there ? thin_out(layout, share, users) : CULM_ERR_MEMORY;
    if (status == CULM_OK) {
        part(unshared, layout, users, taken);
        unshared->layout.query = unshared->query;
        unshared->layout.tensor_bytes = unshared->bytes;
    }
    free(users);
    free(taken);
    return status;
}

void culm_edge_unshared_release(struct culm_edge_unshared *unshared) {
    free(unshared->query);
    free(unshared->bytes);
    free(unshared->list);
    *unshared = (struct culm_edge_unshared){0};
}

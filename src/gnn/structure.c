/* Renumbers vertices, and works out what intervals read, and slices. See structure.h. */
#include "gnn/structure.h"

#include <stdlib.h>
#include <string.h>

static enum culm_status out_of_memory(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for the graph's structure");
}

/* --- numbers --- */

static enum culm_status number(struct culm_gnn_structure *s, const uint32_t *interval_of,
                               struct culm_error *error) {
    int64_t *next = calloc((size_t)s->intervals + 1, sizeof *next);
    s->first = calloc((size_t)s->intervals + 1, sizeof *s->first);
    s->old_of_new = malloc((size_t)s->vertices * sizeof *s->old_of_new);
    s->new_of_old = malloc((size_t)s->vertices * sizeof *s->new_of_old);
    if (!next || !s->first || !s->old_of_new || !s->new_of_old) {
        free(next);
        return out_of_memory(error);
    }
    for (int64_t v = 0; v < s->vertices; v++) {
        if (interval_of[v] >= (uint32_t)s->intervals) {
            free(next);
            return culm_error_set(
                error, CULM_ERR_ARGUMENT,
                "vertex %lld is in interval %u, but there are only %d; cut the graph again",
                (long long)v, interval_of[v], s->intervals);
        }
        s->first[interval_of[v] + 1]++;
    }
    for (int32_t i = 0; i < s->intervals; i++) {
        s->first[i + 1] += s->first[i];
        next[i] = s->first[i];
    }
    for (int64_t v = 0; v < s->vertices; v++) {
        int64_t at = next[interval_of[v]]++;
        s->old_of_new[at] = (uint32_t)v;
        s->new_of_old[v] = (uint32_t)at;
    }
    free(next);
    return CULM_OK;
}

/* Makes `along`, with new numbers. Edges are never in memory more than twice. */
static enum culm_status connect(struct culm_gnn_structure *s, struct culm_graph_data *graph,
                                bool loops, struct culm_error *error) {
    struct culm_adjacency of = {0};
    enum culm_status status = culm_adjacency_of(graph, loops, &of, error);
    if (status != CULM_OK) {
        return status;
    }
    free(graph->edge);
    graph->edge = NULL;
    status = culm_adjacency_transpose(&of, s->new_of_old, &s->along[s->directed], error);
    culm_adjacency_release(&of);
    if (status == CULM_OK && s->directed) {
        status = culm_adjacency_transpose(&s->along[1], NULL, &s->along[0], error);
    }
    return status;
}

/* --- what is read --- */

/* Sets a bit for each vertex that the interval reads. */
static void mark(const struct culm_gnn_structure *s, const struct culm_adjacency *along,
                 int32_t interval, uint64_t *bit) {
    uint64_t end = along->start[s->first[interval + 1]];
    for (uint64_t e = along->start[s->first[interval]]; e < end; e++) {
        bit[along->column[e] / 64] |= 1ull << (along->column[e] % 64);
    }
}

/* Turns the bits into lists of rows by interval, and clears them. */
static bool collect(const struct culm_gnn_structure *s, uint64_t *bit, struct culm_gnn_need *need) {
    int64_t words = (s->vertices + 63) / 64, count = 0;
    for (int64_t w = 0; w < words; w++) {
        count += __builtin_popcountll(bit[w]);
    }
    need->start = calloc((size_t)s->intervals + 1, sizeof *need->start);
    need->row = malloc(((size_t)count + 1) * sizeof *need->row);
    if (!need->start || !need->row) {
        return false;
    }
    uint32_t at = 0;
    int32_t other = 0;
    for (int64_t w = 0; w < words; w++) {
        for (uint64_t left = bit[w]; left; left &= left - 1) {
            int64_t v = w * 64 + __builtin_ctzll(left);
            while (v >= s->first[other + 1]) {
                need->start[++other] = at;
            }
            need->row[at++] = (uint32_t)(v - s->first[other]);
        }
        bit[w] = 0;
    }
    while (other < s->intervals) {
        need->start[++other] = at;
    }
    return true;
}

/* Replaces the vertices in the interval's rows of `along` by their places in its table. */
static void place(const struct culm_gnn_structure *s, struct culm_adjacency *along,
                  int32_t interval, const struct culm_gnn_need *need, uint32_t *place_of) {
    for (int32_t j = 0; j < s->intervals; j++) {
        for (uint32_t at = need->start[j]; at < need->start[j + 1]; at++) {
            place_of[s->first[j] + need->row[at]] = at;
        }
    }
    uint64_t end = along->start[s->first[interval + 1]];
    for (uint64_t e = along->start[s->first[interval]]; e < end; e++) {
        along->column[e] = place_of[along->column[e]];
    }
}

static enum culm_status find_needs(struct culm_gnn_structure *s, int direction,
                                   struct culm_error *error) {
    uint64_t *bit = calloc((size_t)(s->vertices + 63) / 64 + 1, sizeof *bit);
    uint32_t *place_of = malloc((size_t)s->vertices * sizeof *place_of);
    s->need[direction] = calloc((size_t)s->intervals, sizeof *s->need[direction]);
    bool ok = bit && place_of && s->need[direction];
    for (int32_t i = 0; i < s->intervals && ok; i++) {
        mark(s, &s->along[direction], i, bit);
        ok = collect(s, bit, &s->need[direction][i]);
        if (ok) {
            place(s, &s->along[direction], i, &s->need[direction][i], place_of);
        }
    }
    free(bit);
    free(place_of);
    return ok ? CULM_OK : out_of_memory(error);
}

enum culm_status culm_gnn_structure_new(struct culm_graph_data *graph, const uint32_t *interval_of,
                                        int32_t intervals, bool loops,
                                        struct culm_gnn_structure **ret_structure,
                                        struct culm_error *error) {
    struct culm_gnn_structure *s = calloc(1, sizeof *s);
    if (!s) {
        return out_of_memory(error);
    }
    s->vertices = graph->vertices;
    s->intervals = intervals;
    s->directed = graph->directed;
    enum culm_status status = number(s, interval_of, error);
    if (status == CULM_OK) {
        status = connect(s, graph, loops, error);
    }
    for (int d = 0; d <= s->directed && status == CULM_OK; d++) {
        status = find_needs(s, d, error);
    }
    if (status != CULM_OK) {
        culm_gnn_structure_free(s);
        return status;
    }
    *ret_structure = s;
    return CULM_OK;
}

void culm_gnn_structure_free(struct culm_gnn_structure *s) {
    if (!s) {
        return;
    }
    free(s->first);
    free(s->old_of_new);
    free(s->new_of_old);
    for (int d = 0; d < 2; d++) {
        culm_adjacency_release(&s->along[d]);
        for (int32_t i = 0; i < s->intervals && s->need[d]; i++) {
            free(s->need[d][i].start);
            free(s->need[d][i].row);
        }
        free(s->need[d]);
    }
    free(s);
}

enum culm_status culm_gnn_structure_layout(const struct culm_gnn_structure *s,
                                           struct culm_gnn_layout *layout,
                                           struct culm_error *error) {
    memcpy(layout->first, s->first, ((size_t)s->intervals + 1) * sizeof *layout->first);
    for (int t = 0; t < 2; t++) {
        const uint64_t *start = culm_gnn_structure_along(s, t)->start;
        for (int32_t i = 0; i < s->intervals; i++) {
            const struct culm_gnn_need *need = culm_gnn_structure_need(s, t, i);
            layout->edges[t][i] = (int64_t)(start[s->first[i + 1]] - start[s->first[i]]);
            for (int32_t j = 0; j < s->intervals; j++) {
                bool reads = i == j || need->start[j + 1] > need->start[j];
                if (reads && culm_gnn_layout_reads(layout, t, i, j) != CULM_OK) {
                    return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
                }
            }
        }
    }
    return CULM_OK;
}

/* --- the rows of a gather --- */

enum culm_status culm_gnn_rows_init(const struct culm_gnn_structure *s, bool transposed,
                                    int32_t interval, struct culm_gnn_rows *ret_rows,
                                    struct culm_error *error) {
    const struct culm_adjacency *along = culm_gnn_structure_along(s, transposed);
    int64_t first = s->first[interval], count = culm_gnn_structure_rows(s, interval);
    uint64_t begin = along->start[first];
    struct culm_gnn_rows rows = {
        .start = malloc(((size_t)count + 1) * sizeof *rows.start),
        .column = along->column + begin,
    };
    if (!rows.start) {
        return out_of_memory(error);
    }
    for (int64_t r = 0; r <= count; r++) {
        rows.start[r] = along->start[first + r] - begin;
    }
    *ret_rows = rows;
    return CULM_OK;
}

void culm_gnn_rows_release(struct culm_gnn_rows *rows) {
    free(rows->start);
    *rows = (struct culm_gnn_rows){0};
}

/* --- slices --- */

int64_t culm_gnn_structure_slice(const struct culm_gnn_structure *s, bool transposed,
                                 int32_t interval, const struct culm_set *readers,
                                 uint32_t *ret_row) {
    int64_t count = culm_gnn_structure_rows(s, interval), taken = 0;
    memset(ret_row, 0, (size_t)count * sizeof *ret_row);
    for (int32_t r = culm_set_next(readers, 0); r >= 0; r = culm_set_next(readers, r + 1)) {
        const struct culm_gnn_need *need = culm_gnn_structure_need(s, transposed, r);
        for (uint32_t at = need->start[interval]; at < need->start[interval + 1]; at++) {
            ret_row[need->row[at]] = 1;
        }
    }
    for (int64_t v = 0; v < count;
         v++) { /* from marks to numbers: none is passed before it is read */
        if (ret_row[v]) {
            ret_row[taken++] = (uint32_t)v;
        }
    }
    return taken;
}

void culm_gnn_structure_in_slice(const struct culm_gnn_structure *s, bool transposed,
                                 int32_t interval, int32_t reader, const uint32_t *slice,
                                 int64_t count, uint32_t *ret_at) {
    const struct culm_gnn_need *need = culm_gnn_structure_need(s, transposed, reader);
    int64_t at = 0;
    for (uint32_t n = need->start[interval]; n < need->start[interval + 1]; n++) {
        while (at < count && slice[at] < need->row[n]) {
            at++;
        }
        *ret_at++ = (uint32_t)at;
    }
}

/*
 * The numeric executor: the packed input of an interval, as it is sent and stored.
 *
 * It is struct gnn_packed, then arrays, each aligned to 64 bytes: original numbers u32[n], scale
 * f32[n], labels i32[n], uses u8[n]; then features f32[n,columns], and own features if the model
 * has them, or, if sparse, start u64[n+1], column u32[entries], value f32[entries]. Everything else is
 * derived from it.
 */
#include "gnn/numeric_internal.h"

#include <string.h>

#define MAGIC 0x31676e6e67 /* "gnng1" */
struct gnn_places gnn_places_of(const struct gnn_packed *h) {
    size_t at = 0, n = (size_t)h->n;
    struct gnn_places p = {0};
    gnn_place(&at, sizeof *h);
    p.id = gnn_place(&at, n * sizeof(uint32_t));
    p.scale = gnn_place(&at, n * sizeof(float));
    p.label = gnn_place(&at, n * sizeof(int32_t));
    p.use = gnn_place(&at, n);
    if (h->sparse) {
        p.start = gnn_place(&at, (n + 1) * sizeof(uint64_t));
        p.column = gnn_place(&at, h->entries * sizeof(uint32_t));
        p.value = gnn_place(&at, h->entries * sizeof(float));
    } else {
        size_t rows = n * (size_t)h->columns * sizeof(float);
        p.dense = gnn_place(&at, rows);
        p.own = gnn_place(&at, h->own ? rows : 0);
    }
    p.bytes = at;
    return p;
}

static uint64_t entries_of(const struct culm_gnn_structure *s, const struct culm_graph_data *graph,
                           int32_t interval) {
    uint64_t entries = 0;
    for (int64_t v = s->first[interval]; v < s->first[interval + 1] && graph->start; v++) {
        entries += graph->start[s->old_of_new[v] + 1] - graph->start[s->old_of_new[v]];
    }
    return entries;
}

struct gnn_packed gnn_packed_of(const struct culm_gnn_model *model,
                                const struct culm_gnn_structure *s,
                                const struct culm_graph_data *graph, int32_t interval) {
    bool sparse = model->plan.sparse;
    return (struct gnn_packed){
        .magic = MAGIC,
        .n = culm_gnn_structure_rows(s, interval),
        .columns = graph->columns,
        .entries = sparse ? entries_of(s, graph, interval) : 0,
        .sparse = sparse,
        .own = model->own_features,
    };
}

size_t gnn_input_bytes(const struct culm_gnn_model *model,
                       const struct culm_gnn_structure *structure,
                       const struct culm_graph_data *graph, int32_t interval, size_t *ret_front) {
    const struct gnn_packed head = gnn_packed_of(model, structure, graph, interval);
    const struct gnn_places p = gnn_places_of(&head);
    *ret_front = p.dense;
    return p.bytes;
}

static enum culm_status damaged(struct culm_gnn_task *task) {
    return culm_error_set(&task->job.error, CULM_ERR_FORMAT,
                          "the input of interval %d was damaged on its way", task->interval);
}

static bool sparse_is_sound(const struct gnn_packed *h, const uint64_t *start,
                            const uint32_t *column) {
    bool sound = start[0] == 0 && start[h->n] == h->entries;
    for (int64_t r = 0; r < h->n && sound; r++) {
        sound = start[r] <= start[r + 1] && start[r + 1] <= h->entries;
        for (uint64_t e = start[r]; e < start[r + 1] && sound; e++) {
            sound =
                column[e] < (uint64_t)h->columns && (e == start[r] || column[e - 1] < column[e]);
        }
    }
    return sound;
}

static bool all_ones(const float *value, uint64_t entries) {
    uint64_t e = 0;
    while (e < entries && value[e] == 1) {
        e++;
    }
    return e == entries;
}

/* The packed input may come from another node, so everything in it is checked. */
enum culm_status gnn_unpack(struct culm_gnn_numeric *x, struct culm_gnn_task *task,
                            struct gnn_input *input) {
    const struct culm_gnn_plan *plan = &x->o.model->plan;
    const struct culm_blob *packed = input->packed;
    struct gnn_packed h;
    if (packed->size_bytes < sizeof h) {
        return damaged(task);
    }
    memcpy(&h, packed->data, sizeof h);
    if (h.magic != MAGIC || h.n < 1 || h.n > plan->rows_max || h.columns != plan->columns ||
        h.sparse != plan->sparse || h.own != x->o.model->own_features ||
        h.entries > packed->size_bytes / sizeof(uint32_t)) {
        return damaged(task);
    }
    const struct gnn_places p = gnn_places_of(&h);
    const char *at = packed->data;
    if (p.bytes != packed->size_bytes) {
        return damaged(task);
    }
    const char *front = input->in_file ? input->front->data : at; /* stays in memory */
    input->n = h.n;
    input->id = (const uint32_t *)(front + p.id);
    input->scale = (const float *)(front + p.scale);
    input->label = (const int32_t *)(front + p.label);
    input->use = (const uint8_t *)(front + p.use);
    for (int64_t r = 0; r < h.n; r++) {
        bool used = input->use[r] != CULM_GRAPH_UNUSED;
        if (input->label[r] >= plan->classes || (used && input->label[r] < 0) ||
            input->use[r] > CULM_GRAPH_TEST) {
            return damaged(task);
        }
    }
    if (!h.sparse) {
        input->dense = (const float *)(at + p.dense);
        input->own_dense = h.own ? (const float *)(at + p.own) : NULL;
        return CULM_OK;
    }
    input->sparse = (struct culm_sparse_rows){
        .n = h.n,
        .columns = h.columns,
        .start = (const uint64_t *)(at + p.start),
        .column = (const uint32_t *)(at + p.column),
        .value = all_ones((const float *)(at + p.value), h.entries) ? NULL
                                                                    : (const float *)(at + p.value),
    };
    return sparse_is_sound(&h, input->sparse.start, input->sparse.column) ? CULM_OK : damaged(task);
}

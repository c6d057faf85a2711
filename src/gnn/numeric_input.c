/*
 * The numeric executor: inputs of intervals. Owners make them from the graph, and workers from a
 * packed copy that they are sent.
 *
 * Packed input: struct head, then arrays, each aligned to 64 bytes: original numbers u32[n], scale
 * f32[n], labels i32[n], uses u8[n]; then features f32[n,columns], and own features if the model has
 * them, or, if sparse, start u64[n+1], column u32[entries], value f32[entries]. Everything else is
 * derived from it.
 */
#include "gnn/numeric_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC 0x31676e6e67 /* "gnng1" */
#define COLUMNS_AT_ONCE 64 /* of dense features, gathered together */
#define COLUMNS_LEAST 8    /* the same, however little memory there is */
#define EVEN_LEAST 1e-20f  /* smallest value of rows for the form in words; see is_even */

struct head {
    uint64_t magic;
    int64_t n, columns;
    uint64_t entries; /* sparse; dense: 0 */
    uint64_t sparse, own;
};

/* Offsets of the arrays, and the total size. */
struct places {
    size_t id, scale, label, use, dense, own, start, column, value, bytes;
};

static size_t next(size_t *at, size_t bytes) {
    size_t here = *at;
    *at += (bytes + 63) & ~(size_t)63;
    return here;
}

static struct places places_of(const struct head *h) {
    size_t at = 0, n = (size_t)h->n;
    struct places p = {0};
    next(&at, sizeof *h);
    p.id = next(&at, n * sizeof(uint32_t));
    p.scale = next(&at, n * sizeof(float));
    p.label = next(&at, n * sizeof(int32_t));
    p.use = next(&at, n);
    if (h->sparse) {
        p.start = next(&at, (n + 1) * sizeof(uint64_t));
        p.column = next(&at, h->entries * sizeof(uint32_t));
        p.value = next(&at, h->entries * sizeof(float));
    } else {
        size_t rows = n * (size_t)h->columns * sizeof(float);
        p.dense = next(&at, rows);
        p.own = next(&at, h->own ? rows : 0);
    }
    p.bytes = at;
    return p;
}

/* Offsets of the arrays that are derived from the packed input. For sparse features these are the
 * entries by column, and bit sets of what dropout leaves: of entries, or, in words, of elements. */
struct own_places {
    size_t train_label, column_start, entry, row, value, kept, there, kept_words, turned_words,
        weight, bytes;
};

static struct own_places own_places_of(int64_t n, int64_t columns, size_t entries, bool value,
                                       bool words) {
    size_t at = 0;
    size_t by_rows = words ? culm_sparse_words(n, columns) * sizeof(uint64_t) : 0;
    size_t by_columns = words ? culm_sparse_words(columns, n) * sizeof(uint64_t) : 0;
    struct own_places p;
    p.train_label = next(&at, (size_t)n * sizeof(int32_t));
    p.column_start = next(&at, ((size_t)columns + 2) * sizeof(uint64_t));
    p.entry = next(&at, entries * sizeof(uint32_t));
    p.row = next(&at, entries * sizeof(uint32_t));
    p.value = next(&at, value ? entries * sizeof(float) : 0);
    p.kept = next(&at, words ? 0 : culm_sparse_kept_words(entries) * sizeof(uint32_t));
    p.there = next(&at, by_rows);
    p.kept_words = next(&at, by_rows);
    p.turned_words = next(&at, by_columns);
    p.weight = next(&at, words && value ? (size_t)n * sizeof(float) : 0);
    p.bytes = at;
    return p;
}

/* --- from the graph --- */

/* Degrees count incoming edges, and the loop if there is one. */
static float scale_of(const struct culm_gnn_numeric *x, int64_t vertex) {
    const uint64_t *start = x->o.structure->along[0].start;
    double degree = (double)(start[vertex + 1] - start[vertex]);
    switch (x->o.config->model.arch) {
    case CULM_GNN_GCN: return (float)(1 / sqrt(degree));
    case CULM_GNN_SAGE: return degree > 0 ? (float)(1 / degree) : 0;
    default: return 1;
    }
}

/* What a vertex's features are divided by. `row`: dense features; NULL: sparse ones. */
static double sum_of(const struct culm_gnn_numeric *x, uint32_t vertex, const float *row) {
    const struct culm_graph_data *g = x->o.graph;
    double sum = 0;
    if (x->o.config->graph.features == CULM_GNN_FEATURES_AS_IS) {
        return 1;
    }
    if (row) {
        for (int64_t c = 0; c < g->columns; c++) {
            sum += (double)row[c];
        }
    } else if (g->value) {
        for (uint64_t e = g->start[vertex]; e < g->start[vertex + 1]; e++) {
            sum += (double)g->value[e];
        }
    } else {
        sum = (double)(g->start[vertex + 1] - g->start[vertex]);
    }
    return sum != 0 ? sum : 1;
}

static uint64_t entries_of(const struct culm_gnn_structure *s, const struct culm_graph_data *graph,
                           int32_t interval) {
    uint64_t entries = 0;
    for (int64_t v = s->first[interval]; v < s->first[interval + 1] && graph->start; v++) {
        entries += graph->start[s->old_of_new[v] + 1] - graph->start[s->old_of_new[v]];
    }
    return entries;
}

static struct head head_of(const struct culm_gnn_model *model, const struct culm_gnn_structure *s,
                           const struct culm_graph_data *graph, int32_t interval) {
    bool sparse = model->plan.sparse;
    return (struct head){
        .magic = MAGIC,
        .n = culm_gnn_structure_rows(s, interval),
        .columns = graph->columns,
        .entries = sparse ? entries_of(s, graph, interval) : 0,
        .sparse = sparse,
        .own = model->own_features,
    };
}

static void pack_sparse(const struct culm_gnn_numeric *x, const uint32_t *id, int64_t n,
                        uint64_t *start, uint32_t *column, float *value) {
    const struct culm_graph_data *g = x->o.graph;
    uint64_t at = 0;
    for (int64_t r = 0; r < n; r++) {
        double sum = sum_of(x, id[r], NULL);
        start[r] = at;
        for (uint64_t e = g->start[id[r]]; e < g->start[id[r] + 1]; e++, at++) {
            column[at] = g->column[e];
            value[at] = (float)((g->value ? (double)g->value[e] : 1) / sum);
        }
    }
    start[n] = at;
}

static enum culm_status pack_dense(const struct culm_gnn_numeric *x, const uint32_t *id, int64_t n,
                                   float *y, struct culm_error *error) {
    const struct culm_graph_data *g = x->o.graph;
    bool dense = g->feature_kind == CULM_GRAPH_DENSE;
    enum culm_status status = CULM_OK;
    for (int64_t r = 0; r < n && status == CULM_OK; r++, y += g->columns) {
        if (dense) {
            status = culm_graph_data_row(g, id[r], 0, g->columns, y, error);
        }
        double sum = status == CULM_OK ? sum_of(x, id[r], dense ? y : NULL) : 1;
        for (int64_t c = 0; c < g->columns; c++) {
            y[c] = dense ? (float)((double)y[c] / sum) : 0;
        }
        for (uint64_t e = g->start ? g->start[id[r]] : 0; g->start && e < g->start[id[r] + 1];
             e++) {
            y[g->column[e]] = (float)((g->value ? (double)g->value[e] : 1) / sum);
        }
    }
    return status;
}

/* The number of columns to gather together: as many as graph.memory_mb leaves room for beside the
 * largest input. */
static int64_t columns_at_once(const struct culm_gnn_numeric *x, int64_t rows) {
    if (!gnn_limited(x) || rows == 0) {
        return COLUMNS_AT_ONCE;
    }
    size_t limit = (size_t)x->o.config->graph.memory_mb << 20;
    int64_t fit = limit > x->largest
                      ? (int64_t)((limit - x->largest) / ((size_t)rows * sizeof(float))) & ~7ll
                      : 0;
    return fit > COLUMNS_AT_ONCE ? COLUMNS_AT_ONCE : fit < COLUMNS_LEAST ? COLUMNS_LEAST : fit;
}

/* Computes the interval's rows of ÂX, or the means, a few columns at a time, so that the table stays
 * small. */
static enum culm_status pack_gathered(struct culm_gnn_numeric *x, struct culm_gnn_task *task,
                                      const struct gnn_input *input, const float *scale, float *y) {
    const struct culm_gnn_structure *s = x->o.structure;
    const struct culm_graph_data *g = x->o.graph;
    const struct culm_gnn_need *need = culm_gnn_structure_need(s, false, task->interval);
    int64_t rows = need->start[s->intervals], at_once = columns_at_once(x, rows);
    bool gcn = x->o.config->model.arch == CULM_GNN_GCN;
    size_t bytes = (size_t)(rows * at_once) * sizeof(float);
    enum culm_status status = gnn_room(x, &x->table, bytes, &task->job.error);
    double *sum = malloc(((size_t)rows + 1) * sizeof *sum);
    int64_t *vertex = malloc(((size_t)rows + 1) * sizeof *vertex);
    float *row = malloc((size_t)g->columns * sizeof *row);
    if (status == CULM_OK && (!sum || !vertex || !row)) {
        status = culm_error_set(&task->job.error, CULM_ERR_MEMORY, "out of memory");
    }
    for (int32_t j = 0; j < s->intervals && status == CULM_OK; j++) {
        for (uint32_t t = need->start[j]; t < need->start[j + 1] && status == CULM_OK; t++) {
            vertex[t] = s->first[j] + need->row[t];
            uint32_t old = s->old_of_new[vertex[t]];
            if (x->o.config->graph.features != CULM_GNN_FEATURES_AS_IS) {
                status = culm_graph_data_row(g, old, 0, g->columns, row, &task->job.error);
            }
            sum[t] = status == CULM_OK ? sum_of(x, old, row) : 1;
        }
    }
    for (int64_t from = 0; from < g->columns && status == CULM_OK; from += at_once) {
        int64_t width = g->columns - from < at_once ? g->columns - from : at_once;
        float *table = x->table.data;
        for (int64_t t = 0; t < rows && status == CULM_OK; t++) {
            status = culm_graph_data_row(g, s->old_of_new[vertex[t]], from, width, row,
                                         &task->job.error);
            float d = gcn ? scale_of(x, vertex[t]) : 1;
            for (int64_t c = 0; c < width; c++) {
                table[t * width + c] = (float)((double)row[c] / sum[t]) * d;
            }
        }
        CULM_RUN(x->o.device, spmm, .y = culm_out_f32(y + from), .x = culm_in_f32(table),
                 .start = input->gather[0].start, .column = input->gather[0].column, .scale = scale,
                 .n = input->n, .f = width, .ldx = width, .ldy = g->columns, .rows = rows);
    }
    free(sum);
    free(vertex);
    free(row);
    return status;
}

static enum culm_status pack(struct culm_gnn_numeric *x, struct culm_gnn_task *task,
                             struct gnn_input *input) {
    const struct culm_gnn_structure *s = x->o.structure;
    const struct culm_graph_data *g = x->o.graph;
    const struct head head = head_of(x->o.model, s, g, task->interval);
    const struct places p = places_of(&head);
    /* for prediction, a graph may have neither splits nor labels */
    const uint8_t *use = x->o.config->graph.split < g->splits
                             ? g->split + x->o.config->graph.split * g->vertices
                             : NULL;
    enum culm_status status = gnn_limited(x)
                                  ? gnn_spill_blob(x, p.bytes, &input->packed, &task->job.error)
                                  : gnn_blob(x, p.bytes, &input->packed, &task->job.error);
    if (status != CULM_OK) {
        return status;
    }
    char *at = input->packed->data;
    memset(at, 0, p.bytes); /* padding too, so that copies are equal */
    memcpy(at, &head, sizeof head);
    uint32_t *id = (uint32_t *)(at + p.id);
    float *scale = (float *)(at + p.scale);
    int32_t *label = (int32_t *)(at + p.label);
    for (int64_t r = 0; r < head.n; r++) {
        id[r] = s->old_of_new[s->first[task->interval] + r];
        scale[r] = scale_of(x, s->first[task->interval] + r);
        bool labelled = g->label && use && g->label[id[r]] < x->o.model->plan.classes;
        label[r] = labelled ? g->label[id[r]] : -1;
        (at + p.use)[r] = labelled ? (char)use[id[r]] : CULM_GRAPH_UNUSED;
    }
    if (head.sparse) {
        pack_sparse(x, id, head.n, (uint64_t *)(at + p.start), (uint32_t *)(at + p.column),
                    (float *)(at + p.value));
    } else if (!x->o.model->plan.aggregated) {
        status = pack_dense(x, id, head.n, (float *)(at + p.dense), &task->job.error);
    } else {
        status = pack_gathered(x, task, input, scale, (float *)(at + p.dense));
        if (status == CULM_OK && head.own) {
            status = pack_dense(x, id, head.n, (float *)(at + p.own), &task->job.error);
        }
    }
    return status == CULM_OK && gnn_limited(x) ? gnn_spill(x, task, input, p.dense) : status;
}

size_t gnn_input_bytes(const struct culm_gnn_model *model,
                       const struct culm_gnn_structure *structure,
                       const struct culm_graph_data *graph, int32_t interval, size_t *ret_front) {
    const struct head head = head_of(model, structure, graph, interval);
    const struct places p = places_of(&head);
    *ret_front = p.dense;
    return p.bytes;
}

/* The size of all intervals' inputs together, packed and derived. */
static size_t sparse_bytes(const struct culm_gnn_config *config, const struct culm_gnn_model *model,
                           const struct culm_gnn_structure *structure,
                           const struct culm_graph_data *graph) {
    bool value = graph->value || config->graph.features != CULM_GNN_FEATURES_AS_IS;
    size_t bytes = 0, front;
    for (int32_t i = 0; i < structure->intervals; i++) {
        const struct head head = head_of(model, structure, graph, i);
        bool words = culm_sparse_worth_words(head.n, head.columns, head.entries); /* at most */
        bytes += gnn_input_bytes(model, structure, graph, i, &front);
        bytes += own_places_of(head.n, head.columns, head.entries, value, words).bytes;
    }
    return bytes;
}

size_t culm_gnn_numeric_needs(const struct culm_gnn_config *config,
                              const struct culm_gnn_model *model,
                              const struct culm_gnn_structure *structure,
                              const struct culm_graph_data *graph) {
    size_t most = 0, front;
    if (model->plan.sparse) {
        return sparse_bytes(config, model, structure, graph);
    }
    for (int32_t i = 0; i < structure->intervals; i++) {
        const struct culm_gnn_need *need = culm_gnn_structure_need(structure, false, i);
        size_t bytes = gnn_input_bytes(model, structure, graph, i, &front);
        if (model->plan.aggregated) {
            bytes += (size_t)need->start[structure->intervals] * COLUMNS_LEAST * sizeof(float);
        }
        most = bytes > most ? bytes : most;
    }
    return most;
}

enum culm_status culm_gnn_numeric_fits(const struct culm_gnn_config *config,
                                       const struct culm_gnn_model *model,
                                       const struct culm_gnn_structure *structure,
                                       const struct culm_graph_data *graph,
                                       struct culm_error *error) {
    size_t limit = (size_t)config->graph.memory_mb << 20;
    size_t needs = limit > 0 ? culm_gnn_numeric_needs(config, model, structure, graph) : 0;
    if (needs <= limit) {
        return CULM_OK;
    }
    return culm_error_set(error, CULM_ERR_CONFIG,
                          model->plan.sparse
                              ? "graph.memory_mb: sparse features stay in memory, and these take "
                                "up to %zu MB; allow that much, or leave the key out"
                              : "graph.memory_mb: the features of one interval take %zu MB at "
                                "once; allow that much, or use more intervals",
                          (needs >> 20) + 1);
}

/* --- from a packed input --- */

static enum culm_status damaged(struct culm_gnn_task *task) {
    return culm_error_set(&task->job.error, CULM_ERR_FORMAT,
                          "the input of interval %d was damaged on its way", task->interval);
}

static bool sparse_is_sound(const struct head *h, const uint64_t *start, const uint32_t *column) {
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
    struct head h;
    if (packed->size_bytes < sizeof h) {
        return damaged(task);
    }
    memcpy(&h, packed->data, sizeof h);
    if (h.magic != MAGIC || h.n < 1 || h.n > plan->rows_max || h.columns != plan->columns ||
        h.sparse != plan->sparse || h.own != x->o.model->own_features ||
        h.entries > packed->size_bytes / sizeof(uint32_t)) {
        return damaged(task);
    }
    const struct places p = places_of(&h);
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

/* Whether in each row all entries have the same value, and none is so small that scaling for
 * dropout could make it 0. */
static bool is_even(const struct culm_sparse_rows *s) {
    bool even = true;
    for (int64_t r = 0; r < s->n && s->value && even; r++) {
        for (uint64_t e = s->start[r]; e < s->start[r + 1] && even; e++) {
            even = s->value[e] == s->value[s->start[r]] && fabsf(s->value[e]) > EVEN_LEAST;
        }
    }
    return even;
}

/* Sets a bit for each element that has an entry, and notes the value of each row. */
static void mark_elements(struct culm_sparse_rows *s, uint64_t *there, float *weight) {
    memset(there, 0, culm_sparse_words(s->n, s->columns) * sizeof *there);
    for (int64_t r = 0; r < s->n; r++) {
        for (uint64_t e = s->start[r]; e < s->start[r + 1]; e++) {
            there[s->column[e] / 64 * s->n + r] |= UINT64_C(1) << s->column[e] % 64;
        }
        if (weight) {
            weight[r] = s->start[r] < s->start[r + 1] ? s->value[s->start[r]] : 1;
        }
    }
    s->there = there;
    s->weight = weight;
}

/* Derives the training labels, and sparse features by column. */
static enum culm_status complete(struct culm_gnn_numeric *x, struct culm_gnn_task *task,
                                 struct gnn_input *input) {
    struct culm_sparse_rows *s = &input->sparse;
    size_t entries = s->start ? s->start[s->n] : 0;
    bool words = culm_sparse_worth_words(input->n, s->columns, entries) && is_even(s);
    const struct own_places p = own_places_of(input->n, s->columns, entries, s->value, words);
    if (entries > UINT32_MAX) {
        return culm_error_set(
            &task->job.error, CULM_ERR_CONFIG,
            "interval %d has %zu nonzero features, and at most %u are possible; use more intervals",
            task->interval, entries, UINT32_MAX);
    }
    enum culm_status status = gnn_blob(x, p.bytes, &input->own, &task->job.error);
    if (status != CULM_OK) {
        return status;
    }
    char *own = input->own->data;
    input->train_label = (int32_t *)(own + p.train_label);
    for (int64_t r = 0; r < input->n; r++) {
        input->train_label[r] = input->use[r] == CULM_GRAPH_TRAIN ? input->label[r] : -1;
    }
    if (!s->start) {
        return CULM_OK;
    }
    /* Counts are shifted by one place, so that filling turns them into the columns' beginnings. */
    uint64_t *column_start = (uint64_t *)(own + p.column_start);
    memset(column_start, 0, ((size_t)s->columns + 2) * sizeof *column_start);
    for (size_t e = 0; e < entries; e++) {
        column_start[s->column[e] + 2]++;
    }
    for (int64_t c = 2; c <= s->columns + 1; c++) {
        column_start[c] += column_start[c - 1];
    }
    for (int64_t r = 0; r < s->n; r++) {
        for (uint64_t e = s->start[r]; e < s->start[r + 1]; e++) {
            uint64_t k = column_start[s->column[e] + 1]++;
            ((uint32_t *)(own + p.row))[k] = (uint32_t)r;
            ((uint32_t *)(own + p.entry))[k] = (uint32_t)e;
            if (s->value) {
                ((float *)(own + p.value))[k] = s->value[e];
            }
        }
    }
    s->column_start = column_start;
    s->row = (const uint32_t *)(own + p.row);
    s->entry = (const uint32_t *)(own + p.entry);
    s->column_value = s->value ? (const float *)(own + p.value) : NULL;
    s->kept = words ? NULL : (uint32_t *)(own + p.kept);
    if (words) {
        mark_elements(s, (uint64_t *)(own + p.there), s->value ? (float *)(own + p.weight) : NULL);
        s->kept_words = (uint64_t *)(own + p.kept_words);
        s->turned_words = (uint64_t *)(own + p.turned_words);
    }
    s->holds = &input->holds;
    return CULM_OK;
}

/* Makes the shape of the last piece of `count` rows, if it is shorter than the others. */
static enum culm_status shape_last(const struct culm_gnn_model *m, int purpose, int32_t stage,
                                   int64_t count, struct culm_stage_rows **ret_rows,
                                   struct culm_error *error) {
    int64_t each = m->stage_rows[purpose][stage], last = count % each;
    return last == 0 ? CULM_OK
                     : culm_stage_rows_new(m->stage[purpose][stage],
                                           culm_gnn_model_graph(m, purpose, stage), last, ret_rows,
                                           error);
}

static enum culm_status shape(struct culm_gnn_numeric *x, struct culm_gnn_task *task,
                              struct gnn_input *input) {
    const struct culm_gnn_model *m = x->o.model;
    const struct culm_gnn_layout *layout = x->o.layout;
    enum culm_status status = CULM_OK;
    for (int p = 0; p < 2; p++) {
        for (int32_t s = 0; s < m->stages && status == CULM_OK; s++) {
            status = shape_last(m, p, s, input->n, &input->rows[p][s], &task->job.error);
        }
    }
    for (int32_t i = 0; i < layout->steps && status == CULM_OK; i++) {
        const struct culm_gnn_step *step = &layout->step[i];
        int p = step->kind == CULM_GNN_EVALUATE ? CULM_GNN_FOR_EVALUATION : CULM_GNN_FOR_TRAINING;
        int32_t blocks = culm_gnn_layout_blocks(layout, i, input->n);
        struct culm_stage_rows **rows = input->block_rows[p][step->stage];
        for (int32_t last = 0; last < 2 && blocks > 1 && !rows[last] && status == CULM_OK; last++) {
            int64_t first, count = culm_gnn_layout_block(layout, input->n, blocks,
                                                         last ? blocks - 1 : 0, &first);
            status = shape_last(m, p, step->stage, count, &rows[last], &task->job.error);
        }
    }
    return status;
}

/* --- the tasks --- */

static enum culm_status finish(struct culm_gnn_numeric *x, struct culm_gnn_task *task,
                               struct gnn_input *input, enum culm_status status) {
    if (status == CULM_OK) {
        status = gnn_unpack(x, task, input);
    }
    if (status == CULM_OK) {
        status = complete(x, task, input);
    }
    if (status == CULM_OK) {
        status = shape(x, task, input);
    }
    if (status != CULM_OK) {
        gnn_drop(x, task->interval);
    }
    return status;
}

static enum culm_status name_table(struct culm_gnn_numeric *x, struct culm_gnn_task *task,
                                   struct gnn_input *input, int direction) {
    const struct culm_gnn_structure *s = x->o.structure;
    const struct culm_gnn_need *need = culm_gnn_structure_need(s, direction, task->interval);
    uint32_t *id = malloc(((size_t)need->start[s->intervals] + 1) * sizeof *id);
    input->table_id[direction] = id;
    if (!id) {
        return culm_error_set(&task->job.error, CULM_ERR_MEMORY, "out of memory");
    }
    for (int32_t j = 0; j < s->intervals; j++) {
        for (uint32_t t = need->start[j]; t < need->start[j + 1]; t++) {
            id[t] = s->old_of_new[s->first[j] + need->row[t]];
        }
    }
    return CULM_OK;
}

enum culm_status gnn_own(struct culm_gnn_numeric *x, struct culm_gnn_task *task) {
    const struct culm_gnn_structure *s = x->o.structure;
    struct gnn_input *input = &x->input[task->interval];
    enum culm_status status = CULM_OK;
    gnn_drop(x, task->interval);
    input->n = culm_gnn_structure_rows(s, task->interval);
    for (int d = 0; d <= s->directed && status == CULM_OK; d++) {
        status = culm_gnn_rows_init(s, d, task->interval, &input->gather[d], &task->job.error);
        input->slice[d] = calloc(GNN_SLICES_KEPT, sizeof *input->slice[d]);
        input->in_slice[d] = calloc((size_t)s->intervals, sizeof *input->in_slice[d]);
        if (status == CULM_OK && (!input->slice[d] || !input->in_slice[d])) {
            status = culm_error_set(&task->job.error, CULM_ERR_MEMORY, "out of memory");
        }
        if (status == CULM_OK && x->o.config->model.arch == CULM_GNN_GAT) {
            status = name_table(x, task, input, d);
        }
    }
    if (status == CULM_OK) {
        status = pack(x, task, input);
    }
    return finish(x, task, input, status);
}

enum culm_status gnn_take(struct culm_gnn_numeric *x, struct culm_gnn_task *task) {
    struct gnn_input *input = &x->input[task->interval];
    gnn_drop(x, task->interval);
    input->packed = culm_blob_ref(task->input);
    return finish(x, task, input, CULM_OK);
}

void gnn_drop(struct culm_gnn_numeric *x, int32_t interval) {
    struct gnn_input *input = &x->input[interval];
    gnn_spill_forget(x, input);
    gnn_kept_drop(x, input);
    culm_blob_unref(input->packed);
    culm_blob_unref(input->own);
    for (int d = 0; d < 2; d++) {
        culm_gnn_rows_release(&input->gather[d]);
        for (int32_t i = 0; i < GNN_SLICES_KEPT && input->slice[d]; i++) {
            free(input->slice[d][i].row);
        }
        for (int32_t i = 0; i < x->o.layout->intervals && input->in_slice[d]; i++) {
            free(input->in_slice[d][i].at);
        }
        free(input->table_id[d]);
        free(input->slice[d]);
        free(input->in_slice[d]);
        for (int32_t s = 0; s < CULM_GNN_STAGES_MAX; s++) {
            culm_stage_rows_free(input->rows[d][s]);
            culm_stage_rows_free(input->block_rows[d][s][0]);
            culm_stage_rows_free(input->block_rows[d][s][1]);
        }
    }
    *input = (struct gnn_input){0};
}

size_t culm_gnn_numeric_payload_max(const struct culm_gnn_model *model,
                                    const struct culm_gnn_layout *layout,
                                    const struct culm_gnn_structure *structure,
                                    const struct culm_graph_data *graph) {
    size_t most = (size_t)model->weights_at[model->stages] * CULM_OPTIMIZER_PARTS * sizeof(float);
    for (int32_t s = 0; s < model->stages; s++) {
        const struct culm_gnn_border *border = &model->border[s];
        size_t rows = gnn_gathered_bytes(model, border, model->plan.rows_max, true);
        size_t d_rows =
            (size_t)(model->plan.rows_max * border->d_width) * culm_dtype_bytes(model->rows);
        most = rows > most ? rows : most;
        most = d_rows > most ? d_rows : most;
    }
    for (int32_t i = 0; i < layout->intervals; i++) {
        const struct head head = head_of(model, structure, graph, i);
        size_t bytes = places_of(&head).bytes;
        most = bytes > most ? bytes : most;
    }
    return most;
}

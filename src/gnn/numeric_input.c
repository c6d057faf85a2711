/*
 * The numeric executor: inputs of intervals. Owners make them from the graph, and workers from a
 * packed copy that they are sent (numeric_packed.c).
 */
#include "gnn/numeric_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS_AT_ONCE 64 /* of dense features, gathered together */
#define COLUMNS_LEAST 8    /* the same, however little memory there is */
#define EVEN_LEAST 1e-20f  /* smallest value of rows for the form in words; see is_even */

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
    p.train_label = gnn_place(&at, (size_t)n * sizeof(int32_t));
    p.column_start = gnn_place(&at, ((size_t)columns + 2) * sizeof(uint64_t));
    p.entry = gnn_place(&at, entries * sizeof(uint32_t));
    p.row = gnn_place(&at, entries * sizeof(uint32_t));
    p.value = gnn_place(&at, value ? entries * sizeof(float) : 0);
    p.kept = gnn_place(&at, words ? 0 : culm_sparse_kept_words(entries) * sizeof(uint32_t));
    p.there = gnn_place(&at, by_rows);
    p.kept_words = gnn_place(&at, by_rows);
    p.turned_words = gnn_place(&at, by_columns);
    p.weight = gnn_place(&at, words && value ? (size_t)n * sizeof(float) : 0);
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
    enum culm_status status = gnn_need_room(x, &x->table, bytes, &task->job.error);
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
    const struct gnn_packed head = gnn_packed_of(x->o.model, s, g, task->interval);
    const struct gnn_places p = gnn_places_of(&head);
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

/* The size of all intervals' inputs together, packed and derived. */
static size_t sparse_bytes(const struct culm_gnn_config *config, const struct culm_gnn_model *model,
                           const struct culm_gnn_structure *structure,
                           const struct culm_graph_data *graph) {
    bool value = graph->value || config->graph.features != CULM_GNN_FEATURES_AS_IS;
    size_t bytes = 0, front;
    for (int32_t i = 0; i < structure->intervals; i++) {
        const struct gnn_packed head = gnn_packed_of(model, structure, graph, i);
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
        input->slice[d] = calloc((size_t)s->intervals, sizeof *input->slice[d]);
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
        for (int32_t i = 0; i < x->o.layout->intervals; i++) {
            if (input->slice[d]) {
                culm_set_release(&input->slice[d][i].readers);
                free(input->slice[d][i].row);
            }
            if (input->in_slice[d]) {
                culm_set_release(&input->in_slice[d][i].readers);
                free(input->in_slice[d][i].at);
            }
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
        size_t front, bytes = gnn_input_bytes(model, structure, graph, i, &front);
        most = bytes > most ? bytes : most;
    }
    return most;
}

/*
 * Gathers of attention, forward and backward. struct culm_gnn_border in model.h says what rows hold.
 *
 * Forward, of row i over its neighbours j: alpha = softmax of LeakyReLU(s_i + t_j); O = the sum of
 * alpha T_j, after dropout of alpha. Two more sums are kept, with the slope g of LeakyReLU in them:
 * O' of alpha g T_j and A of alpha g. With c = <dO, O>, which is the sum of alpha dalpha, the gradient of
 * s_i is the sum of alpha (dalpha - c) g = <dO, O'> - c A: a matter of row i alone. So backward gathers
 * once, over the edges backwards, what its neighbours i say: dO, s, the logarithm of the sum of
 * exponentials, c; and finds their alphas again from these.
 */
#include "gnn/numeric_internal.h"

#include "base/rng.h"

#include <string.h>

#define SLOPE 0.2f /* of LeakyReLU, below zero */

struct edges {
    const struct culm_gnn_rows *rows;
    int64_t n, heads, all; /* rows; heads; features of all heads */
    uint64_t count;
    float *one, *two, *three; /* [count,heads] each */
    struct culm_dropout dropout;
    uint32_t threshold; /* of dropout: below it an edge is dropped; else its alpha is scaled */
    float scale;
};

static enum culm_status room(struct culm_gnn_numeric *x, struct gnn_room *of, uint64_t floats,
                             float **ret_data, struct culm_error *error) {
    enum culm_status status = gnn_room(x, of, (size_t)(floats + 16) * sizeof(float), error);
    *ret_data = of->data;
    return status;
}

static enum culm_status prepare(struct culm_gnn_numeric *x, struct culm_gnn_task *task,
                                struct gnn_input *input, struct edges *e) {
    const struct gnn_flow *flow = &x->flow[task->gather];
    const struct culm_gnn_border *border = &x->o.model->border[flow->border];
    int direction = flow->back && x->o.structure->directed;
    uint64_t key = culm_rng_mix(x->o.config->seed, (uint64_t)task->epoch);
    *e = (struct edges){
        .rows = &input->gather[direction],
        .n = input->n,
        .heads = border->heads,
        .all = border->sent - border->heads,
        .count = input->gather[direction].start[input->n],
        .dropout = {.p = flow->evaluate ? 0 : x->o.config->model.dropout,
                    .key = culm_rng_mix(key, (1ull << 32) + (uint64_t)flow->border),
                    .sample_id = input->id,
                    .samples = input->n},
    };
    e->threshold = (uint32_t)(e->dropout.p * 65536.0 + 0.5);
    e->scale = (float)(1 / (1 - e->dropout.p));
    uint64_t floats = e->count * (uint64_t)e->heads;
    enum culm_status status = room(x, &x->edge[0], floats, &e->one, &task->job.error);
    if (status == CULM_OK) {
        status = room(x, &x->edge[1], floats, &e->two, &task->job.error);
    }
    if (status == CULM_OK) {
        status = room(x, &x->edge[2], floats, &e->three, &task->job.error);
    }
    return status;
}

/* Columns of rows that are `stride` apart, side by side. */
static void take_columns(float *to, const float *from, int64_t n, int64_t stride, int64_t at,
                         int64_t count) {
    for (int64_t r = 0; r < n; r++) {
        memcpy(to + r * count, from + r * stride + at, (size_t)count * sizeof *to);
    }
}

/* --- forward --- */

/* weighted = weight times the slope at each edge, and the sums of alpha times it. */
static void slopes(const struct edges *e, const float *s, const float *t, const float *alpha,
                   const float *weight, float *weighted, float *sum, int64_t stride) {
    for (int64_t r = 0; r < e->n; r++, sum += stride) {
        memset(sum, 0, (size_t)e->heads * sizeof *sum);
        for (uint64_t i = e->rows->start[r]; i < e->rows->start[r + 1]; i++) {
            for (int64_t h = 0; h < e->heads; h++) {
                uint64_t at = i * (uint64_t)e->heads + (uint64_t)h;
                float score = s[r * e->heads + h] + t[e->rows->column[i] * e->heads + h];
                float slope = score > 0 ? 1 : SLOPE;
                weighted[at] = weight[at] * slope;
                sum[h] += alpha[at] * slope;
            }
        }
    }
}

enum culm_status gnn_attend(struct culm_gnn_numeric *x, struct culm_gnn_task *task,
                            struct gnn_input *input, const float *own, float *y) {
    const struct gnn_flow *flow = &x->flow[task->gather];
    const struct culm_gnn_border *border = &x->o.model->border[flow->border];
    const struct culm_gnn_structure *structure = x->o.structure;
    int64_t table_rows =
        culm_gnn_structure_need(structure, false, task->interval)->start[structure->intervals];
    float *s, *t, *largest;
    struct edges e;
    enum culm_status status = prepare(x, task, input, &e);
    uint64_t scores = (uint64_t)(e.n * e.heads);
    if (status == CULM_OK) {
        status = room(x, &x->score[0], scores, &s, &task->job.error);
    }
    if (status == CULM_OK) {
        status = room(x, &x->score[1], (uint64_t)(table_rows * e.heads), &t, &task->job.error);
    }
    if (status == CULM_OK) {
        status = room(x, &x->score[2], 2 * scores + 16, &largest, &task->job.error);
    }
    if (status != CULM_OK) {
        return status;
    }
    float *sum = largest + ((scores + 15) & ~15ull), *alpha = e.one, *kept = e.one;
    take_columns(s, own, e.n, border->width, border->sent, e.heads);
    take_columns(t, x->table.data, table_rows, border->sent, e.all, e.heads);
    CULM_RUN(x->o.device, edge_softmax_forward, .alpha = alpha, .largest = largest, .sum = sum,
             .s = s, .t = t, .start = e.rows->start, .column = e.rows->column, .n = e.n,
             .heads = e.heads, .slope = (double)SLOPE);
    if (e.dropout.p > 0) {
        kept = e.two;
        CULM_RUN(x->o.device, edge_dropout, .y = kept, .x = alpha, .start = e.rows->start,
                 .column = e.rows->column, .column_id = input->table_id[0], .n = e.n,
                 .heads = e.heads, .dropout = &e.dropout);
    }
    CULM_RUN(x->o.device, spmm, .y = culm_out_f32(y), .x = culm_in_f32(x->table.data),
             .start = e.rows->start, .column = e.rows->column, .value = kept, .n = e.n, .f = e.all,
             .ldx = border->sent, .ldy = border->width, .heads = e.heads, .rows = table_rows);
    for (int64_t r = 0; r < e.n; r++) {
        memset(y + r * border->width + e.all, 0, (size_t)(border->width - e.all) * sizeof *y);
    }
    if (flow->evaluate) {
        return CULM_OK;
    }
    /* beside: O' A lse s; what lies between is zeroed, so that equal results are equal blobs */
    memset(y + e.n * border->width, 0,
           (size_t)(gnn_extra_at(border, e.n) - e.n * border->width) * sizeof *y);
    float *beside = y + gnn_extra_at(border, e.n), *weighted = e.three;
    slopes(&e, s, t, alpha, kept, weighted, beside + e.all, border->extra);
    CULM_RUN(x->o.device, spmm, .y = culm_out_f32(beside), .x = culm_in_f32(x->table.data),
             .start = e.rows->start, .column = e.rows->column, .value = weighted, .n = e.n,
             .f = e.all, .ldx = border->sent, .ldy = border->extra, .heads = e.heads,
             .rows = table_rows);
    CULM_RUN(x->o.device, activation_forward, .y = culm_out_f32(sum), .x = culm_in_f32(sum),
             .count = (int64_t)scores, .function = CULM_FUNCTION_LOG);
    for (int64_t r = 0; r < e.n; r++) {
        float *to = beside + r * border->extra + e.all + e.heads;
        for (int64_t h = 0; h < e.heads; h++) {
            to[h] = largest[r * e.heads + h] + sum[r * e.heads + h];
            to[e.heads + h] = s[r * e.heads + h];
        }
    }
    return CULM_OK;
}

/* --- backward --- */

void gnn_attention_rows(const struct culm_gnn_border *border, int64_t n, const float *d,
                        const float *gathered, float *y) {
    int64_t heads = border->heads, all = border->sent - heads, width = all / heads;
    const float *beside = gathered + gnn_extra_at(border, n);
    for (int64_t r = 0; r < n; r++) {
        const float *rest = beside + all; /* A lse s */
        memcpy(y, d, (size_t)all * sizeof *y);
        for (int64_t h = 0; h < heads; h++) {
            float c = 0, ds = 0;
            for (int64_t f = h * width; f < (h + 1) * width; f++) {
                c += d[f] * gathered[f];
                ds += d[f] * beside[f];
            }
            y[all + h] = rest[2 * heads + h];
            y[all + heads + h] = rest[heads + h];
            y[all + 2 * heads + h] = c;
            y[all + 3 * heads + h] = ds - c * rest[h];
        }
        y += border->d_width;
        d += border->width;
        gathered += border->width;
        beside += border->extra;
    }
}

/* What dropout multiplied the alphas of an edge by, by which `reader` reads `own`. */
static void draw(const struct edges *e, uint32_t reader, uint32_t own, float *factor) {
    for (int64_t h = 0; h < e->heads; h += 8) {
        struct culm_rng_block block =
            culm_rng(e->dropout.key, (uint64_t)reader << 32 | own, (uint64_t)(h / 8));
        for (int64_t i = 0; i < 8 && h + i < e->heads; i++) {
            uint32_t bits = block.word[i / 2] >> (i % 2 * 16) & 0xFFFF;
            factor[h + i] = bits < e->threshold ? 0 : e->scale;
        }
    }
}

/* From dalpha in `one` and alpha in `two`: what dO is weighted by in `three`, and dt. */
static void edge_gradients(const struct edges *e, const struct gnn_input *input,
                           const uint32_t *table_id, const float *table, int64_t stride,
                           const float *own, int64_t own_stride, float *dt, int64_t dt_stride) {
    float factor[CULM_EDGE_HEADS_MAX];
    for (int64_t h = 0; h < e->heads; h++) {
        factor[h] = 1;
    }
    for (int64_t r = 0; r < e->n; r++, dt += dt_stride) {
        const float *t = own + r * own_stride + e->all;
        memset(dt, 0, (size_t)e->heads * sizeof *dt);
        for (uint64_t i = e->rows->start[r]; i < e->rows->start[r + 1]; i++) {
            const float *reader = table + e->rows->column[i] * stride + e->all; /* s lse c */
            if (e->dropout.p > 0) {
                draw(e, table_id[e->rows->column[i]], input->id[r], factor);
            }
            for (int64_t h = 0; h < e->heads; h++) {
                uint64_t at = i * (uint64_t)e->heads + (uint64_t)h;
                float slope = reader[h] + t[h] > 0 ? 1 : SLOPE;
                float alpha = e->two[at], d = e->one[at] * factor[h];
                e->three[at] = alpha * factor[h];
                dt[h] += alpha * (d - reader[2 * e->heads + h]) * slope;
            }
        }
    }
}

/* The exponents of alpha, into `two`. */
static void exponents(const struct edges *e, const float *table, int64_t stride, const float *own,
                      int64_t own_stride) {
    for (int64_t r = 0; r < e->n; r++) {
        const float *t = own + r * own_stride + e->all;
        for (uint64_t i = e->rows->start[r]; i < e->rows->start[r + 1]; i++) {
            const float *reader = table + e->rows->column[i] * stride + e->all;
            for (int64_t h = 0; h < e->heads; h++) {
                float score = reader[h] + t[h];
                e->two[i * (uint64_t)e->heads + (uint64_t)h] =
                    (score > 0 ? score : SLOPE * score) - reader[e->heads + h];
            }
        }
    }
}

/* The gather that gave the rows of which these are gradients. */
static int32_t forward_of(const struct culm_gnn_numeric *x, int32_t border) {
    int32_t g = 0;
    while (x->flow[g].border != border || x->flow[g].back || x->flow[g].evaluate) {
        g++;
    }
    return g;
}

enum culm_status gnn_attend_back(struct culm_gnn_numeric *x, struct culm_gnn_task *task,
                                 struct gnn_input *input, const float *own, float *y) {
    const struct gnn_flow *flow = &x->flow[task->gather];
    const struct culm_gnn_border *border = &x->o.model->border[flow->border];
    const struct culm_gnn_structure *structure = x->o.structure;
    int direction = structure->directed;
    const struct culm_blob *made = task->made ? task->made[forward_of(x, flow->border)] : NULL;
    size_t bytes = (size_t)(input->n * border->width) * sizeof(float);
    const float *table = x->table.data;
    struct edges e;
    enum culm_status status = prepare(x, task, input, &e);
    if (status == CULM_OK && (!made || made->size_bytes != bytes)) {
        return gnn_wrong_rows(task, "rows of its own", made ? made->size_bytes : 0, bytes);
    }
    if (status != CULM_OK) {
        return status;
    }
    const float *forward = made->data;
    CULM_RUN(x->o.device, sddmm, .value = e.one, .a = culm_in_f32(forward), .b = culm_in_f32(table),
             .start = e.rows->start, .column = e.rows->column, .n = e.n, .f = e.all,
             .lda = border->width, .ldb = border->d_sent, .heads = e.heads);
    exponents(&e, table, border->d_sent, forward, border->width);
    CULM_RUN(x->o.device, activation_forward, .y = culm_out_f32(e.two), .x = culm_in_f32(e.two),
             .count = (int64_t)(e.count * (uint64_t)e.heads), .function = CULM_FUNCTION_EXP);
    edge_gradients(&e, input, input->table_id[direction], table, border->d_sent, forward,
                   border->width, y + e.all, border->width);
    CULM_RUN(
        x->o.device, spmm, .y = culm_out_f32(y), .x = culm_in_f32(table), .start = e.rows->start,
        .column = e.rows->column, .value = e.three, .n = e.n, .f = e.all, .ldx = border->d_sent,
        .ldy = border->width, .heads = e.heads,
        .rows =
            culm_gnn_structure_need(structure, true, task->interval)->start[structure->intervals]);
    for (int64_t r = 0; r < e.n; r++) {
        memcpy(y + r * border->width + e.all + e.heads, own + r * border->d_width + border->d_sent,
               (size_t)e.heads * sizeof *y);
    }
    return CULM_OK;
}

/*
 * The numeric executor: gathers with attention, forward and backward. struct culm_gnn_border in
 * model.h describes the rows.
 *
 * Forward, for row i over its neighbours j: alpha_ij is the softmax over j of LeakyReLU(s_i + t_j),
 * and O_i is the sum of alpha_ij T_j, with dropout applied to alpha. Two more sums are kept for the
 * backward pass, weighted also by the slope g of LeakyReLU: O' is the sum of alpha g T_j, and A the
 * sum of alpha g.
 *
 * Backward: with c = <dO, O>, which equals the sum of alpha dalpha, the gradient of s_i is the sum
 * of alpha (dalpha - c) g, which is <dO, O'> - c A. It depends on row i only. So a single gather,
 * over the edges backwards, is enough: each j gathers from its readers i the values dO, s, lse (the
 * logarithm of the sum of exponentials) and c, and recomputes alpha from them.
 */
#include "gnn/numeric_internal.h"

#include "base/rng.h"

#include <string.h>

#define SLOPE 0.2f /* of LeakyReLU, below zero */

struct edges {
    const struct culm_gnn_rows *rows;
    int64_t n, heads, all; /* rows; heads; features of all heads */
    struct culm_dropout dropout;
};

static enum culm_status room(struct culm_gnn_numeric *x, struct gnn_room *of, int64_t floats,
                             float **ret_data, struct culm_error *error) {
    enum culm_status status = gnn_need_room(x, of, (size_t)(floats + 16) * sizeof(float), error);
    *ret_data = of->data;
    return status;
}

static struct edges edges_of(const struct culm_gnn_numeric *x, const struct culm_gnn_task *task,
                             const struct gnn_input *input) {
    const struct gnn_flow *flow = &x->flow[task->gather];
    const struct culm_gnn_border *border = &x->o.model->border[flow->border];
    uint64_t key = culm_rng_mix(x->o.config->seed, (uint64_t)task->epoch);
    return (struct edges){
        .rows = &input->gather[flow->back && x->o.structure->directed],
        .n = input->n,
        .heads = border->heads,
        .all = border->sent - border->heads,
        .dropout = {.p = flow->evaluate ? 0 : x->o.config->model.dropout,
                    .key = culm_rng_mix(key, (1ull << 32) + (uint64_t)flow->border),
                    .sample_id = input->id,
                    .samples = input->n},
    };
}

/* Copies columns at .. at + count - 1 of n rows, which are `stride` elements apart, as f32 into
 * rows that are `apart` elements apart. */
static void take_columns(const struct culm_gnn_numeric *x, float *to, int64_t apart,
                         const void *rows, int64_t n, int64_t stride, int64_t at, int64_t count) {
    const float *from = (const float *)rows + at;
    const uint16_t *half = (const uint16_t *)rows + at;
    for (int64_t r = 0; r < n && x->o.model->rows == CULM_F32; r++) {
        memcpy(to + r * apart, from + r * stride, (size_t)count * sizeof *to);
    }
    for (int64_t r = 0; r < n && x->o.model->rows == CULM_BF16; r++) {
        for (int64_t c = 0; c < count; c++) {
            uint32_t bits = (uint32_t)half[r * stride + c] << 16;
            memcpy(to + r * apart + c, &bits, sizeof bits);
        }
    }
}

/* --- forward --- */

enum culm_status gnn_attend(struct culm_gnn_numeric *x, struct culm_gnn_task *task,
                            struct gnn_input *input, const void *own, void *rows) {
    const struct gnn_flow *flow = &x->flow[task->gather];
    const struct culm_gnn_border *border = &x->o.model->border[flow->border];
    const struct culm_gnn_structure *structure = x->o.structure;
    int64_t table_rows =
        culm_gnn_structure_need(structure, false, task->interval)->start[structure->intervals];
    const struct edges e = edges_of(x, task, input);
    int64_t count = gnn_gathered_count(border, e.n, !flow->evaluate);
    float *s, *t, *y;
    enum culm_status status = room(x, &x->score[0], e.n * e.heads, &s, &task->job.error);
    if (status == CULM_OK) {
        status = room(x, &x->score[1], table_rows * e.heads, &t, &task->job.error);
    }
    if (status == CULM_OK) {
        status = gnn_make(x, &x->wide[0], rows, count, &y, &task->job.error);
    }
    if (status != CULM_OK) {
        return status;
    }
    int64_t extra_at = gnn_extra_at(border, e.n);
    float *beside = flow->evaluate ? NULL : y + extra_at;
    take_columns(x, s, e.heads, own, e.n, border->width, border->sent, e.heads);
    take_columns(x, t, e.heads, x->rows, table_rows, x->pitch, e.all, e.heads);
    CULM_RUN(x->o.device, attend_forward, .y = y, .beside = beside, .x = gnn_in(x, x->rows), .s = s,
             .t = t, .start = e.rows->start, .column = e.rows->column,
             .column_id = input->table_id[0], .n = e.n, .f = e.all, .ldx = x->pitch,
             .ldy = border->width, .ldb = border->extra, .heads = e.heads, .slope = (double)SLOPE,
             .dropout = e.dropout.p > 0 ? &e.dropout : NULL);
    for (int64_t r = 0; r < e.n; r++) {
        memset(y + r * border->width + e.all, 0, (size_t)(border->width - e.all) * sizeof *y);
        if (beside) { /* the kernel has written O', A and lse; s follows */
            memcpy(beside + r * border->extra + e.all + 2 * e.heads, s + r * e.heads,
                   (size_t)e.heads * sizeof *s);
        }
    }
    if (beside) { /* zero the padding, so that equal results are equal blobs */
        memset(y + e.n * border->width, 0, (size_t)(extra_at - e.n * border->width) * sizeof *y);
    }
    gnn_narrow(x, rows, y, count);
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

/* The forward gather at this border. */
static int32_t forward_of(const struct culm_gnn_numeric *x, int32_t border) {
    int32_t g = 0;
    while (x->flow[g].border != border || x->flow[g].back || x->flow[g].evaluate) {
        g++;
    }
    return g;
}

enum culm_status gnn_attend_back(struct culm_gnn_numeric *x, struct culm_gnn_task *task,
                                 struct gnn_input *input, const void *own, void *rows) {
    const struct gnn_flow *flow = &x->flow[task->gather];
    const struct culm_gnn_border *border = &x->o.model->border[flow->border];
    const struct culm_gnn_structure *structure = x->o.structure;
    int direction = structure->directed;
    const struct culm_blob *made = task->made ? task->made[forward_of(x, flow->border)] : NULL;
    size_t bytes = (size_t)(input->n * border->width) * gnn_element(x);
    const struct edges e = edges_of(x, task, input);
    int64_t table_rows =
        culm_gnn_structure_need(structure, true, task->interval)->start[structure->intervals];
    float *t, *reader, *y;
    if (!made || made->size_bytes != bytes) {
        return gnn_wrong_rows(task, "rows of its own", made ? made->size_bytes : 0, bytes);
    }
    enum culm_status status = room(x, &x->score[0], e.n * e.heads, &t, &task->job.error);
    if (status == CULM_OK) {
        status = room(x, &x->score[1], table_rows * 3 * e.heads, &reader, &task->job.error);
    }
    if (status == CULM_OK) {
        status = gnn_make(x, &x->wide[0], rows, e.n * border->width, &y, &task->job.error);
    }
    if (status != CULM_OK) {
        return status;
    }
    take_columns(x, t, e.heads, made->data, e.n, border->width, e.all, e.heads);
    take_columns(x, reader, 3 * e.heads, x->rows, table_rows, x->pitch, e.all, 3 * e.heads);
    CULM_RUN(x->o.device, attend_backward, .y = y, .dt = y + e.all, .x = gnn_in(x, made->data),
             .dy = gnn_in(x, x->rows), .t = t, .reader = reader, .start = e.rows->start,
             .column = e.rows->column, .column_id = input->table_id[direction], .n = e.n,
             .f = e.all, .ldx = border->width, .ldy = border->width, .ldd = x->pitch,
             .ldt = border->width, .heads = e.heads, .slope = (double)SLOPE,
             .dropout = e.dropout.p > 0 ? &e.dropout : NULL);
    take_columns(x, y + e.all + e.heads, border->width, own, e.n, border->d_width, border->d_sent,
                 e.heads);
    gnn_narrow(x, rows, y, e.n * border->width);
    return CULM_OK;
}

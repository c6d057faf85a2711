/*
 * Linear layers, made of matrix products: in f32 when everything is f32, in bf16 otherwise.
 *
 * The gradient of the bias is a sum over rows: each run of SUM_ROWS rows is a chain of additions,
 * and the runs are added in order. Where the product packs dy by columns it forms that sum on the
 * way, in the same order.
 */
#include "device/cpu/product.h"
#include "device/cpu/variant.h"

#define SUM_ROWS 256
#define SUM_COLUMNS 64 /* of a tile */

void ISA_NAME(linear_forward)(struct culm_cpu *cpu, struct culm_out y, struct culm_in x,
                              const float *w, const float *b, int64_t n, int64_t in, int64_t out,
                              bool transposed) {
    struct product p = {.m = n,
                        .n = out,
                        .k = in,
                        .a = operand_rows(x, in),
                        .b = operand_rows(culm_in_f32(w), transposed ? in : out),
                        .trans_b = transposed,
                        .c = result_rows(y, out),
                        .bias = b};
    ISA_NAME(product)(cpu, &p);
}

void ISA_NAME(linear_backward_input)(struct culm_cpu *cpu, struct culm_out dx, struct culm_in dy,
                                     const float *w, int64_t n, int64_t in, int64_t out,
                                     bool transposed) {
    struct product p = {.m = n,
                        .n = in,
                        .k = out,
                        .a = operand_rows(dy, out),
                        .b = operand_rows(culm_in_f32(w), transposed ? in : out),
                        .trans_b = !transposed,
                        .c = result_rows(dx, in)};
    ISA_NAME(product)(cpu, &p);
}

struct sums {
    float *to;
    struct culm_in rows;
    int64_t n, columns;
    bool first;
};

static void sum_tile(void *context, int64_t tile, int thread) {
    const struct sums *s = context;
    (void)thread;
    int64_t end = at_most(s->columns, (tile + 1) * SUM_COLUMNS);
    for (int64_t row = 0; row < s->n; row += SUM_ROWS) {
        for (int64_t j = tile * SUM_COLUMNS; j < end; j += LANES) {
            vec sum = tload_part(s->rows, row * s->columns + j, end - j);
            for (int64_t i = row + 1; i < at_most(s->n, row + SUM_ROWS); i++) {
                sum = vadd(sum, tload_part(s->rows, i * s->columns + j, end - j));
            }
            bool add = !s->first || row > 0;
            store_part(s->to + j, add ? vadd(load_part(s->to + j, end - j), sum) : sum, end - j);
        }
    }
}

void ISA_NAME(linear_backward_weight)(struct culm_cpu *cpu, float *dw, float *db, struct culm_in x,
                                      struct culm_in dy, int64_t n, int64_t in, int64_t out,
                                      bool transposed, bool first) {
    struct product p = {.m = in,
                        .n = out,
                        .k = n,
                        .a = operand_rows(x, in),
                        .b = operand_rows(dy, out),
                        .trans_a = true,
                        .c = result_rows(culm_out_f32(dw), out),
                        .add = !first};
    if (transposed) {
        p.m = out;
        p.n = in;
        p.a = operand_rows(dy, out);
        p.b = operand_rows(x, in);
        p.c.ld = in;
    } else {
        p.column_sum = db;
        p.column_add = !first;
    }
    ISA_NAME(product)(cpu, &p);
    if (transposed && db) {
        struct sums s = {db, dy, n, out, first};
        culm_cpu_run(cpu, ceil_div(out, SUM_COLUMNS), sum_tile, &s);
    }
}

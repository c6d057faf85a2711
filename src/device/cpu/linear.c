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

void ISA_NAME(linear_forward)(struct culm_cpu *cpu, const struct culm_linear_forward_args *args) {
    struct product p = {
        .m = args->n,
        .n = args->out,
        .k = args->in,
        .a = operand_rows(args->x, args->in),
        .b = operand_rows(culm_in_f32(args->w), args->transposed ? args->in : args->out),
        .trans_b = args->transposed,
        .c = result_rows(args->y, args->out),
        .bias = args->b};
    ISA_NAME(product)(cpu, &p);
}

void ISA_NAME(linear_backward_input)(struct culm_cpu *cpu,
                                     const struct culm_linear_backward_input_args *args) {
    struct product p = {
        .m = args->n,
        .n = args->in,
        .k = args->out,
        .a = operand_rows(args->dy, args->out),
        .b = operand_rows(culm_in_f32(args->w), args->transposed ? args->in : args->out),
        .trans_b = !args->transposed,
        .c = result_rows(args->dx, args->in)};
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

void ISA_NAME(linear_backward_weight)(struct culm_cpu *cpu,
                                      const struct culm_linear_backward_weight_args *args) {
    struct product p = {.m = args->in,
                        .n = args->out,
                        .k = args->n,
                        .a = operand_rows(args->x, args->in),
                        .b = operand_rows(args->dy, args->out),
                        .trans_a = true,
                        .c = result_rows(culm_out_f32(args->dw), args->out),
                        .add = !args->first};
    if (args->transposed) {
        p.m = args->out;
        p.n = args->in;
        p.a = operand_rows(args->dy, args->out);
        p.b = operand_rows(args->x, args->in);
        p.c.ld = args->in;
    } else {
        p.column_sum = args->db;
        p.column_add = !args->first;
    }
    ISA_NAME(product)(cpu, &p);
    if (args->transposed && args->db) {
        struct sums s = {args->db, args->dy, args->n, args->out, args->first};
        culm_cpu_run(cpu, ceil_div(args->out, SUM_COLUMNS), sum_tile, &s);
    }
}

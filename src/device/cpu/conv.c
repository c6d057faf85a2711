/*
 * Convolutions as matrix products with the patches of an image (operand.h), group by group.
 *
 *     forward           y[pixels, O]      = patches(x)[pixels, (ky,kx,C)] w[(ky,kx,C), O]
 *     backward weight   dw[(ky,kx,C), O]  = patches(x)^T dy[pixels, O]
 *     backward data     dx[pixels, C]     = patches(dy)[pixels, (ky,kx,O)] w[(ky,kx,O), C]
 *
 * Backward data with stride s falls into s^2 products: pixels of dx whose row and column have the
 * same remainder by s see the same taps, and these are evenly spaced in dy. A remainder that no tap
 * reaches is zero.
 *
 * The weights' gradient is formed in scratch for as many channels as fit and then turned into
 * [O,C,kh,kw]; for one tap it is that already.
 *
 * Bits: those of products, the terms in the order written above.
 */
#include "device/cpu/conv.h"
#include "device/cpu/product.h"
#include "device/cpu/transpose.h"
#include "device/cpu/variant.h"

#include <assert.h>

#define GRADIENT_FLOATS (SHARED_FLOATS / 2) /* of the weights' gradient at a time */
#define GRADIENT_COLUMNS (GRADIENT_FLOATS / CULM_CPU_CONV_TAPS)

static bool one_tap(const struct culm_conv *v) { return v->kh == 1 && v->kw == 1; }

/* Output pixels read their own pixel of x and nothing else. */
static bool pointwise(const struct culm_conv *v) {
    return one_tap(v) && v->oh == v->h && v->ow == v->w && v->stride[0] == 1 && v->stride[1] == 1 &&
           v->pad[0] == 0 && v->pad[1] == 0;
}

/* What every tap of every output pixel sees of `channels` channels of x. */
static struct operand patches_of_x(const struct culm_conv *v, struct culm_in x, int64_t channels) {
    if (pointwise(v)) {
        return operand_rows(x, v->c);
    }
    return (struct operand){.kind = OPERAND_PATCHES,
                            .dtype = x.dtype,
                            .data = x.data,
                            .patches = {.lines = v->oh,
                                        .pixels = v->ow,
                                        .taps = {v->kh, v->kw},
                                        .channels = channels,
                                        .height = v->h,
                                        .width = v->w,
                                        .ld = v->c,
                                        .origin = {-v->pad[0], -v->pad[1]},
                                        .step = {v->stride[0], v->stride[1]},
                                        .tap_step = {v->dilation[0], v->dilation[1]}}};
}

static void forward(struct culm_cpu *cpu, const struct culm_conv *v, struct culm_out y,
                    struct culm_in x, const float *w, const float *b) {
    int64_t inner = v->c / v->groups, outer = v->o / v->groups, taps = v->kh * v->kw;
    for (int64_t g = 0; g < v->groups; g++) {
        struct culm_in weights = culm_in_f32(w + g * outer * inner * taps);
        struct product p = {.m = v->n * v->oh * v->ow,
                            .n = outer,
                            .k = taps * inner,
                            .a = patches_of_x(v, in_from(x, g * inner), inner),
                            .b = operand_rows(weights, inner),
                            .trans_b = true,
                            .c = result_rows(out_from(y, g * outer), v->o),
                            .bias = b ? b + g * outer : NULL};
        if (taps > 1) {
            p.trans_b = false;
            p.b = (struct operand){.kind = OPERAND_WEIGHTS,
                                   .dtype = CULM_F32,
                                   .data = weights.data,
                                   .weights = {.taps = {v->kh, v->kw},
                                               .inner = inner,
                                               .tap_stride = {v->kw, 1},
                                               .inner_stride = taps,
                                               .outer_stride = inner * taps}};
        }
        ISA_NAME(product)(cpu, &p);
    }
}

/* Along one dimension: the pixels r, r + s, r + 2 s, ... of dx, and what they see of dy. */
struct remainder {
    int64_t pixels, taps;
    int64_t first, step;      /* tap, in the kernel */
    int64_t origin, tap_step; /* in dy */
};

static struct remainder remainder_of(const struct culm_conv *v, int dimension, int64_t r) {
    int64_t s = v->stride[dimension], d = v->dilation[dimension], pad = v->pad[dimension];
    int64_t size = dimension ? v->w : v->h, kernel = dimension ? v->kw : v->kh;
    struct remainder m = {.pixels = r < size ? (size - r + s - 1) / s : 0};
    int64_t last = -1;
    for (int64_t k = 0; k < kernel; k++) {
        if ((r + pad - k * d) % s) {
            continue;
        }
        if (m.taps == 0) {
            m.first = k;
            m.origin = (r + pad - k * d) / s; /* exact, also below zero */
        } else if (m.taps == 1) {
            m.step = k - last;
            m.tap_step = -m.step * d / s;
        }
        last = k;
        m.taps++;
    }
    return m;
}

struct fill {
    struct culm_out to;
    int64_t rows, columns;
};

static void fill_zero(void *context, int64_t row, int thread) {
    struct fill *f = context;
    (void)thread;
    size_t bytes = (size_t)f->columns * (f->to.dtype == CULM_BF16 ? 2 : 4);
    memset((char *)f->to.data + (size_t)row * bytes, 0, bytes);
}

static void backward_data(struct culm_cpu *cpu, const struct culm_conv *v, struct culm_out dx,
                          struct culm_in dy, const float *w) {
    int64_t inner = v->c / v->groups, outer = v->o / v->groups, taps = v->kh * v->kw;
    bool zeros = false;
    for (int dimension = 0; dimension < 2; dimension++) {
        for (int64_t r = 0; r < v->stride[dimension]; r++) {
            zeros |= remainder_of(v, dimension, r).taps == 0;
        }
    }
    if (zeros) {
        culm_cpu_run(cpu, v->n * v->h, fill_zero, &(struct fill){dx, v->n * v->h, v->w * v->c});
    }
    for (int64_t g = 0; g < v->groups; g++) {
        for (int64_t r = 0; r < v->stride[0] * v->stride[1]; r++) {
            struct remainder y = remainder_of(v, 0, r / v->stride[1]);
            struct remainder x = remainder_of(v, 1, r % v->stride[1]);
            if (!y.taps || !x.taps || !y.pixels || !x.pixels) {
                continue;
            }
            const float *weights = w + g * outer * inner * taps + y.first * v->kw + x.first;
            struct product p = {.m = v->n * y.pixels * x.pixels,
                                .n = inner,
                                .k = y.taps * x.taps * outer,
                                .a = operand_rows(in_from(dy, g * outer), v->o),
                                .b = operand_rows(culm_in_f32(weights), inner),
                                .c = result_rows(out_from(dx, g * inner), v->c)};
            if (!pointwise(v)) {
                p.a = (struct operand){.kind = OPERAND_PATCHES,
                                       .dtype = dy.dtype,
                                       .data = p.a.data,
                                       .patches = {.lines = y.pixels,
                                                   .pixels = x.pixels,
                                                   .taps = {y.taps, x.taps},
                                                   .channels = outer,
                                                   .height = v->oh,
                                                   .width = v->ow,
                                                   .ld = v->o,
                                                   .origin = {y.origin, x.origin},
                                                   .step = {1, 1},
                                                   .tap_step = {y.tap_step, x.tap_step}}};
            }
            if (taps > 1) {
                p.b = (struct operand){.kind = OPERAND_WEIGHTS,
                                       .dtype = CULM_F32,
                                       .data = weights,
                                       .weights = {.taps = {y.taps, x.taps},
                                                   .inner = outer,
                                                   .tap_stride = {y.step * v->kw, x.step},
                                                   .inner_stride = inner * taps,
                                                   .outer_stride = taps}};
            }
            if (v->stride[0] * v->stride[1] > 1) {
                p.c.kind = RESULT_GRID;
                p.c.lines = y.pixels;
                p.c.pixels = x.pixels;
                p.c.height = v->h;
                p.c.width = v->w;
                p.c.origin[0] = r / v->stride[1];
                p.c.origin[1] = r % v->stride[1];
                p.c.step[0] = v->stride[0];
                p.c.step[1] = v->stride[1];
            }
            ISA_NAME(product)(cpu, &p);
        }
    }
}

/* Column sums of dy: chains of 256 rows, added in order. */
struct bias {
    const struct culm_conv *v;
    float *db;
    struct culm_in dy;
    bool first;
};

static void sum_bias(void *context, int64_t block, int thread) {
    const struct bias *s = context;
    (void)thread;
    int64_t o = s->v->o, column = block * LANES, left = at_most(LANES, o - column);
    int64_t rows = s->v->n * s->v->oh * s->v->ow;
    vec total = s->first ? vzero() : load_part(s->db + column, left);
    for (int64_t row = 0; row < rows; row += 256) {
        vec sum = tload_part(s->dy, row * o + column, left);
        for (int64_t i = row + 1; i < at_most(row + 256, rows); i++) {
            sum = vadd(sum, tload_part(s->dy, i * o + column, left));
        }
        total = row == 0 && s->first ? sum : vadd(total, sum);
    }
    store_part(s->db + column, total, left);
}

/* dw[o][c][tap] (= or +=) from[(tap, c)][o], for `channels` of the `inner` channels. */
struct turn {
    const float *from;
    float *dw;
    int64_t taps, channels, columns, inner;
    bool first;
};

static void turn_weights(void *context, int64_t block, int thread) {
    const struct turn *t = context;
    (void)thread;
    float rows[16 * 16], turned[16 * 16];
    int64_t column = block * 16, columns = at_most(16, t->columns - column);
    for (int64_t j = 0; j < t->channels * t->taps; j += 16) {
        int64_t count = at_most(16, t->channels * t->taps - j);
        for (int64_t i = 0; i < 16; i++) {
            int64_t c = (j + i) / t->taps, tap = (j + i) % t->taps;
            const float *from = t->from + (tap * t->channels + c) * t->columns + column;
            vstore(rows + i * 16, i < count ? load_part(from, columns) : vzero());
        }
        transpose16(rows, 16, turned, 16);
        for (int64_t i = 0; i < columns; i++) {
            float *to = t->dw + (column + i) * t->inner * t->taps + j;
            vec y = vload(turned + i * 16);
            store_part(to, t->first ? y : vadd(load_part(to, count), y), count);
        }
    }
}

static void backward_weight(struct culm_cpu *cpu, const struct culm_conv *v, float *dw, float *db,
                            struct culm_in x, struct culm_in dy, bool first) {
    int64_t inner = v->c / v->groups, outer = v->o / v->groups, taps = v->kh * v->kw;
    int64_t rows = v->n * v->oh * v->ow;
    if (db && one_tap(v)) {
        culm_cpu_run(cpu, ceil_div(v->o, LANES), sum_bias,
                     &(struct bias){.v = v, .db = db, .dy = dy, .first = first});
    }
    for (int64_t g = 0; g < v->groups; g++) {
        float *to = dw + g * outer * inner * taps;
        if (one_tap(v)) {
            struct product p = {.m = outer,
                                .n = inner,
                                .k = rows,
                                .a = operand_rows(in_from(dy, g * outer), v->o),
                                .trans_a = true,
                                .b = patches_of_x(v, in_from(x, g * inner), inner),
                                .c = result_rows(culm_out_f32(to), inner),
                                .add = !first};
            ISA_NAME(product)(cpu, &p);
            continue;
        }
        for (int64_t o = 0; o < outer; o += GRADIENT_COLUMNS) {
            int64_t columns = at_most(GRADIENT_COLUMNS, outer - o);
            int64_t most = GRADIENT_FLOATS / (taps * columns);
            for (int64_t c = 0; c < inner; c += most) {
                int64_t channels = at_most(most, inner - c);
                float *sum = cpu_shared(cpu);
                struct product p = {.m = taps * channels,
                                    .n = columns,
                                    .k = rows,
                                    .a = patches_of_x(v, in_from(x, g * inner + c), channels),
                                    .trans_a = true,
                                    .b = operand_rows(in_from(dy, g * outer + o), v->o),
                                    .c = result_rows(culm_out_f32(sum), columns),
                                    .column_sum = db && c == 0 ? db + g * outer + o : NULL,
                                    .column_add = !first,
                                    .first_free = round_up(taps * channels * columns, 16)};
                ISA_NAME(product)(cpu, &p);
                struct turn turn = {.from = sum,
                                    .dw = to + (o * inner + c) * taps,
                                    .taps = taps,
                                    .channels = channels,
                                    .columns = columns,
                                    .inner = inner,
                                    .first = first};
                culm_cpu_run(cpu, ceil_div(columns, 16), turn_weights, &turn);
            }
        }
    }
}

static enum culm_conv_algorithm chosen(const struct culm_conv *v, enum culm_conv_pass pass,
                                       enum culm_conv_algorithm algorithm) {
    assert(culm_conv_algorithm_possible(v, pass, algorithm));
    assert(v->kh * v->kw <= CULM_CPU_CONV_TAPS);
    return algorithm == CULM_CONV_AUTO ? culm_conv_algorithm_default(v, pass) : algorithm;
}

void ISA_NAME(conv_forward)(struct culm_cpu *cpu, const struct culm_conv_forward_args *args) {
    enum culm_conv_algorithm algorithm = chosen(args->conv, CULM_CONV_FORWARD, args->algorithm);
    if (algorithm == CULM_CONV_WINOGRAD) {
        ISA_NAME(winograd_forward)(cpu, args->conv, args->y, args->x, args->w, args->b);
    } else if (conv_is_depthwise(args->conv)) {
        ISA_NAME(conv_depthwise_forward)(cpu, args->conv, args->y, args->x, args->w, args->b);
    } else {
        forward(cpu, args->conv, args->y, args->x, args->w, args->b);
    }
}

void ISA_NAME(conv_backward_data)(struct culm_cpu *cpu,
                                  const struct culm_conv_backward_data_args *args) {
    enum culm_conv_algorithm algorithm =
        chosen(args->conv, CULM_CONV_BACKWARD_DATA, args->algorithm);
    if (algorithm == CULM_CONV_WINOGRAD) {
        ISA_NAME(winograd_backward_data)(cpu, args->conv, args->dx, args->dy, args->w);
    } else if (conv_is_depthwise(args->conv)) {
        ISA_NAME(conv_depthwise_backward_data)(cpu, args->conv, args->dx, args->dy, args->w);
    } else {
        backward_data(cpu, args->conv, args->dx, args->dy, args->w);
    }
}

void ISA_NAME(conv_backward_weight)(struct culm_cpu *cpu,
                                    const struct culm_conv_backward_weight_args *args) {
    enum culm_conv_algorithm algorithm =
        chosen(args->conv, CULM_CONV_BACKWARD_WEIGHT, args->algorithm);
    bool product = algorithm == CULM_CONV_DIRECT && !conv_is_depthwise(args->conv);
    if (product) {
        backward_weight(cpu, args->conv, args->dw, args->db, args->x, args->dy, args->first);
        return;
    }
    if (args->db) {
        culm_cpu_run(
            cpu, ceil_div(args->conv->o, LANES), sum_bias,
            &(struct bias){.v = args->conv, .db = args->db, .dy = args->dy, .first = args->first});
    }
    if (algorithm == CULM_CONV_WINOGRAD) {
        ISA_NAME(winograd_backward_weight)
        (cpu, args->conv, args->dw, args->x, args->dy, args->first);
    } else {
        ISA_NAME(conv_depthwise_backward_weight)
        (cpu, args->conv, args->dw, args->x, args->dy, args->first);
    }
}

/*
 * One direction of one layer of long short-term memory (Hochreiter and Schmidhuber, 1997), with
 * PyTorch's gates i f g o:
 *
 *     (i f g o)[t] = x[t] w_ih^T + h[t-1] w_hh^T + b_ih + b_hh,  sigmoid of i f o, tanh of g
 *     c[t] = f c[t-1] + i g,  h[t] = o tanh(c[t]),  y[t] = h[t]
 *
 * The products with x, and all products of weight gradients, are one product each over all time
 * steps (product.h). What must go step by step is the product with the state, [B,H] x [H,4H], and
 * in backward [B,4H] x [4H,H]: its weights are packed once per pass, in the order in which the
 * steps read them, and a step is one run over tiles:
 *
 *     forward   a tile is 16 units: their four gates from the last state, then the cell
 *     backward  a tile is 32 units: their dh from the next step's gradients of gates, then the cell
 *
 * so that nothing but the state goes from one step to the next:
 *
 *     state     [run of 256 terms][sample, longest first][ROW_STRIDE], two of them, in turn
 *
 * Samples of unequal length are ranked by length, and a step works on the ones that it reaches;
 * past its length a sample's output is zero. Running backwards in time, a sample starts at its last
 * position.
 *
 * Bits: an element of a product is, for each run of 256 terms, a chain of fused multiply-adds in
 * order; the chains are added in order. Sums over samples go in the order of samples, and those of
 * steps are added in the order of steps.
 */
#include "device/cpu/functions.h"
#include "device/cpu/product.h"
#include "device/cpu/tile.h"
#include "device/cpu/transpose.h"
#include "device/cpu/variant.h"

#include <assert.h>

#define RUN 256
#define UNITS 16 /* of a tile of forward: 4 UNITS columns */
#define WIDE 32  /* columns of a tile of backward; a multiple of NR, like 4 UNITS */

struct lstm {
    struct culm_cpu *cpu;
    struct culm_lstm how;
    struct culm_lstm_params w;
    struct culm_out y;
    struct culm_in dy;
    float *gates, *cells, *dgates;
    float *packed, *state[2], *dc, *db;
    int32_t *rows; /* [T+1]: how many samples are longer than t */
    int32_t *rank; /* [B]: in the order of falling length */
    int64_t step, t, terms;
};

/* --- the recurrent product --- */

/* Like chain() of tile.h, fetching what comes next of the weights into the second cache on the way:
 * they come from further away than the state, and a step reads them once. `lines` per term. */
SIMD void chain_ahead(vec acc[MR][NV], int mr, int64_t k, const float *a, const float *b,
                      const float *ahead, int lines) {
#pragma GCC unroll 16
    for (int r = 0; r < mr; r++)
#pragma GCC unroll 2
        for (int v = 0; v < NV; v++) {
            acc[r][v] = vzero();
        }
    for (int64_t i = 0; i < k; i++) {
        vec bv[NV];
#pragma GCC unroll 2
        for (int v = 0; v < NV; v++) {
            bv[v] = vload(b + v * LANES);
        }
#pragma GCC unroll 2
        for (int l = 0; l < lines; l++) {
            __builtin_prefetch(ahead + l * LANES, 0, 2);
        }
#pragma GCC unroll 16
        for (int r = 0; r < mr; r++) {
            vec av = vset(a[r * ROW_STRIDE]);
#pragma GCC unroll 2
            for (int v = 0; v < NV; v++) {
                acc[r][v] = vfma(av, bv[v], acc[r][v]);
            }
        }
        a++;
        b += NR;
        ahead += lines * LANES;
    }
}

/* c[mr][NR] = or += a[mr][k] b[k][NR]; `lines`: NV, 1 or 0. */
typedef void micro(int64_t k, const float *a, const float *b, float *c, int64_t ldc, bool add,
                   const float *ahead, int lines);
#define MICRO(mr)                                                                                  \
    static void micro_##mr(int64_t k, const float *a, const float *b, float *c, int64_t ldc,       \
                           bool add, const float *ahead, int lines) {                              \
        vec acc[MR][NV];                                                                           \
        if (lines == NV)                                                                           \
            chain_ahead(acc, mr, k, a, b, ahead, NV);                                              \
        else if (lines)                                                                            \
            chain_ahead(acc, mr, k, a, b, ahead, 1);                                               \
        else                                                                                       \
            chain_ahead(acc, mr, k, a, b, ahead, 0);                                               \
        if (add)                                                                                   \
            finish(acc, mr, c, ldc, NR, ADD, NULL);                                                \
        else                                                                                       \
            finish(acc, mr, c, ldc, NR, STORE, NULL);                                              \
    }
MICRO(1)
MICRO(2)
MICRO(3)
MICRO(4)
MICRO(5)
MICRO(6)
#if MR == 14
MICRO(7)
MICRO(8)
MICRO(9)
MICRO(10)
MICRO(11)
MICRO(12)
MICRO(13)
MICRO(14)
#endif
static micro *const micros[] = {
    NULL,    micro_1, micro_2, micro_3,  micro_4,  micro_5,  micro_6,
#if MR == 14
    micro_7, micro_8, micro_9, micro_10, micro_11, micro_12, micro_13, micro_14,
#endif
};

/* c[rows][columns] = state[rows][terms] times packed [run][panel][term][NR]. */
static void multiply(const struct lstm *s, float *c, const float *state, const float *packed,
                     int64_t rows, int64_t columns) {
    int64_t groups = ceil_div(rows, MR), panels = columns / NR;
    for (int64_t k0 = 0; k0 < s->terms; k0 += RUN) {
        int64_t k = at_most(RUN, s->terms - k0);
        const float *a = state + k0 / RUN * s->how.b * ROW_STRIDE;
        for (int64_t panel = 0; panel < panels; panel++) {
            const float *next = packed + k * NR;
            for (int64_t g = 0; g < groups; g++) {
                int64_t row = rows * g / groups, count = rows * (g + 1) / groups - row;
                micros[count](k, a + row * ROW_STRIDE, packed, c + row * columns + panel * NR,
                              columns, k0 > 0, next + g * k * LANES,
                              groups == 1 ? NV
                              : g < NV    ? 1
                                          : 0);
            }
            packed = next;
        }
    }
}

/* Where the state holds 16 terms from `term` of the sample of this rank. */
SIMD float *state_at(const struct lstm *s, float *state, int64_t rank, int64_t term) {
    return state + (term / RUN * s->how.b + rank) * ROW_STRIDE + term % RUN;
}

static int64_t state_floats(int64_t b, int64_t terms) {
    return ceil_div(terms, RUN) * b * ROW_STRIDE;
}

/* --- lengths --- */

static void rank_samples(struct lstm *s) {
    int32_t *start = s->rank + s->how.b; /* [T+1] */
    for (int64_t t = 0; t <= s->how.t; t++) {
        s->rows[t] = 0;
    }
    for (int64_t b = 0; b < s->how.b; b++) {
        int64_t length = culm_lstm_length(&s->how, b);
        for (int64_t t = 0; t < length; t++) {
            s->rows[t]++;
        }
    }
    for (int64_t t = 0; t <= s->how.t; t++) {
        start[t] = s->rows[t];
    }
    for (int64_t b = 0; b < s->how.b; b++) {
        s->rank[b] = start[culm_lstm_length(&s->how, b)]++;
    }
}

/* The time of the step'th step. */
static int64_t time_of(const struct lstm *s, int64_t step, bool backward) {
    return s->how.reverse != backward ? s->how.t - 1 - step : step;
}

/* --- forward --- */

static void pack_forward(void *context, int64_t block, int thread) {
    struct lstm *s = context;
    (void)thread;
    int64_t h = s->how.h, units = at_most(UNITS, h - block * UNITS);
    float *to = s->packed + block * h * 4 * UNITS;
    for (int64_t k0 = 0; k0 < h; k0 += RUN) {
        int64_t count = at_most(RUN, h - k0);
        for (int64_t q = 0; q < 4; q++) {
            const float *from = s->w.w_hh + (q * h + block * UNITS) * h + k0;
            float *panel = to + q * UNITS / NR * count * NR + q * UNITS % NR;
            for (int64_t k = 0; k < count; k += 16) {
                if (units == UNITS && k + 16 <= count) {
                    transpose16(from + k, h, panel + k * NR, NR);
                    continue;
                }
                for (int64_t i = k; i < at_most(k + 16, count); i++) {
                    for (int64_t u = 0; u < UNITS; u++) {
                        panel[i * NR + u] = u < units ? from[u * h + i] : 0.0f;
                    }
                }
            }
        }
        to += count * 4 * UNITS;
    }
}

/* The state before the first step, of one sample. */
static void start_forward(void *context, int64_t b, int thread) {
    struct lstm *s = context;
    (void)thread;
    for (int64_t u = 0; u < s->how.h; u += LANES) {
        vec h = s->w.h0.data ? tload_part(s->w.h0, b * s->how.h + u, s->how.h - u) : vzero();
        for (int i = 0; i < 2; i++) {
            vstore(state_at(s, s->state[i], s->rank[b], u), h);
        }
    }
}

/* c before this step, of 16 units of a sample. */
SIMD vec cell_before(const struct lstm *s, int64_t b, int64_t t, int64_t u) {
    int64_t h = s->how.h, before = s->how.reverse ? t + 1 : t - 1;
    if (before >= 0 && before < s->how.t) {
        return load_part(s->cells + (b * s->how.t + before) * h + u, h - u);
    }
    return s->w.c0.data ? tload_part(s->w.c0, b * h + u, h - u) : vzero();
}

/* A sample that this step does not reach: its state stays. */
static void forward_past(const struct lstm *s, int64_t b, int64_t u) {
    int64_t h = s->how.h, at = (b * s->how.t + s->t) * h + u, left = h - u;
    bool starts = s->how.reverse && s->w.c0.data;
    for (int64_t q = 0; q < 4; q++) {
        store_part(s->gates + (b * s->how.t + s->t) * 4 * h + q * h + u, vzero(), left);
    }
    store_part(s->cells + at, starts ? tload_part(s->w.c0, b * h + u, left) : vzero(), left);
    tstore_part(s->y, at, vzero(), left);
}

static void forward_tile(void *context, int64_t block, int thread) {
    struct lstm *s = context;
    float *sums = cpu_private(s->cpu, thread); /* [rows][4 UNITS] */
    int64_t h = s->how.h, u = block * UNITS, left = h - u, rows = s->rows[s->t];
    bool recurrent = s->step > 0 || s->w.h0.data;
    if (recurrent) {
        multiply(s, sums, s->state[s->step % 2], s->packed + block * h * 4 * UNITS, rows,
                 4 * UNITS);
    }
    for (int64_t b = 0; b < s->how.b; b++) {
        int64_t rank = s->rank[b], row = b * s->how.t + s->t;
        if (rank >= rows) {
            forward_past(s, b, u);
            continue;
        }
        float *gates = s->gates + row * 4 * h + u;
        vec gate[4];
        for (int q = 0; q < 4; q++) {
            gate[q] = load_part(gates + q * h, left);
            if (recurrent) {
                gate[q] = vadd(gate[q], vload(sums + rank * 4 * UNITS + q * UNITS));
            }
            gate[q] = q == 2 ? vtanh_full(gate[q]) : vsigmoid(gate[q]);
            store_part(gates + q * h, gate[q], left);
        }
        vec c = vfma(gate[1], cell_before(s, b, s->t, u), vmul(gate[0], gate[2]));
        vec y = vmul(gate[3], vtanh_full(c));
        store_part(s->cells + row * h + u, c, left);
        tstore_part(s->y, row * h + u, y, left);
        if (s->y.dtype != CULM_F32) { /* the next step sees what is stored */
            y = tload_part(culm_in_of(s->y), row * h + u, left);
        }
        vstore(state_at(s, s->state[(s->step + 1) % 2], rank, u), y);
    }
}

static void add_biases(float *sum, const float *a, const float *b, int64_t count) {
    for (int64_t i = 0; i < count; i += LANES) {
        vec left = a ? load_part(a + i, count - i) : vzero();
        store_part(sum + i, b ? vadd(left, load_part(b + i, count - i)) : left, count - i);
    }
}

/* Hands out parts of `work`. */
static float *take(float **work, int64_t floats) {
    float *part = *work;
    *work += round_up(floats, LANES);
    return part;
}

static struct lstm describe(struct culm_cpu *cpu, const struct culm_lstm_params *w,
                            const struct culm_lstm *how, float **work) {
    assert(how->b <= CULM_CPU_MAX_LSTM_BATCH && how->h <= CULM_CPU_MAX_WIDTH / 4);
    struct lstm s = {.cpu = cpu, .how = *how, .w = *w};
    s.rows = (int32_t *)take(work, how->t + 1);
    s.rank = (int32_t *)take(work, how->b + how->t + 1);
    rank_samples(&s);
    return s;
}

void ISA_NAME(lstm_forward)(struct culm_cpu *cpu, const struct culm_lstm_forward_args *args) {
    float *work = args->work;
    const float *end = work + culm_cpu_lstm_forward_floats(args->how);
    struct lstm s = describe(cpu, args->params, args->how, &work);
    int64_t h = args->how->h, blocks = ceil_div(h, UNITS);
    s.y = args->y;
    s.gates = args->gates;
    s.cells = args->cells;
    s.terms = h;
    s.packed = take(&work, blocks * UNITS * 4 * h);
    s.state[0] = take(&work, state_floats(args->how->b, h));
    s.state[1] = take(&work, state_floats(args->how->b, h));
    float *bias = take(&work, 4 * h);
    assert(work <= end);
    if (args->params->b_ih || args->params->b_hh) {
        add_biases(bias, args->params->b_ih, args->params->b_hh, 4 * h);
    }
    ISA_NAME(product)
    (cpu, &(struct product){.m = args->how->b * args->how->t,
                            .n = 4 * h,
                            .k = args->how->i,
                            .a = operand_rows(args->x, args->how->i),
                            .b = operand_rows(culm_in_f32(args->params->w_ih), args->how->i),
                            .trans_b = true,
                            .c = result_rows(culm_out_f32(args->gates), 4 * h),
                            .bias = args->params->b_ih || args->params->b_hh ? bias : NULL});
    culm_cpu_run(cpu, blocks, pack_forward, &s);
    culm_cpu_run(cpu, args->how->b, start_forward, &s);
    for (s.step = 0; s.step < args->how->t; s.step++) {
        s.t = time_of(&s, s.step, false);
        culm_cpu_run(cpu, blocks, forward_tile, &s);
    }
}

/* --- backward --- */

/* Terms are gate by gate, each padded to whole vectors: so are rows of the packed weights. */
static int64_t padded(int64_t h) { return round_up(h, LANES); }

static void pack_backward(void *context, int64_t block, int thread) {
    struct lstm *s = context;
    (void)thread;
    int64_t h = s->how.h, hp = padded(h);
    float *to = s->packed + block * s->terms * WIDE;
    for (int64_t k0 = 0; k0 < s->terms; k0 += RUN) {
        int64_t count = at_most(RUN, s->terms - k0);
        for (int64_t panel = 0; panel < WIDE / NR; panel++) {
            for (int64_t k = k0; k < k0 + count; k++) {
                for (int64_t i = 0; i < NR; i += LANES, to += LANES) {
                    int64_t column = block * WIDE + panel * NR + i, q = k / hp, u = k % hp;
                    const float *from = s->w.w_hh + (q * h + u) * h + column;
                    vstore(to, u < h && column < h ? load_part(from, h - column) : vzero());
                }
            }
        }
    }
}

static void start_backward(void *context, int64_t b, int thread) {
    struct lstm *s = context;
    (void)thread;
    memset(s->dc + b * padded(s->how.h), 0, (size_t)padded(s->how.h) * sizeof(float));
}

/* 16 units of one sample: from dh to the gradients of the gates, and dc for the step before. */
SIMD void backward_cell(const struct lstm *s, int64_t b, int64_t u, vec recurrent, vec db[4]) {
    int64_t h = s->how.h, left = h - u, row = b * s->how.t + s->t, rank = s->rank[b];
    const float *gates = s->gates + row * 4 * h + u;
    vec i = load_part(gates, left), f = load_part(gates + h, left);
    vec g = load_part(gates + 2 * h, left), o = load_part(gates + 3 * h, left);
    vec dh = vadd(tload_part(s->dy, row * h + u, left), recurrent), one = vset(1.0f);
    vec tanh_c = vtanh_full(load_part(s->cells + row * h + u, left));
    float *carry = s->dc + b * padded(h) + u;
    vec dc = vfma(vmul(dh, o), vfnma(tanh_c, tanh_c, one), vload(carry));
    vec d[4] = {
        vmul(vmul(dc, g), vfnma(i, i, i)),
        vmul(vmul(dc, cell_before(s, b, s->t, u)), vfnma(f, f, f)),
        vmul(vmul(dc, i), vfnma(g, g, one)),
        vmul(vmul(dh, tanh_c), vfnma(o, o, o)),
    };
    vstore(carry, vmul(dc, f));
    for (int q = 0; q < 4; q++) {
        store_part(s->dgates + row * 4 * h + q * h + u, d[q], left);
        vstore(state_at(s, s->state[(s->step + 1) % 2], rank, q * padded(h) + u), d[q]);
        db[q] = vadd(db[q], d[q]);
    }
}

static void backward_tile(void *context, int64_t block, int thread) {
    struct lstm *s = context;
    float *sums = cpu_private(s->cpu, thread); /* [rows][WIDE] */
    int64_t h = s->how.h, rows = s->rows[s->t], known = 0;
    if (s->step > 0) { /* what the step after this one reached */
        known = at_most(rows, s->rows[s->how.reverse ? s->t - 1 : s->t + 1]);
        multiply(s, sums, s->state[s->step % 2], s->packed + block * s->terms * WIDE, known, WIDE);
    }
    for (int64_t u = block * WIDE; u < at_most(h, (block + 1) * WIDE); u += LANES) {
        vec db[4] = {vzero(), vzero(), vzero(), vzero()};
        for (int64_t b = 0; b < s->how.b; b++) {
            int64_t rank = s->rank[b];
            if (rank < rows) {
                vec recurrent =
                    rank < known ? vload(sums + rank * WIDE + u - block * WIDE) : vzero();
                backward_cell(s, b, u, recurrent, db);
                continue;
            }
            for (int64_t q = 0; q < 4; q++) {
                store_part(s->dgates + (b * s->how.t + s->t) * 4 * h + q * h + u, vzero(), h - u);
            }
        }
        for (int q = 0; q < 4; q++) {
            float *sum = s->db + q * padded(h) + u;
            vstore(sum, s->step ? vadd(vload(sum), db[q]) : db[q]);
        }
    }
}

static void give_bias(const struct lstm *s, float *to, bool first) {
    int64_t h = s->how.h;
    for (int64_t q = 0; q < 4 && to; q++) {
        for (int64_t u = 0; u < h; u += LANES) {
            vec sum = vload(s->db + q * padded(h) + u);
            float *at = to + q * h + u;
            store_part(at, first ? sum : vadd(load_part(at, h - u), sum), h - u);
        }
    }
}

/* The gradients of a sample's gates at its first step; zeros when it has none. */
struct firsts {
    const struct lstm *s;
    float *dgates; /* [B,4H] */
};

static void first_dgates(void *context, int64_t b, int thread) {
    struct firsts *f = context;
    (void)thread;
    int64_t width = 4 * f->s->how.h, length = culm_lstm_length(&f->s->how, b);
    int64_t row = b * f->s->how.t + (f->s->how.reverse ? length - 1 : 0);
    if (length) {
        memcpy(f->dgates + b * width, f->s->dgates + row * width, (size_t)width * sizeof(float));
    } else {
        memset(f->dgates + b * width, 0, (size_t)width * sizeof(float));
    }
}

static void give_dc0(const struct lstm *s, struct culm_out dc0) {
    int64_t h = s->how.h;
    for (int64_t b = 0; b < s->how.b && dc0.data; b++) {
        for (int64_t u = 0; u < h; u += LANES) {
            tstore_part(dc0, b * h + u, vload(s->dc + b * padded(h) + u), h - u);
        }
    }
}

/* The state before each step, as the left part of a product over all steps: y one step earlier,
 * zeros before the first. */
static struct operand states_before(struct culm_in y, const struct culm_lstm *how) {
    return (struct operand){.kind = OPERAND_PATCHES,
                            .dtype = y.dtype,
                            .data = y.data,
                            .patches = {.lines = how->t,
                                        .pixels = 1,
                                        .taps = {1, 1},
                                        .channels = how->h,
                                        .height = how->t,
                                        .width = 1,
                                        .ld = how->h,
                                        .origin = {how->reverse ? 1 : -1, 0},
                                        .step = {1, 1},
                                        .tap_step = {1, 1}}};
}

/* Weight gradients and dx: products over all steps. */
static void backward_products(const struct lstm *s, const struct culm_lstm_grads *grads,
                              struct culm_in x, struct culm_in y, float *dgates0, bool first) {
    const struct culm_lstm *how = &s->how;
    int64_t h = how->h, n = how->b * how->t;
    struct operand all = operand_rows(culm_in_f32(s->dgates), 4 * h);
    struct product w_ih = {.m = 4 * h, .n = how->i, .k = n, .a = all, .trans_a = true};
    w_ih.b = operand_rows(x, how->i);
    w_ih.c = result_rows(culm_out_f32(grads->dw_ih), how->i);
    w_ih.add = !first;
    ISA_NAME(product)(s->cpu, &w_ih);
    struct product w_hh = {.m = 4 * h, .n = h, .k = n, .a = all, .trans_a = true};
    w_hh.b = states_before(y, how);
    w_hh.c = result_rows(culm_out_f32(grads->dw_hh), h);
    w_hh.add = !first;
    ISA_NAME(product)(s->cpu, &w_hh);
    if (grads->dx.data) {
        struct product dx = {.m = n, .n = how->i, .k = 4 * h, .a = all};
        dx.b = operand_rows(culm_in_f32(s->w.w_ih), how->i);
        dx.c = result_rows(grads->dx, how->i);
        ISA_NAME(product)(s->cpu, &dx);
    }
    if (!s->w.h0.data) {
        return;
    }
    struct firsts firsts = {s, dgates0};
    culm_cpu_run(s->cpu, how->b, first_dgates, &firsts);
    w_hh.k = how->b;
    w_hh.a = operand_rows(culm_in_f32(dgates0), 4 * h);
    w_hh.b = operand_rows(s->w.h0, h);
    w_hh.add = true;
    ISA_NAME(product)(s->cpu, &w_hh);
    if (grads->dh0.data) {
        struct product dh0 = {.m = how->b, .n = h, .k = 4 * h};
        dh0.a = operand_rows(culm_in_f32(dgates0), 4 * h);
        dh0.b = operand_rows(culm_in_f32(s->w.w_hh), h);
        dh0.c = result_rows(grads->dh0, h);
        ISA_NAME(product)(s->cpu, &dh0);
    }
}

void ISA_NAME(lstm_backward)(struct culm_cpu *cpu, const struct culm_lstm_backward_args *args) {
    float *work = args->work;
    const float *end = work + culm_cpu_lstm_backward_floats(args->how);
    struct lstm s = describe(cpu, args->params, args->how, &work);
    int64_t h = args->how->h, hp = padded(h), blocks = ceil_div(h, WIDE);
    s.dy = args->dy;
    s.gates = (float *)args->gates;
    s.cells = (float *)args->cells;
    s.terms = 4 * hp;
    s.packed = take(&work, blocks * WIDE * s.terms);
    s.state[0] = take(&work, state_floats(args->how->b, s.terms));
    s.state[1] = take(&work, state_floats(args->how->b, s.terms));
    s.dc = take(&work, args->how->b * hp);
    s.db = take(&work, s.terms);
    s.dgates = take(&work, args->how->b * args->how->t * 4 * h);
    float *dgates0 = take(&work, args->how->b * 4 * h);
    assert(work <= end);
    culm_cpu_run(cpu, blocks, pack_backward, &s);
    culm_cpu_run(cpu, args->how->b, start_backward, &s);
    for (s.step = 0; s.step < args->how->t; s.step++) {
        s.t = time_of(&s, s.step, true);
        culm_cpu_run(cpu, blocks, backward_tile, &s);
    }
    give_bias(&s, args->grads->db_ih, args->first);
    give_bias(&s, args->grads->db_hh, args->first);
    give_dc0(&s, args->grads->dc0);
    backward_products(&s, args->grads, args->x, args->y, dgates0, args->first);
}

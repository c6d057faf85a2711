/*
 * Families of operators on sequences, for the operator test (ops.c). dim[7] asks for bf16 arrays: 1 for all,
 * 2 for those that are read, since rounded results hide in which order they were added up.
 */
#include "halves.h"

#include "../astray.h"

#include "tensor/reference_sequence.h"
#include <math.h>

#define BUF(i) (run->buffer[i])
#define DIM(i) (run->shape.dim[i])
#define BIT(i) (1u << (i))
#define BF16_TOLERANCE 5e-3
#define MOVE(b, outer, n, inner) astray(BUF(b), outer, n, inner, back)

/* Some ids are negative: every fifth, but not the first. What is added up, in `dy`, is of many sizes. */
static void prepare(struct run *run, int64_t ids, int dy) {
    if (run->prepared) {
        return;
    }
    typed_spread(run, DIM(7), BIT(dy));
    for (int64_t i = 3; i < ids; i += 5) {
        run->tokens[i] = -1;
    }
    run->prepared = true;
}

/* Scratch that a kernel borrows, full of NaN, with a fence behind it. */
static float *scratch_new(int64_t floats) {
    float *scratch = aligned_alloc(64, ((size_t)floats + 31) / 16 * 64);
    memset(scratch, 0xFF, ((size_t)floats + 31) / 16 * 64);
    return scratch;
}

static void scratch_free(float *scratch, int64_t floats) {
    uint32_t fence;
    memcpy(&fence, scratch + floats, sizeof fence);
    if (fence != UINT32_MAX) {
        abort();
    }
    free(scratch);
}

/* ---- look-up: n, c, v ---- */

enum { KTABLE, KY, KDY, KDTABLE };

static int64_t lookup_sizes(const struct shape *s, int64_t *count, int64_t *bound) {
    int64_t n = s->dim[0], c = s->dim[1], v = s->dim[2];
    const int64_t counts[] = {v * c, n * c, n * c, v * c};
    memcpy(count, counts, sizeof counts);
    *bound = v;
    return n;
}

static void lookup_forward(struct culm_device *cpu, struct run *run) {
    struct typed t = {.run = run, .bf16 = DIM(7)};
    prepare(run, DIM(0), KDY);
    if (cpu) {
        CULM_RUN(cpu, lookup_forward, .y = typed_out(&t, KY), .ids = run->tokens,
                 .table = culm_in_f32(BUF(KTABLE)), .n = DIM(0), .c = DIM(1), .v = DIM(2));
    } else {
        culm_ref_lookup_forward(BUF(KY), run->tokens, BUF(KTABLE), DIM(0), DIM(1));
    }
    typed_end(&t);
}

static void lookup_backward(struct culm_device *cpu, struct run *run) {
    struct typed t = {.run = run, .bf16 = DIM(7)};
    prepare(run, DIM(0), KDY);
    if (cpu) {
        CULM_RUN(cpu, lookup_backward, .dtable = BUF(KDTABLE), .dy = typed_in(&t, KDY),
                 .ids = run->tokens, .n = DIM(0), .c = DIM(1), .v = DIM(2), .first = run->first);
    } else {
        culm_ref_lookup_backward(BUF(KDTABLE), BUF(KDY), run->tokens, DIM(0), DIM(1), DIM(2),
                                 run->first);
    }
    typed_end(&t);
}

static void lookup_astray(struct run *run, bool back) {
    prepare(run, DIM(0), KDY);
    MOVE(KDY, 1, DIM(0), DIM(1));
    astray(run->tokens, 1, DIM(0), 1, back);
}

/* ---- positions: b, t, c, p ---- */

enum { PX, PWPE, PY, PDY, PDWPE };

static int64_t positions_sizes(const struct shape *s, int64_t *count, int64_t *bound) {
    int64_t rows = s->dim[0] * s->dim[1], c = s->dim[2], p = s->dim[3];
    const int64_t counts[] = {rows * c, p * c, rows * c, rows * c, p * c};
    memcpy(count, counts, sizeof counts);
    *bound = 1;
    return 0;
}

static void positions_forward(struct culm_device *cpu, struct run *run) {
    struct typed t = {.run = run, .bf16 = DIM(7)};
    typed_round(run, DIM(7), BIT(PX));
    if (cpu) {
        CULM_RUN(cpu, positions_forward, .y = typed_out(&t, PY), .x = typed_in(&t, PX),
                 .wpe = culm_in_f32(BUF(PWPE)), .b = DIM(0), .t = DIM(1), .c = DIM(2));
    } else {
        culm_ref_positions_forward(BUF(PY), BUF(PX), BUF(PWPE), DIM(0), DIM(1), DIM(2));
    }
    typed_end(&t);
}

static void positions_backward(struct culm_device *cpu, struct run *run) {
    struct typed t = {.run = run, .bf16 = DIM(7)};
    prepare(run, 0, PDY);
    if (cpu) {
        CULM_RUN(cpu, positions_backward, .dwpe = BUF(PDWPE), .dy = typed_in(&t, PDY), .b = DIM(0),
                 .t = DIM(1), .c = DIM(2), .p = DIM(3), .first = run->first);
    } else {
        culm_ref_positions_backward(BUF(PDWPE), BUF(PDY), DIM(0), DIM(1), DIM(2), DIM(3),
                                    run->first);
    }
    typed_end(&t);
}

static void positions_astray(struct run *run, bool back) {
    prepare(run, 0, PDY);
    MOVE(PDY, 1, DIM(0), DIM(1) * DIM(2));
}

/* ---- gathered rows: b, t, k, c ---- */

enum { GX, GY, GDY, GDX };

static int64_t gather_sizes(const struct shape *s, int64_t *count, int64_t *bound) {
    int64_t b = s->dim[0], t = s->dim[1], k = s->dim[2], c = s->dim[3];
    const int64_t counts[] = {b * t * c, b * k * c, b * k * c, b * t * c};
    memcpy(count, counts, sizeof counts);
    *bound = t;
    return b * k;
}

static void gather_forward(struct culm_device *cpu, struct run *run) {
    struct typed t = {.run = run, .bf16 = DIM(7)};
    typed_round(run, DIM(7), BIT(GX));
    prepare(run, DIM(0) * DIM(2), GDY);
    if (cpu) {
        CULM_RUN(cpu, gather_rows_forward, .y = typed_out(&t, GY), .x = typed_in(&t, GX),
                 .index = run->tokens, .b = DIM(0), .t = DIM(1), .k = DIM(2), .c = DIM(3));
    } else {
        culm_ref_gather_rows_forward(BUF(GY), BUF(GX), run->tokens, DIM(0), DIM(1), DIM(2), DIM(3));
    }
    typed_end(&t);
}

static void gather_backward(struct culm_device *cpu, struct run *run) {
    struct typed t = {.run = run, .bf16 = DIM(7)};
    prepare(run, DIM(0) * DIM(2), GDY);
    if (cpu) {
        CULM_RUN(cpu, gather_rows_backward, .dx = typed_out(&t, GDX), .dy = typed_in(&t, GDY),
                 .index = run->tokens, .b = DIM(0), .t = DIM(1), .k = DIM(2), .c = DIM(3));
    } else {
        culm_ref_gather_rows_backward(BUF(GDX), BUF(GDY), run->tokens, DIM(0), DIM(1), DIM(2),
                                      DIM(3));
    }
    typed_end(&t);
}

static void gather_astray(struct run *run, bool back) {
    prepare(run, DIM(0) * DIM(2), GDY);
    MOVE(GDY, DIM(0), DIM(2), DIM(3));
    astray(run->tokens, DIM(0), DIM(2), 1, back);
}

/* ---- attention: b, tq, tk, c, heads, bits (1: causal, 2: mask, 4: all keys of sample 0 hidden, 8:
 * the second half of the last sample's keys hidden) ---- */

enum { AQ, AK, AV, AOUT, ALSE, ADOUT, ADQ, ADK, ADV };
#define LD(c) ((c) + 5) /* of q, k and v; dq is as wide as v */

static int64_t attention_sizes(const struct shape *s, int64_t *count, int64_t *bound) {
    int64_t b = s->dim[0], q = b * s->dim[1], k = b * s->dim[2], c = s->dim[3];
    const int64_t counts[] = {q * LD(c), k * LD(c), k * c,     q * c, q * s->dim[4],
                              q * c,     q * LD(c), k * LD(c), k * c};
    memcpy(count, counts, sizeof counts);
    *bound = 4;
    return k;
}

static struct culm_attention attention_how(struct run *run) {
    for (int64_t i = 0; i < DIM(0) * DIM(2) && !run->prepared; i++) {
        if ((DIM(5) & 4 && i < DIM(2)) || (DIM(5) & 8 && i >= DIM(0) * DIM(2) - DIM(2) / 2)) {
            run->tokens[i] = 0;
        }
    }
    run->prepared = true;
    return (struct culm_attention){.b = DIM(0),
                                   .tq = DIM(1),
                                   .tk = DIM(2),
                                   .c = DIM(3),
                                   .heads = DIM(4),
                                   .causal = DIM(5) & 1,
                                   .mask = DIM(5) & 2 ? run->tokens : NULL,
                                   .dropout = &run->dropout};
}

static struct culm_ref_attention attention_plain(struct run *run) {
    return (struct culm_ref_attention){BUF(AQ), BUF(AK), BUF(AV), LD(DIM(3)), LD(DIM(3)), DIM(3)};
}

static struct culm_attention_rows attention_rows(struct run *run, struct typed *t) {
    return (struct culm_attention_rows){typed_in(t, AQ), typed_in(t, AK), typed_in(t, AV),
                                        LD(DIM(3)),      LD(DIM(3)),      DIM(3)};
}

static void attention_reference(struct run *run) {
    struct culm_attention how = attention_how(run);
    struct culm_ref_attention plain = attention_plain(run);
    culm_ref_attention_forward(BUF(AOUT), BUF(ALSE), &plain, &how, run->scratch);
}

/* A query that sees nothing has +infinity for its log-sum-exp, which cannot be compared. */
static void finite_lse(struct run *run) {
    for (int64_t i = 0; i < run->count[ALSE]; i++) {
        if (BUF(ALSE)[i] > 1e30f) {
            BUF(ALSE)[i] = 7;
        }
    }
}

static void attention_forward(struct culm_device *cpu, struct run *run) {
    struct typed t = {.run = run, .bf16 = DIM(7)};
    struct culm_attention how = attention_how(run);
    typed_round(run, DIM(7), BIT(AQ) | BIT(AK) | BIT(AV));
    struct culm_attention_rows in = attention_rows(run, &t);
    if (cpu) {
        CULM_RUN(cpu, attention_forward, .out = typed_out(&t, AOUT), .lse = BUF(ALSE), .in = &in,
                 .how = &how);
    } else {
        attention_reference(run);
    }
    typed_end(&t);
    finite_lse(run);
}

static void attention_backward(struct culm_device *cpu, struct run *run) {
    struct typed t = {.run = run, .bf16 = DIM(7)};
    struct culm_attention how = attention_how(run);
    int64_t c = DIM(3);
    typed_round(run, DIM(7), BIT(AQ) | BIT(AK) | BIT(AV) | BIT(ADOUT));
    for (int d = ADQ; d <= ADK; d++) { /* nobody writes between the rows */
        memset(BUF(d), 0, (size_t)run->count[d] * sizeof(float));
    }
    if (cpu) {
        reference_once(run, attention_reference, BIT(AOUT) | BIT(ALSE));
        struct culm_attention_rows in = attention_rows(run, &t);
        struct culm_attention_grads grads = {
            typed_out(&t, ADQ), typed_out(&t, ADK), typed_out(&t, ADV), LD(c), LD(c), c};
        CULM_RUN(cpu, attention_backward, .grads = &grads, .dout = typed_in(&t, ADOUT), .in = &in,
                 .out = typed_in(&t, AOUT), .lse = BUF(ALSE), .how = &how);
    } else {
        struct culm_ref_attention plain = attention_plain(run);
        culm_ref_attention_backward(BUF(ADQ), BUF(ADK), BUF(ADV), BUF(ADOUT), &plain, &how,
                                    run->scratch);
    }
    typed_end(&t);
}

/* The columns of each head of rows that are `ld` apart. */
static void heads_astray(float *x, int64_t rows, int64_t ld, int64_t heads, int64_t width,
                         bool back) {
    for (int64_t h = 0; h < heads; h++) {
        astray_pitched(x + h * width, rows, ld, width, 1, back);
    }
}
static void attention_astray(struct run *run, bool back) {
    static const int queries[] = {AQ, AOUT, ADOUT, ADQ}, keys[] = {AK, AV, ADK, ADV};
    int64_t b = DIM(0), tq = DIM(1), tk = DIM(2), c = DIM(3), heads = DIM(4), width = c / heads;
    (void)attention_how(run);
    for (int i = 0; i < 4; i++) {
        int of_q = queries[i], of_k = keys[i];
        int64_t ldq = of_q == AOUT || of_q == ADOUT ? c : LD(c);
        int64_t ldk = of_k == AV || of_k == ADV ? c : LD(c);
        heads_astray(BUF(of_q), b * tq, ldq, heads, width, back);
        heads_astray(BUF(of_k), b * tk, ldk, heads, width, back);
        if (!(DIM(5) & 1) && run->shape.p == 0) { /* else their places tell what they are */
            MOVE(of_q, b, tq, ldq);
            MOVE(of_k, b, tk, ldk);
        }
    }
    if (!(DIM(5) & 1) && run->shape.p == 0) {
        MOVE(ALSE, b * heads, tq, 1);
        astray(run->tokens, b, tk, 1, back);
    }
}

/* ---- LSTM: b, t, i, h, bits (1: reverse, 2: lengths, 4: first state, 8: no biases) ---- */

enum {
    MX,
    MWIH,
    MWHH,
    MBIH,
    MBHH,
    MH0,
    MC0,
    MY,
    MGATES,
    MCELLS,
    MDY,
    MDX,
    MDWIH,
    MDWHH,
    MDBIH,
    MDBHH,
    MDH0,
    MDC0
};
#define LSTM_BITS(i) ((DIM(4) & (i)) != 0)

static int64_t lstm_sizes(const struct shape *s, int64_t *count, int64_t *bound) {
    int64_t b = s->dim[0], t = s->dim[1], i = s->dim[2], h = s->dim[3];
    const int64_t counts[] = {b * t * i, 4 * h * i, 4 * h * h,     4 * h,     4 * h,     b * h,
                              b * h,     b * t * h, b * t * 4 * h, b * t * h, b * t * h, b * t * i,
                              4 * h * i, 4 * h * h, 4 * h,         4 * h,     b * h,     b * h};
    memcpy(count, counts, sizeof counts);
    *bound = t + 1;
    return b;
}

static struct culm_lstm lstm_how(const struct run *run) {
    return (struct culm_lstm){.b = DIM(0),
                              .t = DIM(1),
                              .i = DIM(2),
                              .h = DIM(3),
                              .reverse = LSTM_BITS(1),
                              .length = LSTM_BITS(2) ? run->tokens : NULL};
}

static void lstm_reference(struct run *run) {
    const bool bias = !LSTM_BITS(8), state = LSTM_BITS(4);
    const struct culm_ref_lstm w = {BUF(MWIH),
                                    BUF(MWHH),
                                    bias ? BUF(MBIH) : NULL,
                                    bias ? BUF(MBHH) : NULL,
                                    state ? BUF(MH0) : NULL,
                                    state ? BUF(MC0) : NULL};
    struct culm_lstm how = lstm_how(run);
    double *scratch = calloc((size_t)(6 * how.h), sizeof *scratch);
    culm_ref_lstm_forward(BUF(MY), BUF(MGATES), BUF(MCELLS), BUF(MX), &w, &how, scratch);
    free(scratch);
}

/* Weights of a size that keeps gates from being all 0 or 1. */
static void lstm_scale(struct run *run) {
    typed_round(run, DIM(7), BIT(MX) | BIT(MH0) | BIT(MC0));
    float by = 1 / (1 + sqrtf((float)DIM(3)));
    for (int b = MWIH; b <= MWHH; b++) {
        for (int64_t i = 0; i < run->count[b]; i++) {
            if (fabsf(BUF(b)[i]) > by) {
                BUF(b)[i] *= by;
            }
        }
    }
}

static struct culm_lstm_params lstm_params(struct run *run, struct typed *t) {
    const bool bias = !LSTM_BITS(8);
    struct culm_lstm_params params = {
        BUF(MWIH), BUF(MWHH), bias ? BUF(MBIH) : NULL, bias ? BUF(MBHH) : NULL, {0}, {0}};
    if (LSTM_BITS(4)) {
        params.h0 = typed_in(t, MH0);
        params.c0 = typed_in(t, MC0);
    }
    return params;
}

static void lstm_forward(struct culm_device *cpu, struct run *run) {
    struct typed t = {.run = run, .bf16 = DIM(7)};
    struct culm_lstm how = lstm_how(run);
    if (run->dropout.key) { /* once, not before every finite difference */
        lstm_scale(run);
        run->dropout.key = 0;
    }
    if (cpu) {
        struct culm_lstm_params params = lstm_params(run, &t);
        float *work = scratch_new(culm_cpu_device_ops.lstm_forward_floats(&how));
        CULM_RUN(cpu, lstm_forward, .y = typed_out(&t, MY), .gates = BUF(MGATES),
                 .cells = BUF(MCELLS), .work = work, .x = typed_in(&t, MX), .params = &params,
                 .how = &how);
        scratch_free(work, culm_cpu_device_ops.lstm_forward_floats(&how));
    } else {
        lstm_reference(run);
    }
    typed_end(&t);
}

static void lstm_backward_reference(struct run *run) {
    const bool bias = !LSTM_BITS(8), state = LSTM_BITS(4);
    const struct culm_ref_lstm w = {BUF(MWIH),
                                    BUF(MWHH),
                                    bias ? BUF(MBIH) : NULL,
                                    bias ? BUF(MBHH) : NULL,
                                    state ? BUF(MH0) : NULL,
                                    state ? BUF(MC0) : NULL};
    struct culm_lstm how = lstm_how(run);
    double *scratch = calloc((size_t)(6 * how.h), sizeof *scratch);
    float *own[4]; /* what is there already, to add */
    for (int i = 0; i < 4; i++) {
        size_t bytes = (size_t)run->count[MDWIH + i] * sizeof(float);
        own[i] = malloc(bytes);
        memcpy(own[i], BUF(MDWIH + i), bytes);
    }
    const struct culm_ref_lstm_grads grads = {BUF(MDX),   BUF(MDWIH), BUF(MDWHH),
                                              BUF(MDBIH), BUF(MDH0),  BUF(MDC0)};
    culm_ref_lstm_backward(&grads, BUF(MY), BUF(MGATES), BUF(MCELLS), BUF(MDY), BUF(MX), &w, &how,
                           scratch);
    memcpy(BUF(MDBHH), BUF(MDBIH), (size_t)run->count[MDBIH] * sizeof(float));
    for (int i = 0; i < 4; i++) {
        for (int64_t j = 0; j < run->count[MDWIH + i] && !run->first; j++) {
            BUF(MDWIH + i)[j] += own[i][j];
        }
        free(own[i]);
    }
    free(scratch);
}

static void lstm_backward(struct culm_device *cpu, struct run *run) {
    struct typed t = {.run = run, .bf16 = DIM(7)};
    struct culm_lstm how = lstm_how(run);
    const bool bias = !LSTM_BITS(8), state = LSTM_BITS(4);
    if (run->dropout.key) {
        lstm_scale(run);
        run->dropout.key = 0;
    }
    typed_round(run, DIM(7), BIT(MDY));
    if (cpu) {
        /* so that only this kernel is compared */
        reference_once(run, lstm_reference, BIT(MY) | BIT(MGATES) | BIT(MCELLS));
        struct culm_lstm_params params = lstm_params(run, &t);
        struct culm_lstm_grads grads = {BUF(MDWIH),
                                        BUF(MDWHH),
                                        bias ? BUF(MDBIH) : NULL,
                                        bias ? BUF(MDBHH) : NULL,
                                        typed_out(&t, MDX),
                                        {0},
                                        {0}};
        if (state) {
            grads.dh0 = typed_out(&t, MDH0);
            grads.dc0 = typed_out(&t, MDC0);
        }
        float *work = scratch_new(culm_cpu_device_ops.lstm_backward_floats(&how));
        CULM_RUN(cpu, lstm_backward, .grads = &grads, .work = work, .dy = typed_in(&t, MDY),
                 .x = typed_in(&t, MX), .y = typed_in(&t, MY), .gates = BUF(MGATES),
                 .cells = BUF(MCELLS), .params = &params, .how = &how, .first = run->first);
        scratch_free(work, culm_cpu_device_ops.lstm_backward_floats(&how));
    } else {
        lstm_backward_reference(run);
    }
    typed_end(&t);
    for (int b = MDBIH; b <= MDBHH && !bias; b++) { /* not written */
        memset(BUF(b), 0, (size_t)run->count[b] * sizeof(float));
    }
    for (int b = MDH0; b <= MDC0 && !state; b++) {
        memset(BUF(b), 0, (size_t)run->count[b] * sizeof(float));
    }
}

/* Inputs, units, and samples. */
static void lstm_astray(struct run *run, bool back) {
    static const int of_units[] = {MH0, MC0, MDH0, MDC0}; /* [b,h] */
    int64_t b = DIM(0), t = DIM(1), in = DIM(2), h = DIM(3);
    if (run->dropout.key) {
        lstm_scale(run);
        run->dropout.key = 0;
    }
    for (int d = 0; d < 2; d++) {
        MOVE(d ? MDX : MX, b * t, in, 1);
        MOVE(d ? MDWIH : MWIH, 4 * h, in, 1);
        MOVE(d ? MDWIH : MWIH, 4, h, in);
        MOVE(d ? MDWHH : MWHH, 4 * h, h, 1);
        MOVE(d ? MDWHH : MWHH, 4, h, h);
        MOVE(d ? MDBIH : MBIH, 4, h, 1);
        MOVE(d ? MDBHH : MBHH, 4, h, 1);
        MOVE(d ? MDY : MY, b * t, h, 1);
        MOVE(d ? MDX : MX, 1, b, t * in);
        MOVE(d ? MDY : MY, 1, b, t * h);
    }
    MOVE(MGATES, b * t * 4, h, 1);
    MOVE(MCELLS, b * t, h, 1);
    MOVE(MGATES, 1, b, t * 4 * h);
    MOVE(MCELLS, 1, b, t * h);
    for (int i = 0; i < 4; i++) {
        MOVE(of_units[i], b, h, 1);
        MOVE(of_units[i], 1, b, h);
    }
    astray(run->tokens, 1, b, 1, back);
}

/* ---- additive attention: b, t, s, a, c, bits (1: lengths, 2: large numbers) ---- */

enum {
    BQUERY,
    BKEY,
    BVALUE,
    BV,
    BSCALE,
    BBIAS,
    BCONTEXT,
    BPROB,
    BDCONTEXT,
    BDQUERY,
    BDKEY,
    BDVALUE,
    BDV,
    BDSCALE,
    BDBIAS
};

static int64_t bahdanau_sizes(const struct shape *s, int64_t *count, int64_t *bound) {
    int64_t b = s->dim[0], t = s->dim[1], k = s->dim[2], a = s->dim[3], c = s->dim[4];
    const int64_t counts[] = {b * t * a, b * k * a, b * k * c, a,         1,
                              a,         b * t * c, b * t * k, b * t * c, b * t * a,
                              b * k * a, b * k * c, a,         1,         a};
    memcpy(count, counts, sizeof counts);
    *bound = k + 1;
    return b;
}

static struct culm_bahdanau bahdanau_how(struct run *run) {
    typed_round(run, DIM(7), BIT(BQUERY) | BIT(BKEY) | BIT(BVALUE) | BIT(BDCONTEXT));
    for (int64_t i = 0; DIM(5) & 2 && run->dropout.key && i < DIM(0) * DIM(1) * DIM(3); i += 37) {
        BUF(BQUERY)[i] += 40; /* and a key may bring it back */
        if (i < run->count[BKEY]) {
            BUF(BKEY)[i] -= 41;
        }
    }
    run->dropout.key = 0; /* done */
    return (struct culm_bahdanau){.b = DIM(0),
                                  .t = DIM(1),
                                  .s = DIM(2),
                                  .a = DIM(3),
                                  .c = DIM(4),
                                  .length = DIM(5) & 1 ? run->tokens : NULL};
}

static struct culm_bahdanau_inputs bahdanau_inputs(struct run *run, struct typed *t) {
    return (struct culm_bahdanau_inputs){typed_in(t, BQUERY), typed_in(t, BKEY),
                                         typed_in(t, BVALUE), BUF(BV),
                                         BUF(BSCALE),         BUF(BBIAS)};
}

static void bahdanau_reference(struct run *run) {
    struct culm_bahdanau how = bahdanau_how(run);
    const struct culm_ref_bahdanau in = {BUF(BQUERY), BUF(BKEY),   BUF(BVALUE),
                                         BUF(BV),     BUF(BSCALE), BUF(BBIAS)};
    double *scratch = calloc((size_t)how.s, sizeof *scratch);
    culm_ref_bahdanau_forward(BUF(BCONTEXT), BUF(BPROB), &in, &how, scratch);
    free(scratch);
}

static void bahdanau_forward(struct culm_device *cpu, struct run *run) {
    struct typed t = {.run = run, .bf16 = DIM(7)};
    struct culm_bahdanau how = bahdanau_how(run);
    struct culm_bahdanau_inputs in = bahdanau_inputs(run, &t);
    if (cpu) {
        CULM_RUN(cpu, bahdanau_forward, .context = typed_out(&t, BCONTEXT),
                 .probabilities = BUF(BPROB), .in = &in, .how = &how);
    } else {
        bahdanau_reference(run);
    }
    typed_end(&t);
}

static void bahdanau_backward(struct culm_device *cpu, struct run *run) {
    struct typed t = {.run = run, .bf16 = DIM(7)};
    struct culm_bahdanau how = bahdanau_how(run);
    if (cpu) {
        reference_once(run, bahdanau_reference, BIT(BCONTEXT) | BIT(BPROB));
        struct culm_bahdanau_inputs in = bahdanau_inputs(run, &t);
        struct culm_bahdanau_grads grads = {typed_out(&t, BDQUERY), typed_out(&t, BDKEY),
                                            typed_out(&t, BDVALUE), BUF(BDV),
                                            BUF(BDSCALE),           BUF(BDBIAS)};
        float *work = scratch_new(culm_cpu_device_ops.bahdanau_backward_floats(&how));
        CULM_RUN(cpu, bahdanau_backward, .grads = &grads, .work = work,
                 .dcontext = typed_in(&t, BDCONTEXT), .probabilities = BUF(BPROB), .in = &in,
                 .how = &how, .first = run->first);
        scratch_free(work, culm_cpu_device_ops.bahdanau_backward_floats(&how));
    } else {
        const struct culm_ref_bahdanau in = {BUF(BQUERY), BUF(BKEY),   BUF(BVALUE),
                                             BUF(BV),     BUF(BSCALE), BUF(BBIAS)};
        const struct culm_ref_bahdanau_grads grads = {BUF(BDQUERY), BUF(BDKEY),   BUF(BDVALUE),
                                                      BUF(BDV),     BUF(BDSCALE), BUF(BDBIAS)};
        double *scratch = calloc((size_t)(2 * how.s + how.a), sizeof *scratch);
        float *own[3]; /* what is there already, to add */
        for (int i = 0; i < 3; i++) {
            size_t bytes = (size_t)run->count[BDV + i] * sizeof(float);
            own[i] = malloc(bytes);
            memcpy(own[i], BUF(BDV + i), bytes);
        }
        culm_ref_bahdanau_backward(&grads, BUF(BDCONTEXT), &in, &how, scratch);
        for (int i = 0; i < 3; i++) {
            for (int64_t j = 0; j < run->count[BDV + i] && !run->first; j++) {
                BUF(BDV + i)[j] += own[i][j];
            }
            free(own[i]);
        }
        free(scratch);
    }
    typed_end(&t);
}

/* What scores are sums of; queries; where all are there, keys; and samples. */
static void bahdanau_astray(struct run *run, bool back) {
    static const int of_queries[] = {BQUERY, BDQUERY, BCONTEXT, BDCONTEXT, BPROB};
    static const int of_keys[] = {BKEY, BDKEY, BVALUE, BDVALUE};
    static const int of_a[] = {BV, BBIAS, BDV, BDBIAS};
    int64_t b = DIM(0), t = DIM(1), s = DIM(2), a = DIM(3), c = DIM(4);
    (void)bahdanau_how(run);
    for (int i = 0; i < 4; i++) {
        MOVE(of_a[i], 1, a, 1);
    }
    for (int i = 0; i < 5; i++) {
        int64_t row = i < 2 ? a : i < 4 ? c : s;
        if (i < 2) {
            MOVE(of_queries[i], b * t, a, 1);
        }
        MOVE(of_queries[i], b, t, row);
        MOVE(of_queries[i], 1, b, t * row);
    }
    for (int i = 0; i < 4; i++) {
        int64_t row = i < 2 ? a : c;
        if (i < 2) {
            MOVE(of_keys[i], b * s, a, 1);
        }
        if (!(DIM(5) & 1)) {
            MOVE(of_keys[i], b, s, row);
        }
        MOVE(of_keys[i], 1, b, s * row);
    }
    if (!(DIM(5) & 1)) {
        MOVE(BPROB, b * t, s, 1);
    }
    astray(run->tokens, 1, b, 1, back);
}

/* clang-format off */
#define LOOKUP .buffers = 4, .buffer_name = {"table", "y", "dy", "dtable"}, .sizes = lookup_sizes, \
    .kernels = {{"forward", lookup_forward, BIT(KY), false}, {"backward", lookup_backward, BIT(KDTABLE), true, BIT(KDTABLE), lookup_astray}}, \
    .y = KY, .dy = KDY
#define POSITIONS .buffers = 5, .buffer_name = {"x", "wpe", "y", "dy", "dwpe"}, .sizes = positions_sizes, \
    .kernels = {{"forward", positions_forward, BIT(PY), false}, \
                {"backward", positions_backward, BIT(PDWPE), true, BIT(PDWPE), positions_astray}}, .y = PY, .dy = PDY
#define GATHER .buffers = 4, .buffer_name = {"x", "y", "dy", "dx"}, .sizes = gather_sizes, \
    .kernels = {{"forward", gather_forward, BIT(GY), false}, {"backward", gather_backward, BIT(GDX), false, BIT(GDX), gather_astray}}, \
    .y = GY, .dy = GDY
#define ATTENTION .buffers = 9, \
    .buffer_name = {"q", "k", "v", "out", "lse", "dout", "dq", "dk", "dv"}, .sizes = attention_sizes, \
    .kernels = {{"forward", attention_forward, BIT(AOUT) | BIT(ALSE), false, BIT(AOUT) | BIT(ALSE), attention_astray}, \
                {"backward", attention_backward, BIT(ADQ) | BIT(ADK) | BIT(ADV), false, BIT(ADQ) | BIT(ADK) | BIT(ADV), attention_astray}}, .y = AOUT, .dy = ADOUT
#define LSTM_GRADS (BIT(MDX) | BIT(MDWIH) | BIT(MDWHH) | BIT(MDBIH) | BIT(MDBHH) | BIT(MDH0) | BIT(MDC0))
#define LSTM .buffers = 18, .buffer_name = {"x", "w_ih", "w_hh", "b_ih", "b_hh", "h0", "c0", "y", "gates", "cells", \
    "dy", "dx", "dw_ih", "dw_hh", "db_ih", "db_hh", "dh0", "dc0"}, .sizes = lstm_sizes, \
    .kernels = {{"forward", lstm_forward, BIT(MY) | BIT(MGATES) | BIT(MCELLS), false, BIT(MY) | BIT(MGATES) | BIT(MCELLS), lstm_astray}, \
                {"backward", lstm_backward, LSTM_GRADS, true, LSTM_GRADS & ~BIT(MDC0), lstm_astray}}, .y = MY, .dy = MDY
#define BAHDANAU_GRADS (BIT(BDQUERY) | BIT(BDKEY) | BIT(BDVALUE) | BIT(BDV) | BIT(BDSCALE) | BIT(BDBIAS))
#define BAHDANAU .buffers = 15, .buffer_name = {"query", "key", "value", "v", "scale", "bias", "context", "probabilities", \
    "dcontext", "dquery", "dkey", "dvalue", "dv", "dscale", "dbias"}, .sizes = bahdanau_sizes, \
    .kernels = {{"forward", bahdanau_forward, BIT(BCONTEXT) | BIT(BPROB), false, BIT(BCONTEXT) | BIT(BPROB), bahdanau_astray}, \
                {"backward", bahdanau_backward, BAHDANAU_GRADS, true, BAHDANAU_GRADS, bahdanau_astray}}, .y = BCONTEXT, .dy = BDCONTEXT
const struct family families[] = {
    {.name = "lookup", LOOKUP, .tolerance = 2e-6, .pairs = {{KTABLE, KDTABLE}}, .pair_count = 1,
     .shapes = {{{1, 1, 3}, 0}, {{40, 70, 11}, 0}, {{300, 64, 256}, 0}, {{5, 3, 1000}, 0}}},
    {.name = "lookup_bf16", LOOKUP, .tolerance = BF16_TOLERANCE,
     .shapes = {{{40, 70, 11, 0, 0, 0, 0, 1}, 0}, {{30, 64, 25, 0, 0, 0, 0, 1}, 0}}},
    {.name = "positions", POSITIONS, .tolerance = 2e-6, .pairs = {{PX, PDY}, {PWPE, PDWPE}}, .pair_count = 2,
     .shapes = {{{1, 1, 1, 1}, 0}, {{3, 7, 70, 9}, 0}, {{2, 40, 64, 40}, 0}}},
    {.name = "positions_bf16", POSITIONS, .tolerance = BF16_TOLERANCE,
     .shapes = {{{3, 7, 70, 9, 0, 0, 0, 1}, 0}}},
    {.name = "gather_rows", GATHER, .tolerance = 2e-6, .pairs = {{GX, GDX}}, .pair_count = 1,
     .shapes = {{{1, 1, 1, 1}, 0}, {{3, 17, 30, 70}, 0}, {{2, 128, 20, 64}, 0}}},
    {.name = "gather_rows_bf16", GATHER, .tolerance = BF16_TOLERANCE,
     .shapes = {{{3, 17, 30, 70, 0, 0, 0, 1}, 0}, {{2, 9, 30, 33, 0, 0, 0, 2}, 0}}},
    /* blocks are of 128 queries and keys: one, two, three, whole and cut; the widest head is of 256 */
    {.name = "attention", ATTENTION, .tolerance = 2e-5,
     .pairs = {{AQ, ADQ}, {AK, ADK}, {AV, ADV}}, .pair_count = 3,
     .shapes = {{{1, 1, 2, 8, 1}, 0}, {{2, 7, 19, 64, 2}, 0.1}, {{3, 40, 33, 24, 3, 2}, 0}, {{2, 130, 20, 20, 1, 1}, 0},
                {{2, 20, 150, 15, 5, 3}, 0.2}, {{2, 9, 300, 30, 2, 8 + 2}, 0.1}, {{2, 140, 270, 32, 1, 8 + 4 + 2}, 0},
                {{1, 132, 132, 256, 1}, 0}, {{1, 70, 129, 200, 1, 4 + 2}, 0.1}, {{2, 128, 128, 64, 2, 2}, 0.1}}},
    {.name = "attention_bf16", ATTENTION, .tolerance = BF16_TOLERANCE,
     .shapes = {{{2, 7, 19, 64, 2, 0, 0, 1}, 0.1}, {{2, 140, 270, 36, 1, 8 + 2, 0, 1}, 0},
                {{1, 300, 300, 24, 2, 1, 0, 1}, 0}, {{2, 40, 150, 24, 2, 2, 0, 2}, 0}}},
    {.name = "lstm", LSTM, .tolerance = 1e-5,
     .pairs = {{MX, MDX}, {MWIH, MDWIH}, {MWHH, MDWHH}, {MBIH, MDBIH}, {MBHH, MDBHH}, {MH0, MDH0}, {MC0, MDC0}},
     .pair_count = 7,
     .shapes = {{{1, 1, 1, 1, 4}, 0}, {{3, 5, 7, 9, 4}, 0}, {{2, 4, 3, 16, 4 + 1}, 0}, {{5, 7, 6, 20, 7}, 0},
                {{6, 8, 5, 33, 6}, 0}, {{17, 3, 20, 50, 4 + 2}, 0}, {{4, 3, 300, 270, 2 + 1}, 0},
                {{2, 3, 5, 8, 8}, 0}, {{2, 3, 5, 8, 0}, 0}}},
    {.name = "lstm_bf16", LSTM, .tolerance = 2 * BF16_TOLERANCE,
     .shapes = {{{5, 7, 6, 20, 7, 0, 0, 1}, 0}, {{3, 5, 30, 40, 4, 0, 0, 1}, 0}, {{3, 5, 30, 40, 4, 0, 0, 2}, 0}}},
    {.name = "bahdanau", BAHDANAU, .tolerance = 5e-5, /* dscale: a sum of terms of either sign */
     .pairs = {{BQUERY, BDQUERY}, {BKEY, BDKEY}, {BVALUE, BDVALUE}, {BV, BDV}, {BSCALE, BDSCALE}, {BBIAS, BDBIAS}},
     .pair_count = 6,
     .shapes = {{{1, 3, 4, 6, 5}, 0}, {{2, 5, 7, 20, 30}, 0}, {{3, 21, 9, 64, 70, 1}, 0}, {{1, 18, 40, 130, 64}, 0},
                {{4, 3, 33, 100, 5, 1 + 2}, 0}, {{1, 17, 600, 8, 16, 1}, 0}}},
    {.name = "bahdanau_bf16", BAHDANAU, .tolerance = BF16_TOLERANCE,
     .shapes = {{{3, 21, 9, 64, 70, 1, 0, 1}, 0}, {{3, 21, 9, 64, 70, 0, 0, 2}, 0}}},
};
/* clang-format on */
const int family_count = sizeof families / sizeof families[0];

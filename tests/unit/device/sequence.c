/*
 * Families of operators on sequences, for the operator test (ops.c). dim[7] asks for bf16 arrays.
 */
#include "halves.h"
#include "tensor/reference_sequence.h"

#define BUF(i) (run->buffer[i])
#define DIM(i) (run->shape.dim[i])
#define BIT(i) (1u << (i))
#define BF16_TOLERANCE 5e-3

/* Some ids are negative: every fifth, but not the first. */
static void some_negative(struct run *run, int64_t count) {
    for (int64_t i = 3; i < count; i += 5)
        run->tokens[i] = -1;
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

static void lookup_forward(struct culm_cpu *cpu, struct run *run) {
    struct typed t = {.run = run, .bf16 = DIM(7)};
    some_negative(run, DIM(0));
    if (cpu)
        culm_cpu_lookup_forward(cpu, typed_out(&t, KY), run->tokens, culm_in_f32(BUF(KTABLE)),
                                DIM(0), DIM(1), DIM(2));
    else
        culm_ref_lookup_forward(BUF(KY), run->tokens, BUF(KTABLE), DIM(0), DIM(1));
    typed_end(&t);
}

static void lookup_backward(struct culm_cpu *cpu, struct run *run) {
    struct typed t = {.run = run, .bf16 = DIM(7)};
    typed_round(run, DIM(7), BIT(KDY));
    some_negative(run, DIM(0));
    if (cpu)
        culm_cpu_lookup_backward(cpu, BUF(KDTABLE), typed_in(&t, KDY), run->tokens, DIM(0), DIM(1),
                                 DIM(2), run->first);
    else
        culm_ref_lookup_backward(BUF(KDTABLE), BUF(KDY), run->tokens, DIM(0), DIM(1), DIM(2),
                                 run->first);
    typed_end(&t);
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

static void positions_forward(struct culm_cpu *cpu, struct run *run) {
    struct typed t = {.run = run, .bf16 = DIM(7)};
    typed_round(run, DIM(7), BIT(PX));
    if (cpu)
        culm_cpu_positions_forward(cpu, typed_out(&t, PY), typed_in(&t, PX), culm_in_f32(BUF(PWPE)),
                                   DIM(0), DIM(1), DIM(2));
    else
        culm_ref_positions_forward(BUF(PY), BUF(PX), BUF(PWPE), DIM(0), DIM(1), DIM(2));
    typed_end(&t);
}

static void positions_backward(struct culm_cpu *cpu, struct run *run) {
    struct typed t = {.run = run, .bf16 = DIM(7)};
    typed_round(run, DIM(7), BIT(PDY));
    if (cpu)
        culm_cpu_positions_backward(cpu, BUF(PDWPE), typed_in(&t, PDY), DIM(0), DIM(1), DIM(2),
                                    DIM(3), run->first);
    else
        culm_ref_positions_backward(BUF(PDWPE), BUF(PDY), DIM(0), DIM(1), DIM(2), DIM(3),
                                    run->first);
    typed_end(&t);
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

static void gather_forward(struct culm_cpu *cpu, struct run *run) {
    struct typed t = {.run = run, .bf16 = DIM(7)};
    typed_round(run, DIM(7), BIT(GX));
    some_negative(run, DIM(0) * DIM(2));
    if (cpu)
        culm_cpu_gather_rows_forward(cpu, typed_out(&t, GY), typed_in(&t, GX), run->tokens, DIM(0),
                                     DIM(1), DIM(2), DIM(3));
    else
        culm_ref_gather_rows_forward(BUF(GY), BUF(GX), run->tokens, DIM(0), DIM(1), DIM(2), DIM(3));
    typed_end(&t);
}

static void gather_backward(struct culm_cpu *cpu, struct run *run) {
    struct typed t = {.run = run, .bf16 = DIM(7)};
    typed_round(run, DIM(7), BIT(GDY));
    some_negative(run, DIM(0) * DIM(2));
    if (cpu)
        culm_cpu_gather_rows_backward(cpu, typed_out(&t, GDX), typed_in(&t, GDY), run->tokens,
                                      DIM(0), DIM(1), DIM(2), DIM(3));
    else
        culm_ref_gather_rows_backward(BUF(GDX), BUF(GDY), run->tokens, DIM(0), DIM(1), DIM(2),
                                      DIM(3));
    typed_end(&t);
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
    for (int64_t i = 0; i < DIM(0) * DIM(2); i++)
        if ((DIM(5) & 4 && i < DIM(2)) || (DIM(5) & 8 && i >= DIM(0) * DIM(2) - DIM(2) / 2))
            run->tokens[i] = 0;
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
    for (int64_t i = 0; i < run->count[ALSE]; i++)
        if (BUF(ALSE)[i] > 1e30f)
            BUF(ALSE)[i] = 7;
}

static void attention_forward(struct culm_cpu *cpu, struct run *run) {
    struct typed t = {.run = run, .bf16 = DIM(7)};
    struct culm_attention how = attention_how(run);
    typed_round(run, DIM(7), BIT(AQ) | BIT(AK) | BIT(AV));
    struct culm_attention_rows in = attention_rows(run, &t);
    if (cpu)
        culm_cpu_attention_forward(cpu, typed_out(&t, AOUT), BUF(ALSE), &in, &how);
    else
        attention_reference(run);
    typed_end(&t);
    finite_lse(run);
}

static void attention_backward(struct culm_cpu *cpu, struct run *run) {
    struct typed t = {.run = run, .bf16 = DIM(7)};
    struct culm_attention how = attention_how(run);
    int64_t c = DIM(3);
    typed_round(run, DIM(7), BIT(AQ) | BIT(AK) | BIT(AV) | BIT(ADOUT));
    for (int d = ADQ; d <= ADK; d++) /* nobody writes between the rows */
        memset(BUF(d), 0, (size_t)run->count[d] * sizeof(float));
    if (cpu) {
        attention_reference(run);
        struct culm_attention_rows in = attention_rows(run, &t);
        struct culm_attention_grads grads = {
            typed_out(&t, ADQ), typed_out(&t, ADK), typed_out(&t, ADV), LD(c), LD(c), c};
        culm_cpu_attention_backward(cpu, &grads, typed_in(&t, ADOUT), &in, typed_in(&t, AOUT),
                                    BUF(ALSE), &how);
    } else {
        struct culm_ref_attention plain = attention_plain(run);
        culm_ref_attention_backward(BUF(ADQ), BUF(ADK), BUF(ADV), BUF(ADOUT), &plain, &how,
                                    run->scratch);
    }
    typed_end(&t);
}

/* clang-format off */
#define LOOKUP .buffers = 4, .buffer_name = {"table", "y", "dy", "dtable"}, .sizes = lookup_sizes, \
    .kernels = {{"forward", lookup_forward, BIT(KY), false}, {"backward", lookup_backward, BIT(KDTABLE), true}}, \
    .y = KY, .dy = KDY
#define POSITIONS .buffers = 5, .buffer_name = {"x", "wpe", "y", "dy", "dwpe"}, .sizes = positions_sizes, \
    .kernels = {{"forward", positions_forward, BIT(PY), false}, \
                {"backward", positions_backward, BIT(PDWPE), true}}, .y = PY, .dy = PDY
#define GATHER .buffers = 4, .buffer_name = {"x", "y", "dy", "dx"}, .sizes = gather_sizes, \
    .kernels = {{"forward", gather_forward, BIT(GY), false}, {"backward", gather_backward, BIT(GDX), false}}, \
    .y = GY, .dy = GDY
#define ATTENTION .buffers = 9, \
    .buffer_name = {"q", "k", "v", "out", "lse", "dout", "dq", "dk", "dv"}, .sizes = attention_sizes, \
    .kernels = {{"forward", attention_forward, BIT(AOUT) | BIT(ALSE), false}, \
                {"backward", attention_backward, BIT(ADQ) | BIT(ADK) | BIT(ADV), false}}, .y = AOUT, .dy = ADOUT
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
     .shapes = {{{3, 17, 30, 70, 0, 0, 0, 1}, 0}}},
    {.name = "attention", ATTENTION, .tolerance = 2e-5,
     .pairs = {{AQ, ADQ}, {AK, ADK}, {AV, ADV}}, .pair_count = 3,
     .shapes = {{{1, 1, 1, 8, 1}, 0}, {{2, 7, 19, 64, 2}, 0.1}, {{3, 40, 33, 24, 3, 2}, 0}, {{2, 130, 20, 20, 1, 1}, 0},
                {{2, 20, 150, 15, 5, 3}, 0.2}, {{2, 9, 300, 30, 2, 8 + 2}, 0.1}, {{2, 140, 270, 32, 1, 8 + 4 + 2}, 0},
                {{1, 260, 260, 256, 1}, 0}, {{1, 70, 129, 200, 1, 4 + 2}, 0.1}, {{2, 128, 128, 64, 2, 2}, 0.1}}},
    {.name = "attention_bf16", ATTENTION, .tolerance = BF16_TOLERANCE,
     .shapes = {{{2, 7, 19, 64, 2, 0, 0, 1}, 0.1}, {{2, 140, 270, 36, 1, 8 + 2, 0, 1}, 0},
                {{1, 300, 300, 24, 2, 1, 0, 1}, 0}}},
};
/* clang-format on */
const int family_count = sizeof families / sizeof families[0];

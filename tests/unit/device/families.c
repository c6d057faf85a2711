/* The table of operator families. See ops.h. */
#include "ops.h"

#include "../astray.h"

#include "tensor/reference_vision.h"

#include <string.h>

#define BUF(i) (run->buffer[i])
#define DIM(i) (run->shape.dim[i])
#define BIT(i) (1u << (i))
#define MOVE(b, outer, n, inner) astray(BUF(b), outer, n, inner, back)

/* A sum in float64 as three floats, which hide nothing of it. */
static void put_double(float to[3], double x) {
    for (int i = 0; i < 3; i++) {
        to[i] = (float)x;
        x -= (double)to[i];
    }
}

/* ---- gemm: m, n, k, bits (1: trans_a, 2: trans_b, 4: beta 1); leading dimensions 3 too long ----
 */

static int64_t gemm_sizes(const struct shape *s, int64_t *count, int64_t *bound) {
    int64_t m = s->dim[0], n = s->dim[1], k = s->dim[2], how = s->dim[3];
    count[0] = how & 1 ? k * (m + 3) : m * (k + 3);
    count[1] = how & 2 ? n * (k + 3) : k * (n + 3);
    count[2] = m * (n + 3);
    *bound = 1;
    return 0;
}

static void gemm(struct culm_device *cpu, struct run *run) {
    int64_t m = DIM(0), n = DIM(1), k = DIM(2);
    bool ta = DIM(3) & 1, tb = DIM(3) & 2;
    float beta = DIM(3) & 4 ? 1 : 0;
    int64_t lda = 3 + (ta ? m : k), ldb = 3 + (tb ? k : n);
    if (cpu) {
        CULM_RUN(cpu, gemm, .trans_a = ta, .trans_b = tb, .m = m, .n = n, .k = k, .a = BUF(0),
                 .lda = lda, .b = BUF(1), .ldb = ldb, .beta = beta, .c = BUF(2), .ldc = n + 3);
    } else {
        culm_ref_gemm(ta, tb, m, n, k, BUF(0), lda, BUF(1), ldb, beta, BUF(2), n + 3);
    }
}

static void gemm_astray(struct run *run, bool back) {
    int64_t m = DIM(0), n = DIM(1), k = DIM(2);
    bool ta = DIM(3) & 1, tb = DIM(3) & 2;
    astray_pitched(BUF(0), ta ? 1 : m, k + 3, k, ta ? m + 3 : 1, back);
    astray_pitched(BUF(1), tb ? n : 1, k + 3, k, tb ? 1 : n + 3, back);
}

/* ---- linear: n, in, out, bits (1: bias, 2: w is [out,in]) ---- */

enum { LX, LW, LB, LY, LDY, LDX, LDW, LDB };

static int64_t linear_sizes(const struct shape *s, int64_t *count, int64_t *bound) {
    int64_t n = s->dim[0], in = s->dim[1], out = s->dim[2];
    const int64_t counts[] = {n * in, in * out, out, n * out, n * out, n * in, in * out, out};
    memcpy(count, counts, sizeof counts);
    *bound = 1;
    return 0;
}

static struct culm_in in_f32(const float *x) { return culm_in_f32(x); }
static struct culm_out out_f32(float *x) { return culm_out_f32(x); }

static void linear_forward(struct culm_device *cpu, struct run *run) {
    const float *b = DIM(3) & 1 ? BUF(LB) : NULL;
    if (cpu) {
        CULM_RUN(cpu, linear_forward, .y = out_f32(BUF(LY)), .x = in_f32(BUF(LX)), .w = BUF(LW),
                 .b = b, .n = DIM(0), .in = DIM(1), .out = DIM(2), .transposed = DIM(3) & 2);
    } else {
        culm_ref_linear_forward(BUF(LY), BUF(LX), BUF(LW), b, DIM(0), DIM(1), DIM(2), DIM(3) & 2);
    }
}

static void linear_input(struct culm_device *cpu, struct run *run) {
    if (cpu) {
        CULM_RUN(cpu, linear_backward_input, .dx = out_f32(BUF(LDX)), .dy = in_f32(BUF(LDY)),
                 .w = BUF(LW), .n = DIM(0), .in = DIM(1), .out = DIM(2), .transposed = DIM(3) & 2);
    } else {
        culm_ref_linear_backward_input(BUF(LDX), BUF(LDY), BUF(LW), DIM(0), DIM(1), DIM(2),
                                       DIM(3) & 2);
    }
}

static void linear_weight(struct culm_device *cpu, struct run *run) {
    float *db = DIM(3) & 1 ? BUF(LDB) : NULL;
    if (cpu) {
        CULM_RUN(cpu, linear_backward_weight, .dw = BUF(LDW), .db = db, .x = in_f32(BUF(LX)),
                 .dy = in_f32(BUF(LDY)), .n = DIM(0), .in = DIM(1), .out = DIM(2),
                 .transposed = DIM(3) & 2, .first = run->first);
    } else {
        culm_ref_linear_backward_weight(BUF(LDW), db, BUF(LX), BUF(LDY), DIM(0), DIM(1), DIM(2),
                                        DIM(3) & 2, run->first);
    }
    if (!(DIM(3) & 1)) { /* not written: give it the value that it has without a bias */
        memset(BUF(LDB), 0, (size_t)run->count[LDB] * sizeof(float));
    }
}

static void linear_forward_astray(struct run *run, bool back) {
    int64_t n = DIM(0), in = DIM(1), out = DIM(2);
    MOVE(LX, n, in, 1);
    MOVE(LW, DIM(3) & 2 ? out : 1, in, DIM(3) & 2 ? 1 : out);
}
static void linear_input_astray(struct run *run, bool back) {
    int64_t n = DIM(0), in = DIM(1), out = DIM(2);
    MOVE(LDY, n, out, 1);
    MOVE(LW, DIM(3) & 2 ? 1 : in, out, DIM(3) & 2 ? in : 1);
}
static void linear_weight_astray(struct run *run, bool back) {
    MOVE(LX, 1, DIM(0), DIM(1));
    MOVE(LDY, 1, DIM(0), DIM(2));
}

/* ---- embedding: b, t, c, v ---- */

enum { EWTE, EWPE, EY, EDY, EDWTE, EDWPE };

static int64_t embedding_sizes(const struct shape *s, int64_t *count, int64_t *bound) {
    int64_t b = s->dim[0], t = s->dim[1], c = s->dim[2], v = s->dim[3];
    const int64_t counts[] = {v * c, t * c, b * t * c, b * t * c, v * c, t * c};
    memcpy(count, counts, sizeof counts);
    *bound = v;
    return b * t;
}

static void embedding_forward(struct culm_device *cpu, struct run *run) {
    if (cpu) {
        CULM_RUN(cpu, embedding_forward, .y = culm_out_f32(BUF(EY)), .tokens = run->tokens,
                 .wte = BUF(EWTE), .wpe = BUF(EWPE), .b = DIM(0), .t = DIM(1), .c = DIM(2),
                 .v = DIM(3));
    } else {
        culm_ref_embedding_forward(BUF(EY), run->tokens, BUF(EWTE), BUF(EWPE), DIM(0), DIM(1),
                                   DIM(2));
    }
}

static void embedding_backward(struct culm_device *cpu, struct run *run) {
    if (cpu) {
        CULM_RUN(cpu, embedding_backward, .dwte = BUF(EDWTE), .dwpe = BUF(EDWPE),
                 .dy = culm_in_f32(BUF(EDY)), .tokens = run->tokens, .b = DIM(0), .t = DIM(1),
                 .c = DIM(2), .v = DIM(3), .first = run->first);
    } else {
        culm_ref_embedding_backward(BUF(EDWTE), BUF(EDWPE), BUF(EDY), run->tokens, DIM(0), DIM(1),
                                    DIM(2), DIM(3), run->first);
    }
}

static void embedding_astray(struct run *run, bool back) {
    MOVE(EDY, 1, DIM(0), DIM(1) * DIM(2));
    astray(run->tokens, 1, DIM(0), DIM(1), back);
}

/* ---- layer norm: n, c, adds the residual's gradient ---- */

enum { NX, NG, NB, NY, NMEAN, NRSTD, NDY, NDX, NDG, NDB, NADD };

static int64_t layernorm_sizes(const struct shape *s, int64_t *count, int64_t *bound) {
    int64_t n = s->dim[0], c = s->dim[1];
    const int64_t counts[] = {n * c, c, c, n * c, n, n, n * c, n * c, c, c, n * c};
    memcpy(count, counts, sizeof counts);
    *bound = 1;
    return 0;
}

static void layernorm_forward(struct culm_device *cpu, struct run *run) {
    if (cpu) {
        CULM_RUN(cpu, layernorm_forward, .y = culm_out_f32(BUF(NY)), .mean = BUF(NMEAN),
                 .rstd = BUF(NRSTD), .x = culm_in_f32(BUF(NX)), .gamma = BUF(NG), .beta = BUF(NB),
                 .n = DIM(0), .c = DIM(1), .eps = 1e-5);
    } else {
        culm_ref_layernorm_forward(BUF(NY), BUF(NMEAN), BUF(NRSTD), BUF(NX), BUF(NG), BUF(NB),
                                   DIM(0), DIM(1), 1e-5);
    }
}

static void layernorm_backward(struct culm_device *cpu, struct run *run) {
    const float *add = DIM(2) ? BUF(NADD) : NULL;
    /* Both from the reference's statistics, so that only this kernel is compared. */
    culm_ref_layernorm_forward(BUF(NY), BUF(NMEAN), BUF(NRSTD), BUF(NX), BUF(NG), BUF(NB), DIM(0),
                               DIM(1), 1e-5);
    if (cpu) {
        CULM_RUN(cpu, layernorm_backward, .dx = culm_out_f32(BUF(NDX)), .dgamma = BUF(NDG),
                 .dbeta = BUF(NDB), .dy = culm_in_f32(BUF(NDY)), .x = culm_in_f32(BUF(NX)),
                 .gamma = BUF(NG), .mean = BUF(NMEAN), .rstd = BUF(NRSTD), .add = culm_in_f32(add),
                 .n = DIM(0), .c = DIM(1), .first = run->first);
    } else {
        culm_ref_layernorm_backward(BUF(NDX), BUF(NDG), BUF(NDB), BUF(NDY), BUF(NX), BUF(NG),
                                    BUF(NMEAN), BUF(NRSTD), add, DIM(0), DIM(1), run->first);
    }
}

static void layernorm_columns(struct run *run, bool back) {
    static const int rows[] = {NX, NY, NDY, NDX, NADD}, columns[] = {NG, NB, NDG, NDB};
    for (int i = 0; i < 5; i++) {
        MOVE(rows[i], DIM(0), DIM(1), 1);
    }
    for (int i = 0; i < 4; i++) {
        MOVE(columns[i], 1, DIM(1), 1);
    }
}
static void layernorm_astray(struct run *run, bool back) {
    static const int rows[] = {NX, NY, NDY, NDX, NADD};
    layernorm_columns(run, back);
    for (int i = 0; i < 5; i++) {
        MOVE(rows[i], 1, DIM(0), DIM(1));
    }
    MOVE(NMEAN, 1, DIM(0), 1);
    MOVE(NRSTD, 1, DIM(0), 1);
}

/* ---- attention: b, t, c, heads ---- */

enum { AQKV, AOUT, ALSE, ADOUT, ADQKV };

static int64_t attention_sizes(const struct shape *s, int64_t *count, int64_t *bound) {
    int64_t b = s->dim[0], t = s->dim[1], c = s->dim[2], heads = s->dim[3];
    const int64_t counts[] = {b * t * 3 * c, b * t * c, b * heads * t, b * t * c, b * t * 3 * c};
    memcpy(count, counts, sizeof counts);
    *bound = 1;
    return 0;
}

static struct culm_attention attention_how(const struct run *run) {
    return (struct culm_attention){.b = DIM(0),
                                   .tq = DIM(1),
                                   .tk = DIM(1),
                                   .c = DIM(2),
                                   .heads = DIM(3),
                                   .causal = true,
                                   .dropout = &run->dropout};
}

static void attention_reference(struct run *run) {
    struct culm_attention how = attention_how(run);
    int64_t c = DIM(2);
    const struct culm_ref_attention in = {BUF(AQKV), BUF(AQKV) + c, BUF(AQKV) + 2 * c,
                                          3 * c,     3 * c,         3 * c};
    culm_ref_attention_forward(BUF(AOUT), BUF(ALSE), &in, &how, run->scratch);
}

static void attention_forward(struct culm_device *cpu, struct run *run) {
    struct culm_attention how = attention_how(run);
    struct culm_attention_rows in = culm_attention_packed(culm_in_f32(BUF(AQKV)), DIM(2));
    if (cpu) {
        CULM_RUN(cpu, attention_forward, .out = culm_out_f32(BUF(AOUT)), .lse = BUF(ALSE),
                 .in = &in, .how = &how);
    } else {
        attention_reference(run);
    }
}

static void attention_backward(struct culm_device *cpu, struct run *run) {
    struct culm_attention how = attention_how(run);
    struct culm_attention_rows in = culm_attention_packed(culm_in_f32(BUF(AQKV)), DIM(2));
    int64_t c = DIM(2);
    if (cpu) {
        struct culm_attention_grads grads =
            culm_attention_packed_grads(culm_out_f32(BUF(ADQKV)), c);
        reference_once(run, attention_reference, BIT(AOUT) | BIT(ALSE));
        CULM_RUN(cpu, attention_backward, .grads = &grads, .dout = culm_in_f32(BUF(ADOUT)),
                 .in = &in, .out = culm_in_f32(BUF(AOUT)), .lse = BUF(ALSE), .how = &how);
    } else {
        const struct culm_ref_attention plain = {BUF(AQKV), BUF(AQKV) + c, BUF(AQKV) + 2 * c,
                                                 3 * c,     3 * c,         3 * c};
        culm_ref_attention_backward(BUF(ADQKV), BUF(ADQKV) + c, BUF(ADQKV) + 2 * c, BUF(ADOUT),
                                    &plain, &how, run->scratch);
    }
}

/* The columns of each head. (Which keys a query sees depends on their places.) */
static void attention_astray(struct run *run, bool back) {
    int64_t heads = DIM(0) * DIM(1) * DIM(3), width = DIM(2) / DIM(3);
    MOVE(AQKV, 3 * heads, width, 1);
    MOVE(AOUT, heads, width, 1);
    MOVE(ADOUT, heads, width, 1);
    MOVE(ADQKV, 3 * heads, width, 1);
}

/* ---- elementwise: count (and samples) ---- */

enum { UX, UY, UDY, UDX };

static int64_t unary_sizes(const struct shape *s, int64_t *count, int64_t *bound) {
    for (int i = 0; i < 4; i++) {
        count[i] = s->dim[0];
    }
    *bound = 1;
    return 0;
}

static void gelu_forward(struct culm_device *cpu, struct run *run) {
    if (cpu) {
        CULM_RUN(cpu, activation_forward, .y = culm_out_f32(BUF(UY)), .x = culm_in_f32(BUF(UX)),
                 .count = DIM(0), .function = CULM_FUNCTION_GELU_TANH, .alpha = 0);
    } else {
        culm_ref_activation_forward(BUF(UY), BUF(UX), DIM(0), CULM_FUNCTION_GELU_TANH, 0);
    }
}

static void gelu_backward(struct culm_device *cpu, struct run *run) {
    if (cpu) {
        CULM_RUN(cpu, activation_backward, .dx = culm_out_f32(BUF(UDX)),
                 .dy = culm_in_f32(BUF(UDY)), .kept = culm_in_f32(BUF(UX)), .count = DIM(0),
                 .function = CULM_FUNCTION_GELU_TANH, .alpha = 0);
    } else {
        culm_ref_activation_backward(BUF(UDX), BUF(UDY), BUF(UX), DIM(0), CULM_FUNCTION_GELU_TANH,
                                     0);
    }
}

static void dropout_forward(struct culm_device *cpu, struct run *run) {
    if (cpu) {
        CULM_RUN(cpu, dropout, .y = culm_out_f32(BUF(UY)), .x = culm_in_f32(BUF(UX)),
                 .count = DIM(0), .dropout = &run->dropout);
    } else {
        culm_ref_dropout(BUF(UY), BUF(UX), DIM(0), &run->dropout);
    }
}

static void dropout_backward(struct culm_device *cpu, struct run *run) {
    if (cpu) {
        CULM_RUN(cpu, dropout, .y = culm_out_f32(BUF(UDX)), .x = culm_in_f32(BUF(UDY)),
                 .count = DIM(0), .dropout = &run->dropout);
    } else {
        culm_ref_dropout(BUF(UDX), BUF(UDY), DIM(0), &run->dropout);
    }
}

enum { RX, RH, RY, RDY, RDH };

static int64_t residual_sizes(const struct shape *s, int64_t *count, int64_t *bound) {
    for (int i = 0; i < 5; i++) {
        count[i] = s->dim[0];
    }
    *bound = 1;
    return 0;
}

static void residual_forward(struct culm_device *cpu, struct run *run) {
    if (cpu) {
        CULM_RUN(cpu, residual_dropout_forward, .y = culm_out_f32(BUF(RY)),
                 .x = culm_in_f32(BUF(RX)), .h = culm_in_f32(BUF(RH)), .count = DIM(0),
                 .dropout = &run->dropout);
    } else {
        culm_ref_residual_dropout_forward(BUF(RY), BUF(RX), BUF(RH), DIM(0), &run->dropout);
    }
}

static void residual_backward(struct culm_device *cpu, struct run *run) {
    if (cpu) {
        CULM_RUN(cpu, dropout, .y = culm_out_f32(BUF(RDH)), .x = culm_in_f32(BUF(RDY)),
                 .count = DIM(0), .dropout = &run->dropout);
    } else {
        culm_ref_dropout(BUF(RDH), BUF(RDY), DIM(0), &run->dropout);
    }
}

static void add(struct culm_device *cpu, struct run *run) {
    if (cpu) {
        CULM_RUN(cpu, add, .y = culm_out_f32(BUF(UY)), .a = culm_in_f32(BUF(UX)),
                 .b = culm_in_f32(BUF(UDY)), .count = DIM(0));
    } else {
        for (int64_t i = 0; i < DIM(0); i++) {
            BUF(UY)[i] = BUF(UX)[i] + BUF(UDY)[i];
        }
    }
}

/* ---- cross-entropy: n, v, smoothed; the loss is one float, of gradient 1 ---- */

enum { CX, CLOSS, CDX };
#define SMOOTHING (run->shape.dim[2] ? 0.1 : 0)

static int64_t cross_entropy_sizes(const struct shape *s, int64_t *count, int64_t *bound) {
    count[CX] = count[CDX] = s->dim[0] * s->dim[1];
    count[CLOSS] = 5; /* and how many count, and are right */
    *bound = s->dim[1];
    return s->dim[0];
}

/* Every fifth row is ignored, but not the first. */
static void ignore_some(struct run *run) {
    for (int64_t i = 3; i < DIM(0) && !run->prepared; i += 5) {
        run->tokens[i] = -1;
    }
}

static void cross_entropy(struct culm_device *cpu, struct run *run, float *logits, bool gradient) {
    struct culm_loss loss;
    ignore_some(run);
    if (cpu) {
        CULM_RUN(cpu, cross_entropy, .logits = culm_out_f32(logits), .targets = run->tokens,
                 .n = DIM(0), .v = DIM(1), .scale = 1, .smoothing = SMOOTHING,
                 .want_gradient = gradient, .ret_loss = &loss);
    } else {
        loss = culm_ref_cross_entropy(gradient ? logits : NULL, BUF(CX), run->tokens, DIM(0),
                                      DIM(1), 1, SMOOTHING);
    }
    put_double(BUF(CLOSS), loss.loss);
    BUF(CLOSS)[3] = (float)loss.counted;
    BUF(CLOSS)[4] = (float)loss.correct;
}

static void cross_entropy_loss(struct culm_device *cpu, struct run *run) {
    cross_entropy(cpu, run, BUF(CX), false);
}

static void cross_entropy_gradient(struct culm_device *cpu, struct run *run) {
    memcpy(BUF(CDX), BUF(CX), (size_t)run->count[CX] * sizeof(float));
    cross_entropy(cpu, run, BUF(CDX), true);
}

static void cross_entropy_astray(struct run *run, bool back) {
    int64_t n = DIM(0), v = DIM(1);
    if (!back) {
        ignore_some(run);
        run->prepared = true;
    }
    for (int i = 0; i < 2; i++) {
        MOVE(i ? CDX : CX, n, v, 1);
        MOVE(i ? CDX : CX, 1, n, v);
    }
    astray_indices(run->tokens, n, v, back);
    astray(run->tokens, 1, n, 1, back);
}

/* ---- optimizer: count ---- */

enum { OP, OM, OV, OG };

static void adamw(struct culm_device *cpu, struct run *run) {
    const struct culm_adamw hyper = {.lr = 1e-2,
                                     .beta1 = 0.9,
                                     .beta2 = 0.95,
                                     .eps = 1e-8,
                                     .weight_decay = run->shape.dim[1] ? 0.1 : 0,
                                     .grad_scale = 0.7,
                                     .bias_correction1 = 1 - 0.729,
                                     .bias_correction2 = 1 - 0.857375};
    for (int64_t i = 0; i < DIM(0); i++) {
        BUF(OV)[i] *= BUF(OV)[i]; /* a second moment is not negative */
    }
    if (cpu) {
        CULM_RUN(cpu, adamw, .p = BUF(OP), .m = BUF(OM), .v = BUF(OV), .g = BUF(OG),
                 .count = DIM(0), .hyper = &hyper);
    } else {
        culm_ref_adamw(BUF(OP), BUF(OM), BUF(OV), BUF(OG), DIM(0), &hyper);
    }
}

static int64_t squares_sizes(const struct shape *s, int64_t *count, int64_t *bound) {
    count[0] = s->dim[0];
    count[1] = 3;
    *bound = 1;
    return 0;
}

static void sum_squares(struct culm_device *cpu, struct run *run) {
    put_double(BUF(1), cpu ? culm_device_sum_squares(cpu, BUF(0), DIM(0))
                           : culm_ref_sum_squares(BUF(0), DIM(0)));
}
static void squares_astray(struct run *run, bool back) { MOVE(0, 1, DIM(0), 1); }

#define ELEMENTS                                                                                   \
    {                                                                                              \
        {{1}, 0}, {{7}, 0}, {{16}, 0}, {{129}, 0}, {{8192}, 0}, { {20003}, 0 }                     \
    }
#define DROPPED                                                                                    \
    {                                                                                              \
        {{1, 1}, 0.5}, {{7, 1}, 0.1}, {{256, 2}, 0}, {{3 * 131, 3}, 0.3}, {{4 * 512, 4}, 0.9},     \
            {{2 * 9001, 2}, 0.1}, {                                                                \
            {2 * 16384, 2}, 0.25                                                                   \
        }                                                                                          \
    }

/* clang-format off */
const struct family families[] = {
    {.name = "gemm", .buffers = 3, .buffer_name = {"a", "b", "c"}, .sizes = gemm_sizes, .tolerance = 1e-5,
     .kernels = {{"product", gemm, BIT(2), false, BIT(2), gemm_astray}}, .y = -1,
     .shapes = {{{1, 1, 1, 0}, 0}, {{7, 33, 5, 1}, 0}, {{15, 31, 300, 2}, 0}, {{29, 64, 257, 3}, 0},
                {{120, 70, 64, 4}, 0}, {{16, 16, 513, 5}, 0}, {{3, 100, 40, 6}, 0}, {{113, 48, 2100, 7}, 0},
                {{128, 256, 64, 0}, 0}, {{64, 128, 128, 1}, 0}, {{3, 5000, 700, 2}, 0},
                /* packed by some instruction sets and read where it lies by others */
                {{60, 200, 300, 0}, 0}, {{100, 200, 300, 5}, 0}, {{45, 9, 530, 1}, 0}, {{31, 20, 600, 4}, 0},
                /* few rows and many terms */
                {{37, 2300, 530, 1}, 0}}},
    {.name = "linear", .buffers = 8, .buffer_name = {"x", "w", "b", "y", "dy", "dx", "dw", "db"},
     .sizes = linear_sizes, .tolerance = 1e-5,
     .kernels = {{"forward", linear_forward, BIT(LY), false, BIT(LY), linear_forward_astray},
                 {"backward_input", linear_input, BIT(LDX), false, BIT(LDX), linear_input_astray},
                 {"backward_weight", linear_weight, BIT(LDW) | BIT(LDB), true, BIT(LDW) | BIT(LDB), linear_weight_astray}},
     .y = LY, .dy = LDY, .pairs = {{LX, LDX}, {LW, LDW}, {LB, LDB}}, .pair_count = 3,
     .shapes = {{{1, 64, 192, 1}, 0}, {{7, 11, 13, 1}, 0}, {{128, 64, 256, 1}, 0}, {{33, 256, 64, 0}, 0},
                {{130, 300, 40, 1}, 0}, {{2100, 20, 33, 1}, 0}, {{7, 64, 256, 2}, 0}, {{700, 24, 100, 3}, 0},
                {{40, 24, 1000, 2}, 0}}},
    {.name = "embedding", .buffers = 6, .buffer_name = {"wte", "wpe", "y", "dy", "dwte", "dwpe"},
     .sizes = embedding_sizes, .tolerance = 2e-6,
     .kernels = {{"forward", embedding_forward, BIT(EY), false},
                 {"backward", embedding_backward, BIT(EDWTE) | BIT(EDWPE), true, BIT(EDWTE) | BIT(EDWPE), embedding_astray}},
     .y = EY, .dy = EDY, .pairs = {{EWTE, EDWTE}, {EWPE, EDWPE}}, .pair_count = 2,
     .shapes = {{{1, 1, 64, 11}, 0}, {{3, 7, 70, 11}, 0}, {{2, 128, 64, 256}, 0}, {{1, 5, 3, 1000}, 0},
                {{4, 16, 256, 256}, 0}}},
    {.name = "layernorm", .buffers = 11,
     .buffer_name = {"x", "gamma", "beta", "y", "mean", "rstd", "dy", "dx", "dgamma", "dbeta", "add"},
     .sizes = layernorm_sizes, .tolerance = 1e-5,
     .kernels = {{"forward", layernorm_forward, BIT(NY) | BIT(NMEAN) | BIT(NRSTD), false, BIT(NY) | BIT(NMEAN) | BIT(NRSTD), layernorm_columns},
                 {"backward", layernorm_backward, BIT(NDX) | BIT(NDG) | BIT(NDB), true, BIT(NDX) | BIT(NDG) | BIT(NDB), layernorm_astray}},
     .y = NY, .dy = NDY, .pairs = {{NX, NDX}, {NG, NDG}, {NB, NDB}}, .pair_count = 3,
     .shapes = {{{1, 64, 0}, 0}, {{7, 11, 0}, 0}, {{128, 256, 0}, 0}, {{33, 100, 1}, 0}, {{300, 64, 1}, 0},
                {{2500, 20, 0}, 0}}},
    /* blocks are of 128 queries and keys: one, two, three, whole and cut; the widest head is of 256 */
    {.name = "attention", .buffers = 5, .buffer_name = {"qkv", "out", "lse", "dout", "dqkv"},
     .sizes = attention_sizes, .tolerance = 2e-5,
     .kernels = {{"forward", attention_forward, BIT(AOUT) | BIT(ALSE), false, BIT(AOUT) | BIT(ALSE), attention_astray},
                 {"backward", attention_backward, BIT(ADQKV), false, BIT(ADQKV), attention_astray}},
     .y = AOUT, .dy = ADOUT, .pairs = {{AQKV, ADQKV}}, .pair_count = 1,
     .shapes = {{{1, 1, 64, 8}, 0}, {{2, 7, 64, 2}, 0.1}, {{1, 128, 64, 2}, 0}, {{2, 128, 64, 2}, 0.2},
                {{1, 129, 24, 2}, 0.1}, {{1, 268, 20, 1}, 0.1}, {{1, 40, 96, 1}, 0}, {{1, 33, 120, 8}, 0.5},
                {{1, 132, 256, 1}, 0}, {{3, 17, 15, 5}, 0.1}}},
    {.name = "gelu", .buffers = 4, .buffer_name = {"x", "y", "dy", "dx"}, .sizes = unary_sizes, .tolerance = 5e-7,
     .kernels = {{"forward", gelu_forward, BIT(UY), false}, {"backward", gelu_backward, BIT(UDX), false}},
     .y = UY, .dy = UDY, .pairs = {{UX, UDX}}, .pair_count = 1, .shapes = ELEMENTS},
    {.name = "dropout", .buffers = 4, .buffer_name = {"x", "y", "dy", "dx"}, .sizes = unary_sizes, .tolerance = 5e-7,
     .kernels = {{"forward", dropout_forward, BIT(UY), false}, {"backward", dropout_backward, BIT(UDX), false}},
     .y = UY, .dy = UDY, .pairs = {{UX, UDX}}, .pair_count = 1, .shapes = DROPPED},
    {.name = "residual_dropout", .buffers = 5, .buffer_name = {"x", "h", "y", "dy", "dh"},
     .sizes = residual_sizes, .tolerance = 5e-7,
     .kernels = {{"forward", residual_forward, BIT(RY), false}, {"backward", residual_backward, BIT(RDH), false}},
     .y = RY, .dy = RDY, .pairs = {{RH, RDH}, {RX, RDY}}, .pair_count = 2, .shapes = DROPPED},
    {.name = "add", .buffers = 4, .buffer_name = {"a", "y", "b", "unused"}, .sizes = unary_sizes, .tolerance = 1e-7,
     .kernels = {{"forward", add, BIT(UY), false}}, .y = -1, .shapes = ELEMENTS},
    {.name = "cross_entropy", .buffers = 3, .buffer_name = {"logits", "loss", "dlogits"},
     .sizes = cross_entropy_sizes, .tolerance = 1e-6,
     .kernels = {{"loss", cross_entropy_loss, BIT(CLOSS), false, BIT(CLOSS), cross_entropy_astray},
                 {"gradient", cross_entropy_gradient, BIT(CLOSS) | BIT(CDX), false, BIT(CLOSS) | BIT(CDX), cross_entropy_astray}},
     .y = CLOSS, .dy = -1, .pairs = {{CX, CDX}}, .pair_count = 1,
     .shapes = {{{1, 11}, 0}, {{7, 256}, 0}, {{128, 256}, 0}, {{33, 1000}, 0}, {{2, 50257}, 0}, {{7, 30, 1}, 0},
                {{40, 1003, 1}, 0}}},
    {.name = "adamw", .buffers = 4, .buffer_name = {"p", "m", "v", "g"}, .sizes = unary_sizes, .tolerance = 1e-6,
     .kernels = {{"step", adamw, BIT(OP) | BIT(OM) | BIT(OV), false}}, .y = -1,
     .shapes = {{{1, 1}, 0}, {{7, 0}, 0}, {{8192, 1}, 0}, {{20003, 1}, 0}}},
    {.name = "sum_squares", .buffers = 2, .buffer_name = {"x", "sum"}, .sizes = squares_sizes, .tolerance = 1e-7,
     .kernels = {{"sum", sum_squares, BIT(1), false, BIT(1), squares_astray}}, .y = -1,
     .shapes = {{{1}, 0}, {{4097}, 0}, {{100003}, 0}}},
};
/* clang-format on */
const int family_count = sizeof families / sizeof families[0];

/*
 * Where the time of one training step of a GPT-2-architecture model goes, kernel by kernel.
 *
 *     bench_kernels [--threads N] [--batch N] [--layers N] [--width N] [--heads N] [--context N]
 *                   [--vocab N] [--iters N] [--isa NAME] [--dtype f32|bf16]
 *
 * Runs the kernels of the whole step in their order, forward, backward, norm and optimizer, on
 * buffers of the true sizes (the values flow from one kernel to the next; nothing checks them), and
 * prints medians over the steps: time, calls, GFLOP/s (multiply-adds counted twice, attention as if
 * not causal) and the bytes that must move at least, per second. The last line is the step. The
 * same model in PyTorch: peers/step.py.
 */
#include "device/cpu/cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

struct model {
    int64_t batch, layers, width, heads, context, vocab, threads, iters;
    const char *isa;
};

enum kernel {
    QKV_F,
    QKV_DX,
    QKV_DW,
    PROJ_F,
    PROJ_DX,
    PROJ_DW,
    FC_F,
    FC_DX,
    FC_DW,
    OUT_F,
    OUT_DX,
    OUT_DW,
    HEAD_F,
    HEAD_DX,
    HEAD_DW,
    ATTENTION_F,
    ATTENTION_B,
    LAYERNORM_F,
    LAYERNORM_B,
    GELU_F,
    GELU_B,
    RESIDUAL_F,
    DROPOUT_B,
    EMBEDDING_F,
    EMBEDDING_B,
    CROSS_ENTROPY,
    SUM_SQUARES,
    ADAMW,
    KERNELS,
};

static const char *const names[KERNELS] = {"qkv forward",
                                           "qkv dx",
                                           "qkv dw",
                                           "proj forward",
                                           "proj dx",
                                           "proj dw",
                                           "fc forward",
                                           "fc dx",
                                           "fc dw",
                                           "out forward",
                                           "out dx",
                                           "out dw",
                                           "head forward",
                                           "head dx",
                                           "head dw",
                                           "attention forward",
                                           "attention backward",
                                           "layernorm forward",
                                           "layernorm backward",
                                           "gelu forward",
                                           "gelu backward",
                                           "dropout + residual",
                                           "dropout backward",
                                           "embedding forward",
                                           "embedding backward",
                                           "cross-entropy",
                                           "sum of squares",
                                           "adamw"};

struct account {
    double seconds[KERNELS], flops[KERNELS], bytes[KERNELS];
    int64_t calls[KERNELS];
    double last;
};

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void done(struct account *account, enum kernel kernel, double flops, double floats) {
    double time = now();
    account->seconds[kernel] += time - account->last;
    account->flops[kernel] += flops;
    account->bytes[kernel] += 4 * floats;
    account->calls[kernel]++;
    account->last = time;
}

static float *floats(char **arena, int64_t count) {
    float *p = (float *)*arena;
    *arena += (count * 4 + 63) / 64 * 64;
    return p;
}

/* Of everything but the residual stream, the parameters and their gradients; all arrays have room
 * for f32. */
static enum culm_dtype low = CULM_F32;

static struct culm_in low_in(const float *x) { return (struct culm_in){x, low}; }
static struct culm_out low_out(float *x) { return (struct culm_out){x, low}; }

struct block {
    float *ln1, *m1, *r1, *qkv, *att, *lse, *proj, *x1, *ln2, *m2, *r2, *fc, *gelu, *out, *x2;
};

static void linear(struct culm_device *cpu, struct account *a, enum kernel k, float *y,
                   const float *x, const float *w, const float *b, int64_t n, int64_t in,
                   int64_t out) {
    CULM_RUN(cpu, linear_forward, .y = low_out(y), .x = low_in(x), .w = w, .b = b, .n = n, .in = in,
             .out = out);
    done(a, k, 2.0 * (double)n * (double)in * (double)out, (double)(n * in + in * out + n * out));
}

static void linear_back(struct culm_device *cpu, struct account *a, enum kernel k, float *dx,
                        float *dw, float *db, const float *dy, const float *x, const float *w,
                        int64_t n, int64_t in, int64_t out) {
    double flops = 2.0 * (double)n * (double)in * (double)out;
    double moved = (double)(n * in + in * out + n * out);
    CULM_RUN(cpu, linear_backward_weight, .dw = dw, .db = db, .x = low_in(x), .dy = low_in(dy),
             .n = n, .in = in, .out = out, .first = true);
    done(a, k + 2, flops, moved);
    CULM_RUN(cpu, linear_backward_input, .dx = low_out(dx), .dy = low_in(dy), .w = w, .n = n,
             .in = in, .out = out);
    done(a, k + 1, flops, moved);
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    struct model m = {8, 6, 256, 8, 128, 256, 1, 21, NULL};
    for (int i = 1; i + 1 < argc; i += 2) {
        const struct {
            const char *name;
            int64_t *value;
        } options[] = {{"--batch", &m.batch},     {"--layers", &m.layers},   {"--width", &m.width},
                       {"--heads", &m.heads},     {"--context", &m.context}, {"--vocab", &m.vocab},
                       {"--threads", &m.threads}, {"--iters", &m.iters}};
        bool known = !strcmp(argv[i], "--isa");
        if (known) {
            m.isa = argv[i + 1];
        }
        if (!strcmp(argv[i], "--dtype")) {
            low = strcmp(argv[i + 1], "bf16") ? CULM_F32 : CULM_BF16;
            known = low == CULM_BF16 || !strcmp(argv[i + 1], "f32");
        }
        for (size_t o = 0; o < sizeof options / sizeof options[0]; o++) {
            if (!strcmp(argv[i], options[o].name)) {
                *options[o].value = atoll(argv[i + 1]);
                known = *options[o].value > 0;
            }
        }
        if (!known) {
            fprintf(stderr, "bench_kernels: %s %s: not understood\n", argv[i], argv[i + 1]);
            return 2;
        }
    }
    struct culm_error error;
    struct culm_device *cpu;
    if (culm_cpu_new((int)m.threads, m.isa, &cpu, &error)) {
        fprintf(stderr, "bench_kernels: %s\n", error.text);
        return 4;
    }
    int64_t n = m.batch * m.context, c = m.width, v = m.vocab, L = m.layers;
    int64_t weights = 12 * c * c, params = L * (weights + 13 * c) + (v + m.context + 2) * c;
    int64_t total =
        4 * params + L * (n * (19 * c + m.heads + 4) + 4096) + n * (12 * c + 2 * v) + 65536;
    size_t bytes = ((size_t)total * 4 + (2u << 20)) / (2u << 20) * (2u << 20);
    char *arena = aligned_alloc(2u << 20, bytes);
    if (!arena) {
        fprintf(stderr, "bench_kernels: out of memory for %zu bytes\n", bytes);
        return 4;
    }
    madvise(arena, bytes, MADV_HUGEPAGE);
    memset(arena, 0, bytes);
    float *p = floats(&arena, params), *g = floats(&arena, params), *m1 = floats(&arena, params),
          *m2 = floats(&arena, params);
    for (int64_t i = 0; i < params; i++) {
        p[i] = ((float)(i * 7919 % 1009) / 1009.0f - 0.5f) * 0.07f;
    }
    float *x0 = floats(&arena, n * c), *emb = floats(&arena, n * c), *lnf = floats(&arena, n * c),
          *mf = floats(&arena, n), *rf = floats(&arena, n), *logits = floats(&arena, n * v),
          *dx = floats(&arena, n * c), *dh = floats(&arena, n * c),
          *dwide = floats(&arena, 4 * n * c), *dwide2 = floats(&arena, 4 * n * c);
    int32_t *tokens = (int32_t *)floats(&arena, n);
    struct block *blocks = calloc((size_t)L, sizeof *blocks);
    for (int64_t l = 0; l < L; l++) {
        blocks[l] = (struct block){
            floats(&arena, n * c),     floats(&arena, n),     floats(&arena, n),
            floats(&arena, 3 * n * c), floats(&arena, n * c), floats(&arena, n * m.heads),
            floats(&arena, n * c),     floats(&arena, n * c), floats(&arena, n * c),
            floats(&arena, n),         floats(&arena, n),     floats(&arena, 4 * n * c),
            floats(&arena, 4 * n * c), floats(&arena, n * c), floats(&arena, n * c)};
    }
    for (int64_t i = 0; i < n; i++) {
        tokens[i] = (int32_t)(i * 31 % v);
    }
    float *wte = p + L * (weights + 13 * c), *wpe = wte + v * c, *gf = wpe + m.context * c;
    double *steps = calloc((size_t)m.iters, sizeof *steps);
    struct account account, sum = {0}, *a = &account;
    double *each[KERNELS];
    for (int k = 0; k < KERNELS; k++) {
        each[k] = calloc((size_t)m.iters, sizeof **each);
    }

    for (int64_t iteration = -2; iteration < m.iters; iteration++) {
        struct culm_dropout drop = {.p = 0.1, .key = (uint64_t)iteration, .samples = m.batch};
        double attention = 4.0 * (double)n * (double)m.context * (double)c;
        struct culm_attention how = {.b = m.batch,
                                     .tq = m.context,
                                     .tk = m.context,
                                     .c = c,
                                     .heads = m.heads,
                                     .causal = true,
                                     .dropout = &drop};
        struct culm_loss loss;
        memset(a, 0, sizeof *a);
        double start = a->last = now();
        CULM_RUN(cpu, embedding_forward, .y = culm_out_f32(emb), .tokens = tokens, .wte = wte,
                 .wpe = wpe, .b = m.batch, .t = m.context, .c = c, .v = v);
        done(a, EMBEDDING_F, 0, (double)(2 * n * c));
        CULM_RUN(cpu, dropout, .y = culm_out_f32(x0), .x = culm_in_f32(emb), .count = n * c,
                 .dropout = &drop);
        done(a, RESIDUAL_F, 0, (double)(2 * n * c));
        const float *x = x0;
        for (int64_t l = 0; l < L; l++) {
            struct block *b = &blocks[l];
            const float *w = p + l * (weights + 13 * c), *s = w + weights;
            CULM_RUN(cpu, layernorm_forward, .y = low_out(b->ln1), .mean = b->m1, .rstd = b->r1,
                     .x = culm_in_f32(x), .gamma = s, .beta = s + c, .n = n, .c = c, .eps = 1e-5);
            done(a, LAYERNORM_F, 0, (double)(2 * n * c));
            linear(cpu, a, QKV_F, b->qkv, b->ln1, w, s + 2 * c, n, c, 3 * c);
            struct culm_attention_rows rows = culm_attention_packed(low_in(b->qkv), c);
            CULM_RUN(cpu, attention_forward, .out = low_out(b->att), .lse = b->lse, .in = &rows,
                     .how = &how);
            done(a, ATTENTION_F, attention, (double)(4 * n * c));
            linear(cpu, a, PROJ_F, b->proj, b->att, w + 3 * c * c, s + 5 * c, n, c, c);
            CULM_RUN(cpu, residual_dropout_forward, .y = culm_out_f32(b->x1), .x = culm_in_f32(x),
                     .h = low_in(b->proj), .count = n * c, .dropout = &drop);
            done(a, RESIDUAL_F, 0, (double)(3 * n * c));
            CULM_RUN(cpu, layernorm_forward, .y = low_out(b->ln2), .mean = b->m2, .rstd = b->r2,
                     .x = culm_in_f32(b->x1), .gamma = s + 6 * c, .beta = s + 7 * c, .n = n, .c = c,
                     .eps = 1e-5);
            done(a, LAYERNORM_F, 0, (double)(2 * n * c));
            linear(cpu, a, FC_F, b->fc, b->ln2, w + 4 * c * c, s + 8 * c, n, c, 4 * c);
            CULM_RUN(cpu, activation_forward, .y = low_out(b->gelu), .x = low_in(b->fc),
                     .count = 4 * n * c, .function = CULM_FUNCTION_GELU_TANH, .alpha = 0);
            done(a, GELU_F, 0, (double)(8 * n * c));
            linear(cpu, a, OUT_F, b->out, b->gelu, w + 8 * c * c, s + 12 * c, n, 4 * c, c);
            CULM_RUN(cpu, residual_dropout_forward, .y = culm_out_f32(b->x2),
                     .x = culm_in_f32(b->x1), .h = low_in(b->out), .count = n * c,
                     .dropout = &drop);
            done(a, RESIDUAL_F, 0, (double)(3 * n * c));
            x = b->x2;
        }
        double head = 2.0 * (double)n * (double)c * (double)v,
               moved = (double)(n * c + (n + c) * v);
        CULM_RUN(cpu, layernorm_forward, .y = low_out(lnf), .mean = mf, .rstd = rf,
                 .x = culm_in_f32(x), .gamma = gf, .beta = gf + c, .n = n, .c = c, .eps = 1e-5);
        done(a, LAYERNORM_F, 0, (double)(2 * n * c));
        CULM_RUN(cpu, linear_forward, .y = low_out(logits), .x = low_in(lnf), .w = wte, .n = n,
                 .in = c, .out = v, .transposed = true);
        done(a, HEAD_F, head, moved);
        CULM_RUN(cpu, cross_entropy, .logits = low_out(logits), .targets = tokens, .n = n, .v = v,
                 .scale = 1.0 / (double)n, .smoothing = 0, .want_gradient = true,
                 .ret_loss = &loss);
        done(a, CROSS_ENTROPY, 0, (double)(2 * n * v));
        CULM_RUN(cpu, linear_backward_weight, .dw = g + (wte - p), .x = low_in(lnf),
                 .dy = low_in(logits), .n = n, .in = c, .out = v, .transposed = true,
                 .first = true);
        done(a, HEAD_DW, head, moved);
        CULM_RUN(cpu, linear_backward_input, .dx = low_out(dh), .dy = low_in(logits), .w = wte,
                 .n = n, .in = c, .out = v, .transposed = true);
        done(a, HEAD_DX, head, moved);
        float *dgf = g + (gf - p);
        CULM_RUN(cpu, layernorm_backward, .dx = culm_out_f32(dx), .dgamma = dgf, .dbeta = dgf + c,
                 .dy = low_in(dh), .x = culm_in_f32(x), .gamma = gf, .mean = mf, .rstd = rf, .n = n,
                 .c = c, .first = true);
        done(a, LAYERNORM_B, 0, (double)(3 * n * c));
        for (int64_t l = L; l-- > 0;) {
            struct block *b = &blocks[l];
            const float *w = p + l * (weights + 13 * c), *s = w + weights;
            float *dw = g + (w - p), *ds = dw + weights;
            x = l ? blocks[l - 1].x2 : x0;
            CULM_RUN(cpu, dropout, .y = low_out(dh), .x = culm_in_f32(dx), .count = n * c,
                     .dropout = &drop);
            done(a, DROPOUT_B, 0, (double)(2 * n * c));
            linear_back(cpu, a, OUT_F, dwide, dw + 8 * c * c, ds + 12 * c, dh, b->gelu,
                        w + 8 * c * c, n, 4 * c, c);
            CULM_RUN(cpu, activation_backward, .dx = low_out(dwide2), .dy = low_in(dwide),
                     .kept = low_in(b->fc), .count = 4 * n * c, .function = CULM_FUNCTION_GELU_TANH,
                     .alpha = 0);
            done(a, GELU_B, 0, (double)(12 * n * c));
            linear_back(cpu, a, FC_F, dh, dw + 4 * c * c, ds + 8 * c, dwide2, b->ln2, w + 4 * c * c,
                        n, c, 4 * c);
            CULM_RUN(cpu, layernorm_backward, .dx = culm_out_f32(dx), .dgamma = ds + 6 * c,
                     .dbeta = ds + 7 * c, .dy = low_in(dh), .x = culm_in_f32(b->x1),
                     .gamma = s + 6 * c, .mean = b->m2, .rstd = b->r2, .add = culm_in_f32(dx),
                     .n = n, .c = c, .first = true);
            done(a, LAYERNORM_B, 0, (double)(4 * n * c));
            CULM_RUN(cpu, dropout, .y = low_out(dh), .x = culm_in_f32(dx), .count = n * c,
                     .dropout = &drop);
            done(a, DROPOUT_B, 0, (double)(2 * n * c));
            linear_back(cpu, a, PROJ_F, dwide, dw + 3 * c * c, ds + 5 * c, dh, b->att,
                        w + 3 * c * c, n, c, c);
            struct culm_attention_rows rows = culm_attention_packed(low_in(b->qkv), c);
            struct culm_attention_grads grads = culm_attention_packed_grads(low_out(dwide2), c);
            CULM_RUN(cpu, attention_backward, .grads = &grads, .dout = low_in(dwide), .in = &rows,
                     .out = low_in(b->att), .lse = b->lse, .how = &how);
            done(a, ATTENTION_B, 2.5 * attention, (double)(8 * n * c));
            linear_back(cpu, a, QKV_F, dh, dw, ds + 2 * c, dwide2, b->ln1, w, n, c, 3 * c);
            CULM_RUN(cpu, layernorm_backward, .dx = culm_out_f32(dx), .dgamma = ds, .dbeta = ds + c,
                     .dy = low_in(dh), .x = culm_in_f32(x), .gamma = s, .mean = b->m1,
                     .rstd = b->r1, .add = culm_in_f32(dx), .n = n, .c = c, .first = true);
            done(a, LAYERNORM_B, 0, (double)(4 * n * c));
        }
        CULM_RUN(cpu, dropout, .y = culm_out_f32(dh), .x = culm_in_f32(dx), .count = n * c,
                 .dropout = &drop);
        done(a, DROPOUT_B, 0, (double)(2 * n * c));
        CULM_RUN(cpu, embedding_backward, .dwte = g + (wte - p), .dwpe = g + (wpe - p),
                 .dy = culm_in_f32(dh), .tokens = tokens, .b = m.batch, .t = m.context, .c = c,
                 .v = v);
        done(a, EMBEDDING_B, 0, (double)(3 * n * c));
        double squares = culm_device_sum_squares(cpu, g, params);
        done(a, SUM_SQUARES, 0, (double)params);
        struct culm_adamw hyper = {.lr = 1e-6,
                                   .beta1 = 0.9,
                                   .beta2 = 0.95,
                                   .eps = 1e-8,
                                   .weight_decay = 0.1,
                                   .grad_scale = squares > 1 ? 0.5 : 1,
                                   .bias_correction1 = 0.5,
                                   .bias_correction2 = 0.5};
        CULM_RUN(cpu, adamw, .p = p, .m = m1, .v = m2, .g = g, .count = params, .hyper = &hyper);
        done(a, ADAMW, 0, (double)(7 * params));
        if (iteration < 0) {
            continue;
        }
        steps[iteration] = now() - start;
        for (int k = 0; k < KERNELS; k++) {
            each[k][iteration] = a->seconds[k];
            sum.flops[k] = a->flops[k];
            sum.bytes[k] = a->bytes[k];
            sum.calls[k] = a->calls[k];
        }
    }
    double medians = 0, products = 0, product_flops = 0;
    printf("%s, %s, %lld threads, batch %lld x %lld, %lld blocks x %lld, %.2f M parameters\n",
           culm_cpu_isa(cpu), low == CULM_BF16 ? cpu->ops->bf16_flavour(cpu) : "f32",
           (long long)m.threads, (long long)m.batch, (long long)m.context, (long long)L,
           (long long)c, (double)params * 1e-6);
    printf("%-20s %6s %9s %9s %8s\n", "kernel", "calls", "ms", "GFLOP/s", "GB/s");
    for (int k = 0; k < KERNELS; k++) {
        qsort(each[k], (size_t)m.iters, sizeof **each, ascending);
        double median = each[k][m.iters / 2];
        medians += median;
        if (k <= HEAD_DW) {
            products += median;
            product_flops += sum.flops[k];
        }
        printf("%-20s %6lld %9.3f %9.1f %8.1f\n", names[k], (long long)sum.calls[k], median * 1e3,
               sum.flops[k] / median * 1e-9, sum.bytes[k] / median * 1e-9);
        free(each[k]);
    }
    qsort(steps, (size_t)m.iters, sizeof *steps, ascending);
    printf("matrix products %.2f ms, %.1f GFLOP/s; sum of medians %.2f ms\n", products * 1e3,
           product_flops / products * 1e-9, medians * 1e3);
    printf("step: median %.2f ms, min %.2f ms, %.0f tokens/s\n", steps[m.iters / 2] * 1e3,
           steps[0] * 1e3, (double)n / steps[m.iters / 2]);
    free(steps);
    free(blocks);
    culm_device_free(cpu);
    return 0;
}

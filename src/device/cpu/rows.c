/*
 * Kernels that go row by row: embedding, layer norm.
 *
 * A sum along a row runs in 16 lanes, lane l taking elements l, l + 16, ..., folded by halves. A
 * sum over rows (the gradients of gamma and beta) runs in order inside fixed blocks of rows, and
 * the blocks are added in order. Elements past the end of a row count as zero, in the same vector
 * code.
 */
#include "device/cpu/variant.h"

#include <assert.h>

#define ROW_TILE 16 /* rows */

/* ---- embedding ---- */

#define STRIP 64 /* columns of dwte that one thread sums; a multiple of LANES */

struct embedding {
    struct culm_out y;
    float *dwte, *dwpe;
    const int32_t *tokens;
    const float *wte, *wpe;
    struct culm_in dy;
    int64_t b, t, c, v;
    bool first;
};

static void embedding_forward_tile(void *context, int64_t tile, int thread) {
    struct embedding *s = context;
    (void)thread;
    for (int64_t row = tile * ROW_TILE; row < at_most(s->b * s->t, (tile + 1) * ROW_TILE); row++) {
        assert(s->tokens[row] >= 0 && s->tokens[row] < s->v);
        const float *token = s->wte + s->tokens[row] * s->c, *place = s->wpe + row % s->t * s->c;
        for (int64_t i = 0; i < s->c; i += LANES) {
            tstore_part(s->y, row * s->c + i,
                        vadd(load_part(token + i, s->c - i), load_part(place + i, s->c - i)),
                        s->c - i);
        }
    }
}

void ISA_NAME(embedding_forward)(struct culm_cpu *cpu,
                                 const struct culm_embedding_forward_args *args) {
    struct embedding s = {.y = args->y,
                          .tokens = args->tokens,
                          .wte = args->wte,
                          .wpe = args->wpe,
                          .b = args->b,
                          .t = args->t,
                          .c = args->c,
                          .v = args->v};
    culm_cpu_run(cpu, ceil_div(args->b * args->t, ROW_TILE), embedding_forward_tile, &s);
}

static void dwte_tile(void *context, int64_t tile, int thread) {
    struct embedding *s = context;
    (void)thread;
    int64_t from = tile * STRIP, to = at_most(s->c, from + STRIP);
    if (s->first) {
        for (int64_t v = 0; v < s->v; v++) {
            memset(s->dwte + v * s->c + from, 0, (size_t)(to - from) * sizeof *s->dwte);
        }
    }
    for (int64_t row = 0; row < s->b * s->t; row++) {
        assert(s->tokens[row] >= 0 && s->tokens[row] < s->v);
        float *sum = s->dwte + s->tokens[row] * s->c;
        for (int64_t i = from; i < to; i += LANES) {
            store_part(sum + i,
                       vadd(load_part(sum + i, to - i), tload_part(s->dy, row * s->c + i, to - i)),
                       to - i);
        }
    }
}

static void dwpe_tile(void *context, int64_t t, int thread) {
    struct embedding *s = context;
    (void)thread;
    float *sum = s->dwpe + t * s->c;
    for (int64_t i = 0; i < s->c; i += LANES) {
        vec total =
            s->first ? tload_part(s->dy, t * s->c + i, s->c - i) : load_part(sum + i, s->c - i);
        for (int64_t b = s->first; b < s->b; b++) {
            total = vadd(total, tload_part(s->dy, (b * s->t + t) * s->c + i, s->c - i));
        }
        store_part(sum + i, total, s->c - i);
    }
}

void ISA_NAME(embedding_backward)(struct culm_cpu *cpu,
                                  const struct culm_embedding_backward_args *args) {
    struct embedding s = {.dwte = args->dwte,
                          .dwpe = args->dwpe,
                          .dy = args->dy,
                          .tokens = args->tokens,
                          .b = args->b,
                          .t = args->t,
                          .c = args->c,
                          .v = args->v,
                          .first = args->first};
    assert(args->b > 0);
    culm_cpu_run(cpu, ceil_div(args->c, STRIP), dwte_tile, &s);
    culm_cpu_run(cpu, args->t, dwpe_tile, &s);
}

/* ---- layer norm ---- */

struct layernorm {
    struct culm_out y; /* or dx */
    float *mean, *rstd, *dgamma, *dbeta;
    struct culm_in x, dy, add; /* add.data NULL: none */
    const float *gamma, *beta;
    int64_t n, c, block_rows, blocks, width;
    float *partial; /* [blocks][2][width]: dgamma, dbeta */
    double eps;
    bool first;
};

SIMD void layernorm_forward_rows(const struct layernorm *s, int64_t from, int64_t to,
                                 enum culm_dtype type_x, enum culm_dtype type_y) {
    struct culm_in in = {s->x.data, type_x};
    struct culm_out out = {s->y.data, type_y};
    int64_t c = s->c;
    for (int64_t row = from; row < to; row++) {
        int64_t x = row * c;
        vec sum = vzero(), squares = vzero();
        for (int64_t i = 0; i < c; i += LANES) {
            sum = vadd(sum, tload_part(in, x + i, c - i));
        }
        float mean = vsum(sum) / (float)c;
        for (int64_t i = 0; i < c; i += LANES) {
            vec d = vsub(tload_part(in, x + i, c - i), vset(mean));
            if (c - i < LANES) {
                d = vselect(vfirst(c - i), d, vzero());
            }
            squares = vfma(d, d, squares);
        }
        float rstd = 1.0f / sqrtf(vsum(squares) / (float)c + (float)s->eps);
        for (int64_t i = 0; i < c; i += LANES) {
            vec xhat = vmul(vsub(tload_part(in, x + i, c - i), vset(mean)), vset(rstd));
            vec y = vfma(xhat, load_part(s->gamma + i, c - i), load_part(s->beta + i, c - i));
            tstore_part(out, x + i, y, c - i);
        }
        s->mean[row] = mean;
        s->rstd[row] = rstd;
    }
}

static void layernorm_forward_tile(void *context, int64_t tile, int thread) {
    struct layernorm *s = context;
    (void)thread;
    int64_t from = tile * ROW_TILE, to = at_most(s->n, from + ROW_TILE);
    if (s->x.dtype == CULM_F32 && s->y.dtype == CULM_F32) {
        layernorm_forward_rows(s, from, to, CULM_F32, CULM_F32);
    } else if (s->x.dtype == CULM_F32) {
        layernorm_forward_rows(s, from, to, CULM_F32, CULM_BF16);
    } else {
        layernorm_forward_rows(s, from, to, CULM_BF16, s->y.dtype);
    }
}

void ISA_NAME(layernorm_forward)(struct culm_cpu *cpu,
                                 const struct culm_layernorm_forward_args *args) {
    struct layernorm s = {.y = args->y,
                          .mean = args->mean,
                          .rstd = args->rstd,
                          .x = args->x,
                          .gamma = args->gamma,
                          .beta = args->beta,
                          .n = args->n,
                          .c = args->c,
                          .eps = args->eps};
    culm_cpu_run(cpu, ceil_div(args->n, ROW_TILE), layernorm_forward_tile, &s);
}

/* One block of rows: dx, and the block's share of dgamma and dbeta. */
SIMD void layernorm_backward_rows(const struct layernorm *s, int64_t block, enum culm_dtype type_dy,
                                  enum culm_dtype type_x, enum culm_dtype type_add) {
    struct culm_in in = {s->x.data, type_x}, dys = {s->dy.data, type_dy};
    struct culm_in add = {s->add.data, type_add};
    struct culm_out out = {s->y.data, type_x};
    int64_t c = s->c, from = block * s->block_rows, to = at_most(s->n, from + s->block_rows);
    float *dgamma = s->partial + block * 2 * s->width, *dbeta = dgamma + s->width;
    for (int64_t row = from; row < to; row++) {
        int64_t x = row * c;
        vec mean = vset(s->mean[row]), rstd = vset(s->rstd[row]);
        vec sum = vzero(), sum_xhat = vzero();
        for (int64_t i = 0; i < c; i += LANES) {
            vec xhat = vmul(vsub(tload_part(in, x + i, c - i), mean), rstd);
            vec d = tload_part(dys, x + i, c - i);
            vec g = vmul(d, load_part(s->gamma + i, c - i)); /* zero past the end */
            sum = vadd(sum, g);
            sum_xhat = vfma(g, xhat, sum_xhat);
            vec share = vmul(d, xhat);
            vstore(dgamma + i, row == from ? share : vadd(vload(dgamma + i), share));
            vstore(dbeta + i, row == from ? d : vadd(vload(dbeta + i), d));
        }
        vec a = vset(vsum(sum) / (float)c), b = vset(vsum(sum_xhat) / (float)c);
        for (int64_t i = 0; i < c; i += LANES) {
            vec xhat = vmul(vsub(tload_part(in, x + i, c - i), mean), rstd);
            vec g = vmul(tload_part(dys, x + i, c - i), load_part(s->gamma + i, c - i));
            vec d = vmul(vfnma(xhat, b, vsub(g, a)), rstd);
            if (add.data) {
                d = vadd(tload_part(add, x + i, c - i), d);
            }
            tstore_part(out, x + i, d, c - i);
        }
    }
}

static void layernorm_backward_tile(void *context, int64_t block, int thread) {
    struct layernorm *s = context;
    (void)thread;
    enum culm_dtype x = s->x.dtype, add = s->add.data ? s->add.dtype : x;
    if (x == CULM_F32 && add == CULM_F32 && s->dy.dtype == CULM_F32) {
        layernorm_backward_rows(s, block, CULM_F32, CULM_F32, CULM_F32);
    } else if (x == CULM_F32 && add == CULM_F32) {
        layernorm_backward_rows(s, block, CULM_BF16, CULM_F32, CULM_F32);
    } else if (x == CULM_BF16 && add == CULM_BF16 && s->dy.dtype == CULM_BF16) {
        layernorm_backward_rows(s, block, CULM_BF16, CULM_BF16, CULM_BF16);
    } else {
        layernorm_backward_rows(s, block, s->dy.dtype, x, add);
    }
}

static void layernorm_fold_tile(void *context, int64_t tile, int thread) {
    struct layernorm *s = context;
    (void)thread;
    int64_t i = tile * LANES, n = s->c - i;
    vec dgamma = vload(s->partial + i), dbeta = vload(s->partial + s->width + i);
    for (int64_t block = 1; block < s->blocks; block++) {
        const float *share = s->partial + block * 2 * s->width + i;
        dgamma = vadd(dgamma, vload(share));
        dbeta = vadd(dbeta, vload(share + s->width));
    }
    if (!s->first) {
        dgamma = vadd(load_part(s->dgamma + i, n), dgamma);
        dbeta = vadd(load_part(s->dbeta + i, n), dbeta);
    }
    store_part(s->dgamma + i, dgamma, n);
    store_part(s->dbeta + i, dbeta, n);
}

void ISA_NAME(layernorm_backward)(struct culm_cpu *cpu,
                                  const struct culm_layernorm_backward_args *args) {
    assert(args->n > 0 && args->c <= CULM_CPU_MAX_WIDTH && args->dx.dtype == args->x.dtype);
    int64_t width = round_up(args->c, LANES);
    int64_t most = at_most(64, SHARED_FLOATS / (2 * width));
    int64_t block_rows = at_least(32, ceil_div(args->n, most));
    struct layernorm s = {.y = args->dx,
                          .dgamma = args->dgamma,
                          .dbeta = args->dbeta,
                          .dy = args->dy,
                          .x = args->x,
                          .gamma = args->gamma,
                          .mean = (float *)args->mean,
                          .rstd = (float *)args->rstd,
                          .add = args->add,
                          .n = args->n,
                          .c = args->c,
                          .width = width,
                          .block_rows = block_rows,
                          .blocks = ceil_div(args->n, block_rows),
                          .partial = cpu_shared(cpu),
                          .first = args->first};
    culm_cpu_run(cpu, s.blocks, layernorm_backward_tile, &s);
    culm_cpu_run(cpu, ceil_div(args->c, LANES), layernorm_fold_tile, &s);
}

/*
 * Causal attention, tile by tile, after Dao et al., "FlashAttention" (2022): scores are made for 8
 * queries by 128 keys in scratch that stays in the first cache, with a running maximum and sum per
 * query; backward makes them again from q, k and the saved log-sum-exp.
 *
 * Both passes copy the head's rows once into layouts that the register tile of gemm wants:
 *
 *     rows    [row][ROW_STRIDE]          the left factor, as rows or as columns
 *     down    [panel of features][row][NR]    right factor of products that sum over rows
 *     across  [panel of rows][feature][NR]    right factor of products that sum over features
 *
 * Forward: a tile is one block of 128 queries of one head; it folds blocks of keys in order.
 * Backward: a tile is one head; for each block of keys, the blocks of queries from it on. So the
 * sums for dq run over key blocks in order, those for dk and dv over query blocks in order, and
 * inside a block each is one chain in the order of the index. Within a diagonal block the chains
 * stop (start) at the border of the group of 8 that holds the query (key); what lies beyond it is
 * zero.
 */
#include "device/cpu/drop.h"
#include "device/cpu/tile.h"
#include "device/cpu/transpose.h"
#include "device/cpu/variant.h"

#include <assert.h>

#define BLOCK 128 /* queries, keys; also DROP_GROUP */
#define GROUP 8   /* queries or keys whose chains have common ends */
#define HEAD CULM_CPU_MAX_HEAD
#define PART (SIMD_REGISTERS == 32 ? GROUP : GROUP / 2) /* rows of a register tile */

struct attention {
    struct culm_cpu *cpu;
    float *out, *lse, *dqkv;
    const float *qkv, *dout, *saved_out;
    int64_t b, t, c, heads, d, blocks;
    int64_t d_panels, key_panels; /* NR wide, of the features and of a block of keys */
    float scale;
    const struct culm_dropout *dropout; /* NULL: none */
};

/* Rows of one head: `count` rows from `from`, stride `ld`, times `scale`. */
static void copy_rows(const struct attention *s, float *to, const float *from, int64_t ld,
                      int64_t count, float scale) {
    for (int64_t r = 0; r < count; r++)
        for (int64_t i = 0; i < s->d; i += LANES) {
            vec x =
                s->d - i >= LANES ? vload(from + r * ld + i) : vload_n(from + r * ld + i, s->d - i);
            vstore(to + r * ROW_STRIDE + i, vmul(x, vset(scale)));
        }
}

static void copy_down(const struct attention *s, float *to, const float *from, int64_t ld,
                      int64_t count, float scale) {
    for (int64_t panel = 0; panel < s->d_panels; panel++)
        for (int64_t r = 0; r < count; r++)
            for (int64_t i = 0; i < NR; i += LANES) {
                int64_t n = at_least(0, at_most(LANES, s->d - panel * NR - i));
                const float *p = from + r * ld + panel * NR + i;
                vec x = n == LANES ? vload(p) : vload_n(p, n);
                vstore(to + (panel * BLOCK + r) * NR + i, vmul(x, vset(scale)));
            }
}

/* Keys past `count` become zero up to the end of their panel. */
static void copy_across(const struct attention *s, float *to, const float *from, int64_t ld,
                        int64_t count) {
    for (int64_t r = 0; r < round_up(count, NR); r += 16)
        for (int64_t i = 0; i < s->d; i += 16) {
            float *at = to + (r / NR * HEAD + i) * NR + r % NR;
            if (r + 16 <= count && i + 16 <= s->d) {
                transpose16(from + r * ld + i, ld, at, NR);
            } else {
                for (int64_t ii = 0; ii < at_most(16, s->d - i); ii++)
                    for (int64_t rr = 0; rr < 16; rr++)
                        at[ii * NR + rr] = r + rr < count ? from[(r + rr) * ld + i + ii] : 0.0f;
            }
        }
}

/* to[GROUP][columns] (how) a[GROUP rows][k] b: one group against one panel. `by_columns`:
 * a[k][row]. */
SIMD void product(bool by_columns, int64_t k, const float *a, const float *b, float *to, int64_t ld,
                  int64_t columns, enum how how) {
    for (int r = 0; r < GROUP; r += PART) {
        vec acc[MR][NV];
        if (by_columns)
            chain(acc, PART, 1, ROW_STRIDE, k, a + r, b);
        else
            chain(acc, PART, ROW_STRIDE, 1, k, a + r * ROW_STRIDE, b);
        finish(acc, PART, to + r * ld, ld, columns, how, NULL);
    }
}

static void product_rows(int64_t k, const float *a, const float *b, float *to, int64_t ld,
                         int64_t columns, enum how how) {
    product(false, k, a, b, to, ld, columns, how);
}

static void product_columns(int64_t k, const float *a, const float *b, float *to, int64_t ld,
                            int64_t columns, enum how how) {
    product(true, k, a, b, to, ld, columns, how);
}

struct bits {
    bool on;
    uvec threshold;
    vec scale;
};

SIMD struct bits bits_of(const struct culm_dropout *dropout) {
    if (!dropout)
        return (struct bits){.on = false, .threshold = uset(0), .scale = vset(1.0f)};
    return (struct bits){.on = true,
                         .threshold = uset(drop_threshold(dropout->p)),
                         .scale = vset((float)(1.0 / (1.0 - dropout->p)))};
}

SIMD struct drop_bits draw(const struct attention *s, int64_t sample, int64_t head, int64_t query,
                           int64_t key_block) {
    return drop_draw(s->dropout->key, s->dropout->first_sample + (uint64_t)sample,
                     (uint64_t)((head * s->t + query) * s->blocks + key_block));
}

struct forward_scratch {
    float q[BLOCK * ROW_STRIDE];
    float k[BLOCK * HEAD], v[BLOCK * HEAD]; /* across, down */
    float p[GROUP * ROW_STRIDE];            /* scores, then probabilities */
    float out[BLOCK * HEAD];                /* [query][d_panels * NR] */
    float max[BLOCK], sum[BLOCK];
};

static void forward_tile(void *context, int64_t tile, int thread) {
    struct attention *s = context;
    struct forward_scratch *w = (struct forward_scratch *)cpu_private(s->cpu, thread);
    /* late blocks have more keys, so they come first */
    int64_t block = s->blocks - 1 - tile / (s->b * s->heads);
    int64_t head = tile % s->heads, sample = tile / s->heads % s->b;
    int64_t q0 = block * BLOCK, queries = at_most(BLOCK, s->t - q0);
    int64_t ld = 3 * s->c, out_ld = s->d_panels * NR;
    const float *base = s->qkv + sample * s->t * ld + head * s->d;
    struct bits bits = bits_of(s->dropout);

    copy_rows(s, w->q, base + q0 * ld, ld, queries, s->scale);
    for (int64_t kb = 0; kb <= block; kb++) {
        int64_t k0 = kb * BLOCK, keys = at_most(BLOCK, s->t - k0);
        copy_across(s, w->k, base + k0 * ld + s->c, ld, keys);
        copy_down(s, w->v, base + k0 * ld + 2 * s->c, ld, keys, 1.0f);
        for (int64_t r = 0; r < queries; r += GROUP) {
            /* how many keys of this block the last query of the group sees */
            int64_t limit = kb < block ? keys : at_most(keys, r + GROUP);
            for (int64_t panel = 0; panel * NR < limit; panel++)
                product_rows(s->d, w->q + r * ROW_STRIDE, w->k + panel * HEAD * NR,
                             w->p + panel * NR, ROW_STRIDE, NR, STORE);
            for (int64_t i = 0; i < GROUP; i++) {
                int64_t query = q0 + r + i;
                if (r + i >= queries) { /* rows that do not exist must not disturb the others */
                    memset(w->p + i * ROW_STRIDE, 0, BLOCK * sizeof(float));
                    continue;
                }
                int64_t n = at_most(limit, query - k0 + 1);
                float *p = w->p + i * ROW_STRIDE;
                vec top = vset(kb ? w->max[r + i] : -INFINITY);
                for (int64_t j = 0; j < n; j += LANES) {
                    vec x = vload(p + j);
                    if (n - j < LANES)
                        x = vselect(vfirst(n - j), x, vset(-INFINITY));
                    top = vmax(top, x);
                }
                float max = vmax_of(top);
                vec sum = vzero(), most = vset(max);
                struct drop_bits random;
                if (bits.on)
                    random = draw(s, sample, head, query, kb);
#pragma GCC unroll 8
                for (int slot = 0; slot < BLOCK / LANES; slot++) {
                    int64_t j = slot * LANES;
                    if (j >= limit)
                        break;
                    vec e = vexp(vsub(vload(p + j), most));
                    if (n - j < LANES)
                        e = vselect(vfirst(at_least(0, n - j)), e, vzero());
                    sum = vadd(sum, e);
                    if (bits.on)
                        e = drop_apply(&random, slot, bits.threshold, bits.scale, e);
                    vstore(p + j, e);
                }
                float total = vsum(sum);
                if (kb) {
                    vec shrink = vexp(vset(w->max[r + i] - max));
                    total = w->sum[r + i] * vmax_of(shrink) + total;
                    float *out = w->out + (r + i) * out_ld;
                    for (int64_t j = 0; j < out_ld; j += LANES)
                        vstore(out + j, vmul(vload(out + j), shrink));
                }
                w->max[r + i] = max;
                w->sum[r + i] = total;
            }
            for (int64_t panel = 0; panel < s->d_panels; panel++)
                product_rows(limit, w->p, w->v + panel * BLOCK * NR,
                             w->out + r * out_ld + panel * NR, out_ld, NR, kb ? ADD : STORE);
        }
    }
    for (int64_t r = 0; r < queries; r++) {
        vec scale = vset(1.0f / w->sum[r]);
        float *to = s->out + (sample * s->t + q0 + r) * s->c + head * s->d;
        for (int64_t i = 0; i < s->d; i += LANES) {
            vec y = vmul(vload(w->out + r * out_ld + i), scale);
            if (s->d - i >= LANES)
                vstore(to + i, y);
            else
                vstore_n(to + i, y, s->d - i);
        }
        s->lse[(sample * s->heads + head) * s->t + q0 + r] =
            w->max[r] + (float)culm_cpu_log((double)w->sum[r]);
    }
}

struct backward_scratch {
    float q[BLOCK * ROW_STRIDE], dout[BLOCK * ROW_STRIDE]; /* rows */
    float q_down[BLOCK * HEAD], dout_down[BLOCK * HEAD];   /* down */
    float k_across[BLOCK * HEAD], v_across[BLOCK * HEAD];  /* across */
    float k_down[BLOCK * HEAD];                            /* down */
    float p[BLOCK * ROW_STRIDE], ds[BLOCK * ROW_STRIDE];   /* dropped p; d scores */
    float scores[GROUP * ROW_STRIDE], dp[GROUP * ROW_STRIDE];
    float dk[BLOCK * HEAD], dv[BLOCK * HEAD]; /* [key][d_panels * NR] */
    float dot[BLOCK];                         /* dout . out */
};
_Static_assert(sizeof(struct backward_scratch) <= PRIVATE_FLOATS * sizeof(float), "fits");
_Static_assert(sizeof(struct forward_scratch) <= PRIVATE_FLOATS * sizeof(float), "fits");

static void load_queries(const struct attention *s, struct backward_scratch *w, int64_t sample,
                         int64_t head, int64_t q0, int64_t queries) {
    int64_t ld = 3 * s->c;
    const float *q = s->qkv + (sample * s->t + q0) * ld + head * s->d;
    const float *dout = s->dout + (sample * s->t + q0) * s->c + head * s->d;
    const float *out = s->saved_out + (sample * s->t + q0) * s->c + head * s->d;
    copy_rows(s, w->q, q, ld, queries, s->scale);
    copy_down(s, w->q_down, q, ld, queries, s->scale);
    copy_rows(s, w->dout, dout, s->c, queries, 1.0f);
    copy_down(s, w->dout_down, dout, s->c, queries, 1.0f);
    for (int64_t r = 0; r < queries; r++) {
        vec sum = vzero();
        for (int64_t i = 0; i < s->d; i += LANES) {
            int64_t n = at_most(LANES, s->d - i);
            sum = vfma(vload_n(dout + r * s->c + i, n), vload_n(out + r * s->c + i, n), sum);
        }
        w->dot[r] = vsum(sum);
    }
}

/* p and ds of one group of queries against one block of keys, and its share of dq. */
static void backward_group(const struct attention *s, struct backward_scratch *w,
                           const struct bits *bits, int64_t sample, int64_t head, int64_t q0,
                           int64_t r, int64_t queries, int64_t kb, int64_t limit) {
    int64_t k0 = kb * BLOCK;
    const float *lse = s->lse + (sample * s->heads + head) * s->t + q0;
    for (int64_t panel = 0; panel * NR < limit; panel++) {
        product_rows(s->d, w->q + r * ROW_STRIDE, w->k_across + panel * HEAD * NR,
                     w->scores + panel * NR, ROW_STRIDE, NR, STORE);
        product_rows(s->d, w->dout + r * ROW_STRIDE, w->v_across + panel * HEAD * NR,
                     w->dp + panel * NR, ROW_STRIDE, NR, STORE);
    }
    for (int64_t i = 0; i < GROUP; i++) {
        float *p = w->p + (r + i) * ROW_STRIDE, *ds = w->ds + (r + i) * ROW_STRIDE;
        if (r + i >= queries) {
            memset(p, 0, BLOCK * sizeof *p);
            memset(ds, 0, BLOCK * sizeof *ds);
            continue;
        }
        const float *scores = w->scores + i * ROW_STRIDE, *dp = w->dp + i * ROW_STRIDE;
        int64_t n = at_most(limit, q0 + r + i - k0 + 1);
        vec shift = vset(lse[r + i]), dot = vset(w->dot[r + i]);
        struct drop_bits random;
        if (bits->on)
            random = draw(s, sample, head, q0 + r + i, kb);
#pragma GCC unroll 8
        for (int slot = 0; slot < BLOCK / LANES; slot++) {
            int64_t j = slot * LANES;
            if (j >= limit)
                break;
            vec e = vexp(vsub(vload(scores + j), shift)), de = vload(dp + j), kept = e;
            if (bits->on) {
                mask dropped = uless(drop_slot(&random, slot), bits->threshold);
                kept = vselect(dropped, vzero(), vmul(e, bits->scale));
                de = vselect(dropped, vzero(), vmul(de, bits->scale));
            }
            vec d = vmul(e, vsub(de, dot));
            if (n - j < LANES) {
                mask seen = vfirst(at_least(0, n - j));
                kept = vselect(seen, kept, vzero());
                d = vselect(seen, d, vzero());
            }
            vstore(p + j, kept);
            vstore(ds + j, d);
        }
    }
}

static void backward_tile(void *context, int64_t tile, int thread) {
    struct attention *s = context;
    struct backward_scratch *w = (struct backward_scratch *)cpu_private(s->cpu, thread);
    int64_t head = tile % s->heads, sample = tile / s->heads;
    int64_t ld = 3 * s->c, wide = s->d_panels * NR;
    const float *base = s->qkv + sample * s->t * ld + head * s->d;
    float *dbase = s->dqkv + sample * s->t * ld + head * s->d;
    struct bits bits = bits_of(s->dropout);

    for (int64_t kb = 0; kb < s->blocks; kb++) {
        int64_t k0 = kb * BLOCK, keys = at_most(BLOCK, s->t - k0);
        copy_across(s, w->k_across, base + k0 * ld + s->c, ld, keys);
        copy_across(s, w->v_across, base + k0 * ld + 2 * s->c, ld, keys);
        copy_down(s, w->k_down, base + k0 * ld + s->c, ld, keys, s->scale);
        for (int64_t qb = kb; qb < s->blocks; qb++) {
            int64_t q0 = qb * BLOCK, queries = at_most(BLOCK, s->t - q0);
            load_queries(s, w, sample, head, q0, queries);
            for (int64_t r = 0; r < queries; r += GROUP) {
                int64_t limit = qb > kb ? keys : at_most(keys, r + GROUP);
                backward_group(s, w, &bits, sample, head, q0, r, queries, kb, limit);
                int64_t rows = at_most(GROUP, queries - r);
                for (int64_t panel = 0; panel < s->d_panels; panel++) {
                    float *dq = dbase + (q0 + r) * ld + panel * NR;
                    float share[GROUP * NR] __attribute__((aligned(64)));
                    bool whole = rows == GROUP;
                    int64_t columns = at_most(NR, s->d - panel * NR);
                    if (whole) {
                        product_rows(limit, w->ds + r * ROW_STRIDE, w->k_down + panel * BLOCK * NR,
                                     dq, ld, columns, kb ? ADD : STORE);
                        continue;
                    }
                    product_rows(limit, w->ds + r * ROW_STRIDE, w->k_down + panel * BLOCK * NR,
                                 share, NR, NR, STORE);
                    for (int64_t i = 0; i < rows; i++)
                        for (int64_t j = 0; j < columns; j++)
                            dq[i * ld + j] =
                                kb ? dq[i * ld + j] + share[i * NR + j] : share[i * NR + j];
                }
            }
            for (int64_t r = 0; r < keys; r += GROUP) {
                int64_t from = qb > kb ? 0 : r, k = queries - from;
                for (int64_t panel = 0; panel < s->d_panels; panel++) {
                    int64_t at = (panel * BLOCK + from) * NR, to = r * wide + panel * NR;
                    product_columns(k, w->p + from * ROW_STRIDE + r, w->dout_down + at, w->dv + to,
                                    wide, NR, qb > kb ? ADD : STORE);
                    product_columns(k, w->ds + from * ROW_STRIDE + r, w->q_down + at, w->dk + to,
                                    wide, NR, qb > kb ? ADD : STORE);
                }
            }
        }
        for (int64_t r = 0; r < keys; r++) {
            memcpy(dbase + (k0 + r) * ld + s->c, w->dk + r * wide, (size_t)s->d * sizeof(float));
            memcpy(dbase + (k0 + r) * ld + 2 * s->c, w->dv + r * wide,
                   (size_t)s->d * sizeof(float));
        }
    }
}

static struct attention describe(struct culm_cpu *cpu, int64_t b, int64_t t, int64_t c,
                                 int64_t heads, const struct culm_dropout *dropout) {
    assert(heads > 0 && c % heads == 0 && c / heads <= HEAD && t <= CULM_CPU_MAX_CONTEXT);
    struct attention s = {.cpu = cpu, .b = b, .t = t, .c = c, .heads = heads, .d = c / heads};
    s.blocks = ceil_div(t, BLOCK);
    s.d_panels = ceil_div(s.d, NR);
    s.scale = (float)(1.0 / sqrt((double)s.d));
    if (dropout && dropout->p != 0) {
        assert(dropout->samples == b && dropout->p > 0 && dropout->p < 1);
        s.dropout = dropout;
    }
    return s;
}

void ISA_NAME(attention_forward)(struct culm_cpu *cpu, float *out, float *lse, const float *qkv,
                                 int64_t b, int64_t t, int64_t c, int64_t heads,
                                 const struct culm_dropout *dropout) {
    struct attention s = describe(cpu, b, t, c, heads, dropout);
    s.out = out;
    s.lse = lse;
    s.qkv = qkv;
    culm_cpu_run(cpu, b * heads * s.blocks, forward_tile, &s);
}

void ISA_NAME(attention_backward)(struct culm_cpu *cpu, float *dqkv, const float *dout,
                                  const float *qkv, const float *out, const float *lse, int64_t b,
                                  int64_t t, int64_t c, int64_t heads,
                                  const struct culm_dropout *dropout) {
    struct attention s = describe(cpu, b, t, c, heads, dropout);
    s.dqkv = dqkv;
    s.dout = dout;
    s.qkv = qkv;
    s.saved_out = out;
    s.lse = (float *)lse;
    culm_cpu_run(cpu, b * heads, backward_tile, &s);
}

/*
 * Attention, tile by tile, after Dao et al., "FlashAttention" (2022): scores are made for 8 queries
 * by 128 keys in scratch that stays in the first cache, with a running maximum and sum per query;
 * backward makes them again from q, k and the saved log-sum-exp.
 *
 * Both passes copy the head's rows once into layouts that the register tile of gemm wants, where
 * they are f32 whatever they are in memory:
 *
 *     rows    [row][ROW_STRIDE]          the left factor, as rows or as columns
 *     down    [panel of features][row][NR]    right factor of products that sum over rows
 *     across  [panel of rows][feature][NR]    right factor of products that sum over features
 *
 * Forward: a tile is one block of 128 queries of one head; it folds blocks of keys in order.
 * Backward: for each block of keys, the blocks of queries that see it. So the sums for dq run over
 * key blocks in order, those for dk and dv over query blocks in order, and inside a block each is
 * one chain in the order of the index. A tile of backward is one head, and dq is summed where it
 * lies; or, when heads are few for the threads or dq is bf16, one block of keys of one head, whose
 * share of dq goes to shared scratch and is added up afterwards, in the same order.
 *
 * Causal: within a diagonal block the chains stop (start) at the border of the group of 8 that
 * holds the query (key); what lies beyond it is zero. Masked: a hidden key's score is -infinity;
 * blocks past a sample's last visible key are not visited. A query that sees no key gives zeros,
 * and has +infinity for its log-sum-exp, which makes its probabilities zero in backward.
 */
#include "device/cpu/attention.h"
#include "device/cpu/tile.h"
#include "device/cpu/transpose.h"
#include "device/cpu/variant.h"

#include <assert.h>

#define GROUP 8 /* queries or keys whose chains have common ends */
#define PART (SIMD_REGISTERS == 32 ? GROUP : GROUP / 2) /* rows of a register tile */

/* Rows of one head: `count` rows from element `at`, stride `ld`, times `scale`. */
static void copy_rows(const struct attention *s, float *to, struct culm_in from, int64_t at,
                      int64_t ld, int64_t count, float scale) {
    for (int64_t r = 0; r < count; r++) {
        for (int64_t i = 0; i < s->d; i += LANES) {
            vstore(to + r * ROW_STRIDE + i,
                   vmul(tload_part(from, at + r * ld + i, s->d - i), vset(scale)));
        }
    }
}

static void copy_down(const struct attention *s, float *to, struct culm_in from, int64_t at,
                      int64_t ld, int64_t count, float scale) {
    for (int64_t panel = 0; panel < s->d_panels; panel++) {
        for (int64_t r = 0; r < count; r++) {
            for (int64_t i = 0; i < NR; i += LANES) {
                int64_t column = panel * NR + i, n = at_most(LANES, s->d - column);
                vec x = n > 0 ? tload_part(from, at + r * ld + column, n) : vzero();
                vstore(to + (panel * BLOCK + r) * NR + i, vmul(x, vset(scale)));
            }
        }
    }
}

/* Keys past `count` become zero up to the end of their panel. */
static void copy_across(const struct attention *s, float *to, struct culm_in from, int64_t base,
                        int64_t ld, int64_t count) {
    float part[16 * 16] __attribute__((aligned(64)));
    for (int64_t r = 0; r < round_up(count, NR); r += 16) {
        for (int64_t i = 0; i < s->d; i += 16) {
            float *at = to + (r / NR * HEAD + i) * NR + r % NR;
            int64_t first = base + r * ld + i;
            if (r + 16 <= count && i + 16 <= s->d && from.dtype == CULM_F32) {
                transpose16((const float *)from.data + first, ld, at, NR);
                continue;
            }
            for (int64_t rr = 0; rr < 16; rr++) {
                vstore(part + rr * 16,
                       r + rr < count ? tload_part(from, first + rr * ld, s->d - i) : vzero());
            }
            transpose16(part, 16, at, NR); /* features past the end: HEAD is a multiple of 16 */
        }
    }
}

/* to[GROUP][columns] (how) a[GROUP rows][k] b: one group against one panel. `by_columns`:
 * a[k][row]. */
SIMD void product(bool by_columns, int64_t k, const float *a, const float *b, float *to, int64_t ld,
                  int64_t columns, enum how how) {
    for (int r = 0; r < GROUP; r += PART) {
        vec acc[MR][NV];
        if (by_columns) {
            chain(acc, PART, 1, ROW_STRIDE, k, a + r, b);
        } else {
            chain(acc, PART, ROW_STRIDE, 1, k, a + r * ROW_STRIDE, b);
        }
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

/* Of the `keys` of block kb, those that the group of queries at r of block qb may see. */
SIMD int64_t group_limit(const struct attention *s, int64_t qb, int64_t kb, int64_t r,
                         int64_t keys) {
    return s->how.causal && kb == qb ? at_most(keys, r + GROUP) : keys;
}

struct forward_scratch {
    float q[BLOCK * ROW_STRIDE];
    float k[BLOCK * HEAD], v[BLOCK * HEAD]; /* across, down */
    float p[GROUP * ROW_STRIDE];            /* scores, then probabilities */
    float out[BLOCK * HEAD];                /* [query][wide] */
    float max[BLOCK], sum[BLOCK], hide[BLOCK];
};

/* Turns one query's scores against the first n of `limit` keys into probabilities, dropped ones
 * zero, relative to the new maximum, and adds them up. `started`: there were blocks before. */
SIMD void forward_row(const struct attention *s, struct forward_scratch *w, const struct bits *bits,
                      struct drop_bits *random, float *p, int64_t row, int64_t n, int64_t limit,
                      bool started) {
    vec top = vset(started ? w->max[row] : -INFINITY);
    for (int64_t j = 0; j < n; j += LANES) {
        vec x = vload(p + j);
        if (s->how.mask) {
            x = vadd(x, vload(w->hide + j));
            vstore(p + j, x);
        }
        if (n - j < LANES) {
            x = vselect(vfirst(n - j), x, vset(-INFINITY));
        }
        top = vmax(top, x);
    }
    float max = vmax_of(top);
    vec sum = vzero(), most = vset(s->how.mask && max == -INFINITY ? 0 : max);
#pragma GCC unroll 8
    for (int slot = 0; slot < BLOCK / LANES; slot++) {
        int64_t j = slot * LANES;
        if (j >= limit) {
            break;
        }
        vec e = vexp(vsub(vload(p + j), most));
        if (n - j < LANES) {
            e = vselect(vfirst(at_least(0, n - j)), e, vzero());
        }
        sum = vadd(sum, e);
        if (bits->on) {
            e = drop_apply(random, slot, bits->threshold, bits->scale, e);
        }
        vstore(p + j, e);
    }
    float total = vsum(sum);
    if (started) {
        vec shrink = vexp(vsub(vset(w->max[row]), most));
        total = w->sum[row] * vmax_of(shrink) + total;
        float *out = w->out + row * s->wide;
        for (int64_t j = 0; j < s->wide; j += LANES) {
            vstore(out + j, vmul(vload(out + j), shrink));
        }
    }
    w->max[row] = max;
    w->sum[row] = total;
}

static void forward_store(const struct attention *s, const struct forward_scratch *w,
                          int64_t sample, int64_t head, int64_t q0, int64_t queries) {
    for (int64_t r = 0; r < queries; r++) {
        bool sees = w->sum[r] > 0 || !s->how.mask;
        vec scale = vset(sees ? 1.0f / w->sum[r] : 0);
        int64_t to = row_at(s, s->how.c, s->how.tq, sample, q0 + r, head);
        for (int64_t i = 0; i < s->d; i += LANES) {
            tstore_part(s->out, to + i, vmul(vload(w->out + r * s->wide + i), scale), s->d - i);
        }
        s->lse[(sample * s->how.heads + head) * s->how.tq + q0 + r] =
            sees ? w->max[r] + (float)culm_cpu_log((double)w->sum[r]) : INFINITY;
    }
}

static void forward_tile(void *context, int64_t tile, int thread) {
    struct attention *s = context;
    struct forward_scratch *w = (struct forward_scratch *)cpu_private(s->cpu, thread);
    /* when causal, late blocks have more keys, so they come first */
    int64_t block = s->q_blocks - 1 - tile / (s->how.b * s->how.heads);
    int64_t head = tile % s->how.heads, sample = tile / s->how.heads % s->how.b;
    int64_t q0 = block * BLOCK, queries = at_most(BLOCK, s->how.tq - q0);
    int64_t all_keys = keys_of(s, sample), blocks = ceil_div(all_keys, BLOCK);
    struct bits bits = bits_of(s->how.dropout);

    if (s->how.causal) {
        blocks = at_most(blocks, block + 1);
    }
    copy_rows(s, w->q, s->in.q, row_at(s, s->in.ldq, s->how.tq, sample, q0, head), s->in.ldq,
              queries, s->scale);
    for (int64_t kb = 0; kb < blocks; kb++) {
        int64_t k0 = kb * BLOCK, keys = at_most(BLOCK, all_keys - k0);
        copy_across(s, w->k, s->in.k, row_at(s, s->in.ldk, s->how.tk, sample, k0, head), s->in.ldk,
                    keys);
        copy_down(s, w->v, s->in.v, row_at(s, s->in.ldv, s->how.tk, sample, k0, head), s->in.ldv,
                  keys, 1.0f);
        if (s->how.mask) {
            hide_keys(s, w->hide, sample, k0, keys);
        }
        for (int64_t r = 0; r < queries; r += GROUP) {
            int64_t limit = group_limit(s, block, kb, r, keys);
            for (int64_t panel = 0; panel * NR < limit; panel++) {
                product_rows(s->d, w->q + r * ROW_STRIDE, w->k + panel * HEAD * NR,
                             w->p + panel * NR, ROW_STRIDE, NR, STORE);
            }
            for (int64_t i = 0; i < GROUP; i++) {
                int64_t query = q0 + r + i;
                if (r + i >= queries) { /* rows that do not exist must not disturb the others */
                    memset(w->p + i * ROW_STRIDE, 0, BLOCK * sizeof(float));
                    continue;
                }
                int64_t n = s->how.causal ? at_most(limit, query - k0 + 1) : limit;
                struct drop_bits random;
                if (bits.on) {
                    random = draw(s, sample, head, query, kb);
                }
                forward_row(s, w, &bits, &random, w->p + i * ROW_STRIDE, r + i, n, limit, kb > 0);
            }
            for (int64_t panel = 0; panel < s->d_panels; panel++) {
                product_rows(limit, w->p, w->v + panel * BLOCK * NR,
                             w->out + r * s->wide + panel * NR, s->wide, NR, kb ? ADD : STORE);
            }
        }
    }
    if (!blocks) {
        memset(w->out, 0, (size_t)(queries * s->wide) * sizeof(float));
        memset(w->sum, 0, sizeof w->sum);
    }
    forward_store(s, w, sample, head, q0, queries);
}

struct backward_scratch {
    float q[BLOCK * ROW_STRIDE], dout[BLOCK * ROW_STRIDE]; /* rows */
    float q_down[BLOCK * HEAD], dout_down[BLOCK * HEAD];   /* down */
    float k_across[BLOCK * HEAD], v_across[BLOCK * HEAD];  /* across */
    float k_down[BLOCK * HEAD];                            /* down */
    float p[BLOCK * ROW_STRIDE], ds[BLOCK * ROW_STRIDE];   /* dropped p; d scores */
    float scores[GROUP * ROW_STRIDE], dp[GROUP * ROW_STRIDE];
    float dk[BLOCK * HEAD], dv[BLOCK * HEAD]; /* [key][wide] */
    float dot[BLOCK], hide[BLOCK];            /* dout . out */
};
_Static_assert(sizeof(struct backward_scratch) <= PRIVATE_FLOATS * sizeof(float), "fits");
_Static_assert(sizeof(struct forward_scratch) <= PRIVATE_FLOATS * sizeof(float), "fits");

static void load_queries(const struct attention *s, struct backward_scratch *w, int64_t sample,
                         int64_t head, int64_t q0, int64_t queries) {
    int64_t q = row_at(s, s->in.ldq, s->how.tq, sample, q0, head);
    int64_t at = row_at(s, s->how.c, s->how.tq, sample, q0, head);
    copy_rows(s, w->q, s->in.q, q, s->in.ldq, queries, s->scale);
    copy_down(s, w->q_down, s->in.q, q, s->in.ldq, queries, s->scale);
    copy_rows(s, w->dout, s->dout, at, s->how.c, queries, 1.0f);
    copy_down(s, w->dout_down, s->dout, at, s->how.c, queries, 1.0f);
    for (int64_t r = 0; r < queries; r++) {
        vec sum = vzero();
        for (int64_t i = 0; i < s->d; i += LANES) {
            sum = vfma(tload_part(s->dout, at + r * s->how.c + i, s->d - i),
                       tload_part(s->saved_out, at + r * s->how.c + i, s->d - i), sum);
        }
        w->dot[r] = vsum(sum);
    }
}

/* p and ds of one group of queries against one block of keys. */
static void backward_group(const struct attention *s, struct backward_scratch *w,
                           const struct bits *bits, int64_t sample, int64_t head, int64_t q0,
                           int64_t r, int64_t queries, int64_t kb, int64_t limit) {
    int64_t k0 = kb * BLOCK;
    const float *lse = s->lse + (sample * s->how.heads + head) * s->how.tq + q0;
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
        int64_t n = s->how.causal ? at_most(limit, q0 + r + i - k0 + 1) : limit;
        vec shift = vset(lse[r + i]), dot = vset(w->dot[r + i]);
        struct drop_bits random;
        if (bits->on) {
            random = draw(s, sample, head, q0 + r + i, kb);
        }
#pragma GCC unroll 8
        for (int slot = 0; slot < BLOCK / LANES; slot++) {
            int64_t j = slot * LANES;
            if (j >= limit) {
                break;
            }
            vec x = vload(scores + j), de = vload(dp + j);
            if (s->how.mask) {
                x = vadd(x, vload(w->hide + j));
            }
            vec e = vexp(vsub(x, shift)), kept = e;
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

/* One group's share of dq from one block of keys: to its slot, or to dq where it lies. */
static void backward_dq(const struct attention *s, struct backward_scratch *w, int64_t sample,
                        int64_t head, int64_t kb, int64_t query, int64_t r, int64_t rows,
                        int64_t limit) {
    int64_t ld = s->grads.lddq;
    float *share = NULL, *dq = NULL;
    if (s->shares) {
        int64_t local = sample * s->how.heads + head - s->first_head;
        share =
            s->shares + (local * s->slots + 1 + kb - s->first_block) * s->slot + query * s->wide;
    } else {
        dq = (float *)s->grads.dq.data + row_at(s, ld, s->how.tq, sample, query, head);
    }
    for (int64_t panel = 0; panel < s->d_panels; panel++) {
        const float *ds = w->ds + r * ROW_STRIDE, *k = w->k_down + panel * BLOCK * NR;
        int64_t at = panel * NR, columns = at_most(NR, s->d - at);
        if (share) {
            product_rows(limit, ds, k, share + at, s->wide, NR, STORE);
        } else if (rows == GROUP) {
            product_rows(limit, ds, k, dq + at, ld, columns, kb ? ADD : STORE);
        } else {
            float part[GROUP * NR] __attribute__((aligned(64)));
            product_rows(limit, ds, k, part, NR, NR, STORE);
            for (int64_t i = 0; i < rows; i++) {
                for (int64_t j = 0; j < columns; j++) {
                    float *to = dq + i * ld + at + j;
                    *to = kb ? *to + part[i * NR + j] : part[i * NR + j];
                }
            }
        }
    }
}

/* dk and dv of one block of keys, and its share of dq. */
static void backward_block(const struct attention *s, struct backward_scratch *w, int64_t sample,
                           int64_t head, int64_t kb, int64_t all_keys) {
    int64_t k0 = kb * BLOCK, keys = at_most(BLOCK, all_keys - k0);
    int64_t first = s->how.causal ? kb : 0;
    int64_t k = row_at(s, s->in.ldk, s->how.tk, sample, k0, head);
    int64_t v = row_at(s, s->in.ldv, s->how.tk, sample, k0, head);
    struct bits bits = bits_of(s->how.dropout);
    copy_across(s, w->k_across, s->in.k, k, s->in.ldk, keys);
    copy_across(s, w->v_across, s->in.v, v, s->in.ldv, keys);
    copy_down(s, w->k_down, s->in.k, k, s->in.ldk, keys, s->scale);
    if (s->how.mask) {
        hide_keys(s, w->hide, sample, k0, keys);
    }
    for (int64_t qb = first; qb < s->q_blocks; qb++) {
        int64_t q0 = qb * BLOCK, queries = at_most(BLOCK, s->how.tq - q0);
        load_queries(s, w, sample, head, q0, queries);
        for (int64_t r = 0; r < queries; r += GROUP) {
            int64_t limit = group_limit(s, qb, kb, r, keys);
            backward_group(s, w, &bits, sample, head, q0, r, queries, kb, limit);
            backward_dq(s, w, sample, head, kb, q0 + r, r, at_most(GROUP, queries - r), limit);
        }
        for (int64_t r = 0; r < keys; r += GROUP) {
            int64_t from = s->how.causal && qb == kb ? r : 0, count = queries - from;
            for (int64_t panel = 0; panel < s->d_panels; panel++) {
                int64_t at = (panel * BLOCK + from) * NR, to = r * s->wide + panel * NR;
                product_columns(count, w->p + from * ROW_STRIDE + r, w->dout_down + at, w->dv + to,
                                s->wide, NR, qb > first ? ADD : STORE);
                product_columns(count, w->ds + from * ROW_STRIDE + r, w->q_down + at, w->dk + to,
                                s->wide, NR, qb > first ? ADD : STORE);
            }
        }
    }
}

/* The rows of dk and dv of block kb, of which the first `keys` have been computed. */
static void backward_store(const struct attention *s, const struct backward_scratch *w,
                           int64_t sample, int64_t head, int64_t kb, int64_t keys) {
    int64_t k0 = kb * BLOCK;
    for (int64_t r = 0; r < at_most(BLOCK, s->how.tk - k0); r++) {
        int64_t dk = row_at(s, s->grads.lddk, s->how.tk, sample, k0 + r, head);
        int64_t dv = row_at(s, s->grads.lddv, s->how.tk, sample, k0 + r, head);
        for (int64_t i = 0; i < s->d; i += LANES) {
            bool there = r < keys;
            tstore_part(s->grads.dk, dk + i, there ? vload(w->dk + r * s->wide + i) : vzero(),
                        s->d - i);
            tstore_part(s->grads.dv, dv + i, there ? vload(w->dv + r * s->wide + i) : vzero(),
                        s->d - i);
        }
    }
}

/* Block kb of one head, whatever of it there is to do. */
static void backward_keys(const struct attention *s, struct backward_scratch *w, int64_t sample,
                          int64_t head, int64_t kb) {
    int64_t all_keys = keys_of(s, sample);
    bool seen = kb * BLOCK < all_keys && (!s->how.causal || kb < s->q_blocks);
    if (seen) {
        backward_block(s, w, sample, head, kb, all_keys);
    }
    backward_store(s, w, sample, head, kb, seen ? at_most(BLOCK, all_keys - kb * BLOCK) : 0);
}

static void zero_dq(const struct attention *s, int64_t sample, int64_t head) {
    for (int64_t query = 0; query < s->how.tq; query++) {
        for (int64_t i = 0; i < s->d; i += LANES) {
            tstore_part(s->grads.dq, row_at(s, s->grads.lddq, s->how.tq, sample, query, head) + i,
                        vzero(), s->d - i);
        }
    }
}

static void backward_head_tile(void *context, int64_t tile, int thread) {
    struct attention *s = context;
    struct backward_scratch *w = (struct backward_scratch *)cpu_private(s->cpu, thread);
    int64_t head = tile % s->how.heads, sample = tile / s->how.heads;
    if (!keys_of(s, sample)) {
        zero_dq(s, sample, head);
    }
    for (int64_t kb = 0; kb < s->k_blocks; kb++) {
        backward_keys(s, w, sample, head, kb);
    }
}

static void backward_block_tile(void *context, int64_t tile, int thread) {
    struct attention *s = context;
    struct backward_scratch *w = (struct backward_scratch *)cpu_private(s->cpu, thread);
    int64_t at = s->first_head + tile % s->heads; /* when causal, early blocks have more queries */
    backward_keys(s, w, at / s->how.heads, at % s->how.heads, s->first_block + tile / s->heads);
}

/* Adds this wave's shares to one block of queries of one head. */
static void backward_fold_tile(void *context, int64_t tile, int thread) {
    struct attention *s = context;
    (void)thread;
    int64_t local = tile % s->heads, qb = tile / s->heads;
    int64_t sample = (s->first_head + local) / s->how.heads;
    int64_t head = (s->first_head + local) % s->how.heads;
    int64_t blocks = ceil_div(keys_of(s, sample), BLOCK);
    if (s->how.causal) {
        blocks = at_most(blocks, qb + 1);
    }
    int64_t last = at_most(blocks, s->first_block + s->n_blocks);
    bool done = s->first_block + s->n_blocks == s->k_blocks;
    float *sum = s->shares + local * s->slots * s->slot;
    for (int64_t query = qb * BLOCK; query < at_most(s->how.tq, (qb + 1) * BLOCK); query++) {
        int64_t to = row_at(s, s->grads.lddq, s->how.tq, sample, query, head);
        for (int64_t i = 0; i < s->d; i += LANES) {
            float *at = sum + query * s->wide + i;
            vec total = s->first_block ? vload(at) : vzero();
            for (int64_t kb = s->first_block; kb < last; kb++) {
                vec share = vload(at + (1 + kb - s->first_block) * s->slot);
                total = kb ? vadd(total, share) : share;
            }
            if (done) {
                tstore_part(s->grads.dq, to + i, total, s->d - i);
            } else {
                vstore(at, total);
            }
        }
    }
}

static struct attention describe(struct culm_cpu *cpu, const struct culm_attention_rows *in,
                                 const struct culm_attention *how) {
    assert(how->heads > 0 && how->c % how->heads == 0 && how->c / how->heads <= HEAD);
    assert(how->tq <= CULM_CPU_MAX_CONTEXT && how->tk <= CULM_CPU_MAX_CONTEXT);
    struct attention s = {.cpu = cpu, .how = *how, .in = *in, .d = how->c / how->heads};
    s.q_blocks = ceil_div(how->tq, BLOCK);
    s.k_blocks = ceil_div(how->tk, BLOCK);
    s.d_panels = ceil_div(s.d, NR);
    s.wide = s.d_panels * NR;
    s.scale = (float)(1.0 / sqrt((double)s.d));
    if (how->dropout && how->dropout->p != 0) {
        assert(how->dropout->samples == how->b && how->dropout->p > 0 && how->dropout->p < 1);
    } else {
        s.how.dropout = NULL;
    }
    return s;
}

static bool all_bf16(const struct culm_attention_rows *in) {
    return in->q.dtype == CULM_BF16 && in->k.dtype == CULM_BF16 && in->v.dtype == CULM_BF16;
}

void ISA_NAME(attention_forward)(struct culm_cpu *cpu,
                                 const struct culm_attention_forward_args *args) {
    struct attention s = describe(cpu, args->in, args->how);
    s.out = args->out;
    s.lse = args->lse;
    if (all_bf16(args->in)) {
        ISA_NAME(attention_forward_bf16)(&s);
        return;
    }
    culm_cpu_run(cpu, args->how->b * args->how->heads * s.q_blocks, forward_tile, &s);
}

void ISA_NAME(attention_backward)(struct culm_cpu *cpu,
                                  const struct culm_attention_backward_args *args) {
    struct attention s = describe(cpu, args->in, args->how);
    int64_t heads = args->how->b * args->how->heads;
    s.grads = *args->grads;
    s.dout = args->dout;
    s.saved_out = args->out;
    s.lse = (float *)args->lse;
    if (all_bf16(args->in)) {
        ISA_NAME(attention_backward_bf16)(&s);
        return;
    }
    s.slot = round_up(args->how->tq, GROUP) * s.wide;
    int64_t room = SHARED_FLOATS / s.slot; /* slots */
    bool in_place = args->grads->dq.dtype == CULM_F32;
    if (in_place && (cpu->threads == 1 || heads >= 4 * cpu->threads || room < 2)) {
        culm_cpu_run(cpu, heads, backward_head_tile, &s);
        return;
    }
    assert(room >= 2);
    s.shares = cpu_shared(cpu);
    int64_t most_blocks = at_most(s.k_blocks, room - 1);
    s.slots = 1 + most_blocks;
    int64_t most_heads = at_least(1, room / s.slots);
    for (s.first_head = 0; s.first_head < heads; s.first_head += s.heads) {
        s.heads = at_most(most_heads, heads - s.first_head);
        for (s.first_block = 0; s.first_block < s.k_blocks; s.first_block += s.n_blocks) {
            s.n_blocks = at_most(most_blocks, s.k_blocks - s.first_block);
            culm_cpu_run(cpu, s.heads * s.n_blocks, backward_block_tile, &s);
            culm_cpu_run(cpu, s.heads * s.q_blocks, backward_fold_tile, &s);
        }
    }
}

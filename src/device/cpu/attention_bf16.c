/*
 * Attention of queries, keys and values in bf16: the tiles of attention.c with products in bf16
 * (strip.h). Scores and what follows from them are f32 until they enter the next product, where
 * they are rounded: probabilities (relative to the running maximum in forward), and the gradient of
 * the scores. The scale is applied to scores, dq and dk in f32.
 *
 * A strip of queries times a block of 128 keys gives pieces [32 keys][queries][32]; the same order
 * is the layout of the left factor of the next product over keys, so forward never moves a
 * probability. Backward puts probabilities and score gradients down in rows as well, from which
 * they are packed the other way round for dk and dv.
 *
 * Bits: dq is one sum over all keys in order, dk and dv over all queries, in the device's flavour;
 * blocks that nobody sees are left out, and what is hidden inside a block counts as zero. So a tile
 * of backward may be a whole head, or one block of keys (dk, dv) and then one of queries (dq),
 * where heads are few or dq has no room in scratch: both give the same.
 */
#include "device/cpu/attention.h"
#include "device/cpu/gemm_amx.h"
#include "device/cpu/gemm_bf16_pack.h"
#include "device/cpu/variant.h"

#include <assert.h>

#define PIECES (BLOCK / STRIP_COLUMNS) /* of 32 keys, in a block */
#define STAGE_LD (BLOCK + 32)          /* elements between rows of what is put down */

struct low {
    struct attention *s;
    struct strip_method method;
    int64_t kblocks;    /* 32 features each */
    int64_t strips;     /* of a block */
    int64_t piece;      /* floats of a piece: rows x 32 */
    int64_t strip_size; /* bytes of a packed strip of 32 terms */
    bool keys, queries; /* backward: whether this run forms dk and dv, and dq */
};

static void *carve(char **at, int64_t bytes) {
    void *here = *at;
    *at += round_up(bytes, 64);
    return here;
}

/* A head's rows of an array, as an operand. */
static struct operand head_rows(const struct attention *s, struct culm_in x, int64_t ld, int64_t t,
                                int64_t sample, int64_t head) {
    int64_t first = row_at(s, ld, t, sample, 0, head) * (int64_t)culm_dtype_bytes(x.dtype);
    return operand_rows((struct culm_in){(const char *)x.data + first, x.dtype}, ld);
}

static void pack_rows(const struct low *l, void *to, struct operand rows, int64_t row,
                      int64_t count) {
    struct product p = {.a = rows};
    pack_strip(&p, &l->method, to, row, count, 0, l->s->d);
}

/* Sixteen elements of a packed strip: slot half of the 32 terms of a k block. */
SIMD void strip_store(const struct low *l, void *strip, int64_t slot, int64_t row, vec x) {
    int64_t at = slot / 2 * l->piece + row * 32 + slot % 2 * LANES;
    if (l->method.wide) {
        vstore((float *)strip + at, ufloat_bits(ushift_left(vround_bf16(x), 16)));
    } else {
        vstore_bf16((uint16_t *)strip + at, x);
    }
}

/* The same slot of a row of scores. */
SIMD float *score_at(const struct low *l, float *scores, int64_t slot, int64_t row) {
    return scores + slot / 2 * l->piece + row * 32 + slot % 2 * LANES;
}

/* How many keys of block kb query `query` may see. */
SIMD int64_t keys_seen(const struct attention *s, int64_t query, int64_t kb, int64_t keys) {
    return s->how.causal ? at_least(0, at_most(keys, query - kb * BLOCK + 1)) : keys;
}

/* ---- forward ---- */

struct softmax {
    float max[BLOCK + STRIP_MOST], sum[BLOCK + STRIP_MOST], hide[BLOCK];
};

/* One query's scores against a block, of which it sees n keys of `keys`: probabilities relative to
 * the new maximum go to the strip, and what was summed before shrinks. */
SIMD void softmax_row(const struct low *l, struct softmax *w, const struct bits *bits,
                      struct drop_bits *random, float *scores, void *strip, float *out, int64_t row,
                      int64_t query, int64_t n, int64_t keys, bool started) {
    const struct attention *s = l->s;
    vec scale = vset(s->scale), top = vset(started ? w->max[query] : -INFINITY);
    for (int64_t slot = 0; slot * LANES < n; slot++) {
        float *at = score_at(l, scores, slot, row);
        vec x = vmul(vload(at), scale);
        if (s->how.mask) {
            x = vadd(x, vload(w->hide + slot * LANES));
        }
        if (n - slot * LANES < LANES) {
            x = vselect(vfirst(n - slot * LANES), x, vset(-INFINITY));
        }
        vstore(at, x);
        top = vmax(top, x);
    }
    float max = vmax_of(top);
    vec sum = vzero(), most = vset(max == -INFINITY ? 0 : max);
#pragma GCC unroll 8
    for (int slot = 0; slot < BLOCK / LANES; slot++) {
        if (slot / 2 * STRIP_COLUMNS >= keys) {
            break;
        }
        vec e = vzero();
        if (slot * LANES < n) {
            e = vexp(vsub(vload(score_at(l, scores, slot, row)), most));
            sum = vadd(sum, e);
            if (bits->on) {
                e = drop_apply(random, slot, bits->threshold, bits->scale, e);
            }
        }
        strip_store(l, strip, slot, row, e);
    }
    float total = vsum(sum);
    if (started) {
        vec shrink = vexp(vsub(vset(w->max[query]), most));
        total = w->sum[query] * vmax_of(shrink) + total;
        if (max != w->max[query]) {
            for (int64_t i = 0; i < l->kblocks; i++, out += l->piece) {
                vstore(out, vmul(vload(out), shrink));
                vstore(out + LANES, vmul(vload(out + LANES), shrink));
            }
        }
    }
    w->max[query] = max;
    w->sum[query] = total;
}

static void forward_store(const struct low *l, const struct softmax *w, const float *out,
                          int64_t sample, int64_t head, int64_t q0, int64_t queries) {
    const struct attention *s = l->s;
    int64_t rows = l->method.rows;
    for (int64_t r = 0; r < queries; r++) {
        bool sees = w->sum[r] > 0;
        vec scale = vset(sees ? 1.0f / w->sum[r] : 0);
        const float *from = out + r / rows * l->kblocks * l->piece + r % rows * 32;
        int64_t to = row_at(s, s->how.c, s->how.tq, sample, q0 + r, head);
        for (int64_t i = 0; i < s->d; i += LANES) {
            vec x = vload(from + i / 32 * l->piece + i % 32);
            tstore_part(s->out, to + i, sees ? vmul(x, scale) : vzero(), s->d - i);
        }
        s->lse[(sample * s->how.heads + head) * s->how.tq + q0 + r] =
            sees ? w->max[r] + (float)culm_cpu_log((double)w->sum[r]) : INFINITY;
    }
}

static void forward_tile(void *context, int64_t tile, int thread) {
    const struct low *l = context;
    const struct attention *s = l->s;
    /* when causal, late blocks have more keys, so they come first */
    int64_t block = s->q_blocks - 1 - tile / (s->how.b * s->how.heads);
    int64_t head = tile % s->how.heads, sample = tile / s->how.heads % s->how.b;
    int64_t q0 = block * BLOCK, queries = at_most(BLOCK, s->how.tq - q0), rows = l->method.rows;
    int64_t all_keys = keys_of(s, sample), blocks = ceil_div(all_keys, BLOCK);
    if (s->how.causal) {
        blocks = at_most(blocks, block + 1);
    }
    char *at = (char *)cpu_private(s->cpu, thread);
    struct softmax *w = carve(&at, sizeof *w);
    char *q = carve(&at, l->strips * l->kblocks * l->strip_size);
    uint16_t *k = carve(&at, l->kblocks * PIECES * 2 * TILE * (int64_t)sizeof *k);
    uint16_t *v = carve(&at, l->kblocks * PIECES * 2 * TILE * (int64_t)sizeof *v);
    float *scores = carve(&at, PIECES * l->piece * (int64_t)sizeof *scores);
    void *p = carve(&at, PIECES * l->strip_size);
    float *out = carve(&at, l->strips * l->kblocks * l->piece * (int64_t)sizeof *out);
    struct operand all_q = head_rows(s, s->in.q, s->in.ldq, s->how.tq, sample, head);
    struct operand all_k = head_rows(s, s->in.k, s->in.ldk, s->how.tk, sample, head);
    struct operand all_v = head_rows(s, s->in.v, s->in.ldv, s->how.tk, sample, head);
    struct bits bits = bits_of(s->how.dropout);

    memset(w->sum, 0, sizeof w->sum);
    for (int64_t r = 0; r < queries; r += rows) {
        pack_rows(l, q + r / rows * l->kblocks * l->strip_size, all_q, q0 + r,
                  at_most(rows, queries - r));
    }
    if (l->method.amx) {
        culm_cpu_amx_begin();
    }
    for (int64_t kb = 0; kb < blocks; kb++) {
        int64_t k0 = kb * BLOCK, keys = at_most(BLOCK, all_keys - k0);
        int64_t pieces = ceil_div(keys, STRIP_COLUMNS);
        pack_b_across(&all_k, k, k0, keys, 0, s->d);
        pack_b_down(&all_v, v, 0, s->d, k0, keys);
        if (s->how.mask) {
            hide_keys(s, w->hide, sample, k0, keys);
        }
        for (int64_t r = 0; r < queries; r += rows) {
            int64_t count = at_most(rows, queries - r);
            float *sums = out + r / rows * l->kblocks * l->piece;
            for (int64_t i = 0; i < pieces; i++) {
                l->method.run(l->kblocks, q + r / rows * l->kblocks * l->strip_size,
                              k + i * l->kblocks * 2 * TILE, scores + i * l->piece, count, false);
            }
            for (int64_t i = 0; i < count; i++) {
                struct drop_bits random;
                if (bits.on) {
                    random = draw(s, sample, head, q0 + r + i, kb);
                }
                softmax_row(l, w, &bits, &random, scores, p, sums + i * 32, i, r + i,
                            keys_seen(s, q0 + r + i, kb, keys), keys, kb > 0);
            }
            for (int64_t i = 0; i < l->kblocks; i++) {
                l->method.run(pieces, p, v + i * pieces * 2 * TILE, sums + i * l->piece, count,
                              kb > 0);
            }
        }
    }
    if (l->method.amx) {
        culm_cpu_amx_end();
    }
    forward_store(l, w, out, sample, head, q0, queries);
}

/* ---- backward ---- */

struct backward {
    uint16_t *k_across, *v_across, *k_down, *q_down, *dout_down;
    void *q, *dout, *turned; /* strips; turned: of p or ds, over 128 terms */
    float *scores, *dp;      /* of a strip */
    uint16_t *p, *ds;        /* [BLOCK][STAGE_LD] */
    float *dk, *dv;          /* [strip][32 features][rows][32] */
    float *dq, *dot;         /* [block] of the same; [query] */
    float hide[BLOCK];
};

/* Bytes for one block of queries: dq and dot. */
static int64_t block_bytes(const struct low *l) {
    return round_up(l->strips * l->kblocks * l->piece * (int64_t)sizeof(float), 64) +
           BLOCK * (int64_t)sizeof(float);
}

/* Lays out a thread's scratch for `blocks` blocks of queries; false when they do not fit. */
static bool backward_room(const struct low *l, struct culm_cpu *cpu, int thread, int64_t blocks,
                          struct backward *w) {
    char *start = (char *)cpu_private(cpu, thread), *at = start;
    int64_t packed = l->kblocks * PIECES * 2 * TILE * (int64_t)sizeof(uint16_t);
    int64_t piece = l->piece * (int64_t)sizeof(float);
    w->k_across = carve(&at, packed);
    w->v_across = carve(&at, packed);
    w->k_down = carve(&at, packed);
    w->q_down = carve(&at, packed);
    w->dout_down = carve(&at, packed);
    w->q = carve(&at, l->kblocks * l->strip_size);
    w->dout = carve(&at, l->kblocks * l->strip_size);
    w->turned = carve(&at, PIECES * l->strip_size);
    w->scores = carve(&at, PIECES * piece);
    w->dp = carve(&at, PIECES * piece);
    w->p = carve(&at, BLOCK * STAGE_LD * (int64_t)sizeof(uint16_t));
    w->ds = carve(&at, BLOCK * STAGE_LD * (int64_t)sizeof(uint16_t));
    w->dk = carve(&at, l->strips * l->kblocks * piece);
    w->dv = carve(&at, l->strips * l->kblocks * piece);
    int64_t left = PRIVATE_FLOATS * (int64_t)sizeof(float) - (at - start);
    w->dot = carve(&at, blocks * BLOCK * (int64_t)sizeof(float));
    w->dq = (float *)(void *)at;
    return blocks * block_bytes(l) <= left;
}

/* Probabilities and score gradients of one query, put down in rows. */
SIMD void backward_row(const struct low *l, struct backward *w, const struct bits *bits,
                       struct drop_bits *random, int64_t row, int64_t query, float lse, float dot,
                       int64_t n) {
    const struct attention *s = l->s;
    vec scale = vset(s->scale), shift = vset(lse), base = vset(dot);
    uint16_t *p = w->p + query * STAGE_LD, *ds = w->ds + query * STAGE_LD;
#pragma GCC unroll 8
    for (int slot = 0; slot < BLOCK / LANES; slot++) {
        vec kept = vzero(), d = vzero();
        if (slot * LANES < n) {
            vec x = vmul(vload(score_at(l, w->scores, slot, row)), scale);
            vec de = vload(score_at(l, w->dp, slot, row));
            if (s->how.mask) {
                x = vadd(x, vload(w->hide + slot * LANES));
            }
            vec e = vexp(vsub(x, shift));
            kept = e;
            if (bits->on) {
                mask dropped = uless(drop_slot(random, slot), bits->threshold);
                kept = vselect(dropped, vzero(), vmul(e, bits->scale));
                de = vselect(dropped, vzero(), vmul(de, bits->scale));
            }
            d = vmul(e, vsub(de, base));
            if (n - slot * LANES < LANES) {
                mask seen = vfirst(n - slot * LANES);
                kept = vselect(seen, kept, vzero());
                d = vselect(seen, d, vzero());
            }
        }
        vstore_bf16(p + slot * LANES, kept);
        vstore_bf16(ds + slot * LANES, d);
    }
}

/* dout . out of the queries of a block. */
static void find_dots(const struct attention *s, float *dot, int64_t sample, int64_t head,
                      int64_t q0, int64_t queries) {
    for (int64_t r = 0; r < queries; r++) {
        int64_t at = row_at(s, s->how.c, s->how.tq, sample, q0 + r, head);
        vec sum = vzero();
        for (int64_t i = 0; i < s->d; i += LANES) {
            sum = vfma(tload_part(s->dout, at + i, s->d - i),
                       tload_part(s->saved_out, at + i, s->d - i), sum);
        }
        dot[r] = vsum(sum);
    }
}

/* sums[strip of keys] += staged^T b, over the queries of a block. */
static void sum_over_queries(const struct low *l, struct backward *w, const uint16_t *staged,
                             const uint16_t *b, float *sums, int64_t keys, int64_t queries,
                             bool resume) {
    struct product p = {.a = operand_rows((struct culm_in){staged, CULM_BF16}, STAGE_LD),
                        .trans_a = true};
    int64_t rows = l->method.rows, kblocks = ceil_div(queries, 32);
    for (int64_t r = 0; r < keys; r += rows) {
        int64_t count = at_most(rows, keys - r);
        pack_strip(&p, &l->method, w->turned, r, count, 0, queries);
        for (int64_t i = 0; i < l->kblocks; i++, sums += l->piece) {
            l->method.run(kblocks, w->turned, b + i * kblocks * 2 * TILE, sums, count, resume);
        }
    }
}

/* Everything between one block of queries and one of keys. */
static void backward_pair(const struct low *l, struct backward *w, int64_t sample, int64_t head,
                          int64_t qb, int64_t kb, int64_t keys, const float *dot, float *dq,
                          bool first_queries) {
    const struct attention *s = l->s;
    int64_t q0 = qb * BLOCK, queries = at_most(BLOCK, s->how.tq - q0), rows = l->method.rows;
    int64_t pieces = ceil_div(keys, STRIP_COLUMNS);
    const float *lse = s->lse + (sample * s->how.heads + head) * s->how.tq + q0;
    struct operand q = head_rows(s, s->in.q, s->in.ldq, s->how.tq, sample, head);
    struct operand dout = head_rows(s, s->dout, s->how.c, s->how.tq, sample, head);
    struct product ds = {.a = operand_rows((struct culm_in){w->ds, CULM_BF16}, STAGE_LD)};
    struct bits bits = bits_of(s->how.dropout);
    for (int64_t r = 0; r < queries; r += rows) {
        int64_t count = at_most(rows, queries - r);
        pack_rows(l, w->q, q, q0 + r, count);
        pack_rows(l, w->dout, dout, q0 + r, count);
        for (int64_t i = 0; i < pieces; i++) {
            l->method.run(l->kblocks, w->q, w->k_across + i * l->kblocks * 2 * TILE,
                          w->scores + i * l->piece, count, false);
            l->method.run(l->kblocks, w->dout, w->v_across + i * l->kblocks * 2 * TILE,
                          w->dp + i * l->piece, count, false);
        }
        for (int64_t i = 0; i < count; i++) {
            struct drop_bits random;
            if (bits.on) {
                random = draw(s, sample, head, q0 + r + i, kb);
            }
            backward_row(l, w, &bits, &random, i, r + i, lse[r + i], dot[r + i],
                         keys_seen(s, q0 + r + i, kb, keys));
        }
        if (l->queries) {
            pack_strip(&ds, &l->method, w->turned, r, count, 0, pieces * STRIP_COLUMNS);
            for (int64_t i = 0; i < l->kblocks; i++, dq += l->piece) {
                l->method.run(pieces, w->turned, w->k_down + i * pieces * 2 * TILE, dq, count,
                              kb > 0);
            }
        }
    }
    if (l->keys) {
        pack_b_down(&q, w->q_down, 0, s->d, q0, queries);
        pack_b_down(&dout, w->dout_down, 0, s->d, q0, queries);
        sum_over_queries(l, w, w->p, w->dout_down, w->dv, keys, queries, !first_queries);
        sum_over_queries(l, w, w->ds, w->q_down, w->dk, keys, queries, !first_queries);
    }
}

/* `rows` rows from `row` on of a head of `to`, of which the first `there` have been summed. */
static void backward_store(const struct low *l, struct culm_out to, int64_t ld, int64_t t,
                           int64_t sample, int64_t head, int64_t row, int64_t rows, int64_t there,
                           const float *sums, float factor) {
    const struct attention *s = l->s;
    vec scale = vset(factor);
    for (int64_t r = 0; r < rows; r++) {
        int64_t at = row_at(s, ld, t, sample, row + r, head), in_strip = r % l->method.rows;
        const float *from = sums + r / l->method.rows * l->kblocks * l->piece + in_strip * 32;
        for (int64_t i = 0; i < s->d; i += LANES) {
            vec x = r < there ? vmul(vload(from + i / 32 * l->piece + i % 32), scale) : vzero();
            tstore_part(to, at + i, x, s->d - i);
        }
    }
}

/* Blocks of keys [kb, kb_end) with blocks of queries [qb, qb_end) of one head. */
static void backward_blocks(const struct low *l, int thread, int64_t sample, int64_t head,
                            int64_t qb, int64_t qb_end, int64_t kb, int64_t kb_end) {
    const struct attention *s = l->s;
    struct backward w;
    bool fits = backward_room(l, s->cpu, thread, qb_end - qb, &w);
    assert(fits || !l->queries);
    int64_t all_keys = keys_of(s, sample), block_floats = l->strips * l->kblocks * l->piece;
    int64_t first_block = qb;
    float dots[BLOCK];
    if (fits) {
        for (int64_t i = qb; i < qb_end; i++) {
            find_dots(s, w.dot + (i - qb) * BLOCK, sample, head, i * BLOCK,
                      at_most(BLOCK, s->how.tq - i * BLOCK));
        }
    }
    struct operand k = head_rows(s, s->in.k, s->in.ldk, s->how.tk, sample, head);
    struct operand v = head_rows(s, s->in.v, s->in.ldv, s->how.tk, sample, head);
    if (l->method.amx) {
        culm_cpu_amx_begin();
    }
    for (; kb < kb_end; kb++) {
        int64_t k0 = kb * BLOCK, keys = at_most(BLOCK, all_keys - k0);
        int64_t first = s->how.causal ? at_least(qb, kb) : qb;
        if (keys > 0 && first < qb_end) {
            pack_b_across(&k, w.k_across, k0, keys, 0, s->d);
            pack_b_across(&v, w.v_across, k0, keys, 0, s->d);
            if (l->queries) {
                pack_b_down(&k, w.k_down, 0, s->d, k0, keys);
            }
            if (s->how.mask) {
                hide_keys(s, w.hide, sample, k0, keys);
            }
        }
        for (int64_t i = first; i < qb_end && keys > 0; i++) {
            const float *dot = w.dot + (i - first_block) * BLOCK;
            if (!fits) {
                find_dots(s, dots, sample, head, i * BLOCK, at_most(BLOCK, s->how.tq - i * BLOCK));
                dot = dots;
            }
            backward_pair(l, &w, sample, head, i, kb, keys, dot,
                          w.dq + (i - first_block) * block_floats, i == first);
        }
        if (l->keys) {
            int64_t rows = at_most(BLOCK, s->how.tk - k0), there = first < qb_end ? keys : 0;
            backward_store(l, s->grads.dk, s->grads.lddk, s->how.tk, sample, head, k0, rows, there,
                           w.dk, s->scale);
            backward_store(l, s->grads.dv, s->grads.lddv, s->how.tk, sample, head, k0, rows, there,
                           w.dv, 1);
        }
    }
    if (l->method.amx) {
        culm_cpu_amx_end();
    }
    for (int64_t i = qb; i < qb_end && l->queries; i++) {
        int64_t rows = at_most(BLOCK, s->how.tq - i * BLOCK);
        backward_store(l, s->grads.dq, s->grads.lddq, s->how.tq, sample, head, i * BLOCK, rows,
                       all_keys ? rows : 0, w.dq + (i - first_block) * block_floats, s->scale);
    }
}

static void backward_head_tile(void *context, int64_t tile, int thread) {
    const struct low *l = context;
    backward_blocks(l, thread, tile / l->s->how.heads, tile % l->s->how.heads, 0, l->s->q_blocks, 0,
                    l->s->k_blocks);
}

static void backward_keys_tile(void *context, int64_t tile, int thread) {
    const struct low *l = context;
    const struct attention *s = l->s;
    int64_t heads = s->how.b * s->how.heads, kb = tile / heads, at = tile % heads;
    backward_blocks(l, thread, at / s->how.heads, at % s->how.heads, 0, s->q_blocks, kb, kb + 1);
}

static void backward_queries_tile(void *context, int64_t tile, int thread) {
    const struct low *l = context;
    const struct attention *s = l->s;
    int64_t heads = s->how.b * s->how.heads, qb = s->q_blocks - 1 - tile / heads;
    int64_t at = tile % heads, end = s->how.causal ? at_most(s->k_blocks, qb + 1) : s->k_blocks;
    backward_blocks(l, thread, at / s->how.heads, at % s->how.heads, qb, qb + 1, 0, end);
}

static struct low describe(struct attention *s) {
    struct low l = {.s = s, .method = ISA_NAME(strip_method)(s->cpu)};
    l.kblocks = ceil_div(s->d, 32);
    l.strips = ceil_div(BLOCK, l.method.rows);
    l.piece = l.method.rows * 32;
    l.strip_size = l.piece * (l.method.wide ? (int64_t)sizeof(float) : (int64_t)sizeof(uint16_t));
    return l;
}

void ISA_NAME(attention_forward_bf16)(struct attention *s) {
    struct low l = describe(s);
    culm_cpu_run(s->cpu, s->how.b * s->how.heads * s->q_blocks, forward_tile, &l);
}

void ISA_NAME(attention_backward_bf16)(struct attention *s) {
    struct low l = describe(s);
    struct backward room;
    int64_t heads = s->how.b * s->how.heads;
    l.keys = l.queries = true;
    if (backward_room(&l, s->cpu, 0, s->q_blocks, &room) &&
        (s->cpu->threads == 1 || heads >= 4 * s->cpu->threads)) {
        culm_cpu_run(s->cpu, heads, backward_head_tile, &l);
        return;
    }
    l.queries = false;
    culm_cpu_run(s->cpu, heads * s->k_blocks, backward_keys_tile, &l);
    l.keys = false;
    l.queries = true;
    culm_cpu_run(s->cpu, heads * s->q_blocks, backward_queries_tile, &l);
}

/*
 * Additive attention after Bahdanau, Cho and Bengio (2014), normalised as in NVIDIA's GNMT:
 *
 *     score[t,s] = sum over a of vhat[a] tanh(query[t,a] + key[s,a] + bias[a]),
 *     vhat = v scale / |v|,  p = softmax over the keys within the length,  context = p value
 *
 * All of it is the tanh. With z = query + key + bias it is 1 - 2 r, r = 1 / (e^2z + 1), and e^2z is
 * a product of one factor per query and one per key, made once for each; four vectors of r share
 * one division, their product's: e^2z is cut at 1e9, so that it cannot overflow, where 2 r is
 * 2e-9. Groups of 64 columns in which |query + bias| or |key| is above 20 somewhere take tanh
 * itself, since a factor would overflow. So tanh is within 1e-6 everywhere.
 *
 *     forward   a tile is some queries of a sample: scores, 64 columns after the other,
 *               probabilities, context
 *     backward  d scores like that; then d value by columns of value; then d query, d key and the
 *               parameters' parts by groups of 64 columns, for which all is independent
 *
 * Bits: a score's sum runs in 16 lanes over the columns in order, folded by halves; sums over keys
 * and over queries are chains in order, sums over samples are added in order.
 */
#include "device/cpu/functions.h"
#include "device/cpu/variant.h"

#include <assert.h>

#define GROUP 64 /* columns: four vectors */
#define QUERIES 16
#define BIG 20.0f
#define MOST 1e9f /* of e^2z */

struct bahdanau {
    struct culm_cpu *cpu;
    struct culm_bahdanau how;
    struct culm_bahdanau_inputs in;
    struct culm_bahdanau_grads grads;
    struct culm_out context;
    struct culm_in dcontext;
    float *probabilities, *ds;
    float *vhat;  /* [width]: zeros past a */
    float *parts; /* [b][2][width]: of vhat, of bias */
    float vsum;   /* of vhat */
    int64_t width, queries;
    bool first;
};

static int64_t length_of(const struct bahdanau *s, int64_t b) {
    int64_t length = s->how.length ? s->how.length[b] : s->how.s;
    return at_least(0, at_most(length, s->how.s));
}

/* --- one group of columns --- */

/* One row's factors e^2(x + bias), and whether one is too large to be one. Past the end: zeros. */
SIMD bool row_factors(float *to, struct culm_in x, int64_t at, const float *bias, int64_t left) {
    vec most = vzero();
    for (int64_t i = 0; i < GROUP; i += LANES) {
        vec z = vzero();
        if (i < left) {
            z = tload_part(x, at + i, left - i);
            if (bias) {
                z = vadd(z, load_part(bias + i, left - i));
            }
        }
        most = vmax(most, vabs(z));
        vstore(to + i, vexp(vadd(z, z)));
    }
    return vmax_of(most) > BIG;
}

/* r of four vectors from their e^2z. */
SIMD void reciprocals(vec r[4], const vec e[4]) {
    vec x[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        x[i] = vadd(vmin(vset(MOST), e[i]), vset(1.0f));
    }
    vec low = vmul(x[0], x[1]), high = vmul(x[2], x[3]);
    vec all = vdiv(vset(1.0f), vmul(low, high));
    low = vmul(all, low);
    high = vmul(all, high);
    r[0] = vmul(high, x[1]);
    r[1] = vmul(high, x[0]);
    r[2] = vmul(low, x[3]);
    r[3] = vmul(low, x[2]);
}

/* The same where a factor would overflow. */
static __attribute__((noinline)) void reciprocals_big(vec r[4], const struct bahdanau *s,
                                                      int64_t query, int64_t key, int64_t column) {
    for (int64_t i = 0; i < 4; i++) {
        int64_t at = column + i * LANES, left = s->how.a - at;
        r[i] = vzero();
        if (left <= 0) {
            continue;
        }
        vec z = vadd(tload_part(s->in.query, query * s->how.a + at, left),
                     load_part(s->in.bias + at, left));
        z = vadd(z, tload_part(s->in.key, key * s->how.a + at, left));
        r[i] = vfnma(vtanh_full(z), vset(0.5f), vset(0.5f));
    }
}

/* The factors of all keys of a sample in one group of columns. */
struct keys {
    float *factor; /* [s][GROUP] */
    bool *big;     /* [s] */
};

static void load_keys(const struct bahdanau *s, const struct keys *keys, int64_t b, int64_t length,
                      int64_t column) {
    for (int64_t j = 0; j < length; j++) {
        keys->big[j] = row_factors(keys->factor + j * GROUP, s->in.key,
                                   (b * s->how.s + j) * s->how.a + column, NULL, s->how.a - column);
    }
}

_Static_assert(CULM_CPU_MAX_BAHDANAU_KEYS *(2 * GROUP + 1) + 4 * LANES <= PRIVATE_FLOATS,
               "a tile's scratch");

/* Parts of a thread's scratch. */
static float *take(float **scratch, int64_t floats) {
    float *part = *scratch;
    *scratch += round_up(floats, LANES);
    return part;
}

static struct keys take_keys(const struct bahdanau *s, float **scratch) {
    struct keys keys = {.factor = take(scratch, s->how.s * GROUP)};
    keys.big = (bool *)take(scratch, ceil_div(s->how.s, (int64_t)sizeof(float)));
    return keys;
}

/* --- forward --- */

/* sums[query][s]: vectors, of vhat r over the columns so far. */
static void score_group(const struct bahdanau *s, const struct keys *keys, float *sums, int64_t b,
                        int64_t t0, int64_t queries, int64_t length, int64_t column) {
    float factor[GROUP];
    vec vhat[4];
    for (int i = 0; i < 4; i++) {
        vhat[i] = vload(s->vhat + column + i * LANES);
    }
    for (int64_t q = 0; q < queries; q++) {
        int64_t query = b * s->how.t + t0 + q;
        bool big = row_factors(factor, s->in.query, query * s->how.a + column, s->in.bias + column,
                               s->how.a - column);
        for (int64_t j = 0; j < length; j++) {
            float *sum = sums + (q * s->how.s + j) * LANES;
            vec e[4], r[4], total = column ? vload(sum) : vzero();
            if (big || keys->big[j]) {
                reciprocals_big(r, s, query, b * s->how.s + j, column);
            } else {
#pragma GCC unroll 4
                for (int i = 0; i < 4; i++) {
                    e[i] = vmul(vload(factor + i * LANES),
                                vload(keys->factor + j * GROUP + i * LANES));
                }
                reciprocals(r, e);
            }
#pragma GCC unroll 4
            for (int i = 0; i < 4; i++) {
                total = vfma(vhat[i], r[i], total);
            }
            vstore(sum, total);
        }
    }
}

/* p[s] from the sums of one query; zeros past the length. */
static void softmax_row(const struct bahdanau *s, float *p, const float *sums, int64_t length) {
    float max = -INFINITY;
    for (int64_t j = 0; j < s->how.s; j++) {
        p[j] = j < length ? s->vsum - 2.0f * vsum(vload(sums + j * LANES)) : 0.0f;
    }
    for (int64_t j = 0; j < length; j++) {
        max = p[j] > max ? p[j] : max;
    }
    vec sum = vzero();
    for (int64_t j = 0; j < length; j += LANES) {
        vec e = vexp(vsub(load_part(p + j, length - j), vset(max)));
        if (length - j < LANES) {
            e = vselect(vfirst(length - j), e, vzero());
        }
        sum = vadd(sum, e);
        store_part(p + j, e, length - j);
    }
    vec scale = vset(1.0f / vsum(sum));
    for (int64_t j = 0; j < length; j += LANES) {
        store_part(p + j, vmul(load_part(p + j, length - j), scale), length - j);
    }
}

#define ROWS 4 /* of a register tile, by GROUP columns */

/* to[rows][GROUP columns from `column`] = sum over k of w[k w_k + row w_row] x[k][column..]. Rows
 * of `to` and x have `c` elements. */
static void weighted_rows(struct culm_out to, int64_t to_row, int64_t rows, const float *w,
                          int64_t w_k, int64_t w_row, struct culm_in x, int64_t x_row,
                          int64_t count, int64_t c, int64_t column) {
    for (int64_t r0 = 0; r0 < rows; r0 += ROWS) {
        int64_t n = at_most(ROWS, rows - r0);
        vec acc[ROWS][4];
        for (int r = 0; r < ROWS; r++) {
            for (int i = 0; i < 4; i++) {
                acc[r][i] = vzero();
            }
        }
        for (int64_t k = 0; k < count; k++) {
            vec weight[ROWS];
#pragma GCC unroll 4
            for (int r = 0; r < ROWS; r++) {
                weight[r] = vset(w[k * w_k + (r0 + (r < n ? r : 0)) * w_row]);
            }
#pragma GCC unroll 4
            for (int i = 0; i < 4; i++) {
                int64_t left = c - column - i * LANES;
                if (left <= 0) {
                    break;
                }
                vec row = tload_part(x, (x_row + k) * c + column + i * LANES, left);
#pragma GCC unroll 4
                for (int r = 0; r < ROWS; r++) {
                    acc[r][i] = vfma(weight[r], row, acc[r][i]);
                }
            }
        }
        for (int64_t r = 0; r < n; r++) {
            for (int i = 0; i < 4 && c - column - i * LANES > 0; i++) {
                tstore_part(to, (to_row + r0 + r) * c + column + i * LANES, acc[r][i],
                            c - column - i * LANES);
            }
        }
    }
}

static void forward_tile(void *context, int64_t tile, int thread) {
    struct bahdanau *s = context;
    float *scratch = cpu_private(s->cpu, thread);
    struct keys keys = take_keys(s, &scratch);
    int64_t blocks = ceil_div(s->how.t, s->queries), b = tile / blocks;
    int64_t t0 = tile % blocks * s->queries, queries = at_most(s->queries, s->how.t - t0);
    int64_t length = length_of(s, b);
    for (int64_t column = 0; column < s->how.a; column += GROUP) {
        load_keys(s, &keys, b, length, column);
        score_group(s, &keys, scratch, b, t0, queries, length, column);
    }
    float *p = s->probabilities + (b * s->how.t + t0) * s->how.s;
    for (int64_t q = 0; q < queries; q++) {
        softmax_row(s, p + q * s->how.s, scratch + q * s->how.s * LANES, length);
    }
    for (int64_t column = 0; column < s->how.c; column += GROUP) {
        weighted_rows(s->context, b * s->how.t + t0, queries, p, 1, s->how.s, s->in.value,
                      b * s->how.s, length, s->how.c, column);
    }
}

static double norm_of(const struct bahdanau *s) {
    double squares = 0;
    for (int64_t i = 0; i < s->how.a; i++) {
        squares += (double)s->in.v[i] * (double)s->in.v[i];
    }
    return sqrt(squares);
}

/* *work: at least a + GROUP floats, for vhat. */
static struct bahdanau describe(struct culm_cpu *cpu, const struct culm_bahdanau_inputs *in,
                                const struct culm_bahdanau *how, float *work) {
    struct bahdanau s = {.cpu = cpu, .how = *how, .in = *in, .vhat = work};
    assert(how->s <= CULM_CPU_MAX_BAHDANAU_KEYS && how->a <= CULM_CPU_MAX_WIDTH);
    s.width = round_up(how->a, GROUP);
    int64_t room = PRIVATE_FLOATS - how->s * (GROUP + 1) - 2 * LANES;
    s.queries = at_least(1, at_most(QUERIES, room / (how->s * LANES)));
    double norm = norm_of(&s), sum = 0;
    for (int64_t i = 0; i < s.width; i++) {
        bool there = i < how->a && norm > 0;
        s.vhat[i] = there ? (float)((double)in->v[i] * (double)in->scale[0] / norm) : 0.0f;
        sum += (double)s.vhat[i];
    }
    s.vsum = (float)sum;
    return s;
}

void ISA_NAME(bahdanau_forward)(struct culm_cpu *cpu,
                                const struct culm_bahdanau_forward_args *args) {
    struct bahdanau s = describe(cpu, args->in, args->how, cpu_shared(cpu));
    s.context = args->context;
    s.probabilities = args->probabilities;
    culm_cpu_run(cpu, args->how->b * ceil_div(args->how->t, s.queries), forward_tile, &s);
}

/* --- backward --- */

/* Dot products of up to ROWS rows of x with ROWS rows of y, c elements each. */
static void dots(float to[ROWS][ROWS], struct culm_in x, int64_t x_row, int64_t xs,
                 struct culm_in y, int64_t y_row, int64_t ys, int64_t c) {
    vec acc[ROWS][ROWS];
    for (int i = 0; i < ROWS; i++) {
        for (int j = 0; j < ROWS; j++) {
            acc[i][j] = vzero();
        }
    }
    for (int64_t at = 0; at < c; at += LANES) {
        vec row[ROWS];
#pragma GCC unroll 4
        for (int j = 0; j < ROWS; j++) {
            row[j] = tload_part(y, (y_row + (j < ys ? j : 0)) * c + at, c - at);
        }
#pragma GCC unroll 4
        for (int i = 0; i < ROWS; i++) {
            vec other = tload_part(x, (x_row + (i < xs ? i : 0)) * c + at, c - at);
#pragma GCC unroll 4
            for (int j = 0; j < ROWS; j++) {
                acc[i][j] = vfma(other, row[j], acc[i][j]);
            }
        }
    }
    for (int i = 0; i < ROWS; i++) {
        for (int j = 0; j < ROWS; j++) {
            to[i][j] = vsum(acc[i][j]);
        }
    }
}

/* d scores of some queries of one sample. */
static void scores_tile(void *context, int64_t tile, int thread) {
    struct bahdanau *s = context;
    (void)thread;
    int64_t blocks = ceil_div(s->how.t, ROWS), b = tile / blocks, t0 = tile % blocks * ROWS;
    int64_t queries = at_most(ROWS, s->how.t - t0), length = length_of(s, b);
    int64_t row = b * s->how.t + t0;
    float *ds = s->ds + row * s->how.s;
    const float *p = s->probabilities + row * s->how.s;
    for (int64_t j = 0; j < s->how.s; j += ROWS) {
        float to[ROWS][ROWS];
        dots(to, s->dcontext, row, queries, s->in.value, b * s->how.s + j,
             at_most(ROWS, s->how.s - j), s->how.c);
        for (int64_t q = 0; q < queries; q++) {
            for (int64_t i = 0; i < at_most(ROWS, s->how.s - j); i++) {
                ds[q * s->how.s + j + i] = j + i < length ? to[q][i] : 0.0f;
            }
        }
    }
    for (int64_t q = 0; q < queries; q++, ds += s->how.s, p += s->how.s) {
        vec sum = vzero();
        for (int64_t j = 0; j < s->how.s; j += LANES) {
            sum = vfma(load_part(p + j, s->how.s - j), load_part(ds + j, s->how.s - j), sum);
        }
        vec mean = vset(vsum(sum));
        for (int64_t j = 0; j < s->how.s; j += LANES) {
            int64_t left = s->how.s - j;
            store_part(ds + j, vmul(load_part(p + j, left), vsub(load_part(ds + j, left), mean)),
                       left);
        }
    }
}

static void value_tile(void *context, int64_t tile, int thread) {
    struct bahdanau *s = context;
    (void)thread;
    int64_t strips = ceil_div(s->how.c, GROUP), b = tile / strips;
    weighted_rows(s->grads.dvalue, b * s->how.s, s->how.s,
                  s->probabilities + b * s->how.t * s->how.s, s->how.s, 1, s->dcontext,
                  b * s->how.t, s->how.t, s->how.c, tile % strips * GROUP);
}

/* A row of four vectors, times 4 vhat: d tanh is 4 (r - r^2). */
static void store_row(const struct bahdanau *s, struct culm_out to, int64_t row, int64_t column,
                      const vec sum[4]) {
    for (int64_t i = 0; i < 4; i++) {
        int64_t at = column + i * LANES, left = s->how.a - at;
        vec by = vmul(vload(s->vhat + at), vset(4.0f));
        if (left > 0) {
            tstore_part(to, row * s->how.a + at, vmul(sum[i], by), left);
        }
    }
}

/* d query, d key and this sample's parts of the parameters' gradients, for 64 columns. */
static void columns_tile(void *context, int64_t tile, int thread) {
    struct bahdanau *s = context;
    float *scratch = cpu_private(s->cpu, thread), factor[GROUP];
    struct keys keys = take_keys(s, &scratch);
    float *dkeys = take(&scratch, s->how.s * GROUP);
    int64_t groups = s->width / GROUP, b = tile / groups, column = tile % groups * GROUP;
    int64_t length = length_of(s, b);
    vec dvhat[4], dbias[4];
    for (int i = 0; i < 4; i++) {
        dvhat[i] = dbias[i] = vzero();
    }
    memset(dkeys, 0, (size_t)(s->how.s * GROUP) * sizeof *dkeys);
    load_keys(s, &keys, b, length, column);
    for (int64_t t = 0; t < s->how.t; t++) {
        int64_t query = b * s->how.t + t;
        bool big = row_factors(factor, s->in.query, query * s->how.a + column, s->in.bias + column,
                               s->how.a - column);
        const float *ds = s->ds + query * s->how.s;
        vec dquery[4];
        for (int i = 0; i < 4; i++) {
            dquery[i] = vzero();
        }
        for (int64_t j = 0; j < length; j++) {
            vec e[4], r[4], d = vset(ds[j]);
            float *dkey = dkeys + j * GROUP;
            if (big || keys.big[j]) {
                reciprocals_big(r, s, query, b * s->how.s + j, column);
            } else {
#pragma GCC unroll 4
                for (int i = 0; i < 4; i++) {
                    e[i] =
                        vmul(vload(factor + i * LANES), vload(keys.factor + j * GROUP + i * LANES));
                }
                reciprocals(r, e);
            }
#pragma GCC unroll 4
            for (int i = 0; i < 4; i++) {
                vec slope = vfnma(r[i], r[i], r[i]);
                dquery[i] = vfma(d, slope, dquery[i]);
                vstore(dkey + i * LANES, vfma(d, slope, vload(dkey + i * LANES)));
                dvhat[i] = vfma(d, vfnma(vset(2.0f), r[i], vset(1.0f)), dvhat[i]);
            }
        }
        store_row(s, s->grads.dquery, query, column, dquery);
        for (int i = 0; i < 4; i++) {
            dbias[i] = vadd(dbias[i], dquery[i]);
        }
    }
    for (int64_t j = 0; j < s->how.s; j++) {
        vec dkey[4];
        for (int i = 0; i < 4; i++) {
            dkey[i] = vload(dkeys + j * GROUP + i * LANES);
        }
        store_row(s, s->grads.dkey, b * s->how.s + j, column, dkey);
    }
    float *parts = s->parts + b * 2 * s->width + column;
    for (int i = 0; i < 4; i++) {
        vstore(parts + i * LANES, dvhat[i]);
        vec by = vmul(vload(s->vhat + column + i * LANES), vset(4.0f));
        vstore(parts + s->width + i * LANES, vmul(dbias[i], by));
    }
}

/* Adds the samples' parts into those of sample 0. */
static void fold_tile(void *context, int64_t tile, int thread) {
    struct bahdanau *s = context;
    (void)thread;
    float *sum = s->parts + tile * LANES;
    for (int64_t b = 1; b < s->how.b; b++) {
        vstore(sum, vadd(vload(sum), vload(sum + b * 2 * s->width)));
    }
}

/* From d vhat to v and scale; and bias. */
static void give_parameters(const struct bahdanau *s) {
    double norm = norm_of(s), scale = (double)s->in.scale[0], along = 0;
    const float *dvhat = s->parts, *dbias = s->parts + s->width;
    const struct culm_bahdanau_grads *g = &s->grads;
    for (int64_t i = 0; i < s->how.a; i++) {
        along += (double)dvhat[i] * (double)s->in.v[i];
    }
    double inverse = norm > 0 ? 1 / norm : 0;
    for (int64_t i = 0; i < s->how.a; i++) {
        double d = (double)dvhat[i] - (double)s->in.v[i] * along * inverse * inverse;
        float dv = (float)(scale * inverse * d);
        g->dv[i] = s->first ? dv : g->dv[i] + dv;
        g->dbias[i] = s->first ? dbias[i] : g->dbias[i] + dbias[i];
    }
    float dscale = (float)(along * inverse);
    g->dscale[0] = s->first ? dscale : g->dscale[0] + dscale;
}

void ISA_NAME(bahdanau_backward)(struct culm_cpu *cpu,
                                 const struct culm_bahdanau_backward_args *args) {
    float *work = args->work;
    const float *end = work + culm_cpu_bahdanau_backward_floats(args->how);
    float *vhat = take(&work, round_up(args->how->a, GROUP));
    struct bahdanau s = describe(cpu, args->in, args->how, vhat);
    s.grads = *args->grads;
    s.dcontext = args->dcontext;
    s.probabilities = (float *)args->probabilities;
    s.first = args->first;
    s.ds = take(&work, args->how->b * args->how->t * args->how->s);
    s.parts = take(&work, args->how->b * 2 * s.width);
    assert(work <= end);
    culm_cpu_run(cpu, args->how->b * ceil_div(args->how->t, ROWS), scores_tile, &s);
    culm_cpu_run(cpu, args->how->b * ceil_div(args->how->c, GROUP), value_tile, &s);
    culm_cpu_run(cpu, args->how->b * (s.width / GROUP), columns_tile, &s);
    culm_cpu_run(cpu, 2 * s.width / LANES, fold_tile, &s);
    give_parameters(&s);
}

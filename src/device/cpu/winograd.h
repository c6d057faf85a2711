/*
 * Winograd's F(4x4, 3x3): sixteen outputs of a 3x3 filter from 36 products instead of 144 (Lavin
 * and Gray, "Fast algorithms for convolutional neural networks"). One dimension, with A, G and B of
 * the interpolation points 0, a, -a, b, -b and infinity:
 *
 *     y (4) = A^T [ (G g) * (B^T d) ]      d: 6 inputs, g: 3 weights
 *
 * and both dimensions are transformed alike. a = 5/8 and b = 3/2 instead of the usual 1 and 2 keep
 * the error near that of a direct sum (a third of the usual points': about 3e-6 of the largest
 * output at 512 channels).
 *
 * For each of the 36 places of a transformed tile, sums over channels (or over tiles, for the
 * weights' gradient) are matrix products. Channels, tiles and outputs are worked on in blocks whose
 * transforms stay in the second-level cache:
 *
 *     V[36][tiles][BLOCK]                  transformed inputs
 *     U[36][BLOCK / WIDTH][BLOCK][WIDTH]   transformed weights, as panels of matrix products
 *     M[36][tiles][BLOCK]                  their products
 *
 * Bits: an element of M is chains of fused multiply-adds over BLOCK channels, added in order.
 */
#ifndef CULM_DEVICE_CPU_WINOGRAD_H
#define CULM_DEVICE_CPU_WINOGRAD_H

#include "device/cpu/conv.h"
#include "device/cpu/internal.h"
#include "device/cpu/transpose.h"

#define PLACES 36
#define BLOCK 64 /* channels */
/* Between places: an odd number of cache lines, so that the 36 do not share a cache set. */
#define U_STRIDE (BLOCK * BLOCK + 16)

/* The register tile: ROWS x WIDTH. Chains are short here, so a wide panel stays in the first-level
 * cache and the loop needs few loads. */
#define ROWS 6
#if SIMD_REGISTERS == 32
#define VECTORS 4
#else
#define VECTORS 1
#endif
#define WIDTH (VECTORS * LANES)

#define POINT_A 0.625f
#define POINT_B 1.5f
#define A2 (POINT_A * POINT_A)
#define B2 (POINT_B * POINT_B)
#define SCALE_0 (1.0f / (A2 * B2))
#define SCALE_A (1.0f / (2 * A2 * (A2 - B2)))
#define SCALE_B (1.0f / (2 * B2 * (B2 - A2)))

/* c[mr][nv vectors] = or += the chain over k terms; row r, term i of `a` at a[r rs + i ks], rows of
 * c BLOCK apart. Fetches a cache line from `ahead` on for each term: what the next calls will need.
 */
SIMD void winograd_chain(int mr, int nv, int64_t rs, int64_t ks, int64_t k, const float *a,
                         const float *b, float *c, bool add, const float *ahead) {
    vec acc[ROWS][VECTORS];
#pragma GCC unroll 8
    for (int r = 0; r < mr; r++)
#pragma GCC unroll 4
        for (int v = 0; v < nv; v++) {
            acc[r][v] = vzero();
        }
#pragma GCC unroll 2
    for (int64_t i = 0; i < k; i++) {
        vec bv[VECTORS];
#pragma GCC unroll 4
        for (int v = 0; v < nv; v++) {
            bv[v] = vload(b + v * LANES);
        }
        __builtin_prefetch(ahead);
        ahead += 16;
#pragma GCC unroll 8
        for (int r = 0; r < mr; r++) {
            vec av = vset(a[r * rs]);
#pragma GCC unroll 4
            for (int v = 0; v < nv; v++) {
                acc[r][v] = vfma(av, bv[v], acc[r][v]);
            }
        }
        a += ks;
        b += WIDTH;
    }
#pragma GCC unroll 8
    for (int r = 0; r < mr; r++)
#pragma GCC unroll 4
        for (int v = 0; v < nv; v++) {
            float *to = c + r * BLOCK + v * LANES;
            vstore(to, add ? vadd(vload(to), acc[r][v]) : acc[r][v]);
        }
}

typedef void winograd_micro(int64_t k, const float *a, const float *b, float *c, bool add,
                            const float *ahead);
struct winograd_micros {
    int rows;
    winograd_micro *run[VECTORS]; /* of 1, 2, .. vectors */
};

/* Defines winograd_micros[] for a layout of `a`. */
#define WINOGRAD_MICRO(mr, nv, rs, ks)                                                             \
    static void micro_##mr##_##nv(int64_t k, const float *a, const float *b, float *c, bool add,   \
                                  const float *ahead) {                                            \
        winograd_chain(mr, nv, rs, ks, k, a, b, c, add, ahead);                                    \
    }
#if VECTORS == 4
#define WINOGRAD_ROW(mr, rs, ks)                                                                   \
    WINOGRAD_MICRO(mr, 1, rs, ks)                                                                  \
    WINOGRAD_MICRO(mr, 2, rs, ks) WINOGRAD_MICRO(mr, 3, rs, ks) WINOGRAD_MICRO(mr, 4, rs, ks)
#define WINOGRAD_RUN(mr)                                                                           \
    {                                                                                              \
        mr, { micro_##mr##_1, micro_##mr##_2, micro_##mr##_3, micro_##mr##_4 }                     \
    }
#else
#define WINOGRAD_ROW(mr, rs, ks) WINOGRAD_MICRO(mr, 1, rs, ks)
#define WINOGRAD_RUN(mr)                                                                           \
    {                                                                                              \
        mr, { micro_##mr##_1 }                                                                     \
    }
#endif
#define WINOGRAD_MICROS(rs, ks)                                                                    \
    WINOGRAD_ROW(6, rs, ks)                                                                        \
    WINOGRAD_ROW(4, rs, ks)                                                                        \
    WINOGRAD_ROW(2, rs, ks)                                                                        \
    WINOGRAD_ROW(1, rs, ks)                                                                        \
    static const struct winograd_micros winograd_micros[] = {WINOGRAD_RUN(6), WINOGRAD_RUN(4),     \
                                                             WINOGRAD_RUN(2), WINOGRAD_RUN(1)};

/* t = B^T d */
SIMD void winograd_input(const vec d[6], vec t[6]) {
    t[0] = vfma(d[0], vset(A2 * B2), vfma(d[2], vset(-(A2 + B2)), d[4]));
    vec even = vfma(d[2], vset(-B2), d[4]), odd = vfma(d[1], vset(-B2), d[3]);
    t[1] = vfma(odd, vset(POINT_A), even);
    t[2] = vfnma(odd, vset(POINT_A), even);
    even = vfma(d[2], vset(-A2), d[4]), odd = vfma(d[1], vset(-A2), d[3]);
    t[3] = vfma(odd, vset(POINT_B), even);
    t[4] = vfnma(odd, vset(POINT_B), even);
    t[5] = vfma(d[1], vset(A2 * B2), vfma(d[3], vset(-(A2 + B2)), d[5]));
}

/* y = A^T m */
SIMD void winograd_output(const vec m[6], vec y[4]) {
    vec sum_a = vadd(m[1], m[2]), difference_a = vsub(m[1], m[2]);
    vec sum_b = vadd(m[3], m[4]), difference_b = vsub(m[3], m[4]);
    y[0] = vadd(vadd(m[0], sum_a), sum_b);
    y[1] = vfma(difference_b, vset(POINT_B), vmul(difference_a, vset(POINT_A)));
    y[2] = vfma(sum_b, vset(B2), vmul(sum_a, vset(A2)));
    y[3] = vfma(difference_b, vset(POINT_B * B2), vfma(difference_a, vset(POINT_A * A2), m[5]));
}

/* m = A y */
SIMD void winograd_spread(const vec y[4], vec m[6]) {
    m[0] = y[0];
    vec even = vfma(y[2], vset(A2), y[0]), odd = vfma(y[3], vset(A2), y[1]);
    m[1] = vfma(odd, vset(POINT_A), even);
    m[2] = vfnma(odd, vset(POINT_A), even);
    even = vfma(y[2], vset(B2), y[0]), odd = vfma(y[3], vset(B2), y[1]);
    m[3] = vfma(odd, vset(POINT_B), even);
    m[4] = vfnma(odd, vset(POINT_B), even);
    m[5] = y[3];
}

/* u = G g */
SIMD void winograd_filter(const vec g[3], vec u[6]) {
    u[0] = vmul(g[0], vset(SCALE_0));
    vec even = vfma(g[2], vset(A2 * SCALE_A), vmul(g[0], vset(SCALE_A)));
    u[1] = vfma(g[1], vset(POINT_A * SCALE_A), even);
    u[2] = vfnma(g[1], vset(POINT_A * SCALE_A), even);
    even = vfma(g[2], vset(B2 * SCALE_B), vmul(g[0], vset(SCALE_B)));
    u[3] = vfma(g[1], vset(POINT_B * SCALE_B), even);
    u[4] = vfnma(g[1], vset(POINT_B * SCALE_B), even);
    u[5] = g[2];
}

/* g = G^T s */
SIMD void winograd_gather(const vec s[6], vec g[3]) {
    vec sum_a = vadd(s[1], s[2]), difference_a = vsub(s[1], s[2]);
    vec sum_b = vadd(s[3], s[4]), difference_b = vsub(s[3], s[4]);
    g[0] = vfma(sum_b, vset(SCALE_B), vfma(sum_a, vset(SCALE_A), vmul(s[0], vset(SCALE_0))));
    g[1] = vfma(difference_b, vset(POINT_B * SCALE_B), vmul(difference_a, vset(POINT_A * SCALE_A)));
    g[2] = vfma(sum_b, vset(B2 * SCALE_B), vfma(sum_a, vset(A2 * SCALE_A), s[5]));
}

/*
 * Both dimensions: each column goes, as it is loaded, through winograd_column; winograd_rows does the rows
 * and stores the 36 results `place` floats apart.
 */
enum winograd_kind { WINOGRAD_INPUT, WINOGRAD_SPREAD, WINOGRAD_FILTER }; /* of 6, 4 and 3 */

SIMD void winograd_line(const enum winograd_kind kind, const vec *from, vec to[6]) {
    if (kind == WINOGRAD_INPUT) {
        winograd_input(from, to);
    } else if (kind == WINOGRAD_SPREAD) {
        winograd_spread(from, to);
    } else {
        winograd_filter(from, to);
    }
}

SIMD void winograd_column(const enum winograd_kind kind, const vec *from, const int j,
                          vec part[6][6]) {
    vec r[6];
    winograd_line(kind, from, r);
#pragma GCC unroll 6
    for (int i = 0; i < 6; i++) {
        part[i][j] = r[i];
    }
}

SIMD void winograd_rows(const enum winograd_kind kind, vec part[6][6], float *to, int64_t place) {
#pragma GCC unroll 6
    for (int i = 0; i < 6; i++) {
        vec r[6];
        winograd_line(kind, part[i], r);
#pragma GCC unroll 6
        for (int j = 0; j < 6; j++) {
            vstore(to + (i * 6 + j) * place, r[j]);
        }
    }
}

/* The columns of products, which lie `place` floats apart; line i of the tile is then
 * winograd_output(part[i]). */
SIMD void winograd_output_columns(const float *m, int64_t place, vec part[4][6]) {
#pragma GCC unroll 6
    for (int j = 0; j < 6; j++) {
        vec column[6], r[4];
#pragma GCC unroll 6
        for (int i = 0; i < 6; i++) {
            column[i] = vload(m + (i * 6 + j) * place);
        }
        winograd_output(column, r);
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            part[i][j] = r[i];
        }
    }
}

/* An image cut into tiles of 4x4, seen with some of its surroundings. */
struct tiled {
    int64_t height, width, channels; /* of the image */
    int64_t lines, columns;          /* tiles of one image */
    int64_t origin[2];               /* the pixel at which the first tile's view starts */
};

struct tile_place {
    int64_t image, y, x; /* first pixel of the view, maybe outside */
};

SIMD struct tile_place tile_at(const struct tiled *t, int64_t tile) {
    int64_t column = tile % t->columns, line = tile / t->columns % t->lines;
    return (struct tile_place){.image = tile / t->columns / t->lines,
                               .y = line * 4 + t->origin[0],
                               .x = column * 4 + t->origin[1]};
}

/*
 * Transforms `count` channels from channel c of a tile's view of size x size pixels (6: B^T d B;
 * 4: A d A^T); zeros outside the image, and in lanes past the last channel. The 36 results go
 * `stride` floats apart; each has its channels side by side up to `run`, then skip - run further.
 */
SIMD void winograd_tile(const struct tiled *t, const void *data, bool half, int size, int64_t tile,
                        int64_t c, int64_t count, float *to, int64_t stride, int64_t run,
                        int64_t skip) {
    static const float zeros[BLOCK];
    struct tile_place at = tile_at(t, tile);
    const char *from[36];
    int64_t bytes = half ? 2 : 4;
    for (int i = 0; i < size; i++) {
        for (int j = 0; j < size; j++) {
            int64_t y = at.y + i, x = at.x + j;
            bool inside = y >= 0 && y < t->height && x >= 0 && x < t->width;
            int64_t pixel = (at.image * t->height + y) * t->width + x;
            from[i * size + j] = inside ? (const char *)data + (pixel * t->channels + c) * bytes
                                        : (const char *)zeros;
        }
    }
    const enum winograd_kind kind = size == 6 ? WINOGRAD_INPUT : WINOGRAD_SPREAD;
    for (int64_t i = 0; i < count; i += LANES) {
        int64_t left = count - i;
        vec part[6][6];
#pragma GCC unroll 6
        for (int j = 0; j < size; j++) {
            vec d[6];
#pragma GCC unroll 6
            for (int k = 0; k < size; k++) {
                struct culm_in in = {from[k * size + j], half ? CULM_BF16 : CULM_F32};
                d[k] = left >= LANES ? tload(in, i) : tload_part(in, i, left);
            }
            winograd_column(kind, d, j, part);
        }
        winograd_rows(kind, part, to + i / run * skip + i % run, stride);
    }
}

/* Asks for four pixels of one line of a tile's view, of channels c .. c + count - 1, to be in the
 * second-level cache. */
SIMD void winograd_fetch(const struct tiled *t, struct culm_in x, int64_t tile, int64_t line,
                         int64_t pixel, int64_t c, int64_t count, bool write) {
    struct tile_place at = tile_at(t, tile);
    int64_t y = at.y + line, bytes = x.dtype == CULM_BF16 ? 2 : 4;
    if (y < 0 || y >= t->height) {
        return;
    }
    int64_t last = at_most(at.x + pixel + 4, t->width);
    for (int64_t i = at_least(0, at.x + pixel); i < last; i++) {
        const char *from = (const char *)x.data +
                           (((at.image * t->height + y) * t->width + i) * t->channels + c) * bytes;
        for (int64_t j = 0; j < count * bytes; j += 64) {
            if (write) {
                __builtin_prefetch(from + j, 1, 2);
            } else {
                __builtin_prefetch(from + j, 0, 2);
            }
        }
    }
}

#endif

/*
 * The register tile of matrix products: MR x NR elements of C kept in registers over a run of k.
 *
 * An element is a chain of fused multiply-adds in the order of k that starts from zero; the size of
 * the tile, which differs between instruction sets, does not enter.
 */
#ifndef CULM_DEVICE_CPU_TILE_H
#define CULM_DEVICE_CPU_TILE_H

#include "device/cpu/simd.h"

#if SIMD_REGISTERS == 32
#define MR 14
#define NV 2
#else
#define MR 6
#define NV 1
#endif
#define NR (NV * LANES)
/* Heights of tiles, the highest first: what rows are cut into. */
#if MR == 14
#define TILE_HEIGHTS(X) X(14) X(12) X(10) X(8) X(6) X(4) X(2) X(1)
#else
#define TILE_HEIGHTS(X) X(6) X(4) X(2) X(1)
#endif
/* Between rows of A in scratch: 256 terms, and 16 more so that no two rows share a cache set. */
#define ROW_STRIDE 272

SIMD void chain_begin(vec acc[MR][NV], int mr) {
#pragma GCC unroll 16
    for (int r = 0; r < mr; r++)
#pragma GCC unroll 2
        for (int v = 0; v < NV; v++) {
            acc[r][v] = vzero();
        }
}

/* One term of each: row r at a[r rs], and a row of B's panel. */
SIMD void chain_term(vec acc[MR][NV], int mr, int64_t rs, const float *a, const float *b) {
    vec bv[NV];
#pragma GCC unroll 2
    for (int v = 0; v < NV; v++) {
        bv[v] = vload(b + v * LANES);
    }
#pragma GCC unroll 16
    for (int r = 0; r < mr; r++) {
        vec av = vset(a[r * rs]);
#pragma GCC unroll 2
        for (int v = 0; v < NV; v++) {
            acc[r][v] = vfma(av, bv[v], acc[r][v]);
        }
    }
}

/* acc[mr][NV] = the chain over k terms. `a` is packed; row r, term i at a[r rs + i ks]. Asks for
 * half a cache line from `ahead` on (NULL: none) with each term: what the next chains will need. */
SIMD void chain_fetch(vec acc[MR][NV], int mr, int64_t rs, int64_t ks, int64_t k, const float *a,
                      const float *b, const float *ahead) {
    chain_begin(acc, mr);
#pragma GCC unroll 2
    for (int64_t i = 0; i < k; i++) {
        if (ahead) {
            __builtin_prefetch(ahead);
            ahead += 8;
        }
        chain_term(acc, mr, rs, a, b);
        a += ks;
        b += NR;
    }
}

SIMD void chain(vec acc[MR][NV], int mr, int64_t rs, int64_t ks, int64_t k, const float *a,
                const float *b) {
    chain_fetch(acc, mr, rs, ks, k, a, b, NULL);
}

enum how { STORE, STORE_BIAS, ADD }; /* C = chain, bias[column] + chain, C + chain */

/* `columns`: how many of the NR are there. */

SIMD void finish(vec acc[MR][NV], int mr, float *c, int64_t ldc, int64_t columns, enum how how,
                 const float *bias) {
#pragma GCC unroll 2
    for (int v = 0; v < NV; v++) {
        int64_t count = columns - v * LANES;
        if (count <= 0) {
            break;
        }
        if (count >= LANES) {
            vec base = how == STORE_BIAS ? vload(bias + v * LANES) : vzero();
#pragma GCC unroll 16
            for (int r = 0; r < mr; r++) {
                float *to = c + r * ldc + v * LANES;
                vec y = acc[r][v];
                if (how == ADD) {
                    y = vadd(vload(to), y);
                } else if (how == STORE_BIAS) {
                    y = vadd(base, y);
                }
                vstore(to, y);
            }
        } else {
            vec base = how == STORE_BIAS ? vload_n(bias + v * LANES, count) : vzero();
#pragma GCC unroll 16
            for (int r = 0; r < mr; r++) {
                float *to = c + r * ldc + v * LANES;
                vec y = acc[r][v];
                if (how == ADD) {
                    y = vadd(vload_n(to, count), y);
                } else if (how == STORE_BIAS) {
                    y = vadd(base, y);
                }
                vstore_n(to, y, count);
            }
        }
    }
}

#endif

/*
 * Register tiles of bf16 products (strip.h), for each flavour: the instruction where there is one,
 * else f32 multiply-adds in its order.
 */
#ifndef CULM_DEVICE_CPU_GEMM_BF16_MICRO_H
#define CULM_DEVICE_CPU_GEMM_BF16_MICRO_H

#include "device/cpu/strip.h"
#include "device/cpu/tile.h"

#define WIDE_ROWS (MR == 14 ? 28 : 24) /* of a strip that is widened; a multiple of MR */

static void strip_portable(int64_t kblocks, const void *a_block, const uint16_t *b_block, float *c,
                           int64_t rows, bool resume) {
    for (int64_t row = 0; row < rows; row += MR) {
        for (int panel = 0; panel < 2; panel += NV) {
            const float *a = (const float *)a_block + row * 32;
            const uint16_t *b = b_block + panel * TILE;
            float *to = c + row * STRIP_COLUMNS + panel * PANEL;
            vec acc[MR][NV];
#pragma GCC unroll 16
            for (int r = 0; r < MR; r++)
#pragma GCC unroll 2
                for (int v = 0; v < NV; v++) {
                    acc[r][v] = resume ? vload(to + r * STRIP_COLUMNS + v * PANEL) : vzero();
                }
            for (int64_t k = 0; k < kblocks; k++, a += WIDE_ROWS * 32, b += 2 * TILE) {
                for (int pair = 0; pair < 16; pair++) {
                    vec part[NV];
#pragma GCC unroll 2
                    for (int odd = 1; odd >= 0; odd--) {
#pragma GCC unroll 2
                        for (int v = 0; v < NV; v++) {
                            uvec both = load_pairs(b + v * TILE + pair * 2 * PANEL);
                            part[v] = odd ? odd_of(both) : even_of(both);
                        }
#pragma GCC unroll 16
                        for (int r = 0; r < MR; r++) {
                            vec x = vset(a[r * 32 + 2 * pair + odd]);
#pragma GCC unroll 2
                            for (int v = 0; v < NV; v++) {
                                acc[r][v] = vfma(x, part[v], acc[r][v]);
                            }
                        }
                    }
                }
            }
#pragma GCC unroll 16
            for (int r = 0; r < MR; r++)
#pragma GCC unroll 2
                for (int v = 0; v < NV; v++) {
                    vstore(to + r * STRIP_COLUMNS + v * PANEL, acc[r][v]);
                }
        }
    }
}

#define HALF (MR / 2)
static void strip_as_amx(int64_t kblocks, const void *a_block, const uint16_t *b_block, float *c,
                         int64_t rows, bool resume) {
    for (int64_t row = 0; row < rows; row += HALF) {
        for (int panel = 0; panel < 2; panel += NV) {
            const float *a = (const float *)a_block + row * 32;
            const uint16_t *b = b_block + panel * TILE;
            float *to = c + row * STRIP_COLUMNS + panel * PANEL;
            if (!resume) {
                for (int r = 0; r < HALF; r++) {
                    for (int v = 0; v < NV; v++) {
                        vstore(to + r * STRIP_COLUMNS + v * PANEL, vzero());
                    }
                }
            }
            for (int64_t k = 0; k < kblocks; k++, a += WIDE_ROWS * 32, b += 2 * TILE) {
                vec even[HALF][NV], odd[HALF][NV];
#pragma GCC unroll 8
                for (int r = 0; r < HALF; r++)
#pragma GCC unroll 2
                    for (int v = 0; v < NV; v++) {
                        even[r][v] = odd[r][v] = vzero();
                    }
                for (int pair = 0; pair < 16; pair++) {
#pragma GCC unroll 2
                    for (int v = 0; v < NV; v++) {
                        uvec both = load_pairs(b + v * TILE + pair * 2 * PANEL);
                        vec low = even_of(both), high = odd_of(both);
#pragma GCC unroll 8
                        for (int r = 0; r < HALF; r++) {
                            even[r][v] = vfma(vset(a[r * 32 + 2 * pair]), low, even[r][v]);
                            odd[r][v] = vfma(vset(a[r * 32 + 2 * pair + 1]), high, odd[r][v]);
                        }
                    }
                }
#pragma GCC unroll 8
                for (int r = 0; r < HALF; r++)
#pragma GCC unroll 2
                    for (int v = 0; v < NV; v++) {
                        float *at = to + r * STRIP_COLUMNS + v * PANEL;
                        vstore(at, vadd(vload(at), vadd(even[r][v], odd[r][v])));
                    }
            }
        }
    }
}

#ifdef __AVX512BF16__
#define DOT_ROWS 24
#define DOT_STEP 12
static void strip_dot(int64_t kblocks, const void *a_block, const uint16_t *b, float *c,
                      int64_t rows, bool resume) {
    for (int64_t row = 0; row < rows; row += DOT_STEP) {
        const char *a = (const char *)a_block + row * 64, *from = (const char *)b;
        float *to = c + row * STRIP_COLUMNS;
        vec acc[DOT_STEP][2];
#pragma GCC unroll 16
        for (int r = 0; r < DOT_STEP; r++)
#pragma GCC unroll 2
            for (int v = 0; v < 2; v++) {
                acc[r][v] = resume ? vload(to + r * STRIP_COLUMNS + v * PANEL) : vzero();
            }
        for (int64_t k = 0; k < kblocks; k++, a += DOT_ROWS * 64, from += 4 * TILE)
#pragma GCC unroll 2
            for (int pair = 0; pair < 16; pair++) {
                __m512bh b0 = (__m512bh)_mm512_loadu_si512(from + pair * 64);
                __m512bh b1 = (__m512bh)_mm512_loadu_si512(from + 2 * TILE + pair * 64);
#pragma GCC unroll 16
                for (int r = 0; r < DOT_STEP; r++) {
                    int both;
                    memcpy(&both, a + r * 64 + pair * 4, sizeof both);
                    __m512bh x = (__m512bh)_mm512_set1_epi32(both);
                    acc[r][0] = _mm512_dpbf16_ps(acc[r][0], x, b0);
                    acc[r][1] = _mm512_dpbf16_ps(acc[r][1], x, b1);
                }
            }
#pragma GCC unroll 16
        for (int r = 0; r < DOT_STEP; r++)
#pragma GCC unroll 2
            for (int v = 0; v < 2; v++) {
                vstore(to + r * STRIP_COLUMNS + v * PANEL, acc[r][v]);
            }
    }
}
#endif

#endif

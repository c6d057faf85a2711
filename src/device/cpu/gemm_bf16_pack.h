/*
 * Packing of bf16 products: operands of any kind and type become strips of A and pairs of panels of
 * B (strip.h), f32 rounded on the way. What lies beyond the operand is zero.
 */
#ifndef CULM_DEVICE_CPU_GEMM_BF16_PACK_H
#define CULM_DEVICE_CPU_GEMM_BF16_PACK_H

#include "device/cpu/product.h"
#include "device/cpu/strip.h"
#include "device/cpu/transpose.h"

#define K_MOST 1536     /* terms packed at once */
#define STRIPS_TURNED 4 /* at most, packed together */
#define TURN_TERMS 128  /* terms turned at once */

/* Each lane: the bf16 of `even` in the low half, of `odd` in the high half. */
#ifdef __AVX512BF16__
SIMD uvec pair_up(vec even, vec odd) {
    const __m512i order =
        _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                         21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return _mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh(odd, even));
}
#else
SIMD uvec pair_up(vec even, vec odd) {
    return uadd(vround_bf16(even), ushift_left(vround_bf16(odd), 16));
}
#endif
#if SIMD_WIDE
SIMD uvec pair_up_bf16(const uint16_t *even, const uint16_t *odd) {
    const __m512i order =
        _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7, 38, 6,
                         37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
    __m512i a = _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)(const void *)even));
    __m512i b = _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)(const void *)odd));
    return _mm512_permutex2var_epi16(a, order, b);
}
#else
SIMD uvec pair_up_bf16(const uint16_t *even, const uint16_t *odd) {
    return uadd(ushift_right(ubits(vload_bf16(even)), 16), ubits(vload_bf16(odd)));
}
#endif
SIMD void store_pairs(void *to, uvec pairs) { vstore(to, ufloat_bits(pairs)); }

/* Two rows of which `count` elements lie in memory, as pairs. `odd` may be missing (NULL). */
SIMD void pair_rows(struct culm_in even, int64_t at_even, struct culm_in odd, int64_t at_odd,
                    bool has_odd, int64_t count, void *to) {
    if (even.dtype == CULM_BF16 && has_odd && count >= LANES) {
        store_pairs(to, pair_up_bf16((const uint16_t *)even.data + at_even,
                                     (const uint16_t *)odd.data + at_odd));
        return;
    }
    vec low = tload_part(even, at_even, count);
    vec high = has_odd ? tload_part(odd, at_odd, count) : vzero();
    store_pairs(to, pair_up(low, high));
}

/* --- A --- */

SIMD void strip_put(const struct strip_method *method, void *to, int64_t kblock, int64_t row,
                    const uint16_t *from) {
    int64_t at = (kblock * method->rows + row) * 32;
    if (method->wide) {
        vstore((float *)to + at, vload_bf16(from));
        vstore((float *)to + at + LANES, vload_bf16(from + LANES));
    } else {
        uint16_t *out = (uint16_t *)to + at;
        vstore((float *)(void *)out, vload((const float *)(const void *)from));
    }
}

/* Where terms are columns of A. */
static void pack_strip_rows(const struct operand *a, const struct strip_method *method, void *to,
                            int64_t row, int64_t rows, int64_t k0, int64_t k) {
    uint16_t part[STRIP_MOST * TURN_TERMS] __attribute__((aligned(64)));
    int64_t whole = k / 32, b = 0;
    if (a->kind == OPERAND_ROWS && a->dtype == CULM_BF16) {
        const uint16_t *from = (const uint16_t *)a->data + row * a->ld + k0;
        for (; b < whole; b++) {
            for (int64_t r = 0; r < rows; r++) {
                strip_put(method, to, b, r, from + r * a->ld + b * 32);
            }
        }
    }
    for (; b * 32 < k; b += TURN_TERMS / 32) {
        int64_t terms = at_most(TURN_TERMS, k - b * 32);
        if (terms < TURN_TERMS) {
            memset(part, 0, sizeof part);
        }
        operand_read_bf16(a, row, rows, k0 + b * 32, terms, part, TURN_TERMS);
        for (int64_t i = 0; i < terms; i += 32) {
            for (int64_t r = 0; r < rows; r++) {
                strip_put(method, to, b + i / 32, r, part + r * TURN_TERMS + i);
            }
        }
    }
}

/* Where terms are rows of A. */
static void pack_strip_turned(const struct operand *a, const struct strip_method *method, void *to,
                              int64_t row, int64_t rows, int64_t k0, int64_t k) {
    uint16_t part[32 * STRIPS_TURNED * STRIP_MOST] __attribute__((aligned(64)));
    float pairs[16 * 16] __attribute__((aligned(64)));
    float turned[16 * 16] __attribute__((aligned(64)));
    int64_t kblocks = ceil_div(k, 32);
    for (int64_t b = 0; b < kblocks; b++) {
        int64_t first = k0 + b * 32, terms = at_most(32, k - b * 32);
        struct culm_in in = {a->data, a->dtype};
        int64_t ld = a->ld, base = first * ld + row, strip = 0, in_strip = 0;
        if (a->kind != OPERAND_ROWS) {
            ld = STRIPS_TURNED * STRIP_MOST;
            operand_read_bf16(a, first, terms, row, rows, part, ld);
            in = (struct culm_in){part, CULM_BF16};
            base = 0;
        }
        for (int64_t r = 0; r < rows; r += 16) {
            int64_t count = at_most(16, rows - r);
            for (int64_t i = 0; i < 32; i += 2) {
                if (i < terms) {
                    pair_rows(in, base + i * ld + r, in, base + (i + 1) * ld + r, i + 1 < terms,
                              count, pairs + i * 8);
                } else {
                    vstore(pairs + i * 8, vzero());
                }
            }
            transpose16(pairs, 16, turned, 16);
            for (int64_t i = 0; i < count; i++) {
                strip_put(method, to, strip * kblocks + b, in_strip,
                          (const uint16_t *)(const void *)(turned + i * 16));
                if (++in_strip == method->rows) {
                    in_strip = 0;
                    strip++;
                }
            }
        }
    }
}

/* `rows` rows of op(A) from `row`, terms k0 .. k0 + k - 1: one strip, or several, one after the
 * other, where A is turned. */
static __attribute__((unused)) void pack_strip(const struct product *p,
                                               const struct strip_method *method, void *to,
                                               int64_t row, int64_t rows, int64_t k0, int64_t k) {
    if (p->trans_a) {
        pack_strip_turned(&p->a, method, to, row, rows, k0, k);
    } else {
        pack_strip_rows(&p->a, method, to, row, rows, k0, k);
    }
}

/* --- B --- */

/* Where 32 terms of a panel lie. */
SIMD uint16_t *panel_at(uint16_t *packed, int64_t kblocks, int64_t panel, int64_t kblock) {
    return packed + ((panel / 2 * kblocks + kblock) * 2 + panel % 2) * TILE;
}

#define GROUP_PANELS 8 /* packed together: 32 terms of them stay in the first cache */

/* Terms are rows of the operand. */
static __attribute__((unused)) void pack_b_down(const struct operand *b, uint16_t *to,
                                                int64_t column, int64_t columns, int64_t k0,
                                                int64_t k) {
    uint16_t part[32 * GROUP_PANELS * PANEL] __attribute__((aligned(64)));
    int64_t kblocks = ceil_div(k, 32), panels = round_up(columns, STRIP_COLUMNS) / PANEL;
    for (int64_t block = 0; block < kblocks; block++) {
        for (int64_t group = 0; group < panels; group += GROUP_PANELS) {
            int64_t first = group * PANEL, terms = at_most(32, k - block * 32);
            int64_t count = at_most(GROUP_PANELS * PANEL, columns - first);
            struct culm_in in = {b->data, b->dtype};
            int64_t ld = b->ld, base = (k0 + block * 32) * ld + column + first;
            if (b->kind != OPERAND_ROWS) {
                operand_read_bf16(b, k0 + block * 32, terms, column + first, count, part,
                                  GROUP_PANELS * PANEL);
                in = (struct culm_in){part, CULM_BF16};
                ld = GROUP_PANELS * PANEL;
                base = 0;
            }
            for (int64_t i = 0; i < 32; i += 2) {
                for (int64_t panel = 0; panel < at_most(GROUP_PANELS, panels - group); panel++) {
                    uint16_t *at = panel_at(to, kblocks, group + panel, block) + i * PANEL;
                    int64_t even = base + i * ld + panel * PANEL, left = count - panel * PANEL;
                    if (left > 0 && i < terms) {
                        pair_rows(in, even, in, even + ld, i + 1 < terms, left, at);
                    } else {
                        store_pairs(at, uset(0));
                    }
                }
            }
        }
    }
}

/* Terms are columns of the operand. */
static __attribute__((unused)) void pack_b_across(const struct operand *b, uint16_t *to,
                                                  int64_t column, int64_t columns, int64_t k0,
                                                  int64_t k) {
    uint16_t part[PANEL * TURN_TERMS] __attribute__((aligned(64)));
    int64_t kblocks = ceil_div(k, 32), panels = round_up(columns, STRIP_COLUMNS) / PANEL;
    for (int64_t panel = 0; panel < panels; panel++) {
        int64_t count = at_least(0, at_most(PANEL, columns - panel * PANEL));
        for (int64_t i = 0; i < k; i += TURN_TERMS) {
            int64_t terms = at_most(TURN_TERMS, k - i);
            if (count < PANEL || terms < TURN_TERMS) {
                memset(part, 0, sizeof part);
            }
            operand_read_bf16(b, column + panel * PANEL, count, k0 + i, terms, part, TURN_TERMS);
            for (int64_t j = 0; j < terms; j += 32) {
                transpose16((const float *)(const void *)(part + j), TURN_TERMS / 2,
                            (float *)(void *)panel_at(to, kblocks, panel, (i + j) / 32), 16);
            }
        }
    }
}

#endif

/*
 * Packing of bf16 products: operands of any kind and type become strips of A and pairs of panels of
 * B (strip.h), f32 rounded on the way. What lies beyond the operand is zero.
 */
#ifndef CULM_DEVICE_CPU_GEMM_BF16_PACK_H
#define CULM_DEVICE_CPU_GEMM_BF16_PACK_H

#include "device/cpu/product.h"
#include "device/cpu/strip.h"
#include "device/cpu/transpose.h"

#define K_MOST 1536    /* terms packed at once */
#define TURN_TERMS 128 /* terms turned at once */

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

/* `rows` rows of op(A) from `row`, terms k0 .. k0 + k - 1. */
static __attribute__((unused)) void pack_strip(const struct product *p,
                                               const struct strip_method *method, void *to,
                                               int64_t row, int64_t rows, int64_t k0, int64_t k) {
    uint16_t line[K_MOST] __attribute__((aligned(64)));
    const struct operand *a = &p->a;
    int64_t kblocks = ceil_div(k, 32);
    if (!p->trans_a) {
        for (int64_t r = 0; r < rows; r++) {
            const uint16_t *from = line;
            if (a->kind == OPERAND_ROWS && a->dtype == CULM_BF16 && k % 32 == 0) {
                from = (const uint16_t *)a->data + (row + r) * a->ld + k0;
            } else {
                operand_read_bf16(a, row + r, 1, k0, k, line, 0);
                memset(line + k, 0, (size_t)(kblocks * 32 - k) * sizeof *line);
            }
            for (int64_t b = 0; b < kblocks; b++)
                strip_put(method, to, b, r, from + b * 32);
        }
        return;
    }
    uint16_t part[32 * STRIP_MOST] __attribute__((aligned(64)));
    float pairs[16 * 16] __attribute__((aligned(64)));
    float turned[16 * 16] __attribute__((aligned(64)));
    for (int64_t b = 0; b < kblocks; b++) {
        int64_t first = k0 + b * 32, terms = at_most(32, k - b * 32);
        struct culm_in in = {a->data, a->dtype};
        int64_t ld = a->ld, base = first * ld + row;
        if (a->kind != OPERAND_ROWS) {
            operand_read_bf16(a, first, terms, row, rows, part, STRIP_MOST);
            in = (struct culm_in){part, CULM_BF16};
            ld = STRIP_MOST;
            base = 0;
        }
        for (int64_t r = 0; r < rows; r += 16) {
            int64_t count = at_most(16, rows - r);
            for (int64_t i = 0; i < 32; i += 2)
                if (i < terms)
                    pair_rows(in, base + i * ld + r, in, base + (i + 1) * ld + r, i + 1 < terms,
                              count, pairs + i * 8);
                else
                    vstore(pairs + i * 8, vzero());
            transpose16(pairs, 16, turned, 16);
            for (int64_t i = 0; i < count; i++)
                strip_put(method, to, b, r + i, (const uint16_t *)(const void *)(turned + i * 16));
        }
    }
}

/* --- B --- */

/* Where 32 terms of a panel lie. */
SIMD uint16_t *panel_at(uint16_t *packed, int64_t kblocks, int64_t panel, int64_t kblock) {
    return packed + ((panel / 2 * kblocks + kblock) * 2 + panel % 2) * TILE;
}

/* Terms are rows of the operand. */
static __attribute__((unused)) void pack_b_down(const struct operand *b, uint16_t *to,
                                                int64_t column, int64_t columns, int64_t k0,
                                                int64_t k, uint16_t *lines) {
    int64_t kblocks = ceil_div(k, 32), panels = round_up(columns, STRIP_COLUMNS) / PANEL;
    struct culm_in in = {b->data, b->dtype};
    for (int64_t i = 0; i < kblocks * 32; i += 2) {
        int64_t even = (k0 + i) * b->ld + column, odd = even + b->ld;
        if (b->kind != OPERAND_ROWS && i < k) {
            operand_read_bf16(b, k0 + i, at_most(2, k - i), column, columns, lines, columns);
            in = (struct culm_in){lines, CULM_BF16};
            even = 0;
            odd = columns;
        }
        for (int64_t panel = 0; panel < panels; panel++) {
            uint16_t *at = panel_at(to, kblocks, panel, i / 32) + i % 32 * PANEL;
            int64_t left = columns - panel * PANEL;
            if (left > 0 && i < k)
                pair_rows(in, even + panel * PANEL, in, odd + panel * PANEL, i + 1 < k, left, at);
            else
                store_pairs(at, uset(0));
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
            if (count < PANEL || terms < TURN_TERMS)
                memset(part, 0, sizeof part);
            operand_read_bf16(b, column + panel * PANEL, count, k0 + i, terms, part, TURN_TERMS);
            for (int64_t j = 0; j < terms; j += 32)
                transpose16((const float *)(const void *)(part + j), TURN_TERMS / 2,
                            (float *)(void *)panel_at(to, kblocks, panel, (i + j) / 32), 16);
        }
    }
}

#endif

/*
 * Strips: what bf16 products are made of, for the kernels that pack operands themselves.
 *
 * One call multiplies a strip of rows of packed A by two panels (32 columns) of packed B, summed in
 * f32:
 *
 *     A  [kblocks][rows][32 k], bf16, or the same values widened to f32
 *     B  [kblocks][2 panels][16 pairs][16 columns][2 k], bf16
 *     C  [rows][32], f32
 *
 * What fixes the bits is the device's flavour:
 *
 *     portable  one chain of fused multiply-adds from zero; of each pair of k the odd one first
 *               (VDPBF16PS)
 *     amx       for each 32 k, a chain of the 16 even ones and a chain of the 16 odd ones, each
 *               from zero; their sum is added to C (TDPBF16PS)
 *
 * Which code runs, and how many rows a strip has, enters nowhere.
 */
#ifndef CULM_DEVICE_CPU_STRIP_H
#define CULM_DEVICE_CPU_STRIP_H

#include "device/cpu/internal.h"
#include "device/cpu/simd.h"

#define PANEL 16                  /* columns */
#define TILE (16 * 2 * PANEL)     /* elements of 32 k of a panel */
#define STRIP_COLUMNS (2 * PANEL) /* of C */
#define STRIP_MOST 32             /* rows */

/* c = (resume: c, else 0) + a b. Only the first `rows` rows need be right, in A and in C. */
typedef void strip_kernel(int64_t kblocks, const void *a, const uint16_t *b, float *c, int64_t rows,
                          bool resume);

struct strip_method {
    int64_t rows; /* of a strip, as packed */
    bool wide;    /* A is widened to f32 */
    bool amx;     /* calls go between culm_cpu_amx_begin and _end, on each thread */
    strip_kernel *run;
};

/* For this device and its flavour. */
struct strip_method ISA_NAME(strip_method)(const struct culm_cpu *cpu);

SIMD uvec load_pairs(const uint16_t *p) { return ubits(vload((const float *)(const void *)p)); }
SIMD vec even_of(uvec pairs) { return ufloat_bits(ushift_left(pairs, 16)); }
SIMD vec odd_of(uvec pairs) { return ufloat_bits(uand(pairs, uset(0xffff0000u))); }

#endif

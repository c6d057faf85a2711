/*
 * Matrix products on AMX tiles. Compiled apart, with the instructions that need it; never called
 * unless culm_cpu_amx_ready said so.
 */
#ifndef CULM_DEVICE_CPU_GEMM_AMX_H
#define CULM_DEVICE_CPU_GEMM_AMX_H

#include <stdbool.h>
#include <stdint.h>

/* True when processor and system have AMX with bf16 and this process may use it. */
bool culm_cpu_amx_ready(void);

/* Around every run of strips on a thread: sets the tiles up, and gives them back. */
void culm_cpu_amx_begin(void);
void culm_cpu_amx_end(void);

/* c[32][32] = (resume: c, else 0) + a b, for a[kblocks][32 rows][32 k] and b[kblocks][2
 * panels][16][16 columns][2 k], bf16; only the first `rows` rows need be right. */
void culm_cpu_amx_strip(int64_t kblocks, const void *a, const uint16_t *b, float *c, int64_t rows,
                        bool resume);

/* The same with rows of a where they are: a_stride bytes apart, and a_step from one 32 k to the
 * next. Rows past `rows` are read up to 16 or 32. */
void culm_cpu_amx_rows(int64_t kblocks, const void *a, int64_t a_stride, int64_t a_step,
                       const uint16_t *b, float *c, int64_t rows, bool resume);

#endif

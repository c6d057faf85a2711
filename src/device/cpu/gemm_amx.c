/* See gemm_amx.h. Each instruction multiplies 16 x 32 by 32 x 16; four results stay in tiles. */
#include "device/cpu/gemm_amx.h"

#if defined(__AMX_BF16__)

#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#define REQUEST_PERMISSION 0x1023 /* ARCH_REQ_XCOMP_PERM */
#define TILE_DATA 18              /* XFEATURE_XTILEDATA */

struct tiles {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

#define HAS_BF16 (1u << 22) /* edx of leaf 7 */
#define HAS_TILES (1u << 24)

bool culm_cpu_amx_ready(void) {
    unsigned a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d & HAS_BF16) || !(d & HAS_TILES)) {
        return false;
    }
    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}

/* All eight of 16 rows x 64 bytes. Not on the stack: the compiler does not see all of it read. */
static const struct tiles whole __attribute__((aligned(64))) = {
    .palette = 1,
    .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
    .rows = {16, 16, 16, 16, 16, 16, 16, 16},
};

void culm_cpu_amx_begin(void) { _tile_loadconfig(&whole); }

void culm_cpu_amx_end(void) { _tile_release(); }

#define C_ROW 128 /* bytes */

void culm_cpu_amx_rows(int64_t kblocks, const void *a_rows, int64_t a_stride, int64_t a_step,
                       const uint16_t *b_block, float *c, int64_t rows, bool resume) {
    const char *a = a_rows, *b = (const char *)b_block;
    char *c0 = (char *)c, *c2 = c0 + 16 * C_ROW;
    if (resume) {
        _tile_loadd(0, c0, C_ROW);
        _tile_loadd(1, c0 + 64, C_ROW);
        _tile_loadd(2, c2, C_ROW);
        _tile_loadd(3, c2 + 64, C_ROW);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    if (rows <= 16) {
        for (int64_t k = 0; k < kblocks; k++, a += a_step, b += 2048) {
            _tile_loadd(4, a, a_stride);
            _tile_loadd(6, b, 64);
            _tile_dpbf16ps(0, 4, 6);
            _tile_loadd(7, b + 1024, 64);
            _tile_dpbf16ps(1, 4, 7);
        }
    } else {
        for (int64_t k = 0; k < kblocks; k++, a += a_step, b += 2048) {
            _tile_loadd(4, a, a_stride);
            _tile_loadd(6, b, 64);
            _tile_dpbf16ps(0, 4, 6);
            _tile_loadd(7, b + 1024, 64);
            _tile_dpbf16ps(1, 4, 7);
            _tile_loadd(5, a + 16 * a_stride, a_stride);
            _tile_dpbf16ps(2, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
        }
        _tile_stored(2, c2, C_ROW);
        _tile_stored(3, c2 + 64, C_ROW);
    }
    _tile_stored(0, c0, C_ROW);
    _tile_stored(1, c0 + 64, C_ROW);
}

void culm_cpu_amx_strip(int64_t kblocks, const void *a, const uint16_t *b, float *c, int64_t rows,
                        bool resume) {
    culm_cpu_amx_rows(kblocks, a, 64, 2048, b, c, rows, resume);
}

#else

bool culm_cpu_amx_ready(void) { return false; }
void culm_cpu_amx_begin(void) {}
void culm_cpu_amx_end(void) {}
void culm_cpu_amx_strip(int64_t kblocks, const void *a, const uint16_t *b, float *c, int64_t rows,
                        bool resume) {
    (void)kblocks, (void)a, (void)b, (void)c, (void)rows, (void)resume;
}

void culm_cpu_amx_rows(int64_t kblocks, const void *a, int64_t a_stride, int64_t a_step,
                       const uint16_t *b, float *c, int64_t rows, bool resume) {
    (void)kblocks, (void)a, (void)a_stride, (void)a_step, (void)b, (void)c, (void)rows,
        (void)resume;
}

#endif

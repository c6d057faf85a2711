/*
 * Memory that a product reads later. Kernels ask for it evenly while they compute, so that it comes from
 * afar meanwhile: whoever asks for it at once, or when it is due, waits.
 */
#ifndef CULM_DEVICE_CPU_GEMM_LATER_H
#define CULM_DEVICE_CPU_GEMM_LATER_H

#include "device/cpu/internal.h"
#include "device/cpu/simd.h"

struct later {
    const char *at, *end; /* of a row; */
    int64_t gap, row;     /* bytes to the next row, and of a row */
    int64_t step;         /* bytes asked for at once */
};

/* `rows` rows of `columns` floats, asked for in no more than `times` times if they can be. */
SIMD struct later later_rows(const float *from, int64_t rows, int64_t columns, int64_t ld,
                             int64_t times) {
    struct later later = {.at = (const char *)from, .row = columns * (int64_t)sizeof *from};
    later.gap = ld * (int64_t)sizeof *from - later.row;
    later.end = later.at + later.row;
    later.step = at_most(64, ceil_div(rows * (later.row + 64), at_least(1, times)));
    return later;
}

SIMD void later_fetch(struct later *later) {
    __builtin_prefetch(later->at, 0, 2);
    later->at += later->step;
    if (later->at >= later->end) {
        later->at = later->end + later->gap;
        later->end = later->at + later->row;
    }
}

#endif

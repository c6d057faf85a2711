/*
 * The floating-point control word of the calling thread: how results are rounded, whether denormal
 * numbers are flushed to zero. Whatever computes sets it, since a library may have left another.
 * Thread: any; each has its own.
 */
#ifndef CULM_BASE_CONTROL_H
#define CULM_BASE_CONTROL_H

#include <stdint.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

static inline void culm_control_set(uint64_t control) {
#if defined(__x86_64__)
    _mm_setcsr((uint32_t)control);
#elif defined(__aarch64__)
    __asm__ volatile("msr fpcr, %0" : : "r"(control));
#else
    (void)control;
#endif
}

/* Round to nearest, exceptions masked, results and operands flushed when denormal: what kernels
 * run with. Returns what was set before, for culm_control_set. */
static inline uint64_t culm_control_enter(void) {
#if defined(__x86_64__)
    uint32_t before = _mm_getcsr();
    culm_control_set(0x1f80 | 0x8000 | 0x0040);
    return before;
#elif defined(__aarch64__)
    uint64_t before;
    __asm__ volatile("mrs %0, fpcr" : "=r"(before));
    culm_control_set((uint64_t)1 << 24);
    return before;
#else
    return 0;
#endif
}

/* What a new thread has: round to nearest, nothing flushed, nothing trapped. For arithmetic outside
 * of kernels. */
static inline void culm_control_reset(void) {
#if defined(__x86_64__)
    culm_control_set(0x1f80);
#else
    culm_control_set(0);
#endif
}

#endif

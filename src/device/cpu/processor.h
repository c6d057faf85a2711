/*
 * Which instruction sets this processor has, of those that kernels are compiled for. For the device, and
 * for a build that makes only what this processor needs (processor.c); includes nothing.
 */
#ifndef CULM_DEVICE_CPU_PROCESSOR_H
#define CULM_DEVICE_CPU_PROCESSOR_H

/* Fastest first. */
#if defined(__x86_64__)
#define CULM_PROCESSOR_HAS(X) X(avx512_bf16) X(avx512) X(avx2) X(base)
static inline int culm_has_avx512(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
}
static inline int culm_has_avx512_bf16(void) {
    return culm_has_avx512() && __builtin_cpu_supports("avx512bf16");
}
static inline int culm_has_avx2(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#elif defined(__aarch64__)
#define CULM_PROCESSOR_HAS(X) X(neon) X(base)
static inline int culm_has_neon(void) { return 1; }
#else
#define CULM_PROCESSOR_HAS(X) X(base)
#endif
static inline int culm_has_base(void) { return 1; }

#endif

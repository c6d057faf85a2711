/*
 * CPU devices of every instruction set, with 1 to THREADS threads each, and the seed of a test. A test
 * that leaves some out, or has to do something before one is opened, defines CPUS_OPENED(isa, thread).
 */
#ifndef CULM_TESTS_DEVICE_CPUS_H
#define CULM_TESTS_DEVICE_CPUS_H

#include "device/cpu/cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ISAS 5
#define THREADS 3
#ifndef CPUS_OPENED
#define CPUS_OPENED(isa_, thread_) true
#endif

static const char *const isas[ISAS] = {"avx512_bf16", "avx512", "avx2", "neon", "base"};
/* NULL where this processor has no such instructions, or the test does not want it. */
static struct culm_device *cpus[ISAS][THREADS];

/* Whether a device can be had. */
static inline bool cpu_there(int isa) {
    struct culm_device *cpu = NULL;
    bool there = culm_cpu_new(1, isas[isa], &cpu, NULL) == CULM_OK;
    culm_device_free(cpu);
    return there;
}
/* The first, avx512_bf16, only stands in for the second. */
#define CPUS_OF_ONE_AVX512(isa_) ((isa_) > 0 || !cpu_there(1))

static int open_devices(void **state) {
    (void)state;
    for (int t = 0; t < THREADS; t++) {
        for (int i = 0; i < ISAS; i++) {
            if (CPUS_OPENED(i, t)) {
                culm_cpu_new(t + 1, isas[i], &cpus[i][t], NULL);
            }
        }
    }
    printf("# compared:"); /* a build may leave some out, and a processor lack them */
    for (int i = 0; i < ISAS; i++) {
        printf("%s%s", cpus[i][0] ? " " : "", cpus[i][0] ? isas[i] : "");
    }
    printf("\n");
    return cpus[ISAS - 1][0] || !(CPUS_OPENED(ISAS - 1, 0)) ? 0 : -1;
}

static int close_devices(void **state) {
    (void)state;
    for (int i = 0; i < ISAS; i++) {
        for (int t = 0; t < THREADS; t++) {
            culm_device_free(cpus[i][t]);
        }
    }
    return 0;
}

static uint64_t seed(void) {
    const char *text = getenv("CULM_TEST_SEED");
    return text ? strtoull(text, NULL, 10) : 1;
}

/* --- bf16 --- */

static inline float widen(uint16_t half) {
    uint32_t bits = (uint32_t)half << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* To the nearest, ties to even; what is too small is zero, and what is not a number stays so. */
static inline uint16_t rounded(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (!(bits & 0x7f800000u)) {
        return (uint16_t)(bits >> 16 & 0x8000);
    }
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        return (uint16_t)(bits >> 16 | 0x40);
    }
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

#endif

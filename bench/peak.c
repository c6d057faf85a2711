/*
 * What one core can do at most, in f32: GFLOP/s of fused multiply-adds with both factors in registers; with
 * one of them from the first-level cache; of a depthwise 3x3 convolution, and of a 1x1 of few inputs, with
 * their norm and ReLU, whose data are all there.
 *
 *     bench_peak
 *
 * One line for the widest vectors that the processor has. The clock changes and other work comes and goes:
 * each is the best of many short runs. Without AVX2, and on others than x86-64, it says so: exit code 1.
 */
#include <stdio.h>

#if defined(__x86_64__)

#include <immintrin.h>
#include <stdint.h>
#include <time.h>

#define CHAINS 12
#define ROUNDS 20000
#define OUTPUTS 30
#define PASSES 1000
#define PIXELS 6
#define TILES 12
#define TRIES 200

static float data[4096] __attribute__((aligned(64))), made[2048] __attribute__((aligned(64)));

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* CHAINS independent sums; the compiler may not know that they are alike. */
#define LOOP(name, isa, vec, lanes, load, fma, memory)                                             \
    static __attribute__((target(isa), noinline)) void name(void) {                                \
        vec sum[CHAINS], factor = load(data);                                                      \
        for (int c = 0; c < CHAINS; c++) {                                                         \
            sum[c] = load(data + c * (lanes));                                                     \
        }                                                                                          \
        for (int64_t i = 0; i < ROUNDS; i++) {                                                     \
            const float *from = data + (i & 7) * (lanes);                                          \
            vec other = factor;                                                                    \
            __asm__ volatile("" : "+x"(factor), "+x"(other), "+r"(from));                          \
            _Pragma("GCC unroll 12") for (int c = 0; c < CHAINS; c++) {                            \
                sum[c] = fma((memory) ? load(from + c * 72) : other, factor, sum[c]);              \
            }                                                                                      \
        }                                                                                          \
        for (int c = 0; c < CHAINS; c++) {                                                         \
            __asm__ volatile("" ::"x"(sum[c]));                                                    \
        }                                                                                          \
    }
/* OUTPUTS of one vector of channels, nine weights in registers. */
#define DEPTHWISE(name, isa, vec, lanes, load, store, fma, add, max)                               \
    static __attribute__((target(isa), noinline)) void name(void) {                                \
        vec w[9], norm[3], zero = (vec){0};                                                        \
        for (int k = 0; k < 9; k++) {                                                              \
            w[k] = load(data + k * (lanes));                                                       \
        }                                                                                          \
        for (int k = 0; k < 3; k++) {                                                              \
            norm[k] = load(data + (9 + k) * (lanes));                                              \
        }                                                                                          \
        for (int64_t i = 0; i < PASSES; i++) {                                                     \
            const float *row = data;                                                               \
            float *to = made + 200;                                                                \
            __asm__ volatile("" : "+r"(row), "+r"(to));                                            \
            for (int p = 0; p < OUTPUTS; p++, row += (lanes), to += (lanes)) {                     \
                vec sum = zero;                                                                    \
                _Pragma("GCC unroll 9") for (int k = 0; k < 9; k++) {                              \
                    sum = fma(load(row + k / 3 * 1104 + k % 3 * (lanes)), w[k], sum);              \
                }                                                                                  \
                store(to, max(fma(add(sum, norm[0]), norm[1], norm[2]), zero));                    \
            }                                                                                      \
        }                                                                                          \
    }
/* A 1x1 of so many inputs: PIXELS by two vectors of outputs in registers, its weights and pixels in the
 * first-level cache. */
#define SHORT(name, isa, vec, lanes, load, store, set, fma, add, max, inputs)                      \
    static __attribute__((target(isa), noinline)) void name(void) {                                \
        vec norm[6], zero = (vec){0};                                                              \
        for (int k = 0; k < 6; k++) {                                                              \
            norm[k] = load(data + k * (lanes));                                                    \
        }                                                                                          \
        for (int64_t i = 0; i < PASSES; i++) {                                                     \
            const float *w = data, *x = data + 1024;                                               \
            float *to = made + i % 8 * 16;                                                         \
            __asm__ volatile("" : "+r"(w), "+r"(x), "+r"(to));                                     \
            for (int tile = 0; tile < TILES; tile++, x += PIXELS * (inputs)) {                     \
                vec sum[2][PIXELS];                                                                \
                _Pragma("GCC unroll 12") for (int p = 0; p < 2 * PIXELS; p++) {                    \
                    sum[p % 2][p / 2] = zero;                                                      \
                }                                                                                  \
                for (int k = 0; k < (inputs); k++) {                                               \
                    vec first = load(w + 2 * k * (lanes)),                                         \
                        second = load(w + (2 * k + 1) * (lanes));                                  \
                    _Pragma("GCC unroll 6") for (int p = 0; p < PIXELS; p++) {                     \
                        vec pixel = set(x[p * (inputs) + k]);                                      \
                        sum[0][p] = fma(pixel, first, sum[0][p]);                                  \
                        sum[1][p] = fma(pixel, second, sum[1][p]);                                 \
                    }                                                                              \
                }                                                                                  \
                _Pragma("GCC unroll 12") for (int p = 0; p < 2 * PIXELS; p++) {                    \
                    vec y = fma(add(sum[p % 2][p / 2], norm[p % 2]), norm[2 + p % 2],              \
                                norm[4 + p % 2]);                                                  \
                    store(to + p * (lanes), max(y, zero));                                         \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }
LOOP(wide_registers, "avx512f", __m512, 16, _mm512_loadu_ps, _mm512_fmadd_ps, 0)
LOOP(wide_memory, "avx512f", __m512, 16, _mm512_loadu_ps, _mm512_fmadd_ps, 1)
DEPTHWISE(wide_depthwise, "avx512f", __m512, 16, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_fmadd_ps,
          _mm512_add_ps, _mm512_max_ps)
SHORT(wide_short_8, "avx512f", __m512, 16, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_set1_ps,
      _mm512_fmadd_ps, _mm512_add_ps, _mm512_max_ps, 8)
SHORT(wide_short_16, "avx512f", __m512, 16, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_set1_ps,
      _mm512_fmadd_ps, _mm512_add_ps, _mm512_max_ps, 16)
LOOP(registers, "avx2,fma", __m256, 8, _mm256_loadu_ps, _mm256_fmadd_ps, 0)
LOOP(memory, "avx2,fma", __m256, 8, _mm256_loadu_ps, _mm256_fmadd_ps, 1)
DEPTHWISE(depthwise, "avx2,fma", __m256, 8, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_fmadd_ps,
          _mm256_add_ps, _mm256_max_ps)
SHORT(short_8, "avx2,fma", __m256, 8, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_set1_ps,
      _mm256_fmadd_ps, _mm256_add_ps, _mm256_max_ps, 8)
SHORT(short_16, "avx2,fma", __m256, 8, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_set1_ps,
      _mm256_fmadd_ps, _mm256_add_ps, _mm256_max_ps, 16)

/* Of the best try; `flops` of each. */
static double gflops(void (*loop)(void), double flops) {
    double best = 1e9;
    for (int i = 0; i < TRIES; i++) {
        double start = now();
        loop();
        double took = now() - start;
        best = took < best ? took : best;
    }
    return flops / best * 1e-9;
}

/* What each try of these does. */
struct loops {
    void (*in_registers)(void), (*in_cache)(void), (*in_depthwise)(void), (*in_8)(void),
        (*in_16)(void);
};

static void tell(const char *name, double lanes, const struct loops *loops) {
    double alone = 2 * lanes * CHAINS * ROUNDS, convolution = 18 * lanes * OUTPUTS * PASSES;
    double input = 2 * lanes * 2 * PIXELS * TILES * PASSES; /* of a 1x1 */
    printf(
        "%s: %.1f GFLOP/s in registers, %.1f with the first-level cache, %.1f in a depthwise 3x3, "
        "%.1f and %.1f in a 1x1 of 8 and 16 inputs\n",
        name, gflops(loops->in_registers, alone), gflops(loops->in_cache, alone),
        gflops(loops->in_depthwise, convolution), gflops(loops->in_8, 8 * input),
        gflops(loops->in_16, 16 * input));
}

int main(void) {
    if (__builtin_cpu_supports("avx512f")) {
        tell("avx512", 16,
             &(struct loops){wide_registers, wide_memory, wide_depthwise, wide_short_8,
                             wide_short_16});
        return 0;
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        tell("avx2", 8, &(struct loops){registers, memory, depthwise, short_8, short_16});
        return 0;
    }
    fprintf(stderr, "bench_peak: this processor has neither AVX-512 nor AVX2\n");
    return 1;
}

#else

int main(void) {
    fprintf(stderr, "bench_peak: it knows only x86-64\n");
    return 1;
}

#endif

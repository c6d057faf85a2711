/*
 * The device itself: memory, the choice of instruction set, and the public functions, which only
 * pass on to the chosen variant.
 */
#include "device/cpu/gemm_amx.h"
#include "device/cpu/team.h"

#include "base/pages.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_THREADS 256

/* x86 looks whether a result is denormal after rounding it, ARM before: bits may differ there. */
#if defined(__x86_64__)
#define FAMILY ""
#elif defined(__aarch64__)
#define FAMILY "-arm"
#else
#define FAMILY "-other"
#endif

/* The variants this processor can run, fastest first, up to a NULL. A build may leave out some. */
static void variants(const struct culm_cpu_ops *ret_ops[5]) {
    int count = 0;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
#ifdef CULM_WITH_AVX512_BF16
        if (__builtin_cpu_supports("avx512bf16")) {
            ret_ops[count++] = &culm_cpu_ops_avx512_bf16;
        }
#endif
#ifdef CULM_WITH_AVX512
        ret_ops[count++] = &culm_cpu_ops_avx512;
#endif
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        ret_ops[count++] = &culm_cpu_ops_avx2;
    }
#elif defined(__aarch64__)
    ret_ops[count++] = &culm_cpu_ops_neon;
#endif
    ret_ops[count++] = &culm_cpu_ops_base;
    ret_ops[count] = NULL;
}

/* Intel's processors so far take as long for VDPBF16PS as for four f32 multiply-adds. */
static bool fast_dot(void) {
    const char *asked = getenv("CULM_BF16_DOT");
    if (asked) {
        return strcmp(asked, "0") != 0;
    }
#if defined(__x86_64__)
    return !__builtin_cpu_is("intel");
#else
    return false;
#endif
}

enum culm_status culm_cpu_new(int threads, struct culm_cpu **ret_cpu, struct culm_error *error) {
    const char *isa = getenv("CULM_ISA");
    return culm_cpu_new_isa(threads, isa && *isa ? isa : NULL, ret_cpu, error);
}

enum culm_status culm_cpu_new_isa(int threads, const char *isa, struct culm_cpu **ret_cpu,
                                  struct culm_error *error) {
    enum culm_status status = CULM_ERR_MEMORY;
    if (threads < 1 || threads > MAX_THREADS) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "threads: %d is not in 1..%d", threads,
                              MAX_THREADS);
    }
    const struct culm_cpu_ops *ops[5];
    variants(ops);
    int chosen = 0;
    while (isa && ops[chosen] && strcmp(ops[chosen]->isa, isa)) {
        chosen++;
    }
    if (!ops[chosen]) {
        return culm_error_set(error, CULM_ERR_MACHINE,
                              "cpu device: this processor or build has no instruction set '%s'",
                              isa);
    }
    struct culm_cpu *cpu = calloc(1, sizeof *cpu);
    if (!cpu) {
        return culm_error_set(error, CULM_ERR_MEMORY, "cpu device: out of memory");
    }
    cpu->threads = threads;
    cpu->ops = ops[chosen];
    /* Touched only as far as kernels need it. */
    cpu->memory_bytes = culm_cpu_scratch_bytes(threads);
    cpu->memory = culm_pages_alloc(cpu->memory_bytes);
    if (!cpu->memory) {
        culm_error_set(error, status, "cpu device: out of memory for %zu bytes of scratch",
                       cpu->memory_bytes);
        goto free_cpu;
    }
    if (threads > 1) {
        status = culm_cpu_team_new(threads, &cpu->team, error);
        if (status) {
            goto free_memory;
        }
    }
    cpu->has_amx = culm_cpu_amx_ready();
    cpu->bf16_flavour = cpu->has_amx ? CULM_BF16_AMX : CULM_BF16_PORTABLE;
    cpu->fast_dot = fast_dot();
    const char *flavour = getenv("CULM_BF16_FLAVOUR");
    if (flavour) {
        status = culm_cpu_bf16_choose(cpu, flavour, error);
        if (status) {
            goto free_team;
        }
    }
    snprintf(cpu->signature, sizeof cpu->signature, "cpu-f32-lanes16-kc256-philox16-v1" FAMILY);
    *ret_cpu = cpu;
    return CULM_OK;

free_team:
    culm_cpu_team_free(cpu->team);
free_memory:
    free(cpu->memory);
free_cpu:
    free(cpu);
    return status;
}

void culm_cpu_free(struct culm_cpu *cpu) {
    if (!cpu) {
        return;
    }
    culm_cpu_team_free(cpu->team);
    free(cpu->memory);
    free(cpu);
}

int culm_cpu_threads(const struct culm_cpu *cpu) { return cpu->threads; }
size_t culm_cpu_scratch_bytes(int threads) {
    return (size_t)(SHARED_FLOATS + threads * PRIVATE_FLOATS) * sizeof(float);
}
const char *culm_cpu_signature(const struct culm_cpu *cpu) { return cpu->signature; }
const char *culm_cpu_isa(const struct culm_cpu *cpu) { return cpu->ops->isa; }

static const char *const flavours[] = {[CULM_BF16_PORTABLE] = "portable", [CULM_BF16_AMX] = "amx"};

const char *culm_cpu_bf16_flavour(const struct culm_cpu *cpu) {
    return flavours[cpu->bf16_flavour];
}

enum culm_status culm_cpu_bf16_choose(struct culm_cpu *cpu, const char *flavour,
                                      struct culm_error *error) {
    for (size_t i = 0; i < sizeof flavours / sizeof flavours[0]; i++) {
        if (strcmp(flavour, flavours[i]) == 0) {
            cpu->bf16_flavour = (enum culm_cpu_bf16)i;
            return CULM_OK;
        }
    }
    return culm_error_set(error, CULM_ERR_ARGUMENT,
                          "bf16 flavour '%s' is unknown; 'portable' or 'amx'", flavour);
}

#define PUBLIC(name, parameters, arguments)                                                        \
    void culm_cpu_##name parameters { cpu->ops->name arguments; }
CULM_CPU_OPS(PUBLIC)

double culm_cpu_sum_squares(struct culm_cpu *cpu, const float *x, int64_t count) {
    double sum;
    culm_cpu_sum_squares_into(cpu, x, count, &sum, NULL);
    return sum;
}

double culm_cpu_sum_squares_digest(struct culm_cpu *cpu, const float *x, int64_t count,
                                   uint64_t *ret_digest) {
    double sum;
    culm_cpu_sum_squares_into(cpu, x, count, &sum, ret_digest);
    return sum;
}

uint64_t culm_cpu_digest(struct culm_cpu *cpu, const float *x, int64_t count) {
    uint64_t digest;
    culm_cpu_digest_into(cpu, x, count, &digest);
    return digest;
}

uint64_t culm_cpu_digest_here(struct culm_cpu *cpu, const float *x, int64_t count) {
    uint64_t digest;
    culm_cpu_digest_here_into(cpu, x, count, &digest);
    return digest;
}

double culm_cpu_log(double x) {
    if (!(x > 0) || x > 1.7e308) {
        return x == 0 ? -HUGE_VAL : x > 0 ? x : NAN;
    }
    int exponent;
    double m = frexp(x, &exponent); /* [0.5, 1) */
    if (m < 0.70710678118654752) {
        m *= 2;
        exponent--;
    }
    /* ln m = 2 atanh(s), |s| < 0.172 */
    double s = (m - 1) / (m + 1), z = s * s, sum = 0;
    for (int term = 23; term >= 3; term -= 2) {
        sum = (sum + 1.0 / term) * z;
    }
    return exponent * 0.69314718055994531 + 2 * (s + s * sum);
}

/*
 * The device itself: memory, the choice of instruction set, and the device's table, whose kernels
 * only pass on to the chosen variant.
 */
#include "device/cpu/cpu.h"

#include "device/cpu/gemm_amx.h"
#include "device/cpu/processor.h"
#include "device/cpu/team.h"

#include "base/pages.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_THREADS 256

/* x86 looks whether a result is denormal after rounding it, ARM before: bits may differ there. */
#if defined(__x86_64__)
#define FAMILY ""
#elif defined(__aarch64__)
#define FAMILY "-arm"
#else
#define FAMILY "-other"
#endif

/* The variants that are in this build and that this processor can run, fastest first, up to a NULL. */
#define VARIANT(isa)                                                                               \
    if (culm_has_##isa()) {                                                                        \
        ret_kernels[count++] = &culm_cpu_kernels_##isa;                                            \
    }
static void variants(const struct culm_cpu_kernels *ret_kernels[5]) {
    int count = 0;
    CULM_CPU_VARIANTS(VARIANT)
    ret_kernels[count] = NULL;
}
#undef VARIANT

static size_t scratch_bytes(int threads) {
    return (size_t)(SHARED_FLOATS + threads * PRIVATE_FLOATS) * sizeof(float);
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

/* The second-level cache of a core; a common size where the system does not say. */
static int64_t core_cache_bytes(void) {
    int64_t bytes = 0;
#ifdef _SC_LEVEL2_CACHE_SIZE
    bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
#endif
    return bytes > 0 ? bytes : 1 << 20;
}

enum culm_status culm_cpu_new(int threads, const char *isa, struct culm_device **ret_device,
                              struct culm_error *error) {
    enum culm_status status = CULM_ERR_MEMORY;
    if (threads < 1 || threads > MAX_THREADS) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "threads: %d is not in 1..%d", threads,
                              MAX_THREADS);
    }
    const struct culm_cpu_kernels *kernels[5];
    variants(kernels);
    int chosen = 0;
    while (isa && kernels[chosen] && strcmp(kernels[chosen]->isa, isa)) {
        chosen++;
    }
    if (!kernels[chosen]) {
        return culm_error_set(error, CULM_ERR_MACHINE,
                              "cpu device: this processor or build has no instruction set '%s'",
                              isa);
    }
    struct culm_cpu *cpu = calloc(1, sizeof *cpu);
    if (!cpu) {
        return culm_error_set(error, CULM_ERR_MEMORY, "cpu device: out of memory");
    }
    cpu->device.ops = &culm_cpu_device_ops;
    cpu->threads = threads;
    cpu->kernels = kernels[chosen];
    /* Touched only as far as kernels need it, which is little where tensors are small. */
    cpu->memory_bytes = scratch_bytes(threads);
    cpu->memory = culm_pages_sparse(cpu->memory_bytes);
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
    cpu->core_cache_bytes = core_cache_bytes();
    cpu->has_amx = culm_cpu_amx_ready();
    cpu->bf16_flavour = cpu->has_amx ? CULM_BF16_AMX : CULM_BF16_PORTABLE;
    cpu->fast_dot = fast_dot();
    const char *flavour = getenv("CULM_BF16_FLAVOUR");
    if (flavour) {
        status = culm_cpu_bf16_choose(&cpu->device, flavour, error);
        if (status) {
            goto free_team;
        }
    }
    snprintf(cpu->signature, sizeof cpu->signature, "cpu-f32-lanes16-kc256-philox16-v1" FAMILY);
    *ret_device = &cpu->device;
    return CULM_OK;

free_team:
    culm_cpu_team_free(cpu->team);
free_memory:
    free(cpu->memory);
free_cpu:
    free(cpu);
    return status;
}

static enum culm_status create(int threads, struct culm_device **ret_device,
                               struct culm_error *error) {
    const char *isa = getenv("CULM_ISA");
    return culm_cpu_new(threads, isa && *isa ? isa : NULL, ret_device, error);
}

static void destroy(struct culm_device *device) {
    struct culm_cpu *cpu = cpu_of(device);
    culm_cpu_team_free(cpu->team);
    free(cpu->memory);
    free(cpu);
}

static void *alloc(struct culm_device *device, size_t bytes) {
    (void)device;
    return culm_pages_zeroed(bytes);
}

static void release(struct culm_device *device, void *memory) {
    (void)device;
    free(memory);
}

static int threads_of(const struct culm_device *device) {
    return ((const struct culm_cpu *)device)->threads;
}

static const char *signature(const struct culm_device *device) {
    return ((const struct culm_cpu *)device)->signature;
}

const char *culm_cpu_isa(const struct culm_device *device) {
    return ((const struct culm_cpu *)device)->kernels->isa;
}

static const char *const flavours[] = {[CULM_BF16_PORTABLE] = "portable", [CULM_BF16_AMX] = "amx"};

static const char *bf16_flavour(const struct culm_device *device) {
    return flavours[((const struct culm_cpu *)device)->bf16_flavour];
}

enum culm_status culm_cpu_bf16_choose(struct culm_device *device, const char *flavour,
                                      struct culm_error *error) {
    for (size_t i = 0; i < sizeof flavours / sizeof flavours[0]; i++) {
        if (strcmp(flavour, flavours[i]) == 0) {
            cpu_of(device)->bf16_flavour = (enum culm_cpu_bf16)i;
            return CULM_OK;
        }
    }
    return culm_error_set(error, CULM_ERR_ARGUMENT,
                          "bf16 flavour '%s' is unknown; 'portable' or 'amx'", flavour);
}

/* --- the table --- */

#define PASS_ON(name)                                                                              \
    static void run_##name(struct culm_device *device, const struct culm_##name##_args *args) {    \
        struct culm_cpu *cpu = cpu_of(device);                                                     \
        cpu->kernels->name(cpu, args);                                                             \
    }
CULM_KERNELS(PASS_ON)

#define ENTRY(name) .name = run_##name,
const struct culm_device_ops culm_cpu_device_ops = {
    .size = sizeof(struct culm_device_ops),
    .name = "cpu",
    .limits = {.width = CULM_CPU_MAX_WIDTH,
               .head = CULM_CPU_MAX_HEAD,
               .context = CULM_CPU_MAX_CONTEXT,
               .rows = CULM_CPU_MAX_ROWS,
               .softmax = CULM_CPU_MAX_SOFTMAX,
               .lstm_batch = CULM_CPU_MAX_LSTM_BATCH,
               .bahdanau_keys = CULM_CPU_MAX_BAHDANAU_KEYS,
               .conv_taps = CULM_CPU_CONV_TAPS,
               .conv_terms = CULM_CPU_CONV_TERMS},
    .create = create,
    .destroy = destroy,
    .alloc = alloc,
    .release = release,
    .scratch_bytes = scratch_bytes,
    .threads = threads_of,
    .signature = signature,
    .bf16_flavour = bf16_flavour,
    .lstm_forward_floats = culm_cpu_lstm_forward_floats,
    .lstm_backward_floats = culm_cpu_lstm_backward_floats,
    .bahdanau_backward_floats = culm_cpu_bahdanau_backward_floats,
    CULM_KERNELS(ENTRY)};

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

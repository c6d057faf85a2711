/*
 * What the kernel files share: the team of threads, scratch memory, and the table through which a
 * device reaches the variant compiled for this processor.
 */
#ifndef CULM_DEVICE_CPU_INTERNAL_H
#define CULM_DEVICE_CPU_INTERNAL_H

#include "device/cpu/cpu.h"

/* The limits of this device; what they mean stands in device.h. */
#define CULM_CPU_MAX_WIDTH 65536
#define CULM_CPU_MAX_HEAD 256
#define CULM_CPU_MAX_CONTEXT 32768
#define CULM_CPU_MAX_ROWS (1l << 20)
#define CULM_CPU_MAX_SOFTMAX (1l << 19)
#define CULM_CPU_MAX_LSTM_BATCH 4096
#define CULM_CPU_MAX_BAHDANAU_KEYS 2048
#define CULM_CPU_CONV_TAPS 1024
#define CULM_CPU_CONV_TERMS 65536

#define SHARED_FLOATS ((int64_t)2 << 20)  /* 8 MiB, seen by all threads */
#define PRIVATE_FLOATS ((int64_t)1 << 19) /* 2 MiB a thread */

struct culm_cpu;
struct culm_cpu_team;

/* One instruction set's variant of every kernel. */
#define CULM_CPU_SLOT(name)                                                                        \
    void (*name)(struct culm_cpu * cpu, const struct culm_##name##_args *args);
struct culm_cpu_kernels {
    const char *isa;
    CULM_KERNELS(CULM_CPU_SLOT)
};
#undef CULM_CPU_SLOT

extern const struct culm_cpu_kernels culm_cpu_kernels_avx512_bf16, culm_cpu_kernels_avx512,
    culm_cpu_kernels_avx2, culm_cpu_kernels_neon, culm_cpu_kernels_base;

/* How sums of bf16 products run: gemm_bf16_micro.h. */
enum culm_cpu_bf16 { CULM_BF16_PORTABLE, CULM_BF16_AMX };

struct culm_cpu {
    struct culm_device device; /* first */
    int threads;
    struct culm_cpu_team *team; /* NULL with one thread */
    float *memory;              /* one block: shared, then one private part per thread */
    size_t memory_bytes;
    bool fills_memory; /* huge pages have been asked for */
    const struct culm_cpu_kernels *kernels;
    enum culm_cpu_bf16 bf16_flavour;
    int64_t core_cache_bytes; /* of the second level; for speed, changes no bit */
    bool has_amx;             /* else the flavour is emulated */
    bool fast_dot;            /* VDPBF16PS beats two f32 multiply-adds; changes no bit */
    char signature[128];
};

static inline struct culm_cpu *cpu_of(struct culm_device *device) {
    return (struct culm_cpu *)device;
}

/* Runs tile(context, i, thread) once for each i in 0..tiles-1, on whatever threads are free, with
 * the floating-point control word of cpu.h, and returns when all are done. `thread` is below
 * cpu->threads and differs between tiles that run at the same time. */
typedef void culm_cpu_tile(void *context, int64_t tile, int thread);
void culm_cpu_run(struct culm_cpu *cpu, int64_t tiles, culm_cpu_tile *tile, void *context);

static inline float *cpu_shared(struct culm_cpu *cpu) { return cpu->memory; }
static inline float *cpu_private(struct culm_cpu *cpu, int thread) {
    return cpu->memory + SHARED_FLOATS + thread * PRIVATE_FLOATS;
}

static inline int64_t at_most(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t at_least(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static inline int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

/* Floats of `work` (device.h). */
static inline int64_t culm_cpu_lstm_state_floats(const struct culm_lstm *how, int64_t terms) {
    return 2 * ((terms + 255) / 256 * how->b * 272) + 2 * (how->t + how->b + 64);
}
static inline int64_t culm_cpu_lstm_forward_floats(const struct culm_lstm *how) {
    int64_t h = (how->h + 31) / 32 * 32;
    return 4 * h * h + 4 * h + culm_cpu_lstm_state_floats(how, h) + 256;
}
static inline int64_t culm_cpu_lstm_backward_floats(const struct culm_lstm *how) {
    int64_t h = (how->h + 31) / 32 * 32;
    return 4 * h * h + 4 * h + how->b * h + (how->t + 1) * how->b * 4 * h +
           culm_cpu_lstm_state_floats(how, 4 * h) + 256;
}
static inline int64_t culm_cpu_bahdanau_backward_floats(const struct culm_bahdanau *how) {
    int64_t width = (how->a + 63) / 64 * 64;
    return width + how->b * how->t * how->s + how->b * 2 * width + 64;
}

/* Natural logarithm within 1e-15; our own, so that it is the same with every C library. */
double culm_cpu_log(double x);

#endif

/*
 * What the kernel files share: the team of threads, scratch memory, and the table through which the
 * public functions reach the variant compiled for this processor.
 */
#ifndef CULM_DEVICE_CPU_INTERNAL_H
#define CULM_DEVICE_CPU_INTERNAL_H

#include "device/cpu/kernels.h"
#include "device/cpu/ops.h"

#define SHARED_FLOATS ((int64_t)2 << 20)  /* 8 MiB, seen by all threads */
#define PRIVATE_FLOATS ((int64_t)1 << 19) /* 2 MiB a thread */

struct culm_cpu_team;

/* How sums of bf16 products run: gemm_bf16_micro.h. */
enum culm_cpu_bf16 { CULM_BF16_PORTABLE, CULM_BF16_AMX };

struct culm_cpu {
    int threads;
    struct culm_cpu_team *team; /* NULL with one thread */
    float *memory;              /* one block: shared, then one private part per thread */
    size_t memory_bytes;
    const struct culm_cpu_ops *ops;
    enum culm_cpu_bf16 bf16_flavour;
    bool has_amx;  /* else the flavour is emulated */
    bool fast_dot; /* VDPBF16PS beats two f32 multiply-adds; changes no bit */
    char signature[128];
};

/* Runs tile(context, i, thread) once for each i in 0..tiles-1, on whatever threads are free, with
 * the floating-point control word of kernels.h, and returns when all are done. `thread` is below
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

/* Kernels with an output parameter, so that they fit the table. ret_digest of the first: or NULL. */
void culm_cpu_sum_squares_into(struct culm_cpu *cpu, const float *x, int64_t count, double *ret_sum,
                               uint64_t *ret_digest);
void culm_cpu_digest_into(struct culm_cpu *cpu, const float *x, int64_t count,
                          uint64_t *ret_digest);
void culm_cpu_digest_here_into(struct culm_cpu *cpu, const float *x, int64_t count,
                               uint64_t *ret_digest);

/* Natural logarithm within 1e-15; our own, so that it is the same with every C library. */
double culm_cpu_log(double x);

#endif

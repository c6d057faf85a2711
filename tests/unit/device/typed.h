/*
 * Operators on arrays that may be f32 or bf16, for tests: a table names an operator's arrays and
 * kernels once, and one loop compares every instruction set and number of threads with the
 * reference and with each other, for both types, and the reference with finite differences.
 */
#ifndef CULM_TESTS_DEVICE_TYPED_H
#define CULM_TESTS_DEVICE_TYPED_H

#include "device/cpu/cpu.h"

#define TYPED_ARRAYS 14
#define TYPED_KERNELS 4

struct typed_array {
    const char *name; /* NULL: not there in this variant */
    bool typed;       /* f32 or bf16; else always f32 */
    int64_t count;
    float low, high; /* of random values */
    float *f32;      /* what the reference works on */
    void *memory;    /* what the device works on */
};

struct typed_run {
    int variant;
    enum culm_dtype dtype; /* of typed arrays; COUNT: of odd ones bf16, of even ones f32 */
    uint32_t wide; /* bit i: array i is f32 all the same */
    bool first;
    struct typed_array array[TYPED_ARRAYS];
};

struct typed_kernel {
    const char *name;
    void (*device)(struct culm_device *cpu, struct typed_run *run);
    void (*reference)(struct typed_run *run);
    uint32_t writes; /* bit i: array i */
    bool accumulates;
    uint32_t sums; /* outputs whose bits depend on the order of sums; 0: nothing is added up */
    /* Moves the terms of these sums to other places (astray.h) in f32, inputs and outputs alike, or
     * `back`; may leave a variant as it is. */
    void (*astray)(struct typed_run *run, bool back);
};

struct typed_operator {
    const char *name;
    int variants;
    void (*sizes)(struct typed_run *run); /* declares the arrays of run->variant */
    const char *(*describe)(int variant);
    /* kernels[0] is forward; what a kernel reads and an earlier one writes comes from the
     * reference */
    struct typed_kernel kernels[TYPED_KERNELS];
    double tolerance;      /* of the largest element, in f32 */
    double bf16_tolerance; /* the same for bf16; 0: that of f32, and one rounding */
    bool same_type;        /* arrays of one type only */
    int y, dy;             /* arrays; y -1: there is no gradient */
    int pairs[5][2];       /* {x, dx}, ended by {0, 0} */
};

extern const struct typed_operator *const typed_operators[]; /* ended by NULL */

void typed_declare(struct typed_run *run, int i, const char *name, bool typed, int64_t count,
                   float low, float high);
static inline enum culm_dtype typed_dtype(const struct typed_run *run, int i) {
    bool narrow = run->dtype == CULM_BF16 || (run->dtype == CULM_DTYPE_COUNT && i % 2);
    return run->array[i].typed && narrow && !(run->wide >> i & 1) ? CULM_BF16 : CULM_F32;
}
static inline struct culm_in typed_in(const struct typed_run *run, int i) {
    return (struct culm_in){run->array[i].memory, typed_dtype(run, i)};
}
static inline struct culm_out typed_out(const struct typed_run *run, int i) {
    return (struct culm_out){run->array[i].memory, typed_dtype(run, i)};
}

#endif

/*
 * Families of operators for the operator test: each names its buffers once, and says which of them
 * each of its kernels reads and writes, so that one loop can compare devices with the reference,
 * threads with each other, and gradients with finite differences.
 */
#ifndef CULM_TESTS_DEVICE_OPS_H
#define CULM_TESTS_DEVICE_OPS_H

#include "device/cpu/cpu.h"
#include "tensor/reference.h"

#define MAX_BUFFERS 24
#define MAX_KERNELS 4
#define MAX_SHAPES 16
#define MAX_PAIRS 10

/* What the numbers mean is the family's own. */
struct shape {
    int64_t dim[8];
    double p; /* dropout */
};

struct run {
    struct shape shape;
    float *buffer[MAX_BUFFERS];
    int64_t count[MAX_BUFFERS]; /* elements of each */
    int32_t *tokens;            /* token_count of them, below token_bound */
    bool first;
    struct culm_dropout dropout;
    double *scratch; /* for the reference */
    bool prepared;   /* what a kernel does to its inputs first, once, is done */
    uint64_t inputs; /* runs of one number read the same; 0: nobody else's */
};

/* cpu NULL: the reference. */
typedef void kernel_call(struct culm_device *cpu, struct run *run);

/* Moves the terms of a kernel's sums to other places (astray.h), inputs and outputs alike, or `back`. */
typedef void kernel_astray(struct run *run, bool back);

struct kernel_row {
    const char *name;
    kernel_call *call;
    uint32_t writes;  /* bit i: buffer i is an output */
    bool accumulates; /* has `first` */
    uint32_t sums;    /* outputs whose bits depend on the order of sums; 0: nothing is added up */
    kernel_astray *astray; /* given if there are such */
};

struct family {
    const char *name;
    int buffers;
    const char *buffer_name[MAX_BUFFERS];
    /* Fills count[] and returns the number of tokens. */
    int64_t (*sizes)(const struct shape *shape, int64_t *ret_count, int64_t *ret_token_bound);
    struct kernel_row kernels[MAX_KERNELS];
    struct shape shapes[MAX_SHAPES];
    double tolerance; /* of the largest element of the reference's output */
    /* gradients: the forward kernel is kernels[0], writing buffer y; dy is its incoming gradient
     * (-1: the output is a scalar loss, of gradient 1). All other kernels run, then each pair's
     * second buffer is the gradient of its first. */
    int y, dy;
    int pairs[MAX_PAIRS][2], pair_count;
};

/* What the reference makes of the inputs, in buffers `writes` of the run: made once, however many devices go on
 * from it. */
void reference_once(struct run *run, void (*reference)(struct run *run), uint32_t writes);

extern const struct family families[];
extern const int family_count;

#endif

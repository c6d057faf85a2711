/*
 * A device: the memory and the kernels that a stage of a graph runs on, behind one table.
 *
 * Operators (src/graph/ops) fill a kernel's struct and call the table; nothing above this room
 * includes an implementation. There are two: `cpu` (device/cpu/cpu.h), which every run uses, and
 * `reference` (device/reference/reference.h), the plain kernels of src/tensor, for tests.
 *
 *     struct culm_device *device;
 *     status = culm_device_new(threads, &device, error);
 *     CULM_RUN(device, affine, .y = y, .x = x, .count = n, .scale = 2);
 *     culm_device_free(device);
 *
 * Thread: one call at a time per device, from any thread, unless a kernel says otherwise; the
 * calling thread takes part in the work. The tables are constant.
 */
#ifndef CULM_DEVICE_DEVICE_H
#define CULM_DEVICE_DEVICE_H

#include "base/status.h"
#include "device/kernels.h"

/* The first member of every implementation's own struct. */
struct culm_device {
    const struct culm_device_ops *ops;
};

/* The largest sizes that the kernels take: shape rules and models ask before a graph is built. */
struct culm_device_limits {
    int64_t width;         /* features per row: in, out, C */
    int64_t head;          /* features per attention head */
    int64_t context;       /* positions per sample */
    int64_t rows;          /* rows of logits in one call */
    int64_t softmax;       /* elements of a row */
    int64_t lstm_batch;    /* samples */
    int64_t bahdanau_keys; /* per sample */
    int64_t conv_taps;     /* kh kw */
    int64_t conv_terms;    /* culm_conv_scattered_terms */
};

/* No slot is NULL. */
struct culm_device_ops {
    size_t size; /* of this struct */
    const char *name;
    struct culm_device_limits limits;

    /* threads in 1..256, the calling thread included. CULM_ERR_ARGUMENT, CULM_ERR_MEMORY,
     * CULM_ERR_MACHINE: this processor lacks what was asked for. */
    enum culm_status (*create)(int threads, struct culm_device **ret_device,
                               struct culm_error *error);
    void (*destroy)(struct culm_device *device);
    /* Memory for the arrays of kernels: zeroed, 64-byte aligned. NULL: out of memory. */
    void *(*alloc)(struct culm_device *device, size_t bytes);
    void (*release)(struct culm_device *device, void *memory); /* NULL is fine */
    /* Scratch that a device of so many threads holds and may touch: for memory plans. */
    size_t (*scratch_bytes)(int threads);

    int (*threads)(const struct culm_device *device);
    /* Whatever of this device can change bits (not the number of threads), as one short line
     * without spaces; valid as long as the device. */
    const char *(*signature)(const struct culm_device *device);
    /* The flavour of bf16 matrix products, the only thing about them that changes bits, so it
     * belongs to the signature of a run that uses bf16. */
    const char *(*bf16_flavour)(const struct culm_device *device);

    /* Floats of `work`, which the callers of these kernels lend. */
    int64_t (*lstm_forward_floats)(const struct culm_lstm *how);
    int64_t (*lstm_backward_floats)(const struct culm_lstm *how);
    int64_t (*bahdanau_backward_floats)(const struct culm_bahdanau *how);

#define CULM_DEVICE_SLOT(name)                                                                     \
    void (*name)(struct culm_device * device, const struct culm_##name##_args *args);
    CULM_KERNELS(CULM_DEVICE_SLOT)
#undef CULM_DEVICE_SLOT
};

/* Calls a kernel: CULM_RUN(device, add, .y = y, .a = a, .b = b, .count = n). What is not named is
 * zero: absent, false, none. */
#define CULM_RUN(device_, kernel, ...)                                                             \
    do {                                                                                           \
        struct culm_device *run_on_ = (device_);                                                   \
        run_on_->ops->kernel(run_on_, &(struct culm_##kernel##_args){__VA_ARGS__});                \
    } while (0)

/* The kind of device that runs use: the CPU. */
const struct culm_device_ops *culm_device_default(void);
/* A device of that kind. */
enum culm_status culm_device_new(int threads, struct culm_device **ret_device,
                                 struct culm_error *error);
void culm_device_free(struct culm_device *device); /* NULL is fine */

static inline double culm_device_sum_squares(struct culm_device *device, const float *x,
                                             int64_t count) {
    double sum;
    CULM_RUN(device, sum_squares, .x = x, .count = count, .ret_sum = &sum);
    return sum;
}
static inline double culm_device_sum_squares_digest(struct culm_device *device, const float *x,
                                                    int64_t count, uint64_t *ret_digest) {
    double sum;
    CULM_RUN(device, sum_squares, .x = x, .count = count, .ret_sum = &sum,
             .ret_digest = ret_digest);
    return sum;
}
static inline uint64_t culm_device_digest(struct culm_device *device, const float *x,
                                          int64_t count) {
    uint64_t digest;
    CULM_RUN(device, digest, .x = x, .count = count, .ret_digest = &digest);
    return digest;
}
static inline uint64_t culm_device_digest_here(struct culm_device *device, const float *x,
                                               int64_t count) {
    uint64_t digest;
    CULM_RUN(device, digest_here, .x = x, .count = count, .ret_digest = &digest);
    return digest;
}

#endif

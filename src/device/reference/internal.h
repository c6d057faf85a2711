/*
 * What the files of the reference device share: memory of one call, in which arrays are f32.
 *
 * A kernel reads through `get`, computes into what `put` gives, and returns; then `finish` stores
 * the outputs in their type. So an output may be an input, as kernels.h allows.
 */
#ifndef CULM_DEVICE_REFERENCE_INTERNAL_H
#define CULM_DEVICE_REFERENCE_INTERNAL_H

#include "device/reference/reference.h"

#define PARTS_MAX 24
#define OUTPUTS_MAX 8

struct reference {
    struct culm_device device; /* first */
    void *part[PARTS_MAX];
    int parts;
    struct {
        struct culm_out to;
        const float *from;
        int64_t count;
    } output[OUTPUTS_MAX];
    int outputs;
};

/* Zeros, until the kernel ends. */
float *culm_reference_floats(struct reference *r, int64_t count);
double *culm_reference_doubles(struct reference *r, int64_t count);
/* The array in f32; NULL when it is absent. */
const float *culm_reference_get(struct reference *r, struct culm_in in, int64_t count);
/* Zeros that become the array; NULL when it is absent. */
float *culm_reference_put(struct reference *r, struct culm_out out, int64_t count);
/* The same with what the array holds. */
float *culm_reference_change(struct reference *r, struct culm_out out, int64_t count);
void culm_reference_finish(struct reference *r);

/* One element of an array as f32. */
float culm_reference_load(struct culm_in in, int64_t i);
void culm_reference_store(struct culm_out out, int64_t i, float x);

#define CULM_REFERENCE_KERNEL(name)                                                                \
    void culm_reference_##name(struct reference *r, const struct culm_##name##_args *a);
CULM_KERNELS(CULM_REFERENCE_KERNEL)
#undef CULM_REFERENCE_KERNEL

#endif

/*
 * What kernels on images and their references share. Plain data; thread: any.
 */
#ifndef CULM_TENSOR_HYPER_VISION_H
#define CULM_TENSOR_HYPER_VISION_H

#include "tensor/hyper.h"

/* Batch norm of rows [N,C]: y = function((x - mean) / sqrt(variance + eps) gamma + beta [+
 * residual]), mean and variance per column. */
struct culm_batchnorm {
    int64_t n, c;
    double eps;
    enum culm_function function; /* NONE, RELU, RELU6 or LEAKY_RELU */
    double alpha;                /* slope of LEAKY_RELU below zero; not negative */
    bool inference;              /* mean and variance are given, not those of the rows */
};

#endif

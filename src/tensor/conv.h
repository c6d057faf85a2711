/*
 * Convolutions: geometry, and the choice of an algorithm for each pass.
 *
 * Images are NHWC, weights [O, C/groups, kh, kw]:
 *
 *     y[n, oy, ox, o] = b[o] + sum over ky, kx, c of
 *         x[n, oy stride[0] + ky dilation[0] - pad[0], ox stride[1] + kx dilation[1] - pad[1], c]
 *         w[o, c, ky, kx]
 *
 * where x is zero outside the image, and c runs over the channels of o's group.
 *
 * Thread: any; plain data.
 */
#ifndef CULM_TENSOR_CONV_H
#define CULM_TENSOR_CONV_H

#include <stdbool.h>
#include <stdint.h>

struct culm_conv {
    int64_t n, h, w, c; /* of the input */
    int64_t o, kh, kw;
    int64_t oh, ow;
    int64_t stride[2], dilation[2]; /* height, width */
    int64_t pad[4];                 /* top, left, bottom, right */
    int64_t groups;
};

enum culm_conv_pass {
    CULM_CONV_FORWARD,
    CULM_CONV_BACKWARD_DATA,
    CULM_CONV_BACKWARD_WEIGHT,
    CULM_CONV_PASSES
};

enum culm_conv_algorithm {
    CULM_CONV_AUTO,     /* what culm_conv_algorithm_default says */
    CULM_CONV_DIRECT,   /* a matrix product with the patches of the image, or per channel */
    CULM_CONV_WINOGRAD, /* F(4x4, 3x3): 3x3, stride 1, dilation 1, one group */
    CULM_CONV_ALGORITHMS
};

/* Output pixels along one dimension (0: height, 1: width) from the other members; below 1: none. */
int64_t culm_conv_output_size(const struct culm_conv *conv, int dimension);

/* The most terms that a pixel of dx has where a stride leaves pixels between those of y; 0: none.
 */
int64_t culm_conv_scattered_terms(const struct culm_conv *conv);

bool culm_conv_algorithm_possible(const struct culm_conv *conv, enum culm_conv_pass pass,
                                  enum culm_conv_algorithm algorithm);
/* Never AUTO; a function of the geometry alone. */
enum culm_conv_algorithm culm_conv_algorithm_default(const struct culm_conv *conv,
                                                     enum culm_conv_pass pass);
const char *culm_conv_algorithm_name(enum culm_conv_algorithm algorithm);

/* Floating-point operations of one pass of the definition above (multiply-adds counted twice). */
double culm_conv_flops(const struct culm_conv *conv);
/* Those of the products that an algorithm makes of it: the same, or, with Winograd's, 36 instead of
 * 144 for each (begun) tile of 4x4 outputs. Its transforms are not counted. */
double culm_conv_flops_done(const struct culm_conv *conv, enum culm_conv_pass pass,
                            enum culm_conv_algorithm algorithm);

#endif

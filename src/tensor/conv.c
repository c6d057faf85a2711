/* Geometry of convolutions. See conv.h. */
#include "tensor/conv.h"

int64_t culm_conv_output_size(const struct culm_conv *conv, int dimension) {
    int64_t size = dimension ? conv->w : conv->h, kernel = dimension ? conv->kw : conv->kh;
    int64_t padded = size + conv->pad[dimension] + conv->pad[dimension + 2];
    int64_t reach = (kernel - 1) * conv->dilation[dimension] + 1;
    return padded < reach ? 0 : (padded - reach) / conv->stride[dimension] + 1;
}

/* Taps whose distance is a multiple of the stride see the same pixel. */
static int64_t taps_of_a_pixel(int64_t kernel, int64_t stride, int64_t dilation) {
    int64_t a = stride, b = dilation;
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    int64_t apart = stride / a;
    return (kernel + apart - 1) / apart;
}

int64_t culm_conv_scattered_terms(const struct culm_conv *conv) {
    if (conv->stride[0] == 1 && conv->stride[1] == 1) {
        return 0;
    }
    return taps_of_a_pixel(conv->kh, conv->stride[0], conv->dilation[0]) *
           taps_of_a_pixel(conv->kw, conv->stride[1], conv->dilation[1]) * (conv->o / conv->groups);
}

bool culm_conv_algorithm_possible(const struct culm_conv *conv, enum culm_conv_pass pass,
                                  enum culm_conv_algorithm algorithm) {
    (void)pass;
    if (algorithm != CULM_CONV_WINOGRAD) {
        return algorithm == CULM_CONV_AUTO || algorithm == CULM_CONV_DIRECT;
    }
    return conv->kh == 3 && conv->kw == 3 && conv->stride[0] == 1 && conv->stride[1] == 1 &&
           conv->dilation[0] == 1 && conv->dilation[1] == 1 && conv->groups == 1;
}

enum culm_conv_algorithm culm_conv_algorithm_default(const struct culm_conv *conv,
                                                     enum culm_conv_pass pass) {
    if (!culm_conv_algorithm_possible(conv, pass, CULM_CONV_WINOGRAD)) {
        return CULM_CONV_DIRECT;
    }
    /* Transforms cost what the channels do not pay back. */
    return conv->c >= 32 && conv->o >= 32 ? CULM_CONV_WINOGRAD : CULM_CONV_DIRECT;
}

const char *culm_conv_algorithm_name(enum culm_conv_algorithm algorithm) {
    static const char *const names[] = {"auto", "direct", "winograd"};
    return names[algorithm];
}

double culm_conv_flops(const struct culm_conv *conv) {
    return 2.0 * (double)(conv->n * conv->oh * conv->ow) * (double)conv->o *
           (double)(conv->c / conv->groups) * (double)(conv->kh * conv->kw);
}

double culm_conv_flops_done(const struct culm_conv *conv, enum culm_conv_pass pass,
                            enum culm_conv_algorithm algorithm) {
    if (algorithm == CULM_CONV_AUTO) {
        algorithm = culm_conv_algorithm_default(conv, pass);
    }
    if (algorithm != CULM_CONV_WINOGRAD) {
        return culm_conv_flops(conv);
    }
    int64_t tiles = conv->n * ((conv->oh + 3) / 4) * ((conv->ow + 3) / 4);
    return 2.0 * 36 * (double)tiles * (double)conv->o * (double)conv->c;
}

/*
 * What a device does for inference alone, beside its table: fewer passes through memory.
 *
 * Thread: as the device's kernels.
 */
#ifndef CULM_DEVICE_INFER_H
#define CULM_DEVICE_INFER_H

#include "device/device.h"
#include "tensor/conv_infer.h"

/* Outputs of which most are worth computing only here and there: the channels are `parts` of one size,
 * and of each part channel `channel` is the gate. Where the gate is below `least`, or no number, what is
 * at the other channels of the part is undefined. parts 0: all is computed. */
struct culm_gate {
    int32_t parts, channel;
    float least;
};

/* y = function((conv(x, w) + b - mean) / sqrt(variance + eps) gamma + beta [+ residual]): what inference
 * makes of a convolution, the batch norm behind it, what is added and the function. All f32. It must be
 * possible (culm_conv_infer_possible). w is [kh,kw,C/groups,O]: the weights turned (culm_conv_turn), so
 * that what is read together lies together; nothing is folded into them. b, residual[N,OH,OW,O] (may be
 * y), and gamma, beta, mean, variance together may be absent. The function is NONE, RELU, RELU6 or
 * LEAKY_RELU. On the CPU an element is one chain of fused multiply-adds over ky, kx, channel, or, of
 * most 3x3, what Winograd's algorithm makes; which, follows from the shape of one image.
 *
 * With coarse.c, the image has so many channels before those of x, which alone are `conv`'s, and w so many
 * rows before the others; it must be possible (culm_coarse_possible). The bits are those of one image with
 * all of the channels. A gate must be possible too (culm_gate_possible). */
struct culm_conv_infer_args {
    const struct culm_conv *conv;
    float *y;
    const float *x, *w, *b;
    struct culm_coarse coarse;
    const float *gamma, *beta, *mean, *variance;
    const float *residual;
    double eps, alpha;
    enum culm_function function;
    struct culm_gate gate;
    const float
        *ahead; /* what will be read soon: it may be fetched in the meantime. NULL: nothing */
    int64_t ahead_floats;
};
/* Whether a convolution without norm, residual and coarse channels can have a gate: 1x1, as large as its
 * image, and no function. */
bool culm_gate_possible(const struct culm_conv *conv, enum culm_function function);
/* On any device; on others than the CPU by the reference. */
void culm_device_conv_infer(struct culm_device *device, const struct culm_conv_infer_args *args);
/* Several, of which each reads what the one before it made: its x is that one's y, of the same shape, and
 * nobody else reads it. The same y of the last one, bit for bit; what is at the others' y is then undefined.
 * All but the last are without residual, and none has a gate or coarse channels. */
void culm_device_conv_infer_chain(struct culm_device *device,
                                  const struct culm_conv_infer_args *args, int32_t count);

#endif

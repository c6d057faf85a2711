/*
 * Convolution 3x3, stride 1, by F(4x4, 3x3) (Winograd; Lavin and Gray, "Fast algorithms for
 * convolutional neural networks"): not there yet.
 */
#include "device/cpu/conv.h"
#include "device/cpu/variant.h"

#include <assert.h>

void ISA_NAME(winograd_forward)(struct culm_cpu *cpu, const struct culm_conv *v, struct culm_out y,
                                struct culm_in x, const float *w, const float *b) {
    (void)cpu, (void)v, (void)y, (void)x, (void)w, (void)b;
    assert(false);
}
void ISA_NAME(winograd_backward_data)(struct culm_cpu *cpu, const struct culm_conv *v,
                                      struct culm_out dx, struct culm_in dy, const float *w) {
    (void)cpu, (void)v, (void)dx, (void)dy, (void)w;
    assert(false);
}
void ISA_NAME(winograd_backward_weight)(struct culm_cpu *cpu, const struct culm_conv *v, float *dw,
                                        struct culm_in x, struct culm_in dy, bool first) {
    (void)cpu, (void)v, (void)dw, (void)x, (void)dy, (void)first;
    assert(false);
}

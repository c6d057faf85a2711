/* Which variant of the kernels for inference runs. See infer.h. */
#include "device/cpu/infer.h"

#include "device/cpu/internal.h"

typedef void infer_fn(struct culm_cpu *cpu, const struct culm_conv_infer_args *args, int32_t count);
infer_fn conv_infer_avx512_bf16, conv_infer_avx512, conv_infer_avx2, conv_infer_neon,
    conv_infer_base;

static infer_fn *variant(const struct culm_cpu *cpu) {
#ifdef CULM_WITH_AVX512_BF16
    if (cpu->kernels == &culm_cpu_kernels_avx512_bf16) {
        return conv_infer_avx512_bf16;
    }
#endif
#ifdef CULM_WITH_AVX512
    if (cpu->kernels == &culm_cpu_kernels_avx512) {
        return conv_infer_avx512;
    }
#endif
#ifdef CULM_WITH_AVX2
    if (cpu->kernels == &culm_cpu_kernels_avx2) {
        return conv_infer_avx2;
    }
#endif
#ifdef CULM_WITH_NEON
    if (cpu->kernels == &culm_cpu_kernels_neon) {
        return conv_infer_neon;
    }
#endif
    (void)cpu;
    return conv_infer_base;
}

void culm_cpu_conv_infer(struct culm_device *device, const struct culm_conv_infer_args *args,
                         int32_t count) {
    struct culm_cpu *cpu = cpu_of(device);
    variant(cpu)(cpu, args, count);
}

/* Which variant of the kernels for inference runs. See infer.h. */
#include "device/cpu/infer.h"

#include "device/cpu/internal.h"

typedef void infer_fn(struct culm_cpu *cpu, const struct culm_conv_infer_args *args, int32_t count);
#define DECLARE(isa) infer_fn conv_infer_##isa;
CULM_CPU_VARIANTS(DECLARE)

#define VARIANT(isa)                                                                               \
    if (cpu->kernels == &culm_cpu_kernels_##isa) {                                                 \
        return conv_infer_##isa;                                                                   \
    }
static infer_fn *variant(const struct culm_cpu *cpu) {
    CULM_CPU_VARIANTS(VARIANT)
    return conv_infer_base;
}

void culm_cpu_conv_infer(struct culm_device *device, const struct culm_conv_infer_args *args,
                         int32_t count) {
    struct culm_cpu *cpu = cpu_of(device);
    variant(cpu)(cpu, args, count);
}

/*
 * The device `cpu`: every kernel on a team of threads of our own, for the best instruction set that
 * the processor has.
 *
 * Bits: each result is one fixed sequence of operations that follows from the shapes alone: an
 * element of a matrix product is chains of 256 fused multiply-adds in the order of k, added in
 * order; a sum along a row runs in 16 interleaved lanes folded by halves; a sum over rows runs in
 * fixed blocks folded in order. Work is cut into tiles that never split such a sequence, and each
 * tile runs on one thread, so the number of threads changes no bit. Every kernel exists in one
 * 16-lane form compiled for several instruction sets, with fused multiply-add written out and tails
 * padded to whole vectors, so the instruction set changes none either; what can change bits stands
 * in the signature. No numerical library and no OpenMP is involved. Kernels run with
 * round-to-nearest, denormals flushed to zero, whatever the caller's control word says, and give it
 * back as it was. Attention writes nothing of size Tq x Tk.
 *
 * The flavour of bf16 products is "amx" where the processor has AMX, else "portable", or what
 * CULM_BF16_FLAVOUR in the environment says. Every processor can do each of them, with the same
 * bits, but only one is fast.
 *
 * This header is for who makes a device by hand: tests and benchmarks. Others use device.h.
 */
#ifndef CULM_DEVICE_CPU_CPU_H
#define CULM_DEVICE_CPU_CPU_H

#include "device/device.h"

/* `create` takes the best instruction set there is, or what CULM_ISA in the environment says. */
extern const struct culm_device_ops culm_cpu_device_ops;

/* The same on a given instruction set, "avx512_bf16", "avx512", "avx2", "neon" or "base"
 * (NULL: the best). CULM_ERR_MACHINE when this processor or this build has none such. */
enum culm_status culm_cpu_new(int threads, const char *isa_or_null, struct culm_device **ret_device,
                              struct culm_error *error);
/* The instruction set chosen, as above. For reports; it changes no bit. */
const char *culm_cpu_isa(const struct culm_device *device);
/* Chooses another flavour of bf16 products; between calls. CULM_ERR_ARGUMENT: no such flavour. */
enum culm_status culm_cpu_bf16_choose(struct culm_device *device, const char *flavour,
                                      struct culm_error *error);

#endif

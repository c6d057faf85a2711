/* Attributes as a key: each of them counts, and one that is added has to be added here. The compiler says so, but
 * for a bool that goes into the gap behind the others. */
#include "graph/graph.h"

#include "base/rng.h"

uint64_t culm_attributes_mix(uint64_t key, const struct culm_attributes *a) {
    const double real[] = {a->eps,   a->dropout, a->alpha,     a->scale,
                           a->shift, a->value,   a->smoothing, a->momentum};
    const int64_t whole[] = {a->heads, a->groups, a->axis, a->start, a->length, a->axes};
    const bool yes[] = {a->causal,  a->transposed, a->reverse,       a->inference, a->trans_a,
                        a->trans_b, a->loss_only,  a->align_corners, a->ceil_mode, a->count_pad};
    const enum culm_function function[] = {a->function};
    /* Apart from these there is nothing but what aligns them: four bytes behind `function`, six behind
     * `count_pad`, four at the end, none behind the eight that follow `smoothing`. That is so where
     * addresses have 64 bits; elsewhere eight bytes may be aligned to four. */
    _Static_assert(sizeof(void *) != 8 ||
                       sizeof real + sizeof whole + sizeof yes + sizeof function +
                               sizeof a->kernel + sizeof a->stride + sizeof a->dilation +
                               sizeof a->pad + sizeof a->dims + sizeof a->algorithm + 4 + 6 + 4 ==
                           sizeof(struct culm_attributes),
                   "an attribute is not mixed in");
    key = culm_rng_mix_bytes(key, real, sizeof real);
    key = culm_rng_mix_bytes(key, whole, sizeof whole);
    key = culm_rng_mix_bytes(key, yes, sizeof yes);
    key = culm_rng_mix_bytes(key, function, sizeof function);
    key = culm_rng_mix_bytes(key, a->kernel, sizeof a->kernel);
    key = culm_rng_mix_bytes(key, a->stride, sizeof a->stride);
    key = culm_rng_mix_bytes(key, a->dilation, sizeof a->dilation);
    key = culm_rng_mix_bytes(key, a->pad, sizeof a->pad);
    key = culm_rng_mix_bytes(key, a->dims, sizeof a->dims);
    return culm_rng_mix_bytes(key, a->algorithm, sizeof a->algorithm);
}

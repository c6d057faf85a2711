/* What attention in f32 and in bf16 share: the description of a call, random bits, masks. */
#ifndef CULM_DEVICE_CPU_ATTENTION_H
#define CULM_DEVICE_CPU_ATTENTION_H

#include "device/cpu/drop.h"
#include "device/cpu/internal.h"

#define BLOCK 128 /* queries, keys; also DROP_GROUP */
#define HEAD CULM_CPU_MAX_HEAD

struct attention {
    struct culm_cpu *cpu;
    struct culm_attention how;
    struct culm_attention_rows in;
    struct culm_attention_grads grads;
    struct culm_out out;
    struct culm_in dout, saved_out;
    float *lse;
    int64_t d, q_blocks, k_blocks;
    int64_t d_panels, wide; /* NR wide, of the features; their columns */
    float scale;
    /* Backward's shares of dq: per head of a wave, the sum so far and one slot per key block. */
    float *shares;
    int64_t slot, slots;           /* floats of a slot; slots of a head */
    int64_t first_head, heads;     /* of this wave, among all samples' heads */
    int64_t first_block, n_blocks; /* of keys, in this wave */
};

/* One row's part of a head: row `row` of sample `sample` begins at this element. */
SIMD int64_t row_at(const struct attention *s, int64_t ld, int64_t t, int64_t sample, int64_t row,
                    int64_t head) {
    return (sample * t + row) * ld + head * s->d;
}

struct bits {
    bool on;
    uvec threshold;
    vec scale;
};

SIMD struct bits bits_of(const struct culm_dropout *dropout) {
    if (!dropout) {
        return (struct bits){.on = false, .threshold = uset(0), .scale = vset(1.0f)};
    }
    return (struct bits){.on = true,
                         .threshold = uset(drop_threshold(dropout->p)),
                         .scale = vset((float)(1.0 / (1.0 - dropout->p)))};
}

SIMD struct drop_bits draw(const struct attention *s, int64_t sample, int64_t head, int64_t query,
                           int64_t key_block) {
    return drop_draw(s->how.dropout->key, culm_dropout_sample(s->how.dropout, sample),
                     (uint64_t)((head * s->how.tq + query) * s->k_blocks + key_block));
}

/* Keys of a sample up to its last visible one. */
static __attribute__((unused)) int64_t keys_of(const struct attention *s, int64_t sample) {
    int64_t keys = s->how.tk;
    while (s->how.mask && keys > 0 && !s->how.mask[sample * s->how.tk + keys - 1]) {
        keys--;
    }
    return keys;
}

/* hide[BLOCK]: what to add to the scores of these keys: 0, or -infinity. */
static __attribute__((unused)) void hide_keys(const struct attention *s, float *hide,
                                              int64_t sample, int64_t k0, int64_t keys) {
    const int32_t *visible = s->how.mask + sample * s->how.tk + k0;
    for (int64_t i = 0; i < BLOCK; i++) {
        hide[i] = i < keys && visible[i] ? 0.0f : -INFINITY;
    }
}

/* Where q, k and v are bf16: attention_bf16.c. */
void ISA_NAME(attention_forward_bf16)(struct attention *s);
void ISA_NAME(attention_backward_bf16)(struct attention *s);

#endif

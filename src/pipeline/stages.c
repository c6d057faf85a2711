/* Sets of stages. See stages.h. */
#include "pipeline/stages.h"

#include <string.h>

struct culm_stage_set culm_stage_set_of(int32_t stage) {
    struct culm_stage_set set = {{0}};
    culm_stage_set_add(&set, stage);
    return set;
}

struct culm_stage_set culm_stage_set_below(int32_t stage) {
    struct culm_stage_set set = {{0}};
    culm_bits_add_range(set.word, 0, stage);
    return set;
}

bool culm_stage_set_empty(const struct culm_stage_set *set) {
    for (int w = 0; w < CULM_STAGE_WORDS; w++) {
        if (set->word[w]) {
            return false;
        }
    }
    return true;
}

int32_t culm_stage_set_count(const struct culm_stage_set *set) {
    int32_t count = 0;
    for (int w = 0; w < CULM_STAGE_WORDS; w++) {
        count += __builtin_popcountll(set->word[w]);
    }
    return count;
}

bool culm_stage_set_same(const struct culm_stage_set *a, const struct culm_stage_set *b) {
    return memcmp(a, b, sizeof *a) == 0;
}

bool culm_stage_set_within(const struct culm_stage_set *a, const struct culm_stage_set *b) {
    for (int w = 0; w < CULM_STAGE_WORDS; w++) {
        if (a->word[w] & ~b->word[w]) {
            return false;
        }
    }
    return true;
}

bool culm_stage_set_meets(const struct culm_stage_set *a, const struct culm_stage_set *b) {
    for (int w = 0; w < CULM_STAGE_WORDS; w++) {
        if (a->word[w] & b->word[w]) {
            return true;
        }
    }
    return false;
}

struct culm_stage_set culm_stage_set_both(const struct culm_stage_set *a,
                                          const struct culm_stage_set *b) {
    struct culm_stage_set both;
    for (int w = 0; w < CULM_STAGE_WORDS; w++) {
        both.word[w] = a->word[w] & b->word[w];
    }
    return both;
}

struct culm_stage_set culm_stage_set_any(const struct culm_stage_set *a,
                                         const struct culm_stage_set *b) {
    struct culm_stage_set any;
    for (int w = 0; w < CULM_STAGE_WORDS; w++) {
        any.word[w] = a->word[w] | b->word[w];
    }
    return any;
}

struct culm_stage_set culm_stage_set_minus(const struct culm_stage_set *a,
                                           const struct culm_stage_set *b) {
    struct culm_stage_set rest;
    for (int w = 0; w < CULM_STAGE_WORDS; w++) {
        rest.word[w] = a->word[w] & ~b->word[w];
    }
    return rest;
}

struct culm_stage_set culm_stage_set_differ(const struct culm_stage_set *a,
                                            const struct culm_stage_set *b) {
    struct culm_stage_set other;
    for (int w = 0; w < CULM_STAGE_WORDS; w++) {
        other.word[w] = a->word[w] ^ b->word[w];
    }
    return other;
}

int32_t culm_stage_set_next(const struct culm_stage_set *set, int32_t from) {
    return culm_bits_next(set->word, CULM_STAGE_WORDS, from);
}

int32_t culm_stage_set_last(const struct culm_stage_set *set) {
    for (int32_t w = CULM_STAGE_WORDS - 1; w >= 0; w--) {
        if (set->word[w]) {
            return 64 * w + 63 - __builtin_clzll(set->word[w]);
        }
    }
    return -1;
}

void culm_stage_set_write(struct culm_buf *buf, const struct culm_stage_set *set) {
    int32_t last = -1;
    for (int32_t s = culm_stage_set_next(set, 0); s >= 0; s = culm_stage_set_next(set, s + 1)) {
        culm_buf_varint(buf, (uint64_t)(s - last));
        last = s;
    }
    culm_buf_varint(buf, 0);
}

struct culm_stage_set culm_stage_set_read(struct culm_reader *in, int32_t below) {
    struct culm_stage_set set = {{0}};
    int32_t last = -1;
    for (uint64_t by; (by = culm_read_varint(in, (uint64_t)(below - 1 - last))) > 0;) {
        last += (int32_t)by;
        culm_stage_set_add(&set, last);
    }
    return set;
}

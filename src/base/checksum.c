/*
 * Four lanes, each of every fourth word: rotate, exclusive or, multiply by an odd constant. Every
 * one of these is a bijection of the lane for a given word and of the word for a given lane: that
 * is why one changed word cannot pass. Rotation brings the upper bits, which multiplication never
 * moves down, back to where they matter.
 */
#include "base/checksum.h"

#include <string.h>

#define ODD 0x9FB21C651E98DF25ull

static inline uint64_t mix(uint64_t lane, uint64_t word) {
    return ((lane << 23 | lane >> 41) ^ word) * ODD;
}

void culm_checksum_init(struct culm_checksum *sum) {
    *sum = (struct culm_checksum){.lane = {1, 2, 3, 4}};
}

static void blocks(struct culm_checksum *sum, const uint8_t *data, size_t count) {
    uint64_t a = sum->lane[0], b = sum->lane[1], c = sum->lane[2], d = sum->lane[3];
    for (size_t i = 0; i < count; i++) {
        uint64_t word[4];
        memcpy(word, data + i * CULM_CHECKSUM_BLOCK, sizeof word);
        a = mix(a, word[0]);
        b = mix(b, word[1]);
        c = mix(c, word[2]);
        d = mix(d, word[3]);
    }
    sum->lane[0] = a;
    sum->lane[1] = b;
    sum->lane[2] = c;
    sum->lane[3] = d;
}

void culm_checksum_add(struct culm_checksum *sum, const void *data, size_t len) {
    const uint8_t *at = data;
    size_t waiting = (size_t)(sum->bytes % CULM_CHECKSUM_BLOCK);
    sum->bytes += len;
    if (waiting) {
        size_t some = CULM_CHECKSUM_BLOCK - waiting < len ? CULM_CHECKSUM_BLOCK - waiting : len;
        memcpy(sum->tail + waiting, at, some);
        at += some;
        len -= some;
        if (waiting + some < CULM_CHECKSUM_BLOCK) {
            return;
        }
        blocks(sum, sum->tail, 1);
    }
    blocks(sum, at, len / CULM_CHECKSUM_BLOCK);
    at += len / CULM_CHECKSUM_BLOCK * CULM_CHECKSUM_BLOCK;
    if (len % CULM_CHECKSUM_BLOCK) {
        memcpy(sum->tail, at, len % CULM_CHECKSUM_BLOCK);
    }
}

uint64_t culm_checksum_value(const struct culm_checksum *sum) {
    struct culm_checksum last = *sum;
    size_t waiting = (size_t)(sum->bytes % CULM_CHECKSUM_BLOCK);
    if (waiting) {
        memset(last.tail + waiting, 0, CULM_CHECKSUM_BLOCK - waiting);
        blocks(&last, last.tail, 1);
    }
    uint64_t value = mix(5, sum->bytes);
    for (int i = 0; i < 4; i++) {
        value = mix(value, last.lane[i]);
    }
    value ^= value >> 32;
    value *= ODD;
    return value ^ value >> 29;
}

uint64_t culm_checksum_of(const void *data, size_t len) {
    struct culm_checksum sum;
    culm_checksum_init(&sum);
    culm_checksum_add(&sum, data, len);
    return culm_checksum_value(&sum);
}

/* Numbered byte strings; see the header. The table is at most half full. */
#include "data/string_set.h"

#include "base/grow.h"

#include <stdlib.h>
#include <string.h>

void culm_strings_release(struct culm_strings *strings) {
    free(strings->slot);
    free(strings->end);
    free(strings->bytes);
    *strings = (struct culm_strings){0};
}

uint64_t culm_strings_hash(const void *data, size_t len) {
    const uint8_t *at = data;
    uint64_t sum = 0x9E3779B97F4A7C15ull ^ len;
    for (; len >= 8; at += 8, len -= 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        sum = (sum ^ word) * 0xD6E8FEB86659FD93ull;
        sum ^= sum >> 32;
    }
    for (; len; at++, len--) {
        sum = (sum ^ *at) * 0x100000001B3ull;
    }
    sum *= 0xD6E8FEB86659FD93ull;
    return sum ^ sum >> 29;
}

const char *culm_strings_get(const struct culm_strings *strings, int32_t number, size_t *ret_len) {
    uint64_t first = number ? strings->end[number - 1] : 0;
    *ret_len = (size_t)(strings->end[number] - first);
    return strings->bytes + first;
}

/* The slot of these bytes, or the free one where they would go. */
static size_t slot_of(const struct culm_strings *strings, const void *data, size_t len) {
    size_t mask = strings->slot_count - 1;
    for (size_t at = (size_t)culm_strings_hash(data, len) & mask;; at = (at + 1) & mask) {
        size_t other_len;
        if (!strings->slot[at]) {
            return at;
        }
        const char *other = culm_strings_get(strings, strings->slot[at] - 1, &other_len);
        if (other_len == len && (!len || !memcmp(other, data, len))) {
            return at;
        }
    }
}

int32_t culm_strings_find(const struct culm_strings *strings, const void *data, size_t len) {
    return strings->slot_count ? strings->slot[slot_of(strings, data, len)] - 1 : -1;
}

static bool grow_slots(struct culm_strings *strings) {
    struct culm_strings larger = *strings;
    larger.slot_count = strings->slot_count ? 2 * strings->slot_count : 256;
    larger.slot = calloc(larger.slot_count, sizeof *larger.slot);
    if (!larger.slot) {
        return false;
    }
    for (int32_t i = 0; i < strings->count; i++) {
        size_t len;
        const char *data = culm_strings_get(strings, i, &len);
        larger.slot[slot_of(&larger, data, len)] = i + 1;
    }
    free(strings->slot);
    *strings = larger;
    return true;
}

int32_t culm_strings_add(struct culm_strings *strings, const void *data, size_t len) {
    int32_t known = culm_strings_find(strings, data, len);
    if (known >= 0) {
        return known;
    }
    uint64_t first = strings->count ? strings->end[strings->count - 1] : 0;
    if (strings->count == CULM_STRINGS_MAX || len > SIZE_MAX / 4 ||
        ((size_t)strings->count * 2 >= strings->slot_count && !grow_slots(strings)) ||
        !CULM_GROW(strings->end, strings->end_capacity, (size_t)strings->count + 1) ||
        !CULM_GROW(strings->bytes, strings->bytes_capacity, (size_t)first + len + 1)) {
        return -1;
    }
    size_t slot = slot_of(strings, data, len);
    if (len) {
        memcpy(strings->bytes + first, data, len);
    }
    strings->end[strings->count] = first + len;
    strings->slot[slot] = ++strings->count;
    return strings->count - 1;
}

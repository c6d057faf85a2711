/*
 * Sets of small numbers, one bit each (bits.h). Memory depends on how far apart the members are: a set has the
 * words from that of its least member to that of its greatest, and allocates nothing while one word is enough, as
 * it always is of numbers below 64. So only what adds members can fail, and never below 64.
 *
 *     for (int32_t n = culm_set_next(&set, 0); n >= 0; n = culm_set_next(&set, n + 1))
 *
 * meets each member, in rising order. A struct may be moved, but not copied: use culm_set_copy. Members are 0
 * or more. Thread: none of its own.
 */
#ifndef CULM_BASE_SET_H
#define CULM_BASE_SET_H

#include "base/bits.h"
#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>

struct culm_set { /* zeroed: empty */
    int32_t first, words;
    int32_t capacity; /* of `word`; 0: there is none, and `one` is the only word */
    uint64_t one;
    uint64_t *word; /* bit b of word w: first * 64 + w * 64 + b */
};

static inline const uint64_t *culm_set_words(const struct culm_set *set) {
    return set->capacity > 0 ? set->word : &set->one;
}
static inline bool culm_set_has(const struct culm_set *set, int32_t member) {
    const int32_t at = member / 64 - set->first;
    return at >= 0 && at < set->words && culm_bits_has(culm_set_words(set) + at, member % 64);
}
bool culm_set_is_empty(const struct culm_set *set);
/* The least member that is not below `least`; -1: there is none. */
int32_t culm_set_next(const struct culm_set *set, int32_t least);
/* The same of those that both have. */
int32_t culm_set_next_both(const struct culm_set *set, const struct culm_set *other, int32_t least);
/* Adds no member, but room for those below `end`, so that to add them, one by one, does not fail until the set is
 * copied to, cleared or released, or is given one beyond. False: out of memory. */
bool culm_set_reserve(struct culm_set *set, int32_t end);
/* False: out of memory, and nothing has changed. */
bool culm_set_add(struct culm_set *set, int32_t member);
/* Adds all members of `more`. False: out of memory, and nothing has changed. */
bool culm_set_add_all(struct culm_set *set, const struct culm_set *more);
/* Gives `set` the members of `from`, and no others. False: out of memory, and nothing has changed. */
bool culm_set_copy(struct culm_set *set, const struct culm_set *from);
void culm_set_remove(struct culm_set *set, int32_t member);
/* Removes all members of `others`; all but these. */
void culm_set_remove_all(struct culm_set *set, const struct culm_set *others);
void culm_set_keep(struct culm_set *set, const struct culm_set *others);
/* Whether both have the same members; whether `set` has all members of `others`. */
bool culm_set_same(const struct culm_set *set, const struct culm_set *other);
bool culm_set_covers(const struct culm_set *set, const struct culm_set *others);
void culm_set_clear(struct culm_set *set);   /* empty; keeps the memory */
void culm_set_release(struct culm_set *set); /* empty, without memory */

/* The words, from the first to the last that has a member: equal sets are written as equal bytes. */
void culm_set_write(const struct culm_set *set, struct culm_buf *buf);
/* Reads one into `set`, which is initialised. A member that is not below `end`, or other bytes than
 * culm_set_write writes, fail the reader. CULM_ERR_MEMORY. */
enum culm_status culm_set_read(struct culm_reader *in, int32_t end, struct culm_set *set);

#endif

/* Sets of small numbers. See set.h. */
#include "base/set.h"

#include <stdlib.h>
#include <string.h>

static uint64_t *words_of(struct culm_set *set) {
    return set->capacity > 0 ? set->word : &set->one;
}

/* Word number `word` of all; 0 where the set has none. */
static uint64_t word_at(const struct culm_set *set, int32_t word) {
    const int32_t at = word - set->first;
    return at >= 0 && at < set->words ? culm_set_words(set)[at] : 0;
}

static int32_t end_of(const struct culm_set *set) { return set->first + set->words; }

/* Which words have members: from *ret_first up to the end that is returned. Equal: none has. */
static int32_t span(const struct culm_set *set, int32_t *ret_first) {
    int32_t first = set->first, end = end_of(set);
    while (first < end && word_at(set, first) == 0) {
        first++;
    }
    while (end > first && word_at(set, end - 1) == 0) {
        end--;
    }
    *ret_first = first;
    return end;
}

/* Makes room for the words from `first` to `end`, at least one, besides those that have members. False: out
 * of memory. */
static bool reach(struct culm_set *set, int32_t first, int32_t end) {
    if (first >= set->first && end <= end_of(set)) {
        return true;
    }
    int32_t old_first;
    const int32_t old_end = span(set, &old_first), old_words = old_end - old_first;
    if (old_words > 0) {
        first = old_first < first ? old_first : first;
        end = old_end > end ? old_end : end;
    }
    const int32_t words = end - first;
    uint64_t *from = words_of(set) + (old_words > 0 ? old_first - set->first : 0);
    const size_t room = set->capacity > 0 ? (size_t)set->capacity : 1;
    uint64_t *to = words_of(set);
    if ((size_t)words > room) {
        to = calloc((size_t)words, sizeof *to);
        if (!to) {
            return false;
        }
    }
    const int32_t before = old_words > 0 ? old_first - first : 0;
    memmove(to + before, from, (size_t)old_words * sizeof *to);
    memset(to, 0, (size_t)before * sizeof *to);
    memset(to + before + old_words, 0, (size_t)(words - before - old_words) * sizeof *to);
    if ((size_t)words > room) {
        if (set->capacity > 0) {
            free(set->word);
        }
        set->word = to;
        set->capacity = words;
    }
    set->first = first;
    set->words = words;
    return true;
}

bool culm_set_is_empty(const struct culm_set *set) {
    int32_t first;
    return span(set, &first) == first;
}

int32_t culm_set_next(const struct culm_set *set, int32_t least) {
    const int32_t before = 64 * set->first;
    const int32_t next =
        culm_bits_next(culm_set_words(set), set->words, least > before ? least - before : 0);
    return next < 0 ? -1 : before + next;
}

int32_t culm_set_next_both(const struct culm_set *set, const struct culm_set *other,
                           int32_t least) {
    const int32_t end = end_of(set) < end_of(other) ? end_of(set) : end_of(other);
    int32_t word = set->first > other->first ? set->first : other->first;
    word = least / 64 > word ? least / 64 : word;
    for (; word < end; word++) {
        uint64_t both = word_at(set, word) & word_at(other, word);
        both &= word == least / 64 ? ~UINT64_C(0) << (least % 64) : ~UINT64_C(0);
        if (both) {
            return word * 64 + __builtin_ctzll(both);
        }
    }
    return -1;
}

bool culm_set_reserve(struct culm_set *set, int32_t end) {
    return end <= 0 || reach(set, 0, (end - 1) / 64 + 1);
}

bool culm_set_add(struct culm_set *set, int32_t member) {
    const int32_t word = member / 64;
    if (!reach(set, word, word + 1)) {
        return false;
    }
    words_of(set)[word - set->first] |= UINT64_C(1) << (member % 64);
    return true;
}

bool culm_set_add_all(struct culm_set *set, const struct culm_set *more) {
    int32_t first;
    const int32_t end = span(more, &first);
    if (first < end && !reach(set, first, end)) {
        return false;
    }
    for (int32_t w = first; w < end; w++) {
        words_of(set)[w - set->first] |= word_at(more, w);
    }
    return true;
}

bool culm_set_copy(struct culm_set *set, const struct culm_set *from) {
    int32_t first;
    const int32_t end = span(from, &first), room = set->capacity > 0 ? set->capacity : 1;
    if (set == from) {
        return true;
    }
    if (end - first <= room) {
        culm_set_clear(set); /* and has no more words than it needs */
    }
    if (first < end && !reach(set, first, end)) {
        return false;
    }
    for (int32_t w = set->first; w < end_of(set); w++) {
        words_of(set)[w - set->first] = word_at(from, w);
    }
    return true;
}

void culm_set_remove(struct culm_set *set, int32_t member) {
    if (culm_set_has(set, member)) {
        words_of(set)[member / 64 - set->first] &= ~(UINT64_C(1) << (member % 64));
    }
}

void culm_set_remove_all(struct culm_set *set, const struct culm_set *others) {
    for (int32_t w = set->first; w < end_of(set); w++) {
        words_of(set)[w - set->first] &= ~word_at(others, w);
    }
}

void culm_set_keep(struct culm_set *set, const struct culm_set *others) {
    for (int32_t w = set->first; w < end_of(set); w++) {
        words_of(set)[w - set->first] &= word_at(others, w);
    }
}

bool culm_set_covers(const struct culm_set *set, const struct culm_set *others) {
    for (int32_t w = others->first; w < end_of(others); w++) {
        if (word_at(others, w) & ~word_at(set, w)) {
            return false;
        }
    }
    return true;
}

bool culm_set_same(const struct culm_set *set, const struct culm_set *other) {
    return culm_set_covers(set, other) && culm_set_covers(other, set);
}

void culm_set_clear(struct culm_set *set) { set->first = set->words = 0; }

void culm_set_release(struct culm_set *set) {
    if (set->capacity > 0) {
        free(set->word);
    }
    *set = (struct culm_set){0};
}

void culm_set_write(const struct culm_set *set, struct culm_buf *buf) {
    int32_t first;
    const int32_t end = span(set, &first);
    culm_buf_i32(buf, first < end ? first : 0);
    culm_buf_i32(buf, end - first);
    for (int32_t w = first; w < end; w++) {
        culm_buf_u64(buf, word_at(set, w));
    }
}

enum culm_status culm_set_read(struct culm_reader *in, int32_t end, struct culm_set *set) {
    const int32_t most = end / 64 + (end % 64 > 0);
    const int32_t first = culm_read_i32(in), words = culm_read_i32(in);
    culm_set_clear(set);
    if (in->failed || first < 0 || words < 0 || first > most || words > most - first ||
        (words == 0 && first > 0)) {
        in->failed = true;
        return CULM_OK;
    }
    if (words == 0) {
        return CULM_OK;
    }
    if ((size_t)words > (in->len - in->at) / sizeof(uint64_t)) {
        in->failed = true;
        return CULM_OK;
    }
    if (!reach(set, first, first + words)) {
        return CULM_ERR_MEMORY;
    }
    for (int32_t w = 0; w < words; w++) {
        words_of(set)[w] = culm_read_u64(in);
    }
    const uint64_t *word = culm_set_words(set);
    const bool beyond = first + words == most && end % 64 > 0 && word[words - 1] >> (end % 64);
    in->failed = in->failed || word[0] == 0 || word[words - 1] == 0 || beyond;
    return CULM_OK;
}

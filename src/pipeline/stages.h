/*
 * Sets of stages. There is room for as many as a run may have, so a set is copied as it is, and nothing that deals with
 * one can fail: leader and nodes work out who holds what for each view. (Sets of many more numbers, of which few are
 * members, are those of base/set.h.) In messages a stage takes a byte. Thread: none of its own.
 */
#ifndef CULM_PIPELINE_STAGES_H
#define CULM_PIPELINE_STAGES_H

#include "base/bits.h"
#include "base/buf.h"

#define CULM_MAX_STAGES 256
#define CULM_STAGE_WORDS (CULM_MAX_STAGES / 64)

struct culm_stage_set {
    uint64_t word[CULM_STAGE_WORDS];
};

static inline bool culm_stage_set_has(const struct culm_stage_set *set, int32_t stage) {
    return culm_bits_has(set->word, stage);
}
static inline void culm_stage_set_add(struct culm_stage_set *set, int32_t stage) {
    culm_bits_add(set->word, stage);
}
static inline void culm_stage_set_remove(struct culm_stage_set *set, int32_t stage) {
    culm_bits_remove(set->word, stage);
}
/* That stage alone. */
struct culm_stage_set culm_stage_set_of(int32_t stage);
/* All below that one. */
struct culm_stage_set culm_stage_set_below(int32_t stage);
bool culm_stage_set_empty(const struct culm_stage_set *set);
int32_t culm_stage_set_count(const struct culm_stage_set *set);
bool culm_stage_set_same(const struct culm_stage_set *a, const struct culm_stage_set *b);
/* Is all of `a` in `b`? Is anything? */
bool culm_stage_set_within(const struct culm_stage_set *a, const struct culm_stage_set *b);
bool culm_stage_set_meets(const struct culm_stage_set *a, const struct culm_stage_set *b);
/* The intersection. */
struct culm_stage_set culm_stage_set_both(const struct culm_stage_set *a,
                                          const struct culm_stage_set *b);
/* The union. */
struct culm_stage_set culm_stage_set_any(const struct culm_stage_set *a,
                                         const struct culm_stage_set *b);
/* What is in `a` but not in `b`. */
struct culm_stage_set culm_stage_set_minus(const struct culm_stage_set *a,
                                           const struct culm_stage_set *b);
/* What is in one of them alone. */
struct culm_stage_set culm_stage_set_differ(const struct culm_stage_set *a,
                                            const struct culm_stage_set *b);
/* The first stage that is not below `from`, the last of all; -1: there is none.
 *
 *     for (int32_t s = culm_stage_set_next(&set, 0); s >= 0; s = culm_stage_set_next(&set, s + 1)) */
int32_t culm_stage_set_next(const struct culm_stage_set *set, int32_t from);
int32_t culm_stage_set_last(const struct culm_stage_set *set);

/* The distance of each from the one before, at least 1, then 0, all as varints. */
void culm_stage_set_write(struct culm_buf *buf, const struct culm_stage_set *set);
/* Of stages below `below`; any other fails the reader. */
struct culm_stage_set culm_stage_set_read(struct culm_reader *in, int32_t below);

#endif

/*
 * Numbers of views: the upper half is of the term, so that views are ordered by term, then by number. 0: no view.
 */
#ifndef CULM_CREW_TERM_H
#define CULM_CREW_TERM_H

#include <stdint.h>

#define CULM_VIEW_OF_TERM(term) (((uint64_t)(term)-1) << 32)
#define CULM_VIEW_TERM(number) (((number) >> 32) + 1)

/* Of one who was told of none (0): the first. */
static inline uint64_t culm_term_of(uint64_t term) { return term > 1 ? term : 1; }

/* The view after `last`, of one who leads in that term (0 and 1: the first). The first of a term has the number after the last one
 * of another. */
static inline uint64_t culm_view_after(uint64_t last, uint64_t term) {
    return CULM_VIEW_OF_TERM(culm_term_of(term)) | ((last + 1) & UINT32_MAX);
}

#endif

/* Sets of stages as tests write them: bit s for stage s. */
#ifndef CULM_TESTS_UNIT_PIPELINE_STAGE_MASKS_H
#define CULM_TESTS_UNIT_PIPELINE_STAGE_MASKS_H

#include "pipeline/stages.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static inline struct culm_stage_set stages_of(uint64_t mask) {
    struct culm_stage_set set = {{0}};
    set.word[0] = mask;
    return set;
}

/* It has none beyond stage 63. */
static inline uint64_t mask_of(struct culm_stage_set set) {
    for (int w = 1; w < CULM_STAGE_WORDS; w++) {
        assert_true(set.word[w] == 0);
    }
    return set.word[0];
}

#endif

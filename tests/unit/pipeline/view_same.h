/* Are two views the same, to the last bit? A difference ends the test (cmocka). */
#ifndef CULM_TESTS_UNIT_PIPELINE_VIEW_SAME_H
#define CULM_TESTS_UNIT_PIPELINE_VIEW_SAME_H

#include "pipeline/view.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static inline void assert_same_view(const struct culm_view *a, const struct culm_view *b) {
    assert_true(a->number == b->number && a->phase == b->phase && a->iteration == b->iteration &&
                a->attempt == b->attempt && a->frc == b->frc);
    assert_true(a->pipelines == b->pipelines && a->stages == b->stages && a->lanes == b->lanes);
    for (int32_t p = 0; p < a->pipelines; p++) {
        for (int32_t s = 0; s < a->stages; s++) {
            assert_int_equal(a->role[p][s].owner, b->role[p][s].owner);
            assert_int_equal(a->role[p][s].shadow, b->role[p][s].shadow);
        }
    }
    for (int32_t l = 0; l < a->lanes; l++) {
        assert_int_equal(a->lane_pipeline[l], b->lane_pipeline[l]);
    }
    assert_int_equal(a->node_count, b->node_count);
    for (int32_t i = 0; i < a->node_count; i++) {
        assert_int_equal(a->node[i].id, b->node[i].id);
        assert_int_equal(a->node[i].pipeline, b->node[i].pipeline);
        assert_int_equal(a->node[i].stage, b->node[i].stage);
        assert_true(culm_stage_set_same(&a->node[i].holds, &b->node[i].holds));
    }
    assert_int_equal(a->transfer_count, b->transfer_count);
    for (int32_t t = 0; t < a->transfer_count; t++) {
        assert_int_equal(a->transfer[t].id, b->transfer[t].id);
        assert_int_equal(a->transfer[t].source, b->transfer[t].source);
        assert_int_equal(a->transfer[t].destination, b->transfer[t].destination);
        assert_int_equal(a->transfer[t].stage, b->transfer[t].stage);
    }
    assert_string_equal(a->reason, b->reason);
    assert_string_equal(a->source, b->source);
}

/* Empty, or with room for so many nodes; of tests that end with the process. */
static inline struct culm_view *view_made(const struct culm_run_shape *shape, int32_t nodes) {
    struct culm_view *view = calloc(1, sizeof *view);
    assert_non_null(view);
    assert_true(culm_view_init(view, shape));
    assert_true(culm_view_reserve(view, nodes));
    return view;
}

static inline void view_end(struct culm_view *view) {
    culm_view_release(view);
    free(view);
}

#endif

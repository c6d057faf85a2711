/* What tests of a leader that outlives trouble share: options of a run, and workers that join, load and
 * commit. */
#ifndef CULM_TESTS_UNIT_PIPELINE_LEADER_ALIVE_H
#define CULM_TESTS_UNIT_PIPELINE_LEADER_ALIVE_H

#include "leader_driven.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define STUCK_MS 300

static inline struct culm_pipeline_leader_options options(int32_t pipelines) {
    return (struct culm_pipeline_leader_options){
        .layout = &layout,
        .shape = {.pipelines = pipelines,
                  .stages = STAGES,
                  .lanes = pipelines,
                  .micros = pipelines,
                  .micros_per_lane = 1,
                  .global_samples = 1,
                  .micro_samples = 1,
                  .steps = 30,
                  .redundancy = CULM_REDUNDANCY_LAZY},
        .settings = {.crew = {.heartbeat_ms = 100,
                              .suspect_ms = 1000,
                              .kill_suspect_ms = 0,
                              .replace_ms = 0,
                              .join_ms = 1000,
                              .wait_ms = 600000,
                              .stuck_ms = STUCK_MS,
                              .max_nodes = 8},
                     .checkpoint_every = 0},
        .start_source = "",
    };
}

static inline void beat(struct fixture *f, int32_t from, int32_t kind, int32_t stage, int64_t ms) {
    SAY_WORD(f, from, HEARTBEAT, heartbeat, .kind = kind, .part = stage, .task_ms = ms);
}

/* Those who were asked for join. */
static inline void join(struct fixture *f) {
    while (f->asked < f->fake.started) {
        f->asked++;
        joined(f, f->next++);
    }
}

static inline void loaded(struct fixture *f) {
    uint64_t view = totals(f).view;
    for (int32_t i = 0; i < f->next; i++) {
        SAY(f, i, LOADED, loaded, .view = view, .version = totals(f).committed);
    }
}

static inline void run(struct fixture *f) {
    join(f);
    loaded(f);
    fake_world_forget(&f->fake);
}

/* All are prepared for the next step. */
static inline void prepare(struct fixture *f) {
    int64_t k = totals(f).committed + 1;
    double norm[STAGES] = {1, 1};
    uint64_t view = totals(f).view;
    for (int32_t i = 0; i < f->next; i++) {
        uint64_t digest[STAGES] = {7, 7};
        const struct culm_digests stated = {view, k - 1, {{3}}, STAGES, STAGES, digest};
        culm_digests_encode(&stated, &f->buf);
        deliver(f, i, CULM_MSG_DIGESTS);
        const struct culm_prepared what = {view, k,      {{3}},  1.0,  1,
                                           1.0,  STAGES, STAGES, norm, (uint64_t[STAGES]){0}};
        culm_prepared_encode(&what, &f->buf);
        deliver(f, i, CULM_MSG_PREPARED);
    }
}

static inline void commit(struct fixture *f) {
    int64_t k = totals(f).committed + 1;
    prepare(f);
    assert_int_equal(totals(f).committed, k);
}

#endif

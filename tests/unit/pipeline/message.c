/* Messages: what is written is read again; any cut and any noise is refused or harmless. */
#include "decoders.h"
#include "stage_masks.h"
#include "view_same.h"

#include "pipeline/config.h"
#include "pipeline/report.h"
#include "pipeline/waits.h"

#include <math.h>
#include <stdio.h>

#define STAGES 3
#define MICROS 8
#define GRADS 11
#define LANES 100 /* of HAVE and WAITS */
#define PARAMS 7

static const struct culm_run_shape shape = {
    .pipelines = 2, .stages = STAGES, .lanes = 4, .micros = MICROS, .redundancy = 0};

/* Decoders under one form, each into room of its own. */
static enum culm_status decode_boundary(const uint8_t *meta, size_t len) {
    struct culm_boundary boundary;
    return culm_boundary_decode(meta, len, &boundary);
}
static enum culm_status decode_sum(const uint8_t *meta, size_t len) {
    struct culm_sum sum;
    return culm_sum_decode(meta, len, &sum);
}
static enum culm_status decode_reduced(const uint8_t *meta, size_t len) {
    struct culm_reduced reduced;
    return culm_reduced_decode(meta, len, &reduced);
}
static enum culm_status decode_state(const uint8_t *meta, size_t len) {
    struct culm_state state;
    return culm_state_decode(meta, len, &state);
}
static enum culm_status decode_have(const uint8_t *meta, size_t len) {
    struct culm_have have;
    assert_int_equal(culm_have_init(&have, STAGES, MICROS, GRADS, LANES), CULM_OK);
    enum culm_status status = culm_have_decode(meta, len, &have);
    culm_have_release(&have);
    return status;
}
static enum culm_status decode_view(const uint8_t *meta, size_t len) {
    struct culm_view view = {0};
    enum culm_status status = culm_view_decode(meta, len, NULL, &shape, &view);
    culm_view_release(&view);
    return status;
}
static enum culm_status decode_commit(const uint8_t *meta, size_t len) {
    struct culm_commit commit;
    return culm_commit_decode(meta, len, &commit);
}
static enum culm_status decode_prepared(const uint8_t *meta, size_t len) {
    double norm[PARAMS];
    uint64_t ids[STAGES];
    struct culm_prepared prepared = {
        .params = PARAMS, .of_stages = STAGES, .norm = norm, .ids = ids};
    return culm_prepared_decode(meta, len, &prepared);
}

static const struct culm_moment moment = {INT64_C(123456789012), 3};

static bool same_moment(struct culm_moment at) {
    return at.iteration == moment.iteration && at.attempt == moment.attempt;
}

static void test_boundary(void **state) {
    (void)state;
    const struct culm_boundary boundary = {moment, 5, 77},
                               bad[] = {{{1, 0}, -1, 0}, {{1, 0}, 0, -1}};
    struct culm_boundary again;
    struct culm_buf buf;
    culm_buf_init(&buf, CULM_META_MAX);
    culm_boundary_encode(&boundary, &buf);
    assert_int_equal(culm_boundary_decode(buf.data, buf.len, &again), CULM_OK);
    assert_true(same_moment(again.at) && again.stage == 5 && again.micro == 77);
    check_cuts(&buf, decode_boundary);
    check_noise(&buf, decode_boundary, 1);
    for (size_t i = 0; i < 2; i++) {
        culm_buf_clear(&buf);
        culm_boundary_encode(&bad[i], &buf);
        assert_int_equal(decode_boundary(buf.data, buf.len), CULM_ERR_FORMAT);
    }
    culm_buf_release(&buf);
}

static void test_sum_and_reduced(void **state) {
    (void)state;
    const struct culm_sum sum = {moment, 5, 77}, bad = {{1, 0}, 1, -1};
    const struct culm_reduced reduced = {moment, 5}, worse = {{1, 0}, -1};
    struct culm_sum sum_again;
    struct culm_reduced reduced_again;
    struct culm_buf buf;
    culm_buf_init(&buf, CULM_META_MAX);
    culm_sum_encode(&sum, &buf);
    assert_int_equal(culm_sum_decode(buf.data, buf.len, &sum_again), CULM_OK);
    assert_true(same_moment(sum_again.at) && sum_again.grad == 5 && sum_again.tree_node == 77);
    check_cuts(&buf, decode_sum);
    check_noise(&buf, decode_sum, 2);
    culm_buf_clear(&buf);
    culm_sum_encode(&bad, &buf);
    assert_int_equal(decode_sum(buf.data, buf.len), CULM_ERR_FORMAT);
    culm_buf_clear(&buf);
    culm_reduced_encode(&reduced, &buf);
    assert_int_equal(culm_reduced_decode(buf.data, buf.len, &reduced_again), CULM_OK);
    assert_true(same_moment(reduced_again.at) && reduced_again.grad == 5);
    check_cuts(&buf, decode_reduced);
    check_noise(&buf, decode_reduced, 3);
    culm_buf_clear(&buf);
    culm_reduced_encode(&worse, &buf);
    assert_int_equal(decode_reduced(buf.data, buf.len), CULM_ERR_FORMAT);
    culm_buf_release(&buf);
}

static void test_state(void **state) {
    (void)state;
    const struct culm_state copy = {7, UINT32_MAX, 5, 9, UINT64_C(0xfedcba9876543210)};
    const struct culm_state bad = {1, 1, -1, 0, 0};
    struct culm_state again;
    struct culm_buf buf;
    culm_buf_init(&buf, CULM_META_MAX);
    culm_state_encode(&copy, &buf);
    assert_int_equal(culm_state_decode(buf.data, buf.len, &again), CULM_OK);
    assert_true(again.version == 7 && again.transfer == UINT32_MAX);
    assert_true(again.index == 5 && again.slice == 9 && again.digest == copy.digest);
    check_cuts(&buf, decode_state);
    check_noise(&buf, decode_state, 4);
    culm_buf_clear(&buf);
    culm_state_encode(&bad, &buf);
    assert_int_equal(decode_state(buf.data, buf.len), CULM_ERR_FORMAT);
    culm_buf_release(&buf);
}

static enum culm_status decode_want(const uint8_t *meta, size_t len) {
    struct culm_want want;
    return culm_want_decode(meta, len, &want);
}

static void test_want(void **state) {
    (void)state;
    const struct culm_want want = {77, UINT32_MAX, 5, 9}, bad = {77, 1, 5, -1};
    struct culm_want again;
    struct culm_buf buf;
    culm_buf_init(&buf, CULM_META_MAX);
    culm_want_encode(&want, &buf);
    assert_int_equal(culm_want_decode(buf.data, buf.len, &again), CULM_OK);
    assert_true(again.view == 77 && again.transfer == UINT32_MAX);
    assert_true(again.index == 5 && again.slice == 9);
    check_cuts(&buf, decode_want);
    check_noise(&buf, decode_want, 5);
    culm_buf_clear(&buf);
    culm_want_encode(&bad, &buf);
    assert_int_equal(decode_want(buf.data, buf.len), CULM_ERR_FORMAT);
    culm_buf_release(&buf);
}

#define LEARNT 70

static enum culm_status decode_learn(const uint8_t *meta, size_t len) {
    uint8_t grad[LEARNT];
    struct culm_learn learn = {.grads = LEARNT, .grad = grad};
    return culm_learn_decode(meta, len, &learn);
}

static void test_learn(void **state) {
    (void)state;
    uint8_t grad[LEARNT] = {0}, there[LEARNT];
    grad[3] = grad[LEARNT - 1] = 1;
    struct culm_learn learn = {77, 12, LEARNT, grad}, again = {.grads = LEARNT, .grad = there};
    struct culm_buf buf;
    culm_buf_init(&buf, CULM_META_MAX);
    culm_learn_encode(&learn, &buf);
    assert_int_equal(culm_learn_decode(buf.data, buf.len, &again), CULM_OK);
    assert_true(again.view == 77 && again.got == 12);
    assert_memory_equal(there, grad, LEARNT);
    check_cuts(&buf, decode_learn);
    check_noise(&buf, decode_learn, 6);
    culm_buf_clear(&buf);
    learn.grads = LEARNT - 1; /* of another run */
    culm_learn_encode(&learn, &buf);
    assert_int_equal(decode_learn(buf.data, buf.len), CULM_ERR_FORMAT);
    culm_buf_release(&buf);
}

static void test_have(void **state) {
    (void)state;
    struct culm_have have, again;
    struct culm_buf buf;
    culm_buf_init(&buf, CULM_META_MAX);
    assert_int_equal(culm_have_init(&have, STAGES, MICROS, GRADS, LANES), CULM_OK);
    assert_int_equal(culm_have_init(&again, STAGES, MICROS, GRADS, LANES), CULM_OK);
    have.view = 42;
    have.iteration = 7;
    for (int32_t i = 0; i < STAGES * MICROS; i++) {
        have.activation[i] = i % 2;
        have.gradient[i] = i % 3 == 0;
    }
    for (int32_t g = 0; g < GRADS; g++) {
        have.reduced[g] = g % 4 == 1;
        culm_have_lanes(&have, g)[0] = UINT64_C(0x8000000000000001) >> g;
        culm_have_lanes(&have, g)[1] = g % 3;
    }
    culm_have_encode(&have, &buf);
    assert_int_equal(culm_have_decode(buf.data, buf.len, &again), CULM_OK);
    assert_int_equal(again.view, 42);
    assert_int_equal(again.iteration, 7);
    assert_memory_equal(again.activation, have.activation, STAGES * MICROS);
    assert_memory_equal(again.gradient, have.gradient, STAGES * MICROS);
    assert_memory_equal(again.reduced, have.reduced, GRADS);
    assert_memory_equal(again.lanes, have.lanes, GRADS * 2 * sizeof have.lanes[0]);
    check_cuts(&buf, decode_have);
    check_noise(&buf, decode_have, 2);
    struct culm_have other;
    assert_int_equal(culm_have_init(&other, STAGES, MICROS + 1, GRADS, LANES), CULM_OK);
    assert_int_equal(culm_have_decode(buf.data, buf.len, &other), CULM_ERR_FORMAT);
    culm_have_release(&other);
    assert_int_equal(culm_have_init(&other, STAGES, MICROS, GRADS, 64), CULM_OK);
    assert_int_equal(culm_have_decode(buf.data, buf.len, &other), CULM_ERR_FORMAT);
    culm_have_release(&other);
    culm_have_release(&have);
    culm_have_release(&again);
    culm_buf_release(&buf);
}

/* Of the largest run that a configuration allows, as WAITS tells it: with the lanes of all stages. */
static void test_what_a_large_run_has_fits(void **state) {
    (void)state;
    const int32_t stages = CULM_MAX_STAGES, micros = CULM_PIPELINE_MAX_MICROS, grads = 4096;
    struct culm_waits *waits = culm_waits_new(stages, micros, grads, micros);
    struct culm_waits *again = culm_waits_new(stages, micros, grads, micros);
    assert_true(waits && again);
    memset(waits->have.activation, 1, (size_t)stages * (size_t)micros);
    memset(waits->have.gradient, 1, (size_t)stages * (size_t)micros);
    memset(waits->have.reduced, 1, (size_t)grads);
    struct culm_buf buf;
    culm_buf_init(&buf, CULM_META_MAX);
    culm_waits_encode(waits, &waits->have, &buf);
    assert_false(buf.failed);
    assert_int_equal(culm_waits_decode(buf.data, buf.len, again), CULM_OK);
    assert_memory_equal(again->have.activation, waits->have.activation,
                        (size_t)stages * (size_t)micros);
    culm_waits_free(waits);
    culm_waits_free(again);
    culm_buf_release(&buf);
}

static void fill_view(struct culm_view *view) {
    culm_view_clear(view);
    view->number = 9;
    view->phase = CULM_VIEW_LOAD;
    view->iteration = 5;
    view->attempt = 6;
    view->frc = true;
    snprintf(view->reason, sizeof view->reason, "node 3 was lost (eof)");
    snprintf(view->source, sizeof view->source, "checkpoints/step-00000004");
    for (int32_t p = 0; p < 2; p++) {
        for (int32_t s = 0; s < STAGES; s++) {
            view->role[p][s] = (struct culm_role){p * STAGES + s, s - 1};
        }
    }
    for (int32_t l = 0; l < 4; l++) {
        view->lane_pipeline[l] = l % 3 - 1;
    }
    for (int32_t i = 0; i < 3; i++) {
        const struct culm_view_node node = {10 + i, i - 1 < 0 ? -1 : 0, i - 1, stages_of(7u >> i)};
        assert_true(culm_view_add_node(view, &node));
    }
    const struct culm_transfer copy[] = {{77, 10, 11, 2}, {78, 11, 12, 0}};
    for (int32_t t = 0; t < 2; t++) {
        assert_true(culm_view_add_transfer(view, &copy[t]));
    }
}

/* The number that tells a slot is where the bytes of two views that differ in it first differ. */
static void slot_outside(bool stage, uint8_t number) {
    struct culm_view view, other = {0};
    struct culm_buf buf, moved;
    culm_buf_init(&buf, CULM_META_MAX);
    culm_buf_init(&moved, CULM_META_MAX);
    assert_true(culm_view_init(&view, &shape));
    fill_view(&view);
    culm_view_encode(&view, NULL, &shape, &buf);
    *(stage ? &view.node[1].stage : &view.node[1].pipeline) = 1;
    culm_view_encode(&view, NULL, &shape, &moved);
    size_t at = 0;
    while (buf.data[at] == moved.data[at]) {
        at++;
    }
    assert_int_equal(moved.data[at], buf.data[at] + 1);
    buf.data[at] = number;
    assert_int_equal(culm_view_decode(buf.data, buf.len, NULL, &shape, &other), CULM_ERR_FORMAT);
    culm_view_release(&view);
    culm_view_release(&other);
    culm_buf_release(&buf);
    culm_buf_release(&moved);
}

static void test_view(void **state) {
    (void)state;
    struct culm_view view, again = {0}, other = {0};
    struct culm_buf buf;
    culm_buf_init(&buf, CULM_META_MAX);
    assert_true(culm_view_init(&view, &shape));
    fill_view(&view);
    culm_view_encode(&view, NULL, &shape, &buf);
    assert_int_equal(culm_view_decode(buf.data, buf.len, NULL, &shape, &again), CULM_OK);
    assert_same_view(&again, &view);
    check_cuts(&buf, decode_view);
    check_noise(&buf, decode_view, 3);

    struct culm_run_shape larger = shape;
    larger.stages++;
    other.number = 1234;
    assert_int_equal(culm_view_decode(buf.data, buf.len, NULL, &larger, &other), CULM_ERR_FORMAT);
    assert_int_equal(other.number, 1234); /* untouched on failure */

    /* numbers outside the run */
    for (int which = 0; which < 10; which++) {
        fill_view(&view);
        switch (which) {
        case 0: view.lane_pipeline[3] = 2; break;
        case 1: /* the stage of its slot, and the pipeline: slot_outside */
        case 2: continue;
        case 3: view.node[1].id = -1; break;
        case 4: view.transfer[1].stage = -1; break;
        case 5: view.role[1][2].owner = -2; break;
        case 6: view.phase = (enum culm_view_phase)2; break;
        case 7: view.iteration = (int64_t)CULM_COUNT_MAX + 1; break;
        case 8: /* a step that is done, and none has been */
            view.phase = CULM_VIEW_RUN;
            view.iteration = 0;
            break;
        case 9: view.node[1].id = view.node[0].id; break; /* ids rise */
        }
        culm_buf_clear(&buf);
        culm_view_encode(&view, NULL, &shape, &buf);
        assert_int_equal(culm_view_decode(buf.data, buf.len, NULL, &shape, &other),
                         CULM_ERR_FORMAT);
    }
    slot_outside(true, STAGES);
    slot_outside(false, 2 + 2);
    culm_view_release(&view);
    culm_view_release(&again);
    culm_view_release(&other);
    culm_buf_release(&buf);
}

static void test_commit(void **state) {
    (void)state;
    const struct culm_commit commit = {.view = 3,
                                       .content = {8, 0.25, 2.718281828459045, 1e-3},
                                       .published = 6,
                                       .totals = {1, 2, 3, 4}};
    struct culm_commit again;
    struct culm_buf buf;
    culm_buf_init(&buf, CULM_META_MAX);
    culm_commit_encode(&commit, &buf);
    assert_int_equal(culm_commit_decode(buf.data, buf.len, &again), CULM_OK);
    assert_memory_equal(&again, &commit, sizeof commit);
    check_cuts(&buf, decode_commit);
    check_noise(&buf, decode_commit, 4);
    culm_buf_release(&buf);
}

static enum culm_status decode_report(const uint8_t *meta, size_t len) {
    struct culm_report report = {.of_stages = STAGES};
    return culm_report_decode(meta, len, &report);
}

static void test_report(void **state) {
    (void)state;
    const struct culm_report report = {.view = CULM_VIEW_OF_TERM(3) + 9,
                                       .iteration = 8,
                                       .holds = stages_of(5),
                                       .whole = stages_of(2),
                                       .of_stages = STAGES,
                                       .commit = {7, 0.25, 2.5, 1e-3},
                                       .curve_first = 4,
                                       .totals = {1, 2, 3, 4}};
    struct culm_report again = {.of_stages = STAGES}, ahead = report;
    struct culm_buf buf, same;
    culm_buf_init(&same, CULM_META_MAX);
    culm_buf_init(&buf, CULM_META_MAX);
    culm_report_encode(&report, &buf);
    assert_int_equal(culm_report_decode(buf.data, buf.len, &again), CULM_OK);
    culm_report_encode(&again, &same); /* bytes between its fields may be any */
    assert_int_equal(same.len, buf.len);
    assert_memory_equal(same.data, buf.data, buf.len);
    assert_int_equal(again.totals.steps_redone, report.totals.steps_redone);
    assert_true(again.commit.norm == report.commit.norm);
    culm_buf_release(&same);
    check_cuts(&buf, decode_report);
    check_noise(&buf, decode_report, 4);
    culm_buf_clear(&buf);
    ahead.commit.iteration = 8; /* what is committed is not in progress */
    culm_report_encode(&ahead, &buf);
    assert_int_equal(decode_report(buf.data, buf.len), CULM_ERR_FORMAT);
    culm_buf_release(&buf);
}

static void test_curve(void **state) {
    (void)state;
    static struct culm_curve curve, again;
    struct culm_buf buf;
    culm_buf_init(&buf, CULM_META_MAX);
    for (int64_t step = 1; step <= CULM_CURVE_MAX + 10; step++) {
        culm_curve_add(&curve, step, (double)step, 0.5);
    }
    assert_true(curve.first > 1); /* the oldest have given way */
    assert_int_equal(curve.first + curve.count - 1, CULM_CURVE_MAX + 10);
    assert_true(curve.step[0].loss == (double)curve.first);
    culm_curve_cut(&curve, CULM_CURVE_MAX, CULM_CURVE_MAX + 6);
    assert_int_equal(curve.first, CULM_CURVE_MAX + 1);
    assert_int_equal(curve.count, 6);
    assert_true(curve.step[5].loss == CULM_CURVE_MAX + 6);
    culm_curve_encode(&curve, &buf);
    assert_int_equal(culm_curve_decode(buf.data, buf.len, &again), CULM_OK);
    assert_int_equal(again.first, curve.first);
    assert_memory_equal(again.step, curve.step, 6 * sizeof curve.step[0]);
    assert_int_equal(culm_curve_decode(buf.data, buf.len - 1, &again), CULM_ERR_FORMAT);
    culm_curve_cut(&curve, CULM_CURVE_MAX + 6, INT64_MAX);
    assert_int_equal(curve.count, 0);
    culm_curve_cut(&curve, INT64_MAX, INT64_MAX); /* as a message may say */
    culm_curve_add(&curve, 3, 1, 1);              /* whatever there was before */
    culm_curve_add(&curve, 9, 1, 1);              /* and what is between is not known */
    assert_int_equal(curve.first, 9);
    assert_int_equal(curve.count, 1);
    culm_curve_add(&curve, 10, 2, 1);
    culm_curve_add(&curve, 10, 3, 1); /* once more */
    assert_int_equal(curve.first, 9);
    assert_int_equal(curve.count, 2);
    assert_true(curve.step[1].loss == 3);
    culm_buf_release(&buf);
}

static void test_prepared(void **state) {
    (void)state;
    double norm[PARAMS] = {1, 2.5, -0.0, 1e300, 5e-324, 6, 7}, read[PARAMS];
    norm[1] = (double)NAN;  /* of none */
    norm[6] = -(double)NAN; /* one that came out */
    uint64_t ids[STAGES] = {1, 0, 3}, read_ids[STAGES];
    const struct culm_prepared prepared = {11,   12,     stages_of(5), 1.5,  32,
                                           0.75, PARAMS, STAGES,       norm, ids};
    struct culm_prepared again = {
        .params = PARAMS, .of_stages = STAGES, .norm = read, .ids = read_ids};
    struct culm_buf buf;
    culm_buf_init(&buf, CULM_META_MAX);
    culm_prepared_encode(&prepared, &buf);
    assert_int_equal(culm_prepared_decode(buf.data, buf.len, &again), CULM_OK);
    assert_int_equal(again.view, 11);
    assert_int_equal(again.iteration, 12);
    assert_int_equal(mask_of(again.stages), 5);
    assert_int_equal(again.samples, 32);
    assert_true(again.weight == 0.75);
    assert_true(again.ids[0] == 1 && again.ids[1] == 0 && again.ids[2] == 3);
    assert_memory_equal(read, norm, sizeof norm); /* bit for bit */
    check_cuts(&buf, decode_prepared);
    check_noise(&buf, decode_prepared, 5);
    again.params = PARAMS - 1;
    assert_int_equal(culm_prepared_decode(buf.data, buf.len, &again), CULM_ERR_FORMAT);
    culm_buf_release(&buf);
}

static enum culm_status decode_digests(const uint8_t *meta, size_t len) {
    uint64_t digest[PARAMS];
    struct culm_digests digests = {.params = PARAMS, .of_stages = 100, .digest = digest};
    return culm_digests_decode(meta, len, &digests);
}

static void test_digests(void **state) {
    (void)state;
    uint64_t digest[PARAMS] = {1, UINT64_MAX, 3}, read[PARAMS];
    const struct culm_digests digests = {11, 12, culm_stage_set_of(99), PARAMS, 100, digest};
    struct culm_digests again = {.params = PARAMS, .of_stages = 100, .digest = read};
    struct culm_buf buf;
    culm_buf_init(&buf, CULM_META_MAX);
    culm_digests_encode(&digests, &buf);
    assert_int_equal(culm_digests_decode(buf.data, buf.len, &again), CULM_OK);
    assert_int_equal(again.view, 11);
    assert_int_equal(again.version, 12);
    assert_true(culm_stage_set_same(&again.stages, &digests.stages));
    assert_memory_equal(read, digest, sizeof digest);
    check_cuts(&buf, decode_digests);
    check_noise(&buf, decode_digests, 7);
    again.params = PARAMS + 1;
    assert_int_equal(culm_digests_decode(buf.data, buf.len, &again), CULM_ERR_FORMAT);
    again.params = PARAMS;
    /* of three tensors, the first of which is one that nothing is said of */
    assert_int_equal(buf.len, 8 + 8 + 2 + 4 + 8 + 3 * 8);
    buf.data[30] = 0;
    assert_int_equal(culm_digests_decode(buf.data, buf.len, &again), CULM_ERR_FORMAT);
    buf.data[30] = 1;
    buf.data[22] |= 1 << PARAMS; /* a tensor that there is not */
    assert_int_equal(culm_digests_decode(buf.data, buf.len, &again), CULM_ERR_FORMAT);
    buf.data[22] ^= 1 << PARAMS;
    assert_int_equal(culm_digests_decode(buf.data, buf.len, &again), CULM_OK);
    again.of_stages = 99; /* a stage that there is not */
    assert_int_equal(culm_digests_decode(buf.data, buf.len, &again), CULM_ERR_FORMAT);
    culm_buf_release(&buf);
}

static enum culm_status decode_waits(const uint8_t *meta, size_t len) {
    struct culm_waits *waits = culm_waits_new(STAGES, MICROS, GRADS, LANES);
    enum culm_status status = culm_waits_decode(meta, len, waits);
    culm_waits_free(waits);
    return status;
}

static void test_waits(void **state) {
    (void)state;
    struct culm_waits *waits = culm_waits_new(STAGES, MICROS, GRADS, LANES);
    struct culm_waits *again = culm_waits_new(STAGES, MICROS, GRADS, LANES);
    struct culm_buf buf;
    culm_buf_init(&buf, CULM_META_MAX);
    waits->question = 9;
    culm_waits_lanes(waits, STAGES - 1)[1] = UINT64_MAX;
    assert_true(culm_waits_add_deaf(waits, 0) && culm_waits_add_deaf(waits, 99999));
    waits->have.view = 42;
    waits->have.reduced[GRADS - 1] = 1;
    culm_waits_encode(waits, &waits->have, &buf);
    assert_int_equal(culm_waits_decode(buf.data, buf.len, again), CULM_OK);
    assert_int_equal(again->question, 9);
    assert_true(culm_waits_lanes(again, STAGES - 1)[1] == UINT64_MAX);
    assert_int_equal(again->deaf_count, 2);
    assert_int_equal(again->deaf[1], 99999);
    assert_int_equal(again->have.view, 42);
    assert_int_equal(again->have.reduced[GRADS - 1], 1);
    check_cuts(&buf, decode_waits);
    check_noise(&buf, decode_waits, 8);
    culm_buf_clear(&buf);
    culm_buf_u64(&buf, 1);
    culm_buf_i32(&buf, STAGES);
    for (int32_t i = 0; i < STAGES * 2; i++) {
        culm_buf_u64(&buf, 0);
    }
    culm_buf_i32(&buf, CULM_MAX_NODES + 1);
    assert_int_equal(decode_waits(buf.data, buf.len), CULM_ERR_FORMAT);
    culm_waits_free(waits);
    culm_waits_free(again);
    culm_buf_release(&buf);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_boundary),
        cmocka_unit_test(test_sum_and_reduced),
        cmocka_unit_test(test_state),
        cmocka_unit_test(test_want),
        cmocka_unit_test(test_learn),
        cmocka_unit_test(test_have),
        cmocka_unit_test(test_what_a_large_run_has_fits),
        cmocka_unit_test(test_view),
        cmocka_unit_test(test_commit),
        cmocka_unit_test(test_report),
        cmocka_unit_test(test_curve),
        cmocka_unit_test(test_prepared),
        cmocka_unit_test(test_digests),
        cmocka_unit_test(test_waits),
    };
    return cmocka_run_group_tests_name("pipeline/message", tests, NULL, NULL);
}

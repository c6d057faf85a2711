/*
 * Views that are told by their changes: who applies them knows the same view, to the last bit, as who is told
 * all of it. Over random sequences of views that leaders make, and of some that none makes. The program's calloc and
 * realloc fail when told to (see meson.build).
 */
#include "pipeline/message.h"

#include "base/rng.h"
#include "view_same.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define NODES 1024 /* more than any view here has */

void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);

static int fails_in; /* so many calls from now on, from 1; 0: none does */

static bool fails(void) { return fails_in > 0 && --fails_in == 0; }

void *__wrap_calloc(size_t count, size_t size) {
    return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size) { return fails() ? NULL : __real_realloc(old, size); }

static bool below(uint64_t *dice, uint64_t chance_of_16) {
    return culm_rng_below(dice, 16) < chance_of_16;
}

/* Returns how many bytes the changes take. */
static size_t told_alike(const struct culm_view *view, const struct culm_view *known,
                         const struct culm_run_shape *shape) {
    struct culm_view *changed = view_made(shape, 0), *whole = view_made(shape, 0);
    struct culm_buf buf;
    culm_buf_init(&buf, CULM_META_MAX);
    culm_view_encode(view, known, shape, &buf);
    const size_t bytes = buf.len;
    assert_int_equal(culm_view_decode(buf.data, buf.len, known, shape, changed), CULM_OK);
    assert_same_view(changed, view);
    assert_int_equal(culm_view_decode(buf.data, buf.len, NULL, shape, whole), CULM_ERR_FORMAT);
    assert_int_equal(culm_view_decode(buf.data, buf.len, view, shape, whole), CULM_ERR_FORMAT);
    culm_buf_clear(&buf);
    culm_view_encode(view, NULL, shape, &buf);
    assert_int_equal(culm_view_decode(buf.data, buf.len, known, shape, whole), CULM_OK);
    assert_same_view(whole, view);
    culm_buf_release(&buf);
    view_end(changed);
    view_end(whole);
    return bytes;
}

/* The one that sits there; -1: nobody. */
static int32_t sitter(const struct culm_view *view, int32_t pipeline, int32_t stage) {
    for (int32_t i = 0; i < view->node_count; i++) {
        if (view->node[i].pipeline == pipeline && view->node[i].stage == stage) {
            return i;
        }
    }
    return -1;
}

/* Some go, some come, some are seated, some hold more or less. */
static void happen(struct culm_view *view, const struct culm_view *before, int32_t *next_id,
                   uint64_t *dice) {
    const int32_t slots = view->pipelines * view->stages;
    const bool calm = below(dice, 4);
    view->node_count = 0;
    for (int32_t i = 0; i < before->node_count; i++) {
        if (calm || !below(dice, 2)) {
            view->node[view->node_count++] = before->node[i];
        }
    }
    for (int32_t n = 0; n < slots && view->node_count < slots + 2; n++) {
        if (!calm && below(dice, 1)) {
            view->node[view->node_count++] = (struct culm_view_node){*next_id, -1, -1, {{0}}};
            *next_id += 1 + (int32_t)culm_rng_below(dice, 3);
        }
    }
    for (int32_t i = 0; i < view->node_count; i++) {
        struct culm_view_node *node = &view->node[i];
        const int32_t p = (int32_t)culm_rng_below(dice, (uint64_t)view->pipelines);
        const int32_t s = (int32_t)culm_rng_below(dice, (uint64_t)view->stages);
        if (node->pipeline < 0 && sitter(view, p, s) < 0) {
            node->pipeline = p;
            node->stage = s;
        }
        if (below(dice, 3)) {
            const struct culm_stage_set stage =
                culm_stage_set_of((int32_t)culm_rng_below(dice, (uint64_t)view->stages));
            node->holds = culm_stage_set_differ(&node->holds, &stage);
        }
    }
}

static void copy_some(struct culm_view *view, const struct culm_view *before, uint32_t *next_copy,
                      uint64_t *dice) {
    view->transfer_count = 0;
    for (int32_t t = 0; t < before->transfer_count; t++) {
        struct culm_transfer copy = before->transfer[t];
        if (below(dice, 2)) { /* it starts over */
            copy.id = (*next_copy)++;
            copy.source = (int32_t)culm_rng_below(dice, 1000);
        }
        if (below(dice, 12)) {
            assert_true(culm_view_add_transfer(view, &copy));
        }
    }
    for (int32_t i = 0; i < view->node_count; i++) {
        const int32_t p = view->node[i].pipeline;
        const int32_t s = (int32_t)culm_rng_below(dice, (uint64_t)view->stages);
        if (below(dice, 2)) {
            const struct culm_transfer copy = {
                (*next_copy)++, p >= 0 && view->role[p][s].owner >= 0 ? view->role[p][s].owner : 7,
                view->node[i].id, s};
            assert_true(culm_view_add_transfer(view, &copy));
        }
    }
}

/* As for want of memory, or as no leader decides. */
static void decide_otherwise(struct culm_view *view, uint64_t *dice) {
    for (int32_t p = 0; p < view->pipelines; p++) {
        for (int32_t s = 0; s < view->stages; s++) {
            if (below(dice, 1)) {
                view->role[p][s] = (struct culm_role){(int32_t)culm_rng_below(dice, 99) - 1,
                                                      (int32_t)culm_rng_below(dice, 1u << 31) - 1};
            }
        }
    }
    for (int32_t l = 0; l < view->lanes; l++) {
        if (below(dice, 1)) {
            view->lane_pipeline[l] =
                (int32_t)culm_rng_below(dice, (uint64_t)view->pipelines + 1) - 1;
        }
    }
    view->frc ^= below(dice, 4);
}

static void follow(uint64_t seed) {
    uint64_t dice = culm_rng_mix(seed, 1);
    struct culm_run_shape shape = {.pipelines = 1 + (int32_t)culm_rng_below(&dice, 6),
                                   .stages =
                                       1 + (int32_t)culm_rng_below(&dice, seed % 16 ? 5 : 100)};
    shape.lanes = shape.pipelines + (int32_t)culm_rng_below(&dice, 5);
    shape.redundancy = (enum culm_redundancy)culm_rng_below(&dice, 3);
    struct culm_view *known = view_made(&shape, NODES), *view = view_made(&shape, NODES);
    int32_t next_id = 0;
    uint32_t next_copy = 1;
    for (int v = 0; v < 30; v++) {
        const bool boundary = below(&dice, 5) || v == 0;
        happen(view, known, &next_id, &dice);
        view->number = known->number + 1 + culm_rng_below(&dice, 2);
        view->phase = below(&dice, 2) ? CULM_VIEW_LOAD : CULM_VIEW_RUN;
        view->iteration = known->iteration + boundary;
        view->attempt = known->attempt + below(&dice, 2);
        culm_view_assign(view, &shape, boundary ? NULL : known);
        if (below(&dice, 4)) {
            decide_otherwise(view, &dice);
        }
        copy_some(view, known, &next_copy, &dice);
        snprintf(view->reason, sizeof view->reason, "for reason %d", v);
        snprintf(view->source, sizeof view->source, "%s",
                 view->phase == CULM_VIEW_LOAD ? "step-7" : "");
        if (v > 0) {
            (void)told_alike(view, known, &shape);
        }
        struct culm_view *other = known;
        known = view;
        view = other;
    }
    view_end(known);
    view_end(view);
}

static void test_changes_lead_to_the_same_view(void **state) {
    (void)state;
    const char *text = getenv("CULM_TEST_SEED");
    const uint64_t seed = text ? strtoull(text, NULL, 10) : 1;
    print_message("seed %llu\n", (unsigned long long)seed);
    for (uint64_t i = 0; i < 300; i++) {
        follow(seed + i);
    }
}

/* All pipelines whole; each stage with its owner, which holds the next one too. */
static void fill(struct culm_view *view, const struct culm_run_shape *shape, uint64_t number) {
    view->number = number;
    view->phase = CULM_VIEW_RUN;
    view->iteration = 7;
    for (int32_t i = 0; i < shape->pipelines * shape->stages; i++) {
        const int32_t s = i % shape->stages;
        struct culm_view_node node = {i, i / shape->stages, s, culm_stage_set_of(s)};
        culm_stage_set_add(&node.holds, (s + 1) % shape->stages);
        view->node[view->node_count++] = node;
    }
    culm_view_assign(view, shape, NULL);
}

/* A tenth of a thousand nodes, drawn or in a row. */
static void test_a_tenth_that_is_lost_is_told_in_few_bytes(void **state) {
    (void)state;
    static const struct culm_run_shape shape = {
        .pipelines = 250, .stages = 4, .lanes = 256, .redundancy = CULM_REDUNDANCY_EAGER};
    for (uint64_t seed = 0; seed < 20; seed++) {
        uint64_t dice = culm_rng_mix(seed, 2);
        struct culm_view *known = view_made(&shape, NODES), *view = view_made(&shape, NODES);
        fill(known, &shape, 1);
        fill(view, &shape, 2);
        const int32_t all = view->node_count;
        for (int32_t n = 0; n < all / 10; n++) {
            int32_t gone = (int32_t)culm_rng_below(&dice, (uint64_t)view->node_count);
            gone = seed == 0 ? 0 : gone;
            memmove(&view->node[gone], &view->node[gone + 1],
                    (size_t)(view->node_count - 1 - gone) * sizeof *view->node);
            view->node_count--;
        }
        culm_view_assign(view, &shape, known);
        snprintf(view->reason, sizeof view->reason, "node %d was lost (eof), and 98 more", 17);
        const size_t bytes = told_alike(view, known, &shape);
        assert_true(bytes <= 256); /* 1 KB is the promise */
        view_end(known);
        view_end(view);
    }
}

/* Whichever call fails, it is no fault of the message, and nothing has changed. Nodes that are known are read, others that
 * have come, for which there is no room, and copies. */
static void test_no_memory_for_a_view(void **state) {
    (void)state;
    static const struct culm_run_shape shape = {.pipelines = 16, .stages = 2, .lanes = 16};
    struct culm_view *known = view_made(&shape, NODES), *view = view_made(&shape, NODES);
    struct culm_buf buf;
    culm_buf_init(&buf, CULM_META_MAX);
    fill(known, &shape, 1);
    fill(view, &shape, 2);
    known->node_count = 16;
    culm_view_assign(known, &shape, NULL);
    for (int32_t t = 0; t < 17; t++) {
        assert_true(culm_view_add_transfer(
            view, &(struct culm_transfer){(uint32_t)t + 1, t, t + 1, t % shape.stages}));
    }
    culm_view_encode(view, known, &shape, &buf);
    enum culm_status status = CULM_ERR_MEMORY;
    int failed = 0;
    while (status != CULM_OK) {
        struct culm_view *read = view_made(&shape, 0);
        fails_in = failed + 1;
        status = culm_view_decode(buf.data, buf.len, known, &shape, read);
        fails_in = 0;
        if (status == CULM_OK) {
            assert_same_view(read, view);
        } else {
            assert_int_equal(status, CULM_ERR_MEMORY);
            assert_true(read->number == 0);
            failed++;
        }
        view_end(read);
    }
    assert_int_equal(failed, 4 + 2 * 2 + 2); /* what views have; nodes, twice; copies, twice */
    culm_buf_release(&buf);
    view_end(known);
    view_end(view);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_changes_lead_to_the_same_view),
        cmocka_unit_test(test_a_tenth_that_is_lost_is_told_in_few_bytes),
        cmocka_unit_test(test_no_memory_for_a_view),
    };
    return cmocka_run_group_tests_name("pipeline/view_message", tests, NULL, NULL);
}

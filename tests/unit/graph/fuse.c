/*
 * Fused graphs: a convolution that reads a map in two resolutions, and gates. Results have the bits of the
 * same graph where something stands in the way of it.
 */
#include "run.h"

#include "base/rng.h"
#include "graph/ops.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BATCH 3
#define COARSE 5 /* channels */
#define FINE 7
#define OUT 36

/* What is built. */
enum way {
    COARSE_FIRST,
    OTHER_FACTORS,
    ONE_PIXEL,
    WITH_FUNCTION,
    JOINED_READ_TOO, /* from here on it has to stay as it is */
    ENLARGED_READ_TOO,
    FINE_FIRST,
    BILINEAR,
    NO_WHOLE_FACTOR,
    THREE_PARTS,
    KERNEL_OF_THREE,
    STRIDE,
    WAYS
};

struct sizes {
    int64_t small[2], large[2];
};

static struct sizes sizes_of(enum way way) {
    switch (way) {
    case OTHER_FACTORS: return (struct sizes){{4, 2}, {12, 10}};
    case ONE_PIXEL: return (struct sizes){{1, 1}, {7, 3}};
    case NO_WHOLE_FACTOR: return (struct sizes){{4, 6}, {10, 12}};
    default: return (struct sizes){{4, 6}, {8, 12}};
    }
}

static struct culm_graph *build(enum way way) {
    const struct sizes s = sizes_of(way);
    struct culm_graph *g = culm_graph_new(run_cpu()->ops);
    assert_non_null(g);
    int32_t small = culm_graph_field(
        g, "small", CULM_F32, &(struct culm_shape){4, {BATCH, s.small[0], s.small[1], COARSE}});
    int32_t large = culm_graph_field(
        g, "large", CULM_F32, &(struct culm_shape){4, {BATCH, s.large[0], s.large[1], FINE}});
    int32_t r = culm_graph_apply(g, "resize", &small, 1,
                                 &(struct culm_attributes){.dims = {s.large[0], s.large[1]},
                                                           .function = way == BILINEAR
                                                                           ? CULM_FUNCTION_MEAN
                                                                           : CULM_FUNCTION_NONE});
    int32_t part[8] = {r, large, way == THREE_PARTS ? large : -1, -1, -1, -1, -1, -1};
    if (way == FINE_FIRST) {
        part[0] = large;
        part[1] = r;
    }
    int32_t joined = culm_graph_apply(g, "concat", part, 8, &(struct culm_attributes){.axis = 3});
    const int64_t side = way == KERNEL_OF_THREE ? 3 : 1;
    const int64_t in = COARSE + FINE + (way == THREE_PARTS ? FINE : 0);
    int32_t conv[3] = {
        joined,
        culm_graph_param(g, "weight", &(struct culm_shape){4, {OUT, in, side, side}},
                         CULM_INIT_NORMAL, 1, true),
        culm_graph_param(g, "bias", &(struct culm_shape){1, {OUT}}, CULM_INIT_ZEROS, 0, false)};
    const struct culm_attributes how = {.pad = {side / 2, side / 2, side / 2, side / 2},
                                        .stride = {way == STRIDE ? 2 : 1, 1}};
    int32_t map = culm_graph_apply(g, "conv", conv, 3, &how);
    if (way == WITH_FUNCTION) {
        map = culm_graph_apply(
            g, "activation", &map, 1,
            &(struct culm_attributes){.function = CULM_FUNCTION_LEAKY_RELU, .alpha = 0.1});
    }
    culm_graph_output(g, "map", map);
    if (way == JOINED_READ_TOO || way == ENLARGED_READ_TOO) {
        int32_t read = way == JOINED_READ_TOO ? joined : r;
        culm_graph_output(
            g, "more",
            culm_graph_apply(g, "reduce", &read, 1,
                             &(struct culm_attributes){.function = CULM_FUNCTION_MAX, .axes = 8}));
    }
    struct culm_error error;
    if (culm_graph_check(g, &error) != CULM_OK) {
        fail_msg("%s", error.text);
    }
    return g;
}

static float *numbers(int64_t count, uint64_t seed) {
    float *at = fence_new((size_t)count * sizeof *at);
    for (int64_t i = 0; i < count; i++) {
        at[i] = culm_rng_unit((uint32_t)culm_rng_next(&seed)) * 2 - 1;
    }
    return at;
}

/* Runs the graph; the caller frees what is returned: all outputs. */
static float *run(const struct culm_graph *g, const float *least, size_t *ret_offset) {
    const struct culm_stage_options how = {.forward_only = true};
    struct culm_stage *stage = NULL;
    struct culm_error error;
    if (culm_stages_compile(g, 1, &how, &stage, &error) != CULM_OK) {
        fail_msg("%s", error.text);
    }
    const struct culm_stage_info *info = culm_stage_info_of(stage);
    float *params = fence_new((size_t)info->param_floats * sizeof *params);
    for (int32_t p = 0; p < info->param_count; p++) {
        const struct culm_param *param = &g->param[info->params[p].global_index];
        float *written =
            numbers(info->params[p].count, 77 + (uint64_t)info->params[p].global_index);
        if (param->turned) {
            culm_graph_turn(param, written, params + info->params[p].offset);
        } else {
            memcpy(params + info->params[p].offset, written,
                   (size_t)info->params[p].count * sizeof *written);
        }
        fence_free(written);
    }
    float *small = numbers(culm_elements(&g->field[0].shape), 1);
    float *large = numbers(culm_elements(&g->field[1].shape), 2);
    const void *fields[] = {small, large};
    struct culm_stage_run run = {.params = params,
                                 .fields = fields,
                                 .output = fence_new(info->output_bytes),
                                 .loss_scale = 1,
                                 .activations = fence_new(info->activation_bytes),
                                 .scratch = fence_new(info->scratch_bytes),
                                 .first = true,
                                 .least = least};
    assert_int_equal(culm_stage_forward(stage, run_cpu(), &run), CULM_OK);
    *ret_offset = culm_stage_output_offset(stage, 0) / sizeof(float);
    fence_free(params);
    fence_free(small);
    fence_free(large);
    fence_free(run.activations);
    fence_free(run.scratch);
    culm_stage_free(stage);
    return run.output;
}

static struct culm_graph *fused(enum way way) {
    struct culm_graph *plain = build(way), *g = NULL;
    struct culm_error error;
    assert_int_equal(culm_graph_fuse(plain, &g, &error), CULM_OK);
    culm_graph_free(plain);
    return g;
}

static void test_which_are_fused(void **state) {
    (void)state;
    for (enum way way = 0; way < WAYS; way++) {
        struct culm_graph *plain = build(way), *g = fused(way);
        const int32_t gone = way == WITH_FUNCTION ? 3 : way < JOINED_READ_TOO ? 2 : 0;
        if (g->node_count != plain->node_count - gone) {
            fail_msg("way %d: %d operators became %d", (int)way, plain->node_count, g->node_count);
        }
        culm_graph_free(plain);
        culm_graph_free(g);
    }
}

/* Keeps what a graph would fuse from being fused: what is joined becomes an output too. */
static struct culm_graph *kept_apart(enum way way) {
    struct culm_graph *plain = build(way), *g = NULL;
    for (int32_t i = 0; i < plain->node_count; i++) {
        if (plain->node[i].op == &culm_op_concat) {
            culm_graph_output(plain, "joined", plain->node[i].output[0]);
        }
    }
    assert_int_equal(culm_graph_fuse(plain, &g, NULL), CULM_OK);
    culm_graph_free(plain);
    return g;
}

static void test_same_bits(void **state) {
    (void)state;
    for (enum way way = 0; way < JOINED_READ_TOO; way++) {
        struct culm_graph *g = fused(way), *apart = kept_apart(way);
        assert_int_equal(g->node_count, 1);
        assert_int_equal(apart->node_count, 3);
        size_t a, b;
        float *have = run(g, NULL, &a), *want = run(apart, NULL, &b);
        size_t bytes = (size_t)culm_elements(&g->value[g->output[0].value].shape) * sizeof *have;
        assert_memory_equal(have + a, want + b, bytes);
        fence_free(have);
        fence_free(want);
        culm_graph_free(g);
        culm_graph_free(apart);
    }
}

static void test_gate(void **state) {
    (void)state;
    struct culm_graph *g = kept_apart(COARSE_FIRST), *gated = kept_apart(COARSE_FIRST);
    const int64_t channels = OUT / 3,
                  parts = culm_elements(&g->value[g->output[0].value].shape) / channels;
    assert_false(culm_graph_gate(gated, 0, 5, 0));       /* no whole parts */
    assert_false(culm_graph_gate(gated, 0, 3, OUT / 3)); /* no such channel */
    assert_false(culm_graph_gate(gated, 1, 3, 0));       /* no convolution makes that output */
    assert_true(culm_graph_gate(gated, 0, 3, 2));
    const float least = 2.5F;
    size_t at;
    float *want = run(g, NULL, &at), *have = run(gated, &least, &at), *open = run(gated, NULL, &at);
    assert_memory_equal(open + at, want + at, (size_t)(parts * channels) * sizeof *want);
    int64_t closed = 0;
    for (int64_t p = 0; p < parts; p++) {
        const float *w = want + at + p * channels, *h = have + at + p * channels;
        assert_memory_equal(&w[2], &h[2], sizeof *w);
        closed += w[2] < least;
        if (w[2] >= least) {
            assert_memory_equal(w, h, (size_t)channels * sizeof *w);
        }
    }
    assert_in_range(closed, parts * 3 / 4, parts - 1);
    assert_memory_not_equal(have + at, want + at, (size_t)(parts * channels) * sizeof *want);
    fence_free(want);
    fence_free(have);
    fence_free(open);
    culm_graph_free(g);
    culm_graph_free(gated);
    g = kept_apart(COARSE_FIRST);
    culm_graph_output(g, "again", g->output[0].value);
    assert_false(culm_graph_gate(g, 0, 3, 2)); /* somebody may read all of it */
    culm_graph_free(g);
    g = fused(COARSE_FIRST); /* coarse channels and a gate exclude each other */
    assert_false(culm_graph_gate(g, 0, 3, 2));
    culm_graph_free(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_which_are_fused),
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_gate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

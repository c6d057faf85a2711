/* Least squares for a layer: what was made by one set of weights is found again, whoever made it; the same bits
 * on any number of threads, and others where samples or owners come in another order. */
#include "merge/solve.h"

#include "../astray.h"

#include "base/rng.h"
#include "graph/ops.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MOST 16384

/* A convolution, its input, and what it makes of that with some weights. */
struct layer {
    struct culm_graph *graph;
    struct culm_stage *stage;
    const struct culm_node_desc *node;
    float *x, *y, *weight, *bias;
    int64_t xs, ys, weights, outputs;
};

static uint64_t random_state = 3;
static float draw(void) {
    random_state = culm_rng_mix(random_state, 1);
    return (float)((double)(random_state >> 40) / (1 << 23) - 1);
}

static void fill(float *data, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        data[i] = draw();
    }
}

static void make(struct layer *l, struct culm_device *device, int64_t in, int64_t out, int64_t k,
                 int64_t stride, int64_t groups, bool bias, const float *weight) {
    const struct culm_attributes how = {.kernel = {k, k},
                                        .stride = {stride, stride},
                                        .dilation = {1, 1},
                                        .pad = {k / 2, k / 2, k / 2, k / 2},
                                        .groups = groups};
    const struct culm_shape image = {4, {3, 10, 9, in}}, w = {4, {out, in / groups, k, k}};
    const struct culm_shape b = {1, {out}};
    const struct culm_stage_options forward = {.forward_only = true};
    struct culm_error error = {0};
    l->graph = culm_graph_new(culm_device_default());
    const int32_t inputs[] = {culm_graph_field(l->graph, "image", CULM_F32, &image),
                              culm_graph_param(l->graph, "w", &w, CULM_INIT_ZEROS, 0, true),
                              bias ? culm_graph_param(l->graph, "b", &b, CULM_INIT_ZEROS, 0, false)
                                   : -1};
    culm_graph_output(l->graph, "y", culm_graph_apply(l->graph, "conv", inputs, 3, &how));
    assert_int_equal(culm_graph_check(l->graph, &error), CULM_OK);
    assert_int_equal(culm_stages_compile(l->graph, 1, &forward, &l->stage, &error), CULM_OK);
    l->node = &l->graph->node[0];
    l->xs = culm_elements(&image);
    l->ys = culm_elements(&l->graph->value[l->node->output[0]].shape);
    l->weights = culm_elements(&w);
    l->outputs = out;
    l->x = device->ops->alloc(device, MOST * 4);
    l->y = device->ops->alloc(device, MOST * 4);
    l->weight = device->ops->alloc(device, MOST * 4);
    l->bias = device->ops->alloc(device, MOST * 4);
    assert_true(l->xs <= MOST && l->ys <= MOST && l->weights <= MOST);
    fill(l->x, l->xs);
    memcpy(l->weight, weight, (size_t)l->weights * 4);
    fill(l->bias, out);
}

static void run(struct layer *l, struct culm_device *device, bool bias) {
    const struct culm_stage_info *info = culm_stage_info_of(l->stage);
    const float *param[] = {l->weight, bias ? l->bias : NULL};
    const void *fields[] = {l->x};
    void *activations = device->ops->alloc(device, info->activation_bytes + 64);
    void *scratch = device->ops->alloc(device, info->scratch_bytes + 64);
    struct culm_stage_run how = {.param = param,
                                 .fields = fields,
                                 .output = l->y,
                                 .loss_scale = 1,
                                 .activations = activations,
                                 .scratch = scratch,
                                 .first = true};
    assert_int_equal(culm_stage_forward(l->stage, device, &how), CULM_OK);
    device->ops->release(device, activations);
    device->ops->release(device, scratch);
}

static void drop(struct layer *l, struct culm_device *device) {
    device->ops->release(device, l->x);
    device->ops->release(device, l->y);
    device->ops->release(device, l->weight);
    device->ops->release(device, l->bias);
    culm_stage_free(l->stage);
    culm_graph_free(l->graph);
}

/* Two owners whose layers made their outputs with the same weights; what they say that theirs are is off.
 * Behind a batch norm the second one's outputs have another scale and mean in each channel. */
static void found_again(int64_t in, int64_t out, int64_t k, int64_t stride, int64_t groups,
                        bool norm, float *ret_first) {
    float truth[MOST], bias[64], got[MOST], got_bias[64];
    struct culm_device *device = NULL;
    struct culm_error error = {0};
    struct layer layer[2];
    struct culm_solve_owner owner[2];
    assert_int_equal(culm_device_new(1, &device, &error), CULM_OK);
    fill(truth, MOST);
    fill(bias, 64);
    for (int i = 0; i < 2; i++) {
        /* The owners may differ in stride. */
        make(&layer[i], device, in, out, k, i ? stride : 1, groups, !norm, truth);
        memcpy(layer[i].bias, bias, (size_t)out * 4);
        if (norm) { /* else their variances differ, and with them what is wanted */
            memcpy(layer[i].x, layer[0].x, (size_t)layer[i].xs * 4);
        }
        run(&layer[i], device, !norm);
        for (int64_t n = 0; norm && i == 1 && n < layer[i].ys; n++) {
            float *y = &layer[i].y[n];
            *y = *y * (1 + 0.5F * (float)(n % out)) + (float)(n % out);
        }
        for (int64_t n = 0; n < layer[i].weights; n++) {
            layer[i].weight[n] += 0.3F * draw();
        }
        owner[i] = (struct culm_solve_owner){.graph = layer[i].graph,
                                             .node = layer[i].node,
                                             .x = layer[i].x,
                                             .y = layer[i].y,
                                             .weight = layer[i].weight,
                                             .bias = norm ? NULL : layer[i].bias,
                                             .norm = norm,
                                             .importance = 1 + i};
    }
    const struct culm_solve_options how = {.samples = 400, .ridge = 1e-6};
    assert_int_equal(culm_solve(owner, 2, &how, device, got, norm ? NULL : got_bias, &error),
                     CULM_OK);
    for (int64_t o = 0; o < out; o++) {
        int64_t terms = layer[0].weights / out;
        double scale = norm ? got[o * terms] / truth[o * terms] : 1;
        for (int64_t t = 0; t < terms; t++) {
            double off = got[o * terms + t] - scale * truth[o * terms + t];
            if (fabs(off) > 2e-3 * (1 + fabs(scale))) {
                fail_msg("output %d, term %d: %g instead of %g", (int)o, (int)t, got[o * terms + t],
                         scale * truth[o * terms + t]);
            }
        }
        assert_true(norm || fabsf(got_bias[o] - bias[o]) < 2e-3F);
        assert_true(!norm || scale > 0);
    }
    memcpy(ret_first, got, (size_t)layer[0].weights * 4);
    drop(&layer[0], device);
    drop(&layer[1], device);
    culm_device_free(device);
}

static void test_found_again(void **state) {
    (void)state;
    float ignored[MOST];
    found_again(6, 5, 3, 1, 1, true, ignored);
    found_again(6, 5, 3, 2, 1, false, ignored);
    found_again(8, 24, 1, 1, 1, true, ignored);
    found_again(8, 24, 1, 1, 1, false, ignored);
    found_again(6, 6, 3, 1, 6, true, ignored);
    found_again(8, 4, 3, 2, 2, false, ignored);
    found_again(23, 23, 3, 1, 23, true, ignored); /* more than are solved for together */
}

/* Without anything to go by, the owners' own decide. */
static void test_nothing_to_go_by(void **state) {
    (void)state;
    float truth[MOST], got[MOST];
    struct culm_device *device = NULL;
    struct culm_error error = {0};
    struct layer layer;
    assert_int_equal(culm_device_new(1, &device, &error), CULM_OK);
    fill(truth, MOST);
    make(&layer, device, 4, 3, 3, 1, 1, true, truth);
    memset(layer.x, 0, (size_t)layer.xs * 4);
    run(&layer, device, true);
    float bias[3];
    const struct culm_solve_owner owner = {.graph = layer.graph,
                                           .node = layer.node,
                                           .x = layer.x,
                                           .y = layer.y,
                                           .weight = layer.weight,
                                           .bias = layer.bias,
                                           .importance = 1};
    const struct culm_solve_options how = {.samples = 100, .ridge = 0.1};
    assert_int_equal(culm_solve(&owner, 1, &how, device, got, bias, &error), CULM_OK);
    for (int64_t i = 0; i < layer.weights; i++) {
        assert_true(fabsf(got[i] - truth[i]) < 1e-6F);
    }
    drop(&layer, device);
    culm_device_free(device);
}

/* A 1x1 convolution, of which every pixel is a sample: they may come in any order. */
static void test_bits(void **state) {
    (void)state;
    enum { IN = 8, OUT = 24 };
    float truth[MOST], got[6][IN * OUT];
    struct layer layer[2];
    struct culm_solve_owner owner[2];
    for (int turn = 0; turn < 6;
         turn++) { /* three numbers of threads; pixels, owners and both in another order */
        struct culm_device *device = NULL;
        struct culm_error error = {0};
        random_state = 3;
        assert_int_equal(culm_device_new(turn < 3 ? turn + 1 : 1, &device, &error), CULM_OK);
        fill(truth, MOST);
        for (int i = 0; i < 2; i++) {
            make(&layer[i], device, IN, OUT, 1, 1, 1, false, truth);
            run(&layer[i], device, false);
            for (int64_t n = 0; n < layer[i].ys; n++) {
                layer[i].y[n] += 0.1F * draw();
            }
            if (turn == 3 || turn == 5) {
                astray(layer[i].x, 1, layer[i].xs / IN, IN, false);
                astray(layer[i].y, 1, layer[i].ys / OUT, OUT, false);
            }
            owner[turn >= 4 ? 1 - i : i] = (struct culm_solve_owner){.graph = layer[i].graph,
                                                                     .node = layer[i].node,
                                                                     .x = layer[i].x,
                                                                     .y = layer[i].y,
                                                                     .weight = layer[i].weight,
                                                                     .norm = true,
                                                                     .importance = 1 + i};
        }
        const struct culm_solve_options how = {.samples = MOST, .ridge = 1e-3};
        assert_int_equal(culm_solve(owner, 2, &how, device, got[turn], NULL, &error), CULM_OK);
        bool same = !memcmp(got[0], got[turn], sizeof got[0]);
        assert_int_equal(same, turn < 3 || turn == 4); /* two owners: a sum of two has no order */
        for (int i = 0; i < IN * OUT; i++) {
            assert_true(fabsf(got[0][i] - got[turn][i]) < 1e-4F);
        }
        drop(&layer[0], device);
        drop(&layer[1], device);
        culm_device_free(device);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_found_again),
        cmocka_unit_test(test_nothing_to_go_by),
        cmocka_unit_test(test_bits),
    };
    return cmocka_run_group_tests_name("merge/solve", tests, NULL, NULL);
}

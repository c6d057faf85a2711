/* Channels that are concatenated, through residual sums and depthwise convolutions too: a network whose channels moved
 * answers as before, and what moved is found again. */
#include "merge/align.h"

#include "base/rng.h"
#include "darknet/net.h"
#include "graph/ops.h"
#include "merge/steps.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SIDE 16
#define FRAMES 3

#define NET "[net]\nwidth=16\nheight=16\nchannels=3\n"
#define CONV(filters, size, stride)                                                                \
    "[convolutional]\nbatch_normalize=1\nfilters=" #filters "\nsize=" #size "\nstride=" #stride    \
    "\npad=1\nactivation=leaky\n"
#define DEPTHWISE(filters)                                                                         \
    "[convolutional]\nbatch_normalize=1\ngroups=" #filters "\nfilters=" #filters                   \
    "\nsize=3\nstride=1\npad=1\nactivation=leaky\n"
#define ROUTE(layers) "[route]\nlayers=" layers "\n"
#define SUM "[shortcut]\nfrom=-3\nactivation=linear\n"
#define UP "[upsample]\nstride=2\n"
#define HEAD                                                                                       \
    "[convolutional]\nfilters=18\nsize=1\nstride=1\nactivation=linear\n"                           \
    "[yolo]\nmask=0,1,2\nanchors=1,1,2,2,3,3\nclasses=1\nnum=3\n"

struct network {
    struct culm_vision_model vision;
    const char *text;
    uint64_t seed;
    const struct culm_merge_model *same; /* whose numbers it has; NULL: drawn by the seed */
    struct culm_merge_model model;
};

static enum culm_status network_graph(struct culm_vision_model *vision, int64_t batch,
                                      struct culm_graph **ret_graph, struct culm_error *error) {
    const struct network *own = (const struct network *)vision;
    struct culm_darknet_net net;
    enum culm_status status = culm_darknet_parse(own->text, strlen(own->text), "net", &net, error);
    status = status ? status : culm_darknet_build(&net, batch, ret_graph, error);
    culm_darknet_net_release(&net);
    return status;
}

static enum culm_status network_weights(struct culm_vision_model *vision,
                                        const struct culm_param *param, float *ret_data,
                                        struct culm_error *error) {
    const struct network *own = (const struct network *)vision;
    (void)error;
    uint64_t random = own->seed;
    const int64_t count = culm_elements(&param->shape);
    for (const char *c = param->name; *c; c++) {
        random = culm_rng_mix(random, (uint64_t)*c);
    }
    for (int64_t i = 0; i < count; i++) {
        const float unit = culm_rng_unit((uint32_t)culm_rng_next(&random));
        ret_data[i] = param->shape.rank == 1 ? 0.5F + unit : unit - 0.5F;
    }
    for (int32_t p = 0; own->same && p < own->same->param_count; p++) {
        if (strcmp(own->same->graph->param[p].name, param->name) == 0) {
            memcpy(ret_data, own->same->aligned[p], 4 * (size_t)count);
        }
    }
    return CULM_OK;
}

static void network_free(struct culm_vision_model *vision) { (void)vision; }

static const struct culm_vision_model_ops network_ops = {.size = sizeof network_ops,
                                                         .graph = network_graph,
                                                         .weights = network_weights,
                                                         .free = network_free};

static void network_init(struct network *n, const char *text, uint64_t seed,
                         const struct culm_merge_model *same) {
    struct culm_error error = {0};
    *n = (struct network){.vision = {.ops = &network_ops,
                                     .name = "net",
                                     .input = {.width = SIDE, .height = SIDE, .channels = 3},
                                     .kind = CULM_ANSWER_BOXES,
                                     .classes = 1},
                          .text = text,
                          .seed = seed,
                          .same = same};
    if (culm_merge_model_init(&n->model, &n->vision, &error) != CULM_OK) {
        fail_msg("%s", error.text);
    }
}

/* Aligns the second with the first. Returns how many channels moved. */
static int64_t align(struct network *first, struct network *second, const float *image,
                     struct culm_device *device) {
    struct culm_merge_model *models[] = {&first->model, &second->model};
    const struct culm_vision_layers *layers[] = {&first->model.layers, &second->model.layers};
    const struct culm_fit_frames frames[] = {{image, FRAMES}, {image, FRAMES}};
    struct culm_match match;
    struct culm_share share;
    struct culm_error error = {0};
    int64_t moved = -1;
    assert_int_equal(culm_match_find(layers, 2, CULM_MATCH_EQUAL, &match, &error), CULM_OK);
    assert_int_equal(culm_share_init(&share, &match, models, 2, &error), CULM_OK);
    if (culm_align(models, 2, &share, frames, device, &moved, &error) != CULM_OK) {
        fail_msg("%s", error.text);
    }
    culm_share_release(&share);
    return moved;
}

/* What the model answers with these numbers: floats of all outputs. The caller frees it. */
static float *answer(const struct culm_merge_model *model, float *const *value, const float *image,
                     struct culm_device *device, int64_t *ret_count) {
    struct culm_steps steps;
    struct culm_error error = {0};
    assert_int_equal(culm_steps_init(&steps, model, FRAMES, image, value, device, &error), CULM_OK);
    float *made = NULL;
    *ret_count = 0;
    for (int32_t o = 0; o < steps.graph->output_count; o++) {
        *ret_count += culm_elements(&steps.graph->value[steps.graph->output[o].value].shape);
    }
    made = malloc(4 * (size_t)*ret_count);
    assert_non_null(made);
    int64_t at = 0;
    while (steps.cursor < steps.count) {
        const int32_t node = steps.cursor;
        culm_steps_step(&steps);
        for (int32_t o = 0; o < steps.graph->output_count; o++) {
            const int32_t value_of = steps.graph->output[o].value;
            if (steps.graph->node[node].output[0] == value_of) {
                const int64_t count = culm_elements(&steps.graph->value[value_of].shape);
                memcpy(made + at, culm_steps_value(&steps, value_of), 4 * (size_t)count);
                at += count;
            }
        }
    }
    assert_int_equal(at, *ret_count);
    culm_steps_release(&steps);
    return made;
}

static void same_answers(const struct culm_merge_model *model, const float *image,
                         struct culm_device *device) {
    int64_t count, again;
    float *was = answer(model, model->original, image, device, &count);
    float *is = answer(model, model->aligned, image, device, &again);
    double off = 0, size = 0;
    assert_int_equal(count, again);
    for (int64_t i = 0; i < count; i++) {
        off = fmax(off, fabs((double)was[i] - (double)is[i]));
        size = fmax(size, fabs((double)was[i]));
    }
    assert_true(size > 0.1);
    if (!(off <= 1e-4 * size)) {
        fail_msg("answers differ by %g of %g", off, size);
    }
    free(was);
    free(is);
}

/* `wanted`: channels that could move. */
static void check(const char *text, int64_t wanted) {
    struct culm_device *device = NULL;
    float *image = aligned_alloc(64, 4 * FRAMES * SIDE * SIDE * 3);
    uint64_t random = 7;
    assert_non_null(image);
    for (int i = 0; i < FRAMES * SIDE * SIDE * 3; i++) {
        image[i] = culm_rng_unit((uint32_t)culm_rng_next(&random));
    }
    assert_int_equal(culm_device_new(1, &device, NULL), CULM_OK);
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct network stranger, own, plain, moved;
        network_init(&stranger, text, 100 + seed, NULL);
        network_init(&own, text, seed, NULL);
        const int64_t away = align(&stranger, &own, image, device);
        if (away < wanted / 2 || away > wanted) {
            fail_msg("%d of %d channels moved", (int)away, (int)wanted);
        }
        same_answers(&own.model, image, device);
        network_init(&plain, text, seed, NULL);
        network_init(&moved, text, seed, &own.model);
        assert_int_equal(align(&plain, &moved, image, device), away);
        for (int32_t p = 0; p < plain.model.param_count; p++) {
            const size_t bytes = 4 * (size_t)culm_merge_param_elements(&plain.model, p);
            if (memcmp(moved.model.aligned[p], plain.model.original[p], bytes) != 0) {
                fail_msg("seed %d: '%s' was not found again", (int)seed,
                         plain.model.graph->param[p].name);
            }
        }
        culm_merge_model_release(&stranger.model);
        culm_merge_model_release(&own.model);
        culm_merge_model_release(&plain.model);
        culm_merge_model_release(&moved.model);
    }
    culm_device_free(device);
    free(image);
}

static void test_two_parts(void **state) {
    (void)state;
    check(NET CONV(8, 3, 1) CONV(6, 3, 1) ROUTE("-1,-2") CONV(5, 3, 1) HEAD, 8 + 6 + 5);
}

/* The middle one of three is there twice. */
static void test_a_part_twice(void **state) {
    (void)state;
    check(NET CONV(8, 3, 1) CONV(6, 1, 1) ROUTE("-1,-2,-1") CONV(5, 1, 1) HEAD, 8 + 6 + 5);
}

/* What a depthwise convolution makes of several parts has their channels in their orders. */
static void test_depthwise(void **state) {
    (void)state;
    check(NET CONV(8, 3, 1) CONV(6, 3, 1) ROUTE("-1,-2") DEPTHWISE(14) CONV(5, 1, 1) HEAD,
          8 + 6 + 5);
}

/* As detectors have it: coarse features beside fine ones, which have a residual. */
static void test_pyramid(void **state) {
    (void)state;
    check(NET CONV(7, 3, 1) CONV(7, 1, 1) CONV(7, 3, 1) SUM CONV(9, 3, 2) CONV(6, 1, 1)
              UP ROUTE("-1,-4") DEPTHWISE(13) CONV(8, 1, 1) HEAD,
          7 + 7 + 9 + 6 + 8);
}

/* Sums of parts that are cut in the same places; of others nothing moves but what goes into none. */
static void test_sums_of_parts(void **state) {
    (void)state;
    check(NET CONV(4, 3, 1) CONV(6, 3, 1) ROUTE("-1,-2") ROUTE("-3") CONV(4, 1, 1) ROUTE("-4")
              CONV(6, 1, 1) ROUTE("-1,-3") "[shortcut]\nfrom=-6\nactivation=linear\n" CONV(5, 1, 1)
                  HEAD,
          4 + 6 + 5);
    check(NET CONV(4, 3, 1) CONV(6, 3, 1) ROUTE("-1,-2")
              CONV(10, 1, 1) "[shortcut]\nfrom=-2\nactivation=linear\n" CONV(5, 1, 1) HEAD,
          5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_parts),     cmocka_unit_test(test_a_part_twice),
        cmocka_unit_test(test_depthwise),     cmocka_unit_test(test_pyramid),
        cmocka_unit_test(test_sums_of_parts),
    };
    return cmocka_run_group_tests_name("merge/align_concat", tests, NULL, NULL);
}

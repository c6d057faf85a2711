/*
 * Two small detectors that share their first layer and have heads of their own: what made one of them unsure
 * is made up for when it is checked, by `culm` alone, no further than it needs, and not by boxes that are wrong.
 */
#include "merge/search_parts.h"

#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SIDE 8
#define FRAMES 12

struct detector {
    struct culm_vision_model model;
    uint64_t seed;
};

static enum culm_status graph_of(struct culm_vision_model *model, int64_t batch,
                                 struct culm_graph **ret_graph, struct culm_error *error) {
    struct culm_graph *graph = culm_graph_new(culm_device_default());
    const int64_t out = 5 + model->head[0].classes;
    const struct culm_shape image = {4, {batch, SIDE, SIDE, 3}}, first = {4, {6, 3, 1, 1}},
                            last = {4, {out, 6, 1, 1}}, bias = {1, {out}};
    const struct culm_attributes how = {
        .kernel = {1, 1}, .stride = {1, 1}, .dilation = {1, 1}, .groups = 1};
    int32_t x = culm_graph_field(graph, "image", CULM_F32, &image);
    x = culm_graph_apply(
        graph, "conv",
        (int32_t[]){x, culm_graph_param(graph, "first", &first, CULM_INIT_NORMAL, 0.3, true), -1},
        3, &how);
    graph->block++;
    x = culm_graph_apply(
        graph, "conv",
        (int32_t[]){x, culm_graph_param(graph, "head", &last, CULM_INIT_NORMAL, 0.3, true),
                    culm_graph_param(graph, "bias", &bias, CULM_INIT_ZEROS, 0, false)},
        3, &how);
    graph->blocks = graph->block + 1;
    culm_graph_output(graph, "map", x);
    enum culm_status status = culm_graph_check(graph, error);
    if (status != CULM_OK) {
        culm_graph_free(graph);
        return status;
    }
    *ret_graph = graph;
    return CULM_OK;
}

static enum culm_status weights_of(struct culm_vision_model *model, const struct culm_param *param,
                                   float *ret_data, struct culm_error *error) {
    const struct detector *self = (const struct detector *)model;
    uint64_t seed = self->seed;
    (void)error;
    for (int64_t i = 0; i < culm_elements(&param->shape); i++) {
        const float unit = culm_rng_unit((uint32_t)culm_rng_next(&seed)) - 0.5F;
        ret_data[i] = !strcmp(param->name, "bias") ? (i == 4 ? -2.0F : 0) : 4 * unit;
    }
    return CULM_OK;
}
static void free_nothing(struct culm_vision_model *model) { (void)model; }
static const struct culm_vision_model_ops detector_ops = {
    .size = sizeof detector_ops, .graph = graph_of, .weights = weights_of, .free = free_nothing};

static void on_check(void *ctx, int32_t round, const struct culm_search_query *query, bool ok) {
    (void)ctx, (void)round, (void)query, (void)ok;
}
static bool never(void *ctx) {
    (void)ctx;
    return false;
}

struct world {
    struct detector detector[2];
    struct culm_merge_model model[2], *models[2];
    struct culm_share share;
    struct culm_judge judge[2];
    struct culm_answer wanted[2][FRAMES];
    struct culm_search_query query[2];
    struct culm_merge_config config;
    struct culm_device *device;
    struct culm_search_ops ops;
    struct culm_search search;
    float image[FRAMES * SIDE * SIDE * 3];
    struct culm_merge_size size[FRAMES];
};

static uint64_t seed_of_frames(void) {
    const char *given = getenv("CULM_TEST_SEED");
    return given ? strtoull(given, NULL, 10) : 7;
}

static void world_init(struct world *w, enum culm_merge_method method) {
    const struct culm_vision_layers *layers[2];
    struct culm_match match;
    uint64_t seed = seed_of_frames();
    *w = (struct world){.config = {.method = method}, .ops = {.check = on_check, .stop = never}};
    for (int i = 0; i < FRAMES; i++) {
        w->size[i] = (struct culm_merge_size){SIDE, SIDE};
    }
    for (int i = 0; i < FRAMES * SIDE * SIDE * 3; i++) {
        w->image[i] = culm_rng_unit((uint32_t)culm_rng_next(&seed)) - 0.5F;
    }
    assert_int_equal(culm_device_new(1, &w->device, NULL), CULM_OK);
    for (int32_t k = 0; k < 2; k++) {
        struct culm_vision_model *model = &w->detector[k].model;
        w->detector[k].seed = 3 + (uint64_t)k;
        *model = (struct culm_vision_model){
            .ops = &detector_ops,
            .name = "detector",
            .input = {.width = SIDE, .height = SIDE, .channels = 3},
            .kind = CULM_ANSWER_BOXES,
            .classes = 1 + k,
            .head_count = 1,
            .head = {{.anchors = 1, .classes = 1 + k, .anchor = {{2, 2}}, .scale_xy = 1}}};
        assert_int_equal(culm_merge_model_init(&w->model[k], model, NULL), CULM_OK);
        w->models[k] = &w->model[k];
        layers[k] = &w->model[k].layers;
        assert_int_equal(culm_judge_init(&w->judge[k], &w->model[k], 4, 0.25F, w->device, NULL),
                         CULM_OK);
        struct culm_search_query *query = &w->query[k];
        *query = (struct culm_search_query){.name = "q",
                                            .model = k,
                                            .judge = &w->judge[k],
                                            .check = {w->image, FRAMES, w->size, NULL, NULL},
                                            .wanted = w->wanted[k],
                                            .original = 1,
                                            .target = 0.9};
        assert_int_equal(culm_judge_answer(&w->judge[k], w->model[k].original, &query->check,
                                           w->wanted[k], NULL),
                         CULM_OK);
        int32_t boxes = 0;
        for (int i = 0; i < FRAMES; i++) {
            boxes += w->wanted[k][i].box_count;
        }
        printf("# detector %d: %d boxes\n", k, boxes);
        assert_true(boxes > 20);
    }
    assert_int_equal(culm_match_find(layers, 2, CULM_MATCH_EQUAL, &match, NULL), CULM_OK);
    assert_int_equal(match.count, 1);
    assert_int_equal(culm_share_init(&w->share, &match, w->models, 2, NULL), CULM_OK);
    culm_share_set(&w->share, 0, true);
    w->search = (struct culm_search){.models = w->models,
                                     .count = 2,
                                     .share = &w->share,
                                     .query = w->query,
                                     .query_count = 2,
                                     .config = &w->config,
                                     .device = w->device,
                                     .ops = &w->ops,
                                     .ctx = w};
}

static void world_release(struct world *w) {
    culm_share_release(&w->share);
    for (int32_t k = 0; k < 2; k++) {
        for (int i = 0; i < FRAMES; i++) {
            culm_answer_release(&w->wanted[k][i]);
        }
        culm_judge_release(&w->judge[k]);
        culm_merge_model_release(&w->model[k]);
    }
    culm_device_free(w->device);
}

static float *sureness(struct world *w, int32_t k) {
    return &w->model[k].value[w->model[k].layers.layer[1].bias][4];
}

static void test_what_is_unsure_becomes_sure(void **state) {
    (void)state;
    for (int way = 0; way < 2; way++) {
        struct world w;
        double least;
        world_init(&w, way ? CULM_MERGE_CULM : CULM_MERGE_STEM);
        *sureness(&w, 0) -= 2;
        assert_int_equal(search_check(&w.search, &least, NULL), CULM_OK);
        assert_true(fabs(w.query[1].now - 1) < 1e-9); /* as it was, and left alone */
        assert_true(*sureness(&w, 1) == -2);
        if (way) {
            double now;
            assert_true(*sureness(&w, 0) > -4 && *sureness(&w, 0) <= -2);
            assert_true(w.query[0].now >= search_enough(&w.query[0]) && least >= 1);
            assert_int_equal(culm_judge_now(&w.judge[0], w.model[0].value, &w.query[0].check,
                                            w.wanted[0], &now, NULL),
                             CULM_OK);
            assert_true(fabs(now - w.query[0].now) < 1e-9); /* it is what was judged */
        } else {
            assert_true(*sureness(&w, 0) == -4 && w.query[0].now < 0.9 && least < 1);
        }
        world_release(&w);
    }
}

static int64_t boxes_of(const struct culm_answer *answer) {
    int64_t boxes = 0;
    for (int i = 0; i < FRAMES; i++) {
        boxes += answer[i].box_count;
    }
    return boxes;
}

static int64_t told_by(struct world *w, int32_t k) {
    struct culm_answer answer[FRAMES] = {0};
    assert_int_equal(
        culm_judge_answer(&w->judge[k], w->model[k].value, &w->query[k].check, answer, NULL),
        CULM_OK);
    int64_t boxes = boxes_of(answer);
    for (int i = 0; i < FRAMES; i++) {
        culm_answer_release(&answer[i]);
    }
    return boxes;
}

/* An original that tells of few boxes: being surer would find more of them, among many that are wrong. */
static void test_wrong_boxes_are_not_told(void **state) {
    (void)state;
    struct world w;
    double least, as_it_is;
    world_init(&w, CULM_MERGE_CULM);
    for (int i = 0; i < FRAMES; i++) {
        struct culm_answer *wanted = &w.wanted[0][i];
        wanted->box_count = (wanted->box_count + 2) / 3;
    }
    *sureness(&w, 0) -= 2;
    const int64_t wanted = boxes_of(w.wanted[0]), told = told_by(&w, 0);
    assert_int_equal(culm_judge_now(&w.judge[0], w.model[0].value, &w.query[0].check, w.wanted[0],
                                    &as_it_is, NULL),
                     CULM_OK);
    assert_int_equal(search_check(&w.search, &least, NULL), CULM_OK);
    printf("# %lld boxes of the original, %lld as it was, %lld now; accuracy %.3f, then %.3f\n",
           (long long)wanted, (long long)told, (long long)told_by(&w, 0), as_it_is, w.query[0].now);
    assert_true(told < wanted); /* else nothing could be told of in addition */
    assert_true(told_by(&w, 0) > told && w.query[0].now > as_it_is);
    assert_true(4 * told_by(&w, 0) <= 5 * wanted);
    world_release(&w);
}

/* Where frames have labels there is nothing to be sure of. */
static void test_labels_are_not_answers(void **state) {
    (void)state;
    struct world w;
    double least;
    int32_t label[FRAMES] = {0};
    world_init(&w, CULM_MERGE_CULM);
    *sureness(&w, 0) -= 2;
    w.query[0].check.label = label;
    assert_int_equal(search_check(&w.search, &least, NULL), CULM_OK);
    assert_true(*sureness(&w, 0) == -4);
    world_release(&w);
}

int main(void) {
    printf("# seed %llu (CULM_TEST_SEED)\n", (unsigned long long)seed_of_frames());
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_unsure_becomes_sure),
        cmocka_unit_test(test_wrong_boxes_are_not_told),
        cmocka_unit_test(test_labels_are_not_answers),
    };
    return cmocka_run_group_tests_name("merge/search_objectness", tests, NULL, NULL);
}

/*
 * Models trained together: one tensor at one address for several owners, gradients of all owners in
 * a fixed order, the same bits on any number of threads, and both aims.
 */
#include "merge/joint.h"

#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SIZE 8
#define CLASSES 3
#define SAMPLES 12
#define PARAMS 32

/* A small network with a residual: two convolutions with batch norm, a third with a bias, a classifier. */
struct net {
    struct culm_vision_model model;
    int64_t last; /* channels of the third convolution */
    float *value[PARAMS], *original[PARAMS];
    int32_t params;
    float *image; /* [SAMPLES][SIZE][SIZE][3] */
    int32_t label[SAMPLES];
};

static int32_t param(struct culm_graph *graph, const char *name, struct culm_shape shape) {
    return culm_graph_param(graph, name, &shape, CULM_INIT_NORMAL, 0.3, shape.rank > 1);
}

static int32_t conv(struct culm_graph *graph, const char *name, int32_t x, int64_t in,
                    int64_t out) {
    const struct culm_attributes how = {
        .kernel = {3, 3}, .stride = {1, 1}, .dilation = {1, 1}, .pad = {1, 1, 1, 1}, .groups = 1};
    int32_t inputs[] = {x, param(graph, name, (struct culm_shape){4, {out, in, 3, 3}}), -1};
    return culm_graph_apply(graph, "conv", inputs, 3, &how);
}

static int32_t norm(struct culm_graph *graph, const char *name, int32_t x, int64_t c) {
    const struct culm_attributes how = {
        .eps = 1e-5, .momentum = 0.1, .function = CULM_FUNCTION_RELU, .inference = true};
    const struct culm_shape shape = {1, {c}};
    char text[4][32];
    for (int i = 0; i < 4; i++) {
        snprintf(text[i], sizeof text[i], "%s.%d", name, i);
    }
    int32_t inputs[] = {x,
                        param(graph, text[0], shape),
                        param(graph, text[1], shape),
                        culm_graph_statistic(graph, text[2], &shape, CULM_INIT_ZEROS),
                        culm_graph_statistic(graph, text[3], &shape, CULM_INIT_ONES),
                        -1};
    return culm_graph_apply(graph, "batchnorm", inputs, 6, &how);
}

static enum culm_status net_graph(struct culm_vision_model *model, int64_t batch,
                                  struct culm_graph **ret_graph, struct culm_error *error) {
    const struct net *net = (const struct net *)model;
    struct culm_graph *graph = culm_graph_new(culm_device_default());
    const struct culm_shape image = {4, {batch, SIZE, SIZE, 3}};
    int32_t x = culm_graph_field(graph, "image", CULM_F32, &image);
    x = norm(graph, "n0", conv(graph, "c0", x, 3, 4), 4);
    graph->block++;
    int32_t y = norm(graph, "n1", conv(graph, "c1", x, 4, 4), 4);
    x = culm_graph_apply(graph, "add", (int32_t[]){x, y}, 2, NULL);
    graph->block++;
    x = conv(graph, "c2", x, 4, net->last);
    graph->block++;
    x = culm_graph_apply(graph, "adaptive_avgpool", &x, 1,
                         &(struct culm_attributes){.dims = {1, 1}});
    x = culm_graph_apply(graph, "reshape", &x, 1,
                         &(struct culm_attributes){.dims = {batch, net->last}});
    int32_t head[] = {x, param(graph, "head", (struct culm_shape){2, {CLASSES, net->last}}), -1};
    x = culm_graph_apply(graph, "linear", head, 3, &(struct culm_attributes){.transposed = true});
    graph->blocks = graph->block + 1;
    culm_graph_output(graph, "logits", x);
    enum culm_status status = culm_graph_check(graph, error);
    if (status != CULM_OK) {
        culm_graph_free(graph);
        return status;
    }
    *ret_graph = graph;
    return CULM_OK;
}
static enum culm_status net_weights(struct culm_vision_model *model, const struct culm_param *p,
                                    float *ret_data, struct culm_error *error) {
    (void)model, (void)p, (void)ret_data, (void)error;
    return CULM_OK;
}
static void net_free(struct culm_vision_model *model) { (void)model; }
static const struct culm_vision_model_ops net_ops = {
    .size = sizeof net_ops, .graph = net_graph, .weights = net_weights, .free = net_free};

static void net_init(struct net *net, uint64_t seed, int64_t last) {
    *net = (struct net){.model = {.ops = &net_ops,
                                  .name = "net",
                                  .input = {.width = SIZE, .height = SIZE, .channels = 3},
                                  .kind = CULM_ANSWER_CLASSES,
                                  .classes = CLASSES},
                        .last = last};
    struct culm_graph *graph;
    assert_int_equal(culm_vision_model_graph(&net->model, 1, CULM_VISION_INFER, &graph, NULL), 0);
    net->params = graph->param_count;
    for (int32_t p = 0; p < graph->param_count; p++) {
        int64_t count = culm_elements(&graph->param[p].shape);
        net->value[p] = aligned_alloc(64, ((size_t)count * 4 + 63) & ~(size_t)63);
        net->original[p] = aligned_alloc(64, ((size_t)count * 4 + 63) & ~(size_t)63);
        for (int64_t i = 0; i < count; i++) {
            float unit = culm_rng_unit((uint32_t)culm_rng_next(&seed));
            bool one = graph->param[p].shape.rank == 1;
            net->value[p][i] = one ? 0.5f + unit : 0.6f * (unit - 0.5f);
        }
        memcpy(net->original[p], net->value[p], (size_t)count * 4);
    }
    culm_graph_free(graph);
    net->image = malloc(SAMPLES * SIZE * SIZE * 3 * sizeof *net->image);
    for (int64_t i = 0; i < SAMPLES * SIZE * SIZE * 3; i++) {
        net->image[i] = culm_rng_unit((uint32_t)culm_rng_next(&seed));
    }
    /* What stands for the classes: one colour is brighter. */
    for (int32_t s = 0; s < SAMPLES; s++) {
        net->label[s] = s % CLASSES;
        for (int64_t i = 0; i < SIZE * SIZE; i++) {
            net->image[(s * SIZE * SIZE + i) * 3 + net->label[s]] += 0.5f;
        }
    }
}

static void net_release(struct net *net) {
    for (int32_t p = 0; p < net->params; p++) {
        free(net->value[p]);
        free(net->original[p]);
    }
    free(net->image);
}

static enum culm_status get(void *ctx, int64_t sample, float *ret_image,
                            struct culm_wanted *ret_wanted, struct culm_error *error) {
    const struct net *net = ctx;
    (void)error;
    memcpy(ret_image, &net->image[sample * SIZE * SIZE * 3], SIZE * SIZE * 3 * sizeof(float));
    *ret_wanted = (struct culm_wanted){.label = net->label[sample]};
    return CULM_OK;
}

static struct culm_joint_part part_of(struct net *net) {
    return (struct culm_joint_part){.model = &net->model,
                                    .value = net->value,
                                    .original = (const float *const *)net->original,
                                    .samples = {.ctx = net, .count = SAMPLES, .get = get}};
}

static const struct culm_joint_config plain = {
    .optimizer = {.name = CULM_OPTIMIZER_SGD, .lr = 0.01, .momentum = 0.9, .weight_decay = 5e-4},
    .aim = CULM_JOINT_ANSWERS,
    .batch = 4,
    .seed = 5,
};

static int32_t index_of(struct net *net, const char *name) {
    struct culm_graph *graph;
    int32_t found = -1;
    assert_int_equal(culm_vision_model_graph(&net->model, 1, CULM_VISION_INFER, &graph, NULL), 0);
    for (int32_t p = 0; p < graph->param_count; p++) {
        found = strcmp(graph->param[p].name, name) ? found : p;
    }
    culm_graph_free(graph);
    return found;
}

static double run(const struct culm_joint_config *config, const struct culm_joint_part *part,
                  int32_t parts, int64_t batches, int threads) {
    struct culm_device *device;
    struct culm_joint *joint;
    struct culm_error error = {0};
    double loss = -1;
    assert_int_equal(culm_device_new(threads, &device, NULL), CULM_OK);
    if (culm_joint_new(config, part, parts, device, &joint, &error) != CULM_OK) {
        fail_msg("%s", error.text);
    }
    assert_int_equal(culm_joint_run(joint, batches, &loss, &error), CULM_OK);
    culm_joint_free(joint);
    culm_device_free(device);
    return loss;
}

/* Two models, one of whose layers is the same tensor. */
static void share(struct net *a, struct net *b, const char *name) {
    int32_t p = index_of(a, name), q = index_of(b, name);
    memcpy(b->value[q], a->value[p], 4 * 4 * 9 * sizeof(float));
    free(b->value[q]);
    b->value[q] = a->value[p];
}
static void unshare(struct net *b, const char *name) { b->value[index_of(b, name)] = NULL; }

static void test_answers_are_learned(void **state) {
    (void)state;
    struct net a, b;
    net_init(&a, 1, 5);
    net_init(&b, 2, 6);
    share(&a, &b, "c1");
    const struct culm_joint_part part[] = {part_of(&a), part_of(&b)};
    double first = run(&plain, part, 2, 6, 1);
    run(&plain, part, 2, 200, 1);
    double last = run(&plain, part, 2, 6, 1);
    if (!(last < 0.7 * first)) {
        fail_msg("the loss went from %g to %g", first, last);
    }
    unshare(&b, "c1");
    net_release(&a);
    net_release(&b);
}

/* Any number of threads; and not what another seed gives. */
static void test_bits(void **state) {
    (void)state;
    for (int aim = 0; aim < 3; aim++) {
        float *kept[4] = {0};
        for (int turn = 0; turn < 4; turn++) {
            struct net a, b;
            net_init(&a, 1, 5);
            net_init(&b, 2, 6);
            share(&a, &b, "c1");
            struct culm_joint_config config = plain;
            config.aim = aim ? CULM_JOINT_FEATURES : CULM_JOINT_ANSWERS;
            config.optimizer.name = aim ? CULM_OPTIMIZER_ADAM : CULM_OPTIMIZER_SGD;
            config.optimizer.beta1 = 0.9, config.optimizer.beta2 = 0.999;
            config.optimizer.eps = 1e-8;
            config.optimizer.lr = aim ? 1e-3 : 0.01;
            config.stretches = 3;
            config.local = aim == 2;
            config.seed = turn == 3 ? 6 : 5;
            const struct culm_joint_part part[] = {part_of(&a), part_of(&b)};
            run(&config, part, 2, 9, turn == 1 ? 2 : turn == 2 ? 5 : 1);
            kept[turn] = malloc(144 * sizeof(float));
            memcpy(kept[turn], a.value[index_of(&a, "c1")], 144 * sizeof(float));
            unshare(&b, "c1");
            net_release(&a);
            net_release(&b);
        }
        assert_memory_equal(kept[0], kept[1], 144 * sizeof(float));
        assert_memory_equal(kept[0], kept[2], 144 * sizeof(float));
        assert_memory_not_equal(kept[0], kept[3], 144 * sizeof(float));
        for (int turn = 0; turn < 4; turn++) {
            free(kept[turn]);
        }
    }
}

/* A shared tensor gets the sum: one model given twice, at the same addresses, with all samples in one
 * batch, takes the step of one whose loss weighs twice. */
static void test_gradients_are_summed(void **state) {
    (void)state;
    struct net once, twice;
    net_init(&once, 3, 5);
    net_init(&twice, 3, 5);
    struct culm_joint_config config = plain;
    config.aim = CULM_JOINT_FEATURES;
    config.stretches = 2;
    config.batch = 2 * SAMPLES;
    config.optimizer.momentum = 0;
    int32_t c1 = index_of(&once, "c1");
    for (int i = 0; i < 144; i++) {
        once.value[c1][i] += 0.1f;
        twice.value[c1][i] += 0.1f;
    }
    struct culm_device *device;
    struct culm_joint *joint;
    double loss;
    assert_int_equal(culm_device_new(1, &device, NULL), CULM_OK);
    const struct culm_joint_part part[] = {part_of(&twice), part_of(&twice)};
    assert_int_equal(culm_joint_new(&config, part, 2, device, &joint, NULL), CULM_OK);
    assert_int_equal(culm_joint_run(joint, 1, &loss, NULL), CULM_OK);
    culm_joint_free(joint);
    const struct culm_joint_part alone = part_of(&once);
    assert_int_equal(culm_joint_new(&config, &alone, 1, device, &joint, NULL), CULM_OK);
    culm_joint_weight(joint, 0, 2);
    assert_int_equal(culm_joint_run(joint, 1, &loss, NULL), CULM_OK);
    culm_joint_free(joint);
    for (int i = 0; i < 144; i++) {
        float moved = once.value[c1][i] - once.original[c1][i];
        assert_true(fabsf(once.value[c1][i] - twice.value[c1][i]) < 1e-5f);
        assert_true(fabsf(moved - 0.1f) > 0); /* a step was taken */
    }
    culm_device_free(device);
    net_release(&once);
    net_release(&twice);
}

/* A model that was pulled away from its original comes near it again, by its own layers and by one that
 * two models share; running statistics and the originals stay as they were. */
static void test_features_are_approached(void **state) {
    (void)state;
    for (int local = 0; local < 2; local++) {
        struct net a, b;
        net_init(&a, 1, 5);
        net_init(&b, 2, 6);
        share(&a, &b, "c1");
        struct culm_joint_config config = {
            .optimizer = {.name = CULM_OPTIMIZER_ADAM,
                          .lr = 3e-3,
                          .beta1 = 0.9,
                          .beta2 = 0.999,
                          .eps = 1e-8},
            .aim = CULM_JOINT_FEATURES,
            .stretches = 4,
            .local = local,
            .batch = 8,
            .seed = 5,
        };
        const struct culm_joint_part part[] = {part_of(&a), part_of(&b)};
        float mean[4], other[4];
        int32_t statistic = index_of(&b, "n1.2"), head = index_of(&b, "head");
        memcpy(mean, b.value[statistic], sizeof mean);
        memcpy(other, b.original[head], sizeof other);
        double first = run(&config, part, 2, 3, 1);
        run(&config, part, 2, 400, 1);
        double last = run(&config, part, 2, 3, 1);
        if (!(last < first / 5)) {
            fail_msg("local %d: the distance went from %g to %g", local, first, last);
        }
        assert_memory_equal(mean, b.value[statistic], sizeof mean);
        assert_memory_equal(other, b.original[head], sizeof other);
        unshare(&b, "c1");
        net_release(&a);
        net_release(&b);
    }
}

/* A model that is its original is at no distance and does not move; frozen tensors never do. */
static void test_what_stays(void **state) {
    (void)state;
    struct net a;
    net_init(&a, 1, 5);
    struct culm_joint_config config = plain;
    config.aim = CULM_JOINT_FEATURES;
    config.stretches = 9; /* more than there are blocks */
    config.optimizer.weight_decay = 0;
    struct culm_joint_part part = part_of(&a);
    assert_true(run(&config, &part, 1, 5, 2) == 0);
    int32_t c0 = index_of(&a, "c0"), c1 = index_of(&a, "c1");
    assert_memory_equal(a.value[c0], a.original[c0], 4 * 3 * 9 * sizeof(float));
    bool frozen[PARAMS] = {0};
    frozen[c1] = true;
    part.frozen = frozen;
    run(&plain, &part, 1, 5, 2);
    assert_memory_equal(a.value[c1], a.original[c1], 144 * sizeof(float));
    assert_memory_not_equal(a.value[c0], a.original[c0], 4 * 3 * 9 * sizeof(float));
    net_release(&a);
}

/* A loss that is not a number ends a run at once; an error of the samples is said; one address has one
 * length. */
static enum culm_status fails(void *ctx, int64_t sample, float *ret_image,
                              struct culm_wanted *ret_wanted, struct culm_error *error) {
    (void)ctx, (void)sample, (void)ret_image, (void)ret_wanted;
    return culm_error_set(error, CULM_ERR_IO, "no picture");
}
static void test_trouble(void **state) {
    (void)state;
    struct net a, b;
    net_init(&a, 1, 5);
    net_init(&b, 1, 5);
    struct culm_joint_part part[] = {part_of(&a), part_of(&b)};
    int32_t c0 = index_of(&a, "c0"), c1 = index_of(&a, "c1");
    float *own = b.value[c0];
    a.value[c1][0] = NAN;
    assert_false(isfinite(run(&plain, part, 1, 1000000, 1)));
    part[1].samples.get = fails;
    struct culm_device *device;
    struct culm_joint *joint;
    struct culm_error error;
    double loss = 3;
    assert_int_equal(culm_device_new(1, &device, NULL), CULM_OK);
    assert_int_equal(culm_joint_new(&plain, &part[1], 1, device, &joint, NULL), CULM_OK);
    assert_int_equal(culm_joint_run(joint, 1, &loss, &error), CULM_ERR_IO);
    assert_true(loss == 3);
    culm_joint_free(joint);
    b.value[c0] = a.value[c1];
    assert_int_equal(culm_joint_new(&plain, part, 2, device, &joint, &error), CULM_ERR_CONFIG);
    b.value[c0] = own;
    culm_device_free(device);
    net_release(&a);
    net_release(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers_are_learned),  cmocka_unit_test(test_bits),
        cmocka_unit_test(test_gradients_are_summed), cmocka_unit_test(test_features_are_approached),
        cmocka_unit_test(test_what_stays),           cmocka_unit_test(test_trouble),
    };
    return cmocka_run_group_tests_name("merge/joint", tests, NULL, NULL);
}

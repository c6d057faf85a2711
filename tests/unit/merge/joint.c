/*
 * Models trained together: one tensor at one address for several owners, gradients of all owners in
 * a fixed order, the same bits on any number of threads, and both aims.
 */
#include "merge/joint.h"

#include "net.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

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
    for (int aim = 0; aim < 2; aim++) {
        float *kept[4] = {0};
        for (int turn = 0; turn < 4; turn++) {
            struct net a, b;
            net_init(&a, 1, 5);
            net_init(&b, 2, 6);
            share(&a, &b, "c1");
            struct culm_joint_config config = plain;
            config.aim = aim ? CULM_JOINT_OUTPUTS : CULM_JOINT_ANSWERS;
            config.optimizer.name = aim ? CULM_OPTIMIZER_ADAM : CULM_OPTIMIZER_SGD;
            config.optimizer.beta1 = 0.9, config.optimizer.beta2 = 0.999;
            config.optimizer.eps = 1e-8;
            config.optimizer.lr = aim ? 1e-3 : 0.01;
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

/* The negative control: three models of one sample each, added in another order. The layer that they share gets
 * the same gradients. */
static void test_another_order_shows(void **state) {
    (void)state;
    float kept[3][144];
    for (int turn = 0; turn < 3; turn++) { /* the second and the third agree */
        static const int order[3][3] = {{0, 1, 2}, {1, 2, 0}, {1, 2, 0}};
        struct net net[3];
        struct culm_joint_config config = plain;
        struct culm_joint_part part[3];
        config.batch = 3;
        config.optimizer.lr = 64; /* a small step would hide the last bits of the gradient */
        for (int i = 0; i < 3; i++) {
            net_init(&net[i], 1 + (uint64_t)i, 5 + (uint64_t)i);
        }
        share(&net[0], &net[1], "c1");
        share(&net[0], &net[2], "c1");
        for (int i = 0; i < 3; i++) {
            part[i] = part_of(&net[order[turn][i]]);
            part[i].samples.count = 1;
        }
        run(&config, part, 3, 1, 1);
        memcpy(kept[turn], net[0].value[index_of(&net[0], "c1")], sizeof kept[turn]);
        unshare(&net[1], "c1");
        unshare(&net[2], "c1");
        for (int i = 0; i < 3; i++) {
            net_release(&net[i]);
        }
    }
    assert_memory_not_equal(kept[0], kept[1], sizeof kept[0]);
    assert_memory_equal(kept[1], kept[2], sizeof kept[0]);
    for (int i = 0; i < 144; i++) {
        assert_true(fabsf(kept[0][i] - kept[1][i]) < 1e-4f * (1 + fabsf(kept[0][i])));
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
    config.aim = CULM_JOINT_OUTPUTS;
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
 * two models share; the originals stay as they were, and running statistics but for rounding. */
static void test_originals_are_approached(void **state) {
    (void)state;
    struct net a, b;
    net_init(&a, 1, 5);
    net_init(&b, 2, 6);
    share(&a, &b, "c1");
    struct culm_joint_config config = {
        .optimizer =
            {.name = CULM_OPTIMIZER_ADAM, .lr = 3e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8},
        .aim = CULM_JOINT_OUTPUTS,
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
        fail_msg("the distance went from %g to %g", first, last);
    }
    for (int i = 0; i < 4; i++) {
        assert_true(fabsf(mean[i] - b.value[statistic][i]) < 1e-5f);
    }
    assert_memory_equal(other, b.original[head], sizeof other);
    unshare(&b, "c1");
    net_release(&a);
    net_release(&b);
}

/* A model that is its original is at no distance and does not move; frozen tensors never do. */
static void test_what_stays(void **state) {
    (void)state;
    struct net a;
    net_init(&a, 1, 5);
    struct culm_joint_config config = plain;
    config.aim = CULM_JOINT_OUTPUTS;
    config.optimizer.weight_decay = 0;
    struct culm_joint_part part = part_of(&a);
    bool frozen[PARAMS] = {0};
    for (int32_t p = 0; p < a.params; p++) { /* statistics, which move by rounding */
        frozen[p] = strstr(a.name[p], ".2") || strstr(a.name[p], ".3");
    }
    part.frozen = frozen;
    assert_true(run(&config, &part, 1, 5, 2) == 0);
    int32_t c0 = index_of(&a, "c0"), c1 = index_of(&a, "c1");
    assert_memory_equal(a.value[c0], a.original[c0], 4 * 3 * 9 * sizeof(float));
    frozen[c1] = true;
    run(&plain, &part, 1, 5, 2);
    assert_memory_equal(a.value[c1], a.original[c1], 144 * sizeof(float));
    assert_memory_not_equal(a.value[c0], a.original[c0], 4 * 3 * 9 * sizeof(float));
    net_release(&a);
}

/* The first step takes all others to where it takes them when nothing is frozen. */
static void test_frozen_and_the_others(void **state) {
    (void)state;
    struct net free_net, held;
    net_init(&free_net, 1, 5);
    net_init(&held, 1, 5);
    struct culm_joint_part part = part_of(&free_net);
    run(&plain, &part, 1, 1, 1);
    bool frozen[PARAMS] = {0};
    const int32_t c1 = index_of(&held, "c1");
    frozen[c1] = true;
    part = part_of(&held);
    part.frozen = frozen;
    run(&plain, &part, 1, 1, 1);
    struct culm_graph *graph;
    assert_int_equal(culm_vision_model_graph(&held.model, 1, CULM_VISION_INFER, &graph, NULL), 0);
    for (int32_t p = 0; p < graph->param_count; p++) {
        const size_t bytes = (size_t)culm_elements(&graph->param[p].shape) * sizeof(float);
        if (p == c1) {
            assert_memory_equal(held.value[p], held.original[p], bytes);
        } else {
            assert_memory_equal(held.value[p], free_net.value[p], bytes);
        }
    }
    culm_graph_free(graph);
    net_release(&free_net);
    net_release(&held);
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

/* What the original says is the same whether it is kept or asked for again; and every model takes as many samples as it
 * says in every step. */
struct counted {
    struct net *net;
    int64_t asked;
};
static enum culm_status count_and_get(void *ctx, int64_t sample, float *ret_image,
                                      struct culm_wanted *ret_wanted, struct culm_error *error) {
    struct counted *counted = ctx;
    counted->asked++;
    return get(counted->net, sample, ret_image, ret_wanted, error);
}
static void test_answers_are_kept(void **state) {
    (void)state;
    float *moved[3];
    struct culm_joint_config config = plain;
    config.aim = CULM_JOINT_OUTPUTS;
    for (int turn = 0; turn < 3; turn++) { /* asked for again, kept, no room to keep */
        struct net a, b;
        struct culm_joint_answers answers[2] = {{0}};
        net_init(&a, 1, 5);
        net_init(&b, 2, 6);
        share(&a, &b, "c1");
        struct counted counted[] = {{&a, 0}, {&b, 0}};
        struct culm_joint_part part[] = {part_of(&a), part_of(&b)};
        for (int i = 0; i < 2; i++) {
            part[i].samples = (struct culm_joint_samples){&counted[i], SAMPLES, count_and_get};
            part[i].each = i + 3;
            part[i].room = turn == 2 ? 8 : 1 << 20;
            part[i].answers = turn ? &answers[i] : NULL;
        }
        run(&config, part, 2, 9, 1);
        assert_int_equal(counted[0].asked, 9 * 3);
        assert_int_equal(counted[1].asked, 9 * 4);
        for (int i = 0; i < 2; i++) {
            assert_true((answers[i].value != NULL) == (turn == 1));
            for (int32_t s = 0; s < SAMPLES && turn == 1; s++) {
                assert_true(answers[i].known[s]);
            }
            free(answers[i].value);
            free(answers[i].known);
        }
        moved[turn] = malloc(144 * sizeof(float));
        memcpy(moved[turn], a.value[index_of(&a, "c1")], 144 * sizeof(float));
        unshare(&b, "c1");
        net_release(&a);
        net_release(&b);
    }
    assert_memory_equal(moved[0], moved[1], 144 * sizeof(float));
    assert_memory_equal(moved[0], moved[2], 144 * sizeof(float));
    for (int turn = 0; turn < 3; turn++) {
        free(moved[turn]);
    }
}

/* The mean of weights is that of the steps, and goes on where it was after it has been looked at. */
static void test_weights_are_averaged(void **state) {
    (void)state;
    struct net a;
    net_init(&a, 1, 5);
    struct culm_device *device;
    struct culm_joint *joint;
    double loss, mean[144] = {0};
    struct culm_joint_config config = plain;
    config.average = 0.75;
    const struct culm_joint_part part = part_of(&a);
    float *value = a.value[index_of(&a, "c1")], last[144];
    assert_int_equal(culm_device_new(1, &device, NULL), CULM_OK);
    assert_int_equal(culm_joint_new(&config, &part, 1, device, &joint, NULL), CULM_OK);
    memcpy(last, value, sizeof last);
    culm_joint_exchange(joint); /* nothing yet */
    assert_memory_equal(last, value, sizeof last);
    for (int step = 1; step <= 40; step++) {
        assert_int_equal(culm_joint_run(joint, 1, &loss, NULL), CULM_OK);
        double keep = step == 1 ? 0 : fmin(config.average, step / (step + 9.0));
        for (int i = 0; i < 144; i++) {
            mean[i] += (1 - keep) * (value[i] - mean[i]);
        }
        memcpy(last, value, sizeof last);
        culm_joint_exchange(joint);
        double off = 0, apart = 0;
        for (int i = 0; i < 144; i++) {
            off = fmax(off, fabs(value[i] - mean[i]));
            apart = fmax(apart, fabs((double)value[i] - last[i]));
        }
        assert_true(off < 1e-5);
        assert_true(step == 1 ? apart == 0 : apart > 1e-5);
        culm_joint_exchange(joint);
        assert_memory_equal(last, value, sizeof last);
    }
    culm_joint_free(joint);
    culm_device_free(device);
    net_release(&a);
}

/* How far the first step takes each number of a tensor. */
static void first_step(const struct culm_joint_config *config, const char *name, int64_t count,
                       float *ret_moved, double *ret_size) {
    struct net a;
    net_init(&a, 1, 5);
    const struct culm_joint_part part = part_of(&a);
    const float *was = a.original[index_of(&a, name)], *now = a.value[index_of(&a, name)];
    (void)run(config, &part, 1, 1, 1);
    *ret_size = 0;
    for (int64_t i = 0; i < count; i++) {
        ret_moved[i] = now[i] - was[i];
        *ret_size += (double)was[i] * was[i] / (double)count;
    }
    *ret_size = sqrt(*ret_size);
    net_release(&a);
}

static void test_rates_by_size(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int64_t count;
    } tensor[] = {{"c1", 144}, {"n1.0", 4}};
    for (int t = 0; t < 2; t++) {
        struct culm_joint_config config = plain;
        float all[144], own[144];
        double size;
        config.optimizer.lr = 0.1;
        first_step(&config, tensor[t].name, tensor[t].count, all, &size);
        config.relative = true;
        first_step(&config, tensor[t].name, tensor[t].count, own, &size);
        assert_true(size > 0.1 && size < 2);
        for (int64_t i = 0; i < tensor[t].count; i++) {
            assert_true(fabs(own[i] - size * all[i]) < 1e-6 + 1e-3 * fabs(own[i]));
        }
    }
}

/* Another joint goes on as the first one would, but for what it is to forget. */
static void test_another_goes_on(void **state) {
    (void)state;
    float then[3][144], mean[3][144];
    for (int way = 0; way < 3; way++) { /* one joint; another from the 30th step on; that forgets */
        struct net a;
        net_init(&a, 1, 5);
        struct culm_device *device;
        struct culm_joint *joint, *other;
        double loss;
        struct culm_joint_config config = plain;
        config.optimizer = (struct culm_optimizer_config){
            .name = CULM_OPTIMIZER_ADAM, .lr = 1e-2, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8};
        config.average = 0.9;
        config.batch = SAMPLES; /* all: the order does not matter */
        const struct culm_joint_part part = part_of(&a);
        float *value = a.value[index_of(&a, "c1")];
        assert_int_equal(culm_device_new(1, &device, NULL), CULM_OK);
        assert_int_equal(culm_joint_new(&config, &part, 1, device, &joint, NULL), CULM_OK);
        assert_int_equal(culm_joint_run(joint, 30, &loss, NULL), CULM_OK);
        if (way > 0) {
            assert_int_equal(culm_joint_new(&config, &part, 1, device, &other, NULL), CULM_OK);
            culm_joint_go_on(other, joint);
            culm_joint_free(joint);
            joint = other;
        }
        if (way == 2) {
            culm_joint_forget(joint, value);
            culm_joint_forget(joint, then[0]); /* none of its tensors */
        }
        assert_int_equal(culm_joint_run(joint, 2, &loss, NULL), CULM_OK);
        memcpy(then[way], value, sizeof then[way]);
        culm_joint_exchange(joint);
        memcpy(mean[way], value, sizeof mean[way]);
        culm_joint_free(joint);
        culm_device_free(device);
        net_release(&a);
    }
    double off[3] = {0}, apart[3] = {0};
    for (int way = 1; way < 3; way++) {
        for (int i = 0; i < 144; i++) {
            off[way] = fmax(off[way], fabs((double)then[way][i] - then[0][i]));
            apart[way] = fmax(apart[way], fabs((double)mean[way][i] - mean[0][i]));
        }
    }
    assert_true(off[1] < 1e-4 && apart[1] < 1e-4);
    assert_true(off[2] > 1e-3 && apart[2] > 1e-3);
}

/* Of three models that share a layer one leaves it: the others go on as they would if it had been at home with one
 * of them all the time, also where its numbers were those of the one that leaves. */
static void test_the_home_leaves(void **state) {
    (void)state;
    float then[3][144], mean[3][144], left[3][144];
    for (int way = 0; way < 3;
         way++) { /* at home with the second; with the first; and all forgotten */
        struct net net[3];
        struct culm_joint_part part[3];
        struct culm_device *device;
        struct culm_joint *joint, *other;
        float *own[3];
        double loss;
        struct culm_joint_config config = plain;
        config.optimizer = (struct culm_optimizer_config){
            .name = CULM_OPTIMIZER_ADAM, .lr = 1e-2, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8};
        config.aim = CULM_JOINT_OUTPUTS;
        config.average = 0.9;
        config.relative = true;
        const int home = way > 0 ? 0 : 1;
        for (int k = 0; k < 3; k++) {
            net_init(&net[k], (uint64_t)k + 1, 5);
            part[k] = part_of(&net[k]);
            part[k].each = 4;
            own[k] = net[k].value[index_of(&net[k], "c1")];
        }
        const int32_t c1 = index_of(&net[0], "c1");
        memcpy(own[home], net[0].original[c1], sizeof then[0]);
        for (int k = 0; k < 3; k++) {
            net[k].value[c1] = own[home];
        }
        assert_int_equal(culm_device_new(1, &device, NULL), CULM_OK);
        assert_int_equal(culm_joint_new(&config, part, 3, device, &joint, NULL), CULM_OK);
        assert_int_equal(culm_joint_run(joint, 30, &loss, NULL), CULM_OK);
        if (home == 0) {
            memcpy(own[1], own[0], sizeof then[0]);
        }
        memcpy(own[0], net[0].original[c1], sizeof then[0]);
        net[0].value[c1] = own[0];
        net[1].value[c1] = net[2].value[c1] = own[1];
        assert_int_equal(culm_joint_new(&config, part, 3, device, &other, NULL), CULM_OK);
        culm_joint_go_on(other, joint);
        culm_joint_forget(other, own[0]);
        if (way == 2) {
            culm_joint_forget(other, own[1]);
        }
        culm_joint_free(joint);
        assert_int_equal(culm_joint_run(other, 3, &loss, NULL), CULM_OK);
        memcpy(then[way], own[1], sizeof then[way]);
        memcpy(left[way], own[0], sizeof left[way]);
        culm_joint_exchange(other);
        memcpy(mean[way], own[1], sizeof mean[way]);
        culm_joint_free(other);
        culm_device_free(device);
        for (int k = 0; k < 3; k++) {
            net[k].value[c1] = own[k];
            net_release(&net[k]);
        }
    }
    assert_memory_equal(then[0], then[1], sizeof then[0]);
    assert_memory_equal(mean[0], mean[1], sizeof mean[0]);
    assert_memory_equal(left[0], left[1], sizeof left[0]);
    assert_memory_not_equal(then[0], then[2], sizeof then[0]);
    assert_memory_not_equal(mean[0], mean[2], sizeof mean[0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers_are_learned),
        cmocka_unit_test(test_bits),
        cmocka_unit_test(test_another_order_shows),
        cmocka_unit_test(test_gradients_are_summed),
        cmocka_unit_test(test_originals_are_approached),
        cmocka_unit_test(test_what_stays),
        cmocka_unit_test(test_trouble),
        cmocka_unit_test(test_answers_are_kept),
        cmocka_unit_test(test_frozen_and_the_others),
        cmocka_unit_test(test_weights_are_averaged),
        cmocka_unit_test(test_rates_by_size),
        cmocka_unit_test(test_another_goes_on),
        cmocka_unit_test(test_the_home_leaves),
    };
    return cmocka_run_group_tests_name("merge/joint", tests, NULL, NULL);
}

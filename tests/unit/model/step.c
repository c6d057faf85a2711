/*
 * Steps tensor by tensor: the same bits wherever a tensor lies, in any order and however a model is
 * divided among owners; what is kept of it; and digests that tell what was read and made.
 */
#include "model/step.h"

#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TENSORS 5
#define STEPS 4
#define ROOM 4096 /* floats of an owner, and of one of its vectors */

static const int64_t counts[TENSORS] = {1, 7, 64, 129, 1000};

static const struct culm_optimizer_config adamw = {
    .name = CULM_OPTIMIZER_ADAMW, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1};
static const struct culm_optimizer_config sgd = {.name = CULM_OPTIMIZER_SGD, .momentum = 0.9};
static const struct culm_optimizer_config plain_sgd = {.name = CULM_OPTIMIZER_SGD};

/* A model's tensors, with their vectors wherever `place` puts them. */
struct model {
    float *memory;
    struct culm_optimizer_tensor tensor[TENSORS];
};

static float value(int tensor, int64_t i, int what) {
    uint64_t random = culm_rng_mix((uint64_t)(tensor * 10 + what), (uint64_t)i);
    return (float)((double)(random >> 40) / (1 << 24) - 0.5);
}

/* `apart`: every vector in a place of its own, from behind; else as a stage has them, vector behind
 * vector, tensors one after the other. */
static void model_init(struct model *m, const struct culm_optimizer_config *config, bool apart) {
    int64_t at = 0, back = (int64_t)ROOM * CULM_OPTIMIZER_PARTS;
    m->memory = aligned_alloc(64, sizeof(float) * ROOM * CULM_OPTIMIZER_PARTS);
    assert_non_null(m->memory);
    memset(m->memory, 0, sizeof(float) * ROOM * CULM_OPTIMIZER_PARTS);
    for (int t = 0; t < TENSORS; t++) {
        struct culm_optimizer_tensor *tensor = &m->tensor[t];
        *tensor = (struct culm_optimizer_tensor){
            .count = counts[t], .decay = t % 2 == 0, .statistic = t == 3, .momentum = 0.1};
        for (int32_t part = 0; part < culm_optimizer_parts(config); part++) {
            back -= counts[t] + 3;
            tensor->part[part] = m->memory + (apart ? back : part * ROOM + at);
        }
        at += counts[t];
        for (int64_t i = 0; i < counts[t]; i++) {
            tensor->part[0][i] = value(t, i, 0);
        }
    }
}

static void step_all(struct model *m, const struct culm_optimizer_config *config,
                     struct culm_device *device, int64_t step, bool backwards) {
    const struct culm_optimizer_step at = culm_optimizer_step_at(config, step, 0.01, 0.5, 8);
    float grad[1000];
    for (int k = 0; k < TENSORS; k++) {
        int t = backwards ? TENSORS - 1 - k : k;
        struct culm_step_digest digest;
        for (int64_t i = 0; i < counts[t]; i++) {
            grad[i] = value(t, i, (int)step);
        }
        culm_optimizer_apply(&at, device, &m->tensor[t], grad, &digest);
        assert_int_equal(digest.grad, culm_device_digest(device, grad, counts[t]));
        assert_int_equal(digest.after[0],
                         culm_device_digest(device, m->tensor[t].part[0], counts[t]));
    }
}

static void same(const struct model *a, const struct model *b,
                 const struct culm_optimizer_config *config) {
    for (int t = 0; t < TENSORS; t++) {
        for (int32_t part = 0; part < culm_optimizer_parts(config); part++) {
            assert_memory_equal(a->tensor[t].part[part], b->tensor[t].part[part],
                                (size_t)counts[t] * sizeof(float));
        }
    }
}

static void a_tensor_is_stepped_alike_wherever_it_is(void **state) {
    (void)state;
    const struct culm_optimizer_config *const configs[] = {&adamw, &sgd, &plain_sgd};
    struct culm_device *device;
    assert_int_equal(culm_device_new(1, &device, NULL), CULM_OK);
    for (size_t c = 0; c < sizeof configs / sizeof *configs; c++) {
        struct model stage, owners;
        model_init(&stage, configs[c], false);
        model_init(&owners, configs[c], true);
        for (int64_t step = 1; step <= STEPS; step++) {
            step_all(&stage, configs[c], device, step, false);
            step_all(&owners, configs[c], device, step, true);
            same(&stage, &owners, configs[c]);
        }
        free(stage.memory);
        free(owners.memory);
    }
    culm_device_free(device);
}

static void what_one_step_makes_the_next_one_reads(void **state) {
    (void)state;
    struct culm_device *device;
    struct model m;
    float grad[64];
    struct culm_step_digest first, second;
    const struct culm_optimizer_step one = culm_optimizer_step_at(&adamw, 1, 0.01, 1, 8),
                                     two = culm_optimizer_step_at(&adamw, 2, 0.01, 1, 8);
    assert_int_equal(culm_device_new(1, &device, NULL), CULM_OK);
    model_init(&m, &adamw, false);
    for (int64_t i = 0; i < 64; i++) {
        grad[i] = value(2, i, 1);
    }
    culm_optimizer_apply(&one, device, &m.tensor[2], grad, &first);
    culm_optimizer_apply(&two, device, &m.tensor[2], grad, &second);
    assert_memory_equal(first.after, second.before, sizeof first.after);
    m.tensor[2].part[1][5] += 1; /* a change in between shows */
    culm_optimizer_apply(&two, device, &m.tensor[2], grad, &first);
    assert_int_not_equal(first.before[1], second.after[1]);
    free(m.memory);
    culm_device_free(device);
}

static void what_is_kept_of_a_tensor(void **state) {
    (void)state;
    const struct culm_optimizer_step a = culm_optimizer_step_at(&adamw, 1, 0.01, 1, 8),
                                     s = culm_optimizer_step_at(&sgd, 1, 0.01, 1, 8),
                                     p = culm_optimizer_step_at(&plain_sgd, 1, 0.01, 1, 8);
    const struct culm_optimizer_tensor weight = {.count = 1},
                                       statistic = {.count = 1, .statistic = true};
    assert_int_equal(culm_optimizer_parts(&adamw), 3);
    assert_int_equal(culm_optimizer_parts(&sgd), 2);
    assert_true(culm_optimizer_keeps(&a, &weight) && culm_optimizer_keeps(&s, &weight));
    assert_false(culm_optimizer_keeps(&p, &weight));
    assert_false(culm_optimizer_keeps(&a, &statistic) || culm_optimizer_keeps(&s, &statistic));
    assert_string_equal(culm_optimizer_suffix(0), "");
    assert_string_equal(culm_optimizer_suffix(1), ".exp_avg");
    assert_string_equal(culm_optimizer_suffix(2), ".exp_avg_sq");
}

static void a_statistic_moves_towards_the_mean(void **state) {
    (void)state;
    struct culm_device *device;
    float values[2] = {1, -2}, collected[2] = {8, 16};
    struct culm_step_digest digest;
    const struct culm_optimizer_tensor tensor = {
        .part = {values}, .count = 2, .statistic = true, .momentum = 0.25};
    const struct culm_optimizer_step at = culm_optimizer_step_at(&adamw, 1, 0.01, 1, 4);
    assert_int_equal(culm_device_new(1, &device, NULL), CULM_OK);
    culm_optimizer_apply(&at, device, &tensor, collected, &digest);
    assert_true(values[0] == 1.25f && values[1] == -0.5f);
    assert_int_equal(digest.after[0], culm_device_digest(device, values, 2));
    assert_int_equal(digest.after[1], 0);
    culm_device_free(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tensor_is_stepped_alike_wherever_it_is),
        cmocka_unit_test(what_one_step_makes_the_next_one_reads),
        cmocka_unit_test(what_is_kept_of_a_tensor),
        cmocka_unit_test(a_statistic_moves_towards_the_mean),
    };
    return cmocka_run_group_tests_name("model/step", tests, NULL, NULL);
}

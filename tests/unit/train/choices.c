/*
 * Choices: as JSON and back, in a graph, measured; and what is refused.
 */
#include "train/choices.h"

#include "graph/ops/conv.h"
#include "train/plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char text[] =
    "model: {arch: resnet, blocks: [1, 1, 1], width: 16, small_stem: true, image: 12, channels: 1, "
    "classes: 5}\n"
    "data: {kind: images, path: none}\n"
    "batch: {global: 4, micro: 2, lanes: 1}\n"
    "pipelines: 1\nstages: 2\nsteps: 1\n";

static void config_of(struct culm_train_config *config, const char *set) {
    struct culm_error error = {0};
    if (culm_train_config_parse(text, strlen(text), "c.yaml", &set, set ? 1 : 0, config, &error)) {
        fail_msg("%s", error.text);
    }
}

static enum culm_status make_plan(struct culm_train_config *config,
                                  const struct culm_choices *choices, struct culm_plan **ret_plan,
                                  struct culm_error *error) {
    struct culm_network *network = NULL;
    assert_int_equal(culm_network_open(config, &network, error), CULM_OK);
    enum culm_status status = culm_plan_new(network, choices, ret_plan, error);
    culm_network_close(network);
    return status;
}

static enum culm_status measure(struct culm_train_config *config, struct culm_choices *ret_choices,
                                struct culm_error *error) {
    struct culm_network *network = NULL;
    assert_int_equal(culm_network_open(config, &network, error), CULM_OK);
    enum culm_status status = culm_choices_measure(network, ret_choices, error);
    culm_network_close(network);
    return status;
}

static struct culm_plan *plan_of(struct culm_train_config *config,
                                 const struct culm_choices *choices) {
    struct culm_plan *plan = NULL;
    struct culm_error error = {0};
    if (make_plan(config, choices, &plan, &error)) {
        fail_msg("%s", error.text);
    }
    return plan;
}

static void test_round_trip(void **state) {
    (void)state;
    struct culm_algorithms two[] = {{3, {1, 2, 1}}, {9, {2, 2, 0}}};
    const struct culm_choices choices = {
        .stages = 3, .first_block = {0, 2, 5}, .convolution = two, .convolutions = 2};
    json_t *plan = json_pack("{s:o}", "choices", culm_choices_json(&choices));
    struct culm_choices again;
    assert_int_equal(culm_choices_read(plan, &again, NULL), CULM_OK);
    assert_int_equal(again.stages, 3);
    assert_memory_equal(again.first_block, choices.first_block, 3 * sizeof(int32_t));
    assert_int_equal(again.convolutions, 2);
    assert_memory_equal(again.convolution, two, sizeof two);
    culm_choices_release(&again);
    json_decref(plan);
}

static void test_refused(void **state) {
    (void)state;
    static const char *const bad[] = {
        "{\"choices\": {\"cuts\": [1, 2], \"algorithms\": []}}",      /* does not begin at 0 */
        "{\"choices\": {\"cuts\": [0, 3, 3], \"algorithms\": []}}",   /* an empty stage */
        "{\"choices\": {\"cuts\": [0, -1], \"algorithms\": []}}",     /* backwards */
        "{\"choices\": {\"cuts\": [], \"algorithms\": [[1, 2, 3]]}}", /* a pass is missing */
        "{\"choices\": {\"cuts\": [], \"algorithms\": [[1, 9, 0, 0]]}}",
        "{\"choices\": {\"cuts\": [], \"algorithms\": [[\"a\", 0, 0, 0]]}}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        json_t *plan = json_loads(bad[i], 0, NULL);
        struct culm_choices choices = {.stages = 77};
        struct culm_error error = {0};
        assert_non_null(plan);
        assert_int_equal(culm_choices_read(plan, &choices, &error), CULM_ERR_FORMAT);
        assert_int_equal(choices.stages, 77);
        assert_null(strchr(error.text, '\n'));
        json_decref(plan);
    }
    json_t *old = json_loads("{\"format\": 1}", 0, NULL); /* of a version without choices */
    struct culm_choices none;
    assert_int_equal(culm_choices_read(old, &none, NULL), CULM_OK);
    assert_int_equal(none.stages, 0);
    culm_choices_release(&none);
    json_decref(old);
}

/* The first convolution of three by three that Winograd can do. */
static int32_t winograd_node(const struct culm_graph *graph) {
    for (int32_t i = 0; i < graph->node_count; i++) {
        if (graph->node[i].op == &culm_op_conv) {
            struct culm_conv conv = culm_conv_of(graph, &graph->node[i]);
            if (culm_conv_algorithm_possible(&conv, CULM_CONV_FORWARD, CULM_CONV_WINOGRAD)) {
                return i;
            }
        }
    }
    fail_msg("no convolution for Winograd");
    return -1;
}

static void test_apply(void **state) {
    (void)state;
    struct culm_train_config config;
    config_of(&config, NULL);
    struct culm_plan *plain = plan_of(&config, NULL);
    struct culm_algorithms one = {winograd_node(plain->graph), {2, 1, 2}};
    struct culm_choices choices = {
        .stages = 2, .first_block = {0, 1}, .convolution = &one, .convolutions = 1};
    struct culm_plan *plan = plan_of(&config, &choices);
    assert_memory_equal(plan->graph->node[one.operator_id].attributes.algorithm, one.algorithm,
                        sizeof one.algorithm);
    assert_int_equal(culm_stage_info_of(plan->stage[1])->first_block, 1);
    culm_plan_free(plan);
    /* Cuts for another number of stages do not count; algorithms do. */
    choices.stages = 3;
    choices.first_block[2] = 2;
    plan = plan_of(&config, &choices);
    assert_int_equal(plan->choices.stages, 2);
    assert_int_equal(plan->choices.convolutions, 1);
    culm_plan_free(plan);
    struct culm_error error = {0};
    one.operator_id = 0x7fffffff;
    assert_int_equal(make_plan(&config, &choices, &plan, &error), CULM_ERR_CONFIG);
    assert_non_null(strstr(error.text, "use the plan of a run of the same model"));
    culm_plan_free(plain);
    culm_train_config_release(&config);
}

static void test_measured(void **state) {
    (void)state;
    struct culm_train_config config;
    struct culm_choices choices;
    struct culm_error error = {0};
    config_of(&config, NULL);
    assert_int_equal(measure(&config, &choices, &error), CULM_OK);
    assert_int_equal(choices.stages, 0); /* nothing was asked for */
    assert_int_equal(choices.convolutions, 0);
    culm_choices_release(&choices);
    culm_train_config_release(&config);
    config_of(&config, "kernels=trial");
    config.cuts = CULM_CUTS_MEASURED;
    assert_int_equal(measure(&config, &choices, &error), CULM_OK);
    assert_int_equal(choices.stages, 2);
    assert_int_equal(choices.first_block[0], 0);
    assert_true(choices.first_block[1] > 0);
    struct culm_plan *plan = plan_of(&config, &choices);
    int32_t convolutions = 0;
    for (int32_t i = 0; i < plan->graph->node_count; i++) {
        convolutions += plan->graph->node[i].op == &culm_op_conv;
    }
    assert_int_equal(choices.convolutions, convolutions);
    culm_plan_free(plan);
    culm_choices_release(&choices);
    culm_train_config_release(&config);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_apply),
        cmocka_unit_test(test_measured),
    };
    return cmocka_run_group_tests_name("train/choices", tests, NULL, NULL);
}

/* A stage that takes the rows of a large interval piece by piece has the bits of one that takes them all. */
#include "gnn/network.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { N = 5003, COLUMNS = 37, CLASSES = 3, WIDTH = 19 };

struct fixture {
    struct culm_gnn_config config;
    struct culm_gnn_plan plan;
    struct culm_gnn_model *model;
    struct culm_device *device;
    uint32_t id[N];
    float *features, *own, *d_output, *params;
    /* of one way: [0] piece by piece, [1] all at once */
    float *output[2], *grads[2];
};

/* CULM_TEST_SEED=N: other numbers. */
static uint64_t seed(void) {
    const char *given = getenv("CULM_TEST_SEED");
    return given ? strtoull(given, NULL, 10) : 7;
}

static float *numbers(uint64_t *random, int64_t count) {
    float *x = aligned_alloc(64, ((size_t)count * sizeof *x + 127) / 64 * 64);
    for (int64_t i = 0; i < count; i++) {
        x[i] = (float)culm_rng_below(random, 2000) / 999 - 1;
    }
    return x;
}

static void make(struct fixture *f, const char *model, bool aggregated) {
    static char text[256];
    struct culm_error error = {0};
    uint64_t random = seed();
    print_message("seed %llu (CULM_TEST_SEED)\n", (unsigned long long)random);
    snprintf(text, sizeof text, "graph: {path: none}\nepochs: 1\nseed: 3\nmodel: {width: %d, %s}\n",
             WIDTH, model);
    memset(f, 0, sizeof *f);
    f->plan = (struct culm_gnn_plan){.vertices = N,
                                     .edges = N,
                                     .columns = COLUMNS,
                                     .classes = CLASSES,
                                     .train = N,
                                     .rows_max = N,
                                     .layers = 2,
                                     .aggregated = aggregated,
                                     .multiply_first = {!aggregated, true}};
    if (culm_gnn_config_parse(text, strlen(text), "test", NULL, 0, &f->config, &error) ||
        culm_gnn_model_new(&f->config, &f->plan, &f->model, &error) ||
        culm_device_new(2, &f->device, &error)) {
        fail_msg("%s", error.text);
    }
    for (uint32_t i = 0; i < N; i++) {
        f->id[i] = i * 7919 % 100003;
    }
    int64_t width = f->model->border[0].width;
    f->features = numbers(&random, (int64_t)N * COLUMNS);
    f->own = numbers(&random, (int64_t)N * COLUMNS);
    f->d_output = numbers(&random, N * width);
    f->params = numbers(&random, f->model->weights_at[1]);
    for (int way = 0; way < 2; way++) {
        f->output[way] = numbers(&random, N * width);
        f->grads[way] = numbers(&random, f->model->weights_at[1]);
    }
}

static void drop(struct fixture *f) {
    for (int way = 0; way < 2; way++) {
        free(f->output[way]);
        free(f->grads[way]);
    }
    free(f->features);
    free(f->own);
    free(f->d_output);
    free(f->params);
    culm_device_free(f->device);
    culm_gnn_model_free(f->model);
    culm_gnn_config_release(&f->config);
}

/* The first stage, forward and in training backward, `each` rows at once. */
static void run(struct fixture *f, const struct culm_stage *stage, const struct culm_graph *graph,
                int purpose, int64_t each, int way) {
    const struct culm_stage_info *info = culm_stage_info_of(stage);
    int64_t width = f->model->border[0].width;
    char *activations = aligned_alloc(64, (info->activation_bytes + 64) / 64 * 64);
    char *scratch = aligned_alloc(64, (info->scratch_bytes + 64) / 64 * 64);
    for (int64_t first = 0; first < N; first += each) {
        struct culm_stage_rows *rows = NULL;
        if (N - first < each) {
            assert_int_equal(culm_stage_rows_new(stage, graph, N - first, &rows, NULL), CULM_OK);
        }
        const void *field[CULM_GNN_FIELDS] = {f->features + first * COLUMNS,
                                              f->own + first * COLUMNS};
        struct culm_stage_run run = {.seed = 3,
                                     .iteration = 2,
                                     .sample_id = f->id + first,
                                     .params = f->params,
                                     .rows = rows,
                                     .fields = field,
                                     .output = f->output[way] + first * width,
                                     .activations = activations,
                                     .scratch = scratch,
                                     .grads = f->grads[way],
                                     .first = first == 0,
                                     .d_output = f->d_output + first * width};
        assert_int_equal(culm_stage_forward(stage, f->device, &run), CULM_OK);
        if (purpose == CULM_GNN_FOR_TRAINING) {
            assert_int_equal(culm_stage_backward(stage, f->device, &run), CULM_OK);
        }
        culm_stage_rows_free(rows);
    }
    free(activations);
    free(scratch);
}

static void check(const char *model, bool aggregated, int purpose) {
    struct fixture f;
    make(&f, model, aggregated);
    const struct culm_gnn_model *m = f.model;
    struct culm_graph *graph = culm_graph_new(culm_device_default());
    struct culm_stage *stage[CULM_GNN_STAGES_MAX] = {NULL};
    struct culm_gnn_border border[CULM_GNN_STAGES_MAX];
    const struct culm_stage_options options = {.forward_only = purpose == CULM_GNN_FOR_EVALUATION,
                                               .first_block = (const int32_t[]){0, 1, 2}};
    assert_int_equal(culm_gnn_network_build(&f.config, &f.plan, purpose == CULM_GNN_FOR_TRAINING,
                                            graph, border, NULL),
                     CULM_OK);
    assert_int_equal(culm_stages_compile(graph, m->stages, &options, stage, NULL), CULM_OK);
    assert_true(m->stage_rows[purpose][0] < N / 2);
    assert_int_equal(m->stage_rows[purpose][m->stages - 1], N); /* it has the loss */
    run(&f, m->stage[purpose][0], culm_gnn_model_graph(m, purpose, 0), purpose,
        m->stage_rows[purpose][0], 0);
    run(&f, stage[0], graph, purpose, N, 1);
    assert_memory_equal(f.output[0], f.output[1],
                        (size_t)(N * border[0].width) * sizeof *f.output[0]);
    /* by parameter: what lies between them is nobody's */
    const struct culm_stage_info *info = culm_stage_info_of(stage[0]);
    for (int32_t p = 0; p < info->param_count && purpose == CULM_GNN_FOR_TRAINING; p++) {
        assert_memory_equal(f.grads[0] + info->params[p].offset,
                            f.grads[1] + info->params[p].offset,
                            (size_t)info->params[p].count * sizeof *f.grads[0]);
    }
    for (int32_t s = 0; s < m->stages; s++) {
        culm_stage_free(stage[s]);
    }
    culm_graph_free(graph);
    drop(&f);
}

static void test_gathered_before(void **state) {
    (void)state;
    check("arch: gcn", true, CULM_GNN_FOR_TRAINING);
    check("arch: gcn", true, CULM_GNN_FOR_EVALUATION);
    check("arch: sage", true, CULM_GNN_FOR_TRAINING);
    check("arch: sage", true, CULM_GNN_FOR_EVALUATION);
}

static void test_multiplied_before(void **state) {
    (void)state;
    check("arch: sage", false, CULM_GNN_FOR_TRAINING);
    check("arch: sage", false, CULM_GNN_FOR_EVALUATION);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gathered_before),
        cmocka_unit_test(test_multiplied_before),
    };
    return cmocka_run_group_tests_name("gnn/model", tests, NULL, NULL);
}

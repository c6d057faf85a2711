/*
 * Networks on small graphs against PyTorch: logits, loss, all gradients, ten losses and the weights
 * after them (tests/golden/make_gnn.py says what the vectors are); and the same bits for every number of
 * threads.
 *
 *     CULM_GOLDEN=tests/golden/gnn unit_gnn_golden CASE KEY=VALUE...
 */
#include "gnn/solo.h"

#include "store/safetensors.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { STEPS = 10 };

static struct culm_safetensors *golden;
static struct culm_gnn_config config;
static struct culm_gnn_setup *setup;

static struct culm_gnn_solo *solo_of(int threads) {
    struct culm_gnn_solo *solo = NULL;
    struct culm_error error = {0};
    if (culm_gnn_solo_new(setup, threads, NULL, &solo, &error)) {
        fail_msg("%s", error.text);
    }
    return solo;
}

static void train(struct culm_gnn_solo *solo, int64_t epoch, struct culm_gnn_solo_epoch *ret) {
    struct culm_error error = {0};
    if (culm_gnn_solo_train(solo, epoch, true, ret, &error)) {
        fail_msg("%s", error.text);
    }
}

static void hash(struct culm_gnn_solo *solo, char hex[65]) {
    assert_int_equal(culm_gnn_solo_hash(solo, hex, NULL), CULM_OK);
}

/* Caller frees. */
static float *vector(const char *prefix, const char *name, int64_t count) {
    char full[160];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    const struct culm_safetensors_entry *entry = culm_safetensors_find(golden, full);
    float *data = malloc((size_t)count * sizeof *data + 1);
    if (!entry || entry->elements != count || !data) {
        fail_msg("there are no %lld of '%s'", (long long)count, full);
    }
    assert_int_equal(culm_safetensors_load(entry, 0, data, entry->bytes, NULL), CULM_OK);
    return data;
}

static double norm_of(const float *a, const float *minus, int64_t count) {
    double squares = 0;
    for (int64_t i = 0; i < count; i++) {
        double x = (double)a[i] - (minus ? (double)minus[i] : 0);
        squares += x * x;
    }
    return sqrt(squares);
}

/* As files have it: [out,in]. Caller frees. */
static float *as_file(const struct culm_gnn_param *param, const float *data) {
    int64_t count = param->info->count, out = param->info->shape[0];
    float *turned = malloc((size_t)count * sizeof *turned);
    for (int64_t i = 0; i < count; i++) {
        int64_t in = count / out;
        turned[i] = param->turned ? data[i % in * out + i / in] : data[i];
    }
    return turned;
}

static void test_logits(void **state) {
    (void)state;
    struct culm_gnn_solo *solo = solo_of(1);
    int64_t correct[CULM_GNN_SPLITS], count = setup->graph->vertices * setup->graph->classes;
    float *have = malloc((size_t)count * sizeof *have), *want = vector("logits", "", count);
    assert_int_equal(culm_gnn_solo_evaluate(solo, correct, have, NULL), CULM_OK);
    for (int64_t i = 0; i < count; i++) {
        if (!(fabsf(have[i] - want[i]) < 1e-5f * (1 + fabsf(want[i])))) {
            fail_msg("logit %lld is %g, not %g", (long long)i, (double)have[i], (double)want[i]);
        }
    }
    int64_t right[CULM_GNN_SPLITS] = {0};
    for (int64_t v = 0; v < setup->graph->vertices; v++) {
        const float *row = want + v * setup->graph->classes;
        int64_t best = 0;
        for (int64_t c = 1; c < setup->graph->classes; c++) {
            best = row[c] > row[best] ? c : best;
        }
        if (setup->graph->split[v] != CULM_GRAPH_UNUSED) {
            right[setup->graph->split[v] - 1] += best == setup->graph->label[v];
        }
    }
    assert_memory_equal(right, correct, sizeof right);
    free(have);
    free(want);
    culm_gnn_solo_free(solo);
}

static void test_gradients(void **state) {
    (void)state;
    struct culm_gnn_solo *solo = solo_of(1);
    struct culm_gnn_solo_epoch epoch;
    train(solo, 1, &epoch);
    for (int32_t i = 0; i < setup->model->param_count; i++) {
        const struct culm_gnn_param *param = &setup->model->param[i];
        float *want = vector("grad.", param->info->name, param->info->count);
        float *have = as_file(param, culm_gnn_solo_gradient(solo, i));
        double size = norm_of(want, NULL, param->info->count),
               off = norm_of(have, want, param->info->count);
        /* some are zero but for rounding: all scores of a softmax shifted alike */
        if (!(off < 1e-5 * size + 1e-8)) {
            fail_msg("gradient of %s is off by %g of %g", param->info->name, off, size);
        }
        free(have);
        free(want);
    }
    culm_gnn_solo_free(solo);
}

static void test_ten_losses(void **state) {
    (void)state;
    struct culm_gnn_solo *solo = solo_of(1);
    float *want = vector("losses", "", STEPS);
    for (int64_t epoch = 1; epoch <= STEPS; epoch++) {
        struct culm_gnn_solo_epoch made;
        train(solo, epoch, &made);
        if (!(fabs(made.loss - (double)want[epoch - 1]) < 2e-6 * (1 + fabs(made.loss)))) {
            fail_msg("loss %lld is %.8f, not %.8f", (long long)epoch, made.loss,
                     (double)want[epoch - 1]);
        }
    }
    free(want);
    culm_gnn_solo_free(solo);
}

static void test_the_same_bits(void **state) {
    (void)state;
    char first[65] = "", other[65];
    for (int threads = 1; threads <= 3; threads++) {
        struct culm_gnn_solo *solo = solo_of(threads);
        struct culm_gnn_solo_epoch made;
        for (int64_t epoch = 1; epoch <= 3; epoch++) {
            train(solo, epoch, &made);
        }
        hash(solo, threads == 1 ? first : other);
        if (threads > 1) {
            assert_string_equal(first, other);
        }
        culm_gnn_solo_free(solo);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_logits),
        cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_ten_losses),
        cmocka_unit_test(test_the_same_bits),
    };
    const char *folder = getenv("CULM_GOLDEN"), *sets[16];
    char text[2048], path[512], name[64];
    struct culm_error error = {0};
    if (argc < 3 || !folder) {
        fprintf(stderr, "usage: CULM_GOLDEN=FOLDER unit_gnn_golden CASE GRAPH KEY=VALUE...\n");
        return 2;
    }
    snprintf(name, sizeof name, "gnn/golden-%s", argv[1]);
    snprintf(path, sizeof path, "%s/%s.safetensors", folder, argv[1]);
    snprintf(text, sizeof text,
             "graph: {path: %s/%s}\nepochs: 1\nintervals: 5\nmodel: {init: %s, init_unused: "
             "ignore, dropout: 0}\n"
             "optimizer: {weight_decay: 0.05}\n",
             folder, argv[2], path);
    for (int i = 3; i < argc; i++) {
        sets[i - 3] = argv[i];
    }
    if (culm_gnn_config_parse(text, strlen(text), name, sets, (size_t)(argc - 3), &config,
                              &error) ||
        culm_safetensors_open(path, &golden, &error) ||
        culm_gnn_setup_open(&config, NULL, &setup, &error)) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    int failed = cmocka_run_group_tests_name(name, tests, NULL, NULL);
    culm_gnn_setup_close(setup);
    culm_safetensors_close(golden);
    culm_gnn_config_release(&config);
    return failed;
}

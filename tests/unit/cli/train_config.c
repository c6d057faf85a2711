/* The keys of `culm train`: defaults as documented, each check between keys with its line, dump and
 * resume. */
#include "train/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define MINIMAL "steps: 5\ndata: {path: a.txt}\n"
#define IMAGES "steps: 5\ndata: {kind: images, path: a}\n"

static struct culm_train_config parse(const char *text, const char *set) {
    struct culm_train_config config;
    struct culm_error error = {0};
    if (culm_train_config_parse(text, strlen(text), "c.yaml", &set, set ? 1 : 0, &config, &error)) {
        fail_msg("%s", error.text);
    }
    return config;
}

static void refused(const char *extra, const char *message) {
    struct culm_train_config config;
    struct culm_error error = {0};
    char text[512];
    snprintf(text, sizeof text, MINIMAL "%s", extra);
    assert_int_equal(
        culm_train_config_parse(text, strlen(text), "c.yaml", NULL, 0, &config, &error),
        CULM_ERR_CONFIG);
    assert_string_equal(error.text, message);
}

static void refused_set(const char *set, const char *message) {
    struct culm_train_config config;
    struct culm_error error = {0};
    assert_int_equal(
        culm_train_config_parse(MINIMAL, strlen(MINIMAL), "c.yaml", &set, 1, &config, &error),
        CULM_ERR_CONFIG);
    assert_string_equal(error.text, message);
}

/* A name brings the values of the published model; what is given stays. */
static void names_of_models(void **state) {
    (void)state;
    struct culm_train_config c =
        parse(IMAGES "model: {name: resnet50, classes: 7}\nbatch: {micro: 1}\n", NULL);
    assert_int_equal(c.model.arch, CULM_ARCH_RESNET);
    assert_int_equal(c.model.options.layers, 50);
    assert_int_equal(c.model.options.classes, 7);
    char *dump = culm_train_config_dump(&c);
    struct culm_train_config again = parse(dump, NULL);
    assert_int_equal(again.model.options.layers, 50);
    assert_int_equal(again.model.options.classes, 7);
    free(dump);
    culm_train_config_release(&again);
    culm_train_config_release(&c);
    c = parse(IMAGES "model: {arch: resnet, blocks: [1, 2, 3]}\n", NULL);
    assert_int_equal(c.model.options.blocks[1], 2);
    assert_int_equal(c.model.options.blocks[3], 0);
    culm_train_config_release(&c);
    c = parse(MINIMAL "model: {file: x.onnx, vocab: 300}\n", NULL);
    assert_int_equal(c.model.arch, CULM_ARCH_ONNX);
    assert_int_equal(c.model.options.vocab, 300);
    assert_int_equal(c.model.options.context, 0); /* the file's */
    culm_train_config_release(&c);
    refused("model: {arch: gpt2, file: x.onnx}\n",
            "c.yaml:3: model.file: 'arch: onnx' and one 'file: FILE.onnx' go together; give both "
            "or none");
    refused("model: {arch: onnx}\n",
            "c.yaml:3: model.arch: 'arch: onnx' and one 'file: FILE.onnx' go together; give both "
            "or none");
    refused("model: {name: resnet51}\n",
            "c.yaml:3: model.name: 'resnet51' is not known; 'culm model list' names the models");
    refused(
        "model: {name: resnet50, arch: vgg}\n",
        "c.yaml:3: model.name: resnet50 is a model of 'arch: resnet', not vgg; leave model.arch "
        "out");
    refused("model: {blocks: [1, x]}\n",
            "c.yaml:3: model.blocks: 'x' is not a whole number; allowed: up to four numbers, 1 to "
            "1024");
    refused("model: {arch: bert}\n",
            "c.yaml:3: model.arch: 'arch: bert' does not learn from 'text'; allowed: masked");
    refused("eval: {every: 5}\n", "c.yaml:3: eval.every: every 5 is not a multiple of "
                                  "checkpoint.every 20, and what is evaluated is a checkpoint; "
                                  "allowed: a multiple of it");
}

static void defaults(void **state) {
    (void)state;
    struct culm_train_config c = parse(MINIMAL, NULL);
    assert_int_equal(c.model.arch, CULM_ARCH_GPT2);
    assert_int_equal(c.model.options.layers, 6);
    assert_int_equal(c.model.options.width, 256);
    assert_int_equal(c.model.options.heads, 8);
    assert_int_equal(c.model.options.context, 128);
    assert_int_equal(c.model.options.vocab, 256);
    assert_true(c.model.options.dropout == 0.1);
    assert_int_equal(c.data.kind, CULM_SOURCE_TEXT);
    assert_int_equal(c.data.path_count, 1);
    assert_string_equal(c.data.paths[0], "a.txt");
    assert_int_equal(c.batch.global, 32);
    assert_int_equal(c.batch.micro, 4);
    assert_int_equal(c.batch.lanes, 4);
    assert_int_equal(c.pipelines, 2);
    assert_int_equal(c.stages, 3);
    assert_int_equal(c.redundancy, CULM_REDUNDANCY_EAGER);
    assert_int_equal(c.precision, CULM_PRECISION_F32);
    assert_int_equal(c.threads, 1);
    assert_int_equal(c.seed, 1);
    assert_int_equal(c.steps, 5);
    assert_int_equal(c.optimizer.name, CULM_OPTIMIZER_ADAMW);
    assert_true(c.optimizer.lr == 1e-3 && c.optimizer.beta1 == 0.9 && c.optimizer.beta2 == 0.95 &&
                c.optimizer.eps == 1e-8 && c.optimizer.weight_decay == 0.1 &&
                c.optimizer.clip_norm == 1.0);
    assert_int_equal(c.schedule.name, CULM_SCHEDULE_COSINE);
    assert_int_equal(c.schedule.warmup, 10);
    assert_true(c.schedule.min_lr == 1e-4);
    assert_int_equal(c.checkpoint.every, 20);
    assert_int_equal(c.checkpoint.keep, 2);
    assert_int_equal(c.cluster.heartbeat_ms, 200);
    assert_int_equal(c.cluster.suspect_ms, 3000);
    assert_int_equal(c.cluster.kill_suspect_ms, 10000);
    assert_int_equal(c.cluster.replace_ms, 500);
    assert_int_equal(c.cluster.join_ms, 10000);
    assert_int_equal(c.cluster.wait_ms, 600000);
    assert_int_equal(c.cluster.stuck_ms, 30000);
    assert_int_equal(c.cluster.max_nodes, 8);
    culm_train_config_release(&c);
}

static void required_keys(void **state) {
    (void)state;
    struct culm_train_config c;
    struct culm_error error = {0};
    assert_int_equal(culm_train_config_parse("steps: 1\n", 9, "c.yaml", NULL, 0, &c, &error),
                     CULM_ERR_CONFIG);
    assert_string_equal(error.text,
                        "c.yaml:1: data.path: is missing; required: a path or a list of paths");
    const char *text = "steps: 1\ndata: {kind: text}\n";
    culm_train_config_parse(text, strlen(text), "c.yaml", NULL, 0, &c, &error);
    assert_string_equal(error.text,
                        "c.yaml:2: data.path: is missing; required: a path or a list of paths");
    text = "data: {path: x}\n";
    culm_train_config_parse(text, strlen(text), "c.yaml", NULL, 0, &c, &error);
    assert_string_equal(error.text, "c.yaml:1: steps: is missing; required: 0 to 1000000000");
}

static void checks_between_keys(void **state) {
    (void)state;
    refused("model: {heads: 7}\n", "c.yaml:3: model.heads: width 256 is not a multiple of heads 7; "
                                   "allowed: heads that divide the width");
    refused("model: {width: 1024, heads: 2}\n",
            "c.yaml:3: model.heads: width 1024 in 2 heads makes heads of 512; allowed: heads of up "
            "to 256");
    refused("model:\n  width: 100\n",
            "c.yaml:4: model.width: width 100 is not a multiple of heads 8; "
            "allowed: heads that divide the width");
    refused("model: {vocab: 255}\n", "c.yaml:3: model.vocab: vocab 255 is too small for text, "
                                     "which has 256 bytes; allowed: 256 or more");
    refused("batch: {micro: 5}\n", "c.yaml:3: batch.micro: global 32 is not a multiple of micro 5; "
                                   "allowed: micro that divides global");
    refused("batch: {global: 30}\n", "c.yaml:3: batch.global: global 30 is not a multiple of micro "
                                     "4; allowed: micro that divides global");
    refused("batch: {lanes: 3}\n",
            "c.yaml:3: batch.lanes: 8 micro-batches (global / micro) do not share out over 3 "
            "lanes; allowed: lanes that divide 8");
    refused("pipelines: 5\n", "c.yaml:3: pipelines: 5 pipelines for 4 lanes, and a pipeline runs "
                              "whole lanes; allowed: 1 to 4");
    refused("batch: {lanes: 1}\n", "c.yaml:3: batch.lanes: 2 pipelines for 1 lanes, and a pipeline "
                                   "runs whole lanes; allowed: 1 to 1");
    refused("stages: 7\npipelines: 1\n",
            "c.yaml:3: stages: 7 stages for 6 layers, and each needs one; allowed: 1 to 6");
    refused("stages: 5\ncluster: {max_nodes: 8}\n",
            "c.yaml:4: cluster.max_nodes: 2 pipelines * 5 stages need 10 workers, max_nodes is "
            "8; allowed: cluster.max_nodes from 10");
    refused("pipelines: 1366\nbatch: {global: 4096, micro: 1, lanes: 2048}\n",
            "c.yaml:3: pipelines: 1366 pipelines * 3 stages need 4098 workers; allowed: up to 4096 "
            "workers");
    refused("cluster: {max_nodes: 4097}\n",
            "c.yaml:3: cluster.max_nodes: 4097 is out of range; allowed: 0 to 4096");
    refused("cluster: {suspect_ms: 599}\n",
            "c.yaml:3: cluster.suspect_ms: suspect_ms 599 would suspect nodes whose heartbeat is "
            "a little late; allowed: from 3 times heartbeat_ms, which is 200");
    refused_set("batch.micro=5", "--set: batch.micro: global 32 is not a multiple of micro 5; "
                                 "allowed: micro that divides global");
}

static void impossible_values(void **state) {
    (void)state;
    refused("pipelines: 0\n", "c.yaml:3: pipelines: 0 is out of range; allowed: 1 to 4096");
    refused("batch: {lanes: 4097}\n",
            "c.yaml:3: batch.lanes: 4097 is out of range; allowed: 1 to 4096");
    refused("model: {dropout: 1}\n",
            "c.yaml:3: model.dropout: 1 is out of range; allowed: at least 0 and below 1");
    refused("optimizer: {eps: 0}\n",
            "c.yaml:3: optimizer.eps: 0 is out of range; allowed: above 0");
    refused("redundancy: reroute\n",
            "c.yaml:3: redundancy: 'reroute' is not known; allowed: none, lazy, eager");
    refused("precision: fp8\n", "c.yaml:3: precision: 'fp8' is not known; allowed: f32, bf16");
    refused_set("steps=-1", "--set: steps: -1 is out of range; allowed: 0 to 1000000000");
    refused("model: {layers: six}\n",
            "c.yaml:3: model.layers: 'six' is not a whole number; allowed: 0 to 1024");
    refused("model: {layer: 2}\n",
            "c.yaml:3: model.layer: unknown key; did you mean 'model.layers'");
}

static void what_must_work_works(void **state) {
    (void)state;
    const char *const sets[] = {"steps=0",
                                "schedule.warmup=1000",
                                "cluster.replace_ms=-1",
                                "schedule={name: constant}",
                                "data.path=[a.txt, b.txt]",
                                "batch={global: 48, lanes: 12}"};
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        struct culm_train_config c = parse(MINIMAL, sets[i]);
        culm_train_config_release(&c);
    }
    struct culm_train_config c = parse(MINIMAL, "stages=6"); /* of two pipelines */
    assert_int_equal(c.cluster.max_nodes, 12);
    culm_train_config_release(&c);
    c = parse(MINIMAL, "cluster.max_nodes=0"); /* as if it were not given */
    assert_int_equal(c.cluster.max_nodes, 8);
    culm_train_config_release(&c);
}

static void dump_reads_back(void **state) {
    (void)state;
    const char *set = "optimizer={lr: 0.30000000000000004, eps: 1e-300}";
    struct culm_train_config a = parse(MINIMAL, set);
    char *text = culm_train_config_dump(&a);
    assert_non_null(text);
    struct culm_train_config b = parse(text, NULL);
    char *again = culm_train_config_dump(&b);
    assert_string_equal(text, again);
    assert_true(b.optimizer.lr == 0.30000000000000004);
    assert_true(b.optimizer.eps == 1e-300);
    free(again);
    free(text);
    culm_train_config_release(&a);
    culm_train_config_release(&b);
}

static void resume_may_change_only_the_cluster(void **state) {
    (void)state;
    struct culm_train_config a = parse(MINIMAL, NULL);
    const char *const allowed[] = {"pipelines=1",        "stages=2",
                                   "redundancy=none",    "threads=2",
                                   "cluster.join_ms=50", "checkpoint={every: 3, keep: 9}"};
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++) {
        struct culm_train_config b = parse(MINIMAL, allowed[i]);
        assert_int_equal(culm_train_config_resumable(&a, &b, 0, NULL), CULM_OK);
        culm_train_config_release(&b);
    }
    const char *const forbidden[][2] = {
        {"optimizer.lr=0.002", "optimizer.lr: the run has 0.001, this configuration 0.002; "},
        {"steps=6", "steps: the run has 5, this configuration 6; "},
        {"data.path=[a.txt, b.txt]",
         "data.path: the run has a.txt, this configuration [a.txt, b.txt]; "},
        {"seed=2", "seed: the run has 1, this configuration 2; "},
        {"batch.lanes=8", "batch.lanes: the run has 4, this configuration 8; "},
        {"model.layers=7", "model.layers: the run has 6, this configuration 7; "},
        {"schedule.name=constant",
         "schedule.name: the run has cosine, this configuration constant; "},
    };
    for (size_t i = 0; i < sizeof forbidden / sizeof *forbidden; i++) {
        struct culm_train_config b = parse(MINIMAL, forbidden[i][0]);
        struct culm_error error = {0};
        char expected[512];
        if (strncmp(forbidden[i][0], "data.", 5) == 0) {
            snprintf(expected, sizeof expected,
                     "%sput it back, or take it up with --resume --accept-inputs", forbidden[i][1]);
            assert_int_equal(culm_train_config_resumable(&a, &b, CULM_CONFIG_INPUT, NULL), CULM_OK);
        } else {
            snprintf(expected, sizeof expected,
                     "%s--resume may change only data.check_s, pipelines, stages, redundancy, "
                     "cuts, recompute, "
                     "memory_mb, threads, checkpoint, eval and cluster settings",
                     forbidden[i][1]);
        }
        assert_int_equal(culm_train_config_resumable(&a, &b, 0, &error), CULM_ERR_CONFIG);
        assert_string_equal(error.text, expected);
        culm_train_config_release(&b);
    }
    culm_train_config_release(&a);
}

/* Whether the key or section is among `words`. */
static bool named(const char *words, const char *key) {
    size_t len = strlen(key);
    for (const char *at = words; (at = strstr(at, key)); at++) {
        if ((at == words || at[-1] == ' ') && strchr(" ,", at[len])) { /* or the end */
            return true;
        }
    }
    return false;
}

/* What messages and help call resumable are the keys and sections that the table marks so. */
static void resumable_keys_are_named(void **state) {
    (void)state;
    char *text = culm_train_config_reference(true), *words = culm_train_config_resumable_keys();
    assert_non_null(text);
    assert_non_null(words);
    int named_keys = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        char key[64], section[64];
        if (sscanf(line, "| `%63[^`]", key) == 1 && sscanf(key, "%63[^.]", section) == 1) {
            bool free_key = strstr(line, "(may change on `--resume`)");
            if (free_key != (named(words, key) || named(words, section))) {
                fail_msg("'%s' and the table disagree about '%s'", words, key);
            }
            named_keys += free_key;
        }
    }
    assert_true(named_keys > 9);
    free(words);
    free(text);
}

static void files(void **state) {
    (void)state;
    char path[] = "/tmp/culm-config-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, MINIMAL, strlen(MINIMAL)), strlen(MINIMAL));
    close(fd);
    struct culm_train_config c;
    struct culm_error error = {0};
    assert_int_equal(culm_train_config_load(path, NULL, 0, &c, &error), CULM_OK);
    culm_train_config_release(&c);
    unlink(path);
    enum culm_status status = culm_train_config_load(path, NULL, 0, &c, &error);
    assert_int_equal(culm_status_exit_code(status), 3);
    assert_non_null(strstr(error.text, path));
    status = culm_train_config_load("/tmp", NULL, 0, &c, &error);
    assert_int_equal(culm_status_exit_code(status), 3);
}

static void the_main_job_is_valid(void **state) {
    (void)state;
    struct culm_train_config c;
    struct culm_error error = {0};
    if (culm_train_config_load(CULM_EXAMPLES "/main.yaml", NULL, 0, &c, &error)) {
        fail_msg("%s", error.text);
    }
    assert_int_equal(c.pipelines * c.stages, 6);
    culm_train_config_release(&c);
}

static void redundancy_names(void **state) {
    (void)state;
    assert_string_equal(culm_redundancy_name(CULM_REDUNDANCY_NONE), "none");
    assert_string_equal(culm_redundancy_name(CULM_REDUNDANCY_LAZY), "lazy");
    assert_string_equal(culm_redundancy_name(CULM_REDUNDANCY_EAGER), "eager");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),
        cmocka_unit_test(names_of_models),
        cmocka_unit_test(required_keys),
        cmocka_unit_test(checks_between_keys),
        cmocka_unit_test(impossible_values),
        cmocka_unit_test(what_must_work_works),
        cmocka_unit_test(dump_reads_back),
        cmocka_unit_test(resume_may_change_only_the_cluster),
        cmocka_unit_test(resumable_keys_are_named),
        cmocka_unit_test(files),
        cmocka_unit_test(the_main_job_is_valid),
        cmocka_unit_test(redundancy_names),
    };
    return cmocka_run_group_tests_name("cli/train_config", tests, NULL, NULL);
}

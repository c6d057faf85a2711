/*
 * A model without a loss: its logits are PyTorch's (tests/golden/make_gpt2.py), for any cut, and
 * those of a position depend on nothing behind it, which is what generating text rests on.
 */
#include "golden_file.h"

#include "model/model.h"
#include "store/safetensors.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define VOCAB 64
#define CONTEXT 16
#define BATCH 2
#define TOKENS (BATCH * CONTEXT)
#define LOGITS (TOKENS * VOCAB)

static struct culm_safetensors *golden;
static char *golden_bytes;

static const struct culm_safetensors_entry *entry_of(const char *prefix, const char *name) {
    char full[160];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    const struct culm_safetensors_entry *entry = culm_safetensors_find(golden, full);
    if (!entry) {
        fail_msg("no vector '%s'", full);
    }
    return entry;
}

static void *memory(size_t bytes) {
    size_t rounded = (bytes + 127) & ~(size_t)63;
    void *data = aligned_alloc(64, rounded);
    assert_non_null(data);
    memset(data, 0xFF, rounded); /* NaN */
    return data;
}

static void first_tokens(int32_t *tokens) {
    const struct culm_safetensors_entry *all = entry_of("field.", "tokens");
    for (int i = 0; i < TOKENS; i++) {
        float token;
        memcpy(&token, (const char *)all->data + (size_t)i * sizeof token, sizeof token);
        tokens[i] = (int32_t)token;
    }
}

static void logits_of(const int32_t *tokens, int32_t stages, float ret_logits[LOGITS]) {
    const struct culm_model_options options = {.layers = 2,
                                               .width = 32,
                                               .heads = 2,
                                               .context = CONTEXT,
                                               .vocab = VOCAB,
                                               .batch = BATCH,
                                               .inference = true};
    struct culm_graph *graph;
    struct culm_stage *stage[2];
    struct culm_device *cpu;
    struct culm_error error;
    if (culm_model_build(CULM_ARCH_GPT2, &options, &graph, &error) ||
        culm_stages_compile(graph, stages, NULL, stage, &error) ||
        culm_device_new(1, &cpu, &error)) {
        fail_msg("%s", error.text);
    }
    void *input = NULL;
    for (int32_t s = 0; s < stages; s++) {
        const struct culm_stage_info *info = culm_stage_info_of(stage[s]);
        float *params = memory((size_t)info->param_floats * sizeof *params);
        for (int32_t i = 0; i < info->param_count; i++) {
            const struct culm_param_info *param = &info->params[i];
            memcpy(params + param->offset, entry_of("weight.", param->name)->data,
                   (size_t)param->count * sizeof *params);
        }
        struct culm_stage_run run = {.params = params,
                                     .fields = (const void *const[]){tokens},
                                     .input = input,
                                     .output = memory(info->output_bytes),
                                     .activations = memory(info->activation_bytes),
                                     .scratch = memory(info->scratch_bytes)};
        assert_int_equal(culm_stage_forward(stage[s], cpu, &run), CULM_OK);
        free(params);
        free(run.activations);
        free(run.scratch);
        free(input);
        input = run.output;
        culm_stage_free(stage[s]);
    }
    memcpy(ret_logits, input, LOGITS * sizeof *ret_logits);
    free(input);
    culm_device_free(cpu);
    culm_graph_free(graph);
}

static void test_logits(void **state) {
    (void)state;
    int32_t tokens[TOKENS];
    float *logits = malloc(2 * LOGITS * sizeof *logits);
    first_tokens(tokens);
    logits_of(tokens, 1, logits);
    const struct culm_safetensors_entry *want = entry_of("logits", "");
    assert_int_equal(want->elements, LOGITS);
    for (int i = 0; i < LOGITS; i++) {
        float value;
        memcpy(&value, (const char *)want->data + (size_t)i * sizeof value, sizeof value);
        if (!(fabsf(logits[i] - value) < 1e-5f)) {
            fail_msg("logit %d is %g, not %g", i, (double)logits[i], (double)value);
        }
    }
    logits_of(tokens, 2, logits + LOGITS);
    assert_memory_equal(logits, logits + LOGITS, LOGITS * sizeof *logits);
    free(logits);
}

static void test_nothing_behind_matters(void **state) {
    (void)state;
    int32_t tokens[TOKENS];
    float *before = malloc(2 * LOGITS * sizeof *before), *after = before + LOGITS;
    first_tokens(tokens);
    logits_of(tokens, 1, before);
    for (int t = 10; t < CONTEXT; t++) {
        tokens[t] = (tokens[t] + 1) % VOCAB;
    }
    logits_of(tokens, 1, after);
    size_t row = VOCAB * sizeof *before;
    assert_memory_equal(before, after, 10 * row);
    for (int t = 10; t < CONTEXT; t++) {
        assert_memory_not_equal(before + t * VOCAB, after + t * VOCAB, row);
    }
    /* Nor does another sample. */
    assert_memory_equal(before + CONTEXT * VOCAB, after + CONTEXT * VOCAB, CONTEXT * row);
    free(before);
}

static int open_golden(void **state) {
    (void)state;
    struct culm_error error;
    const char *path = getenv("CULM_GOLDEN");
    if (!path || golden_open(path, &golden, &golden_bytes, &error) != CULM_OK) {
        fprintf(stderr, "CULM_GOLDEN: %s\n", path ? error.text : "not set");
        return 1;
    }
    return 0;
}

static int close_golden(void **state) {
    (void)state;
    culm_safetensors_close(golden);
    free(golden_bytes);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_logits),
        cmocka_unit_test(test_nothing_behind_matters),
    };
    return cmocka_run_group_tests_name("model/inference", tests, open_golden, close_golden);
}

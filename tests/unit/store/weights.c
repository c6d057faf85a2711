/* Weights: every format of numbers, every place that they may lie in, and what has no place in a model. */
#include "store/weights.h"

#include "../folder.h"
#include "sample.h"

#include "base/pins.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* --- files of any dtype --- */

struct tensor {
    const char *name, *dtype, *shape; /* "2,3"; "": a scalar */
    const void *data;
    size_t bytes;
};

static const char *path_of(const char *name) {
    static char path[4][CULM_PATH_MAX];
    static int next;
    next = (next + 1) % 4;
    snprintf(path[next], CULM_PATH_MAX, "%s/%s", folder, name);
    return path[next];
}

static void write_file(const char *path, const struct tensor *tensors, size_t count) {
    char header[4096] = "{";
    size_t used = 1, at = 0;
    for (size_t i = 0; i < count; i++) {
        used += (size_t)snprintf(
            header + used, sizeof header - used,
            "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}", i ? "," : "",
            tensors[i].name, tensors[i].dtype, tensors[i].shape, at, at + tensors[i].bytes);
        at += tensors[i].bytes;
    }
    header[used++] = '}';
    FILE *file = fopen(path, "wb");
    uint64_t len = used;
    assert_non_null(file);
    fwrite(&len, 8, 1, file);
    fwrite(header, used, 1, file);
    for (size_t i = 0; i < count; i++) {
        fwrite(tensors[i].data, tensors[i].bytes, 1, file);
    }
    assert_int_equal(fclose(file), 0);
}

static void write_text(const char *path, const char *text) {
    assert_int_equal(culm_file_replace(NULL, path, text, strlen(text), NULL), CULM_OK);
}

static struct culm_weights *open_weights(const char *path) {
    struct culm_weights *weights = NULL;
    struct culm_error error = {0};
    if (culm_weights_open(path, NULL, &weights, &error)) {
        fail_msg("%s", error.text);
    }
    return weights;
}

/* Opening fails, and the line has these parts. */
static void refused(const char *path, enum culm_status status, const char *part,
                    const char *other) {
    struct culm_weights *weights = NULL;
    struct culm_error error = {0};
    assert_int_equal(culm_weights_open(path, NULL, &weights, &error), status);
    assert_null(weights);
    if (!strstr(error.text, part) || !strstr(error.text, other)) {
        fail_msg("'%s' or '%s' is not in: %s", part, other, error.text);
    }
}

/* --- numbers --- */

/* What a half is, by its definition. */
static double half(uint16_t bits) {
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double value = exponent == 31  ? (fraction ? NAN : INFINITY)
                   : exponent == 0 ? ldexp(fraction, -24)
                                   : ldexp(1024 + fraction, exponent - 25);
    return bits & 0x8000 ? -value : value;
}

static void test_halves(void **state) {
    (void)state;
    enum { COUNT = 65536 };
    static uint16_t bits[COUNT];
    static float got[2][COUNT];
    for (uint32_t i = 0; i < COUNT; i++) {
        bits[i] = (uint16_t)i;
    }
    const struct tensor tensors[] = {{"half", "F16", "65536", bits, sizeof bits},
                                     {"brain", "BF16", "65536", bits, sizeof bits}};
    write_file(path_of("halves.safetensors"), tensors, 2);
    struct culm_weights *weights = open_weights(path_of("halves.safetensors"));
    struct culm_error error = {0};
    assert_int_equal(
        culm_safetensors_floats(culm_weights_find(weights, "half"), 0, COUNT, got[0], &error),
        CULM_OK);
    assert_int_equal(
        culm_safetensors_floats(culm_weights_find(weights, "brain"), 0, COUNT, got[1], &error),
        CULM_OK);
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t wide, want = i << 16;
        memcpy(&wide, &got[1][i], 4);
        assert_int_equal(wide, want);
        if (!isnan(half(bits[i]))) {
            assert_true((double)got[0][i] == half(bits[i]));
            assert_true(!signbit(got[0][i]) == !signbit(half(bits[i])));
        } else {
            assert_true(isnan(got[0][i]));
        }
    }
    /* From the middle, over the border of a block. */
    assert_int_equal(
        culm_safetensors_floats(culm_weights_find(weights, "half"), 4090, 9, got[1], &error),
        CULM_OK);
    assert_memory_equal(got[1], got[0] + 4090, 9 * sizeof(float));
    culm_weights_close(weights);
}

/* Once, to the nearest, ties to even; what float32 cannot hold is no number. */
static void test_doubles(void **state) {
    (void)state;
    const double values[] = {1.0,         1 + 0x1p-24, 1 + 0x1p-24 + 0x1p-40, 1 + 3 * 0x1p-24,
                             -0x1.8p-149, 0.1,         0x1.fffffefp127,       -0.0};
    const float wanted[] = {1.0f,       1.0f, 1 + 0x1p-23f,    1 + 0x1p-22f,
                            -0x1p-148f, 0.1f, 0x1.fffffep127f, -0.0f};
    const double large = 1e39;
    const int64_t count = 8, one = 1;
    float got[8];
    const struct tensor tensors[] = {{"x", "F64", "8", values, sizeof values},
                                     {"large", "F64", "1", &large, sizeof large}};
    write_file(path_of("doubles.safetensors"), tensors, 2);
    struct culm_weights *weights = open_weights(path_of("doubles.safetensors"));
    struct culm_error error = {0};
    assert_int_equal(culm_weights_read(weights, "x", 1, &count, got, &error), CULM_OK);
    assert_memory_equal(got, wanted, sizeof wanted);
    assert_int_equal(culm_weights_read(weights, "large", 1, &one, got, &error), CULM_ERR_CONFIG);
    assert_non_null(strstr(error.text, "'large' is not finite: element 0 of 1 is infinity"));
    culm_weights_close(weights);
}

static void test_not_finite(void **state) {
    (void)state;
    static float many[3000];
    many[2049] = NAN;
    const int64_t shape[] = {3, 1000}, integers = 2;
    const int32_t whole[2] = {1, 2};
    const struct tensor tensors[] = {{"many", "F32", "3,1000", many, sizeof many},
                                     {"whole", "I32", "2", whole, sizeof whole}};
    write_file(path_of("nan.safetensors"), tensors, 2);
    struct culm_weights *weights = open_weights(path_of("nan.safetensors"));
    struct culm_error error = {0};
    static float got[3000];
    assert_int_equal(culm_weights_read(weights, "many", 2, shape, got, &error), CULM_ERR_CONFIG);
    assert_non_null(strstr(error.text, "'many' is not finite: element 2049 of 3000 is NaN"));
    assert_int_equal(culm_weights_check_finite(weights, &error), CULM_ERR_CONFIG);
    assert_non_null(strstr(error.text, "'many' is not finite: element 2049 of 3000 is NaN"));
    assert_int_equal(culm_weights_read(weights, "whole", 1, &integers, got, &error),
                     CULM_ERR_FORMAT);
    assert_non_null(strstr(error.text, "tensor 'whole' is I32; weights are read from F32"));
    culm_weights_close(weights);
}

/* --- places --- */

static const float ab[2] = {1, 2};

static const struct tensor a_of = {"a", "F32", "2", ab, sizeof ab},
                           b_of = {"b", "F32", "2", ab, sizeof ab};

static void test_folders(void **state) {
    (void)state;
    assert_int_equal(culm_dir_make(NULL, path_of("one"), NULL), CULM_OK);
    refused(path_of("one"), CULM_ERR_CONFIG, "folder without weights", "one'");
    write_file(path_of("one/weights.safetensors"), &a_of, 1);
    struct culm_weights *weights = open_weights(path_of("one"));
    assert_string_equal(culm_weights_where(weights)->path, path_of("one/weights.safetensors"));
    culm_weights_close(weights);
    write_file(path_of("one/other.safetensors"), &b_of, 1);
    refused(path_of("one"), CULM_ERR_CONFIG, "several files of weights", "weights.safetensors");
    write_file(path_of("one/model.safetensors"), &b_of, 1);
    weights = open_weights(path_of("one"));
    assert_int_equal(culm_weights_count(weights), 1);
    culm_weights_close(weights);
}

static void test_shards(void **state) {
    (void)state;
    assert_int_equal(culm_dir_make(NULL, path_of("shards"), NULL), CULM_OK);
    write_file(path_of("shards/m-00001-of-00003.safetensors"), &a_of, 1);
    write_file(path_of("shards/m-00003-of-00003.safetensors"), &b_of, 1);
    refused(path_of("shards"), CULM_ERR_CONFIG, "shard 2 of 3 is missing",
            "m-00001-of-00003.safetensors");
    const struct tensor c = {"c", "F32", "2", ab, sizeof ab};
    write_file(path_of("shards/m-00002-of-00003.safetensors"), &c, 1);
    struct culm_weights *weights = open_weights(path_of("shards"));
    assert_int_equal(culm_weights_count(weights), 3);
    assert_string_equal(culm_weights_at(weights, 2)->name, "c");
    culm_weights_close(weights);
    write_file(path_of("shards/m-00002-of-00003.safetensors"), &a_of, 1);
    refused(path_of("shards"), CULM_ERR_CONFIG, "tensor 'a' is in two of the files", "shards'");
    assert_int_equal(culm_file_remove(NULL, path_of("shards/m-00003-of-00003.safetensors"), NULL),
                     CULM_OK);
    refused(path_of("shards"), CULM_ERR_CONFIG, "shard 3 of 3 is missing", "shards'");
    assert_int_equal(culm_file_remove(NULL, path_of("shards/m-00001-of-00003.safetensors"), NULL),
                     CULM_OK);
    refused(path_of("shards"), CULM_ERR_CONFIG, "shard 1 of 3 is missing", "shards'");
    refused(path_of("shards/m-00002-of-00003.safetensors"), CULM_ERR_CONFIG,
            "is one shard of several; name the folder", "m-00002-of-00003.safetensors");
}

static void test_index(void **state) {
    (void)state;
    const char *index = "x/model.safetensors.index.json";
    assert_int_equal(culm_dir_make(NULL, path_of("x"), NULL), CULM_OK);
    write_file(path_of("x/1.safetensors"), &a_of, 1);
    write_file(path_of("x/2.safetensors"), &b_of, 1);
    write_text(path_of(index),
               "{\"weight_map\": {\"a\": \"1.safetensors\", \"b\": \"2.safetensors\"}}");
    const char *const both[] = {"x", index};
    for (int i = 0; i < 2; i++) {
        struct culm_weights *weights = open_weights(path_of(both[i]));
        assert_int_equal(culm_weights_count(weights), 2);
        assert_non_null(culm_weights_find(weights, "b"));
        culm_weights_close(weights);
    }
    static const struct {
        const char *text, *part, *other;
        enum culm_status status;
    } bad[] = {
        {"{}", "is not an index of shards", "weight_map", CULM_ERR_FORMAT},
        {"nothing", "is not an index of shards", "weight_map", CULM_ERR_FORMAT},
        {"{\"weight_map\": {\"a\": \"../1.safetensors\"}}", "tensor 'a' is in no file", "index",
         CULM_ERR_FORMAT},
        {"{\"weight_map\": {\"a\": 5}}", "tensor 'a' is in no file", "index", CULM_ERR_FORMAT},
        {"{\"weight_map\": {\"a\": \"3.safetensors\"}}", "lists '3.safetensors'", "No such file",
         CULM_ERR_CONFIG},
        {"{\"weight_map\": {\"a\": \"2.safetensors\"}}",
         "'2.safetensors' does not have the tensor 'a'", "index", CULM_ERR_FORMAT},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_text(path_of(index), bad[i].text);
        refused(path_of("x"), bad[i].status, bad[i].part, bad[i].other);
    }
}

/* A checkpoint gives weights without the state; a run its newest one, until it has ended. */
static void test_runs(void **state) {
    (void)state;
    struct sample sample;
    struct culm_error error = {0};
    char where[CULM_PATH_MAX], first[CULM_PATH_MAX];
    assert_int_equal(culm_dir_make(NULL, path_of("run/checkpoints"), NULL), CULM_OK);
    refused(path_of("run"), CULM_ERR_CONFIG, "neither a model.safetensors nor a", "run'");
    for (int64_t step = 1; step <= 2; step++) {
        sample_init(&sample, step);
        assert_int_equal(sample_publish(NULL, path_of("run"), &sample, &error), CULM_OK);
    }
    snprintf(first, sizeof first, "%s", path_of("run/checkpoints/step-00000001"));
    struct culm_weights *weights = open_weights(path_of("run"));
    snprintf(where, sizeof where, "%s", culm_weights_where(weights)->path);
    assert_string_equal(where, path_of("run/checkpoints/step-00000002"));
    assert_int_equal(culm_weights_info(weights)->step, 2);
    assert_int_equal(culm_weights_count(weights), 2 * SAMPLE_STAGES);
    for (size_t i = 0; i < culm_weights_count(weights); i++) {
        assert_false(culm_checkpoint_is_state(culm_weights_at(weights, i)->name));
    }
    /* As one file, it is the same. */
    assert_int_equal(
        culm_weights_export(NULL, weights, path_of("one.safetensors"), NULL, 0, &error), CULM_OK);
    struct culm_weights *exported = open_weights(path_of("one.safetensors"));
    float a[24], b[24];
    for (size_t i = 0; i < culm_weights_count(weights); i++) {
        const struct culm_safetensors_entry *entry = culm_weights_at(weights, i);
        assert_int_equal(
            culm_weights_read(weights, entry->name, entry->rank, entry->shape, a, &error), CULM_OK);
        assert_int_equal(
            culm_weights_read(exported, entry->name, entry->rank, entry->shape, b, &error),
            CULM_OK);
        assert_memory_equal(a, b, sizeof a);
    }
    culm_weights_close(exported);
    culm_weights_close(weights);
    /* Who was told of the first one stays with it, though the run has gone on. */
    struct culm_pins *pins = culm_pins_new();
    assert_int_equal(culm_weights_open(first, pins, &weights, &error), CULM_OK);
    culm_weights_close(weights);
    culm_pins_seal(pins);
    if (culm_weights_open(path_of("run"), pins, &weights, &error)) {
        fail_msg("%s", error.text);
    }
    assert_string_equal(culm_weights_where(weights)->path, first);
    culm_weights_close(weights);
    culm_pins_free(pins);
    /* A flipped bit is found. */
    FILE *file = fopen(path_of("run/checkpoints/step-00000001/stage-0.safetensors"), "r+b");
    assert_non_null(file);
    fseek(file, -1, SEEK_END);
    fputc(0x55, file);
    fclose(file);
    refused(first, CULM_ERR_FORMAT, "is damaged", "stage-0.safetensors");
    write_file(path_of("run/model.safetensors"), &a_of, 1);
    weights = open_weights(path_of("run"));
    assert_string_equal(culm_weights_where(weights)->path, path_of("run/model.safetensors"));
    culm_weights_close(weights);
}

/* --- names --- */

static void finds(const char *in_file, const char *beside, const char *name, bool found) {
    const struct tensor tensors[] = {{in_file, "F32", "2", ab, sizeof ab},
                                     {beside, "F32", "2", ab, sizeof ab}};
    write_file(path_of("names.safetensors"), tensors, 2);
    struct culm_weights *weights = open_weights(path_of("names.safetensors"));
    const struct culm_safetensors_entry *entry = culm_weights_find(weights, name);
    if (found != (entry && strcmp(entry->name, in_file) == 0)) {
        fail_msg("'%s' in a file with '%s' and '%s'", name, in_file, beside);
    }
    culm_weights_close(weights);
}

static void test_names(void **state) {
    (void)state;
    finds("transformer.wte", "z", "transformer.wte", true);
    finds("wte", "z", "transformer.wte", true);
    finds("transformer.wte", "z", "wte", true);
    finds("model.wte", "model.z", "wte", true);
    finds("model.wte", "z", "wte", false); /* not all have it */
    finds("model.wte", "model.z", "transformer.wte", true);
    finds("module.model.wte", "module.model.z", "wte", true);
    finds("module.model.wte", "module.z", "model.wte", true);
    finds("model.bert.LayerNorm.gamma", "model.z", "bert.LayerNorm.weight", true);
    finds("xwte", "xz", "wte", false);                 /* no whole part of a name */
    finds("layer1.conv1", "layer1.z", "conv1", false); /* of another layer */
    finds("model.h.0.wte", "model.h.0.z", "h.0.wte", true);
    finds("bert.wte", "bert.z", "transformer.wte", true);
}

/* --- what has no place --- */

#define SIDE 5

/* Checks weights `x` and one more tensor against a model that needs x, and asks for parts of the line. */
static void checked(const struct tensor *more, bool ignore, enum culm_status status,
                    const char *part) {
    const int64_t shape = 2;
    const struct culm_weights_need need = {"x", 1, &shape};
    const struct culm_weights_rules rules = {.what = "model.init",
                                             .source = "the seed",
                                             .ignore = ignore,
                                             .leave = "set model.init_unused: ignore"};
    const struct tensor tensors[] = {{"x", "F32", "2", ab, sizeof ab}, *more};
    char note[CULM_WEIGHTS_NOTE_SIZE] = "";
    struct culm_error error = {0};
    write_file(path_of("more.safetensors"), tensors, 2);
    struct culm_weights *weights = open_weights(path_of("more.safetensors"));
    assert_int_equal(culm_weights_check(weights, &need, 1, NULL, 0, &rules, note, &error), status);
    const char *line = status == CULM_OK ? note : error.text;
    if (!strstr(line, part)) {
        fail_msg("%s: '%s' is not in: %s", more->name, part, line);
    }
    culm_weights_close(weights);
}

static void test_beside(void **state) {
    (void)state;
    float mask[SIDE * SIDE], other[SIDE * SIDE];
    uint8_t byte_mask[SIDE * SIDE];
    const float fill = -1e4f, copy[2] = {1, 2}, changed[2] = {1, 3};
    const int64_t positions[4] = {0, 1, 2, 3}, wrong[4] = {0, 1, 3, 2}, counter = 77,
                  zeros[3] = {0};
    for (int i = 0; i < SIDE * SIDE; i++) {
        mask[i] = i % SIDE <= i / SIDE ? 1.0f : 0.0f;
        byte_mask[i] = i % SIDE <= i / SIDE;
    }
    memcpy(other, mask, sizeof mask);
    other[7] = 0.25f;
    const struct {
        struct tensor tensor;
        const char *note; /* NULL: it has no place */
    } rows[] = {
        {{"h.0.attn.bias", "F32", "1,1,5,5", mask, sizeof mask}, "1 x causal mask"},
        {{"h.0.attn.bias", "BOOL", "1,1,5,5", byte_mask, sizeof byte_mask}, "1 x causal mask"},
        {{"h.0.attn.bias", "F32", "1,1,5,5", other, sizeof other}, NULL},
        {{"h.0.attn.bias", "F32", "25", mask, sizeof mask}, NULL},
        {{"h.0.attn.weight", "F32", "1,1,5,5", mask, sizeof mask}, NULL},
        {{"h.0.attn.masked_bias", "F32", "", &fill, sizeof fill}, "1 x fill value of a mask"},
        {{"embeddings.position_ids", "I64", "1,4", positions, sizeof positions},
         "1 x list of positions"},
        {{"embeddings.position_ids", "I64", "1,4", wrong, sizeof wrong}, NULL},
        {{"embeddings.token_type_ids", "I64", "1,3", zeros, sizeof zeros}, "1 x list of positions"},
        {{"bn1.num_batches_tracked", "I64", "", &counter, sizeof counter},
         "1 x counter of batches"},
        {{"x.exp_avg", "F32", "2", changed, sizeof changed}, "1 x optimizer state"},
        {{"y.exp_avg", "F32", "2", changed, sizeof changed}, NULL},
        {{"lm_head.weight", "F32", "2", copy, sizeof copy}, "1 x copy of another tensor"},
        {{"lm_head.weight", "F32", "2", changed, sizeof changed}, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char part[128];
        if (rows[i].note) {
            checked(&rows[i].tensor, false, CULM_OK, rows[i].note);
            continue;
        }
        snprintf(part, sizeof part, "has 1 tensor that the model has no place for: '%s'",
                 rows[i].tensor.name);
        checked(&rows[i].tensor, false, CULM_ERR_CONFIG, part);
        checked(&rows[i].tensor, false, CULM_ERR_CONFIG, "set model.init_unused: ignore");
        snprintf(part, sizeof part, "leaves out 1 tensor that the model has no place for: '%s'",
                 rows[i].tensor.name);
        checked(&rows[i].tensor, true, CULM_OK, part);
    }
}

/* Parameters that are lacking or of another shape, and many names: the first few, and how many. */
static void test_lacking(void **state) {
    (void)state;
    const int64_t two = 2, three = 3;
    const struct culm_weights_need need[] = {{"x", 1, &two}, {"b", 1, &three}, {"c", 1, &two},
                                             {"d", 1, &two}, {"e", 1, &two},   {"f", 1, &two}};
    const struct tensor tensors[] = {{"x", "F16", "2", ab, 4}, {"b", "F32", "2", ab, sizeof ab}};
    struct culm_weights_rules rules = {
        .what = "model.init", .source = "the seed", .leave = "set model.init_unused: ignore"};
    char note[CULM_WEIGHTS_NOTE_SIZE] = "";
    struct culm_error error = {0};
    write_file(path_of("lacking.safetensors"), tensors, 2);
    struct culm_weights *weights = open_weights(path_of("lacking.safetensors"));
    assert_int_equal(culm_weights_check(weights, need, 6, NULL, 0, &rules, note, &error),
                     CULM_ERR_CONFIG);
    assert_non_null(strstr(error.text, "has 'b' as [2], the model needs [3]; "));
    assert_non_null(strstr(error.text, "or set model.init_unused: ignore"));
    rules.ignore = true;
    assert_int_equal(culm_weights_check(weights, need, 6, NULL, 0, &rules, note, &error), CULM_OK);
    assert_string_equal(note, "model.init has 1 of 6 parameters; the other 5 start from the seed: "
                              "'c', 'd', 'e' and 1 more, and of another shape 'b'; converts 1 "
                              "tensor from F16 to F32, exactly");
    rules.all = true;
    assert_int_equal(culm_weights_check(weights, need, 6, NULL, 0, &rules, note, &error),
                     CULM_ERR_CONFIG);
    assert_non_null(strstr(error.text, "lacks 5 of 6 parameters: 'c', 'd', 'e' and 1 more"));
    culm_weights_close(weights);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_halves),     cmocka_unit_test(test_doubles),
        cmocka_unit_test(test_not_finite), cmocka_unit_test(test_folders),
        cmocka_unit_test(test_shards),     cmocka_unit_test(test_index),
        cmocka_unit_test(test_runs),       cmocka_unit_test(test_names),
        cmocka_unit_test(test_beside),     cmocka_unit_test(test_lacking),
    };
    return cmocka_run_group_tests(tests, make_folder, drop_folder);
}

/* safetensors: round trips, the corpus, every truncation, every flipped bit. */
#include "store/safetensors.h"

#include "sample.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <unistd.h>

#include <cmocka.h>

static const float special[6] = {0.0f, -0.0f, 1e-45f, INFINITY, -3.5f, NAN};
static const float pair[2] = {1.0f, 2.0f};

/* Writes two tensors and returns the file's bytes. */
static uint8_t *small_file(const char *dir, size_t *ret_len) {
    char path[128], *data;
    struct culm_written written;
    const struct culm_tensor_ref tensors[] = {{"transformer.b", 2, {2, 3}, special, NULL},
                                              {"transformer.a", 1, {2}, pair, NULL}};
    const struct culm_metadata metadata = {"format", "pt"};
    snprintf(path, sizeof path, "%s/small.safetensors", dir);
    assert_int_equal(
        culm_safetensors_write(NULL, path, tensors, 2, &metadata, 1, NULL, &written, NULL),
        CULM_OK);
    assert_int_equal(culm_file_read(NULL, path, 1 << 20, &data, ret_len, NULL), CULM_OK);
    char sha256[CULM_SHA256_HEX];
    assert_int_equal(culm_sha256_of(data, *ret_len, sha256), CULM_OK);
    assert_string_equal(written.sha256, sha256);
    assert_int_equal(written.bytes, *ret_len);
    return (uint8_t *)data;
}

static void test_round_trip(void **state) {
    (void)state;
    char dir[64];
    size_t len;
    temp_dir_make(dir);
    uint8_t *data = small_file(dir, &len);
    struct culm_safetensors *file = NULL;
    struct culm_error error = {0};
    uint64_t header;
    memcpy(&header, data, 8);
    assert_int_equal(header % 8, 0);
    assert_int_equal(len, 8 + header + 32);
    assert_int_equal(culm_safetensors_parse(data, len, "small", &file, &error), CULM_OK);
    assert_int_equal(culm_safetensors_count(file), 2);
    assert_string_equal(culm_safetensors_at(file, 0)->name, "transformer.a");
    assert_string_equal(culm_safetensors_metadata(file, "format"), "pt");
    assert_null(culm_safetensors_metadata(file, "nothing"));
    assert_null(culm_safetensors_find(file, "transformer.c"));
    float values[6];
    const int64_t shape[2] = {2, 3}, other[2] = {3, 2}, two = 2;
    assert_int_equal(culm_safetensors_read(file, "transformer.b", 2, shape, values, &error),
                     CULM_OK);
    assert_memory_equal(values, special, sizeof special); /* bits, NaN and -0 included */
    assert_int_equal(culm_safetensors_read(file, "transformer.a", 1, &two, values, &error),
                     CULM_OK);
    assert_memory_equal(values, pair, sizeof pair);
    static const int64_t ones[4] = {1, 2, 1, 3}, less[3] = {1, 2, 1}, more[3] = {2, 3, 2};
    assert_int_equal(culm_safetensors_read(file, "transformer.b", 4, ones, values, &error),
                     CULM_OK);
    assert_int_equal(culm_safetensors_read(file, "transformer.b", 3, less, values, &error),
                     CULM_ERR_FORMAT);
    assert_int_equal(culm_safetensors_read(file, "transformer.b", 3, more, values, &error),
                     CULM_ERR_FORMAT);
    assert_int_equal(culm_safetensors_read(file, "transformer.b", 2, other, values, &error),
                     CULM_ERR_FORMAT);
    assert_non_null(strstr(error.text, "is F32 [2, 3], not F32 [3, 2]"));
    assert_int_equal(culm_safetensors_read(file, "x", 1, &two, values, &error), CULM_ERR_NOT_FOUND);
    culm_safetensors_close(file);
    free(data);
    temp_dir_drop(dir);
}

static void test_large_and_empty(void **state) {
    (void)state;
    char dir[64], path[128];
    struct culm_written written;
    struct culm_safetensors *file = NULL;
    temp_dir_make(dir);
    snprintf(path, sizeof path, "%s/large.safetensors", dir);
    int64_t count = 3 * 1024 * 1024 / 4 + 17;
    float *values = malloc((size_t)count * 4), *again = malloc((size_t)count * 4);
    for (int64_t i = 0; i < count; i++) {
        values[i] = (float)i;
    }
    const struct culm_tensor_ref tensors[] = {{"none", 2, {0, 7}, NULL, NULL},
                                              {"large", 1, {count}, values, NULL},
                                              {"scalar", 0, {0}, values, NULL}};
    assert_int_equal(culm_safetensors_write(NULL, path, tensors, 3, NULL, 0, NULL, &written, NULL),
                     CULM_OK);
    assert_int_equal(culm_safetensors_open(path, &file, NULL), CULM_OK);
    assert_int_equal(culm_safetensors_read(file, "large", 1, &count, again, NULL), CULM_OK);
    assert_memory_equal(values, again, (size_t)count * 4);
    assert_int_equal(culm_safetensors_find(file, "none")->bytes, 0);
    assert_int_equal(culm_safetensors_find(file, "scalar")->bytes, 4);
    culm_safetensors_close(file);
    free(values);
    free(again);
    assert_int_equal(culm_safetensors_write(NULL, path, NULL, 0, NULL, 0, NULL, &written, NULL),
                     CULM_OK);
    assert_int_equal(culm_safetensors_open(path, &file, NULL), CULM_OK);
    assert_int_equal(culm_safetensors_count(file), 0);
    assert_null(culm_safetensors_find(file, "none"));
    culm_safetensors_close(file);
    temp_dir_drop(dir);
}

/* Where it was mapped this was the end of the process. */
static void test_cut_while_open(void **state) {
    (void)state;
    char dir[64], path[128], hex[CULM_SHA256_HEX];
    struct culm_written written;
    struct culm_safetensors *file = NULL;
    struct culm_error error;
    temp_dir_make(dir);
    snprintf(path, sizeof path, "%s/cut.safetensors", dir);
    int64_t count = 100000;
    float *values = calloc((size_t)count, 4);
    const struct culm_tensor_ref tensors[] = {{"a", 1, {count}, values, NULL},
                                              {"b", 1, {count}, values, NULL}};
    assert_int_equal(culm_safetensors_write(NULL, path, tensors, 2, NULL, 0, NULL, &written, NULL),
                     CULM_OK);
    assert_int_equal(culm_safetensors_open(path, &file, NULL), CULM_OK);
    assert_int_equal(truncate(path, 500000), 0);
    assert_int_equal(culm_safetensors_read(file, "a", 1, &count, values, &error), CULM_OK);
    assert_int_equal(culm_safetensors_read(file, "b", 1, &count, values, &error), CULM_ERR_IO);
    assert_non_null(strstr(error.text, path));
    assert_non_null(strstr(error.text, "ends at byte 500000, had"));
    assert_int_equal(culm_safetensors_hash(file, NULL, NULL, hex, &error), CULM_ERR_IO);
    culm_safetensors_close(file);
    free(values);
    temp_dir_drop(dir);
}

struct hook_seen {
    const char *path;
    int calls;
    uint64_t bytes;
};

static void on_half(void *arg) {
    struct hook_seen *seen = arg;
    struct stat info;
    assert_int_equal(stat(seen->path, &info), 0);
    seen->bytes = (uint64_t)info.st_size;
    seen->calls++;
}

static void test_hook_comes_at_half(void **state) {
    (void)state;
    char dir[64], path[128];
    struct culm_written written;
    temp_dir_make(dir);
    snprintf(path, sizeof path, "%s/x.safetensors", dir);
    const int64_t sizes[] = {1, 1000, 700000};
    for (int i = 0; i < 3; i++) {
        float *values = calloc((size_t)sizes[i], 4);
        const struct culm_tensor_ref tensor = {"x", 1, {sizes[i]}, values, NULL};
        struct hook_seen seen = {.path = path};
        const struct culm_write_hook hook = {on_half, &seen};
        assert_int_equal(
            culm_safetensors_write(NULL, path, &tensor, 1, NULL, 0, &hook, &written, NULL),
            CULM_OK);
        assert_int_equal(seen.calls, 1);
        assert_int_equal(seen.bytes, written.bytes / 2);
        free(values);
    }
    temp_dir_drop(dir);
}

static void test_wrong_names_are_refused(void **state) {
    (void)state;
    char dir[64], path[128];
    struct culm_written written;
    struct culm_error error = {0};
    temp_dir_make(dir);
    snprintf(path, sizeof path, "%s/x.safetensors", dir);
    const struct culm_tensor_ref wrong[][2] = {
        {{"a", 1, {2}, pair, NULL}, {"a", 1, {2}, pair, NULL}},
        {{"a", 1, {2}, pair, NULL}, {"", 1, {2}, pair, NULL}},
        {{"a", 1, {2}, pair, NULL}, {"a\nb", 1, {2}, pair, NULL}},
        {{"a", 1, {2}, pair, NULL}, {"\xff", 1, {2}, pair, NULL}},
        {{"a", 1, {2}, pair, NULL}, {"__metadata__", 1, {2}, pair, NULL}},
        {{"a", 1, {2}, pair, NULL}, {"b", 1, {-2}, pair, NULL}},
        {{"a", 1, {2}, pair, NULL}, {"b", 2, {INT64_MAX, 2}, pair, NULL}},
        {{"a", 1, {2}, pair, NULL}, {"b", 5, {2}, pair, NULL}},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(
            culm_safetensors_write(NULL, path, wrong[i], 2, NULL, 0, NULL, &written, &error),
            CULM_ERR_ARGUMENT);
        assert_false(culm_file_is_regular(path));
    }
    temp_dir_drop(dir);
}

/* An exact copy on the heap, so that a sanitizer sees one byte too many. */
static enum culm_status parse_copy(const uint8_t *data, size_t len, struct culm_error *error) {
    uint8_t *copy = malloc(len ? len : 1);
    struct culm_safetensors *file = NULL;
    memcpy(copy, data, len);
    enum culm_status status = culm_safetensors_parse(copy, len, "copy", &file, error);
    for (size_t i = 0; file && i < culm_safetensors_count(file); i++) {
        const struct culm_safetensors_entry *entry = culm_safetensors_at(file, i);
        char *all = malloc(entry->bytes + 1);
        memcpy(all, entry->data, entry->bytes);
        free(all);
    }
    culm_safetensors_close(file);
    free(copy);
    return status;
}

static void test_every_truncation_is_refused(void **state) {
    (void)state;
    char dir[64];
    size_t len;
    temp_dir_make(dir);
    uint8_t *data = small_file(dir, &len);
    for (size_t cut = 0; cut < len; cut++) {
        struct culm_error error = {0};
        char place[64];
        assert_int_equal(parse_copy(data, cut, &error), CULM_ERR_FORMAT);
        snprintf(place, sizeof place, "byte %zu: truncated", cut);
        if (!strstr(error.text, place) || strchr(error.text, '\n')) {
            fail_msg("cut at %zu: '%s'", cut, error.text);
        }
    }
    struct culm_error error = {0};
    assert_int_equal(parse_copy(data, len, &error), CULM_OK);
    free(data);
    temp_dir_drop(dir);
}

static void test_every_flipped_bit_is_survived(void **state) {
    (void)state;
    char dir[64];
    size_t len, refused = 0;
    temp_dir_make(dir);
    uint8_t *data = small_file(dir, &len);
    for (size_t bit = 0; bit < 8 * len; bit++) {
        struct culm_error error = {0};
        data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        if (parse_copy(data, len, &error) != CULM_OK) {
            refused++;
            assert_true(error.text[0] && !strchr(error.text, '\n'));
        }
        data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    assert_true(refused > 8 * len / 2); /* most of the file is header */
    free(data);
    temp_dir_drop(dir);
}

static void test_corpus(void **state) {
    (void)state;
    struct culm_names names;
    int good = 0, bad = 0;
    assert_int_equal(culm_dir_list(TEST_CORPUS, &names, NULL), CULM_OK);
    for (size_t i = 0; i < names.count; i++) {
        char path[1024];
        struct culm_safetensors *file = NULL;
        struct culm_error error = {0};
        snprintf(path, sizeof path, "%s/%s", TEST_CORPUS, names.name[i]);
        bool is_good = strncmp(names.name[i], "good-", 5) == 0;
        enum culm_status status = culm_safetensors_open(path, &file, &error);
        if (status != (is_good ? CULM_OK : CULM_ERR_FORMAT)) {
            fail_msg("%s: %s '%s'", names.name[i], culm_status_name(status), error.text);
        }
        if (!is_good && (!strstr(error.text, "byte ") || strchr(error.text, '\n'))) {
            fail_msg("%s: '%s'", names.name[i], error.text);
        }
        good += is_good;
        bad += !is_good;
        culm_safetensors_close(file);
    }
    culm_names_release(&names);
    assert_true(good >= 7 && bad >= 30);
}

static void test_missing_and_not_a_file(void **state) {
    (void)state;
    struct culm_safetensors *file = NULL;
    struct culm_error error = {0};
    assert_int_equal(culm_safetensors_open("/nonexistent/x", &file, &error), CULM_ERR_NOT_FOUND);
    assert_int_equal(culm_safetensors_open("/tmp", &file, &error), CULM_ERR_CONFIG);
    assert_int_equal(culm_safetensors_open("/dev/null", &file, &error), CULM_ERR_CONFIG);
    assert_null(file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_large_and_empty),
        cmocka_unit_test(test_cut_while_open),
        cmocka_unit_test(test_hook_comes_at_half),
        cmocka_unit_test(test_wrong_names_are_refused),
        cmocka_unit_test(test_every_truncation_is_refused),
        cmocka_unit_test(test_every_flipped_bit_is_survived),
        cmocka_unit_test(test_corpus),
        cmocka_unit_test(test_missing_and_not_a_file),
    };
    return cmocka_run_group_tests_name("store/safetensors", tests, NULL, NULL);
}

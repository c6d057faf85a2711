/*
 * Reading files: the fuzz corpus (good-* is read and imported, bad-* is refused with one line),
 * tensors in side files, and all ways in which those can be wrong.
 */
#include "../folder.h"

#include "writer.h"

#include "base/file.h"
#include "onnx/graph.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED
#endif
#endif
#ifdef SANITIZED
#include <sanitizer/asan_interface.h>
#endif

static void test_corpus(void **state) {
    (void)state;
    struct dirent **entries;
    int count = scandir(TEST_CORPUS, &entries, NULL, alphasort), good = 0, bad = 0;
    assert_true(count > 2);
    for (int i = 0; i < count; i++) {
        const struct culm_onnx_options options = {.batch = 2, .context = 3};
        struct culm_onnx_model *model = NULL;
        struct culm_graph *graph = NULL;
        struct culm_error error = {0};
        char path[CULM_PATH_MAX];
        bool should = strncmp(entries[i]->d_name, "good-", 5) == 0;
        snprintf(path, sizeof path, "%s/%s", TEST_CORPUS, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.') {
            enum culm_status status = culm_onnx_import(path, &options, &model, &graph, &error);
            if ((status == CULM_OK) != should) {
                fail_msg("%s: %s", entries[i]->d_name, status ? error.text : "was read");
            }
            if (!should && culm_status_exit_code(status) != 3) { /* input, not the environment */
                fail_msg("%s: exit code %d: %s", entries[i]->d_name, culm_status_exit_code(status),
                         error.text);
            }
            assert_true(should || (error.text[0] && !strchr(error.text, '\n')));
            *(should ? &good : &bad) += 1;
            culm_onnx_model_free(model);
            culm_graph_free(graph);
        }
        free(entries[i]);
    }
    free(entries);
    assert_true(good >= 10 && bad >= 30);
}

/* w [3,2] in a file of its own. */
static void write_model(const char *location, const char *offset, const char *length) {
    const char *const keys[] = {"location", "offset", "length"};
    const char *const values[] = {location, offset, length};
    struct writer w;
    struct culm_buf tensor, entry;
    struct culm_file file;
    struct culm_error error;
    char path[CULM_PATH_MAX];
    size_t len;
    writer_start(&w);
    writer_input(&w, "x", 1, 2, (const int64_t[]){-1, 3});
    writer_node(&w, "MatMul", "x w", "y", "");
    writer_output(&w, "y");
    culm_buf_init(&tensor, 4096);
    culm_wire_put_varint(&tensor, 1, 3);
    culm_wire_put_varint(&tensor, 1, 2);
    culm_wire_put_varint(&tensor, 2, 1);
    culm_wire_put_text(&tensor, 8, "w");
    for (int i = 0; i < 3; i++) {
        culm_buf_init(&entry, 256);
        culm_wire_put_text(&entry, 1, keys[i]);
        culm_wire_put_text(&entry, 2, values[i]);
        culm_wire_put_bytes(&tensor, 13, entry.data, entry.len);
        culm_buf_release(&entry);
    }
    culm_wire_put_varint(&tensor, 14, 1);
    culm_wire_put_bytes(&w.graph, 5, tensor.data, tensor.len);
    culm_buf_release(&tensor);
    const void *data = writer_finish(&w, 17, &len);
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    assert_int_equal(culm_file_create(NULL, path, &file, &error), CULM_OK);
    assert_int_equal(culm_file_append(&file, data, len, &error), CULM_OK);
    assert_int_equal(culm_file_finish(&file, &error), CULM_OK);
    writer_release(&w);
}

static enum culm_status import(float ret_weight[6], struct culm_error *error) {
    const struct culm_onnx_options options = {.batch = 2};
    struct culm_onnx_model *model = NULL;
    struct culm_graph *graph = NULL;
    char path[CULM_PATH_MAX];
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    *error = (struct culm_error){0};
    enum culm_status status = culm_onnx_import(path, &options, &model, &graph, error);
    if (status == CULM_OK) {
        assert_int_equal(
            culm_onnx_weights_read(model, "w", 2, (const int64_t[]){3, 2}, ret_weight, error),
            CULM_OK);
    }
    culm_onnx_model_free(model);
    culm_graph_free(graph);
    return status;
}

static void test_side_file(void **state) {
    (void)state;
    const float numbers[8] = {9, 1, 2, 3, 4, 5, 6, 7};
    float weight[6];
    struct culm_error error;
    char path[CULM_PATH_MAX];
    snprintf(path, sizeof path, "%s/weights.bin", folder);
    write_model("weights.bin", "4", "24");
    assert_int_not_equal(import(weight, &error), CULM_OK);
    assert_non_null(strstr(error.text, "tensor 'w' lies in '"));
    assert_non_null(strstr(error.text, "keep it beside the model"));
    assert_int_equal(culm_file_replace(NULL, path, numbers, sizeof numbers, &error), CULM_OK);
    if (import(weight, &error) != CULM_OK) {
        fail_msg("%s", error.text);
    }
    assert_memory_equal(weight, numbers + 1, sizeof weight);
    write_model("weights.bin", "12", "24"); /* past its end */
    assert_int_not_equal(import(weight, &error), CULM_OK);
    assert_non_null(strstr(error.text, "which has 32"));
    write_model("weights.bin", "0", "20"); /* not its size */
    assert_int_not_equal(import(weight, &error), CULM_OK);
    assert_non_null(strstr(error.text, "its shape needs 24"));
    write_model("../weights.bin", "0", "24");
    assert_int_not_equal(import(weight, &error), CULM_OK);
    assert_non_null(strstr(error.text, "not below the folder of the model"));
    write_model("weights.bin", "18446744073709551615", "24");
    assert_int_not_equal(import(weight, &error), CULM_OK);
}

static void test_not_there(void **state) {
    (void)state;
    struct culm_onnx_graph *graph = NULL;
    struct culm_error error = {0};
    assert_int_equal(culm_onnx_graph_open("/no/such.onnx", &graph, &error), CULM_ERR_NOT_FOUND);
    assert_int_equal(culm_onnx_graph_open("/tmp", &graph, &error), CULM_ERR_CONFIG);
    assert_null(graph);
}

/* Relu with one attribute of these bytes, beside the input and output of a model. */
static enum culm_status with_attribute(const struct culm_buf *attribute, struct culm_error *error) {
    struct culm_onnx_graph *graph = NULL;
    struct culm_buf node;
    struct writer w;
    size_t len;
    writer_start(&w);
    writer_input(&w, "x", 1, 2, (const int64_t[]){-1, 3});
    culm_buf_init(&node, 1 << 20);
    culm_wire_put_text(&node, 1, "x");
    culm_wire_put_text(&node, 2, "y");
    culm_wire_put_text(&node, 4, "Relu");
    culm_wire_put_bytes(&node, 5, attribute->data, attribute->len);
    culm_wire_put_bytes(&w.graph, 1, node.data, node.len);
    culm_buf_release(&node);
    writer_output(&w, "y");
    const void *data = writer_finish(&w, 17, &len);
    *error = (struct culm_error){0};
    enum culm_status status = culm_onnx_graph_parse(data, len, "test", &graph, error);
    culm_onnx_graph_close(graph);
    writer_release(&w);
    return status;
}

/* Numbers in forms that they cannot have: more of them than the message has room for. So large that
 * the arena gives their array memory of its own, behind which the allocator notices a write. */
static void test_numbers_in_other_forms(void **state) {
    (void)state;
    struct culm_buf attribute;
    struct culm_error error;
    float floats[40000] = {0};
    uint8_t ints[40000];
    memset(ints, 1, sizeof ints);

    culm_buf_init(&attribute, 1 << 20);
    culm_wire_put_text(&attribute, 1, "a");
    for (int i = 0; i < 20000; i++) {
        culm_wire_put_varint(&attribute, 7, 0); /* two bytes each, of a float's four */
    }
    assert_int_equal(with_attribute(&attribute, &error), CULM_ERR_FORMAT);
    assert_non_null(strstr(error.text, "an attribute has field 7 in a form that it cannot have"));
    culm_buf_release(&attribute);

    culm_buf_init(&attribute, 1 << 20); /* the count of the one list, the array of the other */
    culm_wire_put_text(&attribute, 1, "a");
    culm_wire_put_bytes(&attribute, 8, ints, sizeof ints);
    culm_wire_put_varint(&attribute, 3, 1);
    culm_wire_put_bytes(&attribute, 7, floats, sizeof floats);
    assert_int_equal(with_attribute(&attribute, &error), CULM_ERR_FORMAT);
    assert_non_null(strstr(error.text, "attribute 'a' has values of two kinds"));
    culm_buf_release(&attribute);
}

/* Pieces keep their distance, whatever lies between; in the sanitizer's build a step out is seen.
 */
static void test_arena(void **state) {
    (void)state;
    const size_t sizes[] = {1, 7, 16, 63, 64, 65, 16000, 16385, 65536, 100000, 0, 3};
    enum { COUNT = sizeof sizes / sizeof *sizes };
    struct culm_onnx_arena arena;
    uint8_t *piece[2 * COUNT];
    culm_onnx_arena_init(&arena, 1 << 20);
    for (int i = 0; i < 2 * COUNT; i++) {
        size_t size = sizes[i % COUNT];
        piece[i] = culm_onnx_alloc(&arena, size, 1);
        assert_non_null(piece[i]);
        assert_int_equal((uintptr_t)piece[i] % (size >= 64 ? 64 : 16), 0);
        for (size_t k = 0; k < size; k++) {
            assert_int_equal(piece[i][k], 0);
        }
        memset(piece[i], i + 1, size);
    }
    for (int i = 0; i < 2 * COUNT; i++) {
        for (size_t k = 0; k < sizes[i % COUNT]; k++) {
            assert_int_equal(piece[i][k], i + 1);
        }
#ifdef SANITIZED
        assert_true(__asan_address_is_poisoned(piece[i] + sizes[i % COUNT]));
#endif
    }
    assert_null(culm_onnx_alloc(&arena, 1 << 20, 1)); /* beyond the limit */
    assert_null(culm_onnx_alloc(&arena, UINT64_MAX / 2, 4));
    culm_onnx_arena_release(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_corpus),    cmocka_unit_test(test_side_file),
        cmocka_unit_test(test_not_there), cmocka_unit_test(test_numbers_in_other_forms),
        cmocka_unit_test(test_arena),
    };
    return cmocka_run_group_tests_name("onnx/file", tests, make_folder, drop_folder);
}

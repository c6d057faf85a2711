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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_corpus),
        cmocka_unit_test(test_side_file),
        cmocka_unit_test(test_not_there),
    };
    return cmocka_run_group_tests_name("onnx/file", tests, make_folder, drop_folder);
}

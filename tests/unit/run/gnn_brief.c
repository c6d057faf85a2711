/* What a node of a run on a graph is told when it joins: the cut at its end, whole, cut short, too long. */
#include "run/gnn_node.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define VERTICES 5
#define BRIEF_MAX 4096

static uint32_t cut[VERTICES] = {0, 258, 65535, 2, 1};

/* As launchers write it. */
static void write_brief(struct culm_buf *out, int64_t vertices, bool told) {
    const struct culm_gnn_brief brief = {
        .config_text = "epochs: 3\n",
        .plan = {.vertices = vertices,
                 .edges = 7,
                 .columns = 4,
                 .classes = 2,
                 .train = 2,
                 .rows_max = 3,
                 .layers = 2,
                 .multiply_first = {false, true}},
        .payload_max = 1000,
        .inputs = "{}",
        .cut_sha256 = "0123456789abcdef",
        .cut = told ? cut : NULL,
    };
    culm_buf_init(out, BRIEF_MAX);
    assert_true(culm_gnn_brief_write(&brief, out));
}

/* Of bytes whose end is that of their memory, so that whoever reads behind it is caught. */
static enum culm_status read_brief(const uint8_t *data, size_t len, struct culm_gnn_brief *brief) {
    struct culm_error error = {0};
    uint8_t *copy = malloc(len + !len);
    assert_non_null(copy);
    memcpy(copy, data, len);
    enum culm_status status = culm_gnn_brief_read(copy, len, brief, &error);
    free(copy);
    if (status != CULM_OK) {
        assert_true(error.text[0] && !strchr(error.text, '\n'));
        assert_null(brief->cut);
        assert_null(brief->config_text);
        assert_null(brief->inputs);
    }
    return status;
}

static void refuse(const uint8_t *data, size_t len) {
    struct culm_gnn_brief brief;
    assert_int_equal(read_brief(data, len, &brief), CULM_ERR_FORMAT);
}

static void test_whole(void **state) {
    (void)state;
    for (int told = 0; told < 2; told++) {
        struct culm_gnn_brief brief;
        struct culm_buf bytes;
        write_brief(&bytes, VERTICES, told);
        assert_int_equal(read_brief(bytes.data, bytes.len, &brief), CULM_OK);
        assert_string_equal(brief.config_text, "epochs: 3\n");
        assert_string_equal(brief.inputs, "{}");
        assert_string_equal(brief.cut_sha256, "0123456789abcdef");
        assert_int_equal(brief.payload_max, 1000);
        assert_int_equal(brief.plan.vertices, VERTICES);
        assert_int_equal(brief.plan.layers, 2);
        assert_true(brief.plan.multiply_first[1]);
        if (told) {
            assert_memory_equal(brief.cut, cut, sizeof cut);
        } else {
            assert_null(brief.cut);
        }
        culm_gnn_brief_release(&brief);
        culm_buf_release(&bytes);
    }
}

static void test_cut_short(void **state) {
    (void)state;
    for (int told = 0; told < 2; told++) {
        struct culm_buf bytes;
        write_brief(&bytes, VERTICES, told);
        for (size_t len = 0; len < bytes.len; len++) {
            refuse(bytes.data, len);
        }
        culm_buf_release(&bytes);
    }
}

static void test_too_long(void **state) {
    (void)state;
    for (int told = 0; told < 2; told++) {
        struct culm_buf bytes;
        write_brief(&bytes, VERTICES, told);
        for (int more = 0; more < 4; more++) {
            culm_buf_u8(&bytes, 0);
            refuse(bytes.data, bytes.len);
        }
        culm_buf_release(&bytes);
    }
}

/* The plan has one vertex more than the cut, or one less. */
static void test_other_length(void **state) {
    (void)state;
    struct culm_buf whole;
    write_brief(&whole, VERTICES, true);
    for (int64_t vertices = VERTICES - 1; vertices <= VERTICES + 1; vertices += 2) {
        struct culm_buf bytes;
        size_t tail = 1 + VERTICES * 2; /* whether there is a cut, and the cut */
        write_brief(&bytes, vertices, false);
        bytes.len--;
        culm_buf_bytes(&bytes, whole.data + whole.len - tail, tail);
        refuse(bytes.data, bytes.len);
        culm_buf_release(&bytes);
    }
    culm_buf_release(&whole);
}

/* It is there or not. */
static void test_neither(void **state) {
    (void)state;
    struct culm_buf bytes;
    write_brief(&bytes, VERTICES, true);
    bytes.data[bytes.len - VERTICES * 2 - 1] = 2;
    refuse(bytes.data, bytes.len);
    culm_buf_release(&bytes);
}

/* More vertices than any memory has room for. */
static void test_endless(void **state) {
    (void)state;
    struct culm_buf bytes;
    write_brief(&bytes, INT64_MAX, false);
    bytes.data[bytes.len - 1] = 1;
    refuse(bytes.data, bytes.len);
    culm_buf_release(&bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole),    cmocka_unit_test(test_cut_short),
        cmocka_unit_test(test_too_long), cmocka_unit_test(test_other_length),
        cmocka_unit_test(test_neither),  cmocka_unit_test(test_endless),
    };
    return cmocka_run_group_tests_name("run/gnn_brief", tests, NULL, NULL);
}

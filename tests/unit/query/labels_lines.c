/* Labels of a feed whose frames cannot be counted: more lines than there may be are refused. It is linked with a right.c
 * that stops at 1,000 in place of ten million. */
#include "query/labels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const struct culm_vision_model detector = {.kind = CULM_ANSWER_BOXES, .classes = 2};

static enum culm_status read_lines(int lines, int64_t frames, struct culm_labels *labels,
                                   struct culm_error *error) {
    char path[] = "/tmp/culm-right-lines-XXXXXX";
    int fd = mkstemp(path);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    assert_non_null(file);
    for (int i = 0; i < lines; i++) {
        fprintf(file, "{\"boxes\": []}\n");
    }
    assert_int_equal(fclose(file), 0);
    *labels = (struct culm_labels){0};
    enum culm_status status = culm_labels_read(path, "hall", frames, &detector, labels, error);
    unlink(path);
    return status;
}

static void test_lines(void **state) {
    struct culm_labels labels;
    struct culm_error error;
    (void)state;
    assert_int_equal(read_lines(1000, -1, &labels, &error), CULM_OK);
    assert_int_equal(labels.count, 1000);
    culm_labels_release(&labels);
    assert_int_equal(read_lines(1001, -1, &labels, &error), CULM_ERR_CONFIG);
    assert_non_null(strstr(error.text, "has more than 1000 lines"));
    assert_null(labels.answer);
    assert_int_equal(read_lines(1001, 1001, &labels, &error), CULM_OK); /* as many as there are */
    assert_int_equal(labels.count, 1001);
    culm_labels_release(&labels);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lines)};
    return cmocka_run_group_tests_name("query/labels_lines", tests, NULL, NULL);
}

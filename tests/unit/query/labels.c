/* Labels of detectors and of landmarks: what is read, and what is refused. */
#include "query/labels.h"

#include "base/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char path[64];
static const struct culm_vision_model detector = {.kind = CULM_ANSWER_BOXES, .classes = 2},
                                      face = {.kind = CULM_ANSWER_POINTS, .classes = 2},
                                      classifier = {.kind = CULM_ANSWER_CLASSES, .classes = 2};

static enum culm_status read_text(const char *text, int64_t frames,
                                  const struct culm_vision_model *model, struct culm_labels *labels,
                                  struct culm_error *error) {
    *labels = (struct culm_labels){0};
    assert_int_equal(culm_file_replace(NULL, path, text, strlen(text), error), CULM_OK);
    return culm_labels_read(path, "hall", frames, model, labels, error);
}

static void what_is_read(void **state) {
    struct culm_labels labels;
    struct culm_error error;
    (void)state;
    assert_true(culm_labels_suit(&detector) && culm_labels_suit(&face) &&
                !culm_labels_suit(&classifier));
    assert_int_equal(read_text("{\"file\": \"a\", \"frame\": 0, \"boxes\": [{\"class\": 1, "
                               "\"name\": \"cat\", \"score\": 0.3, "
                               "\"x\": -1.5, \"y\": 2, \"width\": 3, \"height\": 4}]}\n{\"frame\": "
                               "1, \"boxes\": []}\n",
                               2, &detector, &labels, &error),
                     CULM_OK);
    assert_int_equal(labels.count, 2);
    assert_int_equal(labels.answer[0].box_count, 1);
    assert_int_equal(labels.answer[0].box[0].class_index, 1);
    assert_true(labels.answer[0].box[0].x == -1.5F && labels.answer[0].box[0].height == 4);
    assert_int_equal(labels.answer[1].box_count, 0);
    culm_labels_release(&labels);
    /* Pictures of a folder are frame 0 of a file each. Without an end of line, and any number of frames. */
    assert_int_equal(
        read_text("{\"frame\": 0, \"points\": [{\"x\": 1, \"y\": 2}, {\"x\": 3.5, \"y\": 4}]}\n"
                  "{\"frame\": 0, \"points\": [{\"x\": 5, \"y\": 6}, {\"x\": 7, \"y\": 8}]}",
                  -1, &face, &labels, &error),
        CULM_OK);
    assert_int_equal(labels.count, 2);
    assert_true(labels.answer[0].point[1].x == 3.5F && labels.answer[1].point[1].y == 8);
    culm_labels_release(&labels);
}

static void what_is_refused(void **state) {
    static const struct {
        const char *text;
        const struct culm_vision_model *model;
        const char *says;
    } wrong[] = {
        {"{", &detector,
         "line 1: it is not a JSON object: string or '}' expected near end of file;"},
        {"{\"boxes\": []}\n{\"boxes\": [}\n", &detector,
         "line 2: it is not a JSON object: unexpected token near '}';"},
        {"\n", &detector, "line 1: it is not a JSON object: it is empty;"},
        {"[]\n", &detector, "line 1: it is not a JSON object;"},
        {"{\"points\": []}\n", &detector, "no \"boxes\""},
        {"{\"boxes\": []}\n", &face, "no \"points\""},
        {"{\"boxes\": []}\n", &detector, "has 1 lines, but the feed has 2 frames"},
        {"{\"boxes\": []}\n{\"boxes\": []}\n{\"boxes\": []}\n", &detector,
         "has more lines than the feed has frames, 2;"},
        {"{\"boxes\": []}\n{\"boxes\": []}\nwhatever", &detector,
         "has more lines than the feed has frames, 2;"},
        {"{\"boxes\": []}\n{\"frame\": 2, \"boxes\": []}\n", &detector, "line 2: it is of another"},
        {"{\"frame\": \"x\", \"boxes\": []}\n", &detector, "line 1: \"frame\" is the number"},
        {"{\"frame\": 1.5, \"boxes\": []}\n", &detector, "line 1: \"frame\" is the number"},
        {"{\"frame\": null, \"boxes\": []}\n", &detector, "line 1: \"frame\" is the number"},
        {"{\"boxes\": [], \"stale\": true}\n", &detector, "\"stale\""},
        {"{\"boxes\": [{\"class\": 2, \"x\": 0, \"y\": 0, \"width\": 1, \"height\": 1}]}\n",
         &detector, "a class 2, and the model has 2"},
        {"{\"boxes\": [{\"class\": -1, \"x\": 0, \"y\": 0, \"width\": 1, \"height\": 1}]}\n",
         &detector, "a box is"},
        {"{\"boxes\": [{\"class\": 0, \"x\": 0, \"y\": 0, \"width\": -1, \"height\": 1}]}\n",
         &detector, "a box is"},
        {"{\"boxes\": [{\"class\": 0, \"x\": 1e60, \"y\": 0, \"width\": 1, \"height\": 1}]}\n",
         &detector, "a box is"},
        {"{\"boxes\": [7]}\n", &detector, "a box is"},
        {"{\"points\": [{\"x\": 1, \"y\": 2}]}\n", &face, "1 points, and the model has 2"},
        {"{\"points\": [{\"x\": 1, \"y\": 2}, {\"x\": 1}]}\n", &face, "a point is"},
    };
    struct culm_labels labels;
    struct culm_error error;
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        culm_error_clear(&error);
        assert_int_equal(read_text(wrong[i].text, 2, wrong[i].model, &labels, &error),
                         CULM_ERR_CONFIG);
        if (!strstr(error.text, wrong[i].says)) {
            fail_msg("%s: '%s' does not say '%s'", wrong[i].text, error.text, wrong[i].says);
        }
        assert_null(labels.answer);
    }
    assert_int_equal(culm_labels_read("folders", "hall", 2, &detector, &labels, &error),
                     CULM_ERR_CONFIG);
    assert_int_equal(culm_labels_read("/nowhere", "hall", 2, &detector, &labels, &error),
                     CULM_ERR_CONFIG);
    assert_non_null(strstr(error.text, "/nowhere"));
}

static enum culm_status read_there(int64_t frames, struct culm_error *error) {
    struct culm_labels labels = {0};
    culm_error_clear(error);
    enum culm_status status = culm_labels_read(path, "hall", frames, &detector, &labels, error);
    assert_null(labels.answer);
    return status;
}

/* Neither is all of it read, nor waited for. */
static void what_is_no_file_of_lines(void **state) {
    struct culm_error error;
    (void)state;
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(truncate(path, (off_t)1 << 31), 0); /* a line of zeros, without an end */
    for (int64_t frames = -1; frames <= 2; frames += 3) {
        assert_int_equal(read_there(frames, &error), CULM_ERR_CONFIG);
        assert_non_null(strstr(error.text, "line 1: a line of more than 8 MB"));
    }
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(read_there(-1, &error), CULM_ERR_CONFIG);
    assert_non_null(strstr(error.text, "is a device or pipe, not a file"));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(read_there(2, &error), CULM_ERR_CONFIG);
    assert_non_null(strstr(error.text, "is a directory, not a file"));
    assert_int_equal(rmdir(path), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_read),
                                       cmocka_unit_test(what_is_refused),
                                       cmocka_unit_test(what_is_no_file_of_lines)};
    snprintf(path, sizeof path, "/tmp/culm-right-XXXXXX");
    int fd = mkstemp(path);
    if (fd < 0) {
        return 1;
    }
    close(fd);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}

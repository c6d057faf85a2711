/* Right answers, a line a frame. See right.h. */
#include "run/right.h"

#include "base/grow.h"

#include <jansson.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES_MAX (8u << 20)
#define BOXES_MAX CULM_VISION_BOXES_MAX

bool culm_right_is_for(const struct culm_vision_model *model) {
    return model->kind != CULM_ANSWER_CLASSES;
}

void culm_right_release(struct culm_right *right) {
    for (int64_t i = 0; i < right->count; i++) {
        culm_answer_release(&right->answer[i]);
    }
    free(right->answer);
    *right = (struct culm_right){0};
}

/* A line that is being read. */
struct place {
    const char *path;
    int64_t line; /* from 1 */
};

static enum culm_status wrong(const struct place *at, const char *what, struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_CONFIG, "labels '%s', line %lld: %s", at->path,
                          (long long)at->line, what);
}

static bool number(const json_t *object, const char *key, float *ret_value) {
    const json_t *value = json_object_get(object, key);
    *ret_value = (float)json_number_value(value);
    return json_is_number(value) && isfinite(*ret_value);
}

static enum culm_status read_boxes(const struct place *at, const json_t *list, int32_t classes,
                                   struct culm_answer *answer, struct culm_error *error) {
    size_t count = json_array_size(list);
    if (count > BOXES_MAX) {
        return wrong(at, "more than 4096 boxes", error);
    }
    if (!CULM_GROW(answer->box, answer->box_capacity, (int32_t)count + 1)) {
        return culm_error_set(error, CULM_ERR_MEMORY, "labels '%s': out of memory", at->path);
    }
    for (size_t i = 0; i < count; i++) {
        const json_t *from = json_array_get(list, i), *class = json_object_get(from, "class");
        struct culm_box *box = &answer->box[i];
        if (!json_is_integer(class) || json_integer_value(class) < 0 ||
            !number(from, "x", &box->x) || !number(from, "y", &box->y) ||
            !number(from, "width", &box->width) || !number(from, "height", &box->height) ||
            box->width < 0 || box->height < 0) {
            return wrong(at, "a box is a \"class\", from 0, \"x\", \"y\", \"width\" and \"height\"",
                         error);
        }
        if (json_integer_value(class) >= classes) {
            return culm_error_set(error, CULM_ERR_CONFIG,
                                  "labels '%s', line %lld: a class %lld, and the model has %d, "
                                  "counted from 0",
                                  at->path, (long long)at->line,
                                  (long long)json_integer_value(class), classes);
        }
        box->class_index = (int32_t)json_integer_value(class);
        box->score = 1;
    }
    answer->box_count = (int32_t)count;
    return CULM_OK;
}

static enum culm_status read_points(const struct place *at, const json_t *list, int32_t points,
                                    struct culm_answer *answer, struct culm_error *error) {
    if (json_array_size(list) != (size_t)points) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "labels '%s', line %lld: %zu points, and the model has %d", at->path,
                              (long long)at->line, json_array_size(list), points);
    }
    if (!CULM_GROW(answer->point, answer->point_capacity, points + 1)) {
        return culm_error_set(error, CULM_ERR_MEMORY, "labels '%s': out of memory", at->path);
    }
    for (int32_t i = 0; i < points; i++) {
        const json_t *from = json_array_get(list, (size_t)i);
        if (!number(from, "x", &answer->point[i].x) || !number(from, "y", &answer->point[i].y)) {
            return wrong(at, "a point is \"x\" and \"y\"", error);
        }
    }
    answer->point_count = points;
    return CULM_OK;
}

static enum culm_status read_line(const struct place *at, const json_t *object,
                                  const struct culm_vision_model *model, struct culm_answer *answer,
                                  struct culm_error *error) {
    const char *key = culm_answer_names[model->kind];
    const json_t *list = json_object_get(object, key), *frame = json_object_get(object, "frame");
    answer->kind = model->kind;
    if (!json_is_array(list)) {
        return culm_error_set(
            error, CULM_ERR_CONFIG,
            "labels '%s', line %lld: no \"%s\"; give a line of JSON for each frame, "
            "as `culm predict --json` writes",
            at->path, (long long)at->line, key);
    }
    if (json_is_true(json_object_get(object, "stale"))) {
        return wrong(at, "the answer to an older frame (\"stale\") is no label", error);
    }
    if (frame && json_integer_value(frame) != 0 && json_integer_value(frame) != at->line - 1) {
        return wrong(at, "it is of another frame; give one line for each, from the first frame on",
                     error);
    }
    return model->kind == CULM_ANSWER_BOXES ? read_boxes(at, list, model->classes, answer, error)
                                            : read_points(at, list, model->classes, answer, error);
}

static enum culm_status read_all(FILE *file, const char *path,
                                 const struct culm_vision_model *model, struct culm_right *right,
                                 struct culm_error *error) {
    struct place at = {.path = path};
    enum culm_status status = CULM_OK;
    char *line = NULL;
    size_t bytes = 0;
    int64_t capacity = 0;
    for (ssize_t len; status == CULM_OK && (len = getline(&line, &bytes, file)) > 0;) {
        json_error_t problem;
        json_t *object = (size_t)len <= LINE_BYTES_MAX
                             ? json_loadb(line, (size_t)len, JSON_REJECT_DUPLICATES, &problem)
                             : NULL;
        at.line++;
        if (!json_is_object(object)) {
            status = wrong(&at,
                           "it is no JSON object; labels of boxes and points are a line for "
                           "each frame, as `culm predict --json` writes",
                           error);
        } else if (!CULM_GROW(right->answer, capacity, right->count + 1)) {
            status = culm_error_set(error, CULM_ERR_MEMORY, "labels '%s': out of memory", path);
        } else {
            right->answer[right->count] = (struct culm_answer){0};
            status = read_line(&at, object, model, &right->answer[right->count++], error);
        }
        json_decref(object);
    }
    if (status == CULM_OK && ferror(file)) {
        status = culm_error_errno(error, errno, "read labels '%s'", path);
    }
    free(line);
    return status;
}

enum culm_status culm_right_read(const char *path, const char *name, int64_t frames,
                                 const struct culm_vision_model *model,
                                 struct culm_right *ret_right, struct culm_error *error) {
    struct culm_right right = {0};
    if (strcmp(path, "folders") == 0) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "labels: folders are for classifiers; this model answers with %s",
                              culm_answer_names[model->kind]);
    }
    FILE *file = fopen(path, "re");
    if (!file) {
        return culm_error_set(error, CULM_ERR_CONFIG, "labels '%s': %s", path, strerror(errno));
    }
    enum culm_status status = read_all(file, path, model, &right, error);
    fclose(file);
    if (status == CULM_OK && frames >= 0 && right.count != frames) {
        status = culm_error_set(error, CULM_ERR_CONFIG,
                                "feed '%s': labels '%s' has %lld lines, but the feed has %lld "
                                "frames; give one line for each",
                                name, path, (long long)right.count, (long long)frames);
    }
    if (status != CULM_OK) {
        culm_right_release(&right);
        return status;
    }
    *ret_right = right;
    return CULM_OK;
}

/* Right answers, a line a frame. See labels.h. */
#include "query/labels.h"

#include "base/grow.h"

#include <jansson.h>

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINE_BYTES_MAX ((size_t)8 << 20) /* as it is told: 8 MB */
#define BOXES_MAX CULM_VISION_BOXES_MAX
#ifndef CULM_LABELS_LINES_MAX          /* a test has fewer */
#define CULM_LABELS_LINES_MAX 10000000 /* of a feed whose frames cannot be counted */
#endif

bool culm_labels_suit(const struct culm_vision_model *model) {
    return model->kind != CULM_ANSWER_CLASSES;
}

void culm_labels_release(struct culm_labels *labels) {
    for (int64_t i = 0; i < labels->count; i++) {
        culm_answer_release(&labels->answer[i]);
    }
    free(labels->answer);
    *labels = (struct culm_labels){0};
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

/* Those of classes that count. */
static enum culm_status read_boxes(const struct place *at, const json_t *list,
                                   const struct culm_vision_model *model,
                                   struct culm_answer *answer, struct culm_error *error) {
    const int32_t classes = model->classes;
    size_t count = json_array_size(list);
    if (count > BOXES_MAX) {
        return wrong(at, "more than 4096 boxes", error);
    }
    if (!CULM_GROW(answer->box, answer->box_capacity, (int32_t)count + 1)) {
        return culm_error_set(error, CULM_ERR_MEMORY, "labels '%s': out of memory", at->path);
    }
    answer->box_count = 0;
    for (size_t i = 0; i < count; i++) {
        const json_t *from = json_array_get(list, i), *class = json_object_get(from, "class");
        struct culm_box *box = &answer->box[answer->box_count];
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
        answer->box_count += !model->counts || model->counts[box->class_index];
    }
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
        return wrong(at, "an answer marked \"stale\" cannot be used as a label", error);
    }
    if (frame && !json_is_integer(frame)) {
        return wrong(at, "\"frame\" is the number of the frame, from 0", error);
    }
    if (frame && json_integer_value(frame) != 0 && json_integer_value(frame) != at->line - 1) {
        return wrong(at, "it is of another frame; give one line for each, from the first frame on",
                     error);
    }
    return model->kind == CULM_ANSWER_BOXES ? read_boxes(at, list, model, answer, error)
                                            : read_points(at, list, model->classes, answer, error);
}

struct text {
    char *at;
    size_t len, capacity;
};

/* The line that begins here, without its end. */
static enum culm_status next_line(FILE *file, const struct place *at, struct text *line,
                                  struct culm_error *error) {
    int byte;
    line->len = 0;
    while ((byte = getc_unlocked(file)) != EOF && byte != '\n') {
        if (line->len == LINE_BYTES_MAX) {
            return wrong(at, "a line of more than 8 MB", error);
        }
        if (!CULM_GROW(line->at, line->capacity, line->len + 1)) {
            return culm_error_set(error, CULM_ERR_MEMORY, "labels '%s': out of memory", at->path);
        }
        line->at[line->len++] = (char)byte;
    }
    if (byte == EOF && !feof(file)) {
        return culm_error_errno(error, errno, "read labels '%s'", at->path);
    }
    return CULM_OK;
}

static enum culm_status take_line(const struct place *at, const struct text *line,
                                  const struct culm_vision_model *model, struct culm_answer *answer,
                                  struct culm_error *error) {
    json_error_t problem = {.text = "it is empty"};
    json_t *object =
        line->len ? json_loadb(line->at, line->len, JSON_REJECT_DUPLICATES, &problem) : NULL;
    enum culm_status status;
    if (json_is_object(object)) {
        status = read_line(at, object, model, answer, error);
    } else {
        status = culm_error_set(
            error, CULM_ERR_CONFIG,
            "labels '%s', line %lld: it is not a JSON object%s%s; labels of boxes and points are a "
            "line for each frame, as `culm predict --json` writes",
            at->path, (long long)at->line, object ? "" : ": ", object ? "" : problem.text);
    }
    json_decref(object);
    return status;
}

/* Whether one more line is still a frame's; it has not been read yet. */
static enum culm_status check_count(const char *path, const char *name, int64_t frames,
                                    int64_t lines, struct culm_error *error) {
    if (frames >= 0 && lines >= frames) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "feed '%s': labels '%s' has more lines than the feed has frames, "
                              "%lld; give one line for each",
                              name, path, (long long)frames);
    }
    return lines < CULM_LABELS_LINES_MAX || frames >= 0
               ? CULM_OK
               : culm_error_set(error, CULM_ERR_CONFIG,
                                "feed '%s': labels '%s' has more than %d lines", name, path,
                                CULM_LABELS_LINES_MAX);
}

static enum culm_status read_all(FILE *file, const char *path, const char *name, int64_t frames,
                                 const struct culm_vision_model *model, struct culm_labels *labels,
                                 struct culm_error *error) {
    struct place at = {.path = path};
    enum culm_status status = CULM_OK;
    struct text line = {0};
    int64_t capacity = 0;
    for (int byte; status == CULM_OK && (byte = getc_unlocked(file)) != EOF;) {
        ungetc(byte, file);
        at.line++;
        status = check_count(path, name, frames, labels->count, error);
        if (status == CULM_OK) {
            status = next_line(file, &at, &line, error);
        }
        if (status != CULM_OK) {
            break;
        }
        if (!CULM_GROW(labels->answer, capacity, labels->count + 1)) {
            status = culm_error_set(error, CULM_ERR_MEMORY, "labels '%s': out of memory", path);
        } else {
            labels->answer[labels->count] = (struct culm_answer){0};
            status = take_line(&at, &line, model, &labels->answer[labels->count++], error);
        }
    }
    if (status == CULM_OK && !feof(file)) {
        status = culm_error_errno(error, errno, "read labels '%s'", path);
    }
    free(line.at);
    return status;
}

/* A FIFO must give an error, not wait for a writer. */
static enum culm_status open_file(const char *path, FILE **ret_file, struct culm_error *error) {
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &info) != 0) {
        culm_error_set(error, CULM_ERR_CONFIG, "labels '%s': %s", path, strerror(errno));
    } else if (!S_ISREG(info.st_mode)) {
        culm_error_set(error, CULM_ERR_CONFIG, "labels '%s': is %s, not a file", path,
                       S_ISDIR(info.st_mode) ? "a directory" : "a device or pipe");
    } else if (!(*ret_file = fdopen(fd, "r"))) {
        culm_error_set(error, CULM_ERR_CONFIG, "labels '%s': %s", path, strerror(errno));
    } else {
        return CULM_OK;
    }
    if (fd >= 0) {
        close(fd);
    }
    return CULM_ERR_CONFIG;
}

enum culm_status culm_labels_read(const char *path, const char *name, int64_t frames,
                                  const struct culm_vision_model *model,
                                  struct culm_labels *ret_labels, struct culm_error *error) {
    struct culm_labels labels = {0};
    FILE *file = NULL;
    if (strcmp(path, "folders") == 0) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "labels: folders are for classifiers; this model answers with %s",
                              culm_answer_names[model->kind]);
    }
    enum culm_status status = open_file(path, &file, error);
    if (status != CULM_OK) {
        return status;
    }
    status = read_all(file, path, name, frames, model, &labels, error);
    fclose(file);
    if (status == CULM_OK && labels.count < frames) {
        status = culm_error_set(error, CULM_ERR_CONFIG,
                                "feed '%s': labels '%s' has %lld lines, but the feed has %lld "
                                "frames; give one line for each",
                                name, path, (long long)labels.count, (long long)frames);
    }
    if (status != CULM_OK) {
        culm_labels_release(&labels);
        return status;
    }
    *ret_labels = labels;
    return CULM_OK;
}

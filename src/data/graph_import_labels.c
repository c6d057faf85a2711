/* Labels of vertices from text: numbers as they are, words by the alphabet. */
#include "data/graph_import_labels.h"

#include "data/graph_import_text.h"
#include "data/lines.h"

#include "base/grow.h"
#include "base/json.h"

#include <stdlib.h>
#include <string.h>

#define CLASSES_MAX 65536
#define NO_LABEL "-1"

static enum culm_status no_memory(const struct culm_graph_labels *labels,
                                  struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "labels '%s': out of memory", labels->path);
}

void culm_graph_labels_release(struct culm_graph_labels *labels) {
    for (size_t v = 0; v < labels->count; v++) {
        free(labels->word[v]);
    }
    free(labels->word);
    *labels = (struct culm_graph_labels){0};
}

/* --- lines --- */

struct reading {
    struct culm_graph_labels labels;
    const struct culm_graph_room *room;
    struct culm_lines *lines;
    struct culm_error *error;
    enum { UNKNOWN, ALONE, WITH_ID } form; /* of the lines so far */
    bool begun;                            /* a line has been read */
    bool word_first; /* the first line is a single word, and may be a heading */
};

static enum culm_status keep(struct reading *r, int64_t vertex, const char *word, size_t len) {
    struct culm_graph_labels *labels = &r->labels;
    size_t count = (size_t)vertex + 1;
    if (count > labels->count) {
        enum culm_status status = culm_graph_room_check(r->room, vertex + 1, 0, r->error);
        if (status != CULM_OK) {
            culm_lines_prefix(r->lines, r->error);
            return status;
        }
        if (!CULM_GROW(labels->word, labels->capacity, count)) {
            return no_memory(labels, r->error);
        }
        memset(labels->word + labels->count, 0, (count - labels->count) * sizeof *labels->word);
        labels->count = count;
    }
    if (labels->word[vertex]) {
        return culm_lines_bad(r->lines, r->error, "vertex %lld has a label already",
                              (long long)vertex);
    }
    if (len == 0) {
        return culm_lines_bad(r->lines, r->error, "vertex %lld has an empty label",
                              (long long)vertex);
    }
    labels->word[vertex] = strndup(word, len);
    if (!labels->word[vertex]) {
        return no_memory(labels, r->error);
    }
    return culm_json_is_utf8(labels->word[vertex])
               ? CULM_OK
               : culm_lines_bad(r->lines, r->error,
                                "the label of vertex %lld is not UTF-8; convert the file",
                                (long long)vertex);
}

/* The first word was the name of the column. */
static void drop_heading(struct culm_graph_labels *labels) {
    free(labels->word[0]);
    labels->count--;
    memmove(labels->word, labels->word + 1, labels->count * sizeof *labels->word);
}

static enum culm_status read_line(struct reading *r, const char *line) {
    const char *word;
    size_t len;
    int64_t id;
    bool first = !r->begun, alone = culm_text_fields(line, &word, &len) == 1;
    bool with_id = !alone && culm_text_take_id(culm_text_skip_gap(line), &id);
    r->begun = true;
    if (first && alone) {
        r->word_first = !culm_text_is_number(word, len);
    } else if (first && !with_id && culm_text_is_heading(line)) {
        r->form = WITH_ID;
        return CULM_OK;
    } else if (with_id && r->word_first && r->labels.count == 1) {
        drop_heading(&r->labels);
        r->word_first = false;
        r->form = UNKNOWN;
    }
    if ((!alone && !with_id) || (alone && r->form == WITH_ID)) {
        return culm_lines_bad(r->lines, r->error, "'%.40s' is not a vertex id and a label", line);
    }
    if (with_id && r->form == ALONE) {
        return culm_lines_bad(r->lines, r->error,
                              "'%.40s' is not a label alone, as the lines before it are", line);
    }
    r->form = alone ? ALONE : WITH_ID;
    return keep(r, alone ? (int64_t)r->labels.count : id, word, len);
}

static bool only_numbers_follow(const struct culm_graph_labels *labels) {
    for (size_t v = 1; v < labels->count; v++) {
        if (!culm_text_is_number(labels->word[v], strlen(labels->word[v]))) {
            return false;
        }
    }
    return labels->count > 1;
}

enum culm_status culm_graph_labels_read(const char *path, const struct culm_graph_room *room,
                                        struct culm_graph_labels *ret_labels,
                                        struct culm_error *error) {
    struct reading r = {.labels = {.path = path}, .room = room, .error = error};
    char *line;
    enum culm_status status = culm_lines_open("labels", path, &r.lines, error);
    if (status != CULM_OK) {
        return status;
    }
    while (status == CULM_OK && (status = culm_lines_next(r.lines, &line, error)) == CULM_OK &&
           line) {
        status = culm_text_is_comment(line) ? CULM_OK : read_line(&r, line);
    }
    culm_lines_free(r.lines);
    if (status != CULM_OK) {
        culm_graph_labels_release(&r.labels);
        return status;
    }
    if (r.word_first && only_numbers_follow(&r.labels)) {
        drop_heading(&r.labels);
    }
    *ret_labels = r.labels;
    return CULM_OK;
}

/* --- classes --- */

static bool is_label(const char *word) { return word && strcmp(word, NO_LABEL) != 0; }

/* True: all labels are whole numbers. */
static bool are_numbers(const struct culm_graph_labels *labels) {
    for (size_t v = 0; v < labels->count; v++) {
        const char *word = labels->word[v];
        if (is_label(word) && (word[strspn(word, "0123456789")] || strlen(word) > 9)) {
            return false;
        }
    }
    return true;
}

static enum culm_status check_classes(const struct culm_graph_labels *labels, int64_t classes,
                                      struct culm_error *error) {
    if (classes > CLASSES_MAX) {
        return culm_error_set(error, CULM_ERR_FORMAT,
                              "labels '%s': %lld classes; at most %d are allowed", labels->path,
                              (long long)classes, CLASSES_MAX);
    }
    return classes > 0
               ? CULM_OK
               : culm_error_set(error, CULM_ERR_FORMAT, "labels '%s': has none", labels->path);
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The different labels in the order of their letters; returns how many. */
static size_t sort_different(const struct culm_graph_labels *labels, char **ret_sorted) {
    size_t count = 0, different = 0;
    for (size_t v = 0; v < labels->count; v++) {
        if (is_label(labels->word[v])) {
            ret_sorted[count++] = labels->word[v];
        }
    }
    qsort(ret_sorted, count, sizeof *ret_sorted, by_text);
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || strcmp(ret_sorted[i], ret_sorted[different - 1]) != 0) {
            ret_sorted[different++] = ret_sorted[i];
        }
    }
    return different;
}

static enum culm_status name_classes(const struct culm_graph_labels *labels, char **sorted,
                                     size_t different, struct culm_graph_data *graph,
                                     struct culm_error *error) {
    graph->classes = (int64_t)different;
    graph->class_name = calloc(different + 1, sizeof *graph->class_name);
    if (!graph->class_name) {
        return no_memory(labels, error);
    }
    for (size_t c = 0; c < different; c++) {
        graph->class_name[c] = strdup(sorted[c]);
        if (!graph->class_name[c]) {
            return no_memory(labels, error);
        }
    }
    return CULM_OK;
}

static enum culm_status number_words(const struct culm_graph_labels *labels,
                                     struct culm_graph_data *graph, struct culm_error *error) {
    char **sorted = malloc((labels->count + 1) * sizeof *sorted);
    if (!sorted) {
        return no_memory(labels, error);
    }
    size_t different = sort_different(labels, sorted);
    enum culm_status status = check_classes(labels, (int64_t)different, error);
    if (status == CULM_OK) {
        status = name_classes(labels, sorted, different, graph, error);
    }
    for (size_t v = 0; v < labels->count && status == CULM_OK; v++) {
        if (is_label(labels->word[v])) {
            char **at = bsearch(&labels->word[v], sorted, different, sizeof *sorted, by_text);
            graph->label[v] = (int32_t)(at - sorted);
        }
    }
    free(sorted);
    return status;
}

enum culm_status culm_graph_labels_set(const struct culm_graph_labels *labels,
                                       struct culm_graph_data *graph, struct culm_error *error) {
    graph->label = malloc((size_t)graph->vertices * sizeof *graph->label);
    if (!graph->label) {
        return no_memory(labels, error);
    }
    memset(graph->label, 0xff, (size_t)graph->vertices * sizeof *graph->label);
    if (!are_numbers(labels)) {
        return number_words(labels, graph, error);
    }
    for (size_t v = 0; v < labels->count; v++) {
        int32_t label = labels->word[v] ? (int32_t)strtol(labels->word[v], NULL, 10) : -1;
        graph->label[v] = label;
        graph->classes = label >= graph->classes ? (int64_t)label + 1 : graph->classes;
    }
    return check_classes(labels, graph->classes, error);
}

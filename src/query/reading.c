/* How a model is to be read, as names and texts. See reading.h. */
#include "query/reading.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const culm_query_decode_names[] = {
    [CULM_DECODE_AUTO] = "auto",     [CULM_DECODE_DARKNET] = "darknet",
    [CULM_DECODE_YOLOV5] = "yolov5", [CULM_DECODE_YOLOV8] = "yolov8",
    [CULM_DECODE_SSD] = "ssd",       [CULM_DECODE_DETR] = "detr",
    [CULM_DECODE_BOXES] = "boxes",   [CULM_DECODE_CLASSES] = "classes",
    [CULM_DECODE_POINTS] = "points", NULL};
const char *const culm_query_fit_names[] = {[CULM_FIT_AUTO] = "auto",
                                            [CULM_FIT_STRETCH] = "stretch",
                                            [CULM_FIT_LETTERBOX] = "letterbox",
                                            NULL};
const char *const culm_query_colors_names[] = {
    [CULM_COLORS_RGB] = "rgb", [CULM_COLORS_BGR] = "bgr", NULL};

static bool read_side(const char **text, int32_t *ret_side) {
    char *end;
    if (**text < '1' || **text > '9') {
        return false;
    }
    const long side = strtol(*text, &end, 10);
    *text = end;
    *ret_side = side > CULM_QUERY_SIDE_MAX ? 0 : (int32_t)side;
    return side <= CULM_QUERY_SIDE_MAX;
}

bool culm_query_size_read(const char *text, int32_t *ret_width, int32_t *ret_height) {
    int32_t width = 0, height = 0;
    if (!read_side(&text, &width)) {
        return false;
    }
    height = width;
    if (*text == 'x' && (text++, !read_side(&text, &height))) {
        return false;
    }
    if (*text) {
        return false;
    }
    *ret_width = width;
    *ret_height = height;
    return true;
}

void culm_query_reading_text(const struct culm_query_reading *reading,
                             char ret_text[CULM_QUERY_READING_TEXT]) {
    char decode[24] = "", fit[24] = "", colors[24] = "", size[32] = "";
    if (reading->decode != CULM_DECODE_AUTO) {
        snprintf(decode, sizeof decode, " decode=%s", culm_query_decode_names[reading->decode]);
    }
    if (reading->fit != CULM_FIT_AUTO) {
        snprintf(fit, sizeof fit, " fit=%s", culm_query_fit_names[reading->fit]);
    }
    if (reading->colors != CULM_COLORS_RGB) {
        snprintf(colors, sizeof colors, " colors=%s", culm_query_colors_names[reading->colors]);
    }
    if (reading->width > 0) {
        snprintf(size, sizeof size, " size=%dx%d", (int)reading->width, (int)reading->height);
    }
    char all[CULM_QUERY_READING_TEXT + 1];
    snprintf(all, sizeof all, "%s%s%s%s", decode, fit, colors, size);
    snprintf(ret_text, CULM_QUERY_READING_TEXT, "%s", all[0] ? all + 1 : "");
}

/* The index of a word among names; -1: it is none of them. */
static int find(const char *const *names, const char *word) {
    for (int i = 0; names[i]; i++) {
        if (strcmp(names[i], word) == 0) {
            return i;
        }
    }
    return -1;
}

static bool read_word(const char *word, struct culm_query_reading *reading) {
    const char *value = strchr(word, '=');
    int found = -1;
    if (!value++) {
        return false;
    }
    if (strncmp(word, "decode=", 7) == 0) {
        found = find(culm_query_decode_names, value);
        reading->decode = found < 0 ? CULM_DECODE_AUTO : (enum culm_query_decode)found;
    } else if (strncmp(word, "fit=", 4) == 0) {
        found = find(culm_query_fit_names, value);
        reading->fit = found < 0 ? CULM_FIT_AUTO : (enum culm_query_fit)found;
    } else if (strncmp(word, "colors=", 7) == 0) {
        found = find(culm_query_colors_names, value);
        reading->colors = found < 0 ? CULM_COLORS_RGB : (enum culm_query_colors)found;
    } else if (strncmp(word, "size=", 5) == 0) {
        found = culm_query_size_read(value, &reading->width, &reading->height) ? 0 : -1;
    }
    return found >= 0;
}

bool culm_query_reading_read(const char *text, struct culm_query_reading *ret_reading) {
    struct culm_query_reading reading = {0};
    while (*text) {
        char word[32];
        const size_t len = strcspn(text, " ");
        if (len >= sizeof word || len == 0) {
            return false;
        }
        memcpy(word, text, len);
        word[len] = '\0';
        if (!read_word(word, &reading)) {
            return false;
        }
        text += len;
        text += *text == ' ';
    }
    *ret_reading = reading;
    return true;
}

/* *ret_index: of a word that is given among names. */
static enum culm_status choose(const char *what, const char *word, const char *const *names,
                               int *ret_index, struct culm_error *error) {
    char all[128];
    size_t len = 0;
    const int found = word ? find(names, word) : 0;
    for (int i = 0; names[i] && found < 0 && len < sizeof all; i++) {
        len += (size_t)snprintf(all + len, sizeof all - len, "%s%s", i ? ", " : "", names[i]);
    }
    *ret_index = found;
    return found < 0 ? culm_error_set(error, CULM_ERR_CONFIG,
                                      "%s '%.40s' is not known; allowed: %s", what, word, all)
                     : CULM_OK;
}

bool culm_query_same_classes(const struct culm_query_reading *a,
                             const struct culm_query_reading *b) {
    bool same = a->class_count == b->class_count;
    for (size_t i = 0; i < a->class_count && same; i++) {
        same = strcmp(a->classes[i], b->classes[i]) == 0;
    }
    return same;
}

enum culm_status culm_query_reading_from(const char *decode, const char *fit, const char *colors,
                                         const char *size, struct culm_query_reading *ret_reading,
                                         struct culm_error *error) {
    int index[3];
    struct culm_query_reading reading = {0};
    enum culm_status status;
    if ((status = choose("decode", decode, culm_query_decode_names, &index[0], error)) ||
        (status = choose("fit", fit, culm_query_fit_names, &index[1], error)) ||
        (status = choose("colors", colors, culm_query_colors_names, &index[2], error))) {
        return status;
    }
    reading.decode = (enum culm_query_decode)index[0];
    reading.fit = (enum culm_query_fit)index[1];
    reading.colors = (enum culm_query_colors)index[2];
    if (size && !culm_query_size_read(size, &reading.width, &reading.height)) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "size '%.40s'; write WIDTHxHEIGHT, or one number for both, each 1 to "
                              "%d",
                              size, CULM_QUERY_SIDE_MAX);
    }
    *ret_reading = reading;
    return CULM_OK;
}

/* One value: from a scalar, or a list of scalars, to the member that its row describes. */
#include "base/config_row.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum culm_status culm_config_fail(const struct culm_config_mark *mark, struct culm_error *error,
                                  const char *format, ...) {
    char path[160];
    va_list args;
    va_start(args, format);
    culm_error_setv(error, CULM_ERR_CONFIG, format, args);
    va_end(args);
    culm_config_path(mark->place, mark->key, path, sizeof path);
    culm_error_prefix(error, "%s", path);
    if (mark->in_set) {
        culm_error_prefix(error, "--set");
    } else {
        culm_error_prefix(error, "%s:%d", mark->place->file, mark->line);
    }
    return CULM_ERR_CONFIG;
}

static enum culm_status wrong_type(const struct culm_config_mark *mark,
                                   const struct culm_config_row *row, const struct culm_yaml *node,
                                   struct culm_error *error) {
    struct culm_config_mark here = *mark;
    char found[96], range[256];
    here.line = node->line; /* of the item in a list */
    culm_config_row_range(row, range, sizeof range);
    if (node->kind == CULM_YAML_SCALAR && culm_yaml_is_null(node)) {
        return culm_config_fail(&here, error, "has no value; allowed: %s", range);
    }
    if (node->kind == CULM_YAML_SCALAR && !*node->text) {
        return culm_config_fail(&here, error, "is empty; allowed: %s", range);
    }
    return culm_config_fail(&here, error, "%s is not %s; allowed: %s",
                            culm_yaml_describe(node, found, sizeof found),
                            culm_config_row_noun(row), range);
}

static enum culm_status out_of_range(const struct culm_config_mark *mark,
                                     const struct culm_config_row *row,
                                     const struct culm_yaml *node, struct culm_error *error) {
    char range[256];
    culm_config_row_range(row, range, sizeof range);
    return culm_config_fail(mark, error, "%.40s is out of range; allowed: %s", node->text, range);
}

static enum culm_status no_memory(const struct culm_config_mark *mark, struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "%s: out of memory", mark->place->file);
}

/* -?(0|[1-9][0-9]*) */
static bool is_whole(const char *text) {
    const char *digits = text + (*text == '-');
    size_t len = strspn(digits, "0123456789");
    return len > 0 && digits[len] == '\0' && (len == 1 || *digits != '0');
}

static enum culm_status assign_int(const struct culm_config_mark *mark,
                                   const struct culm_config_row *row, const struct culm_yaml *node,
                                   char *at, struct culm_error *error) {
    errno = 0;
    if (node->quoted || !is_whole(node->text)) {
        return wrong_type(mark, row, node, error);
    }
    if (row->type == CULM_CONFIG_TYPE_U64) {
        uint64_t value = strtoull(node->text, NULL, 10);
        if (errno || *node->text == '-') {
            return out_of_range(mark, row, node, error);
        }
        memcpy(at, &value, sizeof value);
        return CULM_OK;
    }
    int64_t value = strtoll(node->text, NULL, 10);
    if (errno || value < row->min || value > row->max) {
        return out_of_range(mark, row, node, error);
    }
    memcpy(at, &value, sizeof value);
    return CULM_OK;
}

static enum culm_status assign_real(const struct culm_config_mark *mark,
                                    const struct culm_config_row *row, const struct culm_yaml *node,
                                    char *at, struct culm_error *error) {
    const char *text = node->text;
    char *end;
    double value = strtod(text, &end);
    /* strtod also knows hexadecimal, inf and nan. */
    if (node->quoted || end == text || *end || text[strspn(text, "0123456789+-.eE")]) {
        return wrong_type(mark, row, node, error);
    }
    bool low_ok = row->flags & CULM_CONFIG_ABOVE ? value > row->low : value >= row->low;
    bool high_ok = row->flags & CULM_CONFIG_BELOW ? value < row->high : value <= row->high;
    if (!isfinite(value) || !low_ok || !high_ok) {
        return out_of_range(mark, row, node, error);
    }
    memcpy(at, &value, sizeof value);
    return CULM_OK;
}

static enum culm_status assign_word(const struct culm_config_mark *mark,
                                    const struct culm_config_row *row, const struct culm_yaml *node,
                                    char *at, struct culm_error *error) {
    int index = culm_word_find(row->words, node->text);
    if (index < 0) {
        char found[96], range[256];
        culm_config_row_range(row, range, sizeof range);
        return culm_config_fail(mark, error, "%s is not known; allowed: %s",
                                culm_yaml_describe(node, found, sizeof found), range);
    }
    if (row->type == CULM_CONFIG_TYPE_ENUM) {
        memcpy(at, &index, sizeof index);
    } else {
        bool value = index == 1;
        memcpy(at, &value, sizeof value);
    }
    return CULM_OK;
}

void culm_config_release_texts(struct culm_config_texts *texts) {
    for (size_t i = 0; i < texts->count; i++) {
        free(texts->texts[i]);
    }
    free(texts->texts);
    *texts = (struct culm_config_texts){0};
}

/* The scalars of a node: itself, or those of the list that it is. */
static const struct culm_yaml *const *items_of(const struct culm_yaml *const *node,
                                               size_t *ret_count) {
    bool list = (*node)->kind == CULM_YAML_LIST;
    *ret_count = list ? (*node)->count : 1;
    return list ? (const struct culm_yaml *const *)(*node)->items : node;
}

static bool is_text(const struct culm_yaml *node) {
    return node->kind == CULM_YAML_SCALAR && !culm_yaml_is_null(node) && *node->text;
}

static enum culm_status assign_text(const struct culm_config_mark *mark,
                                    const struct culm_config_row *row, const struct culm_yaml *node,
                                    char *at, struct culm_error *error) {
    size_t count;
    const struct culm_yaml *const *items = items_of(&node, &count);
    char *text = NULL, *old;
    if (count > 1) {
        return culm_config_fail(mark, error, "is a list of %zu; allowed: %s", count, row->allowed);
    }
    if (count && items[0]->kind == CULM_YAML_SCALAR && items[0]->quoted && !*items[0]->text &&
        row->flags & CULM_CONFIG_EMPTY) {
        count = 0; /* "" is written by those who mean none */
    }
    if (count == 1 ? !is_text(items[0]) : !(row->flags & CULM_CONFIG_EMPTY)) {
        return wrong_type(mark, row, count ? items[0] : node, error);
    }
    if (count && !(text = strdup(items[0]->text))) {
        return no_memory(mark, error);
    }
    memcpy(&old, at, sizeof old);
    free(old);
    memcpy(at, &text, sizeof text);
    return CULM_OK;
}

static enum culm_status assign_texts(const struct culm_config_mark *mark,
                                     const struct culm_config_row *row,
                                     const struct culm_yaml *node, char *at,
                                     struct culm_error *error) {
    size_t count;
    const struct culm_yaml *const *items = items_of(&node, &count);
    if (count == 0 && !(row->flags & CULM_CONFIG_EMPTY)) {
        char range[256];
        culm_config_row_range(row, range, sizeof range);
        return culm_config_fail(mark, error, "is an empty list; allowed: %s", range);
    }
    for (size_t i = 0; i < count; i++) {
        if (!is_text(items[i])) {
            return wrong_type(mark, row, items[i], error);
        }
    }
    struct culm_config_texts made = {.texts = count ? calloc(count, sizeof *made.texts) : NULL};
    bool ok = made.texts != NULL || count == 0;
    for (; ok && made.count < count; made.count += ok) {
        made.texts[made.count] = strdup(items[made.count]->text);
        ok = made.texts[made.count] != NULL;
    }
    if (!ok) {
        culm_config_release_texts(&made);
        return no_memory(mark, error);
    }
    struct culm_config_texts old;
    memcpy(&old, at, sizeof old);
    culm_config_release_texts(&old);
    memcpy(at, &made, sizeof made);
    return CULM_OK;
}

static enum culm_status assign_ints(const struct culm_config_mark *mark,
                                    const struct culm_config_row *row, const struct culm_yaml *node,
                                    char *at, struct culm_error *error) {
    size_t count, room = row->size / sizeof(int64_t);
    const struct culm_yaml *const *items = items_of(&node, &count);
    if (count > room) {
        return culm_config_fail(mark, error, "is a list of %zu; allowed: %s", count, row->allowed);
    }
    for (size_t i = 0; i < count; i++) {
        struct culm_yaml item = *items[i];
        item.quoted = false; /* they were texts once, and dumped as such */
        if (!is_text(&item)) {
            return wrong_type(mark, row, items[i], error);
        }
        enum culm_status status = assign_int(mark, row, &item, at + i * sizeof(int64_t), error);
        if (status != CULM_OK) {
            return status;
        }
    }
    memset(at + count * sizeof(int64_t), 0, (room - count) * sizeof(int64_t));
    return CULM_OK;
}

enum culm_status culm_config_assign(const struct culm_config_mark *mark,
                                    const struct culm_config_row *row, const struct culm_yaml *node,
                                    void *object, struct culm_error *error) {
    struct culm_config_mark here = *mark;
    char *at = (char *)object + row->offset;
    here.key = row->key;
    here.line = node->line;
    switch (row->type) {
    case CULM_CONFIG_TYPE_TEXT: return assign_text(&here, row, node, at, error);
    case CULM_CONFIG_TYPE_TEXTS: return assign_texts(&here, row, node, at, error);
    case CULM_CONFIG_TYPE_INTS: return assign_ints(&here, row, node, at, error);
    default: break;
    }
    if (node->kind != CULM_YAML_SCALAR || culm_yaml_is_null(node)) {
        return wrong_type(&here, row, node, error);
    }
    switch (row->type) {
    case CULM_CONFIG_TYPE_REAL: return assign_real(&here, row, node, at, error);
    case CULM_CONFIG_TYPE_ENUM:
    case CULM_CONFIG_TYPE_BOOL: return assign_word(&here, row, node, at, error);
    default: return assign_int(&here, row, node, at, error);
    }
}

/*
 * Reading: file, then sets, then defaults, each value through the one function `assign`. Dumping
 * and documenting are in config_text.c.
 */
#include "base/config.h"

#include "base/config_row.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reading {
    const struct culm_config_table *table;
    const char *name;
    bool in_set; /* the value comes from --set, not from the file */
    void *object;
    struct culm_config_origins *origins;
    int section_line[CULM_CONFIG_MAX_ROWS]; /* of the section a row belongs to; 0: not there */
    struct culm_error *error;
};

/* A key as it may stand in a one-line message. */
static const char *printable(const char *key, char buffer[64]) {
    size_t i = 0;
    for (; key[i] && i < 60; i++) {
        buffer[i] = (unsigned char)key[i] < 0x20 || key[i] == 0x7F ? '?' : key[i];
    }
    buffer[i] = '\0';
    return buffer;
}

static enum culm_status fail(const struct reading *r, int line, const char *key, const char *format,
                             ...) __attribute__((format(printf, 4, 5)));

static enum culm_status fail(const struct reading *r, int line, const char *key, const char *format,
                             ...) {
    char shown[64];
    va_list args;
    va_start(args, format);
    culm_error_setv(r->error, CULM_ERR_CONFIG, format, args);
    va_end(args);
    culm_error_prefix(r->error, "%s", printable(key, shown));
    if (r->in_set) {
        culm_error_prefix(r->error, "--set");
    } else {
        culm_error_prefix(r->error, "%s:%d", r->name, line);
    }
    return CULM_ERR_CONFIG;
}

/* --- one value ------------------------------------------------------------------------------- */

static enum culm_status wrong_type(const struct reading *r, const struct culm_config_row *row,
                                   const struct culm_yaml *node) {
    char found[96], range[256];
    culm_config_row_range(row, range, sizeof range);
    if (node->kind == CULM_YAML_SCALAR && culm_yaml_is_null(node)) {
        return fail(r, node->line, row->key, "has no value; allowed: %s", range);
    }
    return fail(r, node->line, row->key, "%s is not %s; allowed: %s",
                culm_yaml_describe(node, found, sizeof found), culm_config_row_noun(row), range);
}

static enum culm_status out_of_range(const struct reading *r, const struct culm_config_row *row,
                                     const struct culm_yaml *node) {
    char range[256];
    culm_config_row_range(row, range, sizeof range);
    return fail(r, node->line, row->key, "%.40s is out of range; allowed: %s", node->text, range);
}

/* -?(0|[1-9][0-9]*) */
static bool is_whole(const char *text) {
    const char *digits = text + (*text == '-');
    size_t len = strspn(digits, "0123456789");
    return len > 0 && digits[len] == '\0' && (len == 1 || *digits != '0');
}

static enum culm_status assign_int(const struct reading *r, const struct culm_config_row *row,
                                   const struct culm_yaml *node, char *at) {
    if (node->quoted || !is_whole(node->text)) {
        return wrong_type(r, row, node);
    }
    errno = 0;
    if (row->type == CULM_CONFIG_TYPE_U64) {
        uint64_t value = strtoull(node->text, NULL, 10);
        if (errno || *node->text == '-') {
            return out_of_range(r, row, node);
        }
        memcpy(at, &value, sizeof value);
        return CULM_OK;
    }
    int64_t value = strtoll(node->text, NULL, 10);
    if (errno || value < row->min || value > row->max) {
        return out_of_range(r, row, node);
    }
    memcpy(at, &value, sizeof value);
    return CULM_OK;
}

static enum culm_status assign_real(const struct reading *r, const struct culm_config_row *row,
                                    const struct culm_yaml *node, char *at) {
    const char *text = node->text;
    char *end;
    double value = strtod(text, &end);
    /* strtod also knows hexadecimal, inf and nan. */
    if (node->quoted || end == text || *end || text[strspn(text, "0123456789+-.eE")]) {
        return wrong_type(r, row, node);
    }
    bool low_ok = row->flags & CULM_CONFIG_ABOVE ? value > row->low : value >= row->low;
    bool high_ok = row->flags & CULM_CONFIG_BELOW ? value < row->high : value <= row->high;
    if (!isfinite(value) || !low_ok || !high_ok) {
        return out_of_range(r, row, node);
    }
    memcpy(at, &value, sizeof value);
    return CULM_OK;
}

static enum culm_status assign_choice(const struct reading *r, const struct culm_config_row *row,
                                      const struct culm_yaml *node, char *at) {
    int index = culm_config_row_choice(row, node->text);
    if (index < 0) {
        char found[96], range[256];
        culm_config_row_range(row, range, sizeof range);
        return fail(r, node->line, row->key, "%s is not known; allowed: %s",
                    culm_yaml_describe(node, found, sizeof found), range);
    }
    if (row->type == CULM_CONFIG_TYPE_ENUM) {
        memcpy(at, &index, sizeof index);
    } else if (row->type == CULM_CONFIG_TYPE_BOOL) {
        bool value = index == 1;
        memcpy(at, &value, sizeof value);
    } else {
        assert(strlen(node->text) < row->size);
        memset(at, 0, row->size);
        memcpy(at, node->text, strlen(node->text));
    }
    return CULM_OK;
}

static void free_paths(struct culm_config_paths *paths) {
    for (size_t i = 0; i < paths->count; i++) {
        free(paths->paths[i]);
    }
    free(paths->paths);
    *paths = (struct culm_config_paths){0};
}

static enum culm_status assign_paths(const struct reading *r, const struct culm_config_row *row,
                                     const struct culm_yaml *node, char *at) {
    const struct culm_yaml *one[] = {node};
    const struct culm_yaml *const *items = one;
    size_t count = 1;
    if (node->kind == CULM_YAML_LIST) {
        items = (const struct culm_yaml *const *)node->items;
        count = node->count;
    }
    if (count == 0 && row->flags & CULM_CONFIG_EMPTY) {
        struct culm_config_paths old, none = {0};
        memcpy(&old, at, sizeof old);
        free_paths(&old);
        memcpy(at, &none, sizeof none);
        return CULM_OK;
    }
    if (count == 0) {
        return fail(r, node->line, row->key, "is an empty list; allowed: %s",
                    "a path or a list of paths");
    }
    for (size_t i = 0; i < count; i++) {
        if (items[i]->kind != CULM_YAML_SCALAR || culm_yaml_is_null(items[i]) || !*items[i]->text) {
            return wrong_type(r, row, items[i]);
        }
    }
    struct culm_config_paths made = {.paths = calloc(count, sizeof *made.paths)};
    bool ok = made.paths != NULL;
    for (; ok && made.count < count; made.count += ok) {
        made.paths[made.count] = strdup(items[made.count]->text);
        ok = made.paths[made.count] != NULL;
    }
    if (!ok) {
        free_paths(&made);
        return culm_error_set(r->error, CULM_ERR_MEMORY, "%s: out of memory", r->name);
    }
    struct culm_config_paths old;
    memcpy(&old, at, sizeof old);
    free_paths(&old);
    memcpy(at, &made, sizeof made);
    return CULM_OK;
}

static enum culm_status assign(struct reading *r, size_t index, const struct culm_yaml *node) {
    const struct culm_config_row *row = &r->table->rows[index];
    char *at = (char *)r->object + row->offset;
    enum culm_status status;
    if (row->type == CULM_CONFIG_TYPE_PATHS) {
        status = assign_paths(r, row, node, at);
    } else if (node->kind != CULM_YAML_SCALAR || culm_yaml_is_null(node)) {
        status = wrong_type(r, row, node);
    } else if (row->type == CULM_CONFIG_TYPE_REAL) {
        status = assign_real(r, row, node, at);
    } else if (row->type == CULM_CONFIG_TYPE_WORD || row->type == CULM_CONFIG_TYPE_ENUM ||
               row->type == CULM_CONFIG_TYPE_BOOL) {
        status = assign_choice(r, row, node, at);
    } else {
        status = assign_int(r, row, node, at);
    }
    if (status == CULM_OK && r->in_set) {
        r->origins->from_set[index] = true;
    } else if (status == CULM_OK) {
        r->origins->line[index] = node->key_line;
    }
    return status;
}

/* --- keys ------------------------------------------------------------------------------------ */

static size_t find_row(const struct culm_config_table *table, const char *key) {
    size_t i = 0;
    while (i < table->count && strcmp(table->rows[i].key, key)) {
        i++;
    }
    return i;
}

static bool in_section(const struct culm_config_row *row, const char *section) {
    size_t len = strlen(section);
    return !strncmp(row->key, section, len) && row->key[len] == '.';
}

static bool is_section(const struct culm_config_table *table, const char *key) {
    for (size_t i = 0; i < table->count; i++) {
        if (in_section(&table->rows[i], key)) {
            return true;
        }
    }
    return false;
}

/* What may stand in `section`, or at the top when it is NULL: "a|b|c". */
static void list_words(const struct culm_config_table *table, const char *section,
                       struct culm_buf *words) {
    const char *last = "";
    for (size_t i = 0; i < table->count; i++) {
        const char *key = table->rows[i].key, *dot = strchr(key, '.');
        size_t len = section || !dot ? strlen(key) : (size_t)(dot - key);
        if (section && !in_section(&table->rows[i], section)) {
            continue;
        }
        if (!section && !strncmp(key, last, len) && (last[len] == '.' || !last[len])) {
            continue; /* the same section again */
        }
        last = key;
        size_t skip = section ? strlen(section) + 1 : 0;
        culm_buf_printf(words, "%s%.*s", words->len ? "|" : "", (int)(len - skip), key + skip);
    }
}

/* The row of another section (or of none) that ends in `name`. */
static const char *find_elsewhere(const struct culm_config_table *table, const char *name) {
    for (size_t i = 0; i < table->count; i++) {
        const char *dot = strrchr(table->rows[i].key, '.');
        if (!strcmp(dot ? dot + 1 : table->rows[i].key, name)) {
            return table->rows[i].key;
        }
    }
    return NULL;
}

static enum culm_status unknown_key(const struct reading *r, int line, const char *section,
                                    const char *name) {
    char full[192], near[64];
    snprintf(full, sizeof full, "%s%s%.100s", section ? section : "", section ? "." : "", name);
    struct culm_buf words;
    culm_buf_init(&words, 4096);
    list_words(r->table, section, &words);
    enum culm_status status;
    const char *elsewhere = find_elsewhere(r->table, name);
    if (words.failed) {
        status = fail(r, line, full, "unknown key");
    } else if (culm_config_nearest(name, (const char *)words.data, near)) {
        status = fail(r, line, full, "unknown key; did you mean '%s%s%s'", section ? section : "",
                      section ? "." : "", near);
    } else if (elsewhere) {
        status = fail(r, line, full, "unknown key; did you mean '%s'", elsewhere);
    } else {
        char list[400];
        culm_config_words_list((const char *)words.data, list, sizeof list);
        status = fail(r, line, full, "unknown key; allowed%s%s: %s", section ? " in " : "",
                      section ? section : "", list);
    }
    culm_buf_release(&words);
    return status;
}

static enum culm_status apply_section(struct reading *r, const char *section,
                                      const struct culm_yaml *node) {
    for (size_t i = 0; i < r->table->count && !r->in_set; i++) {
        if (in_section(&r->table->rows[i], section)) {
            r->section_line[i] = node->key_line;
        }
    }
    if (node->kind == CULM_YAML_SCALAR && culm_yaml_is_null(node)) {
        return CULM_OK; /* a section whose keys are all commented out */
    }
    if (node->kind != CULM_YAML_MAP) {
        char found[96], list[400];
        struct culm_buf words;
        culm_buf_init(&words, 4096);
        list_words(r->table, section, &words);
        culm_config_words_list(words.failed ? "" : (const char *)words.data, list, sizeof list);
        culm_buf_release(&words);
        return fail(r, node->line, section, "%s is not a map of keys; allowed keys: %s",
                    culm_yaml_describe(node, found, sizeof found), list);
    }
    for (size_t i = 0; i < node->count; i++) {
        const struct culm_yaml *item = node->items[i];
        char full[192];
        int len = snprintf(full, sizeof full, "%s.%s", section, item->key);
        size_t row = len < (int)sizeof full ? find_row(r->table, full) : r->table->count;
        enum culm_status status = row < r->table->count
                                      ? assign(r, row, item)
                                      : unknown_key(r, item->key_line, section, item->key);
        if (status != CULM_OK) {
            return status;
        }
    }
    return CULM_OK;
}

static enum culm_status apply_file(struct reading *r, const struct culm_yaml *root) {
    if (root->kind != CULM_YAML_MAP) {
        char found[96];
        return culm_error_set(r->error, CULM_ERR_CONFIG,
                              "%s:%d: %s is not a configuration; write 'key: value' lines", r->name,
                              root->line, culm_yaml_describe(root, found, sizeof found));
    }
    for (size_t i = 0; i < root->count; i++) {
        const struct culm_yaml *item = root->items[i];
        size_t row = find_row(r->table, item->key);
        const char *dot = strchr(item->key, '.');
        enum culm_status status;
        if (row < r->table->count && dot) {
            status = fail(r, item->key_line, item->key, "a dotted key; write '%.*s: {%s: ...}'",
                          (int)(dot - item->key), item->key, dot + 1);
        } else if (row < r->table->count) {
            status = assign(r, row, item);
        } else if (is_section(r->table, item->key)) {
            status = apply_section(r, item->key, item);
        } else {
            status = unknown_key(r, item->key_line, NULL, item->key);
        }
        if (status != CULM_OK) {
            return status;
        }
    }
    return CULM_OK;
}

static enum culm_status apply_set_value(struct reading *r, const char *key,
                                        const struct culm_yaml *value) {
    size_t row = find_row(r->table, key);
    if (row < r->table->count) {
        return assign(r, row, value);
    }
    if (is_section(r->table, key)) {
        return apply_section(r, key, value);
    }
    const char *dot = strchr(key, '.');
    char section[64];
    if (dot && (size_t)(dot - key) < sizeof section) {
        snprintf(section, sizeof section, "%.*s", (int)(dot - key), key);
        if (is_section(r->table, section)) {
            return unknown_key(r, 0, section, dot + 1);
        }
    }
    return unknown_key(r, 0, NULL, key);
}

static enum culm_status apply_set(struct reading *r, const char *set) {
    const char *equals = strchr(set, '=');
    if (!equals || equals == set || equals - set > 128) {
        char shown[64];
        return culm_error_set(r->error, CULM_ERR_ARGUMENT,
                              "--set: '%s': no key and value; write --set key.sub=value",
                              printable(set, shown));
    }
    char key[132];
    snprintf(key, sizeof key, "%.*s", (int)(equals - set), set);
    const char *text = equals + 1;

    struct culm_yaml *value = NULL;
    struct culm_error problem = {0};
    enum culm_status status = culm_yaml_parse(text, strlen(text), "", &value, &problem);
    if (status != CULM_OK) {
        const char *what = strstr(problem.text, ": ");
        return fail(r, 0, key, "%s", what ? what + 2 : problem.text);
    }
    if (value->kind == CULM_YAML_MAP && !value->count && !strchr(text, '{')) {
        status = fail(r, 0, key, "has no value; write --set %s=value", key);
    } else {
        status = apply_set_value(r, key, value);
    }
    culm_yaml_free(value);
    return status;
}

static enum culm_status apply_defaults(struct reading *r) {
    struct culm_config_origins ignored;
    struct culm_config_origins *origins = r->origins;
    r->in_set = false;
    for (size_t i = 0; i < r->table->count; i++) {
        const struct culm_config_row *row = &r->table->rows[i];
        if (origins->line[i] || origins->from_set[i]) {
            continue;
        }
        if (!row->value) {
            char range[256];
            culm_config_row_range(row, range, sizeof range);
            return fail(r, r->section_line[i] ? r->section_line[i] : 1, row->key,
                        "is missing; required: %s", range);
        }
        struct culm_yaml node = {.kind = CULM_YAML_SCALAR, .text = (char *)row->value};
        if (row->flags & CULM_CONFIG_EMPTY) {
            node.kind = CULM_YAML_LIST; /* an empty one */
        }
        r->origins = &ignored;
        enum culm_status status = assign(r, i, &node);
        r->origins = origins;
        if (status == CULM_ERR_MEMORY) {
            return status;
        }
        assert(status == CULM_OK);
    }
    return CULM_OK;
}

enum culm_status culm_config_parse(const struct culm_config_table *table, const char *text,
                                   size_t len, const char *name, const char *const *sets,
                                   size_t set_count, void *ret_object,
                                   struct culm_config_origins *ret_origins,
                                   struct culm_error *error) {
    assert(table->count <= CULM_CONFIG_MAX_ROWS);
    struct culm_config_origins origins = {.name = name};
    struct reading r = {.table = table, .name = name, .origins = &origins, .error = error};
    struct culm_yaml *root = NULL;
    enum culm_status status = culm_yaml_parse(text, len, name, &root, error);
    if (status != CULM_OK) {
        return status;
    }
    r.object = calloc(1, table->object_bytes);
    if (!r.object) {
        status = culm_error_set(error, CULM_ERR_MEMORY, "%s: out of memory", name);
        goto free_tree;
    }
    status = apply_file(&r, root);
    r.in_set = true;
    for (size_t i = 0; status == CULM_OK && i < set_count; i++) {
        status = apply_set(&r, sets[i]);
    }
    if (status == CULM_OK) {
        status = apply_defaults(&r);
    }
    if (status == CULM_OK) {
        memcpy(ret_object, r.object, table->object_bytes);
        if (ret_origins) {
            *ret_origins = origins;
        }
    } else {
        culm_config_release(table, r.object);
    }
    free(r.object);
free_tree:
    culm_yaml_free(root);
    return status;
}

void culm_config_release(const struct culm_config_table *table, void *object) {
    for (size_t i = 0; i < table->count; i++) {
        if (table->rows[i].type == CULM_CONFIG_TYPE_PATHS) {
            struct culm_config_paths paths, none = {0};
            memcpy(&paths, (char *)object + table->rows[i].offset, sizeof paths);
            free_paths(&paths);
            memcpy((char *)object + table->rows[i].offset, &none, sizeof none);
        }
    }
}

enum culm_status culm_config_refuse(const struct culm_config_table *table,
                                    const struct culm_config_origins *origins,
                                    const char *const *keys, struct culm_error *error,
                                    const char *format, ...) {
    struct reading r = {.table = table, .name = origins->name, .error = error};
    const char *key = keys[0];
    int line = 0;
    for (size_t i = 0; keys[i] && !line; i++) {
        line = origins->line[find_row(table, keys[i])];
        key = line ? keys[i] : keys[0];
    }
    for (size_t i = 0; keys[i] && !r.in_set; i++) {
        if (origins->from_set[find_row(table, keys[i])]) {
            key = keys[i];
            r.in_set = true;
        }
    }
    char text[CULM_ERROR_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return fail(&r, line ? line : 1, key, "%s", text);
}

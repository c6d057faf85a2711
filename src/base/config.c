/*
 * Reading: file, then sets, then defaults, each value through the one function `assign`; then the
 * tables finish. A tree of origins grows beside the objects. Values are in config_value.c, dumping
 * and documenting in config_text.c, what all of them ask of a row in config_row.c.
 */
#include "base/config_row.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const culm_config_bools[] = {"false", "true", NULL};

struct reading {
    bool in_set; /* the value comes from --set, not from the file */
    struct culm_error *error;
};

/* --- places ---------------------------------------------------------------------------------- */

static size_t find_row(const struct culm_config_table *table, const char *key, size_t len) {
    size_t i = 0;
    while (i < table->count &&
           (strncmp(table->rows[i].key, key, len) != 0 || table->rows[i].key[len])) {
        i++;
    }
    return i;
}

/* Makes the origins of `count` rows or elements. */
static enum culm_status need_origins(const struct reading *r, const struct culm_config_place *place,
                                     struct culm_config_origin *origin, size_t count) {
    if (origin->of && origin->count >= count) {
        return CULM_OK;
    }
    struct culm_config_origin *of = realloc(origin->of, count * sizeof *of);
    if (!of) {
        return culm_error_set(r->error, CULM_ERR_MEMORY, "%s: out of memory", place->file);
    }
    memset(of + origin->count, 0, (count - origin->count) * sizeof *of);
    origin->of = of;
    origin->count = count;
    return CULM_OK;
}

static void release_origins(struct culm_config_origin *origin) {
    for (size_t i = 0; i < origin->count; i++) {
        release_origins(&origin->of[i]);
    }
    free(origin->of);
    *origin = (struct culm_config_origin){0};
}

/* The section that row `index` of `up` describes. */
static enum culm_status enter_section(const struct reading *r, const struct culm_config_place *up,
                                      size_t index, struct culm_config_place *ret_place) {
    const struct culm_config_row *row = &up->table->rows[index];
    *ret_place = (struct culm_config_place){.up = up,
                                            .row = row,
                                            .table = row->table,
                                            .origin = &up->origin->of[index],
                                            .object = up->object + row->offset,
                                            .file = up->file};
    return need_origins(r, up, ret_place->origin, row->table->count);
}

/* The member is a pointer to something else and a count: it is copied out and in. */
static struct culm_config_list list_of(const struct culm_config_row *row, const void *object) {
    struct culm_config_list list;
    memcpy(&list, (const char *)object + row->offset, sizeof list);
    return list;
}

static void put_list(const struct culm_config_row *row, void *object,
                     struct culm_config_list list) {
    memcpy((char *)object + row->offset, &list, sizeof list);
}

/* Element `index` of the list that row `row` of `up` describes; one past the last adds it. */
static enum culm_status enter_element(const struct reading *r, const struct culm_config_place *up,
                                      size_t row_index, size_t index,
                                      struct culm_config_place *ret_place) {
    const struct culm_config_row *row = &up->table->rows[row_index];
    struct culm_config_list list = list_of(row, up->object);
    struct culm_config_origin *origin = &up->origin->of[row_index];
    size_t bytes = row->table->object_bytes;
    enum culm_status status = need_origins(r, up, origin, index + 1);
    if (status != CULM_OK) {
        return status;
    }
    if (index == list.count) {
        char *items = realloc(list.items, (index + 1) * bytes);
        if (!items) {
            return culm_error_set(r->error, CULM_ERR_MEMORY, "%s: out of memory", up->file);
        }
        memset(items + index * bytes, 0, bytes);
        list = (struct culm_config_list){items, index + 1};
        put_list(row, up->object, list);
    }
    *ret_place = (struct culm_config_place){.up = up,
                                            .row = row,
                                            .index = index,
                                            .table = row->table,
                                            .origin = &origin->of[index],
                                            .object = (char *)list.items + index * bytes,
                                            .file = up->file};
    return need_origins(r, up, ret_place->origin, row->table->count);
}

static bool is_name(const char *text, size_t len) {
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
    return len > 0 && len <= 64 && strspn(text, letters) >= len;
}

/* The element of that name; a new name adds it. */
static enum culm_status enter_named(const struct reading *r, const struct culm_config_place *up,
                                    size_t row_index, const char *name, size_t len, int line,
                                    struct culm_config_place *ret_place) {
    const struct culm_config_row *row = &up->table->rows[row_index];
    const struct culm_config_list list = list_of(row, up->object);
    if (!is_name(name, len)) {
        struct culm_config_mark mark = {up, row->key, line, r->in_set};
        char shown[41];
        culm_config_row_append(shown, 0, sizeof shown, name);
        return culm_config_fail(&mark, r->error,
                                "'%s' is not a name; allowed: up to 64 letters, digits, '_' and "
                                "'-'",
                                shown);
    }
    size_t index = 0;
    for (; index < list.count; index++) {
        const char *known =
            *culm_config_name(row, (char *)list.items + index * row->table->object_bytes);
        if (strlen(known) == len && strncmp(known, name, len) == 0) {
            break;
        }
    }
    char *copy = index == list.count ? strndup(name, len) : NULL;
    if (index == list.count && !copy) {
        return culm_error_set(r->error, CULM_ERR_MEMORY, "%s: out of memory", up->file);
    }
    enum culm_status status = enter_element(r, up, row_index, index, ret_place);
    if (status == CULM_OK && copy) {
        *culm_config_name(row, ret_place->object) = copy;
        copy = NULL;
    }
    free(copy);
    return status;
}

/* --- keys ------------------------------------------------------------------------------------ */

static void list_keys(const struct culm_config_table *table, char *buffer, size_t size) {
    size_t used = 0;
    for (size_t i = 0; i < table->count; i++) {
        used = culm_config_row_append(buffer, used, size, i ? ", " : "");
        used = culm_config_row_append(buffer, used, size, table->rows[i].key);
    }
}

/* The row of any section that has this key, as "section.key". */
static bool find_elsewhere(const struct culm_config_table *table, const char *key,
                           const char *prefix, char *buffer, size_t size) {
    for (size_t i = 0; i < table->count; i++) {
        const struct culm_config_row *row = &table->rows[i];
        if (strcmp(row->key, key) == 0) {
            snprintf(buffer, size, "%s%s", prefix, key);
            return true;
        }
    }
    for (size_t i = 0; i < table->count; i++) {
        const struct culm_config_row *row = &table->rows[i];
        char inner[128];
        snprintf(inner, sizeof inner, "%s%s%s.", prefix, row->key,
                 row->type == CULM_CONFIG_TYPE_SECTIONS ? "[0]"
                 : row->type == CULM_CONFIG_TYPE_NAMED  ? ".NAME"
                                                        : "");
        if (row->table && find_elsewhere(row->table, key, inner, buffer, size)) {
            return true;
        }
    }
    return false;
}

static enum culm_status unknown_key(const struct reading *r, const struct culm_config_place *place,
                                    int line, const char *key) {
    struct culm_config_mark mark = {place, key, line, r->in_set};
    struct culm_nearest near = {.word = key};
    for (size_t i = 0; i < place->table->count; i++) {
        culm_nearest_try(&near, place->table->rows[i].key);
    }
    char section[160], text[400];
    culm_config_path(place, NULL, section, sizeof section);
    const struct culm_config_place *top = place;
    while (top->up) {
        top = top->up;
    }
    if (near.nearest) {
        culm_config_path(place, near.nearest, text, sizeof text);
        return culm_config_fail(&mark, r->error, "unknown key; did you mean '%s'", text);
    }
    if (find_elsewhere(top->table, key, "", text, sizeof text)) {
        return culm_config_fail(&mark, r->error, "unknown key; did you mean '%s'", text);
    }
    list_keys(place->table, text, sizeof text);
    return culm_config_fail(&mark, r->error, "unknown key; allowed%s%s: %s", *section ? " in " : "",
                            section, text);
}

/* --- the file -------------------------------------------------------------------------------- */

static enum culm_status assign(const struct reading *r, const struct culm_config_place *place,
                               size_t index, const struct culm_yaml *node);

static enum culm_status apply_section(const struct reading *r,
                                      const struct culm_config_place *place,
                                      const struct culm_yaml *node) {
    if (node->kind == CULM_YAML_SCALAR && culm_yaml_is_null(node)) {
        return CULM_OK; /* a section whose keys are all commented out */
    }
    if (node->kind != CULM_YAML_MAP) {
        struct culm_config_mark mark = {place, NULL, node->line, r->in_set};
        char found[96], keys[400];
        list_keys(place->table, keys, sizeof keys);
        return culm_config_fail(&mark, r->error, "%s is not a map of keys; allowed keys: %s",
                                culm_yaml_describe(node, found, sizeof found), keys);
    }
    for (size_t i = 0; i < node->count; i++) {
        const struct culm_yaml *item = node->items[i];
        size_t row = find_row(place->table, item->key, strlen(item->key));
        enum culm_status status = row < place->table->count
                                      ? assign(r, place, row, item)
                                      : unknown_key(r, place, item->key_line, item->key);
        if (status != CULM_OK) {
            return status;
        }
    }
    return CULM_OK;
}

static void release_list(const struct culm_config_row *row, void *object) {
    struct culm_config_list list = list_of(row, object);
    for (size_t i = 0; i < list.count; i++) {
        char *element = (char *)list.items + i * row->table->object_bytes;
        culm_config_release(row->table, element);
        if (row->type == CULM_CONFIG_TYPE_NAMED) {
            free(*culm_config_name(row, element));
        }
    }
    free(list.items);
    put_list(row, object, (struct culm_config_list){0});
}

static void mark_origin(const struct reading *r, struct culm_config_origin *origin, int line) {
    if (r->in_set) {
        origin->from_set = true;
    } else {
        origin->line = line;
    }
}

/* SECTIONS: what is written replaces what was there; NAMED: it is added to it. */
static enum culm_status assign_list(const struct reading *r, const struct culm_config_place *place,
                                    size_t index, const struct culm_yaml *node) {
    const struct culm_config_row *row = &place->table->rows[index];
    bool named = row->type == CULM_CONFIG_TYPE_NAMED;
    bool nothing = node->kind == CULM_YAML_SCALAR && culm_yaml_is_null(node);
    if (!nothing && node->kind != (named ? CULM_YAML_MAP : CULM_YAML_LIST)) {
        struct culm_config_mark mark = {place, row->key, node->line, r->in_set};
        char found[96], range[256];
        culm_config_row_range(row, range, sizeof range);
        return culm_config_fail(&mark, r->error, "%s is not %s; allowed: %s",
                                culm_yaml_describe(node, found, sizeof found),
                                culm_config_row_noun(row), range);
    }
    if (!named && !nothing) {
        release_list(row, place->object);
        release_origins(&place->origin->of[index]);
    }
    enum culm_status status = CULM_OK;
    for (size_t i = 0; !nothing && i < node->count && status == CULM_OK; i++) {
        const struct culm_yaml *item = node->items[i];
        struct culm_config_place element;
        status = named ? enter_named(r, place, index, item->key, strlen(item->key), item->key_line,
                                     &element)
                       : enter_element(r, place, index, i, &element);
        if (status == CULM_OK) {
            mark_origin(r, element.origin, named ? item->key_line : item->line);
            status = apply_section(r, &element, item);
        }
    }
    return status;
}

static enum culm_status assign(const struct reading *r, const struct culm_config_place *place,
                               size_t index, const struct culm_yaml *node) {
    const struct culm_config_row *row = &place->table->rows[index];
    enum culm_status status;
    if (row->type == CULM_CONFIG_TYPE_SECTION) {
        struct culm_config_place section;
        status = enter_section(r, place, index, &section);
        if (status == CULM_OK) {
            mark_origin(r, section.origin, node->key_line);
            status = apply_section(r, &section, node);
        }
        return status;
    }
    if (culm_config_is_list(row)) {
        status = assign_list(r, place, index, node);
    } else {
        struct culm_config_mark mark = {.place = place, .in_set = r->in_set};
        status = culm_config_assign(&mark, row, node, place->object, r->error);
    }
    if (status == CULM_OK) {
        mark_origin(r, &place->origin->of[index], node->key_line);
    }
    return status;
}

/* "part.seed" at the top of a file. */
static bool is_dotted(const struct culm_config_table *table, const char *key) {
    const char *dot = strchr(key, '.');
    size_t row = find_row(table, key, dot ? (size_t)(dot - key) : strlen(key));
    if (row == table->count || !dot) {
        return row < table->count;
    }
    return table->rows[row].table && is_dotted(table->rows[row].table, dot + 1);
}

static enum culm_status apply_file(const struct reading *r, const struct culm_config_place *top,
                                   const struct culm_yaml *root) {
    if (root->kind != CULM_YAML_MAP) {
        char found[96];
        return culm_error_set(r->error, CULM_ERR_CONFIG,
                              "%s:%d: %s is not a configuration; write 'key: value' lines",
                              top->file, root->line, culm_yaml_describe(root, found, sizeof found));
    }
    for (size_t i = 0; i < root->count; i++) {
        const struct culm_yaml *item = root->items[i];
        const char *dot = strchr(item->key, '.');
        if (dot && is_dotted(top->table, item->key)) {
            struct culm_config_mark mark = {top, item->key, item->key_line, false};
            return culm_config_fail(&mark, r->error, "a dotted key; write '%.*s: {%s: ...}'",
                                    (int)(dot - item->key), item->key, dot + 1);
        }
    }
    return apply_section(r, top, root);
}

/* --- sets ------------------------------------------------------------------------------------ */

static enum culm_status apply_at(const struct reading *r, const struct culm_config_place *place,
                                 const char *path, const struct culm_yaml *value);

/* `path` is what follows the key of a list: "[2]" or ".name", and perhaps ".key" after it. */
static enum culm_status apply_in_list(const struct reading *r,
                                      const struct culm_config_place *place, size_t index,
                                      const char *path, const struct culm_yaml *value) {
    const struct culm_config_row *row = &place->table->rows[index];
    struct culm_config_place element;
    enum culm_status status;
    const char *rest;
    if (row->type == CULM_CONFIG_TYPE_NAMED) {
        size_t len = strcspn(path + 1, ".");
        rest = path + 1 + len;
        status = enter_named(r, place, index, path + 1, len, 0, &element);
    } else {
        size_t count = list_of(row, place->object).count;
        char *end;
        errno = 0;
        unsigned long at = strtoul(path + 1, &end, 10);
        bool digits = path[1] >= '0' && path[1] <= '9' && *end == ']';
        if (!digits || errno || at > count || (end[1] && end[1] != '.')) {
            struct culm_config_mark mark = {place, row->key, 0, true};
            return culm_config_fail(&mark, r->error,
                                    "'%.40s' is not an index; allowed: [0] to [%zu]", path, count);
        }
        rest = end + 1;
        status = enter_element(r, place, index, at, &element);
    }
    if (status == CULM_OK) {
        place->origin->of[index].from_set = true;
        element.origin->from_set = true;
        status = *rest ? apply_at(r, &element, rest + 1, value) : apply_section(r, &element, value);
    }
    return status;
}

static enum culm_status apply_at(const struct reading *r, const struct culm_config_place *place,
                                 const char *path, const struct culm_yaml *value) {
    size_t len = strcspn(path, ".[");
    size_t index = find_row(place->table, path, len);
    const struct culm_config_row *row = &place->table->rows[index];
    if (index < place->table->count && !path[len]) {
        return assign(r, place, index, value);
    }
    if (index < place->table->count && row->type == CULM_CONFIG_TYPE_SECTION && path[len] == '.') {
        struct culm_config_place section;
        enum culm_status status = enter_section(r, place, index, &section);
        return status == CULM_OK ? apply_at(r, &section, path + len + 1, value) : status;
    }
    if (index < place->table->count && culm_config_is_list(row) &&
        path[len] == (row->type == CULM_CONFIG_TYPE_NAMED ? '.' : '[')) {
        return apply_in_list(r, place, index, path + len, value);
    }
    return unknown_key(r, place, 0, path);
}

static enum culm_status apply_set(const struct reading *r, const struct culm_config_place *top,
                                  const char *set) {
    const char *equals = strchr(set, '=');
    if (!equals || equals == set || equals - set > 256) {
        char shown[64];
        culm_config_row_append(shown, 0, 61, set);
        return culm_error_set(r->error, CULM_ERR_ARGUMENT,
                              "--set: '%s': no key and value; write --set key.sub=value", shown);
    }
    char key[260];
    snprintf(key, sizeof key, "%.*s", (int)(equals - set), set);
    const char *text = equals + 1;

    struct culm_config_mark mark = {top, key, 0, true};
    struct culm_yaml *value = NULL;
    struct culm_error problem = {0};
    enum culm_status status = culm_yaml_parse(text, strlen(text), "", &value, &problem);
    if (status != CULM_OK) {
        const char *what = strstr(problem.text, ": ");
        return culm_config_fail(&mark, r->error, "%s", what ? what + 2 : problem.text);
    }
    if (value->kind == CULM_YAML_MAP && !value->count && !strchr(text, '{')) {
        status = culm_config_fail(&mark, r->error, "has no value; write --set %s=value", key);
    } else {
        status = apply_at(r, top, key, value);
    }
    culm_yaml_free(value);
    return status;
}

/* --- what was not given ---------------------------------------------------------------------- */

/* The line of the section, or of the nearest around it that is in the file. */
static int line_of(const struct culm_config_place *place) {
    int line = 0;
    for (; place && !line; place = place->up) {
        line = place->origin->line;
    }
    return line ? line : 1;
}

static enum culm_status apply_default(const struct reading *r,
                                      const struct culm_config_place *place, size_t index) {
    const struct culm_config_row *row = &place->table->rows[index];
    struct culm_config_mark mark = {.place = place, .key = row->key, .line = line_of(place)};
    if (!row->value) {
        char range[256];
        culm_config_row_range(row, range, sizeof range);
        return culm_config_fail(&mark, r->error, "is missing; required: %s", range);
    }
    if (culm_config_is_list(row)) {
        return CULM_OK; /* an empty one */
    }
    struct culm_yaml node = {.kind = CULM_YAML_SCALAR, .text = (char *)row->value};
    if (!*row->value) {
        node.kind = CULM_YAML_LIST; /* an empty one */
    }
    enum culm_status status = culm_config_assign(&mark, row, &node, place->object, r->error);
    assert(status == CULM_OK || status == CULM_ERR_MEMORY);
    return status;
}

typedef enum culm_status (*visitor)(const struct reading *r, const struct culm_config_place *place);

/* Calls `visit` for the sections inside of row `index`. */
static enum culm_status for_each_inside(const struct reading *r,
                                        const struct culm_config_place *place, size_t index,
                                        visitor visit) {
    const struct culm_config_row *row = &place->table->rows[index];
    struct culm_config_place inner;
    enum culm_status status = CULM_OK;
    if (row->type == CULM_CONFIG_TYPE_SECTION) {
        status = enter_section(r, place, index, &inner);
        return status == CULM_OK ? visit(r, &inner) : status;
    }
    size_t count = culm_config_is_list(row) ? list_of(row, place->object).count : 0;
    for (size_t i = 0; i < count && status == CULM_OK; i++) {
        status = enter_element(r, place, index, i, &inner);
        if (status == CULM_OK) {
            status = visit(r, &inner);
        }
    }
    return status;
}

static enum culm_status apply_defaults(const struct reading *r,
                                       const struct culm_config_place *place) {
    enum culm_status status = CULM_OK;
    for (size_t i = 0; i < place->table->count && status == CULM_OK; i++) {
        const struct culm_config_row *row = &place->table->rows[i];
        const struct culm_config_origin *origin = &place->origin->of[i];
        bool empty = culm_config_is_list(row) && list_of(row, place->object).count == 0;
        bool given = (origin->line || origin->from_set) && !empty;
        if (!given && row->type != CULM_CONFIG_TYPE_SECTION) {
            status = apply_default(r, place, i);
        } else {
            status = for_each_inside(r, place, i, apply_defaults);
        }
    }
    return status;
}

static enum culm_status finish(const struct reading *r, const struct culm_config_place *place) {
    enum culm_status status = CULM_OK;
    for (size_t i = 0; i < place->table->count && status == CULM_OK; i++) {
        status = for_each_inside(r, place, i, finish);
    }
    if (status == CULM_OK && place->table->finish) {
        status = place->table->finish(place->object, place, r->error);
    }
    return status;
}

/* --- the whole ------------------------------------------------------------------------------- */

enum culm_status culm_config_parse(const struct culm_config_table *table, const char *text,
                                   size_t len, const char *name, const char *const *sets,
                                   size_t set_count, void *ret_object, struct culm_error *error) {
    struct culm_config_origin origin = {0};
    struct culm_config_place top = {.table = table, .origin = &origin, .file = name};
    struct reading r = {.error = error};
    struct culm_yaml *root = NULL;
    enum culm_status status = culm_yaml_parse(text, len, name, &root, error);
    if (status != CULM_OK) {
        return status;
    }
    top.object = calloc(1, table->object_bytes);
    status = top.object ? need_origins(&r, &top, &origin, table->count)
                        : culm_error_set(error, CULM_ERR_MEMORY, "%s: out of memory", name);
    if (status == CULM_OK) {
        status = apply_file(&r, &top, root);
    }
    r.in_set = true;
    for (size_t i = 0; status == CULM_OK && i < set_count; i++) {
        status = apply_set(&r, &top, sets[i]);
    }
    r.in_set = false;
    if (status == CULM_OK) {
        status = apply_defaults(&r, &top);
    }
    if (status == CULM_OK) {
        status = finish(&r, &top);
    }
    if (status == CULM_OK) {
        memcpy(ret_object, top.object, table->object_bytes);
    } else if (top.object) {
        culm_config_release(table, top.object);
    }
    free(top.object);
    release_origins(&origin);
    culm_yaml_free(root);
    return status;
}

void culm_config_release(const struct culm_config_table *table, void *object) {
    for (size_t i = 0; i < table->count; i++) {
        const struct culm_config_row *row = &table->rows[i];
        char *at = (char *)object + row->offset;
        if (row->type == CULM_CONFIG_TYPE_SECTION) {
            culm_config_release(row->table, at);
        } else if (culm_config_is_list(row)) {
            release_list(row, object);
        } else if (row->type == CULM_CONFIG_TYPE_TEXTS) {
            struct culm_config_texts texts;
            memcpy(&texts, at, sizeof texts);
            culm_config_release_texts(&texts);
            memcpy(at, &texts, sizeof texts);
        } else if (row->type == CULM_CONFIG_TYPE_TEXT) {
            char *text, *none = NULL;
            memcpy(&text, at, sizeof text);
            free(text);
            memcpy(at, &none, sizeof none);
        }
    }
}

/* The origin of a key like "data.path" or "models[1].layers". */
static const struct culm_config_origin *origin_of(const struct culm_config_place *place,
                                                  const char *key) {
    const struct culm_config_table *table = place->table;
    const struct culm_config_origin *origin = place->origin;
    for (;;) {
        size_t len = strcspn(key, ".["), row = find_row(table, key, len);
        assert(row < table->count);
        static const struct culm_config_origin nowhere;
        origin = origin->of ? &origin->of[row] : &nowhere;
        if (key[len] == '[') {
            size_t index = strtoul(key + len + 1, NULL, 10);
            origin = index < origin->count ? &origin->of[index] : &nowhere;
            len += strcspn(key + len, ".");
        }
        if (!key[len]) {
            return origin;
        }
        table = table->rows[row].table;
        key += len + 1;
    }
}

bool culm_config_given(const struct culm_config_place *place, const char *key) {
    const struct culm_config_origin *origin = origin_of(place, key);
    return origin->line || origin->from_set;
}

enum culm_status culm_config_refuse(const struct culm_config_place *place, const char *const *keys,
                                    struct culm_error *error, const char *format, ...) {
    struct culm_config_mark mark = {.place = place, .key = keys[0]};
    for (size_t i = 0; keys[i] && !mark.line; i++) {
        mark.line = origin_of(place, keys[i])->line;
        mark.key = mark.line ? keys[i] : keys[0];
    }
    for (size_t i = 0; keys[i] && !mark.in_set; i++) {
        if (origin_of(place, keys[i])->from_set) {
            mark.key = keys[i];
            mark.in_set = true;
        }
    }
    mark.line = mark.line ? mark.line : line_of(place);
    char text[CULM_ERROR_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return culm_config_fail(&mark, error, "%s", text);
}

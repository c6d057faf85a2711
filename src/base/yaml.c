/*
 * libyaml's event parser builds the tree with a stack of our own, so that depth costs no recursion
 * while parsing and is bounded by CULM_YAML_MAX_DEPTH when freeing.
 */
#include "base/yaml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

struct builder {
    const char *name, *text;
    size_t len;
    struct culm_error *error;
    struct culm_yaml *root;
    struct culm_yaml *stack[CULM_YAML_MAX_DEPTH];
    size_t depth, nodes;
    char *key; /* the key read last, waiting for its value */
    int key_line;
};

void culm_yaml_free(struct culm_yaml *root) {
    if (!root) {
        return;
    }
    for (size_t i = 0; i < root->count; i++) {
        culm_yaml_free(root->items[i]);
    }
    free(root->items);
    free(root->text);
    free(root->key);
    free(root);
}

const struct culm_yaml *culm_yaml_get(const struct culm_yaml *map, const char *key) {
    for (size_t i = 0; map && map->kind == CULM_YAML_MAP && i < map->count; i++) {
        if (!strcmp(map->items[i]->key, key)) {
            return map->items[i];
        }
    }
    return NULL;
}

bool culm_yaml_is_null(const struct culm_yaml *node) {
    static const char *const words[] = {"", "~", "null", "Null", "NULL"};
    if (node->kind != CULM_YAML_SCALAR || node->quoted) {
        return false;
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (!strcmp(node->text, words[i])) {
            return true;
        }
    }
    return false;
}

const char *culm_yaml_describe(const struct culm_yaml *node, char *buffer, size_t size) {
    if (node->kind == CULM_YAML_MAP) {
        return "a map";
    }
    if (node->kind == CULM_YAML_LIST) {
        return "a list";
    }
    if (culm_yaml_is_null(node)) {
        return "nothing";
    }
    int shown = 0, len = (int)strlen(node->text);
    /* One line, cut between UTF-8 characters. */
    while (shown < len && shown < 40 && (unsigned char)node->text[shown] >= 0x20) {
        shown++;
    }
    while (shown < len && shown > 0 && ((unsigned char)node->text[shown] & 0xC0) == 0x80) {
        shown--;
    }
    snprintf(buffer, size, "%s'%.*s%s'", node->quoted ? "text " : "", shown, node->text,
             shown < len ? "..." : "");
    return buffer;
}

static enum culm_status refuse(struct builder *b, int line, const char *what) {
    culm_error_set(b->error, CULM_ERR_CONFIG, "%s:%d: %s", b->name, line, what);
    return CULM_ERR_CONFIG;
}

static enum culm_status out_of_memory(struct builder *b) {
    culm_error_set(b->error, CULM_ERR_MEMORY, "%s: out of memory", b->name);
    return CULM_ERR_MEMORY;
}

/* Hangs a new node into the tree; the tree owns it from here on. */
static enum culm_status add_node(struct builder *b, enum culm_yaml_kind kind, int line,
                                 struct culm_yaml **ret_node) {
    if (++b->nodes > CULM_YAML_MAX_NODES) {
        return refuse(b, line, "too many values; at most 20000 are allowed");
    }
    struct culm_yaml *parent = b->depth ? b->stack[b->depth - 1] : NULL;
    if (parent && (parent->count & (parent->count - 1)) == 0) {
        size_t capacity = parent->count ? 2 * parent->count : 1;
        struct culm_yaml **items = realloc(parent->items, capacity * sizeof *items);
        if (!items) {
            return out_of_memory(b);
        }
        parent->items = items;
    }
    struct culm_yaml *node = calloc(1, sizeof *node);
    if (!node) {
        return out_of_memory(b);
    }
    node->kind = kind;
    node->line = line;
    if (!parent) {
        b->root = node;
    } else {
        node->key = b->key;
        node->key_line = b->key_line;
        b->key = NULL;
        parent->items[parent->count++] = node;
    }
    *ret_node = node;
    return CULM_OK;
}

static enum culm_status open_container(struct builder *b, enum culm_yaml_kind kind, int line) {
    struct culm_yaml *parent = b->depth ? b->stack[b->depth - 1] : NULL;
    if (parent && parent->kind == CULM_YAML_MAP && !b->key) {
        return refuse(b, line, "a key is a list or a map; keys are plain words");
    }
    if (b->depth == CULM_YAML_MAX_DEPTH) {
        return refuse(b, line, "nested too deeply; at most 32 levels are allowed");
    }
    struct culm_yaml *node;
    enum culm_status status = add_node(b, kind, line, &node);
    if (status == CULM_OK) {
        b->stack[b->depth++] = node;
    }
    return status;
}

static enum culm_status take_key(struct builder *b, char *take_text, int line) {
    const struct culm_yaml *twin = culm_yaml_get(b->stack[b->depth - 1], take_text);
    if (twin) {
        enum culm_status status = culm_error_set(
            b->error, CULM_ERR_CONFIG, "%s:%d: %.60s: given twice; it is already there in line %d",
            b->name, line, take_text, twin->key_line);
        free(take_text);
        return status;
    }
    b->key = take_text;
    b->key_line = line;
    return CULM_OK;
}

static enum culm_status add_scalar(struct builder *b, const yaml_event_t *event, int line) {
    const char *value = (const char *)event->data.scalar.value;
    size_t len = event->data.scalar.length;
    if (memchr(value, 0, len)) {
        return refuse(b, line, "a NUL character; only text is allowed");
    }
    char *text = strndup(value, len);
    if (!text) {
        return out_of_memory(b);
    }
    const struct culm_yaml *parent = b->depth ? b->stack[b->depth - 1] : NULL;
    if (parent && parent->kind == CULM_YAML_MAP && !b->key) {
        return take_key(b, text, line);
    }
    struct culm_yaml *node;
    enum culm_status status = add_node(b, CULM_YAML_SCALAR, line, &node);
    if (status != CULM_OK) {
        free(text);
        return status;
    }
    node->text = text;
    node->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    return CULM_OK;
}

static enum culm_status take_event(struct builder *b, const yaml_event_t *event) {
    int line = (int)event->start_mark.line + 1;
    switch (event->type) {
    case YAML_ALIAS_EVENT: return refuse(b, line, "an alias (*name); write the value out instead");
    case YAML_SCALAR_EVENT:
        if (event->data.scalar.anchor) {
            return refuse(b, line, "an anchor (&name); write the value out where it is needed");
        }
        if (event->data.scalar.tag) {
            return refuse(b, line, "a tag (!name); write the value without it");
        }
        return add_scalar(b, event, line);
    case YAML_SEQUENCE_START_EVENT:
        if (event->data.sequence_start.anchor || event->data.sequence_start.tag) {
            return refuse(b, line, "an anchor or a tag; write the list without it");
        }
        return open_container(b, CULM_YAML_LIST, line);
    case YAML_MAPPING_START_EVENT:
        if (event->data.mapping_start.anchor || event->data.mapping_start.tag) {
            return refuse(b, line, "an anchor or a tag; write the map without it");
        }
        return open_container(b, CULM_YAML_MAP, line);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT: b->depth--; return CULM_OK;
    case YAML_DOCUMENT_START_EVENT:
        if (b->root) {
            return refuse(b, line, "a second document ('---'); one is allowed");
        }
        return CULM_OK;
    default: return CULM_OK;
    }
}

static enum culm_status syntax_error(struct builder *b, const yaml_parser_t *parser) {
    if (parser->error == YAML_MEMORY_ERROR) {
        return out_of_memory(b);
    }
    const char *problem = parser->problem ? parser->problem : "cannot be read";
    if (parser->error == YAML_READER_ERROR) {
        /* The reader runs ahead of the parser's mark. */
        int line = 1;
        for (size_t i = 0; i < parser->problem_offset && i < b->len; i++) {
            line += b->text[i] == '\n';
        }
        return culm_error_set(b->error, CULM_ERR_CONFIG,
                              "%s:%d: not text: %s at byte %zu; write it as UTF-8", b->name, line,
                              problem, parser->problem_offset);
    }
    /* What fails before anything begins is often some other text. */
    return culm_error_set(
        b->error, CULM_ERR_CONFIG, "%s:%zu: not valid YAML: %s%s", b->name,
        parser->problem_mark.line + 1, problem,
        b->root && b->root->kind != CULM_YAML_SCALAR ? "" : "; write 'key: value' lines");
}

enum culm_status culm_yaml_parse(const char *text, size_t len, const char *name,
                                 struct culm_yaml **ret_root, struct culm_error *error) {
    struct builder b = {.name = name, .text = text, .len = len, .error = error};
    if (len > CULM_YAML_MAX_BYTES) {
        return culm_error_set(error, CULM_ERR_CONFIG, "%s: %zu bytes; at most %u are allowed", name,
                              len, CULM_YAML_MAX_BYTES);
    }
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser)) {
        return out_of_memory(&b);
    }
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
    if (len < 3 ||
        memcmp(text, "\xef\xbb\xbf", 3) != 0) { /* else the mark says so, and is passed over */
        yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    }

    enum culm_status status = CULM_OK;
    bool done = false;
    while (status == CULM_OK && !done) {
        yaml_event_t event;
        if (!yaml_parser_parse(&parser, &event)) {
            status = syntax_error(&b, &parser);
            break;
        }
        done = event.type == YAML_STREAM_END_EVENT;
        status = take_event(&b, &event);
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    free(b.key);
    if (status == CULM_OK && !b.root) {
        status = open_container(&b, CULM_YAML_MAP, 1);
    }
    if (status != CULM_OK) {
        culm_yaml_free(b.root);
        return status;
    }
    if (culm_yaml_is_null(b.root)) {
        b.root->kind = CULM_YAML_MAP;
        free(b.root->text);
        b.root->text = NULL;
    }
    *ret_root = b.root;
    return CULM_OK;
}

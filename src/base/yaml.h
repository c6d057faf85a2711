/*
 * YAML as a small tree with line numbers, read through libyaml.
 *
 * The subset is what a configuration needs: one document of maps, lists and scalars. Refused with a
 * line number: anchors and aliases (a few hundred bytes of them expand to gigabytes), tags,
 * duplicate keys, keys that are not scalars, NUL characters, several documents, and anything over
 * the limits below. Scalars stay text; what a text means is decided by whoever asks for it.
 *
 * The tree owns everything in it and is constant after parsing. Thread: none of its own.
 */
#ifndef CULM_BASE_YAML_H
#define CULM_BASE_YAML_H

#include "base/status.h"

#define CULM_YAML_MAX_BYTES (256u << 10)
#define CULM_YAML_MAX_DEPTH 32
#define CULM_YAML_MAX_NODES 20000

enum culm_yaml_kind { CULM_YAML_SCALAR, CULM_YAML_LIST, CULM_YAML_MAP };

struct culm_yaml {
    enum culm_yaml_kind kind;
    int line;    /* counted from 1 */
    bool quoted; /* scalar: it was written in quotes or as a block, so it is text and never null */
    char *text;  /* scalar: UTF-8 without NUL characters; else NULL */
    char *key;   /* as an entry of a map: its key; else NULL */
    int key_line;
    size_t count; /* list, map: entries, in the order written */
    struct culm_yaml **items;
};

/* Parses `len` bytes. `name` stands in messages as FILE (`FILE:LINE: what is wrong`). An empty
 * document is a map without entries. CULM_ERR_CONFIG: not such a document. */
enum culm_status culm_yaml_parse(const char *text, size_t len, const char *name,
                                 struct culm_yaml **ret_root, struct culm_error *error);
void culm_yaml_free(struct culm_yaml *root); /* NULL is fine */

/* The entry of a map, or NULL. */
const struct culm_yaml *culm_yaml_get(const struct culm_yaml *map, const char *key);
/* True for `~`, `null` and nothing at all, unquoted. */
bool culm_yaml_is_null(const struct culm_yaml *node);
/* "a map", "a list", "nothing", "text 'abc'": for messages. Long text is cut. */
const char *culm_yaml_describe(const struct culm_yaml *node, char *buffer, size_t size);

#endif

/* Internal to base: what the files of configuration share. */
#ifndef CULM_BASE_CONFIG_ROW_H
#define CULM_BASE_CONFIG_ROW_H

#include "base/config.h"

/* --- one row (config_row.c) --- */

/* "a whole number", "a number", ... */
const char *culm_config_row_noun(const struct culm_config_row *row);
/* What is allowed: "1 to 1024", "above 0", "cosine, constant", "a path or a list of paths". */
void culm_config_row_range(const struct culm_config_row *row, char *buffer, size_t size);
bool culm_config_is_list(const struct culm_config_row *row); /* SECTIONS or NAMED */
/* Where a section among NAMED ones has its name. */
static inline char **culm_config_name(const struct culm_config_row *row, char *object) {
    return (char **)(void *)(object + row->name_offset);
}

/* --- one value (config_value.c) --- */

/* Where a key stands, for messages. */
struct culm_config_mark {
    const struct culm_config_place *place;
    const char *key; /* within the section; NULL: the section itself */
    int line;
    bool in_set;
};

/* Fills `error` with "FILE:LINE: key: MESSAGE" or "--set: key: MESSAGE". CULM_ERR_CONFIG. */
enum culm_status culm_config_fail(const struct culm_config_mark *mark, struct culm_error *error,
                                  const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Writes the value of a row that is no section; what stood there is released. `mark` has the
 * place and whether it is in a set; its line and key are the row's and the node's. */
enum culm_status culm_config_assign(const struct culm_config_mark *mark,
                                    const struct culm_config_row *row, const struct culm_yaml *node,
                                    void *object, struct culm_error *error);
void culm_config_release_texts(struct culm_config_texts *texts);

/* --- places (config_row.c) --- */

/* Where a value came from: a tree beside the objects. */
struct culm_config_origin {
    int line;                      /* of its key; 0: not in the file */
    bool from_set;                 /* by the last --set that named it */
    size_t count;                  /* section: rows; list: elements */
    struct culm_config_origin *of; /* owned; NULL: none of them was given */
};

struct culm_config_place {
    const struct culm_config_place *up; /* NULL: the whole configuration */
    const struct culm_config_row *row;  /* of `up` that this is; in a list, the list's */
    size_t index;                       /* in a list */
    const struct culm_config_table *table;
    struct culm_config_origin *origin; /* `of` has a place for each row */
    char *object;
    const char *file;
};

/* Appends what may stand in a one-line message; returns the new length. */
size_t culm_config_row_append(char *buffer, size_t used, size_t size, const char *text);
/* The key of a row in the section as messages name it, "models[1].layers"; key NULL: the section. */
void culm_config_path(const struct culm_config_place *place, const char *key, char *buffer,
                      size_t size);

#endif

/*
 * Configuration tables: one row per key yields reading YAML, `--set key.sub=value`, defaults, range
 * checks, a dump that reads back the same, comparison and documentation.
 *
 *     static const struct culm_config_row rows[] = {
 *         CULM_CONFIG_INT("model.layers", struct my_config, layers, "6", 1, 1024, "number of ..."),
 *         ...
 *     };
 *
 * A row describes one member of a plain struct. Keys have at most one section ("section.name"), and
 * the rows of a section stand together. Nothing is half applied: the struct is written only when
 * every key was right. Messages read
 *
 *     FILE:LINE: key: what is wrong; what is allowed
 *     --set: key: what is wrong; what is allowed
 *
 * Numbers are written in decimal, without leading zeros; a quoted number is text. Thread: none of
 * its own; tables are constant.
 */
#ifndef CULM_BASE_CONFIG_H
#define CULM_BASE_CONFIG_H

#include "base/buf.h"
#include "base/yaml.h"

enum culm_config_type {
    CULM_CONFIG_TYPE_INT,   /* int64_t */
    CULM_CONFIG_TYPE_U64,   /* uint64_t, any value */
    CULM_CONFIG_TYPE_REAL,  /* double, finite */
    CULM_CONFIG_TYPE_WORD,  /* char[size]: one of `choices` */
    CULM_CONFIG_TYPE_ENUM,  /* an int-sized enum: the index in `choices` */
    CULM_CONFIG_TYPE_BOOL,  /* bool: `choices` is "false|true" */
    CULM_CONFIG_TYPE_PATHS, /* culm_config_paths: one text or a list of texts; owned */
};

/* The layout of a CULM_CONFIG_TYPE_PATHS member pair: `char **paths; size_t count;`, adjacent. */
struct culm_config_paths {
    char **paths;
    size_t count;
};

enum {
    CULM_CONFIG_ABOVE = 1,     /* a real must be above `low`, not just at least */
    CULM_CONFIG_BELOW = 2,     /* a real must be below `high` */
    CULM_CONFIG_RESUMABLE = 4, /* may change when a run is resumed */
    CULM_CONFIG_EMPTY = 8,     /* paths: there may be none, written [] */
};

struct culm_config_row {
    const char *key; /* "section.name" or "name" */
    enum culm_config_type type;
    size_t offset, size; /* of the member */
    const char *value;   /* the default, as YAML text; NULL: required */
    int64_t min, max;    /* INT, inclusive */
    double low, high;    /* REAL, inclusive unless flagged; high may be INFINITY */
    const char *choices; /* WORD, ENUM: "a|b|c"; PATHS: what may stand there, in words, or NULL */
    unsigned flags;
    const char *doc; /* one sentence, no full stop */
};

#define CULM_CONFIG_MEMBER(type_, member_)                                                         \
    .offset = offsetof(type_, member_), .size = sizeof(((type_ *)0)->member_)
#define CULM_CONFIG_INT(key_, type_, member_, value_, min_, max_, flags_, doc_)                    \
    {                                                                                              \
        .key = key_, .type = CULM_CONFIG_TYPE_INT, CULM_CONFIG_MEMBER(type_, member_),             \
        .value = value_, .min = min_, .max = max_, .flags = flags_, .doc = doc_                    \
    }
#define CULM_CONFIG_U64(key_, type_, member_, value_, flags_, doc_)                                \
    {                                                                                              \
        .key = key_, .type = CULM_CONFIG_TYPE_U64, CULM_CONFIG_MEMBER(type_, member_),             \
        .value = value_, .flags = flags_, .doc = doc_                                              \
    }
#define CULM_CONFIG_REAL(key_, type_, member_, value_, low_, high_, flags_, doc_)                  \
    {                                                                                              \
        .key = key_, .type = CULM_CONFIG_TYPE_REAL, CULM_CONFIG_MEMBER(type_, member_),            \
        .value = value_, .low = low_, .high = high_, .flags = flags_, .doc = doc_                  \
    }
#define CULM_CONFIG_WORD(key_, type_, member_, value_, choices_, flags_, doc_)                     \
    {                                                                                              \
        .key = key_, .type = CULM_CONFIG_TYPE_WORD, CULM_CONFIG_MEMBER(type_, member_),            \
        .value = value_, .choices = choices_, .flags = flags_, .doc = doc_                         \
    }
#define CULM_CONFIG_ENUM(key_, type_, member_, value_, choices_, flags_, doc_)                     \
    {                                                                                              \
        .key = key_, .type = CULM_CONFIG_TYPE_ENUM, CULM_CONFIG_MEMBER(type_, member_),            \
        .value = value_, .choices = choices_, .flags = flags_, .doc = doc_                         \
    }
#define CULM_CONFIG_BOOL(key_, type_, member_, value_, flags_, doc_)                               \
    {                                                                                              \
        .key = key_, .type = CULM_CONFIG_TYPE_BOOL, CULM_CONFIG_MEMBER(type_, member_),            \
        .value = value_, .choices = "false|true", .flags = flags_, .doc = doc_                     \
    }
/* `first_` is the char ** member; the size_t count follows it. */
#define CULM_CONFIG_PATHS(key_, type_, first_, value_, flags_, doc_)                               \
    {                                                                                              \
        .key = key_, .type = CULM_CONFIG_TYPE_PATHS, .offset = offsetof(type_, first_),            \
        .size = sizeof(struct culm_config_paths), .value = value_, .flags = flags_, .doc = doc_    \
    }

/* Texts of another kind in the same layout: a name, numbers; `allowed_` says what in words. */
#define CULM_CONFIG_TEXTS(key_, type_, first_, allowed_, doc_)                                     \
    {                                                                                              \
        .key = key_, .type = CULM_CONFIG_TYPE_PATHS, .offset = offsetof(type_, first_),            \
        .size = sizeof(struct culm_config_paths), .value = "", .choices = allowed_,                \
        .flags = CULM_CONFIG_EMPTY, .doc = doc_                                                    \
    }

#define CULM_CONFIG_MAX_ROWS 96

struct culm_config_table {
    const struct culm_config_row *rows;
    size_t count;        /* at most CULM_CONFIG_MAX_ROWS */
    size_t object_bytes; /* sizeof the struct that the rows describe */
};

/* Where each value came from, for checks between keys. */
struct culm_config_origins {
    const char *name;                    /* FILE; borrowed */
    int line[CULM_CONFIG_MAX_ROWS];      /* 0: not in the file */
    bool from_set[CULM_CONFIG_MAX_ROWS]; /* by the last --set that named it */
};

/* Reads `len` bytes of YAML, then applies `sets` ("key=value" or "section.name=value") in order,
 * then fills in defaults. *ret_object (object_bytes) is overwritten on success, and owns its paths:
 * culm_config_release. `ret_origins` may be NULL. CULM_ERR_CONFIG with the message above. */
enum culm_status culm_config_parse(const struct culm_config_table *table, const char *text,
                                   size_t len, const char *name, const char *const *sets,
                                   size_t set_count, void *ret_object,
                                   struct culm_config_origins *ret_origins,
                                   struct culm_error *error);
void culm_config_release(const struct culm_config_table *table, void *object);

/* Was the row of this index given, in the file or by a set? */
static inline bool culm_config_given(const struct culm_config_origins *origins, size_t row) {
    return origins->line[row] || origins->from_set[row];
}
/* Fills `error` with "FILE:LINE: key: MESSAGE", the place being that of the first of `keys` (up to
 * a NULL) that was given, else the file itself. Returns CULM_ERR_CONFIG. */
enum culm_status culm_config_refuse(const struct culm_config_table *table,
                                    const struct culm_config_origins *origins,
                                    const char *const *keys, struct culm_error *error,
                                    const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Appends every key as YAML that reads back to the same object. */
void culm_config_dump(const struct culm_config_table *table, const void *object,
                      struct culm_buf *out);
/* The first row in which the two objects differ, of those without `skip_flags`; NULL: none. */
const struct culm_config_row *culm_config_difference(const struct culm_config_table *table,
                                                     const void *a, const void *b,
                                                     unsigned skip_flags);
/* Appends one value as it stands in a dump. */
void culm_config_dump_value(const struct culm_config_row *row, const void *object,
                            struct culm_buf *out);

/* Appends the reference: a Markdown table, or lines for a terminal. */
void culm_config_document(const struct culm_config_table *table, bool markdown,
                          struct culm_buf *out);

/* The word in `words` (separated by '|') nearest to `word`, when near enough to be meant; copied to
 * ret_word[64]. Also for commands and options. */
bool culm_config_nearest(const char *word, const char *words, char ret_word[64]);

#endif

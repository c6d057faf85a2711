/*
 * Configuration tables: one row per key yields reading YAML, `--set key.sub=value`, defaults, range
 * checks, a dump that reads back the same, comparison and documentation.
 *
 *     static const struct culm_config_row rows[] = {
 *         CULM_CONFIG_INT("layers", struct my_config, layers, "6", 1, 1024, 0, "number of ..."),
 *         CULM_CONFIG_SECTION("data", struct my_config, data, &my_data_table),
 *         ...
 *     };
 *     const struct culm_config_table my_table = {CULM_CONFIG_ROWS(rows, struct my_config)};
 *
 * A row describes one member of a plain struct, a table all rows of that struct. A room keeps the
 * table of what it configures beside it; whoever joins them writes a row per section:
 *
 *     SECTION   data:                 one struct, a member of the one around it
 *                 path: a.txt         --set data.path=a.txt
 *     SECTIONS  models:               an array of structs and their count
 *                 - name: gpt2        --set models[0].name=gpt2    (an index one past the last
 *                 - name: vgg11                                     adds a section)
 *     NAMED     models:               the same, where each struct holds its own name
 *                 big: {layers: 12}   --set models.big.layers=12   (a new name adds a section)
 *
 * Tables nest as deep as YAML does, but none contains itself. Nothing is half applied: the struct is
 * written only when every key was right. Messages read
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
#include "base/words.h"
#include "base/yaml.h"

#include <stddef.h>

enum culm_config_type {
    CULM_CONFIG_TYPE_INT,      /* int64_t */
    CULM_CONFIG_TYPE_U64,      /* uint64_t, any value */
    CULM_CONFIG_TYPE_REAL,     /* double, finite */
    CULM_CONFIG_TYPE_BOOL,     /* bool: false, true */
    CULM_CONFIG_TYPE_ENUM,     /* an int-sized enum: the index in `words` */
    CULM_CONFIG_TYPE_TEXT,     /* char *, owned; NULL: none */
    CULM_CONFIG_TYPE_TEXTS,    /* struct culm_config_texts, owned; one text or a list of texts */
    CULM_CONFIG_TYPE_INTS,     /* int64_t[n], the last not 0; a shorter list has zeros behind it */
    CULM_CONFIG_TYPE_SECTION,  /* a struct of `table` */
    CULM_CONFIG_TYPE_SECTIONS, /* struct culm_config_list of structs of `table`, owned */
    CULM_CONFIG_TYPE_NAMED,    /* the same, with a `char *`, owned, for the name */
};

/* The layout of such members: a pointer and a size_t, adjacent. The rows below check it. */
struct culm_config_texts {
    char **texts;
    size_t count;
};
struct culm_config_list {
    void *items;
    size_t count;
};

enum {
    CULM_CONFIG_ABOVE = 1,     /* a real must be above `low`, not just at least */
    CULM_CONFIG_BELOW = 2,     /* a real must be below `high` */
    CULM_CONFIG_RESUMABLE = 4, /* may change when a run is resumed */
    CULM_CONFIG_EMPTY = 8,     /* texts, lists: there may be none, which is also the default */
    CULM_CONFIG_SETTING = 16,  /* may be set when a run is resumed, from there on; a plain value */
    CULM_CONFIG_INPUT = 32,    /* may change when a run is resumed with --accept-inputs */
};

struct culm_config_row {
    const char *key; /* within its section */
    enum culm_config_type type;
    size_t offset, size;      /* of the member */
    const char *value;        /* the default, as YAML text; NULL: required, or a SECTION */
    int64_t min, max;         /* INT, INTS: inclusive */
    double low, high;         /* REAL: inclusive unless flagged; high may be INFINITY */
    const char *const *words; /* ENUM */
    const char *allowed;      /* texts: what may stand there, in words; NULL: paths */
    const struct culm_config_table *table; /* sections */
    size_t name_offset;                    /* NAMED: of the name in a struct of `table` */
    unsigned flags;
    const char *doc; /* one sentence, no full stop */
};

/* A section that is read and filled in, while it is checked. */
struct culm_config_place;

struct culm_config_table {
    const struct culm_config_row *rows;
    size_t count;
    size_t object_bytes; /* sizeof the struct that the rows describe */
    /* Checks between keys, and defaults that depend on others; NULL: none. Called once for each
     * section when every key has its value, inner sections first. */
    enum culm_status (*finish)(void *object, const struct culm_config_place *place,
                               struct culm_error *error);
};

/* Was the key ("layers", "data.path", "models[1].layers"; seen from the section) given, in the file
 * or by a set? */
bool culm_config_given(const struct culm_config_place *place, const char *key);
/* Fills `error` with "FILE:LINE: key: MESSAGE", the place being that of the first of `keys` (up to
 * a NULL) that was given, else the file itself. Returns CULM_ERR_CONFIG. */
enum culm_status culm_config_refuse(const struct culm_config_place *place, const char *const *keys,
                                    struct culm_error *error, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#define CULM_CONFIG_KEYS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* Reads `len` bytes of YAML, then applies `sets` ("key=value" or "section.name=value") in order,
 * then fills in defaults, then lets the tables finish. *ret_object (object_bytes) is overwritten on
 * success, and owns its texts and lists: culm_config_release. CULM_ERR_CONFIG with the message
 * above. */
enum culm_status culm_config_parse(const struct culm_config_table *table, const char *text,
                                   size_t len, const char *name, const char *const *sets,
                                   size_t set_count, void *ret_object, struct culm_error *error);
void culm_config_release(const struct culm_config_table *table, void *object);

/* Appends every key as YAML that reads back to the same object. */
void culm_config_dump(const struct culm_config_table *table, const void *object,
                      struct culm_buf *out);

struct culm_config_difference {
    char key[160];     /* "optimizer.lr", "models[1].layers" */
    char a[80], b[80]; /* the two values as in a dump, cut to what fits */
};
/* Finds the first row in which two objects differ, of those without `skip_flags`; false: none. */
bool culm_config_differ(const struct culm_config_table *table, const void *a, const void *b,
                        unsigned skip_flags, struct culm_config_difference *ret_difference);
/* Is told of a row in which two objects differ; true: that is enough. Borrowed, for the call. */
typedef bool (*culm_config_difference_visit)(void *ctx, const struct culm_config_row *row,
                                             const struct culm_config_difference *difference);
/* Visits every such row, of those without `skip_flags`, until one is enough. */
void culm_config_differences(const struct culm_config_table *table, const void *a, const void *b,
                             unsigned skip_flags, culm_config_difference_visit visit, void *ctx);

/* Appends the value of a key with a plain one ("data.path"), whole, as in a dump. False: none is called
 * so. */
bool culm_config_value(const struct culm_config_table *table, const void *object, const char *key,
                       struct culm_buf *out);

/* A key as a reference tells it: whole ("optimizer.lr", "models[].layers"), its default (NULL: it is
 * required), and in words what it may be. Borrowed, for the call. */
struct culm_config_entry {
    const char *key, *value, *allowed;
    const struct culm_config_row *row;
};
typedef void (*culm_config_visit)(void *ctx, const struct culm_config_entry *entry);
void culm_config_each(const struct culm_config_table *table, culm_config_visit visit, void *ctx);
/* Appends the reference: a Markdown table, or lines for a terminal. */
void culm_config_document(const struct culm_config_table *table, bool markdown,
                          struct culm_buf *out);
/* Appends "a, b and c": the keys whose rows have one of `flags`, and the sections all of whose rows
 * do. */
void culm_config_list_flagged(const struct culm_config_table *table, unsigned flags,
                              struct culm_buf *out);

/* --- for the configuration of a job: one table --- */

/* As culm_config_parse, of a file. CULM_ERR_NOT_FOUND, CULM_ERR_IO: it cannot be read. */
enum culm_status culm_config_load(const struct culm_config_table *table, const char *path,
                                  const char *const *sets, size_t set_count, void *ret_object,
                                  struct culm_error *error);
/* As the functions that append; the caller frees the text. NULL: out of memory. */
char *culm_config_dump_text(const struct culm_config_table *table, const void *object);
char *culm_config_document_text(const struct culm_config_table *table, bool markdown);
char *culm_config_resumable_text(const struct culm_config_table *table);
char *culm_config_setting_text(const struct culm_config_table *table);
/* May a run that began with `before` go on with `now`? Keys with CULM_CONFIG_RESUMABLE, or one of
 * `more_flags`, may differ. CULM_ERR_CONFIG: the first other key that differs, and which may. */
enum culm_status culm_config_resumable(const struct culm_config_table *table, const void *before,
                                       const void *now, unsigned more_flags,
                                       struct culm_error *error);

/* --- writing rows --- */

#define CULM_CONFIG_ROWS(rows_, type_)                                                             \
    .rows = rows_, .count = sizeof(rows_) / sizeof *(rows_), .object_bytes = sizeof(type_)

/* 0, or no compilation. */
#define CULM_CONFIG_REQUIRE(condition_) (0 * sizeof(char[(condition_) ? 1 : -1]))
#define CULM_CONFIG_MEMBER(type_, member_)                                                         \
    .offset = offsetof(type_, member_), .size = sizeof(((type_ *)0)->member_)
#define CULM_CONFIG_PAIR(type_, first_, count_)                                                    \
    .offset =                                                                                      \
        offsetof(type_, first_) +                                                                  \
        CULM_CONFIG_REQUIRE(sizeof(((type_ *)0)->count_) == sizeof(size_t)) +                      \
        CULM_CONFIG_REQUIRE(offsetof(type_, count_) == offsetof(type_, first_) + sizeof(void *)),  \
    .size = sizeof(struct culm_config_list)

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
#define CULM_CONFIG_BOOL(key_, type_, member_, value_, flags_, doc_)                               \
    {                                                                                              \
        .key = key_, .type = CULM_CONFIG_TYPE_BOOL, CULM_CONFIG_MEMBER(type_, member_),            \
        .value = value_, .words = culm_config_bools, .flags = flags_, .doc = doc_                  \
    }
#define CULM_CONFIG_ENUM(key_, type_, member_, value_, words_, flags_, doc_)                       \
    {                                                                                              \
        .key = key_, .type = CULM_CONFIG_TYPE_ENUM,                                                \
        .offset = offsetof(type_, member_) +                                                       \
                  CULM_CONFIG_REQUIRE(sizeof(((type_ *)0)->member_) == sizeof(int)),               \
        .size = sizeof(int), .value = value_, .words = words_, .flags = flags_, .doc = doc_        \
    }
/* `allowed_` says in words what may stand there: "a name". `value_` "" and CULM_CONFIG_EMPTY: may
 * be none, which is written [] or "". */
#define CULM_CONFIG_TEXT(key_, type_, member_, value_, allowed_, flags_, doc_)                     \
    {                                                                                              \
        .key = key_, .type = CULM_CONFIG_TYPE_TEXT, CULM_CONFIG_MEMBER(type_, member_),            \
        .value = value_, .allowed = allowed_, .flags = flags_, .doc = doc_                         \
    }
/* `first_` is the char ** member, `count_` the size_t after it. `allowed_` NULL: paths. */
#define CULM_CONFIG_TEXTS(key_, type_, first_, count_, value_, allowed_, flags_, doc_)             \
    {                                                                                              \
        .key = key_, .type = CULM_CONFIG_TYPE_TEXTS, CULM_CONFIG_PAIR(type_, first_, count_),      \
        .value = value_, .allowed = allowed_, .flags = flags_, .doc = doc_                         \
    }
/* An array of int64_t with a fixed number of places. */
#define CULM_CONFIG_INTS(key_, type_, member_, min_, max_, allowed_, flags_, doc_)                 \
    {                                                                                              \
        .key = key_, .type = CULM_CONFIG_TYPE_INTS, CULM_CONFIG_MEMBER(type_, member_),            \
        .value = "", .min = min_, .max = max_, .allowed = allowed_,                                \
        .flags = (flags_) | CULM_CONFIG_EMPTY, .doc = doc_                                         \
    }
#define CULM_CONFIG_SECTION(key_, type_, member_, table_)                                          \
    {                                                                                              \
        .key = key_, .type = CULM_CONFIG_TYPE_SECTION, CULM_CONFIG_MEMBER(type_, member_),         \
        .table = table_                                                                            \
    }
/* `first_` points to structs of `table_`, `count_` is the size_t after it. */
#define CULM_CONFIG_SECTIONS(key_, type_, first_, count_, table_, flags_, doc_)                    \
    {                                                                                              \
        .key = key_, .type = CULM_CONFIG_TYPE_SECTIONS, CULM_CONFIG_PAIR(type_, first_, count_),   \
        .table = table_, .value = (flags_)&CULM_CONFIG_EMPTY ? "" : NULL, .flags = flags_,         \
        .doc = doc_                                                                                \
    }
/* `element_` is the struct's type and `name_` its char * member; no row describes that. */
#define CULM_CONFIG_NAMED(key_, type_, first_, count_, element_, name_, table_, flags_, doc_)      \
    {                                                                                              \
        .key = key_, .type = CULM_CONFIG_TYPE_NAMED, CULM_CONFIG_PAIR(type_, first_, count_),      \
        .table = table_, .name_offset = offsetof(element_, name_),                                 \
        .value = (flags_)&CULM_CONFIG_EMPTY ? "" : NULL, .flags = flags_, .doc = doc_              \
    }

extern const char *const culm_config_bools[];

#endif

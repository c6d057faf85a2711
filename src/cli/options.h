/*
 * Option tables: one row per option yields parsing, the usage line and --help.
 *
 *     --name VALUE   --name=VALUE   --flag   --   (everything after it is an argument)
 *
 * Options and arguments may be mixed. Of an option given twice the last value counts, except for
 * lists, which collect. Thread: none of its own; values point into argv.
 */
#ifndef CULM_CLI_OPTIONS_H
#define CULM_CLI_OPTIONS_H

#include "base/status.h"

#include <stddef.h>
#include <stdio.h>

enum culm_option_kind {
    CULM_OPTION_FLAG,  /* bool */
    CULM_OPTION_TEXT,  /* const char * */
    CULM_OPTION_INT,   /* int64_t, 1 to `most` */
    CULM_OPTION_COUNT, /* int64_t, 0 to `most` */
    CULM_OPTION_REAL,  /* double, above 0 */
    CULM_OPTION_SHARE, /* double, 0 to 1 */
    CULM_OPTION_WORD,  /* int-sized enum: the index in `words` */
    CULM_OPTION_LIST,  /* struct culm_option_list */
};

struct culm_option_list {
    const char **items; /* owned: culm_options_release */
    size_t count;
};

struct culm_option {
    const char *name; /* without the dashes */
    enum culm_option_kind kind;
    const char *value; /* what stands for the value in the help; NULL for flags */
    size_t offset;     /* in the struct of values */
    const char *doc;
    int64_t most;             /* INT, COUNT; 0: INT64_MAX */
    const char *const *words; /* WORD; base/words.h */
};

/* A row; .most or .words may follow. */
#define CULM_OPTION(name_, kind_, value_, type_, member_, ...)                                     \
    {                                                                                              \
        .name = name_, .kind = CULM_OPTION_##kind_, .value = value_,                               \
        .offset = offsetof(type_, member_), .doc = __VA_ARGS__                                     \
    }

struct culm_usage {
    const char *command;   /* "train" */
    const char *arguments; /* "CONFIG.yaml"; "" for none */
    size_t min_arguments, max_arguments;
    const char *summary; /* one sentence, for the list of commands */
    const char *details; /* lines below the options; may be NULL */
    const struct culm_option *options;
    size_t option_count;
    /* Makes a paragraph between options and details; the caller frees it. May be NULL. */
    char *(*remark)(void);
    /* What its first argument may be that has options of its own; NULL ends them. May be NULL. */
    const struct culm_usage *const *parts;
    /* The reference of a configuration of its own, for `culm help config NAME`; the caller frees it. NULL:
     * it has none. */
    char *(*config)(bool markdown);
};

/* The options of a command and of its parts, each name once; NULL: there are no more. */
const struct culm_option *culm_usage_option(const struct culm_usage *usage, size_t at);

/* Takes the next form of a command from *at, which is `arguments` at first and NULL after the last:
 * "show PATH | diff A B" has two. Returns where it begins; NULL: there are no more. */
const char *culm_usage_form(const char **at, size_t *ret_len);

#define CULM_OPTION_THREADS_MAX 256 /* as many as a configuration allows */
#define CULM_ARGUMENTS_MAX 4096

struct culm_arguments {
    const char *items[CULM_ARGUMENTS_MAX];
    size_t count;
    bool help; /* --help or -h was given; nothing else was checked */
};

/* argv[0] is the command's name. Fills `values` (zeroed or with defaults by the caller) and
 * *ret_arguments. CULM_ERR_ARGUMENT with what to write instead. Call culm_options_release in either
 * case. */
enum culm_status culm_options_parse(const struct culm_usage *usage, int argc, char **argv,
                                    void *values, struct culm_arguments *ret_arguments,
                                    struct culm_error *error);
void culm_options_release(const struct culm_usage *usage, void *values);

void culm_usage_print(const struct culm_usage *usage, FILE *out);

#endif

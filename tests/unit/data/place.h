/* What the tests of the data room share: a folder of their own, files in it, expectations. */
#ifndef CULM_TESTS_DATA_PLACE_H
#define CULM_TESTS_DATA_PLACE_H

#include "base/file.h"
#include "data/source.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

struct place {
    char dir[64];
};

static inline int make_place(void **state) {
    struct place *place = calloc(1, sizeof *place);
    strcpy(place->dir, "/tmp/culm-data-XXXXXX");
    *state = place;
    return mkdtemp(place->dir) ? 0 : -1;
}

static inline int drop_place(void **state) {
    struct place *place = *state;
    (void)culm_tree_remove(NULL, place->dir, NULL);
    free(place);
    return 0;
}

/* The path of a file of that name, made with these bytes; the caller frees. */
static inline char *put(const struct place *place, const char *name, const void *data, size_t len) {
    char *path;
    assert_true(asprintf(&path, "%s/%s", place->dir, name) > 0);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
    return path;
}

static inline char *put_text(const struct place *place, const char *name, const char *text) {
    return put(place, name, text, strlen(text));
}

static inline void expect_message(const struct culm_error *error, const char *part) {
    if (!strstr(error->text, part) || strchr(error->text, '\n')) {
        fail_msg("'%s' lacks '%s'", error->text, part);
    }
}

/* Opening is refused as a mistake of the user (exit 3), in one line that has this part. */
static inline void expect_refused(const struct culm_source_options *options, const char *part) {
    struct culm_source *source = NULL;
    struct culm_error error = {0};
    enum culm_status status = culm_source_open(options, &source, &error);
    if (status == CULM_OK) {
        culm_source_free(source);
        fail_msg("accepted, '%s' expected", part);
    }
    if (culm_status_exit_code(status) != 3) {
        fail_msg("exit code %d: '%s'", culm_status_exit_code(status), error.text);
    }
    assert_int_equal(error.status, status);
    expect_message(&error, part);
}

static inline struct culm_source *open_source(const struct culm_source_options *options) {
    struct culm_source *source = NULL;
    struct culm_error error = {0};
    if (culm_source_open(options, &source, &error) != CULM_OK) {
        fail_msg("%s", error.text);
    }
    return source;
}

static inline void fill(const struct culm_source *source, int64_t sample, uint64_t position,
                        void *const *fields) {
    struct culm_error error = {0};
    const struct culm_source_item item = {sample, position};
    if (culm_source_fill(source, item, fields, &error) != CULM_OK) {
        fail_msg("sample %lld: %s", (long long)sample, error.text);
    }
}

static inline uint64_t fnv(const void *data, size_t len) {
    uint64_t value = 0xcbf29ce484222325ull;
    for (size_t i = 0; i < len; i++) {
        value = (value ^ ((const uint8_t *)data)[i]) * 0x100000001b3ull;
    }
    return value;
}

#endif

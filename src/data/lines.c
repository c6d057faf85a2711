/* A text file line by line; see the header. */
#include "data/lines.h"

#include "data/files.h"

#include <stdlib.h>
#include <string.h>

#define LINE_MAX_BYTES ((size_t)1 << 16)
#define BUFFER_BYTES ((size_t)1 << 20)
#define MARK "\xef\xbb\xbf" /* the byte order mark of UTF-8 */

struct culm_lines {
    struct culm_files *files;
    const char *what;
    uint64_t read; /* of the file */
    int64_t number;
    size_t at, len; /* of the buffer: the next line, and all there is */
    char buffer[BUFFER_BYTES + 1];
};

enum culm_status culm_lines_open(const char *what, const char *path, struct culm_lines **ret_lines,
                                 struct culm_error *error) {
    struct culm_lines *lines = malloc(sizeof *lines);
    if (!lines) {
        return culm_error_set(error, CULM_ERR_MEMORY, "%s '%s': out of memory", what, path);
    }
    memset(lines, 0, offsetof(struct culm_lines, buffer));
    lines->what = what;
    const struct culm_files_options options = {
        .what = what, .content = CULM_FILES_TEXT, .paths = &path, .path_count = 1};
    enum culm_status status = culm_files_open_as(&options, &lines->files, error);
    if (status != CULM_OK) {
        free(lines);
        return status;
    }
    *ret_lines = lines;
    return CULM_OK;
}

void culm_lines_free(struct culm_lines *lines) {
    if (lines) {
        culm_files_free(lines->files);
        free(lines);
    }
}

int64_t culm_lines_number(const struct culm_lines *lines) { return lines->number; }

void culm_lines_prefix(const struct culm_lines *lines, struct culm_error *error) {
    culm_error_prefix(error, "%s '%s': line %lld", lines->what, lines->files->entry[0].path,
                      (long long)lines->number);
}

enum culm_status culm_lines_bad(const struct culm_lines *lines, struct culm_error *error,
                                const char *format, ...) {
    va_list args;
    va_start(args, format);
    culm_error_setv(error, CULM_ERR_FORMAT, format, args);
    va_end(args);
    culm_lines_prefix(lines, error);
    return CULM_ERR_FORMAT;
}

static enum culm_status fill(struct culm_lines *lines, struct culm_error *error) {
    uint64_t rest = lines->files->entry[0].bytes - lines->read;
    memmove(lines->buffer, lines->buffer + lines->at, lines->len - lines->at);
    lines->len -= lines->at;
    lines->at = 0;
    size_t part = BUFFER_BYTES - lines->len;
    part = rest < part ? (size_t)rest : part;
    enum culm_status status =
        culm_files_read(lines->files, 0, lines->read, lines->buffer + lines->len, part, error);
    if (status == CULM_OK) {
        lines->read += part;
        lines->len += part;
    }
    return status;
}

enum culm_status culm_lines_next(struct culm_lines *lines, char **ret_line,
                                 struct culm_error *error) {
    if (lines->len - lines->at <= LINE_MAX_BYTES && lines->read < lines->files->entry[0].bytes) {
        enum culm_status status = fill(lines, error);
        if (status != CULM_OK) {
            return status;
        }
    }
    if (lines->number == 0 && lines->len >= strlen(MARK) &&
        memcmp(lines->buffer, MARK, strlen(MARK)) == 0) {
        lines->at = strlen(MARK);
    }
    if (lines->at == lines->len) {
        *ret_line = NULL;
        return CULM_OK;
    }
    char *line = lines->buffer + lines->at;
    size_t rest = lines->len - lines->at;
    char *end = memchr(line, '\n', rest);
    size_t len = end ? (size_t)(end - line) : rest;
    lines->number++;
    if (len > LINE_MAX_BYTES) {
        return culm_lines_bad(lines, error, "has more than 64 KiB; is it a text file?");
    }
    lines->at += len + (end != NULL);
    line[len] = '\0';
    if (strlen(line) != len) {
        return culm_lines_bad(lines, error, "has a NUL; is it a text file?");
    }
    if (len > 0 && line[len - 1] == '\r') {
        line[len - 1] = '\0';
    }
    *ret_line = line;
    return CULM_OK;
}

/* Reads a partition from a file: a number per vertex, as METIS's own program writes it, or .npy. */
#include "gnn/partition_internal.h"

#include "data/files.h"
#include "data/npy.h"

#include <stdlib.h>
#include <string.h>

static enum culm_status take(const char *path, int64_t vertex, uint64_t part, int64_t parts,
                             uint32_t *ret_part, struct culm_error *error) {
    if (part >= (uint64_t)parts) {
        return culm_error_set(error, CULM_ERR_FORMAT,
                              "partition '%s': vertex %lld is in part %llu; with %lld intervals "
                              "parts are 0 to %lld",
                              path, (long long)vertex, (unsigned long long)part, (long long)parts,
                              (long long)parts - 1);
    }
    ret_part[vertex] = (uint32_t)part;
    return CULM_OK;
}

static enum culm_status count_differs(const char *path, int64_t count, int64_t vertices,
                                      struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_FORMAT,
                          "partition '%s': has %s%lld numbers; the graph has %lld vertices", path,
                          count > vertices ? "more than " : "",
                          (long long)(count > vertices ? vertices : count), (long long)vertices);
}

static enum culm_status read_npy(const char *path, const uint8_t *data, size_t len,
                                 int64_t vertices, int64_t parts, uint32_t *ret_part,
                                 struct culm_error *error) {
    struct culm_npy_array array;
    size_t head = len < CULM_NPY_HEADER_MAX ? len : CULM_NPY_HEADER_MAX;
    enum culm_status status =
        culm_npy_parse_array(data, head, len, "partition", path, &array, error);
    if (status != CULM_OK) {
        return status;
    }
    if (array.rank != 1 || (array.kind != 'u' && array.kind != 'i')) {
        return culm_error_set(error, CULM_ERR_FORMAT,
                              "partition '%s': is not a 1-D array of integers", path);
    }
    if (array.count != (uint64_t)vertices) {
        return count_differs(path, array.count > INT64_MAX ? INT64_MAX : (int64_t)array.count,
                             vertices, error);
    }
    for (int64_t v = 0; v < vertices && status == CULM_OK; v++) {
        uint64_t part = 0;
        memcpy(&part, data + array.offset + (size_t)v * (size_t)array.width, (size_t)array.width);
        status = take(path, v, part, parts, ret_part, error); /* a negative number is too large */
    }
    return status;
}

static enum culm_status read_text(const char *path, const char *at, int64_t vertices, int64_t parts,
                                  uint32_t *ret_part, struct culm_error *error) {
    int64_t count = 0;
    enum culm_status status = CULM_OK;
    for (int64_t line = 1; *at && status == CULM_OK; line++) {
        size_t blank = strspn(at, " \t"), digits = strspn(at + blank, "0123456789");
        const char *end = at + blank + digits + strspn(at + blank + digits, " \t\r");
        if (digits == 0 || digits > 18 || (*end && *end != '\n')) {
            return culm_error_set(error, CULM_ERR_FORMAT,
                                  "partition '%s': line %lld is not an integer", path,
                                  (long long)line);
        }
        if (count == vertices) {
            return count_differs(path, count + 1, vertices, error);
        }
        status = take(path, count++, strtoull(at + blank, NULL, 10), parts, ret_part, error);
        at = *end ? end + 1 : end;
    }
    return status == CULM_OK && count < vertices ? count_differs(path, count, vertices, error)
                                                 : status;
}

enum culm_status partition_file(const char *path, int64_t vertices, int64_t parts,
                                uint32_t *ret_part, struct culm_error *error) {
    const uint64_t bytes_max = 65536 + (uint64_t)vertices * 24;
    const char *paths[] = {path};
    struct culm_files *files;
    char *text;
    size_t len;
    enum culm_status status = culm_files_open("partition", paths, 1, NULL, &files, error);
    if (status != CULM_OK) {
        return status;
    }
    status = culm_files_slurp(files, 0, bytes_max, &text, &len, error);
    culm_files_free(files);
    if (status != CULM_OK) {
        return status;
    }
    if (culm_npy_is(text, len)) {
        status = read_npy(path, (const uint8_t *)text, len, vertices, parts, ret_part, error);
    } else if (strlen(text) != len) {
        status = culm_error_set(error, CULM_ERR_FORMAT, "partition '%s': is neither text nor .npy",
                                path);
    } else {
        status = read_text(path, text, vertices, parts, ret_part, error);
    }
    free(text);
    return status;
}

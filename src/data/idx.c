/* IDX files; see the header. */
#include "data/idx.h"

#include "data/files.h"
#include "data/gzip.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADER_MAX 20

void culm_idx_release(struct culm_idx *idx) {
    culm_files_free(idx->files);
    free(idx->data);
    *idx = (struct culm_idx){0};
}

/* Reads the header; bytes beyond `len` are missing. */
static enum culm_status parse(struct culm_idx *idx, const uint8_t *head, size_t len,
                              const char *path, struct culm_error *error) {
    if (len < 4 || head[0] || head[1]) {
        return culm_error_set(error, CULM_ERR_FORMAT,
                              "IDX file '%s': does not begin as an IDX file; is it another kind?",
                              path);
    }
    const bool wide = idx->labels && head[3] == 1 && (head[2] == 0x0B || head[2] == 0x0C);
    if (head[2] != 8 && !wide) {
        return culm_error_set(error, CULM_ERR_FORMAT,
                              "IDX file '%s': has elements of type 0x%02x; only bytes (0x08)%s "
                              "are known",
                              path, head[2],
                              idx->labels ? " and, of labels, whole numbers (0x0b, 0x0c)" : "");
    }
    if (head[3] < 1 || head[3] > 4) {
        return culm_error_set(error, CULM_ERR_FORMAT,
                              "IDX file '%s': has %d dimensions; allowed: 1 (labels), 3 or 4 "
                              "(images)",
                              path, head[3]);
    }
    idx->rank = head[3];
    idx->offset = 4 + 4 * (size_t)idx->rank;
    if (len < idx->offset) {
        return culm_error_set(error, CULM_ERR_FORMAT,
                              "IDX file '%s': ends inside of its header; get it again", path);
    }
    uint64_t all = 1;
    for (int i = 0; i < idx->rank; i++) {
        const uint8_t *at = head + 4 + 4 * i;
        idx->dim[i] = (int64_t)at[0] << 24 | at[1] << 16 | at[2] << 8 | at[3];
        if (!idx->dim[i]) {
            return culm_error_set(error, CULM_ERR_FORMAT,
                                  "IDX file '%s': its dimension %d is 0; it holds nothing", path,
                                  i);
        }
        if ((uint64_t)idx->dim[i] > CULM_IDX_BYTES_MAX / all) {
            return culm_error_set(
                error, CULM_ERR_FORMAT,
                "IDX file '%s': its header asks for more than 64 GB; it is damaged", path);
        }
        all *= (uint64_t)idx->dim[i];
    }
    idx->width = head[2] == 8 ? 1 : head[2] == 0x0B ? 2 : 4;
    idx->item_bytes = (int64_t)(all / (uint64_t)idx->dim[0]) * idx->width;
    return CULM_OK;
}

static enum culm_status unpack_all(struct culm_idx *idx, struct culm_gunzip *gunzip, size_t packed,
                                   const char *path, struct culm_error *error) {
    uint8_t head[HEADER_MAX], more;
    size_t got = 0, tail = 0, rest = 0;
    enum culm_status status = culm_gunzip_read(gunzip, head, 4, &got, error);
    size_t rank = status == CULM_OK && got == 4 && head[3] <= 4 ? head[3] : 0;
    if (status == CULM_OK && rank) {
        status = culm_gunzip_read(gunzip, head + 4, 4 * rank, &tail, error);
    }
    if (status != CULM_OK || (status = parse(idx, head, got + tail, path, error)) != CULM_OK) {
        return status;
    }
    uint64_t bytes = (uint64_t)idx->dim[0] * (uint64_t)idx->item_bytes;
    if (bytes / CULM_GZIP_RATIO_MAX > packed) {
        return culm_error_set(error, CULM_ERR_FORMAT,
                              "IDX file '%s': its header asks for %llu bytes, which %zu compressed "
                              "bytes cannot hold; it is damaged",
                              path, (unsigned long long)bytes, packed);
    }
    idx->data = malloc(bytes);
    if (!idx->data) {
        return culm_error_set(error, CULM_ERR_MEMORY, "IDX file '%s': out of memory for %llu bytes",
                              path, (unsigned long long)bytes);
    }
    status = culm_gunzip_read(gunzip, idx->data, bytes, &got, error);
    if (status == CULM_OK) { /* the checksum comes with the end */
        status = culm_gunzip_read(gunzip, &more, 1, &rest, error);
        got += rest;
    }
    if (status != CULM_OK) {
        return status;
    }
    if (got == bytes && !culm_gunzip_ended(gunzip)) {
        return culm_error_set(error, CULM_ERR_FORMAT,
                              "IDX file '%s': its gzip data is cut short; get it again", path);
    }
    return got == bytes
               ? CULM_OK
               : culm_error_set(error, CULM_ERR_FORMAT,
                                "IDX file '%s': its header asks for %llu bytes, it has "
                                "%s %zu; get it again",
                                path, (unsigned long long)bytes, got > bytes ? "more than" : "only",
                                got > bytes ? (size_t)bytes : got);
}

static enum culm_status open_gzip(struct culm_idx *idx, struct culm_error *error) {
    const char *path = idx->files->entry[0].path;
    struct culm_gunzip *gunzip = NULL;
    char *packed;
    size_t len;
    enum culm_status status = culm_files_slurp(idx->files, 0, UINT32_MAX, &packed, &len, error);
    if (status != CULM_OK) {
        return status;
    }
    status = culm_gunzip_open(packed, len, "IDX file", path, &gunzip, error);
    if (status == CULM_OK) {
        status = unpack_all(idx, gunzip, len, path, error);
    }
    culm_gunzip_close(gunzip);
    free(packed);
    return status;
}

static enum culm_status open_plain(struct culm_idx *idx, struct culm_error *error) {
    const struct culm_files_entry *entry = &idx->files->entry[0];
    uint8_t head[HEADER_MAX];
    size_t len = entry->bytes < HEADER_MAX ? (size_t)entry->bytes : HEADER_MAX;
    enum culm_status status = culm_files_read(idx->files, 0, 0, head, len, error);
    if (status != CULM_OK || (status = parse(idx, head, len, entry->path, error)) != CULM_OK) {
        return status;
    }
    uint64_t bytes = (uint64_t)idx->dim[0] * (uint64_t)idx->item_bytes;
    return bytes == entry->bytes - idx->offset
               ? CULM_OK
               : culm_error_set(error, CULM_ERR_FORMAT,
                                "IDX file '%s': its header asks for %llu bytes, it has %llu; get "
                                "it again",
                                entry->path, (unsigned long long)bytes,
                                (unsigned long long)(entry->bytes - idx->offset));
}

static enum culm_status open_any(const char *path, struct culm_pins *pins, bool labels,
                                 struct culm_idx *ret_idx, struct culm_error *error) {
    struct culm_idx idx = {.labels = labels};
    uint8_t head[3];
    enum culm_status status = culm_files_open("IDX file", &path, 1, pins, &idx.files, error);
    if (status == CULM_OK) {
        size_t len = idx.files->entry[0].bytes < 3 ? (size_t)idx.files->entry[0].bytes : 3;
        status = culm_files_read(idx.files, 0, 0, head, len, error);
        if (status == CULM_OK) {
            status = culm_gzip_is(head, len) ? open_gzip(&idx, error) : open_plain(&idx, error);
        }
    }
    if (status != CULM_OK) {
        culm_idx_release(&idx);
        return status;
    }
    *ret_idx = idx;
    return CULM_OK;
}

enum culm_status culm_idx_open(const char *path, struct culm_pins *pins, struct culm_idx *ret_idx,
                               struct culm_error *error) {
    return open_any(path, pins, false, ret_idx, error);
}

enum culm_status culm_idx_open_labels(const char *path, struct culm_idx *ret_idx,
                                      struct culm_error *error) {
    return open_any(path, NULL, true, ret_idx, error);
}

enum culm_status culm_idx_labels(const struct culm_idx *idx, const char *path, int32_t *ret_label,
                                 struct culm_error *error) {
    const size_t count = (size_t)idx->dim[0], width = (size_t)idx->width;
    uint8_t *bytes = malloc(count * width + 1);
    if (!bytes) {
        return culm_error_set(error, CULM_ERR_MEMORY, "IDX file '%s': out of memory", path);
    }
    enum culm_status status = culm_idx_read(idx, 0, idx->dim[0], bytes, error);
    for (size_t i = 0; i < count && status == CULM_OK; i++) {
        uint32_t value = 0;
        for (size_t b = 0; b < width; b++) {
            value = value << 8 | bytes[i * width + b];
        }
        if (width > 1 && value >> (8 * width - 1)) {
            status = culm_error_set(error, CULM_ERR_FORMAT,
                                    "IDX file '%s': label %zu is negative; labels count from 0",
                                    path, i);
        }
        ret_label[i] = (int32_t)value;
    }
    free(bytes);
    return status;
}

enum culm_status culm_idx_read(const struct culm_idx *idx, int64_t first, int64_t count,
                               uint8_t *ret_data, struct culm_error *error) {
    size_t at = (size_t)(first * idx->item_bytes), len = (size_t)(count * idx->item_bytes);
    if (idx->data) {
        memcpy(ret_data, idx->data + at, len);
        return CULM_OK;
    }
    return culm_files_read(idx->files, 0, idx->offset + at, ret_data, len, error);
}

/* Writing safetensors: header from jansson, then the data in slices that are hashed while warm. */
#include "store/safetensors.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "files hold memory's own byte order");

#define SLICE_BYTES ((size_t)1 << 20)

/* 4 * product of the shape; false when negative or too large for memory. */
static bool bytes_of(const struct culm_tensor_ref *tensor, uint64_t *ret_bytes) {
    uint64_t bytes = sizeof(float);
    if (tensor->rank < 0 || tensor->rank > 4) {
        return false;
    }
    for (int i = 0; i < tensor->rank; i++) {
        if (tensor->shape[i] < 0 ||
            __builtin_mul_overflow(bytes, (uint64_t)tensor->shape[i], &bytes)) {
            return false;
        }
    }
    *ret_bytes = bytes;
    return bytes <= INT64_MAX;
}

/* Adds one tensor's description; *offset advances past its data. */
static enum culm_status describe(json_t *header, const struct culm_tensor_ref *tensor,
                                 const char *path, uint64_t *offset, struct culm_error *error) {
    uint64_t bytes, end;
    if (!culm_safetensors_name_ok(tensor->name)) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "'%s': a tensor has no proper name", path);
    }
    if (json_object_get(header, tensor->name)) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "'%s': two tensors are named '%s'", path,
                              tensor->name);
    }
    if (!bytes_of(tensor, &bytes) || __builtin_add_overflow(*offset, bytes, &end) ||
        end > INT64_MAX) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "'%s': tensor '%s' has no proper shape",
                              path, tensor->name);
    }
    json_t *shape = json_array();
    for (int i = 0; i < tensor->rank; i++) {
        json_array_append_new(shape, json_integer(tensor->shape[i]));
    }
    json_t *entry = json_pack("{s:s, s:o, s:[I, I]}", "dtype", "F32", "shape", shape,
                              "data_offsets", (json_int_t)*offset, (json_int_t)end);
    if (!entry || json_object_set_new(header, tensor->name, entry) != 0) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "'%s': tensor '%s': name is not UTF-8, or out of memory", path,
                              tensor->name);
    }
    *offset = end;
    return CULM_OK;
}

/* Length, JSON and padding as one malloced piece. */
static enum culm_status make_header(const char *path, const struct culm_tensor_ref *tensors,
                                    size_t count, const struct culm_metadata *metadata,
                                    size_t metadata_count, char **ret_header, size_t *ret_len,
                                    uint64_t *ret_data_bytes, struct culm_error *error) {
    enum culm_status status = CULM_OK;
    char *text = NULL, *piece = NULL;
    uint64_t offset = 0;
    json_t *header = json_object(), *notes = json_object();
    for (size_t i = 0; i < metadata_count; i++) {
        if (json_object_set_new(notes, metadata[i].key, json_string(metadata[i].value)) != 0) {
            status = culm_error_set(error, CULM_ERR_ARGUMENT, "'%s': metadata is not UTF-8", path);
            goto out;
        }
    }
    if (metadata_count) {
        json_object_set(header, "__metadata__", notes);
    }
    for (size_t i = 0; i < count; i++) {
        status = describe(header, &tensors[i], path, &offset, error);
        if (status != CULM_OK) {
            goto out;
        }
    }
    text = json_dumps(header, JSON_COMPACT);
    size_t len = text ? strlen(text) : 0, padded = (len + 7) / 8 * 8;
    piece = text ? malloc(8 + padded) : NULL;
    if (!piece) {
        status = culm_error_set(error, CULM_ERR_MEMORY, "'%s': no memory for the header", path);
        goto out;
    }
    uint64_t stated = padded;
    memcpy(piece, &stated, 8);
    memcpy(piece + 8, text, len);
    memset(piece + 8 + len, ' ', padded - len);
    *ret_header = piece;
    *ret_len = 8 + padded;
    *ret_data_bytes = offset;
out:
    free(text);
    json_decref(notes);
    json_decref(header);
    return status;
}

struct output {
    struct culm_file file;
    struct culm_sha256 hash;
    const struct culm_write_hook *hook; /* NULL once called */
    uint64_t half;
};

static enum culm_status put(struct output *output, const void *data, uint64_t len,
                            struct culm_error *error) {
    const char *at = data;
    while (len) {
        size_t part = len < SLICE_BYTES ? (size_t)len : SLICE_BYTES;
        if (output->hook && output->file.bytes < output->half &&
            part > output->half - output->file.bytes) {
            part = (size_t)(output->half - output->file.bytes);
        }
        enum culm_status status = culm_file_append(&output->file, at, part, error);
        if (status != CULM_OK) {
            return status;
        }
        culm_sha256_update(&output->hash, at, part);
        at += part;
        len -= part;
        if (output->hook && output->file.bytes >= output->half) {
            const struct culm_write_hook *hook = output->hook;
            output->hook = NULL;
            hook->half(hook->arg);
        }
    }
    return CULM_OK;
}

static enum culm_status put_tensor(struct output *output, const struct culm_tensor_ref *tensor,
                                   struct culm_error *error) {
    uint64_t bytes = 0;
    bytes_of(tensor, &bytes);
    if (tensor->data || !tensor->from) {
        return put(output, tensor->data, bytes, error);
    }
    void *part = malloc(SLICE_BYTES);
    enum culm_status status =
        part ? CULM_OK : culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a tensor");
    for (uint64_t at = 0; at < bytes && status == CULM_OK;) {
        size_t len = bytes - at < SLICE_BYTES ? (size_t)(bytes - at) : SLICE_BYTES;
        status = culm_safetensors_floats(tensor->from, (int64_t)(at / sizeof(float)),
                                         (int64_t)(len / sizeof(float)), part, error);
        if (status == CULM_OK) {
            status = put(output, part, len, error);
        }
        at += len;
    }
    free(part);
    return status;
}

enum culm_status culm_safetensors_write(struct culm_fs *fs, const char *path,
                                        const struct culm_tensor_ref *tensors, size_t count,
                                        const struct culm_metadata *metadata, size_t metadata_count,
                                        const struct culm_write_hook *hook,
                                        struct culm_written *ret_written,
                                        struct culm_error *error) {
    struct output output = {.hook = hook && hook->half ? hook : NULL};
    struct culm_written written = {0};
    char *header = NULL;
    size_t header_len = 0;
    uint64_t data_bytes = 0;
    enum culm_status status = make_header(path, tensors, count, metadata, metadata_count, &header,
                                          &header_len, &data_bytes, error);
    if (status != CULM_OK) {
        return status;
    }
    output.half = (header_len + data_bytes) / 2;
    status = culm_sha256_init(&output.hash);
    if (status != CULM_OK) {
        culm_error_set(error, status, "'%s': cannot start SHA-256", path);
        goto out_header;
    }
    status = culm_file_create(fs, path, &output.file, error);
    if (status != CULM_OK) {
        goto out_hash;
    }
    status = put(&output, header, header_len, error);
    for (size_t i = 0; status == CULM_OK && i < count; i++) {
        status = put_tensor(&output, &tensors[i], error);
    }
    if (status != CULM_OK) {
        culm_file_abandon(&output.file);
        goto out_hash;
    }
    written.bytes = output.file.bytes;
    status = culm_sha256_final(&output.hash, written.sha256);
    if (status != CULM_OK) {
        culm_error_set(error, status, "'%s': cannot compute SHA-256", path);
        culm_file_abandon(&output.file);
        goto out_hash;
    }
    status = culm_file_finish(&output.file, error);
    if (status == CULM_OK) {
        *ret_written = written;
    }
out_hash:
    culm_sha256_release(&output.hash);
out_header:
    free(header);
    return status;
}

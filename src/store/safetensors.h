/*
 * safetensors: named tensors in one file (https://github.com/huggingface/safetensors).
 *
 *     u64 little-endian N │ N bytes of JSON, padded with spaces │ the data
 *     {"__metadata__": {"format": "pt"},
 *      "wte.weight": {"dtype": "F32", "shape": [256, 64], "data_offsets": [0, 65536]}, ...}
 *
 * We write float32 in the order given, data 8-byte aligned. We read every dtype's header, and the
 * values of F32, F16, BF16 and F64, as float32. A file is either right in every respect or refused with one line: what is wrong
 * and at which byte. That covers the header's bound, JSON, duplicate names, dtypes, shapes against
 * offsets, overlaps, holes, and data that is missing or left over.
 *
 * Reading keeps the header in memory and the file open; tensors are read when asked for. A file
 * that is cut short while open gives an error then.
 * Thread: a file is constant after opening; any number of threads may read.
 */
#ifndef CULM_STORE_SAFETENSORS_H
#define CULM_STORE_SAFETENSORS_H

#include "base/file.h"
#include "base/sha256.h"

#define CULM_SAFETENSORS_RANK_MAX 8
#define CULM_SAFETENSORS_HEADER_MAX ((uint64_t)100 << 20) /* the format's own limit */

/* A tensor to be written; everything is borrowed for the length of the call. */
struct culm_tensor_ref {
    const char *name;
    int rank; /* 0: a scalar */
    int64_t shape[4];
    const float *data;                         /* row-major, contiguous */
    const struct culm_safetensors_entry *from; /* where data is NULL: a tensor of an open file */
};

struct culm_metadata {
    const char *key, *value;
};

/* Called once, when about half of the bytes have been written: where a fault test ends a process.
 */
struct culm_write_hook {
    void (*half)(void *arg);
    void *arg;
};

struct culm_written {
    uint64_t bytes;
    char sha256[CULM_SHA256_HEX];
};

/* Writes and syncs `path` (not its directory), replacing what is there; removes it on failure.
 * CULM_ERR_ARGUMENT for a name that is empty, twice there, holds a control character or is no
 * UTF-8. `hook` may be NULL. */
enum culm_status culm_safetensors_write(struct culm_fs *fs, const char *path,
                                        const struct culm_tensor_ref *tensors, size_t count,
                                        const struct culm_metadata *metadata, size_t metadata_count,
                                        const struct culm_write_hook *hook,
                                        struct culm_written *ret_written, struct culm_error *error);

struct culm_safetensors;
struct culm_pins;

struct culm_safetensors_entry {
    const char *name;  /* as long as the file is open, like all here */
    const char *dtype; /* "F32", "BF16", ... */
    int rank;
    int64_t shape[CULM_SAFETENSORS_RANK_MAX];
    int64_t elements;
    const void *data; /* little-endian; perhaps not aligned. NULL when opened by its path */
    uint64_t bytes;
    const struct culm_safetensors *file;
    uint64_t offset; /* in the file */
};

enum culm_status culm_safetensors_open(const char *path, struct culm_safetensors **ret_file,
                                       struct culm_error *error);
/* The same; the file holds what was pinned, or CULM_ERR_CHANGED, then and at each reading. `pins`
 * is borrowed; NULL: whatever it does. */
enum culm_status culm_safetensors_open_pinned(const char *path, struct culm_pins *pins,
                                              struct culm_safetensors **ret_file,
                                              struct culm_error *error);
/* The same from memory, which is borrowed until culm_safetensors_close; `name` is for messages. */
enum culm_status culm_safetensors_parse(const void *data, size_t len, const char *name,
                                        struct culm_safetensors **ret_file,
                                        struct culm_error *error);
void culm_safetensors_close(struct culm_safetensors *file); /* NULL is fine */

size_t culm_safetensors_count(const struct culm_safetensors *file);
/* Sorted by name, bytewise. */
const struct culm_safetensors_entry *culm_safetensors_at(const struct culm_safetensors *file,
                                                         size_t index);
/* NULL: no such tensor. */
const struct culm_safetensors_entry *culm_safetensors_find(const struct culm_safetensors *file,
                                                           const char *name);
/* NULL: no such key. */
const char *culm_safetensors_metadata(const struct culm_safetensors *file, const char *key);
/* SHA-256 of all bytes of the file. `moved` is told of each part that was read; may be NULL. */
enum culm_status culm_safetensors_hash(const struct culm_safetensors *file,
                                       void (*moved)(void *ctx, size_t bytes), void *ctx,
                                       char ret_hex[CULM_SHA256_HEX], struct culm_error *error);
/* Bytes [at, at + len) of a tensor, as they are. CULM_ERR_IO when the file became shorter. */
enum culm_status culm_safetensors_load(const struct culm_safetensors_entry *entry, uint64_t at,
                                       void *ret_data, size_t len, struct culm_error *error);
bool culm_safetensors_is_f32(const struct culm_safetensors_entry *entry);
/* F32, F16, BF16 or F64. */
bool culm_safetensors_is_real(const struct culm_safetensors_entry *entry);
/* Elements [at, at + count) of a tensor that is real, as float32: F16 and BF16 exactly, F64 rounded
 * to the nearest, ties to even. CULM_ERR_FORMAT: it is not real. */
enum culm_status culm_safetensors_floats(const struct culm_safetensors_entry *entry, int64_t at,
                                         int64_t count, float *ret_data, struct culm_error *error);

/* Whether a tensor is real and has this shape, but for dimensions of 1: of the same numbers. */
bool culm_safetensors_fits(const struct culm_safetensors_entry *entry, int rank,
                           const int64_t *shape);

/* Copies a tensor that fits, as float32. CULM_ERR_NOT_FOUND, or CULM_ERR_FORMAT for another shape or
 * dtype. */
enum culm_status culm_safetensors_read(const struct culm_safetensors *file, const char *name,
                                       int rank, const int64_t *shape, float *ret_data,
                                       struct culm_error *error);

/* Neither empty nor "__metadata__", and without control characters: it may be printed. */
bool culm_safetensors_name_ok(const char *name);

#define CULM_SHAPE_TEXT_MAX 192
/* "[256, 64]". */
void culm_shape_text(int rank, const int64_t *shape, char ret_text[CULM_SHAPE_TEXT_MAX]);

#endif

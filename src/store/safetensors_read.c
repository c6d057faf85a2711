/*
 * Reading safetensors: nothing in the file is believed before it is checked.
 *
 * Order of the checks: length word, header bound, JSON (duplicates refused by the parser), each
 * entry for itself, then all entries together: sorted by offset they must tile the data exactly.
 */
#include "store/safetensors.h"

#include "base/pins.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct culm_safetensors {
    char *name;          /* for messages */
    const uint8_t *data; /* of a file that was opened: as far as the header goes */
    size_t len;          /* of all */
    int fd;              /* -1: all is in memory, and borrowed */
    struct culm_stamp stamp;
    struct culm_pins *pins;
    json_t *header;                       /* owns names, dtypes and metadata */
    struct culm_safetensors_entry *entry; /* sorted by name */
    size_t count;
};

static const struct {
    const char *name;
    uint64_t bytes;
} dtypes[] = {
    {"F32", 4}, {"BF16", 2}, {"F16", 2}, {"F64", 8},     {"BOOL", 1},
    {"U8", 1},  {"I8", 1},   {"U16", 2}, {"I16", 2},     {"U32", 4},
    {"I32", 4}, {"U64", 8},  {"I64", 8}, {"F8_E4M3", 1}, {"F8_E5M2", 1},
};

static enum culm_status bad(const struct culm_safetensors *file, uint64_t byte,
                            struct culm_error *error, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static enum culm_status bad(const struct culm_safetensors *file, uint64_t byte,
                            struct culm_error *error, const char *format, ...) {
    va_list args;
    va_start(args, format);
    culm_error_setv(error, CULM_ERR_FORMAT, format, args);
    va_end(args);
    culm_error_prefix(error, "safetensors '%s': byte %llu", file->name, (unsigned long long)byte);
    return CULM_ERR_FORMAT;
}

bool culm_safetensors_name_ok(const char *name) {
    for (const unsigned char *at = (const unsigned char *)name; *at; at++) {
        if (*at < 0x20 || *at == 0x7f) {
            return false;
        }
    }
    return name[0] && strcmp(name, "__metadata__") != 0;
}

void culm_shape_text(int rank, const int64_t *shape, char ret_text[CULM_SHAPE_TEXT_MAX]) {
    size_t used = (size_t)snprintf(ret_text, CULM_SHAPE_TEXT_MAX, "[");
    for (int i = 0; i < rank; i++) {
        used += (size_t)snprintf(ret_text + used, CULM_SHAPE_TEXT_MAX - used, "%s%lld",
                                 i ? ", " : "", (long long)shape[i]);
    }
    snprintf(ret_text + used, CULM_SHAPE_TEXT_MAX - used, "]");
}

static enum culm_status read_metadata(const struct culm_safetensors *file, json_t *metadata,
                                      struct culm_error *error) {
    const char *key;
    json_t *value;
    if (!json_is_object(metadata)) {
        return bad(file, 8, error, "__metadata__ is not an object");
    }
    json_object_foreach(metadata, key, value) {
        if (!json_is_string(value)) {
            return bad(file, 8, error, "__metadata__ has a value that is not a string");
        }
    }
    return CULM_OK;
}

static enum culm_status read_dtype(const struct culm_safetensors *file, json_t *value,
                                   struct culm_safetensors_entry *entry, uint64_t *ret_size,
                                   struct culm_error *error) {
    const char *text = json_string_value(value);
    for (size_t i = 0; text && i < sizeof dtypes / sizeof dtypes[0]; i++) {
        if (strcmp(text, dtypes[i].name) == 0) {
            entry->dtype = dtypes[i].name;
            *ret_size = dtypes[i].bytes;
            return CULM_OK;
        }
    }
    return bad(file, 8, error, "tensor '%s' has no known dtype", entry->name);
}

static enum culm_status read_shape(const struct culm_safetensors *file, json_t *value,
                                   struct culm_safetensors_entry *entry, uint64_t dtype_bytes,
                                   uint64_t *ret_bytes, struct culm_error *error) {
    if (!json_is_array(value)) {
        return bad(file, 8, error, "tensor '%s' has no shape", entry->name);
    }
    if (json_array_size(value) > CULM_SAFETENSORS_RANK_MAX) {
        return bad(file, 8, error, "tensor '%s' has %zu dimensions; at most %d are read",
                   entry->name, json_array_size(value), CULM_SAFETENSORS_RANK_MAX);
    }
    uint64_t elements = 1, bytes;
    entry->rank = (int)json_array_size(value);
    for (int i = 0; i < entry->rank; i++) {
        json_t *size = json_array_get(value, (size_t)i);
        if (!json_is_integer(size) || json_integer_value(size) < 0) {
            return bad(file, 8, error, "tensor '%s': dimension %d is not a size", entry->name, i);
        }
        entry->shape[i] = json_integer_value(size);
        if (__builtin_mul_overflow(elements, (uint64_t)entry->shape[i], &elements)) {
            return bad(file, 8, error, "tensor '%s': shape is too large", entry->name);
        }
    }
    if (__builtin_mul_overflow(elements, dtype_bytes, &bytes) || bytes > INT64_MAX) {
        return bad(file, 8, error, "tensor '%s': shape is too large", entry->name);
    }
    entry->elements = (int64_t)elements;
    *ret_bytes = bytes;
    return CULM_OK;
}

/* Fills entry; entry->data holds the offset into the data, to be placed by tile(). */
static enum culm_status read_entry(const struct culm_safetensors *file, json_t *value,
                                   uint64_t data_start, struct culm_safetensors_entry *entry,
                                   uint64_t *ret_begin, struct culm_error *error) {
    uint64_t size = 0, bytes = 0;
    if (!json_is_object(value)) {
        return bad(file, 8, error, "tensor '%s' is not an object", entry->name);
    }
    enum culm_status status =
        read_dtype(file, json_object_get(value, "dtype"), entry, &size, error);
    if (status != CULM_OK) {
        return status;
    }
    status = read_shape(file, json_object_get(value, "shape"), entry, size, &bytes, error);
    if (status != CULM_OK) {
        return status;
    }
    json_t *offsets = json_object_get(value, "data_offsets");
    json_t *first = json_array_get(offsets, 0), *last = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(first) || !json_is_integer(last) ||
        json_integer_value(first) < 0 || json_integer_value(last) < json_integer_value(first)) {
        return bad(file, 8, error, "tensor '%s' has no proper data_offsets", entry->name);
    }
    uint64_t begin = (uint64_t)json_integer_value(first), end = (uint64_t)json_integer_value(last);
    if (end - begin != bytes) {
        char shape[CULM_SHAPE_TEXT_MAX];
        culm_shape_text(entry->rank, entry->shape, shape);
        return bad(file, data_start + begin, error,
                   "tensor '%s': offsets give %llu bytes, %s of %s needs %llu", entry->name,
                   (unsigned long long)(end - begin), shape, entry->dtype,
                   (unsigned long long)bytes);
    }
    entry->bytes = bytes;
    *ret_begin = begin;
    return CULM_OK;
}

struct place {
    uint64_t begin;
    struct culm_safetensors_entry *entry;
};

static int compare_places(const void *a, const void *b) {
    const struct place *x = a, *y = b;
    if (x->begin != y->begin) {
        return x->begin < y->begin ? -1 : 1;
    }
    return (x->entry->bytes > y->entry->bytes) - (x->entry->bytes < y->entry->bytes);
}

/* The entries must cover the data from its first to its last byte, each byte once. */
static enum culm_status tile(struct culm_safetensors *file, struct place *places,
                             uint64_t data_start, struct culm_error *error) {
    uint64_t at = 0, available = file->len - data_start;
    if (file->count) {
        qsort(places, file->count, sizeof *places, compare_places);
    }
    for (size_t i = 0; i < file->count; i++) {
        struct culm_safetensors_entry *entry = places[i].entry;
        if (places[i].begin != at) {
            return bad(file, data_start + (places[i].begin < at ? places[i].begin : at), error,
                       places[i].begin < at ? "tensor '%s' overlaps another one"
                                            : "bytes before tensor '%s' belong to no tensor",
                       entry->name);
        }
        if (entry->bytes > available - at) {
            return bad(file, file->len, error,
                       "truncated: tensor '%s' ends at byte %llu; copy the file again", entry->name,
                       (unsigned long long)(data_start + at + entry->bytes));
        }
        entry->data = file->fd < 0 ? file->data + data_start + at : NULL;
        entry->file = file;
        entry->offset = data_start + at;
        at += entry->bytes;
    }
    if (at != available) {
        return bad(file, data_start + at, error, "%llu bytes are left over after the last tensor",
                   (unsigned long long)(available - at));
    }
    return CULM_OK;
}

static int compare_entries(const void *a, const void *b) {
    const struct culm_safetensors_entry *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static enum culm_status read_entries(struct culm_safetensors *file, uint64_t data_start,
                                     struct culm_error *error) {
    const char *key;
    json_t *value;
    size_t capacity = json_object_size(file->header);
    file->entry = calloc(capacity + 1, sizeof *file->entry);
    struct place *places = calloc(capacity + 1, sizeof *places);
    enum culm_status status = CULM_OK;
    if (!file->entry || !places) {
        status =
            culm_error_set(error, CULM_ERR_MEMORY, "safetensors '%s': out of memory", file->name);
        goto out;
    }
    json_object_foreach(file->header, key, value) {
        if (strcmp(key, "__metadata__") == 0) {
            status = read_metadata(file, value, error);
        } else if (!culm_safetensors_name_ok(key)) {
            status = bad(file, 8, error, "a tensor name is empty or has a control character");
        } else {
            struct culm_safetensors_entry *entry = &file->entry[file->count];
            entry->name = key;
            status = read_entry(file, value, data_start, entry, &places[file->count].begin, error);
            places[file->count].entry = entry;
            file->count++;
        }
        if (status != CULM_OK) {
            goto out;
        }
    }
    status = tile(file, places, data_start, error);
    if (status == CULM_OK && file->count) {
        qsort(file->entry, file->count, sizeof *file->entry, compare_entries);
    }
out:
    free(places);
    return status;
}

static enum culm_status read_bytes(const struct culm_safetensors *file, uint64_t at, void *ret_data,
                                   size_t len, struct culm_error *error) {
    if (file->fd < 0) {
        memcpy(ret_data, file->data + at, len);
        return CULM_OK;
    }
    const struct culm_pins_reader reader = {.pins = file->pins,
                                            .what = "safetensors",
                                            .path = file->name,
                                            .fd = file->fd,
                                            .stamp = file->stamp};
    return culm_pins_read(&reader, at, ret_data, len, error);
}

/* What comes before the data, into memory. */
static enum culm_status read_head(struct culm_safetensors *file, uint64_t header_len,
                                  struct culm_error *error) {
    uint8_t *head = malloc((size_t)header_len + 8);
    if (!head) {
        return culm_error_set(error, CULM_ERR_MEMORY, "safetensors '%s': out of memory",
                              file->name);
    }
    file->data = head;
    return read_bytes(file, 0, head, (size_t)header_len + 8, error);
}

static enum culm_status read_file(struct culm_safetensors *file, struct culm_error *error) {
    uint64_t header_len;
    json_error_t reason;
    if (file->len < 8) {
        return bad(file, file->len, error, "truncated: the header's length takes 8 bytes");
    }
    enum culm_status status = read_bytes(file, 0, &header_len, 8, error);
    if (status != CULM_OK) {
        return status;
    }
    if (header_len > CULM_SAFETENSORS_HEADER_MAX) {
        return bad(file, 0, error,
                   "header length %llu is over %llu: not a safetensors file, or damaged",
                   (unsigned long long)header_len, (unsigned long long)CULM_SAFETENSORS_HEADER_MAX);
    }
    if (header_len > file->len - 8) {
        return bad(file, file->len, error,
                   "truncated: the header ends at byte %llu; copy the file again",
                   (unsigned long long)header_len + 8);
    }
    if (file->fd >= 0 && (status = read_head(file, header_len, error)) != CULM_OK) {
        return status;
    }
    if (header_len == 0 || file->data[8] != '{') {
        return bad(file, 8, error, "the header does not begin with '{'");
    }
    file->header = json_loadb((const char *)file->data + 8, (size_t)header_len,
                              JSON_REJECT_DUPLICATES, &reason);
    if (!file->header) {
        if (json_error_code(&reason) == json_error_out_of_memory) {
            return culm_error_set(error, CULM_ERR_MEMORY, "safetensors '%s': out of memory",
                                  file->name);
        }
        /* The parser's own text quotes the file, which may hold anything. */
        return bad(file, 8 + (uint64_t)(reason.position > 0 ? reason.position : 0), error,
                   json_error_code(&reason) == json_error_duplicate_key
                       ? "the header names a tensor twice"
                       : "the header is not valid JSON");
    }
    return read_entries(file, 8 + header_len, error);
}

static struct culm_safetensors *file_new(const char *name) {
    struct culm_safetensors *file = calloc(1, sizeof *file);
    if (file) {
        file->name = strdup(name);
        file->fd = -1;
        if (!file->name) {
            free(file);
            file = NULL;
        }
    }
    return file;
}

enum culm_status culm_safetensors_parse(const void *data, size_t len, const char *name,
                                        struct culm_safetensors **ret_file,
                                        struct culm_error *error) {
    struct culm_safetensors *file = file_new(name);
    if (!file) {
        return culm_error_set(error, CULM_ERR_MEMORY, "safetensors '%s': out of memory", name);
    }
    file->data = data;
    file->len = len;
    enum culm_status status = read_file(file, error);
    if (status != CULM_OK) {
        culm_safetensors_close(file);
        return status;
    }
    *ret_file = file;
    return CULM_OK;
}

enum culm_status culm_safetensors_open(const char *path, struct culm_safetensors **ret_file,
                                       struct culm_error *error) {
    return culm_safetensors_open_pinned(path, NULL, ret_file, error);
}

enum culm_status culm_safetensors_open_pinned(const char *path, struct culm_pins *pins,
                                              struct culm_safetensors **ret_file,
                                              struct culm_error *error) {
    enum culm_status status;
    struct stat info;
    struct culm_safetensors *file = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &info) != 0) {
        status = culm_error_open(error, errno, "safetensors", path);
        goto out;
    }
    if (!S_ISREG(info.st_mode)) {
        status =
            culm_error_set(error, CULM_ERR_CONFIG, "safetensors '%s': is not a plain file", path);
        goto out;
    }
    file = file_new(path);
    if (!file) {
        status = culm_error_set(error, CULM_ERR_MEMORY, "safetensors '%s': out of memory", path);
        goto out;
    }
    file->fd = fd;
    file->len = (size_t)info.st_size;
    file->pins = pins;
    culm_stamp_of(&info, &file->stamp);
    fd = -1;
    status = culm_pins_file(pins, path, file->fd, error);
    if (status == CULM_OK) {
        status = read_file(file, error);
    }
    if (status == CULM_OK) {
        *ret_file = file;
        file = NULL;
    }
out:
    culm_safetensors_close(file);
    if (fd >= 0) {
        close(fd);
    }
    return status;
}

void culm_safetensors_close(struct culm_safetensors *file) {
    if (!file) {
        return;
    }
    if (file->fd >= 0) {
        free((void *)(uintptr_t)file->data);
        close(file->fd);
    }
    free(file->entry);
    json_decref(file->header);
    free(file->name);
    free(file);
}

size_t culm_safetensors_count(const struct culm_safetensors *file) { return file->count; }

const struct culm_safetensors_entry *culm_safetensors_at(const struct culm_safetensors *file,
                                                         size_t index) {
    return &file->entry[index];
}

const struct culm_safetensors_entry *culm_safetensors_find(const struct culm_safetensors *file,
                                                           const char *name) {
    struct culm_safetensors_entry key = {.name = name};
    if (file->count == 0) {
        return NULL;
    }
    return bsearch(&key, file->entry, file->count, sizeof key, compare_entries);
}

const char *culm_safetensors_metadata(const struct culm_safetensors *file, const char *key) {
    return json_string_value(json_object_get(json_object_get(file->header, "__metadata__"), key));
}

enum culm_status culm_safetensors_load(const struct culm_safetensors_entry *entry, uint64_t at,
                                       void *ret_data, size_t len, struct culm_error *error) {
    return len ? read_bytes(entry->file, entry->offset + at, ret_data, len, error) : CULM_OK;
}

enum culm_status culm_safetensors_hash(const struct culm_safetensors *file,
                                       void (*moved)(void *ctx, size_t bytes), void *ctx,
                                       char ret_hex[CULM_SHA256_HEX], struct culm_error *error) {
    enum { PART = 1 << 20 };
    struct culm_sha256 hash;
    uint8_t *buffer = malloc(PART);
    enum culm_status status = buffer ? culm_sha256_init(&hash) : CULM_ERR_MEMORY;
    if (status != CULM_OK) {
        free(buffer);
        return culm_error_set(error, status, "safetensors '%s': cannot start SHA-256", file->name);
    }
    for (size_t at = 0; at < file->len && status == CULM_OK;) {
        size_t part = file->len - at < PART ? file->len - at : PART;
        status = read_bytes(file, at, buffer, part, error);
        culm_sha256_update(&hash, buffer, part);
        at += part;
        if (moved) {
            moved(ctx, part);
        }
    }
    free(buffer);
    if (status != CULM_OK) {
        culm_sha256_release(&hash);
        return status;
    }
    status = culm_sha256_final(&hash, ret_hex);
    return status == CULM_OK
               ? CULM_OK
               : culm_error_set(error, status, "safetensors '%s': cannot compute SHA-256",
                                file->name);
}

bool culm_safetensors_is_f32(const struct culm_safetensors_entry *entry) {
    return strcmp(entry->dtype, "F32") == 0;
}

/* --- numbers --- */

#define PART_ELEMENTS 4096

enum real { NOT_REAL, REAL_F32, REAL_BF16, REAL_F16, REAL_F64 };

static enum real real_of(const struct culm_safetensors_entry *entry) {
    static const char *const names[] = {
        [REAL_F32] = "F32", [REAL_BF16] = "BF16", [REAL_F16] = "F16", [REAL_F64] = "F64"};
    for (int i = REAL_F32; i <= REAL_F64; i++) {
        if (strcmp(entry->dtype, names[i]) == 0) {
            return (enum real)i;
        }
    }
    return NOT_REAL;
}

bool culm_safetensors_is_real(const struct culm_safetensors_entry *entry) {
    return real_of(entry) != NOT_REAL;
}

static float from_bf16(uint16_t bits) {
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

static float from_f16(uint16_t bits) {
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16, exponent = bits >> 10 & 31,
             fraction = bits & 1023, wide;
    float value;
    if (exponent == 0) { /* a multiple of 2^-24, which float32 holds as a normal number */
        value = (float)fraction * 0x1p-24f;
        return sign ? -value : value;
    }
    wide = sign | (exponent == 31 ? 0xffu : exponent + 112) << 23 | fraction << 13;
    memcpy(&value, &wide, sizeof value);
    return value;
}

static void convert(enum real real, const void *from, size_t count, float *to) {
    const uint16_t *half = from;
    const double *wide = from;
    for (size_t i = 0; i < count; i++) {
        to[i] = real == REAL_F64    ? (float)wide[i]
                : real == REAL_BF16 ? from_bf16(half[i])
                                    : from_f16(half[i]);
    }
}

enum culm_status culm_safetensors_floats(const struct culm_safetensors_entry *entry, int64_t at,
                                         int64_t count, float *ret_data, struct culm_error *error) {
    double part[PART_ELEMENTS]; /* of the widest, which aligns the others */
    enum real real = real_of(entry);
    size_t left = (size_t)count, size = real == REAL_F64 ? 8 : 2;
    uint64_t from = (uint64_t)at;
    if (real == NOT_REAL) {
        return culm_error_set(error, CULM_ERR_FORMAT,
                              "safetensors '%s': tensor '%s' is %s; weights are read from F32, "
                              "F16, BF16 and F64: save it as one of them",
                              entry->file->name, entry->name, entry->dtype);
    }
    if (real == REAL_F32) {
        return culm_safetensors_load(entry, from * 4, ret_data, left * 4, error);
    }
    while (left) {
        size_t some = left < PART_ELEMENTS ? left : PART_ELEMENTS;
        enum culm_status status =
            culm_safetensors_load(entry, from * size, part, some * size, error);
        if (status != CULM_OK) {
            return status;
        }
        convert(real, part, some, ret_data);
        ret_data += some;
        from += some;
        left -= some;
    }
    return CULM_OK;
}

bool culm_safetensors_fits(const struct culm_safetensors_entry *entry, int rank,
                           const int64_t *shape) {
    int i = 0, k = 0;
    do {
        while (i < entry->rank && entry->shape[i] == 1) {
            i++;
        }
        while (k < rank && shape[k] == 1) {
            k++;
        }
        if (i == entry->rank || k == rank) {
            return i == entry->rank && k == rank && culm_safetensors_is_real(entry);
        }
    } while (entry->shape[i++] == shape[k++]);
    return false;
}

enum culm_status culm_safetensors_read(const struct culm_safetensors *file, const char *name,
                                       int rank, const int64_t *shape, float *ret_data,
                                       struct culm_error *error) {
    const struct culm_safetensors_entry *entry = culm_safetensors_find(file, name);
    if (!entry) {
        return culm_error_set(error, CULM_ERR_NOT_FOUND, "safetensors '%s': has no tensor '%s'",
                              file->name, name);
    }
    if (!culm_safetensors_fits(entry, rank, shape)) {
        char has[CULM_SHAPE_TEXT_MAX], wanted[CULM_SHAPE_TEXT_MAX];
        culm_shape_text(entry->rank, entry->shape, has);
        culm_shape_text(rank, shape, wanted);
        return culm_error_set(error, CULM_ERR_FORMAT,
                              "safetensors '%s': tensor '%s' is %s %s, not F32 %s", file->name,
                              name, entry->dtype, has, wanted);
    }
    return culm_safetensors_floats(entry, 0, entry->elements, ret_data, error);
}

/* A row of token ids; see the header. */
#include "data/stream.h"

#include "base/file.h"
#include "data/files.h"
#include "data/npy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES 4096 /* on the stack; a multiple of every width */

struct segment {
    uint64_t first, count; /* where it starts in the joined row, how long it is */
    uint64_t offset;       /* of its first id in the file */
    int width;             /* bytes of an id */
    bool is_signed;
};

struct culm_stream {
    struct culm_files *files; /* NULL: in memory */
    int64_t vocab;
    uint64_t count;
    char *name;
    char note[CULM_FILES_NOTE]; /* of the files */
    bool bytes;                 /* text as bytes */
    void *memory;               /* the ids, where a tokenizer made them */
    int memory_width;           /* 2 or 4 */
    size_t opening_bytes;       /* at most, while they were made */
    struct segment segment[];   /* one per file, in order; none is empty */
};

uint64_t culm_stream_count(const struct culm_stream *stream) { return stream->count; }
const char *culm_stream_name(const struct culm_stream *stream) { return stream->name; }
const char *culm_stream_note(const struct culm_stream *stream) { return stream->note; }

size_t culm_stream_resident_bytes(const struct culm_stream *stream) {
    size_t ids = stream->memory ? (size_t)stream->count * (size_t)stream->memory_width : 0;
    return ids + (stream->files ? culm_files_resident_bytes(stream->files) : 0);
}

size_t culm_stream_opening_bytes(const struct culm_stream *stream) { return stream->opening_bytes; }

void culm_stream_free(struct culm_stream *stream) {
    if (stream) {
        culm_files_free(stream->files);
        free(stream->name);
        free(stream->memory);
        free(stream);
    }
}

/* --- reading --- */

static int64_t id_at(const uint8_t *data, const struct segment *segment) {
    uint64_t value = 0;
    for (int i = 0; i < segment->width; i++) {
        value |= (uint64_t)data[i] << 8 * i;
    }
    if (segment->is_signed && value >> (8 * segment->width - 1)) {
        return -1; /* whichever it is, it is none */
    }
    return value > INT64_MAX ? INT64_MAX : (int64_t)value;
}

static enum culm_status outside(const struct culm_stream *stream, size_t file, uint64_t index,
                                int64_t id, struct culm_error *error) {
    const char *path = stream->files->entry[file].path;
    if (stream->bytes) {
        return culm_error_set(
            error, CULM_ERR_CONFIG,
            "text '%s': byte %llu is %lld, outside of the vocabulary of %lld; set "
            "model.vocab to 256",
            path, (unsigned long long)index, (long long)id, (long long)stream->vocab);
    }
    if (id < 0) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "token file '%s': token %llu is negative; ids begin at 0", path,
                              (unsigned long long)index);
    }
    return culm_error_set(error, CULM_ERR_CONFIG,
                          "token file '%s': token %llu is %lld, outside of the vocabulary of %lld "
                          "(read as %d bytes a token); set model.vocab, or name the file .u16 or "
                          ".u32 after what it holds",
                          path, (unsigned long long)index, (long long)id, (long long)stream->vocab,
                          stream->segment[file].width);
}

/* Ids [at, at + count) of one file. */
static enum culm_status read_segment(const struct culm_stream *stream, size_t file, uint64_t at,
                                     int32_t *ret_id, size_t count, struct culm_error *error) {
    const struct segment *segment = &stream->segment[file];
    uint8_t data[CHUNK_BYTES];
    size_t width = (size_t)segment->width, most = sizeof data / width;
    for (size_t done = 0; done < count;) {
        size_t part = count - done < most ? count - done : most;
        enum culm_status status = culm_files_read(
            stream->files, file, segment->offset + (at + done) * width, data, part * width, error);
        if (status != CULM_OK) {
            return status;
        }
        for (size_t i = 0; i < part; i++, done++) {
            int64_t id = id_at(data + i * width, segment);
            if (id < 0 || id >= stream->vocab) {
                return outside(stream, file, at + done, id, error);
            }
            ret_id[done] = (int32_t)id;
        }
    }
    return CULM_OK;
}

static void read_memory(const struct culm_stream *stream, uint64_t at, int32_t *ret_id,
                        size_t count) {
    const uint16_t *narrow = stream->memory;
    const int32_t *wide = stream->memory;
    for (size_t i = 0; i < count; i++) {
        ret_id[i] = stream->memory_width == 2 ? narrow[at + i] : wide[at + i];
    }
}

enum culm_status culm_stream_read(const struct culm_stream *stream, uint64_t at, int32_t *ret_id,
                                  size_t count, struct culm_error *error) {
    if (!stream->files) {
        read_memory(stream, at, ret_id, count);
        return CULM_OK;
    }
    size_t low = 0, high = stream->files->count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (stream->segment[middle].first <= at) {
            low = middle;
        } else {
            high = middle;
        }
    }
    for (; count; low++) {
        const struct segment *segment = &stream->segment[low];
        uint64_t inside = at - segment->first;
        size_t part = count < segment->count - inside ? count : (size_t)(segment->count - inside);
        enum culm_status status = read_segment(stream, low, inside, ret_id, part, error);
        if (status != CULM_OK) {
            return status;
        }
        ret_id += part;
        at += part;
        count -= part;
    }
    return CULM_OK;
}

/* --- opening --- */

static enum culm_status stream_new(const struct culm_files_options *options, int64_t vocab,
                                   struct culm_stream **ret_stream, struct culm_error *error) {
    const char *what = options->what;
    struct culm_files *files = NULL;
    if (vocab < 1 || vocab > INT32_MAX) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "%s: a vocabulary of %lld", what,
                              (long long)vocab);
    }
    enum culm_status status = culm_files_open_as(options, &files, error);
    if (status != CULM_OK) {
        return status;
    }
    struct culm_stream *stream =
        calloc(1, sizeof *stream + files->count * sizeof stream->segment[0]);
    if (!stream || asprintf(&stream->name, "%s '%s'", what, options->paths[0]) < 0) {
        free(stream);
        culm_files_free(files);
        return culm_error_set(error, CULM_ERR_MEMORY, "%s: out of memory", what);
    }
    stream->vocab = vocab;
    stream->files = files;
    memcpy(stream->note, files->note, sizeof stream->note);
    *ret_stream = stream;
    return CULM_OK;
}

/* Reads, hence checks, ids of the file: all, or for a large one 64 parts of it. */
static enum culm_status look_through(const struct culm_stream *stream, size_t file,
                                     struct culm_error *error) {
    enum { IDS = 4096, PARTS = 64 };
    int32_t id[IDS];
    const struct segment *segment = &stream->segment[file];
    bool whole = segment->count * (uint64_t)segment->width <= CULM_STREAM_SCAN_MAX;
    uint64_t parts = whole ? 1 : PARTS, stride = segment->count / parts;
    uint64_t length =
        whole ? segment->count : CULM_STREAM_SCAN_MAX / PARTS / (uint64_t)segment->width;
    for (uint64_t part = 0; part < parts; part++) {
        for (uint64_t done = 0; done < length; done += IDS) {
            size_t count = length - done < IDS ? (size_t)(length - done) : IDS;
            enum culm_status status =
                read_segment(stream, file, part * stride + done, id, count, error);
            if (status != CULM_OK) {
                return status;
            }
        }
    }
    return CULM_OK;
}

/* "ids.u16.gz" ends in ".u16" */
static bool ends_in(const struct culm_files_entry *entry, const char *end) {
    size_t len = strlen(entry->path), end_len = strlen(end), gz = entry->unpacked ? 3 : 0;
    return len >= end_len + gz && !strncmp(entry->path + len - gz - end_len, end, end_len);
}

/* u32 read as u16 gives ids that all exist, every second one 0. */
static enum culm_status check_width(const struct culm_stream *stream, size_t file,
                                    struct culm_error *error) {
    uint8_t data[CHUNK_BYTES];
    const struct segment *segment = &stream->segment[file];
    size_t pairs = segment->count / 2 < sizeof data / 4 ? segment->count / 2 : sizeof data / 4;
    enum culm_status status = culm_files_read(stream->files, file, 0, data, pairs * 4, error);
    if (status != CULM_OK || pairs < 16) {
        return status;
    }
    bool low = false, high = false;
    for (size_t i = 0; i < pairs; i++) {
        low |= data[4 * i] || data[4 * i + 1];
        high |= data[4 * i + 2] || data[4 * i + 3];
    }
    if (low && !high) {
        return culm_error_set(
            error, CULM_ERR_CONFIG,
            "token file '%s': every second of its 2-byte tokens is 0, so it seems "
            "to hold 4-byte ones; name it .u32",
            stream->files->entry[file].path);
    }
    return CULM_OK;
}

static enum culm_status plain_segment(const struct culm_stream *stream, size_t file,
                                      struct segment *segment, struct culm_error *error) {
    const struct culm_files_entry *entry = &stream->files->entry[file];
    bool narrow = ends_in(entry, ".u16") || (!ends_in(entry, ".u32") && stream->vocab <= 65536);
    *segment = (struct segment){.width = narrow ? 2 : 4};
    segment->count = entry->bytes / (uint64_t)segment->width;
    if (entry->bytes % (uint64_t)segment->width) {
        return culm_error_set(error, CULM_ERR_FORMAT,
                              "token file '%s': its %llu bytes are not a whole number of %d-byte "
                              "tokens; is it cut short, or should its name end in .u16 or .u32?",
                              entry->path, (unsigned long long)entry->bytes, segment->width);
    }
    return CULM_OK;
}

static enum culm_status token_segment(struct culm_stream *stream, size_t file,
                                      struct culm_error *error) {
    const struct culm_files_entry *entry = &stream->files->entry[file];
    struct segment *segment = &stream->segment[file];
    size_t len = entry->bytes < CULM_NPY_HEADER_MAX ? (size_t)entry->bytes : CULM_NPY_HEADER_MAX;
    struct culm_npy npy;
    char *head = malloc(len);
    if (!head) {
        return culm_error_set(error, CULM_ERR_MEMORY, "token file '%s': out of memory",
                              entry->path);
    }
    enum culm_status status = culm_files_read(stream->files, file, 0, head, len, error);
    bool is_npy = status == CULM_OK && (culm_npy_is(head, len) || ends_in(entry, ".npy"));
    if (status == CULM_OK && is_npy) {
        status = culm_npy_parse(head, len, entry->bytes, entry->path, &npy, error);
        if (status == CULM_OK) {
            *segment = (struct segment){.offset = npy.offset,
                                        .count = npy.count,
                                        .width = npy.width,
                                        .is_signed = npy.is_signed};
        }
    } else if (status == CULM_OK) {
        status = plain_segment(stream, file, segment, error);
        if (status == CULM_OK && segment->width == 2) {
            status = check_width(stream, file, error);
        }
    }
    free(head);
    return status;
}

enum culm_status culm_stream_open_tokens(const char *const *paths, size_t path_count, int64_t vocab,
                                         struct culm_pins *pins, struct culm_stream **ret_stream,
                                         struct culm_error *error) {
    struct culm_stream *stream;
    const struct culm_files_options options = {.what = "token file",
                                               .content = CULM_FILES_TOKENS,
                                               .many = true,
                                               .paths = paths,
                                               .path_count = path_count,
                                               .pins = pins};
    enum culm_status status = stream_new(&options, vocab, &stream, error);
    if (status != CULM_OK) {
        return status;
    }
    for (size_t i = 0; status == CULM_OK && i < stream->files->count; i++) {
        status = token_segment(stream, i, error);
        if (status == CULM_OK) {
            stream->segment[i].first = stream->count;
            stream->count += stream->segment[i].count;
            status = look_through(stream, i, error);
        }
    }
    if (status != CULM_OK) {
        culm_stream_free(stream);
        return status;
    }
    *ret_stream = stream;
    return CULM_OK;
}

static enum culm_status open_bytes(struct culm_stream *stream, struct culm_error *error) {
    enum culm_status status = CULM_OK;
    stream->bytes = true;
    for (size_t i = 0; status == CULM_OK && i < stream->files->count; i++) {
        stream->segment[i] = (struct segment){
            .first = stream->count, .count = stream->files->entry[i].bytes, .width = 1};
        stream->count += stream->segment[i].count;
        if (stream->vocab < 256) {
            status = look_through(stream, i, error);
        }
    }
    return status;
}

/* Moves what the encoder has to the end of the ids in memory. */
static bool keep(struct culm_stream *stream, const struct culm_encoder *encoder) {
    size_t width = (size_t)stream->memory_width;
    char *larger = realloc(stream->memory, ((size_t)stream->count + encoder->count + 1) * width);
    if (!larger) {
        return false;
    }
    stream->memory = larger;
    for (size_t i = 0; i < encoder->count; i++) {
        if (width == 2) {
            ((uint16_t *)stream->memory)[stream->count + i] = (uint16_t)encoder->id[i];
        } else {
            ((int32_t *)stream->memory)[stream->count + i] = encoder->id[i];
        }
    }
    stream->count += encoder->count;
    return true;
}

/* Several files are several texts: the tokenizer's end-of-text stands between them. */
static enum culm_status open_encoded(struct culm_stream *stream,
                                     const struct culm_tokenizer *tokenizer,
                                     struct culm_error *error) {
    struct culm_encoder encoder = {0};
    enum culm_status status = CULM_OK;
    int32_t vocab = culm_tokenizer_vocab(tokenizer);
    int32_t end = culm_tokenizer_role(tokenizer, CULM_TOKEN_END);
    stream->memory_width = vocab <= 65536 ? 2 : 4;
    if (vocab > stream->vocab) {
        return culm_error_set(
            error, CULM_ERR_CONFIG,
            "data.tokenizer: has %d tokens, the vocabulary of the model %lld; set "
            "model.vocab to %d or more",
            vocab, (long long)stream->vocab, vocab);
    }
    for (size_t i = 0; status == CULM_OK && i < stream->files->count; i++) {
        char *text;
        size_t len;
        status = culm_files_slurp(stream->files, i, SIZE_MAX / 8, &text, &len, error);
        if (status != CULM_OK) {
            break;
        }
        encoder.count = 0;
        status = culm_tokenizer_encode(tokenizer, &encoder, text, len, error);
        free(text);
        /* The text and its ids, then the ids and what is kept of them. */
        size_t ids = encoder.capacity * sizeof *encoder.id,
               held = culm_stream_resident_bytes(stream);
        size_t kept = encoder.count * (size_t)stream->memory_width, more = len > kept ? len : kept;
        stream->opening_bytes =
            held + ids + more > stream->opening_bytes ? held + ids + more : stream->opening_bytes;
        if (status == CULM_OK && end >= 0 && i + 1 < stream->files->count) {
            status = culm_encoder_append(&encoder, end, error);
        }
        if (status == CULM_OK && !keep(stream, &encoder)) {
            status = CULM_ERR_MEMORY;
        }
        if (status != CULM_OK) {
            status = culm_error_set(error, status, "text '%s': out of memory for its tokens",
                                    stream->files->entry[i].path);
        }
    }
    culm_encoder_release(&encoder);
    culm_files_free(stream->files);
    stream->files = NULL;
    return status;
}

enum culm_status culm_stream_open_text(const char *const *paths, size_t path_count, int64_t vocab,
                                       const struct culm_tokenizer *tokenizer,
                                       struct culm_pins *pins, struct culm_stream **ret_stream,
                                       struct culm_error *error) {
    struct culm_stream *stream;
    const struct culm_files_options options = {.what = "text",
                                               .content = CULM_FILES_TEXT,
                                               .many = true,
                                               .paths = paths,
                                               .path_count = path_count,
                                               .pins = pins};
    enum culm_status status = stream_new(&options, vocab, &stream, error);
    if (status != CULM_OK) {
        return status;
    }
    status = tokenizer ? open_encoded(stream, tokenizer, error) : open_bytes(stream, error);
    if (status != CULM_OK) {
        culm_stream_free(stream);
        return status;
    }
    *ret_stream = stream;
    return CULM_OK;
}

/* --- saving --- */

static enum culm_status save_ids(const struct culm_stream *stream, struct culm_file *file,
                                 size_t width, struct culm_error *error) {
    enum { IDS = 1024 };
    int32_t id[IDS];
    uint8_t data[4 * IDS];
    for (uint64_t done = 0; done < stream->count; done += IDS) {
        size_t count = stream->count - done < IDS ? (size_t)(stream->count - done) : IDS;
        enum culm_status status = culm_stream_read(stream, done, id, count, error);
        if (status != CULM_OK) {
            return status;
        }
        for (size_t i = 0; i < count * width; i++) {
            data[i] = (uint8_t)((uint32_t)id[i / width] >> 8 * (i % width));
        }
        status = culm_file_append(file, data, count * width, error);
        if (status != CULM_OK) {
            return status;
        }
    }
    return CULM_OK;
}

enum culm_status culm_stream_save(const struct culm_stream *stream, const char *path,
                                  struct culm_error *error) {
    size_t width = stream->vocab <= 65536 ? 2 : 4;
    char head[129];
    /* 128 bytes in all, as NumPy aligns it: 10, the text, blanks, a newline */
    memcpy(head, "\x93NUMPY\1\0\x76\0", 10);
    int len = snprintf(head + 10, sizeof head - 10,
                       "{'descr': '<u%zu', 'fortran_order': False, 'shape': (%llu,), }", width,
                       (unsigned long long)stream->count);
    memset(head + 10 + len, ' ', (size_t)(117 - len));
    head[127] = '\n';
    struct culm_file *file = malloc(sizeof *file);
    if (!file) {
        return culm_error_set(error, CULM_ERR_MEMORY, "token file '%s': out of memory", path);
    }
    enum culm_status status = culm_file_create(NULL, path, file, error);
    if (status == CULM_OK) {
        status = culm_file_append(file, head, 128, error);
        status = status == CULM_OK ? save_ids(stream, file, width, error) : status;
        if (status == CULM_OK) {
            status = culm_file_finish(file, error);
        } else {
            culm_file_abandon(file);
        }
    }
    free(file);
    return status;
}

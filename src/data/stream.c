/* A row of token ids; see the header. */
#include "data/stream.h"

#include "base/file.h"
#include "base/grow.h"
#include "data/files.h"
#include "data/npy.h"
#include "data/unicode.h"

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
    bool unseen;
    struct culm_stream_range *left;
    size_t left_count, left_capacity;
    struct segment segment[]; /* one per file, in order; none is empty */
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
        free(stream->left);
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
        return culm_error_set(
            error, CULM_ERR_CONFIG,
            "token file '%s': token %llu is negative; ids begin at 0" CULM_SKIP_ADVICE, path,
            (unsigned long long)index);
    }
    return culm_error_set(error, CULM_ERR_CONFIG,
                          "token file '%s': token %llu is %lld, outside of the vocabulary of %lld "
                          "(read as %d bytes a token); set model.vocab, or name the file .u16 or "
                          ".u32 after what it holds" CULM_SKIP_ADVICE,
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

/* The segment with id `at`. */
static size_t segment_of(const struct culm_stream *stream, uint64_t at) {
    size_t low = 0, high = stream->files->count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (stream->segment[middle].first <= at) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

enum culm_status culm_stream_read(const struct culm_stream *stream, uint64_t at, int32_t *ret_id,
                                  size_t count, struct culm_error *error) {
    if (!stream->files) {
        read_memory(stream, at, ret_id, count);
        return CULM_OK;
    }
    for (size_t low = segment_of(stream, at); count; low++) {
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

/* --- what is left out --- */

bool culm_stream_is_unseen(const struct culm_stream *stream) { return stream->unseen; }
size_t culm_stream_left_count(const struct culm_stream *stream) { return stream->left_count; }

struct culm_stream_range culm_stream_left(const struct culm_stream *stream, size_t index) {
    return stream->left[index];
}

struct culm_data_place culm_stream_place(const struct culm_stream *stream, uint64_t at,
                                         uint64_t count) {
    if (!stream->files) {
        return (struct culm_data_place){.file = stream->name};
    }
    uint64_t found = at;
    for (uint64_t i = 0; i < count; i++) {
        int32_t id;
        if (culm_stream_read(stream, at + i, &id, 1, NULL) != CULM_OK) {
            found = at + i;
            break;
        }
    }
    size_t file = segment_of(stream, found);
    return (struct culm_data_place){stream->files->entry[file].path, CULM_DATA_INDEX,
                                    (int64_t)(found - stream->segment[file].first)};
}

static enum culm_status leave_out(struct culm_stream *stream, struct culm_skip_entry *entry,
                                  uint64_t begin, uint64_t end, struct culm_error *error) {
    entry->found = true;
    if (!CULM_GROW(stream->left, stream->left_capacity, stream->left_count + 1)) {
        return culm_error_set(error, CULM_ERR_MEMORY, "%s: out of memory", stream->name);
    }
    stream->left[stream->left_count++] = (struct culm_stream_range){begin, end};
    return CULM_OK;
}

/* --- lines that are left out --- */

/* What goes through a text in parts: where lines begin and end. */
struct lines {
    struct culm_stream *stream;
    size_t file;
    struct culm_skip_entry *entry; /* lines, rising */
    size_t count, next;
    uint64_t first; /* the file's first byte in the row */
    uint64_t begin; /* of the line */
    int64_t number; /* of the line */
};

static enum culm_status end_line(struct lines *l, uint64_t end, struct culm_error *error) {
    enum culm_status status = CULM_OK;
    while (l->next < l->count && l->entry[l->next].place.number == l->number && status == CULM_OK) {
        status =
            leave_out(l->stream, &l->entry[l->next++], l->first + l->begin, l->first + end, error);
    }
    l->begin = end;
    l->number++;
    return status;
}

/* Of text as bytes. */
static enum culm_status leave_lines_out(struct lines *l, struct culm_error *error) {
    const struct culm_files *files = l->stream->files;
    uint64_t bytes = files->entry[l->file].bytes;
    char part[CHUNK_BYTES];
    enum culm_status status = CULM_OK;
    for (uint64_t at = 0; at < bytes && l->next < l->count && status == CULM_OK;) {
        size_t len = bytes - at < sizeof part ? (size_t)(bytes - at) : sizeof part;
        status = culm_files_read(files, l->file, at, part, len, error);
        for (size_t used = 0; used < len && status == CULM_OK;) {
            const char *newline = memchr(part + used, '\n', len - used);
            used = newline ? (size_t)(newline - part) + 1 : len;
            if (newline || at + used == bytes) {
                status = end_line(l, at + used, error);
            }
        }
        at += len;
    }
    return status;
}

/* Files whose ids are read from them: the stream's last segment. Lines are those of text. */
static enum culm_status leave_read_out(struct culm_stream *stream, size_t file,
                                       struct culm_skip *skip, struct culm_error *error) {
    const struct segment *segment = &stream->segment[file];
    struct culm_skip_entry *entry = NULL;
    size_t count = culm_skip_of(skip, stream->files->entry[file].path, &entry), lines = 0;
    struct lines l = {.stream = stream, .file = file, .first = segment->first, .number = 1};
    enum culm_status status = CULM_OK;
    for (size_t i = 0; i < count && status == CULM_OK; i++) {
        const struct culm_data_place *place = &entry[i].place;
        uint64_t number = (uint64_t)place->number;
        if (place->unit == CULM_DATA_FILE) {
            status = leave_out(stream, &entry[i], segment->first, segment->first + segment->count,
                               error);
        } else if (place->unit == CULM_DATA_INDEX && number < segment->count) {
            status = leave_out(stream, &entry[i], segment->first + number,
                               segment->first + number + 1, error);
        } else if (place->unit == CULM_DATA_LINE && !lines++) { /* they follow each other */
            l.entry = &entry[i];
        }
    }
    l.count = lines;
    return status == CULM_OK && stream->bytes ? leave_lines_out(&l, error) : status;
}

static bool is_space_at(const char *text, size_t at, size_t *ret_begin) {
    size_t begin = at - 1; /* of the character that ends there */
    while (begin > 0 && at - begin < 4 && ((uint8_t)text[begin] & 0xC0) == 0x80) {
        begin--;
    }
    int32_t c;
    (void)culm_unicode_next(text, at, begin, &c);
    *ret_begin = begin;
    return culm_unicode_class_of(c) == CULM_UNICODE_SPACE;
}

/* A place that no token reaches over: before the white space that ends at `at`, where words end. */
static size_t before_space(const char *text, size_t at) {
    size_t begin;
    while (at > 0 && is_space_at(text, at, &begin)) {
        at = begin;
    }
    return at;
}

/* Ids that a tokenizer has made of a whole text. Which of them are of a line is told by how many it
 * makes of the text up to there, in parts that end where no token does. */
struct encoded_lines {
    const struct culm_tokenizer *tokenizer;
    struct culm_encoder encoder;
    const char *text;
    size_t len, at; /* counted up to */
    uint64_t ids;   /* how many that makes */
};

static enum culm_status count_to(struct encoded_lines *l, size_t to, struct culm_error *error) {
    if (to <= l->at) {
        return CULM_OK;
    }
    l->encoder.count = 0;
    l->encoder.goes_on = l->at > 0;
    enum culm_status status =
        culm_tokenizer_encode(l->tokenizer, &l->encoder, l->text + l->at, to - l->at, error);
    l->ids += l->encoder.count;
    l->at = to;
    return status;
}

static enum culm_status leave_encoded_lines_out(struct culm_stream *stream, const char *path,
                                                struct encoded_lines *l,
                                                struct culm_skip_entry *entry, size_t count,
                                                struct culm_stream_range of,
                                                struct culm_error *error) {
    uint64_t first = of.begin, all = of.end - of.begin;
    size_t begin = 0, i = 0;
    enum culm_status status = CULM_OK;
    for (int64_t line = 1; begin < l->len && i < count && status == CULM_OK; line++) {
        const char *newline = memchr(l->text + begin, '\n', l->len - begin);
        size_t end = newline ? (size_t)(newline - l->text) + 1 : l->len;
        if (entry[i].place.number == line) {
            status = count_to(l, before_space(l->text, begin), error);
            uint64_t before = l->ids;
            status = status ? status : count_to(l, before_space(l->text, end), error);
            uint64_t after = l->ids > before ? l->ids : before + 1; /* white space alone */
            for (; i < count && entry[i].place.number == line && status == CULM_OK; i++) {
                status = leave_out(stream, &entry[i], first + before,
                                   first + (after < all ? after : all), error);
            }
        }
        begin = end;
    }
    /* The rest as well, to see that parts give what the whole gave. */
    status = status ? status : count_to(l, l->len, error);
    return status == CULM_OK && l->ids != all
               ? culm_error_set(error, CULM_ERR_CONFIG,
                                "data.skip: lines of '%s' cannot be told from each other with this "
                                "tokenizer; leave the lines out of the file itself",
                                path)
               : status;
}

static enum culm_status leave_encoded_out(struct culm_stream *stream, const char *path,
                                          const struct culm_stream_options *o, const char *text,
                                          size_t len, struct culm_stream_range of,
                                          struct culm_error *error) {
    struct culm_skip_entry *entry = NULL;
    size_t count = culm_skip_of(o->skip, path, &entry), lines = 0, from = 0;
    enum culm_status status = CULM_OK;
    for (size_t i = 0; i < count && status == CULM_OK; i++) {
        if (entry[i].place.unit == CULM_DATA_FILE) {
            status = leave_out(stream, &entry[i], of.begin, of.end, error);
        } else if (entry[i].place.unit == CULM_DATA_LINE && !lines++) {
            from = i;
        }
    }
    if (status != CULM_OK || !lines) {
        return status;
    }
    struct encoded_lines l = {.tokenizer = o->tokenizer, .text = text, .len = len};
    status = leave_encoded_lines_out(stream, path, &l, entry + from, lines, of, error);
    culm_encoder_release(&l.encoder);
    return status;
}

/* --- opening --- */

static enum culm_status stream_new(const struct culm_stream_options *options, const char *what,
                                   enum culm_files_content content, struct culm_stream **ret_stream,
                                   struct culm_error *error) {
    const struct culm_files_options how = {.what = what,
                                           .content = content,
                                           .many = true,
                                           .paths = options->paths,
                                           .path_count = options->path_count,
                                           .pins = options->pins};
    struct culm_files *files = NULL;
    int64_t vocab = options->vocab;
    if (vocab < 1 || vocab > INT32_MAX) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "%s: a vocabulary of %lld", what,
                              (long long)vocab);
    }
    enum culm_status status = culm_files_open_as(&how, &files, error);
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

/* Files of which something is left out are looked at sample by sample (check.h). */
static enum culm_status look(struct culm_stream *stream, size_t file,
                             const struct culm_stream_options *options, struct culm_error *error) {
    const struct segment *segment = &stream->segment[file];
    size_t left = stream->left_count;
    enum culm_status status = leave_read_out(stream, file, options->skip, error);
    bool partly = segment->count * (uint64_t)segment->width > CULM_STREAM_SCAN_MAX;
    bool pass = options->trust || left < stream->left_count;
    stream->unseen |= pass || partly;
    return status == CULM_OK && !pass ? look_through(stream, file, error) : status;
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

enum culm_status culm_stream_open_tokens(const struct culm_stream_options *options,
                                         struct culm_stream **ret_stream,
                                         struct culm_error *error) {
    struct culm_stream *stream;
    enum culm_status status = stream_new(options, "token file", CULM_FILES_TOKENS, &stream, error);
    if (status != CULM_OK) {
        return status;
    }
    for (size_t i = 0; status == CULM_OK && i < stream->files->count; i++) {
        status = token_segment(stream, i, error);
        if (status == CULM_OK) {
            stream->segment[i].first = stream->count;
            stream->count += stream->segment[i].count;
            status = look(stream, i, options, error);
        }
    }
    if (status != CULM_OK) {
        culm_stream_free(stream);
        return status;
    }
    *ret_stream = stream;
    return CULM_OK;
}

static enum culm_status open_bytes(struct culm_stream *stream,
                                   const struct culm_stream_options *options,
                                   struct culm_error *error) {
    enum culm_status status = CULM_OK;
    stream->bytes = true;
    for (size_t i = 0; status == CULM_OK && i < stream->files->count; i++) {
        stream->segment[i] = (struct segment){
            .first = stream->count, .count = stream->files->entry[i].bytes, .width = 1};
        stream->count += stream->segment[i].count;
        status = stream->vocab < 256 ? look(stream, i, options, error)
                                     : leave_read_out(stream, i, options->skip, error);
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
                                     const struct culm_stream_options *options,
                                     struct culm_error *error) {
    const struct culm_tokenizer *tokenizer = options->tokenizer;
    struct culm_encoder encoder = {0};
    enum culm_status status = CULM_OK;
    int32_t vocab = culm_tokenizer_vocab(tokenizer);
    int32_t end = culm_tokenizer_role_id(tokenizer, CULM_TOKEN_END);
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
        const struct culm_stream_range made = {stream->count, stream->count + encoder.count};
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
        } else if (options->skip) {
            status = leave_encoded_out(stream, stream->files->entry[i].path, options, text, len,
                                       made, error);
        }
        free(text);
    }
    culm_encoder_release(&encoder);
    culm_files_free(stream->files);
    stream->files = NULL;
    return status;
}

enum culm_status culm_stream_open_text(const struct culm_stream_options *options,
                                       struct culm_stream **ret_stream, struct culm_error *error) {
    struct culm_stream *stream;
    enum culm_status status = stream_new(options, "text", CULM_FILES_TEXT, &stream, error);
    if (status != CULM_OK) {
        return status;
    }
    status = options->tokenizer ? open_encoded(stream, options, error)
                                : open_bytes(stream, options, error);
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

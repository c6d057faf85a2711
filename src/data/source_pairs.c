/*
 * Sentence pairs as samples: lines of a source sentence, a TAB and its translation.
 *
 *     source     s s s s pad pad      S; what is longer is cut
 *     length     4                    of source, before the padding
 *     tokens     BOS t t t pad pad    T
 *     targets    t t t EOS -1 -1      T; a target that is cut has no EOS
 *
 * Sample i is pair i; empty lines are passed over, and what follows a second TAB. One vocabulary is
 * for both sides: the tokenizer's, or, without one, the words between white space of the training
 * part, the most frequent first (of equals, the smaller bytes first), behind <pad> <unk> <s> </s>,
 * cut at the vocabulary of the model. PAD, BOS and EOS that a tokenizer lacks are the ids behind
 * its last.
 *
 * Memory: 8 bytes a pair. A line is read and encoded when asked for.
 */
#include "data/source_internal.h"

#include "base/grow.h"
#include "data/files.h"
#include "data/tokenizer_internal.h"
#include "data/unicode.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_MAX_BYTES (1 << 20)
#define CHUNK (1 << 16)

enum { SOURCE, LENGTH, TOKENS, TARGETS };

struct workspace {
    struct workspace *next;
    struct culm_encoder encoder;
    char *line;
    size_t line_capacity;
};

struct pairs {
    struct culm_source source;
    struct culm_files *files;
    struct culm_tokenizer *tokenizer;
    int64_t source_len, target_len;
    int32_t pad, begin, end;
    uint64_t *at; /* of pair i in its file: where the line begins */
    int64_t count, capacity;
    int64_t *file_first; /* [files] its first pair */
    char *name;
    struct culm_leaving *leaving; /* while it is opened */
    pthread_mutex_t lock;
    struct workspace *idle; /* under the lock */
};

static void workspace_free(struct workspace *space) {
    if (space) {
        culm_encoder_release(&space->encoder);
        free(space->line);
        free(space);
    }
}

static struct workspace *workspace_take(const struct pairs *pairs) {
    struct pairs *pool = (struct pairs *)pairs; /* the lock and the list are not constant */
    pthread_mutex_lock(&pool->lock);
    struct workspace *space = pool->idle;
    pool->idle = space ? space->next : NULL;
    pthread_mutex_unlock(&pool->lock);
    return space ? space : calloc(1, sizeof *space);
}

static void workspace_give(const struct pairs *pairs, struct workspace *space) {
    struct pairs *pool = (struct pairs *)pairs;
    pthread_mutex_lock(&pool->lock);
    space->next = pool->idle;
    pool->idle = space;
    pthread_mutex_unlock(&pool->lock);
}

static void pairs_free(struct culm_source *source) {
    struct pairs *pairs = (struct pairs *)source;
    while (pairs->idle) {
        struct workspace *space = pairs->idle;
        pairs->idle = space->next;
        workspace_free(space);
    }
    pthread_mutex_destroy(&pairs->lock);
    culm_files_free(pairs->files);
    culm_tokenizer_free(pairs->tokenizer);
    free(pairs->at);
    free(pairs->file_first);
    free(pairs->name);
    free(pairs);
}

/* --- one line --- */

struct line {
    const char *source, *target;
    size_t source_len, target_len;
};

/* Splits a line without its newline; false: it is no pair. */
static bool split(const char *text, size_t len, struct line *ret_line) {
    const char *tab = memchr(text, '\t', len);
    if (!tab) {
        return false;
    }
    const char *target = tab + 1, *end = text + len;
    const char *second = memchr(target, '\t', (size_t)(end - target));
    end = second ? second : end;
    if (end > target && end[-1] == '\r') {
        end--;
    }
    *ret_line = (struct line){.source = text,
                              .source_len = (size_t)(tab - text),
                              .target = target,
                              .target_len = (size_t)(end - target)};
    return true;
}

static bool blank(const char *text, size_t len) {
    for (size_t at = 0; at < len;) {
        int32_t c;
        at += culm_unicode_next(text, len, at, &c);
        if (culm_unicode_class_of(c) != CULM_UNICODE_SPACE) {
            return false;
        }
    }
    return true;
}

static size_t file_of(const struct pairs *pairs, int64_t pair) {
    size_t file = 0, end_file = pairs->files->count;
    while (end_file - file > 1) { /* the last that begins with this pair or before; files without
                                   * pairs come before it */
        size_t middle = file + (end_file - file) / 2;
        if (pairs->file_first[middle] <= pair) {
            file = middle;
        } else {
            end_file = middle;
        }
    }
    return file;
}

/* Reads the line of a pair; its end is that of the file or a newline. */
static enum culm_status read_line(const struct pairs *pairs, int64_t pair, struct workspace *space,
                                  struct line *ret_line, struct culm_error *error) {
    size_t file = file_of(pairs, pair);
    const struct culm_files_entry *entry = &pairs->files->entry[file];
    uint64_t at = pairs->at[pair];
    bool last = pair + 1 == pairs->count ||
                (file + 1 < pairs->files->count && pair + 1 == pairs->file_first[file + 1]);
    uint64_t end = last ? entry->bytes : pairs->at[pair + 1];
    size_t len = end - at > LINE_MAX_BYTES + 1 ? LINE_MAX_BYTES + 1 : (size_t)(end - at);
    if (!CULM_GROW(space->line, space->line_capacity, len)) {
        return culm_error_set(error, CULM_ERR_MEMORY, "%s: out of memory", pairs->name);
    }
    enum culm_status status = culm_files_read(pairs->files, file, at, space->line, len, error);
    if (status != CULM_OK) {
        return status;
    }
    const char *newline = memchr(space->line, '\n', len);
    len = newline ? (size_t)(newline - space->line) : len;
    return split(space->line, len, ret_line)
               ? CULM_OK
               : culm_error_set(error, CULM_ERR_IO, "pairs '%s': changed while in use; restore it",
                                entry->path);
}

static enum culm_status fill_source(const struct pairs *pairs, struct workspace *space,
                                    const struct line *line, int32_t *source, int32_t *length,
                                    struct culm_error *error) {
    struct culm_encoder *encoder = &space->encoder;
    encoder->count = 0;
    enum culm_status status =
        culm_tokenizer_encode(pairs->tokenizer, encoder, line->source, line->source_len, error);
    if (status != CULM_OK) {
        return status;
    }
    if (!encoder->count && /* such as control characters alone */
        (status = culm_encoder_append(encoder, pairs->pad, error)) != CULM_OK) {
        return status;
    }
    int64_t count = (int64_t)encoder->count;
    count = count < pairs->source_len ? count : pairs->source_len;
    for (int64_t i = 0; source && i < pairs->source_len; i++) {
        source[i] = i < count ? encoder->id[i] : pairs->pad;
    }
    if (length) {
        *length = (int32_t)count;
    }
    return CULM_OK;
}

static enum culm_status fill_target(const struct pairs *pairs, struct workspace *space,
                                    const struct line *line, int32_t *tokens, int32_t *targets,
                                    struct culm_error *error) {
    struct culm_encoder *encoder = &space->encoder;
    encoder->count = 0;
    enum culm_status status =
        culm_tokenizer_encode(pairs->tokenizer, encoder, line->target, line->target_len, error);
    if (status == CULM_OK) {
        status = culm_encoder_append(encoder, pairs->end, error);
    }
    if (status != CULM_OK) {
        return status;
    }
    int64_t count = (int64_t)encoder->count;
    for (int64_t i = 0; tokens && i < pairs->target_len; i++) {
        tokens[i] = i == 0 ? pairs->begin : i < count ? encoder->id[i - 1] : pairs->pad;
    }
    for (int64_t i = 0; targets && i < pairs->target_len; i++) {
        targets[i] = i < count ? encoder->id[i] : -1;
    }
    return CULM_OK;
}

static enum culm_status pairs_fill(const struct culm_source *source, struct culm_source_item item,
                                   void *const *fields, struct culm_error *error) {
    const struct pairs *pairs = (const struct pairs *)source;
    struct workspace *space = workspace_take(pairs);
    struct line line;
    if (!space) {
        return culm_error_set(error, CULM_ERR_MEMORY, "%s: out of memory", pairs->name);
    }
    enum culm_status status = read_line(pairs, item.sample, space, &line, error);
    if (status == CULM_OK && (fields[SOURCE] || fields[LENGTH])) {
        status = fill_source(pairs, space, &line, fields[SOURCE], fields[LENGTH], error);
    }
    if (status == CULM_OK && (fields[TOKENS] || fields[TARGETS])) {
        status = fill_target(pairs, space, &line, fields[TOKENS], fields[TARGETS], error);
    }
    workspace_give(pairs, space);
    return status;
}

static struct culm_data_place pairs_place(const struct culm_source *source, int64_t sample) {
    const struct pairs *pairs = (const struct pairs *)source;
    return (struct culm_data_place){.file = pairs->files->entry[file_of(pairs, sample)].path};
}

static const struct culm_source_ops pairs_ops = {pairs_fill, pairs_free, pairs_place};

/* --- opening: lines --- */

static enum culm_status add_pair(struct pairs *pairs, uint64_t at, struct culm_error *error) {
    if (!CULM_GROW(pairs->at, pairs->capacity, pairs->count + 1)) {
        return culm_error_set(error, CULM_ERR_MEMORY, "%s: out of memory", pairs->name);
    }
    pairs->at[pairs->count++] = at;
    return CULM_OK;
}

static enum culm_status take_line(struct pairs *pairs, size_t file, int64_t number, uint64_t at,
                                  const char *text, size_t len, struct culm_error *error) {
    struct line line;
    const char *path = pairs->files->entry[file].path, *what = NULL;
    if (blank(text, len)) {
        return CULM_OK;
    }
    if (len > LINE_MAX_BYTES) {
        what = "has more than 1 MiB; is this a file of lines?";
    } else if (!split(text, len, &line)) {
        what = "has no TAB; write source, TAB, target";
    } else if (blank(line.source, line.source_len)) {
        what = "has no source sentence; complete the line or remove it";
    } else if (blank(line.target, line.target_len)) {
        what = "has no target sentence; complete the line or remove it";
    }
    const struct culm_data_place place = {path, CULM_DATA_LINE, number};
    struct culm_error why;
    if (what) {
        culm_error_set(&why, CULM_ERR_FORMAT, "pairs '%s': line %lld %s", path, (long long)number,
                       what);
    }
    if (what ? leaving_bad(pairs->leaving, &place, why.text)
             : culm_skip_has(pairs->leaving->skip, &place)) {
        leaving_add(pairs->leaving, pairs->count);
        what = NULL;
    }
    return what ? culm_error_set(error, CULM_ERR_FORMAT, "%s" CULM_SKIP_ADVICE, why.text)
                : add_pair(pairs, at, error);
}

/* One pass over a file; a line that a chunk ends in is read again with the next. */
static enum culm_status read_lines(struct pairs *pairs, size_t file, char *buffer, size_t room,
                                   struct culm_error *error) {
    uint64_t at = 0, bytes = pairs->files->entry[file].bytes;
    int64_t number = 0;
    bool rest = false; /* of a line that is too long */
    while (at < bytes) {
        size_t len = bytes - at < room ? (size_t)(bytes - at) : room, used = 0;
        enum culm_status status = culm_files_read(pairs->files, file, at, buffer, len, error);
        while (status == CULM_OK && used < len) {
            const char *text = buffer + used, *newline = memchr(text, '\n', len - used);
            size_t size = newline ? (size_t)(newline - text) : len - used;
            if (!newline && at + len < bytes && size <= LINE_MAX_BYTES && !rest) {
                break;
            }
            if (!rest) {
                status = take_line(pairs, file, ++number, at + used, text, size, error);
            }
            rest = !newline;
            used += size + (newline ? 1 : 0);
        }
        if (status != CULM_OK) {
            return status;
        }
        at += used;
    }
    return CULM_OK;
}

/* --- opening: words --- */

struct counts {
    struct culm_strings words;
    int64_t *count;
    size_t capacity;
};

static bool count_words(struct counts *counts, const char *text, size_t len) {
    size_t word, bytes;
    for (size_t at = 0; culm_unicode_next_word(text, len, &at, &word, &bytes);) {
        int32_t number = culm_strings_add(&counts->words, text + word, bytes);
        size_t before = counts->capacity;
        if (number < 0 || !CULM_GROW(counts->count, counts->capacity, (size_t)number + 1)) {
            return false;
        }
        memset(counts->count + before, 0, (counts->capacity - before) * sizeof *counts->count);
        counts->count[number]++;
    }
    return true;
}

struct ranked {
    const char *text;
    size_t len;
    int64_t count;
};

static int by_count(const void *a, const void *b) {
    const struct ranked *x = a, *y = b;
    if (x->count != y->count) {
        return x->count > y->count ? -1 : 1;
    }
    int order = memcmp(x->text, y->text, x->len < y->len ? x->len : y->len);
    return order ? order : x->len < y->len ? -1 : x->len > y->len;
}

static enum culm_status choose_words(struct pairs *pairs, const struct counts *counts,
                                     int64_t vocab, struct culm_error *error) {
    static const char *const special[] = {"<pad>", "<unk>", "<s>", "</s>"};
    struct culm_strings chosen = {0};
    size_t count = (size_t)counts->words.count;
    struct ranked *ranked = malloc((count + 1) * sizeof *ranked);
    bool good = ranked;
    for (size_t i = 0; good && i < count; i++) {
        ranked[i].text = culm_strings_get(&counts->words, (int32_t)i, &ranked[i].len);
        ranked[i].count = counts->count[i];
    }
    for (size_t i = 0; good && i < 4; i++) {
        good = culm_strings_add(&chosen, special[i], strlen(special[i])) >= 0;
    }
    if (good) {
        qsort(ranked, count, sizeof *ranked, by_count);
    }
    for (size_t i = 0; good && i < count && chosen.count < vocab; i++) {
        good = culm_strings_add(&chosen, ranked[i].text, ranked[i].len) >= 0;
    }
    enum culm_status status =
        good ? culm_tokenizer_of_words(&chosen, &pairs->tokenizer, error)
             : culm_error_set(error, CULM_ERR_MEMORY, "%s: out of memory", pairs->name);
    culm_strings_release(&chosen);
    free(ranked);
    return status;
}

static enum culm_status make_words(struct pairs *pairs, const struct culm_source_options *options,
                                   int64_t training, struct culm_error *error) {
    struct counts counts = {0};
    struct workspace *space = workspace_take(pairs);
    enum culm_status status = CULM_OK;
    if (options->vocab < 5) {
        status = culm_error_set(error, CULM_ERR_CONFIG,
                                "model.vocab: %lld has no room for words beside four special ones",
                                (long long)options->vocab);
    }
    const struct culm_leaving *leaving = pairs->leaving;
    size_t left = 0; /* the first that is left out from here on: they are rising */
    for (int64_t i = 0; status == CULM_OK && i < training; i++) {
        struct line line = {0};
        if (left < leaving->count && leaving->sample[left] == i) {
            left++;
            continue;
        }
        status = space ? read_line(pairs, i, space, &line, error) : CULM_ERR_MEMORY;
        if (status == CULM_OK && (!count_words(&counts, line.source, line.source_len) ||
                                  !count_words(&counts, line.target, line.target_len))) {
            status = culm_error_set(error, CULM_ERR_MEMORY, "%s: out of memory", pairs->name);
        }
    }
    if (space) {
        workspace_give(pairs, space);
    }
    if (status == CULM_OK) {
        status = choose_words(pairs, &counts, options->vocab, error);
    }
    culm_strings_release(&counts.words);
    free(counts.count);
    return status;
}

static int32_t role(const struct culm_tokenizer *tokenizer, enum culm_tokenizer_role first,
                    enum culm_tokenizer_role second, int32_t *next) {
    int32_t id = culm_tokenizer_role_id(tokenizer, first);
    id = id < 0 ? culm_tokenizer_role_id(tokenizer, second) : id;
    return id < 0 ? (*next)++ : id;
}

static enum culm_status choose_roles(struct pairs *pairs, int64_t vocab, struct culm_error *error) {
    const struct culm_tokenizer *t = pairs->tokenizer;
    int32_t next = culm_tokenizer_vocab(t);
    pairs->pad = role(t, CULM_TOKEN_PAD, CULM_TOKEN_PAD, &next);
    pairs->begin = role(t, CULM_TOKEN_BEGIN, CULM_TOKEN_CLS, &next);
    pairs->end = role(t, CULM_TOKEN_END, CULM_TOKEN_SEP, &next);
    return next <= vocab
               ? CULM_OK
               : culm_error_set(error, CULM_ERR_CONFIG,
                                "data.tokenizer: has %d tokens with padding, begin and end, the "
                                "vocabulary of the model %lld; set model.vocab to %d or more",
                                next, (long long)vocab, next);
}

/* --- opening --- */

static enum culm_status open_lines(struct pairs *pairs, const struct culm_source_options *options,
                                   struct culm_error *error) {
    const struct culm_files_options how = {.what = "pairs",
                                           .content = CULM_FILES_TEXT,
                                           .many = true,
                                           .paths = options->paths,
                                           .path_count = options->path_count,
                                           .pins = options->pins};
    enum culm_status status = culm_files_open_as(&how, &pairs->files, error);
    size_t count = status == CULM_OK ? pairs->files->count : 0;
    uint64_t room = 1;
    for (size_t i = 0; i < count; i++) {
        uint64_t bytes = pairs->files->entry[i].bytes;
        room = bytes > room ? bytes : room;
    }
    room = room < LINE_MAX_BYTES + CHUNK ? room : LINE_MAX_BYTES + CHUNK;
    char *buffer = malloc(room);
    pairs->file_first = calloc(count + 1, sizeof *pairs->file_first);
    if (status == CULM_OK && (!buffer || !pairs->file_first)) {
        status = culm_error_set(error, CULM_ERR_MEMORY, "%s: out of memory", pairs->name);
    }
    for (size_t i = 0; status == CULM_OK && i < count; i++) {
        pairs->file_first[i] = pairs->count;
        status = read_lines(pairs, i, buffer, room, error);
    }
    free(buffer);
    if (status == CULM_OK && !pairs->count) {
        status =
            culm_error_set(error, CULM_ERR_CONFIG,
                           "%s: has no pair; write source, TAB, target on a line", pairs->name);
    }
    return status;
}

static enum culm_status open_vocab(struct pairs *pairs, const struct culm_source_options *options,
                                   struct culm_error *error) {
    int64_t training = pairs->count;
    enum culm_status status = source_training(options, pairs->count, pairs->name, &training, error);
    if (status == CULM_OK) {
        status = options->tokenizer_count ? source_tokenizer(options, &pairs->tokenizer, error)
                                          : make_words(pairs, options, training, error);
    }
    return status == CULM_OK ? choose_roles(pairs, options->vocab, error) : status;
}

enum culm_status source_open_pairs(const struct culm_source_options *options,
                                   struct culm_leaving *leaving, struct culm_source **ret_source,
                                   struct culm_error *error) {
    struct pairs *pairs = calloc(1, sizeof *pairs);
    if (!pairs) {
        return culm_error_set(error, CULM_ERR_MEMORY, "pairs: out of memory");
    }
    pairs->source.ops = &pairs_ops;
    pairs->leaving = leaving;
    pthread_mutex_init(&pairs->lock, NULL);
    pairs->target_len = options->context;
    pairs->source_len = options->source_context ? options->source_context : options->context;
    enum culm_status status;
    if (asprintf(&pairs->name, "pairs '%s'", options->paths[0]) < 0) {
        pairs->name = NULL;
        status = culm_error_set(error, CULM_ERR_MEMORY, "pairs: out of memory");
    } else if ((status = open_lines(pairs, options, error)) == CULM_OK &&
               (status = open_vocab(pairs, options, error)) == CULM_OK) {
        pairs->source.resident_bytes =
            (size_t)pairs->capacity * sizeof *pairs->at + culm_files_resident_bytes(pairs->files);
        snprintf(pairs->source.note, sizeof pairs->source.note, "%s", pairs->files->note);
        status = source_set_samples(&pairs->source, options, pairs->count, pairs->name, error);
    }
    if (status != CULM_OK) {
        pairs_free(&pairs->source);
        return status;
    }
    pairs->leaving = NULL;
    source_add_numbers(&pairs->source, "source", pairs->source_len, options->vocab);
    source_add_numbers(&pairs->source, "length", 1, pairs->source_len + 1);
    source_add_numbers(&pairs->source, "tokens", pairs->target_len, options->vocab);
    source_add_numbers(&pairs->source, "targets", pairs->target_len, options->vocab);
    *ret_source = &pairs->source;
    return CULM_OK;
}

/*
 * One long row of token ids, from files joined end to end.
 *
 *     text, as bytes      one byte one id
 *     token files         .npy, or plain little-endian u16 / u32: by the name (.u16, .u32) or, for
 *                         other names, u16 where the vocabulary fits into it, else u32
 *     text, encoded       by a tokenizer, when opened: 2 or 4 bytes of memory an id, in every
 *                         worker; a large text is better encoded once and saved
 *
 * Paths may be folders and patterns (corpus.h). The first two are read when asked for (see files.h;
 * gzip files are unpacked into memory). Every id is checked to be in the vocabulary
 * whenever it is read; when opened, token files (and bytes, with a vocabulary below 256) are looked
 * through once, those above CULM_STREAM_SCAN_MAX in parts.
 * Thread: constant after opening; any number of threads may read.
 */
#ifndef CULM_DATA_STREAM_H
#define CULM_DATA_STREAM_H

#include "base/pins.h"
#include "base/status.h"
#include "data/skip.h"
#include "data/tokenizer.h"

#define CULM_STREAM_SCAN_MAX (256u << 20) /* bytes of a file */

struct culm_stream;

/* All is borrowed until opening returns, but for pins. */
struct culm_stream_options {
    const char *const *paths;
    size_t path_count;
    int64_t vocab;                          /* every id is below it */
    const struct culm_tokenizer *tokenizer; /* of text; NULL: bytes */
    struct culm_pins *pins;                 /* see files.h */
    struct culm_skip *skip; /* what is left out; files it names are not looked through */
    bool trust;             /* no file is looked through */
};
enum culm_status culm_stream_open_text(const struct culm_stream_options *options,
                                       struct culm_stream **ret_stream, struct culm_error *error);
enum culm_status culm_stream_open_tokens(const struct culm_stream_options *options,
                                         struct culm_stream **ret_stream, struct culm_error *error);
void culm_stream_free(struct culm_stream *stream); /* NULL is fine */

uint64_t culm_stream_count(const struct culm_stream *stream); /* ids, of all files */
/* In memory now, and at most while it was opened; 0: it reads its files when asked. */
size_t culm_stream_resident_bytes(const struct culm_stream *stream);
size_t culm_stream_opening_bytes(const struct culm_stream *stream);
const char *culm_stream_name(const struct culm_stream *stream); /* "text 'first path'" */
/* What of folders was left out, in one line; "": nothing. */
const char *culm_stream_note(const struct culm_stream *stream);
/* Whether ids may be outside of the vocabulary that nobody has looked at. */
bool culm_stream_is_unseen(const struct culm_stream *stream);
/* What is left out: ids [begin, end). The tokens of a line are those of its words and of the white
 * space in front of them. */
struct culm_stream_range {
    uint64_t begin, end;
};
size_t culm_stream_left_count(const struct culm_stream *stream);
struct culm_stream_range culm_stream_left(const struct culm_stream *stream, size_t index);
/* Where the first of the ids [at, at + count) is that is not in the vocabulary; if all are, or ids
 * are in memory, the first. */
struct culm_data_place culm_stream_place(const struct culm_stream *stream, uint64_t at,
                                         uint64_t count);
/* Reads the ids [at, at + count), which the caller keeps inside. Allocates nothing. */
enum culm_status culm_stream_read(const struct culm_stream *stream, uint64_t at, int32_t *ret_id,
                                  size_t count, struct culm_error *error);

/* Writes all ids as a .npy file, u2 or u4 by the vocabulary: what to make once of a large text. */
enum culm_status culm_stream_save(const struct culm_stream *stream, const char *path,
                                  struct culm_error *error);

#endif

/*
 * Internal to data: the parts of which reading a tokenizer is made, in tokenizer_table.c, for the
 * formats in tokenizer_load.c.
 */
#ifndef CULM_DATA_TOKENIZER_LOAD_H
#define CULM_DATA_TOKENIZER_LOAD_H

#include "data/tokenizer_internal.h"

#include <jansson.h>

struct culm_settings;

struct culm_load {
    struct culm_tokenizer *tokenizer;
    const struct culm_settings *settings; /* beside the files; NULL: none */
    const char *name;                     /* the file, for messages */
    struct culm_error *error;
    int32_t rank; /* of the next merge */
    char *buffer; /* for tokens turned back into bytes */
    size_t buffer_size;
    int16_t byte_of[512]; /* the byte for which a character stands, or -1 */
};

void culm_load_byte_table(struct culm_load *load);
/* CULM_ERR_FORMAT with the name in front. */
enum culm_status culm_load_refuse(const struct culm_load *load, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
enum culm_status culm_load_no_memory(const struct culm_load *load);

/* The added tokens come first: a byte-level vocabulary may list them as they are. */
enum culm_status culm_load_added_token(struct culm_load *load, const char *content, json_int_t id,
                                       const struct culm_tokenizer_added *info);
enum culm_status culm_load_added_list(struct culm_load *load, const json_t *tokens);
enum culm_status culm_load_vocab(struct culm_load *load, const json_t *vocab);
/* Byte pairs: each byte has a token. */
enum culm_status culm_load_byte_tokens(struct culm_load *load);
enum culm_status culm_load_merges_text(struct culm_load *load, const char *text, size_t len);
enum culm_status culm_load_merges_json(struct culm_load *load, const json_t *merges);
/* Last: ids of added tokens count to the vocabulary; then, what normalized tokens of WordPiece are
 * in text when they are looked for. */
enum culm_status culm_load_place_added(struct culm_load *load);
enum culm_status culm_load_normalise_added(struct culm_load *load);

#endif

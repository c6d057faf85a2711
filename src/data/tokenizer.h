/*
 * Tokenizers: text to ids and back, the same ids as Hugging Face's `tokenizers`.
 *
 *     files                          gives
 *     vocab.json and merges.txt      byte-level byte pairs, cut by GPT-2's pattern
 *     tokenizer.json                 the same, or WordPiece with BERT's normaliser
 *     vocab.txt, with [UNK]          WordPiece; lower-case unless a token has an upper-case letter
 *     vocab.txt, with <unk>          words between white space, one a line
 *     a folder                       the first of those that is in it
 *
 * Settings that lie beside these files (added_tokens.json, tokenizer_config.json,
 * special_tokens_map.json) are obeyed or refused: added tokens, special tokens and their roles,
 * blanks in front, lower case, accents.
 *
 * What a tokenizer.json asks for beyond that (other models, normalisers or pre-tokenizers, byte
 * fall-back, dropout) is refused by name rather than ignored. Post-processors (which add [CLS] and
 * the like) are not applied: the sources add what their samples need.
 *
 * Added and special tokens are found in the text, as theirs are. What is no UTF-8 is U+FFFD, as
 * Python's errors="replace" reads it; WordPiece drops that.
 *
 * Classes of characters are those of the Unicode that utf8proc knows (15.0 in Debian 12), which may
 * cut characters that are newer otherwise than they do.
 *
 * Thread: a tokenizer is constant after opening; an encoder belongs to one thread at a time.
 */
#ifndef CULM_DATA_TOKENIZER_H
#define CULM_DATA_TOKENIZER_H

#include "base/buf.h"
#include "data/string_set.h"

#define CULM_TOKENIZER_FILE_MAX (256u << 20) /* bytes of a file that is read */

struct culm_tokenizer;

enum culm_tokenizer_role {
    CULM_TOKEN_PAD,
    CULM_TOKEN_UNKNOWN,
    CULM_TOKEN_BEGIN, /* <s>, <bos>, ... */
    CULM_TOKEN_END,   /* </s>, <eos>, <|endoftext|>, ... */
    CULM_TOKEN_CLS,
    CULM_TOKEN_SEP,
    CULM_TOKEN_MASK,
    CULM_TOKEN_ROLES
};

/* CULM_ERR_CONFIG or CULM_ERR_FORMAT, with the file and what to give instead. */
enum culm_status culm_tokenizer_open(const char *const *paths, size_t path_count,
                                     struct culm_tokenizer **ret_tokenizer,
                                     struct culm_error *error);
struct culm_pins;
/* The files hold what was pinned, or CULM_ERR_CHANGED; NULL: whatever they do. */
enum culm_status culm_tokenizer_open_pinned(const char *const *paths, size_t path_count,
                                            struct culm_pins *pins,
                                            struct culm_tokenizer **ret_tokenizer,
                                            struct culm_error *error);
/* From memory. `data` is one file's bytes (with merges: vocab.json's), `name` stands in messages.
 */
enum culm_status culm_tokenizer_parse(const char *data, size_t len, const char *name,
                                      const char *merges, size_t merges_len,
                                      const char *merges_name,
                                      struct culm_tokenizer **ret_tokenizer,
                                      struct culm_error *error);
void culm_tokenizer_free(struct culm_tokenizer *tokenizer); /* NULL is fine */

int32_t culm_tokenizer_vocab(const struct culm_tokenizer *tokenizer); /* the highest id + 1 */
int32_t culm_tokenizer_find(const struct culm_tokenizer *tokenizer, const char *token); /* or -1 */
/* Words, in the order of their ids, with <unk> among them. */
enum culm_status culm_tokenizer_of_words(const struct culm_strings *words,
                                         struct culm_tokenizer **ret_tokenizer,
                                         struct culm_error *error);
/* The id of the token that has this role by its usual names; -1: it has none. */
int32_t culm_tokenizer_role_id(const struct culm_tokenizer *tokenizer,
                               enum culm_tokenizer_role role);

/* Where ids are collected, and the encoder's memory: kept from call to call. */
struct culm_encoder {
    int32_t *id;
    size_t count, capacity;
    struct culm_encoder_state *state;
    /* The next text goes on from another one that ends in no white space, and begins with that: it
     * gets no blank in front. For one call. */
    bool goes_on;
};
void culm_encoder_release(struct culm_encoder *encoder); /* fine on a zeroed struct */
/* Appends the ids of the text; set encoder->count to 0 for a new one. Only fails for memory. */
enum culm_status culm_tokenizer_encode(const struct culm_tokenizer *tokenizer,
                                       struct culm_encoder *encoder, const char *text, size_t len,
                                       struct culm_error *error);
enum culm_status culm_encoder_append(struct culm_encoder *encoder, int32_t id,
                                     struct culm_error *error);
/* Appends the bytes of the ids; ids that do not exist are left out. Byte pairs: the exact bytes of
 * UTF-8. Words and WordPiece: joined by blanks, without special tokens. */
void culm_tokenizer_decode(const struct culm_tokenizer *tokenizer, const int32_t *id, size_t count,
                           struct culm_buf *out);

#endif

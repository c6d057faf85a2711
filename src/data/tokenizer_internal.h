/* Internal to data: what the files of the tokenizer share. See tokenizer.h. */
#ifndef CULM_DATA_TOKENIZER_INTERNAL_H
#define CULM_DATA_TOKENIZER_INTERNAL_H

#include "data/string_set.h"
#include "data/tokenizer.h"

#define CULM_TOKENIZER_IDS (1 << 24)   /* ids are below it */
#define CULM_TOKENIZER_WORD_CHARS 1000 /* of WordPiece's max_input_chars_per_word */
#define CULM_TOKENIZER_PREFIX 16       /* bytes of its continuing_subword_prefix, with a NUL */

enum culm_tokenizer_kind { CULM_TOKENIZER_BPE, CULM_TOKENIZER_WORDPIECE, CULM_TOKENIZER_WORDS };

struct culm_tokenizer_merge {
    int32_t left, right; /* ids; left -1: free */
    int32_t rank, id;
};

struct culm_tokenizer_added {
    int32_t id;
    bool special, lstrip, rstrip;
    bool normalized; /* found after all others, in text that is normalised */
    bool settings;   /* it stands beside the vocabulary */
    char *normal;    /* WordPiece: what a normalized one is in such text; NULL: itself */
};

struct culm_tokenizer {
    enum culm_tokenizer_kind kind;
    uint64_t serial;           /* no other tokenizer of the process has it */
    struct culm_strings token; /* of the vocabulary; byte pairs: their bytes as they are in text */
    int32_t *id;               /* of token number i */
    int32_t *number;           /* of an id: token number + 1; 0: none */
    int32_t vocab;             /* the highest id + 1, added ones included */
    struct culm_strings added; /* found in text before all else */
    struct culm_tokenizer_added *added_info;
    bool added_first[2][256]; /* an added token begins with this byte; [1]: a normalized one */
    bool any_normalized;
    int32_t role[CULM_TOKEN_ROLES]; /* id + 1, where settings name one; 0: none does */
    /* byte pairs */
    int32_t byte_id[256];
    struct culm_tokenizer_merge *merge; /* a hash table */
    size_t merge_slots;
    bool prefix_space, whole_words; /* add_prefix_space, ignore_merges */
    /* WordPiece */
    bool clean, chinese, strip_accents, lower;
    int32_t max_chars;
    char prefix[CULM_TOKENIZER_PREFIX];
    /* WordPiece, words */
    int32_t unknown;
};

struct culm_encoder_symbol {
    int32_t id, before, after; /* -1: none */
};

struct culm_encoder_candidate {
    int32_t rank, at, left, right, id;
};

#define CULM_ENCODER_CACHE 8192
#define CULM_ENCODER_CACHE_WORD 22
#define CULM_ENCODER_CACHE_IDS 10

struct culm_encoder_state {
    uint64_t serial; /* of the tokenizer that the cache is of */
    struct culm_encoder_symbol *symbol;
    size_t symbol_capacity;
    struct culm_encoder_candidate *heap;
    size_t heap_capacity;
    char *text; /* normalised, or with a blank in front */
    size_t text_len, text_capacity;
    struct {
        uint8_t len, count; /* len 0: free */
        char word[CULM_ENCODER_CACHE_WORD];
        int32_t id[CULM_ENCODER_CACHE_IDS];
    } cache[CULM_ENCODER_CACHE];
};

bool encoder_push(struct culm_encoder *encoder, int32_t id);

/* Encodes a text around the added tokens that are, or are not, normalized: the stretches between
 * them by `between`. */
typedef bool tokenizer_between(const struct culm_tokenizer *tokenizer, struct culm_encoder *encoder,
                               const char *text, size_t len);
bool tokenizer_split(const struct culm_tokenizer *tokenizer, struct culm_encoder *encoder,
                     const char *text, size_t len, bool normalized, tokenizer_between *between);
/* WordPiece: a text as it is looked up, into state->text; false: out of memory. */
bool tokenizer_normalise(const struct culm_tokenizer *tokenizer, struct culm_encoder_state *state,
                         const char *text, size_t len);

/* Encode a stretch of text without added tokens; false: out of memory. */
bool tokenizer_bpe(const struct culm_tokenizer *tokenizer, struct culm_encoder *encoder,
                   const char *text, size_t len);
bool tokenizer_wordpiece(const struct culm_tokenizer *tokenizer, struct culm_encoder *encoder,
                         const char *text, size_t len);
bool tokenizer_words(const struct culm_tokenizer *tokenizer, struct culm_encoder *encoder,
                     const char *text, size_t len);

/* The merge of two ids, or NULL. */
const struct culm_tokenizer_merge *tokenizer_merge_of(const struct culm_tokenizer *tokenizer,
                                                      int32_t left, int32_t right);
size_t tokenizer_merge_slot(const struct culm_tokenizer *tokenizer, int32_t left, int32_t right);
/* The id of a token of the vocabulary (not an added one) by its bytes, or -1. */
int32_t tokenizer_id(const struct culm_tokenizer *tokenizer, const void *data, size_t len);

#endif

/* Tokenizers: encoding around added tokens, decoding, looking up. See tokenizer.h; how text becomes
 * ids is in tokenizer_bpe.c and tokenizer_wordpiece.c, files are read in tokenizer_load.c. */
#include "base/grow.h"
#include "data/tokenizer_internal.h"
#include "data/unicode.h"

#include <stdlib.h>
#include <string.h>

void culm_tokenizer_free(struct culm_tokenizer *tokenizer) {
    if (tokenizer) {
        int32_t added = tokenizer->added.count;
        culm_strings_release(&tokenizer->token);
        culm_strings_release(&tokenizer->added);
        free(tokenizer->id);
        free(tokenizer->number);
        for (int32_t i = 0; i < added; i++) {
            free(tokenizer->added_info[i].normal);
        }
        free(tokenizer->added_info);
        free(tokenizer->merge);
        free(tokenizer);
    }
}

int32_t culm_tokenizer_vocab(const struct culm_tokenizer *tokenizer) { return tokenizer->vocab; }

int32_t culm_tokenizer_id(const struct culm_tokenizer *tokenizer, const void *data, size_t len) {
    int32_t number = culm_strings_find(&tokenizer->token, data, len);
    return number < 0 ? -1 : tokenizer->id[number];
}

int32_t culm_tokenizer_find(const struct culm_tokenizer *tokenizer, const char *token) {
    int32_t added = culm_strings_find(&tokenizer->added, token, strlen(token));
    return added >= 0 ? tokenizer->added_info[added].id
                      : culm_tokenizer_id(tokenizer, token, strlen(token));
}

int32_t culm_tokenizer_role(const struct culm_tokenizer *tokenizer, enum culm_tokenizer_role role) {
    static const char *const names[CULM_TOKEN_ROLES][5] = {
        [CULM_TOKEN_PAD] = {"<pad>", "[PAD]", "<|pad|>", "<blank>"},
        [CULM_TOKEN_UNKNOWN] = {"<unk>", "[UNK]"},
        [CULM_TOKEN_BEGIN] = {"<s>", "<bos>", "[BOS]", "<|startoftext|>"},
        [CULM_TOKEN_END] = {"</s>", "<eos>", "[EOS]", "<|endoftext|>"},
        [CULM_TOKEN_CLS] = {"[CLS]", "<cls>", "<s>"},
        [CULM_TOKEN_SEP] = {"[SEP]", "<sep>", "</s>"},
        [CULM_TOKEN_MASK] = {"[MASK]", "<mask>"},
    };
    int32_t id = tokenizer->role[role] - 1;
    for (int i = 0; id < 0 && names[role][i]; i++) {
        id = culm_tokenizer_find(tokenizer, names[role][i]);
    }
    return id;
}

/* --- the encoder --- */

bool culm_encoder_push(struct culm_encoder *encoder, int32_t id) {
    if (!CULM_GROW(encoder->id, encoder->capacity, encoder->count + 1)) {
        return false;
    }
    encoder->id[encoder->count++] = id;
    return true;
}

enum culm_status culm_encoder_append(struct culm_encoder *encoder, int32_t id,
                                     struct culm_error *error) {
    return culm_encoder_push(encoder, id)
               ? CULM_OK
               : culm_error_set(error, CULM_ERR_MEMORY, "out of memory for tokens");
}

void culm_encoder_release(struct culm_encoder *encoder) {
    if (encoder->state) {
        free(encoder->state->symbol);
        free(encoder->state->heap);
        free(encoder->state->text);
        free(encoder->state);
    }
    free(encoder->id);
    *encoder = (struct culm_encoder){0};
}

static bool prepare(struct culm_encoder *encoder, uint64_t serial) {
    if (!encoder->state && !(encoder->state = calloc(1, sizeof *encoder->state))) {
        return false;
    }
    if (encoder->state->serial != serial) {
        memset(encoder->state->cache, 0, sizeof encoder->state->cache);
        encoder->state->serial = serial;
    }
    return true;
}

/* --- encoding --- */

static bool encode_plain(const struct culm_tokenizer *tokenizer, struct culm_encoder *encoder,
                         const char *text, size_t len) {
    if (!len) {
        return true;
    }
    if (tokenizer->kind == CULM_TOKENIZER_WORDPIECE) { /* which normalises first */
        return culm_tokenizer_wordpiece(tokenizer, encoder, text, len);
    }
    culm_tokenizer_between *between =
        tokenizer->kind == CULM_TOKENIZER_BPE ? culm_tokenizer_bpe : culm_tokenizer_words;
    return tokenizer->any_normalized
               ? culm_tokenizer_split(tokenizer, encoder, text, len, true, between)
               : between(tokenizer, encoder, text, len);
}

/* The longest added token of the kind that the text begins with, or -1. */
static int32_t added_at(const struct culm_tokenizer *tokenizer, const char *text, size_t len,
                        bool normalized, size_t *ret_len) {
    int32_t best = -1;
    *ret_len = 0;
    for (int32_t i = 0; i < tokenizer->added.count; i++) {
        size_t size;
        const struct culm_tokenizer_added *info = &tokenizer->added_info[i];
        const char *content = culm_strings_get(&tokenizer->added, i, &size);
        if (info->normalized != normalized) {
            continue;
        }
        if (info->normal) {
            content = info->normal;
            size = strlen(content);
        }
        if (size > *ret_len && size <= len && !memcmp(content, text, size)) {
            best = i;
            *ret_len = size;
        }
    }
    return best;
}

/* Where the white space that ends at `end` begins. */
static size_t trim_end(const char *text, size_t from, size_t end) {
    size_t keep = from;
    for (size_t at = from; at < end;) {
        int32_t c;
        at += culm_unicode_next(text, end, at, &c);
        if (culm_unicode_class(c) != CULM_UNICODE_SPACE) {
            keep = at;
        }
    }
    return keep;
}

static size_t skip_space(const char *text, size_t at, size_t len) {
    while (at < len) {
        int32_t c;
        size_t size = culm_unicode_next(text, len, at, &c);
        if (culm_unicode_class(c) != CULM_UNICODE_SPACE) {
            break;
        }
        at += size;
    }
    return at;
}

static bool stretch(const struct culm_tokenizer *tokenizer, struct culm_encoder *encoder,
                    const char *text, size_t len, culm_tokenizer_between *between) {
    return !len || between(tokenizer, encoder, text, len);
}

bool culm_tokenizer_split(const struct culm_tokenizer *tokenizer, struct culm_encoder *encoder,
                          const char *text, size_t len, bool normalized,
                          culm_tokenizer_between *between) {
    bool good = true;
    size_t from = 0;
    for (size_t at = 0; good && at < len;) {
        size_t size;
        int32_t added = -1;
        if (tokenizer->added_first[normalized][(uint8_t)text[at]]) {
            added = added_at(tokenizer, text + at, len - at, normalized, &size);
        }
        if (added < 0) {
            at++;
            continue;
        }
        const struct culm_tokenizer_added *info = &tokenizer->added_info[added];
        size_t end = info->lstrip ? trim_end(text, from, at) : at;
        good = stretch(tokenizer, encoder, text + from, end - from, between) &&
               culm_encoder_push(encoder, info->id);
        at += size;
        if (info->rstrip) {
            at = skip_space(text, at, len);
        }
        from = at;
    }
    return good && stretch(tokenizer, encoder, text + from, len - from, between);
}

enum culm_status culm_tokenizer_encode(const struct culm_tokenizer *tokenizer,
                                       struct culm_encoder *encoder, const char *text, size_t len,
                                       struct culm_error *error) {
    char *repaired = NULL;
    size_t repaired_len;
    bool good = prepare(encoder, tokenizer->serial);
    if (good && tokenizer->kind == CULM_TOKENIZER_BPE &&
        !culm_unicode_repair(text, len, NULL, &repaired_len)) {
        repaired = malloc(repaired_len);
        good = repaired;
        if (good) {
            (void)culm_unicode_repair(text, len, repaired, &len);
            text = repaired;
        }
    }
    good = good && culm_tokenizer_split(tokenizer, encoder, text, len, false, encode_plain);
    free(repaired);
    encoder->goes_on = false;
    return good ? CULM_OK : culm_error_set(error, CULM_ERR_MEMORY, "out of memory for tokens");
}

/* --- decoding --- */

static int32_t added_of(const struct culm_tokenizer *tokenizer, int32_t id) {
    for (int32_t i = 0; i < tokenizer->added.count; i++) {
        if (tokenizer->added_info[i].id == id) {
            return i;
        }
    }
    return -1;
}

void culm_tokenizer_decode(const struct culm_tokenizer *tokenizer, const int32_t *id, size_t count,
                           struct culm_buf *out) {
    bool joined = tokenizer->kind == CULM_TOKENIZER_BPE, first = true;
    size_t prefix = strlen(tokenizer->prefix);
    for (size_t i = 0; i < count; i++) {
        if (id[i] < 0 || id[i] >= tokenizer->vocab) {
            continue;
        }
        size_t len;
        const char *text;
        int32_t added = added_of(tokenizer, id[i]), number = tokenizer->number[id[i]] - 1;
        if (added >= 0) {
            if (!joined && tokenizer->added_info[added].special) {
                continue;
            }
            text = culm_strings_get(&tokenizer->added, added, &len);
        } else if (number >= 0) {
            text = culm_strings_get(&tokenizer->token, number, &len);
        } else {
            continue;
        }
        bool inside =
            !joined && prefix && len > prefix && !first && !memcmp(text, tokenizer->prefix, prefix);
        if (inside) {
            text += prefix;
            len -= prefix;
        } else if (!joined && !first) {
            culm_buf_u8(out, ' ');
        }
        culm_buf_bytes(out, text, len);
        first = false;
    }
}

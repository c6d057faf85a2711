/* Tokenizers: encoding by kind, decoding, looking up. See tokenizer.h; how text becomes
 * ids is in tokenizer_bpe.c and tokenizer_wordpiece.c, both on tokenizer_encoder.c; files are read
 * in tokenizer_load.c. */
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

int32_t culm_tokenizer_find(const struct culm_tokenizer *tokenizer, const char *token) {
    int32_t added = culm_strings_find(&tokenizer->added, token, strlen(token));
    return added >= 0 ? tokenizer->added_info[added].id
                      : tokenizer_id(tokenizer, token, strlen(token));
}

int32_t culm_tokenizer_role_id(const struct culm_tokenizer *tokenizer,
                               enum culm_tokenizer_role role) {
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

/* --- encoding --- */

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

static bool encode_plain(const struct culm_tokenizer *tokenizer, struct culm_encoder *encoder,
                         const char *text, size_t len) {
    if (!len) {
        return true;
    }
    if (tokenizer->kind == CULM_TOKENIZER_WORDPIECE) { /* which normalises first */
        return tokenizer_wordpiece(tokenizer, encoder, text, len);
    }
    tokenizer_between *between =
        tokenizer->kind == CULM_TOKENIZER_BPE ? tokenizer_bpe : tokenizer_words;
    return tokenizer->any_normalized ? tokenizer_split(tokenizer, encoder, text, len, true, between)
                                     : between(tokenizer, encoder, text, len);
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
    good = good && tokenizer_split(tokenizer, encoder, text, len, false, encode_plain);
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

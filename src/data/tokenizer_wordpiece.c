/*
 * WordPiece as BERT has it, and plain words.
 *
 * Text is normalised (control characters away, white space to blanks, blanks around Chinese
 * characters, accents away, lower case, each if asked for), cut at white space and around
 * punctuation, and a word becomes the longest tokens from left to right, those inside of it with a
 * prefix ("##"). A word with a rest that no token begins is unknown as a whole.
 */
#include "base/grow.h"
#include "data/tokenizer_internal.h"
#include "data/unicode.h"

#include <string.h>

static bool put(struct culm_encoder_state *state, int32_t c) {
    if (!CULM_GROW(state->text, state->text_capacity, state->text_len + 4)) {
        return false;
    }
    state->text_len += culm_unicode_put(c, state->text + state->text_len);
    return true;
}

static bool put_lower(const struct culm_tokenizer *tokenizer, struct culm_encoder_state *state,
                      int32_t c) {
    int32_t chars[CULM_UNICODE_EXPANSION];
    if (!tokenizer->lower) {
        return put(state, c);
    }
    int count = culm_unicode_lower(c, chars);
    for (int i = 0; i < count; i++) {
        if (!put(state, chars[i])) {
            return false;
        }
    }
    return true;
}

static bool put_normal(const struct culm_tokenizer *tokenizer, struct culm_encoder_state *state,
                       int32_t c) {
    int32_t chars[CULM_UNICODE_EXPANSION];
    if (c == CULM_UNICODE_NONE) {
        c = 0xFFFD;
    }
    if (tokenizer->clean) {
        if (c == 0 || c == 0xFFFD || culm_unicode_is_control(c)) {
            return true;
        }
        c = culm_unicode_class_of(c) == CULM_UNICODE_SPACE ? ' ' : c;
    }
    bool apart = tokenizer->chinese && culm_unicode_is_chinese(c);
    int count = 1;
    chars[0] = c;
    if (tokenizer->strip_accents) {
        count = culm_unicode_decompose(c, chars);
    }
    if (apart && !put(state, ' ')) {
        return false;
    }
    for (int i = 0; i < count; i++) {
        if (!(tokenizer->strip_accents && culm_unicode_is_mark(chars[i])) &&
            !put_lower(tokenizer, state, chars[i])) {
            return false;
        }
    }
    return !apart || put(state, ' ');
}

static bool encode_word(const struct culm_tokenizer *tokenizer, struct culm_encoder *encoder,
                        const char *word, size_t len) {
    char buffer[CULM_TOKENIZER_PREFIX + 4 * CULM_TOKENIZER_WORD_CHARS];
    size_t prefix = strlen(tokenizer->prefix), first = encoder->count, chars = 0;
    for (size_t i = 0; i < len; i++) {
        chars += ((uint8_t)word[i] & 0xC0) != 0x80;
    }
    if (chars > (size_t)tokenizer->max_chars) {
        return encoder_push(encoder, tokenizer->unknown);
    }
    memcpy(buffer, tokenizer->prefix, prefix);
    for (size_t at = 0; at < len;) {
        size_t skip = at ? 0 : prefix, size = len - at;
        int32_t id = -1;
        memcpy(buffer + prefix, word + at, size);
        while (size && (id = tokenizer_id(tokenizer, buffer + skip, prefix - skip + size)) < 0) {
            do {
                size--;
            } while (size && ((uint8_t)word[at + size] & 0xC0) == 0x80);
        }
        if (id < 0) {
            encoder->count = first;
            return encoder_push(encoder, tokenizer->unknown);
        }
        if (!encoder_push(encoder, id)) {
            return false;
        }
        at += size;
    }
    return true;
}

bool tokenizer_normalise(const struct culm_tokenizer *tokenizer, struct culm_encoder_state *state,
                         const char *text, size_t len) {
    state->text_len = 0;
    for (size_t at = 0; at < len;) {
        int32_t c;
        at += culm_unicode_next(text, len, at, &c);
        if (!put_normal(tokenizer, state, c)) {
            return false;
        }
    }
    return true;
}

/* Words of a text that is normalised. */
static bool cut(const struct culm_tokenizer *tokenizer, struct culm_encoder *encoder,
                const char *text, size_t len) {
    size_t word = 0;
    for (size_t at = 0, next; at <= len; at = next) {
        int32_t c = ' ';
        next = at + 1;
        if (at < len) {
            next = at + culm_unicode_next(text, len, at, &c);
        }
        bool space = culm_unicode_class_of(c) == CULM_UNICODE_SPACE;
        bool mark = !space && culm_unicode_is_punctuation(c);
        if (!space && !mark) {
            continue;
        }
        if (at > word && !encode_word(tokenizer, encoder, text + word, at - word)) {
            return false;
        }
        if (mark && !encode_word(tokenizer, encoder, text + at, next - at)) {
            return false;
        }
        word = next;
    }
    return true;
}

bool tokenizer_wordpiece(const struct culm_tokenizer *tokenizer, struct culm_encoder *encoder,
                         const char *text, size_t len) {
    struct culm_encoder_state *state = encoder->state;
    if (!tokenizer_normalise(tokenizer, state, text, len)) {
        return false;
    }
    return tokenizer->any_normalized
               ? tokenizer_split(tokenizer, encoder, state->text, state->text_len, true, cut)
               : cut(tokenizer, encoder, state->text, state->text_len);
}

bool tokenizer_words(const struct culm_tokenizer *tokenizer, struct culm_encoder *encoder,
                     const char *text, size_t len) {
    size_t word, bytes;
    for (size_t at = 0; culm_unicode_next_word(text, len, &at, &word, &bytes);) {
        int32_t id = tokenizer_id(tokenizer, text + word, bytes);
        if (!encoder_push(encoder, id < 0 ? tokenizer->unknown : id)) {
            return false;
        }
    }
    return true;
}

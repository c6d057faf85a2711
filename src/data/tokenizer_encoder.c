/* What all kinds of tokenizers use: looking up tokens, pushing ids, splitting a text at added
 * tokens. See tokenizer_internal.h. */
#include "base/grow.h"
#include "data/tokenizer_internal.h"
#include "data/unicode.h"

#include <stdlib.h>
#include <string.h>

int32_t tokenizer_id(const struct culm_tokenizer *tokenizer, const void *data, size_t len) {
    int32_t number = culm_strings_find(&tokenizer->token, data, len);
    return number < 0 ? -1 : tokenizer->id[number];
}

bool encoder_push(struct culm_encoder *encoder, int32_t id) {
    if (!CULM_GROW(encoder->id, encoder->capacity, encoder->count + 1)) {
        return false;
    }
    encoder->id[encoder->count++] = id;
    return true;
}

enum culm_status culm_encoder_append(struct culm_encoder *encoder, int32_t id,
                                     struct culm_error *error) {
    return encoder_push(encoder, id)
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
        if (culm_unicode_class_of(c) != CULM_UNICODE_SPACE) {
            keep = at;
        }
    }
    return keep;
}

static size_t skip_space(const char *text, size_t at, size_t len) {
    while (at < len) {
        int32_t c;
        size_t size = culm_unicode_next(text, len, at, &c);
        if (culm_unicode_class_of(c) != CULM_UNICODE_SPACE) {
            break;
        }
        at += size;
    }
    return at;
}

static bool stretch(const struct culm_tokenizer *tokenizer, struct culm_encoder *encoder,
                    const char *text, size_t len, tokenizer_between *between) {
    return !len || between(tokenizer, encoder, text, len);
}

bool tokenizer_split(const struct culm_tokenizer *tokenizer, struct culm_encoder *encoder,
                     const char *text, size_t len, bool normalized, tokenizer_between *between) {
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
               encoder_push(encoder, info->id);
        at += size;
        if (info->rstrip) {
            at = skip_space(text, at, len);
        }
        from = at;
    }
    return good && stretch(tokenizer, encoder, text + from, len - from, between);
}

/*
 * Byte pairs: a piece of text is its bytes, and the neighbours whose merge has the lowest rank
 * (the leftmost of them) become one, until no neighbours merge.
 *
 * Symbols are a linked list, possible merges a heap with stale entries, which are known by the ids
 * that they were made for: n log n for a piece of n bytes, however long. Short pieces are kept in a
 * cache, which natural text hits nearly always.
 */
#include "base/grow.h"
#include "data/tokenizer_internal.h"
#include "data/unicode.h"

#include <string.h>

size_t tokenizer_merge_slot(const struct culm_tokenizer *tokenizer, int32_t left, int32_t right) {
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    key *= 0xD6E8FEB86659FD93ull;
    size_t mask = tokenizer->merge_slots - 1, at = (size_t)(key ^ key >> 32) & mask;
    while (tokenizer->merge[at].left >= 0 &&
           (tokenizer->merge[at].left != left || tokenizer->merge[at].right != right)) {
        at = (at + 1) & mask;
    }
    return at;
}

const struct culm_tokenizer_merge *tokenizer_merge_of(const struct culm_tokenizer *tokenizer,
                                                      int32_t left, int32_t right) {
    if (!tokenizer->merge_slots) {
        return NULL;
    }
    size_t at = tokenizer_merge_slot(tokenizer, left, right);
    return tokenizer->merge[at].left >= 0 ? &tokenizer->merge[at] : NULL;
}

static bool before(const struct culm_encoder_candidate *a, const struct culm_encoder_candidate *b) {
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static void heap_push(struct culm_encoder_state *state, size_t *count,
                      const struct culm_encoder_candidate *candidate) {
    size_t at = (*count)++;
    for (; at > 0 && before(candidate, &state->heap[(at - 1) / 2]); at = (at - 1) / 2) {
        state->heap[at] = state->heap[(at - 1) / 2];
    }
    state->heap[at] = *candidate;
}

static struct culm_encoder_candidate heap_pop(struct culm_encoder_state *state, size_t *count) {
    struct culm_encoder_candidate top = state->heap[0], last = state->heap[--*count];
    size_t at = 0;
    for (size_t child = 1; child < *count; child = 2 * at + 1) {
        if (child + 1 < *count && before(&state->heap[child + 1], &state->heap[child])) {
            child++;
        }
        if (!before(&state->heap[child], &last)) {
            break;
        }
        state->heap[at] = state->heap[child];
        at = child;
    }
    state->heap[at] = last;
    return top;
}

static void consider(const struct culm_tokenizer *tokenizer, struct culm_encoder_state *state,
                     size_t *heap, int32_t at) {
    int32_t after = at < 0 ? -1 : state->symbol[at].after;
    if (after < 0) {
        return;
    }
    int32_t left = state->symbol[at].id, right = state->symbol[after].id;
    const struct culm_tokenizer_merge *merge = tokenizer_merge_of(tokenizer, left, right);
    if (merge) {
        const struct culm_encoder_candidate candidate = {
            .rank = merge->rank, .at = at, .left = left, .right = right, .id = merge->id};
        heap_push(state, heap, &candidate);
    }
}

/* Every merge takes one symbol away and adds at most two candidates. */
static bool merge_piece(const struct culm_tokenizer *tokenizer, struct culm_encoder *encoder,
                        const char *text, size_t len) {
    struct culm_encoder_state *state = encoder->state;
    size_t heap = 0;
    if (len > INT32_MAX / 4 || !CULM_GROW(state->symbol, state->symbol_capacity, len) ||
        !CULM_GROW(state->heap, state->heap_capacity, 3 * len)) {
        return false;
    }
    struct culm_encoder_symbol *symbol = state->symbol;
    for (size_t i = 0; i < len; i++) {
        symbol[i] = (struct culm_encoder_symbol){.id = tokenizer->byte_id[(uint8_t)text[i]],
                                                 .before = (int32_t)i - 1,
                                                 .after = i + 1 < len ? (int32_t)i + 1 : -1};
    }
    for (size_t i = 0; i < len; i++) {
        consider(tokenizer, state, &heap, (int32_t)i);
    }
    while (heap) {
        const struct culm_encoder_candidate best = heap_pop(state, &heap);
        int32_t after = symbol[best.at].after;
        if (symbol[best.at].id != best.left || after < 0 || symbol[after].id != best.right) {
            continue; /* one of the two is part of something else by now */
        }
        symbol[best.at].id = best.id;
        symbol[best.at].after = symbol[after].after;
        symbol[after].id = -1;
        if (symbol[best.at].after >= 0) {
            symbol[symbol[best.at].after].before = best.at;
        }
        consider(tokenizer, state, &heap, best.at);
        consider(tokenizer, state, &heap, symbol[best.at].before);
    }
    for (int32_t at = 0; at >= 0; at = symbol[at].after) {
        if (!encoder_push(encoder, symbol[at].id)) {
            return false;
        }
    }
    return true;
}

static bool encode_piece(const struct culm_tokenizer *tokenizer, struct culm_encoder *encoder,
                         const char *text, size_t len) {
    struct culm_encoder_state *state = encoder->state;
    int32_t whole = tokenizer->whole_words ? tokenizer_id(tokenizer, text, len) : -1;
    if (whole >= 0) {
        return encoder_push(encoder, whole);
    }
    if (len > CULM_ENCODER_CACHE_WORD) {
        return merge_piece(tokenizer, encoder, text, len);
    }
    size_t slot = (size_t)culm_strings_hash(text, len) % CULM_ENCODER_CACHE;
    if (state->cache[slot].len == len && !memcmp(state->cache[slot].word, text, len)) {
        for (int i = 0; i < state->cache[slot].count; i++) {
            if (!encoder_push(encoder, state->cache[slot].id[i])) {
                return false;
            }
        }
        return true;
    }
    size_t first = encoder->count;
    if (!merge_piece(tokenizer, encoder, text, len)) {
        return false;
    }
    size_t count = encoder->count - first;
    if (count <= CULM_ENCODER_CACHE_IDS) {
        state->cache[slot].len = (uint8_t)len;
        state->cache[slot].count = (uint8_t)count;
        memcpy(state->cache[slot].word, text, len);
        memcpy(state->cache[slot].id, encoder->id + first, count * sizeof(int32_t));
    }
    return true;
}

bool tokenizer_bpe(const struct culm_tokenizer *tokenizer, struct culm_encoder *encoder,
                   const char *text, size_t len) {
    struct culm_encoder_state *state = encoder->state;
    bool goes_on = encoder->goes_on;
    encoder->goes_on = false;
    if (tokenizer->prefix_space && text[0] != ' ' && !goes_on) {
        if (!CULM_GROW(state->text, state->text_capacity, len + 1)) {
            return false;
        }
        state->text[0] = ' ';
        memcpy(state->text + 1, text, len);
        text = state->text;
        len++;
    }
    for (size_t at = 0; at < len;) {
        size_t end = culm_unicode_gpt2_piece(text, len, at);
        if (!encode_piece(tokenizer, encoder, text + at, end - at)) {
            return false;
        }
        at = end;
    }
    return true;
}

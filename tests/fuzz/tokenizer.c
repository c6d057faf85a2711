/*
 * Fuzz target: the files of tokenizers, and text for them. Any bytes are read as a tokenizer or
 * refused with a message; its ids are below its vocabulary, and byte pairs give back the bytes.
 *
 * The input is cut at 0xFF: the file, the text, and, if there is a third piece, merges.txt.
 */
#include "fuzz.h"

#include "data/tokenizer_internal.h"

#include <string.h>

#define PIECES 3

static void check_text(const struct culm_tokenizer *tokenizer, const char *text, size_t len) {
    static struct culm_encoder encoder; /* its cache must know whose it is */
    struct culm_buf out;
    encoder.count = 0;
    FUZZ_REQUIRE(culm_tokenizer_encode(tokenizer, &encoder, text, len, NULL) == CULM_OK, "memory");
    for (size_t i = 0; i < encoder.count; i++) {
        FUZZ_REQUIRE(encoder.id[i] >= 0 && encoder.id[i] < culm_tokenizer_vocab(tokenizer), "id %d",
                     encoder.id[i]);
    }
    bool strips = tokenizer->prefix_space || tokenizer->kind != CULM_TOKENIZER_BPE;
    for (int32_t i = 0; i < tokenizer->added.count; i++) {
        const struct culm_tokenizer_added *info = &tokenizer->added_info[i];
        strips |= info->lstrip || info->rstrip;
        for (int32_t k = 0; k < i; k++) { /* two contents of one id cannot both come back */
            strips |= tokenizer->added_info[k].id == info->id;
        }
        strips |= tokenizer->number[info->id] != 0; /* nor one that is a token of other bytes */
    }
    culm_buf_init(&out, 64 << 20);
    culm_tokenizer_decode(tokenizer, encoder.id, encoder.count, &out);
    FUZZ_REQUIRE(strips || (out.len == len && (!len || !memcmp(out.data, text, len))),
                 "%zu bytes became %zu", len, out.len);
    culm_buf_release(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct culm_error error = {0};
    struct culm_tokenizer *tokenizer;
    char *piece[PIECES] = {NULL};
    size_t len[PIECES] = {0}, at = 0;
    int pieces = 0;
    while (pieces < PIECES && at <= size) {
        const uint8_t *end =
            at < size && pieces + 1 < PIECES ? memchr(data + at, 0xFF, size - at) : NULL;
        len[pieces] = end ? (size_t)(end - data) - at : size - at;
        piece[pieces] = malloc(len[pieces] + 1);
        memcpy(piece[pieces], data + at, len[pieces]);
        piece[pieces][len[pieces]] = '\0';
        at += len[pieces++] + 1;
    }
    enum culm_status status = culm_tokenizer_parse(piece[0], len[0], "fuzz", piece[2], len[2],
                                                   "merges", &tokenizer, &error);
    if (status == CULM_OK) {
        if (piece[1]) {
            check_text(tokenizer, piece[1], len[1]);
        }
        culm_tokenizer_free(tokenizer);
    } else {
        FUZZ_REQUIRE(error.text[0] && !strchr(error.text, '\n'), "message: '%s'", error.text);
    }
    for (int i = 0; i < PIECES; i++) {
        free(piece[i]);
    }
    return 0;
}

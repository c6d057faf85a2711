/*
 * Fuzz target: files of sentence pairs. Any bytes are opened or refused with a message; every
 * sample of what was opened has the form that it should.
 *
 * The first byte chooses lengths and vocabulary, the rest is the file.
 */
#include "fuzz.h"

#include "data/source.h"
#include "memory_file.h"

static void check_sample(const struct culm_source *source, const struct culm_source_options *o,
                         int64_t index) {
    int32_t from[32], length, tokens[32], targets[32];
    void *const fields[] = {from, &length, tokens, targets};
    struct culm_error error = {0};
    const struct culm_source_item item = {index, 0};
    FUZZ_REQUIRE(culm_source_fill(source, item, fields, &error) == CULM_OK, "%s", error.text);
    FUZZ_REQUIRE(length >= 1 && length <= o->source_context, "length %d", length);
    for (int64_t i = 0; i < o->source_context; i++) { /* "<pad>" may be a word of the file */
        FUZZ_REQUIRE(i < length ? from[i] >= 0 && from[i] < o->vocab : from[i] == 0, "word %d",
                     from[i]);
    }
    bool padded = false;
    for (int64_t i = 0; i < o->context; i++) {
        FUZZ_REQUIRE(tokens[i] >= 0 && tokens[i] < o->vocab, "token %d", tokens[i]);
        FUZZ_REQUIRE(padded ? targets[i] == -1 : targets[i] >= -1 && targets[i] < o->vocab,
                     "target %d", targets[i]);
        FUZZ_REQUIRE(targets[i] != -1 || padded || (i > 0 && targets[i - 1] == 3), "no end");
        padded |= targets[i] == -1;
    }
    FUZZ_REQUIRE(tokens[0] == 2, "begins with %d", tokens[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct culm_error error = {0};
    struct culm_source *source;
    char path[64];
    if (!size) {
        return 0;
    }
    int fd = memory_file(data + 1, size - 1, path);
    const char *paths[] = {path};
    const struct culm_source_options options = {.kind = CULM_SOURCE_PAIRS,
                                                .paths = paths,
                                                .path_count = 1,
                                                .context = 1 + (data[0] & 31),
                                                .source_context = 1 + (data[0] >> 5),
                                                .vocab = 5 + data[0] % 20,
                                                .held_out = data[0] & 1 ? 0.3 : 0};
    if (culm_source_open(&options, &source, &error) == CULM_OK) {
        int64_t samples = culm_source_samples(source);
        for (int64_t i = 0; i < samples && i < 64; i++) {
            check_sample(source, &options, i);
        }
        culm_source_free(source);
    } else {
        FUZZ_REQUIRE(error.text[0] && !strchr(error.text, '\n'), "message: '%s'", error.text);
    }
    close(fd);
    return 0;
}

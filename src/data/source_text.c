/*
 * Text and token files as samples: windows of a row of tokens, side by side.
 *
 * Sample i is the tokens [i*context, i*context + context] inclusive: `context` inputs and, one
 * token later, `context` targets. What is left at the end is dropped, so
 * samples = (tokens - 1) / context.
 *
 *     tokens   c u l m   i s   b a m b o o            context 4
 *     sample 0 c u l m _         tokens "culm", targets "ulm "
 *     sample 1         _ i s _ b
 */
#include "data/source_internal.h"
#include "data/stream.h"

#include <stdio.h>
#include <stdlib.h>

struct text {
    struct culm_source source;
    struct culm_stream *stream;
    int64_t context;
};

static void text_free(struct culm_source *source) {
    struct text *text = (struct text *)source;
    culm_stream_free(text->stream);
    free(text);
}

static enum culm_status text_fill(const struct culm_source *source, struct culm_source_item item,
                                  void *const *fields, struct culm_error *error) {
    const struct text *text = (const struct text *)source;
    uint64_t first = (uint64_t)item.sample * (uint64_t)text->context;
    enum culm_status status = CULM_OK;
    for (int shift = 0; status == CULM_OK && shift < 2; shift++) {
        if (fields[shift]) {
            status = culm_stream_read(text->stream, first + (uint64_t)shift, fields[shift],
                                      (size_t)text->context, error);
        }
    }
    return status;
}

static struct culm_data_place text_place(const struct culm_source *source, int64_t sample) {
    const struct text *text = (const struct text *)source;
    return culm_stream_place(text->stream, (uint64_t)sample * (uint64_t)text->context,
                             (uint64_t)text->context + 1);
}

static const struct culm_source_ops text_ops = {text_fill, text_free, text_place};

/* Windows share a token with the next one. */
static void leave_out(const struct text *text, int64_t samples, struct culm_leaving *leaving) {
    uint64_t context = (uint64_t)text->context;
    for (size_t i = 0; i < culm_stream_left_count(text->stream); i++) {
        const struct culm_stream_range range = culm_stream_left(text->stream, i);
        uint64_t first = range.begin / context - (range.begin > 0 && range.begin % context == 0);
        for (uint64_t s = first; s < (uint64_t)samples && s * context < range.end; s++) {
            leaving_add(leaving, (int64_t)s);
        }
    }
}

enum culm_status source_open_text(const struct culm_source_options *options,
                                  struct culm_leaving *leaving, struct culm_source **ret_source,
                                  struct culm_error *error) {
    struct culm_tokenizer *tokenizer = NULL;
    struct text *text = calloc(1, sizeof *text);
    if (!text) {
        return culm_error_set(error, CULM_ERR_MEMORY, "data: out of memory");
    }
    text->source.ops = &text_ops;
    text->context = options->context;
    bool tokens = options->kind == CULM_SOURCE_TOKENS;
    enum culm_status status = tokens ? CULM_OK : source_tokenizer(options, &tokenizer, error);
    if (status == CULM_OK) {
        const struct culm_stream_options how = source_stream(options, leaving, tokenizer);
        status = tokens ? culm_stream_open_tokens(&how, &text->stream, error)
                        : culm_stream_open_text(&how, &text->stream, error);
        culm_tokenizer_free(tokenizer);
    }
    if (status == CULM_OK) {
        snprintf(text->source.note, sizeof text->source.note, "%s", culm_stream_note(text->stream));
        text->source.resident_bytes = culm_stream_resident_bytes(text->stream);
        text->source.opening_bytes = culm_stream_opening_bytes(text->stream);
        text->source.unseen = culm_stream_is_unseen(text->stream);
        uint64_t count = culm_stream_count(text->stream);
        int64_t samples = count ? (int64_t)((count - 1) / (uint64_t)options->context) : 0;
        leave_out(text, samples, leaving);
        status = samples
                     ? source_set_samples(&text->source, options, samples,
                                          culm_stream_name(text->stream), error)
                     : culm_error_set(error, CULM_ERR_CONFIG,
                                      "%s%s: has %llu tokens, one sample needs %lld; give more "
                                      "or lower model.context",
                                      culm_stream_name(text->stream),
                                      options->path_count > 1 ? " and the other files" : "",
                                      (unsigned long long)count, (long long)options->context + 1);
    }
    if (status != CULM_OK) {
        text_free(&text->source);
        return status;
    }
    source_add_numbers(&text->source, "tokens", options->context, options->vocab);
    source_add_numbers(&text->source, "targets", options->context, options->vocab);
    *ret_source = &text->source;
    return CULM_OK;
}

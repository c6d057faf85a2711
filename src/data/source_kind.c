/* What the kinds of sources have in common: the split, fields, samples that are left out. See
 * source_internal.h. */
#include "data/source_internal.h"

#include "base/grow.h"

#include <assert.h>
#include <math.h>

enum culm_status source_training(const struct culm_source_options *options, int64_t total,
                                 const char *what, int64_t *ret_training,
                                 struct culm_error *error) {
    double share = options->held_out;
    if (!(share >= 0 && share < 1)) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "data.held_out: %g is not a share; allowed: at least 0 and below 1",
                              share);
    }
    if (share == 0) {
        *ret_training = total;
        return CULM_OK;
    }
    if (total < 2) {
        return culm_error_set(
            error, CULM_ERR_CONFIG,
            "%s: has one sample, and data.held_out needs one more; give more data "
            "or set data.held_out to 0",
            what);
    }
    int64_t held = (int64_t)floor((double)total * share + 0.5);
    held = held < 1 ? 1 : held > total - 1 ? total - 1 : held;
    *ret_training = total - held;
    return CULM_OK;
}

enum culm_status source_set_samples(struct culm_source *source,
                                    const struct culm_source_options *options, int64_t total,
                                    const char *what, struct culm_error *error) {
    int64_t training = total;
    enum culm_status status = source_training(options, total, what, &training, error);
    if (status != CULM_OK) {
        return status;
    }
    bool held_out = options->split == CULM_SPLIT_HELD_OUT && training < total;
    source->first = held_out ? training : 0;
    source->samples = held_out ? total - training : training;
    return CULM_OK;
}

static struct culm_source_field *add_field(struct culm_source *source, const char *name,
                                           enum culm_dtype dtype, int rank, const int64_t *dim) {
    assert(source->field_count < CULM_SOURCE_FIELDS_MAX);
    struct culm_source_field *field = &source->field[source->field_count++];
    *field = (struct culm_source_field){.name = name, .dtype = dtype};
    field->shape = culm_shape_of(rank, dim);
    field->size_bytes = culm_dtype_bytes(dtype);
    for (int i = 0; i < rank; i++) {
        field->size_bytes *= (size_t)dim[i];
    }
    return field;
}

void source_add_image(struct culm_source *source, const char *name, int rank, const int64_t *dim) {
    (void)add_field(source, name, CULM_F32, rank, dim);
}

void source_add_numbers(struct culm_source *source, const char *name, int64_t count,
                        int64_t below) {
    add_field(source, name, CULM_I32, 1, &count)->below = below;
}

enum culm_status source_tokenizer(const struct culm_source_options *options,
                                  struct culm_tokenizer **ret_tokenizer, struct culm_error *error) {
    *ret_tokenizer = NULL;
    return options->tokenizer_count
               ? culm_tokenizer_open_pinned(options->tokenizer, options->tokenizer_count,
                                            options->pins, ret_tokenizer, error)
               : CULM_OK;
}

struct culm_stream_options source_stream(const struct culm_source_options *options,
                                         const struct culm_leaving *leaving,
                                         const struct culm_tokenizer *tokenizer) {
    return (struct culm_stream_options){.paths = options->paths,
                                        .path_count = options->path_count,
                                        .vocab = options->vocab,
                                        .tokenizer = tokenizer,
                                        .pins = options->pins,
                                        .skip = leaving->skip,
                                        .trust = leaving->bad != NULL};
}

bool leaving_bad(struct culm_leaving *leaving, const struct culm_data_place *place,
                 const char *why) {
    if (culm_skip_has(leaving->skip, place)) {
        return true;
    }
    if (leaving->bad) {
        leaving->bad(leaving->ctx, &(struct culm_data_bad){.place = *place, .why = why});
    }
    return leaving->bad != NULL;
}

void leaving_add(struct culm_leaving *leaving, int64_t sample) {
    if (!CULM_GROW(leaving->sample, leaving->capacity, leaving->count + 1)) {
        leaving->failed = true;
        return;
    }
    leaving->sample[leaving->count++] = sample;
}

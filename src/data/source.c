/* Sources of samples: kinds, fields, the split. See source.h; each kind is in a file of its own. */
#include "data/source_internal.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SOURCE_STREAM 0x73616d706c65ull /* "sample": apart from other uses of the seed */

const char *const culm_source_kind_names[CULM_SOURCE_KIND_COUNT + 1] = {
    [CULM_SOURCE_TEXT] = "text",   [CULM_SOURCE_TOKENS] = "tokens", [CULM_SOURCE_IMAGES] = "images",
    [CULM_SOURCE_PAIRS] = "pairs", [CULM_SOURCE_MASKED] = "masked",
};

/* --- for the kinds --- */

enum culm_status culm_source_training(const struct culm_source_options *options, int64_t total,
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

enum culm_status culm_source_set_samples(struct culm_source *source,
                                         const struct culm_source_options *options, int64_t total,
                                         const char *what, struct culm_error *error) {
    int64_t training = total;
    enum culm_status status = culm_source_training(options, total, what, &training, error);
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

void culm_source_add_image(struct culm_source *source, const char *name, int rank,
                           const int64_t *dim) {
    (void)add_field(source, name, CULM_F32, rank, dim);
}

void culm_source_add_numbers(struct culm_source *source, const char *name, int64_t count,
                             int64_t below) {
    add_field(source, name, CULM_I32, 1, &count)->below = below;
}

enum culm_status culm_source_tokenizer(const struct culm_source_options *options,
                                       struct culm_tokenizer **ret_tokenizer,
                                       struct culm_error *error) {
    *ret_tokenizer = NULL;
    return options->tokenizer_count
               ? culm_tokenizer_open_pinned(options->tokenizer, options->tokenizer_count,
                                            options->pins, ret_tokenizer, error)
               : CULM_OK;
}

/* --- for everybody --- */

static enum culm_status check(const struct culm_source_options *options, struct culm_error *error) {
    bool image = options->kind == CULM_SOURCE_IMAGES;
    if (!options->path_count) {
        return culm_error_set(error, CULM_ERR_CONFIG, "data.path: no file; give at least one");
    }
    if (!image && (options->context < 1 || options->context > (1 << 24) ||
                   options->source_context < 0 || options->source_context > (1 << 24))) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "data: a context of %lld",
                              (long long)options->context);
    }
    if (!image && (options->vocab < 1 || options->vocab > (1 << 24))) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "data: a vocabulary of %lld",
                              (long long)options->vocab);
    }
    return CULM_OK;
}

enum culm_status culm_source_open(const struct culm_source_options *options,
                                  struct culm_source **ret_source, struct culm_error *error) {
    struct culm_source *source = NULL;
    enum culm_status status = check(options, error);
    if (status != CULM_OK) {
        return status;
    }
    switch (options->kind) {
    case CULM_SOURCE_TEXT:
    case CULM_SOURCE_TOKENS: status = culm_source_open_text(options, &source, error); break;
    case CULM_SOURCE_IMAGES: status = culm_source_open_images(options, &source, error); break;
    case CULM_SOURCE_PAIRS: status = culm_source_open_pairs(options, &source, error); break;
    case CULM_SOURCE_MASKED: status = culm_source_open_masked(options, &source, error); break;
    default: return culm_error_set(error, CULM_ERR_ARGUMENT, "data: no such kind");
    }
    if (status == CULM_OK) {
        source->key = culm_rng_mix(options->seed, SOURCE_STREAM);
        *ret_source = source;
    }
    return status;
}

void culm_source_free(struct culm_source *source) {
    if (source) {
        source->ops->free(source);
    }
}

int64_t culm_source_samples(const struct culm_source *source) { return source->samples; }

size_t culm_source_resident_bytes(const struct culm_source *source) {
    return source->resident_bytes;
}

size_t culm_source_opening_bytes(const struct culm_source *source) {
    return source->opening_bytes > source->resident_bytes ? source->opening_bytes
                                                          : source->resident_bytes;
}

const char *culm_source_class_name(const struct culm_source *source, size_t label) {
    size_t len;
    return label < (size_t)source->class_name.count
               ? culm_strings_get(&source->class_name, (int32_t)label, &len)
               : NULL;
}

const char *culm_source_note(const struct culm_source *source) { return source->note; }

int32_t culm_source_field_count(const struct culm_source *source) { return source->field_count; }

const struct culm_source_field *culm_source_fields(const struct culm_source *source) {
    return source->field;
}

int32_t culm_source_find(const struct culm_source *source, const char *name) {
    for (int32_t i = 0; i < source->field_count; i++) {
        if (!strcmp(source->field[i].name, name)) {
            return i;
        }
    }
    return -1;
}

enum culm_status culm_source_fill(const struct culm_source *source, struct culm_source_item item,
                                  void *const *fields, struct culm_error *error) {
    if (item.sample < 0 || item.sample >= source->samples) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "data: sample %lld of %lld",
                              (long long)item.sample, (long long)source->samples);
    }
    item.sample += source->first;
    return source->ops->fill(source, item, fields, error);
}

/* Sources of samples: kinds, fields, the split. See source.h; each kind is in a file of its own. */
#include "data/source_internal.h"

#include "base/grow.h"

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

struct culm_stream_options culm_source_stream(const struct culm_source_options *options,
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

bool culm_leaving_bad(struct culm_leaving *leaving, const struct culm_data_place *place,
                      const char *why) {
    if (culm_skip_has(leaving->skip, place)) {
        return true;
    }
    if (leaving->bad) {
        leaving->bad(leaving->ctx, &(struct culm_data_bad){.place = *place, .why = why});
    }
    return leaving->bad != NULL;
}

void culm_leaving_add(struct culm_leaving *leaving, int64_t sample) {
    if (!CULM_GROW(leaving->sample, leaving->capacity, leaving->count + 1)) {
        leaving->failed = true;
        return;
    }
    leaving->sample[leaving->count++] = sample;
}

static int compare_samples(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* Of what is left out, that of the split. */
static enum culm_status leave_out(struct culm_source *source, struct culm_leaving *leaving,
                                  struct culm_error *error) {
    size_t count = 0;
    if (leaving->failed) {
        return culm_error_set(error, CULM_ERR_MEMORY, "data: out of memory");
    }
    if (leaving->count) {
        qsort(leaving->sample, leaving->count, sizeof *leaving->sample, compare_samples);
    }
    for (size_t i = 0; i < leaving->count; i++) {
        int64_t sample = leaving->sample[i] - source->first;
        if (sample >= 0 && sample < source->samples &&
            (!count || leaving->sample[count - 1] != sample)) {
            leaving->sample[count++] = sample;
        }
    }
    if ((int64_t)count == source->samples) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "none of the %lld samples%s is left%s; give other data",
                              (long long)source->samples, source->first ? " held out" : "",
                              leaving->skip ? " by data.skip" : " that can be used");
    }
    if (count && !(source->left_out = culm_order_left_out_new(leaving->sample, count))) {
        return culm_error_set(error, CULM_ERR_MEMORY, "data: out of memory");
    }
    return CULM_OK;
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
    struct culm_leaving leaving = {.bad = options->bad, .ctx = options->bad_ctx};
    enum culm_status status = check(options, error);
    if (status == CULM_OK && options->skip) {
        status = culm_skip_read(options->skip, options->paths, options->path_count, options->pins,
                                &leaving.skip, error);
    }
    if (status != CULM_OK) {
        return status;
    }
    switch (options->kind) {
    case CULM_SOURCE_TEXT:
    case CULM_SOURCE_TOKENS:
        status = culm_source_open_text(options, &leaving, &source, error);
        break;
    case CULM_SOURCE_IMAGES:
        status = culm_source_open_images(options, &leaving, &source, error);
        break;
    case CULM_SOURCE_PAIRS:
        status = culm_source_open_pairs(options, &leaving, &source, error);
        break;
    case CULM_SOURCE_MASKED:
        status = culm_source_open_masked(options, &leaving, &source, error);
        break;
    default: status = culm_error_set(error, CULM_ERR_ARGUMENT, "data: no such kind");
    }
    if (status == CULM_OK && (status = culm_skip_check_found(leaving.skip, error)) == CULM_OK) {
        status = leave_out(source, &leaving, error);
    }
    culm_skip_free(leaving.skip);
    free(leaving.sample);
    if (status != CULM_OK) {
        culm_source_free(source);
        return status;
    }
    source->key = culm_rng_mix(options->seed, SOURCE_STREAM);
    *ret_source = source;
    return CULM_OK;
}

void culm_source_free(struct culm_source *source) {
    if (source) {
        culm_order_left_out_free(source->left_out);
        source->ops->free(source);
    }
}

int64_t culm_source_samples(const struct culm_source *source) { return source->samples; }

struct culm_order_left_out *culm_source_left_out(const struct culm_source *source) {
    return source->left_out;
}

bool culm_source_is_unseen(const struct culm_source *source) { return source->unseen; }

struct culm_data_place culm_source_place(const struct culm_source *source, int64_t sample) {
    return source->ops->place(source, source->first + sample);
}

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

/* Sources of samples: opening one of any kind, and asking it. See source.h; each kind is in a file
 * of its own. */
#include "data/source_internal.h"

#include <stdlib.h>
#include <string.h>

#define SOURCE_STREAM 0x73616d706c65ull /* "sample": apart from other uses of the seed */

const char *const culm_source_kind_names[CULM_SOURCE_KIND_COUNT + 1] = {
    [CULM_SOURCE_TEXT] = "text",   [CULM_SOURCE_TOKENS] = "tokens", [CULM_SOURCE_IMAGES] = "images",
    [CULM_SOURCE_PAIRS] = "pairs", [CULM_SOURCE_MASKED] = "masked",
};

/* --- opening --- */

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
    case CULM_SOURCE_TOKENS: status = source_open_text(options, &leaving, &source, error); break;
    case CULM_SOURCE_IMAGES: status = source_open_images(options, &leaving, &source, error); break;
    case CULM_SOURCE_PAIRS: status = source_open_pairs(options, &leaving, &source, error); break;
    case CULM_SOURCE_MASKED: status = source_open_masked(options, &leaving, &source, error); break;
    default: status = culm_error_set(error, CULM_ERR_ARGUMENT, "data: no such kind");
    }
    if (status == CULM_OK) {
        status = culm_skip_check_found(leaving.skip, error);
    }
    if (status == CULM_OK) {
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

/* --- asking --- */

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

/* Tensors of checkpoints, runs and files. See tensors.h and culm/infer.h. */
#include "run/tensors.h"

#include "run/public.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- opening --- */

static enum culm_status open_directory(struct culm_tensors *tensors, const char *path, bool verify,
                                       struct culm_error *error) {
    char inside[CULM_PATH_MAX];
    int64_t step;
    enum culm_status status = culm_path_format(inside, error, "%s/manifest.json", path);
    if (status != CULM_OK) {
        return status;
    }
    if (culm_file_is_regular(inside)) {
        status = culm_path_format(tensors->path, error, "%s", path);
    } else {
        status = culm_path_format(inside, error, "%s/checkpoints", path);
        if (status == CULM_OK && !culm_file_is_directory(inside)) {
            status = culm_error_set(error, CULM_ERR_FORMAT,
                                    "'%s' is neither a checkpoint (it has no manifest.json) nor a "
                                    "run (it has no checkpoints/)",
                                    path);
        }
        if (status == CULM_OK) {
            status =
                culm_checkpoint_latest(path, verify, &step, tensors->path, tensors->warning, error);
        }
    }
    return status == CULM_OK
               ? culm_checkpoint_open(tensors->path, verify, &tensors->checkpoint, error)
               : status;
}

static enum culm_status open_path(struct culm_tensors *tensors, const char *path, bool verify,
                                  struct culm_error *error) {
    enum culm_status status;
    if (culm_file_is_directory(path)) {
        status = open_directory(tensors, path, verify, error);
    } else if ((status = culm_path_format(tensors->path, error, "%s", path)) == CULM_OK) {
        status = culm_safetensors_open(path, &tensors->file, error);
    }
    if (status != CULM_OK) {
        return status;
    }
    tensors->count = tensors->checkpoint ? culm_checkpoint_count(tensors->checkpoint)
                                         : culm_safetensors_count(tensors->file);
    tensors->entry = calloc(tensors->count + 1, sizeof *tensors->entry);
    if (!tensors->entry) {
        return culm_error_set(error, CULM_ERR_MEMORY, "'%s': out of memory", path);
    }
    for (size_t i = 0; i < tensors->count; i++) {
        tensors->entry[i] = tensors->checkpoint ? culm_checkpoint_at(tensors->checkpoint, i)
                                                : culm_safetensors_at(tensors->file, i);
        tensors->has_state |= culm_checkpoint_is_state(tensors->entry[i]->name);
    }
    return CULM_OK;
}

enum culm_status culm_tensors_open(const char *path, bool verify, struct culm_tensors **ret_tensors,
                                   struct culm_error *error) {
    if (!path || !ret_tensors) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "culm_tensors_open: an argument is NULL");
    }
    struct culm_tensors *tensors = calloc(1, sizeof *tensors);
    if (!tensors) {
        return culm_error_set(error, CULM_ERR_MEMORY, "'%s': out of memory", path);
    }
    enum culm_status status = open_path(tensors, path, verify, error);
    if (status != CULM_OK) {
        culm_tensors_free(tensors);
        return status;
    }
    *ret_tensors = tensors;
    return CULM_OK;
}

void culm_tensors_free(struct culm_tensors *tensors) {
    if (tensors) {
        culm_checkpoint_close(tensors->checkpoint);
        culm_safetensors_close(tensors->file);
        free(tensors->entry);
        free(tensors);
    }
}

/* --- looking --- */

int64_t culm_tensors_step(const struct culm_tensors *tensors) {
    return tensors && tensors->checkpoint ? culm_checkpoint_info_of(tensors->checkpoint)->step : -1;
}

size_t culm_tensors_count(const struct culm_tensors *tensors) {
    return tensors ? tensors->count : 0;
}

struct culm_tensors_about culm_tensors_describe(const struct culm_tensors *tensors) {
    struct culm_tensors_about about = {.path = tensors->path,
                                       .warning = tensors->warning,
                                       .checkpoint = tensors->checkpoint != NULL,
                                       .has_state = tensors->has_state};
    if (tensors->checkpoint) {
        const struct culm_checkpoint_info *info = culm_checkpoint_info_of(tensors->checkpoint);
        about.samples = info->samples;
        about.seed = info->seed;
        about.signature = info->signature;
        about.config = info->config;
        about.choices = info->choices;
        about.pieces = culm_checkpoint_piece_count(tensors->checkpoint);
    }
    for (size_t i = 0; i < tensors->count; i++) {
        if (culm_checkpoint_is_state(tensors->entry[i]->name)) {
            about.state_tensors++;
        } else {
            about.parameter_tensors++;
            about.parameters += tensors->entry[i]->elements;
        }
    }
    return about;
}

struct culm_tensors_piece culm_tensors_piece_of(const struct culm_tensors *tensors, size_t index) {
    const struct culm_piece *piece = culm_checkpoint_piece(tensors->checkpoint, index);
    return (struct culm_tensors_piece){piece->file, piece->sha256, piece->bytes, piece->tensors};
}

const char *culm_tensors_dtype(const struct culm_tensors *tensors, size_t index) {
    return tensors->entry[index]->dtype;
}

void culm_tensors_hashes(const struct culm_tensors *tensors, char ret_weights[65],
                         char ret_state[65]) {
    ret_weights[0] = ret_state[0] = '\0';
    culm_tensors_hash(tensors->entry, tensors->count, false, 0, ret_weights, NULL);
    if (tensors->checkpoint) {
        culm_tensors_hash(tensors->entry, tensors->count, true,
                          culm_checkpoint_info_of(tensors->checkpoint)->step, ret_state, NULL);
    }
}

static enum culm_status check_index(const struct culm_tensors *tensors, size_t index,
                                    const char *function, struct culm_error *error) {
    if (!tensors || index >= tensors->count) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "%s: there is no tensor %zu of %zu",
                              function, index, culm_tensors_count(tensors));
    }
    return CULM_OK;
}

static enum culm_array_dtype dtype_of(const struct culm_safetensors_entry *entry) {
    return strcmp(entry->dtype, "F32") == 0    ? CULM_ARRAY_F32
           : strcmp(entry->dtype, "I32") == 0  ? CULM_ARRAY_I32
           : strcmp(entry->dtype, "BF16") == 0 ? CULM_ARRAY_BF16
                                               : CULM_ARRAY_OTHER;
}

enum culm_status culm_tensors_info(const struct culm_tensors *tensors, size_t index,
                                   struct culm_array_info *ret_info, struct culm_error *error) {
    enum culm_status status = check_index(tensors, index, "culm_tensors_info", error);
    if (status != CULM_OK) {
        return status;
    }
    const struct culm_safetensors_entry *entry = tensors->entry[index];
    struct culm_array_info info = {
        .name = entry->name, .dtype = dtype_of(entry), .rank = entry->rank, .bytes = entry->bytes};
    for (int d = 0; d < entry->rank && d < CULM_RANK_MAX; d++) {
        info.shape[d] = entry->shape[d];
    }
    return culm_public_fill(ret_info, &info, sizeof info, "culm_array_info", error);
}

enum culm_status culm_tensors_find(const struct culm_tensors *tensors, const char *name,
                                   size_t *ret_index, struct culm_error *error) {
    if (!tensors || !name || !ret_index) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "culm_tensors_find: an argument is NULL");
    }
    for (size_t low = 0, high = tensors->count; low < high;) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(name, tensors->entry[middle]->name);
        if (order == 0) {
            *ret_index = middle;
            return CULM_OK;
        }
        *(order < 0 ? &high : &low) = order < 0 ? middle : middle + 1;
    }
    return culm_error_set(error, CULM_ERR_NOT_FOUND, "'%s' has no tensor '%s'", tensors->path,
                          name);
}

/* NULL: it cannot be read, or no memory; *error says which. */
static uint8_t *bytes_of(const struct culm_safetensors_entry *entry, enum culm_status *ret_status,
                         struct culm_error *error) {
    uint8_t *bytes = malloc(entry->bytes + 1);
    *ret_status =
        bytes ? culm_safetensors_load(entry, 0, bytes, entry->bytes, error)
              : culm_error_set(error, CULM_ERR_MEMORY, "tensor '%s': out of memory", entry->name);
    if (*ret_status != CULM_OK) {
        free(bytes);
        return NULL;
    }
    return bytes;
}

enum culm_status culm_tensors_read(const struct culm_tensors *tensors, size_t index, void *ret_data,
                                   uint64_t bytes, struct culm_error *error) {
    enum culm_status status = check_index(tensors, index, "culm_tensors_read", error);
    if (status != CULM_OK) {
        return status;
    }
    const struct culm_safetensors_entry *entry = tensors->entry[index];
    if (!ret_data) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "culm_tensors_read: ret_data is NULL");
    }
    if (bytes != entry->bytes) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "culm_tensors_read: '%s' has %" PRIu64 " bytes, not %" PRIu64,
                              entry->name, entry->bytes, bytes);
    }
    uint8_t *read = bytes_of(entry, &status, error); /* a file that ends early leaves half of it */
    if (read) {
        memcpy(ret_data, read, bytes);
    }
    free(read);
    return status;
}

/* --- comparing --- */

/* "[3, 17]" of a flat index. */
static void index_text(const struct culm_safetensors_entry *entry, int64_t flat,
                       char ret_text[CULM_SHAPE_TEXT_MAX]) {
    int64_t index[CULM_SAFETENSORS_RANK_MAX] = {0};
    for (int d = entry->rank - 1; d >= 0; d--) {
        index[d] = flat % entry->shape[d];
        flat /= entry->shape[d];
    }
    culm_shape_text(entry->rank, index, ret_text);
}

/* Both have one dtype and shape, and differ somewhere. */
static void tell_element(struct culm_tensors_difference *difference,
                         const struct culm_safetensors_entry *a, const uint8_t *x,
                         const uint8_t *y) {
    size_t size = (size_t)(a->bytes / (uint64_t)a->elements), at = 0, different = 0;
    int64_t first = -1;
    for (int64_t i = 0; i < a->elements; i++, at += size) {
        if (memcmp(x + at, y + at, size) != 0) {
            first = first < 0 ? i : first;
            different++;
        }
    }
    char where[CULM_SHAPE_TEXT_MAX], values[128];
    index_text(a, first, where);
    x += (size_t)first * size;
    y += (size_t)first * size;
    if (culm_safetensors_is_f32(a)) {
        float number[2];
        uint32_t bits[2];
        memcpy(&number[0], x, 4);
        memcpy(&number[1], y, 4);
        memcpy(&bits[0], x, 4);
        memcpy(&bits[1], y, 4);
        snprintf(values, sizeof values, "%.9g (0x%08" PRIx32 ") and %.9g (0x%08" PRIx32 ")",
                 (double)number[0], bits[0], (double)number[1], bits[1]);
    } else {
        uint64_t bits[2] = {0, 0};
        memcpy(&bits[0], x, size);
        memcpy(&bits[1], y, size);
        snprintf(values, sizeof values, "%s 0x%0*" PRIx64 " and 0x%0*" PRIx64, a->dtype,
                 (int)(2 * size), bits[0], (int)(2 * size), bits[1]);
    }
    snprintf(difference->text, sizeof difference->text,
             "tensor '%s' differs at %s (element %" PRId64 "): %s; %zu of %" PRId64
             " elements differ",
             a->name, where, first, values, different, a->elements);
}

static enum culm_status compare_tensor(struct culm_tensors_difference *difference,
                                       const struct culm_safetensors_entry *a,
                                       const struct culm_safetensors_entry *b,
                                       struct culm_error *error) {
    enum culm_status status = CULM_OK;
    if (strcmp(a->dtype, b->dtype) != 0 || a->rank != b->rank ||
        memcmp(a->shape, b->shape, sizeof a->shape) != 0) {
        char x[CULM_SHAPE_TEXT_MAX], y[CULM_SHAPE_TEXT_MAX];
        culm_shape_text(a->rank, a->shape, x);
        culm_shape_text(b->rank, b->shape, y);
        snprintf(difference->text, sizeof difference->text, "tensor '%s' is %s %s and %s %s",
                 a->name, a->dtype, x, b->dtype, y);
        difference->differ = true;
        return CULM_OK;
    }
    uint8_t *x = bytes_of(a, &status, error), *y = x ? bytes_of(b, &status, error) : NULL;
    if (x && y && memcmp(x, y, a->bytes) != 0) {
        difference->differ = true;
        tell_element(difference, a, x, y);
    }
    free(x);
    free(y);
    return status;
}

static size_t skip_to(const struct culm_tensors *tensors, size_t at, bool state) {
    while (at < tensors->count && culm_checkpoint_is_state(tensors->entry[at]->name) != state) {
        at++;
    }
    return at;
}

/* Walks both in order of names, up to the first difference. */
static enum culm_status compare(const struct culm_tensors *a, const struct culm_tensors *b,
                                bool state, struct culm_tensors_difference *difference,
                                struct culm_error *error) {
    enum culm_status status = CULM_OK;
    size_t i = skip_to(a, 0, state), j = skip_to(b, 0, state);
    while (i < a->count || j < b->count) {
        int order = i == a->count   ? 1
                    : j == b->count ? -1
                                    : strcmp(a->entry[i]->name, b->entry[j]->name);
        if (order != 0) {
            snprintf(
                difference->text, sizeof difference->text, "tensor '%.200s' is only in '%.200s'",
                order < 0 ? a->entry[i]->name : b->entry[j]->name, order < 0 ? a->path : b->path);
            difference->differ = true;
            return CULM_OK;
        }
        status = compare_tensor(difference, a->entry[i], b->entry[j], error);
        if (status != CULM_OK || difference->differ) {
            return status;
        }
        (*(state ? &difference->state : &difference->weights))++;
        i = skip_to(a, i + 1, state);
        j = skip_to(b, j + 1, state);
    }
    return CULM_OK;
}

enum culm_status culm_tensors_differ(const struct culm_tensors *a, const struct culm_tensors *b,
                                     struct culm_tensors_difference *ret_difference,
                                     struct culm_error *error) {
    *ret_difference = (struct culm_tensors_difference){0};
    enum culm_status status = compare(a, b, false, ret_difference, error);
    if (status == CULM_OK && !ret_difference->differ && a->has_state && b->has_state) {
        status = compare(a, b, true, ret_difference, error);
    }
    return status;
}

enum culm_status culm_tensors_compare(const struct culm_tensors *a, const struct culm_tensors *b,
                                      bool *ret_same, char *difference, size_t difference_size,
                                      struct culm_error *error) {
    struct culm_tensors_difference found;
    if (!a || !b || !ret_same || (!difference && difference_size > 0)) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "culm_tensors_compare: an argument is NULL");
    }
    enum culm_status status = culm_tensors_differ(a, b, &found, error);
    int64_t step[2] = {culm_tensors_step(a), culm_tensors_step(b)};
    if (status == CULM_OK && !found.differ && step[0] >= 0 && step[1] >= 0 && step[0] != step[1]) {
        found.differ = true;
        snprintf(found.text, sizeof found.text, "step is %" PRId64 " and %" PRId64, step[0],
                 step[1]);
    }
    if (status == CULM_OK) {
        *ret_same = !found.differ;
        if (difference_size > 0) {
            snprintf(difference, difference_size, "%s", found.text);
        }
    }
    return status;
}

/*
 * What published files have beside their weights, told by content as much as by name: a tensor that
 * is called a mask and holds other numbers is a weight that nobody asks for. See weights.h.
 */
#include "store/weights_internal.h"

#include <stdlib.h>
#include <string.h>

#define PART_BYTES ((size_t)1 << 18)

static bool ends_with(const char *text, const char *end) {
    size_t len = strlen(text), tail = strlen(end);
    return len >= tail && strcmp(text + len - tail, end) == 0;
}

/* One element as a whole number; false: it is none. Little-endian, as memory is. */
static bool whole(const char *dtype, const uint8_t *data, int64_t *ret_value) {
    static const struct {
        const char *dtype;
        size_t bytes;
        bool is_signed;
    } kinds[] = {{"I64", 8, true},  {"I32", 4, true},  {"I16", 2, true},
                 {"I8", 1, true},   {"U64", 8, false}, {"U32", 4, false},
                 {"U16", 2, false}, {"U8", 1, false},  {"BOOL", 1, false}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(dtype, kinds[i].dtype) == 0) {
            uint64_t value = 0;
            memcpy(&value, data, kinds[i].bytes);
            unsigned unused = 64 - 8 * (unsigned)kinds[i].bytes;
            *ret_value = kinds[i].is_signed ? (int64_t)(value << unused) >> unused : (int64_t)value;
            return true;
        }
    }
    return false;
}

static bool is_whole(const struct culm_safetensors_entry *entry) {
    const uint8_t zero[8] = {0};
    int64_t value;
    return whole(entry->dtype, zero, &value);
}

/* Calls `holds` with each element, in order, until it says no. */
typedef bool holds_fn(int64_t index, double value, int64_t side);

static enum culm_status all_hold(const struct culm_safetensors_entry *entry, holds_fn *holds,
                                 int64_t side, bool *ret_all, struct culm_error *error) {
    bool numbers = is_whole(entry), all = entry->elements > 0;
    size_t size = all ? (size_t)(entry->bytes / (uint64_t)entry->elements) : 1;
    int64_t some = (int64_t)(PART_BYTES / 8);
    void *part = malloc(PART_BYTES);
    enum culm_status status =
        part ? CULM_OK : culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a tensor");
    for (int64_t at = 0; at < entry->elements && all && status == CULM_OK; at += some) {
        int64_t count = entry->elements - at < some ? entry->elements - at : some;
        status = numbers ? culm_safetensors_load(entry, (uint64_t)at * size, part,
                                                 (size_t)count * size, error)
                         : culm_safetensors_floats(entry, at, count, part, error);
        for (int64_t i = 0; i < count && all && status == CULM_OK; i++) {
            int64_t number = 0;
            if (numbers) {
                (void)whole(entry->dtype, (const uint8_t *)part + (size_t)i * size, &number);
            }
            all = holds(at + i, numbers ? (double)number : (double)((const float *)part)[i], side);
        }
    }
    free(part);
    *ret_all = all;
    return status;
}

static bool is_lower_triangle(int64_t index, double value, int64_t side) {
    return value == (index % side <= index / side ? 1 : 0);
}

/* 0, 1, 2, ... */
static bool is_count(int64_t index, double value, int64_t side) {
    (void)side;
    return value == (double)index;
}

static bool is_zero(int64_t index, double value, int64_t side) {
    (void)index;
    (void)side;
    return value == 0;
}

static bool is_square(const struct culm_safetensors_entry *entry) {
    return entry->rank == 4 && entry->shape[0] == 1 && entry->shape[1] == 1 &&
           entry->shape[2] == entry->shape[3] && entry->shape[2] > 0;
}

/* --- copies --- */

static enum culm_status same_bytes(const struct culm_safetensors_entry *a,
                                   const struct culm_safetensors_entry *b, bool *ret_same,
                                   struct culm_error *error) {
    uint8_t *part = malloc(2 * PART_BYTES);
    enum culm_status status =
        part ? CULM_OK : culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a tensor");
    bool same = true;
    for (uint64_t at = 0; at < a->bytes && same && status == CULM_OK; at += PART_BYTES) {
        size_t len = a->bytes - at < PART_BYTES ? (size_t)(a->bytes - at) : PART_BYTES;
        if ((status = culm_safetensors_load(a, at, part, len, error)) == CULM_OK &&
            (status = culm_safetensors_load(b, at, part + PART_BYTES, len, error)) == CULM_OK) {
            same = memcmp(part, part + PART_BYTES, len) == 0;
        }
    }
    free(part);
    *ret_same = same;
    return status;
}

static bool alike(const struct culm_safetensors_entry *a, const struct culm_safetensors_entry *b) {
    return a->rank == b->rank && strcmp(a->dtype, b->dtype) == 0 &&
           memcmp(a->shape, b->shape, (size_t)a->rank * sizeof *a->shape) == 0;
}

static enum culm_status is_copy(const struct culm_weights *weights, const bool *used,
                                const struct culm_safetensors_entry *entry, bool *ret_copy,
                                struct culm_error *error) {
    enum culm_status status = CULM_OK;
    bool copy = false;
    for (size_t i = 0; i < weights->count && !copy && status == CULM_OK; i++) {
        if (used[i] && alike(weights->entry[i], entry)) {
            status = same_bytes(weights->entry[i], entry, &copy, error);
        }
    }
    *ret_copy = copy;
    return status;
}

/* NAME.exp_avg beside NAME. */
static bool is_state(const struct culm_weights *weights,
                     const struct culm_safetensors_entry *entry) {
    const char *name = entry->name;
    char of[256];
    size_t len = strlen(name) - strlen(ends_with(name, "_sq") ? ".exp_avg_sq" : ".exp_avg");
    if (!culm_checkpoint_is_state(name) || len >= sizeof of) {
        return false;
    }
    memcpy(of, name, len);
    of[len] = '\0';
    return weights_index(weights, &(struct culm_safetensors_entry){.name = of}) >= 0;
}

enum culm_status weights_find_beside(const struct culm_weights *weights, const bool *used,
                                     size_t index, enum weights_beside *ret_beside,
                                     struct culm_error *error) {
    const struct culm_safetensors_entry *entry = weights->entry[index];
    const char *name = entry->name;
    bool numbers = is_whole(entry), real = culm_safetensors_is_real(entry), is = false;
    enum weights_beside beside = WEIGHTS_NOTHING;
    enum culm_status status = CULM_OK;
    if (is_state(weights, entry)) {
        beside = WEIGHTS_STATE;
    } else if (ends_with(name, "attn.masked_bias") && entry->elements == 1) {
        beside = WEIGHTS_FILL;
    } else if (ends_with(name, "num_batches_tracked") && numbers && entry->elements == 1) {
        beside = WEIGHTS_COUNTER;
    } else if (ends_with(name, "attn.bias") && is_square(entry) && (numbers || real)) {
        status = all_hold(entry, is_lower_triangle, entry->shape[2], &is, error);
        beside = is ? WEIGHTS_MASK : beside;
    } else if (ends_with(name, "position_ids") && numbers) {
        status = all_hold(entry, is_count, 0, &is, error);
        beside = is ? WEIGHTS_NUMBERS : beside;
    } else if (ends_with(name, "token_type_ids") && numbers) {
        status = all_hold(entry, is_zero, 0, &is, error);
        beside = is ? WEIGHTS_NUMBERS : beside;
    }
    if (status == CULM_OK && beside == WEIGHTS_NOTHING) {
        status = is_copy(weights, used, entry, &is, error);
        beside = is ? WEIGHTS_COPY : beside;
    }
    if (status == CULM_OK) {
        *ret_beside = beside;
    }
    return status;
}

/*
 * Fuzz target: safetensors from memory. Any bytes are refused with a message or give tensors whose
 * every byte can be read and found by name.
 */
#include "fuzz.h"

#include "store/safetensors.h"

#include <string.h>

static void check_entry(const struct culm_safetensors *file, size_t index, const uint8_t *end) {
    const struct culm_safetensors_entry *entry = culm_safetensors_at(file, index);
    FUZZ_REQUIRE(culm_safetensors_find(file, entry->name) == entry, "'%s'", entry->name);
    FUZZ_REQUIRE(index == 0 || strcmp(culm_safetensors_at(file, index - 1)->name, entry->name) < 0,
                 "'%s' is not sorted", entry->name);
    FUZZ_REQUIRE((const uint8_t *)entry->data + entry->bytes <= end, "'%s'", entry->name);
    uint8_t sum = 0; /* the sanitizer sees a read outside */
    for (uint64_t i = 0; i < entry->bytes; i++) {
        sum ^= ((const volatile uint8_t *)entry->data)[i];
    }
    (void)sum;
    char shape[CULM_SHAPE_TEXT_MAX];
    culm_shape_text(entry->rank, entry->shape, shape);
    if (culm_safetensors_is_f32(entry)) {
        float *copy = malloc(entry->bytes + 1);
        FUZZ_REQUIRE(copy, "out of memory");
        FUZZ_REQUIRE(culm_safetensors_read(file, entry->name, entry->rank, entry->shape, copy,
                                           NULL) == CULM_OK,
                     "'%s'", entry->name);
        FUZZ_REQUIRE(entry->bytes == 0 || memcmp(copy, entry->data, entry->bytes) == 0, "'%s'",
                     entry->name);
        free(copy);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct culm_safetensors *file = NULL;
    struct culm_error error = {0};
    if (culm_safetensors_parse(data, size, "fuzz", &file, &error) != CULM_OK) {
        FUZZ_REQUIRE(!file && error.text[0] && !strchr(error.text, '\n'), "message: '%s'",
                     error.text);
        return 0;
    }
    uint64_t total = 0;
    for (size_t i = 0; i < culm_safetensors_count(file); i++) {
        check_entry(file, i, data + size);
        total += culm_safetensors_at(file, i)->bytes;
    }
    FUZZ_REQUIRE(total < size, "%llu bytes of tensors in %zu", (unsigned long long)total, size);
    culm_safetensors_metadata(file, "format");
    culm_safetensors_close(file);
    return 0;
}

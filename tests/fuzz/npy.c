/*
 * Fuzz target: the header of .npy files. Any bytes are parsed or refused with a message; what was
 * parsed covers exactly the rest of the file.
 */
#include "fuzz.h"

#include "data/npy.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct culm_error error = {0};
    struct culm_npy npy;
    uint8_t *exact = malloc(size ? size : 1);
    memcpy(exact, data, size);
    if (culm_npy_parse(exact, size, size, "fuzz", &npy, &error) == CULM_OK) {
        FUZZ_REQUIRE(npy.offset <= size && npy.count >= 1 &&
                         npy.count * (uint64_t)npy.width == size - npy.offset,
                     "%zu + %llu * %d of %zu", npy.offset, (unsigned long long)npy.count, npy.width,
                     size);
    } else {
        FUZZ_REQUIRE(error.text[0] && !strchr(error.text, '\n'), "message: '%s'", error.text);
    }
    free(exact);
    return 0;
}

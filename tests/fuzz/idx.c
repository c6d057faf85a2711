/*
 * Fuzz target: IDX files, plain and compressed. Any bytes are opened or refused with a message;
 * what was opened has all of its elements.
 */
#include "fuzz.h"

#include "data/idx.h"
#include "memory_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct culm_error error = {0};
    struct culm_idx idx;
    char path[64];
    int fd = memory_file(data, size, path);
    enum culm_status status = culm_idx_open(path, NULL, &idx, &error);
    if (status == CULM_OK) {
        uint8_t *item = malloc((size_t)idx.item_bytes);
        FUZZ_REQUIRE(idx.rank >= 1 && idx.rank <= 4 && idx.dim[0] >= 1 && idx.item_bytes >= 1,
                     "rank %d", idx.rank);
        FUZZ_REQUIRE(culm_idx_read(&idx, 0, 1, item, &error) == CULM_OK &&
                         culm_idx_read(&idx, idx.dim[0] - 1, 1, item, &error) == CULM_OK,
                     "%s", error.text);
        free(item);
        culm_idx_release(&idx);
    } else {
        FUZZ_REQUIRE(error.text[0] && !strchr(error.text, '\n'), "message: '%s'", error.text);
    }
    if (culm_idx_open_labels(path, &idx, &error) == CULM_OK) {
        int32_t *label = idx.dim[0] < 1 << 20 ? malloc((size_t)idx.dim[0] * sizeof *label) : NULL;
        if (label && idx.rank == 1 && culm_idx_labels(&idx, path, label, &error) == CULM_OK) {
            FUZZ_REQUIRE(label[0] >= 0 && label[idx.dim[0] - 1] >= 0, "%d", (int)label[0]);
        }
        free(label);
        culm_idx_release(&idx);
    }
    close(fd);
    return 0;
}

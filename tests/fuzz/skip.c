/*
 * Fuzz target: lists of what is left out. Any bytes are read or refused with a message; each entry is found again
 * where it says it is, and copied as it is.
 */
#include "fuzz.h"

#include "data/skip.h"
#include "memory_file.h"

static void check_entries(struct culm_skip *skip, const char *file) {
    struct culm_skip_entry *entry = NULL;
    size_t count = culm_skip_of(skip, file, &entry);
    for (size_t i = 0; i < count; i++) {
        const struct culm_data_place place = entry[i].place;
        const struct culm_data_place named = {file, place.unit, place.number};
        FUZZ_REQUIRE(place.number >= (place.unit == CULM_DATA_LINE), "%lld",
                     (long long)place.number);
        FUZZ_REQUIRE(culm_skip_has(skip, &named), "entry %zu is not found", i);
        FUZZ_REQUIRE(entry[i].found, "entry %zu was not found", i);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const roots[] = {"d", "e/"};
    struct culm_error error = {0};
    struct culm_skip *skip;
    struct culm_buf lines;
    char path[64];
    int fd = memory_file(data, size, path);
    if (culm_skip_read(path, roots, 2, NULL, &skip, &error) != CULM_OK) {
        FUZZ_REQUIRE(error.text[0] && !strchr(error.text, '\n'), "message: '%s'", error.text);
        close(fd);
        return 0;
    }
    check_entries(skip, "a.txt");
    check_entries(skip, "d/a.txt");
    check_entries(skip, "e/a.txt");
    culm_buf_init(&lines, 2 * size + 2);
    culm_skip_copy(skip, &lines);
    FUZZ_REQUIRE(!lines.failed, "a copy that is longer");
    bool all = culm_skip_check_found(skip, &error) == CULM_OK;
    FUZZ_REQUIRE(all || (error.text[0] && !strchr(error.text, '\n')), "message: '%s'", error.text);
    culm_buf_release(&lines);
    culm_skip_free(skip);
    close(fd);
    return 0;
}

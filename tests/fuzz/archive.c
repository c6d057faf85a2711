/*
 * Fuzz target: manifests of archives. Any bytes are refused with one line, or name plain files whose parts are as many
 * as their bytes need, and objects that are an archive's; written again, they read as the same.
 */
#include "fuzz.h"

#include "store/archive_internal.h"

#include <stdlib.h>
#include <string.h>

struct one {
    struct culm_storage storage;
    const uint8_t *data;
    size_t size;
};

static enum culm_status get(struct culm_storage *storage, const char *name, size_t max_bytes,
                            char **ret_data, size_t *ret_len, struct culm_error *error) {
    const struct one *one = (const struct one *)storage;
    (void)name;
    if (one->size > max_bytes) {
        return culm_error_set(error, CULM_ERR_FORMAT, "too long");
    }
    *ret_data = malloc(one->size + 1);
    FUZZ_REQUIRE(*ret_data, "out of memory");
    memcpy(*ret_data, one->data, one->size);
    (*ret_data)[one->size] = '\0';
    *ret_len = one->size;
    return CULM_OK;
}

static enum culm_status list(struct culm_storage *storage, const char *prefix,
                             struct culm_names *ret_names, struct culm_error *error) {
    (void)storage, (void)prefix, (void)error;
    *ret_names = (struct culm_names){0};
    return CULM_OK;
}

static const struct culm_storage_ops ops = {
    .size = sizeof(struct culm_storage_ops), .get = get, .list = list};

static void check(const struct archive_manifest *m) {
    size_t parts = 0;
    for (size_t i = 0; i < m->file_count; i++) {
        const struct archive_file *file = &m->file[i];
        uint64_t bytes = 0;
        const size_t own = strlen(ARCHIVE_CHECKPOINT);
        const char *name = file->name + (strncmp(file->name, ARCHIVE_CHECKPOINT, own) ? 0 : own);
        FUZZ_REQUIRE(culm_storage_name_is(name) && !strchr(name, '/') && name[0] != '.',
                     "a file '%s'", file->name);
        FUZZ_REQUIRE(file->first == parts, "parts of '%s' begin at %zu", file->name, file->first);
        for (size_t j = 0; j < file->count; j++) {
            const char *sha256;
            int64_t step;
            FUZZ_REQUIRE(archive_object_is(m->part[parts + j].object, &step, &sha256),
                         "an object '%s'", m->part[parts + j].object);
            bytes += m->part[parts + j].bytes;
        }
        FUZZ_REQUIRE(bytes == file->bytes, "'%s' has %llu bytes in its parts", file->name,
                     (unsigned long long)bytes);
        parts += file->count;
    }
    FUZZ_REQUIRE(parts == m->part_count, "%zu parts", parts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct one one = {.storage = {.ops = &ops, .place = "fuzz"}, .data = data, .size = size};
    struct archive_manifest m = {0}, again = {0};
    struct culm_error error = {0};
    enum culm_status status = archive_manifest_get(&one.storage, 20, &m, &error);
    if (status != CULM_OK) {
        FUZZ_REQUIRE(error.text[0] && !strchr(error.text, '\n'), "message: '%s'", error.text);
        return 0;
    }
    check(&m);
    status = archive_manifest_check(&one.storage, &m, &error);
    FUZZ_REQUIRE((status == CULM_OK) == (m.part_count == 0), "objects that are not there");
    char *text = archive_manifest_text(&m);
    FUZZ_REQUIRE(text, "out of memory");
    one.data = (const uint8_t *)text;
    one.size = strlen(text);
    FUZZ_REQUIRE(archive_manifest_get(&one.storage, 20, &again, &error) == CULM_OK, "%s",
                 error.text);
    FUZZ_REQUIRE(archive_manifest_equal(&m, &again) && archive_manifest_equal(&again, &m),
                 "another one comes back");
    free(text);
    archive_manifest_release(&m);
    archive_manifest_release(&again);
    return 0;
}

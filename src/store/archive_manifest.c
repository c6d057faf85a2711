/* Manifests of archives: read, written, compared. See archive_internal.h.
 *
 * {"format": "culm-archive-1", "step": 20, "run": "...", "attempt": "0123456789abcdef",
 *  "files": [{"name": "checkpoint/manifest.json", "bytes": 900, "parts": ["objects/00000020-.../SHA256"]}]}
 *
 * All parts of a file have ARCHIVE_PART_BYTES, but for the last one. */
#include "store/archive_internal.h"

#include "base/grow.h"
#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEX "0123456789abcdef"
#define FILES_MAX 4096

static enum culm_status no_memory(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
}

void archive_manifest_release(struct archive_manifest *manifest) {
    free(manifest->file);
    free(manifest->part);
    *manifest = (struct archive_manifest){0};
}

void archive_manifest_name(int64_t step, char ret_name[CULM_STORAGE_NAME_MAX]) {
    snprintf(ret_name, CULM_STORAGE_NAME_MAX, "manifests/step-%08lld.json", (long long)step);
}

void archive_attempt_name(int64_t step, const char *attempt, char ret_name[CULM_STORAGE_NAME_MAX]) {
    snprintf(ret_name, CULM_STORAGE_NAME_MAX, "objects/%08lld-%.16s/", (long long)step, attempt);
}

/* A number of 8 to 18 digits. NULL: there is none. */
static const char *read_step(const char *text, int64_t *ret_step) {
    size_t digits = strspn(text, "0123456789");
    if (digits < 8 || digits > 18) {
        return NULL;
    }
    *ret_step = atoll(text);
    return text + digits;
}

bool archive_object_is(const char *name, int64_t *ret_step, const char **ret_sha256) {
    const char *at = strncmp(name, "objects/", 8) == 0 ? read_step(name + 8, ret_step) : NULL;
    if (!at || *at != '-' || strspn(at + 1, HEX) != ARCHIVE_ATTEMPT_SIZE - 1) {
        return false;
    }
    at += ARCHIVE_ATTEMPT_SIZE;
    if (*at != '/' || strspn(at + 1, HEX) != CULM_SHA256_HEX - 1 || at[CULM_SHA256_HEX]) {
        return false;
    }
    *ret_sha256 = at + 1;
    return true;
}

static int compare(const void *a, const void *b) { return strcmp(a, *(char *const *)b); }

bool archive_has(const struct culm_names *names, const char *name) {
    return names->count > 0 &&
           bsearch(name, names->name, names->count, sizeof *names->name, compare);
}

bool archive_manifest_add(struct archive_manifest *m, const char *name, uint64_t bytes) {
    size_t count = (size_t)(bytes / ARCHIVE_PART_BYTES + (bytes % ARCHIVE_PART_BYTES > 0));
    if (!CULM_GROW(m->file, m->file_capacity, m->file_count + 1) ||
        !CULM_GROW(m->part, m->part_capacity, m->part_count + count)) {
        return false;
    }
    struct archive_file *file = &m->file[m->file_count];
    *file = (struct archive_file){.bytes = bytes, .first = m->part_count, .count = count};
    if (snprintf(file->name, sizeof file->name, "%s", name) >= (int)sizeof file->name) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        const uint64_t left = bytes - i * ARCHIVE_PART_BYTES;
        m->part[m->part_count + i] =
            (struct archive_part){.bytes = left < ARCHIVE_PART_BYTES ? left : ARCHIVE_PART_BYTES};
    }
    m->part_count += count;
    m->file_count++;
    return true;
}

/* --- text --- */

static json_t *file_json(const struct archive_manifest *m, const struct archive_file *file) {
    json_t *parts = json_array();
    for (size_t i = 0; i < file->count && parts; i++) {
        json_array_append_new(parts, json_string(m->part[file->first + i].object));
    }
    return json_pack("{s:s, s:I, s:o}", "name", file->name, "bytes", (json_int_t)file->bytes,
                     "parts", parts);
}

char *archive_manifest_text(const struct archive_manifest *m) {
    json_t *files = json_array();
    bool made = files;
    for (size_t i = 0; i < m->file_count && made; i++) {
        json_t *file = file_json(m, &m->file[i]);
        made = file && json_array_size(json_object_get(file, "parts")) == m->file[i].count &&
               json_array_append(files, file) == 0;
        json_decref(file);
    }
    json_t *json =
        json_pack("{s:s, s:I, s:s, s:s, s:o}", "format", CULM_ARCHIVE_FORMAT, "step",
                  (json_int_t)m->step, "run", m->run, "attempt", m->attempt, "files", files);
    char *text = made && json ? json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(json);
    return text;
}

/* What may lie beside a checkpoint, or in its folder, has a plain name. */
static bool name_is(const char *name) {
    if (strncmp(name, ARCHIVE_CHECKPOINT, sizeof ARCHIVE_CHECKPOINT - 1) == 0) {
        name += sizeof ARCHIVE_CHECKPOINT - 1;
    }
    return culm_storage_name_is(name) && !strchr(name, '/');
}

static bool is_listed(const struct archive_manifest *m, const char *name) {
    for (size_t i = 0; i < m->file_count; i++) {
        if (strcmp(m->file[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

static bool read_file(const json_t *json, struct archive_manifest *m) {
    const char *name = json_string_value(json_object_get(json, "name"));
    const json_t *bytes = json_object_get(json, "bytes"), *parts = json_object_get(json, "parts");
    if (!name || !name_is(name) || is_listed(m, name) || !json_is_integer(bytes) ||
        json_integer_value(bytes) < 0) {
        return false;
    }
    /* Before there is room for it: how long a file is must go with how many parts it has. */
    const uint64_t size = (uint64_t)json_integer_value(bytes);
    if (size / ARCHIVE_PART_BYTES > json_array_size(parts) ||
        !archive_manifest_add(m, name, size)) {
        return false;
    }
    const struct archive_file *file = &m->file[m->file_count - 1];
    if (file->count != json_array_size(parts)) {
        return false;
    }
    for (size_t i = 0; i < file->count; i++) {
        const char *object = json_string_value(json_array_get(parts, i)), *sha256;
        int64_t step;
        if (!object || strlen(object) >= CULM_STORAGE_NAME_MAX ||
            !archive_object_is(object, &step, &sha256)) {
            return false;
        }
        strcpy(m->part[file->first + i].object, object);
    }
    return true;
}

static bool read_text(const char *text, size_t len, struct archive_manifest *m) {
    json_t *json = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
    const char *format = json_string_value(json_object_get(json, "format")),
               *run = json_string_value(json_object_get(json, "run")),
               *attempt = json_string_value(json_object_get(json, "attempt"));
    const json_t *files = json_object_get(json, "files"), *file,
                 *step = json_object_get(json, "step");
    size_t index;
    bool good = format && !strcmp(format, CULM_ARCHIVE_FORMAT) && run &&
                strlen(run) < sizeof m->run && attempt && strlen(attempt) < sizeof m->attempt &&
                json_is_integer(step) && json_is_array(files) && json_array_size(files) > 0 &&
                json_array_size(files) <= FILES_MAX;
    if (good) {
        m->step = json_integer_value(step);
        strcpy(m->run, run);
        strcpy(m->attempt, attempt);
        json_array_foreach(files, index, file) { good = good && read_file(file, m); }
    }
    json_decref(json);
    return good;
}

enum culm_status archive_manifest_get(struct culm_storage *storage, int64_t step,
                                      struct archive_manifest *ret_manifest,
                                      struct culm_error *error) {
    char name[CULM_STORAGE_NAME_MAX], *text;
    size_t len;
    struct archive_manifest manifest = {0};
    archive_manifest_name(step, name);
    enum culm_status status =
        storage->ops->get(storage, name, ARCHIVE_MANIFEST_MAX, &text, &len, error);
    if (status == CULM_ERR_NOT_FOUND) {
        return culm_error_set(error, status, "there is no checkpoint of step %lld in '%s'",
                              (long long)step, storage->place);
    }
    if (status != CULM_OK) {
        return status;
    }
    bool good = read_text(text, len, &manifest) && manifest.step == step;
    free(text);
    if (!good) {
        archive_manifest_release(&manifest);
        return culm_error_set(error, CULM_ERR_FORMAT, "'%s/%s' is not the manifest of step %lld",
                              storage->place, name, (long long)step);
    }
    *ret_manifest = manifest;
    return CULM_OK;
}

/* --- what is there --- */

enum culm_status archive_steps(struct culm_storage *storage, int64_t **ret_step, size_t *ret_count,
                               struct culm_error *error) {
    struct culm_names names = {0};
    enum culm_status status = storage->ops->list(storage, "manifests/", &names, error);
    int64_t *step = status == CULM_OK ? calloc(names.count + 1, sizeof *step) : NULL;
    size_t count = 0;
    if (status == CULM_OK && !step) {
        status = no_memory(error);
    }
    for (size_t i = 0; i < names.count && status == CULM_OK; i++) {
        const char *at = names.name[i] + strlen("manifests/");
        at = strncmp(at, "step-", 5) == 0 ? read_step(at + 5, &step[count]) : NULL;
        count += at && strcmp(at, ".json") == 0;
    }
    culm_names_release(&names);
    if (status != CULM_OK) {
        return status;
    }
    /* By name is by number as long as they have as many digits. */
    for (size_t i = 1; i < count; i++) {
        for (size_t j = i; j > 0 && step[j - 1] > step[j]; j--) {
            int64_t other = step[j];
            step[j] = step[j - 1];
            step[j - 1] = other;
        }
    }
    *ret_step = step;
    *ret_count = count;
    return CULM_OK;
}

/* The folder of objects that this one is in, with its '/'. */
static size_t folder_of(const char *object) { return (size_t)(strrchr(object, '/') - object) + 1; }

enum culm_status archive_manifest_check(struct culm_storage *storage,
                                        const struct archive_manifest *m,
                                        struct culm_error *error) {
    struct culm_names names = {0};
    char folder[CULM_STORAGE_NAME_MAX] = "";
    enum culm_status status = CULM_OK;
    /* Parts of one attempt mostly follow each other. */
    for (size_t i = 0; i < m->part_count && status == CULM_OK; i++) {
        const char *object = m->part[i].object;
        size_t len = folder_of(object);
        if (strlen(folder) != len || strncmp(folder, object, len) != 0) {
            snprintf(folder, sizeof folder, "%.*s", (int)len, object);
            culm_names_release(&names);
            names = (struct culm_names){0};
            status = storage->ops->list(storage, folder, &names, error);
        }
        if (status == CULM_OK && !archive_has(&names, object)) {
            status = culm_error_set(error, CULM_ERR_FORMAT,
                                    "the checkpoint of step %lld in '%s' is not whole: '%s' is "
                                    "not there",
                                    (long long)m->step, storage->place, object);
        }
    }
    culm_names_release(&names);
    return status;
}

static size_t own_files(const struct archive_manifest *m) {
    size_t count = 0;
    for (size_t i = 0; i < m->file_count; i++) {
        count += !strncmp(m->file[i].name, ARCHIVE_CHECKPOINT, sizeof ARCHIVE_CHECKPOINT - 1);
    }
    return count;
}

static bool same_parts(const struct archive_manifest *a, const struct archive_file *f,
                       const struct archive_manifest *b, const struct archive_file *g) {
    bool same = f->bytes == g->bytes && f->count == g->count;
    for (size_t i = 0; i < f->count && same; i++) {
        const char *x = a->part[f->first + i].object, *y = b->part[g->first + i].object;
        same = *x && *y && !strcmp(strrchr(x, '/'), strrchr(y, '/'));
    }
    return same;
}

bool archive_manifest_equal(const struct archive_manifest *a, const struct archive_manifest *b) {
    bool same = own_files(a) == own_files(b);
    for (size_t i = 0; i < a->file_count && same; i++) {
        const struct archive_file *f = &a->file[i], *g = NULL;
        if (strncmp(f->name, ARCHIVE_CHECKPOINT, sizeof ARCHIVE_CHECKPOINT - 1) != 0 ||
            strcmp(f->name, ARCHIVE_CHECKPOINT "manifest.json") == 0) {
            continue; /* a step that is done again may be written by others */
        }
        for (size_t j = 0; j < b->file_count && !g; j++) {
            g = strcmp(b->file[j].name, f->name) == 0 ? &b->file[j] : NULL;
        }
        same = g && same_parts(a, f, b, g);
    }
    return same;
}

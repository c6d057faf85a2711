/*
 * Reading checkpoints: pieces are open, and one table sorted by name spans them all.
 */
#include "store/manifest.h"

#include "base/mark.h"
#include "base/pins.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct culm_checkpoint {
    char path[CULM_PATH_MAX];
    struct culm_manifest manifest;
    struct culm_safetensors **file;              /* [manifest.piece_count] */
    bool *verified;                              /* [manifest.piece_count] */
    const struct culm_safetensors_entry **entry; /* sorted by name */
    size_t count;
};

void culm_checkpoint_close(struct culm_checkpoint *checkpoint) {
    if (!checkpoint) {
        return;
    }
    for (size_t i = 0; checkpoint->file && i < checkpoint->manifest.piece_count; i++) {
        culm_safetensors_close(checkpoint->file[i]);
    }
    free(checkpoint->file);
    free(checkpoint->verified);
    free(checkpoint->entry);
    culm_manifest_release(&checkpoint->manifest);
    free(checkpoint);
}

/* Reads all of a piece and compares it with its hash. */
static enum culm_status verify_piece(struct culm_checkpoint *checkpoint, size_t index,
                                     const struct culm_read_hook *hook, struct culm_error *error) {
    const struct culm_piece *piece = &checkpoint->manifest.piece[index];
    char sha256[CULM_SHA256_HEX];
    enum culm_status status = culm_safetensors_hash(
        checkpoint->file[index], hook ? hook->moved : NULL, hook ? hook->ctx : NULL, sha256, error);
    if (status != CULM_OK) {
        return status;
    }
    if (strcmp(sha256, piece->sha256) != 0) {
        return culm_error_set(error, CULM_ERR_FORMAT,
                              "checkpoint '%s': piece '%s' is damaged: its SHA-256 begins with "
                              "%.12s, not %.12s",
                              checkpoint->path, piece->file, sha256, piece->sha256);
    }
    checkpoint->verified[index] = true;
    return CULM_OK;
}

/* Opens one piece and compares it with the manifest. */
static enum culm_status open_piece(struct culm_checkpoint *checkpoint, size_t index, bool verify,
                                   struct culm_pins *pins, struct culm_error *error) {
    const struct culm_piece *piece = &checkpoint->manifest.piece[index];
    char path[CULM_PATH_MAX];
    enum culm_status status = culm_path_format(path, error, "%s/%s", checkpoint->path, piece->file);
    if (status == CULM_OK) {
        status = culm_safetensors_open_pinned(path, pins, &checkpoint->file[index], error);
    }
    if (status != CULM_OK) {
        return status;
    }
    size_t tensors = culm_safetensors_count(checkpoint->file[index]);
    if (tensors != piece->tensors) {
        return culm_error_set(
            error, CULM_ERR_FORMAT, "checkpoint '%s': piece '%s' has %zu tensors, not %llu",
            checkpoint->path, piece->file, tensors, (unsigned long long)piece->tensors);
    }
    return verify ? verify_piece(checkpoint, index, NULL, error) : CULM_OK;
}

static int compare_entries(const void *a, const void *b) {
    const struct culm_safetensors_entry *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static enum culm_status index_tensors(struct culm_checkpoint *checkpoint,
                                      struct culm_error *error) {
    size_t total = 0;
    for (size_t i = 0; i < checkpoint->manifest.piece_count; i++) {
        total += culm_safetensors_count(checkpoint->file[i]);
    }
    checkpoint->entry = calloc(total + 1, sizeof *checkpoint->entry);
    if (!checkpoint->entry) {
        return culm_error_set(error, CULM_ERR_MEMORY, "checkpoint '%s': out of memory",
                              checkpoint->path);
    }
    for (size_t i = 0; i < checkpoint->manifest.piece_count; i++) {
        for (size_t t = 0; t < culm_safetensors_count(checkpoint->file[i]); t++) {
            checkpoint->entry[checkpoint->count++] = culm_safetensors_at(checkpoint->file[i], t);
        }
    }
    qsort(checkpoint->entry, total, sizeof *checkpoint->entry, compare_entries);
    for (size_t i = 1; i < total; i++) {
        if (strcmp(checkpoint->entry[i - 1]->name, checkpoint->entry[i]->name) == 0) {
            return culm_error_set(error, CULM_ERR_FORMAT,
                                  "checkpoint '%s': tensor '%s' is stored twice", checkpoint->path,
                                  checkpoint->entry[i]->name);
        }
    }
    return CULM_OK;
}

/* Shows the manifest to the pins. */
static enum culm_status pin_manifest(const char *path, struct culm_pins *pins,
                                     struct culm_error *error) {
    char manifest[CULM_PATH_MAX];
    enum culm_status status = culm_path_format(manifest, error, "%s/manifest.json", path);
    int fd = status == CULM_OK && pins ? open(manifest, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    if (fd >= 0) { /* else reading it says why not */
        status = culm_pins_file(pins, manifest, fd, error);
        close(fd);
    }
    return status;
}

enum culm_status culm_checkpoint_open(const char *path, bool verify,
                                      struct culm_checkpoint **ret_checkpoint,
                                      struct culm_error *error) {
    return culm_checkpoint_open_pinned(path, verify, NULL, ret_checkpoint, error);
}

enum culm_status culm_checkpoint_open_pinned(const char *path, bool verify, struct culm_pins *pins,
                                             struct culm_checkpoint **ret_checkpoint,
                                             struct culm_error *error) {
    struct culm_checkpoint *checkpoint = calloc(1, sizeof *checkpoint);
    if (!checkpoint) {
        return culm_error_set(error, CULM_ERR_MEMORY, "checkpoint '%s': out of memory", path);
    }
    enum culm_status status = culm_path_format(checkpoint->path, error, "%s", path);
    if (status == CULM_OK) {
        status = pin_manifest(path, pins, error);
    }
    if (status == CULM_OK) {
        status = culm_manifest_read(path, &checkpoint->manifest, error);
    }
    if (status == CULM_OK) {
        size_t pieces = checkpoint->manifest.piece_count;
        checkpoint->file = calloc(pieces, sizeof(checkpoint->file[0]));
        checkpoint->verified = calloc(pieces, sizeof *checkpoint->verified);
        if (!checkpoint->file || !checkpoint->verified) {
            status = culm_error_set(error, CULM_ERR_MEMORY, "checkpoint '%s': out of memory", path);
        }
    }
    for (size_t i = 0; status == CULM_OK && i < checkpoint->manifest.piece_count; i++) {
        status = open_piece(checkpoint, i, verify, pins, error);
    }
    if (status == CULM_OK) {
        status = index_tensors(checkpoint, error);
    }
    if (status != CULM_OK) {
        culm_checkpoint_close(checkpoint);
        return status;
    }
    *ret_checkpoint = checkpoint;
    return CULM_OK;
}

enum culm_status culm_checkpoint_verify(struct culm_checkpoint *checkpoint, const char *name,
                                        const struct culm_read_hook *hook,
                                        struct culm_error *error) {
    for (size_t i = 0; i < checkpoint->manifest.piece_count; i++) {
        if (culm_safetensors_find(checkpoint->file[i], name)) {
            return checkpoint->verified[i] ? CULM_OK : verify_piece(checkpoint, i, hook, error);
        }
    }
    return culm_error_set(error, CULM_ERR_NOT_FOUND, "checkpoint '%s': has no tensor '%s'",
                          checkpoint->path, name);
}

enum culm_status culm_checkpoint_check(const char *dir, int64_t step, bool verify,
                                       struct culm_error *error) {
    struct culm_manifest manifest;
    struct culm_checkpoint *checkpoint;
    enum culm_status status = culm_manifest_read(dir, &manifest, error);
    if (status != CULM_OK) {
        return status;
    }
    if (manifest.info.step != step) {
        status = culm_error_set(error, CULM_ERR_FORMAT,
                                "checkpoint '%s': manifest.json is of step %" PRId64, dir,
                                manifest.info.step);
    }
    culm_manifest_release(&manifest);
    if (status == CULM_OK && verify) {
        status = culm_checkpoint_open(dir, true, &checkpoint, error);
        if (status == CULM_OK) {
            culm_checkpoint_close(checkpoint);
        }
    }
    return status;
}

/* The newest name below `below`, or -1. `step-N` and `.old-step-N` count alike. */
static int64_t next_below(const struct culm_names *names, int64_t below) {
    int64_t best = -1, step;
    for (size_t i = 0; i < names->count; i++) {
        if ((culm_checkpoint_name_is(names->name[i], "", &step) ||
             culm_checkpoint_name_is(names->name[i], CULM_CHECKPOINT_OLD, &step)) &&
            step < below && step > best) {
            best = step;
        }
    }
    return best;
}

static enum culm_status latest(const char *run_dir, bool verify, int64_t below, int64_t *ret_step,
                               char ret_path[CULM_PATH_MAX], char ret_warning[CULM_ERROR_MAX],
                               struct culm_error *error) {
    static const char *const prefixes[] = {"", CULM_CHECKPOINT_OLD};
    char dir[CULM_PATH_MAX], path[CULM_PATH_MAX];
    struct culm_error broken = {0}, reason;
    struct culm_names names = {0};
    bool found = false;
    enum culm_status status = culm_path_format(dir, error, "%s/checkpoints", run_dir);
    if (status == CULM_OK) {
        status = culm_dir_list(dir, &names, error);
    }
    if (status == CULM_ERR_NOT_FOUND) {
        status = culm_error_set(error, CULM_ERR_NOT_FOUND, "no checkpoint in '%s'", dir);
    }
    if (status != CULM_OK) {
        return status;
    }
    for (int64_t step = next_below(&names, below); !found && step >= 0;
         step = next_below(&names, step)) {
        for (size_t i = 0; !found && i < 2; i++) {
            if (culm_checkpoint_name(run_dir, prefixes[i], step, path, NULL) != CULM_OK ||
                !culm_file_is_directory(path)) {
                continue;
            }
            found = culm_checkpoint_check(path, step, verify, &reason) == CULM_OK;
            if (found) {
                if (i == 1) {
                    CULM_MARK(store_newest_is_one_set_aside);
                }
                *ret_step = step;
                strcpy(ret_path, path);
            } else if (!broken.text[0]) {
                CULM_MARK(store_newest_is_not_whole);
                broken = reason;
            }
        }
    }
    culm_names_release(&names);
    if (!found) {
        if (broken.text[0]) {
            CULM_MARK(store_none_is_whole);
        }
        return broken.text[0]
                   ? culm_error_set(error, CULM_ERR_FORMAT,
                                    "no whole checkpoint in '%s': %s; repair it", dir, broken.text)
                   : culm_error_set(error, CULM_ERR_NOT_FOUND, "no checkpoint in '%s'", dir);
    }
    if (ret_warning) {
        memcpy(ret_warning, broken.text, CULM_ERROR_MAX);
    }
    return CULM_OK;
}

enum culm_status culm_checkpoint_latest(const char *run_dir, bool verify, int64_t *ret_step,
                                        char ret_path[CULM_PATH_MAX],
                                        char ret_warning[CULM_ERROR_MAX],
                                        struct culm_error *error) {
    return latest(run_dir, verify, INT64_MAX, ret_step, ret_path, ret_warning, error);
}

enum culm_status culm_checkpoint_latest_to(const char *run_dir, int64_t most, int64_t *ret_step,
                                           char ret_path[CULM_PATH_MAX], struct culm_error *error) {
    return latest(run_dir, true, most + 1, ret_step, ret_path, NULL, error);
}

const struct culm_checkpoint_info *
culm_checkpoint_info_of(const struct culm_checkpoint *checkpoint) {
    return &checkpoint->manifest.info;
}

size_t culm_checkpoint_piece_count(const struct culm_checkpoint *checkpoint) {
    return checkpoint->manifest.piece_count;
}

const struct culm_piece *culm_checkpoint_piece(const struct culm_checkpoint *checkpoint,
                                               size_t index) {
    return &checkpoint->manifest.piece[index];
}

size_t culm_checkpoint_count(const struct culm_checkpoint *checkpoint) { return checkpoint->count; }

const struct culm_safetensors_entry *culm_checkpoint_at(const struct culm_checkpoint *checkpoint,
                                                        size_t index) {
    return checkpoint->entry[index];
}

const struct culm_safetensors_entry *culm_checkpoint_find(const struct culm_checkpoint *checkpoint,
                                                          const char *name) {
    const struct culm_safetensors_entry wanted = {.name = name}, *key = &wanted;
    const struct culm_safetensors_entry **at = bsearch(&key, checkpoint->entry, checkpoint->count,
                                                       sizeof *checkpoint->entry, compare_entries);
    return at ? *at : NULL;
}

enum culm_status culm_checkpoint_tensor(const struct culm_checkpoint *checkpoint, const char *name,
                                        int rank, const int64_t *shape, float *ret_data,
                                        struct culm_error *error) {
    for (size_t i = 0; i < checkpoint->manifest.piece_count; i++) {
        if (culm_safetensors_find(checkpoint->file[i], name)) {
            return culm_safetensors_read(checkpoint->file[i], name, rank, shape, ret_data, error);
        }
    }
    return culm_error_set(error, CULM_ERR_NOT_FOUND, "checkpoint '%s': has no tensor '%s'",
                          checkpoint->path, name);
}

static bool ends_with(const char *text, const char *end) {
    size_t a = strlen(text), b = strlen(end);
    return a > b && strcmp(text + a - b, end) == 0;
}

bool culm_checkpoint_is_state(const char *tensor_name) {
    return ends_with(tensor_name, ".exp_avg") || ends_with(tensor_name, ".exp_avg_sq");
}

#define PART_BYTES ((size_t)1 << 20)

static enum culm_status add_tensor(struct culm_sha256 *hash,
                                   const struct culm_safetensors_entry *entry, void *buffer,
                                   struct culm_error *error) {
    enum culm_status status = CULM_OK;
    if (!culm_safetensors_is_f32(entry)) {
        return culm_error_set(error, CULM_ERR_FORMAT,
                              "tensor '%s' is %s; the hash is of F32 tensors", entry->name,
                              entry->dtype);
    }
    culm_sha256_update(hash, entry->name, strlen(entry->name) + 1);
    for (uint64_t at = 0; at < entry->bytes && status == CULM_OK;) {
        size_t part = entry->bytes - at < PART_BYTES ? (size_t)(entry->bytes - at) : PART_BYTES;
        status = culm_safetensors_load(entry, at, buffer, part, error);
        culm_sha256_update(hash, buffer, part);
        at += part;
    }
    return status;
}

enum culm_status culm_tensors_hash(const struct culm_safetensors_entry *const *entries,
                                   size_t count, bool state, int64_t step,
                                   char ret_hex[CULM_SHA256_HEX], struct culm_error *error) {
    struct culm_sha256 hash;
    void *buffer = malloc(PART_BYTES);
    enum culm_status status = buffer ? culm_sha256_init(&hash) : CULM_ERR_MEMORY;
    if (status != CULM_OK) {
        free(buffer);
        return culm_error_set(error, status, "cannot start SHA-256");
    }
    for (size_t i = 0; i < count && status == CULM_OK; i++) {
        if (culm_checkpoint_is_state(entries[i]->name) == state) {
            status = add_tensor(&hash, entries[i], buffer, error);
        }
    }
    free(buffer);
    if (status != CULM_OK) {
        culm_sha256_release(&hash);
        return status;
    }
    if (state) {
        culm_sha256_update(&hash, &step, 8); /* little-endian as memory, asserted where we write */
    }
    status = culm_sha256_final(&hash, ret_hex);
    return status == CULM_OK ? CULM_OK : culm_error_set(error, status, "cannot compute SHA-256");
}

enum culm_status culm_checkpoint_hashes(const struct culm_checkpoint *checkpoint,
                                        char ret_weights[CULM_SHA256_HEX],
                                        char ret_state[CULM_SHA256_HEX], struct culm_error *error) {
    char weights[CULM_SHA256_HEX], state[CULM_SHA256_HEX];
    int64_t step = checkpoint->manifest.info.step;
    enum culm_status status =
        culm_tensors_hash(checkpoint->entry, checkpoint->count, false, step, weights, error);
    if (status == CULM_OK) {
        status = culm_tensors_hash(checkpoint->entry, checkpoint->count, true, step, state, error);
    }
    if (status != CULM_OK) {
        culm_error_prefix(error, "checkpoint '%s'", checkpoint->path);
        return status;
    }
    memcpy(ret_weights, weights, sizeof weights);
    memcpy(ret_state, state, sizeof state);
    return CULM_OK;
}

enum culm_status culm_checkpoint_export_model(struct culm_fs *fs,
                                              const struct culm_checkpoint *checkpoint,
                                              const char *path, struct culm_error *error) {
    static const struct culm_metadata metadata = {"format", "pt"};
    char temporary[CULM_PATH_MAX];
    struct culm_file own;
    struct culm_written written;
    size_t count = 0;
    struct culm_tensor_ref *tensors = calloc(checkpoint->count + 1, sizeof *tensors);
    if (!tensors) {
        return culm_error_set(error, CULM_ERR_MEMORY, "'%s': out of memory", path);
    }
    enum culm_status status = CULM_OK;
    for (size_t i = 0; i < checkpoint->count; i++) {
        const struct culm_safetensors_entry *entry = checkpoint->entry[i];
        if (culm_checkpoint_is_state(entry->name)) {
            continue;
        }
        if (!culm_safetensors_is_f32(entry) || entry->rank > 4) {
            status = culm_error_set(error, CULM_ERR_FORMAT,
                                    "checkpoint '%s': tensor '%s' is not F32 of up to 4 dimensions",
                                    checkpoint->path, entry->name);
            goto out;
        }
        struct culm_tensor_ref *tensor = &tensors[count++];
        *tensor = (struct culm_tensor_ref){.name = entry->name, .rank = entry->rank, .from = entry};
        memcpy(tensor->shape, entry->shape, sizeof tensor->shape);
    }
    status = culm_file_create_beside(fs, path, &own, error);
    if (status != CULM_OK) {
        goto out;
    }
    memcpy(temporary, own.path, sizeof temporary);
    status = culm_file_finish(&own, error);
    if (status != CULM_OK) {
        goto out;
    }
    status =
        culm_safetensors_write(fs, temporary, tensors, count, &metadata, 1, NULL, &written, error);
    if (status == CULM_OK) {
        status = culm_file_rename(fs, temporary, path, error);
    }
    if (status != CULM_OK) {
        CULM_MARK(store_model_is_not_whole);
        culm_file_remove(fs, temporary, NULL);
    }
out:
    free(tensors);
    return status;
}

enum culm_status culm_checkpoint_conclude(const char *path, const char *run_dir,
                                          char ret_weights[CULM_SHA256_HEX],
                                          char ret_state[CULM_SHA256_HEX],
                                          struct culm_error *error) {
    struct culm_checkpoint *checkpoint = NULL;
    char model[CULM_PATH_MAX];
    enum culm_status status = culm_path_format(model, error, "%s/model.safetensors", run_dir);
    if (status == CULM_OK) {
        status = culm_checkpoint_open(path, false, &checkpoint, error);
    }
    if (status == CULM_OK) {
        status = culm_checkpoint_hashes(checkpoint, ret_weights, ret_state, error);
    }
    if (status == CULM_OK) {
        status = culm_checkpoint_export_model(NULL, checkpoint, model, error);
    }
    culm_checkpoint_close(checkpoint);
    return status;
}

bool culm_checkpoint_latest_weights(const char *run_dir, int64_t after,
                                    char ret_path[CULM_PATH_MAX]) {
    char dir[CULM_PATH_MAX], path[CULM_PATH_MAX];
    struct culm_names names = {0};
    int64_t step;
    bool found = false;
    if (culm_path_format(dir, NULL, "%s/checkpoints", run_dir) != CULM_OK ||
        culm_dir_list(dir, &names, NULL) != CULM_OK) {
        return false;
    }
    for (size_t i = 0; i < names.count; i++) {
        if (culm_checkpoint_name_is(names.name[i], CULM_CHECKPOINT_WEIGHTS, &step) &&
            step > after && culm_checkpoint_weights_path(run_dir, step, path, NULL) == CULM_OK &&
            culm_checkpoint_check(path, step, true, NULL) == CULM_OK) {
            CULM_MARK(store_newest_are_weights_alone);
            memcpy(ret_path, path, sizeof path);
            after = step;
            found = true;
        }
    }
    culm_names_release(&names);
    return found;
}

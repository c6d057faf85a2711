/* The manifest; see the header. Read as untrusted: piece names must stay inside the directory. */
#include "store/manifest.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MANIFEST_BYTES_MAX ((size_t)16 << 20)
#define KIND_MAX 15
#define NUMBER_DIGITS 9
#define SUFFIX ".safetensors"

/* What else a piece says of itself, here and in its file. */
static bool is_taken(const char *kind) {
    static const char *const taken[] = {"file", "node", "bytes", "tensors", "format", "step"};
    bool any = false;
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        any = any || strcmp(kind, taken[i]) == 0;
    }
    return any;
}

bool culm_owner_split(const char *owner, char ret_kind[CULM_OWNER_SIZE], int32_t *ret_number) {
    size_t letters = strspn(owner, "abcdefghijklmnopqrstuvwxyz");
    const char *digits = owner + letters + 1;
    if (letters == 0 || letters > KIND_MAX || owner[letters] != '-') {
        return false;
    }
    char kind[KIND_MAX + 1] = "";
    size_t count = strspn(digits, "0123456789");
    memcpy(kind, owner, letters);
    if (is_taken(kind) || count == 0 || count > NUMBER_DIGITS || digits[count] ||
        (count > 1 && digits[0] == '0')) {
        return false;
    }
    memcpy(ret_kind, kind, sizeof kind);
    *ret_number = (int32_t)strtol(digits, NULL, 10);
    return true;
}

/* The owner that a piece's file is named after. */
static bool owner_of_file(const char *file, char ret_owner[CULM_OWNER_SIZE],
                          char ret_kind[CULM_OWNER_SIZE], int32_t *ret_number) {
    size_t len = strlen(file), end = strlen(SUFFIX);
    if (len <= end || len - end >= CULM_OWNER_SIZE || strcmp(file + len - end, SUFFIX) != 0) {
        return false;
    }
    memcpy(ret_owner, file, len - end);
    ret_owner[len - end] = '\0';
    return culm_owner_split(ret_owner, ret_kind, ret_number);
}

enum culm_status culm_checkpoint_name(const char *run_dir, const char *prefix, int64_t step,
                                      char ret_path[CULM_PATH_MAX], struct culm_error *error) {
    return culm_path_format(ret_path, error, "%s/checkpoints/%sstep-%08" PRId64, run_dir, prefix,
                            step);
}

enum culm_status culm_checkpoint_weights_path(const char *run_dir, int64_t step,
                                              char ret_path[CULM_PATH_MAX],
                                              struct culm_error *error) {
    return culm_checkpoint_name(run_dir, CULM_CHECKPOINT_WEIGHTS, step, ret_path, error);
}

enum culm_status culm_checkpoint_path(const char *run_dir, int64_t step,
                                      char ret_path[CULM_PATH_MAX], struct culm_error *error) {
    return culm_checkpoint_name(run_dir, "", step, ret_path, error);
}

bool culm_checkpoint_name_is(const char *name, const char *prefix, int64_t *ret_step) {
    size_t len = strlen(prefix);
    if (strncmp(name, prefix, len) != 0 || strncmp(name + len, "step-", 5) != 0) {
        return false;
    }
    const char *digits = name + len + 5;
    size_t count = strspn(digits, "0123456789");
    if (count < 8 || count > 18 || digits[count] || (count > 8 && digits[0] == '0')) {
        return false;
    }
    *ret_step = strtoll(digits, NULL, 10);
    return true;
}

/* Shorter than `count`: out of memory, or a piece has no proper owner. */
static json_t *pieces_json(const struct culm_piece *pieces, size_t count) {
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        char kind[CULM_OWNER_SIZE];
        int32_t number;
        if (culm_owner_split(pieces[i].owner, kind, &number)) {
            json_array_append_new(
                list, json_pack("{s:s, s:i, s:i, s:I, s:s, s:I}", "file", pieces[i].file, kind,
                                (int)number, "node", (int)pieces[i].node, "bytes",
                                (json_int_t)pieces[i].bytes, "sha256", pieces[i].sha256, "tensors",
                                (json_int_t)pieces[i].tensors));
        }
    }
    return list;
}

enum culm_status culm_manifest_write(struct culm_fs *fs, const char *dir,
                                     const struct culm_checkpoint_info *info,
                                     const struct culm_piece *pieces, size_t count,
                                     struct culm_error *error) {
    enum culm_status status = CULM_OK;
    char path[CULM_PATH_MAX], seed[24], *text = NULL;
    snprintf(seed, sizeof seed, "%" PRIu64, info->seed);
    json_t *list = pieces_json(pieces, count);
    json_t *root =
        json_pack("{s:s, s:I, s:I, s:s, s:s, s:s, s:O}", "format", CULM_CHECKPOINT_FORMAT, "step",
                  (json_int_t)info->step, "samples", (json_int_t)info->samples, "seed", seed,
                  "signature", info->signature, "config", info->config, "pieces", list);
    if (!root || json_array_size(list) != count) {
        status = culm_error_set(error, CULM_ERR_ARGUMENT,
                                "checkpoint '%s': signature or configuration is not UTF-8, or out "
                                "of memory",
                                dir);
        goto out;
    }
    if ((info->choices && json_object_set(root, "choices", info->choices) != 0) ||
        (info->inputs && json_object_set(root, "inputs", info->inputs) != 0) ||
        (info->progress && json_object_set(root, "progress", info->progress) != 0)) {
        status = culm_error_set(error, CULM_ERR_MEMORY, "checkpoint '%s': out of memory", dir);
        goto out;
    }
    text = json_dumps(root, JSON_INDENT(1));
    if (!text) {
        status = culm_error_set(error, CULM_ERR_MEMORY, "checkpoint '%s': out of memory", dir);
        goto out;
    }
    status = culm_path_format(path, error, "%s/manifest.json", dir);
    if (status == CULM_OK) {
        status = culm_file_replace(fs, path, text, strlen(text), error);
    }
out:
    free(text);
    json_decref(root);
    json_decref(list);
    return status;
}

static enum culm_status bad(const char *dir, struct culm_error *error, const char *what) {
    return culm_error_set(error, CULM_ERR_FORMAT, "checkpoint '%s': manifest.json: %s", dir, what);
}

static bool is_hex(const char *text, size_t len) {
    return strlen(text) == len && strspn(text, "0123456789abcdef") == len;
}

static enum culm_status read_piece(const char *dir, json_t *value, struct culm_piece *ret_piece,
                                   struct culm_error *error) {
    const char *file, *sha256;
    char owner[CULM_OWNER_SIZE], kind[CULM_OWNER_SIZE];
    json_int_t bytes, tensors;
    int node, number_told;
    int32_t number;
    if (json_unpack(value, "{s:s, s:i, s:I, s:s, s:I}", "file", &file, "node", &node, "bytes",
                    &bytes, "sha256", &sha256, "tensors", &tensors) != 0) {
        return bad(dir, error, "a piece lacks a field");
    }
    if (!owner_of_file(file, owner, kind, &number)) {
        return bad(dir, error, "a piece has no proper file name");
    }
    if (json_unpack(value, "{s:i}", kind, &number_told) != 0 || number_told != number) {
        return bad(dir, error, "a piece and its file name different owners");
    }
    if (bytes < 0 || tensors < 0 || !is_hex(sha256, 64)) {
        return bad(dir, error, "a piece has no proper size or hash");
    }
    *ret_piece =
        (struct culm_piece){.node = node, .bytes = (uint64_t)bytes, .tensors = (uint64_t)tensors};
    strcpy(ret_piece->owner, owner);
    strcpy(ret_piece->file, file);
    strcpy(ret_piece->sha256, sha256);
    return CULM_OK;
}

static enum culm_status check_size(const char *dir, const struct culm_piece *piece,
                                   struct culm_error *error) {
    char path[CULM_PATH_MAX];
    uint64_t size;
    enum culm_status status = culm_path_format(path, error, "%s/%s", dir, piece->file);
    if (status == CULM_OK) {
        status = culm_file_size(path, &size, error);
    }
    if (status == CULM_OK && size != piece->bytes) {
        status =
            culm_error_set(error, CULM_ERR_FORMAT, "piece '%s' has %llu bytes, not %llu",
                           piece->file, (unsigned long long)size, (unsigned long long)piece->bytes);
    }
    if (status != CULM_OK) {
        culm_error_prefix(error, "checkpoint '%s'", dir);
        if (status == CULM_ERR_NOT_FOUND) {
            status = CULM_ERR_FORMAT; /* one with a hole is broken, not absent */
            if (error) {
                error->status = status;
            }
        }
        return status;
    }
    return CULM_OK;
}

static bool read_seed(const char *text, uint64_t *ret_seed) {
    char *end;
    errno = 0;
    *ret_seed = strtoull(text, &end, 10);
    return errno == 0 && text[0] >= '0' && text[0] <= '9' && *end == '\0';
}

static enum culm_status read_json(const char *dir, json_t **ret_json, struct culm_error *error) {
    char path[CULM_PATH_MAX], *text = NULL;
    size_t len = 0;
    json_error_t reason;
    enum culm_status status = culm_path_format(path, error, "%s/manifest.json", dir);
    if (status != CULM_OK) {
        return status;
    }
    status = culm_file_read(NULL, path, MANIFEST_BYTES_MAX, &text, &len, error);
    if (status != CULM_OK) {
        culm_error_prefix(error, "checkpoint '%s'", dir);
        return status;
    }
    *ret_json = json_loadb(text, len, JSON_REJECT_DUPLICATES, &reason);
    free(text);
    return *ret_json ? CULM_OK
                     : culm_error_set(error, CULM_ERR_FORMAT,
                                      "checkpoint '%s': manifest.json: byte %d: not valid JSON",
                                      dir, reason.position);
}

enum culm_status culm_manifest_read(const char *dir, struct culm_manifest *ret_manifest,
                                    struct culm_error *error) {
    struct culm_manifest manifest;
    enum culm_status status = culm_manifest_read_alone(dir, &manifest, error);
    if (status != CULM_OK) {
        return status;
    }
    for (size_t i = 0; status == CULM_OK && i < manifest.piece_count; i++) {
        status = check_size(dir, &manifest.piece[i], error);
    }
    if (status != CULM_OK) {
        culm_manifest_release(&manifest);
        return status;
    }
    *ret_manifest = manifest;
    return CULM_OK;
}

enum culm_status culm_manifest_read_alone(const char *dir, struct culm_manifest *ret_manifest,
                                          struct culm_error *error) {
    struct culm_manifest manifest = {0};
    const char *format, *seed;
    json_int_t step, samples;
    json_t *list;
    enum culm_status status = read_json(dir, &manifest.json, error);
    if (status != CULM_OK) {
        return status;
    }
    if (json_unpack(manifest.json, "{s:s, s:I, s:I, s:s, s:s, s:s, s:o}", "format", &format, "step",
                    &step, "samples", &samples, "seed", &seed, "signature",
                    &manifest.info.signature, "config", &manifest.info.config, "pieces",
                    &list) != 0) {
        status = bad(dir, error, "a field is missing or has another type");
        goto out;
    }
    if (strcmp(format, CULM_CHECKPOINT_FORMAT) != 0) {
        status = bad(dir, error, "is not of format '" CULM_CHECKPOINT_FORMAT "'");
        goto out;
    }
    if (step < 0 || samples < 0 || !read_seed(seed, &manifest.info.seed) ||
        json_array_size(list) == 0) {
        status = bad(dir, error, "step, samples, seed or pieces is not possible");
        goto out;
    }
    manifest.info.choices = json_object_get(manifest.json, "choices");
    manifest.info.inputs = json_object_get(manifest.json, "inputs");
    manifest.info.progress = json_object_get(manifest.json, "progress");
    manifest.info.step = step;
    manifest.info.samples = (uint64_t)samples;
    manifest.piece = calloc(json_array_size(list), sizeof *manifest.piece);
    if (!manifest.piece) {
        status = culm_error_set(error, CULM_ERR_MEMORY, "checkpoint '%s': out of memory", dir);
        goto out;
    }
    for (size_t i = 0; status == CULM_OK && i < json_array_size(list); i++) {
        status = read_piece(dir, json_array_get(list, i), &manifest.piece[i], error);
        manifest.piece_count++;
    }
out:
    if (status != CULM_OK) {
        culm_manifest_release(&manifest);
        return status;
    }
    *ret_manifest = manifest;
    return CULM_OK;
}

void culm_manifest_release(struct culm_manifest *manifest) {
    free(manifest->piece);
    json_decref(manifest->json);
    *manifest = (struct culm_manifest){0};
}

/* Removing rounds of a package that nobody needs any more. See package.h. */
#include "query/package.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Digests, sorted once all are there. */
struct digests {
    char (*digest)[CULM_SHA256_HEX];
    size_t count, capacity;
};

static int by_text(const void *a, const void *b) { return strcmp(a, b); }

static enum culm_status add_round(const char *dir, int64_t number, struct digests *kept,
                                  struct culm_error *error) {
    struct culm_package_round round;
    enum culm_status status = culm_package_open_round(dir, number, &round, error);
    if (status != CULM_OK) {
        return status;
    }
    const size_t count = kept->count + (size_t)round.tensor_count;
    void *more = realloc(kept->digest, (count + 1) * sizeof *kept->digest);
    if (!more) {
        status = culm_error_set(error, CULM_ERR_MEMORY, "package: out of memory");
    } else {
        kept->digest = more;
    }
    for (int32_t t = 0; t < round.tensor_count && status == CULM_OK; t++) {
        memcpy(kept->digest[kept->count++], round.tensor[t].digest, CULM_SHA256_HEX);
    }
    culm_package_round_release(&round);
    return status;
}

/* The number of a round's file; -1: it is none. */
static int64_t number_of(const char *name) {
    const size_t digits = strspn(name, "0123456789");
    return digits > 0 && digits <= 18 && strcmp(name + digits, ".json") == 0
               ? strtoll(name, NULL, 10)
               : -1;
}

static bool is_in(const int64_t *numbers, size_t count, int64_t number) {
    for (size_t i = 0; i < count; i++) {
        if (numbers[i] == number) {
            return true;
        }
    }
    return false;
}

static enum culm_status remove_in(struct culm_fs *fs, const char *dir, const char *folder,
                                  const char *name, uint64_t *ret_bytes, struct culm_error *error) {
    char path[CULM_PATH_MAX];
    uint64_t bytes = 0;
    enum culm_status status = culm_path_format(path, error, "%s/%s/%s", dir, folder, name);
    if (status == CULM_OK && culm_file_size(path, &bytes, error) == CULM_OK &&
        !(status = culm_file_remove(fs, path, error))) {
        *ret_bytes += bytes;
    }
    return status;
}

static enum culm_status list(const char *dir, const char *folder, struct culm_names *ret_names,
                             struct culm_error *error) {
    char path[CULM_PATH_MAX];
    enum culm_status status = culm_path_format(path, error, "%s/%s", dir, folder);
    return status == CULM_OK ? culm_dir_list(path, ret_names, error) : status;
}

enum culm_status culm_package_prune(struct culm_fs *fs, const char *dir, const int64_t *keep,
                                    size_t count, struct culm_package_pruned *ret_pruned,
                                    struct culm_error *error) {
    struct culm_package_round current;
    struct culm_names rounds = {0}, tensors = {0};
    struct digests kept = {0};
    struct culm_package_pruned pruned = {0};
    enum culm_status status = culm_package_open(dir, &current, error);
    if (status != CULM_OK) {
        return status;
    }
    const int64_t newest = current.number;
    culm_package_round_release(&current);
    if ((status = list(dir, "rounds", &rounds, error)) ||
        (status = list(dir, "tensors", &tensors, error))) {
        goto out;
    }
    for (size_t i = 0; i < rounds.count && status == CULM_OK; i++) {
        const int64_t number = number_of(rounds.name[i]);
        if (number >= newest || (number >= 0 && is_in(keep, count, number))) {
            /* A later one may be a writer's that died before it counted. */
            status = number > newest ? CULM_OK : add_round(dir, number, &kept, error);
        }
    }
    for (size_t i = 0; i < rounds.count && status == CULM_OK; i++) {
        const int64_t number = number_of(rounds.name[i]);
        if (number >= 0 && number != newest && !is_in(keep, count, number)) {
            status = remove_in(fs, dir, "rounds", rounds.name[i], &pruned.bytes, error);
            pruned.rounds += status == CULM_OK;
        }
    }
    if (kept.count > 0) {
        qsort(kept.digest, kept.count, sizeof *kept.digest, by_text);
    }
    for (size_t i = 0; i < tensors.count && status == CULM_OK; i++) {
        const char *name = tensors.name[i];
        const bool unfinished = name[0] == '.'; /* of a writer that was killed */
        if ((strlen(name) == CULM_SHA256_HEX - 1 || unfinished) &&
            !bsearch(name, kept.digest, kept.count, sizeof *kept.digest, by_text)) {
            status = remove_in(fs, dir, "tensors", name, &pruned.bytes, error);
            pruned.tensors += status == CULM_OK;
        }
    }
    if (status == CULM_OK) {
        *ret_pruned = pruned;
    }
out:
    free(kept.digest);
    culm_names_release(&rounds);
    culm_names_release(&tensors);
    return status;
}

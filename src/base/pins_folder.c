/* Pins of folders, and of groups of files; see pins.h. */
#include "base/pins_internal.h"

#include "base/checksum.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SOME_FILES 256u /* of a large folder: so many count by content */

struct folder {
    const char *path;
    size_t count;
    culm_pins_path_of *path_of;
    const void *ctx;
    struct culm_stamp *stamp; /* [count] */
    uint64_t *sum;            /* [count] of contents; 0: not known */
    uint8_t *buffer;          /* [CULM_PINS_CHUNK] */
    bool group;               /* large files count by blocks */
    bool first;               /* nothing is pinned yet: what cannot be read never could be */
};

/* Nobody can read it, and nobody could: nothing has changed. */
static enum culm_status unreadable(const char *path, int reason, struct culm_error *error) {
    struct stat info;
    bool link = reason == ENOENT && lstat(path, &info) == 0;
    bool nowhere = reason == ENOENT || reason == ELOOP || reason == ENOTDIR;
    return nowhere
               ? culm_error_set(error, CULM_ERR_CONFIG,
                                "'%.280s' cannot be read: %s; restore it, or remove it before "
                                "a run begins",
                                path, link ? "it is a link that leads nowhere" : strerror(reason))
               : culm_error_errno(error, reason, "'%.280s' cannot be read", path);
}

static enum culm_status cannot_read(const struct folder *folder, const char *path, int reason,
                                    struct culm_error *error) {
    bool limit = reason == EMFILE || reason == ENFILE || reason == ENOMEM;
    return folder->first || limit ? unreadable(path, reason, error)
                                  : pins_differs(error, path, "%s", strerror(reason));
}

/* Before the first digests, when it is asked once. */
static enum culm_status check_readable(const struct folder *folder, const char *path,
                                       const struct stat *info, struct culm_error *error) {
    if (!S_ISREG(info->st_mode)) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "'%.280s' is not a file but %s; give it another name, or remove it",
                              path, S_ISDIR(info->st_mode) ? "a folder" : "a device or pipe");
    }
    return faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) == 0
               ? CULM_OK
               : cannot_read(folder, path, errno, error);
}

static enum culm_status stat_all(const struct folder *folder, bool check, struct culm_pin *pin,
                                 struct culm_error *error) {
    struct culm_checksum all;
    culm_checksum_init(&all);
    pin->bytes = 0;
    pin->files = folder->count;
    for (size_t i = 0; i < folder->count; i++) {
        struct stat info;
        const char *path = folder->path_of(folder->ctx, i);
        if (stat(path, &info)) {
            return cannot_read(folder, path, errno, error);
        }
        enum culm_status status =
            folder->first && check ? check_readable(folder, path, &info, error) : CULM_OK;
        if (status != CULM_OK) {
            return status;
        }
        culm_stamp_of(&info, &folder->stamp[i]);
        culm_checksum_add(&all, &folder->stamp[i], sizeof folder->stamp[i]);
        pin->bytes += folder->stamp[i].bytes;
    }
    pin->stamp = (struct culm_stamp){.inode = culm_checksum_value(&all), .bytes = pin->bytes};
    return CULM_OK;
}

/* One file of it into the digest, and its own sum. */
static enum culm_status add_file(const struct folder *folder, size_t index,
                                 struct culm_sha256 *hash, struct culm_error *error) {
    const char *path = folder->path_of(folder->ctx, index);
    struct culm_checksum sum;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return cannot_read(folder, path, errno, error);
    }
    uint64_t bytes = folder->stamp[index].bytes;
    if (folder->group && bytes > CULM_PINS_WHOLE) { /* its own sum stays unknown */
        enum culm_status status =
            pins_add_blocks(hash, folder->buffer, path, fd, bytes, NULL, error);
        close(fd);
        return status;
    }
    culm_checksum_init(&sum);
    for (;;) {
        ssize_t got = read(fd, folder->buffer, CULM_PINS_CHUNK);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            enum culm_status status =
                got < 0 ? culm_error_errno(error, errno, "'%.280s'", path) : CULM_OK;
            close(fd);
            folder->sum[index] = culm_checksum_value(&sum) | 1;
            return status;
        }
        culm_checksum_add(&sum, folder->buffer, (size_t)got);
        culm_sha256_update(hash, folder->buffer, (size_t)got);
    }
}

static enum culm_status digest_folder(const struct folder *folder, bool all,
                                      char ret_hex[CULM_SHA256_HEX], struct culm_error *error) {
    struct culm_sha256 hash;
    if (culm_sha256_init(&hash) != CULM_OK) {
        return pins_no_memory(error);
    }
    size_t root = strlen(folder->path);
    size_t stride = all || folder->count < SOME_FILES ? 1 : folder->count / SOME_FILES;
    enum culm_status status = CULM_OK;
    for (size_t i = 0; i < folder->count && status == CULM_OK; i++) {
        const char *name = folder->path_of(folder->ctx, i);
        name += strncmp(name, folder->path, root) == 0 ? root : 0; /* a pattern begins none */
        culm_sha256_update(&hash, name, strlen(name) + 1);
        culm_sha256_update(&hash, &folder->stamp[i].bytes, sizeof folder->stamp[i].bytes);
        if (i % stride == 0) {
            status = add_file(folder, i, &hash, error);
        }
    }
    if (status != CULM_OK) {
        culm_sha256_release(&hash);
        return status;
    }
    status = culm_sha256_final(&hash, ret_hex);
    return status == CULM_OK ? CULM_OK : pins_no_memory(error);
}

static enum culm_status describe_folder(const struct folder *folder, struct culm_pin *pin,
                                        struct culm_error *error) {
    for (int i = 0; i < CULM_PINS_TRIES; i++) {
        enum culm_status status = stat_all(folder, i == 0, pin, error);
        struct culm_pin after = *pin;
        bool small = pin->bytes <= CULM_PINS_WHOLE;
        for (size_t f = 0; f < folder->count && status == CULM_OK; f++) {
            pins_settle(&folder->stamp[f]); /* all of them in one tick */
        }
        if (status == CULM_OK) {
            status = digest_folder(folder, small, small ? pin->whole : pin->part, error);
        }
        if (status == CULM_OK) {
            status = stat_all(folder, false, &after, error);
        }
        if (status != CULM_OK || culm_stamp_same(&pin->stamp, &after.stamp)) {
            return status;
        }
    }
    return pins_differs(error, folder->path, "it is being written to");
}

static enum culm_status show_folder(struct culm_pins *pins, struct folder *folder,
                                    struct culm_error *error) {
    struct culm_pin pin = {.path = (char *)(uintptr_t)folder->path};
    struct culm_pins_entry *entry = pins_find(pins, folder->path);
    folder->first = !entry && !pins->sealed;
    if (entry && entry->pin.files != folder->count) {
        return pins_differs(error, folder->path, "it has %zu files, had %llu", folder->count,
                            (unsigned long long)entry->pin.files);
    }
    enum culm_status status = describe_folder(folder, &pin, error);
    if (status != CULM_OK) {
        return status;
    }
    if (!entry && pins->sealed) {
        return pins_differs(error, folder->path, "it did not exist then");
    }
    if (!entry) {
        entry = pins_put(pins, &pin);
    } else if (entry->pin.bytes != pin.bytes || strcmp(entry->pin.part, pin.part) != 0 ||
               (pin.whole[0] && strcmp(entry->pin.whole, pin.whole) != 0)) {
        return pins_differs(error, folder->path,
                            "a file in it has a different name, size or content");
    } else if (!pin.whole[0] && !culm_stamp_same(&pin.stamp, &entry->pin.stamp)) {
        return pins_differs(
            error, folder->path,
            "files in it were written to or replaced, and it is too large to compare");
    }
    uint64_t *stamps = entry ? malloc((folder->count + 1) * sizeof *stamps) : NULL;
    uint64_t *sums = entry ? malloc((folder->count + 1) * sizeof *sums) : NULL;
    if (!stamps || !sums) {
        free(stamps);
        free(sums);
        return pins_no_memory(error);
    }
    for (size_t i = 0; i < folder->count; i++) {
        stamps[i] = pins_hash_stamp(&folder->stamp[i]);
        sums[i] = folder->sum[i];
    }
    free(entry->file_stamp);
    free(entry->file_sum);
    entry->file_stamp = stamps;
    entry->file_sum = sums;
    entry->shown = true;
    return CULM_OK;
}

static enum culm_status show_files(struct culm_pins *pins, struct folder folder,
                                   struct culm_error *error) {
    size_t count = folder.count;
    if (!pins) {
        return CULM_OK;
    }
    folder.stamp = calloc(count + 1, sizeof *folder.stamp);
    folder.sum = calloc(count + 1, sizeof *folder.sum);
    folder.buffer = malloc(CULM_PINS_CHUNK);
    enum culm_status status = CULM_ERR_MEMORY;
    if (folder.stamp && folder.sum && folder.buffer) {
        pthread_mutex_lock(&pins->lock);
        status = show_folder(pins, &folder, error);
        pthread_mutex_unlock(&pins->lock);
    } else {
        pins_no_memory(error);
    }
    free(folder.stamp);
    free(folder.sum);
    free(folder.buffer);
    return status;
}

enum culm_status culm_pins_folder(struct culm_pins *pins, const char *path, size_t count,
                                  culm_pins_path_of *path_of, const void *ctx,
                                  struct culm_error *error) {
    const struct folder folder = {.path = path, .count = count, .path_of = path_of, .ctx = ctx};
    return show_files(pins, folder, error);
}

enum culm_status culm_pins_group(struct culm_pins *pins, const char *name, size_t count,
                                 culm_pins_path_of *path_of, const void *ctx,
                                 struct culm_error *error) {
    const struct folder folder = {
        .path = name, .count = count, .path_of = path_of, .ctx = ctx, .group = true};
    return show_files(pins, folder, error);
}

enum culm_status culm_pins_inside(struct culm_pins *pins, const char *folder, size_t index,
                                  const char *path, const struct culm_stamp *stamp,
                                  const void *data, size_t len, struct culm_error *error) {
    if (!pins) {
        return CULM_OK;
    }
    enum culm_status status = CULM_OK;
    pthread_mutex_lock(&pins->lock);
    struct culm_pins_entry *entry = pins_find(pins, folder);
    if (!entry || !entry->shown || index >= entry->pin.files) {
        status = pins_differs(error, path, "it did not exist then");
    } else if (entry->file_stamp[index] != pins_hash_stamp(stamp)) {
        uint64_t sum = culm_checksum_of(data, len) | 1;
        if (entry->file_sum[index] != sum) {
            status = pins_differs(error, path,
                                  entry->file_sum[index] ? "its content has changed"
                                                         : "it was written to or replaced");
        } else if (pins_settled(stamp)) {
            entry->file_stamp[index] = pins_hash_stamp(stamp);
        }
    }
    pthread_mutex_unlock(&pins->lock);
    return status;
}

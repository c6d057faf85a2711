/* The list of pins, and those of files; see the header. Digests are made under the lock: whoever waits for it
 * waits for the same answer. Folders are pins_folder.c's. */
#include "base/pins_internal.h"

#include "base/checksum.h"
#include "base/grow.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BLOCK ((size_t)64 << 10)
#define BLOCKS 64u
#define READ_TRIES 8

const char culm_pins_back[] = "put it back; a run continues with --resume, or on what is there now "
                              "with --resume --accept-inputs";

/* Times after the year 2262 wrap: they are compared with each other alone. */
static int64_t ns_of(const struct timespec *time) {
    return (int64_t)((uint64_t)time->tv_sec * 1000000000u + (uint64_t)time->tv_nsec);
}

void culm_stamp_of(const struct stat *info, struct culm_stamp *ret_stamp) {
    *ret_stamp = (struct culm_stamp){
        .inode = (uint64_t)info->st_ino,
        .bytes = (uint64_t)info->st_size,
        .mtime_ns = ns_of(&info->st_mtim),
        .ctime_ns = ns_of(&info->st_ctim),
    };
}

bool culm_stamp_same(const struct culm_stamp *a, const struct culm_stamp *b) {
    return a->inode == b->inode && a->bytes == b->bytes && a->mtime_ns == b->mtime_ns &&
           a->ctime_ns == b->ctime_ns;
}

/* --- the list --- */

struct culm_pins *culm_pins_new(void) {
    struct culm_pins *pins = calloc(1, sizeof *pins);
    if (pins) {
        pthread_mutex_init(&pins->lock, NULL);
    }
    return pins;
}

void culm_pins_free(struct culm_pins *pins) {
    if (!pins) {
        return;
    }
    for (size_t i = 0; i < pins->count; i++) {
        free(pins->entry[i].pin.path);
        free(pins->entry[i].file_stamp);
        free(pins->entry[i].file_sum);
    }
    pthread_mutex_destroy(&pins->lock);
    free(pins->entry);
    free(pins);
}

struct culm_pins_entry *pins_find(const struct culm_pins *pins, const char *path) {
    for (size_t i = 0; i < pins->count; i++) {
        if (strcmp(pins->entry[i].pin.path, path) == 0) {
            return &pins->entry[i];
        }
    }
    return NULL;
}

struct culm_pins_entry *pins_put(struct culm_pins *pins, const struct culm_pin *pin) {
    if (!CULM_GROW(pins->entry, pins->capacity, pins->count + 1)) {
        return NULL;
    }
    struct culm_pins_entry *entry = &pins->entry[pins->count];
    *entry = (struct culm_pins_entry){.pin = *pin, .seen = pin->stamp};
    entry->pin.path = strdup(pin->path);
    pins->count += entry->pin.path != NULL;
    return entry->pin.path ? entry : NULL;
}

bool culm_pins_add(struct culm_pins *pins, const struct culm_pin *pin) {
    return pins_put(pins, pin) != NULL;
}

void culm_pins_seal(struct culm_pins *pins) { pins->sealed = true; }

bool culm_pins_sealed(const struct culm_pins *pins) { return pins && pins->sealed; }

bool culm_pins_exclude(const struct culm_pins *pins, const char *path) {
    return culm_pins_sealed(pins) && !pins_find(pins, path);
}

void culm_pins_ask(struct culm_pins *pins, culm_pins_teller *teller, void *ctx) {
    pins->teller = teller;
    pins->teller_ctx = ctx;
}

size_t culm_pins_count(const struct culm_pins *pins) { return pins->count; }

struct culm_pin culm_pins_at(struct culm_pins *pins, size_t index) {
    pthread_mutex_lock(&pins->lock);
    struct culm_pin pin = pins->entry[index].pin;
    pthread_mutex_unlock(&pins->lock);
    return pin;
}

/* --- what a file holds --- */

enum culm_status pins_differs(struct culm_error *error, const char *path, const char *format, ...) {
    char what[128];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return culm_error_set(error, CULM_ERR_CHANGED,
                          "'%.280s' is not what it was when the run began: %s; %s", path, what,
                          culm_pins_back);
}

void culm_pins_advise(struct culm_error *error, const char *advice) {
    const char *back = error ? strstr(error->text, culm_pins_back) : NULL;
    if (back) {
        const struct culm_error reason = *error;
        culm_error_set(error, reason.status, "%.*s%s", (int)(back - error->text), reason.text,
                       advice);
    }
}

enum culm_status pins_no_memory(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for digests of inputs");
}

/* May be set by another thread. */
static bool asked(const bool *stop) { return stop && __atomic_load_n(stop, __ATOMIC_RELAXED); }

/* Adds [at, at + len); CULM_ERR_CHANGED when the file ends before. */
static enum culm_status add_bytes(struct culm_sha256 *hash, uint8_t *buffer, const char *path,
                                  int fd, uint64_t at, uint64_t len, const bool *stop,
                                  struct culm_error *error) {
    while (len && !asked(stop)) {
        ssize_t got =
            pread(fd, buffer, len < CULM_PINS_CHUNK ? (size_t)len : CULM_PINS_CHUNK, (off_t)at);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return culm_error_errno(error, errno, "'%.280s': read at byte %llu", path,
                                    (unsigned long long)at);
        }
        if (got == 0) {
            return pins_differs(error, path, "it ends at byte %llu", (unsigned long long)at);
        }
        culm_sha256_update(hash, buffer, (size_t)got);
        at += (uint64_t)got;
        len -= (uint64_t)got;
    }
    return CULM_OK;
}

/* Adds blocks at even distances, the first and the last ones included. */
enum culm_status pins_add_blocks(struct culm_sha256 *hash, uint8_t *buffer, const char *path,
                                 int fd, uint64_t bytes, const bool *stop,
                                 struct culm_error *error) {
    enum culm_status status = CULM_OK;
    for (uint64_t i = 0; i < BLOCKS && status == CULM_OK; i++) {
        uint64_t at = (bytes - BLOCK) / (BLOCKS - 1) * i;
        at = i == BLOCKS - 1 ? bytes - BLOCK : at;
        status = add_bytes(hash, buffer, path, fd, at, BLOCK, stop, error);
    }
    return status;
}

/* Of the whole, or of the size and blocks. */
static enum culm_status digest(const char *path, int fd, uint64_t bytes, bool whole,
                               const bool *stop, char ret_hex[CULM_SHA256_HEX],
                               struct culm_error *error) {
    struct culm_sha256 hash;
    uint8_t *buffer = malloc(CULM_PINS_CHUNK);
    if (!buffer || culm_sha256_init(&hash) != CULM_OK) {
        free(buffer);
        return pins_no_memory(error);
    }
    enum culm_status status = CULM_OK;
    if (whole) {
        status = add_bytes(&hash, buffer, path, fd, 0, bytes, stop, error);
    } else {
        culm_sha256_update(&hash, &bytes, sizeof bytes);
        status = pins_add_blocks(&hash, buffer, path, fd, bytes, stop, error);
    }
    free(buffer);
    if (status != CULM_OK || asked(stop)) {
        culm_sha256_release(&hash);
        return status;
    }
    status = culm_sha256_final(&hash, ret_hex);
    return status == CULM_OK ? CULM_OK : pins_no_memory(error);
}

static enum culm_status stamp_of_fd(const char *path, int fd, struct culm_stamp *ret_stamp,
                                    struct culm_error *error) {
    struct stat info;
    if (fstat(fd, &info)) {
        return culm_error_errno(error, errno, "'%.280s'", path);
    }
    culm_stamp_of(&info, ret_stamp);
    return CULM_OK;
}

uint64_t pins_hash_stamp(const struct culm_stamp *stamp) {
    return culm_checksum_of(stamp, sizeof *stamp);
}

/* Whether another write gives another stamp: the tick of the clock in which the last one fell is
 * over. */
bool pins_settled(const struct culm_stamp *stamp) {
    struct timespec now = {0};
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    int64_t age = (int64_t)((uint64_t)ns_of(&now) - (uint64_t)stamp->ctime_ns);
    return age > 0 || age < -1000000000; /* from a machine whose clock is another */
}

void pins_settle(const struct culm_stamp *stamp) {
    const struct timespec part = {.tv_nsec = 500000};
    for (int i = 0; i < 1000 && !pins_settled(stamp); i++) {
        nanosleep(&part, NULL);
    }
}

static enum culm_status no_whole(const struct culm_pin *pin, struct culm_error *error) {
    return pins_differs(error, pin->path,
                        "it was written to or replaced, and cannot be compared as a whole");
}

/* Compares once; *ret_stamp is that before reading. */
static enum culm_status compare_file(const struct culm_pins *pins, struct culm_pins_entry *entry,
                                     int fd, struct culm_stamp *ret_stamp,
                                     struct culm_error *error) {
    struct culm_pin *pin = &entry->pin;
    char hex[CULM_SHA256_HEX] = "";
    enum culm_status status = stamp_of_fd(pin->path, fd, ret_stamp, error);
    if (status != CULM_OK) {
        return status;
    }
    pins_settle(ret_stamp);
    if (ret_stamp->bytes != pin->bytes) {
        return pins_differs(error, pin->path, "it has %llu bytes, had %llu",
                            (unsigned long long)ret_stamp->bytes, (unsigned long long)pin->bytes);
    }
    bool small = pin->bytes <= CULM_PINS_WHOLE;
    if (!small) {
        status = digest(pin->path, fd, pin->bytes, false, NULL, hex, error);
        if (status == CULM_OK && strcmp(hex, pin->part) != 0) {
            return pins_differs(error, pin->path, "its content has changed");
        }
        bool moved =
            !culm_stamp_same(ret_stamp, &pin->stamp) && !culm_stamp_same(ret_stamp, &entry->seen);
        if (status != CULM_OK || !moved) {
            return status;
        }
        bool later = !pin->whole[0] && pins->teller &&
                     pins->teller(pins->teller_ctx, pin, false, pin->whole);
        if (!pin->whole[0] && !later) {
            return no_whole(pin, error);
        }
    }
    status = digest(pin->path, fd, pin->bytes, true, NULL, hex, error);
    if (status == CULM_OK && !pin->whole[0]) {
        (void)pins->teller(pins->teller_ctx, pin, true, pin->whole);
        status = pin->whole[0] ? CULM_OK : no_whole(pin, error);
    }
    if (status == CULM_OK && strcmp(hex, pin->whole) != 0) {
        status = pins_differs(error, pin->path, "its content has changed");
    }
    return status;
}

static enum culm_status pin_file(struct culm_pins *pins, const char *path, int fd,
                                 struct culm_error *error) {
    struct culm_pin pin = {.path = (char *)(uintptr_t)path};
    struct culm_stamp after = {0};
    for (int i = 0; i < CULM_PINS_TRIES; i++) {
        enum culm_status status = stamp_of_fd(path, fd, &pin.stamp, error);
        pin.bytes = pin.stamp.bytes;
        bool small = pin.bytes <= CULM_PINS_WHOLE;
        if (status == CULM_OK) {
            pins_settle(&pin.stamp);
            status = digest(path, fd, pin.bytes, small, NULL, small ? pin.whole : pin.part, error);
        }
        if (status == CULM_OK) {
            status = stamp_of_fd(path, fd, &after, error);
        }
        if (status != CULM_OK && status != CULM_ERR_CHANGED) {
            return status;
        }
        if (status == CULM_OK && culm_stamp_same(&pin.stamp, &after)) {
            struct culm_pins_entry *entry = pins_put(pins, &pin);
            if (entry) {
                entry->shown = true;
            }
            return entry ? CULM_OK : pins_no_memory(error);
        }
    }
    return culm_error_set(error, CULM_ERR_CONFIG,
                          "'%.280s' is being written to; start when it is whole", path);
}

static enum culm_status show_file(struct culm_pins *pins, const char *path, int fd,
                                  struct culm_error *error) {
    struct culm_pins_entry *entry = pins_find(pins, path);
    if (!entry) {
        return pins->sealed ? pins_differs(error, path, "it did not exist then")
                            : pin_file(pins, path, fd, error);
    }
    for (int i = 0; i < CULM_PINS_TRIES; i++) {
        struct culm_stamp before = {0}, after = {0};
        enum culm_status status = compare_file(pins, entry, fd, &before, error);
        if (status == CULM_OK) {
            status = stamp_of_fd(path, fd, &after, error);
        }
        if (status != CULM_OK) {
            return status;
        }
        if (culm_stamp_same(&before, &after)) {
            entry->seen = after;
            entry->shown = true;
            return CULM_OK;
        }
    }
    return pins_differs(error, path, "it is being written to");
}

enum culm_status culm_pins_file(struct culm_pins *pins, const char *path, int fd,
                                struct culm_error *error) {
    if (!pins) {
        return CULM_OK;
    }
    pthread_mutex_lock(&pins->lock);
    enum culm_status status = show_file(pins, path, fd, error);
    pthread_mutex_unlock(&pins->lock);
    return status;
}

static enum culm_status read_bytes(const struct culm_pins_reader *reader, uint64_t at,
                                   void *ret_data, size_t len, struct culm_error *error) {
    char *to = ret_data;
    while (len) {
        ssize_t got = pread(reader->fd, to, len, (off_t)at);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return culm_error_errno(error, errno, "%s '%s': read at byte %llu", reader->what,
                                    reader->path, (unsigned long long)at);
        }
        if (got == 0) {
            return culm_error_set(error, CULM_ERR_IO,
                                  "%s '%s': ends at byte %llu, had %llu when opened; restore it",
                                  reader->what, reader->path, (unsigned long long)at,
                                  (unsigned long long)reader->stamp.bytes);
        }
        to += got;
        at += (uint64_t)got;
        len -= (size_t)got;
    }
    return CULM_OK;
}

static enum culm_status checksum_of(const char *path, int fd, uint64_t *ret_sum,
                                    struct culm_error *error) {
    struct culm_checksum sum;
    uint8_t *buffer = malloc(CULM_PINS_CHUNK);
    uint64_t at = 0;
    ssize_t got = 1;
    if (!buffer) {
        return pins_no_memory(error);
    }
    culm_checksum_init(&sum);
    while (got) {
        got = pread(fd, buffer, CULM_PINS_CHUNK, (off_t)at);
        if (got < 0 && errno != EINTR) {
            free(buffer);
            return culm_error_errno(error, errno, "'%.280s': read at byte %llu", path,
                                    (unsigned long long)at);
        }
        if (got > 0) {
            culm_checksum_add(&sum, buffer, (size_t)got);
            at += (uint64_t)got;
        }
    }
    free(buffer);
    *ret_sum = culm_checksum_value(&sum) | 1;
    return CULM_OK;
}

/* Under the lock. */
static enum culm_status show_member(struct culm_pins *pins, const char *group, size_t member,
                                    const char *path, int fd, struct culm_stamp *ret_stamp,
                                    struct culm_error *error) {
    struct culm_pins_entry *entry = pins_find(pins, group);
    if (!entry || !entry->shown || member >= entry->pin.files) {
        return pins_differs(error, path, "it did not exist then");
    }
    for (int i = 0; i < CULM_PINS_TRIES; i++) {
        struct culm_stamp after = {0};
        uint64_t sum = 0;
        enum culm_status status = stamp_of_fd(path, fd, ret_stamp, error);
        if (status != CULM_OK || entry->file_stamp[member] == pins_hash_stamp(ret_stamp)) {
            return status;
        }
        if (!entry->file_sum[member]) {
            return pins_differs(error, path, "it was written to or replaced");
        }
        pins_settle(ret_stamp);
        if ((status = checksum_of(path, fd, &sum, error)) != CULM_OK ||
            (status = stamp_of_fd(path, fd, &after, error)) != CULM_OK) {
            return status;
        }
        if (culm_stamp_same(ret_stamp, &after)) {
            if (entry->file_sum[member] != sum) {
                return pins_differs(error, path, "its content has changed");
            }
            entry->file_stamp[member] = pins_hash_stamp(ret_stamp);
            return CULM_OK;
        }
    }
    return pins_differs(error, path, "it is being written to");
}

enum culm_status culm_pins_member(struct culm_pins *pins, const char *group, size_t member,
                                  const char *path, int fd, struct culm_stamp *ret_stamp,
                                  struct culm_error *error) {
    if (!pins) {
        return CULM_OK;
    }
    pthread_mutex_lock(&pins->lock);
    enum culm_status status = show_member(pins, group, member, path, fd, ret_stamp, error);
    pthread_mutex_unlock(&pins->lock);
    return status;
}

bool culm_pins_is_group(struct culm_pins *pins, const char *name, bool wanted) {
    if (!pins || !pins->sealed) {
        return pins && wanted;
    }
    pthread_mutex_lock(&pins->lock);
    const struct culm_pins_entry *entry = pins_find(pins, name);
    bool group = entry && entry->pin.files;
    pthread_mutex_unlock(&pins->lock);
    return group;
}

/* The stamp of what is there now, which is what was pinned. */
static enum culm_status good_stamp(const struct culm_pins_reader *reader,
                                   struct culm_stamp *ret_stamp, struct culm_error *error) {
    if (reader->group) {
        return culm_pins_member(reader->pins, reader->group, reader->member, reader->path,
                                reader->fd, ret_stamp, error);
    }
    pthread_mutex_lock(&reader->pins->lock);
    struct culm_pins_entry *entry = pins_find(reader->pins, reader->path);
    enum culm_status status = stamp_of_fd(reader->path, reader->fd, ret_stamp, error);
    bool known = entry && entry->shown && culm_stamp_same(ret_stamp, &entry->seen);
    if (status == CULM_OK && !known) {
        status = show_file(reader->pins, reader->path, reader->fd, error);
        entry = pins_find(reader->pins, reader->path);
        *ret_stamp = status == CULM_OK ? entry->seen : *ret_stamp;
    }
    pthread_mutex_unlock(&reader->pins->lock);
    return status;
}

/* Whoever writes changes the stamp first. So bytes that were read between two looks at one stamp
 * are of the content that goes with it; others are read again, whatever the file holds by now. */
enum culm_status culm_pins_read(const struct culm_pins_reader *reader, uint64_t at, void *ret_data,
                                size_t len, struct culm_error *error) {
    struct culm_stamp before = reader->stamp, after = {0};
    if (!reader->pins) {
        return read_bytes(reader, at, ret_data, len, error);
    }
    for (int i = 0; i < READ_TRIES; i++) {
        struct culm_error reason = {0};
        enum culm_status status = read_bytes(reader, at, ret_data, len, &reason);
        enum culm_status look = stamp_of_fd(reader->path, reader->fd, &after, error);
        if (look != CULM_OK) {
            return look;
        }
        if (culm_stamp_same(&before, &after)) {
            return status == CULM_OK ? CULM_OK : culm_error_set(error, status, "%s", reason.text);
        }
        if ((look = good_stamp(reader, &before, error)) != CULM_OK) {
            return look;
        }
    }
    return pins_differs(error, reader->path, "it is being written to");
}

/* --- all of them --- */

enum culm_status culm_pins_look(struct culm_pins *pins, struct culm_error *error) {
    for (size_t i = 0; i < pins->count; i++) {
        struct culm_pin pin = culm_pins_at(pins, i);
        struct stat info;
        if (stat(pin.path, &info)) {
            if (pin.files && strpbrk(pin.path, "*?[")) {
                continue; /* a pattern */
            }
            return pins_differs(error, pin.path, "%s", strerror(errno));
        }
        bool folder = S_ISDIR(info.st_mode);
        if (folder != (pin.files > 0) || (!folder && (uint64_t)info.st_size != pin.bytes)) {
            return pins_differs(error, pin.path, "it has %llu bytes, had %llu",
                                (unsigned long long)info.st_size, (unsigned long long)pin.bytes);
        }
    }
    return CULM_OK;
}

void culm_pins_complete(struct culm_pins *pins, const bool *stop, void (*found)(void *ctx),
                        void *ctx) {
    for (size_t i = 0; i < pins->count && !asked(stop); i++) {
        struct culm_pin pin = culm_pins_at(pins, i);
        struct culm_stamp before = {0}, after = {0};
        char hex[CULM_SHA256_HEX] = "";
        int fd = pin.files || pin.whole[0] ? -1 : open(pin.path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (fd < 0) {
            continue;
        }
        bool same = stamp_of_fd(pin.path, fd, &before, NULL) == CULM_OK &&
                    culm_stamp_same(&before, &pin.stamp) &&
                    digest(pin.path, fd, pin.bytes, true, stop, hex, NULL) == CULM_OK &&
                    stamp_of_fd(pin.path, fd, &after, NULL) == CULM_OK &&
                    culm_stamp_same(&before, &after);
        close(fd);
        if (same && hex[0]) {
            pthread_mutex_lock(&pins->lock);
            memcpy(pins->entry[i].pin.whole, hex, sizeof hex);
            pthread_mutex_unlock(&pins->lock);
            if (found) {
                found(ctx);
            }
        }
    }
}

/* The whole of a large file that is there now, into its pin. */
static enum culm_status find_whole(struct culm_pins_entry *entry, struct culm_error *error) {
    int fd = open(entry->pin.path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return culm_error_errno(error, errno, "'%.280s'", entry->pin.path);
    }
    enum culm_status status =
        digest(entry->pin.path, fd, entry->pin.bytes, true, NULL, entry->pin.whole, error);
    close(fd);
    return status;
}

static enum culm_status compare(const struct culm_pin *old, struct culm_pins_entry *entry,
                                char *ret_note, struct culm_error *error) {
    struct culm_pin *now = &entry->pin;
    if (now->files != old->files) {
        return pins_differs(error, old->path, "it has %llu files, had %llu",
                            (unsigned long long)now->files, (unsigned long long)old->files);
    }
    if (now->bytes != old->bytes) {
        return pins_differs(error, old->path, "it has %llu bytes, had %llu",
                            (unsigned long long)now->bytes, (unsigned long long)old->bytes);
    }
    bool same_part = strcmp(now->part, old->part) == 0, moved;
    if (same_part && !now->files && old->whole[0] && !now->whole[0]) {
        moved = !culm_stamp_same(&now->stamp, &old->stamp);
        enum culm_status status = CULM_OK;
        if (moved) {
            status = find_whole(entry, error);
        } else {
            memcpy(now->whole, old->whole, sizeof now->whole);
        }
        if (status != CULM_OK) {
            return status;
        }
    }
    bool both = old->whole[0] && now->whole[0];
    if (!same_part || (both && strcmp(now->whole, old->whole) != 0)) {
        return pins_differs(error, old->path,
                            now->files ? "a file in it has a different name, size or content"
                                       : "its content has changed");
    }
    if (!both && !culm_stamp_same(&now->stamp, &old->stamp)) {
        snprintf(ret_note, CULM_ERROR_MAX,
                 "'%.280s' was written to or replaced since; its size and part of its content are "
                 "unchanged, and more is not known",
                 old->path);
    }
    return CULM_OK;
}

/* Of the file at `index` of `before`, or behind these of `now`, which must be known to `before`. */
static enum culm_status compare_at(struct culm_pins *before, struct culm_pins *now, size_t index,
                                   char *ret_note, struct culm_error *error) {
    if (index >= before->count) {
        const char *path = now->entry[index - before->count].pin.path;
        return pins_find(before, path) ? CULM_OK : pins_differs(error, path, "it was not read");
    }
    const struct culm_pin *old = &before->entry[index].pin;
    struct culm_pins_entry *entry = pins_find(now, old->path);
    return entry ? compare(old, entry, ret_note, error)
                 : pins_differs(error, old->path, "it is no longer read");
}

enum culm_status culm_pins_compare_all(struct culm_pins *before, struct culm_pins *now,
                                       culm_pins_changed *changed, void *ctx, char *ret_note,
                                       struct culm_error *error) {
    ret_note[0] = '\0';
    for (size_t i = 0; i < before->count + now->count; i++) {
        struct culm_error reason = {0};
        enum culm_status status = compare_at(before, now, i, ret_note, &reason);
        if (status == CULM_ERR_CHANGED && changed) {
            changed(ctx, i < before->count ? before->entry[i].pin.path
                                           : now->entry[i - before->count].pin.path);
        } else if (status != CULM_OK) {
            return culm_error_set(error, status, "%s", reason.text);
        }
    }
    return CULM_OK;
}

enum culm_status culm_pins_compare(struct culm_pins *before, struct culm_pins *now, char *ret_note,
                                   struct culm_error *error) {
    return culm_pins_compare_all(before, now, NULL, NULL, ret_note, error);
}

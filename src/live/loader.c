/*
 * Loads: reading tensors into the arena.
 *
 * Where possible, files are read past the system's cache, so that every load costs what it really
 * costs. If the workload sets a rate, a load takes as long as it would at that rate. A tensor's
 * digest is checked when it is first read, and again when its file has changed since.
 *
 * For a unit of many small tensors many files have to be opened, which takes several times as long
 * as reading their bytes. So once read, the unit is kept in one piece, as it lies in memory, in an
 * unnamed file: the spool.
 */
#include "live/loader.h"
#include "live/run.h"

#include "base/clock.h"
#include "base/grow.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LOOK_NS 100000000ull    /* how long to sleep before checking whether to stop */
#define OVERSLEPT_NS 5000000ull /* how much of its sleep a load may make up for in the next one */
#define MEASURED 32 /* after so many loads, measured times count for more than given ones */

/* Waits, unless the run is asked to stop. */
static void wait_until(const struct culm_live *run, uint64_t at_ns) {
    uint64_t now = culm_clock_ns();
    while (now < at_ns && !live_asked(run) && !__atomic_load_n(&run->stops, __ATOMIC_ACQUIRE)) {
        uint64_t ns = at_ns - now < LOOK_NS ? at_ns - now : LOOK_NS;
        nanosleep(&(struct timespec){0, (long)ns}, NULL);
        now = culm_clock_ns();
    }
}

/* --- from files of their own --- */

/* A source that is being read. */
struct reading {
    char path[CULM_PATH_MAX];
    struct culm_package_tensor tensor;
    size_t bytes;
    bool turned, verified;
    bool stamped;            /* stamp is the file's present one */
    struct live_stamp stamp; /* valid if verified or stamped */
    int32_t number;
};

static bool stamp_of(int fd, struct live_stamp *ret_stamp) {
    struct stat of;
    if (fstat(fd, &of) != 0) {
        return false;
    }
    *ret_stamp = (struct live_stamp){
        .device = (uint64_t)of.st_dev,
        .inode = (uint64_t)of.st_ino,
        .size = (uint64_t)of.st_size,
        .modified_ns = (int64_t)of.st_mtim.tv_sec * 1000000000 + of.st_mtim.tv_nsec,
        .changed_ns = (int64_t)of.st_ctim.tv_sec * 1000000000 + of.st_ctim.tv_nsec};
    return true;
}

static bool same_stamp(const struct live_stamp *a, const struct live_stamp *b) {
    return a->device == b->device && a->inode == b->inode && a->size == b->size &&
           a->modified_ns == b->modified_ns && a->changed_ns == b->changed_ns;
}

/* Reads at least `bytes` from `offset` on, and at most `room`. */
static enum culm_status read_some(int fd, char *at, size_t offset, size_t bytes, size_t room,
                                  const char *path, struct culm_error *error) {
    size_t done = 0;
    while (done < bytes) {
        ssize_t got = pread(fd, at + done, room - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return got < 0 ? culm_error_errno(error, errno, "read '%s'", path)
                           : culm_error_set(error, CULM_ERR_FORMAT,
                                            "'%s': cut short after %zu bytes", path, offset + done);
        }
        done += (size_t)got;
    }
    return CULM_OK;
}

/* Reads a source to its place, in one go. If its order in memory is another one, it is read in
 * parts through a small buffer, so that it takes no memory beside its own. */
static enum culm_status read_parts(const struct culm_live *run, const struct reading *source,
                                   int fd, char *at, size_t room, struct culm_sha256 *hash,
                                   struct culm_error *error) {
    struct culm_param param = {.turned = true, .written = {.rank = source->tensor.rank}};
    memcpy(param.written.dim, source->tensor.shape,
           (size_t)source->tensor.rank * sizeof *source->tensor.shape);
    size_t part = source->turned ? CULM_LIVE_PART : source->bytes;
    enum culm_status status = CULM_OK;
    for (size_t done = 0; done < source->bytes && status == CULM_OK; done += part) {
        size_t bytes = source->bytes - done < part ? source->bytes - done : part;
        char *to = source->turned ? run->part : at;
        status = read_some(fd, to, done, bytes, source->turned ? CULM_LIVE_PART : room,
                           source->path, error);
        if (status == CULM_OK && hash) {
            culm_sha256_update(hash, to, bytes);
        }
        if (status == CULM_OK && source->turned) {
            culm_graph_turn_part(&param, (const float *)to, (int64_t)(done / sizeof(float)),
                                 (int64_t)(bytes / sizeof(float)), (float *)at);
        }
    }
    return status;
}

static enum culm_status read_and_verify(const struct culm_live *run, struct reading *source, int fd,
                                        char *at, size_t room, struct culm_error *error) {
    struct culm_sha256 hash = {0};
    char digest[CULM_SHA256_HEX];
    struct live_stamp stamp = {0};
    source->stamped = stamp_of(fd, &stamp);
    source->verified &= source->stamped && same_stamp(&stamp, &source->stamp);
    source->stamp = stamp; /* taken before reading, so that a change during it shows next time */
    if (source->verified) {
        return read_parts(run, source, fd, at, room, NULL, error);
    }
    enum culm_status status = culm_package_digest_begin(&source->tensor, &hash);
    if (status != CULM_OK) {
        return culm_error_set(error, status, "SHA-256 failed");
    }
    status = read_parts(run, source, fd, at, room, &hash, error);
    if (status == CULM_OK && (status = culm_sha256_final(&hash, digest)) != CULM_OK) {
        culm_error_set(error, status, "SHA-256 failed");
    } else if (status == CULM_OK && strcmp(digest, source->tensor.digest) != 0) {
        status =
            culm_error_set(error, CULM_ERR_FORMAT,
                           "'%s' is not what its name says; copy the package again", source->path);
    }
    culm_sha256_release(&hash);
    return status;
}

/* Opens a file, but never a pipe, which might block or never end. -1: it cannot be opened or, with
 * errno 0, is not a plain file. */
static int open_plain(const char *path, int flags) {
    struct stat about;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | flags);
    if (fd >= 0 && (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode))) {
        close(fd);
        errno = 0;
        fd = -1;
    }
    return fd;
}

/* Reads a source; past the cache if `direct`, which needs a `room` of whole pages. */
static enum culm_status read_source(const struct culm_live *run, struct reading *source, char *at,
                                    size_t room, bool direct, struct culm_error *error) {
    int fd = direct ? open_plain(source->path, O_DIRECT) : -1;
    bool past = fd >= 0;
    if (fd < 0) {
        fd = open_plain(source->path, 0);
    }
    if (fd < 0) {
        return errno ? culm_error_errno(error, errno, "open '%s'", source->path)
                     : culm_error_set(error, CULM_ERR_FORMAT, "'%s' is not a plain file",
                                      source->path);
    }
    enum culm_status status =
        read_and_verify(run, source, fd, at, past ? room : source->bytes, error);
    if (!past) {
        (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    }
    close(fd);
    /* A file system that cannot read past the cache may say so only now. */
    return status == CULM_ERR_IO && past ? read_source(run, source, at, room, false, error)
                                         : status;
}

static enum culm_status describe(const struct culm_live *run, int32_t number,
                                 struct reading *source, struct culm_error *error) {
    const struct live_tensor *tensor = &run->tensor[number];
    source->number = number;
    source->tensor = tensor->of;
    source->turned = tensor->turned;
    source->verified = tensor->verified;
    source->stamp = tensor->stamp;
    source->bytes = run->store.source[number].bytes;
    return culm_package_tensor_path(run->store.source[number].place ? run->originals : run->package,
                                    tensor->of.digest, source->path, error);
}

bool live_intact(struct culm_live *run, int32_t number) {
    struct reading source;
    struct live_stamp stamp;
    struct culm_error error;
    pthread_mutex_lock(&run->lock);
    enum culm_status status = describe(run, number, &source, &error);
    pthread_mutex_unlock(&run->lock);
    int fd = status == CULM_OK && source.verified ? open_plain(source.path, 0) : -1;
    bool intact = fd >= 0 && stamp_of(fd, &stamp) && same_stamp(&stamp, &source.stamp);
    if (fd >= 0) {
        close(fd);
    }
    return intact;
}

/* Reads the sources of a unit. ret_again: all of them had been read and verified before. */
static enum culm_status read_sources(struct culm_live *run, const struct culm_live_unit *unit,
                                     char *at, bool *ret_again, struct culm_error *error) {
    enum culm_status status = CULM_OK;
    size_t offset = 0;
    *ret_again = true;
    for (int32_t i = 0; i < unit->count && status == CULM_OK; i++) {
        struct reading source;
        pthread_mutex_lock(&run->lock);
        status = describe(run, unit->source[i], &source, error);
        pthread_mutex_unlock(&run->lock);
        status = status
                     ? status
                     : read_source(run, &source, at + offset, unit->bytes, unit->count == 1, error);
        if (status == CULM_OK && !source.verified) {
            *ret_again = false;
            pthread_mutex_lock(&run->lock);
            run->tensor[source.number].verified = source.stamped;
            run->tensor[source.number].stamp = source.stamp;
            pthread_mutex_unlock(&run->lock);
        }
        offset += culm_live_round64(source.bytes);
    }
    return status;
}

/* --- the spool: units in one piece --- */

/* Turns O_DIRECT off, for a file system that refuses it only on reading or writing. False: it was
 * off. */
static bool use_cache(int fd) {
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && (flags & O_DIRECT) && fcntl(fd, F_SETFL, flags & ~O_DIRECT) == 0;
}

static bool spool_io(int fd, char *at, size_t bytes, off_t offset, bool write) {
    size_t done = 0;
    while (done < bytes) {
        ssize_t got = write ? pwrite(fd, at + done, bytes - done, offset + (off_t)done)
                            : pread(fd, at + done, bytes - done, offset + (off_t)done);
        if (got > 0) {
            done += (size_t)got;
        } else if (got == 0 || (errno != EINTR && !(errno == EINVAL && use_cache(fd)))) {
            return false;
        }
    }
    if (!(fcntl(fd, F_GETFL) & O_DIRECT)) {
        (void)posix_fadvise(fd, offset, (off_t)bytes, POSIX_FADV_DONTNEED);
    }
    return true;
}

/* An unnamed file; where the file system has none, a file with a unique name, removed at once. */
static int open_nameless(const char *folder) {
    char path[CULM_PATH_MAX];
    struct culm_error error;
    int fd = open(folder, O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
    if (fd < 0 && culm_path_format(path, &error, "%s/small.XXXXXX", folder) == CULM_OK &&
        (fd = mkostemp(path, O_CLOEXEC)) >= 0) {
        (void)unlink(path);
    }
    return fd;
}

static bool open_spool(struct culm_live *run) {
    int fd = open_nameless(run->out), flags = fd < 0 ? -1 : fcntl(fd, F_GETFL);
    if (flags >= 0) {
        (void)fcntl(fd, F_SETFL, flags | O_DIRECT); /* if that fails, it goes through the cache */
    }
    run->spool.file = fd + 1;
    return fd >= 0;
}

/* Whether the unit is in the layout in force or in the next one. */
static bool is_listed(const struct culm_live *run, int32_t number) {
    const struct culm_live_laid *const laid[] = {run->laid, run->next};
    for (int i = 0; i < 2; i++) {
        for (int32_t q = 0; laid[i] && q < laid[i]->layout.query_count; q++) {
            const struct culm_edge_query *query = &laid[i]->query[q];
            for (int32_t k = 0; k < query->tensor_count; k++) {
                if (query->tensor[k] == number) {
                    return true;
                }
            }
        }
    }
    return false;
}

/* Drops units of earlier layouts from the spool. Their space is reused, and the file is cut short
 * after the last unit left. Should they come again, they are read from their own files again. */
static void forget_unlisted(struct culm_live *run) {
    off_t end = 0;
    for (int32_t u = 0; u < run->spool.count; u++) {
        if (run->spool.at[u] >= 0 && !is_listed(run, u)) {
            run->spool.at[u] = -1;
        }
        off_t to = run->spool.at[u] + (off_t)run->store.unit[u].bytes;
        end = run->spool.at[u] >= 0 && to > end ? to : end;
    }
    if (run->spool.file && ftruncate(run->spool.file - 1, end) != 0) {
        return; /* the file just stays as long as it is */
    }
}

/* The first gap of so many bytes. */
static off_t place_for(const struct culm_live *run, size_t bytes) {
    const struct live_spool *spool = &run->spool;
    off_t at = 0;
    for (int32_t u = 0; u < spool->count; u++) {
        off_t end = spool->at[u] + (off_t)run->store.unit[u].bytes;
        if (spool->at[u] >= 0 && spool->at[u] < at + (off_t)bytes && end > at) {
            at = end;
            u = -1; /* start over */
        }
    }
    return at;
}

/* How much the spool holds of the layout in force and the next one, and in all. */
static void sum_kept(const struct culm_live *run, size_t *ret_listed, size_t *ret_all) {
    *ret_listed = *ret_all = 0;
    for (int32_t u = 0; u < run->spool.count; u++) {
        if (run->spool.at[u] >= 0) {
            size_t bytes = run->store.unit[u].bytes;
            *ret_all += bytes;
            *ret_listed += is_listed(run, u) ? bytes : 0;
        }
    }
}

/* Finds a place for a unit. Units of earlier layouts are kept as long as they take no more than the
 * others, and dropped otherwise or if `lean`. */
static off_t make_place(struct culm_live *run, size_t bytes, bool lean) {
    size_t listed, all;
    pthread_mutex_lock(&run->lock);
    sum_kept(run, &listed, &all);
    if (lean || all > 2 * listed + bytes) {
        forget_unlisted(run);
    }
    off_t at = place_for(run, bytes);
    pthread_mutex_unlock(&run->lock);
    return at;
}

/* Keeps a unit that was read from several files in the spool. If that fails, on a full disk, say,
 * the unit will be read from these files again. */
static void keep(struct culm_live *run, int32_t number, char *at, size_t bytes) {
    struct live_spool *spool = &run->spool;
    if (spool->failed || !CULM_GROW(spool->at, spool->capacity, number + 1)) {
        return;
    }
    while (spool->count <= number) {
        spool->at[spool->count++] = -1;
    }
    spool->at[number] = -1; /* it may be there already, but unreadable */
    for (int lean = 0; lean < 2 && spool->at[number] < 0; lean++) {
        off_t to = make_place(run, bytes, lean);
        if ((spool->file || open_spool(run)) && spool_io(spool->file - 1, at, bytes, to, true)) {
            spool->at[number] = to;
        }
    }
    spool->failed = spool->at[number] < 0;
}

static bool is_kept(const struct culm_live *run, int32_t number) {
    return number < run->spool.count && run->spool.at[number] >= 0;
}

/* --- units --- */

/* Reads a unit to its address. ret_again: it had been read before from the same place, so that the
 * time is that of a typical load. */
static enum culm_status bring_in(struct culm_live *run, int32_t number, size_t *ret_bytes,
                                 bool *ret_again, struct culm_error *error) {
    pthread_mutex_lock(&run->lock);
    struct culm_live_unit unit = run->store.unit[number]; /* its list of sources never moves */
    char *at = run->unit.at[number];
    pthread_mutex_unlock(&run->lock);
    enum culm_status status = culm_live_arena_hold(&run->arena, at, unit.bytes, error);
    bool kept = status == CULM_OK && is_kept(run, number) &&
                spool_io(run->spool.file - 1, at, unit.bytes, run->spool.at[number], false);
    *ret_bytes = unit.bytes;
    *ret_again = true;
    if (status == CULM_OK && !kept) {
        status = read_sources(run, &unit, at, ret_again, error);
        if (status == CULM_OK && unit.count > 1) {
            keep(run, number, at, unit.bytes);
            *ret_again = false;
        }
    }
    if (status != CULM_OK) {
        culm_live_arena_give_back(&run->arena, at, unit.bytes);
    }
    return status;
}

enum culm_status live_read(struct culm_live *run, int32_t number, struct culm_error *error) {
    uint64_t begin = culm_clock_ns();
    size_t bytes;
    enum culm_status status = bring_in(run, number, &bytes, &run->read_again, error);
    if (status == CULM_OK && run->rate_mb_per_s > 0) {
        /* If the last load overslept, this one makes up for it. */
        uint64_t from = run->line_free_ns + OVERSLEPT_NS > begin ? run->line_free_ns : begin;
        run->line_free_ns = from + (uint64_t)((double)bytes * 1e3 / run->rate_mb_per_s);
        wait_until(run, run->line_free_ns);
    }
    return status;
}

enum culm_status live_gather(struct culm_live *run, struct culm_error *error) {
    enum culm_status status = CULM_OK;
    for (int32_t q = 0; q < run->query_count; q++) {
        const struct culm_edge_query *of = &run->laid->query[q];
        for (int32_t i = 0; i < of->tensor_count && status == CULM_OK; i++) {
            size_t bytes;
            bool again;
            if (run->store.unit[of->tensor[i]].count > 1 && !is_kept(run, of->tensor[i])) {
                status = bring_in(run, of->tensor[i], &bytes, &again, error);
                if (status == CULM_OK) {
                    run->exec.ops->evict(&run->exec, of->tensor[i]);
                }
            }
        }
    }
    return status;
}

void live_loading(const struct culm_live *run, double *ret_ms, double *ret_mb_per_s) {
    const struct culm_live_profile *given = &run->catalog[0]->profile;
    const struct culm_live_loads *again = &run->loads[true];
    *ret_ms = given->load_ms;
    *ret_mb_per_s = given->mb_per_s;
    if (again->count >= MEASURED) {
        culm_live_loads_fit(again, ret_ms, ret_mb_per_s);
    } else if (run->loads[false].count > 0 && given->mb_per_s <= 0) {
        culm_live_loads_fit(&run->loads[false], ret_ms, ret_mb_per_s);
    }
    if (run->rate_mb_per_s > 0) {
        *ret_ms = 0;
        *ret_mb_per_s = run->rate_mb_per_s;
    }
}

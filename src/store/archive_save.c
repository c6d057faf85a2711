/* Saving checkpoints in a storage, and removing old ones. See archive.h. */
#include "store/archive_internal.h"

#include "base/hex.h"
#include "base/secret.h"
#include "store/manifest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEEP "keep.json"
#define KEEP_MAX 4096
#define TRIES 3 /* while others publish, or remove */
#define SHA_LEN (CULM_SHA256_HEX - 1)

struct culm_archive_source {
    struct archive_manifest manifest; /* a part that has the name of an object has been hashed */
    int *fd;                          /* [file_count] */
    bool *sent;                       /* [part_count]: it is there, as far as we know */
    bool *again;                      /* [part_count]: it is of another attempt */
    int32_t *file_of;                 /* [part_count] */
    size_t longest;                   /* part */
    bool alone;                       /* nothing is used again */
};

static enum culm_status no_memory(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
}

/* --- what is to be saved --- */

void culm_archive_source_free(struct culm_archive_source *source) {
    if (!source) {
        return;
    }
    for (size_t i = 0; i < source->manifest.file_count && source->fd; i++) {
        if (source->fd[i] >= 0) {
            close(source->fd[i]);
        }
    }
    free(source->fd);
    free(source->sent);
    free(source->again);
    free(source->file_of);
    archive_manifest_release(&source->manifest);
    free(source);
}

int64_t culm_archive_source_step(const struct culm_archive_source *source) {
    return source->manifest.step;
}

/* As long as it is now: what is appended meanwhile belongs to the next one. */
static enum culm_status add_file(struct culm_archive_source *s, size_t capacity, const char *dir,
                                 const char *name, const char *as, struct culm_error *error) {
    char path[CULM_PATH_MAX];
    struct stat info;
    enum culm_status status = culm_path_format(path, error, "%s/%s", dir, name);
    if (status != CULM_OK) {
        return status;
    }
    const size_t at = s->manifest.file_count;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return culm_error_open(error, errno, "open", path);
    }
    if (fstat(fd, &info) < 0 || !S_ISREG(info.st_mode)) {
        close(fd);
        return culm_error_set(error, CULM_ERR_FORMAT, "'%s' is not a file", path);
    }
    if (at == capacity || !archive_manifest_add(&s->manifest, as, (uint64_t)info.st_size)) {
        close(fd);
        return no_memory(error);
    }
    s->fd[at] = fd;
    return CULM_OK;
}

static enum culm_status add_checkpoint(struct culm_archive_source *s, size_t capacity,
                                       const char *path, const struct culm_manifest *manifest,
                                       struct culm_error *error) {
    char as[160];
    enum culm_status status =
        add_file(s, capacity, path, "manifest.json", ARCHIVE_CHECKPOINT "manifest.json", error);
    for (size_t i = 0; i < manifest->piece_count && status == CULM_OK; i++) {
        snprintf(as, sizeof as, ARCHIVE_CHECKPOINT "%s", manifest->piece[i].file);
        status = add_file(s, capacity, path, manifest->piece[i].file, as, error);
    }
    return status;
}

static enum culm_status add_beside(struct culm_archive_source *s, size_t capacity, const char *dir,
                                   const char *const *beside, struct culm_error *error) {
    for (; *beside; beside++) {
        enum culm_status status = add_file(s, capacity, dir, *beside, *beside, error);
        if (status != CULM_OK && status != CULM_ERR_NOT_FOUND) {
            return status;
        }
    }
    return CULM_OK;
}

static enum culm_status make_room(struct culm_archive_source *s, struct culm_error *error) {
    const struct archive_manifest *m = &s->manifest;
    s->sent = calloc(m->part_count + 1, sizeof *s->sent);
    s->again = calloc(m->part_count + 1, sizeof *s->again);
    s->file_of = calloc(m->part_count + 1, sizeof *s->file_of);
    if (!s->sent || !s->again || !s->file_of) {
        return no_memory(error);
    }
    for (size_t i = 0; i < m->file_count; i++) {
        for (size_t j = 0; j < m->file[i].count; j++) {
            s->file_of[m->file[i].first + j] = (int32_t)i;
        }
    }
    for (size_t i = 0; i < m->part_count; i++) {
        s->longest = m->part[i].bytes > s->longest ? m->part[i].bytes : s->longest;
    }
    return CULM_OK;
}

static enum culm_status draw_attempt(struct culm_archive_source *s, struct culm_error *error) {
    unsigned char bytes[(ARCHIVE_ATTEMPT_SIZE - 1) / 2];
    enum culm_status status = culm_secret_random(bytes, sizeof bytes, error);
    if (status == CULM_OK) {
        culm_hex(bytes, sizeof bytes, s->manifest.attempt);
    }
    return status;
}

enum culm_status culm_archive_source_open(const char *run_dir, const char *path, const char *run,
                                          const char *const *beside,
                                          struct culm_archive_source **ret_source,
                                          struct culm_error *error) {
    struct culm_manifest manifest = {0};
    struct culm_archive_source *s = NULL;
    size_t capacity = 1;
    enum culm_status status = culm_manifest_read(path, &manifest, error);
    if (status != CULM_OK) {
        return status;
    }
    for (const char *const *name = beside; *name; name++) {
        capacity++;
    }
    capacity += manifest.piece_count;
    if (!(s = calloc(1, sizeof *s)) || !(s->fd = calloc(capacity, sizeof *s->fd))) {
        status = no_memory(error);
        goto out;
    }
    for (size_t i = 0; i < capacity; i++) {
        s->fd[i] = -1;
    }
    s->manifest.step = manifest.info.step;
    snprintf(s->manifest.run, sizeof s->manifest.run, "%s", run);
    status = add_checkpoint(s, capacity, path, &manifest, error);
    if (status == CULM_OK) {
        status = add_beside(s, capacity, run_dir, beside, error);
    }
    if (status == CULM_OK) {
        status = make_room(s, error);
    }
    if (status == CULM_OK) {
        status = draw_attempt(s, error);
    }
    if (status == CULM_OK) {
        *ret_source = s;
        s = NULL;
    }
out:
    culm_archive_source_free(s);
    culm_manifest_release(&manifest);
    return status;
}

/* --- what may be used again --- */

/* Entries are "SHA256/OBJECT", sorted: which object has these bytes. */
static bool add_objects(struct culm_names *reusable, const struct archive_manifest *m) {
    char entry[SHA_LEN + 1 + CULM_STORAGE_NAME_MAX];
    for (size_t i = 0; i < m->part_count; i++) {
        const char *object = m->part[i].object;
        int len = snprintf(entry, sizeof entry, "%s/%s", strrchr(object, '/') + 1, object);
        if (!culm_storage_names_add(reusable, entry, (size_t)len)) {
            return false;
        }
    }
    return true;
}

static int compare_sha(const void *sha256, const void *entry) {
    return strncmp(sha256, *(char *const *)entry, SHA_LEN);
}

static const char *find_object(const struct culm_names *reusable, const char *sha256) {
    char *const *found = reusable->count > 0 ? bsearch(sha256, reusable->name, reusable->count,
                                                       sizeof *reusable->name, compare_sha)
                                             : NULL;
    return found ? *found + SHA_LEN + 1 : NULL;
}

static enum culm_status read_keep(struct culm_storage *storage, int64_t *ret_keep,
                                  struct culm_error *error) {
    char *text;
    size_t len;
    *ret_keep = 0;
    enum culm_status status = storage->ops->get(storage, KEEP, KEEP_MAX, &text, &len, error);
    if (status == CULM_OK) {
        json_t *json = json_loadb(text, len, 0, NULL);
        *ret_keep = json_integer_value(json_object_get(json, "keep"));
        json_decref(json);
        free(text);
    }
    return archive_forgive(status, CULM_ERR_NOT_FOUND, error);
}

/* Objects of all checkpoints at or above `keep` but `step`, which are not removed before `keep` goes up. One that was
 * removed meanwhile, or is damaged, has none. */
static enum culm_status read_reusable(struct culm_storage *storage, int64_t step,
                                      struct culm_names *ret_names, struct culm_error *error) {
    struct culm_names names = {0};
    int64_t keep, *all = NULL;
    size_t count = 0;
    enum culm_status status = read_keep(storage, &keep, error);
    if (status == CULM_OK) {
        status = archive_steps(storage, &all, &count, error);
    }
    for (size_t i = 0; i < count && status == CULM_OK; i++) {
        struct archive_manifest m = {0};
        if (all[i] < keep || all[i] == step) {
            continue;
        }
        status = archive_manifest_get(storage, all[i], &m, error);
        if (status == CULM_OK && !add_objects(&names, &m)) {
            status = no_memory(error);
        }
        status = archive_forgive(status, CULM_ERR_NOT_FOUND, error);
        status = archive_forgive(status, CULM_ERR_FORMAT, error);
        archive_manifest_release(&m);
    }
    free(all);
    if (status != CULM_OK) {
        culm_names_release(&names);
        return status;
    }
    culm_storage_names_sort(&names);
    *ret_names = names;
    return CULM_OK;
}

/* --- sending --- */

struct sending {
    struct culm_storage *storage;
    struct culm_archive_source *source;
    const struct culm_names *reusable;
    atomic_ullong sent;
};

/* Reads part `index` into `room`, and gives it a name by what it has. */
static enum culm_status hash_part(void *ctx, size_t index, char *room, struct culm_error *error) {
    const struct sending *sending = ctx;
    struct culm_archive_source *s = sending->source;
    struct archive_manifest *m = &s->manifest;
    const struct archive_file *file = &m->file[s->file_of[index]];
    struct archive_part *part = &m->part[index];
    char sha256[CULM_SHA256_HEX], name[CULM_STORAGE_NAME_MAX];
    uint64_t at = (index - file->first) * ARCHIVE_PART_BYTES;
    for (uint64_t done = 0; done < part->bytes;) {
        ssize_t got =
            pread(s->fd[s->file_of[index]], room + done, part->bytes - done, (off_t)(at + done));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return got < 0
                       ? culm_error_errno(error, errno, "read '%s'", file->name)
                       : culm_error_set(error, CULM_ERR_IO, "read '%s': it was cut", file->name);
        }
        done += (uint64_t)got;
    }
    enum culm_status status = culm_sha256_of(room, part->bytes, sha256);
    if (status != CULM_OK) {
        return culm_error_set(error, status, "libcrypto has no SHA-256");
    }
    archive_attempt_name(m->step, m->attempt, name);
    snprintf(part->object, sizeof part->object, "%.100s%s", name, sha256);
    return CULM_OK;
}

static enum culm_status hash_missing(void *ctx, size_t index, char *room,
                                     struct culm_error *error) {
    const struct sending *sending = ctx;
    return sending->source->manifest.part[index].object[0] ? CULM_OK
                                                           : hash_part(ctx, index, room, error);
}

static enum culm_status send_part(void *ctx, size_t index, char *room, struct culm_error *error) {
    struct sending *sending = ctx;
    struct culm_archive_source *s = sending->source;
    struct archive_part *part = &s->manifest.part[index];
    if (s->sent[index]) {
        return CULM_OK;
    }
    enum culm_status status = hash_part(ctx, index, room, error);
    if (status != CULM_OK) {
        return status;
    }
    const char *there = find_object(sending->reusable, strrchr(part->object, '/') + 1);
    if (there) {
        snprintf(part->object, sizeof part->object, "%s", there);
        s->again[index] = true;
    } else {
        status = sending->storage->ops->put(sending->storage, part->object, room, part->bytes,
                                            false, error);
        if (status != CULM_OK) {
            return status;
        }
        atomic_fetch_add(&sending->sent, part->bytes);
    }
    s->sent[index] = true;
    return CULM_OK;
}

/* In another attempt, and with objects of its own. */
static enum culm_status forget_sent(struct culm_archive_source *s, struct culm_error *error) {
    for (size_t i = 0; i < s->manifest.part_count; i++) {
        s->sent[i] = s->again[i] = false;
    }
    s->alone = true;
    return draw_attempt(s, error);
}

/* --- the manifest --- */

static enum culm_status remove_manifest(struct culm_storage *storage, int64_t step,
                                        struct culm_error *error) {
    char name[CULM_STORAGE_NAME_MAX];
    archive_manifest_name(step, name);
    return storage->ops->remove(storage, name, error);
}

static enum culm_status put_manifest(struct culm_storage *storage, const struct archive_manifest *m,
                                     struct culm_error *error) {
    char name[CULM_STORAGE_NAME_MAX];
    char *text = archive_manifest_text(m);
    archive_manifest_name(m->step, name);
    enum culm_status status =
        text ? storage->ops->put(storage, name, text, strlen(text), true, error) : no_memory(error);
    free(text);
    return status;
}

static bool uses_again(const struct culm_archive_source *s) {
    for (size_t i = 0; i < s->manifest.part_count; i++) {
        if (s->again[i]) {
            return true;
        }
    }
    return false;
}

/* What is used again must be named by another manifest that stays, as it is now that ours is there: who removes reads that. */
static enum culm_status check_again(struct culm_storage *storage,
                                    const struct culm_archive_source *s, struct culm_error *error) {
    struct culm_names names = {0};
    if (!uses_again(s)) {
        return CULM_OK;
    }
    enum culm_status status = read_reusable(storage, s->manifest.step, &names, error);
    for (size_t i = 0; i < s->manifest.part_count && status == CULM_OK; i++) {
        const char *object = s->manifest.part[i].object;
        char entry[SHA_LEN + 1 + CULM_STORAGE_NAME_MAX];
        snprintf(entry, sizeof entry, "%s/%s", strrchr(object, '/') + 1, object);
        if (s->again[i] && !archive_has(&names, entry)) {
            status = culm_error_set(error, CULM_ERR_FORMAT, "'%s' was removed", object);
        }
    }
    culm_names_release(&names);
    return status;
}

/* Whether what is there, and whole, is what is to be saved. CULM_ERR_EXISTS: it is not. */
static enum culm_status compare_with(struct sending *sending, const struct archive_manifest *there,
                                     struct culm_error *error) {
    const struct archive_manifest *own = &sending->source->manifest;
    const char *place = sending->storage->place;
    enum culm_status status =
        archive_each(own->part_count, sending->source->longest, hash_missing, sending, error);
    if (status != CULM_OK) {
        return status;
    }
    if (own->run[0] && there->run[0] && strcmp(own->run, there->run) != 0) {
        return culm_error_set(
            error, CULM_ERR_EXISTS,
            "'%s' has a checkpoint of step %lld of another run (%s); name another "
            "place with checkpoint.to",
            place, (long long)own->step, there->run);
    }
    return archive_manifest_equal(own, there)
               ? CULM_OK
               : culm_error_set(error, CULM_ERR_EXISTS,
                                "'%s' has another checkpoint of step %lld of this run, which stays",
                                place, (long long)own->step);
}

/* A version that is there is not published again; what cannot be loaded is not there. It may be ours, if the answer was
 * lost that it has been put. */
static enum culm_status look_for_same(struct sending *sending, bool *ret_found,
                                      struct culm_error *error) {
    struct culm_storage *storage = sending->storage;
    struct culm_archive_source *s = sending->source;
    struct archive_manifest there = {0};
    struct culm_error problem;
    *ret_found = false;
    enum culm_status status = archive_manifest_get(storage, s->manifest.step, &there, &problem);
    if (status == CULM_ERR_NOT_FOUND) {
        return CULM_OK;
    }
    bool ours = status == CULM_OK && strcmp(there.attempt, s->manifest.attempt) == 0;
    if (status == CULM_OK) {
        status = archive_manifest_check(storage, &there, &problem);
    }
    if (status == CULM_OK && ours) {
        status = check_again(storage, s, &problem);
    }
    if (status == CULM_ERR_FORMAT) {
        status = remove_manifest(storage, s->manifest.step, &problem);
    } else if (status == CULM_OK) {
        status = compare_with(sending, &there, &problem);
        *ret_found = status == CULM_OK;
    }
    archive_manifest_release(&there);
    return status == CULM_OK ? CULM_OK : culm_error_set(error, status, "%s", problem.text);
}

static enum culm_status send_all(struct sending *sending, struct culm_error *error) {
    struct culm_archive_source *s = sending->source;
    struct culm_names reusable = {0};
    enum culm_status status = CULM_OK;
    if (!s->alone) {
        status = read_reusable(sending->storage, s->manifest.step, &reusable, error);
    }
    sending->reusable = &reusable;
    if (status == CULM_OK) {
        status = archive_each(s->manifest.part_count, s->longest, send_part, sending, error);
    }
    culm_names_release(&reusable);
    return status;
}

/* CULM_ERR_FORMAT: what it needs was removed meanwhile, and the manifest is gone again. */
static enum culm_status publish(struct sending *sending, struct culm_error *error) {
    struct culm_storage *storage = sending->storage;
    struct culm_archive_source *s = sending->source;
    struct culm_error problem;
    enum culm_status status = put_manifest(storage, &s->manifest, error);
    if (status != CULM_OK) {
        return status;
    }
    status = archive_manifest_check(storage, &s->manifest, &problem);
    if (status == CULM_OK) {
        status = check_again(storage, s, &problem);
    }
    if (status != CULM_ERR_FORMAT) {
        return status == CULM_OK ? CULM_OK : culm_error_set(error, status, "%s", problem.text);
    }
    enum culm_status removed = remove_manifest(storage, s->manifest.step, error);
    if (removed == CULM_OK) {
        removed = forget_sent(s, error);
    }
    return removed == CULM_OK ? culm_error_set(error, CULM_ERR_FORMAT, "%s", problem.text)
                              : removed;
}

enum culm_status culm_archive_forget(struct culm_storage *storage, int64_t step,
                                     struct culm_error *error) {
    return remove_manifest(storage, step, error);
}

enum culm_status culm_archive_save(struct culm_storage *storage, struct culm_archive_source *source,
                                   struct culm_archive_saved *ret_saved, struct culm_error *error) {
    struct sending sending = {.storage = storage, .source = source};
    struct culm_archive_saved saved = {0};
    enum culm_status status = CULM_OK;
    for (size_t i = 0; i < source->manifest.part_count; i++) {
        saved.bytes += source->manifest.part[i].bytes;
    }
    for (int tries = 0; tries < TRIES; tries++) {
        status = look_for_same(&sending, &saved.found, error);
        if (status == CULM_OK && !saved.found) {
            status = send_all(&sending, error);
        }
        if (status == CULM_OK && !saved.found) {
            status = publish(&sending, error);
        } else {
            break;
        }
        if (status != CULM_ERR_EXISTS && status != CULM_ERR_FORMAT) {
            break;
        }
    }
    saved.sent = atomic_load(&sending.sent);
    if (status == CULM_OK) {
        *ret_saved = saved;
    }
    return status == CULM_OK ? CULM_OK
                             : culm_error_prefix(error, "checkpoint of step %lld",
                                                 (long long)source->manifest.step);
}

/* --- removing --- */

struct removing {
    struct culm_storage *storage;
    char **name;
};

static enum culm_status remove_one(void *ctx, size_t index, char *room, struct culm_error *error) {
    const struct removing *removing = ctx;
    (void)room;
    return removing->storage->ops->remove(removing->storage, removing->name[index], error);
}

/* Objects below `keep` that no manifest at or above it names. */
static enum culm_status remove_objects(struct culm_storage *storage, int64_t keep,
                                       const struct culm_names *named, struct culm_error *error) {
    struct culm_names all = {0};
    enum culm_status status = storage->ops->list(storage, "objects/", &all, error);
    struct removing removing = {.storage = storage};
    size_t count = 0;
    if (status == CULM_OK && !(removing.name = calloc(all.count + 1, sizeof *removing.name))) {
        status = no_memory(error);
    }
    for (size_t i = 0; i < all.count && status == CULM_OK; i++) {
        int64_t step;
        const char *sha256, *there;
        if (archive_object_is(all.name[i], &step, &sha256) && step < keep) {
            there = find_object(named, sha256);
            /* Of the same bytes there may be several objects, of which some are named. */
            char entry[SHA_LEN + 1 + CULM_STORAGE_NAME_MAX];
            snprintf(entry, sizeof entry, "%s/%.*s", sha256, CULM_STORAGE_NAME_MAX - 1,
                     all.name[i]);
            if (!there || !archive_has(named, entry)) {
                removing.name[count++] = all.name[i];
            }
        }
    }
    if (status == CULM_OK) {
        status = archive_each(count, 0, remove_one, &removing, error);
    }
    free(removing.name);
    culm_names_release(&all);
    return status;
}

static enum culm_status put_keep(struct culm_storage *storage, int64_t keep,
                                 struct culm_error *error) {
    char text[64];
    int64_t before;
    enum culm_status status = read_keep(storage, &before, error);
    if (status != CULM_OK || before >= keep) {
        return status;
    }
    int len = snprintf(text, sizeof text, "{\"keep\": %lld}\n", (long long)keep);
    return storage->ops->put(storage, KEEP, text, (size_t)len, false, error);
}

/* `keep` has been put: from now on whoever uses something again looks at it. A manifest that cannot be read may name
 * anything, so that objects stay. */
static enum culm_status remove_below(struct culm_storage *storage, int64_t keep,
                                     size_t *ret_removed, struct culm_error *error) {
    struct culm_names named = {0};
    int64_t *step = NULL;
    size_t count = 0;
    enum culm_status status = archive_steps(storage, &step, &count, error);
    for (size_t i = 0; i < count && status == CULM_OK; i++) {
        struct archive_manifest m = {0};
        if (step[i] < keep) {
            status = remove_manifest(storage, step[i], error);
            *ret_removed += status == CULM_OK;
            continue;
        }
        status = archive_manifest_get(storage, step[i], &m, error);
        if (status == CULM_OK && !add_objects(&named, &m)) {
            status = no_memory(error);
        }
        archive_manifest_release(&m);
        status = archive_forgive(status, CULM_ERR_NOT_FOUND, error);
    }
    free(step);
    if (status == CULM_OK) {
        culm_storage_names_sort(&named);
        status = remove_objects(storage, keep, &named, error);
    }
    culm_names_release(&named);
    return status;
}

enum culm_status culm_archive_prune(struct culm_storage *storage, int64_t step, int64_t keep,
                                    size_t *ret_removed, struct culm_error *error) {
    int64_t *all, least = -1;
    size_t count;
    *ret_removed = 0;
    enum culm_status status = archive_steps(storage, &all, &count, error);
    if (status != CULM_OK) {
        return status;
    }
    for (size_t i = count; i > 0 && keep > 0; i--) {
        if (all[i - 1] <= step) {
            least = all[i - 1];
            keep--;
        }
    }
    free(all);
    if (least < 0) {
        return CULM_OK;
    }
    status = put_keep(storage, least, error);
    return status == CULM_OK ? remove_below(storage, least, ret_removed, error) : status;
}

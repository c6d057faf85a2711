/* What an archive has, and fetching it. See archive.h. */
#include "store/archive_internal.h"

#include "store/manifest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static enum culm_status no_memory(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
}

/* --- looking --- */

/* CULM_OK also of one that is not whole, which it says. */
static enum culm_status look_at(struct culm_storage *storage, int64_t step,
                                struct culm_archive_about *ret_about, struct culm_error *error) {
    struct archive_manifest m = {0};
    struct culm_error problem = {0};
    *ret_about = (struct culm_archive_about){.step = step};
    enum culm_status status = archive_manifest_get(storage, step, &m, &problem);
    if (status == CULM_OK) {
        snprintf(ret_about->run, sizeof ret_about->run, "%s", m.run);
        ret_about->files = m.file_count;
        ret_about->parts = m.part_count;
        for (size_t i = 0; i < m.part_count; i++) {
            ret_about->bytes += m.part[i].bytes;
        }
        status = archive_manifest_check(storage, &m, &problem);
    }
    archive_manifest_release(&m);
    ret_about->whole = status == CULM_OK;
    if (status == CULM_ERR_FORMAT || status == CULM_ERR_NOT_FOUND) {
        memcpy(ret_about->why, problem.text, sizeof ret_about->why);
        return CULM_OK;
    }
    return status == CULM_OK ? CULM_OK : culm_error_set(error, status, "%s", problem.text);
}

enum culm_status culm_archive_list(struct culm_storage *storage,
                                   struct culm_archive_about **ret_about, size_t *ret_count,
                                   struct culm_error *error) {
    int64_t *step = NULL;
    size_t count;
    enum culm_status status = archive_steps(storage, &step, &count, error);
    if (status != CULM_OK) {
        return status;
    }
    struct culm_archive_about *about = calloc(count + 1, sizeof *about);
    status = about ? CULM_OK : no_memory(error);
    for (size_t i = 0; i < count && status == CULM_OK; i++) {
        status = look_at(storage, step[i], &about[i], error);
    }
    free(step);
    if (status != CULM_OK) {
        free(about);
        return status;
    }
    *ret_about = about;
    *ret_count = count;
    return CULM_OK;
}

enum culm_status culm_archive_latest(struct culm_storage *storage, int64_t most,
                                     struct culm_archive_about *ret_about,
                                     char ret_warning[CULM_ERROR_MAX], struct culm_error *error) {
    int64_t *step = NULL;
    size_t count;
    bool found = false;
    char warning[CULM_ERROR_MAX] = "";
    struct culm_archive_about about;
    enum culm_status status = archive_steps(storage, &step, &count, error);
    if (status != CULM_OK) {
        return status;
    }
    for (size_t i = count; i > 0 && !found && status == CULM_OK; i--) {
        if (step[i - 1] > most) {
            continue;
        }
        status = look_at(storage, step[i - 1], &about, error);
        found = status == CULM_OK && about.whole;
        if (status == CULM_OK && !found && !warning[0]) {
            memcpy(warning, about.why, sizeof warning);
        }
    }
    free(step);
    if (status != CULM_OK) {
        return status;
    }
    if (!found) {
        return warning[0] ? culm_error_set(error, CULM_ERR_FORMAT, "%s", warning)
                          : culm_error_set(error, CULM_ERR_NOT_FOUND,
                                           "there is no checkpoint in '%s'", storage->place);
    }
    memcpy(ret_warning, warning, sizeof warning);
    *ret_about = about;
    return CULM_OK;
}

/* --- fetching --- */

struct fetching {
    struct culm_storage *storage;
    const struct archive_manifest *manifest;
    const struct archive_file *file;
    int fd;
};

static enum culm_status fetch_part(void *ctx, size_t index, char *room, struct culm_error *error) {
    const struct fetching *fetching = ctx;
    const struct archive_part *part = &fetching->manifest->part[fetching->file->first + index];
    char sha256[CULM_SHA256_HEX], *data;
    size_t len;
    (void)room;
    enum culm_status status = fetching->storage->ops->get(fetching->storage, part->object,
                                                          ARCHIVE_PART_BYTES, &data, &len, error);
    if (status != CULM_OK) {
        return status;
    }
    status = culm_sha256_of(data, len, sha256);
    if (status != CULM_OK) {
        culm_error_set(error, status, "libcrypto has no SHA-256");
    } else if (len != part->bytes || strcmp(sha256, strrchr(part->object, '/') + 1) != 0) {
        status = culm_error_set(error, CULM_ERR_FORMAT, "'%s/%s' is damaged",
                                fetching->storage->place, part->object);
    }
    for (size_t done = 0; done < len && status == CULM_OK;) {
        ssize_t put = pwrite(fetching->fd, data + done, len - done,
                             (off_t)(index * ARCHIVE_PART_BYTES + done));
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put < 0) {
            status = culm_error_errno(error, errno, "write '%s'", fetching->file->name);
        }
        done += put > 0 ? (size_t)put : 0;
    }
    free(data);
    return status;
}

/* Whole and synced, or not there. */
static enum culm_status fetch_file(struct culm_storage *storage, const struct archive_manifest *m,
                                   const struct archive_file *file, const char *path,
                                   struct culm_error *error) {
    struct culm_file out;
    enum culm_status status = culm_file_create(NULL, path, &out, error);
    if (status != CULM_OK) {
        return status;
    }
    struct fetching fetching = {.storage = storage, .manifest = m, .file = file, .fd = out.fd};
    status = archive_each(file->count, 0, fetch_part, &fetching, error);
    if (status != CULM_OK) {
        culm_file_abandon(&out);
        return status;
    }
    return culm_file_finish(&out, error);
}

static const char *own_name(const struct archive_file *file) {
    const size_t len = sizeof ARCHIVE_CHECKPOINT - 1;
    return strncmp(file->name, ARCHIVE_CHECKPOINT, len) == 0 ? file->name + len : NULL;
}

static enum culm_status fetch_checkpoint(struct culm_storage *storage,
                                         const struct archive_manifest *m, const char *run_dir,
                                         struct culm_error *error) {
    char fresh[CULM_PATH_MAX], path[CULM_PATH_MAX];
    enum culm_status status =
        culm_checkpoint_name(run_dir, CULM_CHECKPOINT_TMP, m->step, fresh, error);
    if (status == CULM_OK) {
        status = culm_tree_remove(NULL, fresh, error);
    }
    if (status == CULM_OK) {
        status = culm_dir_make(NULL, fresh, error);
    }
    for (size_t i = 0; i < m->file_count && status == CULM_OK; i++) {
        const char *name = own_name(&m->file[i]);
        if (!name) {
            continue;
        }
        status = culm_path_format(path, error, "%s/%s", fresh, name);
        if (status == CULM_OK) {
            status = fetch_file(storage, m, &m->file[i], path, error);
        }
    }
    if (status == CULM_OK) {
        status = culm_checkpoint_check(fresh, m->step, false, error);
    }
    if (status == CULM_OK) {
        status = culm_checkpoint_path(run_dir, m->step, path, error);
    }
    if (status == CULM_OK && culm_file_exists(path)) {
        status = culm_checkpoint_remove(NULL, run_dir, m->step, error);
    }
    return status == CULM_OK ? culm_file_rename(NULL, fresh, path, error) : status;
}

static const struct archive_file *find_file(const struct archive_manifest *m, const char *name) {
    for (size_t i = 0; i < m->file_count; i++) {
        if (strcmp(m->file[i].name, name) == 0) {
            return &m->file[i];
        }
    }
    return NULL;
}

/* Under another name first: what is there is whole, or the new one is. Nothing else that a manifest may name is written. */
static enum culm_status fetch_beside(struct culm_storage *storage, const struct archive_manifest *m,
                                     const char *run_dir, const char *const *beside,
                                     struct culm_error *error) {
    char fresh[CULM_PATH_MAX], path[CULM_PATH_MAX];
    enum culm_status status = CULM_OK;
    for (; *beside && status == CULM_OK; beside++) {
        const struct archive_file *file = find_file(m, *beside);
        if (!file) {
            continue;
        }
        status = culm_path_format(path, error, "%s/%s", run_dir, *beside);
        if (status == CULM_OK) {
            status = culm_path_format(fresh, error, "%s/.%s.tmp", run_dir, *beside);
        }
        if (status == CULM_OK) {
            status = fetch_file(storage, m, file, fresh, error);
        }
        if (status == CULM_OK) {
            status = culm_file_rename(NULL, fresh, path, error);
        }
    }
    return status;
}

static enum culm_status fetch(struct culm_storage *storage, int64_t step, const char *run_dir,
                              bool whole, const char *const *beside, struct culm_error *error) {
    struct archive_manifest m = {0};
    enum culm_status status = archive_manifest_get(storage, step, &m, error);
    if (status == CULM_OK && whole) {
        status = fetch_checkpoint(storage, &m, run_dir, error);
    }
    if (status == CULM_OK && beside) {
        status = fetch_beside(storage, &m, run_dir, beside, error);
    }
    archive_manifest_release(&m);
    return status == CULM_OK
               ? CULM_OK
               : culm_error_prefix(error, "fetch the checkpoint of step %lld from '%s'",
                                   (long long)step, storage->place);
}

enum culm_status culm_archive_fetch(struct culm_storage *storage, int64_t step, const char *run_dir,
                                    const char *const *beside, struct culm_error *error) {
    return fetch(storage, step, run_dir, true, beside, error);
}

enum culm_status culm_archive_fetch_beside(struct culm_storage *storage, int64_t step,
                                           const char *run_dir, const char *const *beside,
                                           struct culm_error *error) {
    return fetch(storage, step, run_dir, false, beside, error);
}

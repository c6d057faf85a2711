/* See stored.h. */
#include "launch/stored.h"

#include "base/file.h"
#include "store/checkpoint.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FILE_MAX_BYTES ((size_t)1 << 30)

struct stored {
    struct culm_apart apart; /* first */
    struct culm_storage *storage;
    struct culm_uploads *uploads;
    const char *dir;
    pthread_mutex_t lock; /* one fetches, or gathers, at a time */
    char beside[CULM_PATH_MAX];
    bool fetched; /* events of the reigns before are there */
    long begin,
        added; /* where this reign's begin in its own file, and up to where they were added */
};

static enum culm_status stored_find(struct culm_apart *apart, int64_t most, int64_t *ret_step,
                                    struct culm_error *error) {
    const struct stored *s = (const struct stored *)apart;
    struct culm_archive_about about;
    char warning[CULM_ERROR_MAX];
    const enum culm_status status = culm_archive_latest(s->storage, most, &about, warning, error);
    *ret_step = status == CULM_OK ? about.step : 0;
    return status;
}

/* --- what lies beside them --- */

/* Those of the reigns before, as the newest checkpoint has them; none if there is none, or none is whole. */
static enum culm_status fetch_before(struct stored *s, struct culm_error *error) {
    static const char *const events[] = {"events.jsonl", NULL};
    int64_t step;
    enum culm_status status = culm_tree_remove(NULL, s->beside, error); /* of an earlier reign */
    status = status ? status : culm_dir_make(NULL, s->beside, error);
    if (status != CULM_OK) {
        return status;
    }
    s->added = s->begin;
    status = stored_find(&s->apart, INT64_MAX, &step, error);
    if (status == CULM_OK) {
        status = culm_archive_fetch_beside(s->storage, step, s->beside, events, error);
    } else if (status == CULM_ERR_NOT_FOUND || status == CULM_ERR_FORMAT) {
        culm_error_clear(error);
        status = CULM_OK;
    }
    return status;
}

static enum culm_status path_in(const char *dir, const char *name, char ret_path[CULM_PATH_MAX],
                                struct culm_error *error) {
    return culm_path_format(ret_path, error, "%s/%s", dir, name);
}

/* The lines of this reign that have not been added yet: whole ones, as they are written. */
static enum culm_status add_events(struct stored *s, struct culm_error *error) {
    char from[CULM_PATH_MAX], to[CULM_PATH_MAX], line[1 << 16];
    enum culm_status status = path_in(s->dir, "events.jsonl", from, error);
    status = status ? status : path_in(s->beside, "events.jsonl", to, error);
    if (status != CULM_OK) {
        return status;
    }
    FILE *in = fopen(from, "re"), *out = in ? fopen(to, "ae") : NULL;
    if (!in || !out || fseek(in, s->added, SEEK_SET)) {
        status = culm_error_errno(error, errno, "copy '%.300s' to '%.300s'", from, to);
    }
    size_t got;
    while (status == CULM_OK && (got = fread(line, 1, sizeof line, in)) > 0) {
        if (fwrite(line, 1, got, out) != got) {
            status = culm_error_errno(error, errno, "write '%.300s'", to);
        } else {
            s->added += (long)got;
        }
    }
    if (out && fclose(out) && status == CULM_OK) {
        status = culm_error_errno(error, errno, "write '%.300s'", to);
    }
    if (in) {
        fclose(in);
    }
    return status;
}

static enum culm_status copy_file(const struct stored *s, const char *name,
                                  struct culm_error *error) {
    char from[CULM_PATH_MAX], to[CULM_PATH_MAX];
    char *data = NULL;
    size_t len = 0;
    enum culm_status status = path_in(s->dir, name, from, error);
    status = status ? status : path_in(s->beside, name, to, error);
    if (status != CULM_OK || !culm_file_exists(from)) {
        return status;
    }
    status = culm_file_read(NULL, from, FILE_MAX_BYTES, &data, &len, error);
    status = status ? status : culm_file_replace(NULL, to, data, len, error);
    free(data);
    return status;
}

static enum culm_status gather(struct stored *s, struct culm_error *error) {
    enum culm_status status = s->fetched ? CULM_OK : fetch_before(s, error);
    status = status ? status : add_events(s, error);
    for (const char *const *name = culm_uploads_beside; *name && status == CULM_OK; name++) {
        if (strcmp(*name, "events.jsonl") != 0) {
            status = copy_file(s, *name, error);
        }
    }
    s->fetched = status == CULM_OK; /* what is there by half is gathered anew */
    return status;
}

/* --- the table --- */

static enum culm_status stored_keep(struct culm_apart *apart, int64_t step, const char *path,
                                    struct culm_error *error) {
    struct stored *s = (struct stored *)apart;
    pthread_mutex_lock(&s->lock);
    const enum culm_status status = gather(s, error);
    pthread_mutex_unlock(&s->lock);
    if (status != CULM_OK) {
        return status;
    }
    culm_uploads_send_with(s->uploads, path, s->beside);
    return culm_uploads_await(s->uploads, step, CULM_STORED_MS, error);
}

static enum culm_status stored_fetch(struct culm_apart *apart, const char *run_dir, int64_t step,
                                     struct culm_error *error) {
    struct stored *s = (struct stored *)apart;
    char path[CULM_PATH_MAX];
    enum culm_status status = culm_checkpoint_path(run_dir, step, path, error);
    pthread_mutex_lock(&s->lock);
    if (status == CULM_OK && !culm_file_exists(path)) {
        status = culm_archive_fetch(s->storage, step, run_dir, NULL, error);
    }
    pthread_mutex_unlock(&s->lock);
    return status;
}

static enum culm_status stored_forget(struct culm_apart *apart, int64_t step,
                                      struct culm_error *error) {
    return culm_archive_forget(((const struct stored *)apart)->storage, step, error);
}

static enum culm_status stored_before(struct culm_apart *apart, char ret_dir[CULM_PATH_MAX],
                                      struct culm_error *error) {
    struct stored *s = (struct stored *)apart;
    pthread_mutex_lock(&s->lock);
    const enum culm_status status = s->fetched ? CULM_OK : fetch_before(s, error);
    s->fetched = status == CULM_OK;
    pthread_mutex_unlock(&s->lock);
    memcpy(ret_dir, s->beside, sizeof s->beside);
    return status;
}

static const struct culm_apart_ops stored_ops = {.size = sizeof stored_ops,
                                                 .keep = stored_keep,
                                                 .find = stored_find,
                                                 .fetch = stored_fetch,
                                                 .forget = stored_forget,
                                                 .before = stored_before};

struct culm_apart *culm_stored_new(struct culm_storage *storage, struct culm_uploads *uploads,
                                   const char *dir) {
    struct stored *s = calloc(1, sizeof *s);
    if (!s) {
        return NULL;
    }
    *s = (struct stored){
        .apart.ops = &stored_ops, .storage = storage, .uploads = uploads, .dir = dir};
    char events[CULM_PATH_MAX];
    struct stat info;
    if (culm_path_format(s->beside, NULL, "%s/stored", dir) != CULM_OK ||
        path_in(dir, "events.jsonl", events, NULL) != CULM_OK) {
        free(s);
        return NULL;
    }
    s->begin = stat(events, &info) == 0 ? (long)info.st_size : 0;
    pthread_mutex_init(&s->lock, NULL);
    return &s->apart;
}

void culm_stored_free(struct culm_apart *apart) {
    if (apart) {
        pthread_mutex_destroy(&((struct stored *)apart)->lock);
    }
    free(apart);
}

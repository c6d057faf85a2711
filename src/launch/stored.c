/* See stored.h. */
#include "launch/stored.h"

#include "base/file.h"
#include "store/checkpoint.h"

#include <pthread.h>
#include <stdlib.h>

struct stored {
    struct culm_apart apart; /* first */
    struct culm_storage *storage;
    struct culm_uploads *uploads;
    pthread_mutex_t lock; /* one fetches at a time */
};

static enum culm_status stored_keep(struct culm_apart *apart, int64_t step, const char *path,
                                    struct culm_error *error) {
    const struct stored *s = (const struct stored *)apart;
    culm_uploads_send(s->uploads, path);
    return culm_uploads_await(s->uploads, step, CULM_STORED_MS, error);
}

static enum culm_status newest(struct culm_storage *storage, int64_t most, int64_t *ret_step,
                               char *ret_warning, struct culm_error *error) {
    struct culm_archive_about about;
    const enum culm_status status = culm_archive_latest(storage, most, &about, ret_warning, error);
    *ret_step = status == CULM_OK ? about.step : 0;
    return status;
}

static enum culm_status stored_find(struct culm_apart *apart, int64_t most, int64_t *ret_step,
                                    struct culm_error *error) {
    const struct stored *s = (const struct stored *)apart;
    char warning[CULM_ERROR_MAX];
    return newest(s->storage, most, ret_step, warning, error);
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

static const struct culm_apart_ops stored_ops = {
    .size = sizeof stored_ops, .keep = stored_keep, .find = stored_find, .fetch = stored_fetch};

struct culm_apart *culm_stored_new(struct culm_storage *storage, struct culm_uploads *uploads) {
    struct stored *s = calloc(1, sizeof *s);
    if (!s) {
        return NULL;
    }
    *s = (struct stored){.apart.ops = &stored_ops, .storage = storage, .uploads = uploads};
    pthread_mutex_init(&s->lock, NULL);
    return &s->apart;
}

void culm_stored_free(struct culm_apart *apart) {
    if (apart) {
        pthread_mutex_destroy(&((struct stored *)apart)->lock);
    }
    free(apart);
}

/* Those of an earlier reign. */
static enum culm_status set_aside_events(const char *dir, int64_t step, struct culm_error *error) {
    char from[CULM_PATH_MAX], to[CULM_PATH_MAX];
    enum culm_status status = culm_path_format(from, error, "%s/events.jsonl", dir);
    if (status == CULM_OK) {
        status = culm_path_format(to, error, "%s/events-before-%lld.jsonl", dir, (long long)step);
    }
    return status == CULM_OK && culm_file_exists(from) && !culm_file_exists(to)
               ? culm_file_rename(NULL, from, to, error)
               : status;
}

enum culm_status culm_stored_begin(struct culm_storage *storage, const char *dir, int64_t *ret_step,
                                   char *ret_warning, struct culm_error *error) {
    static const char *const events[] = {"events.jsonl", NULL};
    ret_warning[0] = '\0';
    enum culm_status status = newest(storage, INT64_MAX, ret_step, ret_warning, error);
    if (status == CULM_ERR_NOT_FOUND) {
        culm_error_clear(error);
        return CULM_OK;
    }
    if (status == CULM_OK) {
        status = set_aside_events(dir, *ret_step, error);
    }
    return status == CULM_OK ? culm_archive_fetch_beside(storage, *ret_step, dir, events, error)
                             : status;
}

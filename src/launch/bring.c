/* See bring.h. A file in the directory says that it is being filled: then it holds no run, or half of a newer state. */
#include "launch/bring.h"

#include "launch/rundir.h"
#include "launch/uploads.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MARK ".fetching"
#define ACCESS "access.json"
#define FETCH_MS 60000 /* it has answered, and a large checkpoint takes many requests */

static bool has(const char *dir, const char *name) {
    char path[CULM_PATH_MAX];
    return culm_path_format(path, NULL, "%s/%s", dir, name) == CULM_OK && culm_file_exists(path);
}

static enum culm_status remove_in(const char *dir, const char *name, struct culm_error *error) {
    char path[CULM_PATH_MAX];
    enum culm_status status = culm_path_format(path, error, "%s/%s", dir, name);
    return status == CULM_OK ? culm_tree_remove(NULL, path, error) : status;
}

/* What a call that did not end has left. */
static enum culm_status clear(const char *dir, struct culm_error *error) {
    enum culm_status status = remove_in(dir, "checkpoints", error);
    for (const char *const *name = culm_uploads_beside; *name && status == CULM_OK; name++) {
        status = remove_in(dir, *name, error);
    }
    return status;
}

static enum culm_status mark(const char *dir, struct culm_error *error) {
    char path[CULM_PATH_MAX];
    enum culm_status status = culm_path_format(path, error, "%s/" MARK, dir);
    return status == CULM_OK ? culm_file_replace(NULL, path, "", 0, error) : status;
}

/* The events of steps that are done elsewhere come with the checkpoint. */
static enum culm_status set_aside_events(const char *dir, int64_t step, struct culm_error *error) {
    char from[CULM_PATH_MAX], to[CULM_PATH_MAX];
    enum culm_status status = culm_path_format(from, error, "%s/events.jsonl", dir);
    if (status == CULM_OK) {
        status = culm_path_format(to, error, "%s/events-before-%lld.jsonl", dir, (long long)step);
    }
    /* What is there since a call that did not end may have come with the checkpoint. */
    bool ours = status == CULM_OK && culm_file_exists(from) && !culm_file_exists(to);
    return ours ? culm_file_rename(NULL, from, to, error) : status;
}

static enum culm_status fetch(struct culm_storage *storage, const char *dir, int64_t step,
                              bool has_run, struct culm_error *error) {
    enum culm_status status = CULM_OK;
    if (!has_run && has(dir, MARK)) {
        status = clear(dir, error);
    }
    if (status == CULM_OK) {
        status = mark(dir, error);
    }
    if (status == CULM_OK && has_run) {
        status = set_aside_events(dir, step, error);
    }
    if (status == CULM_OK) {
        status = culm_archive_fetch(storage, step, dir, culm_uploads_beside, error);
    }
    return status == CULM_OK ? remove_in(dir, MARK, error) : status;
}

static enum culm_status check_same(const struct culm_storage *storage, const char *dir,
                                   const struct culm_archive_about *about,
                                   struct culm_error *error) {
    char run[CULM_ARCHIVE_RUN_SIZE];
    culm_uploads_run_of(dir, run);
    return run[0] && about->run[0] && strcmp(run, about->run) != 0
               ? culm_error_set(error, CULM_ERR_EXISTS,
                                "'%.200s' has a run (%s) and '%.200s' another one (%s); choose "
                                "another --out or another checkpoint.to",
                                dir, run, storage->place, about->run)
               : CULM_OK;
}

static enum culm_status claim_and_fetch(struct culm_storage *storage, const char *dir,
                                        const struct culm_archive_about *about,
                                        struct culm_error *error) {
    struct culm_rundir claimed;
    bool has_run = has(dir, "config.yaml");
    enum culm_status status = has_run ? check_same(storage, dir, about, error) : CULM_OK;
    if (status == CULM_OK) {
        status = has_run || has(dir, MARK) ? culm_rundir_claim_held(dir, &claimed, error)
                                           : culm_rundir_claim(dir, false, &claimed, error);
    }
    if (status != CULM_OK) {
        return status;
    }
    status = fetch(storage, dir, about->step, has_run, error);
    culm_rundir_release(&claimed);
    return status;
}

/* One that is being fetched is not yet there. */
static int64_t newest_here(const char *dir) {
    char path[CULM_PATH_MAX], warning[CULM_ERROR_MAX];
    int64_t step;
    return !has(dir, MARK) &&
                   culm_checkpoint_latest(dir, true, &step, path, warning, NULL) == CULM_OK
               ? step
               : -1;
}

enum culm_status culm_bring(struct culm_storage *storage, const char *dir,
                            struct culm_brought *ret_brought, struct culm_error *error) {
    struct culm_archive_about about;
    struct culm_error problem;
    *ret_brought = (struct culm_brought){.stored = -1, .step = -1};
    enum culm_status status =
        culm_archive_latest(storage, INT64_MAX, &about, ret_brought->warning, &problem);
    const int64_t here = newest_here(dir);
    if (status == CULM_ERR_FORMAT && here >= 0) {
        memcpy(ret_brought->warning, problem.text, sizeof problem.text);
        return CULM_OK;
    }
    if (status == CULM_ERR_NOT_FOUND && has(dir, "config.yaml")) {
        return CULM_OK;
    }
    if (status != CULM_OK) {
        return status == CULM_ERR_NOT_FOUND
                   ? culm_error_set(error, status,
                                    "there is no run to resume, neither in '%.200s' nor in "
                                    "'%.200s'; leave out --resume to start one",
                                    dir, storage->place)
                   : culm_error_set(error, status, "%s", problem.text);
    }
    ret_brought->stored = about.step;
    if (about.step <= here) {
        return CULM_OK;
    }
    ret_brought->step = about.step;
    storage->patience_ms = FETCH_MS;
    return claim_and_fetch(storage, dir, &about, error);
}

enum culm_status culm_bring_check_new(struct culm_storage *storage, struct culm_error *error) {
    struct culm_names names = {0};
    enum culm_status status = storage->ops->list(storage, "manifests/", &names, error);
    if (status == CULM_OK && names.count > 0) {
        status = culm_error_set(error, CULM_ERR_EXISTS,
                                "'%.200s' has checkpoints of a run ('%.60s'); continue it with "
                                "--resume, or name another place with checkpoint.to",
                                storage->place, names.name[names.count - 1]);
    }
    culm_names_release(&names);
    if (status == CULM_OK) {
        status = storage->ops->put(storage, ACCESS, "{}\n", 3, false, error);
    }
    return status == CULM_OK ? storage->ops->remove(storage, ACCESS, error) : status;
}

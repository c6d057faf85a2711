/* Checkpoints in a run directory or apart from it: listed, fetched, removed. See ckpt.h. */
#include "launch/rundir.h"
#include "run/archive.h"
#include "run/ckpt.h"
#include "store/archive.h"
#include "store/checkpoint.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

bool culm_ckpt_is_apart(const struct culm_ckpt_place *place) {
    char manifests[CULM_PATH_MAX], config[CULM_PATH_MAX];
    if (strstr(place->path, "://")) {
        return true;
    }
    return culm_path_format(manifests, NULL, "%s/manifests", place->path) == CULM_OK &&
           culm_path_format(config, NULL, "%s/config.yaml", place->path) == CULM_OK &&
           culm_file_is_directory(manifests) && !culm_file_exists(config);
}

static enum culm_status open_place(const struct culm_ckpt_place *place,
                                   struct culm_storage **ret_storage, struct culm_error *error) {
    return culm_archive_open(place->path, place->endpoint, place->region, ret_storage, error);
}

/* --- listing --- */

static enum culm_status list_apart(const struct culm_ckpt_place *place,
                                   struct culm_ckpt_listed **ret_listed, size_t *ret_count,
                                   struct culm_error *error) {
    struct culm_storage *storage = NULL;
    struct culm_archive_about *about = NULL;
    struct culm_ckpt_listed *listed = NULL;
    size_t count = 0;
    enum culm_status status = open_place(place, &storage, error);
    if (status == CULM_OK) {
        status = culm_archive_list(storage, &about, &count, error);
    }
    if (status == CULM_OK && !(listed = calloc(count + 1, sizeof *listed))) {
        status = culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    for (size_t i = 0; i < count && status == CULM_OK; i++) {
        listed[i].step = about[i].step;
        listed[i].bytes = about[i].bytes;
        listed[i].whole = about[i].whole;
        memcpy(listed[i].why, about[i].why, sizeof listed[i].why);
    }
    free(about);
    culm_storage_free(storage);
    if (status == CULM_OK) {
        *ret_listed = listed;
        *ret_count = count;
    }
    return status;
}

static void look_at(const char *dir, struct culm_ckpt_listed *listed) {
    struct culm_checkpoint *checkpoint = NULL;
    char path[CULM_PATH_MAX];
    struct culm_error problem = {0};
    if (culm_checkpoint_path(dir, listed->step, path, &problem) == CULM_OK &&
        culm_checkpoint_open(path, false, &checkpoint, &problem) == CULM_OK) {
        listed->whole = true;
        for (size_t i = 0; i < culm_checkpoint_piece_count(checkpoint); i++) {
            listed->bytes += culm_checkpoint_piece(checkpoint, i)->bytes;
        }
    }
    memcpy(listed->why, problem.text, sizeof listed->why);
    culm_checkpoint_close(checkpoint);
}

static enum culm_status list_run(const char *dir, struct culm_ckpt_listed **ret_listed,
                                 size_t *ret_count, struct culm_error *error) {
    char all[CULM_PATH_MAX];
    struct culm_names names = {0};
    size_t count = 0;
    enum culm_status status = culm_path_format(all, error, "%s/checkpoints", dir);
    if (status == CULM_OK) {
        status = culm_dir_list(all, &names, error);
    }
    struct culm_ckpt_listed *listed =
        status == CULM_OK ? calloc(names.count + 1, sizeof *listed) : NULL;
    if (status == CULM_OK && !listed) {
        status = culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    for (size_t i = 0; i < names.count && status == CULM_OK; i++) {
        const char *name = names.name[i];
        if (strncmp(name, "step-", 5) == 0 && strspn(name + 5, "0123456789") == strlen(name + 5)) {
            listed[count].step = atoll(name + 5);
            look_at(dir, &listed[count++]);
        }
    }
    culm_names_release(&names);
    if (status == CULM_OK) {
        *ret_listed = listed;
        *ret_count = count;
    }
    return status;
}

enum culm_status culm_ckpt_list(const struct culm_ckpt_place *place,
                                struct culm_ckpt_listed **ret_listed, size_t *ret_count,
                                struct culm_error *error) {
    return culm_ckpt_is_apart(place) ? list_apart(place, ret_listed, ret_count, error)
                                     : list_run(place->path, ret_listed, ret_count, error);
}

/* --- removing --- */

static enum culm_status prune_apart(const struct culm_ckpt_place *place, int64_t keep,
                                    size_t *ret_removed, struct culm_error *error) {
    struct culm_storage *storage = NULL;
    struct culm_archive_about about;
    char warning[CULM_ERROR_MAX];
    enum culm_status status = open_place(place, &storage, error);
    if (status == CULM_OK) {
        status = culm_archive_latest(storage, INT64_MAX, &about, warning, error);
    }
    if (status == CULM_OK) {
        status = culm_archive_prune(storage, about.step, keep, ret_removed, error);
    }
    culm_storage_free(storage);
    return status;
}

static enum culm_status prune_run(const char *dir, int64_t keep, size_t *ret_removed,
                                  struct culm_error *error) {
    struct culm_rundir claimed;
    struct culm_ckpt_listed *listed = NULL;
    char path[CULM_PATH_MAX], warning[CULM_ERROR_MAX];
    int64_t step;
    size_t before = 0, after = 0;
    enum culm_status status = culm_rundir_claim(dir, true, &claimed, error);
    if (status != CULM_OK) {
        return status;
    }
    status = list_run(dir, &listed, &before, error);
    free(listed);
    if (status == CULM_OK) {
        status = culm_checkpoint_latest(dir, true, &step, path, warning, error);
    }
    if (status == CULM_OK) {
        status = culm_checkpoint_prune(NULL, dir, step, keep, error);
    }
    if (status == CULM_OK) {
        status = list_run(dir, &listed, &after, error);
    }
    if (status == CULM_OK) {
        free(listed);
        *ret_removed = before - after;
    }
    culm_rundir_release(&claimed);
    return status;
}

enum culm_status culm_ckpt_prune(const struct culm_ckpt_place *place, int64_t keep,
                                 size_t *ret_removed, struct culm_error *error) {
    return culm_ckpt_is_apart(place) ? prune_apart(place, keep, ret_removed, error)
                                     : prune_run(place->path, keep, ret_removed, error);
}

/* --- fetching --- */

static enum culm_status make_folder(char ret_folder[64], struct culm_error *error) {
    const char *in = getenv("TMPDIR");
    int len = snprintf(ret_folder, 64, "%.40s/culm-ckpt-XXXXXX", in && in[0] ? in : "/tmp");
    if (len >= 64 || !mkdtemp(ret_folder)) {
        enum culm_status status = culm_error_errno(error, errno, "make '%s'", ret_folder);
        ret_folder[0] = '\0';
        return status;
    }
    return CULM_OK;
}

static enum culm_status fetch(struct culm_storage *storage, int64_t step,
                              struct culm_ckpt_files *files, struct culm_error *error) {
    struct culm_archive_about about = {.step = step};
    char path[CULM_PATH_MAX];
    enum culm_status status = CULM_OK;
    if (step < 0) {
        status = culm_archive_latest(storage, INT64_MAX, &about, files->warning, error);
    }
    if (status == CULM_OK) {
        status = make_folder(files->folder, error);
    }
    if (status == CULM_OK) {
        status = culm_archive_fetch(storage, about.step, files->folder, NULL, error);
    }
    if (status == CULM_OK) {
        status = culm_checkpoint_path(files->folder, about.step, path, error);
    }
    if (status == CULM_OK) {
        snprintf(files->path, sizeof files->path, "%.511s", path);
    }
    return status;
}

enum culm_status culm_ckpt_fetch(const struct culm_ckpt_place *place, int64_t step,
                                 struct culm_ckpt_files *ret_files, struct culm_error *error) {
    struct culm_ckpt_files files = {0};
    struct culm_storage *storage = NULL;
    char path[CULM_PATH_MAX];
    enum culm_status status;
    if (!culm_ckpt_is_apart(place)) {
        status = step < 0 ? culm_path_format(path, error, "%s", place->path)
                          : culm_checkpoint_path(place->path, step, path, error);
        if (status == CULM_OK && strlen(path) >= sizeof files.path) {
            status = culm_error_set(error, CULM_ERR_ARGUMENT, "the path is too long");
        }
        if (status == CULM_OK) {
            snprintf(files.path, sizeof files.path, "%.511s", path);
            *ret_files = files;
        }
        return status;
    }
    status = open_place(place, &storage, error);
    if (status == CULM_OK) {
        status = fetch(storage, step, &files, error);
    }
    culm_storage_free(storage);
    if (status != CULM_OK) {
        culm_ckpt_files_release(&files);
        return status;
    }
    *ret_files = files;
    return CULM_OK;
}

void culm_ckpt_files_release(struct culm_ckpt_files *files) {
    if (files->folder[0]) {
        (void)culm_tree_remove(NULL, files->folder, NULL);
    }
    *files = (struct culm_ckpt_files){0};
}

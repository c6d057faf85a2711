/* Asking a run that holds finished steps to save them elsewhere. See ckpt.h. */
#include "run/ckpt.h"
#include "store/checkpoint_room.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LOOK_MS 50
#define LOOKS_MAX (60000 / LOOK_MS)

static enum culm_status make_folder(const char *to, char ret_path[PATH_MAX],
                                    struct culm_error *error) {
    struct culm_names names = {0};
    enum culm_status status = culm_dir_make(NULL, to, error);
    if (status != CULM_OK) {
        return status;
    }
    if (!realpath(to, ret_path)) {
        return culm_error_errno(error, errno, "look for '%.300s'", to);
    }
    status = culm_dir_list(ret_path, &names, error);
    if (status == CULM_OK && names.count > 0) {
        status = culm_error_set(error, CULM_ERR_EXISTS,
                                "'%.300s' is not empty; name an empty folder, or one that is to be "
                                "made",
                                to);
    }
    culm_names_release(&names);
    return status;
}

/* What the run has come to: the checkpoint in the other folder, or the model of one that it had. */
static enum culm_status find(const char *dir, const char *to, struct culm_rescued *rescued,
                             struct culm_error *error) {
    struct culm_checkpoint *checkpoint = NULL;
    char path[CULM_PATH_MAX];
    enum culm_status status = culm_checkpoint_path(dir, rescued->step, path, error);
    if (status == CULM_OK) {
        status = culm_checkpoint_open(path, false, &checkpoint, error);
    }
    culm_checkpoint_close(checkpoint);
    if (status != CULM_OK) {
        return culm_error_set(error, CULM_ERR_NOT_FOUND,
                              "the run in '%.200s' ended before step %lld was saved", dir,
                              (long long)rescued->step);
    }
    char there[CULM_PATH_MAX], model[CULM_PATH_MAX];
    if (culm_checkpoint_path(to, rescued->step, there, NULL) == CULM_OK &&
        culm_file_is_directory(there)) {
        snprintf(rescued->path, sizeof rescued->path, "%.511s", there);
    } else if (culm_path_format(model, NULL, "%s/model.safetensors", to) == CULM_OK &&
               culm_file_is_regular(model)) {
        snprintf(rescued->path, sizeof rescued->path, "%.511s", model);
    } else { /* room was made meanwhile */
        snprintf(rescued->path, sizeof rescued->path, "%.511s", path);
    }
    return CULM_OK;
}

enum culm_status culm_rescue(const char *dir, const char *to, struct culm_rescued *ret_rescued,
                             struct culm_error *error) {
    static const struct timespec look = {.tv_nsec = LOOK_MS * 1000000L};
    struct culm_rescued rescued = {0};
    char path[PATH_MAX];
    enum culm_status status = culm_rescue_holds(dir, &rescued.step, error);
    if (status == CULM_OK) {
        status = make_folder(to, path, error);
    }
    if (status == CULM_OK) {
        status = culm_rescue_ask(dir, path, error);
    }
    for (int looks = 0; status == CULM_OK; looks++) {
        int64_t step;
        if (culm_rescue_holds(dir, &step, NULL) != CULM_OK) {
            break;
        }
        if (looks == LOOKS_MAX) {
            return culm_error_set(error, CULM_ERR_TIMEOUT,
                                  "step %lld is not yet saved in '%.200s'; the run says why, and "
                                  "goes on trying",
                                  (long long)rescued.step, path);
        }
        nanosleep(&look, NULL);
    }
    if (status == CULM_OK) {
        status = find(dir, path, &rescued, error);
    }
    if (status == CULM_OK) {
        *ret_rescued = rescued;
    }
    return status;
}

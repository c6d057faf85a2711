/* Looking for a checkpoint. See resume.h. */
#include "run/resume.h"

#include "store/weights.h"

#include <string.h>

/* Numbers that are not finite come to nothing else. */
static enum culm_status check_finite(const char *path, struct culm_error *error) {
    struct culm_weights *weights = NULL;
    struct culm_error reason;
    enum culm_status status = culm_weights_open_compared(path, &weights, &reason);
    if (status == CULM_OK) {
        status = culm_weights_check_finite(weights, &reason);
    }
    culm_weights_close(weights);
    return status == CULM_OK
               ? CULM_OK
               : culm_error_set(error, status,
                                "%.400s; remove that checkpoint to go on from the one before it",
                                reason.text);
}

enum culm_status culm_resume_find(struct culm_launcher *launcher, const char *dir, int64_t steps,
                                  const char *unit, const char *key, struct culm_resume *ret_resume,
                                  struct culm_error *error) {
    char warning[CULM_ERROR_MAX] = "";
    struct culm_resume resume = {0};
    enum culm_status status =
        culm_checkpoint_latest(dir, true, &resume.step, resume.path, warning, error);
    if (warning[0]) {
        culm_launcher_warn(launcher, "%s", warning);
    }
    if (status == CULM_ERR_NOT_FOUND) {
        resume = (struct culm_resume){0};
        culm_error_clear(error);
        status = CULM_OK;
    }
    if (status == CULM_OK && resume.step > steps) {
        status =
            culm_error_set(error, CULM_ERR_CONFIG, "'%s' is at %s %lld already, and '%s' is %lld",
                           resume.path, unit, (long long)resume.step, key, (long long)steps);
    }
    if (status == CULM_OK && resume.path[0]) {
        status = check_finite(resume.path, error);
    }
    if (status == CULM_OK) {
        *ret_resume = resume;
    }
    return status;
}

void culm_resume_compare_signature(struct culm_launcher *launcher, const struct culm_resume *resume,
                                   const struct culm_checkpoint *checkpoint,
                                   const char *signature) {
    const char *before = culm_checkpoint_info(checkpoint)->signature;
    if (strcmp(before, signature) != 0) {
        culm_launcher_warn(launcher,
                           "'%s' was written by another build or machine (%s, here %s); the bits "
                           "may differ from here on",
                           resume->path, before, signature);
    }
}

enum culm_status culm_resume_settle(const char *dir, struct culm_resume *resume,
                                    struct culm_error *error) {
    enum culm_status status = culm_checkpoint_clean(NULL, dir, error);
    /* A crash may have left it under a temporary name, which has just been put right. */
    return status == CULM_OK && resume->path[0] && !culm_file_is_directory(resume->path)
               ? culm_checkpoint_path(dir, resume->step, resume->path, error)
               : status;
}

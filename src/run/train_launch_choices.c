/* Where the choices of a run come from. See train_launch_choices.h. */
#include "run/train_launch_choices.h"

#include "store/checkpoint.h"

#include <string.h>
#include <unistd.h>

enum culm_status culm_train_launch_choices_recorded(const char *path,
                                                    struct culm_choices *ret_choices,
                                                    struct culm_error *error) {
    struct culm_checkpoint *checkpoint = NULL;
    enum culm_status status = culm_checkpoint_open(path, false, &checkpoint, error);
    if (status != CULM_OK) {
        return status;
    }
    json_t *recorded = culm_checkpoint_info_of(checkpoint)->choices;
    json_t *plan = recorded ? json_pack("{s:O}", "choices", recorded) : NULL;
    status = !recorded ? CULM_ERR_NOT_FOUND
             : plan    ? culm_choices_read(plan, ret_choices, error)
                       : culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    json_decref(plan);
    culm_checkpoint_close(checkpoint);
    return status;
}

/* Of the newest checkpoint; *ret_there false: none, or none with choices. All checkpoints of a run
 * have the same, so their hashes are not looked at unless the newest cannot even be opened. */
static enum culm_status newest(const char *dir, struct culm_choices *ret_choices, bool *ret_there,
                               struct culm_error *error) {
    int64_t step;
    char path[CULM_PATH_MAX], warning[CULM_ERROR_MAX];
    enum culm_status status = CULM_ERR_NOT_FOUND;
    for (int verify = 0; verify < 2 && status != CULM_OK; verify++) {
        if (culm_checkpoint_latest(dir, verify, &step, path, warning, NULL) != CULM_OK) {
            status = CULM_ERR_NOT_FOUND;
            break;
        }
        status = culm_train_launch_choices_recorded(path, ret_choices, error);
        if (status == CULM_ERR_NOT_FOUND) {
            break;
        }
    }
    *ret_there = status == CULM_OK;
    return status == CULM_ERR_NOT_FOUND ? CULM_OK : status;
}

static enum culm_status resume(const struct culm_train_launch_options *o,
                               struct culm_launcher *launcher, struct culm_choices *ret_choices,
                               struct culm_error *error) {
    struct culm_choices recorded = {0}, planned = {0};
    struct culm_error unreadable = {0};
    char path[CULM_PATH_MAX];
    bool there = false, trial = o->config->kernels == CULM_KERNELS_TRIAL;
    enum culm_status status;
    if ((status = culm_path_format(path, error, "%s/plan.json", o->run.dir)) ||
        (status = newest(o->run.dir, &recorded, &there, error))) {
        return status;
    }
    bool found = access(path, F_OK) == 0;
    bool readable = found && culm_choices_load(path, &planned, &unreadable) == CULM_OK;
    if (readable && (!there || culm_choices_same_algorithms(&planned, &recorded))) {
        *ret_choices = planned;
        culm_choices_release(&recorded);
        return CULM_OK;
    }
    culm_choices_release(&planned);
    if (there) {
        if (readable) {
            culm_launcher_warn(launcher,
                               "'%s' has other algorithms than the checkpoint; the run continues "
                               "with the algorithms of the checkpoint",
                               path);
        } else if (found) {
            culm_launcher_warn(launcher,
                               "%s; the run continues with the algorithms of the checkpoint",
                               unreadable.text);
        }
        *ret_choices = recorded;
        return CULM_OK;
    }
    if (trial) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "'%s' is %s, and no checkpoint says what 'kernels: trial' chose; put "
                              "it back, or start another run",
                              path, found ? "no plan" : "gone");
    }
    if (found) {
        if (error) {
            *error = unreadable;
        }
        return unreadable.status;
    }
    return culm_choices_measure(o->network, ret_choices, error);
}

enum culm_status culm_train_launch_choices(const struct culm_train_launch_options *o,
                                           struct culm_launcher *launcher,
                                           struct culm_choices *ret_choices,
                                           struct culm_error *error) {
    if (!o->plan_path) {
        return o->run.resume ? resume(o, launcher, ret_choices, error)
                             : culm_choices_measure(o->network, ret_choices, error);
    }
    struct culm_choices recorded = {0}, planned = {0};
    bool there = false;
    enum culm_status status = culm_choices_load(o->plan_path, &planned, error);
    if (status == CULM_OK && o->run.resume) {
        status = newest(o->run.dir, &recorded, &there, error);
    }
    if (status == CULM_OK && there && !culm_choices_same_algorithms(&planned, &recorded)) {
        status = culm_error_set(error, CULM_ERR_CONFIG,
                                "--plan '%s' has other algorithms than the checkpoint that the run "
                                "continues from; leave it out",
                                o->plan_path);
    }
    culm_choices_release(&recorded);
    if (status != CULM_OK) {
        culm_choices_release(&planned);
        return status;
    }
    *ret_choices = planned;
    return CULM_OK;
}

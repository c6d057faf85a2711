/* The run that wrote a checkpoint; see the header. */
#include "run/trained.h"

#include "store/checkpoint.h"

#include <string.h>

enum culm_status culm_trained_open(const char *run_dir, const char *checkpoint,
                                   const char *const *sets, size_t set_count, bool pinned,
                                   struct culm_trained *ret_trained, struct culm_error *error) {
    struct culm_checkpoint *open = NULL;
    struct culm_trained *t = ret_trained;
    t->inputs = (struct culm_inputs){0};
    enum culm_status status = culm_path_format(t->plan_path, error, "%s/plan.json", run_dir);
    if (status != CULM_OK ||
        (status = culm_checkpoint_open(checkpoint, false, &open, error)) != CULM_OK) {
        return status;
    }
    const struct culm_checkpoint_info *info = culm_checkpoint_info(open);
    if (pinned && info->inputs) {
        status = culm_inputs_read(info->inputs, &t->inputs, error);
    }
    if (status == CULM_OK) {
        status = culm_train_config_parse(info->config, strlen(info->config), checkpoint, sets,
                                         set_count, &t->config, error);
    }
    culm_checkpoint_close(open);
    if (status != CULM_OK) {
        culm_inputs_release(&t->inputs);
        return status;
    }
    if (t->inputs.pins) {
        culm_inputs_ask_plan(&t->inputs, t->plan_path);
        t->config.pins = t->inputs.pins;
    }
    return CULM_OK;
}

void culm_trained_release(struct culm_trained *trained) {
    culm_train_config_release(&trained->config);
    culm_inputs_release(&trained->inputs);
}

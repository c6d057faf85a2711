/* The numeric executor: what checkpoints take, and whether there is room for them. */
#include "train/numeric_internal.h"

#include "store/checkpoint_room.h"

#include <stdio.h>
#include <string.h>

enum culm_status numeric_room(struct culm_numeric *x, struct culm_task *task) {
    const uint64_t all = culm_plan_checkpoint_bytes(x->o.plan, x->o.config_text, false);
    const uint64_t weights = culm_plan_checkpoint_bytes(x->o.plan, x->o.config_text, true);
    task->text[0] = task->note[0] = '\0';
    if (!task->held) {
        task->room =
            culm_checkpoint_look_ahead(x->o.run_dir, all, task->failed, &x->room_told, task->note)
                ? CULM_ROOM_ALL
                : CULM_ROOM_NOTHING;
        return CULM_OK;
    }
    char to[CULM_PATH_MAX] = "";
    task->room = culm_rescue_look(x->o.run_dir, "step", task->version, all, weights, task->failed,
                                  to, task->note);
    _Static_assert(CULM_RESCUE_PATH_MAX <= CULM_SOURCE_MAX, "one carries the other");
    snprintf(task->text, sizeof task->text, "%.*s", CULM_RESCUE_PATH_MAX - 1, to);
    return CULM_OK;
}

void numeric_look_ahead(struct culm_numeric *x, struct culm_task *task) {
    if (task->version < x->o.config->steps) {
        (void)culm_checkpoint_look_ahead(
            x->o.run_dir, culm_plan_checkpoint_bytes(x->o.plan, x->o.config_text, false), false,
            &x->room_told, task->note);
    }
}

/* The node: which compute task runs next, and what its completion means. Priorities give 1F1B; see
 * node.h. */
#include "pipeline/node_internal.h"

#include "base/mark.h"

#include <string.h>

static bool ready_to_compute(const struct culm_node *node, int32_t stage) {
    return node->stage[stage].held && node->stage[stage].version == node->iteration - 1;
}

void node_submit(struct culm_node *node, struct culm_task *task) {
    task->exec = node->o.exec;
    task->job.execute = culm_task_execute;
    task->job.owner = node;
    task->job.stop = 0;
    task->late = !culm_stage_set_empty(&node->normed);
    node->busy = true;
    node->exported = task->kind == CULM_TASK_EXPORT;
    node->moved = task->moved = 0;
    node_task_begins(node, task);
    node->self.tell.world->ops->run(node->self.tell.world, &task->job);
}

void node_frc_forget(struct culm_node *node) {
    if (node->frc_running) {
        CULM_MARK(pipeline_redundant_forward_is_stale);
        node->frc_stale = true;
        __atomic_store_n(&node->frc.job.stop, 1, __ATOMIC_RELAXED);
    } else if (node->frc_suspended) {
        CULM_MARK(pipeline_suspended_forward_is_dropped);
        culm_task_release(&node->frc);
    }
    node->frc_suspended = false;
}

/* The first micro-batch of `lane` not yet done backward (or forward) at `stage`; -1: none. */
static int32_t next_in_lane(const struct culm_node *node, int32_t stage, int32_t lane,
                            bool forward) {
    int32_t per_lane = node->o.shape.micros_per_lane;
    for (int32_t m = lane * per_lane; m < (lane + 1) * per_lane; m++) {
        const struct cell *cell = cell_at(node, stage, m);
        if (!cell->backward && !(forward && cell->forward)) {
            return m;
        }
    }
    return -1;
}

/* --- backward --- */

static void start_backward(struct culm_node *node, int32_t stage, int32_t micro) {
    const struct culm_stage_desc *desc = &node->o.layout->stage[stage];
    struct cell *cell = cell_at(node, stage, micro);
    int32_t leaf = node->tree.leaf[lane_of(node, micro)];
    struct culm_blob **sum = &node->stage[stage].sum[leaf];
    struct culm_task *task = &node->task;
    *task = (struct culm_task){.kind = CULM_TASK_BACKWARD,
                               .stage = stage,
                               .micro = micro,
                               .iteration = node->iteration,
                               .resets = node->resets,
                               .first = micro % node->o.shape.micros_per_lane == 0};
    if ((!*sum && !node_get(node, desc->grad_bytes, sum)) ||
        (stage > 0 && !node_get(node, desc->input_bytes, &task->d_input))) {
        return;
    }
    task->input = culm_blob_ref(cell->input);
    task->d_output = culm_blob_ref(cell->d_output);
    task->activations = culm_blob_ref(cell->activations);
    task->grads = culm_blob_ref(*sum);
    node_submit(node, task);
}

static bool backward_next(struct culm_node *node) {
    for (int32_t s = last_stage(node); s >= 0; s--) {
        if (!owns(node, s) || !ready_to_compute(node, s)) {
            continue;
        }
        for (int32_t l = 0; l < node->o.shape.lanes; l++) {
            int32_t m = node->view->lane_pipeline[l] == node->pipeline
                            ? next_in_lane(node, s, l, false)
                            : -1;
            const struct cell *cell = m < 0 ? NULL : cell_at(node, s, m);
            if (!cell || !cell->forward || (s > 0 && !cell->input) ||
                (s < last_stage(node) && !cell->d_output)) {
                continue;
            }
            if (!node->busy) {
                start_backward(node, s, m);
            }
            return true;
        }
    }
    return false;
}

/* --- forward and redundant forward --- */

static void start_forward(struct culm_node *node, struct culm_task *task, int32_t stage,
                          int32_t micro, bool frc) {
    const struct culm_stage_desc *desc = &node->o.layout->stage[stage];
    *task = (struct culm_task){.kind = CULM_TASK_FORWARD,
                               .stage = stage,
                               .micro = micro,
                               .iteration = node->iteration,
                               .resets = node->resets,
                               .frc = frc};
    if (!node_get(node, desc->activation_bytes, &task->activations) ||
        (stage < last_stage(node) && !node_get(node, desc->output_bytes, &task->output))) {
        culm_blob_clear(&task->activations);
        return;
    }
    task->input = culm_blob_ref(cell_at(node, stage, micro)->input);
    node->frc_running = frc;
    node->frc_stale = frc ? false : node->frc_stale;
    node_submit(node, task);
}

static bool forward_next(struct culm_node *node) {
    for (int32_t s = last_stage(node); s >= 0; s--) {
        if (!owns(node, s) || !ready_to_compute(node, s)) {
            continue;
        }
        int32_t in_flight = 0;
        for (int32_t m = 0; m < node->o.shape.micros; m++) {
            const struct cell *cell = cell_at(node, s, m);
            in_flight += cell->forward && !cell->backward && runs(node, m);
        }
        if (in_flight >= node->o.layout->stages - s) {
            continue;
        }
        for (int32_t l = 0; l < node->o.shape.lanes; l++) {
            int32_t m = node->view->lane_pipeline[l] == node->pipeline
                            ? next_in_lane(node, s, l, true)
                            : -1;
            if (m < 0 || (s > 0 && !cell_at(node, s, m)->input)) {
                continue;
            }
            if (!node->busy) {
                start_forward(node, &node->task, s, m, false);
            }
            return true;
        }
    }
    return false;
}

static bool shadows_actively(const struct culm_node *node, int32_t stage) {
    int32_t stages = node->o.layout->stages;
    const struct culm_role *role = &node->view->role[node->pipeline][stage];
    return role->shadow == node->self.id && role->owner != node->self.id &&
           owns(node, (stage + stages - 1) % stages) && ready_to_compute(node, stage);
}

static bool reduced_already(const struct culm_node *node, int32_t stage) {
    const struct culm_stage_desc *desc = &node->o.layout->stage[stage];
    for (int32_t g = desc->first_grad; g < desc->first_grad + desc->grad_count; g++) {
        if (!node->grad[g].reduced) {
            return false;
        }
    }
    return true;
}

static void frc_next(struct culm_node *node) {
    if (!node->view->frc) {
        return;
    }
    if (node->frc_suspended) {
        CULM_MARK(pipeline_suspended_forward_goes_on);
        node->frc_suspended = false;
        node->frc_running = true;
        node_submit(node, &node->frc);
        return;
    }
    for (int32_t s = 0; s <= last_stage(node); s++) {
        if (!shadows_actively(node, s) || reduced_already(node, s)) {
            continue;
        }
        for (int32_t m = 0; m < node->o.shape.micros; m++) {
            const struct cell *cell = cell_at(node, s, m);
            if (runs(node, m) && !cell->forward && (s == 0 || cell->input)) {
                start_forward(node, &node->frc, s, m, true);
                return;
            }
        }
    }
}

void node_run_next(struct culm_node *node) {
    if (node->self.left || (node->busy && !node->frc_running)) {
        return;
    }
    /* With a redundant forward running these only say whether something of our own is ready. */
    const bool turn = node->exported && node_order_is_export(node);
    bool own = !turn && node_order_next(node);
    own = own || (node->view->phase == CULM_VIEW_RUN && node_learn_next(node));
    bool training = node->view->phase == CULM_VIEW_RUN && node->iteration <= node->o.shape.steps;
    own = own || (training && (node_fold_next(node) || node_norm_next(node)));
    own = own || (training && node->pipeline >= 0 && (backward_next(node) || forward_next(node)));
    own = own || (turn && node_order_next(node));
    if (node->frc_running && own) {
        __atomic_store_n(&node->frc.job.stop, 1, __ATOMIC_RELAXED);
    } else if (!node->busy && !own && training && node->pipeline >= 0) {
        frc_next(node);
    }
}

/* --- completion --- */

/* What the lost owner had done, as far as its neighbours show it, and is to be done again. Taken
 * before the first task here takes effect, so that only what came from the lost one counts. */
static int64_t count_redone(const struct culm_node *node, int32_t stage) {
    int64_t redone = 0;
    for (int32_t m = 0; m < node->o.shape.micros; m++) {
        if (!runs(node, m)) {
            continue;
        }
        const struct cell *cell = cell_at(node, stage, m);
        bool went_on = stage < last_stage(node) && cell_at(node, stage + 1, m)->sent_input;
        const struct cell *before = stage > 0 ? cell_at(node, stage - 1, m) : NULL;
        bool came_back = before && (owns(node, stage - 1) ? before->d_output || before->backward
                                                          : before->sent_d_output);
        redone += (went_on || came_back) && !cell->forward;
        redone += came_back;
    }
    return redone;
}

static void report_take_over(struct culm_node *node, int32_t stage) {
    if (!node->stage[stage].took_over || !owns(node, stage)) {
        return;
    }
    CULM_MARK(pipeline_says_what_it_took_over);
    node->stage[stage].took_over = false;
    const struct culm_taken_over taken_over = {.view = node->view->number,
                                               .stage = stage,
                                               .origin = node->stage[stage].origin,
                                               .redone = count_redone(node, stage)};
    culm_taken_over_encode(&taken_over, culm_self_meta(&node->self));
    culm_self_tell(&node->self, CULM_MSG_TAKEN_OVER);
}

/* Whatever a task done here made is kept until COMMIT, whoever owns the stages now: a later view
 * may ask for it. */
static void forward_done(struct culm_node *node, struct culm_task *task) {
    report_take_over(node, task->stage);
    struct cell *cell = cell_at(node, task->stage, task->micro);
    if (!cell->forward && !cell->backward) {
        cell->forward = true;
        cell->activations = culm_blob_ref(task->activations);
    }
    if (task->output) {
        struct cell *next = cell_at(node, task->stage + 1, task->micro);
        if (!next->input) {
            next->input = culm_blob_ref(task->output);
        }
    }
}

static void backward_done(struct culm_node *node, struct culm_task *task) {
    int32_t s = task->stage, m = task->micro;
    report_take_over(node, s);
    struct cell *cell = cell_at(node, s, m);
    cell->backward = true;
    culm_blob_clear(&cell->activations);
    if (s > 0) {
        struct cell *before = cell_at(node, s - 1, m);
        if (!before->d_output) {
            before->d_output = culm_blob_ref(task->d_input);
        }
        if (!before->forward && !owns(node, s - 1)) {
            culm_blob_clear(&cell->input); /* its maker keeps it */
        }
    }
    if (s < last_stage(node) && !cell_at(node, s + 1, m)->backward && !owns(node, s + 1)) {
        culm_blob_clear(&cell->d_output);
    }
    if ((m + 1) % node->o.shape.micros_per_lane == 0) {
        culm_bits_add(node->stage[s].lanes_done, lane_of(node, m));
        node_sum_is_whole(node, s);
    }
}

static bool cells_task(const struct culm_task *task) {
    return task->kind == CULM_TASK_FORWARD || task->kind == CULM_TASK_BACKWARD ||
           task->kind == CULM_TASK_FOLD || task->kind == CULM_TASK_NORM;
}

void node_task_done(struct culm_node *node, struct culm_task *task) {
    node->busy = false;
    node->self.progress++;
    node_task_ends(node, task);
    bool frc = task == &node->frc;
    if (frc) {
        node->frc_running = false;
    }
    bool current = !cells_task(task) || task->resets == node->resets;
    current = current && !(frc && node->frc_stale);
    if (!current) {
        CULM_MARK(pipeline_task_is_of_no_use_any_more);
    }
    if (frc && task->job.status == CULM_ERR_AGAIN) {
        if (current) {
            CULM_MARK(pipeline_redundant_forward_gives_way);
            node->frc_suspended = true;
        } else {
            CULM_MARK(pipeline_stale_forward_gives_way);
            culm_task_release(task);
        }
        return;
    }
    if (task->kind == CULM_TASK_ADVANCE) {
        node_advanced(node, task, task->job.status == CULM_OK);
    }
    if (task->damaged) {
        node_damaged(node, task);
    } else if (task->job.status != CULM_OK && node_unloaded(node, task)) {
        /* the leader decides what to load instead */
    } else if (task->job.status != CULM_OK) {
        culm_self_fail(&node->self, task->job.status, "%s", task->job.error.text);
    } else if (task->kind == CULM_TASK_FOLD) {
        node_fold_done(node, current ? task : NULL);
    } else if (task->kind == CULM_TASK_NORM) {
        node_norm_done(node, current ? task : NULL);
    } else if (!cells_task(task)) {
        node_order_done(node, task);
    } else if (current) {
        if (task->kind == CULM_TASK_FORWARD) {
            forward_done(node, task);
        } else {
            backward_done(node, task);
        }
    }
    culm_task_release(task);
}

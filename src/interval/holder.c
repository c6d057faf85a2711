/* A holder of the state: what it does next, and what it hears. See holder.h. */
#include "interval/holder_internal.h"

#include "base/mark.h"

#include <stdlib.h>
#include <string.h>

struct culm_gnn_holder *culm_gnn_holder_new(struct culm_gnn_self *self) {
    struct culm_gnn_holder *holder = calloc(1, sizeof *holder);
    if (!holder) {
        return NULL;
    }
    holder->self = self;
    holder->version = -1;
    holder->window = self->o.pace.staleness + 3;
    memset(holder->weights_version, -1, sizeof holder->weights_version);
    bool failed = !culm_fold_tree_init(&holder->tree, self->o.layout->intervals);
    for (int32_t s = 0; s < self->o.layout->stages && !failed; s++) {
        holder->slice[s] = calloc((size_t)holder->tree.count, sizeof *holder->slice[s]);
        failed = !holder->slice[s];
    }
    if (failed) {
        culm_gnn_holder_free(holder);
        return NULL;
    }
    return holder;
}

static void release_task(struct culm_gnn_task *task) {
    culm_blob_clear(&task->input);
    culm_blob_clear(&task->output);
}

void culm_gnn_holder_free(struct culm_gnn_holder *holder) {
    if (!holder) {
        return;
    }
    if (holder->tree.node) {
        gnn_holder_clear_sums(holder);
    }
    gnn_holder_clear_handed(holder);
    gnn_holder_clear_early(holder);
    for (int32_t s = 0; s < CULM_GNN_STAGES_MAX; s++) {
        free(holder->slice[s]);
    }
    for (int32_t w = 0; w < holder->window; w++) {
        culm_blob_clear(&holder->weights[w]);
    }
    culm_blob_clear(&holder->copy_state);
    release_task(&holder->task);
    release_task(&holder->export_task);
    release_task(&holder->save_task);
    culm_fold_tree_release(&holder->tree);
    free(holder->early);
    free(holder->asked);
    free(holder);
}

bool gnn_holder_is_current(const struct culm_gnn_holder *holder) {
    const struct culm_gnn_view *view = &holder->self->view;
    for (int32_t h = 0; h < view->holder_count; h++) {
        if (view->holder[h].node == holder->self->o.id) {
            return holder->attempt == view->attempt && holder->since == view->holder[h].since;
        }
    }
    return false;
}

/* Whether what was made in that attempt is of a state that counts under the view. */
static bool goes_on(const struct culm_gnn_view *view, uint32_t attempt) {
    return attempt >= view->load_attempt && attempt <= view->attempt;
}

/* Whether a copy has come for that place in the view. */
static bool has_copy_for(const struct culm_gnn_holder *holder,
                         const struct culm_gnn_view_holder *own) {
    return holder->copy_state && goes_on(&holder->self->view, holder->copy.attempt) &&
           holder->copy.view >= own->since;
}

void culm_gnn_holder_report(struct culm_gnn_holder *holder, struct culm_gnn_report *ret_report) {
    const struct culm_gnn_view *view = &holder->self->view;
    const bool current = gnn_holder_is_current(holder);
    *ret_report = (struct culm_gnn_report){0};
    holder->frozen = gnn_holder_one_sums(holder);
    if (current && holder->frozen && holder->stepping) {
        CULM_MARK(interval_reports_what_it_steps_to);
        ret_report->holds = true;
        ret_report->version = holder->version + 1; /* of which it cannot tell the digest yet */
        ret_report->since = holder->since;
        return;
    }
    if (current && holder->version >= 0) {
        ret_report->holds = true;
        ret_report->version = holder->version;
        ret_report->digest = holder->digest;
        ret_report->diverged = holder->diverged;
        ret_report->since = holder->since;
        return;
    }
    const bool imports = current && holder->busy && holder->task.kind == CULM_GNN_TASK_IMPORT;
    for (int32_t h = 0; h < view->holder_count; h++) {
        const struct culm_gnn_view_holder *own = &view->holder[h];
        if (own->node == holder->self->o.id && (imports || has_copy_for(holder, own))) {
            CULM_MARK(interval_reports_a_copy_that_is_whole);
            ret_report->holds = true;
            ret_report->version = holder->copy.version;
            ret_report->digest = holder->copy.digest;
            ret_report->diverged = holder->copy.diverged;
            ret_report->since = own->since;
        }
    }
}

int64_t culm_gnn_holder_version(const struct culm_gnn_holder *holder) {
    return gnn_holder_is_current(holder) ? holder->version : -1;
}

void gnn_holder_start(struct culm_gnn_holder *holder, enum culm_gnn_task_kind kind) {
    holder->busy = true;
    holder->task.kind = kind;
    holder->task.attempt = holder->self->view.attempt;
    culm_gnn_run(holder->self, &holder->task);
}

/* --- what to do next --- */

static bool begin_state(struct culm_gnn_holder *holder) {
    const struct culm_gnn_view *view = &holder->self->view;
    if (holder->version >= 0 && gnn_holder_is_current(holder)) {
        return false;
    }
    for (int32_t h = 0; h < view->holder_count; h++) {
        if (view->holder[h].node != holder->self->o.id) {
            continue;
        }
        if (view->holder[h].from < 0) {
            culm_self_point(&holder->self->node, CULM_GNN_PHASE_LOAD, view->course.epoch, -1);
            holder->attempt = view->attempt;
            holder->since = view->holder[h].since;
            holder->task =
                (struct culm_gnn_task){.version = view->load_version, .source_path = view->load};
            CULM_MARK(interval_holder_loads);
            gnn_holder_start(holder, CULM_GNN_TASK_LOAD);
            return true;
        }
        if (has_copy_for(holder, &view->holder[h])) {
            CULM_MARK(interval_copy_is_taken);
            holder->attempt = view->attempt;
            holder->since = view->holder[h].since;
            holder->task = (struct culm_gnn_task){.version = holder->copy.version,
                                                  .digest = holder->copy.digest,
                                                  .diverged = holder->copy.diverged,
                                                  .input = holder->copy_state};
            holder->copy_state = NULL;
            gnn_holder_start(holder, CULM_GNN_TASK_IMPORT);
            return true;
        }
    }
    return false;
}

static void go_on(struct culm_gnn_holder *holder) {
    if (holder->self->node.left || holder->self->view.number == 0 || holder->busy) {
        return;
    }
    if (begin_state(holder)) {
        return;
    }
    (void)(gnn_holder_export_on(holder) || gnn_holder_step_on(holder));
}

static void say_held(struct culm_gnn_holder *holder) {
    const struct culm_gnn_held held = {holder->attempt, holder->version, holder->digest,
                                       holder->self->view.number, holder->diverged};
    culm_gnn_held_encode(&held, culm_self_meta(&holder->self->node));
    culm_gnn_send(holder->self, CULM_LEADER, CULM_GNN_MSG_HOLDS, NULL);
}

/* The state has a new version: copies out its weights. */
static void arrived(struct culm_gnn_holder *holder, int64_t version, uint64_t digest,
                    bool diverged) {
    holder->version = version;
    holder->digest = digest;
    holder->diverged = diverged;
    holder->task = (struct culm_gnn_task){.version = version, .digest = digest};
    gnn_holder_start(holder, CULM_GNN_TASK_WEIGHTS);
}

bool culm_gnn_holder_job_done(struct culm_gnn_holder *holder, struct culm_job *job) {
    struct culm_gnn_task *task = (struct culm_gnn_task *)job;
    if (task != &holder->task && task != &holder->export_task && task != &holder->save_task) {
        return false;
    }
    if (job->status != CULM_OK && task != &holder->save_task) {
        culm_self_fail(&holder->self->node, job->status, "%s", job->error.text);
        return true;
    }
    if (task == &holder->export_task) {
        gnn_holder_exported(holder);
        go_on(holder);
        return true;
    }
    if (task == &holder->save_task) {
        gnn_holder_saved(holder);
        go_on(holder);
        return true;
    }
    holder->busy = false;
    if (!gnn_holder_is_current(holder)) {
        CULM_MARK(interval_result_is_not_wanted_any_more);
        release_task(task); /* the result is not wanted any more */
        holder->version = -1;
        holder->stepping = holder->folds_in_vain = false;
        gnn_holder_clear_sums(holder);
        gnn_holder_clear_handed(holder);
        go_on(holder);
        return true;
    }
    if (holder->folds_in_vain) {
        CULM_MARK(interval_sum_of_an_attempt_before);
        holder->folds_in_vain = false;
        release_task(task);
        gnn_holder_clear_sums(holder);
        gnn_holder_replay_early(holder);
        go_on(holder);
        return true;
    }
    switch (task->kind) {
    case CULM_GNN_TASK_FOLD: gnn_holder_folded(holder); break;
    case CULM_GNN_TASK_STEP:
        gnn_holder_stepped(holder);
        holder->ready = false;
        arrived(holder, task->epoch, task->digest, task->diverged);
        return true;
    case CULM_GNN_TASK_IMPORT: culm_blob_clear(&task->input); /* fall through */
    case CULM_GNN_TASK_LOAD:
        arrived(holder, task->version, task->digest, task->diverged);
        return true;
    default: /* WEIGHTS */
        gnn_holder_keep_weights(holder, task->version, task->output);
        culm_blob_clear(&task->output);
        holder->ready = true;
        culm_self_point(&holder->self->node, CULM_GNN_PHASE_COMMIT, holder->version, -1);
        say_held(holder);
        gnn_holder_replay_early(holder);
        gnn_holder_answer(holder);
        break;
    }
    go_on(holder);
    return true;
}

/* --- what is received --- */

/* Where rows may be stale, another leader goes on in a new attempt: with the state that there is, and without sums of the one
 * before. */
static void go_on_in_attempt(struct culm_gnn_holder *holder) {
    const struct culm_gnn_view *view = &holder->self->view;
    if (holder->attempt == view->attempt || !goes_on(view, holder->attempt)) {
        return;
    }
    for (int32_t h = 0; h < view->holder_count; h++) {
        if (view->holder[h].node != holder->self->o.id || view->holder[h].since != holder->since) {
            continue;
        }
        CULM_MARK(interval_goes_on_in_a_new_attempt);
        holder->attempt = view->attempt;
        if (holder->busy && holder->task.kind == CULM_GNN_TASK_FOLD) {
            holder->folds_in_vain = true; /* which needs what it adds up */
            for (int32_t s = 0; s < CULM_GNN_STAGES_MAX; s++) {
                culm_blob_clear(&holder->whole[s]);
            }
        } else if (!holder->stepping) { /* else they are of what it steps to */
            gnn_holder_clear_sums(holder);
        }
    }
}

void culm_gnn_holder_view(struct culm_gnn_holder *holder) {
    const struct culm_gnn_view *view = &holder->self->view;
    holder->frozen = false;
    go_on_in_attempt(holder);
    if (!gnn_holder_is_current(holder)) {
        holder->save.order = 0; /* the leader has given it up */
        if (!holder->busy) {    /* else once the task is done */
            holder->version = -1;
            gnn_holder_clear_sums(holder);
            gnn_holder_clear_handed(holder);
        }
        holder->ready = false;
    }
    if (holder->attempt != view->attempt || !culm_gnn_view_holds(view, holder->self->o.id)) {
        for (int32_t w = 0; w < holder->window; w++) {
            culm_blob_clear(&holder->weights[w]);
            holder->weights_version[w] = -1;
        }
    }
    holder->committed = view->course.epoch - 1;
    memset(holder->sent, 0, sizeof holder->sent);
    gnn_holder_replay_early(holder); /* what is over is dropped even without the state */
    if (gnn_holder_is_current(holder) && holder->version >= 0) {
        gnn_holder_hand_on_again(holder);
        const bool leaves = gnn_holder_one_sums(holder) && holder->stepping; /* and says so then */
        if (holder->self->anew && holder->ready && !leaves) {
            CULM_MARK(interval_holds_is_said_to_another_leader);
            say_held(holder);
        }
    }
    gnn_holder_answer(holder);
    go_on(holder);
}

void culm_gnn_holder_commit(struct culm_gnn_holder *holder, const struct culm_gnn_commit *commit) {
    holder->committed = commit->epoch;
    gnn_holder_clear_handed(holder);
    go_on(holder);
}

void culm_gnn_holder_message(struct culm_gnn_holder *holder, int32_t from,
                             const struct culm_message *message) {
    switch (message->type) {
    case CULM_GNN_MSG_GET: gnn_holder_hear_get(holder, from, message); break;
    case CULM_GNN_MSG_GRADIENT: gnn_holder_hear_gradient(holder, from, message); break;
    case CULM_GNN_MSG_STATE: gnn_holder_hear_state(holder, message); break;
    case CULM_GNN_MSG_WEIGHTS: gnn_holder_hear_weights(holder, message); break;
    case CULM_GNN_MSG_SAVE:
        if (from == CULM_LEADER) {
            gnn_holder_hear_save(holder, message);
        }
        break;
    default: return;
    }
    go_on(holder);
}

/* A holder of the state: sums and updates, copies, checkpoints. See holder.h. */
#include "gnn/holder.h"

#include "base/grow.h"

#include <stdlib.h>
#include <string.h>

/* Requests that wait: every node may have one for each version that it keeps. */
#define ASKED_MAX (CULM_GNN_NODES_MAX * (CULM_GNN_STALENESS_MAX + 3))

/* A request for weights that are not here yet. */
struct asked {
    int32_t node;
    struct culm_gnn_version what;
};

struct culm_gnn_holder {
    struct culm_gnn_self *self;
    struct culm_fold_tree tree; /* over intervals */
    uint32_t attempt;           /* of the state, or of weights that precede it */
    int64_t version;            /* of the state; -1: there is none */
    uint64_t digest;
    bool diverged; /* the update to `version` was skipped; the leader will end the run */
    bool ready;    /* the state is complete, and its weights have been copied out */
    int64_t committed;
    int64_t save_version;                 /* to be saved; -1: none */
    struct culm_gnn_verdict save_verdict; /* with it */
    bool save_last;                       /* no epoch is trained after it */
    uint64_t since;                       /* the view that made this node a holder */
    int32_t window;
    struct culm_blob *weights[CULM_GNN_STALENESS_MAX + 3]; /* [window] by version % window */
    int64_t weights_version[CULM_GNN_STALENESS_MAX + 3];   /* -1: none */
    /* Gradients of epoch version + 1: parts of the sums, and the whole sums. */
    struct culm_slice *slice[CULM_GNN_STAGES_MAX]; /* [tree.count] */
    struct culm_blob *whole[CULM_GNN_STAGES_MAX];
    bool stepping;
    /* GRADIENTs of later epochs, views or attempts: senders may be told of these before this node
     * is. Also those for a copy of the state that is still to come, while a task goes on with the
     * state that it replaces: what that one has summed or stepped will be dropped. */
    struct early {
        int32_t from;
        struct culm_gnn_gradient_key key;
        struct culm_blob *blob;
    } * early;
    int32_t early_count, early_capacity;
    struct asked *asked;
    int32_t asked_count, asked_capacity;
    /* A copy of the state that has arrived for this holder. */
    struct culm_gnn_held copy;
    struct culm_blob *copy_state;
    /* [view.holder_count] Which holders have been sent a copy under this view. */
    bool sent[CULM_GNN_HOLDERS_MAX];
    struct culm_gnn_task task, export_task, save_task;
    bool busy, exporting, saving;
    bool export_to_save; /* the running EXPORT is for a checkpoint; else for other holders */
    uint32_t export_attempt;
};

struct culm_gnn_holder *culm_gnn_holder_new(struct culm_gnn_self *self) {
    struct culm_gnn_holder *holder = calloc(1, sizeof *holder);
    if (!holder) {
        return NULL;
    }
    holder->self = self;
    holder->version = holder->save_version = -1;
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

static void clear_sums(struct culm_gnn_holder *holder) {
    for (int32_t s = 0; s < CULM_GNN_STAGES_MAX; s++) {
        if (holder->slice[s]) {
            culm_fold_clear(&holder->tree, holder->slice[s]);
        }
        culm_blob_clear(&holder->whole[s]);
    }
}

static void clear_early(struct culm_gnn_holder *holder) {
    for (int32_t i = 0; i < holder->early_count; i++) {
        culm_blob_unref(holder->early[i].blob);
    }
    holder->early_count = 0;
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
        clear_sums(holder);
    }
    clear_early(holder);
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

/* Whether this node is a holder under the current view, and what it has counts there. */
static bool current(const struct culm_gnn_holder *holder) {
    const struct culm_gnn_view *view = &holder->self->view;
    for (int32_t h = 0; h < view->holder_count; h++) {
        if (view->holder[h].node == holder->self->o.id) {
            return holder->attempt == view->attempt && holder->since == view->holder[h].since;
        }
    }
    return false;
}

int64_t culm_gnn_holder_version(const struct culm_gnn_holder *holder) { return holder->version; }

static void start(struct culm_gnn_holder *holder, enum culm_gnn_task_kind kind) {
    holder->busy = true;
    holder->task.kind = kind;
    culm_gnn_run(holder->self, &holder->task);
}

/* --- weights that others ask for --- */

struct culm_blob *culm_gnn_holder_weights(const struct culm_gnn_holder *holder, int64_t version) {
    int64_t at = version % holder->window;
    bool here = version >= 0 && holder->attempt == holder->self->view.attempt &&
                holder->weights_version[at] == version && holder->weights[at];
    return here ? culm_blob_ref(holder->weights[at]) : NULL;
}

static void keep_weights(struct culm_gnn_holder *holder, int64_t version, struct culm_blob *blob) {
    int64_t at = version % holder->window;
    culm_blob_clear(&holder->weights[at]);
    holder->weights[at] = culm_blob_ref(blob);
    holder->weights_version[at] = version;
}

static void send_weights(struct culm_gnn_holder *holder, int32_t to, int64_t version,
                         struct culm_blob *blob) {
    const struct culm_gnn_version key = {holder->attempt, version, version};
    culm_gnn_version_encode(&key, culm_gnn_meta(holder->self));
    culm_gnn_send(holder->self, to, CULM_GNN_MSG_WEIGHTS, blob);
}

/* Sends the newest weights that satisfy the request. False: there are none. */
static bool give(struct culm_gnn_holder *holder, const struct asked *asked) {
    int64_t newest = -1;
    for (int32_t w = 0; w < holder->window; w++) {
        int64_t version = holder->weights_version[w];
        bool wanted = version >= asked->what.oldest && version <= asked->what.version;
        newest = wanted && version > newest ? version : newest;
    }
    struct culm_blob *blob =
        asked->what.attempt == holder->attempt ? culm_gnn_holder_weights(holder, newest) : NULL;
    if (!blob) {
        return false;
    }
    send_weights(holder, asked->node, newest, blob);
    culm_blob_unref(blob);
    return true;
}

/* Whether a request can never be answered: it is of an earlier attempt, or of a version whose place
 * a later one has taken. */
static bool is_past(const struct culm_gnn_holder *holder, const struct culm_gnn_version *what) {
    uint32_t attempt = holder->self->view.attempt;
    return what->attempt < attempt || (what->attempt == attempt && holder->attempt == attempt &&
                                       what->version + holder->window <= holder->version);
}

/* Answers the requests that can be answered; drops those that never can be. */
static void answer(struct culm_gnn_holder *holder) {
    int32_t left = 0;
    for (int32_t i = 0; i < holder->asked_count; i++) {
        struct asked *asked = &holder->asked[i];
        if (!give(holder, asked) && !is_past(holder, &asked->what)) {
            holder->asked[left++] = *asked;
        }
    }
    holder->asked_count = left;
}

static void hear_get(struct culm_gnn_holder *holder, int32_t from,
                     const struct culm_message *message) {
    struct asked asked = {.node = from};
    if (culm_gnn_version_decode(message->meta, message->meta_bytes, &asked.what) != CULM_OK) {
        return;
    }
    for (int32_t i = 0; i < holder->asked_count; i++) {
        const struct asked *other = &holder->asked[i];
        if (other->node == from && other->what.attempt == asked.what.attempt &&
            other->what.version == asked.what.version) {
            return; /* it has asked for them before */
        }
    }
    if (holder->asked_count >= ASKED_MAX) {
        return; /* no honest nodes ask for so much */
    }
    if (!CULM_GROW(holder->asked, holder->asked_capacity, holder->asked_count + 1)) {
        culm_gnn_fail(holder->self, CULM_ERR_MEMORY, "out of memory");
        return;
    }
    holder->asked[holder->asked_count++] = asked;
    answer(holder);
}

/* --- the step --- */

/* Where rows may be stale, only the first holder sums (see send_sum in server_data.c), and sends
 * the whole gradients to the others. */
static bool one_sums(const struct culm_gnn_holder *holder) {
    return holder->self->o.pace.staleness > 0;
}

static bool is_first(const struct culm_gnn_holder *holder) {
    const struct culm_gnn_view *view = &holder->self->view;
    return view->holder_count > 0 && view->holder[0].node == holder->self->o.id;
}

static void hand_to(struct culm_gnn_holder *holder, int32_t node, int32_t stage) {
    const struct culm_gnn_gradient_key key = {holder->attempt, holder->version + 1, stage, 0};
    culm_gnn_gradient_encode(&key, culm_gnn_meta(holder->self));
    culm_gnn_send(holder->self, node, CULM_GNN_MSG_GRADIENT, holder->whole[stage]);
}

static void hand_on(struct culm_gnn_holder *holder, int32_t stage) {
    const struct culm_gnn_view *view = &holder->self->view;
    for (int32_t h = 1; one_sums(holder) && is_first(holder) && h < view->holder_count; h++) {
        hand_to(holder, view->holder[h].node, stage);
    }
}

/* Where one holder sums for all: whether gradients from this sender count now. If the sender is not
 * the first holder, it may be under a newer view, which this node has not been told of. Under that
 * view this node may have to drop the version that it got from the previous first holder. */
static bool counts(const struct culm_gnn_holder *holder, int32_t from) {
    const struct culm_gnn_view *view = &holder->self->view;
    return !one_sums(holder) || is_first(holder) ||
           (view->holder_count > 0 && view->holder[0].node == from);
}

static void take_gradient(struct culm_gnn_holder *holder, const struct culm_gnn_gradient_key *key,
                          struct culm_blob *blob) {
    if (one_sums(holder) && !is_first(holder)) {
        if (key->tree_node == 0 && !holder->whole[key->stage] && !holder->stepping) {
            holder->whole[key->stage] = culm_blob_ref(blob);
        }
        return;
    }
    /* Once the sum is complete, a FOLD may be using the slices. */
    struct culm_slice *slice = holder->slice[key->stage];
    if (!holder->whole[key->stage] && !holder->stepping && !culm_fold_whole(&holder->tree, slice)) {
        culm_fold_add(&holder->tree, slice, key->tree_node, blob, 0);
    }
}

/* Whether that epoch is committed. */
static bool is_over(const struct culm_gnn_holder *holder, const struct culm_gnn_gradient_key *key) {
    return key->attempt == holder->self->view.attempt && key->epoch <= holder->committed;
}

static void hear_gradient(struct culm_gnn_holder *holder, int32_t from,
                          const struct culm_message *message) {
    struct culm_gnn_gradient_key key;
    const struct culm_gnn_layout *layout = holder->self->o.layout;
    if (culm_gnn_gradient_decode(message->meta, message->meta_bytes, layout, holder->tree.count,
                                 &key) != CULM_OK ||
        !message->payload || message->payload_bytes != layout->gradient_bytes[key.stage] ||
        key.attempt < holder->self->view.attempt || is_over(holder, &key)) {
        return;
    }
    bool now = key.attempt == holder->attempt && current(holder) && counts(holder, from);
    if (now && key.epoch <= holder->version) {
        return; /* already part of the state */
    }
    if (now && key.epoch == holder->version + 1) {
        take_gradient(holder, &key, message->payload);
        return;
    }
    if (!CULM_GROW(holder->early, holder->early_capacity, holder->early_count + 1)) {
        culm_gnn_fail(holder->self, CULM_ERR_MEMORY, "out of memory");
        return;
    }
    holder->early[holder->early_count++] =
        (struct early){from, key, culm_blob_ref(message->payload)};
}

static void replay_early(struct culm_gnn_holder *holder) {
    int32_t left = 0;
    for (int32_t i = 0; i < holder->early_count; i++) {
        struct early *early = &holder->early[i];
        bool now =
            early->key.attempt == holder->attempt && current(holder) && counts(holder, early->from);
        if (now && early->key.epoch == holder->version + 1) {
            take_gradient(holder, &early->key, early->blob);
        }
        bool past = early->key.attempt < holder->self->view.attempt ||
                    is_over(holder, &early->key) ||
                    (now && early->key.epoch <= holder->version + 1);
        if (!past) {
            holder->early[left++] = *early;
        } else {
            culm_blob_unref(early->blob);
        }
    }
    holder->early_count = left;
}

static void say_held(struct culm_gnn_holder *holder) {
    const struct culm_gnn_held held = {holder->attempt, holder->version, holder->digest,
                                       holder->self->view.number, holder->diverged};
    culm_gnn_held_encode(&held, culm_gnn_meta(holder->self));
    culm_gnn_send(holder->self, CULM_LEADER, CULM_GNN_MSG_HOLDS, NULL);
}

/* Forms the next sum, or updates the state if all sums are there. True: a task was started. */
static bool step_on(struct culm_gnn_holder *holder) {
    const struct culm_gnn_layout *layout = holder->self->o.layout;
    /* A version is not left before its commit, nor before it is exported if it is to be saved. The
     * final one is never left: it may have to be saved later, and servers that run ahead may have
     * begun an epoch after it. */
    const struct culm_gnn_course *course = &holder->self->view.course;
    bool final = !course->train && holder->version + 1 >= course->epoch;
    if (!holder->ready || holder->version > holder->committed || holder->save_version >= 0 ||
        final) {
        return false;
    }
    bool all = true;
    for (int32_t s = 0; s < layout->stages; s++) {
        if (layout->gradient_bytes[s] == 0 || holder->whole[s]) {
            continue;
        }
        all = false;
        if (culm_fold_whole(&holder->tree, holder->slice[s])) {
            holder->task = (struct culm_gnn_task){
                .stage = s, .tree = &holder->tree, .slice = holder->slice[s], .root = 0};
            start(holder, CULM_GNN_TASK_FOLD);
            return true;
        }
    }
    if (!all) {
        return false;
    }
    culm_gnn_point(holder->self, CULM_GNN_PHASE_UPDATE, holder->version + 1, -1);
    holder->task = (struct culm_gnn_task){
        .epoch = holder->version + 1, .whole = holder->whole, .digest = holder->digest};
    holder->stepping = true;
    start(holder, CULM_GNN_TASK_STEP);
    return true;
}

/* --- copies and files --- */

static bool export_on(struct culm_gnn_holder *holder) {
    if (!holder->ready || holder->exporting) {
        return false;
    }
    const struct culm_gnn_view *view = &holder->self->view;
    bool wanted = holder->save_version == holder->version && !holder->saving;
    holder->export_to_save = wanted;
    for (int32_t h = 0; h < view->holder_count && !wanted; h++) {
        wanted = view->holder[h].from == holder->self->o.id && !holder->sent[h];
    }
    if (!wanted) {
        return false;
    }
    holder->exporting = true;
    holder->export_attempt = holder->attempt;
    holder->export_task = (struct culm_gnn_task){
        .kind = CULM_GNN_TASK_EXPORT, .version = holder->version, .digest = holder->digest};
    culm_gnn_run(holder->self, &holder->export_task);
    return true;
}

static void exported(struct culm_gnn_holder *holder) {
    struct culm_gnn_self *self = holder->self;
    struct culm_gnn_task *task = &holder->export_task;
    holder->exporting = false;
    if (holder->export_attempt != self->view.attempt) {
        culm_blob_clear(&task->output);
        return;
    }
    if (holder->export_to_save) {
        if (holder->save_version == task->version) {
            culm_gnn_point(self, CULM_GNN_PHASE_CHECKPOINT, task->version, -1);
            holder->saving = true;
            holder->save_task = (struct culm_gnn_task){.kind = CULM_GNN_TASK_SAVE,
                                                       .version = task->version,
                                                       .verdict = holder->save_verdict,
                                                       .last = holder->save_last,
                                                       .input = culm_blob_ref(task->output)};
            culm_gnn_run_io(self, &holder->save_task);
        }
        holder->save_version = -1;
    } else if (task->version == holder->version) {
        const struct culm_gnn_held held = {holder->attempt, task->version, task->digest,
                                           self->view.number, holder->diverged};
        for (int32_t h = 0; h < self->view.holder_count; h++) {
            const struct culm_gnn_view_holder *to = &self->view.holder[h];
            if (to->from != self->o.id || holder->sent[h]) {
                continue;
            }
            holder->sent[h] = true;
            /* Earlier weights go first: once the receiver has the state, it is asked for them. */
            for (int32_t ago = holder->window - 1; ago > 0; ago--) {
                struct culm_blob *before = culm_gnn_holder_weights(holder, task->version - ago);
                if (before) {
                    send_weights(holder, to->node, task->version - ago, before);
                    culm_blob_unref(before);
                }
            }
            culm_gnn_held_encode(&held, culm_gnn_meta(self));
            culm_gnn_send(self, to->node, CULM_GNN_MSG_STATE, task->output);
            for (int32_t s = 0; one_sums(holder) && s < self->o.layout->stages; s++) {
                if (holder->whole[s]) { /* the others have been sent it before */
                    hand_to(holder, to->node, s);
                }
            }
        }
    }
    culm_blob_clear(&task->output);
}

/* A checkpoint was written, or could not be, which costs the run nothing but the checkpoint. */
static void saved(struct culm_gnn_holder *holder) {
    const struct culm_job *job = &holder->save_task.job;
    struct culm_gnn_saved saved = {.attempt = holder->attempt,
                                   .version = holder->save_task.version,
                                   .status = job->status,
                                   .verdict = holder->save_task.verdict};
    if (job->status == CULM_OK) {
        memcpy(saved.path, holder->save_task.text, sizeof saved.path);
        saved.path[sizeof saved.path - 1] = '\0';
    } else {
        snprintf(saved.why, sizeof saved.why, "%s", job->error.text);
    }
    holder->saving = false;
    if (holder->save_version == saved.version) {
        holder->save_version = -1; /* a second request for the same version */
    }
    culm_blob_clear(&holder->save_task.input);
    culm_gnn_saved_encode(&saved, culm_gnn_meta(holder->self));
    culm_gnn_send(holder->self, CULM_LEADER, CULM_GNN_MSG_SAVED, NULL);
}

/* A copy may arrive before the view that makes this node a holder, or makes it one again. */
static void hear_state(struct culm_gnn_holder *holder, const struct culm_message *message) {
    struct culm_gnn_held held;
    if (culm_gnn_held_decode(message->meta, message->meta_bytes, &held) != CULM_OK ||
        !message->payload || held.attempt < holder->self->view.attempt ||
        (current(holder) && holder->version >= 0 && held.view <= holder->self->view.number) ||
        (holder->copy_state && holder->copy.view > held.view)) {
        return;
    }
    culm_blob_clear(&holder->copy_state);
    holder->copy_state = culm_blob_ref(message->payload);
    holder->copy = held;
}

/* Weights from another holder, ahead of a copy of its state. They are of committed versions, so
 * they are the right ones in any case. */
static void hear_weights(struct culm_gnn_holder *holder, const struct culm_message *message) {
    struct culm_gnn_version key;
    if (culm_gnn_version_decode(message->meta, message->meta_bytes, &key) == CULM_OK &&
        message->payload && key.attempt >= holder->self->view.attempt && !holder->busy &&
        !(current(holder) && holder->version >= 0)) {
        holder->attempt = key.attempt;
        holder->version = -1;
        keep_weights(holder, key.version, message->payload);
    }
}

/* --- what to do next --- */

static bool begin_state(struct culm_gnn_holder *holder) {
    const struct culm_gnn_view *view = &holder->self->view;
    if (holder->version >= 0 && current(holder)) {
        return false;
    }
    for (int32_t h = 0; h < view->holder_count; h++) {
        if (view->holder[h].node != holder->self->o.id) {
            continue;
        }
        if (view->holder[h].from < 0) {
            culm_gnn_point(holder->self, CULM_GNN_PHASE_LOAD, view->course.epoch, -1);
            holder->attempt = view->attempt;
            holder->since = view->holder[h].since;
            holder->task =
                (struct culm_gnn_task){.version = view->load_version, .source_path = view->load};
            start(holder, CULM_GNN_TASK_LOAD);
            return true;
        }
        if (holder->copy_state && holder->copy.attempt == view->attempt &&
            holder->copy.view >= view->holder[h].since) {
            holder->attempt = view->attempt;
            holder->since = view->holder[h].since;
            holder->task = (struct culm_gnn_task){.version = holder->copy.version,
                                                  .digest = holder->copy.digest,
                                                  .diverged = holder->copy.diverged,
                                                  .input = holder->copy_state};
            holder->copy_state = NULL;
            start(holder, CULM_GNN_TASK_IMPORT);
            return true;
        }
    }
    return false;
}

static void go_on(struct culm_gnn_holder *holder) {
    if (holder->self->left || holder->self->view.number == 0 || holder->busy) {
        return;
    }
    if (begin_state(holder)) {
        return;
    }
    (void)(export_on(holder) || step_on(holder));
}

/* The state has a new version: copies out its weights. */
static void arrived(struct culm_gnn_holder *holder, int64_t version, uint64_t digest,
                    bool diverged) {
    holder->version = version;
    holder->digest = digest;
    holder->diverged = diverged;
    holder->task = (struct culm_gnn_task){.version = version, .digest = digest};
    start(holder, CULM_GNN_TASK_WEIGHTS);
}

bool culm_gnn_holder_job_done(struct culm_gnn_holder *holder, struct culm_job *job) {
    struct culm_gnn_task *task = (struct culm_gnn_task *)job;
    if (task != &holder->task && task != &holder->export_task && task != &holder->save_task) {
        return false;
    }
    if (job->status != CULM_OK && task != &holder->save_task) {
        culm_gnn_fail(holder->self, job->status, "%s", job->error.text);
        return true;
    }
    if (task == &holder->export_task) {
        exported(holder);
        go_on(holder);
        return true;
    }
    if (task == &holder->save_task) {
        saved(holder);
        go_on(holder);
        return true;
    }
    holder->busy = false;
    if (!current(holder)) {
        release_task(task); /* the result is not wanted any more */
        holder->version = -1;
        holder->stepping = false;
        clear_sums(holder);
        go_on(holder);
        return true;
    }
    switch (task->kind) {
    case CULM_GNN_TASK_FOLD:
        holder->whole[task->stage] = task->output;
        task->output = NULL;
        hand_on(holder, task->stage);
        culm_fold_clear(&holder->tree, holder->slice[task->stage]);
        break;
    case CULM_GNN_TASK_STEP:
        holder->stepping = false;
        clear_sums(holder);
        holder->ready = false;
        arrived(holder, task->epoch, task->digest, task->diverged);
        return true;
    case CULM_GNN_TASK_IMPORT: culm_blob_clear(&task->input); /* fall through */
    case CULM_GNN_TASK_LOAD:
        arrived(holder, task->version, task->digest, task->diverged);
        return true;
    default: /* WEIGHTS */
        keep_weights(holder, task->version, task->output);
        culm_blob_clear(&task->output);
        holder->ready = true;
        culm_gnn_point(holder->self, CULM_GNN_PHASE_COMMIT, holder->version, -1);
        say_held(holder);
        replay_early(holder);
        answer(holder);
        break;
    }
    go_on(holder);
    return true;
}

/* --- what is received --- */

void culm_gnn_holder_view(struct culm_gnn_holder *holder) {
    const struct culm_gnn_view *view = &holder->self->view;
    holder->save_version = -1; /* the view says again what is to be saved */
    if (!current(holder)) {
        if (!holder->busy) { /* else once the task is done */
            holder->version = -1;
            clear_sums(holder);
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
    if (view->saver == holder->self->o.id) {
        holder->save_version = view->course.epoch - 1;
        holder->save_verdict = view->verdict;
        holder->save_last = !view->course.train;
    }
    memset(holder->sent, 0, sizeof holder->sent);
    if (holder->ready) { /* else once it has the state */
        replay_early(holder);
    }
    answer(holder);
    go_on(holder);
}

void culm_gnn_holder_commit(struct culm_gnn_holder *holder, const struct culm_gnn_commit *commit) {
    holder->committed = commit->epoch;
    if (commit->saver == holder->self->o.id) {
        holder->save_version = commit->epoch;
        holder->save_verdict = commit->verdict;
        holder->save_last = !commit->next.train;
    }
    go_on(holder);
}

void culm_gnn_holder_message(struct culm_gnn_holder *holder, int32_t from,
                             const struct culm_message *message) {
    switch (message->type) {
    case CULM_GNN_MSG_GET: hear_get(holder, from, message); break;
    case CULM_GNN_MSG_GRADIENT: hear_gradient(holder, from, message); break;
    case CULM_GNN_MSG_STATE: hear_state(holder, message); break;
    case CULM_GNN_MSG_WEIGHTS: hear_weights(holder, message); break;
    default: return;
    }
    go_on(holder);
}

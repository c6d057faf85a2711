/* A server: its life, its intervals and what they do next. See server.h. */
#include "gnn/server_internal.h"

#include <stdlib.h>
#include <string.h>

/* --- intervals --- */

/* What it has made of the epoch, or of part of it. */
static void forget_epoch(struct culm_gnn_server *server, struct interval *interval) {
    const struct culm_gnn_layout *layout = server->self.o.layout;
    for (int32_t q = 0; q < layout->gathers; q++) {
        culm_blob_clear(&interval->made[q].blob);
        interval->made[q].sent_count = 0;
        interval->made[q].served = false;
        culm_blob_clear(&interval->gathered[q]);
    }
    for (int32_t s = 0; s < layout->stages; s++) {
        culm_blob_clear(&interval->gradient[s]);
    }
    culm_blob_clear(&interval->share);
    interval->totals = (struct culm_gnn_totals){0};
    interval->work = (struct culm_gnn_work){0};
    interval->step = server->self.view.course.train ? 0 : layout->train_steps;
    interval->out = interval->told = false;
    interval->worker = -1;
    interval->life++;
}

static int32_t last_step(const struct culm_gnn_server *server) {
    const struct culm_gnn_layout *layout = server->self.o.layout;
    return server->self.view.course.evaluate ? layout->steps : layout->train_steps;
}

/* Lets go of what the task read and made. */
static void release_task(struct culm_gnn_server *server) {
    struct culm_gnn_task *task = &server->task;
    for (int32_t i = 0; i < task->source_count; i++) {
        culm_blob_clear(&server->source[i].blob);
    }
    for (int32_t q = 0; task->made && q < server->self.o.layout->gathers; q++) {
        culm_blob_clear(&server->made[q]);
        culm_blob_clear(&server->gathered[q]);
    }
    culm_blob_clear(&task->input);
    culm_blob_clear(&task->rows);
    culm_blob_clear(&task->d_rows);
    culm_blob_clear(&task->weights);
    culm_blob_clear(&task->output);
    culm_blob_clear(&task->gradient);
    task->source_count = 0;
    task->made = task->gathered = NULL;
}

void culm_gnn_server_free(struct culm_gnn_server *server) {
    if (!server) {
        return;
    }
    const struct culm_gnn_layout *layout = server->self.o.layout;
    for (int32_t i = 0; server->interval && i < layout->intervals; i++) {
        struct interval *interval = &server->interval[i];
        if (interval->made && interval->gathered) {
            forget_epoch(server, interval);
            for (int32_t q = 0; q < layout->gathers; q++) {
                free(interval->made[q].sent);
            }
        }
        culm_blob_clear(&interval->constant);
        free(interval->made);
        free(interval->gathered);
    }
    if (server->ghost) {
        culm_gnn_server_forget_ghosts(server);
    }
    while (server->early) {
        struct ghost *ghost = server->early;
        server->early = ghost->next;
        culm_blob_unref(ghost->blob);
        free(ghost);
    }
    while (server->workers) {
        culm_gnn_server_worker_lost(server, server->workers->node);
    }
    if (server->fold_slice) {
        culm_fold_clear(&server->tree, server->fold_slice);
    }
    for (int32_t s = 0; s < layout->stages; s++) {
        if (server->sum[s]) {
            for (int32_t n = 0; n < server->tree.count; n++) {
                culm_blob_clear(&server->sum[s][n].blob);
            }
        }
        free(server->sum[s]);
    }
    culm_blob_clear(&server->weights);
    release_task(server);
    culm_gnn_holder_free(server->holder);
    culm_fold_tree_release(&server->tree);
    free(server->interval);
    free(server->peer);
    free(server->cover);
    free(server->fold_slice);
    free(server->ghost);
    free(server->source);
    free(server->readers);
    free(server->made);
    free(server->gathered);
    culm_gnn_self_release(&server->self);
    free(server);
}

static bool allocate(struct culm_gnn_server *server) {
    const struct culm_gnn_layout *layout = server->self.o.layout;
    size_t intervals = (size_t)layout->intervals, gathers = (size_t)layout->gathers + 1;
    server->holder = culm_gnn_holder_new(&server->self);
    server->interval = calloc(intervals, sizeof *server->interval);
    server->peer = calloc(intervals, sizeof *server->peer);
    server->cover = calloc(intervals, sizeof *server->cover);
    server->source = calloc(intervals, sizeof *server->source);
    server->ghost = calloc(intervals * gathers, sizeof(struct ghost *));
    server->readers = calloc(intervals, sizeof *server->readers);
    server->made = calloc(gathers, sizeof(struct culm_blob *));
    server->gathered = calloc(gathers, sizeof(struct culm_blob *));
    bool there = server->readers && server->made && server->gathered && server->holder &&
                 server->interval && server->peer && server->cover && server->source &&
                 server->ghost && culm_fold_tree_init(&server->tree, layout->intervals);
    server->fold_slice =
        there ? calloc((size_t)server->tree.count, sizeof *server->fold_slice) : NULL;
    there = there && server->fold_slice;
    for (int32_t s = 0; s < layout->stages && there; s++) {
        server->sum[s] = calloc((size_t)server->tree.count, sizeof *server->sum[s]);
        there = server->sum[s] != NULL;
    }
    for (size_t i = 0; i < intervals && there; i++) {
        struct interval *interval = &server->interval[i];
        interval->made = calloc(gathers, sizeof *interval->made);
        interval->gathered = calloc(gathers, sizeof(struct culm_blob *));
        there = interval->made && interval->gathered;
    }
    return there;
}

struct culm_gnn_server *culm_gnn_server_new(const struct culm_gnn_server_options *options) {
    struct culm_gnn_server *server = calloc(1, sizeof *server);
    if (!server) {
        return NULL;
    }
    culm_gnn_self_init(&server->self, &options->node);
    server->has_workers = options->workers;
    server->asked = -1;
    if (!allocate(server)) {
        culm_gnn_server_free(server);
        return NULL;
    }
    return server;
}

/* --- what it does next --- */

void culm_gnn_server_start(struct culm_gnn_server *server) {
    server->busy = true;
    server->task_attempt = server->self.view.attempt;
    server->task_epoch = server->self.view.course.epoch;
    server->task_life = server->interval[server->task.interval].life;
    culm_gnn_run(&server->self, &server->task);
}

static bool own_next(struct culm_gnn_server *server) {
    for (int32_t i = 0; i < server->self.o.layout->intervals; i++) {
        struct interval *interval = &server->interval[i];
        if (interval->mine != interval->here) {
            enum culm_gnn_task_kind kind = interval->mine ? CULM_GNN_TASK_OWN : CULM_GNN_TASK_DROP;
            if (interval->mine) {
                culm_gnn_point(&server->self, CULM_GNN_PHASE_LOAD, i);
            }
            server->task = (struct culm_gnn_task){.kind = kind, .interval = i};
            culm_gnn_server_start(server);
            return true;
        }
    }
    return false;
}

/* Starts gather `gather` of an interval, if all that it reads is here. */
static bool gather_next(struct culm_gnn_server *server, int32_t index, int32_t gather) {
    const struct culm_gnn_layout *layout = server->self.o.layout;
    const struct culm_gnn_set *reads = &layout->reads[layout->gather[gather].transposed][index];
    int32_t count = 0;
    for (int32_t j = 0; j < layout->intervals; j++) {
        if (culm_gnn_set_has(reads, j)) {
            server->source[count] = culm_gnn_server_rows(server, gather, j, index);
            if (!server->source[count++].blob) {
                memset(server->source, 0, (size_t)count * sizeof *server->source);
                return false;
            }
        }
    }
    struct interval *interval = &server->interval[index];
    for (int32_t i = 0; i < count; i++) {
        struct culm_gnn_source *source = &server->source[i];
        (void)culm_blob_ref(source->blob);
        if (source->readers) {
            server->readers[i] = *source->readers;
            source->readers = &server->readers[i];
        }
    }
    for (int32_t q = 0; q < layout->gathers; q++) {
        server->made[q] = culm_blob_ref(interval->made[q].blob);
        server->gathered[q] = culm_blob_ref(interval->gathered[q]);
    }
    culm_gnn_point(&server->self, CULM_GNN_PHASE_GATHER, index);
    server->task = (struct culm_gnn_task){.kind = CULM_GNN_TASK_GATHER,
                                          .interval = index,
                                          .gather = gather,
                                          .source = server->source,
                                          .source_count = count,
                                          .made = server->made,
                                          .gathered = server->gathered};
    interval->out = true;
    culm_gnn_server_start(server);
    return true;
}

/* The weights of this epoch; asks for them where they are not here. */
static bool have_weights(struct culm_gnn_server *server) {
    const struct culm_gnn_view *view = &server->self.view;
    int64_t version = view->course.epoch - 1;
    if (server->weights && server->weights_version == version &&
        server->weights_attempt == view->attempt) {
        return true;
    }
    struct culm_blob *own = culm_gnn_holder_weights(server->holder, version);
    if (own) {
        culm_blob_clear(&server->weights);
        server->weights = own;
        server->weights_version = version;
        server->weights_attempt = view->attempt;
        return true;
    }
    if (server->asked >= 0 || view->holder_count == 0 ||
        culm_gnn_view_holds(view, server->self.o.id)) {
        return false;
    }
    server->asked = server->self.o.id % view->holder_count;
    const struct culm_gnn_version what = {view->attempt, version};
    culm_gnn_version_encode(&what, culm_gnn_meta(&server->self));
    culm_gnn_send(&server->self, view->holder[server->asked].node, CULM_GNN_MSG_GET, NULL);
    return false;
}

static bool apply_here(struct culm_gnn_server *server, int32_t index) {
    struct interval *interval = &server->interval[index];
    const struct culm_gnn_step *step = &server->self.o.layout->step[interval->step];
    if (!have_weights(server)) {
        return false;
    }
    culm_gnn_point(&server->self, CULM_GNN_PHASE_APPLY, index);
    interval->out = true;
    interval->worker = -1;
    server->task = (struct culm_gnn_task){
        .kind = CULM_GNN_TASK_APPLY,
        .interval = index,
        .step = interval->step,
        .epoch = server->self.view.course.epoch,
        .weights = culm_blob_ref(server->weights),
        .rows = step->rows >= 0 ? culm_blob_ref(interval->gathered[step->rows]) : NULL,
        .d_rows = step->d_rows >= 0 ? culm_blob_ref(interval->gathered[step->d_rows]) : NULL};
    culm_gnn_server_start(server);
    return true;
}

/* Lets an interval go on by one task. True: something has been started here. */
static bool step_next(struct culm_gnn_server *server, int32_t index) {
    struct interval *interval = &server->interval[index];
    const struct culm_gnn_step *step = &server->self.o.layout->step[interval->step];
    const int32_t reads[] = {step->rows, step->d_rows};
    for (int r = 0; r < 2; r++) {
        if (reads[r] >= 0 && !interval->gathered[reads[r]]) {
            return gather_next(server, index, reads[r]);
        }
    }
    if (step->remote && server->has_workers && culm_gnn_server_someone_works(server)) {
        (void)culm_gnn_server_hand_out(server, index);
        return server->busy;
    }
    return apply_here(server, index);
}

/* The interval that is furthest behind goes first. */
static bool intervals_next(struct culm_gnn_server *server) {
    int32_t last = last_step(server);
    for (int32_t at = 0; at < last; at++) {
        for (int32_t i = 0; i < server->self.o.layout->intervals; i++) {
            struct interval *interval = &server->interval[i];
            if (interval->mine && interval->here && !interval->out && interval->step == at &&
                step_next(server, i)) {
                return true;
            }
        }
    }
    return false;
}

static void tell_done(struct culm_gnn_server *server) {
    const struct culm_gnn_view *view = &server->self.view;
    int32_t last = last_step(server);
    for (int32_t i = 0; i < server->self.o.layout->intervals; i++) {
        struct interval *interval = &server->interval[i];
        if (!interval->mine || interval->told || interval->step < last) {
            continue;
        }
        interval->told = true;
        culm_gnn_point(&server->self, CULM_GNN_PHASE_COMMIT, i);
        const struct culm_gnn_done done = {view->attempt, view->course.epoch, i, interval->totals,
                                           interval->work};
        culm_gnn_done_encode(&done, culm_gnn_meta(&server->self));
        culm_gnn_send(&server->self, CULM_LEADER, CULM_GNN_MSG_DONE, NULL);
    }
}

static void go_on(struct culm_gnn_server *server) {
    if (server->self.left || server->busy || server->self.view.number == 0) {
        return;
    }
    if (own_next(server) || culm_gnn_server_scatter(server) || culm_gnn_server_sum(server)) {
        return;
    }
    tell_done(server);
    (void)intervals_next(server);
}

void culm_gnn_server_stepped(struct culm_gnn_server *server, int32_t index,
                             struct culm_blob *take_output, struct culm_blob *take_gradient,
                             const struct culm_gnn_totals *totals) {
    struct interval *interval = &server->interval[index];
    const struct culm_gnn_step *step = &server->self.o.layout->step[interval->step];
    interval->out = false;
    interval->worker = -1;
    if (step->makes >= 0) {
        interval->made[step->makes].blob = take_output;
    } else {
        culm_blob_unref(take_output);
    }
    if (step->gradient) {
        interval->gradient[step->stage] = take_gradient;
    } else {
        culm_blob_unref(take_gradient);
    }
    interval->totals.loss += totals->loss;
    for (int p = 0; p < CULM_GNN_SPLITS; p++) {
        interval->totals.correct[p] += totals->correct[p];
    }
    interval->step++;
    interval->work.tasks++;
}

/* --- jobs --- */

/* Whether what was done is still of use. */
static bool is_current(const struct culm_gnn_server *server) {
    return server->task_attempt == server->self.view.attempt &&
           server->task_epoch == server->self.view.course.epoch &&
           server->interval[server->task.interval].life == server->task_life;
}

static void count_gather(const struct culm_gnn_server *server, struct interval *interval,
                         const struct culm_gnn_task *task) {
    const struct culm_gnn_layout *layout = server->self.o.layout;
    const struct culm_gnn_gather *gather = &layout->gather[task->gather];
    if (task->gather < layout->train_gathers) {
        int64_t rows = layout->edges[gather->transposed][task->interval];
        interval->work.gathered_rows += rows;
        interval->work.gathered_floats += rows * (int64_t)gather->row_floats;
    }
}

static void use_result(struct culm_gnn_server *server) {
    struct culm_gnn_task *task = &server->task;
    struct interval *interval = &server->interval[task->interval];
    switch (task->kind) {
    case CULM_GNN_TASK_OWN: interval->here = true; return;
    case CULM_GNN_TASK_DROP: interval->here = false; return;
    case CULM_GNN_TASK_FOLD:
        culm_fold_clear(&server->tree, server->fold_slice);
        if (server->task_attempt == server->self.view.attempt &&
            server->task_epoch == server->self.view.course.epoch) {
            culm_gnn_server_summed(server);
        }
        return;
    case CULM_GNN_TASK_SLICE: culm_gnn_server_sliced(server); return;
    case CULM_GNN_TASK_PACK:
        if (interval->mine) {
            culm_blob_clear(&interval->constant);
            interval->constant = culm_blob_ref(task->output);
        }
        return;
    default: break;
    }
    if (!is_current(server)) {
        return;
    }
    if (task->kind == CULM_GNN_TASK_GATHER) {
        interval->out = false;
        culm_blob_clear(&interval->gathered[task->gather]);
        interval->gathered[task->gather] = culm_blob_ref(task->output);
        count_gather(server, interval, task);
        return;
    }
    culm_gnn_server_stepped(server, task->interval, task->output, task->gradient, &task->totals);
    task->output = task->gradient = NULL;
}

static void on_job_done(void *actor, struct culm_job *job) {
    struct culm_gnn_server *server = actor;
    if (culm_gnn_holder_job_done(server->holder, job)) {
        go_on(server);
        return;
    }
    server->busy = false;
    if (job->status != CULM_OK) {
        culm_gnn_fail(&server->self, job->status, "%s", job->error.text);
    } else {
        use_result(server);
    }
    release_task(server);
    go_on(server);
}

/* --- views and commits --- */

/* An epoch begins, here or for everyone. */
static void begin_epoch(struct culm_gnn_server *server) {
    for (int32_t i = 0; i < server->self.o.layout->intervals; i++) {
        forget_epoch(server, &server->interval[i]);
    }
    culm_gnn_server_forget_ghosts(server);
    culm_gnn_server_clear_sums(server);
    culm_gnn_server_recall_ghosts(server);
    server->asked = -1;
}

static void enter_view(struct culm_gnn_server *server, const struct culm_message *message) {
    struct culm_gnn_course before = server->self.view.course;
    uint32_t attempt = server->self.view.attempt;
    if (!culm_gnn_enter(&server->self, message)) {
        return;
    }
    const struct culm_gnn_view *view = &server->self.view;
    for (int32_t i = 0; i < server->self.o.layout->intervals; i++) {
        struct interval *interval = &server->interval[i];
        bool mine = view->owner[i] == server->self.o.id;
        if (mine != interval->mine) {
            interval->mine = mine;
            culm_blob_clear(&interval->constant);
            forget_epoch(server, interval);
        }
    }
    if (view->attempt != attempt || view->course.epoch != before.epoch) {
        begin_epoch(server);
    }
    server->asked = -1;
    culm_gnn_tell_gone(&server->self);
    culm_gnn_server_resend(server);
    culm_gnn_holder_view(server->holder);
}

static void hear_commit(struct culm_gnn_server *server, const struct culm_message *message) {
    struct culm_gnn_commit commit;
    struct culm_gnn_view *view = &server->self.view;
    if (culm_gnn_commit_decode(message->meta, message->meta_bytes, &commit) != CULM_OK ||
        commit.attempt != view->attempt || commit.epoch != view->course.epoch) {
        return;
    }
    view->course = commit.next;
    begin_epoch(server);
    culm_gnn_holder_commit(server->holder, &commit);
}

static void hear_weights(struct culm_gnn_server *server, const struct culm_message *message) {
    struct culm_gnn_version key;
    const struct culm_gnn_view *view = &server->self.view;
    if (culm_gnn_view_holds(view, server->self.o.id)) {
        culm_gnn_holder_message(server->holder, -1, message);
    } else if (culm_gnn_version_decode(message->meta, message->meta_bytes, &key) == CULM_OK &&
               message->payload && key.attempt == view->attempt &&
               key.version == view->course.epoch - 1) {
        culm_blob_clear(&server->weights);
        server->weights = culm_blob_ref(message->payload);
        server->weights_version = key.version;
        server->weights_attempt = key.attempt;
    }
}

static void on_message(void *actor, int32_t from, const struct culm_message *message) {
    struct culm_gnn_server *server = actor;
    bool leader = from == CULM_LEADER;
    if (server->self.left) {
        return;
    }
    switch (message->type) {
    case CULM_GNN_MSG_SLICE: culm_gnn_server_hear_slice(server, message); break;
    case CULM_GNN_MSG_WEIGHTS: hear_weights(server, message); break;
    case CULM_GNN_MSG_READY: culm_gnn_server_worker_ready(server, from); break;
    case CULM_GNN_MSG_SHARE: culm_gnn_server_share(server, message); break;
    case CULM_GNN_MSG_ROWS: culm_gnn_server_result(server, from, message); break;
    case CULM_GNN_MSG_VIEW:
        if (leader) {
            enter_view(server, message);
        }
        break;
    case CULM_GNN_MSG_COMMIT:
        if (leader) {
            hear_commit(server, message);
        }
        break;
    case CULM_GNN_MSG_END:
        if (leader) {
            server->self.left = true;
            server->self.o.world->ops->leave(server->self.o.world, 0, NULL);
        }
        break;
    default: culm_gnn_holder_message(server->holder, from, message); break;
    }
    go_on(server);
}

static void on_lost(void *actor, int32_t node) {
    struct culm_gnn_server *server = actor;
    if (server->self.left) {
        return;
    }
    culm_gnn_server_worker_lost(server, node);
    culm_gnn_gone(&server->self, node);
    culm_gnn_tell_gone(&server->self);
    go_on(server);
}

static void on_start(void *actor) {
    struct culm_gnn_server *server = actor;
    culm_gnn_beat(&server->self);
}

static void on_timer(void *actor, uint32_t timer) {
    struct culm_gnn_server *server = actor;
    if (!server->self.left && timer == CULM_GNN_TIMER_BEAT) {
        culm_gnn_beat(&server->self);
    }
}

const struct culm_actor_ops culm_gnn_server_actor = {
    .size = sizeof culm_gnn_server_actor,
    .start = on_start,
    .message = on_message,
    .lost = on_lost,
    .timer = on_timer,
    .job_done = on_job_done,
};

/* A server: its intervals, what they do next, and what it hears. See server.h. */
#include "interval/server_internal.h"

#include "base/mark.h"

#include <string.h>

#define WAIT_NS 2000000000ull /* for the first worker */

/* --- turns --- */

/* What is done in an epoch. The leader has announced it for the current epoch; for later ones this
 * is what it will announce, unless training ends earlier. */
static struct culm_gnn_course course_of(const struct culm_gnn_server *server, int64_t epoch) {
    const struct culm_gnn_course *course = &server->self.view.course;
    const struct culm_gnn_pace *pace = &server->self.o.pace;
    if (epoch == course->epoch) {
        return *course;
    }
    return (struct culm_gnn_course){epoch, epoch <= pace->epochs,
                                    culm_gnn_pace_evaluates(pace, epoch)};
}

int32_t gnn_server_first_step(const struct culm_gnn_server *server, int64_t epoch) {
    return course_of(server, epoch).train ? 0 : server->self.o.layout->train_steps;
}

/* Begins the interval's turn for that epoch. */
static void begin_turn(struct culm_gnn_server *server, int32_t index, int64_t epoch) {
    struct interval *interval = &server->interval[index];
    struct turn *turn = &interval->turn[epoch % server->window];
    gnn_server_forget_turn(server, turn);
    turn->epoch = epoch;
    turn->step = gnn_server_first_step(server, epoch);
    interval->front = epoch;
}

static void forget_interval(struct culm_gnn_server *server, int32_t index) {
    if (!server->interval[index].turn) {
        return;
    }
    for (int32_t q = 0; q < server->self.o.layout->gathers; q++) {
        gnn_server_forget_sent(&server->interval[index].constants[q]);
    }
    for (int32_t w = 0; w < server->window; w++) {
        gnn_server_forget_turn(server, &server->interval[index].turn[w]);
    }
    server->interval[index].front = 0;
}

/* One past the last step of the epoch. */
static int32_t end_of(const struct culm_gnn_server *server, int64_t epoch) {
    const struct culm_gnn_layout *layout = server->self.o.layout;
    return course_of(server, epoch).evaluate ? layout->steps : layout->train_steps;
}

/* --- what it does next --- */

void gnn_server_start(struct culm_gnn_server *server) {
    server->busy = true;
    server->task_attempt = server->self.view.attempt;
    server->task.attempt = server->task_attempt;
    server->task_epoch = server->task.epoch;
    const struct turn *turn =
        server->task_epoch > 0 ? gnn_turn(server, server->task.interval, server->task_epoch) : NULL;
    server->task_life = turn ? turn->life : 0;
    culm_gnn_run(&server->self, &server->task);
}

static bool own_next(struct culm_gnn_server *server) {
    for (int32_t o = 0; o < server->own_count; o++) {
        const int32_t i = server->own[o];
        struct interval *interval = &server->interval[i];
        if (interval->mine != interval->here) {
            enum culm_gnn_task_kind kind = interval->mine ? CULM_GNN_TASK_OWN : CULM_GNN_TASK_DROP;
            if (interval->mine) {
                culm_self_point(&server->self.node, CULM_GNN_PHASE_LOAD,
                                server->self.view.course.epoch, i);
            }
            server->task = (struct culm_gnn_task){.kind = kind, .interval = i};
            gnn_server_start(server);
            return true;
        }
    }
    return false;
}

struct culm_gnn_source gnn_server_newest(struct culm_gnn_server *server, const struct turn *turn,
                                         int32_t gather, int32_t interval, int32_t reader) {
    bool trains = gather < server->self.o.layout->train_gathers;
    int32_t old = trains ? culm_gnn_pace_staleness(&server->self.o.pace, turn->epoch) : 0;
    struct culm_gnn_source source = {.interval = interval};
    for (int32_t age = 0; age <= old && turn->epoch > age && !source.blob; age++) {
        source = gnn_server_rows(server, gather, interval, turn->epoch - age, reader);
    }
    return source;
}

/* Fills server->source with everything that a gather reads. Returns the number of sources; -1: one
 * is not here yet. It is looked for again from that one on, as slices mostly come, one by one. */
static int32_t find_sources(struct culm_gnn_server *server, struct turn *turn, int32_t index,
                            int32_t gather) {
    const struct culm_gnn_layout *layout = server->self.o.layout;
    const struct culm_set *reads = &layout->reads[layout->gather[gather].transposed][index];
    int32_t count = 0;
    if (turn->lacks_gather != gather) {
        turn->lacks_gather = gather;
        turn->lacks = 0;
    }
    for (int32_t j = culm_set_next(reads, turn->lacks); j >= 0; j = culm_set_next(reads, j + 1)) {
        turn->lacks = j;
        if (!gnn_server_newest(server, turn, gather, j, index).blob) {
            return -1;
        }
    }
    for (int32_t j = culm_set_next(reads, 0); j >= 0; j = culm_set_next(reads, j + 1)) {
        server->source[count] = gnn_server_newest(server, turn, gather, j, index);
        if (!server->source[count++].blob) {
            CULM_MARK(interval_rows_that_were_here_are_not);
            memset(server->source, 0, (size_t)count * sizeof *server->source);
            turn->lacks = j;
            return -1;
        }
    }
    return count;
}

/* They stay as they are while the gather runs, whatever becomes of what they come from. False: out of
 * memory. */
static bool keep_sources(struct culm_gnn_server *server, int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        struct culm_gnn_source *source = &server->source[i];
        if (source->readers && !culm_set_copy(&server->readers[i], source->readers)) {
            return false;
        }
        source->readers = source->readers ? &server->readers[i] : NULL;
    }
    for (int32_t i = 0; i < count; i++) {
        (void)culm_blob_ref(server->source[i].blob);
    }
    return true;
}

/* Starts gather `gather` of an interval if all its sources are here. */
static bool gather_next(struct culm_gnn_server *server, int32_t index, int32_t gather) {
    struct turn *turn = gnn_front(server, index);
    int32_t count = find_sources(server, turn, index, gather);
    if (count < 0) {
        return false;
    }
    if (!keep_sources(server, count)) {
        culm_self_fail(&server->self.node, CULM_ERR_MEMORY, "out of memory");
        memset(server->source, 0, (size_t)count * sizeof *server->source);
        return false;
    }
    for (int32_t q = 0; q < server->self.o.layout->gathers; q++) {
        server->made[q] = culm_blob_ref(turn->made[q].blob);
        server->gathered[q] = culm_blob_ref(turn->gathered[q]);
    }
    gnn_server_look(server, index, turn);
    culm_self_point(&server->self.node, CULM_GNN_PHASE_GATHER, turn->epoch, index);
    if (server->self.o.layout->gather[gather].edges) {
        culm_self_point(&server->self.node, CULM_GNN_PHASE_EDGE, turn->epoch, index);
    }
    server->task = (struct culm_gnn_task){.kind = CULM_GNN_TASK_GATHER,
                                          .interval = index,
                                          .gather = gather,
                                          .epoch = turn->epoch,
                                          .source = server->source,
                                          .source_count = count,
                                          .made = server->made,
                                          .gathered = server->gathered};
    turn->out = true;
    gnn_server_start(server);
    return true;
}

/* A new reference to the weights of that version; NULL: they are not here. */
static struct culm_blob *weights_of(const struct culm_gnn_server *server, int64_t version) {
    int64_t at = version % server->window;
    if (server->weights[at] && server->have[at].version == version &&
        server->have[at].attempt == server->self.view.attempt) {
        return culm_blob_ref(server->weights[at]);
    }
    return culm_gnn_holder_weights(server->holder, version);
}

static void ask_weights(struct culm_gnn_server *server, int64_t epoch, int64_t oldest) {
    const struct culm_gnn_version what = {server->self.view.attempt, epoch - 1, oldest};
    int64_t *asked = &server->asked[epoch % server->window];
    int32_t holder = culm_gnn_view_source(&server->self.view, server->self.o.id);
    if (*asked == epoch || holder < 0) {
        return;
    }
    *asked = epoch;
    culm_gnn_version_encode(&what, culm_self_meta(&server->self.node));
    culm_gnn_send(&server->self, holder, CULM_GNN_MSG_GET, NULL);
}

/* Chooses the weights for a whole turn: the newest that are here and may be used. If there are
 * none, asks a holder for them. */
static bool have_weights(struct culm_gnn_server *server, struct turn *turn) {
    int64_t oldest = culm_gnn_pace_version(&server->self.o.pace, turn->epoch);
    oldest = oldest > 0 ? oldest : 0;
    for (int64_t version = turn->epoch - 1; version >= oldest && !turn->weights; version--) {
        turn->weights = weights_of(server, version);
        turn->version = version;
    }
    if (!turn->weights) {
        ask_weights(server, turn->epoch, oldest);
    }
    return turn->weights != NULL;
}

void gnn_server_apply(struct culm_gnn_server *server, int32_t index) {
    struct turn *turn = gnn_front(server, index);
    const struct culm_gnn_step *step = &server->self.o.layout->step[turn->step];
    culm_self_point(&server->self.node, CULM_GNN_PHASE_APPLY, turn->epoch, index);
    turn->out = turn->here = true;
    server->task = (struct culm_gnn_task){
        .kind = CULM_GNN_TASK_APPLY,
        .interval = index,
        .step = turn->step,
        .epoch = turn->epoch,
        .weights = culm_blob_ref(turn->weights),
        .rows = step->rows >= 0 ? culm_blob_ref(turn->gathered[step->rows]) : NULL,
        .d_rows = step->d_rows >= 0 ? culm_blob_ref(turn->gathered[step->d_rows]) : NULL};
    gnn_server_start(server);
}

/* Does the interval's next task. True: a task was started on this server. */
static bool step_next(struct culm_gnn_server *server, int32_t index) {
    struct turn *turn = gnn_front(server, index);
    const struct culm_gnn_step *step = &server->self.o.layout->step[turn->step];
    int32_t missing = gnn_missing(server, turn);
    if (missing >= 0) {
        return gather_next(server, index, missing);
    }
    if (!have_weights(server, turn)) {
        return false;
    }
    if (step->remote && gnn_server_someone_works(server)) {
        (void)gnn_server_hand_out(server, index);
        return server->busy;
    }
    if (step->remote && server->waits) {
        return false;
    }
    gnn_server_apply(server, index);
    return true;
}

bool gnn_server_is_ready(const struct culm_gnn_server *server, int32_t index, int64_t *ret_behind) {
    const struct interval *interval = &server->interval[index];
    const struct turn *turn = interval->mine ? gnn_front(server, index) : NULL;
    if (!turn) {
        return false;
    }
    *ret_behind = turn->epoch * (server->self.o.layout->steps + 1) + turn->step;
    return interval->here && !turn->out && turn->step < end_of(server, turn->epoch);
}

int64_t gnn_server_least(const struct culm_gnn_server *server) {
    int64_t least = INT64_MAX, behind;
    for (int32_t o = 0; o < server->own_count; o++) {
        const int32_t i = server->own[o];
        const struct turn *turn = server->interval[i].mine ? gnn_front(server, i) : NULL;
        bool counts = gnn_server_is_ready(server, i, &behind) ||
                      (turn && server->self.o.pace.in_step && turn->out);
        least = counts && behind < least ? behind : least;
    }
    return least;
}

/* Does the next task of the interval that is furthest behind and can go on. With in_step, intervals
 * that are ahead wait. True: a task was started on this server. */
static bool intervals_next(struct culm_gnn_server *server) {
    int64_t least = gnn_server_least(server), behind;
    while (least < INT64_MAX) {
        int64_t next = INT64_MAX;
        for (int32_t o = 0; o < server->own_count; o++) {
            const int32_t i = server->own[o];
            if (!gnn_server_is_ready(server, i, &behind)) {
                continue;
            }
            if (behind == least && step_next(server, i)) {
                return true;
            }
            next = behind > least && behind < next ? behind : next;
        }
        least = server->self.o.pace.in_step ? INT64_MAX : next;
    }
    return false;
}

/* Begins the next epoch for intervals that have finished theirs, if it may begin before a commit.
 */
static void next_turns(struct culm_gnn_server *server) {
    const struct culm_gnn_view *view = &server->self.view;
    for (int32_t o = 0; o < server->own_count; o++) {
        const int32_t i = server->own[o];
        struct turn *turn = server->interval[i].mine ? gnn_front(server, i) : NULL;
        if (!turn || turn->step < end_of(server, turn->epoch)) {
            continue;
        }
        int64_t next = turn->epoch + 1;
        bool may = server->self.o.pace.ahead && view->course.train &&
                   course_of(server, next).train &&
                   next < view->course.epoch + server->window - server->self.o.pace.staleness;
        if (may) {
            begin_turn(server, i, next);
        }
    }
}

static bool is_done(const struct culm_gnn_server *server, const struct turn *turn) {
    return turn && turn->step >= end_of(server, turn->epoch);
}

static void say_done(struct culm_gnn_server *server, int32_t interval, struct turn *turn) {
    turn->told = true;
    culm_self_point(&server->self.node, CULM_GNN_PHASE_COMMIT, turn->epoch, interval);
    struct culm_gnn_done done = {.attempt = server->self.view.attempt,
                                 .epoch = turn->epoch,
                                 .interval = interval,
                                 .trained = course_of(server, turn->epoch).train,
                                 .totals = turn->totals,
                                 .work = turn->work};
    if (server->interval[interval].came) {
        server->interval[interval].came = false;
        CULM_MARK(interval_done_again);
        done.redone = gnn_server_done_before(server, interval, turn->epoch);
    }
    culm_gnn_done_encode(&done, culm_self_meta(&server->self.node));
    culm_gnn_send(&server->self, CULM_LEADER, CULM_GNN_MSG_DONE, turn->scores);
}

static void tell_done(struct culm_gnn_server *server) {
    for (int32_t o = 0; o < server->own_count; o++) {
        const int32_t i = server->own[o];
        struct turn *turn = server->interval[i].mine ? gnn_front(server, i) : NULL;
        if (is_done(server, turn) && !turn->told) {
            say_done(server, i, turn);
        }
    }
}

/* Another one leads, and knows of no DONE of an epoch that is not committed. */
static void say_again(struct culm_gnn_server *server) {
    for (int32_t o = 0; o < server->own_count; o++) {
        const int32_t i = server->own[o];
        for (int32_t ahead = 0; server->interval[i].mine && ahead < server->window; ahead++) {
            struct turn *turn = gnn_turn(server, i, server->self.view.course.epoch + ahead);
            if (is_done(server, turn) && turn->told) {
                CULM_MARK(interval_done_is_said_to_another_leader);
                say_done(server, i, turn);
            }
        }
    }
}

static void go_on(struct culm_gnn_server *server) {
    if (server->self.node.left || server->busy || server->self.view.number == 0) {
        return;
    }
    if (own_next(server) || gnn_server_scatter(server) || gnn_server_sum(server)) {
        return;
    }
    tell_done(server);
    next_turns(server);
    if (!intervals_next(server)) {
        gnn_server_late(server);
    }
}

void gnn_server_stepped(struct culm_gnn_server *server, struct turn *turn,
                        struct culm_blob *take_output, struct culm_blob *take_gradient,
                        const struct culm_gnn_totals *totals) {
    const struct culm_gnn_step *step = &server->self.o.layout->step[turn->step];
    turn->out = turn->here = false;
    turn->worker = turn->second = -1;
    culm_blob_clear(&turn->share); /* a slower worker's; must not be taken for the next step's */
    if (step->makes >= 0) {
        turn->made[step->makes].blob = take_output;
    } else {
        culm_blob_clear(&turn->scores);
        turn->scores = take_output;
    }
    if (step->gradient) {
        turn->gradient[step->stage] = take_gradient;
    } else {
        culm_blob_unref(take_gradient);
    }
    turn->totals.loss += totals->loss;
    for (int p = 0; p < CULM_GNN_SPLITS; p++) {
        turn->totals.correct[p] += totals->correct[p];
    }
    turn->step++;
    turn->work.tasks++;
}

/* --- jobs --- */

/* The turn that the task was for; NULL: it has been cleared meanwhile. */
static struct turn *turn_of_task(const struct culm_gnn_server *server) {
    struct turn *turn = gnn_turn(server, server->task.interval, server->task_epoch);
    bool current = turn && server->task_attempt == server->self.view.attempt &&
                   turn->life == server->task_life && server->interval[server->task.interval].mine;
    return current ? turn : NULL;
}

static void count_gather(const struct culm_gnn_server *server, struct turn *turn) {
    const struct culm_gnn_task *task = &server->task;
    const struct culm_gnn_layout *layout = server->self.o.layout;
    const struct culm_gnn_gather *gather = &layout->gather[task->gather];
    if (task->gather >= layout->train_gathers) {
        return;
    }
    int64_t edges = layout->edges[gather->transposed][task->interval];
    turn->work.gathered_floats += edges * (int64_t)gather->sent_floats;
    for (int32_t i = 0; i < task->source_count; i++) {
        const struct culm_gnn_source *source = &task->source[i];
        turn->work.rows_by_age[task->epoch - source->epoch] +=
            (int64_t)(source->blob->size_bytes /
                      (source->readers ? gather->sent_bytes : gather->row_bytes));
    }
}

static void list_own(struct culm_gnn_server *server) {
    server->own_count = 0;
    for (int32_t i = 0; i < server->self.o.layout->intervals; i++) {
        if (server->interval[i].mine || server->interval[i].here) {
            server->own[server->own_count++] = i;
        }
    }
}

static void use_result(struct culm_gnn_server *server) {
    struct culm_gnn_task *task = &server->task;
    struct interval *interval = &server->interval[task->interval];
    struct turn *turn;
    switch (task->kind) {
    case CULM_GNN_TASK_OWN:
        interval->here = true;
        if (!interval->mine) {
            CULM_MARK(interval_left_while_it_got_ready);
            list_own(server); /* it is to be dropped */
        }
        return;
    case CULM_GNN_TASK_DROP: interval->here = false; return;
    case CULM_GNN_TASK_FOLD:
        culm_fold_clear(&server->tree, server->fold_slice);
        if (server->task_attempt == server->self.view.attempt) {
            gnn_server_summed(server);
        }
        return;
    case CULM_GNN_TASK_SLICE: gnn_server_sliced(server); return;
    case CULM_GNN_TASK_PACK:
        if (interval->mine) {
            culm_blob_clear(&interval->constant);
            interval->constant = culm_blob_ref(task->output);
        }
        return;
    default: break;
    }
    turn = turn_of_task(server);
    if (!turn) {
        CULM_MARK(interval_task_of_a_turn_that_is_over);
        return;
    }
    if (task->kind == CULM_GNN_TASK_GATHER) {
        turn->out = false;
        culm_blob_clear(&turn->gathered[task->gather]);
        turn->gathered[task->gather] = culm_blob_ref(task->output);
        count_gather(server, turn);
        return;
    }
    if (!turn->out || turn->step != task->step) {
        CULM_MARK(interval_worker_was_faster);
        return; /* a worker was faster */
    }
    gnn_server_stepped(server, turn, task->output, task->gradient, &task->totals);
    task->output = task->gradient = NULL;
}

static void on_job_done(void *actor, struct culm_job *job) {
    struct culm_gnn_server *server = actor;
    culm_gnn_ran(&server->self, job);
    if (culm_gnn_holder_job_done(server->holder, job)) {
        go_on(server);
        return;
    }
    server->busy = false;
    if (job->status != CULM_OK) {
        culm_self_fail(&server->self.node, job->status, "%s", job->error.text);
    } else {
        use_result(server);
    }
    gnn_server_release_task(server);
    go_on(server);
}

/* --- views and commits --- */

/* Starts everything again from the committed version. */
static void begin_attempt(struct culm_gnn_server *server) {
    for (int32_t i = 0; i < server->self.o.layout->intervals; i++) {
        forget_interval(server, i);
        if (server->interval[i].mine) {
            begin_turn(server, i, server->self.view.course.epoch);
        }
    }
    gnn_server_forget_ghosts(server, INT64_MAX);
    gnn_server_clear_sums(server, INT64_MAX);
    gnn_server_recall_ghosts(server);
}

/* Adapts to new owners. Intervals that come here begin with the current epoch. */
static void change_hands(struct culm_gnn_server *server) {
    const struct culm_gnn_view *view = &server->self.view;
    for (int32_t i = 0; i < server->self.o.layout->intervals; i++) {
        struct interval *interval = &server->interval[i];
        bool mine = view->owner[i] == server->self.o.id;
        if (mine == interval->mine) {
            continue;
        }
        if (mine) {
            CULM_MARK(interval_comes_to_a_server);
        } else {
            CULM_MARK(interval_leaves_a_server);
        }
        interval->mine = interval->came = mine;
        culm_blob_clear(&interval->constant);
        gnn_server_free_turns(server, interval);
        interval->front = 0;
        if (mine && !gnn_server_make_turns(server, interval)) {
            interval->mine = false;
            culm_self_fail(&server->self.node, CULM_ERR_MEMORY, "out of memory");
        } else if (mine) {
            begin_turn(server, i, view->course.epoch);
        }
        gnn_server_rank_later(server);
    }
    list_own(server);
}

/* Goes on to the current epoch: frees what is too old to be read any more. An epoch that was begun
 * as one of training, but turns out to be the final evaluation, is begun again. */
static void enter_epoch(struct culm_gnn_server *server) {
    const struct culm_gnn_course *course = &server->self.view.course;
    int64_t oldest = course->epoch - server->self.o.pace.staleness;
    for (int32_t o = 0; o < server->own_count; o++) {
        const int32_t i = server->own[o];
        struct interval *interval = &server->interval[i];
        for (int32_t w = 0; interval->turn && w < server->window; w++) {
            if (interval->turn[w].epoch > 0 && interval->turn[w].epoch < oldest) {
                gnn_server_forget_turn(server, &interval->turn[w]);
            }
        }
        bool early = !course->train && interval->front >= course->epoch;
        if (interval->mine && early) {
            CULM_MARK(interval_epoch_is_begun_again);
        }
        if (interval->mine && (interval->front < course->epoch || early)) {
            begin_turn(server, i, course->epoch);
        }
    }
    gnn_server_forget_ghosts(server, oldest);
    gnn_server_clear_sums(server, course->epoch);
}

static void enter_view(struct culm_gnn_server *server, const struct culm_message *message) {
    int64_t epoch = server->self.view.course.epoch;
    uint32_t attempt = server->self.view.attempt;
    if (!culm_gnn_enter(&server->self, message)) {
        return;
    }
    const struct culm_gnn_view *view = &server->self.view;
    if (server->waits) {
        server->self.o.world->ops->timer(server->self.o.world, CULM_GNN_TIMER_WATCH, WAIT_NS);
    }
    change_hands(server);
    if (view->attempt != attempt) {
        CULM_MARK(interval_attempt_begins);
        begin_attempt(server);
    } else if (view->course.epoch != epoch) {
        enter_epoch(server);
    }
    if (server->self.anew) {
        say_again(server);
    }
    memset(server->asked, 0, (size_t)server->window * sizeof *server->asked);
    culm_gnn_tell_gone(&server->self);
    gnn_server_resend(server);
    culm_gnn_holder_view(server->holder);
}

static void hear_commit(struct culm_gnn_server *server, const struct culm_message *message) {
    struct culm_gnn_commit commit;
    if (culm_gnn_hear_commit(&server->self, message, &commit)) {
        enter_epoch(server);
        culm_gnn_holder_commit(server->holder, &commit);
    }
}

/* Weights that were asked for, or that precede a copy of the state. */
static void hear_weights(struct culm_gnn_server *server, const struct culm_message *message) {
    struct culm_gnn_version key;
    if (culm_gnn_version_decode(message->meta, message->meta_bytes, &key) != CULM_OK ||
        !message->payload || key.attempt < server->self.view.attempt) {
        return;
    }
    int64_t at = key.version % server->window;
    culm_blob_clear(&server->weights[at]);
    server->weights[at] = culm_blob_ref(message->payload);
    server->have[at] = key;
    culm_gnn_holder_message(server->holder, -1, message);
}

static void hear_gone(struct culm_gnn_server *server, const struct culm_message *message) {
    struct culm_peer_lost gone;
    if (culm_peer_lost_decode(message->meta, message->meta_bytes, &gone) == CULM_OK) {
        gnn_server_worker_lost(server, gone.node);
        culm_gnn_gone(&server->self, gone.node);
    }
}

int64_t culm_gnn_server_version(const struct culm_gnn_server *server) {
    return culm_gnn_holder_version(server->holder);
}

static void on_message(void *actor, int32_t from, const struct culm_message *message) {
    struct culm_gnn_server *server = actor;
    bool leader = from == CULM_LEADER;
    if (culm_gnn_heard(&server->self, from, message)) {
        return;
    }
    switch (message->type) {
    case CULM_GNN_MSG_SLICE: gnn_server_hear_slice(server, message); break;
    case CULM_GNN_MSG_WEIGHTS: hear_weights(server, message); break;
    case CULM_GNN_MSG_READY:
        server->waits = false;
        gnn_server_worker_ready(server, from, message);
        break;
    case CULM_GNN_MSG_LEAVING: gnn_server_worker_leaving(server, from); break;
    case CULM_GNN_MSG_LACKS:
    case CULM_GNN_MSG_DROPPED: gnn_server_given_back(server, from, message); break;
    case CULM_GNN_MSG_SHARE: gnn_server_share(server, message); break;
    case CULM_GNN_MSG_ROWS: gnn_server_result(server, from, message); break;
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
    case CULM_GNN_MSG_GONE:
        if (leader) {
            hear_gone(server, message);
        }
        break;
    case CULM_WORD_END:
        if (leader) {
            culm_self_leave(&server->self.node);
        }
        break;
    default: culm_gnn_holder_message(server->holder, from, message); break;
    }
    go_on(server);
}

static void on_lost(void *actor, int32_t node) {
    struct culm_gnn_server *server = actor;
    if (server->self.node.left) {
        return;
    }
    gnn_server_worker_lost(server, node);
    culm_gnn_gone(&server->self, node);
    culm_gnn_tell_gone(&server->self);
    go_on(server);
}

static void on_led(void *actor, uint64_t term) {
    struct culm_gnn_server *server = actor;
    struct culm_gnn_report report;
    (void)term;
    if (!server->self.node.left) {
        culm_gnn_holder_report(server->holder, &report);
        culm_gnn_report(&server->self, &report);
        culm_self_ask_again(&server->self.node);
    }
}

static void on_leave(void *actor, int64_t within_ms) {
    culm_self_ask_leave(&((struct culm_gnn_server *)actor)->self.node, within_ms);
}

static void on_start(void *actor) {
    struct culm_gnn_server *server = actor;
    culm_self_beat(&server->self.node);
}

static void on_timer(void *actor, uint32_t timer) {
    struct culm_gnn_server *server = actor;
    if (server->self.node.left) {
        return;
    }
    if (timer == CULM_GNN_TIMER_BEAT) {
        culm_self_beat(&server->self.node);
    } else if (timer == CULM_GNN_TIMER_LATE) {
        go_on(server);
    } else { /* no worker has come so far: the steps are done here until one does */
        server->waits = false;
        go_on(server);
    }
}

const struct culm_actor_ops culm_gnn_server_actor = {
    .size = sizeof culm_gnn_server_actor,
    .start = on_start,
    .message = on_message,
    .lost = on_lost,
    .timer = on_timer,
    .job_done = on_job_done,
    .led = on_led,
    .leave = on_leave,
};

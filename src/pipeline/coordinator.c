/* The coordinator: workers, losses, suspicion, and dispatch. See coordinator.h. */
#include "pipeline/coordinator_internal.h"

#include "base/grow.h"
#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMER_TICK 0
#define MS 1000000ull
#define LEAVE_MS 2000 /* for a worker that failed to say so in its log */

struct culm_coordinator *culm_coordinator_new(const struct culm_coordinator_options *options) {
    struct culm_coordinator *c = calloc(1, sizeof *c);
    if (!c) {
        return NULL;
    }
    c->o = *options;
    c->first_start = true;
    c->iteration = options->start_step + 1;
    culm_failures_init(&c->failures, options->start_step);
    c->agreed_version = -1;
    c->checkpoint_version = options->start_step;
    snprintf(c->checkpoint_path, sizeof c->checkpoint_path, "%s", options->start_source);
    c->wait_ns = c->join_ns = CULM_NEVER;
    c->waiting_have = -1;
    culm_buf_init(&c->meta, CULM_META_MAX);
    culm_patience_init(&c->patience, options->settings.stuck_ms, CULM_TASK_SAVE + 1,
                       CULM_MAX_STAGES);
    size_t params = (size_t)options->layout->param_count;
    c->view = calloc(1, sizeof *c->view);
    c->draft = calloc(1, sizeof *c->draft);
    c->norm = calloc(params, sizeof *c->norm);
    c->norm_known = calloc(params, sizeof *c->norm_known);
    c->ledger = culm_ledger_new();
    if (!c->view || !c->draft || !c->norm || !c->norm_known || !c->ledger) {
        culm_coordinator_free(c);
        return NULL;
    }
    if (c->o.start_step > 0) {
        uint64_t consumed = (uint64_t)c->o.start_step * (uint64_t)c->o.shape.global_samples;
        culm_ledger_commit(c->ledger, c->o.start_step, 0, consumed - 1);
    }
    return c;
}

void culm_coordinator_free(struct culm_coordinator *c) {
    if (!c) {
        return;
    }
    culm_coordinator_watch_release(c);
    culm_ledger_free(c->ledger);
    free(c->view);
    free(c->draft);
    free(c->norm);
    free(c->norm_known);
    for (int32_t i = 0; i < c->worker_count; i++) {
        culm_coordinator_words_free(&c->worker[i]);
    }
    free(c->worker);
    free(c->pause_ms);
    free(c->complaint);
    culm_buf_release(&c->meta);
    free(c);
}

void culm_coordinator_totals(const struct culm_coordinator *c,
                             struct culm_coordinator_totals *ret_totals) {
    struct culm_ledger_audit audit = {0};
    uint64_t end = (uint64_t)(c->iteration - 1) * (uint64_t)c->o.shape.global_samples;
    culm_ledger_audit(c->ledger, end, &audit);
    *ret_totals = (struct culm_coordinator_totals){
        .losses = c->losses,
        .rollbacks = c->rollbacks,
        .steps_redone = c->steps_redone,
        .recovered = c->recovered,
        .samples_lost = (int64_t)audit.lost,
        .samples_repeated = (int64_t)audit.repeated,
        .committed = c->iteration - 1,
        .view = c->view->number,
        .loss = c->loss,
        .done = c->phase == ENDED,
        .alive = culm_coordinator_alive(c),
        .coming = c->starting + c->spawn_count,
        .transfers = c->transfer_count,
    };
}

struct worker *culm_coordinator_worker(const struct culm_coordinator *c, int32_t id) {
    for (int32_t i = 0; i < c->worker_count; i++) {
        if (c->worker[i].id == id) {
            return &c->worker[i];
        }
    }
    return NULL;
}

uint64_t culm_coordinator_now(const struct culm_coordinator *c) {
    return c->o.world->ops->now_ns(c->o.world);
}

void culm_coordinator_event(struct culm_coordinator *c, json_t *take_event) {
    json_object_set_new(take_event, "view", json_integer((json_int_t)c->view->number));
    c->o.world->ops->publish(c->o.world, take_event);
}

struct culm_buf *culm_coordinator_meta(struct culm_coordinator *c) {
    culm_buf_clear(&c->meta);
    return &c->meta;
}

void culm_coordinator_send(struct culm_coordinator *c, int32_t to, uint16_t type) {
    if (c->meta.failed) {
        culm_coordinator_fail(c, CULM_ERR_MEMORY, "encode message %u", type);
        return;
    }
    const struct culm_message message = {
        .type = type, .meta = c->meta.data, .meta_bytes = (uint32_t)c->meta.len};
    c->o.world->ops->send(c->o.world, to, &message);
}

void culm_coordinator_leave(struct culm_coordinator *c, int exit_code,
                            const struct culm_error *error) {
    if (c->phase == ENDED) {
        return;
    }
    c->phase = ENDED;
    (void)culm_coordinator_meta(c);
    for (int32_t i = 0; i < c->worker_count; i++) {
        if (c->worker[i].alive) {
            culm_coordinator_send(c, c->worker[i].id, CULM_MSG_END);
        }
    }
    c->o.world->ops->leave(c->o.world, exit_code, error);
}

void culm_coordinator_fail(struct culm_coordinator *c, enum culm_status status, const char *format,
                           ...) {
    if (c->phase == ENDED) {
        return;
    }
    struct culm_error error;
    va_list args;
    va_start(args, format);
    culm_error_setv(&error, status, format, args);
    va_end(args);
    culm_coordinator_event(c, json_pack("{s:s, s:s, s:o}", "event", "error", "code",
                                        culm_status_name(status), "message",
                                        culm_json_text(error.text)));
    culm_coordinator_leave(c, culm_status_exit_code(status), &error);
}

int32_t culm_coordinator_alive(const struct culm_coordinator *c) {
    int32_t alive = 0;
    for (int32_t i = 0; i < c->worker_count; i++) {
        alive += c->worker[i].alive;
    }
    return alive;
}

/* --- slots --- */

static bool taken(const struct culm_coordinator *c, int32_t pipeline, int32_t stage) {
    for (int32_t i = 0; i < c->worker_count; i++) {
        const struct worker *worker = &c->worker[i];
        if (worker->alive && worker->pipeline == pipeline && worker->stage == stage) {
            return true;
        }
    }
    return false;
}

/* Gives a standing-by worker a slot: its own by number at the first start, else the first vacancy
 * of the pipeline that misses fewest. */
void culm_coordinator_seat(struct culm_coordinator *c, struct worker *worker) {
    int32_t stages = c->o.shape.stages, pipelines = c->o.shape.pipelines;
    if (c->first_start && worker->id < pipelines * stages &&
        !taken(c, worker->id / stages, worker->id % stages)) {
        worker->pipeline = worker->id / stages;
        worker->stage = worker->id % stages;
        return;
    }
    int32_t best = -1, best_vacant = stages + 1, best_stage = -1;
    for (int32_t p = 0; p < pipelines; p++) {
        int32_t vacant = 0, first = -1;
        for (int32_t s = stages - 1; s >= 0; s--) {
            if (!taken(c, p, s)) {
                vacant++;
                first = s;
            }
        }
        if (vacant > 0 && vacant < best_vacant) {
            best = p;
            best_vacant = vacant;
            best_stage = first;
        }
    }
    if (best >= 0) {
        worker->pipeline = best;
        worker->stage = best_stage;
    }
}

/* --- joining --- */

static void worker_up(struct culm_coordinator *c, int32_t id, const struct culm_node_info *info) {
    if (!CULM_GROW(c->worker, c->worker_capacity, c->worker_count + 1)) {
        culm_coordinator_fail(c, CULM_ERR_MEMORY, "register worker %d", id);
        return;
    }
    struct worker *worker = &c->worker[c->worker_count++];
    *worker = (struct worker){.id = id,
                              .alive = true,
                              .pid = info->pid,
                              .pipeline = -1,
                              .stage = -1,
                              .seen_ns = culm_coordinator_now(c),
                              .task_kind = -1,
                              .kill_ns = CULM_NEVER};
    snprintf(worker->name, sizeof worker->name, "%s", info->name);
    culm_coordinator_start_came(c);
    if (!c->first_start || id < c->o.shape.pipelines * c->o.shape.stages) {
        culm_coordinator_seat(
            c, worker); /* later ones wait: a slot may be that of one still starting */
    }
    json_t *event = json_pack("{s:s, s:i, s:I, s:o}", "event", "joined", "node", id, "pid",
                              (json_int_t)info->pid, "name", culm_json_text(worker->name));
    bool seated = worker->pipeline >= 0;
    json_object_set_new(event, "pipeline", seated ? json_integer(worker->pipeline) : json_null());
    json_object_set_new(event, "stage", seated ? json_integer(worker->stage) : json_null());
    culm_coordinator_event(c, event);
    if (c->phase == WAITING) {
        culm_coordinator_start_if_ready(c);
    } else if (c->phase == RUNNING && culm_coordinator_parked(c)) {
        culm_coordinator_publish(c, false, "a worker joined while no pipeline was whole");
    }
}

/* --- losing --- */

static void replacement_due(struct culm_coordinator *c) {
    if (c->o.traced || c->o.settings.replace_ms < 0 || c->spawn_count == CULM_MAX_NODES) {
        return;
    }
    c->spawn_ns[c->spawn_count++] =
        culm_coordinator_now(c) + (uint64_t)c->o.settings.replace_ms * MS;
}

static uint64_t stages_owned(const struct culm_coordinator *c, const struct worker *worker) {
    uint64_t owned = 0;
    for (int32_t s = 0; s < c->view->stages && worker->pipeline >= 0; s++) {
        if (c->view->role[worker->pipeline][s].owner == worker->id) {
            owned |= 1ull << s;
        }
    }
    return owned;
}

void culm_coordinator_recovered(struct culm_coordinator *c, struct pending *pending) {
    static const char *const source[] = {[CULM_ORIGIN_SHADOW] = "shadow",
                                         [CULM_ORIGIN_PEER] = "peer",
                                         [CULM_ORIGIN_CHECKPOINT] = "checkpoint"};
    double pause = (double)(culm_coordinator_now(c) - pending->lost_ns) / 1e6;
    culm_coordinator_event(c,
                           json_pack("{s:s, s:i, s:s, s:f, s:I}", "event", "recovered", "node",
                                     pending->node, "source", source[pending->origin], "pause_ms",
                                     pause, "redone_tasks", (json_int_t)pending->redone));
    c->recovered++;
    if (CULM_GROW(c->pause_ms, c->pause_capacity, c->pause_count + 1)) { /* else a statistic less */
        c->pause_ms[c->pause_count++] = pause;
    }
}

/* The lanes of its pipeline had gone to others before it was lost: there is nothing to take over.
 */
static void nothing_to_take_over(struct culm_coordinator *c, int32_t node) {
    for (int32_t i = 0; i < c->pending_count; i++) {
        if (c->pending[i].node == node) {
            c->pending[i].origin = CULM_ORIGIN_PEER;
            culm_coordinator_recovered(c, &c->pending[i]);
            c->pending[i] = c->pending[--c->pending_count];
            return;
        }
    }
}

static void forget_complaints(struct culm_coordinator *c, int32_t node) {
    int32_t kept = 0;
    for (int32_t i = 0; i < c->complaint_count; i++) {
        if (c->complaint[i].by != node && c->complaint[i].about != node) {
            c->complaint[kept++] = c->complaint[i];
        }
    }
    c->complaint_count = kept;
}

static const char *cause_name(enum culm_cause cause) {
    static const char *const name[] = {
        [CULM_CAUSE_EOF] = "eof",
        [CULM_CAUSE_EXIT] = "exit",
        [CULM_CAUSE_HEARTBEAT] = "heartbeat",
        [CULM_CAUSE_STUCK] = "stuck",
        [CULM_CAUSE_STALLED] = "stalled",
        [CULM_CAUSE_FAILED] = "failed",
        [CULM_CAUSE_DIFFERS] = "differs",
        [CULM_CAUSE_REMOVED] = "removed",
    };
    return name[cause];
}

void culm_coordinator_lose(struct culm_coordinator *c, struct worker *worker, enum culm_cause cause,
                           const char *message) {
    if (!worker->alive || c->phase == ENDED) {
        return;
    }
    uint64_t owned = stages_owned(c, worker);
    int32_t id = worker->id, pipeline = worker->pipeline;
    worker->alive = false;
    worker->holds = 0;
    worker->pipeline = worker->stage = -1;
    forget_complaints(c, id);
    c->losses++;
    if (cause == CULM_CAUSE_HEARTBEAT || cause == CULM_CAUSE_STUCK) {
        worker->kill_ns = culm_coordinator_now(c) + (uint64_t)c->o.settings.kill_suspect_ms * MS;
    } else if (cause == CULM_CAUSE_FAILED) {
        worker->kill_ns = culm_coordinator_now(c) + LEAVE_MS * MS;
    } else {
        c->o.agent->ops->end(c->o.agent, id);
    }
    json_t *stages = json_array();
    for (int32_t s = 0; s < c->o.shape.stages; s++) {
        if (owned >> s & 1) {
            json_array_append_new(stages, json_integer(s));
        }
    }
    json_t *event = json_pack("{s:s, s:i, s:I, s:s, s:I, s:o}", "event", "lost", "node", id, "pid",
                              (json_int_t)worker->pid, "cause", cause_name(cause), "step",
                              (json_int_t)c->iteration, "stages", stages);
    if (cause == CULM_CAUSE_HEARTBEAT || cause == CULM_CAUSE_STUCK) {
        double silent_ms = (double)(culm_coordinator_now(c) - worker->seen_ns) / 1e6;
        json_object_set_new(
            event, "for_ms",
            json_real(cause == CULM_CAUSE_STUCK ? (double)worker->task_ms : silent_ms));
    }
    if (message) {
        json_object_set_new(event, "message", culm_json_text(message));
    }
    culm_coordinator_event(c, event);
    if (owned && c->pending_count < CULM_MAX_NODES) {
        c->pending[c->pending_count++] = (struct pending){.node = id,
                                                          .pipeline = pipeline,
                                                          .stages = owned,
                                                          .lost_ns = culm_coordinator_now(c),
                                                          .view = c->view->number + 1};
    }
    replacement_due(c);
    char reason[CULM_REASON_MAX];
    snprintf(reason, sizeof reason, "node %d was lost (%s)", id, cause_name(cause));
    if (c->phase == LOADING) {
        c->phase = WAITING;
        culm_coordinator_start_if_ready(c);
    } else if (c->phase == WAITING) {
        culm_coordinator_start_if_ready(c);
    } else if (c->phase == RUNNING) {
        bool idle = owned && !culm_view_whole(c->view, pipeline) && !culm_coordinator_parked(c);
        culm_coordinator_publish(c, false, reason);
        culm_coordinator_writer_lost(c, id);
        if (idle && c->phase == RUNNING && !culm_coordinator_parked(c)) {
            nothing_to_take_over(c, id);
        }
    }
}

static void taken_over(struct culm_coordinator *c, const struct worker *worker,
                       const struct culm_message *message) {
    struct culm_taken_over said;
    if (culm_taken_over_decode(message->meta, message->meta_bytes, &said) != CULM_OK ||
        said.stage < 0 || said.stage >= c->o.shape.stages) {
        return;
    }
    for (int32_t i = 0; i < c->pending_count; i++) {
        struct pending *pending = &c->pending[i];
        bool elsewhere = worker->pipeline != pending->pipeline;
        if (!(pending->stages >> said.stage & 1) || said.view < pending->view ||
            (elsewhere && culm_view_whole(c->view, pending->pipeline) &&
             said.origin != CULM_ORIGIN_CHECKPOINT)) {
            continue;
        }
        bool peer = elsewhere || c->o.shape.redundancy == CULM_REDUNDANCY_NONE;
        enum culm_origin origin =
            peer && said.origin == CULM_ORIGIN_SHADOW ? CULM_ORIGIN_PEER : said.origin;
        pending->origin = origin > pending->origin ? origin : pending->origin;
        pending->redone += said.redone;
        pending->stages &= ~(1ull << said.stage);
        if (pending->stages == 0) {
            culm_coordinator_recovered(c, pending);
            *pending = c->pending[--c->pending_count];
            i--;
        }
    }
}

/* --- suspicion --- */

static int32_t complaints_about(const struct culm_coordinator *c, int32_t id) {
    int32_t count = 0;
    for (int32_t i = 0; i < c->complaint_count; i++) {
        count += c->complaint[i].about == id;
    }
    return count;
}

/* A broken link makes both its ends complain, and one of them is enough to lose: whoever most
 * cannot reach, the younger of two equals. With it go its own complaints. */
static void settle_complaints(struct culm_coordinator *c, uint64_t now) {
    for (int32_t i = 0; i < c->complaint_count && c->phase != ENDED;) {
        const struct complaint complaint = c->complaint[i];
        if (complaint.due_ns > now) {
            i++;
            continue;
        }
        int32_t about = complaints_about(c, complaint.about);
        int32_t by = complaints_about(c, complaint.by);
        bool turned = by > about || (by == about && complaint.by > complaint.about);
        culm_coordinator_lose(c,
                              culm_coordinator_worker(c, turned ? complaint.by : complaint.about),
                              CULM_CAUSE_EOF, NULL);
        i = 0; /* fewer now */
    }
}

static void check_workers(struct culm_coordinator *c, uint64_t now) {
    uint64_t suspect = (uint64_t)c->o.settings.suspect_ms * MS;
    for (int32_t i = 0; i < c->worker_count; i++) {
        struct worker *worker = &c->worker[i];
        if (worker->kill_ns <= now) {
            worker->kill_ns = CULM_NEVER;
            c->o.agent->ops->end(c->o.agent, worker->id);
        }
        if (!worker->alive) {
            continue;
        }
        if (now > worker->seen_ns + suspect) {
            culm_coordinator_lose(c, worker, CULM_CAUSE_HEARTBEAT, NULL);
        } else {
            culm_coordinator_check_task(c, worker);
        }
    }
    settle_complaints(c, now);
}

/* Processes there are, or will be: suspects not yet killed still take their place. */
static int32_t processes(const struct culm_coordinator *c) {
    int32_t count = culm_coordinator_alive(c) + c->starting;
    for (int32_t i = 0; i < c->worker_count; i++) {
        count += !c->worker[i].alive && c->worker[i].kill_ns != CULM_NEVER;
    }
    return count;
}

static void start_replacements(struct culm_coordinator *c, uint64_t now) {
    int32_t kept = 0;
    for (int32_t i = 0; i < c->spawn_count; i++) {
        if (c->spawn_ns[i] > now || processes(c) >= c->o.settings.max_nodes) {
            c->spawn_ns[kept++] = c->spawn_ns[i];
            continue;
        }
        c->starting++;
        c->o.agent->ops->start(c->o.agent, CULM_ROLE_WORKER);
    }
    c->spawn_count = kept;
}

static void tick(struct culm_coordinator *c) {
    uint64_t now = culm_coordinator_now(c);
    uint64_t period = (uint64_t)c->o.settings.heartbeat_ms * MS;
    bool slept = c->tick_ns && now - c->tick_ns > (uint64_t)c->o.settings.suspect_ms * MS / 2;
    if (slept) {
        /* We were the ones who slept: what the others said in the meantime is still to be read. */
        for (int32_t i = 0; i < c->worker_count; i++) {
            c->worker[i].seen_ns = now;
        }
    }
    c->tick_ns = now;
    check_workers(c, now);
    if (c->phase == ENDED) {
        return;
    }
    start_replacements(c, now);
    if (c->phase == RUNNING && c->join_ns <= now) {
        culm_coordinator_give_up_joins(c);
    }
    if (c->phase != ENDED) {
        culm_coordinator_watch(c, now, slept);
    }
    if (c->phase == RUNNING || c->phase == FINISHING) {
        (void)culm_coordinator_discard_if_due(c);
        culm_coordinator_hold_tick(c, now);
    }
    /* Those that were asked for are on their way, or their host tells of their end; one that opens
     * large data takes its time. */
    if ((c->phase == WAITING || c->phase == RUNNING) && c->wait_ns <= now && c->starting == 0) {
        culm_coordinator_fail(c, CULM_ERR_IO,
                              "waited %lld ms for workers and have only %d; start more, or lower "
                              "pipelines or stages",
                              (long long)c->o.settings.wait_ms, culm_coordinator_alive(c));
    }
    if (c->phase != ENDED) {
        c->o.world->ops->timer(c->o.world, TIMER_TICK, period);
    }
}

/* --- the actor --- */

static void on_start(void *actor) {
    struct culm_coordinator *c = actor;
    if (!c->o.traced) {
        int32_t wanted = c->o.shape.pipelines * c->o.shape.stages;
        for (int32_t i = 0; i < wanted; i++) {
            c->starting++;
            c->o.agent->ops->start(c->o.agent, CULM_ROLE_WORKER);
        }
    }
    culm_coordinator_start_if_ready(c);
    tick(c);
}

static void fence(struct culm_coordinator *c, struct worker *worker) {
    struct culm_fenced fenced;
    snprintf(fenced.why, sizeof fenced.why,
             "node %d was put out of the run while it was silent; the view is %llu", worker->id,
             (unsigned long long)c->view->number);
    culm_fenced_encode(&fenced, culm_coordinator_meta(c));
    culm_coordinator_send(c, worker->id, CULM_MSG_FENCED);
    if (!worker->fenced) {
        worker->fenced = true;
        culm_coordinator_event(c, json_pack("{s:s, s:i}", "event", "fenced", "node", worker->id));
    }
}

/* If the one it is about is dead, its own connection tells us at once; if only the link is, this
 * does. */
static void peer_lost(struct culm_coordinator *c, const struct worker *worker,
                      const struct culm_message *message) {
    struct culm_peer_lost said;
    if (culm_peer_lost_decode(message->meta, message->meta_bytes, &said) != CULM_OK) {
        return;
    }
    int32_t by = worker->id, about = said.node;
    const struct worker *other = culm_coordinator_worker(c, about);
    bool known = !other || !other->alive || about == by;
    for (int32_t i = 0; i < c->complaint_count && !known; i++) {
        known = c->complaint[i].by == by && c->complaint[i].about == about;
    }
    if (known) {
        return;
    }
    if (!CULM_GROW(c->complaint, c->complaint_capacity, c->complaint_count + 1)) {
        culm_coordinator_fail(c, CULM_ERR_MEMORY, "note that worker %d cannot reach %d", by, about);
        return;
    }
    uint64_t due = culm_coordinator_now(c) + (uint64_t)c->o.settings.suspect_ms * MS;
    c->complaint[c->complaint_count++] = (struct complaint){by, about, due};
}

static void on_message(void *actor, int32_t from, const struct culm_message *message) {
    struct culm_coordinator *c = actor;
    struct worker *worker = culm_coordinator_worker(c, from);
    if (!worker || c->phase == ENDED) {
        return;
    }
    if (!worker->alive) {
        fence(c, worker);
        return;
    }
    worker->seen_ns = culm_coordinator_now(c);
    switch (message->type) {
    case CULM_MSG_PREPARED: culm_coordinator_prepared(c, worker, message); break;
    case CULM_MSG_DIGESTS: culm_coordinator_digests(c, worker, message); break;
    case CULM_MSG_WAITS: culm_coordinator_waits(c, worker, message); break;
    case CULM_MSG_HEARTBEAT: culm_coordinator_heartbeat(worker, message); break;
    case CULM_MSG_TOOK: culm_coordinator_took(c, message); break;
    case CULM_MSG_LOADED: culm_coordinator_loaded(c, worker, message); break;
    case CULM_MSG_UNLOADED: culm_coordinator_unloaded(c, worker, message); break;
    case CULM_MSG_JOINED: culm_coordinator_joined(c, worker, message); break;
    case CULM_MSG_SAVED: culm_coordinator_saved(c, worker, message); break;
    case CULM_MSG_TAKEN_OVER: taken_over(c, worker, message); break;
    case CULM_MSG_PEER_LOST: peer_lost(c, worker, message); break;
    case CULM_MSG_FAILED: culm_coordinator_failed(c, worker, message); break;
    case CULM_MSG_DAMAGED: culm_coordinator_damaged(c, worker, message); break;
    default: break; /* not for a coordinator */
    }
}

static void on_joined(void *leader, int32_t node, const struct culm_node_info *info) {
    struct culm_coordinator *c = leader;
    if (c->phase != ENDED && !culm_coordinator_worker(c, node)) {
        worker_up(c, node, info);
    }
}

static void on_lost(void *actor, int32_t node) {
    struct culm_coordinator *c = actor;
    struct worker *worker = culm_coordinator_worker(c, node);
    if (c->phase != ENDED && worker) {
        culm_coordinator_lose(c, worker, CULM_CAUSE_EOF, NULL);
    }
}

static void on_ended(void *leader, int32_t node, const struct culm_error *why) {
    struct culm_coordinator *c = leader;
    struct worker *worker = culm_coordinator_worker(c, node);
    if (c->phase == ENDED) {
        return;
    }
    if (worker) {
        culm_coordinator_lose(c, worker, CULM_CAUSE_EXIT, NULL);
        worker->kill_ns = CULM_NEVER; /* a closed connection alone ends no process */
    } else {
        culm_coordinator_start_failed(c, why);
    }
}

static void on_removed(void *leader, int32_t node) {
    struct culm_coordinator *c = leader;
    struct worker *worker = culm_coordinator_worker(c, node);
    if (c->phase != ENDED && worker) {
        culm_coordinator_lose(c, worker, CULM_CAUSE_REMOVED, NULL);
    }
}

static void on_stop(void *leader) {
    struct culm_coordinator *c = leader;
    if (c->phase != ENDED) {
        c->stop_requested = true;
        culm_coordinator_stop_if_safe(c);
        culm_coordinator_hold_stop(c);
    }
}

static void on_timer(void *actor, uint32_t timer) {
    struct culm_coordinator *c = actor;
    if (c->phase != ENDED && timer == TIMER_TICK) {
        tick(c);
    }
}

static void on_job_done(void *actor, struct culm_job *job) {
    (void)job;
    culm_coordinator_io_done(actor);
}

static const struct culm_leader_ops leads = {
    .size = sizeof leads,
    .joined = on_joined,
    .ended = on_ended,
    .removed = on_removed,
    .stop = on_stop,
};

const struct culm_actor_ops culm_coordinator_actor = {
    .size = sizeof culm_coordinator_actor,
    .start = on_start,
    .message = on_message,
    .lost = on_lost,
    .timer = on_timer,
    .job_done = on_job_done,
    .leads = &leads,
};

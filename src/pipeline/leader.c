/* The leader: workers, losses, and what its crew asks. See leader.h. */
#include "pipeline/leader_internal.h"

#include "base/grow.h"
#include "base/json.h"
#include "base/mark.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct culm_crew_ops crew_ops;

struct culm_pipeline_leader *
culm_pipeline_leader_new(const struct culm_pipeline_leader_options *options) {
    struct culm_pipeline_leader *leader = calloc(1, sizeof *leader);
    if (!leader) {
        return NULL;
    }
    leader->o = *options;
    leader->first_start = true;
    leader->iteration = options->start_step + 1;
    leader->agreed_version = -1;
    leader->checkpoint_version = options->start_step;
    snprintf(leader->checkpoint_path, sizeof leader->checkpoint_path, "%s", options->start_source);
    leader->join_ns = CULM_NEVER;
    const struct culm_pipeline_settings *settings = &options->settings;
    culm_crew_init(&leader->crew, &crew_ops, options->world, options->agent, &settings->crew,
                   CULM_META_MAX, options->start_step, CULM_TASK_SAVE + 1, options->shape.stages);
    leader->crew.record = options->record;
    leader->crew.orphan_ms = options->orphan_ms;
    leader->crew.traced = options->traced;
    leader->crew.open = options->open;
    leader->crew.here_most = options->open ? options->here_most : INT32_MAX;
    leader->crew.most = CULM_MAX_NODES;
    culm_crew_add_role(&leader->crew, "worker", options->shape.pipelines * options->shape.stages);
    size_t params = (size_t)options->layout->param_count;
    leader->view = &leader->views[0];
    leader->draft = &leader->views[1];
    const bool views = culm_view_init(leader->view, &options->shape) &&
                       culm_view_init(leader->draft, &options->shape);
    leader->taken = calloc((size_t)options->shape.pipelines, sizeof *leader->taken);
    leader->norm = calloc(params, sizeof *leader->norm);
    leader->norm_known = calloc(params, sizeof *leader->norm_known);
    leader->ledger = culm_ledger_new();
    const size_t stages = (size_t)options->shape.stages;
    leader->saving.writer = calloc(stages, sizeof *leader->saving.writer);
    leader->saving.piece = calloc(stages, sizeof *leader->saving.piece);
    leader->io_pieces = calloc(stages, sizeof *leader->io_pieces);
    const bool saves = leader->saving.writer && leader->saving.piece && leader->io_pieces;
    const bool words = leader_words_begin(leader);
    leader->curve = options->record ? calloc(1, sizeof *leader->curve) : NULL;
    if (!words || (options->record && !leader->curve) || !saves || !views || !leader->taken ||
        !leader->norm || !leader->norm_known || !leader->ledger) {
        culm_pipeline_leader_free(leader);
        return NULL;
    }
    leader->saving.attempt =
        (int32_t)(((leader->o.term > 1 ? leader->o.term - 1 : 0) & 2047) << 20);
    leader->transfer_ids = (uint32_t)leader->saving.attempt;
    if (leader->o.term > 1 && !leader_take_begin(leader)) {
        culm_pipeline_leader_free(leader);
        return NULL;
    }
    leader_fill_ledger(leader);
    return leader;
}

void culm_pipeline_leader_free(struct culm_pipeline_leader *leader) {
    if (!leader) {
        return;
    }
    culm_crew_release(&leader->crew);
    leader_words_end(leader);
    culm_ledger_free(leader->ledger);
    culm_view_release(&leader->views[0]);
    culm_view_release(&leader->views[1]);
    leader_take_end(leader);
    free(leader->taken);
    free(leader->saving.writer);
    free(leader->saving.piece);
    free(leader->io_pieces);
    free(leader->transfer);
    free(leader->curve);
    free(leader->norm);
    free(leader->norm_known);
    free(leader->pending);
    free(leader);
}

void culm_pipeline_leader_totals_of(const struct culm_pipeline_leader *leader,
                                    struct culm_pipeline_leader_totals *ret_totals) {
    struct culm_ledger_findings audit = {0};
    uint64_t end = (uint64_t)(leader->iteration - 1) * (uint64_t)leader->o.shape.global_samples;
    culm_ledger_audit(leader->ledger, end, &audit);
    *ret_totals = (struct culm_pipeline_leader_totals){
        .losses = leader->crew.lost,
        .rollbacks = leader->rollbacks,
        .steps_redone = leader->steps_redone,
        .recovered = leader->recovered,
        .samples_lost = (int64_t)audit.lost,
        .samples_repeated = (int64_t)audit.repeated,
        .committed = leader->iteration - 1,
        .view = leader->view->number,
        .loss = leader->loss,
        .done = leader->phase == ENDED,
        .alive = culm_crew_alive(&leader->crew),
        .coming = culm_crew_coming(&leader->crew, CULM_ROLE_WORKER),
        .transfers = leader->transfer_count,
    };
}

void leader_fill_ledger(struct culm_pipeline_leader *leader) {
    const uint64_t samples = (uint64_t)leader->o.shape.global_samples;
    const int64_t version = leader->iteration - 1;
    const int64_t from =
        version < leader->checkpoint_version ? version : leader->checkpoint_version;
    culm_ledger_truncate(leader->ledger, 0);
    if (from > 0) {
        culm_ledger_commit(leader->ledger, from, 0, (uint64_t)from * samples - 1);
    }
    for (int64_t step = from + 1; step <= version; step++) {
        const uint64_t first = culm_run_shape_first_sample(&leader->o.shape, step, 0);
        culm_ledger_commit(leader->ledger, step, first, first + samples - 1);
    }
}

struct worker *leader_worker(const struct culm_pipeline_leader *leader, int32_t id) {
    return (struct worker *)culm_crew_find(&leader->crew, id);
}

/* --- joining --- */

static void came(struct culm_crew *crew, struct culm_mate *mate) {
    struct culm_pipeline_leader *leader = (struct culm_pipeline_leader *)crew;
    struct worker *worker = (struct worker *)mate;
    const int32_t id = mate->id;
    worker->pipeline = worker->stage = worker->gave_up = -1;
    leader->seats_changed = true;
    if (leader->phase == TAKING) {
        CULM_MARK(pipeline_joins_a_leader_that_takes_over);
    } else if (!leader->first_start || id < leader->o.shape.pipelines * leader->o.shape.stages) {
        leader_seat(leader, worker); /* later ones wait: a slot may be that of one still starting */
    }
    json_t *event = json_pack("{s:s, s:i, s:I, s:o}", "event", "joined", "node", id, "pid",
                              (json_int_t)mate->pid, "name", culm_json_text(worker->mate.name));
    bool seated = worker->pipeline >= 0;
    json_object_set_new(event, "pipeline", seated ? json_integer(worker->pipeline) : json_null());
    json_object_set_new(event, "stage", seated ? json_integer(worker->stage) : json_null());
    culm_crew_add_place(event, mate);
    culm_crew_event(&leader->crew, event);
    if (leader->phase == WAITING) {
        leader_start_if_ready(leader);
    } else if (leader->phase == RUNNING && leader_parked(leader) && !crew->review_why) {
        CULM_MARK(pipeline_joins_while_lanes_wait);
        leader_publish(leader, false, "a worker joined while no pipeline was whole");
    }
}

/* --- losing --- */

static struct culm_stage_set stages_owned(const struct culm_pipeline_leader *leader, int32_t id) {
    struct culm_stage_set owned = {{0}};
    const struct culm_view_node *node = culm_view_find(leader->view, id);
    for (int32_t s = 0; s < leader->view->stages && node && node->pipeline >= 0; s++) {
        if (leader->view->role[node->pipeline][s].owner == id) {
            culm_stage_set_add(&owned, s);
        }
    }
    return owned;
}

void leader_recovered(struct culm_pipeline_leader *leader, struct pending *pending) {
    static const char *const source[] = {[CULM_ORIGIN_SHADOW] = "shadow",
                                         [CULM_ORIGIN_PEER] = "peer",
                                         [CULM_ORIGIN_CHECKPOINT] = "checkpoint"};
    double pause = (double)(culm_crew_now(&leader->crew) - pending->lost_ns) / 1e6;
    culm_crew_event(&leader->crew,
                    json_pack("{s:s, s:i, s:s, s:f, s:I}", "event", "recovered", "node",
                              pending->node, "source", source[pending->origin], "pause_ms", pause,
                              "redone_tasks", (json_int_t)pending->redone));
    leader->recovered++;
    culm_crew_recovered(&leader->crew, pause);
}

void leader_nothing_to_take_over(struct culm_pipeline_leader *leader) {
    const bool others = leader->phase == RUNNING && !leader_parked(leader);
    for (int32_t i = 0; i < leader->pending_count; i++) {
        struct pending *pending = &leader->pending[i];
        if (pending->idle && others) {
            CULM_MARK(pipeline_lost_with_nothing_to_do);
            pending->origin = CULM_ORIGIN_PEER;
            leader_recovered(leader, pending);
            *pending = leader->pending[--leader->pending_count];
            i--;
        } else {
            pending->idle = false;
        }
    }
}

void leader_stepped_without(struct culm_pipeline_leader *leader) {
    for (int32_t i = 0; i < leader->pending_count; i++) {
        struct pending *pending = &leader->pending[i];
        if (pending->stepped) {
            CULM_MARK(pipeline_recovered_and_nobody_said_so);
            if (pending->origin == CULM_ORIGIN_SHADOW &&
                !culm_view_whole(leader->view, pending->pipeline)) {
                pending->origin = CULM_ORIGIN_PEER;
            }
            leader_recovered(leader, pending);
            *pending = leader->pending[--leader->pending_count];
            i--;
        } else {
            pending->stepped = pending->view <= leader->view->number;
        }
    }
}

void leader_tell_lost(struct culm_pipeline_leader *leader, struct worker *worker,
                      const char *why_or_null) {
    struct culm_crew *crew = &leader->crew;
    const int32_t id = worker->mate.id;
    const struct culm_stage_set owned = stages_owned(leader, id);
    const struct culm_view_node *node = culm_view_find(leader->view, id);
    json_t *stages = json_array();
    for (int32_t s = 0; s < leader->o.shape.stages; s++) {
        if (culm_stage_set_has(&owned, s)) {
            json_array_append_new(stages, json_integer(s));
        }
    }
    json_t *event = culm_crew_lost_event(crew, &worker->mate, worker->cause, why_or_null);
    json_object_set_new(event, "step", json_integer((json_int_t)leader->iteration));
    json_object_set_new(event, "stages", stages);
    culm_crew_event(crew, event);
    if (!culm_stage_set_empty(&owned) &&
        CULM_GROW(leader->pending, leader->pending_capacity,
                  leader->pending_count + 1)) { /* else a statistic less */
        leader->pending[leader->pending_count++] = (struct pending){
            .node = id,
            .pipeline = node->pipeline,
            .stages = owned,
            .lost_ns = culm_crew_now(crew),
            .view = leader->view->number + 1,
            .idle = leader->phase == RUNNING && !culm_view_whole(leader->view, node->pipeline) &&
                    !leader_parked(leader)};
    }
}

static void lost(struct culm_crew *crew, struct culm_mate *mate, enum culm_cause cause,
                 const char *why_or_null) {
    struct culm_pipeline_leader *leader = (struct culm_pipeline_leader *)crew;
    struct worker *worker = (struct worker *)mate;
    worker->holds = (struct culm_stage_set){{0}};
    leader_stand_up(leader, worker);
    worker->cause = cause;
    if (leader->phase != TAKING) { /* else when it is known what it had */
        leader_tell_lost(leader, worker, why_or_null);
    }
    free(worker->report);
    worker->report = NULL;
    if (leader->lost_count++ == 0) {
        snprintf(leader->lost_reason, sizeof leader->lost_reason, "node %d was lost (%s)", mate->id,
                 culm_cause_name(cause));
    }
    if (leader->phase == LOADING) {
        CULM_MARK(pipeline_lost_while_loading);
        leader->phase = WAITING;
    } else if (leader->phase == WAITING) {
        CULM_MARK(pipeline_lost_while_waiting);
    } else if (leader->phase == RUNNING) {
        CULM_MARK(pipeline_lost_while_running);
    }
    culm_crew_review_soon(crew, "lost");
}

/* At the next boundary it has nothing to do; where it has nothing now, that need not be waited for. */
static void leaves(struct culm_crew *crew, struct culm_mate *mate) {
    struct culm_pipeline_leader *leader = (struct culm_pipeline_leader *)crew;
    culm_crew_review_now(crew);
    if (crew->left || !mate->alive) {
        return;
    }
    if (leader->phase == WAITING) {
        CULM_MARK(pipeline_leaves_while_waiting);
        leader_start_if_ready(leader);
    } else if (leader->phase == RUNNING && ((struct worker *)mate)->pipeline < 0) {
        CULM_MARK(pipeline_leaves_while_it_stands_by);
        leader_publish(leader, false, "a worker that stands by leaves");
    }
}

void leader_release(struct culm_pipeline_leader *leader, struct worker *worker) {
    struct culm_crew *crew = &leader->crew;
    worker->holds = (struct culm_stage_set){{0}};
    leader_stand_up(leader, worker);
    worker->cause = CULM_CAUSE_LEFT;
    json_t *event = culm_crew_lost_event(crew, &worker->mate, CULM_CAUSE_LEFT, NULL);
    json_object_set_new(event, "step", json_integer((json_int_t)leader->iteration));
    json_object_set_new(event, "stages", json_array());
    culm_crew_event(crew, event);
    culm_crew_release_mate(crew, &worker->mate);
    free(worker->report);
    worker->report = NULL;
}

/* What follows from all losses since the last time: one view. */
static void review(struct culm_crew *crew, const char *why) {
    (void)why;
    struct culm_pipeline_leader *leader = (struct culm_pipeline_leader *)crew;
    char reason[CULM_REASON_MAX];
    snprintf(reason, sizeof reason, "%.100s", leader->lost_reason);
    if (leader->lost_count > 1) {
        CULM_MARK(pipeline_one_view_for_several_losses);
        snprintf(reason, sizeof reason, "%.100s, and %d more", leader->lost_reason,
                 leader->lost_count - 1);
    }
    leader->lost_count = 0;
    if (leader->phase == TAKING) {
        leader_take_on(leader);
    } else if (leader->phase == WAITING) {
        leader_start_if_ready(leader);
    } else if (leader->phase == RUNNING) {
        leader_publish(leader, false, reason);
        leader_writers_lost(leader);
        leader_nothing_to_take_over(leader);
    }
}

static void taken_over(struct culm_pipeline_leader *leader, const struct worker *worker,
                       const struct culm_message *message) {
    struct culm_taken_over said;
    if (culm_taken_over_decode(message->meta, message->meta_bytes, &said) != CULM_OK ||
        said.stage < 0 || said.stage >= leader->o.shape.stages) {
        return;
    }
    for (int32_t i = 0; i < leader->pending_count; i++) {
        struct pending *pending = &leader->pending[i];
        bool elsewhere = worker->pipeline != pending->pipeline;
        if (!culm_stage_set_has(&pending->stages, said.stage) || said.view < pending->view ||
            (elsewhere && culm_view_whole(leader->view, pending->pipeline) &&
             said.origin != CULM_ORIGIN_CHECKPOINT)) {
            CULM_MARK(pipeline_taken_over_counts_not);
            continue;
        }
        bool peer = elsewhere || leader->o.shape.redundancy == CULM_REDUNDANCY_NONE;
        enum culm_origin origin =
            peer && said.origin == CULM_ORIGIN_SHADOW ? CULM_ORIGIN_PEER : said.origin;
        pending->origin = origin > pending->origin ? origin : pending->origin;
        pending->redone += said.redone;
        culm_stage_set_remove(&pending->stages, said.stage);
        if (culm_stage_set_empty(&pending->stages)) {
            CULM_MARK(pipeline_recovered);
            leader_recovered(leader, pending);
            *pending = leader->pending[--leader->pending_count];
            i--;
        }
    }
}

/* --- what its crew asks --- */

static void forget(struct culm_crew *crew, struct culm_mate *mate) {
    leader_words_free((struct culm_pipeline_leader *)crew, (struct worker *)mate);
    free(((struct worker *)mate)->report);
}

static void message(struct culm_crew *crew, struct culm_mate *mate,
                    const struct culm_message *said) {
    struct culm_pipeline_leader *leader = (struct culm_pipeline_leader *)crew;
    struct worker *worker = (struct worker *)mate;
    if (leader->phase == TAKING && said->type == CULM_MSG_REPORT) {
        leader_reported(leader, worker, said);
        return;
    }
    if (leader->phase == TAKING && said->type == CULM_MSG_DAMAGED) {
        leader_damaged(leader, worker, said);
        return;
    }
    if (leader->phase == TAKING) { /* nothing else counts until it knows what there is */
        leader_shown(leader, worker, said);
        return;
    }
    const bool kept = said->type == CULM_MSG_PREPARED || said->type == CULM_MSG_DIGESTS ||
                      said->type == CULM_MSG_LOADED || said->type == CULM_MSG_WAITS ||
                      said->type == CULM_MSG_TAKEN_OVER;
    if (!kept) { /* it goes by the view; those are kept, or count for nothing until the next one */
        culm_crew_review_now(crew);
    }
    if (crew->left || !mate->alive) {
        return;
    }
    switch (said->type) {
    case CULM_MSG_PREPARED: leader_prepared(leader, worker, said); break;
    case CULM_MSG_DIGESTS: leader_digests(leader, worker, said); break;
    case CULM_MSG_WAITS: leader_waits(leader, worker, said); break;
    case CULM_MSG_LOADED: leader_loaded(leader, worker, said); break;
    case CULM_MSG_UNLOADED: leader_unloaded(leader, worker, said); break;
    case CULM_MSG_JOINED: leader_joined(leader, worker, said); break;
    case CULM_MSG_SAVED: leader_saved(leader, worker, said); break;
    case CULM_MSG_TAKEN_OVER: taken_over(leader, worker, said); break;
    case CULM_MSG_DAMAGED: leader_damaged(leader, worker, said); break;
    default: break; /* not for a leader */
    }
}

/* Nothing is asked of workers any more: it is just a loss. */
static bool failed(struct culm_crew *crew, struct culm_mate *mate, const struct culm_failed *said) {
    const struct culm_pipeline_leader *leader = (const struct culm_pipeline_leader *)crew;
    (void)mate;
    if (leader->phase != FINISHING || said->status == CULM_ERR_CHANGED) {
        return false;
    }
    CULM_MARK(pipeline_failed_while_finishing);
    return true;
}

static void written(struct culm_crew *crew, enum culm_deed deed) {
    struct culm_pipeline_leader *leader = (struct culm_pipeline_leader *)crew;
    switch (deed) {
    case CULM_DEED_ROLL_BACK: leader_rollback_written(leader); break;
    case CULM_DEED_STOP: culm_crew_leave(crew, 75, NULL); break;
    case CULM_DEED_DONE: leader_done(leader); break;
    case CULM_DEED_COMMIT: break; /* done again, a step has the same bits: none is written */
    }
}

static void cut(struct culm_crew *crew) {
    struct culm_pipeline_leader *leader = (struct culm_pipeline_leader *)crew;
    culm_crew_review_now(crew);
    if (!crew->cut_off) {
        leader_try_commit(leader);
    } else if (!leader->io_busy) {
        leader_save_cut_off(leader);
    }
}

static bool lacks(const struct culm_crew *crew, uint32_t role) {
    const struct culm_pipeline_leader *leader = (const struct culm_pipeline_leader *)crew;
    (void)role;
    return leader->phase != FINISHING && (leader->phase != RUNNING || leader_parked(leader));
}

/* A stage that this one holds and no other one that is heard. */
static bool last_copy(const struct culm_crew *crew, const struct culm_mate *mate, char *ret_what,
                      size_t size) {
    const struct culm_pipeline_leader *leader = (const struct culm_pipeline_leader *)crew;
    const struct worker *worker = (const struct worker *)mate;
    for (int32_t s = 0; s < leader->o.shape.stages && leader->phase == RUNNING; s++) {
        bool other = !culm_stage_set_has(&worker->holds, s);
        for (int32_t i = 0; i < crew->mates.count && !other; i++) {
            const struct worker *holder = worker_at(leader, i);
            other = holder != worker && culm_crew_is_heard(crew, &holder->mate) &&
                    culm_stage_set_has(&holder->holds, s);
        }
        if (!other) {
            snprintf(ret_what, size, "stage %d", s);
            return true;
        }
    }
    return false;
}

static bool younger(const struct culm_mate *a, const struct culm_mate *b) { return a->id > b->id; }

static int64_t version(const struct culm_crew *crew) {
    return ((const struct culm_pipeline_leader *)crew)->iteration - 1;
}

static void name_place(const struct culm_crew *crew, char *ret_text, size_t size) {
    snprintf(ret_text, size, "step %lld",
             (long long)((const struct culm_pipeline_leader *)crew)->iteration);
}

/* "the backward task of stage 2". */
static void name_task(int32_t kind, int32_t stage, char *ret_text, size_t size) {
    static const char *const what[CULM_TASK_SAVE + 1] = {
        [CULM_TASK_LOAD] = "loading",
        [CULM_TASK_DROP] = "the release",
        [CULM_TASK_FORWARD] = "a forward task",
        [CULM_TASK_BACKWARD] = "a backward task",
        [CULM_TASK_FOLD] = "a sum",
        [CULM_TASK_NORM] = "taking the norms",
        [CULM_TASK_STEP] = "the optimizer step",
        [CULM_TASK_EXPORT] = "sending a tensor",
        [CULM_TASK_IMPORT] = "receiving a tensor",
        [CULM_TASK_ADVANCE] = "the optimizer step of a copy",
        [CULM_TASK_COMPLETE] = "completing the copy",
        [CULM_TASK_SNAPSHOT] = "a snapshot",
        [CULM_TASK_SAVE] = "writing a checkpoint",
    };
    if (kind < 0 || kind > CULM_TASK_SAVE || stage < 0 || stage >= CULM_MAX_STAGES) {
        snprintf(ret_text, size, "a task");
    } else if (kind == CULM_TASK_NORM) {
        snprintf(ret_text, size, "%s", what[kind]); /* of all its stages at once */
    } else {
        snprintf(ret_text, size, "%s of stage %d", what[kind], stage);
    }
}

static void tick(struct culm_crew *crew, uint64_t now) {
    struct culm_pipeline_leader *leader = (struct culm_pipeline_leader *)crew;
    leader_take_on(leader);
    if (leader->phase == WAITING && crew->role[CULM_ROLE_WORKER].waits) {
        leader_start_if_ready(
            leader); /* one that was starting may have ended, and nobody else come */
    }
    if (leader->phase == RUNNING && leader->join_ns <= now) {
        leader_joins_late(leader);
    }
    if (leader->phase == RUNNING || leader->phase == FINISHING) {
        (void)leader_discard_if_due(leader);
        leader_hold_tick(leader, now);
    }
}

static void over(struct culm_crew *crew) { ((struct culm_pipeline_leader *)crew)->phase = ENDED; }

static void in_vain(struct culm_crew *crew, uint32_t role) {
    const struct culm_error *why = &crew->role[role].failed;
    culm_crew_fail(crew, culm_crew_vain_status(crew, role),
                   "waited %lld ms for workers, but only %d joined; start more, or lower "
                   "pipelines or stages%s%s",
                   (long long)crew->settings.wait_ms, culm_crew_alive(crew),
                   why->status != CULM_OK ? "; the last one did not start: " : "",
                   why->status != CULM_OK ? why->text : "");
}

static const struct culm_crew_ops crew_ops = {
    .size = sizeof crew_ops,
    .mate_bytes = sizeof(struct worker),
    .noun = "worker",
    .unreachable = CULM_CAUSE_EOF,
    .came = came,
    .lost = lost,
    .leaves = leaves,
    .review = review,
    .forget = forget,
    .written = written,
    .message = message,
    .failed = failed,
    .lacks = lacks,
    .last_copy = last_copy,
    .rather = younger,
    .version = version,
    .name_place = name_place,
    .name_task = name_task,
    .shorter = "make it smaller with batch.micro or stages",
    .tick = tick,
    .cut = cut,
    .over = over,
    .in_vain = in_vain,
    .watched = leader_watched,
    .progress = leader_progress,
    .asked = leader_asked,
    .forget_answer = leader_forget_answer,
    .judge = leader_judge,
    .nobody = leader_nobody,
};

/* --- the actor --- */

static void on_start(void *actor) {
    culm_crew_begin(actor);
    if (((struct culm_pipeline_leader *)actor)->phase == TAKING) {
        return;
    }
    leader_start_if_ready(actor); /* how many it takes follows from how many were asked for */
}

static void on_stop(void *self) {
    struct culm_pipeline_leader *leader = self;
    culm_crew_review_now(&leader->crew);
    if (leader->phase != ENDED) {
        leader->stop_requested = true;
        leader_stop_if_safe(leader);
        leader_hold_stop(leader);
    }
}

static void on_job_done(void *actor, struct culm_job *job) {
    (void)job;
    culm_crew_review_now(actor);
    leader_io_done(actor);
}

/* Newcomers take vacant places, or stand by. */
static bool on_admits(void *actor, const struct culm_node_info *info, uint32_t *role,
                      struct culm_error *ret_error) {
    const struct culm_pipeline_leader *leader = actor;
    if (!leader->o.open) {
        CULM_MARK(pipeline_admits_no_newcomers);
        culm_error_set(ret_error, CULM_ERR_CONFIG,
                       "this run starts its workers itself, and lets in no newcomers");
        return false;
    }
    if (leader->crew.left || leader->phase == FINISHING || leader->phase == ENDED) {
        CULM_MARK(pipeline_ends_before_a_newcomer);
        culm_error_set(ret_error, CULM_ERR_CLOSED, "the run is about to end");
        return false;
    }
    if (info->role != CULM_ROLE_WORKER) {
        culm_error_set(ret_error, CULM_ERR_CONFIG, "only workers may join a training run");
        return false;
    }
    *role = CULM_ROLE_WORKER;
    return culm_crew_has_room(&leader->crew, CULM_ROLE_WORKER, ret_error);
}

static const struct culm_leader_ops leads = {
    .size = sizeof leads,
    .joined = culm_crew_on_joined,
    .ended = culm_crew_on_ended,
    .removed = culm_crew_on_removed,
    .stop = on_stop,
    .admits = on_admits,
    .written = culm_crew_on_written,
    .deposed = culm_crew_on_deposed,
    .away = culm_crew_on_away,
    .resign = culm_crew_on_resign,
};

const struct culm_actor_ops culm_pipeline_leader_actor = {
    .size = sizeof culm_pipeline_leader_actor,
    .start = on_start,
    .message = culm_crew_on_message,
    .lost = culm_crew_on_lost,
    .timer = culm_crew_on_timer,
    .job_done = on_job_done,
    .leads = &leads,
};

/* The coordinator: views, loading, copies to new holders, roll-back. */
#include "pipeline/coordinator_internal.h"

#include "base/json.h"

#include <stdio.h>
#include <string.h>

#define MS 1000000ull

static bool lanes_wait(const struct culm_view *view) {
    for (int32_t l = 0; l < view->lanes; l++) {
        if (view->lane_pipeline[l] < 0) {
            return true;
        }
    }
    return false;
}

bool culm_coordinator_parked(const struct culm_coordinator *c) { return lanes_wait(c->view); }

/* What a node should hold, and roles and lanes: as far as the promise about memory goes. */
static uint64_t desired(const struct culm_coordinator *c, int32_t id) {
    return c->o.memory ? culm_memory_desired(c->o.memory, &c->o.shape, c->draft, id)
                       : culm_view_desired(c->draft, &c->o.shape, id);
}

static void assign(struct culm_coordinator *c, const struct culm_view *before) {
    culm_view_assign(c->draft, &c->o.shape, before);
    if (c->o.memory) {
        culm_memory_fit(c->o.memory, &c->o.shape, c->draft, before);
    }
}

static void seat_all(struct culm_coordinator *c) {
    for (int32_t i = 0; i < c->worker_count; i++) {
        if (c->worker[i].alive && c->worker[i].pipeline < 0) {
            culm_coordinator_seat(c, &c->worker[i]);
        }
    }
}

static void draft_nodes(struct culm_coordinator *c) {
    struct culm_view *draft = c->draft;
    memset(draft, 0, sizeof *draft);
    draft->pipelines = c->o.shape.pipelines;
    draft->stages = c->o.shape.stages;
    draft->lanes = c->o.shape.lanes;
    draft->iteration = c->iteration;
    for (int32_t i = 0; i < c->worker_count && draft->node_count < CULM_MAX_NODES; i++) {
        const struct worker *worker = &c->worker[i];
        if (worker->alive) {
            draft->node[draft->node_count++] =
                (struct culm_view_node){worker->id, worker->pipeline, worker->stage, worker->holds};
        }
    }
}

static json_t *view_event(const struct culm_view *view) {
    json_t *map = json_array(), *lanes = json_array(), *copies = json_array();
    for (int32_t s = 0; s < view->stages; s++) {
        json_array_append_new(copies, json_integer(culm_view_copies(view, s)));
    }
    for (int32_t p = 0; p < view->pipelines; p++) {
        for (int32_t s = 0; s < view->stages; s++) {
            json_array_append_new(map, json_pack("{s:i, s:i, s:i, s:i}", "pipeline", p, "stage", s,
                                                 "owner", view->role[p][s].owner, "shadow",
                                                 view->role[p][s].shadow));
        }
    }
    for (int32_t l = 0; l < view->lanes; l++) {
        json_array_append_new(lanes, json_integer(view->lane_pipeline[l]));
    }
    return json_pack("{s:s, s:o, s:s, s:o, s:o, s:o, s:I}", "event", "view", "reason",
                     culm_json_text(view->reason), "phase",
                     view->phase == CULM_VIEW_LOAD ? "load" : "run", "map", map, "lanes", lanes,
                     "copies", copies, "step", (json_int_t)view->iteration);
}

/* Makes the draft the view, tells everyone, and forgets what was said in the old one. */
static void issue(struct culm_coordinator *c, enum culm_view_phase phase, const char *reason) {
    c->draft->number = c->view->number + 1;
    c->draft->phase = phase;
    c->draft->attempt = c->view->attempt + c->afresh;
    if (c->afresh) {
        culm_coordinator_words_afresh(c);
        c->afresh = false;
    }
    c->load_view = phase == CULM_VIEW_LOAD ? c->draft->number : c->load_view;
    snprintf(c->draft->reason, sizeof c->draft->reason, "%s", reason);
    if (phase == CULM_VIEW_LOAD) {
        snprintf(c->draft->source, sizeof c->draft->source, "%s", c->checkpoint_path);
    }
    struct culm_view *old = c->view;
    c->view = c->draft;
    c->draft = old;
    for (int32_t i = 0; i < c->worker_count; i++) {
        c->worker[i].prepared = 0;
    }
    culm_coordinator_event(c, view_event(c->view));
    culm_view_encode(c->view, culm_coordinator_meta(c));
    for (int32_t i = 0; i < c->view->node_count; i++) {
        culm_coordinator_send(c, c->view->node[i].id, CULM_MSG_VIEW);
    }
}

/* --- starting --- */

static const char *memory_limit(const struct culm_coordinator *c) {
    return c->o.memory && c->o.memory->node_bytes ? "memory_mb" : "this machine";
}

static bool replaceable(const struct culm_coordinator *c) {
    return c->o.traced || c->o.settings.replace_ms >= 0;
}

bool culm_coordinator_stop_if_safe(struct culm_coordinator *c) {
    bool safe = (c->phase == WAITING || c->phase == LOADING) && !c->io_busy;
    if (c->stop_requested && safe) {
        culm_coordinator_leave(c, 75, NULL);
    }
    return c->phase == ENDED;
}

/* How many workers it takes: all at first; later one pipeline; and whoever is left where nobody
 * else will come. */
static int32_t needed(const struct culm_coordinator *c) {
    if (!replaceable(c) && c->starting + c->spawn_count == 0) {
        return 1;
    }
    return c->first_start ? c->o.shape.pipelines * c->o.shape.stages : c->o.shape.stages;
}

/* Says once for each number of workers that there are too few. */
static void wait_for(struct culm_coordinator *c, int32_t need, int32_t have, const char *why) {
    if (c->wait_ns == CULM_NEVER) {
        c->wait_ns = culm_coordinator_now(c) + (uint64_t)c->o.settings.wait_ms * MS;
    }
    if (have == c->waiting_have) {
        return;
    }
    c->waiting_have = have;
    json_t *event = json_pack("{s:s, s:i, s:i}", "event", "waiting", "need", need, "have", have);
    if (why) {
        json_object_set_new(event, "message", culm_json_text(why));
    }
    culm_coordinator_event(c, event);
}

static void wait_no_more(struct culm_coordinator *c) {
    c->wait_ns = CULM_NEVER;
    c->waiting_have = -1;
}

/* Lanes are left without a pipeline and no copy under way will change that: those who live may not
 * take more memory. */
static void wait_for_memory(struct culm_coordinator *c) {
    int32_t have = culm_coordinator_alive(c);
    if (!replaceable(c) && c->starting + c->spawn_count == 0) {
        culm_coordinator_fail(c, CULM_ERR_MEMORY,
                              "the %d workers that are left would take more memory than %s allows; "
                              "resume with more workers, more memory or more stages",
                              have, memory_limit(c));
        return;
    }
    char why[160];
    snprintf(why, sizeof why,
             "the workers that are left would take more memory than %s allows; the work waits for "
             "a replacement",
             memory_limit(c));
    wait_for(c, c->o.shape.pipelines * c->o.shape.stages, have, why);
}

void culm_coordinator_start_if_ready(struct culm_coordinator *c) {
    if (c->rollback_due || culm_coordinator_stop_if_safe(c)) {
        return;
    }
    int32_t need = needed(c), have = culm_coordinator_alive(c);
    if (have < need) {
        wait_for(c, need, have, NULL);
        return;
    }
    seat_all(c);
    c->first_start = false;
    draft_nodes(c);
    for (int32_t i = 0; i < c->draft->node_count; i++) {
        c->draft->node[i].holds = desired(c, c->draft->node[i].id);
    }
    assign(c, NULL);
    if (lanes_wait(c->draft)) {
        wait_for_memory(c);
        return;
    }
    wait_no_more(c);
    for (int32_t i = 0; i < c->worker_count; i++) {
        c->worker[i].loaded = false;
        c->worker[i].holds = 0;
    }
    culm_coordinator_words_forget(c);
    c->phase = LOADING;
    char reason[CULM_REASON_MAX];
    snprintf(reason, sizeof reason, "%d workers load version %lld from %.100s", have,
             (long long)(c->iteration - 1),
             c->checkpoint_path[0] ? c->checkpoint_path : "the seed");
    issue(c, CULM_VIEW_LOAD, reason);
}

void culm_coordinator_loaded(struct culm_coordinator *c, struct worker *worker,
                             const struct culm_message *message) {
    struct culm_loaded loaded;
    if (culm_loaded_decode(message->meta, message->meta_bytes, &loaded) != CULM_OK ||
        c->phase != LOADING || loaded.view != c->view->number ||
        loaded.version != c->iteration - 1) {
        return;
    }
    worker->loaded = true;
    for (int32_t i = 0; i < c->view->node_count; i++) {
        const struct culm_view_node *node = &c->view->node[i];
        if (node->holds && !culm_coordinator_worker(c, node->id)->loaded) {
            return;
        }
    }
    for (int32_t i = 0; i < c->view->node_count; i++) {
        culm_coordinator_worker(c, c->view->node[i].id)->holds = c->view->node[i].holds;
    }
    c->phase = RUNNING;
    culm_coordinator_words_loaded(c);
    c->step_ns = culm_coordinator_now(c);
    char reason[CULM_REASON_MAX];
    snprintf(reason, sizeof reason, "all have loaded version %lld", (long long)(c->iteration - 1));
    culm_coordinator_publish(c, true, reason);
    culm_coordinator_settle(c);
    if (c->iteration > c->o.shape.steps) {
        culm_coordinator_save(c);
    }
}

/* --- copies --- */

static struct culm_view_node *draft_node(struct culm_coordinator *c, int32_t id) {
    return (struct culm_view_node *)culm_view_find(c->draft, id);
}

/* Who sends `stage` to `destination`: the owner in its own pipeline, else the holder with the
 * fewest copies to send. */
static int32_t source_for(const struct culm_coordinator *c,
                          const struct culm_view_node *destination, int32_t stage) {
    const struct culm_view *draft = c->draft;
    int32_t owner =
        destination->pipeline >= 0 ? draft->role[destination->pipeline][stage].owner : -1;
    if (owner >= 0) {
        return owner;
    }
    int32_t best = -1, best_load = 0;
    for (int32_t i = 0; i < draft->node_count; i++) {
        if (!(draft->node[i].holds >> stage & 1)) {
            continue;
        }
        int32_t load = 0;
        for (int32_t t = 0; t < draft->transfer_count; t++) {
            load += draft->transfer[t].source == draft->node[i].id;
        }
        if (best < 0 || load < best_load) {
            best = draft->node[i].id;
            best_load = load;
        }
    }
    return best;
}

static bool listed(const struct culm_view *view, int32_t destination, int32_t stage) {
    for (int32_t i = 0; i < view->transfer_count; i++) {
        if (view->transfer[i].destination == destination && view->transfer[i].stage == stage) {
            return true;
        }
    }
    return false;
}

static bool still_wanted(struct culm_coordinator *c, const struct culm_transfer *t) {
    const struct culm_view_node *to = draft_node(c, t->destination);
    return to && !(to->holds >> t->stage & 1) && (desired(c, to->id) >> t->stage & 1);
}

/* Keeps outstanding transfers whose ends live, starts others over, and, with `fresh`, adds what is
 * missing. Returns whether any is new. */
static bool plan_transfers(struct culm_coordinator *c, bool fresh) {
    struct culm_view *draft = c->draft;
    bool added = false;
    for (int32_t i = 0; i < c->transfer_count; i++) {
        struct culm_transfer t = c->transfer[i];
        if (!still_wanted(c, &t)) {
            continue;
        }
        const struct culm_view_node *from = draft_node(c, t.source);
        if (!from || !(from->holds >> t.stage & 1)) {
            t.id = ++c->transfer_ids;
            t.source = source_for(c, draft_node(c, t.destination), t.stage);
            added = true;
        }
        draft->transfer[draft->transfer_count++] = t;
    }
    for (int32_t i = 0; i < draft->node_count && fresh; i++) {
        const struct culm_view_node *to = &draft->node[i];
        uint64_t missing = desired(c, to->id) & ~to->holds;
        for (int32_t s = 0; s < draft->stages; s++) {
            if (!(missing >> s & 1) || listed(draft, to->id, s) ||
                draft->transfer_count == CULM_MAX_TRANSFERS) {
                continue;
            }
            draft->transfer[draft->transfer_count] =
                (struct culm_transfer){++c->transfer_ids, source_for(c, to, s), to->id, s};
            draft->transfer_count++;
            added = true;
        }
    }
    memcpy(c->transfer, draft->transfer, sizeof c->transfer);
    c->transfer_count = draft->transfer_count;
    return added;
}

/* At a boundary whoever has no use for a stage any more lets it go. */
static void drop_unwanted(struct culm_coordinator *c) {
    struct culm_view *draft = c->draft;
    for (int32_t i = 0; i < draft->node_count; i++) {
        struct culm_view_node *node = &draft->node[i];
        uint64_t keep = desired(c, node->id);
        for (int32_t s = 0; s < draft->stages && node->pipeline >= 0; s++) {
            const struct culm_role *role = &draft->role[node->pipeline][s];
            if (role->owner == node->id || role->shadow == node->id) {
                keep |= 1ull << s;
            }
        }
        /* A copy is let go only while others remain. */
        for (int32_t s = 0; s < draft->stages; s++) {
            if ((node->holds & ~keep) >> s & 1 && culm_view_copies(draft, s) > 1) {
                node->holds &= ~(1ull << s);
            }
        }
        culm_coordinator_worker(c, node->id)->holds = node->holds;
    }
}

static bool same_view(const struct culm_view *a, const struct culm_view *b) {
    if (a->phase != b->phase || a->frc != b->frc || a->node_count != b->node_count ||
        a->transfer_count != 0 || b->transfer_count != 0 ||
        memcmp(a->lane_pipeline, b->lane_pipeline, sizeof a->lane_pipeline) != 0) {
        return false;
    }
    for (int32_t p = 0; p < a->pipelines; p++) {
        for (int32_t s = 0; s < a->stages; s++) {
            if (a->role[p][s].owner != b->role[p][s].owner ||
                a->role[p][s].shadow != b->role[p][s].shadow) {
                return false;
            }
        }
    }
    for (int32_t i = 0; i < a->node_count; i++) {
        if (a->node[i].id != b->node[i].id || a->node[i].holds != b->node[i].holds ||
            a->node[i].pipeline != b->node[i].pipeline || a->node[i].stage != b->node[i].stage) {
            return false;
        }
    }
    return true;
}

void culm_coordinator_publish(struct culm_coordinator *c, bool boundary, const char *reason) {
    seat_all(c);
    draft_nodes(c);
    for (int32_t s = 0; s < c->draft->stages; s++) {
        if (culm_view_copies(c->draft, s) == 0) {
            char why[CULM_REASON_MAX];
            snprintf(why, sizeof why, "%.120s: no copy of stage %d is left", reason, s);
            culm_coordinator_rollback(c, why);
            return;
        }
    }
    c->draft->phase = CULM_VIEW_RUN;
    assign(c, boundary ? NULL : c->view);
    if (boundary) {
        drop_unwanted(c);
    }
    bool added = plan_transfers(c, boundary || lanes_wait(c->draft));
    c->transfers_settled = false;
    if (c->transfer_count == 0) {
        c->join_ns = CULM_NEVER;
    } else if (added || c->join_ns == CULM_NEVER) {
        c->join_ns = culm_coordinator_now(c) + (uint64_t)c->o.settings.join_ms * MS;
    }
    if (boundary && same_view(c->draft, c->view)) {
        return;
    }
    issue(c, CULM_VIEW_RUN, reason);
    if (lanes_wait(c->view) && c->transfer_count == 0) {
        wait_for_memory(c);
    } else {
        wait_no_more(c);
    }
    culm_coordinator_try_commit(c);
}

void culm_coordinator_joined(struct culm_coordinator *c, struct worker *worker,
                             const struct culm_message *message) {
    struct culm_joined joined;
    if (culm_joined_decode(message->meta, message->meta_bytes, &joined) != CULM_OK ||
        c->phase != RUNNING || joined.version != c->iteration - 1) {
        return;
    }
    for (int32_t i = 0; i < c->transfer_count; i++) {
        const struct culm_transfer t = c->transfer[i];
        if (t.id != joined.transfer || t.destination != worker->id) {
            continue;
        }
        worker->holds |= 1ull << t.stage;
        c->transfer[i] = c->transfer[--c->transfer_count];
        c->transfers_settled = true;
        if (c->transfer_count == 0) {
            char reason[CULM_REASON_MAX];
            snprintf(reason, sizeof reason, "node %d has its copy of stage %d", worker->id,
                     t.stage);
            culm_coordinator_publish(c, false, reason);
        }
        return;
    }
}

void culm_coordinator_give_up_joins(struct culm_coordinator *c) {
    c->join_ns = CULM_NEVER;
    if (culm_coordinator_parked(c)) {
        /* Nothing but these copies can bring the run on: they go on, and whoever has its own is
         * used. */
        if (c->transfers_settled) {
            culm_coordinator_publish(c, false, "some copies took longer than cluster.join_ms");
        } else {
            c->join_ns = culm_coordinator_now(c) + (uint64_t)c->o.settings.join_ms * MS;
        }
        return;
    }
    c->transfer_count = 0;
    if (c->transfers_settled) {
        culm_coordinator_publish(c, false, "copies took longer than cluster.join_ms");
    } else {
        culm_coordinator_try_commit(c);
    }
}

void culm_coordinator_rollback(struct culm_coordinator *c, const char *reason) {
    if (c->io_busy && c->saving.publishing) {
        /* It may be the newest in a moment; and publishing it may remove the one before. */
        c->rollback_due = true;
        snprintf(c->rollback_reason, sizeof c->rollback_reason, "%s", reason);
        c->phase = WAITING;
        return;
    }
    c->rollback_due = false;
    int64_t from = c->iteration - 1, to = c->checkpoint_version;
    c->rollbacks++;
    c->steps_redone += from - to;
    c->iteration = to + 1;
    culm_ledger_truncate(c->ledger, to);
    c->transfer_count = 0;
    c->join_ns = CULM_NEVER;
    for (int32_t i = 0; i < c->worker_count; i++) {
        c->worker[i].holds = 0;
    }
    for (int32_t i = 0; i < c->pending_count; i++) {
        c->pending[i].origin = CULM_ORIGIN_CHECKPOINT;
        c->pending[i].view = c->view->number + 1;
    }
    culm_coordinator_event(c, json_pack("{s:s, s:I, s:I, s:o}", "event", "rollback", "from_step",
                                        (json_int_t)from, "to_step", (json_int_t)to, "reason",
                                        culm_json_text(reason)));
    c->phase = WAITING;
    c->hold = (struct hold){0};
    if (c->saving.active) {
        culm_coordinator_give_up_save(c, "every copy of a stage was lost while it was written");
    }
    culm_coordinator_start_if_ready(c);
}

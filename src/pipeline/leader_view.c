/* The leader: views, loading, copies to new holders, roll-back. */
#include "pipeline/leader_internal.h"

#include "base/grow.h"
#include "base/json.h"
#include "base/mark.h"

#include <stdio.h>
#include <string.h>

#define MS 1000000ull

bool leader_parked(const struct culm_pipeline_leader *leader) {
    return culm_view_lanes_wait(leader->view);
}

/* What a node should hold, and roles and lanes: as far as the promise about memory goes. */
static struct culm_stage_set desired(const struct culm_pipeline_leader *leader, int32_t id) {
    return leader->o.memory
               ? culm_memory_desired(leader->o.memory, &leader->o.shape, leader->draft, id)
               : culm_view_desired(leader->draft, &leader->o.shape, id);
}

static void assign(struct culm_pipeline_leader *leader, const struct culm_view *before) {
    culm_view_assign(leader->draft, &leader->o.shape, before);
    if (leader->o.memory) {
        culm_memory_fit(leader->o.memory, &leader->o.shape, leader->draft, before);
    }
}

static void no_memory(struct culm_pipeline_leader *leader) {
    culm_crew_fail(&leader->crew, CULM_ERR_MEMORY, "out of memory for a view");
}

/* False: the run has ended. */
static bool draft_nodes(struct culm_pipeline_leader *leader) {
    struct culm_view *draft = leader->draft;
    culm_view_clear(draft);
    draft->iteration = leader->iteration;
    bool room = true;
    for (int32_t i = 0; i < leader->crew.mates.count && room; i++) {
        const struct worker *worker = worker_at(leader, i);
        const struct culm_view_node node = {worker->mate.id, worker->pipeline, worker->stage,
                                            worker->holds};
        room = !worker->mate.alive || culm_view_add_node(draft, &node);
    }
    if (!room) {
        no_memory(leader);
        return false;
    }
    culm_view_seat(draft);
    return true;
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
    return json_pack("{s:s, s:I, s:o, s:s, s:o, s:o, s:o, s:I}", "event", "view", "term",
                     (json_int_t)CULM_VIEW_TERM(view->number), "reason",
                     culm_json_text(view->reason), "phase",
                     view->phase == CULM_VIEW_LOAD ? "load" : "run", "map", map, "lanes", lanes,
                     "copies", copies, "step", (json_int_t)view->iteration);
}

/* To those who come: they may have to tell another leader of steps that were committed before they came. */
static void tell_curve(struct culm_pipeline_leader *leader, const struct culm_view *before) {
    bool encoded = false;
    if (!leader->curve || leader->curve->count == 0) {
        return;
    }
    for (int32_t i = 0; i < leader->view->node_count; i++) {
        const int32_t id = leader->view->node[i].id;
        if (culm_view_find(before, id)) {
            continue;
        }
        if (!encoded) {
            CULM_MARK(pipeline_tells_of_steps_before_one_came);
            culm_curve_encode(leader->curve, culm_crew_meta(&leader->crew));
            encoded = true;
        }
        culm_crew_send(&leader->crew, id, CULM_MSG_CURVE);
    }
}

/* To those who were told the view before, only what has changed. */
static void send_view(struct culm_pipeline_leader *leader, const struct culm_view *before) {
    const struct culm_view *view = leader->view;
    const bool changes = before->number > 0 && !leader->tell_whole;
    int32_t told = 0;
    if (changes) {
        culm_view_encode(view, before, &leader->o.shape, culm_crew_meta(&leader->crew));
    } else if (before->number > 0) {
        CULM_MARK(pipeline_view_is_told_again);
    }
    for (int32_t i = 0; i < view->node_count && changes; i++) {
        if (culm_view_find(before, view->node[i].id)) {
            CULM_MARK(pipeline_view_is_told_by_its_changes);
            culm_crew_send(&leader->crew, view->node[i].id, CULM_MSG_VIEW);
            told++;
        }
    }
    tell_curve(leader, before);
    if (told < view->node_count) {
        culm_view_encode(view, NULL, &leader->o.shape, culm_crew_meta(&leader->crew));
    }
    for (int32_t i = 0; i < view->node_count && told < view->node_count; i++) {
        if (!changes || !culm_view_find(before, view->node[i].id)) {
            culm_crew_send(&leader->crew, view->node[i].id, CULM_MSG_VIEW);
        }
    }
    leader->tell_whole = false;
}

/* Makes the draft the view, tells everyone, and forgets what was said in the old one. */
static void issue(struct culm_pipeline_leader *leader, enum culm_view_phase phase,
                  const char *reason) {
    leader->draft->number = culm_view_after(leader->view->number, leader->o.term);
    leader->draft->phase = phase;
    leader->last = phase == CULM_VIEW_LOAD ? (struct culm_content){0} : leader->last;
    leader->draft->last = leader->last;
    leader->draft->totals = leader_totals(leader);
    if (phase == CULM_VIEW_LOAD && leader->view->number > 0) {
        /* What was sent before came from states that are no more, and that nobody has looked at. */
        CULM_MARK(pipeline_load_begins_another_attempt);
        leader->afresh = true;
    }
    leader->draft->attempt = leader->afresh ? leader->draft->number : leader->view->attempt;
    if (leader->afresh) {
        leader_words_afresh(leader);
        leader->afresh = false;
    }
    leader->load_view = phase == CULM_VIEW_LOAD ? leader->draft->number : leader->load_view;
    snprintf(leader->draft->reason, sizeof leader->draft->reason, "%s", reason);
    if (phase == CULM_VIEW_LOAD) {
        snprintf(leader->draft->source, sizeof leader->draft->source, "%s",
                 leader->checkpoint_path);
    }
    leader->crew.view = leader->draft->number;
    struct culm_view *old = leader->view;
    leader->view = leader->draft;
    leader->draft = old;
    for (int32_t i = 0; i < leader->crew.mates.count; i++) {
        worker_at(leader, i)->prepared = (struct culm_stage_set){{0}};
    }
    culm_crew_event(&leader->crew, view_event(leader->view));
    send_view(leader, old);
}

/* --- starting --- */

static const char *memory_limit(const struct culm_pipeline_leader *leader) {
    return leader->o.memory && leader->o.memory->node_bytes ? "memory_mb" : "this machine";
}

/* None is on its way, and none will be asked for. */
static bool nobody_comes(const struct culm_pipeline_leader *leader) {
    return leader->crew.settings.replace_ms < 0 &&
           culm_crew_nobody_comes(&leader->crew, CULM_ROLE_WORKER);
}

bool leader_stop_if_safe(struct culm_pipeline_leader *leader) {
    bool safe = (leader->phase == WAITING || leader->phase == LOADING) && !leader->io_busy;
    if (leader->crew.writing) {
        return true; /* of which this is looked at again */
    }
    if (leader->stop_requested && safe) {
        CULM_MARK(pipeline_stopped_while_loading);
        leader_leave_stopped(leader);
    }
    return leader->phase == ENDED || leader->crew.writing;
}

/* How many workers it takes: all at first; later one pipeline; and whoever is left where nobody
 * else will come. */
static int32_t needed(const struct culm_pipeline_leader *leader) {
    if (nobody_comes(leader)) {
        CULM_MARK(pipeline_goes_on_with_who_is_left);
        return 1;
    }
    return leader->first_start ? leader->o.shape.pipelines * leader->o.shape.stages
                               : leader->o.shape.stages;
}

/* Lanes are left without a pipeline and no copy under way will change that: those who live may not
 * take more memory. */
static void wait_for_memory(struct culm_pipeline_leader *leader) {
    int32_t have = culm_crew_alive(&leader->crew);
    if (nobody_comes(leader)) {
        CULM_MARK(pipeline_no_memory_is_left);
        culm_crew_fail(&leader->crew, CULM_ERR_MEMORY,
                       "the %d workers that are left would take more memory than %s allows; "
                       "resume with more workers, more memory or more stages",
                       have, memory_limit(leader));
        return;
    }
    CULM_MARK(pipeline_waits_for_memory);
    char why[160];
    snprintf(why, sizeof why,
             "the workers that are left would take more memory than %s allows; the work waits for "
             "a replacement",
             memory_limit(leader));
    culm_crew_wait(&leader->crew, CULM_ROLE_WORKER,
                   leader->o.shape.pipelines * leader->o.shape.stages, have, why);
}

void leader_start_if_ready(struct culm_pipeline_leader *leader) {
    if (leader->rollback_due || leader_stop_if_safe(leader)) {
        return;
    }
    for (int32_t i = 0; i < leader->crew.mates.count; i++) { /* nobody holds anything */
        if (worker_at(leader, i)->mate.alive && worker_at(leader, i)->mate.asks) {
            leader_release(leader, worker_at(leader, i));
        }
    }
    if (leader->phase == ENDED) {
        return;
    }
    int32_t need = needed(leader), have = culm_crew_alive(&leader->crew);
    if (have < need) {
        CULM_MARK(pipeline_waits_for_workers);
        culm_crew_wait(&leader->crew, CULM_ROLE_WORKER, need, have, NULL);
        return;
    }
    leader_seat_all(leader);
    leader_seat_apart(leader);
    leader->first_start = false;
    if (!draft_nodes(leader)) {
        return;
    }
    for (int32_t i = 0; i < leader->draft->node_count; i++) {
        leader->draft->node[i].holds = desired(leader, leader->draft->node[i].id);
    }
    assign(leader, NULL);
    if (culm_view_lanes_wait(leader->draft)) {
        wait_for_memory(leader);
        return;
    }
    culm_crew_wait_over(&leader->crew, CULM_ROLE_WORKER);
    for (int32_t i = 0; i < leader->crew.mates.count; i++) {
        worker_at(leader, i)->loaded = false;
        worker_at(leader, i)->holds = (struct culm_stage_set){{0}};
    }
    leader_words_forget(leader);
    leader->phase = LOADING;
    char reason[CULM_REASON_MAX];
    snprintf(reason, sizeof reason, "%d workers load version %lld from %.100s", have,
             (long long)(leader->iteration - 1),
             leader->checkpoint_path[0] ? leader->checkpoint_path : "the seed");
    issue(leader, CULM_VIEW_LOAD, reason);
}

/* Looks at everyone only when nobody is missing any more. */
static bool all_loaded(struct culm_pipeline_leader *leader) {
    const int32_t count = leader->view->node_count;
    for (int32_t i = 0; i < count; i++) {
        leader->unloaded %= count;
        const struct culm_view_node *node = &leader->view->node[leader->unloaded];
        if (!culm_stage_set_empty(&node->holds) && !leader_worker(leader, node->id)->loaded) {
            return false;
        }
        leader->unloaded++;
    }
    return true;
}

void leader_loaded(struct culm_pipeline_leader *leader, struct worker *worker,
                   const struct culm_message *message) {
    struct culm_loaded loaded;
    if (culm_loaded_decode(message->meta, message->meta_bytes, &loaded) != CULM_OK ||
        leader->phase != LOADING || loaded.view != leader->view->number ||
        loaded.version != leader->iteration - 1) {
        return;
    }
    worker->loaded = true;
    culm_crew_worked(&leader->crew, &worker->mate);
    if (!all_loaded(leader)) {
        return;
    }
    for (int32_t i = 0; i < leader->view->node_count; i++) {
        leader_worker(leader, leader->view->node[i].id)->holds = leader->view->node[i].holds;
    }
    leader->phase = RUNNING;
    leader_words_loaded(leader);
    leader->step_ns = culm_crew_now(&leader->crew);
    char reason[CULM_REASON_MAX];
    snprintf(reason, sizeof reason, "all have loaded version %lld",
             (long long)(leader->iteration - 1));
    leader_publish(leader, true, reason);
    leader_settle(leader);
    if (leader->iteration > leader->o.shape.steps) {
        CULM_MARK(pipeline_loaded_the_last_step);
        leader_save(leader);
    }
}

/* --- copies --- */

static struct culm_view_node *draft_node(struct culm_pipeline_leader *leader, int32_t id) {
    return (struct culm_view_node *)culm_view_find(leader->draft, id);
}

/* Who sends `stage` to `destination`: the owner in its own pipeline, else the holder with the
 * fewest copies to send. */
static int32_t source_for(const struct culm_pipeline_leader *leader,
                          const struct culm_view_node *destination, int32_t stage) {
    const struct culm_view *draft = leader->draft;
    int32_t owner =
        destination->pipeline >= 0 ? draft->role[destination->pipeline][stage].owner : -1;
    if (owner >= 0) {
        CULM_MARK(pipeline_copy_from_own_pipeline);
        return owner;
    }
    CULM_MARK(pipeline_copy_from_another_pipeline);
    int32_t best = -1, best_load = 0;
    for (int32_t i = 0; i < draft->node_count; i++) {
        if (!culm_stage_set_has(&draft->node[i].holds, stage)) {
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

static bool still_wanted(struct culm_pipeline_leader *leader, const struct culm_transfer *t) {
    const struct culm_view_node *to = draft_node(leader, t->destination);
    if (!to || culm_stage_set_has(&to->holds, t->stage)) {
        return false;
    }
    const struct culm_stage_set wanted = desired(leader, to->id);
    return culm_stage_set_has(&wanted, t->stage);
}

/* Keeps outstanding transfers whose ends live, gives others another source, and, with `fresh`, adds what is missing.
 * Returns whether any is new. May end the run. */
static bool plan_transfers(struct culm_pipeline_leader *leader, bool fresh) {
    struct culm_view *draft = leader->draft;
    bool added = false, room = true;
    for (int32_t i = 0; i < leader->transfer_count; i++) {
        struct culm_transfer t = leader->transfer[i];
        if (!still_wanted(leader, &t)) {
            CULM_MARK(pipeline_copy_is_not_wanted_any_more);
            continue;
        }
        const struct culm_view_node *from = draft_node(leader, t.source);
        if (!from || !culm_stage_set_has(&from->holds, t.stage)) {
            CULM_MARK(pipeline_copy_has_another_source);
            t.id = ++leader->transfer_ids;
            t.source = source_for(leader, draft_node(leader, t.destination), t.stage);
            added = true;
        }
        room = room && culm_view_add_transfer(draft, &t);
    }
    for (int32_t i = 0; i < draft->node_count && fresh; i++) {
        const struct culm_view_node *to = &draft->node[i];
        const struct culm_stage_set wanted = desired(leader, to->id);
        const struct culm_stage_set missing = culm_stage_set_minus(&wanted, &to->holds);
        for (int32_t s = culm_stage_set_next(&missing, 0); s >= 0;
             s = culm_stage_set_next(&missing, s + 1)) {
            if (listed(draft, to->id, s) || draft->transfer_count == CULM_MAX_TRANSFERS) {
                continue;
            }
            const struct culm_transfer t = {++leader->transfer_ids, source_for(leader, to, s),
                                            to->id, s};
            room = room && culm_view_add_transfer(draft, &t);
            added = true;
        }
    }
    if (!room || !CULM_GROW(leader->transfer, leader->transfer_capacity, draft->transfer_count)) {
        no_memory(leader);
        return false;
    }
    if (draft->transfer_count > 0) {
        memcpy(leader->transfer, draft->transfer,
               (size_t)draft->transfer_count * sizeof *leader->transfer);
    }
    leader->transfer_count = draft->transfer_count;
    return added;
}

/* Is somebody to get a copy? */
static bool is_on_its_way(const struct culm_pipeline_leader *leader, int32_t stage) {
    const struct culm_view *draft = leader->draft;
    for (int32_t i = 0; i < draft->node_count; i++) {
        const struct culm_view_node *node = &draft->node[i];
        const struct culm_stage_set wanted = desired(leader, node->id);
        if (!culm_stage_set_has(&node->holds, stage) && culm_stage_set_has(&wanted, stage)) {
            return true;
        }
    }
    return false;
}

/* Not where lanes wait: then those that nobody runs may be what takes the memory. */
static bool is_scarce(const struct culm_pipeline_leader *leader, int32_t stage) {
    return !culm_view_lanes_wait(leader->draft) && is_on_its_way(leader, stage);
}

/* At a boundary whoever has no use for a stage any more lets it go, but not the last copy, nor the last but one while
 * another has yet to come: else the loss of one worker would be that of the stage. */
static void drop_unwanted(struct culm_pipeline_leader *leader) {
    struct culm_view *draft = leader->draft;
    for (int32_t i = 0; i < draft->node_count; i++) {
        struct culm_view_node *node = &draft->node[i];
        struct culm_stage_set keep = desired(leader, node->id);
        for (int32_t s = 0; s < draft->stages && node->pipeline >= 0; s++) {
            const struct culm_role *role = &draft->role[node->pipeline][s];
            if (role->owner == node->id || role->shadow == node->id) {
                culm_stage_set_add(&keep, s);
            }
        }
        const struct culm_stage_set useless = culm_stage_set_minus(&node->holds, &keep);
        for (int32_t s = culm_stage_set_next(&useless, 0); s >= 0;
             s = culm_stage_set_next(&useless, s + 1)) {
            const int32_t copies = culm_view_copies(draft, s);
            if (copies == 2 && is_scarce(leader, s)) {
                CULM_MARK(pipeline_copy_is_kept_until_another_has_come);
            } else if (copies > 1) {
                CULM_MARK(pipeline_copy_is_let_go);
                culm_stage_set_remove(&node->holds, s);
            }
        }
        leader_worker(leader, node->id)->holds = node->holds;
    }
}

static bool same_transfers(const struct culm_view *a, const struct culm_view *b) {
    bool same = a->transfer_count == b->transfer_count;
    for (int32_t t = 0; t < a->transfer_count && same; t++) {
        same = a->transfer[t].id ==
               b->transfer[t].id; /* which is that of one source and destination */
    }
    return same;
}

static bool same_view(const struct culm_view *a, const struct culm_view *b) {
    if (a->phase != b->phase || a->frc != b->frc || a->node_count != b->node_count ||
        !same_transfers(a, b) ||
        memcmp(a->lane_pipeline, b->lane_pipeline, (size_t)a->lanes * sizeof *a->lane_pipeline) !=
            0) {
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
        if (a->node[i].id != b->node[i].id ||
            !culm_stage_set_same(&a->node[i].holds, &b->node[i].holds) ||
            a->node[i].pipeline != b->node[i].pipeline || a->node[i].stage != b->node[i].stage) {
            return false;
        }
    }
    return true;
}

/* --- who leaves --- */

/* Whether a copy that is under way, or a part of a checkpoint, comes from it. */
static bool is_source(const struct culm_pipeline_leader *leader, int32_t id) {
    bool found = false;
    for (int32_t i = 0; i < leader->transfer_count; i++) {
        found = found || leader->transfer[i].source == id;
    }
    for (int32_t s = 0; s < leader->o.shape.stages && leader->saving.active; s++) {
        found = found ||
                (leader->saving.writer[s] == id && !culm_stage_set_has(&leader->saving.saved, s));
    }
    return found;
}

/* Who leaves and has no seat any more keeps only what would be the last copy, or the last but one while another has yet
 * to come. Who then has nothing is released. True: somebody was, and the draft is to be made without. */
static bool release_leavers(struct culm_pipeline_leader *leader) {
    struct culm_view *draft = leader->draft;
    bool found = false;
    for (int32_t i = 0; i < draft->node_count; i++) {
        struct culm_view_node *node = &draft->node[i];
        struct worker *worker = leader_worker(leader, node->id);
        if (!worker->mate.asks || node->pipeline >= 0 || is_source(leader, node->id)) {
            continue;
        }
        for (int32_t s = culm_stage_set_next(&node->holds, 0); s >= 0;
             s = culm_stage_set_next(&node->holds, s + 1)) {
            const int32_t copies = culm_view_copies(draft, s);
            if (copies > 2 || (copies == 2 && !is_on_its_way(leader, s))) {
                culm_stage_set_remove(&node->holds, s);
            } else {
                CULM_MARK(pipeline_leaver_stays_for_a_copy);
            }
        }
        worker->holds = node->holds;
        if (culm_stage_set_empty(&node->holds)) {
            CULM_MARK(pipeline_leaver_is_released);
            leader_release(leader, worker);
            found = true;
        }
    }
    return found;
}

/* Without those who leave, and have no seat in the draft, nobody could do all the work. */
static bool waits_for_others(struct culm_pipeline_leader *leader) {
    assign(leader, NULL);
    return culm_view_lanes_wait(leader->draft);
}

/* Seats, and with them the draft. False: the run has ended. */
static bool draft_view(struct culm_pipeline_leader *leader, bool boundary) {
    const bool some_leave = boundary && leader_leavers_stand_up(leader);
    leader_seat_all(leader);
    if (boundary && leader->iteration <= leader->o.shape.steps) {
        leader_move_seat(leader);
    }
    if (!draft_nodes(leader)) {
        return false;
    }
    if (!some_leave || !waits_for_others(leader)) {
        return true;
    }
    if (leader_leavers_sit_down(leader) && !draft_nodes(leader)) {
        return false;
    }
    if (waits_for_others(leader) && leader_leavers_take_back(leader)) {
        leader_seat_all(leader); /* those who had the seats */
        return draft_nodes(leader);
    }
    return true;
}

void leader_publish(struct culm_pipeline_leader *leader, bool boundary, const char *reason) {
    if (!draft_view(leader, boundary)) {
        return;
    }
    for (int32_t s = 0; s < leader->draft->stages; s++) {
        if (culm_view_copies(leader->draft, s) == 0) {
            CULM_MARK(pipeline_stage_is_gone);
            char why[CULM_REASON_MAX];
            snprintf(why, sizeof why, "%.120s: no copy of stage %d is left", reason, s);
            leader_rollback(leader, why);
            return;
        }
    }
    leader->draft->phase = CULM_VIEW_RUN;
    assign(leader, boundary ? NULL : leader->view);
    while (release_leavers(leader)) {
        if (leader->phase == ENDED || !draft_nodes(leader)) {
            return;
        }
        leader->draft->phase = CULM_VIEW_RUN;
        assign(leader, boundary ? NULL : leader->view);
    }
    if (boundary) {
        drop_unwanted(leader);
    }
    bool added = plan_transfers(leader, boundary || leader->plan_copies ||
                                            culm_view_lanes_wait(leader->draft));
    leader->plan_copies = false;
    if (leader->phase == ENDED) {
        return;
    }
    leader->transfers_settled = false;
    if (leader->transfer_count == 0) {
        leader->join_ns = CULM_NEVER;
    } else if (added || leader->join_ns == CULM_NEVER) {
        leader->join_ns =
            culm_crew_now(&leader->crew) + (uint64_t)leader->crew.settings.join_ms * MS;
    }
    if (boundary && same_view(leader->draft, leader->view)) {
        return;
    }
    issue(leader, CULM_VIEW_RUN, reason);
    if (culm_view_lanes_wait(leader->view) && leader->transfer_count == 0) {
        wait_for_memory(leader);
    } else {
        culm_crew_wait_over(&leader->crew, CULM_ROLE_WORKER);
    }
    leader_try_commit(leader);
}

void leader_go_on(struct culm_pipeline_leader *leader, const char *reason) {
    leader->plan_copies = true; /* those under way go on, with what has come */
    leader_publish(leader, false, reason);
    leader_settle(leader);
}

static void tell_copied(struct culm_pipeline_leader *leader, const struct culm_transfer *t,
                        const struct culm_joined *joined) {
    leader->copied += joined->bytes;
    culm_crew_event(&leader->crew,
                    json_pack("{s:s, s:i, s:i, s:I, s:I, s:i}", "event", "copied", "node",
                              t->destination, "stage", t->stage, "bytes", (json_int_t)joined->bytes,
                              "took_ms", (json_int_t)joined->took_ms, "source", t->source));
}

void leader_joined(struct culm_pipeline_leader *leader, struct worker *worker,
                   const struct culm_message *message) {
    struct culm_joined joined;
    if (culm_joined_decode(message->meta, message->meta_bytes, &joined) != CULM_OK ||
        leader->phase != RUNNING || joined.version != leader->iteration - 1) {
        CULM_MARK(pipeline_copy_is_whole_too_late);
        return; /* it says so again when it has caught up */
    }
    for (int32_t i = 0; i < leader->transfer_count; i++) {
        const struct culm_transfer t = leader->transfer[i];
        if (t.id != joined.transfer || t.destination != worker->mate.id) {
            continue;
        }
        culm_stage_set_add(&worker->holds, t.stage);
        leader->transfer_count--;
        memmove(&leader->transfer[i], &leader->transfer[i + 1],
                (size_t)(leader->transfer_count - i) * sizeof *leader->transfer);
        leader->transfers_settled = true;
        tell_copied(leader, &t, &joined);
        if (leader->transfer_count == 0 || !leader_parked(leader)) {
            char reason[CULM_REASON_MAX];
            snprintf(reason, sizeof reason, "node %d has its copy of stage %d", worker->mate.id,
                     t.stage);
            leader_publish(leader, false, reason);
        }
        return;
    }
}

void leader_joins_late(struct culm_pipeline_leader *leader) {
    leader->join_ns = CULM_NEVER;
    if (!leader_parked(leader)) {
        return; /* nobody waits */
    }
    /* Nothing but these copies can bring the run on: they go on, and whoever has its own is used. */
    if (leader->transfers_settled) {
        CULM_MARK(pipeline_late_copies_are_waited_for_without_others);
        leader_publish(leader, false, "some copies took longer than cluster.join_ms");
    } else {
        CULM_MARK(pipeline_late_copies_are_waited_for);
        leader->join_ns =
            culm_crew_now(&leader->crew) + (uint64_t)leader->crew.settings.join_ms * MS;
    }
}

void leader_rollback(struct culm_pipeline_leader *leader, const char *reason) {
    if (leader->io_busy && leader->saving.publishing) {
        CULM_MARK(pipeline_rollback_waits_for_publication);
        /* It may be the newest in a moment; and publishing it may remove the one before. */
        leader->rollback_due = true;
        snprintf(leader->rollback_reason, sizeof leader->rollback_reason, "%s", reason);
        leader->phase = WAITING;
        return;
    }
    leader->rollback_due = true;
    leader->phase = WAITING;
    snprintf(leader->rollback_reason, sizeof leader->rollback_reason, "%s", reason);
    if (leader->crew.writing) {
        return;
    }
    if (!culm_crew_write(&leader->crew, CULM_DEED_ROLL_BACK, leader->checkpoint_version)) {
        leader_rollback_written(leader);
    }
}

void leader_rollback_written(struct culm_pipeline_leader *leader) {
    const char *reason = leader->rollback_reason;
    if (leader->begin_due) {
        leader->begin_due = false;
        leader_start_if_ready(leader);
        return;
    }
    leader->rollback_due = false;
    int64_t from = leader->iteration - 1, to = leader->checkpoint_version;
    CULM_MARK(pipeline_rollback);
    leader->rollbacks++;
    leader->steps_redone += from > to ? from - to : 0;
    leader->iteration = to + 1;
    if (leader->curve) {
        culm_curve_cut(leader->curve, to, to);
    }
    if (leader->o.term >
        1) { /* records are not of single steps; and `to` may be further than anyone knows */
        leader_fill_ledger(leader);
    } else {
        culm_ledger_truncate(leader->ledger, to);
    }
    leader->transfer_count = 0;
    leader->join_ns = CULM_NEVER;
    for (int32_t i = 0; i < leader->crew.mates.count; i++) {
        worker_at(leader, i)->holds = (struct culm_stage_set){{0}};
    }
    for (int32_t i = 0; i < leader->pending_count; i++) {
        leader->pending[i].origin = CULM_ORIGIN_CHECKPOINT;
        leader->pending[i].view = leader->view->number + 1;
    }
    culm_crew_event(&leader->crew, json_pack("{s:s, s:I, s:I, s:o}", "event", "rollback",
                                             "from_step", (json_int_t)from, "to_step",
                                             (json_int_t)to, "reason", culm_json_text(reason)));
    leader->phase = WAITING;
    leader->hold = (struct hold){0};
    leader->save_due = false; /* with a step that will be done again */
    if (leader->saving.active) {
        CULM_MARK(pipeline_rollback_gives_up_a_save);
        leader_give_up_save(leader, "every copy of a stage was lost while it was written");
    }
    leader_start_if_ready(leader);
}

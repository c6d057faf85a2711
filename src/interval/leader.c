/* The leader: nodes that join and leave, and messages. See leader.h. */
#include "interval/leader_internal.h"

#include "base/json.h"
#include "base/mark.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ORDER_BITS 32 /* the others are of the term */

static const struct culm_crew_ops crew_ops;

/* False: out of memory. */
static bool make_slots(struct culm_gnn_leader *leader) {
    const struct culm_gnn_settings *settings = &leader->o.settings;
    for (int r = 0; r < CULM_GNN_ROLES; r++) {
        const bool tuned = r == CULM_GNN_WORKER && settings->tunes;
        const int32_t count = settings->count[r], most = tuned ? settings->tune.most : 0;
        const size_t slots = (size_t)(count > most ? count : most) + 1;
        leader->slot[r] = malloc(slots * sizeof *leader->slot[r]);
        if (!leader->slot[r]) {
            return false;
        }
        memset(leader->slot[r], -1, slots * sizeof *leader->slot[r]);
    }
    return true;
}

struct culm_gnn_leader *culm_gnn_leader_new(const struct culm_gnn_leader_options *options) {
    struct culm_gnn_leader *leader = calloc(1, sizeof *leader);
    if (!leader) {
        return NULL;
    }
    size_t intervals = (size_t)options->layout->intervals;
    leader->o = *options;
    const struct culm_gnn_settings *settings = &options->settings;
    culm_crew_init(&leader->crew, &crew_ops, options->world, options->agent, &settings->crew,
                   CULM_GNN_META_MAX, options->start_version, CULM_GNN_TASK_FINISH,
                   CULM_PATIENCE_PARTS);
    leader->crew.record = options->record;
    leader->crew.orphan_ms = options->orphan_ms;
    leader->crew.open = options->depot;
    leader->crew.here_most = options->depot ? options->here_most : INT32_MAX;
    leader->crew.names_roles = true;
    leader->crew.most = CULM_GNN_NODES_MAX;
    for (uint32_t r = 0; r < CULM_GNN_ROLES; r++) {
        culm_crew_add_role(&leader->crew, culm_gnn_role_name(r), settings->count[r]);
    }
    leader->window = culm_gnn_pace_window(&options->settings.pace);
    leader->done = calloc((size_t)leader->window, sizeof *leader->done);
    leader->load = calloc((size_t)settings->count[CULM_GNN_SERVER], sizeof *leader->load);
    leader->told.owner = calloc(intervals, sizeof *leader->told.owner);
    bool there = leader->done && leader->load && leader->told.owner && make_slots(leader) &&
                 culm_gnn_view_init(&leader->view, options->layout->intervals) &&
                 culm_gnn_view_init(&leader->next, options->layout->intervals);
    for (int32_t w = 0; w < leader->window && there; w++) {
        leader->done[w].there = calloc(intervals, sizeof *leader->done[w].there);
        leader->done[w].totals = calloc(intervals, sizeof *leader->done[w].totals);
        leader->done[w].scores = calloc(intervals, sizeof(struct culm_blob *));
        there = leader->done[w].there && leader->done[w].totals && leader->done[w].scores;
    }
    if (!there) {
        culm_gnn_leader_free(leader);
        return NULL;
    }
    leader->saved_version = options->start_version;
    snprintf(leader->saved_path, sizeof leader->saved_path, "%s", options->start_path);
    leader->verdict = leader->saved_verdict = leader->final_verdict = options->start_verdict;
    for (int part = 0; part < CULM_GNN_SPLITS; part++) {
        leader->final_area[part] = -1;
    }
    leader->saving.order = (int64_t)(options->term > 1 ? options->term - 1 : 0)
                           << ORDER_BITS; /* none is taken for
                                                                               another leader's */
    leader->curve = options->record ? calloc(1, sizeof *leader->curve) : NULL;
    if ((options->record && !leader->curve) ||
        (options->term > 1 && !gnn_leader_take_begin(leader))) {
        culm_gnn_leader_free(leader);
        return NULL;
    }
    gnn_leader_take_past(leader);
    return leader;
}

void culm_gnn_leader_free(struct culm_gnn_leader *leader) {
    if (!leader) {
        return;
    }
    gnn_leader_take_end(leader);
    free(leader->curve);
    free(leader->load);
    free(leader->told.owner);
    culm_gnn_view_release(&leader->view);
    culm_gnn_view_release(&leader->next);
    for (int r = 0; r < CULM_GNN_ROLES; r++) {
        free(leader->slot[r]);
    }
    for (int32_t p = 0; p < leader->pause_count; p++) {
        culm_set_release(&leader->pause[p].intervals);
    }
    free(leader->pause);
    for (int32_t w = 0; leader->done && w < leader->window; w++) {
        for (int32_t i = 0; leader->done[w].scores && i < leader->o.layout->intervals; i++) {
            culm_blob_unref(leader->done[w].scores[i]);
        }
        free(leader->done[w].there);
        free(leader->done[w].totals);
        free(leader->done[w].scores);
    }
    free(leader->done);
    culm_crew_release(&leader->crew);
    free(leader);
}

/* --- nodes --- */

struct gnn_node *gnn_leader_node(const struct culm_gnn_leader *leader, int32_t id) {
    struct culm_mate *mate = culm_crew_find(&leader->crew, id);
    return mate && mate->alive ? (struct gnn_node *)mate : NULL;
}

static void take_slot(struct culm_gnn_leader *leader, struct gnn_node *node) {
    const uint32_t role = node->mate.role;
    int32_t *slot = leader->slot[role], s = leader->vacant[role];
    const int32_t count = leader->o.settings.count[role];
    while (s < count && slot[s] >= 0) {
        s++;
    }
    leader->vacant[role] = s;
    if (s < count) {
        slot[s] = node->mate.id;
        node->slot = s;
        leader->filled[role]++;
    }
}

static void leave_slot(struct culm_gnn_leader *leader, struct gnn_node *node) {
    const uint32_t role = node->mate.role;
    leader->slot[role][node->slot] = -1;
    leader->vacant[role] = node->slot < leader->vacant[role] ? node->slot : leader->vacant[role];
    leader->filled[role]--;
    node->slot = -1;
}

/* Vacant ones last. */
static int by_id(const void *a, const void *b) {
    const uint32_t x = (uint32_t) * (const int32_t *)a, y = (uint32_t) * (const int32_t *)b;
    return (x > y) - (x < y);
}

/* Sorts slots by node id, so that the order of arrival does not matter, and a run has the same
 * shape each time. */
static void order_slots(struct culm_gnn_leader *leader) {
    for (int r = 0; r < CULM_GNN_ROLES; r++) {
        int32_t *slot = leader->slot[r], count = leader->o.settings.count[r];
        qsort(slot, (size_t)count, sizeof *slot, by_id);
        for (int32_t s = 0; s < count; s++) {
            struct gnn_node *node = slot[s] >= 0 ? gnn_leader_node(leader, slot[s]) : NULL;
            if (node) {
                node->slot = s;
            }
        }
        leader->vacant[r] = 0;
    }
}

void gnn_leader_begin_if_all_there(struct culm_gnn_leader *leader) {
    if (!leader->begin_due && !leader->crew.taking && !leader->finishing &&
        gnn_leader_all_there(leader)) {
        order_slots(leader);
        gnn_leader_begin(leader);
    }
}

void gnn_leader_node_init(struct culm_gnn_leader *leader, struct gnn_node *node) {
    node->slot = node->copy_from = -1;
    node->files = !node->mate.newcomer || leader->o.depot;
}

void gnn_leader_take_place(struct culm_gnn_leader *leader, struct gnn_node *node, int32_t place) {
    if (!node || node->slot >= 0 || node->mate.asks) {
        return;
    }
    if (place < 0) {
        take_slot(leader, node);
    } else if (place < leader->o.settings.count[node->mate.role] &&
               leader->slot[node->mate.role][place] < 0) {
        leader->slot[node->mate.role][place] = node->mate.id;
        node->slot = place;
        leader->filled[node->mate.role]++;
    }
}

void gnn_leader_tell_joined(struct culm_gnn_leader *leader, struct gnn_node *node) {
    const struct culm_mate *mate = &node->mate;
    json_t *event =
        json_pack("{s:s, s:i, s:s, s:o}", "event", "joined", "node", (int)mate->id, "role",
                  culm_gnn_role_name(mate->role), "name", culm_json_text(mate->name));
    if (event && mate->pid > 0) { /* it is not known of a node on another machine */
        json_object_set_new(event, "pid", json_integer((json_int_t)mate->pid));
    }
    culm_crew_add_place(event, mate);
    culm_crew_event(&leader->crew, event);
}

static void came(struct culm_crew *crew, struct culm_mate *mate) {
    struct culm_gnn_leader *leader = (struct culm_gnn_leader *)crew;
    struct gnn_node *node = (struct gnn_node *)mate;
    gnn_leader_node_init(leader, node);
    if (crew->taking) { /* that ends with what is known of epochs */
        CULM_MARK(interval_joins_a_leader_that_takes_over);
        gnn_leader_tell_joined(leader, node);
        return;
    }
    gnn_leader_tell_curve(leader, node);
    take_slot(leader, node);
    culm_gnn_bill_joined(&leader->bill, node->mate.role, (int64_t)node->mate.joined_ns);
    gnn_leader_tell_joined(leader, node);
    if (leader->view.number == 0) {
        gnn_leader_begin_if_all_there(leader);
    } else if (mate->role == CULM_GNN_WORKER) {
        CULM_MARK(interval_worker_joins_a_run);
        culm_gnn_view_encode(&leader->view, leader->o.layout->intervals, culm_crew_meta(crew));
        gnn_leader_send_view(leader, node);
    } else {
        CULM_MARK(interval_node_joins_a_run);
        culm_crew_review_soon(crew, "joined");
    }
    gnn_leader_wait(leader);
}

static void is_not_billed(struct culm_gnn_leader *leader, const struct gnn_node *node) {
    culm_gnn_bill_left(&leader->bill, node->mate.role, (int64_t)node->mate.joined_ns,
                       (int64_t)culm_crew_now(&leader->crew));
}

/* Its slot goes to a node on standby. */
static void vacate(struct culm_gnn_leader *leader, struct gnn_node *node) {
    if (node->slot < 0) {
        return;
    }
    leave_slot(leader, node);
    if (leader->crew.role[node->mate.role].present <= leader->filled[node->mate.role]) {
        return; /* nobody stands by */
    }
    for (int32_t i = 0; i < leader->crew.mates.count; i++) {
        struct gnn_node *other = gnn_node_at(leader, i);
        if (other != node && other->mate.alive && !other->mate.leaving &&
            other->mate.role == node->mate.role && other->slot < 0) {
            CULM_MARK(interval_standby_takes_a_slot);
            take_slot(leader, other);
        }
    }
}

/* The node is no longer counted, nor billed. */
static void left(struct culm_gnn_leader *leader, struct gnn_node *node) {
    is_not_billed(leader, node);
    vacate(leader, node);
}

/* Tells servers, who give tasks to workers, that a worker is gone, which its links may not show. Views tell of
 * other nodes. */
static void tell_gone(struct culm_gnn_leader *leader, int32_t id, uint32_t role) {
    if (role != CULM_GNN_WORKER) {
        return;
    }
    culm_peer_lost_encode(&(struct culm_peer_lost){id}, culm_crew_meta(&leader->crew));
    for (int32_t s = 0; s < leader->o.settings.count[CULM_GNN_SERVER]; s++) {
        if (leader->slot[CULM_GNN_SERVER][s] >= 0) {
            culm_crew_send(&leader->crew, leader->slot[CULM_GNN_SERVER][s], CULM_GNN_MSG_GONE);
        }
    }
}

void gnn_leader_tell_lost(struct culm_gnn_leader *leader, struct gnn_node *node,
                          enum culm_cause cause, const char *why_or_null) {
    const bool pauses = gnn_leader_pause(leader, node);
    json_t *event = culm_crew_lost_event(&leader->crew, &node->mate, cause, why_or_null);
    if (event) {
        json_object_set_new(event, "epoch", json_integer((json_int_t)leader->view.course.epoch));
        json_object_set_new(event, "pauses", json_boolean(pauses));
    }
    culm_crew_event(&leader->crew, event);
}

static void lost(struct culm_crew *crew, struct culm_mate *mate, enum culm_cause cause,
                 const char *why_or_null) {
    struct culm_gnn_leader *leader = (struct culm_gnn_leader *)crew;
    struct gnn_node *node = (struct gnn_node *)mate;
    if (crew->taking && !leader->taking.decided) { /* told when it is known what it was */
        node->cause = cause;
        gnn_leader_take_on(leader);
        return;
    }
    gnn_leader_tell_lost(leader, node, cause, why_or_null);
    if (crew->taking) {
        return; /* it has no place yet, and is not billed */
    }
    if (!mate->leaving || mate->asks) {
        left(leader, node);
    }
    tell_gone(leader, mate->id, mate->role);
    if (leader->view.number == 0) {
        CULM_MARK(interval_lost_before_the_first_view);
        gnn_leader_begin_if_all_there(leader);
    } else if (mate->role == CULM_GNN_WORKER) {
        CULM_MARK(interval_worker_lost);
    } else {
        CULM_MARK(interval_server_or_holder_lost);
        culm_crew_review_soon(crew, "lost");
    }
    gnn_leader_wait(leader);
}

/* What it owns and holds it keeps until the epoch is committed; its place is another's at once. */
static void leaves(struct culm_crew *crew, struct culm_mate *mate) {
    struct culm_gnn_leader *leader = (struct culm_gnn_leader *)crew;
    struct gnn_node *node = (struct gnn_node *)mate;
    if (crew->taking || leader->finishing) {
        return;
    }
    vacate(leader, node);
    if (leader->view.number == 0) {
        CULM_MARK(interval_leaves_before_the_first_view);
        gnn_leader_release(leader, node);
        gnn_leader_begin_if_all_there(leader);
    } else {
        culm_crew_review_soon(crew, "leaving");
    }
    gnn_leader_wait(leader);
}

void gnn_leader_release(struct culm_gnn_leader *leader, struct gnn_node *node) {
    struct culm_crew *crew = &leader->crew;
    json_t *event = culm_crew_lost_event(crew, &node->mate, CULM_CAUSE_LEFT, NULL);
    if (event) {
        json_object_set_new(event, "epoch", json_integer((json_int_t)leader->view.course.epoch));
        json_object_set_new(event, "pauses", json_false());
    }
    is_not_billed(leader, node);
    culm_crew_event(crew, event);
    culm_crew_release_mate(crew, &node->mate);
    tell_gone(leader, node->mate.id, node->mate.role);
}

static void went(struct culm_crew *crew, struct culm_mate *mate) {
    tell_gone((struct culm_gnn_leader *)crew, mate->id, mate->role);
}

/* Servers and workers may join from outside. They take a vacant slot, or stand by. */
static bool on_admits(void *actor, const struct culm_node_info *info, uint32_t *role,
                      struct culm_error *ret_error) {
    const struct culm_gnn_leader *leader = actor;
    if (leader->crew.left || leader->finishing) {
        culm_error_set(ret_error, CULM_ERR_CLOSED, "the run is about to end");
        return false;
    }
    if (info->role >= CULM_GNN_ROLES || (info->role == CULM_GNN_PARAMETER && !leader->o.depot)) {
        culm_error_set(ret_error, CULM_ERR_CONFIG, "only servers and workers may join");
        return false;
    }
    *role = info->role;
    return culm_crew_has_room(&leader->crew, info->role, ret_error);
}

static void on_stop(void *actor) {
    struct culm_gnn_leader *leader = actor;
    leader->stop_ns = leader->stopping ? leader->stop_ns : culm_crew_now(&leader->crew);
    leader->stopping = true;
    if (leader->crew.left || leader->crew.taking) {
        return; /* it is looked at when it is known what there is */
    }
    if (leader->view.number == 0 && !leader->finishing) {
        CULM_MARK(interval_stopped_before_the_first_view);
        gnn_leader_end_stopped(leader, true,
                               "stopped before the first epoch; continue with --resume");
    }
    gnn_leader_stop_on(leader);
    gnn_leader_wait(leader);
    gnn_leader_hold_stop(leader);
}

/* --- messages of nodes --- */

static void hear_done(struct culm_gnn_leader *leader, int32_t from,
                      const struct culm_message *message) {
    struct culm_gnn_done done;
    const struct culm_gnn_view *view = &leader->view;
    if (culm_gnn_done_decode(message->meta, message->meta_bytes, leader->o.layout, &done) !=
            CULM_OK ||
        done.attempt != view->attempt || done.epoch < view->course.epoch ||
        done.epoch >= view->course.epoch + leader->window || view->owner[done.interval] != from) {
        return;
    }
    /* The server may have begun to train in an epoch that turned out to be an evaluation only. */
    if (done.trained != (done.epoch > view->course.epoch || view->course.train)) {
        CULM_MARK(interval_done_of_an_epoch_that_is_none);
        return;
    }
    struct gnn_done *epoch = &leader->done[done.epoch % leader->window];
    if (epoch->epoch != done.epoch) {
        gnn_leader_clear_done(leader, epoch);
        epoch->epoch = done.epoch;
    }
    gnn_leader_pause_done(leader, &done);
    if (!epoch->there[done.interval]) {
        culm_gnn_work_add(&epoch->work, &done.work);
        epoch->there[done.interval] = true;
        epoch->count++;
        epoch->totals[done.interval] = done.totals;
        gnn_leader_keep_scores(leader, epoch, done.interval, message);
    }
}

static void hear_holds(struct culm_gnn_leader *leader, struct gnn_node *node,
                       const struct culm_message *message) {
    struct culm_gnn_held held;
    if (culm_gnn_held_decode(message->meta, message->meta_bytes, &held) != CULM_OK ||
        held.attempt != leader->view.attempt || !node->holder || held.view < node->holder_since) {
        return;
    }
    bool news = !node->holds || node->held.attempt != held.attempt;
    node->held = held;
    node->holds = true;
    node->unsure = false;
    node->late = (struct culm_late){0};
    if (news) {
        gnn_leader_review(leader, false, "copied");
        gnn_leader_io_on(leader);
    }
    gnn_leader_pause_held(leader);
}

/* A worker that fails ends no run, since servers can do its work. */
static bool failed(struct culm_crew *crew, struct culm_mate *mate, const struct culm_failed *said) {
    struct culm_gnn_leader *leader = (struct culm_gnn_leader *)crew;
    const struct gnn_node *node = (const struct gnn_node *)mate;
    if (node->holder && !node->holds && leader->view.load[0] &&
        (said->status == CULM_ERR_FORMAT || said->status == CULM_ERR_NOT_FOUND)) {
        CULM_MARK(interval_checkpoint_is_not_loaded);
        leader->load_failed = true;
    }
    if (mate->role == CULM_GNN_WORKER) {
        CULM_MARK(interval_worker_failed);
    }
    return mate->role == CULM_GNN_WORKER;
}

static void hear_cold(struct culm_gnn_leader *leader, const struct gnn_node *node,
                      const struct culm_message *message) {
    bool cold;
    if (culm_gnn_cold_decode(message->meta, message->meta_bytes, &cold) == CULM_OK) {
        culm_crew_event(&leader->crew, json_pack("{s:s, s:i, s:b}", "event", "worker", "node",
                                                 (int)node->mate.id, "cold", (int)cold));
    }
}

void gnn_leader_let_go(struct culm_gnn_leader *leader, struct gnn_node *node) {
    if (node->mate.role == CULM_GNN_WORKER && !node->mate.leaving) {
        culm_crew_let_go(&leader->crew, &node->mate);
        left(leader, node);
        culm_crew_event(&leader->crew,
                        json_pack("{s:s, s:i, s:s}", "event", "released", "node",
                                  (int)node->mate.id, "role", culm_gnn_role_name(node->mate.role)));
        culm_crew_start_due(&leader->crew);
    }
}

static void message(struct culm_crew *crew, struct culm_mate *mate,
                    const struct culm_message *said) {
    struct culm_gnn_leader *leader = (struct culm_gnn_leader *)crew;
    struct gnn_node *node = (struct gnn_node *)mate;
    if (crew->taking || said->type == CULM_GNN_MSG_REPORT) {
        gnn_leader_take_hear(leader, node, said);
        return;
    }
    switch (said->type) {
    case CULM_GNN_MSG_DONE: hear_done(leader, mate->id, said); break;
    case CULM_GNN_MSG_HOLDS: hear_holds(leader, node, said); break;
    case CULM_GNN_MSG_SAVED: gnn_leader_saved(leader, node, said); break;
    case CULM_GNN_MSG_COLD: hear_cold(leader, node, said); return;
    case CULM_GNN_MSG_LEAVING: gnn_leader_let_go(leader, node); return;
    case CULM_GNN_MSG_ANSWER: gnn_leader_answer(leader, node, said); return;
    default: return;
    }
    gnn_leader_go_on(leader);
}

/* --- what its crew asks --- */

static bool does_without(const struct culm_crew *crew, uint32_t role) {
    (void)crew;
    return role == CULM_GNN_WORKER;
}

static bool last_copy(const struct culm_crew *crew, const struct culm_mate *mate, char *ret_what,
                      size_t size) {
    const struct culm_gnn_leader *leader = (const struct culm_gnn_leader *)crew;
    bool last = gnn_leader_is_full(leader, (const struct gnn_node *)mate);
    for (int32_t n = 0; n < crew->mates.count && last; n++) {
        const struct gnn_node *node = gnn_node_at(leader, n);
        last = &node->mate == mate || !culm_crew_is_heard(crew, &node->mate) ||
               !gnn_leader_is_full(leader, node);
    }
    snprintf(ret_what, size, "the weights");
    return last;
}

static int64_t version(const struct culm_crew *crew) {
    return ((const struct culm_gnn_leader *)crew)->version;
}

static void name_place(const struct culm_crew *crew, char *ret_text, size_t size) {
    const struct culm_gnn_leader *leader = (const struct culm_gnn_leader *)crew;
    snprintf(ret_text, size, "epoch %lld", (long long)leader->view.course.epoch);
}

static void review(struct culm_crew *crew, const char *why) {
    struct culm_gnn_leader *leader = (struct culm_gnn_leader *)crew;
    gnn_leader_review(leader, false, why);
    gnn_leader_go_on(leader); /* all who are left may be done with the epoch */
    gnn_leader_wait(leader);
}

static void tick(struct culm_crew *crew, uint64_t now_ns) {
    struct culm_gnn_leader *leader = (struct culm_gnn_leader *)crew;
    (void)now_ns;
    if (crew->taking) {
        gnn_leader_take_on(leader);
        return;
    }
    if (leader->view.number == 0) {
        gnn_leader_begin_if_all_there(leader); /* one that was starting may be wanted no more */
    }
    gnn_leader_stop_on(leader);
    gnn_leader_go_on(leader); /* a copy may be late by now */
    gnn_leader_wait(leader);
    gnn_leader_hold_tick(leader);
    if (leader->seeks) {
        gnn_leader_io_on(leader);
    }
}

static void written(struct culm_crew *crew, enum culm_deed deed) {
    struct culm_gnn_leader *leader = (struct culm_gnn_leader *)crew;
    if (leader->ending_due) {
        leader->committing.epoch = 0; /* what is committed meanwhile nobody has been told of */
        CULM_MARK(interval_stopped_while_it_is_to_go_back);
        leader->ending_due = false;
        (void)culm_crew_write(crew, CULM_DEED_STOP, leader->version);
        return;
    }
    switch (deed) {
    case CULM_DEED_ROLL_BACK:
        if (leader->begin_due) {
            leader->begin_due = false;
            gnn_leader_begin_if_all_there(leader);
        } else if (leader->back_found) {
            gnn_leader_back_written(leader);
        }
        break;
    case CULM_DEED_STOP: gnn_leader_stop_written(leader); break;
    case CULM_DEED_DONE: gnn_leader_done_written(leader); break;
    case CULM_DEED_COMMIT: gnn_leader_commit_written(leader); break;
    }
}

static void cut(struct culm_crew *crew) {
    struct culm_gnn_leader *leader = (struct culm_gnn_leader *)crew;
    leader->cut_late = false;
    leader->cut_version = 0;
    if (crew->cut_off) {
        gnn_leader_save_cut_off(leader);
    } else {
        gnn_leader_go_on(leader);
    }
}

static void forget(struct culm_crew *crew, struct culm_mate *mate) {
    (void)crew;
    free(((struct gnn_node *)mate)->report);
}

static void nobody(struct culm_crew *crew, const char *why) {
    (void)why;
    gnn_leader_tell_again((struct culm_gnn_leader *)crew);
}

static const struct culm_crew_ops crew_ops = {
    .size = sizeof crew_ops,
    .mate_bytes = sizeof(struct gnn_node),
    .noun = "node",
    .unreachable = CULM_CAUSE_PEER,
    .came = came,
    .lost = lost,
    .leaves = leaves,
    .went = went,
    .forget = forget,
    .written = written,
    .cut = cut,
    .message = message,
    .failed = failed,
    .lacks = gnn_leader_lacks,
    .does_without = does_without,
    .last_copy = last_copy,
    .rather = gnn_leader_rather,
    .version = version,
    .name_place = name_place,
    .name_task = gnn_leader_name_task,
    .shorter = "use more intervals",
    .review = review,
    .tick = tick,
    .in_vain = gnn_leader_in_vain,
    .watched = gnn_leader_watched,
    .progress = gnn_leader_progress,
    .forget_answer = gnn_leader_forget_answer,
    .judge = gnn_leader_judge,
    .nobody = nobody,
};

/* --- the actor --- */

static void on_job_done(void *actor, struct culm_job *job) { gnn_leader_job_done(actor, job); }

static void on_start(void *actor) {
    struct culm_gnn_leader *leader = actor;
    culm_gnn_bill_init(&leader->bill, &leader->o.rates, leader->o.settings.count,
                       (int64_t)culm_crew_now(&leader->crew));
    leader->bill.before_usd = leader->o.spent_usd;
    leader->bill.before_s = leader->o.spent_s;
    gnn_leader_tune_begin(leader);
    gnn_leader_wait(leader);
    culm_crew_begin(&leader->crew);
    gnn_leader_take_on(leader); /* perhaps nobody took part */
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

const struct culm_actor_ops culm_gnn_leader_actor = {
    .size = sizeof culm_gnn_leader_actor,
    .start = on_start,
    .message = culm_crew_on_message,
    .lost = culm_crew_on_lost,
    .timer = culm_crew_on_timer,
    .job_done = on_job_done,
    .leads = &leads,
};

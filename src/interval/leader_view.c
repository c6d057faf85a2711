/* The leader: views, that is, who owns intervals and who holds the state. See leader.h. */
#include "interval/leader_internal.h"

#include "base/mark.h"
#include "crew/term.h"

#include <stdio.h>
#include <string.h>

#define ROLLBACKS_MAX 5 /* after so many, holders that differ end the run */
#define MS 1000000ull
#define ATTEMPT_BITS 16 /* the others are of the term */
#define COPIES 2        /* least number of holders, if there are enough nodes */

/* --- owners --- */

static bool serves(struct culm_gnn_leader *leader, int32_t id) {
    const struct gnn_node *node = id >= 0 ? gnn_leader_node(leader, id) : NULL;
    return node && node->mate.role == CULM_GNN_SERVER;
}

static bool leaves(const struct culm_gnn_leader *leader, int32_t id) {
    const struct gnn_node *node = id >= 0 ? gnn_leader_node(leader, id) : NULL;
    return node && node->mate.asks;
}

/* Of those who do not leave. */
static bool somebody_serves(const struct culm_gnn_leader *leader) {
    return leader->filled[CULM_GNN_SERVER] > 0;
}

static bool is_lighter(const struct gnn_load *a, const struct gnn_load *b) {
    return a->rows != b->rows ? a->rows < b->rows : a->slot < b->slot;
}

/* Moves an entry down to its place in the heap. */
static void sink(struct gnn_load *load, int32_t count, int32_t at) {
    for (int32_t child; (child = 2 * at + 1) < count; at = child) {
        child += child + 1 < count && is_lighter(&load[child + 1], &load[child]);
        if (!is_lighter(&load[child], &load[at])) {
            return;
        }
        const struct gnn_load other = load[at];
        load[at] = load[child];
        load[child] = other;
    }
}

/* A heap of the living servers by the vertices that they own in `next`, those with the fewest on top. Returns how
 * many there are. */
static int32_t weigh(struct culm_gnn_leader *leader) {
    const struct culm_gnn_layout *layout = leader->o.layout;
    struct gnn_load *load = leader->load;
    const int32_t slots = leader->o.settings.count[CULM_GNN_SERVER];
    int32_t count = 0;
    for (int32_t s = 0; s < slots; s++) {
        load[s] = (struct gnn_load){0, s};
    }
    for (int32_t i = 0; i < layout->intervals; i++) {
        const int32_t owner = leader->next.owner[i];
        const int32_t slot = owner >= 0 ? gnn_leader_node(leader, owner)->slot : -1;
        if (slot >= 0) { /* else it leaves */
            load[slot].rows += culm_gnn_layout_rows(layout, i);
        }
    }
    for (int32_t s = 0; s < slots; s++) {
        if (leader->slot[CULM_GNN_SERVER][s] >= 0) {
            load[count++] = load[s];
        }
    }
    for (int32_t at = count / 2 - 1; at >= 0; at--) {
        sink(load, count, at);
    }
    return count;
}

/* Each interval that nobody owns in `next` goes to the server that owns the fewest vertices then. */
static void adopt(struct culm_gnn_leader *leader) {
    int32_t count = -1;
    for (int32_t i = 0; i < leader->o.layout->intervals; i++) {
        if (leader->next.owner[i] >= 0) {
            continue;
        }
        CULM_MARK(interval_goes_to_another_server);
        count = count < 0 ? weigh(leader) : count;
        if (count == 0) {
            return; /* there is none */
        }
        leader->next.owner[i] = leader->slot[CULM_GNN_SERVER][leader->load[0].slot];
        leader->load[0].rows += culm_gnn_layout_rows(leader->o.layout, i);
        sink(leader->load, count, 0);
    }
}

static void assign(struct culm_gnn_leader *leader, bool boundary) {
    int32_t intervals = leader->o.layout->intervals;
    const struct culm_gnn_view *view = &leader->view;
    for (int32_t i = 0; i < intervals; i++) {
        int32_t home = leader->slot[CULM_GNN_SERVER][leader->o.home[i]];
        int32_t now = view->number ? view->owner[i] : -1;
        const bool moves = home >= 0 || (leaves(leader, now) && somebody_serves(leader));
        bool stays = serves(leader, now) && !(boundary && moves);
        if (view->number && !stays && home >= 0 && home != now) {
            CULM_MARK(interval_goes_home);
        }
        leader->next.owner[i] = stays ? now : home;
    }
    adopt(leader);
}

/* --- holders --- */

bool gnn_leader_is_full(const struct culm_gnn_leader *leader, const struct gnn_node *node) {
    return node && node->holder && node->holds && node->held.attempt == leader->view.attempt;
}

static int32_t count_full(struct culm_gnn_leader *leader) {
    int32_t full = 0;
    for (int32_t h = 0; h < leader->next.holder_count; h++) {
        const int32_t id = leader->next.holder[h].node;
        full += !leaves(leader, id) && gnn_leader_is_full(leader, gnn_leader_node(leader, id));
    }
    return full;
}

static bool somebody_is_full(const struct culm_gnn_leader *leader) {
    for (int32_t n = 0; n < leader->crew.mates.count; n++) {
        if (gnn_node_at(leader, n)->mate.alive &&
            gnn_leader_is_full(leader, gnn_node_at(leader, n))) {
            return true;
        }
    }
    return false;
}

/* Where nobody has the state, holders load it; and a path says nothing to those without the run
 * directory. They are holders by copy alone, once there is somebody to copy from. */
static bool can_hold(const struct culm_gnn_leader *leader, const struct gnn_node *node) {
    if (node->files || !leader->next.load[0] || somebody_is_full(leader)) {
        return true;
    }
    CULM_MARK(interval_no_holder_without_files);
    return false;
}

/* Whether somebody has the state who can save it. */
static bool somebody_could_save(const struct culm_gnn_leader *leader) {
    for (int32_t n = 0; n < leader->crew.mates.count; n++) {
        const struct gnn_node *node = gnn_node_at(leader, n);
        if (node->mate.alive && node->files && gnn_leader_is_full(leader, node)) {
            return true;
        }
    }
    return false;
}

/* Whoever was too late is left alone for a while, where the run can do without. */
static bool may_hold(const struct culm_gnn_leader *leader, const struct gnn_node *node) {
    return !culm_late_pauses(&node->late, culm_crew_now(&leader->crew)) ||
           gnn_leader_is_full(leader, node) || !somebody_could_save(leader);
}

bool gnn_leader_is_late(const struct culm_gnn_leader *leader,
                        const struct culm_gnn_view_holder *holder) {
    const struct gnn_node *node = gnn_leader_node(leader, holder->node);
    const uint64_t limit = (uint64_t)leader->crew.settings.join_ms * MS;
    if (!node || holder->from < 0 || gnn_leader_is_full(leader, node) ||
        culm_crew_now(&leader->crew) - node->copy_ns < limit) {
        return false;
    }
    if (node->files && !somebody_could_save(leader)) {
        CULM_MARK(interval_late_copy_is_needed_to_save);
        return false;
    }
    return true;
}

bool gnn_leader_leave_late(struct culm_gnn_leader *leader) {
    bool found = false;
    for (int32_t h = 0; h < leader->view.holder_count; h++) {
        const struct culm_gnn_view_holder *holder = &leader->view.holder[h];
        if (gnn_leader_is_late(leader, holder)) {
            struct gnn_node *node = gnn_leader_node(leader, holder->node);
            CULM_MARK(interval_late_copy_is_given_up);
            culm_late_once_more(&node->late, culm_crew_now(&leader->crew),
                                leader->crew.settings.join_ms);
            found = true;
        }
    }
    return found;
}

static void add_holder(struct culm_gnn_leader *leader, int32_t id) {
    struct culm_gnn_view *next = &leader->next;
    const struct gnn_node *node = id >= 0 ? gnn_leader_node(leader, id) : NULL;
    if (node && can_hold(leader, node) && may_hold(leader, node) &&
        !culm_gnn_view_holds(next, id) && next->holder_count < CULM_GNN_HOLDERS_MAX) {
        uint64_t since = node->holder ? node->holder_since
                                      : culm_view_after(leader->view.number, leader->o.term);
        next->holder[next->holder_count++] = (struct culm_gnn_view_holder){id, -1, since};
    }
}

/* Where rows may be stale, the first holder decides which sums count. If it is lost, the holder
 * with the latest version becomes the first one, and the others get a copy of its state. */
static void choose_first(struct culm_gnn_leader *leader) {
    struct culm_gnn_view *next = &leader->next;
    int32_t before = leader->view.holder_count ? leader->view.holder[0].node : -1, best = -1;
    if (!gnn_leader_stale(leader) || next->holder_count == 0) {
        return;
    }
    for (int32_t h = 0; h < next->holder_count; h++) {
        const struct gnn_node *node = gnn_leader_node(leader, next->holder[h].node);
        const struct gnn_node *other =
            best >= 0 ? gnn_leader_node(leader, next->holder[best].node) : NULL;
        if (node->mate.id == before) { /* even if it is still loading */
            best = h;
            break;
        }
        if (gnn_leader_is_full(leader, node) &&
            (!other || node->held.version > other->held.version)) {
            best = h;
        }
    }
    if (best < 0) {
        CULM_MARK(interval_no_holder_can_be_the_first);
        return;
    }
    struct culm_gnn_view_holder first = next->holder[best];
    next->holder[best] = next->holder[0];
    next->holder[0] = first;
    for (int32_t h = 1; h < next->holder_count && first.node != before; h++) {
        CULM_MARK(interval_first_holder_is_another);
        struct gnn_node *node = gnn_leader_node(leader, next->holder[h].node);
        node->holds = false;
        node->holder = false; /* this view makes it a holder again */
        next->holder[h].since = culm_view_after(leader->view.number, leader->o.term);
    }
}

/* Whether one of the holders, once it has the state, could save it. */
static bool one_has_files(const struct culm_gnn_leader *leader) {
    bool found = false;
    for (int32_t h = 0; h < leader->next.holder_count; h++) {
        const struct gnn_node *node = gnn_leader_node(leader, leader->next.holder[h].node);
        found |= node && node->files;
    }
    return found;
}

/* Servers that stand by, since others came before them, if nobody else could save. */
static void add_standby(struct culm_gnn_leader *leader) {
    for (int32_t n = 0; n < leader->crew.mates.count && !one_has_files(leader); n++) {
        const struct gnn_node *node = gnn_node_at(leader, n);
        if (node->mate.alive && !node->mate.leaving && node->mate.role == CULM_GNN_SERVER &&
            node->files && node->slot < 0) {
            CULM_MARK(interval_standby_becomes_a_holder_to_save);
            add_holder(leader, node->mate.id);
        }
    }
}

/* Whether they are on different machines; in different zones. */
static bool differ(const struct culm_mate *a, const struct culm_mate *b, bool zones) {
    return zones ? a->zone && b->zone && a->zone != b->zone : a->origin != b->origin;
}

/* A holder of the next view; NULL: it does not count, since it does not have the state yet and only those who `have` do. */
static const struct gnn_node *holder_at(const struct culm_gnn_leader *leader, int32_t h,
                                        bool have) {
    const struct gnn_node *node = gnn_leader_node(leader, leader->next.holder[h].node);
    return !have || gnn_leader_is_full(leader, node) ? node : NULL;
}

/* Whether all holders are on the machine, or in the zone, of one of them, and this node is elsewhere. */
static bool is_apart(const struct culm_gnn_leader *leader, const struct gnn_node *node, bool zones,
                     bool have) {
    int32_t near = 0, apart = 0;
    for (int32_t h = 0; h < leader->next.holder_count; h++) {
        const struct gnn_node *holder = holder_at(leader, h, have);
        near += holder && !differ(&holder->mate, &node->mate, zones);
        apart += holder && differ(&holder->mate, &node->mate, zones);
        for (int32_t o = 0; o < h && holder; o++) {
            const struct gnn_node *other = holder_at(leader, o, have);
            near += other && differ(&holder->mate, &other->mate, zones);
        }
    }
    return near == 0 && apart > 0;
}

/* If all holders are on one machine, or in one zone, a server more that is not: rather one that has the state, or is to get it, so
 * that nothing is copied without need; then one with a place. `have`: of those who have the state, as others may never get it. */
static void add_apart(struct culm_gnn_leader *leader, bool zones, bool have) {
    const struct gnn_node *best = NULL;
    int32_t best_rank = have ? 3 : 0;
    for (int32_t n = 0; n < leader->crew.mates.count; n++) {
        const struct gnn_node *node = gnn_node_at(leader, n);
        const int32_t rank = gnn_leader_is_full(leader, node) ? 4
                             : node->holder                   ? 3
                             : node->slot >= 0                ? 2
                                                              : 1;
        if (rank > best_rank && node->mate.alive && !node->mate.leaving &&
            node->mate.role == CULM_GNN_SERVER && is_apart(leader, node, zones, have)) {
            best = node;
            best_rank = rank;
        }
    }
    if (best) {
        CULM_MARK(interval_server_becomes_a_holder_apart);
        add_holder(leader, best->mate.id);
    }
}

/* Who leaves holds what it held until an epoch is committed, and then as long as no other has it, or another one has yet to
 * get it. */
static void add_leavers(struct culm_gnn_leader *leader) {
    const int32_t others = leader->next.holder_count, full = count_full(leader);
    const bool scarce = full == 0 || (full < COPIES && full < others);
    if (full == 0 && others == CULM_GNN_HOLDERS_MAX) {
        leader->next.holder_count--; /* which has nothing yet */
    }
    for (int32_t n = 0; n < leader->crew.mates.count; n++) {
        const struct gnn_node *node = gnn_node_at(leader, n);
        if (node->mate.alive && node->mate.asks && node->holder && (scarce || !node->parted) &&
            (gnn_leader_is_full(leader, node) || !node->parted)) {
            CULM_MARK(interval_leaver_stays_a_holder);
            add_holder(leader, node->mate.id);
        }
    }
}

/* Parameter servers are holders. Servers are too, as long as fewer than COPIES nodes have the
 * state, or none that could save it, or all are on one machine, or in one zone, and there are others: first those that have it,
 * then others. */
static void choose_holders(struct culm_gnn_leader *leader) {
    leader->next.holder_count = 0;
    for (int32_t s = 0; s < leader->o.settings.count[CULM_GNN_PARAMETER]; s++) {
        add_holder(leader, leader->slot[CULM_GNN_PARAMETER][s]);
    }
    for (int32_t n = 0; n < leader->crew.mates.count && count_full(leader) < COPIES; n++) {
        const struct gnn_node *node = gnn_node_at(leader, n);
        if (node->mate.alive && !node->mate.asks && node->mate.role == CULM_GNN_SERVER &&
            gnn_leader_is_full(leader, node)) {
            CULM_MARK(interval_server_stays_a_holder);
            add_holder(leader, node->mate.id);
        }
    }
    for (int step = 0; step < 4 && leader->o.depot; step++) {
        add_apart(leader, step % 2 == 0, step >= 2);
    }
    for (int32_t s = 0; s < leader->o.settings.count[CULM_GNN_SERVER]; s++) {
        const int32_t id = leader->slot[CULM_GNN_SERVER][s];
        const struct gnn_node *node = id >= 0 ? gnn_leader_node(leader, id) : NULL;
        if (leader->next.holder_count < COPIES) {
            CULM_MARK(interval_server_becomes_a_holder);
            add_holder(leader, id);
        } else if (node && node->files && !one_has_files(leader)) {
            CULM_MARK(interval_server_becomes_a_holder_to_save);
            add_holder(leader, id);
        }
    }
    add_standby(leader);
    add_leavers(leader);
}

static int32_t previous_source(const struct culm_gnn_leader *leader, int32_t id) {
    for (int32_t h = 0; h < leader->view.holder_count; h++) {
        if (leader->view.holder[h].node == id) {
            return leader->view.holder[h].from;
        }
    }
    return -1;
}

/* Chooses from which holder others get a copy of the state. False: nobody has it any more. */
static bool choose_sources(struct culm_gnn_leader *leader) {
    struct culm_gnn_view *next = &leader->next;
    int32_t source = -1;
    for (int32_t h = 0; h < next->holder_count && source < 0; h++) {
        if (gnn_leader_is_full(leader, gnn_leader_node(leader, next->holder[h].node))) {
            source = next->holder[h].node;
        }
    }
    if (source < 0) { /* nothing is lost if the version that was loaded can be loaded again */
        return leader->version == next->load_version && !leader->load_failed;
    }
    for (int32_t h = 0; h < next->holder_count; h++) {
        struct culm_gnn_view_holder *holder = &next->holder[h];
        if (gnn_leader_is_full(leader, gnn_leader_node(leader, holder->node))) {
            continue;
        }
        int32_t before = previous_source(leader, holder->node);
        struct gnn_node *old = before >= 0 ? gnn_leader_node(leader, before) : NULL;
        CULM_MARK(interval_holder_gets_a_copy);
        holder->from =
            gnn_leader_is_full(leader, old) && culm_gnn_view_holds(next, before) ? before : source;
    }
    return true;
}

/* --- views --- */

static void note_holders(struct culm_gnn_leader *leader) {
    for (int32_t n = 0; n < leader->crew.mates.count; n++) {
        struct gnn_node *node = gnn_node_at(leader, n);
        bool holder = node->mate.alive && culm_gnn_view_holds(&leader->view, node->mate.id);
        if (holder && !node->holder) {
            node->holder_since = leader->view.number;
            node->holds = false;
        }
        node->holder = holder;
        if (!holder) {
            node->copy_from = -1;
        }
    }
    for (int32_t h = 0; h < leader->view.holder_count; h++) {
        const struct culm_gnn_view_holder *holder = &leader->view.holder[h];
        struct gnn_node *node = gnn_leader_node(leader, holder->node);
        if (node && node->copy_from != holder->from) {
            node->copy_from = holder->from;
            node->copy_ns = culm_crew_now(&leader->crew);
        }
    }
}

static void publish(struct culm_gnn_leader *leader, const char *why) {
    const struct culm_gnn_view *view = &leader->view;
    json_t *owners = json_array(), *holders = json_array();
    for (int32_t i = 0; i < leader->o.layout->intervals; i++) {
        json_array_append_new(owners, json_integer(view->owner[i]));
    }
    for (int32_t h = 0; h < view->holder_count; h++) {
        json_array_append_new(holders, json_integer(view->holder[h].node));
    }
    culm_crew_event(&leader->crew,
                    json_pack("{s:s, s:s, s:o, s:o, s:I}", "event", "view", "reason", why, "owners",
                              owners, "holders", holders, "epoch", (json_int_t)view->course.epoch));
}

/* To those who know the view before, only what has changed. */
static void send_view(struct culm_gnn_leader *leader) {
    struct culm_crew *crew = &leader->crew;
    struct gnn_told *told = &leader->told;
    const int32_t intervals = leader->o.layout->intervals;
    const bool changes =
        told->number > 0 && culm_gnn_view_encode_changes(&leader->view, told->number, told->owner,
                                                         intervals, culm_crew_meta(crew));
    for (int32_t n = 0; n < crew->mates.count && changes; n++) {
        if (gnn_node_at(leader, n)->mate.alive && gnn_node_at(leader, n)->told == told->number) {
            CULM_MARK(interval_view_is_told_by_its_changes);
            gnn_leader_send_view(leader, gnn_node_at(leader, n));
        }
    }
    culm_gnn_view_encode(&leader->view, intervals, culm_crew_meta(crew));
    for (int32_t n = 0; n < crew->mates.count; n++) {
        if (gnn_node_at(leader, n)->mate.alive &&
            gnn_node_at(leader, n)->told != leader->view.number) {
            gnn_leader_send_view(leader, gnn_node_at(leader, n));
        }
    }
    told->number = leader->view.number;
    memcpy(told->owner, leader->view.owner, (size_t)intervals * sizeof *told->owner);
}

void gnn_leader_send_view(struct culm_gnn_leader *leader, struct gnn_node *node) {
    culm_crew_send(&leader->crew, node->mate.id, CULM_GNN_MSG_VIEW);
    node->told = leader->view.number;
}

static void tell(struct culm_gnn_leader *leader, const char *why) {
    leader->crew.view = leader->view.number;
    leader->view.last = leader->last;
    leader->view.balance = gnn_leader_balance(leader);
    publish(leader, why);
    note_holders(leader);
    send_view(leader);
}

uint32_t gnn_leader_attempt_after(const struct culm_gnn_leader *leader, uint32_t last) {
    const uint32_t first = leader->o.term > 1 ? (uint32_t)(leader->o.term - 1) << ATTEMPT_BITS : 0;
    return (last > first ? last : first) + 1;
}

static void restart_from(struct culm_gnn_leader *leader, struct culm_gnn_view *view) {
    gnn_leader_hold_over(leader);
    leader->version = leader->saved_version;
    leader->verdict = leader->final_verdict = leader->saved_verdict;
    leader->last = (struct culm_gnn_outcome){0};
    if (leader->curve) {
        culm_gnn_curve_cut(leader->curve, leader->saved_version, leader->version);
    }
    view->attempt = view->load_attempt = gnn_leader_attempt_after(leader, view->attempt);
    if (gnn_leader_stale(leader)) {
        culm_gnn_past_add(&leader->past, view->attempt, leader->saved_version);
    }
    view->load_version = leader->saved_version;
    snprintf(view->load, sizeof view->load, "%s", leader->saved_path);
    view->course = gnn_leader_course(leader, leader->version);
    leader->evaluated = !view->course.train && !view->course.evaluate;
    leader->judged = false;
    for (int32_t w = 0; w < leader->window; w++) {
        gnn_leader_clear_done(leader, &leader->done[w]);
    }
    gnn_leader_new_epoch(leader);
}

/* `wants`: for want of a copy. */
static void roll_back(struct culm_gnn_leader *leader, bool wants, const char *reason) {
    CULM_MARK(interval_rollback);
    leader->back_due = true;
    leader->back_for_want = wants;
    snprintf(leader->back_why, sizeof leader->back_why, "%s", reason);
    gnn_leader_hold_over(leader);
    gnn_leader_forget_saving(leader);
    gnn_leader_io_on(leader);
}

/* Whether somebody has got a copy after all, which had been on its way. */
static bool is_off(struct culm_gnn_leader *leader) {
    bool off = false;
    for (int32_t h = 0; h < leader->view.holder_count && leader->back_for_want; h++) {
        const struct gnn_node *node = gnn_leader_node(leader, leader->view.holder[h].node);
        off |= gnn_leader_is_full(leader, node) && node->held.version >= leader->version;
    }
    if (off) {
        CULM_MARK(interval_copy_comes_before_it_goes_back);
        const int64_t every = leader->o.settings.checkpoint_every;
        leader->back_due = leader->back_found = false;
        leader->saving.due = every > 0 && leader->version / every > leader->saved_version / every;
        gnn_leader_review(leader, false, "copied");
        gnn_leader_io_on(leader);
        gnn_leader_go_on(leader);
    }
    return off;
}

void gnn_leader_go_back(struct culm_gnn_leader *leader) {
    if (is_off(leader)) {
        return;
    }
    leader->back_found = culm_crew_write(&leader->crew, CULM_DEED_ROLL_BACK, leader->saved_version);
    if (!leader->back_found) {
        gnn_leader_back_written(leader);
    }
}

void gnn_leader_back_written(struct culm_gnn_leader *leader) {
    if (is_off(leader)) {
        return;
    }
    const int64_t from = leader->version;
    leader->back_due = leader->back_found = leader->load_failed = false;
    leader->rollbacks++;
    for (int32_t n = 0; n < leader->crew.mates.count; n++) {
        gnn_node_at(leader, n)->holds = false;
        gnn_node_at(leader, n)->late = (struct culm_late){0};
    }
    culm_gnn_view_copy(&leader->next, &leader->view, leader->o.layout->intervals);
    restart_from(leader, &leader->next);
    assign(leader, false);
    choose_holders(leader);
    choose_first(leader);
    culm_crew_event(&leader->crew,
                    json_pack("{s:s, s:I, s:I, s:s}", "event", "rollback", "from_epoch",
                              (json_int_t)from, "to_epoch", (json_int_t)leader->version, "reason",
                              leader->back_why));
    leader->next.number = culm_view_after(leader->view.number, leader->o.term);
    culm_gnn_view_copy(&leader->view, &leader->next, leader->o.layout->intervals);
    tell(leader, "roll-back");
    gnn_leader_wait(leader); /* there may be nobody who can load it */
}

int32_t gnn_leader_saver(struct culm_gnn_leader *leader) {
    int32_t found = -1;
    for (int32_t h = 0; h < leader->view.holder_count; h++) {
        const struct gnn_node *node = gnn_leader_node(leader, leader->view.holder[h].node);
        if (gnn_leader_is_full(leader, node) && node->files &&
            node->held.version >= leader->version) {
            if (node->mate.role == CULM_GNN_PARAMETER) {
                return node->mate.id;
            }
            found = node->mate.id;
        }
    }
    return found;
}

static bool same_view(const struct culm_gnn_view *a, const struct culm_gnn_view *b,
                      int32_t intervals) {
    return a->attempt == b->attempt && a->holder_count == b->holder_count &&
           memcmp(a->holder, b->holder, (size_t)a->holder_count * sizeof *a->holder) == 0 &&
           memcmp(a->owner, b->owner, (size_t)intervals * sizeof *a->owner) == 0;
}

/* Whether the view gives it nothing to do any more, nor does a checkpoint. */
static bool is_free(const struct culm_gnn_leader *leader, const struct gnn_node *node) {
    const struct gnn_saving *saving = &leader->saving;
    bool owns = false;
    for (int32_t i = 0; i < leader->o.layout->intervals; i++) {
        owns = owns || leader->view.owner[i] == node->mate.id;
    }
    return !owns && !culm_gnn_view_holds(&leader->view, node->mate.id) &&
           !(saving->active && !saving->written && saving->writer == node->mate.id);
}

static void release_leavers(struct culm_gnn_leader *leader) {
    for (int32_t n = 0; n < leader->crew.mates.count && !leader->crew.left; n++) {
        struct gnn_node *node = gnn_node_at(leader, n);
        if (node->mate.alive && node->mate.asks && is_free(leader, node)) {
            CULM_MARK(interval_leaver_is_released);
            gnn_leader_release(leader, node);
        }
    }
}

static void note_boundary(struct culm_gnn_leader *leader) {
    for (int32_t n = 0; n < leader->crew.mates.count; n++) {
        gnn_node_at(leader, n)->parted = gnn_node_at(leader, n)->mate.asks;
    }
}

static void work_out(struct culm_gnn_leader *leader, bool boundary, bool in_any_case,
                     const char *why) {
    if (leader->crew.left || leader->finishing || leader->view.number == 0 || leader->back_due ||
        leader->crew.taking) {
        return;
    }
    if (leader->committing.epoch > 0) {
        CULM_MARK(interval_view_waits_for_a_commit);
        leader->review_due = true;
        return;
    }
    if (boundary) {
        note_boundary(leader);
    }
    culm_gnn_view_copy(&leader->next, &leader->view, leader->o.layout->intervals);
    assign(leader, boundary);
    choose_holders(leader);
    choose_first(leader);
    if (leader->next.holder_count > 0 && !choose_sources(leader)) {
        CULM_MARK(interval_no_copy_is_left);
        roll_back(leader, true, "no copy of the weights is left");
        return;
    }
    if (in_any_case || !same_view(&leader->next, &leader->view, leader->o.layout->intervals)) {
        leader->next.number = culm_view_after(leader->view.number, leader->o.term);
        culm_gnn_view_copy(&leader->view, &leader->next, leader->o.layout->intervals);
        tell(leader, why);
    }
    gnn_leader_check_writer(leader);
    release_leavers(leader);
}

void gnn_leader_review(struct culm_gnn_leader *leader, bool boundary, const char *why) {
    work_out(leader, boundary, false, why);
}

void gnn_leader_review_anew(struct culm_gnn_leader *leader, const char *why) {
    leader->told.number = 0; /* each may know another one */
    work_out(leader, false, true, why);
}

void gnn_leader_tell_again(struct culm_gnn_leader *leader) {
    CULM_MARK(interval_view_is_told_again);
    leader->view.number = culm_view_after(leader->view.number, leader->o.term);
    leader->crew.view = leader->view.number;
    leader->told.number = 0; /* as a whole */
    tell(leader, "stalled");
}

void gnn_leader_begin(struct culm_gnn_leader *leader) {
    culm_gnn_view_copy(&leader->next, &leader->view, leader->o.layout->intervals);
    leader->next.number = culm_view_after(0, leader->o.term);
    restart_from(leader, &leader->next);
    assign(leader, true);
    choose_holders(leader);
    culm_gnn_view_copy(&leader->view, &leader->next, leader->o.layout->intervals);
    tell(leader, "start");
}

void gnn_leader_differ(struct culm_gnn_leader *leader, int64_t version) {
    culm_crew_event(&leader->crew,
                    json_pack("{s:s, s:I}", "event", "differs", "epoch", (json_int_t)version));
    if (leader->rollbacks >= ROLLBACKS_MAX) {
        CULM_MARK(interval_holders_differ_too_often);
        culm_crew_fail(&leader->crew, CULM_ERR_INTERNAL,
                       "holders of the weights differ after epoch %lld, as they have again "
                       "and again; look for a machine with faulty memory",
                       (long long)version);
        return;
    }
    roll_back(leader, false, "holders of the weights differ");
}

/* The leader: views, that is, who owns intervals and who holds the state. See leader.h. */
#include "gnn/leader_internal.h"

#include <stdio.h>
#include <string.h>

#define ROLLBACKS_MAX 5 /* after so many, holders that differ end the run */
#define COPIES 2        /* least number of holders, if there are enough nodes */

/* --- owners --- */

static bool serves(struct culm_gnn_leader *leader, int32_t id) {
    const struct gnn_node *node = id >= 0 ? culm_gnn_leader_node(leader, id) : NULL;
    return node && node->role == CULM_GNN_SERVER;
}

/* The living server that owns the fewest vertices in `next`; -1: there is none. */
static int32_t least_loaded(struct culm_gnn_leader *leader) {
    const struct culm_gnn_layout *layout = leader->o.layout;
    int32_t best = -1;
    int64_t best_rows = 0;
    for (int32_t s = 0; s < leader->o.settings.count[CULM_GNN_SERVER]; s++) {
        int32_t id = leader->slot[CULM_GNN_SERVER][s];
        int64_t rows = 0;
        if (id < 0) {
            continue;
        }
        for (int32_t i = 0; i < layout->intervals; i++) {
            if (leader->next.owner[i] == id) {
                rows += layout->first[i + 1] - layout->first[i];
            }
        }
        if (best < 0 || rows < best_rows) {
            best = id;
            best_rows = rows;
        }
    }
    return best;
}

static void assign(struct culm_gnn_leader *leader, bool boundary) {
    int32_t intervals = leader->o.layout->intervals;
    const struct culm_gnn_view *view = &leader->view;
    for (int32_t i = 0; i < intervals; i++) {
        int32_t home = leader->slot[CULM_GNN_SERVER][leader->o.home[i]];
        int32_t now = view->number ? view->owner[i] : -1;
        bool stays = serves(leader, now) && !(boundary && home >= 0);
        leader->next.owner[i] = stays ? now : home;
    }
    for (int32_t i = 0; i < intervals; i++) {
        if (leader->next.owner[i] < 0) {
            leader->next.owner[i] = least_loaded(leader);
        }
    }
}

/* --- holders --- */

static bool is_full(const struct culm_gnn_leader *leader, const struct gnn_node *node) {
    return node && node->holder && node->holds && node->held.attempt == leader->view.attempt;
}

static int32_t count_full(struct culm_gnn_leader *leader) {
    int32_t full = 0;
    for (int32_t h = 0; h < leader->next.holder_count; h++) {
        full += is_full(leader, culm_gnn_leader_node(leader, leader->next.holder[h].node));
    }
    return full;
}

static void add_holder(struct culm_gnn_leader *leader, int32_t id) {
    struct culm_gnn_view *next = &leader->next;
    const struct gnn_node *node = id >= 0 ? culm_gnn_leader_node(leader, id) : NULL;
    if (node && !culm_gnn_view_holds(next, id) && next->holder_count < CULM_GNN_HOLDERS_MAX) {
        uint64_t since = node->holder ? node->holder_since : leader->view.number + 1;
        next->holder[next->holder_count++] = (struct culm_gnn_view_holder){id, -1, since};
    }
}

/* Where rows may be stale, the first holder decides which sums count. If it is lost, the holder
 * with the latest version becomes the first one, and the others get a copy of its state. */
static void choose_first(struct culm_gnn_leader *leader) {
    struct culm_gnn_view *next = &leader->next;
    int32_t before = leader->view.holder_count ? leader->view.holder[0].node : -1, best = -1;
    if (leader->o.settings.pace.staleness == 0 || next->holder_count == 0) {
        return;
    }
    for (int32_t h = 0; h < next->holder_count; h++) {
        const struct gnn_node *node = culm_gnn_leader_node(leader, next->holder[h].node);
        const struct gnn_node *other =
            best >= 0 ? culm_gnn_leader_node(leader, next->holder[best].node) : NULL;
        if (node->id == before) { /* even if it is still loading */
            best = h;
            break;
        }
        if (is_full(leader, node) && (!other || node->held.version > other->held.version)) {
            best = h;
        }
    }
    if (best < 0) {
        return;
    }
    struct culm_gnn_view_holder first = next->holder[best];
    next->holder[best] = next->holder[0];
    next->holder[0] = first;
    for (int32_t h = 1; h < next->holder_count && first.node != before; h++) {
        struct gnn_node *node = culm_gnn_leader_node(leader, next->holder[h].node);
        node->holds = false;
        node->holder = false; /* this view makes it a holder again */
        next->holder[h].since = leader->view.number + 1;
    }
}

/* Parameter servers are holders. Servers are too, as long as fewer than COPIES nodes have the
 * state: first those that have it, then others. */
static void choose_holders(struct culm_gnn_leader *leader) {
    leader->next.holder_count = 0;
    for (int32_t s = 0; s < leader->o.settings.count[CULM_GNN_PARAMETER]; s++) {
        add_holder(leader, leader->slot[CULM_GNN_PARAMETER][s]);
    }
    for (int32_t n = 0; n < leader->node_count && count_full(leader) < COPIES; n++) {
        const struct gnn_node *node = &leader->node[n];
        if (node->alive && node->role == CULM_GNN_SERVER && is_full(leader, node)) {
            add_holder(leader, node->id);
        }
    }
    for (int32_t s = 0; s < leader->o.settings.count[CULM_GNN_SERVER]; s++) {
        if (leader->next.holder_count < COPIES) {
            add_holder(leader, leader->slot[CULM_GNN_SERVER][s]);
        }
    }
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
        if (is_full(leader, culm_gnn_leader_node(leader, next->holder[h].node))) {
            source = next->holder[h].node;
        }
    }
    if (source < 0) { /* nothing is lost if the version that was loaded can be loaded again */
        return leader->version == next->load_version;
    }
    for (int32_t h = 0; h < next->holder_count; h++) {
        struct culm_gnn_view_holder *holder = &next->holder[h];
        if (is_full(leader, culm_gnn_leader_node(leader, holder->node))) {
            continue;
        }
        int32_t before = previous_source(leader, holder->node);
        struct gnn_node *old = before >= 0 ? culm_gnn_leader_node(leader, before) : NULL;
        holder->from = is_full(leader, old) && culm_gnn_view_holds(next, before) ? before : source;
    }
    return true;
}

/* --- views --- */

static void note_holders(struct culm_gnn_leader *leader) {
    for (int32_t n = 0; n < leader->node_count; n++) {
        struct gnn_node *node = &leader->node[n];
        bool holder = node->alive && culm_gnn_view_holds(&leader->view, node->id);
        if (holder && !node->holder) {
            node->holder_since = leader->view.number;
            node->holds = false;
        }
        node->holder = holder;
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
    culm_gnn_leader_publish(leader, json_pack("{s:s, s:s, s:o, s:o, s:I}", "event", "view",
                                              "reason", why, "owners", owners, "holders", holders,
                                              "epoch", (json_int_t)view->course.epoch));
}

static void tell(struct culm_gnn_leader *leader, const char *why) {
    leader->view.verdict = leader->verdict;
    publish(leader, why);
    note_holders(leader);
    culm_gnn_view_encode(&leader->view, leader->o.layout->intervals, culm_gnn_leader_meta(leader));
    culm_gnn_leader_send_all(leader, CULM_GNN_MSG_VIEW);
}

static void restart_from(struct culm_gnn_leader *leader, struct culm_gnn_view *view) {
    culm_gnn_leader_hold_over(leader);
    leader->version = leader->saved_version;
    leader->verdict = leader->final_verdict = leader->saved_verdict;
    view->attempt++;
    view->load_version = leader->saved_version;
    snprintf(view->load, sizeof view->load, "%s", leader->saved_path);
    view->course = culm_gnn_leader_course(leader, leader->version);
    view->saver = -1;
    leader->evaluated = !view->course.train && !view->course.evaluate;
    for (int32_t w = 0; w < leader->window; w++) {
        culm_gnn_leader_clear_done(leader, &leader->done[w]);
    }
    culm_gnn_leader_new_epoch(leader);
}

static void roll_back(struct culm_gnn_leader *leader, const char *reason) {
    const int64_t from = leader->version;
    leader->rollbacks++;
    for (int32_t n = 0; n < leader->node_count; n++) {
        leader->node[n].holds = false;
    }
    restart_from(leader, &leader->next);
    for (int32_t h = 0; h < leader->next.holder_count; h++) {
        leader->next.holder[h].from = -1;
    }
    culm_gnn_leader_publish(leader, json_pack("{s:s, s:I, s:I, s:s}", "event", "rollback",
                                              "from_epoch", (json_int_t)from, "to_epoch",
                                              (json_int_t)leader->version, "reason", reason));
}

/* The node that saves checkpoints: a parameter server that has the state, since a server may have
 * joined from elsewhere, without access to the run directory. It stays the same one as long as
 * possible. A single node saves one version after the other; but if two saved at the same time, the
 * one with the older version would take the newer checkpoint for a leftover of a roll-back, and
 * remove it. -1: there is none just now. */
static int32_t find_saver(struct culm_gnn_leader *leader, const struct culm_gnn_view *view) {
    int32_t found = -1;
    for (int32_t h = 0; h < view->holder_count && (found < 0 || found != leader->saver); h++) {
        const struct gnn_node *node = culm_gnn_leader_node(leader, view->holder[h].node);
        if (is_full(leader, node) && node->role == CULM_GNN_PARAMETER &&
            (found < 0 || node->id == leader->saver)) {
            found = node->id;
        }
    }
    return found;
}

int32_t culm_gnn_leader_saver(struct culm_gnn_leader *leader) {
    return find_saver(leader, &leader->view);
}

/* The node that is to save the final version; -1: none, or it has been saved. */
static int32_t choose_saver(struct culm_gnn_leader *leader) {
    bool saved = leader->saved_version == leader->version && leader->saved_path[0];
    if (!culm_gnn_leader_is_over(leader) || leader->next.course.train || saved) {
        return -1;
    }
    return find_saver(leader, &leader->next);
}

static bool same_view(const struct culm_gnn_view *a, const struct culm_gnn_view *b,
                      int32_t intervals) {
    return a->attempt == b->attempt && a->saver == b->saver && a->holder_count == b->holder_count &&
           memcmp(a->holder, b->holder, (size_t)a->holder_count * sizeof *a->holder) == 0 &&
           memcmp(a->owner, b->owner, (size_t)intervals * sizeof *a->owner) == 0;
}

void culm_gnn_leader_review(struct culm_gnn_leader *leader, bool boundary, const char *why) {
    if (leader->ended || leader->finishing || leader->view.number == 0) {
        return;
    }
    leader->next = leader->view;
    assign(leader, boundary);
    choose_holders(leader);
    choose_first(leader);
    if (leader->next.holder_count > 0 && !choose_sources(leader)) {
        roll_back(leader, "no copy of the weights is left");
        why = "roll-back";
    }
    leader->next.saver = choose_saver(leader);
    leader->saver = leader->next.saver >= 0 ? leader->next.saver : leader->saver;
    if (same_view(&leader->next, &leader->view, leader->o.layout->intervals)) {
        return;
    }
    leader->next.number++;
    leader->view = leader->next;
    tell(leader, why);
}

void culm_gnn_leader_tell_again(struct culm_gnn_leader *leader) {
    leader->view.number++;
    tell(leader, "stalled");
}

void culm_gnn_leader_save_again(struct culm_gnn_leader *leader) {
    const int32_t saver = culm_gnn_leader_saver(leader);
    if (saver < 0 || leader->view.course.train) {
        return; /* once there is one, a view says so */
    }
    leader->view.saver = leader->saver = saver;
    leader->view.number++;
    leader->view.verdict = leader->verdict;
    note_holders(leader);
    leader->hold.again_ns = CULM_NEVER; /* until it says what has come of it */
    culm_gnn_view_encode(&leader->view, leader->o.layout->intervals, culm_gnn_leader_meta(leader));
    culm_gnn_leader_send_all(leader, CULM_GNN_MSG_VIEW);
}

void culm_gnn_leader_begin(struct culm_gnn_leader *leader) {
    leader->next = (struct culm_gnn_view){.number = 1, .saver = -1};
    restart_from(leader, &leader->next);
    assign(leader, true);
    choose_holders(leader);
    leader->view = leader->next;
    tell(leader, "start");
}

void culm_gnn_leader_differ(struct culm_gnn_leader *leader, int64_t version) {
    culm_gnn_leader_publish(
        leader, json_pack("{s:s, s:I}", "event", "differs", "epoch", (json_int_t)version));
    if (leader->rollbacks >= ROLLBACKS_MAX) {
        culm_gnn_leader_fail(leader, CULM_ERR_INTERNAL,
                             "holders of the weights differ after epoch %lld, as they have again "
                             "and again; look for a machine with faulty memory",
                             (long long)version);
        return;
    }
    leader->next = leader->view;
    roll_back(leader, "holders of the weights differ");
    leader->next.number++;
    leader->view = leader->next;
    tell(leader, "roll-back");
}

/* A server: exchanges rows with other servers, and sends sums to holders. See server.h. */
#include "base/grow.h"
#include "base/mark.h"
#include "interval/server_internal.h"

#include <stdlib.h>
#include <string.h>

/* --- rows received --- */

static struct ghost **ghosts_of(struct culm_gnn_server *server, int32_t gather, int32_t interval) {
    return &server->ghost[gather * server->self.o.layout->intervals + interval];
}

static void free_list(struct ghost **list) {
    while (*list) {
        struct ghost *ghost = *list;
        *list = ghost->next;
        culm_blob_unref(ghost->blob);
        culm_set_release(&ghost->key.readers);
        free(ghost);
    }
}

static void let_go(struct ghost **at) {
    struct ghost *ghost = *at;
    *at = ghost->next;
    ghost->next = NULL;
    free_list(&ghost);
}

static bool is_constant(const struct culm_gnn_server *server, int32_t gather) {
    return server->self.o.layout->gather[gather].constant;
}

void gnn_server_forget_ghosts(struct culm_gnn_server *server, int64_t oldest) {
    const struct culm_gnn_layout *layout = server->self.o.layout;
    for (int32_t i = 0; i < layout->gathers * layout->intervals; i++) {
        struct ghost **at = &server->ghost[i];
        bool constant = layout->gather[i / layout->intervals].constant && oldest < INT64_MAX;
        while (*at) {
            struct ghost *ghost = *at;
            if (ghost->key.epoch >= oldest || constant) {
                at = &ghost->next;
            } else {
                let_go(at);
            }
        }
    }
}

/* The oldest epoch whose rows may still be read. */
static int64_t oldest_of(const struct culm_gnn_server *server) {
    return server->self.view.course.epoch - server->self.o.pace.staleness;
}

static bool covers(const struct ghost *ghost, const struct ghost *other) {
    return culm_set_covers(&ghost->key.readers, &other->key.readers);
}

static void see_view(struct ghost *ghost, const struct ghost *other) {
    ghost->key.view = ghost->key.view > other->key.view ? ghost->key.view : other->key.view;
}

/* Takes ownership of `ghost`. If an existing ghost of the same rows covers all its readers, it is
 * freed; otherwise it replaces those whose readers it covers. The one that is kept counts as sent
 * under the later of the two views, because messages on different links may overtake each other. */
static void keep(struct culm_gnn_server *server, struct ghost *ghost) {
    struct ghost **list = ghosts_of(server, ghost->key.gather, ghost->key.interval);
    bool constant = is_constant(server, ghost->key.gather);
    for (struct ghost **at = list; *at;) {
        struct ghost *other = *at;
        bool alike = constant || other->key.epoch == ghost->key.epoch;
        if (alike && covers(other, ghost)) {
            CULM_MARK(interval_rows_are_here);
            see_view(other, ghost);
            free_list(&ghost);
            return;
        }
        if (alike && covers(ghost, other)) {
            CULM_MARK(interval_rows_replace_others);
            see_view(ghost, other);
            let_go(at);
        } else {
            at = &other->next;
        }
    }
    ghost->next = *list;
    *list = ghost;
}

/* Whether one of them is its own. */
static bool has_reader(const struct culm_gnn_server *server, const struct culm_set *readers) {
    int32_t reader = culm_set_next(readers, 0);
    while (reader >= 0 && !server->interval[reader].mine) {
        reader = culm_set_next(readers, reader + 1);
    }
    return reader >= 0;
}

/* Frees constant rows that are no longer needed: those of intervals that this server owns now, and
 * those for intervals that it no longer owns. Rows sent under the current view or a later one are
 * kept in any case. The sender forgets what it has sent by the same rule, view by view (see
 * forget_sent), and may have entered a newer view already; it would not send them again. */
static void forget_constants(struct culm_gnn_server *server) {
    const struct culm_gnn_layout *layout = server->self.o.layout;
    for (int32_t i = 0; i < layout->gathers * layout->intervals; i++) {
        struct ghost **at = &server->ghost[i];
        while (*at && layout->gather[i / layout->intervals].constant) {
            struct ghost *ghost = *at;
            bool wanted = has_reader(server, &ghost->key.readers) &&
                          !server->interval[ghost->key.interval].mine;
            if (wanted || ghost->key.view >= server->self.view.number) {
                if (!wanted) {
                    CULM_MARK(interval_constant_rows_of_a_later_view_are_kept);
                }
                at = &ghost->next;
            } else {
                CULM_MARK(interval_constant_rows_are_let_go);
                let_go(at);
            }
        }
    }
}

/* Whether its rows may be read, now or later. */
static bool counts(const struct culm_gnn_server *server, const struct culm_message *message,
                   const struct culm_gnn_slice_key *key) {
    const uint32_t attempt = server->self.view.attempt;
    return message->payload && key->attempt >= attempt &&
           (key->attempt > attempt || key->epoch >= oldest_of(server) ||
            is_constant(server, key->gather));
}

void gnn_server_hear_slice(struct culm_gnn_server *server, const struct culm_message *message) {
    struct ghost *ghost = calloc(1, sizeof *ghost);
    const enum culm_status status = ghost
                                        ? culm_gnn_slice_decode(message->meta, message->meta_bytes,
                                                                server->self.o.layout, &ghost->key)
                                        : CULM_ERR_MEMORY;
    if (status == CULM_ERR_MEMORY) {
        culm_self_fail(&server->self.node, CULM_ERR_MEMORY, "out of memory");
    }
    if (status != CULM_OK || !counts(server, message, &ghost->key)) {
        free_list(&ghost);
        return;
    }
    ghost->blob = culm_blob_ref(message->payload);
    if (ghost->key.attempt == server->self.view.attempt) {
        keep(server, ghost);
    } else { /* its sender has entered a view that this node has not been told of yet */
        CULM_MARK(interval_rows_of_an_attempt_to_come);
        ghost->next = server->early;
        server->early = ghost;
    }
}

void gnn_server_recall_ghosts(struct culm_gnn_server *server) {
    struct ghost *list = server->early;
    server->early = NULL;
    while (list) {
        struct ghost *ghost = list;
        list = ghost->next;
        ghost->next = NULL;
        if (ghost->key.attempt == server->self.view.attempt) {
            CULM_MARK(interval_rows_that_came_before_their_attempt);
            keep(server, ghost);
        } else if (ghost->key.attempt > server->self.view.attempt) {
            ghost->next = server->early;
            server->early = ghost;
        } else {
            free_list(&ghost);
        }
    }
}

struct culm_gnn_source gnn_server_rows(struct culm_gnn_server *server, int32_t gather,
                                       int32_t interval, int64_t epoch, int32_t reader) {
    struct culm_gnn_source source = {.interval = interval, .epoch = epoch};
    const struct turn *turn =
        server->interval[interval].mine ? gnn_turn(server, interval, epoch) : NULL;
    if (turn && turn->made[gather].blob) {
        source.blob = turn->made[gather].blob;
        return source;
    }
    for (const struct ghost *ghost = *ghosts_of(server, gather, interval); ghost;
         ghost = ghost->next) {
        if ((ghost->key.epoch == epoch || is_constant(server, gather)) &&
            culm_set_has(&ghost->key.readers, reader)) {
            source.blob = ghost->blob;
            source.readers = &ghost->key.readers;
            return source;
        }
    }
    return source;
}

/* Whether rows have been received that the interval made for that gather in that epoch. */
static bool has_come(struct culm_gnn_server *server, int32_t gather, int32_t interval,
                     int64_t epoch) {
    const struct ghost *ghost = *ghosts_of(server, gather, interval);
    while (ghost && ghost->key.epoch != epoch) {
        ghost = ghost->next;
    }
    return ghost && !is_constant(server, gather);
}

int64_t gnn_server_done_before(struct culm_gnn_server *server, int32_t interval, int64_t epoch) {
    const struct culm_gnn_layout *layout = server->self.o.layout;
    int64_t end = server->self.view.course.epoch + server->window, steps = 0;
    for (; epoch < end; epoch++) {
        int32_t first = gnn_server_first_step(server, epoch), last = layout->steps - 1;
        while (last >= first && (layout->step[last].makes < 0 ||
                                 !has_come(server, layout->step[last].makes, interval, epoch))) {
            last--;
        }
        steps += last + 1 - first;
    }
    return steps;
}

/* --- rows sent --- */

static int by_node(const void *a, const void *b) {
    const struct peer *x = a, *y = b;
    return (x->node > y->node) - (x->node < y->node);
}

/* NULL: it is none. */
static struct peer *peer_of(const struct culm_gnn_server *server, int32_t node) {
    const struct peer key = {.node = node};
    return bsearch(&key, server->peer, (size_t)server->peer_count, sizeof key, by_node);
}

int32_t gnn_server_peers_before(const struct culm_gnn_server *server, int32_t node) {
    int32_t low = 0, high = server->peer_count;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (server->peer[middle].node < node) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The other servers of the view, and what they own. */
static void find_peers(struct culm_gnn_server *server) {
    const struct culm_gnn_view *view = &server->self.view;
    const int32_t intervals = server->self.o.layout->intervals;
    int32_t count = 0;
    bool there = true;
    for (int32_t p = 0; p < server->peer_count; p++) {
        culm_set_release(&server->peer[p].owns);
    }
    for (int32_t i = 0; i < intervals; i++) {
        if (view->owner[i] >= 0 && view->owner[i] != server->self.o.id) {
            server->peer[count++] = (struct peer){.node = view->owner[i]};
        }
    }
    qsort(server->peer, (size_t)count, sizeof *server->peer, by_node);
    server->peer_count = 0;
    for (int32_t p = 0; p < count; p++) {
        if (p == 0 || server->peer[p].node != server->peer[server->peer_count - 1].node) {
            server->peer[server->peer_count++] = server->peer[p];
        }
    }
    for (int32_t i = 0; i < intervals; i++) {
        struct peer *peer = peer_of(server, view->owner[i]);
        there = there && (!peer || culm_set_add(&peer->owns, i));
    }
    if (!there) {
        culm_self_fail(&server->self.node, CULM_ERR_MEMORY, "out of memory");
    }
}

/* Forgets what constant rows were sent to a node for intervals that it no longer owns. The node
 * frees them by the same rule (forget_constants). */
static void forget_sent(struct culm_gnn_server *server, struct made *made) {
    int32_t kept = 0;
    for (int32_t s = 0; s < made->sent_count; s++) {
        struct sent *sent = &made->sent[s];
        const struct peer *peer = peer_of(server, sent->node);
        if (!peer) {
            CULM_MARK(interval_constant_rows_were_sent_to_one_that_is_gone);
            culm_set_release(&sent->readers);
            continue;
        }
        culm_set_keep(&sent->readers, &peer->owns);
        if (culm_set_is_empty(&sent->readers)) {
            CULM_MARK(interval_constant_rows_will_be_sent_again);
            culm_set_release(&sent->readers);
            continue;
        }
        made->sent[kept++] = *sent;
    }
    made->sent_count = kept;
}

/* The nodes of the tree that cover its intervals, the fewest. */
static void find_cover(struct culm_gnn_server *server) {
    server->cover_count = 0;
    for (int32_t n = 0; n < server->tree.count; n++) {
        const struct culm_fold_node *node = &server->tree.node[n];
        bool mine = true;
        for (int32_t i = node->lo; i < node->hi && mine; i++) {
            mine = server->interval[i].mine;
        }
        bool above = false; /* a parent comes before its children, so it would be in `cover` */
        for (int32_t c = 0; c < server->cover_count && mine && !above; c++) {
            above = culm_fold_tree_covers(&server->tree, server->cover[c], n);
        }
        if (mine && !above) {
            server->cover[server->cover_count++] = n;
        }
    }
}

void gnn_server_resend(struct culm_gnn_server *server) {
    const struct culm_gnn_layout *layout = server->self.o.layout;
    find_peers(server);
    for (int32_t o = 0; o < server->own_count; o++) {
        struct interval *interval = &server->interval[server->own[o]];
        for (int32_t q = 0; interval->turn && q < layout->gathers; q++) {
            for (int32_t w = 0; w < server->window; w++) {
                interval->turn[w].made[q].served = false;
                interval->turn[w].made[q].next_peer = 0;
            }
            forget_sent(server, &interval->constants[q]);
        }
    }
    forget_constants(server);
    for (int32_t w = 0; w < server->window; w++) { /* holders may have lost the sums they had */
        for (int32_t s = 0; s < layout->stages; s++) {
            for (int32_t n = 0; n < server->sums[w].sum[s].count; n++) {
                ((struct sum *)server->sums[w].sum[s].thing[n])->sent_count = 0;
            }
        }
    }
    find_cover(server);
}

/* The place of what was sent to that node, or where it would be. */
static int32_t place_of(const struct made *made, int32_t node) {
    int32_t lo = 0, hi = made->sent_count;
    while (lo < hi) {
        const int32_t middle = lo + (hi - lo) / 2;
        if (made->sent[middle].node < node) {
            lo = middle + 1;
        } else {
            hi = middle;
        }
    }
    return lo;
}

static bool was_sent(const struct made *made, int32_t place, int32_t node) {
    return place < made->sent_count && made->sent[place].node == node;
}

/* The intervals of the peer that read these rows and have not been sent them. False: out of memory. */
static bool not_sent(const struct culm_gnn_server *server, int32_t gather, int32_t interval,
                     const struct made *made, const struct peer *peer, struct culm_set *ret_want) {
    const struct culm_gnn_layout *layout = server->self.o.layout;
    bool transposed = layout->gather[gather].transposed;
    const int32_t place = place_of(made, peer->node);
    if (!culm_set_copy(ret_want, &peer->owns)) {
        return false;
    }
    culm_set_keep(ret_want, &layout->read_by[transposed][interval]);
    if (was_sent(made, place, peer->node)) {
        culm_set_remove_all(ret_want, &made->sent[place].readers);
    }
    return true;
}

/* They are being sent to that node. False: out of memory. */
static bool note_sent(struct made *made, int32_t node, const struct culm_set *readers) {
    const int32_t place = place_of(made, node);
    if (was_sent(made, place, node)) {
        return culm_set_add_all(&made->sent[place].readers, readers);
    }
    struct culm_set copy = {0};
    if (!culm_set_copy(&copy, readers) ||
        !CULM_GROW(made->sent, made->sent_capacity, made->sent_count + 1)) {
        culm_set_release(&copy);
        return false;
    }
    memmove(made->sent + place + 1, made->sent + place,
            (size_t)(made->sent_count++ - place) * sizeof *made->sent);
    made->sent[place] = (struct sent){node, copy};
    return true;
}

/* Starts the next SLICE of these rows. False: all slices have been sent. */
static bool slice_next(struct culm_gnn_server *server, int32_t gather, int32_t interval,
                       struct turn *turn) {
    struct made *made = &turn->made[gather];
    struct made *sent =
        is_constant(server, gather) ? &server->interval[interval].constants[gather] : made;
    struct culm_set want = {0};
    for (; made->next_peer < server->peer_count; made->next_peer++) {
        const struct peer *peer = &server->peer[made->next_peer];
        const bool there = not_sent(server, gather, interval, sent, peer, &want);
        if (there && culm_set_is_empty(&want)) {
            continue;
        }
        if (!there || !note_sent(sent, peer->node, &want)) {
            culm_self_fail(&server->self.node, CULM_ERR_MEMORY, "out of memory");
            culm_set_release(&want);
            return false;
        }
        server->task = (struct culm_gnn_task){.kind = CULM_GNN_TASK_SLICE,
                                              .interval = interval,
                                              .gather = gather,
                                              .epoch = turn->epoch,
                                              .readers = want,
                                              .version = peer->node,
                                              .input = culm_blob_ref(made->blob)};
        gnn_server_start(server);
        return true;
    }
    culm_set_release(&want);
    made->served = true;
    return false;
}

bool gnn_server_scatter(struct culm_gnn_server *server) {
    const struct culm_gnn_layout *layout = server->self.o.layout;
    if (server->peer_count == 0) {
        return false;
    }
    for (int32_t o = 0; o < server->own_count; o++) {
        const int32_t i = server->own[o];
        for (int32_t w = 0; server->interval[i].mine && w < server->window; w++) {
            struct turn *turn = &server->interval[i].turn[w];
            for (int32_t q = 0; q < layout->gathers && turn->epoch > 0; q++) {
                if (turn->made[q].blob && !turn->made[q].served && slice_next(server, q, i, turn)) {
                    return true;
                }
            }
        }
    }
    return false;
}

void gnn_server_sliced(struct culm_gnn_server *server) {
    struct culm_gnn_task *task = &server->task;
    const struct culm_gnn_slice_key key = {.attempt = server->task_attempt,
                                           .epoch = task->epoch,
                                           .gather = task->gather,
                                           .interval = task->interval,
                                           .readers = task->readers,
                                           .view = server->self.view.number};
    struct turn *turn = gnn_turn(server, task->interval, task->epoch);
    culm_self_point(&server->self.node, CULM_GNN_PHASE_SCATTER, task->epoch, task->interval);
    culm_gnn_slice_encode(&key, culm_self_meta(&server->self.node));
    culm_gnn_send(&server->self, (int32_t)task->version, CULM_GNN_MSG_SLICE, task->output);
    if (turn) {
        turn->work.ghost_bytes += (int64_t)task->output->size_bytes;
    }
}

/* --- sums --- */

void gnn_server_clear_sums(struct culm_gnn_server *server, int64_t oldest) {
    for (int32_t w = 0; w < server->window; w++) {
        struct sums *sums = &server->sums[w];
        if (sums->epoch >= oldest) {
            continue;
        }
        sums->epoch = 0;
        for (int32_t s = 0; s < server->self.o.layout->stages; s++) {
            for (struct culm_ids *of = &sums->sum[s]; of->count > 0;) {
                struct sum *sum = culm_ids_take(of, of->id[of->count - 1]);
                culm_blob_unref(sum->blob);
                free(sum);
            }
        }
    }
}

/* NULL: it has not been formed. */
static struct sum *sum_of(const struct culm_gnn_server *server, int64_t epoch, int32_t stage,
                          int32_t node) {
    return culm_ids_find(&server->sums[epoch % server->window].sum[stage], node);
}

/* It has been formed, perhaps not for the first time. */
static void put_sum(struct culm_gnn_server *server, int64_t epoch, int32_t stage, int32_t node,
                    struct culm_blob *blob) {
    struct sum *sum = sum_of(server, epoch, stage, node);
    if (!sum) {
        sum = calloc(1, sizeof *sum);
        if (!sum || !culm_ids_put(&server->sums[epoch % server->window].sum[stage], node, sum)) {
            free(sum);
            culm_self_fail(&server->self.node, CULM_ERR_MEMORY, "out of memory");
            return;
        }
    }
    culm_blob_unref(sum->blob);
    sum->blob = culm_blob_ref(blob);
}

/* Sends a sum to the holders that have not been sent it. Where rows may be stale, repeating an
 * interval gives other sums, so only the first holder is sent any, and decides which ones count. */
static void send_sum(struct culm_gnn_server *server, int64_t epoch, int32_t stage, int32_t node) {
    struct sum *sum = sum_of(server, epoch, stage, node);
    const struct culm_gnn_view *view = &server->self.view;
    const struct culm_gnn_gradient_key key = {view->attempt, epoch, stage, node};
    int32_t holders =
        server->self.o.pace.staleness > 0 && view->holder_count > 1 ? 1 : view->holder_count;
    for (int32_t h = 0; h < holders; h++) {
        int32_t to = view->holder[h].node, i = 0;
        while (i < sum->sent_count && sum->sent[i] != to) {
            i++;
        }
        if (i < sum->sent_count) {
            continue;
        }
        if (sum->sent_count == CULM_GNN_HOLDERS_MAX) { /* the first in the list is long gone */
            memmove(sum->sent, sum->sent + 1, sizeof sum->sent - sizeof *sum->sent);
            sum->sent_count--;
        }
        sum->sent[sum->sent_count++] = to;
        const struct culm_fold_node *part = &server->tree.node[node];
        for (int32_t interval = part->lo; interval < part->hi; interval++) {
            culm_self_point(&server->self.node, CULM_GNN_PHASE_PUSH_GRADIENT, epoch, interval);
        }
        culm_gnn_gradient_encode(&key, culm_self_meta(&server->self.node));
        if (to == server->self.o.id) {
            const struct culm_message message = {.type = CULM_GNN_MSG_GRADIENT,
                                                 .meta = server->self.node.tell.meta.data,
                                                 .meta_bytes =
                                                     (uint32_t)server->self.node.tell.meta.len,
                                                 .payload = sum->blob,
                                                 .payload_bytes = sum->blob->size_bytes};
            culm_gnn_holder_message(server->holder, to, &message);
        } else {
            culm_gnn_send(&server->self, to, CULM_GNN_MSG_GRADIENT, sum->blob);
        }
    }
}

/* Forms the sum over a node of the tree. True: a FOLD was started. False: the node is a single
 * interval, whose gradient is the sum, or parts are missing. */
static bool form(struct culm_gnn_server *server, int64_t epoch, int32_t stage, int32_t node) {
    const struct culm_fold_node *range = &server->tree.node[node];
    for (int32_t i = range->lo; i < range->hi; i++) {
        const struct turn *turn = gnn_turn(server, i, epoch);
        if (!turn || !turn->gradient[stage]) {
            return false;
        }
    }
    if (range->hi - range->lo == 1) {
        put_sum(server, epoch, stage, node, gnn_turn(server, range->lo, epoch)->gradient[stage]);
        return false;
    }
    for (int32_t i = range->lo; i < range->hi; i++) {
        server->fold_slice[server->tree.leaf[i]] =
            (struct culm_slice){culm_blob_ref(gnn_turn(server, i, epoch)->gradient[stage]), 0};
    }
    server->task = (struct culm_gnn_task){.kind = CULM_GNN_TASK_FOLD,
                                          .stage = stage,
                                          .epoch = epoch,
                                          .tree = &server->tree,
                                          .slice = server->fold_slice,
                                          .root = node};
    gnn_server_start(server);
    return true;
}

/* True: a FOLD was started. */
static bool sum_epoch(struct culm_gnn_server *server, int64_t epoch) {
    const struct culm_gnn_layout *layout = server->self.o.layout;
    struct sums *sums = &server->sums[epoch % server->window];
    sums->epoch = epoch;
    for (int32_t s = 0; s < layout->stages; s++) {
        for (int32_t c = 0; c < server->cover_count && layout->gradient_bytes[s] > 0; c++) {
            int32_t node = server->cover[c];
            if (!sum_of(server, epoch, s, node) && form(server, epoch, s, node)) {
                return true;
            }
            if (sum_of(server, epoch, s, node)) {
                send_sum(server, epoch, s, node);
            }
        }
    }
    return false;
}

bool gnn_server_sum(struct culm_gnn_server *server) {
    int64_t last = server->self.view.course.epoch;
    for (int32_t o = 0; o < server->own_count; o++) {
        const struct interval *interval = &server->interval[server->own[o]];
        last = interval->mine && interval->front > last ? interval->front : last;
    }
    int64_t first = server->self.view.course.epoch, kept = last - server->window + 1;
    for (int64_t epoch = first > kept ? first : kept; epoch <= last; epoch++) {
        if (sum_epoch(server, epoch)) {
            return true;
        }
    }
    return false;
}

void gnn_server_summed(struct culm_gnn_server *server) {
    struct sums *sums = &server->sums[server->task.epoch % server->window];
    if (sums->epoch == server->task.epoch) {
        put_sum(server, server->task.epoch, server->task.stage, server->task.root,
                server->task.output);
    }
}

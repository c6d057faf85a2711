/* A server: exchanges rows with other servers, and sends sums to holders. See server.h. */
#include "base/grow.h"
#include "gnn/server_internal.h"

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

void culm_gnn_server_forget_ghosts(struct culm_gnn_server *server, int64_t oldest) {
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
    struct culm_gnn_set more = culm_gnn_set_minus(&other->key.readers, &ghost->key.readers);
    return culm_gnn_set_empty(&more);
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
            see_view(other, ghost);
            free_list(&ghost);
            return;
        }
        if (alike && covers(ghost, other)) {
            see_view(ghost, other);
            let_go(at);
        } else {
            at = &other->next;
        }
    }
    ghost->next = *list;
    *list = ghost;
}

/* Frees constant rows that are no longer needed: those of intervals that this server owns now, and
 * those for intervals that it no longer owns. Rows sent under the current view or a later one are
 * kept in any case. The sender forgets what it has sent by the same rule, view by view (see
 * forget_sent), and may have entered a newer view already; it would not send them again. */
static void forget_constants(struct culm_gnn_server *server) {
    const struct culm_gnn_layout *layout = server->self.o.layout;
    struct culm_gnn_set mine = {0};
    for (int32_t i = 0; i < layout->intervals; i++) {
        if (server->interval[i].mine) {
            culm_gnn_set_add(&mine, i);
        }
    }
    for (int32_t i = 0; i < layout->gathers * layout->intervals; i++) {
        struct ghost **at = &server->ghost[i];
        while (*at && layout->gather[i / layout->intervals].constant) {
            struct ghost *ghost = *at;
            struct culm_gnn_set read = culm_gnn_set_both(&ghost->key.readers, &mine);
            bool wanted = !culm_gnn_set_empty(&read) && !server->interval[ghost->key.interval].mine;
            if (wanted || ghost->key.view >= server->self.view.number) {
                at = &ghost->next;
            } else {
                let_go(at);
            }
        }
    }
}

void culm_gnn_server_hear_slice(struct culm_gnn_server *server,
                                const struct culm_message *message) {
    struct culm_gnn_slice_key key;
    if (culm_gnn_slice_decode(message->meta, message->meta_bytes, server->self.o.layout, &key) !=
            CULM_OK ||
        !message->payload || key.attempt < server->self.view.attempt ||
        (key.attempt == server->self.view.attempt && key.epoch < oldest_of(server) &&
         !is_constant(server, key.gather))) {
        return;
    }
    struct ghost *ghost = calloc(1, sizeof *ghost);
    if (!ghost) {
        culm_gnn_fail(&server->self, CULM_ERR_MEMORY, "out of memory");
        return;
    }
    *ghost = (struct ghost){.key = key, .blob = culm_blob_ref(message->payload)};
    if (key.attempt == server->self.view.attempt) {
        keep(server, ghost);
    } else { /* its sender has entered a view that this node has not been told of yet */
        ghost->next = server->early;
        server->early = ghost;
    }
}

void culm_gnn_server_recall_ghosts(struct culm_gnn_server *server) {
    struct ghost *list = server->early;
    server->early = NULL;
    while (list) {
        struct ghost *ghost = list;
        list = ghost->next;
        ghost->next = NULL;
        if (ghost->key.attempt == server->self.view.attempt) {
            keep(server, ghost);
        } else if (ghost->key.attempt > server->self.view.attempt) {
            ghost->next = server->early;
            server->early = ghost;
        } else {
            free_list(&ghost);
        }
    }
}

struct culm_gnn_source culm_gnn_server_rows(struct culm_gnn_server *server, int32_t gather,
                                            int32_t interval, int64_t epoch, int32_t reader) {
    struct culm_gnn_source source = {.interval = interval, .epoch = epoch};
    const struct turn *turn =
        server->interval[interval].mine ? culm_gnn_turn(server, interval, epoch) : NULL;
    if (turn && turn->made[gather].blob) {
        source.blob = turn->made[gather].blob;
        return source;
    }
    for (const struct ghost *ghost = *ghosts_of(server, gather, interval); ghost;
         ghost = ghost->next) {
        if ((ghost->key.epoch == epoch || is_constant(server, gather)) &&
            culm_gnn_set_has(&ghost->key.readers, reader)) {
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

int64_t culm_gnn_server_done_before(struct culm_gnn_server *server, int32_t interval,
                                    int64_t epoch) {
    const struct culm_gnn_layout *layout = server->self.o.layout;
    int64_t end = server->self.view.course.epoch + server->window, steps = 0;
    for (; epoch < end; epoch++) {
        int32_t first = culm_gnn_server_first_step(server, epoch), last = layout->steps - 1;
        while (last >= first && (layout->step[last].makes < 0 ||
                                 !has_come(server, layout->step[last].makes, interval, epoch))) {
            last--;
        }
        steps += last + 1 - first;
    }
    return steps;
}

/* --- rows sent --- */

/* Forgets what constant rows were sent to a node for intervals that it no longer owns. The node
 * frees them by the same rule (forget_constants). */
static void forget_sent(struct culm_gnn_server *server) {
    const struct culm_gnn_layout *layout = server->self.o.layout;
    for (int32_t i = 0; i < layout->intervals * layout->gathers; i++) {
        struct made *made = &server->interval[i / layout->gathers].constants[i % layout->gathers];
        int32_t kept = 0;
        for (int32_t s = 0; s < made->sent_count; s++) {
            struct sent sent = made->sent[s];
            int32_t p = 0;
            while (p < server->peer_count && server->peer[p].node != sent.node) {
                p++;
            }
            if (p < server->peer_count) {
                sent.readers = culm_gnn_set_both(&sent.readers, &server->peer[p].owns);
                if (!culm_gnn_set_empty(&sent.readers)) {
                    made->sent[kept++] = sent;
                }
            }
        }
        made->sent_count = kept;
    }
}

void culm_gnn_server_resend(struct culm_gnn_server *server) {
    const struct culm_gnn_layout *layout = server->self.o.layout;
    const struct culm_gnn_view *view = &server->self.view;
    server->peer_count = 0;
    for (int32_t i = 0; i < layout->intervals; i++) {
        for (int32_t w = 0; w < server->window; w++) {
            for (int32_t q = 0; q < layout->gathers; q++) {
                server->interval[i].turn[w].made[q].served = false;
            }
        }
        if (view->owner[i] < 0 || view->owner[i] == server->self.o.id) {
            continue;
        }
        int32_t p = 0;
        while (p < server->peer_count && server->peer[p].node != view->owner[i]) {
            p++;
        }
        if (p == server->peer_count) {
            server->peer[server->peer_count++] = (struct peer){.node = view->owner[i]};
        }
        culm_gnn_set_add(&server->peer[p].owns, i);
    }
    forget_sent(server);
    forget_constants(server);
    for (int32_t w = 0; w < server->window; w++) { /* holders may have lost the sums they had */
        for (int32_t s = 0; s < layout->stages; s++) {
            for (int32_t n = 0; n < server->tree.count; n++) {
                server->sums[w].sum[s][n].sent_count = 0;
            }
        }
    }
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

/* The intervals of the peer that read these rows and have not been sent them. */
static struct culm_gnn_set not_sent(const struct culm_gnn_server *server, int32_t gather,
                                    int32_t interval, const struct made *made,
                                    const struct peer *peer) {
    const struct culm_gnn_layout *layout = server->self.o.layout;
    bool transposed = layout->gather[gather].transposed;
    struct culm_gnn_set want =
        culm_gnn_set_both(&layout->read_by[transposed][interval], &peer->owns);
    for (int32_t i = 0; i < made->sent_count; i++) {
        if (made->sent[i].node == peer->node) {
            want = culm_gnn_set_minus(&want, &made->sent[i].readers);
        }
    }
    return want;
}

/* Starts the next SLICE of these rows. False: all slices have been sent. */
static bool slice_next(struct culm_gnn_server *server, int32_t gather, int32_t interval,
                       struct turn *turn) {
    struct made *made = &turn->made[gather];
    struct made *sent =
        is_constant(server, gather) ? &server->interval[interval].constants[gather] : made;
    for (int32_t p = 0; p < server->peer_count; p++) {
        struct culm_gnn_set want = not_sent(server, gather, interval, sent, &server->peer[p]);
        if (culm_gnn_set_empty(&want)) {
            continue;
        }
        if (!CULM_GROW(sent->sent, sent->sent_capacity, sent->sent_count + 1)) {
            culm_gnn_fail(&server->self, CULM_ERR_MEMORY, "out of memory");
            return false;
        }
        sent->sent[sent->sent_count++] = (struct sent){server->peer[p].node, want};
        server->task = (struct culm_gnn_task){.kind = CULM_GNN_TASK_SLICE,
                                              .interval = interval,
                                              .gather = gather,
                                              .epoch = turn->epoch,
                                              .readers = want,
                                              .version = server->peer[p].node,
                                              .input = culm_blob_ref(made->blob)};
        culm_gnn_server_start(server);
        return true;
    }
    made->served = true;
    return false;
}

bool culm_gnn_server_scatter(struct culm_gnn_server *server) {
    const struct culm_gnn_layout *layout = server->self.o.layout;
    if (server->peer_count == 0) {
        return false;
    }
    for (int32_t i = 0; i < layout->intervals; i++) {
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

void culm_gnn_server_sliced(struct culm_gnn_server *server) {
    struct culm_gnn_task *task = &server->task;
    const struct culm_gnn_slice_key key = {.attempt = server->task_attempt,
                                           .epoch = task->epoch,
                                           .gather = task->gather,
                                           .interval = task->interval,
                                           .readers = task->readers,
                                           .view = server->self.view.number};
    struct turn *turn = culm_gnn_turn(server, task->interval, task->epoch);
    culm_gnn_point(&server->self, CULM_GNN_PHASE_SCATTER, task->epoch, task->interval);
    culm_gnn_slice_encode(&key, server->self.o.layout->intervals, culm_gnn_meta(&server->self));
    culm_gnn_send(&server->self, (int32_t)task->version, CULM_GNN_MSG_SLICE, task->output);
    if (turn) {
        turn->work.ghost_bytes += (int64_t)task->output->size_bytes;
    }
}

/* --- sums --- */

void culm_gnn_server_clear_sums(struct culm_gnn_server *server, int64_t oldest) {
    for (int32_t w = 0; w < server->window; w++) {
        struct sums *sums = &server->sums[w];
        if (sums->epoch >= oldest) {
            continue;
        }
        sums->epoch = 0;
        for (int32_t s = 0; s < server->self.o.layout->stages; s++) {
            for (int32_t n = 0; n < server->tree.count; n++) {
                culm_blob_clear(&sums->sum[s][n].blob);
                sums->sum[s][n].sent_count = 0;
            }
        }
    }
}

/* Sends a sum to the holders that have not been sent it. Where rows may be stale, repeating an
 * interval gives other sums, so only the first holder is sent any, and decides which ones count. */
static void send_sum(struct culm_gnn_server *server, int64_t epoch, int32_t stage, int32_t node) {
    struct sum *sum = &server->sums[epoch % server->window].sum[stage][node];
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
            culm_gnn_point(&server->self, CULM_GNN_PHASE_PUSH_GRADIENT, epoch, interval);
        }
        culm_gnn_gradient_encode(&key, culm_gnn_meta(&server->self));
        if (to == server->self.o.id) {
            const struct culm_message message = {.type = CULM_GNN_MSG_GRADIENT,
                                                 .meta = server->self.meta.data,
                                                 .meta_bytes = (uint32_t)server->self.meta.len,
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
    struct sum *sum = &server->sums[epoch % server->window].sum[stage][node];
    for (int32_t i = range->lo; i < range->hi; i++) {
        const struct turn *turn = culm_gnn_turn(server, i, epoch);
        if (!turn || !turn->gradient[stage]) {
            return false;
        }
    }
    if (range->hi - range->lo == 1) {
        sum->blob = culm_blob_ref(culm_gnn_turn(server, range->lo, epoch)->gradient[stage]);
        return false;
    }
    for (int32_t i = range->lo; i < range->hi; i++) {
        server->fold_slice[server->tree.leaf[i]] =
            (struct culm_slice){culm_blob_ref(culm_gnn_turn(server, i, epoch)->gradient[stage]), 0};
    }
    server->task = (struct culm_gnn_task){.kind = CULM_GNN_TASK_FOLD,
                                          .stage = stage,
                                          .epoch = epoch,
                                          .tree = &server->tree,
                                          .slice = server->fold_slice,
                                          .root = node};
    culm_gnn_server_start(server);
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
            if (!sums->sum[s][node].blob && form(server, epoch, s, node)) {
                return true;
            }
            if (sums->sum[s][node].blob) {
                send_sum(server, epoch, s, node);
            }
        }
    }
    return false;
}

bool culm_gnn_server_sum(struct culm_gnn_server *server) {
    int64_t last = server->self.view.course.epoch;
    for (int32_t i = 0; i < server->self.o.layout->intervals; i++) {
        const struct interval *interval = &server->interval[i];
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

void culm_gnn_server_summed(struct culm_gnn_server *server) {
    struct sums *sums = &server->sums[server->task.epoch % server->window];
    if (sums->epoch == server->task.epoch) {
        struct sum *sum = &sums->sum[server->task.stage][server->task.root];
        culm_blob_clear(&sum->blob);
        sum->blob = culm_blob_ref(server->task.output);
    }
}

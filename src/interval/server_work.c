/* A server: gives steps to workers, and takes their results. See server.h. */
#include "interval/server_internal.h"

#include "base/mark.h"

#include "interval/roc.h"

#include <assert.h>
#include <stdlib.h>

static struct worker *find(const struct culm_gnn_server *server, int32_t node) {
    return culm_ids_find(&server->workers, node);
}

/* A message that is malformed is dropped; a server without memory ends. */
static void fail_memory(struct culm_gnn_server *server, enum culm_status status) {
    if (status == CULM_ERR_MEMORY) {
        culm_self_fail(&server->self.node, status, "out of memory");
    }
}

bool gnn_server_someone_works(const struct culm_gnn_server *server) {
    return server->workers.count > 0;
}

/* --- which of them have room --- */

static void mark(struct culm_set *set, int32_t place, bool member) {
    if (!member) {
        culm_set_remove(set, place);
        return;
    }
    const bool there = culm_set_add(set, place);
    assert(there); /* room was made for all of them */
    (void)there;
}

static void place(struct culm_gnn_server *server, const struct worker *worker, int32_t at) {
    const bool takes = worker->room > 0 && !worker->leaving;
    mark(&server->idle, at, takes && worker->out == 0);
    mark(&server->working, at, takes && worker->out > 0);
}

/* What it has room for, or has to do, has changed. */
static void regard(struct culm_gnn_server *server, struct worker *worker) {
    const int32_t room = worker->leaving ? 0 : worker->room;
    server->room += room - worker->counted;
    worker->counted = room;
    if (server->ranked) {
        place(server, worker, culm_ids_from(&server->workers, worker->node));
    }
}

void gnn_server_rank_later(struct culm_gnn_server *server) { server->ranked = false; }

/* Gives all of them their places. False: out of memory. */
static bool rank(struct culm_gnn_server *server) {
    const int32_t count = server->workers.count;
    culm_set_clear(&server->idle);
    culm_set_clear(&server->working);
    bool there =
        culm_set_reserve(&server->idle, count) && culm_set_reserve(&server->working, count);
    for (int32_t o = 0; o < server->own_count && there; o++) {
        struct culm_set *warm = &server->interval[server->own[o]].warm;
        culm_set_clear(warm);
        there = culm_set_reserve(warm, count);
    }
    for (int32_t w = 0; w < count && there; w++) {
        const struct worker *worker = server->workers.thing[w];
        place(server, worker, w);
        for (int32_t o = 0; o < server->own_count; o++) {
            const int32_t i = server->own[o];
            mark(&server->interval[i].warm, w, culm_set_has(&worker->warm, i));
        }
    }
    server->ranked = there;
    if (!there) {
        fail_memory(server, CULM_ERR_MEMORY);
    }
    return there;
}

static void warm(struct culm_gnn_server *server, struct worker *worker, int32_t interval,
                 bool has_input) {
    if (!has_input) {
        culm_set_remove(&worker->warm, interval);
    } else if (!culm_set_add(&worker->warm, interval)) {
        fail_memory(server, CULM_ERR_MEMORY);
    }
    if (server->ranked && server->interval[interval].mine) {
        mark(&server->interval[interval].warm, culm_ids_from(&server->workers, worker->node),
             has_input);
    }
}

void gnn_server_worker_ready(struct culm_gnn_server *server, int32_t node,
                             const struct culm_message *message) {
    struct worker *worker = find(server, node);
    if (culm_gnn_is_gone(&server->self, node)) {
        CULM_MARK(interval_ready_of_one_that_is_gone);
        return; /* it has been removed; this message is late */
    }
    struct culm_set has;
    const enum culm_status status =
        culm_gnn_warm_decode(message->meta, message->meta_bytes, server->self.o.layout, &has);
    if (status != CULM_OK) {
        fail_memory(server, status);
        return;
    }
    if (!worker) {
        worker = calloc(1, sizeof *worker);
        if (!worker || !culm_ids_put(&server->workers, node, worker)) {
            free(worker);
            culm_set_release(&has);
            fail_memory(server, CULM_ERR_MEMORY);
            return;
        }
        worker->node = node;
        worker->warm = has;
        gnn_server_rank_later(server);
    } else {
        culm_set_release(&has);
    }
    worker->room++;
    regard(server, worker);
    server->worked_ns = server->self.o.world->ops->now_ns(server->self.o.world);
}

/* It gets no more tasks. The answer follows everything that it has been sent, and says that all its
 * results so far have arrived. */
void gnn_server_worker_leaving(struct culm_gnn_server *server, int32_t node) {
    struct worker *worker = find(server, node);
    if (worker) {
        worker->leaving = true;
        regard(server, worker);
    }
    culm_self_meta(&server->self.node);
    culm_gnn_send(&server->self, node, CULM_GNN_MSG_LEAVING, NULL);
}

/* The worker will not do the turn's current step. True: nobody else does it, so that it has to be
 * given out again. */
static bool give_up(struct turn *turn, int32_t node) {
    if (turn->second == node) {
        CULM_MARK(interval_second_worker_gives_up);
        turn->second = -1;
    } else if (turn->worker == node && (turn->second >= 0 || turn->here)) {
        CULM_MARK(interval_first_worker_gives_up);
        turn->worker = turn->second;
        turn->second = -1;
    } else if (turn->worker == node) {
        CULM_MARK(interval_only_worker_gives_up);
        turn->worker = -1;
        turn->out = false;
        culm_blob_clear(&turn->share);
        return true;
    }
    return false;
}

/* Its tasks are given to others. */
void gnn_server_worker_lost(struct culm_gnn_server *server, int32_t node) {
    struct worker *gone = culm_ids_take(&server->workers, node);
    if (gone) {
        server->room -= gone->counted;
        culm_set_release(&gone->warm);
        free(gone);
        gnn_server_rank_later(server);
    }
    for (int32_t o = 0; o < server->own_count; o++) {
        struct turn *turn = gnn_front(server, server->own[o]);
        if (!turn || !turn->out) {
            continue;
        }
        turn->work.retried += give_up(turn, node);
    }
}

/* --- giving out --- */

/* The place in the order of workers at which this server begins, so that servers do not all choose the
 * same ones. */
static int32_t first_of(const struct culm_gnn_server *server) {
    const int32_t before = gnn_server_peers_before(server, server->self.o.id);
    return (int32_t)((int64_t)before * server->workers.count / (server->peer_count + 1));
}

/* The worker that may have kept the activations that the current step needs, which saves it the
 * forward half of the work; NULL: there is none. */
static struct worker *keeper_of(const struct culm_gnn_server *server, int32_t interval) {
    const struct turn *turn = gnn_front(server, interval);
    const struct culm_gnn_step *step = &server->self.o.layout->step[turn->step];
    struct worker *worker = step->kept ? find(server, turn->keeper[step->stage]) : NULL;
    return worker && !worker->leaving ? worker : NULL;
}

/* The first one from `first` on, or from the beginning, that is in both sets; -1: none is. */
static int32_t first_in(const struct culm_set *set, const struct culm_set *other, int32_t first) {
    const int32_t found = culm_set_next_both(set, other, first);
    return found >= 0 ? found : culm_set_next_both(set, other, 0);
}

/* Chooses a worker for the interval's step; NULL: none just now. The step goes to its keeper if
 * that has room. Otherwise it goes to another worker only if that one would be idle; if all are
 * busy, it waits for its keeper. Idle workers are preferred even if they lack the constant input, since
 * that is sent only once. Otherwise, one that has the input is. */
static struct worker *choose(struct culm_gnn_server *server, int32_t interval) {
    struct worker *keeper = keeper_of(server, interval);
    if (keeper && keeper->room > 0) {
        return keeper;
    }
    if (!server->ranked && !rank(server)) {
        return NULL;
    }
    const struct culm_set *has_input = &server->interval[interval].warm;
    const struct culm_set *const sets[][2] = {{&server->idle, has_input},
                                              {&server->idle, &server->idle},
                                              {&server->working, has_input},
                                              {&server->working, &server->working}};
    const int32_t first = first_of(server);
    int32_t found = -1;
    for (int s = 0; s < (keeper ? 2 : 4) && found < 0; s++) {
        found = first_in(sets[s][0], sets[s][1], first);
    }
    return found >= 0 ? server->workers.thing[found] : NULL;
}

struct worker *gnn_server_idle(struct culm_gnn_server *server, const struct turn *turn,
                               int32_t interval) {
    if (!server->ranked && !rank(server)) {
        return NULL;
    }
    const struct culm_set *has_input = &server->interval[interval].warm;
    int32_t at = culm_set_next_both(&server->idle, has_input, 0);
    while (at >= 0 && server->workers.id[at] == turn->worker) {
        at = culm_set_next_both(&server->idle, has_input, at + 1);
    }
    return at >= 0 ? server->workers.thing[at] : NULL;
}

static void send_keyed(struct culm_gnn_server *server, int32_t to, enum culm_gnn_message_type type,
                       const struct culm_gnn_task_key *key, struct culm_blob *payload) {
    struct turn *turn = gnn_front(server, key->interval);
    if (payload) {
        turn->work.worker_bytes += (int64_t)payload->size_bytes;
    }
    culm_gnn_task_key_encode(key, culm_self_meta(&server->self.node));
    culm_gnn_send(&server->self, to, type, payload);
}

/* Sends a block of an interval's rows, all of which have the same length. */
static void send_block(struct culm_gnn_server *server, int32_t to, enum culm_gnn_message_type type,
                       const struct culm_gnn_part *part, struct culm_blob *rows) {
    const struct culm_gnn_layout *layout = server->self.o.layout;
    struct turn *turn = gnn_front(server, part->key.interval);
    int64_t n = culm_gnn_layout_rows(layout, part->key.interval), first;
    int64_t count = culm_gnn_layout_block(layout, n, part->blocks, part->block, &first);
    size_t row = rows->size_bytes / (size_t)n, at = (size_t)first * row;
    size_t bytes = part->blocks > 1 ? (size_t)count * row : rows->size_bytes;
    turn->work.worker_bytes += (int64_t)bytes;
    culm_gnn_part_encode(part, culm_self_meta(&server->self.node));
    culm_gnn_send_part(&server->self, to, type, rows, at, bytes);
}

bool gnn_server_hand_out(struct culm_gnn_server *server, int32_t index) {
    struct interval *interval = &server->interval[index];
    struct turn *turn = gnn_front(server, index);
    struct worker *worker = choose(server, index);
    if (!worker) {
        return false;
    }
    if (!culm_set_has(&worker->warm, index) && !interval->constant) {
        server->task = (struct culm_gnn_task){
            .kind = CULM_GNN_TASK_PACK, .interval = index, .epoch = turn->epoch};
        gnn_server_start(server);
        return false;
    }
    gnn_server_give(server, worker, index);
    turn->out = true;
    turn->worker = worker->node;
    turn->out_ns = server->self.o.world->ops->now_ns(server->self.o.world);
    return true;
}

void gnn_server_give(struct culm_gnn_server *server, struct worker *worker, int32_t index) {
    struct interval *interval = &server->interval[index];
    const struct turn *turn = gnn_front(server, index);
    const struct culm_gnn_step *step = &server->self.o.layout->step[turn->step];
    const struct culm_gnn_task_key key = {server->self.view.attempt, turn->epoch, turn->version,
                                          index, turn->step};
    if (!culm_set_has(&worker->warm, index)) {
        send_keyed(server, worker->node, CULM_GNN_MSG_PART_CONSTANT, &key, interval->constant);
        warm(server, worker, index, true);
        if (server->lean) {
            culm_blob_clear(&interval->constant); /* will be packed again for another worker */
        }
    }
    send_keyed(server, worker->node, CULM_GNN_MSG_TASK, &key, NULL);
    const struct culm_gnn_layout *layout = server->self.o.layout;
    int32_t blocks =
        culm_gnn_layout_blocks(layout, turn->step, culm_gnn_layout_rows(layout, index));
    for (int32_t b = 0; b < blocks; b++) {
        const struct culm_gnn_part part = {key, b, blocks};
        if (step->rows >= 0) {
            send_block(server, worker->node, CULM_GNN_MSG_PART_ROWS, &part,
                       turn->gathered[step->rows]);
        }
        if (step->d_rows >= 0) {
            send_block(server, worker->node, CULM_GNN_MSG_PART_D_ROWS, &part,
                       turn->gathered[step->d_rows]);
        }
    }
    worker->room--;
    worker->out++;
    regard(server, worker);
    server->worked_ns = server->self.o.world->ops->now_ns(server->self.o.world);
}

/* --- taking results --- */

/* The turn whose current step this is; NULL: it has been done, or is no longer wanted. */
static struct turn *wanted(struct culm_gnn_server *server, const struct culm_gnn_task_key *key) {
    struct turn *turn = gnn_front(server, key->interval);
    bool now = turn && key->attempt == server->self.view.attempt && key->epoch == turn->epoch &&
               key->version == turn->version && server->interval[key->interval].mine && turn->out &&
               turn->step == key->step;
    return now ? turn : NULL;
}

/* The worker has one task less. Of tasks that it never was given nothing is heard. */
static bool took_back(struct culm_gnn_server *server, struct worker *worker) {
    if (!worker || worker->out <= 0) {
        return false;
    }
    worker->room++;
    worker->out--;
    regard(server, worker);
    server->worked_ns = server->self.o.world->ops->now_ns(server->self.o.world);
    return true;
}

void gnn_server_given_back(struct culm_gnn_server *server, int32_t from,
                           const struct culm_message *message) {
    struct culm_gnn_task_key key;
    struct worker *worker = find(server, from);
    if (culm_gnn_task_key_decode(message->meta, message->meta_bytes, server->self.o.layout, &key) !=
            CULM_OK ||
        !took_back(server, worker)) {
        return;
    }
    if (message->type == CULM_GNN_MSG_LACKS) {
        CULM_MARK(interval_worker_lacks_its_input);
        warm(server, worker, key.interval, false);
    }
    struct turn *turn = wanted(server, &key);
    if (!turn) {
        return;
    }
    bool other = turn->second >= 0 || turn->here;
    if (message->type == CULM_GNN_MSG_DROPPED && turn->worker == from && !other) {
        CULM_MARK(interval_worker_drops_what_is_over);
        turn->worker = -1; /* the leader's word will come here, too: till then nobody gets it */
    } else {
        (void)give_up(turn, from); /* not counted as retried: it has not been begun */
    }
}

void gnn_server_share(struct culm_gnn_server *server, const struct culm_message *message) {
    struct culm_gnn_task_key key;
    const struct culm_gnn_layout *layout = server->self.o.layout;
    if (culm_gnn_task_key_decode(message->meta, message->meta_bytes, layout, &key) != CULM_OK ||
        !message->payload ||
        message->payload_bytes != layout->gradient_bytes[layout->step[key.step].stage]) {
        return;
    }
    struct turn *turn = wanted(server, &key);
    if (turn && !turn->share) {
        turn->share = culm_blob_ref(message->payload);
    }
}

static bool is_whole(const struct culm_gnn_server *server, const struct culm_gnn_result *result,
                     const struct turn *turn, const struct culm_message *message) {
    const struct culm_gnn_task_key *key = &result->key;
    const struct culm_gnn_layout *layout = server->self.o.layout;
    const struct culm_gnn_step *step = &layout->step[key->step];
    size_t rows = (size_t)(layout->first[key->interval + 1] - layout->first[key->interval]);
    size_t bytes = step->makes >= 0 ? rows * layout->gather[step->makes].row_bytes
                   : step->kind == CULM_GNN_SCORE && layout->scores
                       ? rows * sizeof(struct culm_gnn_scored)
                       : 0;
    bool shared = turn->share && turn->share->size_bytes == layout->gradient_bytes[step->stage];
    for (int p = 0; p < CULM_GNN_SPLITS; p++) {
        if (result->totals.correct[p] > (int64_t)rows) {
            return false;
        }
    }
    return message->payload_bytes == bytes && (!step->gradient || shared);
}

void gnn_server_result(struct culm_gnn_server *server, int32_t from,
                       const struct culm_message *message) {
    struct culm_gnn_result result;
    if (culm_gnn_result_decode(message->meta, message->meta_bytes, server->self.o.layout,
                               &result) != CULM_OK) {
        return;
    }
    (void)took_back(server, find(server, from));
    struct turn *turn = wanted(server, &result.key);
    if (!turn || !is_whole(server, &result, turn, message)) {
        return;
    }
    turn->work.worker_bytes += (int64_t)message->payload_bytes;
    if (turn->worker == from) {
        gnn_server_took(server, turn);
    }
    const struct culm_gnn_step *step = &server->self.o.layout->step[turn->step];
    if (step->kind == CULM_GNN_FORWARD) {
        turn->keeper[step->stage] = from;
    }
    struct culm_blob *share = turn->share;
    turn->share = NULL;
    gnn_server_stepped(server, turn, culm_gnn_payload(message), share, &result.totals);
}

/* A server: gives steps to workers, and takes their results. See server.h. */
#include "gnn/server_internal.h"

#include "gnn/roc.h"

#include <stdlib.h>

static struct worker *find(const struct culm_gnn_server *server, int32_t node) {
    struct worker *worker = server->workers;
    while (worker && worker->node != node) {
        worker = worker->next;
    }
    return worker;
}

bool culm_gnn_server_someone_works(const struct culm_gnn_server *server) {
    return server->workers != NULL;
}

void culm_gnn_server_worker_ready(struct culm_gnn_server *server, int32_t node,
                                  const struct culm_message *message) {
    struct culm_gnn_set warm;
    if (culm_gnn_warm_decode(message->meta, message->meta_bytes, server->self.o.layout, &warm) !=
        CULM_OK) {
        return;
    }
    struct worker *worker = find(server, node);
    if (culm_gnn_is_gone(&server->self, node)) {
        return; /* it has been removed; this message is late */
    }
    if (!worker) {
        worker = calloc(1, sizeof *worker);
        if (!worker) {
            culm_gnn_fail(&server->self, CULM_ERR_MEMORY, "out of memory");
            return;
        }
        struct worker **at = &server->workers; /* ordered by node */
        while (*at && (*at)->node < node) {
            at = &(*at)->next;
        }
        worker->node = node;
        worker->warm = warm;
        worker->next = *at;
        *at = worker;
    }
    worker->room++;
    server->worked_ns = server->self.o.world->ops->now_ns(server->self.o.world);
}

int32_t culm_gnn_server_room(const struct culm_gnn_server *server) {
    int32_t room = 0;
    for (const struct worker *worker = server->workers; worker; worker = worker->next) {
        room += worker->leaving ? 0 : worker->room;
    }
    return room;
}

/* It gets no more tasks. The answer follows everything that it has been sent, and says that all its
 * results so far have arrived. */
void culm_gnn_server_worker_leaving(struct culm_gnn_server *server, int32_t node) {
    struct worker *worker = find(server, node);
    if (worker) {
        worker->leaving = true;
    }
    culm_gnn_meta(&server->self);
    culm_gnn_send(&server->self, node, CULM_GNN_MSG_LEAVING, NULL);
}

/* The worker will not do the turn's current step. True: nobody else does it, so that it has to be
 * given out again. */
static bool give_up(struct turn *turn, int32_t node) {
    if (turn->second == node) {
        turn->second = -1;
    } else if (turn->worker == node && (turn->second >= 0 || turn->here)) {
        turn->worker = turn->second;
        turn->second = -1;
    } else if (turn->worker == node) {
        turn->worker = -1;
        turn->out = false;
        culm_blob_clear(&turn->share);
        return true;
    }
    return false;
}

/* Its tasks are given to others. */
void culm_gnn_server_worker_lost(struct culm_gnn_server *server, int32_t node) {
    for (struct worker **at = &server->workers; *at; at = &(*at)->next) {
        if ((*at)->node == node) {
            struct worker *gone = *at;
            *at = gone->next;
            free(gone);
            break;
        }
    }
    for (int32_t i = 0; i < server->self.o.layout->intervals; i++) {
        struct turn *turn = culm_gnn_front(server, i);
        if (!turn || !turn->out) {
            continue;
        }
        turn->work.retried += give_up(turn, node);
    }
}

/* --- giving out --- */

/* How suitable a worker is; -1: not at all. Idle workers are preferred even if they lack the
 * constant input, since that is sent only once. Otherwise, one that has the input is. */
static int32_t suits(const struct worker *worker, int32_t interval) {
    return worker->room <= 0 || worker->leaving
               ? -1
               : 2 * (worker->out == 0) + culm_gnn_set_has(&worker->warm, interval);
}

/* The position in the list of workers at which this server begins, so that servers do not all
 * choose the same ones. */
static int32_t first_of(const struct culm_gnn_server *server) {
    int32_t before = 0, workers = 0;
    for (int32_t p = 0; p < server->peer_count; p++) {
        before += server->peer[p].node < server->self.o.id;
    }
    for (const struct worker *worker = server->workers; worker; worker = worker->next) {
        workers++;
    }
    return before * workers / (server->peer_count + 1);
}

/* The worker that may have kept the activations that the current step needs, which saves it the
 * forward half of the work; NULL: there is none. */
static struct worker *keeper_of(const struct culm_gnn_server *server, int32_t interval) {
    const struct turn *turn = culm_gnn_front(server, interval);
    const struct culm_gnn_step *step = &server->self.o.layout->step[turn->step];
    struct worker *worker = step->kept ? find(server, turn->keeper[step->stage]) : NULL;
    return worker && !worker->leaving ? worker : NULL;
}

/* Chooses a worker for the interval's step; NULL: none just now. The step goes to its keeper if
 * that has room. Otherwise it goes to another worker only if that one would be idle; if all are
 * busy, it waits for its keeper. */
static struct worker *choose(const struct culm_gnn_server *server, int32_t interval) {
    struct worker *best = keeper_of(server, interval);
    int32_t most = -1, at = 0, first = first_of(server);
    bool behind = false, waits = best != NULL;
    if (best && best->room > 0) {
        return best;
    }
    best = NULL;
    for (struct worker *worker = server->workers; worker; worker = worker->next, at++) {
        int32_t suit = waits && worker->out > 0 ? -1 : suits(worker, interval);
        if (suit > most || (suit == most && suit >= 0 && at >= first && !behind)) {
            most = suit;
            best = worker;
            behind = at >= first;
        }
    }
    return best;
}

static void send_keyed(struct culm_gnn_server *server, int32_t to, enum culm_gnn_message_type type,
                       const struct culm_gnn_task_key *key, struct culm_blob *payload) {
    struct turn *turn = culm_gnn_front(server, key->interval);
    if (payload) {
        turn->work.worker_bytes += (int64_t)payload->size_bytes;
    }
    culm_gnn_task_key_encode(key, culm_gnn_meta(&server->self));
    culm_gnn_send(&server->self, to, type, payload);
}

/* Sends a block of an interval's rows, all of which have the same length. */
static void send_block(struct culm_gnn_server *server, int32_t to, enum culm_gnn_message_type type,
                       const struct culm_gnn_part *part, struct culm_blob *rows) {
    const struct culm_gnn_layout *layout = server->self.o.layout;
    struct turn *turn = culm_gnn_front(server, part->key.interval);
    int64_t n = culm_gnn_layout_rows(layout, part->key.interval), first;
    int64_t count = culm_gnn_layout_block(layout, n, part->blocks, part->block, &first);
    size_t row = rows->size_bytes / (size_t)n, at = (size_t)first * row;
    size_t bytes = part->blocks > 1 ? (size_t)count * row : rows->size_bytes;
    turn->work.worker_bytes += (int64_t)bytes;
    culm_gnn_part_encode(part, culm_gnn_meta(&server->self));
    culm_gnn_send_part(&server->self, to, type, rows, at, bytes);
}

bool culm_gnn_server_hand_out(struct culm_gnn_server *server, int32_t index) {
    struct interval *interval = &server->interval[index];
    struct turn *turn = culm_gnn_front(server, index);
    struct worker *worker = choose(server, index);
    if (!worker) {
        return false;
    }
    if (!culm_gnn_set_has(&worker->warm, index) && !interval->constant) {
        server->task = (struct culm_gnn_task){
            .kind = CULM_GNN_TASK_PACK, .interval = index, .epoch = turn->epoch};
        culm_gnn_server_start(server);
        return false;
    }
    culm_gnn_server_give(server, worker, index);
    turn->out = true;
    turn->worker = worker->node;
    turn->out_ns = server->self.o.world->ops->now_ns(server->self.o.world);
    return true;
}

void culm_gnn_server_give(struct culm_gnn_server *server, struct worker *worker, int32_t index) {
    struct interval *interval = &server->interval[index];
    const struct turn *turn = culm_gnn_front(server, index);
    const struct culm_gnn_step *step = &server->self.o.layout->step[turn->step];
    const struct culm_gnn_task_key key = {server->self.view.attempt, turn->epoch, turn->version,
                                          index, turn->step};
    if (!culm_gnn_set_has(&worker->warm, index)) {
        send_keyed(server, worker->node, CULM_GNN_MSG_PART_CONSTANT, &key, interval->constant);
        culm_gnn_set_add(&worker->warm, index);
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
    server->worked_ns = server->self.o.world->ops->now_ns(server->self.o.world);
}

/* --- taking results --- */

/* The turn whose current step this is; NULL: it has been done, or is no longer wanted. */
static struct turn *wanted(struct culm_gnn_server *server, const struct culm_gnn_task_key *key) {
    struct turn *turn = culm_gnn_front(server, key->interval);
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
    server->worked_ns = server->self.o.world->ops->now_ns(server->self.o.world);
    return true;
}

void culm_gnn_server_given_back(struct culm_gnn_server *server, int32_t from,
                                const struct culm_message *message) {
    struct culm_gnn_task_key key;
    struct worker *worker = find(server, from);
    if (culm_gnn_task_key_decode(message->meta, message->meta_bytes, server->self.o.layout, &key) !=
            CULM_OK ||
        !took_back(server, worker)) {
        return;
    }
    if (message->type == CULM_GNN_MSG_LACKS) {
        culm_gnn_set_remove(&worker->warm, key.interval);
    }
    struct turn *turn = wanted(server, &key);
    if (!turn) {
        return;
    }
    bool other = turn->second >= 0 || turn->here;
    if (message->type == CULM_GNN_MSG_DROPPED && turn->worker == from && !other) {
        turn->worker = -1; /* the leader's word will come here, too: till then nobody gets it */
    } else {
        (void)give_up(turn, from); /* not counted as retried: it has not been begun */
    }
}

void culm_gnn_server_share(struct culm_gnn_server *server, const struct culm_message *message) {
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

void culm_gnn_server_result(struct culm_gnn_server *server, int32_t from,
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
        culm_gnn_server_took(server, turn);
    }
    const struct culm_gnn_step *step = &server->self.o.layout->step[turn->step];
    if (step->kind == CULM_GNN_FORWARD) {
        turn->keeper[step->stage] = from;
    }
    struct culm_blob *share = turn->share;
    turn->share = NULL;
    culm_gnn_server_stepped(server, turn, culm_gnn_payload(message), share, &result.totals);
}

/* A server: allocates and frees what it keeps. See server.h. */
#include "interval/server_internal.h"

#include <stdlib.h>

void gnn_server_forget_sent(struct made *made) {
    for (int32_t s = 0; s < made->sent_count; s++) {
        culm_set_release(&made->sent[s].readers);
    }
    made->sent_count = 0;
}

void gnn_server_forget_turn(struct culm_gnn_server *server, struct turn *turn) {
    const struct culm_gnn_layout *layout = server->self.o.layout;
    for (int32_t q = 0; q < layout->gathers; q++) {
        culm_blob_clear(&turn->made[q].blob);
        gnn_server_forget_sent(&turn->made[q]);
        turn->made[q].next_peer = 0;
        turn->made[q].served = false;
        culm_blob_clear(&turn->gathered[q]);
    }
    for (int32_t s = 0; s < layout->stages; s++) {
        culm_blob_clear(&turn->gradient[s]);
        turn->keeper[s] = -1;
    }
    culm_blob_clear(&turn->share);
    culm_blob_clear(&turn->scores);
    culm_blob_clear(&turn->weights);
    turn->totals = (struct culm_gnn_totals){0};
    turn->work = (struct culm_gnn_work){0};
    turn->epoch = turn->step = turn->lacks = 0;
    turn->version = turn->worker = turn->second = -1;
    turn->out = turn->here = turn->told = false;
    turn->life = ++server->lives;
}

void gnn_server_release_task(struct culm_gnn_server *server) {
    struct culm_gnn_task *task = &server->task;
    for (int32_t i = 0; i < task->source_count; i++) {
        culm_blob_clear(&server->source[i].blob);
    }
    for (int32_t q = 0; task->made && q < server->self.o.layout->gathers; q++) {
        culm_blob_clear(&server->made[q]);
        culm_blob_clear(&server->gathered[q]);
    }
    culm_blob_clear(&task->input);
    culm_blob_clear(&task->rows);
    culm_blob_clear(&task->d_rows);
    culm_blob_clear(&task->weights);
    culm_blob_clear(&task->output);
    culm_blob_clear(&task->gradient);
    culm_set_release(&task->readers);
    task->source_count = 0;
    task->made = task->gathered = NULL;
}

void gnn_server_free_turns(struct culm_gnn_server *server, struct interval *interval) {
    const int32_t gathers = server->self.o.layout->gathers;
    for (int32_t w = 0; interval->turn && w < server->window; w++) {
        struct turn *turn = &interval->turn[w];
        if (turn->made && turn->gathered) {
            gnn_server_forget_turn(server, turn);
            for (int32_t q = 0; q < gathers; q++) {
                free(turn->made[q].sent);
            }
        }
        free(turn->made);
        free(turn->gathered);
    }
    for (int32_t q = 0; interval->constants && q < gathers; q++) {
        gnn_server_forget_sent(&interval->constants[q]);
        free(interval->constants[q].sent);
    }
    free(interval->constants);
    free(interval->turn);
    interval->constants = NULL;
    interval->turn = NULL;
    culm_set_release(&interval->warm);
}

static void free_intervals(struct culm_gnn_server *server) {
    for (int32_t i = 0; server->interval && i < server->self.o.layout->intervals; i++) {
        gnn_server_free_turns(server, &server->interval[i]);
        culm_blob_clear(&server->interval[i].constant);
    }
    free(server->interval);
}

static void free_sums(struct culm_gnn_server *server) {
    if (server->sums) {
        gnn_server_clear_sums(server, INT64_MAX);
    }
    for (int32_t w = 0; server->sums && w < server->window; w++) {
        for (int32_t s = 0; s < CULM_GNN_STAGES_MAX; s++) {
            culm_ids_release(&server->sums[w].sum[s]);
        }
    }
    free(server->sums);
    if (server->fold_slice) {
        culm_fold_clear(&server->tree, server->fold_slice);
    }
    free(server->fold_slice);
    culm_fold_tree_release(&server->tree);
}

static void free_ghosts(struct culm_gnn_server *server) {
    if (server->ghost) {
        gnn_server_forget_ghosts(server, INT64_MAX);
    }
    while (server->early) {
        struct ghost *ghost = server->early;
        server->early = ghost->next;
        culm_blob_unref(ghost->blob);
        culm_set_release(&ghost->key.readers);
        free(ghost);
    }
    free(server->ghost);
}

static void free_weights(struct culm_gnn_server *server) {
    for (int32_t w = 0; server->weights && w < server->window; w++) {
        culm_blob_clear(&server->weights[w]);
    }
    free(server->weights);
    free(server->have);
    free(server->asked);
}

void culm_gnn_server_free(struct culm_gnn_server *server) {
    if (!server) {
        return;
    }
    while (server->workers.count > 0) {
        gnn_server_worker_lost(server, server->workers.id[server->workers.count - 1]);
    }
    culm_ids_release(&server->workers);
    culm_set_release(&server->idle);
    culm_set_release(&server->working);
    gnn_server_release_task(server);
    free_intervals(server);
    free_ghosts(server);
    free_sums(server);
    free_weights(server);
    culm_gnn_holder_free(server->holder);
    free(server->own);
    for (int32_t p = 0; p < server->peer_count; p++) {
        culm_set_release(&server->peer[p].owns);
    }
    free(server->peer);
    free(server->cover);
    free(server->source);
    for (int32_t i = 0; server->readers && i < server->self.o.layout->intervals; i++) {
        culm_set_release(&server->readers[i]);
    }
    free(server->readers);
    free(server->took);
    free(server->made);
    free(server->gathered);
    culm_gnn_self_release(&server->self);
    free(server);
}

bool gnn_server_make_turns(struct culm_gnn_server *server, struct interval *interval) {
    size_t gathers = (size_t)server->self.o.layout->gathers + 1;
    interval->turn = calloc((size_t)server->window, sizeof *interval->turn);
    interval->constants = calloc(gathers, sizeof *interval->constants);
    bool there = interval->turn && interval->constants;
    for (int32_t w = 0; w < server->window && there; w++) {
        struct turn *turn = &interval->turn[w];
        turn->made = calloc(gathers, sizeof *turn->made);
        turn->gathered = calloc(gathers, sizeof(struct culm_blob *));
        there = turn->made && turn->gathered;
    }
    if (!there) {
        gnn_server_free_turns(server, interval);
    }
    return there;
}

static bool allocate(struct culm_gnn_server *server) {
    const struct culm_gnn_layout *layout = server->self.o.layout;
    size_t intervals = (size_t)layout->intervals, gathers = (size_t)layout->gathers + 1;
    server->holder = culm_gnn_holder_new(&server->self);
    server->interval = calloc(intervals, sizeof *server->interval);
    server->own = calloc(intervals, sizeof *server->own);
    server->peer = calloc(intervals, sizeof *server->peer);
    server->cover = calloc(intervals, sizeof *server->cover);
    server->source = calloc(intervals, sizeof *server->source);
    server->readers = calloc(intervals, sizeof *server->readers);
    server->ghost = calloc(intervals * gathers, sizeof(struct ghost *));
    server->made = calloc(gathers, sizeof(struct culm_blob *));
    server->gathered = calloc(gathers, sizeof(struct culm_blob *));
    server->sums = calloc((size_t)server->window, sizeof *server->sums);
    server->weights = calloc((size_t)server->window, sizeof(struct culm_blob *));
    server->have = calloc((size_t)server->window, sizeof *server->have);
    server->asked = calloc((size_t)server->window, sizeof *server->asked);
    server->took = calloc((size_t)layout->steps, sizeof *server->took);
    if (!server->holder || !server->interval || !server->own || !server->peer || !server->cover ||
        !server->source || !server->readers || !server->ghost || !server->made ||
        !server->gathered || !server->sums || !server->weights || !server->have || !server->asked ||
        !server->took || !culm_fold_tree_init(&server->tree, layout->intervals)) {
        return false;
    }
    server->fold_slice = calloc((size_t)server->tree.count, sizeof *server->fold_slice);
    return server->fold_slice != NULL;
}

struct culm_gnn_server *culm_gnn_server_new(const struct culm_gnn_server_options *options) {
    struct culm_gnn_server *server = calloc(1, sizeof *server);
    if (!server) {
        return NULL;
    }
    culm_gnn_self_init(&server->self, &options->node);
    server->waits = options->workers;
    server->once = options->once;
    server->lean = options->lean;
    server->window = culm_gnn_pace_window(&options->node.pace);
    if (!allocate(server)) {
        culm_gnn_server_free(server);
        return NULL;
    }
    return server;
}

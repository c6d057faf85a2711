/* Histories of graph networks: played, and judged. See gnn_history.h. */
#include "gnn_history.h"

#include "base/rng.h"
#include "shrink.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS 1000000ull
#define NODES 64         /* alive at once */
#define LEAVING_BELOW 24 /* ids of workers that leave by themselves, in some histories */
#define WAIT_MS 60000
#define LIMIT_MS 300000
#define SLOW_NS (30 * MS)  /* that each job of a slow node takes longer */
#define COLD_NS (200 * MS) /* a start that takes longer than most epochs */

#define STOP_MS 20000 /* from a stop to the end of the run */
#define SETTLED_MS 50 /* after a checkpoint that came to nothing, the next one may be tried */
#define RESUMES_MAX 4

static void wrong(struct gnn_history *h, const char *what) {
    if (!h->wrong[0]) {
        snprintf(h->wrong, sizeof h->wrong, "%s", what);
    }
}

/* --- actors --- */

static void *make_worker(void *context, int32_t id, struct culm_world *world,
                         struct culm_blob_pool *pool) {
    struct gnn_history *h = context;
    uint64_t dice = culm_rng_mix(h->seed, 100 + (uint64_t)id);
    h->cast.worker = (struct culm_gnn_worker_options){0};
    if (gnn_history_leaves(h) && id < LEAVING_BELOW) {
        h->cast.worker.stay_ms = 1 + (int64_t)culm_rng_below(&dice, 200);
        h->cast.worker.part_ms = h->seed % 2 ? 1 : 5000;
    }
    if (gnn_history_has_little_room(h)) { /* for one or two constant inputs */
        h->cast.worker.keep_bytes = (size_t)(1 + culm_rng_below(&dice, 2)) * sizeof(uint64_t);
    }
    return gnn_cast_worker(context, id, world, pool);
}

static void end_node(void *context, int32_t id, void *actor) {
    struct gnn_history *h = context;
    for (int age = 0; age <= CULM_GNN_STALENESS_MAX && h->cast.exec[id]; age++) {
        h->ages[age] += culm_gnn_symbolic_ages(h->cast.exec[id])[age];
    }
    gnn_cast_end(context, id, actor);
}

/* --- what is said, and what befalls --- */

/* Steps that one server can have done beyond what is committed. */
static int64_t most_redone(const struct gnn_history *h) {
    return (int64_t)h->cast.layout.intervals * h->cast.layout.steps *
           culm_gnn_pace_window(&h->shape.pace);
}

static void count_nodes(struct gnn_history *h, const char *name, const json_t *event) {
    const char *role = json_string_value(json_object_get(event, "role"));
    const int change = (strcmp(name, "joined") == 0) - (strcmp(name, "lost") == 0);
    const int32_t node = (int32_t)json_integer_value(json_object_get(event, "node"));
    const bool here = !culm_sim_is_newcomer(h->sim, node);
    for (uint32_t r = 0; r < CULM_GNN_ROLES && role; r++) {
        if (strcmp(role, culm_gnn_role_name(r)) == 0) {
            h->alive[r] += change;
            h->could_save += r != CULM_GNN_WORKER && here ? change : 0;
            h->servers_here += r == CULM_GNN_SERVER && here ? change : 0;
        }
    }
}

static void kill_all(struct gnn_history *h) {
    const int32_t *count = h->shape.count;
    int32_t first = h->die == GNN_PARAMETERS_DIE ? count[CULM_GNN_SERVER] : 0;
    int32_t nodes =
        count[CULM_GNN_SERVER] + (h->die == GNN_SERVERS_DIE ? 0 : count[CULM_GNN_PARAMETER]);
    h->all_in = 0;
    h->all_died = true;
    for (int32_t node = first; node < nodes; node++) {
        if (culm_sim_worker(h->sim, node)) {
            culm_sim_kill(h->sim, node);
        }
    }
}

/* Whether more befalls it than faults and naps. */
static bool is_drawn(const struct gnn_history *h) {
    return h->start_fail_percent > 0 || h->stop_ns > 0 || h->newcomer_count > 0 ||
           h->trouble_count > 0 || h->damages || h->pinch_count > 0 || h->leader_nap_count > 0 ||
           h->leave_count > 0 || h->large != GNN_SMALL;
}

/* --- checkpoints --- */

static struct gnn_saved_file *saved_file(struct gnn_history *h, const char *path) {
    for (int32_t f = 0; f < h->saved_count; f++) {
        if (strcmp(h->saved[f].path, path) == 0) {
            return &h->saved[f];
        }
    }
    return NULL;
}

/* One was published. Its name is that of its content: one that is written again, after a roll-back, is whole. */
static void note_saved(struct gnn_history *h, int64_t version, const char *path) {
    struct gnn_saved_file *file = saved_file(h, path);
    bool first = !file;
    if (first && h->saved_count == GNN_SAVED) {
        wrong(h, "more checkpoints than a history has room for");
        return;
    }
    file = first ? &h->saved[h->saved_count++] : file;
    *file = (struct gnn_saved_file){
        .version = version,
        .damaged = h->damages && first && culm_rng_mix(h->seed, 420 + (uint64_t)version) % 3 == 0};
    snprintf(file->path, sizeof file->path, "%s", path);
}

/* A roll-back removes newer ones. */
static void note_rollback(struct gnn_history *h, int64_t to) {
    int32_t left = 0;
    for (int32_t f = 0; f < h->saved_count; f++) {
        if (h->saved[f].version <= to) {
            h->saved[left++] = h->saved[f];
        }
    }
    h->saved_count = left;
    for (int64_t version = to + 1; version < GNN_SAVED; version++) {
        h->said[version] = false;
        h->tried_ns[version] = 0;
    }
}

/* Whether the checkpoint that was due was written, or said to be given up: with that version, or the next one where
 * nothing was in the way. In the way are that nobody is there to write it, and a try that came to nothing, until a
 * moment after that. */
static bool something_came_of(const struct gnn_history *h, int64_t due) {
    uint64_t settled_ns = 0;
    for (int64_t version = due; version <= h->epoch && version < GNN_SAVED; version++) {
        if (h->said[version]) {
            return true;
        }
        if (h->tried_ns[version] > 0) {
            settled_ns = h->tried_ns[version] + SETTLED_MS * MS;
        } else if (!h->unsaveable[version] && h->committed_ns[version] >= settled_ns) {
            return false;
        }
    }
    return true; /* what is last is asked for elsewhere */
}

static void judge_due(struct gnn_history *h) {
    const int64_t every = h->shape.checkpoint_every;
    for (int64_t due = every; every > 0 && due <= h->epoch && due < GNN_SAVED; due += every) {
        h->due += due > h->start_version;
        if (due > h->start_version && !something_came_of(h, due)) {
            char text[120];
            snprintf(text, sizeof text,
                     "a checkpoint was due at epoch %lld, and nothing came of it", (long long)due);
            wrong(h, text);
        }
    }
}

/* --- what is published --- */

static void on_event(void *context, json_t *event) {
    struct gnn_history *h = context;
    const char *name = json_string_value(json_object_get(event, "event"));
    count_nodes(h, name, event);
    if (h->log) {
        char *text = json_dumps(event, JSON_COMPACT);
        printf("# %s\n", text);
        free(text);
    }
    if (strcmp(name, "epoch") == 0) {
        int64_t epoch = json_integer_value(json_object_get(event, "epoch"));
        if (epoch != h->epoch + 1) {
            wrong(h, "an epoch was told twice or not at all");
        }
        h->epoch = epoch;
        h->committed_ns[epoch] = culm_sim_now(h->sim);
        h->unsaveable[epoch] = h->savers == 0;
        if (h->commits++ == 0 && h->start_fail_percent > 0) {
            culm_sim_starts_fail(h->sim, h->start_fail_later);
        }
        if (epoch == h->all_in) {
            kill_all(h);
        }
        /* Workers that have the time to leave as they should leave nothing undone. */
        if (h->fault_count == 0 && !h->all_died && h->seed % 4 == 0 && !is_drawn(h) &&
            json_integer_value(json_object_get(event, "retried")) > 0) {
            wrong(h, "a task was done again although no worker was lost");
        }
    } else if (strcmp(name, "rollback") == 0) {
        h->rollbacks++;
        h->epoch = json_integer_value(json_object_get(event, "to_epoch"));
        note_rollback(h, h->epoch);
    } else if (strcmp(name, "done") == 0) {
        snprintf(h->state, sizeof h->state, "%s",
                 json_string_value(json_object_get(event, "state_sha256")));
    }
    if (strcmp(name, "joined") == 0 && h->seed % 2) { /* it hears of others before the leader */
        culm_sim_slow(h->sim, -1, (int32_t)json_integer_value(json_object_get(event, "node")), 300,
                      100 * MS);
    }
    if (strcmp(name, "view") == 0) {
        const json_t *holders = json_object_get(event, "holders");
        h->holders = (int32_t)json_array_size(holders);
        h->savers = 0;
        for (size_t n = 0; n < json_array_size(holders); n++) {
            const json_int_t node = json_integer_value(json_array_get(holders, n));
            h->savers += !culm_sim_is_newcomer(h->sim, (int32_t)node);
        }
    }
    h->tunes += strcmp(name, "tune") == 0 && h->epoch > 0; /* workers come or go */
    if (strcmp(name, "lost") == 0) {
        const char *cause = json_string_value(json_object_get(event, "cause"));
        h->lost++;
        h->left += strcmp(cause, "left") == 0;
        h->stuck += strcmp(cause, "stuck") == 0;
        h->stalled += strcmp(cause, "stalled") == 0;
    }
    if (strcmp(name, "view") == 0) {
        const char *reason = json_string_value(json_object_get(event, "reason"));
        h->late += strcmp(reason, "copies took longer than cluster.join_ms") == 0;
    }
    if (strcmp(name, "recovered") == 0) {
        int64_t node = json_integer_value(json_object_get(event, "node"));
        if (node < 0 || node >= GNN_NODES_EVER || h->made_up[node] ||
            json_real_value(json_object_get(event, "pause_ms")) < 0 ||
            json_integer_value(json_object_get(event, "redone_tasks")) < 0 ||
            json_integer_value(json_object_get(event, "redone_tasks")) > most_redone(h)) {
            wrong(h,
                  "a loss was made up for twice, before it was, or by more than there was to do");
        } else {
            h->made_up[node] = true;
            h->recovered++;
        }
    }
    h->released += strcmp(name, "released") == 0;
    if (strcmp(name, "checkpoint") == 0) {
        bool ok = json_is_true(json_object_get(event, "ok"));
        int64_t version = json_integer_value(json_object_get(event, "epoch"));
        h->checkpoints += ok;
        h->unsaved += !ok;
        const char *why = json_string_value(json_object_get(event, "message"));
        const bool again = !ok && why && strstr(why, "was lost while it wrote it");
        h->tried_ns[version] = again ? culm_sim_now(h->sim) : h->tried_ns[version];
        h->said[version] |= !again;
        if (ok) {
            note_saved(h, version, json_string_value(json_object_get(event, "path")));
        }
    }
    h->held |= strcmp(name, "held") == 0;
    if (strcmp(name, "joined") == 0) {
        h->came += culm_sim_is_newcomer(
            h->sim, (int32_t)json_integer_value(json_object_get(event, "node")));
    }
}

static void fire(struct gnn_history *h, struct gnn_fault *fault, int32_t node) {
    fault->fired = true;
    fault->node = node;
    switch (fault->kind) {
    case GNN_KILL: culm_sim_kill(h->sim, node); break;
    case GNN_FREEZE: culm_sim_freeze(h->sim, node, CULM_NEVER); break;
    case GNN_FLIP: culm_gnn_symbolic_flip(h->cast.exec[node]); break; /* nothing, but of a holder */
    case GNN_SLOW: culm_sim_slow(h->sim, -1, node, 300, 500 * MS); break; /* the leader's word */
    case GNN_STICK: culm_sim_stick(h->sim, node); break;
    case GNN_DROP:
        if (fault->backwards) {
            culm_sim_drop(h->sim, fault->other, node, CULM_NEVER);
        } else {
            culm_sim_drop(h->sim, node, fault->other, CULM_NEVER);
        }
        break;
    default: culm_sim_cut(h->sim, node, fault->other); break;
    }
}

static uint64_t cost(void *context, int32_t node, const struct culm_job *job) {
    const struct gnn_history *h = context;
    const int kind = ((const struct culm_gnn_task *)job)->kind;
    const bool copies = kind == CULM_GNN_TASK_EXPORT || kind == CULM_GNN_TASK_IMPORT;
    return (node == h->slow ? SLOW_NS : 0) + (copies ? h->copy_ns : 0);
}

/* In four histories of seven: a third of the starts takes up to 400 ms more, and some of the rest up to three
 * seconds, which is longer than it takes to put a node out. */
static uint64_t cold(void *context, int32_t node) {
    struct gnn_history *h = context;
    uint64_t dice = culm_rng_mix(h->seed, 200 + (uint64_t)node), later = 0;
    if (gnn_history_is_cold(h) && culm_rng_below(&dice, 3) == 0) {
        later = culm_rng_below(&dice, 400 * MS);
    } else if (gnn_history_is_cold(h) && culm_rng_below(&dice, 5) == 0) {
        later = culm_rng_below(&dice, 3000 * MS);
    }
    h->cold += later > COLD_NS;
    return later;
}

static void on_point(void *context, int32_t node, const struct culm_fault_point *point) {
    struct gnn_history *h = context;
    for (int32_t f = 0; f < h->fault_count; f++) {
        struct gnn_fault *fault = &h->fault[f];
        if (!fault->fired && fault->at_phase && node >= 0 && h->cast.role[node] == fault->role &&
            point->phase == fault->phase && fault->after-- == 0) {
            fire(h, fault, node);
        }
    }
}

static bool is_of(struct gnn_history *h, const struct gnn_trouble *trouble, int32_t node) {
    switch (trouble->of) {
    case GNN_OF_WORKERS: return node >= 0 && h->cast.role[node] == CULM_GNN_WORKER;
    case GNN_OF_NEWCOMERS: return culm_sim_is_newcomer(h->sim, node);
    default: return true;
    }
}

/* What a task fails with. */
static enum culm_status refuse(void *context, int32_t node, const struct culm_gnn_task *task) {
    struct gnn_history *h = context;
    if (task->kind == CULM_GNN_TASK_ROOM && task->version < GNN_SAVED) {
        h->tried_ns[task->version] = culm_sim_now(h->sim);
    }
    if (task->kind == CULM_GNN_TASK_PUBLISH && task->version < GNN_SAVED) {
        h->verdict[task->version] = task->verdict;
    }
    if (task->kind == CULM_GNN_TASK_LOAD && task->source_path[0]) {
        const struct gnn_saved_file *file = saved_file(h, task->source_path);
        if (culm_sim_is_newcomer(h->sim, node)) {
            wrong(h, "a node from elsewhere was told to load what it cannot read");
            return CULM_ERR_NOT_FOUND;
        }
        if (file && file->damaged) {
            h->unloaded++;
            return CULM_ERR_FORMAT;
        }
    }
    bool looks = node == CULM_LEADER && task->kind == CULM_GNN_TASK_LOAD; /* whether it is whole */
    for (int32_t t = 0; t < h->trouble_count && !looks; t++) {
        struct gnn_trouble *trouble = &h->trouble[t];
        if (trouble->kind == task->kind && is_of(h, trouble, node) &&
            trouble->met++ >= trouble->after &&
            (trouble->times == 0 || trouble->failed < trouble->times)) {
            trouble->failed++;
            trouble->counts += node < 0 || h->cast.role[node] != CULM_GNN_WORKER;
            trouble->of_its_own |= node >= 0 && !culm_sim_is_newcomer(h->sim, node) &&
                                   h->cast.role[node] != CULM_GNN_WORKER;
            h->refused++;
            return trouble->status;
        }
    }
    return CULM_OK;
}

static void fire_draws(struct gnn_history *h) {
    uint64_t now = culm_sim_now(h->sim);
    for (int32_t n = 0; n < h->newcomer_count; n++) {
        struct gnn_newcomer *newcomer = &h->newcomer[n];
        if (!newcomer->came && now >= newcomer->time_ns) {
            newcomer->came = true;
            (void)culm_sim_come(h->sim, newcomer->role, newcomer->pool_bytes);
        }
    }
    for (int32_t p = 0; p < h->pinch_count; p++) {
        struct gnn_pinch *pinch = &h->pinch[p];
        if (!pinch->fired && now >= pinch->time_ns && culm_sim_worker(h->sim, pinch->node)) {
            pinch->fired = true;
            culm_blob_pool_fail(culm_sim_pool(h->sim, pinch->node), pinch->after);
        }
    }
    for (int32_t n = 0; n < h->leader_nap_count; n++) {
        struct gnn_nap *nap = &h->leader_nap[n];
        if (!nap->fired && now >= nap->time_ns) {
            nap->fired = true;
            h->leader_naps++;
            h->awake_ns = now + nap->for_ns > h->awake_ns ? now + nap->for_ns : h->awake_ns;
            culm_sim_freeze(h->sim, nap->node, nap->for_ns);
        }
    }
    for (int32_t n = 0; n < h->leave_count; n++) {
        struct gnn_nap *leave = &h->leave[n];
        if (!leave->fired && now >= leave->time_ns && culm_sim_worker(h->sim, leave->node)) {
            leave->fired = true;
            culm_sim_leave(h->sim, leave->node, leave->for_ns / MS);
        }
    }
    if (h->stop_ns && !h->stopped && now >= h->stop_ns) {
        h->stopped = true;
        h->stops++;
        culm_sim_stop(h->sim);
    }
}

static void fire_by_time(struct gnn_history *h) {
    for (int32_t f = 0; f < h->fault_count; f++) {
        struct gnn_fault *fault = &h->fault[f];
        if (!fault->fired && !fault->at_phase && culm_sim_now(h->sim) >= fault->time_ns) {
            fault->fired = true;
            if (culm_sim_worker(h->sim, fault->node)) {
                fire(h, fault, fault->node);
            }
        }
    }
    for (int32_t n = 0; n < h->nap_count; n++) {
        struct gnn_nap *nap = &h->nap[n];
        if (!nap->fired && culm_sim_now(h->sim) >= nap->time_ns &&
            culm_sim_worker(h->sim, nap->node)) {
            nap->fired = true;
            culm_sim_freeze(h->sim, nap->node, nap->for_ns);
        }
    }
}

/* --- the oracle --- */

/* The newest checkpoint that is there; of those that are whole, if `whole`; NULL: there is none. */
static const struct gnn_saved_file *newest(const struct gnn_history *h, bool whole) {
    const struct gnn_saved_file *found = NULL;
    for (int32_t f = 0; f < h->saved_count; f++) {
        if (!(whole && h->saved[f].damaged) && (!found || h->saved[f].version > found->version)) {
            found = &h->saved[f];
        }
    }
    return found;
}

/* Whether what befell it accounts for such an end. */
static bool accounts_for(const struct gnn_history *h, int code, const char *error) {
    /* What is held because the run is done is given up at a stop. */
    if (code == culm_status_exit_code(CULM_ERR_STOPPED)) {
        return h->stopped;
    }
    if (h->held && h->stopped && code == culm_status_exit_code(CULM_ERR_IO) &&
        strstr(error, "last checkpoint could not be written")) {
        return true;
    }
    if (h->start_fail_percent > 0 &&
        ((h->commits == 0 && strstr(error, " can start: ")) || strncmp(error, "waited ", 7) == 0)) {
        return true;
    }
    /* Where it is refused on two machines, it is as if there were too little everywhere. */
    if (code == culm_status_exit_code(CULM_ERR_MEMORY) && strstr(error, "out of memory") &&
        h->pinched > 0 && h->came > 0) {
        return true;
    }
    /* The same, where only servers from there are left. */
    int32_t small = 0;
    for (int32_t n = 0; n < h->newcomer_count; n++) {
        small += h->newcomer[n].came && h->newcomer[n].role == CULM_GNN_SERVER &&
                 h->newcomer[n].pool_bytes > 0;
    }
    if (code == culm_status_exit_code(CULM_ERR_MEMORY) && strstr(error, "out of memory") &&
        h->shape.replace_ms < 0 && h->servers_here == 0 && small >= 3) {
        return true;
    }
    /* Three that fail alike, of whatever kind. A worker that fails ends no run. */
    int64_t alike = 0;
    for (int32_t t = 0; t < h->trouble_count; t++) {
        alike += code == culm_status_exit_code(h->trouble[t].status) ? h->trouble[t].counts : 0;
    }
    if (alike >= 3 && strstr(error, "as it was drawn")) {
        return true;
    }
    /* Of what fails everywhere, or is changed here. */
    for (int32_t t = 0; t < h->trouble_count; t++) {
        const struct gnn_trouble *trouble = &h->trouble[t];
        bool changed = trouble->status == CULM_ERR_CHANGED && trouble->of_its_own;
        if (((trouble->of == GNN_OF_ANYONE && trouble->times == 0 && trouble->counts > 0) ||
             changed) &&
            code == culm_status_exit_code(trouble->status) && strstr(error, "as it was drawn")) {
            return true;
        }
    }
    return false;
}

/* It was stopped, and has ended. */
static void judge_stop(struct gnn_history *h, int code, const char *error) {
    char text[160];
    uint64_t heard = h->stop_ns > h->awake_ns ? h->stop_ns : h->awake_ns,
             now = culm_sim_now(h->sim);
    uint64_t took = now > heard ? now - heard : 0;
    h->stop_took_ns = took > h->stop_took_ns ? took : h->stop_took_ns;
    if (took > STOP_MS * MS && !h->held) { /* else it waits for room, and says so */
        snprintf(text, sizeof text, "a stop took %llu ms", (unsigned long long)(took / MS));
        wrong(h, text);
    }
    const struct gnn_saved_file *file = newest(h, false);
    int64_t saved = file ? file->version : h->start_version;
    /* Nobody has it who can save; or who has it is a version ahead, and no server is left with which that could be committed, nor
     * comes. */
    const bool lost =
        strstr(error, "stopped while it waited") &&
        (h->savers == 0 || (h->shape.replace_ms < 0 && h->alive[CULM_GNN_SERVER] == 0));
    if (code == culm_status_exit_code(CULM_ERR_STOPPED) && !h->held && !lost && saved != h->epoch) {
        snprintf(text, sizeof text, "stopped after epoch %lld, with a checkpoint of %lld",
                 (long long)h->epoch, (long long)saved);
        wrong(h, text);
    }
}

/* Whether nobody is left who could go on. Without a parameter server nothing begins, but what has begun goes on as
 * long as a server has the run directory. */
static bool too_few(const struct gnn_history *h) {
    return h->alive[CULM_GNN_SERVER] == 0 || h->could_save == 0 ||
           (h->alive[CULM_GNN_PARAMETER] == 0 && h->holders == 0);
}

static void judge_end(struct gnn_history *h) {
    int code = -1;
    const char *error = NULL;
    bool left = culm_sim_left(h->sim, &code, &error);
    error = error ? error : "";
    if (!left) {
        wrong(h, "never ended");
    } else if (code != 0 && h->shape.replace_ms < 0 && too_few(h)) {
        h->too_few = true;
    } else if (code != 0 && accounts_for(h, code, error)) {
        h->honest = true;
    } else if (code != 0) {
        wrong(h, error[0] ? error : "ended with an error");
    }
    if (left && h->stopped && !h->resumed) {
        judge_stop(h, code, error);
    }
    bool stopped = code == culm_status_exit_code(CULM_ERR_STOPPED);
    h->again = left && h->honest && h->stopped && (stopped || h->held);
    if (left && (code == 0 || (stopped && h->holders > 0)) && h->draws >> GNN_DRAW_DUE & 1) {
        judge_due(h);
    }
    if (h->calm && h->leave_count > 0 && (h->lost > h->left || h->rollbacks > 0)) {
        wrong(h, "there were losses or roll-backs, and all that happened is that nodes left");
    }
    h->took_ns += culm_sim_now(h->sim) - 1000 * MS;
}

/* When it must have ended. A slow node may come to be the only worker, and is given all that there is to do. */
static uint64_t limit_ns(const struct gnn_history *h) {
    const struct culm_gnn_layout *layout = &h->cast.layout;
    const uint64_t limit = (h->large == GNN_SMALL ? LIMIT_MS : 10 * LIMIT_MS) * MS;
    uint64_t jobs = 0; /* of an epoch */
    for (int32_t i = 0; i < layout->intervals; i++) {
        for (int32_t s = 0; s < layout->steps; s++) {
            jobs += (uint64_t)culm_gnn_layout_blocks(layout, s, culm_gnn_layout_rows(layout, i));
        }
    }
    return limit + (h->slow < 0 ? 0 : (uint64_t)h->shape.pace.epochs * jobs * SLOW_NS);
}

static void play(struct gnn_history *h, uint64_t seed, bool rough) {
    uint64_t dice = culm_rng_mix(seed, 5);
    struct culm_sim_options options = {
        .seed = seed,
        .latency_ns = 100000,
        .jitter_ns = culm_rng_below(&dice, 2) ? 3 * MS : 0,
        .piece_bytes = rough && culm_rng_below(&dice, 4) == 0 ? 60 : 0,
        .short_percent = rough ? (uint32_t)culm_rng_below(&dice, 30) : 0,
        .exit_ns = 5 * MS,
        .job_ns = 2 * MS,
        .io_ns = 10 * MS,
        .spawn_ns = 30 * MS,
        .spawn_max = NODES,
        .start_fail_percent = h->start_fail_percent,
        .event = on_event,
        .event_context = h,
        .fault = on_point,
        .cost = cost,
        .cold = cold,
        .log = h->log && getenv("SIM_LOG"),
    };
    h->cast.pace = h->shape.pace;
    h->cast.seed = h->seed;
    h->cast.beat_ms = 100;
    h->cast.refuse = refuse;
    h->cast.server = (struct culm_gnn_server_options){
        .workers = h->shape.count[CULM_GNN_WORKER] > 0,
        .once = h->seed % 4 == 0,
        .lean = h->seed % 3 == 0,
    };
    gnn_cast_roles(&h->cast, &options);
    for (int32_t r = 0; r < CULM_GNN_ROLES; r++) {
        options.role[r].destroy = end_node;
    }
    options.role[CULM_GNN_WORKER].make = make_worker;
    h->sim = culm_sim_new(&options);
    h->leader_exec = culm_gnn_symbolic_new(&h->cast.layout, &h->shape.pace, h->seed, NULL);
    culm_gnn_symbolic_trouble(h->leader_exec, h->cast.refuse, h, CULM_LEADER);
    const struct gnn_saved_file *from = h->resumed ? newest(h, true) : NULL;
    struct culm_gnn_leader_options leader = {
        .world = culm_sim_leader_world(h->sim),
        .agent = culm_sim_agent(h->sim),
        .exec = h->leader_exec,
        .layout = &h->cast.layout,
        .settings = {.pace = h->shape.pace,
                     .checkpoint_every = h->shape.checkpoint_every,
                     .crew = {.heartbeat_ms = 100,
                              .suspect_ms = 1000,
                              .kill_suspect_ms = h->seed % 3 ? 400 : 0,
                              .replace_ms = h->shape.replace_ms,
                              .wait_ms = h->shape.replace_ms ? WAIT_MS : 0,
                              .stuck_ms = 300,
                              .join_ms = h->join_ms ? h->join_ms : 10000,
                              .max_nodes = CULM_GNN_NODES_MAX}},
        .home = h->home,
        .rows = {10, 10, 10},
        .start_path = from ? from->path : "",
        .start_version = h->start_version,
    };
    if (from) {
        leader.start_verdict = h->verdict[from->version];
        (void)culm_gnn_symbolic_resume(h->leader_exec, from->path, 0, &leader.start_verdict);
    }
    leader.settings.newcomers = h->newcomer_count > 0;
    memcpy(leader.settings.count, h->shape.count, sizeof h->shape.count);
    leader.settings.stop = h->shape.stop;
    leader.settings.tunes = h->shape.tunes;
    leader.settings.tune = (struct culm_gnn_tune_options){
        .goal = h->shape.goal,
        .first = h->shape.count[CULM_GNN_WORKER],
        .most = h->shape.count[CULM_GNN_WORKER] > 6 ? h->shape.count[CULM_GNN_WORKER] : 6,
        .samples = 1,
        .usd_per_s = 1,
        .worker_usd_per_s = 0.1};
    h->leader = culm_gnn_leader_new(&leader);
    culm_sim_leader(h->sim, h->leader);
    const uint64_t limit = limit_ns(h);
    while (culm_sim_step(h->sim) && culm_sim_now(h->sim) < limit) {
        fire_by_time(h);
        fire_draws(h);
    }
    struct culm_sim_totals totals;
    culm_sim_totals_of(h->sim, &totals);
    h->unstarted += totals.unstarted;
    h->pinched += totals.memory;
    judge_end(h);
    culm_gnn_leader_free(h->leader);
    if (culm_sim_free(h->sim) != 0) {
        wrong(h, "blobs are left");
    }
    culm_gnn_symbolic_free(h->leader_exec);
}

/* What the same comes to with one of each role, undisturbed. */
static void reference(const struct gnn_history *of, uint64_t seed, char ret_state[80],
                      int64_t *ret_epochs) {
    struct gnn_history h = {.slow = -1,
                            .cast = {.layout = of->cast.layout},
                            .shape = of->shape,
                            .seed = of->seed,
                            .events = EVERY_EVENT};
    h.shape.count[CULM_GNN_SERVER] = h.shape.count[CULM_GNN_PARAMETER] = 1;
    h.shape.count[CULM_GNN_WORKER] = 0;
    h.shape.tunes = false;
    h.shape.replace_ms = 0;
    h.shape.pace = (struct culm_gnn_pace){
        .epochs = of->shape.pace.epochs,
        .eval_every = of->shape.stop.patience ? of->shape.pace.eval_every : 0};
    play(&h, seed, false);
    memcpy(ret_state, h.state, sizeof h.state);
    *ret_epochs = h.epoch;
    if (h.wrong[0] || h.lost || h.rollbacks) {
        snprintf(ret_state, 80, "no reference: %.60s", h.wrong);
    }
}

/* What is needed for the next start of a run that was stopped: perhaps with other servers. */
static void resume(struct gnn_history *h) {
    const struct gnn_saved_file *file = newest(h, true);
    int32_t intervals = h->cast.layout.intervals;
    int32_t servers =
        1 + (h->shape.count[CULM_GNN_SERVER] + h->more_servers) % (intervals < 4 ? intervals : 4);
    h->start_version = h->epoch = file ? file->version : 0;
    note_rollback(h, h->epoch);
    memset(h->alive, 0, sizeof h->alive);
    h->could_save = h->servers_here = h->holders = h->savers = 0;
    memset(h->made_up, 0, sizeof h->made_up);
    h->honest = h->held = false;
    h->commits = 0;
    h->shape.count[CULM_GNN_SERVER] = servers;
    for (int32_t i = 0; i < intervals; i++) {
        h->home[i] = i * servers / intervals;
    }
    h->resumed = true;
    h->resumes++;
}

/* Plays it, and the undisturbed one, and judges it. Releases the layout. */
void gnn_history_play(struct gnn_history *h, char ret_expected[80]) {
    int64_t epochs;
    reference(h, h->seed, ret_expected, &epochs);
    bool rough = gnn_history_befalls(h, GNN_EVENT_ROUGH_STREAMS);
    play(h, h->seed, rough);
    while (h->again && !h->wrong[0] && h->resumes < RESUMES_MAX) {
        resume(h);
        play(h, culm_rng_mix(h->seed, 500 + (uint64_t)h->resumes), rough);
    }
    culm_gnn_layout_release(&h->cast.layout);
    if (!h->wrong[0] && !h->too_few && !h->honest && h->epoch != epochs) {
        wrong(h, "other epochs than those of an undisturbed run");
    }
    /* Where rows may be old, the state depends on which were; the executor saw that none was too old. */
    if (!h->wrong[0] && !h->too_few && !h->honest && h->shape.pace.staleness == 0 &&
        strcmp(h->state, ret_expected) != 0) {
        wrong(h, "another state than that of an undisturbed run");
    }
}

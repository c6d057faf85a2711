/* A world of graph networks that several processes may lead: played, and judged. See gnn_reign.h. */
#include "gnn_reign.h"

#include "base/rng.h"
#include "interval/committed.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS 1000000ull
#define ORPHAN_MS 4000
#define HEARD_MS 300   /* at most, before it fell asleep */
#define CALM_MS 240000 /* after the last fault it has ended */
#define STORE_FAULTS_MS 3000
#define WORD_MS 8 /* by then it has come, of who sends it and who hears it, if both are well */

const char *const gnn_blow_names[BLOW_KINDS] = {"kill",
                                                "freeze",
                                                "kill leader",
                                                "freeze leader",
                                                "cut leader",
                                                "away",
                                                "holders die",
                                                "holders die, and the last one sleeps",
                                                "stop",
                                                "leave",
                                                "the first holder sleeps",
                                                "resign"};

static void complain(struct gnn_reign *w, const char *what) {
    if (!w->wrong[0]) {
        snprintf(w->wrong, sizeof w->wrong, "%s", what);
    }
}

/* --- the oracle --- */

/* Whether it lives, and has the state at the version committed last, or after it. */
static bool has_copy(const struct gnn_reign *w, int32_t node) {
    void *actor = w->cast.role[node] == CULM_GNN_WORKER ? NULL : culm_sim_worker(w->sim, node);
    const int64_t version = !actor ? -1
                            : w->cast.role[node] == CULM_GNN_SERVER
                                ? culm_gnn_server_version(actor)
                                : culm_gnn_parameter_version(actor);
    return version >= w->epoch;
}

/* Who has no copy now. */
static void note_copies(struct gnn_reign *w, uint64_t now) {
    for (int32_t h = 0; h < w->holder_count; h++) {
        if (w->holder[h] < STRUCK_MAX && !has_copy(w, w->holder[h])) {
            w->lacked_ns[w->holder[h]] = now;
        }
    }
}

/* One that is well, and that the last view names, with a copy: of one that has just become whole word may be under way. Or one that sleeps, and that one who has just taken over has to
 * wait for; -1: nobody. */
static int32_t copy_left(const struct gnn_reign *w) {
    const uint64_t now = culm_sim_now(w->sim);
    for (int32_t h = 0; h < w->holder_count; h++) {
        const int32_t node = w->holder[h];
        if (now >= w->well_ns[node] && has_copy(w, node) &&
            !(node < STRUCK_MAX && now < w->lacked_ns[node] + WORD_MS * MS)) {
            return node;
        }
    }
    for (int32_t h = 0; h < w->awaited_count && now < w->took_ns + ORPHAN_MS * 3 / 2 * MS; h++) {
        if (has_copy(w, w->awaited[h])) {
            return w->awaited[h];
        }
    }
    return -1;
}

/* One that cannot ask who leads commits no more after a while. One
 * epoch may follow, to which those who hold the weights had come: when they wake, if the last of them sleeps. */
static void check_cut_off(struct gnn_reign *w, int64_t epoch) {
    char text[120];
    const uint64_t now = culm_sim_now(w->sim);
    if (w->calm || !w->store_ms || !culm_sim_store_is_away(w->sim) || w->slept) {
        return;
    }
    w->commits_away++;
    const bool late =
        now > w->away_ns + (uint64_t)(w->store_ms + REIGN_CUT_OFF_MS(w->lease_ms)) * MS;
    if (late && w->cut_off_ns == w->away_ns) {
        snprintf(text, sizeof text, "epoch %" PRId64 " was committed by one that was cut off",
                 epoch);
        complain(w, text);
    } else if (late) {
        w->cut_off_ns = w->away_ns;
    }
}

/* Where rows may be stale, what is redone has other bits: what is told of an epoch is told of it for good, by whomever, unless all
 * have gone back to before it. */
static void check_once(struct gnn_reign *w, int64_t epoch, const char *what, char known[64],
                       const char *told, bool deposed) {
    char text[200];
    if (w->calm || (deposed && w->loads > 0)) { /* of what has been undone since, perhaps */
        return;
    }
    if (known[0] && strcmp(known, told) != 0) {
        snprintf(text, sizeof text, "epoch %" PRId64 ": %s %.60s, after %.60s", epoch, what, told,
                 known);
        complain(w, text);
    }
    snprintf(known, sizeof w->once_loss[0], "%s", told);
}

/* At the store, by whomever. */
static void on_deed(void *context, enum culm_deed deed, uint64_t term, int64_t step,
                    const char *about) {
    struct gnn_reign *w = context;
    struct culm_gnn_committed committed;
    if (deed != CULM_DEED_COMMIT || step > REIGN_EPOCHS_MAX) {
        return;
    }
    if (culm_gnn_committed_read(about, &committed) != CULM_OK || committed.commit.epoch != step) {
        complain(w, "a commit is written down that cannot be read");
        return;
    }
    const uint32_t attempt = committed.commit.attempt;
    if (w->written > 0 && term != w->written_term && attempt <= w->written_attempt) {
        complain(w, "another leader commits in the attempt of the one before");
    }
    w->written_term = term;
    w->written_attempt = attempt;
    uint32_t bits;
    memcpy(&bits, &committed.commit.outcome.loss, sizeof bits);
    for (int64_t epoch = step; epoch <= REIGN_EPOCHS_MAX; epoch++) {
        w->written_loss[epoch][0] = '\0';
    }
    snprintf(w->written_loss[step], sizeof w->written_loss[step], "0x%08x", bits);
    w->written++;
    culm_gnn_witness_committed(w->witness, step, committed.digest);
}

/* What one that leads tells of an epoch is what the store says of it. */
static void check_written(struct gnn_reign *w, int64_t epoch, const char *loss) {
    char text[120];
    if (!w->calm && w->cast.pace.staleness > 0 && strcmp(w->written_loss[epoch], loss) != 0) {
        snprintf(text, sizeof text, "epoch %" PRId64 ": told with loss %s, and at the store %s",
                 epoch, loss, w->written_loss[epoch][0] ? w->written_loss[epoch] : "is none");
        complain(w, text);
    }
}

/* All load that version: of what comes after it other things may be told. */
static void hear_load(struct gnn_reign *w, int64_t version) {
    w->loads++;
    for (int64_t epoch = version + 1; epoch <= REIGN_EPOCHS_MAX; epoch++) {
        w->once_loss[epoch][0] = w->once_file[epoch][0] = '\0';
    }
}

static void hear_epoch(struct gnn_reign *w, const json_t *event, bool deposed) {
    const int64_t epoch = json_integer_value(json_object_get(event, "epoch"));
    const char *loss = json_string_value(json_object_get(event, "loss_bits"));
    const bool exact = w->cast.pace.staleness == 0;
    char text[120];
    if (epoch < 1 || epoch > REIGN_EPOCHS_MAX) {
        complain(w, "an epoch that is none");
        return;
    }
    if (!w->calm && exact && strcmp(w->reference->loss[epoch], loss) != 0) {
        snprintf(text, sizeof text, "epoch %" PRId64 ": loss %s, not %s", epoch, loss,
                 w->reference->loss[epoch]);
        complain(w, text);
    }
    check_once(w, epoch, "loss", w->once_loss[epoch], loss, deposed);
    snprintf(w->loss[epoch], sizeof w->loss[epoch], "%s", loss);
    w->told[epoch] = true;
    if (!deposed) {
        check_written(w, epoch, loss);
    }
    if (!deposed && !json_object_get(event, "again")) {
        check_cut_off(w, epoch);
    }
    if (!deposed) {
        w->epoch = epoch;
    }
}

static void hear_checkpoint(struct gnn_reign *w, const json_t *event, bool deposed) {
    const int64_t version = json_integer_value(json_object_get(event, "epoch"));
    const char *path = json_string_value(json_object_get(event, "path"));
    if (!json_is_true(json_object_get(event, "ok")) || version > REIGN_EPOCHS_MAX) {
        return;
    }
    const char *expected = w->calm ? "" : w->reference->file[version]; /* "": no room there */
    if (expected[0] && w->cast.pace.staleness == 0 && strcmp(expected, path) != 0) {
        complain(w, "a checkpoint has another state than an undisturbed run");
    }
    check_once(w, version, "checkpoint", w->once_file[version], path, deposed);
    snprintf(w->file[version], sizeof w->file[version], "%s", path);
    w->newest = version > w->newest ? version : w->newest;
    w->checkpoints++;
    for (int64_t epoch = 1; deposed && epoch <= version; epoch++) {
        w->told[epoch] = true; /* its own story lies with it, up to there */
    }
}

static void hear_rollback(struct gnn_reign *w, const json_t *event) {
    char text[120];
    w->rollbacks++;
    if (copy_left(w) >= 0) {
        snprintf(text, sizeof text, "went back from %" PRId64 " while node %d had a copy", w->epoch,
                 (int)copy_left(w));
        complain(w, text);
    }
    w->epoch = json_integer_value(json_object_get(event, "to_epoch"));
    hear_load(w, w->epoch);
    if (culm_sim_deeds(w->sim, CULM_DEED_ROLL_BACK) < 1) {
        complain(w, "went back, and that was not written by who leads");
    }
}

/* One that is only silent is put out, while it may be the last one that has the state. */
static void hear_lost(struct gnn_reign *w, const json_t *event) {
    const int32_t node = (int32_t)json_integer_value(json_object_get(event, "node"));
    const char *cause = json_string_value(json_object_get(event, "cause"));
    char text[120];
    w->lost++;
    w->left += strcmp(cause, "left") == 0;
    for (int32_t h = 0; h < w->awaited_count; h++) {
        if (w->awaited[h] == node) { /* others have the state, or else this is judged below */
            w->awaited[h--] = w->awaited[--w->awaited_count];
        }
    }
    if (strcmp(cause, "heartbeat") != 0 || node >= STRUCK_MAX || !has_copy(w, node) ||
        culm_sim_now(w->sim) > w->slept_ns[node] + (ORPHAN_MS * 3 / 2 - HEARD_MS) * MS) {
        return;
    }
    for (int32_t h = 0; h < w->holder_count; h++) {
        if (w->holder[h] != node && has_copy(w, w->holder[h])) {
            return;
        }
    }
    snprintf(text, sizeof text, "node %d, which sleeps, was put out with the last copy", (int)node);
    complain(w, text);
}

static void hear_view(struct gnn_reign *w, const json_t *event) {
    for (int32_t f = 0; f < w->fault_count; f++) {
        w->fault[f].seen_through |= w->fault[f].fired;
    }
    if (strcmp(json_string_value(json_object_get(event, "reason")), "start") == 0) {
        hear_load(w, json_integer_value(json_object_get(event, "epoch")) - 1);
    }
    const json_t *holders = json_object_get(event, "holders");
    w->holder_count = (int32_t)json_array_size(holders);
    for (int32_t h = 0; h < w->holder_count; h++) {
        w->holder[h] = (int32_t)json_integer_value(json_array_get(holders, (size_t)h));
    }
}

/* What it waits for has come to pass. */
static bool may_come(const struct gnn_reign *w, const struct gnn_blow *blow) {
    const struct gnn_blow *before = blow->behind ? &w->fault[blow->behind - 1] : NULL;
    return !blow->fired && !blow->due &&
           (!before || (before->fired && (!blow->after_view || before->seen_through)));
}

/* The newest checkpoint, of whomever: what was said up to there lies beside it. */
static int64_t published(const struct gnn_reign *w) {
    const struct culm_gnn_disk *disk = culm_gnn_witness_disk(w->witness);
    return disk->count ? disk->file[disk->count - 1].version : 0;
}

static void on_event(void *context, json_t *event) {
    struct gnn_reign *w = context;
    const char *name = json_string_value(json_object_get(event, "event"));
    const bool deposed = json_object_get(event, "deposed") != NULL;
    if (w->log) {
        char *text = json_dumps(event, JSON_COMPACT);
        printf("# %s\n", text);
        free(text);
    }
    if (strcmp(name, "epoch") == 0) {
        hear_epoch(w, event, deposed);
    } else if (strcmp(name, "checkpoint") == 0) {
        hear_checkpoint(w, event, deposed);
    } else if (strcmp(name, "done") == 0) {
        w->done = true;
        snprintf(w->state, sizeof w->state, "%s",
                 json_string_value(json_object_get(event, "state_sha256")));
    } else if (deposed) {
        return;
    } else if (strcmp(name, "rollback") == 0) {
        hear_rollback(w, event);
    } else if (strcmp(name, "view") == 0) {
        hear_view(w, event);
    } else if (strcmp(name, "lost") == 0) {
        hear_lost(w, event);
    }
    if (strcmp(name, "leader") == 0) {
        w->takeovers++;
        for (int64_t epoch = published(w) + 1; epoch <= REIGN_EPOCHS_MAX; epoch++) {
            w->told[epoch] =
                false; /* what the one before has said may be lost with it: this one says it again */
        }
    }
    for (int32_t f = 0; f < w->fault_count; f++) {
        struct gnn_blow *blow = &w->fault[f];
        if (blow->when == BLOW_AFTER_EVENT && may_come(w, blow) && strcmp(blow->event, name) == 0) {
            blow->due = blow->met++ == blow->skip; /* when all that happens now has happened */
        }
    }
}

/* --- who leads --- */

static void leads(void *context, const struct culm_sim_reign *reign) {
    struct gnn_reign *w = context;
    const struct culm_gnn_disk *disk = culm_gnn_witness_disk(w->witness);
    const struct culm_gnn_disk_file *newest = disk->count ? &disk->file[disk->count - 1] : NULL;
    char path[64] = "";
    if (newest) {
        snprintf(path, sizeof path, "file-%" PRId64 "-%" PRIx64, newest->version, newest->digest);
    }
    struct culm_gnn_exec *exec =
        culm_gnn_symbolic_new(&w->cast.layout, &w->cast.pace, w->seed, NULL);
    culm_gnn_symbolic_witness(exec, w->witness);
    struct culm_gnn_leader_options options = {
        .world = reign->world,
        .agent = reign->agent,
        .record = w->calm ? NULL : reign->record,
        .exec = exec,
        .layout = &w->cast.layout,
        .settings = {.pace = w->cast.pace,
                     .checkpoint_every = w->checkpoint_every,
                     .crew = {.heartbeat_ms = 100,
                              .suspect_ms = 1000,
                              .kill_suspect_ms = w->seed % 3 ? 400 : 0,
                              .wait_ms = 0,
                              .stuck_ms = 300,
                              .join_ms = 10000,
                              .store_ms = w->store_ms,
                              .max_nodes = CULM_GNN_NODES_MAX},
                     .newcomers = true,
                     .stop = w->stop},
        .home = w->home,
        .rows = {10, 10, 10},
        .start_version = newest ? newest->version : 0,
        .start_path = path,
        .term = reign->term,
        .committed = reign->committed,
        .known = reign->known,
        .known_count = reign->known_count,
        .orphan_ms = ORPHAN_MS,
        .depot = true,
        .here_most = INT32_MAX,
    };
    if (newest) {
        options.start_verdict = newest->verdict;
        options.start_branch = newest->branch;
    }
    memcpy(options.settings.count, w->count, sizeof w->count);
    struct culm_gnn_leader *leader = culm_gnn_leader_new(&options);
    if (!leader || w->leaders == CULM_SIM_LEADERS) {
        abort();
    }
    w->leader[w->leaders] = leader;
    w->leader_exec[w->leaders++] = exec;
    culm_sim_reigns(w->sim, reign->process, leader);
    if (reign->newest && reign->term > 1) {
        w->took_ns = culm_sim_now(w->sim);
        w->awaited_count = w->holder_count;
        memcpy(w->awaited, w->holder, sizeof w->holder);
    }
    if (w->stopped && reign->newest) { /* as is written down somewhere */
        culm_sim_stop(w->sim);
    }
}

/* --- what befalls it --- */

static void strike(struct gnn_reign *w, int32_t node, bool kill, uint64_t for_ns) {
    if (node < 0 || node >= STRUCK_MAX || !culm_sim_worker(w->sim, node)) {
        return;
    }
    const bool asleep = culm_sim_now(w->sim) + 2500 * MS < w->well_ns[node];
    const uint64_t well_ns = kill ? CULM_NEVER : culm_sim_now(w->sim) + for_ns + 2500 * MS;
    w->well_ns[node] = well_ns > w->well_ns[node] ? well_ns : w->well_ns[node];
    if (kill) {
        culm_sim_kill(w->sim, node);
    } else {
        w->slept_ns[node] = asleep ? w->slept_ns[node] : culm_sim_now(w->sim);
        culm_sim_freeze(w->sim, node, for_ns);
    }
}

static void kill_leader(struct gnn_reign *w, bool refused) {
    const int32_t leader = culm_sim_leads(w->sim);
    if (culm_sim_candidate(w->sim)) {
        culm_sim_kill(w->sim, leader);
        if (refused) {
            culm_sim_refused(w->sim, leader);
        }
    }
}

static void stop(struct gnn_reign *w) {
    const uint64_t now = culm_sim_now(w->sim);
    w->stopped = true;
    w->last_fault_ns = now > w->last_fault_ns ? now : w->last_fault_ns;
    culm_sim_stop(w->sim);
}

static void befall(struct gnn_reign *w, const struct gnn_blow *fault) {
    const int32_t leader = culm_sim_leads(w->sim);
    const uint64_t for_ns = fault->for_ms * MS;
    switch (fault->kind) {
    case BLOW_KILL: strike(w, fault->node, true, 0); break;
    case BLOW_FREEZE: strike(w, fault->node, false, for_ns); break;
    case BLOW_KILL_LEADER: kill_leader(w, fault->refused); break;
    case BLOW_LAST_SLEEPS:
        for (int32_t h = 0; h < w->holder_count; h++) {
            strike(w, w->holder[h], h > 0, for_ns);
        }
        if (fault->node % 3) {
            kill_leader(w, fault->refused);
        }
        break;
    case BLOW_FREEZE_LEADER:
        w->slept = true;
        culm_sim_freeze(w->sim, leader, for_ns);
        break;
    case BLOW_CUT_LEADER: culm_sim_store_cut(w->sim, leader, for_ns); break;
    case BLOW_AWAY:
        w->outages++;
        w->away_ns = culm_sim_store_is_away(w->sim) ? w->away_ns : culm_sim_now(w->sim);
        culm_sim_store_away(w->sim, for_ns);
        break;
    case BLOW_HOLDERS_DIE:
        for (int32_t h = 0; h < w->holder_count; h++) {
            strike(w, w->holder[h], true, 0);
        }
        break;
    case BLOW_STOP: stop(w); break;
    case BLOW_LEAVE:
        if (fault->node >= 0 && fault->node < STRUCK_MAX && culm_sim_worker(w->sim, fault->node)) {
            w->well_ns[fault->node] = CULM_NEVER;
            culm_sim_leave(w->sim, fault->node, fault->for_ms);
        }
        break;
    case BLOW_FIRST_SLEEPS:
        if (w->holder_count > 0) {
            strike(w, w->holder[0], false, for_ns);
        }
        break;
    case BLOW_RESIGN: culm_sim_resign(w->sim); break;
    default: break;
    }
}

static void fire(struct gnn_reign *w, struct gnn_blow *blow) {
    blow->fired = true;
    w->last_fault_ns = culm_sim_now(w->sim) + blow->for_ms * MS;
    befall(w, blow);
}

static void strike_by_time(struct gnn_reign *w) {
    const uint64_t now = culm_sim_now(w->sim);
    for (int32_t f = 0; f < w->fault_count; f++) {
        struct gnn_blow *blow = &w->fault[f];
        if (!blow->fired &&
            (blow->due || (blow->when == BLOW_AT_TIME && now >= blow->at_ms * MS))) {
            fire(w, blow);
        }
    }
    if (w->stop_ms && !w->stopped && now >= w->stop_ms * MS) {
        stop(w);
    }
}

static void at_point(void *context, int32_t node, const struct culm_fault_point *point) {
    struct gnn_reign *w = context;
    for (int32_t f = 0; f < w->fault_count; f++) {
        struct gnn_blow *blow = &w->fault[f];
        if (blow->when == BLOW_AT_PHASE && may_come(w, blow) && blow->phase == point->phase &&
            blow->role == w->cast.role[node] && blow->met++ == blow->skip) {
            blow->node = node;
            fire(w, blow);
            return;
        }
    }
}

/* All that are due there, as one. */
static void at_moment(void *context, int32_t leader, const struct culm_sim_moment *moment) {
    struct gnn_reign *w = context;
    bool due[REIGN_BLOWS_MAX] = {0};
    for (int32_t f = 0; f < w->fault_count && leader == culm_sim_leads(w->sim); f++) {
        struct gnn_blow *blow = &w->fault[f];
        due[f] = blow->when == BLOW_AT_MOMENT && may_come(w, blow) &&
                 blow->moment.does == moment->does && blow->moment.what == moment->what &&
                 blow->met++ == blow->skip;
    }
    for (int32_t f = 0; f < w->fault_count; f++) {
        if (due[f] && w->fault[f].after_ms > 0) {
            w->fault[f].when = BLOW_AT_TIME;
            w->fault[f].at_ms = culm_sim_now(w->sim) / MS + w->fault[f].after_ms;
        } else if (due[f]) {
            fire(w, &w->fault[f]);
        }
    }
}

/* --- played, and judged --- */

static void judge(struct gnn_reign *w) {
    const char *error = "";
    char text[160];
    enum culm_deed how;
    const bool left = culm_sim_left(w->sim, &w->code, &error), over = culm_sim_over(w->sim, &how);
    if (culm_sim_wrong(w->sim)) {
        complain(w, culm_sim_wrong(w->sim));
    }
    if (w->kind && (w->lost > w->left || w->rollbacks > 0)) {
        snprintf(text, sizeof text, "%" PRId64 " losses and %" PRId64 " roll-backs, as nodes left",
                 w->lost - w->left, w->rollbacks);
        complain(w, text);
    }
    if (!left && !over) {
        snprintf(text, sizeof text, "has not ended; epoch %" PRId64, w->epoch);
        complain(w, text);
        return;
    }
    const bool stopped = over ? how == CULM_DEED_STOP : w->code == 75;
    const bool given_up =
        w->stopped && error && strstr(error, "last checkpoint could not be written");
    if (given_up) { /* there was no room, and a stop does not wait for any */
        return;
    }
    if ((stopped && !w->stopped) || (!over && !stopped && (w->code != 0 || !w->done))) {
        snprintf(text, sizeof text, "ended with %d: %.120s", w->code, error ? error : "");
        complain(w, text);
    }
    if (!over && !w->calm &&
        culm_sim_deeds(w->sim, stopped ? CULM_DEED_STOP : CULM_DEED_DONE) < 1) {
        complain(w, "it has ended, and that was not written by who leads");
    }
    if (stopped) {
        return;
    }
    for (int64_t epoch = 1; epoch <= w->epoch; epoch++) {
        if (!w->told[epoch]) {
            snprintf(text, sizeof text, "epoch %" PRId64 " was never told", epoch);
            complain(w, text);
        }
    }
    if (!w->calm && !over && w->epoch != w->reference->epoch && w->cast.pace.staleness == 0) {
        complain(w, "other epochs than those of an undisturbed run");
    }
    if (!w->calm && !over && w->cast.pace.staleness == 0 &&
        strcmp(w->state, w->reference->state) != 0) {
        complain(w, "another state than that of an undisturbed run");
    }
}

void gnn_reign_play(struct gnn_reign *w) {
    struct culm_sim_options options = gnn_cast_alike(&w->cast, w->seed, CAST_NODES);
    uint64_t dice = culm_rng_mix(w->seed, 78);
    options.jitter_ns = culm_rng_below(&dice, 2) ? 3 * MS : 0;
    options.job_ns = (w->job_ms ? w->job_ms : 2) * MS;
    options.io_ns = 10 * MS;
    options.event = on_event;
    options.event_context = w;
    options.orphan_ms = ORPHAN_MS;
    options.outlives = true;
    options.fault = at_point;
    options.moment = at_moment;
    options.deed = on_deed;
    options.store_ns = 2 * MS;
    options.log = w->log && getenv("SIM_LOG");
    options.leads = leads;
    if (!w->calm) {
        options.candidates = w->candidates;
        options.lease_ms = w->lease_ms;
        options.store_end_ms = w->store_ms ? w->store_ms + ORPHAN_MS : 0;
        options.store_fault_percent = w->store_fault_percent;
        options.store_faults_ns = (REIGN_BEGIN_MS + STORE_FAULTS_MS) * MS;
    }
    w->cast.beat_ms = 100;
    w->cast.server = (struct culm_gnn_server_options){.workers = w->count[CULM_GNN_WORKER] > 0};
    w->witness = culm_gnn_witness_new();
    w->cast.witness = w->witness;
    culm_gnn_witness_begin(w->witness, culm_gnn_symbolic_initial(w->seed));
    if (!w->calm && w->cast.pace.staleness == 0) {
        culm_gnn_witness_like(w->witness, w->reference->witness);
    } else if (!w->calm) {
        culm_gnn_witness_knows(w->witness);
    }
    w->sim = culm_sim_new(&options);
    w->last_fault_ns = (REIGN_BEGIN_MS + STORE_FAULTS_MS) * MS;
    if (w->calm) {
        struct culm_sim_reign reign;
        culm_sim_reign_of(w->sim, &reign);
        leads(w, &reign);
    }
    enum culm_deed how;
    uint64_t noted_ns = 0;
    while (!w->wrong[0] && culm_sim_step(w->sim) &&
           culm_sim_now(w->sim) < w->last_fault_ns + CALM_MS * MS) {
        if (culm_sim_now(w->sim) >= noted_ns + MS) {
            noted_ns = culm_sim_now(w->sim);
            note_copies(w, noted_ns);
        }
        strike_by_time(w);
        if (culm_sim_over(w->sim, &how)) {
            break;
        }
    }
    judge(w);
    for (int32_t i = 0; i < w->leaders; i++) {
        culm_gnn_leader_free(w->leader[i]);
    }
    if (culm_sim_free(w->sim) != 0) {
        complain(w, "blobs are left");
    }
    if (culm_gnn_witness_wrong(w->witness)) { /* ahead of what came of it */
        snprintf(w->wrong, sizeof w->wrong, "%s", culm_gnn_witness_wrong(w->witness));
    }
    for (int32_t i = 0; i < w->leaders; i++) {
        culm_gnn_symbolic_free(w->leader_exec[i]);
    }
}

void gnn_reign_release(struct gnn_reign *w) {
    culm_gnn_witness_free(w->witness);
    culm_gnn_layout_release(&w->cast.layout);
}

void gnn_reign_calm(struct gnn_reign *w) {
    w->calm = true;
    w->fault_count = 0;
    w->stop_ms = 0;
    w->checkpoint_every = 1;
    w->count[CULM_GNN_WORKER] = 0;
    w->cast.pace.staleness = 0;
    w->cast.pace.ahead = w->cast.pace.in_step = false;
}

/*
 * The faults of a history: when each is due, whom it befalls, and what it does.
 *
 * A fault is *spent* once its moment came, and *fired* if it then did something: whom it was meant
 * for may be dead already, or the only one left where nobody is replaced.
 */
#include "history_internal.h"

#include <string.h>

/* What it waits for has come to pass. */
static bool may_come(const struct running *run, const struct culm_history_fault *fault) {
    const int32_t before = fault->behind - 1;
    return before < 0 ||
           (run->history->fault[before].fired && (!fault->after_view || run->seen_through[before]));
}

void culm_history_arm(struct running *run, const char *event) {
    for (int32_t i = 0; i < run->history->fault_count; i++) {
        const struct culm_history_fault *fault = &run->history->fault[i];
        run->seen_through[i] |= fault->fired && strcmp(event, "view") == 0;
        if (fault->when == CULM_AFTER_EVENT && !fault->spent && !run->armed[i] &&
            may_come(run, fault) && strcmp(fault->event, event) == 0 &&
            run->skipped[i]++ == fault->skip) {
            run->armed[i] = true;
            run->countdown[i] = fault->delay;
        }
    }
}

/* Would this leave nobody, where nobody is replaced? */
static bool spare(const struct running *run, int32_t node) {
    int32_t left = 0;
    for (int32_t i = 0; i < culm_sim_worker_count(run->sim) && i < WORKERS_MAX; i++) {
        left += i != node && culm_sim_worker(run->sim, i) && !run->doomed[i];
    }
    return run->history->traced || run->history->settings.crew.replace_ms >= 0 || left > 0;
}

/* The next node of the ring, as it was at the start. */
static int32_t neighbour(const struct running *run, int32_t node) {
    const struct culm_run_shape *shape = &run->history->shape;
    bool first = node < shape->pipelines * shape->stages;
    return first ? node / shape->stages * shape->stages + (node + 1) % shape->stages : node + 1;
}

static int32_t anyone(struct running *run) {
    int32_t alive[WORKERS_MAX], count = 0;
    for (int32_t w = 0; w < culm_sim_worker_count(run->sim) && count < WORKERS_MAX; w++) {
        if (culm_sim_worker(run->sim, w)) {
            alive[count++] = w;
        }
    }
    return count ? alive[culm_sim_random(run->sim, (uint64_t)count)] : -2;
}

static int32_t taker(struct running *run) {
    const struct culm_run_shape *shape = &run->history->shape;
    int32_t found[CULM_MAX_NODES], count = 0;
    for (int32_t p = 0; p < shape->pipelines; p++) {
        for (int32_t s = 0; s < shape->stages && run->views > 1; s++) {
            int32_t owner = run->role[p][s].owner;
            if (owner >= 0 && owner != run->owner_before[p][s] && count < CULM_MAX_NODES) {
                found[count++] = owner;
            }
        }
    }
    return count ? found[culm_sim_random(run->sim, (uint64_t)count)] : anyone(run);
}

/* --- what it does --- */

/* At the other end of what befalls a link; -2: nobody. */
static int32_t far_end(struct running *run, const struct culm_history_fault *fault, int32_t node) {
    switch (fault->far) {
    case CULM_FAR_LEADER: return culm_sim_leads(run->sim);
    case CULM_FAR_ANYONE: return anyone(run);
    case CULM_FAR_NODE: return fault->far_node;
    case CULM_FAR_NEXT: break;
    }
    int32_t next = neighbour(run, node);
    return culm_sim_worker(run->sim, next) ? next : -2;
}

static bool befall_link(struct running *run, const struct culm_history_fault *fault, int32_t node) {
    int32_t far = far_end(run, fault, node);
    uint64_t for_ns = fault->freeze_ms ? fault->freeze_ms * 1000000 : CULM_NEVER;
    bool lasts = fault->kind == CULM_FAULT_CUT || fault->kind == CULM_FAULT_GARBLE ||
                 fault->freeze_ms == 0 ||
                 (int64_t)fault->freeze_ms > run->history->settings.crew.suspect_ms / 2;
    if (far == node || far == -2 || far >= WORKERS_MAX ||
        (lasts && far >= 0 && !spare(run, far))) { /* either may have to go */
        return false;
    }
    int32_t from = fault->inward ? far : node, to = fault->inward ? node : far;
    if (far >= 0) {
        run->doomed[far] |= lasts;
        run->linked[node] = far + 1;
        run->linked[far] = node + 1;
    }
    switch (fault->kind) {
    case CULM_FAULT_CUT: culm_sim_cut(run->sim, node, far); break;
    case CULM_FAULT_DROP: culm_sim_drop(run->sim, from, to, for_ns); break;
    case CULM_FAULT_SLOW:
        culm_sim_slow(run->sim, from, to, 2 + (uint32_t)culm_sim_random(run->sim, 20), for_ns);
        break;
    default: culm_sim_flip(run->sim, from, to, (int64_t)culm_sim_random(run->sim, 2000)); break;
    }
    return true;
}

/* False: nothing was done. */
static bool befall(struct running *run, const struct culm_history_fault *fault, int32_t node) {
    enum culm_fault_kind what = fault->kind;
    uint64_t for_ns = fault->freeze_ms ? fault->freeze_ms * 1000000 : CULM_NEVER;
    if (fault->target == CULM_TARGET_LEADER) {
        return culm_history_befall_leader(run, fault);
    }
    if (node >= 0 && node < WORKERS_MAX && culm_sim_worker(run->sim, node)) {
        culm_history_look_for_flips(run);
        if (run->flipped[node]) {
            return false; /* one thing at a time: it is to be noticed */
        }
    }
    bool passing = what == CULM_FAULT_FREEZE || what == CULM_FAULT_DROP || what == CULM_FAULT_SLOW;
    bool lasts = !passing || fault->freeze_ms == 0 ||
                 (int64_t)fault->freeze_ms > run->history->settings.crew.suspect_ms * 3 / 4;
    if (node < 0 || node >= WORKERS_MAX || !culm_sim_worker(run->sim, node) ||
        (lasts && !spare(run, node))) {
        return false;
    }
    run->doomed[node] |= lasts;
    const int32_t linked = run->linked[node];
    run->linked[node] = 0;
    bool done = true;
    switch (what) {
    case CULM_FAULT_KILL:
        culm_sim_kill(run->sim, node);
        if (run->history->traced) {
            culm_sim_removed(run->sim, node);
        }
        break;
    case CULM_FAULT_STICK:
        culm_sim_stick(run->sim, node);
        run->stuck++;
        break;
    case CULM_FAULT_FREEZE: culm_sim_freeze(run->sim, node, for_ns); break;
    case CULM_FAULT_FLIP:
        run->reader |= fault->flip == CULM_FLIP_READER;
        culm_symbolic_flip(run->exec[node], fault->flip, culm_sim_random(run->sim, UINT64_MAX));
        culm_history_look_for_flips(run);
        break;
    case CULM_FAULT_LEAVE:
        run->asked[node] = true;
        culm_sim_leave(run->sim, node, fault->freeze_ms);
        break;
    case CULM_FAULT_DESCRIPTORS: culm_sim_no_descriptors(run->sim, node, for_ns); break;
    case CULM_FAULT_MEMORY:
        run->pinched[node] = true;
        culm_blob_pool_fail(culm_sim_pool(run->sim, node), culm_sim_random(run->sim, 12));
        break;
    default: done = befall_link(run, fault, node); break;
    }
    run->linked[node] = done ? run->linked[node] : linked;
    if (run->history->traced && lasts && done && run->add_count < WORKERS_MAX) {
        run->add_ns[run->add_count++] =
            culm_sim_now(run->sim) + (1 + culm_sim_random(run->sim, 600)) * 1000000;
        run->made_up[node] = true;
        if (run->linked[node] > 0) {
            run->made_up[run->linked[node] - 1] = true;
        }
    }
    return done;
}

/* --- when, and whom --- */

static void fire(struct running *run, struct culm_history_fault *fault, int32_t passing) {
    const struct culm_run_shape *shape = &run->history->shape;
    int32_t p = (int32_t)culm_sim_random(run->sim, (uint64_t)shape->pipelines);
    int32_t s = (int32_t)culm_sim_random(run->sim, (uint64_t)shape->stages);
    struct culm_role role = run->views ? run->role[p][s] : (struct culm_role){-1, -1};
    int32_t workers = culm_sim_worker_count(run->sim), node = -2;
    bool fired = false;
    fault->spent = true;
    run->last_fault_ns = culm_sim_now(run->sim) + fault->freeze_ms * 1000000;
    if (fault->kind == CULM_FAULT_STOP) {
        culm_sim_stop(run->sim);
        run->stopped_ns = run->stopped_ns ? run->stopped_ns : culm_sim_now(run->sim);
        fault->fired = true;
        return;
    }
    if (fault->kind == CULM_FAULT_AWAY) {
        fault->fired = run->history->candidates > 0;
        if (fault->fired) {
            run->away_ns = culm_sim_store_is_away(run->sim) ? run->away_ns : culm_sim_now(run->sim);
            culm_sim_store_away(run->sim, fault->freeze_ms * 1000000);
        }
        return;
    }
    if (fault->kind == CULM_FAULT_DAMAGE) {
        fault->fired =
            culm_symbolic_store_damage(run->store, fault->node % run->layout.param_count);
        return;
    }
    switch (fault->target) {
    case CULM_TARGET_ANY: node = passing >= 0 ? passing : anyone(run); break;
    case CULM_TARGET_NODE: node = fault->node; break;
    case CULM_TARGET_TAKER: node = taker(run); break;
    case CULM_TARGET_OWNER: node = role.owner; break;
    case CULM_TARGET_SHADOW: node = role.shadow; break;
    case CULM_TARGET_PAIR:
        fired = befall(run, fault, role.owner);
        node = role.shadow;
        break;
    case CULM_TARGET_PIPELINE:
        for (s = 0; s < shape->stages && run->views; s++) {
            fired |= befall(run, fault, run->role[p][s].owner);
        }
        break;
    case CULM_TARGET_STAGE:
        for (int32_t i = 0; i < workers; i++) {
            if (culm_node_version(culm_sim_remains(run->sim, i), s) >= 0) {
                fired |= befall(run, fault, i);
            }
        }
        break;
    case CULM_TARGET_ALL:
    case CULM_TARGET_COUNT:
        for (int32_t i = 0; i < workers; i++) {
            fired |= culm_sim_started(run->sim, i) && befall(run, fault, i);
        }
        break;
    case CULM_TARGET_LEADER: node = CULM_LEADER; break;
    }
    fired |= node != -2 && befall(run, fault, node);
    fault->fired = fired;
    if (fault->with_neighbour && node >= 0) {
        struct culm_history_fault kill = {.kind = CULM_FAULT_KILL};
        (void)befall(run, &kill, neighbour(run, node));
    }
}

/* In a run by a trace nobody else replaces one that was put out for the fault of another. A broken link costs it one of
 * its ends; if the other is lost too, later and for another reason, somebody comes for that one as well. */
void culm_history_lost(struct running *run, int32_t node) {
    const int32_t other = run->linked[node] - 1;
    if (!run->history->traced) {
        return;
    }
    if (!run->made_up[node] && run->add_count < WORKERS_MAX) {
        run->add_ns[run->add_count++] = culm_sim_now(run->sim) + 1000000;
    } else if (other >= 0) {
        run->made_up[other] = false;
    }
    run->made_up[node] = true;
}

bool culm_history_may_fail(const struct running *run, int64_t node) {
    return node >= 0 && node < WORKERS_MAX && run->pinched[node];
}

void culm_history_at_point(void *context, int32_t node, const struct culm_fault_point *point) {
    struct running *run = context;
    for (int32_t i = 0; i < run->history->fault_count; i++) {
        struct culm_history_fault *fault = &run->history->fault[i];
        if (fault->when == CULM_AT_PHASE && !fault->spent && may_come(run, fault) &&
            fault->phase == point->phase && (fault->step < 0 || fault->step == point->step) &&
            (fault->target != CULM_TARGET_NODE || fault->node == node) &&
            (fault->micro < 0 || fault->micro == point->part) && run->skipped[i]++ == fault->skip) {
            fire(run, fault, node);
            return;
        }
    }
}

void culm_history_at_moment(void *context, int32_t leader, const struct culm_sim_moment *moment) {
    struct running *run = context;
    for (int32_t i = 0; i < run->history->fault_count && leader == culm_sim_leads(run->sim); i++) {
        struct culm_history_fault *fault = &run->history->fault[i];
        if (fault->when == CULM_AT_MOMENT && !fault->spent && may_come(run, fault) &&
            fault->moment.does == moment->does && fault->moment.what == moment->what &&
            run->skipped[i]++ == fault->skip) {
            fire(run, fault, -1);
            return;
        }
    }
}

#define COME_NS 40000000ull
#define COME_SELDOM_NS 2000000000ull /* nobody may be there who lets them in */

/* Many wait to be admitted until the store is back: then no more of them come. */
static bool is_crowded(const struct running *run) {
    const int32_t wanted = run->history->shape.pipelines * run->history->shape.stages;
    int32_t here = 0;
    for (int32_t i = 0; i < culm_sim_worker_count(run->sim) && i < WORKERS_MAX; i++) {
        here += culm_sim_worker(run->sim, i) != NULL;
    }
    return run->history->candidates > 0 && here >= 2 * wanted + 8;
}

/* One comes from elsewhere wherever some are missing, and now and then where none is. */
static void bring(struct running *run, uint64_t now) {
    struct culm_pipeline_leader_totals totals;
    if (!run->leader || now < run->come_ns || culm_sim_worker_count(run->sim) >= WORKERS_MAX / 2) {
        return;
    }
    run->come_ns = now + (culm_sim_store_is_away(run->sim) ? COME_SELDOM_NS : COME_NS);
    culm_history_totals_of(run, &totals);
    if (is_crowded(run)) {
        return;
    }
    if (totals.alive < run->history->shape.pipelines * run->history->shape.stages ||
        culm_sim_random(run->sim, 16) == 0) {
        (void)culm_sim_come(run->sim, CULM_ROLE_WORKER, 0);
        run->came++;
    }
}

void culm_history_timed(struct running *run) {
    uint64_t now = culm_sim_now(run->sim);
    if (run->take_ns && now >= run->take_ns) {
        run->take_ns = 0;
        culm_history_take_over(run);
    }
    if (run->history->open) {
        bring(run, now);
    }
    for (int32_t i = 0; i < run->history->fault_count; i++) {
        struct culm_history_fault *fault = &run->history->fault[i];
        bool due = fault->when == CULM_AT_TIME ? now >= BEGIN_NS + fault->at_ms * 1000000
                                               : run->armed[i] && run->countdown[i]-- <= 0;
        if (due && !fault->spent) {
            fire(run, fault, -1);
        }
    }
    for (int32_t i = 0; i < run->add_count; i++) {
        if (run->add_ns[i] <= now) {
            run->add_ns[i] = CULM_NEVER;
            culm_sim_add(run->sim, CULM_ROLE_WORKER);
        }
    }
}

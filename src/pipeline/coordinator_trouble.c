/*
 * The coordinator: trouble that is one worker's own, or everyone's.
 *
 * A worker that cannot go on (a copy that came damaged, no memory, an unreadable file) is a loss
 * like any other, with a reason. Only when workers one after another fail for the same reason at
 * the same step, that is the run's own: it ends with that reason. Steps that are done again after a
 * roll-back do not count as progress (ledger/failures.h). Likewise
 * workers that end before they join are tried again, ever more slowly, for as long as the others
 * train. An input that changed is the run's own at once, of a starting worker where the others
 * cannot train without it. A checkpoint that a worker cannot load is looked at here: if it is
 * broken, the run goes back to the one before; if it is whole, the trouble is that worker's.
 */
#include "pipeline/coordinator_internal.h"

#include <stdio.h>
#include <string.h>

#define MS 1000000ull
#define START_ROUNDS_MAX 5   /* that fail, before the first step */
#define START_ROUNDS_MORE 10 /* the same, of a run that has trained */
#define START_AGAIN_MS 200   /* doubled with each round that fails */
#define START_AGAIN_MOST_MS 5000

/* --- workers that fail --- */

static bool nobody_comes(const struct culm_coordinator *c) {
    return !c->o.traced && c->o.settings.replace_ms < 0 && culm_coordinator_alive(c) == 0 &&
           c->starting + c->spawn_count == 0;
}

static void lose_failed(struct culm_coordinator *c, struct worker *worker, enum culm_status status,
                        const char *text) {
    int32_t id = worker->id;
    if (status == CULM_ERR_CHANGED) { /* for everyone who reads that file */
        culm_coordinator_fail(c, status, "worker %d: %s", id, text);
        return;
    }
    const int64_t step = c->iteration;
    int32_t failures = culm_failures_add(&c->failures, step - 1, (int32_t)status);
    culm_coordinator_lose(c, worker, CULM_CAUSE_FAILED, text);
    if (c->phase == FINISHING) {
        return; /* nothing is asked of workers any more */
    }
    if (failures > 0) {
        culm_coordinator_fail(
            c, status, "step %lld, worker %d, the last of %d that failed %s: %s", (long long)step,
            id, failures,
            failures < CULM_FAILURES_KEPT ? "like this" : "while nothing new was done", text);
    } else if (c->phase != ENDED && nobody_comes(c)) {
        culm_coordinator_fail(c, status, "worker %d: %s", id, text);
    }
}

void culm_coordinator_failed(struct culm_coordinator *c, struct worker *worker,
                             const struct culm_message *message) {
    struct culm_failed failed;
    if (culm_failed_decode(message->meta, message->meta_bytes, &failed) == CULM_OK) {
        lose_failed(c, worker, failed.status, failed.why);
    }
}

void culm_coordinator_got_on(struct culm_coordinator *c) {
    culm_failures_committed(&c->failures, c->iteration - 1);
    c->failed_rounds = c->round_left = 0;
}

/* --- workers that end before they join --- */

/* Those who had been asked for when one failed, or were about to be, are of the same round: whatever
 * was wrong then may have met them too. */
void culm_coordinator_start_failed(struct culm_coordinator *c, const struct culm_error *why) {
    c->starting -= c->starting > 0;
    bool trains = c->phase == FINISHING || (c->phase == RUNNING && !culm_coordinator_parked(c));
    if (why && why->status == CULM_ERR_CHANGED && !trains) {
        culm_coordinator_fail(c, why->status, "%s", why->text);
        return;
    }
    if (c->o.traced) {
        return; /* taken away before it joined */
    }
    if (c->round_left > 0) {
        c->round_left--;
    } else {
        c->failed_rounds++;
        c->round_left = c->starting + c->spawn_count;
    }
    int32_t most = c->iteration > c->o.start_step + 1 ? START_ROUNDS_MORE : START_ROUNDS_MAX;
    if (c->failed_rounds >= most && !trains) {
        if (why) {
            culm_coordinator_fail(c, why->status, "no worker can start: %s", why->text);
        } else {
            culm_coordinator_fail(c, CULM_ERR_IO,
                                  "workers ended before they joined, %d times in a row; see the "
                                  "logs folder of the run",
                                  c->failed_rounds);
        }
        return;
    }
    uint64_t again_ms = START_AGAIN_MS;
    for (int32_t i = 1; i < c->failed_rounds && again_ms < START_AGAIN_MOST_MS; i++) {
        again_ms *= 2;
    }
    again_ms = again_ms < START_AGAIN_MOST_MS ? again_ms : START_AGAIN_MOST_MS;
    if (c->spawn_count < CULM_MAX_NODES) {
        c->spawn_ns[c->spawn_count++] = culm_coordinator_now(c) + again_ms * MS;
    }
}

void culm_coordinator_start_came(struct culm_coordinator *c) {
    c->starting -= c->starting > 0;
    c->round_left -= c->round_left > 0;
}

/* --- checkpoints that cannot be loaded --- */

void culm_coordinator_unloaded(struct culm_coordinator *c, struct worker *worker,
                               const struct culm_message *message) {
    struct culm_unloaded unloaded;
    if (culm_unloaded_decode(message->meta, message->meta_bytes, &unloaded) != CULM_OK ||
        c->phase != LOADING || unloaded.view != c->view->number) {
        return;
    }
    worker->unloaded_view = unloaded.view;
    worker->unloaded_status = unloaded.status;
    snprintf(worker->unloaded, sizeof worker->unloaded, "%.*s", (int)sizeof worker->unloaded - 1,
             unloaded.why);
    c->find_due = true;
    culm_coordinator_find_if_due(c);
}

void culm_coordinator_find_if_due(struct culm_coordinator *c) {
    if (c->find_due && !c->io_busy) {
        c->find_due = false;
        culm_coordinator_io_start(c, CULM_TASK_FIND, c->checkpoint_version);
    }
}

static void lose_unloaded(struct culm_coordinator *c) {
    for (int32_t i = 0; i < c->worker_count && c->phase == LOADING; i++) {
        struct worker *worker = &c->worker[i];
        if (worker->alive && worker->unloaded_view == c->view->number) {
            lose_failed(c, worker, worker->unloaded_status, worker->unloaded);
            return; /* a new view: the others try once more */
        }
    }
}

void culm_coordinator_found(struct culm_coordinator *c) {
    if (c->phase != LOADING && c->phase != WAITING) {
        return;
    }
    int64_t version = c->io.version;
    if (c->io.job.status != CULM_OK || version >= c->checkpoint_version) {
        lose_unloaded(c);
        return;
    }
    char reason[CULM_REASON_MAX], path[CULM_SOURCE_MAX];
    snprintf(path, sizeof path, "%s", c->checkpoint_path);
    snprintf(reason, sizeof reason, "the checkpoint of step %lld is damaged",
             (long long)c->checkpoint_version);
    culm_coordinator_checkpoint_event(c, c->checkpoint_version, path, false, false, reason);
    c->checkpoint_version = version;
    snprintf(c->checkpoint_path, sizeof c->checkpoint_path, "%.*s", CULM_SOURCE_MAX - 1,
             c->io.text);
    culm_coordinator_rollback(c, reason);
}

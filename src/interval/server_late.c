/*
 * A server: deals with tasks that take too long. See server.h.
 *
 * Near the end of a step, all may wait for a single slow worker. So if a task has been out for
 * FACTOR times the median of such tasks, and for at least LEAST_MS, it is also given to another
 * worker that is idle and has the interval's constant input. If there is none, the server does it,
 * provided that it has nothing else to do. The first result counts; both are the same.
 *
 * Workers may also hold all the tasks that they have asked for and return none, although they are
 * there. Once nothing has come back for that long, and for SILENT_MS, the server does steps itself,
 * one after the other, until something does.
 */
#include "base/grow.h"
#include "base/mark.h"
#include "interval/server_internal.h"

#include <string.h>

#define MS 1000000ull
#define FACTOR 2
#define LEAST_MS 50     /* shorter delays say little: other processes may have caused them */
#define UNKNOWN_MS 5000 /* as long as no such task has come back */
#define SILENT_MS 5000

static uint64_t now_of(const struct culm_gnn_server *server) {
    return server->self.o.world->ops->now_ns(server->self.o.world);
}

void gnn_server_took(struct culm_gnn_server *server, const struct turn *turn) {
    struct took *took = &server->took[turn->step];
    double sorted[CULM_GNN_TOOK_KEPT];
    took->ms[took->count++ % CULM_GNN_TOOK_KEPT] =
        (double)(now_of(server) - turn->out_ns) / (double)MS;
    size_t count = took->count < CULM_GNN_TOOK_KEPT ? (size_t)took->count : CULM_GNN_TOOK_KEPT;
    memcpy(sorted, took->ms, count * sizeof *sorted);
    took->median_ms = culm_median(sorted, count);
}

static uint64_t limit_ns(const struct culm_gnn_server *server, const struct turn *turn) {
    const struct took *took = &server->took[turn->step];
    double ms = took->count > 0 ? FACTOR * took->median_ms : UNKNOWN_MS;
    return (uint64_t)((ms > LEAST_MS ? ms : LEAST_MS) * (double)MS);
}

static void give_again(struct culm_gnn_server *server, int32_t index) {
    struct turn *turn = gnn_front(server, index);
    struct worker *worker = gnn_server_idle(server, turn, index);
    turn->work.retried++;
    if (worker) {
        CULM_MARK(interval_late_task_goes_to_another_worker);
        turn->second = worker->node;
        gnn_server_give(server, worker, index);
    } else {
        CULM_MARK(interval_late_task_is_done_by_the_server);
        gnn_server_apply(server, index);
    }
}

/* The interval that is furthest behind of those whose step only waits for a worker; -1: none. */
static int32_t waits_for_worker(const struct culm_gnn_server *server) {
    int64_t least = gnn_server_least(server), most = INT64_MAX, behind;
    int32_t found = -1;
    for (int32_t o = 0; o < server->own_count; o++) {
        const int32_t i = server->own[o];
        if (!gnn_server_is_ready(server, i, &behind) || behind >= most ||
            (server->self.o.pace.in_step && behind > least)) {
            continue;
        }
        const struct turn *turn = gnn_front(server, i);
        bool remote = server->self.o.layout->step[turn->step].remote;
        if (remote && turn->weights && gnn_missing(server, turn) < 0) {
            most = behind;
            found = i;
        }
    }
    return found;
}

/* Does a step itself that silent workers leave undone. Returns when one will be due; CULM_NEVER:
 * none waits, or one has been started. */
static uint64_t do_undone(struct culm_gnn_server *server) {
    int32_t waits = gnn_server_someone_works(server) ? waits_for_worker(server) : -1;
    if (waits < 0) {
        return CULM_NEVER;
    }
    uint64_t limit = limit_ns(server, gnn_front(server, waits));
    uint64_t due = server->worked_ns + (limit > SILENT_MS * MS ? limit : SILENT_MS * MS);
    if (now_of(server) < due) {
        return due;
    }
    CULM_MARK(interval_silent_workers_leave_a_task);
    gnn_server_apply(server, waits);
    return CULM_NEVER;
}

void gnn_server_late(struct culm_gnn_server *server) {
    uint64_t next = do_undone(server);
    if (server->busy) {
        return;
    }
    for (int32_t o = 0; o < server->own_count && !server->once; o++) {
        const int32_t i = server->own[o];
        const struct turn *turn = server->interval[i].mine ? gnn_front(server, i) : NULL;
        if (!turn || !turn->out || turn->worker < 0 || turn->second >= 0 || turn->here) {
            continue;
        }
        uint64_t due = turn->out_ns + limit_ns(server, turn);
        if (now_of(server) < due) {
            next = due < next ? due : next;
            continue;
        }
        give_again(server, i);
        if (server->busy) {
            return;
        }
    }
    if (next != CULM_NEVER) {
        uint64_t now = now_of(server);
        server->self.o.world->ops->timer(server->self.o.world, CULM_GNN_TIMER_LATE,
                                         next > now ? next - now : MS);
    }
}

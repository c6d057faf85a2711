/* Replays a preemption trace on the host's loop: one timer for the next entry, a queue for names
 * that found no place. */
#include "cluster/host_internal.h"

#include <string.h>

static double scale_of(const struct culm_host *host) {
    return host->o.time_scale > 0 ? host->o.time_scale : 1;
}

void culm_host_trace_place(struct culm_host *host) {
    while (host->o.trace && !host->real.left && host->queue_count &&
           host->alive < host->o.max_nodes) {
        const char *name = host->queue[0];
        memmove(host->queue, host->queue + 1, --host->queue_count * sizeof *host->queue);
        culm_host_start(host, 0, name);
    }
}

static bool drop_queued(struct culm_host *host, const char *name) {
    for (size_t i = 0; i < host->queue_count; i++) {
        if (!strcmp(host->queue[i], name)) {
            memmove(host->queue + i, host->queue + i + 1,
                    (--host->queue_count - i) * sizeof *host->queue);
            return true;
        }
    }
    return false;
}

static void take_away(struct culm_host *host, const char *name) {
    if (drop_queued(host, name)) {
        return;
    }
    for (int32_t node = host->worker_count - 1; node >= 0; node--) {
        struct worker *worker = host->worker[node];
        if (strcmp(worker->name, name)) {
            continue;
        }
        if (!worker->exited) { /* else it had ended by itself before */
            culm_host_kill(worker);
            if (worker->up) {
                host->real.actor_ops->leads->removed(host->real.actor, node);
            }
        }
        return;
    }
}

static void on_trace(uv_timer_t *timer) {
    struct culm_host *host = timer->data;
    const struct culm_trace *trace = host->o.trace;
    double now_ms = (double)(culm_clock_ns() - host->run_ns) / 1e6 * scale_of(host);
    while (host->trace_at < trace->count && culm_real_listens(&host->real)) {
        const struct culm_trace_entry *entry = &trace->entry[host->trace_at];
        if ((double)entry->at_ms > now_ms) {
            double wait_ms = ((double)entry->at_ms - now_ms) / scale_of(host);
            uv_update_time(&host->real.loop);
            uv_timer_start(timer, on_trace, (uint64_t)wait_ms + 1, 0);
            return;
        }
        host->trace_at++;
        if (entry->add) {
            host->queue[host->queue_count++] = entry->name;
            culm_host_trace_place(host);
        } else {
            take_away(host, entry->name);
        }
    }
}

void culm_host_trace_start(struct culm_host *host) {
    if (host->o.trace) {
        uv_timer_start(&host->trace_timer, on_trace, 0, 0);
    }
}

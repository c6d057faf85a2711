/*
 * A worker's world: its links, that is, a member (member.h) over sockets; and, for faults that kill
 * the process at an exact byte, waiting until everything sent has left. See worker.h.
 */
#include "cluster/stranded.h"
#include "cluster/worker_internal.h"

#include <time.h>
#include <unistd.h>

#define FLUSH_NS (2 * SECOND)
#define REST_NS (SECOND / 100)

/* --- callbacks of the member --- */

static void on_joined(void *ctx, int64_t leader_pid) { /* it joined before the loop ran */
    (void)ctx;
    (void)leader_pid;
}

static void on_message(void *ctx, int32_t from, const struct culm_message *message) {
    struct culm_worker *worker = ctx;
    if (culm_real_listens(&worker->real)) {
        worker->real.actor_ops->message(worker->real.actor, from, message);
    }
}

static void on_lost(void *ctx, int32_t node) {
    struct culm_worker *worker = ctx;
    if (culm_real_listens(&worker->real)) {
        worker->real.actor_ops->lost(worker->real.actor, node);
    }
}

static void on_led(void *ctx, uint64_t term, const char *address) {
    struct culm_worker *worker = ctx;
    if (worker->o.led) {
        worker->o.led(worker->o.news_ctx, address);
    }
    if (culm_real_listens(&worker->real) && worker->real.actor_ops->led) {
        worker->real.actor_ops->led(worker->real.actor, term);
    }
}

static void on_ended(void *ctx, const struct culm_error *why) {
    struct culm_worker *worker = ctx;
    culm_real_fail(&worker->real, why);
}

static void on_news(void *ctx, const void *news, size_t len) {
    const struct culm_worker *worker = ctx;
    if (worker->o.news) {
        worker->o.news(worker->o.news_ctx, news, len);
    }
}

static bool on_stranded(void *ctx, int64_t for_ms) {
    const struct culm_worker *worker = ctx;
    return worker->o.stranded && culm_stranded_miss(worker->o.stranded, for_ms);
}

static const struct culm_member_ops member_ops = {.joined = on_joined,
                                                  .stranded = on_stranded,
                                                  .message = on_message,
                                                  .lost = on_lost,
                                                  .ended = on_ended,
                                                  .news = on_news,
                                                  .led = on_led};

/* --- callbacks of the fabric --- */

static void on_rang(void *ctx) {
    struct culm_worker *worker = ctx;
    culm_member_alarm(worker->member);
}

static void on_accepted(void *ctx, struct culm_stream *take_stream, int64_t pid,
                        const char *origin) {
    struct culm_worker *worker = ctx;
    (void)pid;
    (void)origin;
    culm_member_accepted(worker->member, take_stream);
}

static bool on_evict(void *ctx) {
    struct culm_worker *worker = ctx;
    return culm_member_evict(worker->member);
}

static const struct culm_real_fabric_ops fabric_ops = {on_rang, on_accepted, on_evict};

/* --- waiting --- */

void worker_peer_await(struct culm_worker *worker, int32_t node, uint64_t deadline_ns) {
    struct culm_conn *conn;
    while (culm_member_dialing(worker->member, node, &conn) && culm_clock_ns() < deadline_ns) {
        if (conn) {
            if (!culm_conn_hear(conn, deadline_ns)) {
                return;
            }
        } else {
            const struct timespec rest = {.tv_nsec = REST_NS};
            (void)nanosleep(&rest, NULL);
            culm_member_dial_now(worker->member, node);
        }
    }
}

void worker_flush_all(struct culm_worker *worker) {
    uint64_t deadline = culm_clock_ns() + FLUSH_NS;
    for (int32_t node = -1; (node = culm_member_next(worker->member, node + 1)) >= 0;) {
        worker_peer_await(worker, node, deadline);
    }
    culm_member_flush(worker->member, deadline);
}

/* --- life --- */

void worker_fabric_init(struct culm_worker *worker) {
    culm_real_fabric_init(&worker->fabric, &worker->real.loop, &fabric_ops, worker);
}

void worker_links_open(struct culm_worker *worker) {
    const struct culm_member_options options = {
        .fabric = &worker->fabric.fabric,
        .leader = worker->o.address,
        .address = worker->address,
        .token = worker->o.token,
        .node = worker->o.node,
        .name = worker->o.name,
        .signature = worker->ready.signature,
        .outlives = worker->ready.outlives,
        .pool = worker->ready.pool,
        .payload_max = worker->ready.payload_max,
        .hello_limit_ms = worker->o.hello_limit_ms,
        .dial_limit_ms = worker->ready.dial_limit_ms,
        .orphan_ms = worker->ready.orphan_ms,
        .stranded_ms = worker->ready.stranded_ms,
        .ops = &member_ops,
        .ctx = worker,
    };
    struct culm_stream *stream = NULL;
    struct culm_channel leader = worker->leader;
    int listen_fd = worker->listen_fd;
    worker->leader = (struct culm_channel){.fd = -1};
    worker->member = culm_member_new(&options);
    if (!worker->member) {
        culm_channel_close(&leader);
    } else if (culm_stream_socket_new(&worker->real.loop, leader.fd, leader.tls, &stream, NULL) ==
                   CULM_OK &&
               culm_member_adopt(worker->member, stream) &&
               (listen_fd < 0 ||
                culm_real_fabric_listen(&worker->fabric, listen_fd, NULL) == CULM_OK)) {
        if (listen_fd >= 0) {
            culm_listener_start(&worker->fabric.listener);
        }
        return;
    }
    worker_end(worker, CULM_ERR_MEMORY, "out of memory or descriptors for connections");
}

void worker_links_close(struct culm_worker *worker) {
    culm_member_free(worker->member);
    culm_real_fabric_close(&worker->fabric);
}

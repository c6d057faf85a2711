/*
 * A worker's world: its table, and its life from joining to leaving. See worker.h.
 */
#include "cluster/worker_internal.h"

#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINGER_NS (10 * SECOND)      /* for who leads to take the last words */
#define LINGER_QUIET_NS (2 * SECOND) /* one that takes nothing is not waited for */
#define JOBS_NS (SECOND / 2)
#define SEND_NS (2 * SECOND)
#define ORPHAN_MS 60000

static struct culm_worker *self(struct culm_world *world) { return (struct culm_worker *)world; }

void worker_end(struct culm_worker *worker, enum culm_status status, const char *text) {
    struct culm_error error;
    culm_error_set(&error, status, "%s", text);
    culm_real_fail(&worker->real, &error);
}

/* --- the table --- */

/* Writes out everything before this frame, and half of the frame; then the caller fires the fault.
 * If the process survives that, the other half follows. */
static void send_half(struct culm_worker *worker, struct culm_conn *conn,
                      const struct culm_message *message) {
    worker_flush_all(worker);
    culm_conn_cork(conn, true);
    culm_conn_send(conn, message);
    (void)culm_conn_flush(conn, culm_conn_queued(conn) / 2, culm_clock_ns() + SEND_NS);
    culm_conn_cork(conn, false);
}

static void worker_send(struct culm_world *world, int32_t node,
                        const struct culm_message *message) {
    struct culm_worker *worker = self(world);
    assert(message->type < CULM_WIRE_FIRST);
    if (worker->real.left || !culm_member_reaches(worker->member, node)) {
        return;
    }
    const struct culm_worker_fault *fault =
        message->payload && message->payload_bytes ? culm_faults_claim_send(&worker->faults) : NULL;
    if (!fault) {
        culm_member_send(worker->member, node, message);
        return;
    }
    worker_peer_await(worker, node, culm_clock_ns() + SEND_NS);
    struct culm_conn *conn = culm_member_conn(worker->member, node);
    if (conn) {
        send_half(worker, conn, message);
    } else {
        culm_member_send(worker->member, node, message);
    }
    culm_faults_fire(&worker->faults, fault);
}

static enum culm_status hang(struct culm_job *job) {
    (void)job;
    for (;;) {
        pause();
    }
    return CULM_OK;
}

static void worker_fault(struct culm_world *world, const struct culm_fault_point *point) {
    struct culm_worker *worker = self(world);
    const struct culm_worker_fault *fault = culm_faults_claim(&worker->faults, point);
    if (fault) {
        if (pthread_equal(pthread_self(), worker->thread)) {
            worker_flush_all(worker);
        }
        culm_faults_fire(&worker->faults, fault);
        if (fault->how == CULM_HOW_STUCK && !pthread_equal(pthread_self(), worker->thread)) {
            (void)hang(NULL);
        } else if (fault->how == CULM_HOW_STUCK) {
            worker->hang.execute = hang;
            culm_real_run(world, &worker->hang);
        }
        if (fault->how == CULM_HOW_FLIP && worker->o.flip) {
            worker->o.flip(worker->o.flip_ctx, point);
        }
    }
}

static void worker_publish(struct culm_world *world, json_t *take_event) {
    (void)world;
    json_decref(take_event);
}

static const struct culm_world_ops worker_ops = {
    .size = sizeof worker_ops,
    .now_ns = culm_real_now_ns,
    .send = worker_send,
    .timer = culm_real_set_timer,
    .run = culm_real_run,
    .io = culm_real_io,
    .fault = worker_fault,
    .publish = worker_publish,
    .leave = culm_real_leave,
};

/* --- life --- */

enum culm_status culm_worker_new(const struct culm_worker_options *options,
                                 struct culm_worker **ret_worker, struct culm_error *error) {
    struct culm_worker *worker = calloc(1, sizeof *worker);
    if (!worker) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a worker");
    }
    worker->o = *options;
    worker->thread = pthread_self();
    worker->leader.fd = worker->listen_fd = -1;
    worker->brief_pool = culm_blob_pool_new(2 * CULM_WIRE_BRIEF_MAX);
    if (!worker->brief_pool) {
        free(worker);
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a worker");
    }
    enum culm_status status = culm_faults_init(&worker->faults, options->faults,
                                               options->fault_count, options->fault_fd, error);
    if (status != CULM_OK) {
        culm_blob_pool_free(worker->brief_pool);
        free(worker);
        return status;
    }
    status = culm_real_init(&worker->real, &worker_ops, error);
    if (status != CULM_OK) {
        culm_faults_release(&worker->faults);
        culm_blob_pool_free(worker->brief_pool);
        free(worker);
        return status;
    }
    worker_fabric_init(worker);
    status = worker_join(worker, error);
    if (status != CULM_OK) {
        culm_worker_free(worker);
        return status;
    }
    *ret_worker = worker;
    return CULM_OK;
}

struct culm_world *culm_worker_world(struct culm_worker *worker) {
    return &worker->real.world;
}

int32_t culm_worker_node(const struct culm_worker *worker, uint32_t *ret_role) {
    if (ret_role) {
        *ret_role = worker->o.role;
    }
    return worker->o.node;
}

const void *culm_worker_brief(const struct culm_worker *worker, size_t *ret_len) {
    *ret_len = worker->brief ? worker->brief->size_bytes : 0;
    return worker->brief ? worker->brief->data : NULL;
}

enum culm_status culm_worker_report_ready(struct culm_worker *worker,
                                          const struct culm_worker_ready *ready,
                                          struct culm_error *error) {
    struct culm_ready said = {.status = CULM_OK};
    worker->ready = *ready;
    worker->ready.orphan_ms = ready->orphan_ms ? ready->orphan_ms : ORPHAN_MS;
    snprintf(said.signature, sizeof said.signature, "%s", ready->signature ? ready->signature : "");
    enum culm_status status = worker_say_ready(worker, &said, error);
    if (status != CULM_OK && error) {
        culm_error_prefix(error, "tell the leader that this worker is ready");
    }
    return status == CULM_OK && worker->o.node == CULM_NEWCOMER ? worker_await_id(worker, error)
                                                                : status;
}

void culm_worker_decline(struct culm_worker *worker, const struct culm_error *why) {
    struct culm_ready said = {.status = why->status ? why->status : CULM_ERR_INTERNAL};
    snprintf(said.text, sizeof said.text, "%s", why->text);
    (void)worker_say_ready(worker, &said, NULL);
}

static void stop_jobs(struct culm_worker *worker) {
    uint64_t deadline = culm_clock_ns() + JOBS_NS;
    (void)culm_jobs_stop(worker->real.compute, 0); /* ask both to stop before waiting for either */
    bool io = culm_jobs_stop(worker->real.io, deadline);
    if (!culm_jobs_stop(worker->real.compute, deadline) || !io) {
        _exit(worker->real.exit_code);
    }
}

static void on_stop(uv_signal_t *signal, int number) {
    struct culm_worker *worker = signal->data;
    const struct culm_actor_ops *ops = worker->real.actor_ops;
    (void)number;
    if (culm_real_listens(&worker->real) && ops->leave) {
        ops->leave(worker->real.actor, worker->o.leave_ms);
    }
}

/* Where that is not possible, the signal ends it. */
static void hear_stop(struct culm_worker *worker) {
    if (worker->o.leave_ms > 0 && uv_signal_init(&worker->real.loop, &worker->stop) == 0) {
        worker->hears = true;
        worker->stop.data = worker;
        (void)uv_signal_start(&worker->stop, on_stop, SIGTERM);
    }
}

int culm_worker_run(struct culm_worker *worker, const struct culm_actor_ops *ops, void *actor,
                    struct culm_error *ret_error) {
    struct culm_real *real = &worker->real;
    real->actor_ops = ops;
    real->actor = actor;
    worker_links_open(worker);
    hear_stop(worker);
    if (!real->left) {
        ops->start(actor);
    }
    while (!real->left) {
        uv_run(&real->loop, UV_RUN_DEFAULT);
    }
    struct culm_conn *above = worker->member ? culm_member_conn(worker->member, CULM_LEADER) : NULL;
    if (above) {
        culm_conn_linger(above, LINGER_QUIET_NS, culm_clock_ns() + LINGER_NS);
    }
    stop_jobs(worker);
    if (ret_error) {
        *ret_error = real->error;
    }
    return real->exit_code;
}

void culm_worker_free(struct culm_worker *worker) {
    if (!worker) {
        return;
    }
    culm_preparing_stop(worker->preparing);
    (void)culm_jobs_stop(worker->real.compute, CULM_NEVER);
    (void)culm_jobs_stop(worker->real.io, CULM_NEVER);
    worker_links_close(worker);
    if (worker->hears) {
        uv_close((uv_handle_t *)&worker->stop, NULL);
    }
    culm_real_release(&worker->real);
    culm_channel_close(&worker->leader);
    worker_listen_stop(worker);
    culm_faults_release(&worker->faults);
    culm_blob_unref(worker->brief);
    culm_blob_pool_free(worker->brief_pool);
    free(worker);
}

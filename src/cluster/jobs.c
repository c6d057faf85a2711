/*
 * Two rings of pointers under one lock: jobs that wait, and jobs that have ended and are not yet
 * told. Room for a job in the second is made when it enters the first, so that only submitting can
 * fail.
 */
#include "cluster/jobs.h"

#include "base/clock.h"

#include <stdlib.h>

struct ring {
    struct culm_job **at;
    size_t head, count, capacity;
};

struct culm_jobs {
    uv_thread_t thread;
    uv_mutex_t lock;
    uv_cond_t more, idle;
    uv_async_t ended;
    struct ring waiting, done;
    struct culm_job *running;
    bool stop, stopped, joined;
    void (*tell)(void *ctx, struct culm_job *job);
    void *ctx;
};

static bool ring_reserve(struct ring *ring, size_t count) {
    if (count <= ring->capacity) {
        return true;
    }
    size_t capacity = ring->capacity ? 2 * ring->capacity : 16;
    struct culm_job **at = malloc(capacity * sizeof *at);
    if (!at) {
        return false;
    }
    for (size_t i = 0; i < ring->count; i++) {
        at[i] = ring->at[(ring->head + i) % ring->capacity];
    }
    free(ring->at);
    *ring = (struct ring){.at = at, .count = ring->count, .capacity = capacity};
    return true;
}

static void ring_push(struct ring *ring, struct culm_job *job) {
    ring->at[(ring->head + ring->count++) % ring->capacity] = job;
}

static struct culm_job *ring_pop(struct ring *ring) {
    struct culm_job *job = ring->at[ring->head];
    ring->head = (ring->head + 1) % ring->capacity;
    ring->count--;
    return job;
}

static void work(void *arg) {
    struct culm_jobs *jobs = arg;
    uv_mutex_lock(&jobs->lock);
    for (;;) {
        while (!jobs->waiting.count && !jobs->stop) {
            uv_cond_wait(&jobs->more, &jobs->lock);
        }
        if (jobs->stop) {
            break;
        }
        struct culm_job *job = jobs->running = ring_pop(&jobs->waiting);
        uv_mutex_unlock(&jobs->lock);
        job->status = job->execute(job);
        uv_mutex_lock(&jobs->lock);
        jobs->running = NULL;
        ring_push(&jobs->done, job);
        uv_async_send(&jobs->ended);
    }
    jobs->stopped = true;
    uv_cond_signal(&jobs->idle);
    uv_mutex_unlock(&jobs->lock);
}

static void on_ended(uv_async_t *async) {
    struct culm_jobs *jobs = async->data;
    uv_mutex_lock(&jobs->lock);
    while (jobs->done.count && !jobs->stop) {
        struct culm_job *job = ring_pop(&jobs->done);
        uv_mutex_unlock(&jobs->lock);
        jobs->tell(jobs->ctx, job); /* may submit another */
        uv_mutex_lock(&jobs->lock);
    }
    uv_mutex_unlock(&jobs->lock);
}

enum culm_status culm_jobs_new(uv_loop_t *loop, void (*done)(void *ctx, struct culm_job *job),
                               void *ctx, struct culm_jobs **ret_jobs, struct culm_error *error) {
    struct culm_jobs *jobs = calloc(1, sizeof *jobs);
    if (!jobs) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a thread");
    }
    jobs->tell = done;
    jobs->ctx = ctx;
    jobs->ended.data = jobs;
    int failed = uv_mutex_init(&jobs->lock);
    if (failed) {
        goto fail_memory;
    }
    if ((failed = uv_cond_init(&jobs->more))) {
        goto fail_lock;
    }
    if ((failed = uv_cond_init(&jobs->idle))) {
        goto fail_more;
    }
    if ((failed = uv_thread_create(&jobs->thread, work, jobs))) {
        goto fail_idle;
    }
    if ((failed = uv_async_init(loop, &jobs->ended, on_ended))) {
        (void)culm_jobs_stop(jobs, CULM_NEVER);
        goto fail_idle;
    }
    *ret_jobs = jobs;
    return CULM_OK;
fail_idle:
    uv_cond_destroy(&jobs->idle);
fail_more:
    uv_cond_destroy(&jobs->more);
fail_lock:
    uv_mutex_destroy(&jobs->lock);
fail_memory:
    free(jobs);
    return culm_error_set(error, CULM_ERR_IO, "start a thread: %s", uv_strerror(failed));
}

enum culm_status culm_jobs_submit(struct culm_jobs *jobs, struct culm_job *job) {
    uv_mutex_lock(&jobs->lock);
    size_t after = jobs->waiting.count + jobs->done.count + (jobs->running ? 1 : 0) + 1;
    bool room =
        ring_reserve(&jobs->waiting, jobs->waiting.count + 1) && ring_reserve(&jobs->done, after);
    if (room) {
        ring_push(&jobs->waiting, job);
        uv_cond_signal(&jobs->more);
    }
    uv_mutex_unlock(&jobs->lock);
    return room ? CULM_OK : CULM_ERR_MEMORY;
}

bool culm_jobs_stop(struct culm_jobs *jobs, uint64_t deadline_ns) {
    uv_mutex_lock(&jobs->lock);
    jobs->stop = true;
    if (jobs->running) {
        __atomic_store_n(&jobs->running->stop, 1, __ATOMIC_RELAXED);
    }
    uv_cond_signal(&jobs->more);
    while (!jobs->stopped) {
        uint64_t now = culm_clock_ns();
        if (now >= deadline_ns) {
            break;
        }
        uint64_t left = deadline_ns - now;
        (void)uv_cond_timedwait(&jobs->idle, &jobs->lock, left < 1000000000 ? left : 1000000000);
    }
    bool stopped = jobs->stopped;
    uv_mutex_unlock(&jobs->lock);
    if (stopped && !jobs->joined) {
        jobs->joined = true;
        uv_thread_join(&jobs->thread);
    }
    return stopped;
}

static void on_closed(uv_handle_t *handle) {
    struct culm_jobs *jobs = handle->data;
    uv_cond_destroy(&jobs->idle);
    uv_cond_destroy(&jobs->more);
    uv_mutex_destroy(&jobs->lock);
    free(jobs->waiting.at);
    free(jobs->done.at);
    free(jobs);
}

void culm_jobs_free(struct culm_jobs *jobs) {
    if (jobs) {
        uv_close((uv_handle_t *)&jobs->ended, on_closed);
    }
}

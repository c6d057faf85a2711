/* The common part of real worlds: timers and jobs. See real.h. */
#include "cluster/real.h"

#include "base/clock.h"

#include <assert.h>
#include <string.h>

static struct culm_real *self(struct culm_world *world) { return (struct culm_real *)world; }

bool culm_real_listens(const struct culm_real *real) { return real->actor && !real->left; }

static void on_done(void *ctx, struct culm_job *job) {
    struct culm_real *real = ctx;
    if (culm_real_listens(real)) {
        real->actor_ops->job_done(real->actor, job);
    }
}

static void start_timer(struct culm_real_timer *timer, uint64_t now_ns);

static void on_timer(uv_timer_t *uv_timer) {
    struct culm_real_timer *timer = (struct culm_real_timer *)uv_timer;
    struct culm_real *real = uv_timer->data;
    uint64_t now = culm_clock_ns();
    if (now < timer->due_ns) { /* the loop's clock is truncated to milliseconds */
        start_timer(timer, now);
    } else if (culm_real_listens(real)) {
        real->actor_ops->timer(real->actor, (uint32_t)(timer - real->timer));
    }
}

static void start_timer(struct culm_real_timer *timer, uint64_t now_ns) {
    uint64_t delay = timer->due_ns > now_ns ? timer->due_ns - now_ns : 0;
    uv_update_time(timer->timer.loop);
    uv_timer_start(&timer->timer, on_timer, delay / 1000000 + (delay % 1000000 != 0), 0);
}

enum culm_status culm_real_init(struct culm_real *real, const struct culm_world_ops *ops,
                                struct culm_error *error) {
    memset(real, 0, sizeof *real);
    real->world.ops = ops;
    int failed = uv_loop_init(&real->loop);
    if (failed) {
        return culm_error_set(error, CULM_ERR_IO, "start a loop: %s", uv_strerror(failed));
    }
    for (uint32_t i = 0; i < CULM_REAL_TIMERS; i++) {
        uv_timer_init(&real->loop, &real->timer[i].timer);
        real->timer[i].timer.data = real;
    }
    enum culm_status status = culm_jobs_new(&real->loop, on_done, real, &real->compute, error);
    if (status == CULM_OK) {
        status = culm_jobs_new(&real->loop, on_done, real, &real->io, error);
    }
    if (status != CULM_OK) {
        if (real->compute) {
            (void)culm_jobs_stop(real->compute, CULM_NEVER);
        }
        culm_real_release(real);
    }
    return status;
}

void culm_real_release(struct culm_real *real) {
    for (uint32_t i = 0; i < CULM_REAL_TIMERS; i++) {
        uv_close((uv_handle_t *)&real->timer[i].timer, NULL);
    }
    culm_jobs_free(real->compute);
    culm_jobs_free(real->io);
    while (uv_run(&real->loop, UV_RUN_DEFAULT)) { /* again, if a pending uv_stop ended it early */
    }
    int busy = uv_loop_close(&real->loop);
    assert(busy == 0 && "a handle was not closed");
    (void)busy;
}

uint64_t culm_real_now_ns(struct culm_world *world) {
    (void)world;
    return culm_clock_ns();
}

void culm_real_set_timer(struct culm_world *world, uint32_t number, uint64_t delay_ns) {
    assert(number < CULM_REAL_TIMERS);
    struct culm_real_timer *timer = &self(world)->timer[number];
    if (delay_ns == CULM_NEVER) {
        uv_timer_stop(&timer->timer);
        return;
    }
    uint64_t now = culm_clock_ns();
    timer->due_ns = delay_ns < CULM_NEVER - now ? now + delay_ns : CULM_NEVER;
    start_timer(timer, now);
}

static void submit(struct culm_real *real, struct culm_jobs *jobs, struct culm_job *job) {
    if (culm_jobs_submit(jobs, job) != CULM_OK) {
        struct culm_error error;
        culm_error_set(&error, CULM_ERR_MEMORY, "out of memory for a job");
        culm_real_fail(real, &error);
    }
}

void culm_real_run(struct culm_world *world, struct culm_job *job) {
    submit(self(world), self(world)->compute, job);
}

void culm_real_io(struct culm_world *world, struct culm_job *job) {
    submit(self(world), self(world)->io, job);
}

void culm_real_leave(struct culm_world *world, int exit_code, const struct culm_error *error) {
    struct culm_real *real = self(world);
    if (!real->left) {
        real->left = true;
        real->exit_code = exit_code;
        if (error) {
            real->error = *error;
        }
        uv_stop(&real->loop);
    }
}

void culm_real_fail(struct culm_real *real, const struct culm_error *error) {
    if (!real->left && real->failing) {
        real->failing(real, error);
    }
    culm_real_leave(&real->world, culm_status_exit_code(error->status), error);
}

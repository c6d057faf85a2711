/* Virtual time. See virtual.h. */
#include "edge/virtual.h"

#include "base/buf.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define BEGIN_NS 1000000000ull /* not 0, which in places means "never so far" */
#define TIMERS 16

struct source {
    uint64_t next_ns; /* CULM_NEVER: it has ended, or not begun */
    int64_t number, left;
    bool begun;
};

struct culm_edge_virtual {
    struct culm_world world; /* first */
    struct culm_edge_exec exec;
    struct culm_edge_virtual_options o;
    const struct culm_edge_layout *layout;
    struct culm_edge_scheduler *scheduler;
    uint64_t now_ns, stop_ns;
    uint64_t timer_ns[TIMERS];
    struct culm_job *job[2]; /* [false]: that runs; [true]: that loads; NULL: none */
    uint64_t job_ns[2];
    struct source source[CULM_EDGE_FEEDS_MAX];
    bool left;
};

static struct culm_edge_virtual *self(struct culm_world *world) {
    return (struct culm_edge_virtual *)world;
}

static uint64_t world_now(struct culm_world *world) { return self(world)->now_ns; }

static void world_send(struct culm_world *world, int32_t node, const struct culm_message *message) {
    (void)world, (void)node, (void)message; /* feeds do not listen */
}

static void world_timer(struct culm_world *world, uint32_t timer, uint64_t delay_ns) {
    self(world)->timer_ns[timer] =
        delay_ns == CULM_NEVER ? CULM_NEVER : self(world)->now_ns + delay_ns;
}

static void submit(struct culm_edge_virtual *virtual, struct culm_job *job, bool load) {
    uint64_t cost = job->cost_ns;
    job->status = CULM_OK;
    if (virtual->o.cost) {
        cost = virtual->o.cost(virtual->o.context, job, load);
    }
    virtual->job[load] = job;
    virtual->job_ns[load] = virtual->now_ns + cost;
}

static void world_run(struct culm_world *world, struct culm_job *job) {
    submit(self(world), job, false);
}

static void world_io(struct culm_world *world, struct culm_job *job) {
    submit(self(world), job, true);
}

static void world_fault(struct culm_world *world, const struct culm_fault_point *point) {
    (void)world, (void)point;
}

static void world_publish(struct culm_world *world, json_t *take_event) {
    struct culm_edge_virtual *virtual = self(world);
    if (virtual->o.event) {
        json_object_set_new(take_event, "t_ms",
                            json_real((double)(virtual->now_ns - BEGIN_NS) / 1e6));
        virtual->o.event(virtual->o.context, take_event);
    }
    json_decref(take_event);
}

static void world_leave(struct culm_world *world, int exit_code, const struct culm_error *error) {
    (void)exit_code, (void)error;
    self(world)->left = true;
}

static const struct culm_world_ops world_ops = {.size = sizeof(struct culm_world_ops),
                                                .now_ns = world_now,
                                                .send = world_send,
                                                .timer = world_timer,
                                                .run = world_run,
                                                .io = world_io,
                                                .fault = world_fault,
                                                .publish = world_publish,
                                                .leave = world_leave};

static enum culm_status done(struct culm_job *job) { return job->status; }

static void forget_load(struct culm_edge_exec *exec, const struct culm_edge_load *load,
                        uint64_t ns) {
    (void)exec, (void)load, (void)ns;
}
static void forget_batch(struct culm_edge_exec *exec, const struct culm_edge_batch *batch,
                         uint64_t ns) {
    (void)exec, (void)batch, (void)ns;
}
static void forget_tensor(struct culm_edge_exec *exec, int32_t tensor) { (void)exec, (void)tensor; }
static void forget_bytes(struct culm_edge_exec *exec, size_t bytes) { (void)exec, (void)bytes; }
static size_t no_bytes(struct culm_edge_exec *exec) {
    (void)exec;
    return 0;
}
static void tell_frame(struct culm_edge_exec *exec, int32_t query,
                       const struct culm_edge_look *look, const struct culm_edge_batch *batch) {
    const struct culm_edge_virtual_options *o =
        &((struct culm_edge_virtual *)((char *)exec - offsetof(struct culm_edge_virtual, exec)))->o;
    if (o->settled) {
        o->settled(o->context, query, look->frame, batch != NULL);
    }
}
static void forget_layout(struct culm_edge_exec *exec) { (void)exec; }

static const struct culm_edge_exec_ops nothing = {.size = sizeof(struct culm_edge_exec_ops),
                                                  .load = done,
                                                  .infer = done,
                                                  .loaded = forget_load,
                                                  .ran = forget_batch,
                                                  .evict = forget_tensor,
                                                  .activations = forget_bytes,
                                                  .frames = no_bytes,
                                                  .settled = tell_frame,
                                                  .relaid = forget_layout};

struct culm_edge_virtual *culm_edge_virtual_new(const struct culm_edge_virtual_options *options) {
    struct culm_edge_virtual *virtual = calloc(1, sizeof *virtual);
    if (!virtual) {
        return NULL;
    }
    virtual->world.ops = &world_ops;
    virtual->exec.ops = &nothing;
    virtual->o = *options;
    virtual->layout = options->layout;
    virtual->now_ns = BEGIN_NS;
    virtual->stop_ns = options->for_ns ? BEGIN_NS + options->for_ns : CULM_NEVER;
    for (int t = 0; t < TIMERS; t++) {
        virtual->timer_ns[t] = CULM_NEVER;
    }
    for (int32_t f = 0; f < CULM_EDGE_FEEDS_MAX; f++) {
        virtual->source[f].next_ns = CULM_NEVER;
    }
    for (int32_t f = 0; f < options->layout->feed_count; f++) {
        /* Feeds begin out of step with one another, spread by the golden ratio of their periods. */
        uint64_t period = options->layout->feed[f].period_ns;
        uint64_t apart = (uint64_t)((double)period * 0.6180339887) * (uint64_t)f % period;
        if (!options->layout->feed[f].gone) {
            culm_edge_virtual_feed_from(virtual, f, BEGIN_NS + apart,
                                        options->frames ? options->frames : INT64_MAX);
        }
    }
    const struct culm_edge_scheduler_options how = {.world = &virtual->world,
                                                    .exec = options->exec ? options->exec
                                                                          : &virtual->exec,
                                                    .layout = options->layout,
                                                    .plan = options->plan,
                                                    .quiet = !options->event};
    virtual->scheduler = culm_edge_scheduler_new(&how);
    if (!virtual->scheduler) {
        free(virtual);
        return NULL;
    }
    culm_edge_scheduler_actor.start(virtual->scheduler);
    return virtual;
}

void culm_edge_virtual_free(struct culm_edge_virtual *virtual) {
    if (virtual) {
        culm_edge_scheduler_free(virtual->scheduler);
        free(virtual);
    }
}

void culm_edge_virtual_feed_from(struct culm_edge_virtual *virtual, int32_t feed, uint64_t at_ns,
                                 int64_t frames) {
    virtual->source[feed] = (struct source){.next_ns = at_ns, .left = frames, .begun = true};
}

void culm_edge_virtual_feed_end(struct culm_edge_virtual *virtual, int32_t feed) {
    if (virtual->source[feed].begun) {
        virtual->source[feed].left = 0;
        virtual->source[feed].next_ns = virtual->now_ns; /* when it ends */
    }
}

void culm_edge_virtual_feed_stall(struct culm_edge_virtual *virtual, int32_t feed,
                                  uint64_t for_ns) {
    if (virtual->source[feed].next_ns != CULM_NEVER) {
        virtual->source[feed].next_ns += for_ns;
    }
}

static void send_frame(struct culm_edge_virtual *virtual, int32_t feed) {
    struct culm_buf meta;
    uint8_t bytes[CULM_EDGE_FRAME_META];
    culm_buf_init(&meta, sizeof bytes);
    culm_buf_u64(&meta, (uint64_t) virtual->source[feed].number++);
    culm_buf_u64(&meta, virtual->now_ns);
    const struct culm_message message = {
        .type = CULM_EDGE_FRAME, .meta = meta.data, .meta_bytes = (uint32_t)meta.len};
    culm_edge_scheduler_actor.message(virtual->scheduler, feed, &message);
    culm_buf_release(&meta);
}

void culm_edge_virtual_feed_burst(struct culm_edge_virtual *virtual, int32_t feed, int32_t frames) {
    for (int32_t i = 0; i<frames &&virtual->source[feed].left> 0 && !virtual->left; i++) {
        virtual->source[feed].left--;
        send_frame(virtual, feed);
    }
}

void culm_edge_virtual_layout(struct culm_edge_virtual *virtual,
                              const struct culm_edge_layout *layout) {
    virtual->layout = layout;
}

static void feed_happens(struct culm_edge_virtual *virtual, int32_t feed) {
    struct source *source = &virtual->source[feed];
    if (source->left == 0) {
        source->next_ns = CULM_NEVER;
        culm_edge_scheduler_actor.lost(virtual->scheduler, feed);
        return;
    }
    source->left--;
    source->next_ns += virtual->layout->feed[feed].period_ns;
    send_frame(virtual, feed);
}

bool culm_edge_virtual_step(struct culm_edge_virtual *virtual) {
    uint64_t next = CULM_NEVER;
    int kind = -1, which = 0; /* 0: jobs, 1: timers, 2: feeds */
    if (virtual->left) {
        return false;
    }
    for (int j = 0; j < 2; j++) {
        if (virtual->job[j] && virtual->job_ns[j] < next) {
            next = virtual->job_ns[j], kind = 0, which = j;
        }
    }
    for (int t = 0; t < TIMERS; t++) {
        if (virtual->timer_ns[t] < next) {
            next = virtual->timer_ns[t], kind = 1, which = t;
        }
    }
    for (int f = 0; f < CULM_EDGE_FEEDS_MAX; f++) {
        if (virtual->source[f].next_ns < next) {
            next = virtual->source[f].next_ns, kind = 2, which = f;
        }
    }
    if (virtual->stop_ns < next) {
        virtual->now_ns = virtual->stop_ns;
        virtual->stop_ns = CULM_NEVER;
        culm_edge_scheduler_stop(virtual->scheduler);
        return !virtual->left;
    }
    if (kind < 0) {
        return false;
    }
    virtual->now_ns = next;
    if (kind == 0) {
        struct culm_job *job = virtual->job[which];
        virtual->job[which] = NULL;
        job->status = job->execute(job); /* `cost` may have set job->status for it to return */
        culm_edge_scheduler_actor.job_done(virtual->scheduler, job);
    } else if (kind == 1) {
        virtual->timer_ns[which] = CULM_NEVER;
        culm_edge_scheduler_actor.timer(virtual->scheduler, (uint32_t)which);
    } else {
        feed_happens(virtual, which);
    }
    return true;
}

uint64_t culm_edge_virtual_now(const struct culm_edge_virtual *virtual) { return virtual->now_ns; }

bool culm_edge_virtual_left(const struct culm_edge_virtual *virtual) { return virtual->left; }

struct culm_edge_scheduler *culm_edge_virtual_scheduler(struct culm_edge_virtual *virtual) {
    return virtual->scheduler;
}

enum culm_status culm_edge_virtual_run(const struct culm_edge_virtual_options *options,
                                       struct culm_edge_totals *ret_totals,
                                       struct culm_edge_memory *ret_memory) {
    struct culm_edge_virtual *virtual = culm_edge_virtual_new(options);
    if (!virtual) {
        return CULM_ERR_MEMORY;
    }
    while (culm_edge_virtual_step(virtual)) {
    }
    for (int32_t q = 0; ret_totals && q < options->layout->query_count; q++) {
        ret_totals[q] = *culm_edge_scheduler_totals(virtual->scheduler, q);
    }
    if (ret_memory) {
        culm_edge_scheduler_memory(virtual->scheduler, ret_memory);
    }
    culm_edge_virtual_free(virtual);
    return CULM_OK;
}

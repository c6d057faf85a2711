/* The world of an actor without peers. See alone.h. */
#include "cluster/alone.h"

#include "base/clock.h"
#include "cluster/real.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct posted {
    struct posted *next;
    int32_t from;
    bool lost;
    struct culm_message message;
    uint8_t meta[CULM_ALONE_META_MAX];
};

struct culm_alone {
    struct culm_real real; /* first */
    struct culm_alone_options o;
    uint64_t begin_ns;
    uv_mutex_t lock;
    struct posted *first, **last; /* under the lock, */
    size_t waiting;               /* as how many there are */
    uv_async_t more, wake;
    uv_timer_t tick, end;
};

static struct culm_alone *self(struct culm_world *world) { return (struct culm_alone *)world; }

static void nobody(struct culm_world *world, int32_t node, const struct culm_message *message) {
    (void)world, (void)node, (void)message; /* sources receive no messages */
}

static void no_fault(struct culm_world *world, const struct culm_fault_point *point) {
    (void)world, (void)point;
}

static void publish(struct culm_world *world, json_t *take_event) {
    struct culm_alone *alone = self(world);
    double t_ms = (double)((culm_clock_ns() - alone->begin_ns) / 1000) / 1e3;
    const char *key;
    json_t *value, *event = json_object();
    json_object_set(event, "event", json_object_get(take_event, "event"));
    json_object_set_new(event, "t_ms", json_real(t_ms));
    json_object_foreach(take_event, key, value) {
        if (!json_object_get(event, key)) {
            json_object_set(event, key, value);
        }
    }
    if (alone->o.publish) {
        alone->o.publish(alone->o.ctx, event);
    }
    json_decref(event);
    json_decref(take_event);
}

static const struct culm_world_ops world_ops = {.size = sizeof(struct culm_world_ops),
                                                .now_ns = culm_real_now_ns,
                                                .send = nobody,
                                                .timer = culm_real_set_timer,
                                                .run = culm_real_run,
                                                .io = culm_real_io,
                                                .fault = no_fault,
                                                .publish = publish,
                                                .leave = culm_real_leave};

static void drop(struct posted *posted) {
    culm_blob_unref(posted->message.payload);
    free(posted);
}

static void on_more(uv_async_t *async) {
    struct culm_alone *alone = async->data;
    uv_mutex_lock(&alone->lock);
    struct posted *list = alone->first;
    alone->first = NULL;
    alone->last = &alone->first;
    alone->waiting = 0;
    uv_mutex_unlock(&alone->lock);
    while (list) {
        struct posted *next = list->next;
        if (culm_real_listens(&alone->real)) {
            if (list->lost) {
                alone->real.actor_ops->lost(alone->real.actor, list->from);
            } else {
                alone->real.actor_ops->message(alone->real.actor, list->from, &list->message);
            }
        }
        drop(list);
        list = next;
    }
}

static void on_wake(uv_async_t *async) {
    struct culm_alone *alone = async->data;
    if (alone->o.woken && culm_real_listens(&alone->real)) {
        alone->o.woken(alone->o.ctx);
    }
}

static void on_tick(uv_timer_t *timer) {
    struct culm_alone *alone = timer->data;
    if (culm_real_listens(&alone->real)) {
        alone->o.tick(alone->o.ctx);
    }
}

static void on_end(uv_timer_t *timer) {
    struct culm_alone *alone = timer->data;
    if (alone->o.stop && culm_real_listens(&alone->real)) {
        alone->o.stop(alone->o.ctx);
    }
}

enum culm_status culm_alone_new(const struct culm_alone_options *options,
                                struct culm_alone **ret_alone, struct culm_error *error) {
    struct culm_alone *alone = calloc(1, sizeof *alone);
    if (!alone) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a loop");
    }
    alone->o = *options;
    alone->last = &alone->first;
    enum culm_status status = culm_real_init(&alone->real, &world_ops, error);
    if (status != CULM_OK) {
        free(alone);
        return status;
    }
    uv_mutex_init(&alone->lock);
    uv_async_init(&alone->real.loop, &alone->more, on_more);
    uv_async_init(&alone->real.loop, &alone->wake, on_wake);
    alone->more.data = alone->wake.data = alone;
    uv_timer_init(&alone->real.loop, &alone->tick);
    uv_timer_init(&alone->real.loop, &alone->end);
    alone->tick.data = alone->end.data = alone;
    alone->begin_ns = culm_clock_ns();
    *ret_alone = alone;
    return CULM_OK;
}

struct culm_world *culm_alone_world(struct culm_alone *alone) {
    return &alone->real.world;
}

static bool put(struct culm_alone *alone, int32_t from, const struct culm_message *message) {
    struct posted *posted = calloc(1, sizeof *posted);
    if (!posted) {
        return false;
    }
    posted->from = from;
    posted->lost = !message;
    if (message) {
        assert(message->meta_bytes <= CULM_ALONE_META_MAX);
        posted->message = *message;
        memcpy(posted->meta, message->meta, message->meta_bytes);
        posted->message.meta = posted->meta;
        culm_blob_ref(message->payload);
    }
    uv_mutex_lock(&alone->lock);
    *alone->last = posted;
    alone->last = &posted->next;
    alone->waiting++;
    uv_mutex_unlock(&alone->lock);
    uv_async_send(&alone->more);
    return true;
}

size_t culm_alone_count_waiting(struct culm_alone *alone) {
    uv_mutex_lock(&alone->lock);
    const size_t waiting = alone->waiting;
    uv_mutex_unlock(&alone->lock);
    return waiting;
}

bool culm_alone_post(struct culm_alone *alone, int32_t from, const struct culm_message *message) {
    return put(alone, from, message);
}

bool culm_alone_lost(struct culm_alone *alone, int32_t from) { return put(alone, from, NULL); }

void culm_alone_wake(struct culm_alone *alone) { (void)uv_async_send(&alone->wake); }

int culm_alone_run(struct culm_alone *alone, const struct culm_actor_ops *ops, void *actor,
                   struct culm_error *ret_error) {
    struct culm_real *real = &alone->real;
    real->actor_ops = ops;
    real->actor = actor;
    alone->begin_ns = culm_clock_ns();
    uv_update_time(&real->loop);
    if (alone->o.tick && alone->o.tick_ms) {
        uv_timer_start(&alone->tick, on_tick, alone->o.tick_ms, alone->o.tick_ms);
    }
    if (alone->o.for_ms) {
        uv_timer_start(&alone->end, on_end, alone->o.for_ms, 0);
    }
    ops->start(actor);
    if (!real->left) {
        uv_run(&real->loop, UV_RUN_DEFAULT);
    }
    real->left = true;
    (void)culm_jobs_stop(real->compute, CULM_NEVER);
    (void)culm_jobs_stop(real->io, CULM_NEVER);
    if (ret_error) {
        *ret_error = real->error;
    }
    return real->exit_code;
}

void culm_alone_free(struct culm_alone *alone) {
    if (!alone) {
        return;
    }
    if (!alone->real.left) { /* it was never run */
        (void)culm_jobs_stop(alone->real.compute, CULM_NEVER);
        (void)culm_jobs_stop(alone->real.io, CULM_NEVER);
    }
    uv_close((uv_handle_t *)&alone->wake, NULL);
    uv_close((uv_handle_t *)&alone->tick, NULL);
    uv_close((uv_handle_t *)&alone->end, NULL);
    uv_close((uv_handle_t *)&alone->more, NULL);
    culm_real_release(&alone->real);
    for (struct posted *list = alone->first; list;) {
        struct posted *next = list->next;
        drop(list);
        list = next;
    }
    uv_mutex_destroy(&alone->lock);
    free(alone);
}

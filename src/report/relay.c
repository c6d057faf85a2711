/* A queue and a thread. See relay.h. */
#include "report/relay.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

struct relay {
    struct culm_sink sink;
    struct culm_sink *other;
    pthread_t thread;
    pthread_mutex_t mutex; /* of what follows */
    pthread_cond_t changed;
    json_t *waiting[CULM_RELAY_EVENTS]; /* a ring */
    size_t first, count;
    bool busy; /* with the event that it took last */
    bool over;
    struct culm_error problem; /* nobody has been told; status CULM_OK: there is none */
};

/* Takes the first event that waits, when there is one; NULL: it is over. */
static json_t *take_event(struct relay *r) {
    json_t *event = NULL;
    pthread_mutex_lock(&r->mutex);
    while (r->count == 0 && !r->over) {
        pthread_cond_wait(&r->changed, &r->mutex);
    }
    if (r->count > 0) {
        event = r->waiting[r->first];
        r->first = (r->first + 1) % CULM_RELAY_EVENTS;
        r->count--;
        r->busy = true;
    }
    pthread_mutex_unlock(&r->mutex);
    return event;
}

static void note_problem(struct relay *r, enum culm_status status, const struct culm_error *error) {
    if (status != CULM_OK && r->problem.status == CULM_OK) {
        r->problem = *error;
        r->problem.status = status;
    }
}

static void *hand_on(void *relay) {
    struct relay *r = relay;
    for (json_t *event; (event = take_event(r));) {
        struct culm_error error = {0};
        enum culm_status status = culm_sink_event(r->other, event, &error);
        json_decref(event);
        pthread_mutex_lock(&r->mutex);
        note_problem(r, status, &error);
        r->busy = false;
        pthread_cond_broadcast(&r->changed);
        pthread_mutex_unlock(&r->mutex);
    }
    return NULL;
}

static void add_event(struct relay *r, json_t *take_event) {
    struct culm_error error;
    if (take_event && r->count < CULM_RELAY_EVENTS) {
        r->waiting[(r->first + r->count++) % CULM_RELAY_EVENTS] = take_event;
        pthread_cond_broadcast(&r->changed);
        return;
    }
    note_problem(r,
                 take_event ? culm_error_set(&error, CULM_ERR_AGAIN,
                                             "%d of them wait to be read; some are left out",
                                             CULM_RELAY_EVENTS)
                            : culm_error_set(&error, CULM_ERR_MEMORY, "out of memory"),
                 &error);
    json_decref(take_event);
}

static void wait_until_handed_on(struct relay *r) {
    while (r->count > 0 || r->busy) {
        pthread_cond_wait(&r->changed, &r->mutex);
    }
}

static enum culm_status relay_event(struct culm_sink *sink, const json_t *event,
                                    struct culm_error *error) {
    struct relay *r = (struct relay *)sink;
    json_t *copy = json_deep_copy(event);
    bool last = strcmp(culm_event_text(event, "event", ""), "done") == 0;
    pthread_mutex_lock(&r->mutex);
    if (last) { /* there is room for it then */
        wait_until_handed_on(r);
    }
    add_event(r, copy);
    if (last) {
        wait_until_handed_on(r);
    }
    enum culm_status status = r->problem.status;
    if (status != CULM_OK && error) {
        *error = r->problem;
    }
    r->problem.status = CULM_OK;
    pthread_mutex_unlock(&r->mutex);
    return status;
}

static void free_parts(struct relay *r) {
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->mutex);
    culm_sink_free(r->other);
    free(r);
}

static void relay_free(struct culm_sink *sink) {
    struct relay *r = (struct relay *)sink;
    pthread_mutex_lock(&r->mutex);
    r->over = true;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->mutex);
    pthread_join(r->thread, NULL);
    free_parts(r);
}

/* Signals are for other threads. */
static bool start(struct relay *r) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&r->thread, NULL, hand_on, r);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed == 0;
}

struct culm_sink *culm_sink_relay_new(struct culm_sink *take_sink) {
    static const struct culm_sink_ops ops = {sizeof ops, relay_event, relay_free};
    struct relay *r = take_sink ? calloc(1, sizeof *r) : NULL;
    if (!r) {
        culm_sink_free(take_sink);
        return NULL;
    }
    r->sink.ops = &ops;
    r->other = take_sink;
    pthread_mutex_init(&r->mutex, NULL);
    pthread_cond_init(&r->changed, NULL);
    if (!start(r)) {
        free_parts(r);
        return NULL;
    }
    return &r->sink;
}

/*
 * A running edge as an object: culm_edge_* of culm/edge.h. The run has a thread of its own, from which
 * all of its threads inherit that signals are blocked.
 */
#include "base/stops.h"
#include "query/config.h"
#include "run/edge_answers.h"
#include "run/edge_remerge.h"
#include "run/public.h"

#include <culm/edge.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define ANSWERS 1024
#define ANSWERS_MAX 1000000
#define POSTED_MAX 64 /* more feeds than that cannot be run */

enum state { OPEN, STARTED, BEGUN, ENDED };

struct culm_edge {
    struct culm_live *live;
    struct culm_live_options how; /* owns its texts, of which the workload's are in `workload` */
    struct culm_config *workload;
    char *posted[POSTED_MAX];
    struct culm_function_sink events;
    struct edge_answers answers;
    bool keeps_answers, has_answers; /* has: they are to be released */
    pthread_t thread;
    bool runs;            /* there is a thread to be joined */
    pthread_mutex_t lock; /* guards state; what follows is written before that moves on */
    pthread_cond_t moved;
    enum state state;
    bool began;              /* it has been BEGUN */
    enum culm_status status; /* how it has ended */
    struct culm_error error;
};

/* --- the run's threads --- */

static void move_to(struct culm_edge *edge, enum state state) {
    pthread_mutex_lock(&edge->lock);
    edge->state = state;
    pthread_cond_broadcast(&edge->moved);
    pthread_mutex_unlock(&edge->lock);
}

static enum state state_of(struct culm_edge *edge) {
    pthread_mutex_lock(&edge->lock);
    const enum state state = edge->state;
    pthread_mutex_unlock(&edge->lock);
    return state;
}

static void begun(void *ctx) {
    struct culm_edge *edge = ctx;
    edge->began = true;
    move_to(edge, BEGUN);
}

static void answered(void *ctx, const struct culm_live_answer *answer) {
    struct culm_edge *edge = ctx;
    edge_answers_put(&edge->answers, answer);
}

/* Runs, with a process beside it that merges the package on, if that is wanted. */
static enum culm_status run_live(struct culm_edge *edge) {
    pid_t merging = 0;
    enum culm_status status = culm_live_remerges(edge->live)
                                  ? edge_remerge_start(edge->how.package, culm_live_out(edge->live),
                                                       &merging, &edge->error)
                                  : CULM_OK;
    culm_live_beside(edge->live, merging);
    status = status ? status : culm_live_run(edge->live, &edge->error);
    if (culm_live_is_beside(edge->live) > 0) {
        edge_remerge_stop(merging);
    }
    return status;
}

static void *run(void *arg) {
    struct culm_edge *edge = arg;
    (void)pthread_setname_np(pthread_self(), "culm-edge"); /* as those that it starts */
    edge->status = run_live(edge);
    edge_answers_close(&edge->answers);
    move_to(edge, ENDED);
    return NULL;
}

/* --- opening --- */

static char *copy(const char *text, bool *ok) {
    char *made = text ? strdup(text) : NULL;
    *ok &= !text || made;
    return made;
}

static void no_event(void *context, const char *json) { (void)context, (void)json; }

static enum culm_status take(struct culm_edge *edge, const struct culm_config *workload,
                             const struct culm_edge_options *o, struct culm_error *error) {
    bool ok = (edge->workload = culm_config_copy(workload)) != NULL;
    for (size_t i = 0; i < o->posted_count; i++) {
        edge->posted[i] = copy(o->posted[i], &ok);
    }
    culm_function_sink_init(&edge->events, o->event ? o->event : no_event, o->context);
    edge->keeps_answers = o->answers >= 0;
    edge->how = (struct culm_live_options){
        .package = copy(o->package, &ok),
        .profile = copy(o->profile, &ok),
        .out = copy(o->dir, &ok),
        .for_s = o->seconds,
        .posted = (const char *const *)edge->posted,
        .posted_count = o->posted_count,
        .events = &edge->events.sink,
        .begun = begun,
        .answer = edge->keeps_answers ? answered : NULL,
        .ctx = edge,
    };
    if (!ok) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for an edge");
    }
    edge->how.workload = edge->workload->name;
    edge->how.text = edge->workload->text;
    edge->how.len = edge->workload->len;
    edge->how.sets = (const char *const *)edge->workload->set;
    edge->how.set_count = edge->workload->set_count;
    edge->has_answers = true;
    enum culm_status status = edge_answers_init(&edge->answers,
                                                o->answers > 0   ? (size_t)o->answers
                                                : o->answers < 0 ? 0
                                                                 : ANSWERS,
                                                error);
    if (status == CULM_OK) {
        status = culm_live_open(&edge->how, &edge->live, error);
    }
    if (status == CULM_OK && culm_live_remerges(edge->live) && !edge->how.package) {
        status =
            culm_error_set(error, CULM_ERR_CONFIG,
                           "%s: edge.remerge: there is no package that could be merged on; give "
                           "one with --package",
                           edge->how.workload);
    }
    return status;
}

static enum culm_status check(const struct culm_edge_options *o, struct culm_error *error) {
    if (!(o->seconds >= 0)) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "culm_edge_options: seconds: %g is not 0 or more", o->seconds);
    }
    if (o->posted_count > POSTED_MAX || (o->posted_count && !o->posted)) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "culm_edge_options: posted: NULL, or more than %d feeds", POSTED_MAX);
    }
    for (size_t i = 0; i < o->posted_count; i++) {
        if (!o->posted[i]) {
            return culm_error_set(error, CULM_ERR_ARGUMENT, "culm_edge_options: posted[%zu]: NULL",
                                  i);
        }
    }
    return o->answers < 0
               ? CULM_OK
               : culm_public_check(o->answers, ANSWERS_MAX, "culm_edge_options: answers", error);
}

enum culm_status culm_edge_open(const struct culm_config *workload,
                                const struct culm_edge_options *options,
                                struct culm_edge **ret_edge, struct culm_error *error) {
    struct culm_edge_options own;
    if (!workload || !ret_edge) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "culm_edge_open: an argument is NULL");
    }
    enum culm_status status =
        culm_public_take(&own, sizeof own, options, "culm_edge_options", error);
    if (status == CULM_OK) {
        status = check(&own, error);
    }
    if (status != CULM_OK) {
        return status;
    }
    struct culm_edge *edge = calloc(1, sizeof *edge);
    if (!edge) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for an edge");
    }
    pthread_mutex_init(&edge->lock, NULL);
    pthread_cond_init(&edge->moved, NULL);
    status = take(edge, workload, &own, error);
    if (status != CULM_OK) {
        culm_edge_close(edge);
        return culm_public_return(status, error);
    }
    *ret_edge = edge;
    return CULM_OK;
}

/* --- running --- */

/* Starts the thread of the run, which handles no signals, nor do those that it starts. */
static bool start_thread(struct culm_edge *edge) {
    sigset_t before;
    culm_signals_hold(&before);
    const bool started = pthread_create(&edge->thread, NULL, run, edge) == 0;
    culm_signals_let(&before);
    return started;
}

/* How the run has ended. */
static enum culm_status outcome(const struct culm_edge *edge, struct culm_error *error) {
    return edge->status == CULM_OK ? CULM_OK
                                   : culm_error_set(error, edge->status, "%s", edge->error.text);
}

enum culm_status culm_edge_start(struct culm_edge *edge, struct culm_error *error) {
    if (!edge || edge->state != OPEN) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "culm_edge_start: %s",
                              edge ? "this edge was started before" : "NULL");
    }
    move_to(edge, STARTED);
    edge->status = culm_live_prepare(edge->live, &edge->error);
    if (edge->status == CULM_OK) {
        edge->runs = start_thread(edge); /* from here on, its status is the thread's to write */
        if (!edge->runs) {
            edge->status =
                culm_error_set(&edge->error, CULM_ERR_MEMORY, "cannot start a thread for an edge");
        }
    }
    if (!edge->runs) {
        edge_answers_close(&edge->answers);
        move_to(edge, ENDED);
        return outcome(edge, error);
    }
    pthread_mutex_lock(&edge->lock);
    while (edge->state == STARTED) {
        pthread_cond_wait(&edge->moved, &edge->lock);
    }
    pthread_mutex_unlock(&edge->lock);
    return edge->began ? CULM_OK : outcome(edge, error);
}

enum culm_status culm_edge_wait(struct culm_edge *edge, struct culm_error *error) {
    if (!edge || state_of(edge) == OPEN) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "culm_edge_wait: %s",
                              edge ? "this edge was not started" : "NULL");
    }
    pthread_mutex_lock(&edge->lock);
    while (edge->state != ENDED) {
        pthread_cond_wait(&edge->moved, &edge->lock);
    }
    pthread_mutex_unlock(&edge->lock);
    return outcome(edge, error);
}

void culm_edge_stop(struct culm_edge *edge) {
    if (edge) {
        culm_live_stop(edge->live);
    }
}

void culm_edge_reload(struct culm_edge *edge) {
    if (edge) {
        culm_live_again(edge->live);
    }
}

void culm_edge_close(struct culm_edge *edge) {
    if (!edge) {
        return;
    }
    if (edge->runs) {
        culm_live_stop(edge->live);
        pthread_join(edge->thread, NULL);
    }
    culm_live_free(edge->live);
    if (edge->has_answers) {
        edge_answers_release(&edge->answers);
    }
    for (size_t i = 0; i < POSTED_MAX; i++) {
        free(edge->posted[i]);
    }
    free((char *)(uintptr_t)edge->how.package);
    free((char *)(uintptr_t)edge->how.profile);
    free((char *)(uintptr_t)edge->how.out);
    culm_config_free(edge->workload);
    pthread_cond_destroy(&edge->moved);
    pthread_mutex_destroy(&edge->lock);
    free(edge);
}

/* --- frames and answers --- */

enum culm_status culm_edge_post(struct culm_edge *edge, const char *feed,
                                const struct culm_picture *picture, int64_t *ret_frame,
                                struct culm_error *error) {
    struct culm_picture own;
    int64_t frame;
    if (!edge || !feed) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "culm_edge_post: an argument is NULL");
    }
    enum culm_status status = culm_public_take(&own, sizeof own, picture, "culm_picture", error);
    if (status == CULM_OK) {
        status = culm_live_post(edge->live, feed, &own, &frame, error);
    }
    if (status == CULM_OK && ret_frame) {
        *ret_frame = frame;
    }
    return status;
}

enum culm_status culm_edge_end(struct culm_edge *edge, const char *feed, struct culm_error *error) {
    return edge && feed
               ? culm_live_end(edge->live, feed, error)
               : culm_error_set(error, CULM_ERR_ARGUMENT, "culm_edge_end: an argument is NULL");
}

enum culm_status culm_edge_take_answer(struct culm_edge *edge, int64_t wait_ms,
                                       struct culm_edge_answer *ret_answer,
                                       struct culm_error *error) {
    struct culm_edge_answer answer;
    if (!edge || !edge->keeps_answers || state_of(edge) == OPEN) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "culm_edge_take_answer: %s",
                              !edge                  ? "NULL"
                              : !edge->keeps_answers ? "this edge keeps no answers"
                                                     : "this edge was not started");
    }
    enum culm_status status = culm_public_room(ret_answer, "culm_edge_answer", error);
    if (status == CULM_OK) {
        status = edge_answers_take(&edge->answers, wait_ms, &answer, error);
    }
    if (status == CULM_OK) {
        status = culm_public_fill(ret_answer, &answer, sizeof answer, "culm_edge_answer", error);
    }
    return status;
}

enum culm_status culm_edge_report(struct culm_edge *edge, char **ret_json,
                                  struct culm_error *error) {
    return edge && ret_json
               ? culm_live_report(edge->live, ret_json, error)
               : culm_error_set(error, CULM_ERR_ARGUMENT, "culm_edge_report: an argument is NULL");
}

/*
 * How a run goes, for threads that ask. The loop answers, since all that it could say is its own; once it
 * has ended, its last answer stays.
 */
#include "live/run.h"

#include <stdlib.h>
#include <string.h>

void live_status_init(struct live_status *status) {
    pthread_mutex_init(&status->lock, NULL);
    pthread_cond_init(&status->told, NULL);
}

void live_status_release(struct live_status *status) {
    free(status->text);
    pthread_cond_destroy(&status->told);
    pthread_mutex_destroy(&status->lock);
}

/* Without what makes it an event. NULL: out of memory. */
static char *text_of(const json_t *event) {
    json_t *object = json_copy((json_t *)(uintptr_t)event);
    json_object_del(object, "event");
    json_object_del(object, "t_ms");
    char *text = object ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    json_decref(object);
    return text;
}

static void answer(struct live_status *status, char *take_text) {
    free(status->text);
    status->text = take_text;
    status->answered = status->asked;
    pthread_cond_broadcast(&status->told);
}

void live_tell_status(struct culm_live *run) {
    struct live_status *status = &run->status;
    pthread_mutex_lock(&status->lock);
    if (status->answered < status->asked) {
        json_t *event = culm_edge_scheduler_report(run->scheduler);
        if (event) {
            live_fill_done(run, event);
        }
        answer(status, event ? text_of(event) : NULL);
        json_decref(event);
    }
    pthread_mutex_unlock(&status->lock);
}

void live_keep_status(struct culm_live *run, const json_t *event) {
    pthread_mutex_lock(&run->status.lock);
    answer(&run->status, text_of(event));
    run->status.over = true;
    pthread_mutex_unlock(&run->status.lock);
}

void live_begin_status(struct culm_live *run) {
    pthread_mutex_lock(&run->status.lock);
    run->status.begun = true;
    pthread_mutex_unlock(&run->status.lock);
}

void live_end_status(struct culm_live *run) {
    pthread_mutex_lock(&run->status.lock);
    run->status.over = true;
    pthread_cond_broadcast(&run->status.told);
    pthread_mutex_unlock(&run->status.lock);
}

enum culm_status culm_live_report(struct culm_live *run, char **ret_json,
                                  struct culm_error *error) {
    struct live_status *status = &run->status;
    char *text = NULL;
    pthread_mutex_lock(&status->lock);
    const bool begun = status->begun;
    const uint64_t asked = ++status->asked;
    if (begun && !status->over) {
        culm_alone_wake(run->alone);
    }
    while (begun && !status->over && status->answered < asked) {
        pthread_cond_wait(&status->told, &status->lock);
    }
    const bool over = status->over, told = status->text != NULL;
    if (told && (begun || over)) {
        text = strdup(status->text);
    }
    pthread_mutex_unlock(&status->lock);
    if (!begun && !over) {
        return culm_error_set(error, CULM_ERR_AGAIN, "the run has not begun");
    }
    if (over && !told) {
        return culm_error_set(error, CULM_ERR_CLOSED, "the run has failed");
    }
    if (!text) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a status");
    }
    *ret_json = text;
    return CULM_OK;
}

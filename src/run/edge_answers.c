/* A ring of copied answers. See edge_answers.h. */
#include "run/edge_answers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct edge_kept {
    struct culm_edge_answer answer; /* points to the rest */
    struct culm_prediction prediction;
    double data[]; /* the list; then texts */
};

/* --- copies --- */

/* Where the parts of a copy go. Without `at` they are only measured. */
struct room {
    char *at;
    size_t used;
};

static void *put(struct room *room, const void *from, size_t bytes) {
    void *to = room->at ? room->at + room->used : NULL;
    if (to && bytes) {
        memcpy(to, from, bytes);
    }
    room->used += bytes;
    return to;
}

static const char *put_text(struct room *room, const char *text) {
    return text ? put(room, text, strlen(text) + 1) : NULL;
}

static void put_list(struct room *room, struct culm_prediction *p) {
    const size_t count = (size_t)p->count;
    struct culm_predicted_box *box = put(room, p->box, p->box ? count * sizeof *box : 0);
    struct culm_predicted_class *classes =
        put(room, p->classes, p->classes ? count * sizeof *classes : 0);
    struct culm_predicted_point *point = put(room, p->point, p->point ? count * sizeof *point : 0);
    for (size_t i = 0; i < count; i++) { /* texts come behind all of the list */
        const char *name = p->box       ? put_text(room, p->box[i].name)
                           : p->classes ? put_text(room, p->classes[i].name)
                                        : NULL;
        if (room->at && p->box) {
            box[i].name = name;
        } else if (room->at && p->classes) {
            classes[i].name = name;
        }
    }
    if (room->at) {
        p->box = p->box ? box : NULL;
        p->classes = p->classes ? classes : NULL;
        p->point = p->point ? point : NULL;
    }
}

static void put_all(struct room *room, const struct culm_live_answer *from,
                    struct culm_edge_answer *answer, struct culm_prediction *prediction) {
    *prediction = *from->prediction;
    put_list(room, prediction);
    prediction->file = put_text(room, from->prediction->file);
    *answer = (struct culm_edge_answer){
        .size = sizeof *answer,
        .query = put_text(room, from->query),
        .feed = put_text(room, from->feed),
        .frame = from->frame,
        .of = from->of,
        .answered = from->of == from->frame ? CULM_EDGE_FRESH
                    : from->of >= 0         ? CULM_EDGE_STALE
                                            : CULM_EDGE_NONE,
        .taken_ns = from->at_ns,
        .due_ns = from->due_ns,
    };
}

static struct edge_kept *copy_of(const struct culm_live_answer *from) {
    struct culm_edge_answer answer;
    struct culm_prediction prediction;
    struct room room = {0};
    put_all(&room, from, &answer, &prediction);
    struct edge_kept *kept = malloc(sizeof *kept + room.used);
    if (kept) {
        room = (struct room){.at = (char *)kept->data};
        put_all(&room, from, &kept->answer, &kept->prediction);
        kept->answer.prediction = &kept->prediction;
    }
    return kept;
}

/* --- the ring --- */

enum culm_status edge_answers_init(struct edge_answers *answers, size_t capacity,
                                   struct culm_error *error) {
    pthread_condattr_t monotonic;
    *answers = (struct edge_answers){.capacity = capacity};
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&answers->more, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&answers->lock, NULL);
    answers->ring = calloc(capacity + 1, sizeof *answers->ring);
    return answers->ring ? CULM_OK
                         : culm_error_set(error, CULM_ERR_MEMORY, "out of memory for answers");
}

static struct edge_kept *oldest(struct edge_answers *answers) {
    struct edge_kept *kept = answers->ring[answers->first];
    answers->first = (answers->first + 1) % answers->capacity;
    answers->count--;
    return kept;
}

void edge_answers_put(struct edge_answers *answers, const struct culm_live_answer *answer) {
    if (answers->capacity == 0) {
        return;
    }
    struct edge_kept *kept = copy_of(answer), *pushed_out = NULL;
    pthread_mutex_lock(&answers->lock);
    if (kept && answers->count == answers->capacity) {
        pushed_out = oldest(answers);
    }
    answers->lost += !kept || pushed_out;
    if (kept) {
        answers->ring[(answers->first + answers->count++) % answers->capacity] = kept;
    }
    pthread_cond_signal(&answers->more);
    pthread_mutex_unlock(&answers->lock);
    free(pushed_out);
}

void edge_answers_close(struct edge_answers *answers) {
    pthread_mutex_lock(&answers->lock);
    answers->closed = true;
    pthread_cond_broadcast(&answers->more);
    pthread_mutex_unlock(&answers->lock);
}

/* When a wait of so many ms is over. */
static struct timespec end_of(int64_t wait_ms) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    const int64_t ns = at.tv_nsec + wait_ms % 1000 * 1000000;
    at.tv_sec += wait_ms / 1000 + ns / 1000000000;
    at.tv_nsec = (long)(ns % 1000000000);
    return at;
}

#define WAIT_MS_MAX (INT64_C(1) << 40) /* 35 years, which do not overflow */

enum culm_status edge_answers_take(struct edge_answers *answers, int64_t wait_ms,
                                   struct culm_edge_answer *ret_answer, struct culm_error *error) {
    const struct timespec end = end_of(wait_ms < WAIT_MS_MAX ? wait_ms : WAIT_MS_MAX);
    struct edge_kept *before = NULL;
    bool late = false;
    pthread_mutex_lock(&answers->lock);
    while (answers->count == 0 && !answers->closed && !late && wait_ms != 0) {
        late = wait_ms < 0
                   ? pthread_cond_wait(&answers->more, &answers->lock) != 0
                   : pthread_cond_timedwait(&answers->more, &answers->lock, &end) == ETIMEDOUT;
    }
    enum culm_status status = answers->count > 0 ? CULM_OK
                              : answers->closed  ? CULM_ERR_CLOSED
                                                 : CULM_ERR_AGAIN;
    if (status == CULM_OK) {
        before = answers->taken;
        answers->taken = oldest(answers);
        *ret_answer = answers->taken->answer;
        ret_answer->lost = answers->lost;
        answers->lost = 0;
    }
    pthread_mutex_unlock(&answers->lock);
    free(before);
    return status == CULM_OK ? CULM_OK
                             : culm_error_set(error, status, "%s",
                                              status == CULM_ERR_CLOSED
                                                  ? "the run has ended, and all answers were taken"
                                                  : "no answer has come yet");
}

void edge_answers_release(struct edge_answers *answers) {
    while (answers->count > 0) {
        free(oldest(answers));
    }
    free(answers->taken);
    free(answers->ring);
    pthread_cond_destroy(&answers->more);
    pthread_mutex_destroy(&answers->lock);
}

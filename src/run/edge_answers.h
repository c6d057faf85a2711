/*
 * Answers that wait for a program to take them: copies, so many at most. Whoever takes them too slowly
 * loses the oldest, and never holds up a run.
 *
 * Thread: any, but one at a time takes.
 */
#ifndef CULM_RUN_EDGE_ANSWERS_H
#define CULM_RUN_EDGE_ANSWERS_H

#include "live/live.h"

#include <culm/edge.h>
#include <pthread.h>
#include <stdbool.h>

struct edge_kept; /* one answer */

struct edge_answers {
    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t more;
    struct edge_kept **ring; /* [capacity] */
    size_t capacity, first, count;
    struct edge_kept *taken; /* what the last one that was taken points to */
    int64_t lost;            /* since then */
    bool closed;
};

/* capacity 0: none are kept. Must be released after a failure too. */
enum culm_status edge_answers_init(struct edge_answers *answers, size_t capacity,
                                   struct culm_error *error);
/* Copies it; without memory for that it is lost. */
void edge_answers_put(struct edge_answers *answers, const struct culm_live_answer *answer);
/* No more will come. */
void edge_answers_close(struct edge_answers *answers);
/* As culm_edge_take_answer. */
enum culm_status edge_answers_take(struct edge_answers *answers, int64_t wait_ms,
                                   struct culm_edge_answer *ret_answer, struct culm_error *error);
void edge_answers_release(struct edge_answers *answers);

#endif

/*
 * When the frames of a feed are due that does not set its own pace: one in every period, beginning
 * with the first that comes. Each has a place in time, which it keeps if it comes a little late. One
 * that comes later than `slack` leaves its place empty, and all places up to the present: nothing is
 * gained by answering late what should have been answered long ago.
 *
 * Times are passed in. Thread: one at a time.
 */
#ifndef CULM_EDGE_DUE_H
#define CULM_EDGE_DUE_H

#include <stdbool.h>
#include <stdint.h>

struct culm_edge_due { /* zeroed, but for the period: nothing has come */
    uint64_t period_ns;
    uint64_t begin_ns; /* when the first frame came */
    int64_t next;      /* the next place, from 0 */
    bool begun;
    bool behind; /* a place was missed, and no frame has come since */
};

/* Whether the next place stays empty, at which time it was due. came: there is a frame for some
 * place. To be called until it is false. */
bool culm_edge_due_missed(struct culm_edge_due *due, uint64_t slack_ns, uint64_t now_ns, bool came,
                          uint64_t *ret_at_ns);
/* A frame takes the next place. When it is due, which may lie ahead. */
uint64_t culm_edge_due_take(struct culm_edge_due *due, uint64_t now_ns);

#endif

/*
 * A node that was sent a copy of what others hold, and did not get it in time (cluster.join_ms): the run goes on
 * without it, and tries again after a pause, of join_ms at first, then twice as long each time. So a link that is too
 * slow, or swallows all of it, costs the run less and less.
 *
 * Pure. Thread: its owner's.
 */
#ifndef CULM_CREW_LATE_H
#define CULM_CREW_LATE_H

#include <stdbool.h>
#include <stdint.h>

/* All zero: it was not late. Set it to that once it has a copy. */
struct culm_late {
    int32_t times;     /* in a row */
    uint64_t again_ns; /* when it may be sent another */
};

/* A copy for it is given up, now. */
void culm_late_once_more(struct culm_late *late, uint64_t now_ns, int64_t join_ms);
/* Whether it is left alone for now. */
bool culm_late_pauses(const struct culm_late *late, uint64_t now_ns);

#endif

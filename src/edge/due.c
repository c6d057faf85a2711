/* See due.h. */
#include "edge/due.h"

static uint64_t at(const struct culm_edge_due *due) {
    return due->begin_ns + (uint64_t)due->next * due->period_ns;
}

bool culm_edge_due_missed(struct culm_edge_due *due, uint64_t slack_ns, uint64_t now_ns, bool came,
                          uint64_t *ret_at_ns) {
    if (!due->begun) {
        return false;
    }
    const bool late = now_ns > at(due) + slack_ns;
    const bool later_is_due = now_ns >= at(due) + due->period_ns;
    if (!late && !(came && due->behind && later_is_due)) {
        return false;
    }
    due->behind = true;
    *ret_at_ns = at(due);
    due->next++;
    return true;
}

uint64_t culm_edge_due_take(struct culm_edge_due *due, uint64_t now_ns) {
    if (!due->begun) {
        due->begun = true;
        due->begin_ns = now_ns;
    }
    const uint64_t at_ns = at(due);
    due->behind = false;
    due->next++;
    return at_ns;
}

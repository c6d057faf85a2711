/*
 * A commit as whoever leads writes it down ahead of telling it (net/leader.h: CULM_DEED_COMMIT), where rows may be stale: whether the
 * epoch is committed, and what it has come to, the next one reads there and nowhere else.
 *
 * Thread: none of its own.
 */
#ifndef CULM_INTERVAL_COMMITTED_H
#define CULM_INTERVAL_COMMITTED_H

#include "interval/message.h"
#include "interval/past.h"
#include "net/leader.h"

struct culm_gnn_committed {
    struct culm_gnn_commit commit; /* as it is told */
    uint64_t digest;               /* of the state of that version */
    struct culm_gnn_past past;     /* `commit` is of its last branch */
};

/* False: out of memory. */
bool culm_gnn_committed_write(const struct culm_gnn_committed *committed,
                              char ret_about[CULM_DEED_ABOUT_MAX]);
/* CULM_ERR_FORMAT. */
enum culm_status culm_gnn_committed_read(const char *about,
                                         struct culm_gnn_committed *ret_committed);

#endif

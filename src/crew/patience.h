/*
 * How long a task may take before the worker that runs it is put out.
 *
 * Tasks are of *kinds*: what is done, and of which part of the job; the owner numbers both. The
 * limit of a kind begins at `cluster.stuck_ms` and only ever grows: it is at least CULM_PATIENCE_FACTOR times the longest
 * that a task of that kind has taken anywhere, and it doubles when somebody was put out under it,
 * so that nobody is tried again under a limit that has failed. Others who were at such a task at
 * that moment get twice that limit, and no more: if they are only slow, one of them may yet show
 * how long it takes; if all hang, they go together.
 *
 * A slow node therefore costs a few losses, never the run; a kind that was not finished within
 * CULM_PATIENCE_TRIES growing limits, while nothing was committed, cannot be done at all.
 *
 * Pure; no memory of its own beyond the struct. Thread: its owner's.
 */
#ifndef CULM_CREW_PATIENCE_H
#define CULM_CREW_PATIENCE_H

#include <stdint.h>

#define CULM_PATIENCE_FACTOR 4
#define CULM_PATIENCE_TRIES 5
#define CULM_PATIENCE_KINDS 24
#define CULM_PATIENCE_PARTS 256

struct culm_patience_row {
    int64_t limit_ms; /* 0: as at the start */
    int64_t old_ms;   /* the same, of tasks that began before since_ns */
    uint64_t since_ns;
    int64_t first_ms; /* the limit of the first try of those that are counted */
    int32_t tries;    /* limits that failed since one that took as long ended well, or a commit */
};

struct culm_patience {
    int64_t start_ms;     /* cluster.stuck_ms */
    int32_t kinds, parts; /* that exist */
    struct culm_patience_row row[CULM_PATIENCE_KINDS][CULM_PATIENCE_PARTS];
};

/* `kinds` and `parts`: at most CULM_PATIENCE_KINDS and _PARTS. */
void culm_patience_init(struct culm_patience *patience, int64_t start_ms, int32_t kinds,
                        int32_t parts);
/* Of a task that began then. Kinds and parts come from messages: one that does not exist has the
 * limit of the start. */
int64_t culm_patience_limit_ms(const struct culm_patience *patience, int32_t kind, int32_t part,
                               uint64_t began_ns);
/* A task of this kind has ended well after `ms`. */
void culm_patience_took(struct culm_patience *patience, int32_t kind, int32_t part, int64_t ms);
/* A worker is put out now that had run one since began_ns for `ms`, longer than its limit. The row
 * after that, or NULL. */
const struct culm_patience_row *culm_patience_lost(struct culm_patience *patience, int32_t kind,
                                                   int32_t part, int64_t ms, uint64_t began_ns,
                                                   uint64_t now_ns);
void culm_patience_committed(struct culm_patience *patience);

#endif

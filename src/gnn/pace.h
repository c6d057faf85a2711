/*
 * How epochs follow each other: what may be old, and by how much.
 *
 * A gather of epoch e reads, of each interval, the newest rows that are here of an epoch in
 * [e - s, e], and waits where there are none. A task of epoch e uses weights of a version (the number
 * of epochs that made it) of at least e - 1 - max(s - 1, 0), the same in all steps of an interval's
 * epoch. With s = 0 every number is that of a run in lockstep. The first epoch, the last ones, and
 * what is evaluated take nothing old.
 *
 * Thread: constant.
 */
#ifndef CULM_GNN_PACE_H
#define CULM_GNN_PACE_H

#include <stdbool.h>
#include <stdint.h>

#define CULM_GNN_STALENESS_MAX 8

struct culm_gnn_pace {
    int32_t staleness; /* s; 0..CULM_GNN_STALENESS_MAX */
    bool ahead;        /* an epoch begins as soon as there are weights for it, not with a commit */
    bool in_step;      /* a server's intervals take each step together */
    int64_t epochs;
    int64_t tail;       /* how many of the last epochs take nothing old */
    int64_t eval_every; /* epochs; 0: never */
};

/* How old rows and weights of that epoch may be: s of the epoch. */
static inline int32_t culm_gnn_pace_staleness(const struct culm_gnn_pace *pace, int64_t epoch) {
    return epoch <= 1 || epoch > pace->epochs - pace->tail ? 0 : pace->staleness;
}
/* The oldest version of the weights that a task of that epoch may use. */
static inline int64_t culm_gnn_pace_version(const struct culm_gnn_pace *pace, int64_t epoch) {
    int32_t s = culm_gnn_pace_staleness(pace, epoch);
    return epoch - 1 - (s > 1 ? s - 1 : 0);
}
/* How many epochs may be under way, or kept for those that are, at once. */
static inline int32_t culm_gnn_pace_window(const struct culm_gnn_pace *pace) {
    return 2 * pace->staleness + 2;
}
/* Whether that epoch ends with an evaluation, of the weights that it begins with. */
static inline bool culm_gnn_pace_evaluates(const struct culm_gnn_pace *pace, int64_t epoch) {
    return pace->eval_every > 0 && (epoch - 1) % pace->eval_every == 0;
}

#endif

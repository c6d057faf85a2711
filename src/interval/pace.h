/*
 * How far epochs may overlap: which rows and weights may be stale, and by how much.
 *
 * With staleness s, a gather of epoch e reads, of each interval, the newest rows available from an
 * epoch in [e - s, e], and waits if there are none. A task of epoch e uses weights of version
 * e - 1 - max(s - 1, 0) or later (version v is what v epochs have made); all steps of an interval
 * in an epoch use the same version. With s = 0 the results are those of a run in lockstep. The
 * first epoch, the last ones and evaluations use nothing stale.
 *
 * Thread: constant.
 */
#ifndef CULM_INTERVAL_PACE_H
#define CULM_INTERVAL_PACE_H

#include <stdbool.h>
#include <stdint.h>

#define CULM_GNN_STALENESS_MAX 8

struct culm_gnn_pace {
    int32_t staleness; /* s; 0..CULM_GNN_STALENESS_MAX */
    bool ahead;        /* an interval may begin an epoch before the one before is committed */
    bool in_step;      /* a server's intervals finish each step before any begins the next */
    int64_t epochs;
    int64_t tail;       /* number of epochs at the end that use nothing stale */
    int64_t eval_every; /* epochs between evaluations; 0: never */
};

/* The staleness s that applies to `epoch`. */
static inline int32_t culm_gnn_pace_staleness(const struct culm_gnn_pace *pace, int64_t epoch) {
    return epoch <= 1 || epoch > pace->epochs - pace->tail ? 0 : pace->staleness;
}
/* The oldest version of the weights that a task of `epoch` may use; negative or 0: the first. */
static inline int64_t culm_gnn_pace_version(const struct culm_gnn_pace *pace, int64_t epoch) {
    int32_t s = culm_gnn_pace_staleness(pace, epoch);
    return epoch - 1 - (s > 1 ? s - 1 : 0);
}
/* The number of epochs that may be in progress at once, including those whose results are still
 * kept for others to read. */
static inline int32_t culm_gnn_pace_window(const struct culm_gnn_pace *pace) {
    return 2 * pace->staleness + 2;
}
/* Whether `epoch` includes an evaluation. It evaluates the weights that the epoch begins with. */
static inline bool culm_gnn_pace_evaluates(const struct culm_gnn_pace *pace, int64_t epoch) {
    return pace->eval_every > 0 && (epoch - 1) % pace->eval_every == 0;
}

#endif

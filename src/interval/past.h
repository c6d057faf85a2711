/*
 * Of which attempts the versions of a run are, where rows may be stale: what is redone has other bits there, so that a checkpoint of a
 * version says nothing unless it is of the branch in which that version was committed.
 *
 * Each time that all load a version, a *branch* begins, with the attempt in which they do; attempts that follow without a load are of
 * the same branch. What was committed in a branch counts up to the version with which the next one began.
 *
 * Thread: none of its own.
 */
#ifndef CULM_INTERVAL_PAST_H
#define CULM_INTERVAL_PAST_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define CULM_GNN_BRANCHES_MAX 12

struct culm_gnn_branch {
    uint32_t attempt; /* the first one */
    int64_t version;  /* that was loaded */
};

struct culm_gnn_past {
    bool cut;      /* there were others before, of which nothing is known any more */
    int32_t count; /* of branches, whose attempts and versions rise; 0: the run has not begun */
    struct culm_gnn_branch branch[CULM_GNN_BRANCHES_MAX];
};

/* All load that version, in that attempt. */
void culm_gnn_past_add(struct culm_gnn_past *past, uint32_t attempt, int64_t version);
/* The last branch, by the attempt with which it began; 0: there is none. */
uint32_t culm_gnn_past_branch(const struct culm_gnn_past *past);
/* Whether a checkpoint of the version, of that branch (0: not known), is of what was committed, or of what the run began with. */
bool culm_gnn_past_names(const struct culm_gnn_past *past, int64_t version, uint32_t branch);
/* As it stands beside the verdict in a checkpoint; 0: it does not. NULL is fine. */
uint32_t culm_gnn_branch_read(const json_t *progress);

#endif

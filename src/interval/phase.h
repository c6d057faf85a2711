/*
 * The phases of a node's work in a run on a graph. They are its fault points (net/world.h), with
 * the epoch as `step` and the interval, if the phase has one, as `part`. Users name them in
 * `--fault`.
 *
 * Thread: any.
 */
#ifndef CULM_INTERVAL_PHASE_H
#define CULM_INTERVAL_PHASE_H

#include <stddef.h>

enum culm_gnn_phase {
    CULM_GNN_PHASE_LOAD,    /* about to load an interval, or, on a holder, the weights */
    CULM_GNN_PHASE_GATHER,  /* a server is about to gather for an interval */
    CULM_GNN_PHASE_SCATTER, /* a server is about to send rows to another */
    CULM_GNN_PHASE_APPLY,   /* a server or a worker is about to compute a step of an interval */
    CULM_GNN_PHASE_EDGE,    /* a server is about to gather with attention, which computes edges */
    CULM_GNN_PHASE_PUSH_GRADIENT, /* a share or a sum of a gradient is about to be sent */
    CULM_GNN_PHASE_PUSH_ROWS,     /* a worker has sent the gradient, but not yet the rows */
    CULM_GNN_PHASE_UPDATE,        /* a holder is about to update the weights */
    CULM_GNN_PHASE_COMMIT,        /* a holder has a new version, or a server has done an interval */
    CULM_GNN_PHASE_CHECKPOINT,    /* a holder is about to save a checkpoint */
    CULM_GNN_PHASE_COUNT,
};

/* The name of a phase as users write it, such as "push-gradient"; NULL after the last. */
const char *culm_gnn_phase_name(size_t phase);

#endif

/*
 * The phases of a node's work on a graph, which are its fault points (net/world.h): `step` is the
 * epoch and `part` the interval, where the phase has one. Users name them in `--fault`.
 *
 * Thread: any.
 */
#ifndef CULM_GNN_PHASE_H
#define CULM_GNN_PHASE_H

#include <stddef.h>

enum culm_gnn_phase {
    CULM_GNN_PHASE_LOAD,          /* an interval's graph and features, or the first weights */
    CULM_GNN_PHASE_GATHER,        /* a server adds up neighbours */
    CULM_GNN_PHASE_SCATTER,       /* a server is about to send rows to another */
    CULM_GNN_PHASE_APPLY,         /* a step of an interval is computed, by whoever does it */
    CULM_GNN_PHASE_EDGE,          /* a server gathers by attention, which computes edges */
    CULM_GNN_PHASE_PUSH_GRADIENT, /* a share or a sum of a gradient is about to be sent */
    CULM_GNN_PHASE_PUSH_ROWS,     /* a worker has sent the gradient, and not yet the rows */
    CULM_GNN_PHASE_UPDATE,        /* a holder is about to step */
    CULM_GNN_PHASE_COMMIT,        /* a holder has stepped, or a server is done with its interval */
    CULM_GNN_PHASE_CHECKPOINT,    /* a holder is about to save */
    CULM_GNN_PHASE_COUNT,
};

/* "load", "gather", ..., "push-gradient", ...; NULL after the last. */
const char *culm_gnn_phase_name(size_t phase);

#endif

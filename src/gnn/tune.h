/*
 * How many workers there should be: `workers: auto`.
 *
 * Two things follow each other. First the rule of Dorylus: begin with as many workers as there are
 * intervals, and look at the queue of rows that wait for servers to gather them. If it grows, workers
 * make more than servers can take, so there should be fewer; if it shrinks fast or runs empty, more.
 * Once it is steady, the number is sought that serves the goal best by measurement: less, then more,
 * in steps that are halved until they are one. What an epoch costs is its time, its dollars, or their
 * product, which is one over the value. What was found is kept, until epochs take quite another time
 * for long, each time for longer.
 *
 * A pure function of what it is told: no clock, no I/O. Thread: one.
 */
#ifndef CULM_GNN_TUNE_H
#define CULM_GNN_TUNE_H

#include "gnn/layout.h"

enum culm_gnn_tune { CULM_GNN_TUNE_TIME, CULM_GNN_TUNE_DOLLARS, CULM_GNN_TUNE_VALUE };

#define CULM_GNN_TUNE_SAMPLES_MAX 8

struct culm_gnn_tune_options {
    enum culm_gnn_tune goal;
    int32_t first, most;     /* 1 <= first <= most <= CULM_GNN_NODES_MAX */
    int32_t samples;         /* epochs of which a number of workers is judged, by their median, */
    double least_s;          /* and what they take at least, unless there are SAMPLES_MAX */
    double usd_per_s;        /* of everything but workers */
    double worker_usd_per_s; /* of one */
};

/* An epoch that was committed. */
struct culm_gnn_tune_epoch {
    double seconds;
    int32_t workers; /* that were there at its end */
    double gathers;  /* tasks that waited for their server, in the mean */
    double applies;  /* tasks that waited for a worker, in the mean */
    int64_t left;    /* epochs that are still to come */
};

enum culm_gnn_tune_stage { CULM_GNN_TUNE_QUEUE, CULM_GNN_TUNE_SEARCH, CULM_GNN_TUNE_KEEP };

struct culm_gnn_tuner {
    struct culm_gnn_tune_options o;
    enum culm_gnn_tune_stage stage;
    int32_t workers;  /* that there should be; 0: servers do without */
    const char *why;  /* of the last change, in words; constant */
    int32_t settling; /* epochs that are not counted yet */
    int32_t waited;   /* epochs in which not so many were there */
    int32_t taken;    /* samples */
    double seconds[CULM_GNN_TUNE_SAMPLES_MAX], gathers, applies;
    double queue;            /* of the number before; -1: there was none */
    int32_t direction;       /* of the queue's rule; 0: not known */
    int32_t decisions;       /* of the queue's rule */
    int32_t odd, odd_enough; /* how often in a row epochs took another time, until it counts */
    int32_t step;            /* of the search */
    int32_t best;            /* -1: none */
    bool more_first;         /* the search tries more before fewer */
    double measured[CULM_GNN_NODES_MAX + 1]; /* seconds of an epoch, by workers; 0: not known */
};

void culm_gnn_tune_init(struct culm_gnn_tuner *tuner, const struct culm_gnn_tune_options *options);
/* True: `workers` is another number now, for the reason `why`. */
bool culm_gnn_tune_add(struct culm_gnn_tuner *tuner, const struct culm_gnn_tune_epoch *epoch);
/* What an epoch of so many seconds costs, in the goal's terms: the less the better. */
double culm_gnn_tune_cost(const struct culm_gnn_tune_options *options, int32_t workers,
                          double seconds);

#endif

/*
 * Finds the number of workers for `workers: auto`, in two phases:
 *
 * 1. The rule of Dorylus. Begin with many workers (`first`), and watch the queue of gathers that
 *    wait for servers. If it grows, workers produce more than servers can take, so a quarter of
 *    them goes; if it shrinks fast or runs empty, a quarter more comes.
 * 2. Once the queue is steady, a search by measurement for the number with the lowest cost: time,
 *    dollars, or their product, which is the inverse of the value. It tries a step down and a step
 *    up from the best number so far, and halves the step until it is one.
 *
 * The result is kept until epochs take a very different time for several medians in a row; each new
 * search doubles the number of medians that it takes to start another one.
 *
 * A pure function of what it is told: no clock, no I/O. Thread: one.
 */
#ifndef CULM_INTERVAL_TUNE_H
#define CULM_INTERVAL_TUNE_H

#include "interval/layout.h"

enum culm_gnn_tune { CULM_GNN_TUNE_TIME, CULM_GNN_TUNE_DOLLARS, CULM_GNN_TUNE_VALUE };

#define CULM_GNN_TUNE_SAMPLES_MAX 8

struct culm_gnn_tune_options {
    enum culm_gnn_tune goal;
    int32_t first, most;     /* 1 <= first <= most <= CULM_GNN_NODES_MAX */
    int32_t samples;         /* a number of workers is judged by the median of so many epochs, */
    double least_s;          /* or more, until they take that long; at most SAMPLES_MAX */
    double usd_per_s;        /* of everything but workers */
    double worker_usd_per_s; /* of one worker */
};

/* What was observed of a committed epoch. */
struct culm_gnn_tune_epoch {
    double seconds;
    int32_t workers; /* at its end */
    double gathers;  /* mean number of gathers that waited for their server */
    double applies;  /* mean number of steps that waited for a worker */
    int64_t left;    /* epochs still to come */
};

enum culm_gnn_tune_stage { CULM_GNN_TUNE_QUEUE, CULM_GNN_TUNE_SEARCH, CULM_GNN_TUNE_KEEP };

struct culm_gnn_tuner {
    struct culm_gnn_tune_options o;
    enum culm_gnn_tune_stage stage;
    int32_t workers;  /* wanted now; 0: servers do all the work */
    const char *why;  /* reason for the last change, in words; a constant */
    int32_t settling; /* epochs still to be ignored after a change */
    int32_t waited;   /* epochs so far in which another number was there */
    int32_t taken;    /* samples */
    double seconds[CULM_GNN_TUNE_SAMPLES_MAX], gathers, applies;
    double queue;            /* gathers that waited at the previous number; -1: none */
    int32_t direction;       /* of the last change by the queue's rule; 0: none */
    int32_t decisions;       /* of the queue's rule */
    int32_t odd, odd_enough; /* unusual medians in a row, and how many start a new search */
    int32_t step;            /* of the search */
    int32_t best;            /* -1: none */
    bool more_first;         /* the search tries more workers before fewer */
    double measured[CULM_GNN_NODES_MAX + 1]; /* seconds of an epoch, by workers; 0: not known */
};

void culm_gnn_tune_init(struct culm_gnn_tuner *tuner, const struct culm_gnn_tune_options *options);
/* Takes in an epoch. True: `workers` has changed, for the reason `why`. */
bool culm_gnn_tune_add(struct culm_gnn_tuner *tuner, const struct culm_gnn_tune_epoch *epoch);
/* The cost of an epoch of so many seconds, in terms of the goal; lower is better. */
double culm_gnn_tune_cost(const struct culm_gnn_tune_options *options, int32_t workers,
                          double seconds);

#endif

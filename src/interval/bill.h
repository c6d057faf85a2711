/*
 * Adds up what a run costs, from which nodes are there for how long, and at which rates.
 *
 * Servers and parameter servers are billed as instances that are rented for the whole run. A lost
 * one is taken to be replaced at once, so its place is billed throughout; if more are there than
 * the run has places, these are billed too. A worker is billed as a function: from joining to
 * leaving, rounded up, plus an amount per start.
 *
 * The leader feeds it as things happen; `culm gnn cost` feeds it the same from a run's events.
 * Thread: one.
 */
#ifndef CULM_INTERVAL_BILL_H
#define CULM_INTERVAL_BILL_H

#include "interval/role.h"

#include <stdint.h>

struct culm_gnn_rates {
    double usd_per_hour[CULM_GNN_ROLES]; /* of a node */
    double usd_per_start;                /* of a worker */
    int64_t billing_ms; /* a worker's time is rounded up to a multiple of this; 0: it is not */
    double worker_gb;   /* memory that the worker's rate is for; only to be shown */
};

struct culm_gnn_bill {
    struct culm_gnn_rates rates;
    int32_t places[CULM_GNN_ROLES]; /* of servers and parameter servers; workers: 0 */
    int32_t there[CULM_GNN_ROLES];  /* nodes that are there now */
    int64_t start_ns, now_ns;
    double node_s[CULM_GNN_ROLES];   /* seconds billed */
    int64_t starts;                  /* of workers */
    double before_usd, before_s;     /* of earlier parts of the run */
    double role_usd[CULM_GNN_ROLES]; /* likewise, by role */
};

/* The bill begins at now_ns. places[CULM_GNN_ROLES]; that of workers is ignored. */
void culm_gnn_bill_init(struct culm_gnn_bill *bill, const struct culm_gnn_rates *rates,
                        const int32_t *places, int64_t now_ns);
/* Bills everything up to `now_ns`; earlier times than the last are ignored. */
void culm_gnn_bill_advance(struct culm_gnn_bill *bill, int64_t now_ns);
void culm_gnn_bill_joined(struct culm_gnn_bill *bill, uint32_t role, int64_t now_ns);
/* A node that joined at `since_ns` has gone. */
void culm_gnn_bill_left(struct culm_gnn_bill *bill, uint32_t role, int64_t since_ns,
                        int64_t now_ns);

double culm_gnn_bill_role_usd(const struct culm_gnn_bill *bill, uint32_t role); /* this part only */
double culm_gnn_bill_usd(const struct culm_gnn_bill *bill); /* in all, with earlier parts */
double culm_gnn_bill_s(const struct culm_gnn_bill *bill);   /* duration, with earlier parts */
/* 1 / (seconds x dollars); 0 if either is 0. */
double culm_gnn_value(double seconds, double usd);

#endif

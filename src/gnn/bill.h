/*
 * What a run costs: who is there for how long, at which rates.
 *
 * A server or a parameter server is an instance that is rented from the beginning of the run to its
 * end, and one that is lost is replaced by another at once: as many are paid for as the run has places,
 * or as are there, if those are more. A worker is a function: it is paid for from when it joins until
 * it is gone, rounded up, and once for its start.
 *
 * The leader feeds it while things happen; whoever reads the events of a run again feeds it the same.
 * Thread: one.
 */
#ifndef CULM_GNN_BILL_H
#define CULM_GNN_BILL_H

#include "gnn/role.h"

#include <stdint.h>

struct culm_gnn_rates {
    double usd_per_hour[CULM_GNN_ROLES]; /* of a node that is there */
    double usd_per_start;                /* of a worker */
    int64_t billing_ms; /* a worker's life is rounded up to a multiple; 0: it is not */
    double worker_gb;   /* what its price is for; for people */
};

struct culm_gnn_bill {
    struct culm_gnn_rates rates;
    int32_t places[CULM_GNN_ROLES]; /* of servers and parameter servers */
    int32_t there[CULM_GNN_ROLES];
    int64_t start_ns, now_ns;
    double node_s[CULM_GNN_ROLES];   /* what is paid for */
    int64_t starts;                  /* of workers */
    double before_usd, before_s;     /* of earlier parts of the run */
    double role_usd[CULM_GNN_ROLES]; /* likewise */
};

/* It begins now. `places` [roles]; that of workers does not count. */
void culm_gnn_bill_init(struct culm_gnn_bill *bill, const struct culm_gnn_rates *rates,
                        const int32_t *places, int64_t now_ns);
/* Counts up to `now_ns`, which never goes back. */
void culm_gnn_bill_advance(struct culm_gnn_bill *bill, int64_t now_ns);
void culm_gnn_bill_joined(struct culm_gnn_bill *bill, uint32_t role, int64_t now_ns);
/* One that joined at `since_ns` is gone. */
void culm_gnn_bill_left(struct culm_gnn_bill *bill, uint32_t role, int64_t since_ns,
                        int64_t now_ns);

double culm_gnn_bill_role_usd(const struct culm_gnn_bill *bill, uint32_t role);
double culm_gnn_bill_usd(const struct culm_gnn_bill *bill); /* all of it, and what was before */
double culm_gnn_bill_s(const struct culm_gnn_bill *bill);   /* from the beginning, likewise */
/* 1 / (time x dollars), in seconds and dollars; 0: nothing was spent. */
double culm_gnn_value(double seconds, double usd);

#endif

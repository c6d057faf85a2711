/*
 * Prices of machines from a dated file, and the rates of each role by these prices.
 *
 * The file is YAML (docs/configuration.md describes its keys). One is built into the program.
 *
 * Thread: constant once read.
 */
#ifndef CULM_GNN_PRICES_H
#define CULM_GNN_PRICES_H

#include "base/config.h"
#include "interval/bill.h"

struct culm_gnn_instance {
    char *name;
    double usd_per_hour;
};

struct culm_gnn_prices {
    char *date;
    struct culm_gnn_instance *instances;
    size_t instance_count;
    struct {
        double usd_per_gb_s, usd_per_request;
        int64_t billing_ms;
    } functions;
    struct {
        char *server, *parameter_server; /* names of instances */
        int64_t worker_mb;               /* per thread */
    } as_if;
};

extern const char culm_gnn_prices_text[]; /* the built-in file */

/* Reads a file; path NULL: the built-in one. Errors read `FILE:LINE: key: what is wrong; what is
 * allowed`. On failure *ret_prices is untouched. */
enum culm_status culm_gnn_prices_load(const char *path, struct culm_gnn_prices *ret_prices,
                                      struct culm_error *error);
enum culm_status culm_gnn_prices_parse(const char *text, size_t len, const char *name,
                                       struct culm_gnn_prices *ret_prices,
                                       struct culm_error *error);
void culm_gnn_prices_release(struct culm_gnn_prices *prices); /* fine on a zeroed one */

/* Dollars per hour of an instance; -1: there is no such instance. */
double culm_gnn_prices_hour(const struct culm_gnn_prices *prices, const char *instance);
/* The rates of nodes. worker_mb: memory of a worker; 0: as_if.worker_mb times `threads`. */
struct culm_gnn_rates culm_gnn_prices_rates(const struct culm_gnn_prices *prices, int64_t worker_mb,
                                            int64_t threads);

#endif

/* The keys of a price file, and the rates that follow from it. See prices.h. */
#include "gnn/prices.h"

#include <math.h>
#include <string.h>

#define I struct culm_gnn_instance
static const struct culm_config_row instance_rows[] = {
    CULM_CONFIG_TEXT("name", I, name, NULL, "a name", 0, "name of an instance"),
    CULM_CONFIG_REAL("usd_per_hour", I, usd_per_hour, NULL, 0, INFINITY, 0,
                     "dollars for an hour of such an instance"),
};
static const struct culm_config_table instance_table = {CULM_CONFIG_ROWS(instance_rows, I)};

#define P struct culm_gnn_prices
#define F __typeof__(((P *)0)->functions)
static const struct culm_config_row function_rows[] = {
    CULM_CONFIG_REAL("usd_per_gb_s", F, usd_per_gb_s, NULL, 0, INFINITY, 0,
                     "dollars for a second of a function with 1,024 MB"),
    CULM_CONFIG_REAL("usd_per_request", F, usd_per_request, NULL, 0, INFINITY, 0,
                     "dollars for each start of a function"),
    CULM_CONFIG_INT("billing_ms", F, billing_ms, NULL, 1, 3600000, 0,
                    "milliseconds to a multiple of which the life of a function is rounded up"),
};
static const struct culm_config_table function_table = {CULM_CONFIG_ROWS(function_rows, F)};

#define A __typeof__(((P *)0)->as_if)
static const struct culm_config_row as_if_rows[] = {
    CULM_CONFIG_TEXT("server", A, server, NULL, "an instance", 0,
                     "instance that a server is charged as"),
    CULM_CONFIG_TEXT("parameter_server", A, parameter_server, NULL, "an instance", 0,
                     "instance that a parameter server is charged as"),
    CULM_CONFIG_INT("worker_mb", A, worker_mb, NULL, 1, 1 << 30, 0,
                    "megabytes of the function that a worker is charged as, for each of its "
                    "threads"),
};
static const struct culm_config_table as_if_table = {CULM_CONFIG_ROWS(as_if_rows, A)};

static const struct culm_config_row rows[] = {
    CULM_CONFIG_TEXT("date", P, date, NULL, "a date", 0, "day of which the prices are"),
    CULM_CONFIG_SECTIONS("instances", P, instances, instance_count, &instance_table, 0,
                         "what can be rented by the hour"),
    CULM_CONFIG_SECTION("functions", P, functions, &function_table),
    CULM_CONFIG_SECTION("as_if", P, as_if, &as_if_table),
};

double culm_gnn_prices_hour(const P *prices, const char *instance) {
    for (size_t i = 0; i < prices->instance_count; i++) {
        if (strcmp(prices->instances[i].name, instance) == 0) {
            return prices->instances[i].usd_per_hour;
        }
    }
    return -1;
}

static enum culm_status finish(void *object, const struct culm_config_place *place,
                               struct culm_error *error) {
    const P *p = object;
    const char *const names[] = {p->as_if.server, p->as_if.parameter_server};
    static const char *const keys[] = {"as_if.server", "as_if.parameter_server"};
    for (int i = 0; i < 2; i++) {
        if (culm_gnn_prices_hour(p, names[i]) < 0) {
            return culm_config_refuse(place, CULM_CONFIG_KEYS(keys[i]), error,
                                      "'%.60s' is not among the instances; allowed: one of them",
                                      names[i]);
        }
    }
    return CULM_OK;
}

static const struct culm_config_table table = {CULM_CONFIG_ROWS(rows, P), .finish = finish};

enum culm_status culm_gnn_prices_parse(const char *text, size_t len, const char *name,
                                       P *ret_prices, struct culm_error *error) {
    return culm_config_parse(&table, text, len, name, NULL, 0, ret_prices, error);
}

enum culm_status culm_gnn_prices_load(const char *path, P *ret_prices, struct culm_error *error) {
    return path ? culm_config_load(&table, path, NULL, 0, ret_prices, error)
                : culm_gnn_prices_parse(culm_gnn_prices_text, strlen(culm_gnn_prices_text),
                                        "built-in prices", ret_prices, error);
}

void culm_gnn_prices_release(P *prices) { culm_config_release(&table, prices); }

struct culm_gnn_rates culm_gnn_prices_rates(const P *prices, int64_t worker_mb, int64_t threads) {
    double mb = (double)(worker_mb > 0 ? worker_mb : prices->as_if.worker_mb * threads);
    return (struct culm_gnn_rates){
        .usd_per_hour = {culm_gnn_prices_hour(prices, prices->as_if.server),
                         culm_gnn_prices_hour(prices, prices->as_if.parameter_server),
                         mb / 1024 * prices->functions.usd_per_gb_s * 3600},
        .usd_per_start = prices->functions.usd_per_request,
        .billing_ms = prices->functions.billing_ms,
        .worker_gb = mb / 1024,
    };
}

/* Price files, and what is to be paid by them. */
#include "gnn/prices.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define S 1000000000ll
#define GOOD                                                                                       \
    "date: 2026-01-01\ninstances: [{name: big, usd_per_hour: 3.6}, {name: small, usd_per_hour: "   \
    "0.36}]\nfunctions: {usd_per_gb_s: 0.001, usd_per_request: 0.01, billing_ms: 100}\n"           \
    "as_if: {server: big, parameter_server: small, worker_mb: 512}\n"

static void close_to(double got, double want) {
    if (fabs(got - want) > 1e-9 * (1 + fabs(want))) {
        fail_msg("%.12g instead of %.12g", got, want);
    }
}

static struct culm_gnn_rates rates_of(const char *text, int64_t worker_mb, int64_t threads) {
    struct culm_gnn_prices prices;
    struct culm_error error = {0};
    if (culm_gnn_prices_parse(text, strlen(text), "p.yaml", &prices, &error)) {
        fail_msg("%s", error.text);
    }
    struct culm_gnn_rates rates = culm_gnn_prices_rates(&prices, worker_mb, threads);
    culm_gnn_prices_release(&prices);
    return rates;
}

static void bad(const char *text, const char *want) {
    struct culm_gnn_prices prices;
    struct culm_error error = {0};
    assert_int_equal(culm_gnn_prices_parse(text, strlen(text), "p.yaml", &prices, &error),
                     CULM_ERR_CONFIG);
    if (!strstr(error.text, want) || strchr(error.text, '\n')) {
        fail_msg("'%s' is not in '%s'", want, error.text);
    }
}

static void test_rates(void **state) {
    (void)state;
    struct culm_gnn_rates rates = rates_of(GOOD, 0, 4);
    close_to(rates.usd_per_hour[CULM_GNN_SERVER], 3.6);
    close_to(rates.usd_per_hour[CULM_GNN_PARAMETER], 0.36);
    close_to(rates.usd_per_hour[CULM_GNN_WORKER], 2 * 0.001 * 3600);
    close_to(rates_of(GOOD, 128, 4).usd_per_hour[CULM_GNN_WORKER], 0.125 * 0.001 * 3600);
    assert_int_equal(rates.billing_ms, 100);
}

static void test_what_comes_with_the_program(void **state) {
    (void)state;
    struct culm_gnn_prices prices;
    assert_int_equal(culm_gnn_prices_load(NULL, &prices, NULL), CULM_OK);
    close_to(culm_gnn_prices_hour(&prices, "c5.2xlarge"), 0.34);
    close_to(culm_gnn_prices_hour(&prices, "none"), -1);
    culm_gnn_prices_release(&prices);
    /* 192 MB for an hour are what the paper says. */
    close_to(round(rates_of(culm_gnn_prices_text, 192, 1).usd_per_hour[CULM_GNN_WORKER] * 1e5),
             1125);
}

static void test_files_that_are_refused(void **state) {
    (void)state;
    bad("date: 2026-01-01\n", "instances");
    bad("date: 2026-01-01\ninstances: [{name: a, usd_per_hour: -1}]\n"
        "functions: {usd_per_gb_s: 0, usd_per_request: 0, billing_ms: 1}\n"
        "as_if: {server: a, parameter_server: a, worker_mb: 1}\n",
        "usd_per_hour");
    bad("date: 2026-01-01\ninstances: [{name: a, usd_per_hour: 1}]\n"
        "functions: {usd_per_gb_s: 0, usd_per_request: 0, billing_ms: 0}\n"
        "as_if: {server: a, parameter_server: a, worker_mb: 1}\n",
        "billing_ms");
    bad("date: 2026-01-01\ninstances: [{name: a, usd_per_hour: 1}]\n"
        "functions: {usd_per_gb_s: 0, usd_per_request: 0, billing_ms: 1}\n"
        "as_if: {server: a, parameter_server: b, worker_mb: 1}\n",
        "p.yaml:4: as_if.parameter_server: 'b' is not among the instances");
}

/* Two servers for ten seconds, one of them replaced meanwhile, and a third for two; a worker for 2.05
 * seconds, rounded up to 2.1, and one for three that is still there. */
static void test_a_bill(void **state) {
    (void)state;
    const int32_t places[CULM_GNN_ROLES] = {2, 1, 7};
    struct culm_gnn_rates rates = rates_of(GOOD, 0, 1);
    struct culm_gnn_bill bill;
    culm_gnn_bill_init(&bill, &rates, places, 5 * S);
    culm_gnn_bill_joined(&bill, CULM_GNN_SERVER, 6 * S);
    culm_gnn_bill_joined(&bill, CULM_GNN_SERVER, 6 * S);
    culm_gnn_bill_joined(&bill, CULM_GNN_WORKER, 6 * S);
    culm_gnn_bill_left(&bill, CULM_GNN_SERVER, 6 * S, 7 * S);
    culm_gnn_bill_left(&bill, CULM_GNN_WORKER, 6 * S, 8 * S + S / 20);
    culm_gnn_bill_joined(&bill, CULM_GNN_SERVER, 9 * S);
    culm_gnn_bill_joined(&bill, CULM_GNN_SERVER, 10 * S);
    culm_gnn_bill_joined(&bill, CULM_GNN_WORKER, 12 * S);
    culm_gnn_bill_left(&bill, CULM_GNN_SERVER, 10 * S, 12 * S);
    culm_gnn_bill_advance(&bill, 15 * S);
    culm_gnn_bill_advance(&bill, 14 * S); /* a clock that goes back takes nothing back */
    close_to(bill.node_s[CULM_GNN_SERVER], 22);
    close_to(bill.node_s[CULM_GNN_PARAMETER], 10);
    close_to(bill.node_s[CULM_GNN_WORKER], 5.1);
    close_to(culm_gnn_bill_usd(&bill), 0.022 + 0.001 + 5.1 * 0.0005 + 2 * 0.01);
    close_to(culm_gnn_bill_s(&bill), 10);
    close_to(culm_gnn_value(10, 0.5), 0.2);
    close_to(culm_gnn_value(10, 0), 0);
    bill.before_usd = 1;
    bill.before_s = 90;
    close_to(culm_gnn_bill_usd(&bill), 1.023 + 5.1 * 0.0005 + 0.02);
    close_to(culm_gnn_bill_s(&bill), 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rates),
        cmocka_unit_test(test_what_comes_with_the_program),
        cmocka_unit_test(test_files_that_are_refused),
        cmocka_unit_test(test_a_bill),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

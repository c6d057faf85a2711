/*
 * Fuzz target: files of prices. Any bytes are refused with one line, or give each role a price, and what
 * is billed by it is no less than nothing.
 */
#include "fuzz.h"

#include "gnn/prices.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const int32_t places[CULM_GNN_ROLES] = {2, 1, 0};
    struct culm_gnn_prices prices;
    struct culm_gnn_bill bill;
    struct culm_error error = {0};
    if (culm_gnn_prices_parse((const char *)data, size, "fuzz", &prices, &error) != CULM_OK) {
        FUZZ_REQUIRE(error.text[0] && !strchr(error.text, '\n'), "message: '%s'", error.text);
        return 0;
    }
    const struct culm_gnn_rates rates = culm_gnn_prices_rates(&prices, 0, 2);
    for (int r = 0; r < CULM_GNN_ROLES; r++) {
        FUZZ_REQUIRE(rates.usd_per_hour[r] >= 0, "role %d: %g", r, rates.usd_per_hour[r]);
    }
    FUZZ_REQUIRE(rates.usd_per_start >= 0 && rates.billing_ms > 0, "%g, %lld", rates.usd_per_start,
                 (long long)rates.billing_ms);
    culm_gnn_bill_init(&bill, &rates, places, 0);
    culm_gnn_bill_joined(&bill, CULM_GNN_WORKER, 10);
    culm_gnn_bill_left(&bill, CULM_GNN_WORKER, 10, 12345678901);
    FUZZ_REQUIRE(culm_gnn_bill_usd(&bill) >= 0, "%g", culm_gnn_bill_usd(&bill));
    culm_gnn_prices_release(&prices);
    return 0;
}

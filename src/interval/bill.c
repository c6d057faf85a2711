/* Adds up what a run costs; the names of roles. See bill.h, role.h. */
#include "interval/bill.h"

#include <stddef.h>

static const char *const role_names[CULM_GNN_ROLES] = {"server", "parameter", "worker"};

const char *culm_gnn_role_name(uint32_t role) {
    return role < CULM_GNN_ROLES ? role_names[role] : NULL;
}

void culm_gnn_bill_init(struct culm_gnn_bill *bill, const struct culm_gnn_rates *rates,
                        const int32_t *places, int64_t now_ns) {
    *bill = (struct culm_gnn_bill){.rates = *rates, .start_ns = now_ns, .now_ns = now_ns};
    for (uint32_t r = 0; r < CULM_GNN_WORKER; r++) {
        bill->places[r] = places[r];
    }
}

void culm_gnn_bill_advance(struct culm_gnn_bill *bill, int64_t now_ns) {
    if (now_ns <= bill->now_ns) {
        return;
    }
    double seconds = (double)(now_ns - bill->now_ns) / 1e9;
    for (uint32_t r = 0; r < CULM_GNN_ROLES; r++) {
        int32_t paid = bill->there[r] > bill->places[r] ? bill->there[r] : bill->places[r];
        bill->node_s[r] += paid * seconds;
    }
    bill->now_ns = now_ns;
}

void culm_gnn_bill_joined(struct culm_gnn_bill *bill, uint32_t role, int64_t now_ns) {
    culm_gnn_bill_advance(bill, now_ns);
    bill->there[role]++;
    bill->starts += role == CULM_GNN_WORKER;
}

void culm_gnn_bill_left(struct culm_gnn_bill *bill, uint32_t role, int64_t since_ns,
                        int64_t now_ns) {
    culm_gnn_bill_advance(bill, now_ns);
    bill->there[role]--;
    int64_t unit = bill->rates.billing_ms > 0 ? bill->rates.billing_ms * 1000000 : 1;
    int64_t over = (bill->now_ns - since_ns) % unit;
    if (role == CULM_GNN_WORKER && over > 0) {
        bill->node_s[role] += (double)(unit - over) / 1e9;
    }
}

double culm_gnn_bill_role_usd(const struct culm_gnn_bill *bill, uint32_t role) {
    double usd = bill->node_s[role] / 3600 * bill->rates.usd_per_hour[role];
    return role == CULM_GNN_WORKER ? usd + (double)bill->starts * bill->rates.usd_per_start : usd;
}

double culm_gnn_bill_usd(const struct culm_gnn_bill *bill) {
    double usd = bill->before_usd;
    for (uint32_t r = 0; r < CULM_GNN_ROLES; r++) {
        usd += culm_gnn_bill_role_usd(bill, r);
    }
    return usd;
}

double culm_gnn_bill_s(const struct culm_gnn_bill *bill) {
    return bill->before_s + (double)(bill->now_ns - bill->start_ns) / 1e9;
}

double culm_gnn_value(double seconds, double usd) {
    return seconds > 0 && usd > 0 ? 1 / (seconds * usd) : 0;
}

/* Computes the cost of a run from its events, and of the runs in the paper on Dorylus. */
#include "run/gnn_cost.h"

#include "base/file.h"
#include "base/ids.h"
#include "gnn/config.h"
#include "net/world.h"
#include "report/sink.h"
#include "run/gnn_measure.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- a run --- */

struct reading {
    const struct culm_gnn_prices *prices;
    struct culm_gnn_bill bill; /* of the part of the run that is being read */
    struct culm_gnn_bill *sum; /* of the parts before it */
    bool begun;
    struct culm_ids since; /* by node that is there: when it joined, an int64_t of its own */
};

static uint32_t role_of(const char *name) {
    uint32_t role = 0;
    while (role < CULM_GNN_ROLES && strcmp(culm_gnn_role_name(role), name) != 0) {
        role++;
    }
    return role;
}

/* Adds the part that has been read to the sum. */
static void end_part(struct reading *r) {
    if (!r->begun) {
        return;
    }
    struct culm_gnn_bill *sum = r->sum;
    sum->rates = r->bill.rates;
    sum->before_usd += culm_gnn_bill_usd(&r->bill);
    sum->before_s += culm_gnn_bill_s(&r->bill);
    for (uint32_t i = 0; i < CULM_GNN_ROLES; i++) {
        sum->node_s[i] += r->bill.node_s[i];
        sum->role_usd[i] += culm_gnn_bill_role_usd(&r->bill, i);
    }
    sum->starts += r->bill.starts;
}

static void forget_nodes(struct reading *r) {
    for (int32_t i = 0; i < r->since.count; i++) {
        free(r->since.thing[i]);
    }
    culm_ids_release(&r->since);
}

static void begin_part(struct reading *r, const json_t *event) {
    const int32_t places[CULM_GNN_ROLES] = {(int32_t)culm_event_int(event, "servers", 1),
                                            (int32_t)culm_event_int(event, "parameter_servers", 1)};
    const struct culm_gnn_rates rates =
        culm_gnn_prices_rates(r->prices, culm_event_int(event, "worker_mb", 0), 1);
    end_part(r);
    r->begun = true;
    culm_gnn_bill_init(&r->bill, &rates, places, 0);
    forget_nodes(r);
}

static enum culm_status note_joined(struct reading *r, const json_t *event, int64_t now_ns,
                                    struct culm_error *error) {
    int64_t node = culm_event_int(event, "node", -1);
    uint32_t role = role_of(culm_event_text(event, "role", ""));
    if (role == CULM_GNN_ROLES || node < 0 || node >= CULM_NODE_IDS) {
        return CULM_OK;
    }
    if (culm_ids_has(&r->since, (int32_t)node)) {
        return CULM_OK;
    }
    int64_t *since = malloc(sizeof *since);
    if (!since || !culm_ids_put(&r->since, (int32_t)node, since)) {
        free(since);
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    *since = now_ns;
    culm_gnn_bill_joined(&r->bill, role, now_ns);
    return CULM_OK;
}

static void note_left(struct reading *r, const json_t *event, int64_t now_ns) {
    int64_t node = culm_event_int(event, "node", -1);
    uint32_t role = role_of(culm_event_text(event, "role", ""));
    bool known = role < CULM_GNN_ROLES && node >= 0 && node < CULM_NODE_IDS;
    int64_t *since = known ? culm_ids_take(&r->since, (int32_t)node) : NULL;
    if (since) {
        culm_gnn_bill_left(&r->bill, role, *since, now_ns);
        free(since);
    }
}

static enum culm_status add(void *context, const json_t *event, struct culm_error *error) {
    struct reading *r = context;
    const char *name = culm_event_text(event, "event", "");
    double ms = culm_event_real(event, "t_ms", 0);
    int64_t now_ns = ms > 0 && ms < 1e12 ? (int64_t)(ms * 1e6) : 0;
    if (strcmp(name, "start") == 0) {
        begin_part(r, event);
    }
    if (!r->begun) {
        return CULM_OK;
    }
    culm_gnn_bill_advance(&r->bill, now_ns);
    if (strcmp(name, "joined") == 0) {
        return note_joined(r, event, now_ns, error);
    }
    if (strcmp(name, "lost") == 0 || strcmp(name, "released") == 0) {
        note_left(r, event, now_ns);
    }
    return CULM_OK;
}

enum culm_status culm_gnn_cost_read(const char *dir, const struct culm_gnn_prices *prices,
                                    bool skim, struct culm_gnn_bill *ret_bill,
                                    struct culm_error *error) {
    char path[CULM_PATH_MAX];
    size_t bad = 0;
    struct culm_gnn_bill sum = {.rates = culm_gnn_prices_rates(prices, 0, 1)};
    struct reading r = {.prices = prices, .sum = &sum};
    enum culm_status status = culm_path_format(path, error, "%s/events.jsonl", dir);
    if (status == CULM_OK && access(path, F_OK) == 0) {
        status = culm_events_skim(path, add, &r, skim ? &bad : NULL, error);
    }
    end_part(&r);
    forget_nodes(&r);
    if (status == CULM_OK) {
        *ret_bill = sum;
    }
    return status;
}

/* The prices that the run in `dir` counts with. */
static enum culm_status own_prices(const char *dir, struct culm_gnn_prices *ret_prices,
                                   struct culm_error *error) {
    char path[CULM_PATH_MAX];
    struct culm_gnn_config config;
    enum culm_status status = culm_path_format(path, error, "%s/config.yaml", dir);
    if (status != CULM_OK || access(path, F_OK) != 0) {
        return status != CULM_OK ? status : culm_gnn_prices_load(NULL, ret_prices, error);
    }
    status = culm_gnn_config_load(path, NULL, 0, &config, error);
    if (status != CULM_OK) {
        return status;
    }
    status = culm_gnn_prices_load(config.prices, ret_prices, error);
    culm_gnn_config_release(&config);
    return status == CULM_OK
               ? status
               : culm_error_prefix(error, "prices of the run (--prices names others)");
}

enum culm_status culm_gnn_cost_run(const char *dir, const char *prices_path,
                                   struct culm_gnn_cost *ret_cost, struct culm_error *error) {
    char path[CULM_PATH_MAX];
    struct culm_gnn_prices prices;
    struct culm_gnn_bill bill;
    enum culm_status status = culm_path_format(path, error, "%s/events.jsonl", dir);
    if (status == CULM_OK && access(path, R_OK) != 0) {
        status = culm_error_set(error, CULM_ERR_NOT_FOUND,
                                "'%s' is not a run of culm gnn train: it has no events.jsonl", dir);
    }
    if (status == CULM_OK) {
        status = prices_path ? culm_gnn_prices_load(prices_path, &prices, error)
                             : own_prices(dir, &prices, error);
    }
    if (status != CULM_OK) {
        return status;
    }
    status = culm_gnn_cost_read(dir, &prices, false, &bill, error);
    if (status == CULM_OK) {
        struct culm_gnn_cost cost = {.usd = bill.before_usd,
                                     .seconds = bill.before_s,
                                     .value = culm_gnn_value(bill.before_s, bill.before_usd),
                                     .starts = bill.starts};
        snprintf(cost.date, sizeof cost.date, "%s", prices.date);
        for (int i = 0; i < 3; i++) {
            cost.role_usd[i] = bill.role_usd[i];
            cost.node_s[i] = bill.node_s[i];
        }
        *ret_cost = cost;
    }
    culm_gnn_prices_release(&prices);
    return status;
}

/* --- runs of the paper --- */

/* Thorpe et al., OSDI 2021, table 4: how long each run took, on which servers, and the dollars as
 * printed there. The variants with GPUs have as many servers, each a p3.2xlarge. */
static const struct {
    const char *model, *graph, *instance;
    int servers;
    double cpu_s, gpu_s;
    const char *cpu_usd, *gpu_usd;
} published[] = {
    {"gcn", "reddit-small", "c5.2xlarge", 2, 1005.4, 162.9, "0.19", "0.28"},
    {"gcn", "reddit-large", "c5n.2xlarge", 12, 1290.5, 324.9, "1.85", "3.31"},
    {"gcn", "amazon", "c5n.2xlarge", 8, 710.2, 385.3, "0.68", "2.62"},
    {"gcn", "friendster", "c5n.4xlarge", 32, 1990.8, 1490.4, "15.3", "40.5"},
    {"gat", "reddit-small", "c5.2xlarge", 10, 1270.4, 130.9, "1.20", "1.11"},
    {"gat", "amazon", "c5n.2xlarge", 12, 2092.7, 1039.2, "3.01", "10.60"},
};
#define GPU_INSTANCE "p3.2xlarge"

/* Rounds to as many digits as are printed. */
static void round_like(double usd, const char *printed, char *ret_text, size_t size) {
    const char *point = strchr(printed, '.');
    snprintf(ret_text, size, "%.*f", point ? (int)strlen(point + 1) : 0, usd);
}

static enum culm_status price(const struct culm_gnn_prices *prices,
                              struct culm_gnn_published *ret_row, struct culm_error *error) {
    double hour = culm_gnn_prices_hour(prices, ret_row->instance);
    if (hour < 0) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "the price file has no instance '%s', which runs of the paper use",
                              ret_row->instance);
    }
    ret_row->usd = ret_row->servers * hour * ret_row->seconds / 3600;
    round_like(ret_row->usd, ret_row->printed, ret_row->rounded, sizeof ret_row->rounded);
    ret_row->equal = strcmp(ret_row->rounded, ret_row->printed) == 0;
    return CULM_OK;
}

enum culm_status
culm_gnn_cost_published(const char *prices_path,
                        struct culm_gnn_published ret_rows[CULM_GNN_PUBLISHED_ROWS],
                        char ret_date[CULM_GNN_DATE_SIZE], struct culm_error *error) {
    struct culm_gnn_prices prices;
    enum culm_status status = culm_gnn_prices_load(prices_path, &prices, error);
    if (status != CULM_OK) {
        return status;
    }
    _Static_assert(2 * sizeof published / sizeof *published == CULM_GNN_PUBLISHED_ROWS, "rows");
    snprintf(ret_date, CULM_GNN_DATE_SIZE, "%s", prices.date);
    for (int i = 0; i < CULM_GNN_PUBLISHED_ROWS && status == CULM_OK; i++) {
        bool gpu = i % 2;
        ret_rows[i] = (struct culm_gnn_published){
            .model = published[i / 2].model,
            .graph = published[i / 2].graph,
            .variant = gpu ? "gpu" : "cpu",
            .instance = gpu ? GPU_INSTANCE : published[i / 2].instance,
            .printed = gpu ? published[i / 2].gpu_usd : published[i / 2].cpu_usd,
            .servers = published[i / 2].servers,
            .seconds = gpu ? published[i / 2].gpu_s : published[i / 2].cpu_s};
        status = price(&prices, &ret_rows[i], error);
    }
    culm_gnn_prices_release(&prices);
    return status;
}

const char *culm_gnn_cost_prices(void) { return culm_gnn_prices_text; }

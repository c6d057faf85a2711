/* `culm gnn cost`: prints what a run has cost, or what runs of the paper on Dorylus did. */
#include "cli/command.h"
#include "cli/options.h"
#include "run/gnn_measure.h"

#include <stdio.h>
#include <string.h>

struct values {
    bool json;
    const char *prices;
};

static const struct culm_option option_rows[] = {
    CULM_OPTION("prices", TEXT, "FILE", struct values, prices,
                "price list (default: the run's key prices, or the list that 'culm gnn cost "
                "prices' prints)"),
    CULM_OPTION("json", FLAG, NULL, struct values, json, "prints one JSON object"),
};

const struct culm_usage culm_usage_gnn_cost = {
    .command = "gnn cost",
    .arguments = "DIR|published|prices",
    .min_arguments = 1,
    .max_arguments = 1,
    .summary = "Computes what a run on a graph has cost",
    .options = option_rows,
    .option_count = sizeof option_rows / sizeof *option_rows,
    .details =
        "DIR is a run of culm gnn train. 'published' computes what the runs without functions in\n"
        "the paper on Dorylus cost, and shows the figures printed there. 'prices' prints the "
        "price\n"
        "list that is shipped with Culm.\n\n"
        "Servers and parameter servers are charged by the hour, and workers as functions: by "
        "memory\n"
        "and time, and for each start. Processes of this machine are charged as if they were such\n"
        "instances and functions.\n"
        "The value of a run is 1 / (seconds x dollars).\n",
};

static json_t *roles_json(const struct culm_gnn_cost *c) {
    return json_pack("{s:{s:f, s:f}, s:{s:f, s:f}, s:{s:f, s:f, s:I}}", "servers", "usd",
                     c->role_usd[0], "hours", c->node_s[0] / 3600, "parameter_servers", "usd",
                     c->role_usd[1], "hours", c->node_s[1] / 3600, "workers", "usd", c->role_usd[2],
                     "seconds", c->node_s[2], "starts", (json_int_t)c->starts);
}

static enum culm_status show_run(const char *dir, const struct values *v,
                                 struct culm_error *error) {
    struct culm_gnn_cost c;
    enum culm_status status = culm_gnn_cost_run(dir, v->prices, &c, error);
    if (status != CULM_OK) {
        return status;
    }
    if (v->json) {
        json_t *object = json_pack("{s:f, s:f, s:f, s:s}", "usd", c.usd, "value", c.value,
                                   "seconds", c.seconds, "prices", c.date);
        json_object_update_new(object, roles_json(&c));
        culm_cli_print_json(object);
        return CULM_OK;
    }
    printf("$%.6f in %.1f s, at prices of %s; value 1/(s x $) %.6g\n", c.usd, c.seconds, c.date,
           c.value);
    printf("  servers            $%.6f for %.4f hours\n", c.role_usd[0], c.node_s[0] / 3600);
    printf("  parameter servers  $%.6f for %.4f hours\n", c.role_usd[1], c.node_s[1] / 3600);
    printf("  workers            $%.6f for %.1f s, %lld starts\n", c.role_usd[2], c.node_s[2],
           (long long)c.starts);
    return CULM_OK;
}

static enum culm_status show_published(const struct values *v, struct culm_error *error) {
    struct culm_gnn_published rows[CULM_GNN_PUBLISHED_ROWS];
    char date[CULM_GNN_DATE_SIZE];
    int equal = 0;
    enum culm_status status = culm_gnn_cost_published(v->prices, rows, date, error);
    if (status != CULM_OK) {
        return status;
    }
    json_t *runs = json_array();
    if (!v->json) {
        printf("%-5s %-13s %-4s %3s  %-12s %9s %10s %9s %8s\n", "model", "graph", "", "", "servers",
               "seconds", "dollars", "rounded", "printed");
    }
    for (int i = 0; i < CULM_GNN_PUBLISHED_ROWS; i++) {
        const struct culm_gnn_published *r = &rows[i];
        equal += r->equal;
        json_array_append_new(
            runs, json_pack("{s:s, s:s, s:s, s:i, s:s, s:f, s:f, s:s, s:s, s:b}", "model", r->model,
                            "graph", r->graph, "variant", r->variant, "servers", r->servers,
                            "instance", r->instance, "seconds", r->seconds, "usd", r->usd,
                            "rounded", r->rounded, "printed", r->printed, "equal", r->equal));
        if (!v->json) {
            printf("%-5s %-13s %-4s %3d  %-12s %9.1f %10.4f %9s %8s%s\n", r->model, r->graph,
                   r->variant, r->servers, r->instance, r->seconds, r->usd, r->rounded, r->printed,
                   r->equal ? "" : "  differs");
        }
    }
    if (v->json) {
        culm_cli_print_json(
            json_pack("{s:o, s:i, s:s}", "runs", runs, "equal", equal, "prices", date));
        return CULM_OK;
    }
    json_decref(runs);
    printf("%d of %d agree with what is printed, to the digit; prices of %s\n", equal,
           CULM_GNN_PUBLISHED_ROWS, date);
    return CULM_OK;
}

static enum culm_status body(const struct culm_arguments *arguments, void *values, int *ret_code,
                             struct culm_error *error) {
    const struct values *v = values;
    const char *what = arguments->items[0];
    (void)ret_code;
    if (strcmp(what, "prices") == 0) {
        static const char others[] = "culm gnn cost DIR|published";
        enum culm_status status = culm_cli_only(v->json, "json", others, error);
        if (status == CULM_OK) {
            status = culm_cli_only(v->prices, "prices", others, error);
        }
        if (status != CULM_OK) {
            return status;
        }
        fputs(culm_gnn_cost_prices(), stdout);
        return CULM_OK;
    }
    return strcmp(what, "published") == 0 ? show_published(v, error) : show_run(what, v, error);
}

int culm_cli_gnn_cost(int argc, char **argv) {
    struct values values = {0};
    return culm_cli_run(&culm_usage_gnn_cost, argc, argv, &values, body);
}

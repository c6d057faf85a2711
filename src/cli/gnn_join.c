/* `culm gnn server` and `culm gnn worker`: join a run that `culm gnn train --listen` has begun. */
#include "cli/command.h"
#include "cli/options.h"
#include "run/gnn_nodes.h"

#include <stdio.h>
#include <string.h>

struct values {
    const char *join, *token_file, *listen, *advertise, *gearman;
    bool insecure;
};

#define OPTION_JOIN                                                                                \
    CULM_OPTION("join", TEXT, "HOST:PORT", struct values, join, "where the run's launcher listens")
#define OPTION_TOKEN                                                                               \
    CULM_OPTION("token-file", TEXT, "FILE", struct values, token_file,                             \
                "the token of the run: its DIR/token, the file it was given, or a copy")

#define OPTION_INSECURE                                                                            \
    CULM_OPTION("insecure", FLAG, NULL, struct values, insecure,                                   \
                "joins a run that encrypts nothing between machines, too")

static const struct culm_option server_rows[] = {
    OPTION_JOIN,
    OPTION_TOKEN,
    CULM_OPTION("listen", TEXT, "ADDR:PORT", struct values, listen,
                "where it listens for other nodes (default: the address from which it calls the "
                "launcher)"),
    CULM_OPTION("advertise", TEXT, "ADDR:PORT", struct values, advertise,
                "the address that other nodes connect to, if it is another one"),
    OPTION_INSECURE,
};

static const struct culm_option worker_rows[] = {
    OPTION_JOIN,
    OPTION_TOKEN,
    CULM_OPTION("gearman", TEXT, "HOST:PORT", struct values, gearman,
                "a Gearman job server to take jobs from"),
    OPTION_INSECURE,
};

#define ROWS(rows) .options = rows, .option_count = sizeof rows / sizeof *rows

const struct culm_usage culm_usage_gnn_server = {
    .command = "gnn server",
    .arguments = "",
    .summary = "Joins a run on a graph as a server",
    ROWS(server_rows),
    .details =
        "It reads the graph at the path in the run's configuration, and ends if the graph there "
        "is\n"
        "cut differently. It may come and go at any time. Checkpoints it sends to the launcher "
        "and\n"
        "fetches from there, by way of a folder in TMPDIR that it removes. Its traffic is\n"
        "encrypted, with a key made from the token (TLS 1.3), unless the run was started with\n"
        "--insecure.\n\n"
        "The exit code is 0 when the run is over, 1 when the run ended early or has removed the\n"
        "node, 2 for wrong usage, 3 when it was refused, and 4 when nobody listens there.\n",
};

const struct culm_usage culm_usage_gnn_worker = {
    .command = "gnn worker",
    .arguments = "",
    .summary = "Joins a run on a graph as a worker",
    ROWS(worker_rows),
    .details =
        "It needs no files, and may come and go at any time. Its traffic is encrypted, with a\n"
        "key made from the token (TLS 1.3), unless the run was started with --insecure.\n\n"
        "With --gearman, it takes the jobs that runs with 'engine: gearman' submit there, one "
        "after\n"
        "the other. A job holds the address and the token of its run.\n\n"
        "The exit code is 0 when the run is over, 1 when the run ended early or has removed the\n"
        "node, 2 for wrong usage, 3 when it was refused, and 4 when nobody listens there.\n",
};

static enum culm_status join(const char *role, const struct values *v, int *ret_code,
                             struct culm_error *error) {
    if (!v->join || !v->token_file) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "%s is missing",
                              v->join ? "--token-file FILE" : "--join HOST:PORT");
    }
    const struct culm_gnn_join_options options = {.role = role,
                                                  .address = v->join,
                                                  .token_file = v->token_file,
                                                  .listen = v->listen,
                                                  .advertise = v->advertise,
                                                  .insecure = v->insecure};
    struct culm_error why = {0};
    *ret_code = culm_gnn_join(&options, &why);
    if (why.text[0]) {
        fprintf(stderr, "culm gnn %s: %s\n", role, why.text);
    }
    return CULM_OK;
}

static enum culm_status join_server(const struct culm_arguments *arguments, void *values,
                                    int *ret_code, struct culm_error *error) {
    (void)arguments;
    return join("server", values, ret_code, error);
}

static enum culm_status join_worker(const struct culm_arguments *arguments, void *values,
                                    int *ret_code, struct culm_error *error) {
    const struct values *v = values;
    (void)arguments;
    if (v->gearman && (v->join || v->token_file)) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "--gearman says what to join; leave out --join and --token-file");
    }
    return v->gearman ? culm_gnn_work_for(v->gearman, error)
                      : join("worker", values, ret_code, error);
}

int culm_cli_gnn_join(int argc, char **argv) {
    struct values values = {0};
    bool server = strcmp(argv[0], "server") == 0;
    return culm_cli_run(server ? &culm_usage_gnn_server : &culm_usage_gnn_worker, argc, argv,
                        &values, server ? join_server : join_worker);
}

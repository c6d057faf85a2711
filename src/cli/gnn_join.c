/* `culm gnn server` and `culm gnn worker`: join a run that `culm gnn train --listen` has begun. */
#include "cli/command.h"
#include "cli/options.h"
#include "run/gnn_training.h"

#include <stdio.h>
#include <string.h>

struct values {
    const char *join, *token_file, *listen, *advertise, *gearman;
};

static const struct culm_option option_rows[] = {
    CULM_OPTION("join", TEXT, "HOST:PORT", struct values, join, "where the run's launcher listens"),
    CULM_OPTION("token-file", TEXT, "FILE", struct values, token_file,
                "the token of the run: its DIR/token, or a copy"),
    CULM_OPTION("listen", TEXT, "ADDRESS", struct values, listen,
                "server: where it listens for others (default: where its connection begins)"),
    CULM_OPTION("advertise", TEXT, "ADDRESS", struct values, advertise,
                "server: where others call it, if that is another address"),
    CULM_OPTION("gearman", TEXT, "HOST:PORT", struct values, gearman,
                "worker: a Gearman job server, which says what to join, again and again"),
};

static const char details[] =
    "A server reads the graph at the path that the run's configuration gives, and ends if that is "
    "cut\n"
    "otherwise there. A worker needs no files. Either may come and go at any time.\n"
    "\n"
    "With --gearman, a worker takes jobs that runs with 'engine: gearman' have there, one after "
    "the\n"
    "other. A job has the address and the token of its run.\n";

static const struct culm_usage usages[] = {
    {.command = "gnn server",
     .arguments = "",
     .summary = "Joins a run on a graph as a server",
     .options = option_rows,
     .option_count = sizeof option_rows / sizeof *option_rows,
     .details = details},
    {.command = "gnn worker",
     .arguments = "",
     .summary = "Joins a run on a graph as a worker",
     .options = option_rows,
     .option_count = sizeof option_rows / sizeof *option_rows,
     .details = details},
};

static enum culm_status join(const char *role, const struct values *v, int *ret_code,
                             struct culm_error *error) {
    if (v->gearman) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "--gearman is for workers");
    }
    if (!v->join || !v->token_file) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "%s is missing",
                              v->join ? "--token-file FILE" : "--join HOST:PORT");
    }
    const struct culm_gnn_join_options options = {.role = role,
                                                  .address = v->join,
                                                  .token_file = v->token_file,
                                                  .listen = v->listen,
                                                  .advertise = v->advertise};
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
    return culm_cli_run(&usages[!server], argc, argv, &values, server ? join_server : join_worker);
}

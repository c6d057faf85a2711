/* `culm node`: processes on this machine for a run that another one leads. */
#include "run/node.h"
#include "cli/command.h"
#include "cli/options.h"

#include <stdio.h>
#include <string.h>

#define GRACE_MOST_S 1000000

struct values {
    const char *join, *name, *lead, *token_file, *dir, *data_dir, *listen, *advertise, *zone, *role;
    int64_t workers, grace;
    bool insecure;
};

static const struct culm_option rows[] = {
    CULM_OPTION(
        "join", TEXT, "HOST:PORT", struct values, join,
        "where the run's launcher listens; or etcd://HOST:PORT[,HOST:PORT]...: the store at "
        "which whoever leads is found"),
    CULM_OPTION("name", TEXT, "RUN", struct values, name, "the run's name at the store"),
    CULM_OPTION("lead", TEXT, "yes|no", struct values, lead,
                "whether this machine may lead the run, which is found at a store (default: yes)"),
    CULM_OPTION("token-file", TEXT, "FILE", struct values, token_file,
                "the token of the run: its DIR/token, the file it was given, or a copy"),
    CULM_OPTION("role", TEXT, "server|parameter|worker", struct values, role,
                "of a run on a graph: what its processes are (default: with a store, server)"),
    CULM_OPTION("workers", COUNT, "N", struct values, workers,
                "how many processes it has here that compute (default: 1; 0: it may lead, and "
                "computes nothing)"),
    CULM_OPTION("dir", TEXT, "DIR", struct values, dir,
                "where workers keep what they need of checkpoints (default: a folder in TMPDIR or "
                "/tmp, which goes with them)"),
    CULM_OPTION("data-dir", TEXT, "DIR", struct values, data_dir,
                "where relative paths of the run's configuration begin (default: here)"),
    CULM_OPTION("listen", TEXT, "ADDR:PORT", struct values, listen,
                "where a worker listens for others (default: the address from which it calls the "
                "launcher); with a store, where it leads, and workers at the ports after that"),
    CULM_OPTION("advertise", TEXT, "ADDR:PORT", struct values, advertise,
                "the address that others connect to, if it is another one"),
    CULM_OPTION("zone", TEXT, "NAME", struct values, zone,
                "where this machine is: copies of a stage are put into several zones, if there are "
                "several"),
    CULM_OPTION("grace", COUNT, "S", struct values, grace,
                "for how many seconds after SIGTERM others may take over what is here, before it "
                "ends (default: 25; 0: it ends at once)"),
    CULM_OPTION("insecure", FLAG, NULL, struct values, insecure,
                "joins a run that encrypts nothing between machines, too"),
};

const struct culm_usage culm_usage_node = {
    .command = "node",
    .arguments = "",
    .summary = "Joins a run on another machine with processes of this one",
    .options = rows,
    .option_count = sizeof rows / sizeof *rows,
    .details =
        "The run was started with 'culm train CONFIG --listen ADDR:PORT', or was created with\n"
        "'culm train CONFIG --cluster etcd://... --name RUN': then no machine has to stay, and one "
        "of\n"
        "the nodes leads. 'culm gnn train' has the same options; its nodes have roles, and\n"
        "'--join HOST:PORT' without --role is for runs of culm train. Data, models and tokenizers "
        "that\n"
        "the configuration names have to be here, too, with the same content; only workers "
        "of\n"
        "a graph need none. Processes take vacant places, and stand by when there are "
        "none;\n"
        "their parts of checkpoints go to the launcher. One that ends early is replaced. What "
        "goes\n"
        "between machines is encrypted, with a key made from the token (TLS 1.3), unless the run "
        "was\n"
        "started with --insecure.\n\n"
        "SIGTERM or SIGINT: it leaves the run. At the end of the step that is in progress others "
        "take\n"
        "over what its processes did, so that nothing has to be done again, and they end; if it "
        "led,\n"
        "another one leads. A second signal, or --grace, ends it as it is: a loss like any "
        "other.\n\n"
        "The exit code is 0 when the run is done, 1 when it was lost or has refused the workers, "
        "2\n"
        "for wrong usage, 3 when the data here is not the run's, 4 when nobody listens there, and\n"
        "75 when the run was stopped or a signal has ended the node.\n",
};

static enum culm_status run(const struct culm_arguments *arguments, void *values, int *ret_code,
                            struct culm_error *error) {
    const struct values *v = values;
    (void)arguments;
    const bool store = v->join && strstr(v->join, "://");
    const bool no = v->lead && strcmp(v->lead, "no") == 0;
    if (v->lead && !no && strcmp(v->lead, "yes") != 0) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "--lead '%.40s' is neither yes nor no",
                              v->lead);
    }
    if (store != (v->name != NULL) || (v->lead && !store)) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              store ? "--join %.100s needs --name RUN: which run of that store"
                                    : "--name and --lead need --join etcd://HOST:PORT: a run that "
                                      "one launcher leads is found by its address%.0s",
                              v->join);
    }
    if (v->workers > CULM_NODE_WORKERS_MAX || (v->workers == 0 && (!store || no))) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "--workers %lld is not in %d..%d",
                              (long long)v->workers, !store || no, CULM_NODE_WORKERS_MAX);
    }
    if (v->grace > GRACE_MOST_S) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "--grace %lld is not in 0..%d",
                              (long long)v->grace, GRACE_MOST_S);
    }
    if (!v->join || !v->token_file) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "%s is missing",
                              v->join ? "--token-file FILE" : "--join HOST:PORT");
    }
    const struct culm_run_node_options options = {.address = store ? NULL : v->join,
                                                  .store = store ? v->join : NULL,
                                                  .run = v->name,
                                                  .leads = store && !no,
                                                  .token_file = v->token_file,
                                                  .dir = v->dir,
                                                  .data_dir = v->data_dir,
                                                  .listen = v->listen,
                                                  .advertise = v->advertise,
                                                  .zone = v->zone,
                                                  .insecure = v->insecure,
                                                  .grace_s = v->grace,
                                                  .command = "node",
                                                  .role = v->role,
                                                  .workers = (int32_t)v->workers};
    struct culm_error why = {0};
    *ret_code = culm_run_node(&options, &why);
    if (why.text[0]) {
        fprintf(stderr, "culm node: %s\n", why.text);
    }
    return CULM_OK;
}

int culm_cli_node(int argc, char **argv) {
    struct values values = {.workers = 1, .grace = 25};
    return culm_cli_run(&culm_usage_node, argc, argv, &values, run);
}

/* See cluster.h. */
#include "cli/cluster.h"

#include "run/node.h"

#include <stdio.h>
#include <string.h>

static const char *name_of(const struct culm_cli_launching *values, const char *dir) {
    const char *slash = strrchr(dir, '/');
    return values->name ? values->name : slash ? slash + 1 : dir;
}

static enum culm_status check_without(const struct culm_cli_launching *v,
                                      struct culm_error *error) {
    if (v->detach) {
        return culm_error_set(
            error, CULM_ERR_ARGUMENT,
            "--detach needs --cluster etcd://HOST:PORT: a launcher that leads for good stays");
    }
    return v->name ? culm_error_set(error, CULM_ERR_ARGUMENT,
                                    "--name needs --cluster etcd://HOST:PORT: a run without it is "
                                    "called by its directory")
                   : CULM_OK;
}

static enum culm_status check_faults(const struct culm_cli_launching *v, bool leads,
                                     struct culm_error *error) {
    if (v->faults.count && !leads) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "--fault means nothing with --cluster, where this command starts no "
                              "process of the roles that a fault names");
    }
    if (v->faults.count > 1 || (v->faults.count && !culm_leader_fault_is(v->faults.items[0]))) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "--fault with --cluster: one of who leads here, as in leader,step=S");
    }
    return v->faults.count ? culm_leader_fault_check(v->faults.items[0], error) : CULM_OK;
}

enum culm_status culm_cli_cluster_check(const struct culm_cli_launching *v, const char *dir,
                                        bool leads, struct culm_error *error) {
    if (!v->cluster) {
        return check_without(v, error);
    }
    const char *wrong = v->trace           ? "--preempt-trace"
                        : v->accept_inputs ? "--accept-inputs"
                        : v->from_start    ? "--from-start"
                                           : NULL;
    if (wrong) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "%s means nothing with --cluster", wrong);
    }
    if (!v->token_file) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "--cluster needs --token-file FILE, which all nodes have; make one "
                              "with 'culm keys new FILE'");
    }
    const enum culm_status status = check_faults(v, leads, error);
    return status == CULM_OK ? culm_cluster_check_name(name_of(v, dir), error) : status;
}

/* In the process that leads. */
static enum culm_status hear(void *ctx, struct culm_sink **ret_sink, bool *ret_screen,
                             struct culm_error *error) {
    const struct culm_cli_cluster *c = ctx;
    *ret_screen = !c->values->json;
    return culm_cli_open_sink(c->values->json, &c->terminal, ret_sink, error);
}

static int detach(const struct culm_cli_cluster *c, const struct culm_run_node_options *node,
                  struct culm_error *error) {
    char log[CULM_PATH_MAX], address[CULM_PATH_MAX] = "";
    enum culm_status status = culm_path_format(log, error, "%s/agent.log", c->dir);
    status = status ? status : culm_dir_make(NULL, c->dir, error);
    status = status ? status : culm_run_node_detached(node, log, address, error);
    if (status == CULM_OK) {
        printf("'%s' is %s%s; culm status %s --cluster %s shows it, culm stop stops it\n",
               node->run, address[0] ? "led at " : "over", address, node->run, node->store);
    }
    return culm_status_exit_code(status);
}

static int follow(const struct culm_cli_cluster *c, struct culm_error *error) {
    const struct culm_cli_launching *v = c->values;
    const struct culm_run_node_options node = {
        .store = v->cluster,
        .run = name_of(v, c->dir),
        .leads = true,
        .lead_dir = c->dir,
        .hear = hear,
        .hear_ctx = (void *)c,
        .fault = v->faults.count ? v->faults.items[0] : NULL,
        .stops_run = true,
        .token_file = v->token_file,
        .listen = v->listen,
        .advertise = v->advertise,
        .insecure = v->insecure,
        .command = c->command,
        .workers = c->workers,
        .roles = c->roles,
    };
    const enum culm_status status =
        c->create(c->job, node.store, node.run, v->token_file, v->resume, error);
    if (status != CULM_OK) {
        return culm_status_exit_code(status);
    }
    return v->detach ? detach(c, &node, error) : culm_run_node(&node, error);
}

int culm_cli_cluster_run(const struct culm_cli_cluster *c) {
    struct culm_error error = {0};
    const int code = follow(c, &error);
    if (error.text[0]) {
        fprintf(stderr, "culm %s: %s\n", c->command, error.text);
    } else if (code == 0 && !c->values->json && !c->values->detach) { /* wherever it was led */
        printf("'%s' is done\n", name_of(c->values, c->dir));
    }
    return code;
}

/*
 * `--cluster` of the commands that create runs: what of their options it allows, and the command as one of the run's nodes.
 *
 * Thread: the main one.
 */
#ifndef CULM_CLI_CLUSTER_H
#define CULM_CLI_CLUSTER_H

#include "cli/launching.h"

struct culm_cli_cluster { /* all borrowed */
    const char *command;  /* "train" */
    const struct culm_cli_launching *values;
    const char *dir;
    struct culm_terminal_options terminal; /* of the process that leads */
    int32_t workers;                       /* processes here that compute, and as of node.h: */
    const uint32_t *roles;
    /* Creates the run, or finds it (launches.h), and lets go of what that took. */
    enum culm_status (*create)(void *job, const char *store, const char *name,
                               const char *token_file, bool resume, struct culm_error *error);
    void *job;
};

/* CULM_ERR_ARGUMENT: options that do not go together, with --cluster or without. `leads`: a fault may be of who leads. */
enum culm_status culm_cli_cluster_check(const struct culm_cli_launching *values, const char *dir,
                                        bool leads, struct culm_error *error);
/* Creates the run, or finds it, and is one of its nodes from then on, unless --detach leaves it to itself. Prints why it ended; the exit
 * code. */
int culm_cli_cluster_run(const struct culm_cli_cluster *cluster);

#endif

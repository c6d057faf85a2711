/*
 * Training on a graph as a job of the launcher (launcher.h): everything of `culm gnn train` that is
 * left once the command line and the configuration are right. It reads and cuts the graph, finds the
 * checkpoint that a resumed run starts from, says what nodes are told, and makes the leader.
 *
 * It prints nothing: events go to the caller's sinks, warnings to its function as well, and an error
 * is returned. Thread: the caller's.
 */
#ifndef CULM_RUN_GNN_LAUNCH_H
#define CULM_RUN_GNN_LAUNCH_H

#include "base/sha256.h"
#include "run/gnn_fault.h"
#include "run/launcher.h"

/* All borrowed for the length of the call. */
struct culm_gnn_launch_options {
    struct culm_launcher_options run;
    const char *listen;    /* where others may join, net/address.h; NULL: nobody may */
    const char *advertise; /* where they call, if that is another address */
    const char *plan_path; /* plan.json of another run, whose cut this one takes; NULL: its own */
    const struct culm_gnn_config *config;
    char *config_text; /* with every default filled in: for config.yaml and for nodes */
    char config_sha256[CULM_SHA256_HEX];      /* of config_text */
    const struct culm_gnn_fault_spec *faults; /* [run.fault_count] */
};

/* Checks what a run would check before it writes anything, and returns its plan: the caller's. */
enum culm_status culm_gnn_launch_plan(const struct culm_gnn_launch_options *options,
                                      struct json_t **ret_plan, struct culm_error *error);

/* Trains to the end; returns the exit code of `culm gnn train`. *ret_error has a text when something
 * is to be said. Writes nothing before it has checked the graph and claimed the directory. The result
 * is to be released in any case. */
int culm_gnn_launch_run(const struct culm_gnn_launch_options *options,
                        struct culm_launcher_result *ret_result, struct culm_error *ret_error);

#endif

/*
 * Training on a graph as a job of the launcher (launcher.h): everything that `culm gnn train` does
 * once the command line and the configuration have been checked. It reads and cuts the graph, finds
 * the checkpoint that a resumed run starts from, writes the briefs of nodes, and makes the leader.
 *
 * It prints nothing: events go to the caller's sinks, warnings also to the caller's function, and
 * errors are returned. Thread: the caller's.
 */
#ifndef CULM_RUN_GNN_LAUNCH_H
#define CULM_RUN_GNN_LAUNCH_H

#include "base/sha256.h"
#include "launch/launcher.h"
#include "run/doors.h"
#include "run/gnn_fault.h"
#include "run/signature.h"

/* All borrowed during the call. */
struct culm_gnn_launch_options {
    struct culm_launcher_options run;
    struct culm_doors doors;
    int32_t here_most; /* with open doors: processes in each role on this machine, at most */
    /* plan.json of a run whose cut is to be used, or a file with the interval of each vertex
     * (gnn/partition.h); both NULL: make a cut. A resumed run has one. */
    const char *plan_path, *partition_path;
    const struct culm_gnn_config *config;
    char *config_text; /* with all defaults filled in, for config.yaml and for nodes */
    char config_sha256[CULM_SHA256_HEX];      /* of config_text */
    const struct culm_gnn_fault_spec *faults; /* [run.fault_count] */
};

/* Makes all checks that a run makes before it writes anything, and returns its plan, which the
 * caller frees. */
enum culm_status culm_gnn_launch_plan(const struct culm_gnn_launch_options *options,
                                      struct json_t **ret_plan, struct culm_error *error);

/* What plan.json will have, which is the caller's, and the signature, for others to lead the run. Writes nothing. */
enum culm_status culm_gnn_launch_text(const struct culm_gnn_launch_options *options,
                                      char **ret_plan, char ret_signature[CULM_SIGNATURE_SIZE],
                                      struct culm_error *error);

/* Trains to the end; returns the exit code of `culm gnn train`. If there is an error to be printed,
 * ret_error->text is not empty. Writes nothing before the graph is checked and the directory is
 * claimed. The caller releases *ret_result in any case. */
int culm_gnn_launch_run(const struct culm_gnn_launch_options *options,
                        struct culm_launcher_result *ret_result, struct culm_error *ret_error);

#endif

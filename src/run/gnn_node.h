/*
 * The nodes of a run on a graph: participants (participant.h) in the roles server, parameter and
 * worker; and the brief that the launcher sends them. They print nothing.
 *
 * Thread: any for a brief; nodes run on the caller's.
 */
#ifndef CULM_RUN_GNN_NODE_H
#define CULM_RUN_GNN_NODE_H

#include "base/file.h"
#include "gnn/setup.h"
#include "interval/leader.h"
#include "launch/participant.h"
#include "run/signature.h"

#include <jansson.h>

/* What a node is told when it joins. */
struct culm_gnn_brief {
    char *config_text; /* owned */
    struct culm_gnn_plan plan;
    uint64_t payload_max; /* bytes of the largest payload of the run */
    char *inputs; /* owned; pins of the graph's files: the text of culm_inputs_json, with a member
                   * "lineage" (store/lineage.h) if the run has one. A worker only compares them, with
                   * those of the brief before */
    char cut_sha256[65]; /* of the launcher's cut; a server that cuts the graph must get the same */
    /* [plan.vertices] The cut, for servers that cannot read its file; NULL: it is not sent.
     * Borrowed for writing; after culm_gnn_brief_read, owned. */
    uint32_t *cut;
};

/* False: out of memory. */
bool culm_gnn_brief_write(const struct culm_gnn_brief *brief, struct culm_buf *out);
/* CULM_ERR_FORMAT. */
enum culm_status culm_gnn_brief_read(const void *data, size_t len, struct culm_gnn_brief *ret_brief,
                                     struct culm_error *error);
void culm_gnn_brief_release(struct culm_gnn_brief *brief); /* fine on a zeroed one */

/* The path of the cut in run directory `dir` (culm_gnn_setup_write_cut). *ret_path is `path`, or
 * NULL if there is no such file. */
enum culm_status culm_gnn_cut_path(const char *dir, char path[CULM_PATH_MAX], const char **ret_path,
                                   struct culm_error *error);
/* SHA-256 of interval_of[vertices]. */
enum culm_status culm_gnn_cut_sha256(const struct culm_gnn_setup *setup, char ret_text[65]);
/* CULM_ERR_CONFIG if the cut is not the one that `record` of the run in `dir` has, the choices of a
 * checkpoint for example. Older versions did not record one; any cut is accepted then. */
enum culm_status culm_gnn_cut_recorded(const json_t *record, const char *dir, const char *sha256,
                                       struct culm_error *error);
/* The same for plan.json in run directory `dir`. */
enum culm_status culm_gnn_cut_compare(const char *dir, const char *sha256,
                                      struct culm_error *error);
/* Describes everything about the build and the machine that can change bits. Must be the same in
 * all nodes. */
void culm_gnn_signature(const struct culm_device *device, char ret_text[CULM_SIGNATURE_SIZE]);

/* The pace that follows from the configuration. */
struct culm_gnn_pace culm_gnn_pace_of(const struct culm_gnn_config *config);

/* What a worker leaves for the next one in the same process: the model and the executor with its
 * constant inputs. It is used if the next brief is equal, and otherwise dropped. */
struct culm_gnn_gear;
void culm_gnn_gear_free(struct culm_gnn_gear *gear); /* NULL is fine */

/* How long a newcomer stays, and how that ended. */
struct culm_gnn_stay {
    uint64_t until_ns; /* by culm_clock_ns: when it begins to leave; 0: it stays */
    int64_t part_ms;   /* as in culm_gnn_worker_options */
    bool stops;        /* ends with CULM_ERR_STOPPED's code when the run was stopped; else with 0 */
    struct culm_gnn_gear *gear; /* in: from the last worker; out: for the next; NULL: none. Owned
                                   by the caller */
    /* Set by the call. */
    bool came;    /* it was let in */
    bool refused; /* it was refused, or nobody is there */
    int32_t node; /* -1: it was not let in, or never ready */
};

/* Joins as a newcomer, and works until it is told to end, its launcher is gone, or `stay` is over
 * (NULL: no limit). Returns the exit code. All but a worker load and save checkpoints through the
 * launcher (launch/depot.h), and have a folder of their own for that: call->dir; NULL: a temporary one. */
int culm_run_gnn_newcomer(const struct culm_participant_call *call, struct culm_gnn_stay *stay,
                          struct culm_error *ret_error);
/* Runs a node that the launcher has started: argv[0] is "gnn-node", argv[1] the name of the role, and
 * the rest is as described in participant.h. Returns the exit code. */
int culm_run_gnn_node(int argc, char **argv, struct culm_participant_memory *ret_memory,
                      struct culm_error *ret_error);

#endif

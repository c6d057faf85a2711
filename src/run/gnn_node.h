/*
 * The nodes of a run on a graph: participants (participant.h) in the roles server, parameter and
 * worker. They print nothing. Also what the launcher tells them, and must be the same in all.
 */
#ifndef CULM_RUN_GNN_NODE_H
#define CULM_RUN_GNN_NODE_H

#include "base/file.h"
#include "gnn/leader.h"
#include "gnn/setup.h"
#include "run/participant.h"
#include "run/signature.h"

/* What a node is told when it joins. */
struct culm_gnn_brief {
    char *config_text; /* owned */
    struct culm_gnn_plan plan;
    uint64_t payload_max; /* bytes of the largest message of the run */
    char *inputs; /* owned; the graph's files as they were pinned, culm_inputs_json as text */
    char cut_sha256[65]; /* of the cut that the launcher has; who cuts again must get the same */
    /* [plan.vertices] that cut, for servers that cannot read its file; NULL: it is not told. Borrowed, but
     * of brief_read. */
    uint32_t *cut;
};

/* False: out of memory. */
bool culm_gnn_brief_write(const struct culm_gnn_brief *brief, struct culm_buf *out);
/* CULM_ERR_FORMAT. */
enum culm_status culm_gnn_brief_read(const void *data, size_t len, struct culm_gnn_brief *ret_brief,
                                     struct culm_error *error);
void culm_gnn_brief_release(struct culm_gnn_brief *brief); /* fine on a zeroed one */

/* Where a run in `dir` keeps its cut (culm_gnn_setup_write_cut): *ret_path is `path`, or NULL as long as
 * there is none. */
enum culm_status culm_gnn_cut_path(const char *dir, char path[CULM_PATH_MAX], const char **ret_path,
                                   struct culm_error *error);
/* SHA-256 of interval_of[vertices]. */
enum culm_status culm_gnn_cut_sha256(const struct culm_gnn_setup *setup, char ret_text[65]);
/* The cut is that with which the run in `dir` was begun, as its plan.json says; runs of older versions say
 * nothing. CULM_ERR_CONFIG when it is not. */
enum culm_status culm_gnn_cut_compare(const char *dir, const char *sha256,
                                      struct culm_error *error);
/* Everything of build and machine that can change bits. */
void culm_gnn_signature(const struct culm_device *device, char ret_text[CULM_SIGNATURE_SIZE]);

/* How epochs follow each other; the last twentieth takes nothing old. */
struct culm_gnn_pace culm_gnn_pace_of(const struct culm_gnn_config *config);

/* What a worker leaves to the next one in its process: of no use to one that is told something else. */
struct culm_gnn_gear;
void culm_gnn_gear_free(struct culm_gnn_gear *gear); /* NULL is fine */

/* How long a newcomer stays, and what came of it. */
struct culm_gnn_stay {
    uint64_t until_ns;          /* of culm_clock_ns: then it begins to leave; 0: it stays */
    int64_t part_ms;            /* as culm_gnn_worker_options has it */
    struct culm_gnn_gear *gear; /* of the last one, then of this one; NULL: none. The caller's */
    /* Set by the call. */
    bool came;    /* it was let in */
    bool refused; /* it was not, or nobody is there */
    int32_t node; /* -1: it did not come */
};

/* A node that somebody else starts works until it is told to end, or its launcher is gone, or it has
 * stayed as long as it was to (`stay`; NULL: no limit); the exit code. It has no run directory, so it
 * saves nothing. */
int culm_run_gnn_newcomer(const struct culm_participant_call *call, struct culm_gnn_stay *stay,
                          struct culm_error *ret_error);
/* The same of one that the launcher starts: argv[0] is "node", argv[1] the role's name; what follows
 * is as participant.h says. */
int culm_run_gnn_node(int argc, char **argv, struct culm_participant_memory *ret_memory,
                      struct culm_error *ret_error);

#endif

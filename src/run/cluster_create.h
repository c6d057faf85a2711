/*
 * Creating a run at a store of keys (cluster.h), or finding that it is there, whatever its job is. Nothing is started.
 *
 * Thread: the caller's.
 */
#ifndef CULM_RUN_CLUSTER_CREATE_H
#define CULM_RUN_CLUSTER_CREATE_H

#include "run/cluster.h"
#include "store/config.h"

/* All borrowed during the call. */
struct culm_cluster_request {
    enum culm_cluster_job job;
    const char *dir;                     /* where whoever creates it keeps what it leads */
    const char *config_text;             /* with every default filled in */
    const char *store, *name;            /* the place, and what the run is called there */
    const char *token_file;              /* as its nodes have */
    bool resume;                         /* it is there, and was stopped */
    struct culm_launcher_options *start; /* of one that is new: its id; its storage is opened */
    const struct culm_checkpoint_config *checkpoint; /* where that is */
    /* Checks what does not depend on who leads, and makes the text of plan.json, which is the caller's, and the signature. */
    enum culm_status (*plan)(void *ctx, char **ret_plan, char ret_signature[CULM_SIGNATURE_SIZE],
                             struct culm_error *error);
    void *ctx;
};

/* CULM_ERR_CONFIG: there is such a run of another configuration, or none to resume; CULM_ERR_STOPPED: it was stopped, and `resume` is
 * not set; CULM_ERR_EXISTS: `dir` has another run; and as in cluster.h, and of `plan`. */
enum culm_status culm_cluster_request(const struct culm_cluster_request *request,
                                      struct culm_error *error);

/* Where all who lead find what counts: CULM_ERR_CONFIG: nowhere is named. */
enum culm_status culm_cluster_check_place(const struct culm_checkpoint_config *checkpoint,
                                          struct culm_error *error);

/* Whether the run of that id and configuration may be kept in `dir`: it is there already, or has been about to be, or nothing is.
 * CULM_ERR_EXISTS: another run is. */
enum culm_status culm_cluster_check_dir(const char *dir, const char *run, const char *config_text,
                                        struct culm_error *error);

#endif

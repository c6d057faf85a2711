/*
 * A run among machines of which none has to stay: what its keys at a store (net/keys.h) say, besides those of crew/lead.h.
 *
 *     NAME/run       {"format": "culm-run-1", "job": "train" or "gnn", "run": ID, "signature": ..., "token": a digest of it and of
 *                    the id}: written once, with the next two
 *     NAME/config    its configuration, with every default filled in
 *     NAME/plan      its plan.json
 *
 * Where those two are too large for a store, the larger one, or both, lie where the run's checkpoints do (cluster_texts.h), and
 * NAME/run names the place, with their sizes and hashes: "apart": {"to": PLACE, "endpoint": URL, "region": R, "plan": {"bytes": 3000000,
 * "sha256": ...}}.
 *
 * Thread: any; handles of stores belong to one at a time.
 */
#ifndef CULM_RUN_CLUSTER_H
#define CULM_RUN_CLUSTER_H

#include "base/sha256.h"
#include "launch/launcher.h"
#include "net/keys.h"
#include "run/launches.h"
#include "run/signature.h"

#define CULM_CLUSTER_FORMAT "culm-run-1"

/* CULM_ERR_CONFIG: `place` is no address of a store that there is; CULM_ERR_MACHINE. */
enum culm_status culm_cluster_open(const char *place, struct culm_keys **ret_keys,
                                   struct culm_error *error);
/* What is computed. A run that does not say is of the first one. */
enum culm_cluster_job { CULM_CLUSTER_TRAIN, CULM_CLUSTER_GNN, CULM_CLUSTER_JOBS };
extern const char *const culm_cluster_job_names[CULM_CLUSTER_JOBS]; /* "train", "gnn" */

struct culm_cluster_text {
    char *text;                   /* NULL: it lies apart, and was not fetched */
    uint64_t bytes;               /* of one that lies apart */
    char sha256[CULM_SHA256_HEX]; /* "": it does not */
};
struct culm_cluster_run {
    enum culm_cluster_job job;
    char run[CULM_RUN_ID_SIZE], signature[CULM_SIGNATURE_SIZE], token[CULM_SHA256_HEX];
    struct culm_cluster_text config, plan;
    char *to, *endpoint,
        *region; /* where texts lie apart, as a configuration names it; NULL: none does, or no such word */
    bool done, stopped;
};
void culm_cluster_run_release(struct culm_cluster_run *run); /* fine on a zeroed one */
/* CULM_ERR_NOT_FOUND: there is none of that name; CULM_ERR_FORMAT: it is of a job or version that this program
 * does not know; CULM_ERR_IO: the
 * store does not answer; and as in keys.h. What lies apart is not fetched. */
enum culm_status culm_cluster_look(struct culm_keys *keys, const char *name,
                                   struct culm_cluster_run *ret_run, struct culm_error *error);
/* What `token` is to be for that token: it tells nobody the token. */
enum culm_status culm_cluster_proof(const char *token, struct culm_cluster_run *run,
                                    struct culm_error *error);
/* The token is the run's; else CULM_ERR_CLOSED, which names the file. */
enum culm_status culm_cluster_check_token(const struct culm_cluster_run *run, const char *token,
                                          const char *file, struct culm_error *error);
/* What lies apart is there already. CULM_ERR_EXISTS: there is one of that name. */
enum culm_status culm_cluster_create(struct culm_keys *keys, const char *name,
                                     const struct culm_cluster_run *run, struct culm_error *error);
/* One that was stopped may be led again. */
enum culm_status culm_cluster_go_on(struct culm_keys *keys, const char *name,
                                    struct culm_error *error);
/* Asks whoever leads, now or next, to stop it. */
enum culm_status culm_cluster_ask_stop(struct culm_keys *keys, const char *name,
                                       struct culm_error *error);
/* Where whoever leads lets nodes in; "": nobody does. Whether the run is over, and how. */
enum culm_status culm_cluster_leader(struct culm_keys *keys, const char *name,
                                     char ret_address[CULM_ADDRESS_SIZE], bool *ret_done,
                                     bool *ret_stopped, struct culm_error *error);

#endif

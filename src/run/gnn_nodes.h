/*
 * Nodes of runs on graphs that are not started by their launcher alone: those that people start on
 * another machine, workers behind a job server, and functions of AWS Lambda with their package; also
 * what the launcher starts. For the commands of the program: the library has no use for them.
 */
#ifndef CULM_RUN_GNN_NODES_H
#define CULM_RUN_GNN_NODES_H

#include "base/status.h"

/* A server or a worker that is started by hand, or on another machine. Borrowed during the call. */
struct culm_gnn_join_options {
    const char *role;               /* "server" or "worker" */
    const char *address;            /* of the launcher: "HOST:PORT", or as in net/address.h */
    const char *token_file;         /* DIR/token of the run, or a copy of it */
    const char *listen, *advertise; /* "HOST:PORT"; NULL: see culm_worker_options */
    bool insecure;                  /* a run that encrypts nothing between machines is fine */
};
/* Works until the run is over, or its launcher is gone; returns the exit code. */
int culm_gnn_join(const struct culm_gnn_join_options *options, struct culm_error *ret_error);

/* A worker that takes one job after the other from a Gearman job server ("HOST:PORT"). Returns only
 * if it fails at the start. */
enum culm_status culm_gnn_work_for(const char *server, struct culm_error *error);

/* The hidden command `gnn function`: a function of AWS Lambda. Returns the exit code. */
int culm_gnn_function_main(void);
/* The hidden command by which the launcher starts a node. Returns the exit code. */
int culm_gnn_node_main(int argc, char **argv);

/* The package of a function of AWS Lambda: the number and the size of its files. */
struct culm_gnn_bundle {
    int64_t files, bytes, zip_bytes;
    bool too_large; /* to be uploaded directly */
};
/* Writes this program, its loader and its libraries as a zip for AWS Lambda. Replaces an existing
 * file. */
enum culm_status culm_gnn_bundle_write(const char *out, struct culm_gnn_bundle *ret_bundle,
                                       struct culm_error *error);

#endif

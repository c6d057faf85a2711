/*
 * `culm node`: an agent that people start on another machine than the launcher's. It has some processes that compute, each of
 * which joins the run as a newcomer, and brings another one when one ends early. Where whoever leads is found at a store of
 * keys, it also has a process that may lead (lead.h), and a command that creates a run
 * there is such an agent, too.
 *
 * Thread: the only one of its process: workers are forked from it.
 */
#ifndef CULM_RUN_NODE_H
#define CULM_RUN_NODE_H

#include "base/status.h"

#define CULM_NODE_WORKERS_MAX 256 /* processes, of whatever role */

struct culm_sink;

/* All borrowed during the call; NULL: not given. */
struct culm_run_node_options {
    const char *address, *token_file; /* of the launcher, as people write it */
    const char *store,
        *run;   /* in place of the address: a store of keys, and the name of the run there */
    bool leads; /* of those: it may lead */
    const char *lead_dir; /* where it keeps the run then; NULL: below `dir` */
    /* Opens what hears the events while it leads, `log` or `screen` of run/lead.h, in the process that does; it is freed there.
     * NULL: nobody hears them but DIR/events.jsonl. */
    enum culm_status (*hear)(void *hear_ctx, struct culm_sink **ret_sink, bool *ret_screen,
                             struct culm_error *error);
    void *hear_ctx;
    const char *fault;    /* of the first process here that may lead (leader_fault.h); NULL: none */
    bool stops_run;       /* a signal stops the run, and not this node alone */
    int64_t grace_s;      /* else: for which its processes may leave; 0: they end as they are */
    const char *dir;      /* for what workers keep of checkpoints; NULL: temporary */
    const char *data_dir; /* where relative paths begin; NULL: the current folder */
    const char *listen, *advertise; /* of a worker; see culm_worker_options */
    const char *zone;               /* where this machine is; NULL: it does not say */
    bool insecure;
    const char *command; /* as it stands in front of what it says: "node" */
    int32_t workers;     /* processes here that compute */
    /* Of a run on a graph: their role, "server", "parameter" or "worker"; NULL: the first, or, where no store says that it is such a run,
     * they are workers of training. Or that of each, as in interval/role.h: [workers]. */
    const char *role;
    const uint32_t *roles;
};

/* The same with a store, in a process of its own that goes on by itself, in a session of its own; what it prints is added to
 * `log`. Returns once somebody leads the run: CULM_OK, ret_address[CULM_ADDRESS_SIZE]: where; "": it is over already. Else why the process has ended. */
enum culm_status culm_run_node_detached(const struct culm_run_node_options *options,
                                        const char *log, char *ret_address,
                                        struct culm_error *error);

/* Works until the run is over, lost, or refuses, or SIGTERM or SIGINT; the exit code. Workers print to standard error. After a signal
 * no process is started any more, and those that are there ask to leave the run; a second one ends them as they are. */
int culm_run_node(const struct culm_run_node_options *options, struct culm_error *ret_error);

#endif

/*
 * A training run on a graph as an object, for the command `gnn train`; also nodes that are started
 * by hand.
 *
 * Mistakes in options and configuration are found by _new; other checks are made by _go before
 * anything is written. It prints nothing. Thread: any, one at a time, except for _stop.
 */
#ifndef CULM_RUN_GNN_TRAINING_H
#define CULM_RUN_GNN_TRAINING_H

#include "report/sink.h"
#include "report/summary.h"

struct culm_gnn_training;

struct culm_gnn_training_options { /* borrowed until _free */
    const char *config_path;
    const char *const *sets; /* "key.sub=value" */
    size_t set_count;
    const char *dir;
    bool resume;
    bool accept_inputs, from_start; /* with `resume`: as in culm_training_options */
    const char *program;            /* NULL: the culm program, found beside the library */
    const char *const *faults;
    size_t fault_count;
    const char *listen;    /* "HOST:PORT", or as in net/address.h; NULL: none may join */
    const char *advertise; /* address that others connect to, if it is another; else NULL */
    bool insecure;         /* `listen` may be reachable from other machines, unencrypted */
    const char *plan;      /* plan.json of a run whose cut is to be used; NULL: makes a cut */
    const char *partition; /* file with the interval of each vertex; NULL: makes a cut */
    const char *trace;     /* file by which workers come and go; NULL: as configured */
    double time_scale;     /* of the trace; 0: 1 */
    bool dry;              /* only for culm_gnn_training_plan: `dir` may contain a run */
    void (*warning)(void *context, const char *text);
    void *context;
};

/* CULM_ERR_CONFIG, CULM_ERR_EXISTS, ...; *ret_training is the caller's to free. */
enum culm_status culm_gnn_training_new(const struct culm_gnn_training_options *options,
                                       struct culm_gnn_training **ret_training,
                                       struct culm_error *error);
void culm_gnn_training_free(struct culm_gnn_training *training); /* NULL is fine */
int64_t culm_gnn_training_epochs(const struct culm_gnn_training *training);
/* The sinks that get events; either may be NULL. Borrowed until _free. */
void culm_gnn_training_watch(struct culm_gnn_training *training, struct culm_sink *log,
                             struct culm_sink *screen);
/* Makes all checks of a run and returns its plan, which the caller frees with json_decref. Writes
 * nothing. */
enum culm_status culm_gnn_training_plan(const struct culm_gnn_training *training,
                                        struct json_t **ret_plan, struct culm_error *error);
/* Trains to the end; returns the exit code of the command. May be called once. */
int culm_gnn_training_go(struct culm_gnn_training *training, struct culm_error *ret_error);
/* Ends the run so that it can be resumed, however often it is called; or at once. May be called from
 * any thread and from signal handlers. */
void culm_gnn_training_stop(struct culm_gnn_training *training);
void culm_gnn_training_abort(struct culm_gnn_training *training);
/* After _go. */
const struct culm_summary *culm_gnn_training_summary(const struct culm_gnn_training *training);
bool culm_gnn_training_fired(const struct culm_gnn_training *training, size_t fault);

/* A list, in words, of the keys that `--resume` may change; and the reference of all keys, as a
 * Markdown table or as lines for a terminal. The caller frees both. NULL: out of memory. */
char *culm_gnn_training_resumable_keys(void);
char *culm_gnn_training_setting_keys(void); /* what --set may change then as well */
char *culm_gnn_training_reference(bool markdown);

/* A server or a worker that is started by hand, or on another machine. Borrowed during the call. */
struct culm_gnn_join_options {
    const char *role;               /* "server" or "worker" */
    const char *address;            /* of the launcher: "HOST:PORT", or as in net/address.h */
    const char *token_file;         /* DIR/token of the run, or a copy of it */
    const char *listen, *advertise; /* "HOST:PORT"; NULL: see culm_worker_options */
    bool insecure;                  /* `listen` may be reachable from other machines */
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

#endif

/*
 * A training run on a graph as an object, for the command `gnn train`.
 *
 * Everything that can be wrong is found by _new, or before anything is written. It prints nothing.
 * Thread: one at a time, but for _stop.
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
    const char *program; /* NULL: the culm program, found beside the library */
    const char *const *faults;
    size_t fault_count;
    const char
        *listen; /* "HOST:PORT" or as net/address.h has it; NULL: nobody joins from outside */
    const char *advertise; /* where they call, if that is another address; NULL: it is not */
    bool insecure;         /* it may be reached from other machines, in the clear */
    const char *plan;      /* plan.json of another run, whose cut is taken; NULL: its own */
    const char *trace;     /* by which workers come and go; NULL: as the configuration says */
    double time_scale;     /* of the trace; 0: 1 */
    bool dry;              /* culm_gnn_training_plan alone: a run may be in `dir` */
    void (*warning)(void *context, const char *text);
    void *context;
};

/* CULM_ERR_CONFIG, CULM_ERR_EXISTS, ...; *ret_training is the caller's to free. */
enum culm_status culm_gnn_training_new(const struct culm_gnn_training_options *options,
                                       struct culm_gnn_training **ret_training,
                                       struct culm_error *error);
void culm_gnn_training_free(struct culm_gnn_training *training); /* NULL is fine */
int64_t culm_gnn_training_epochs(const struct culm_gnn_training *training);
/* Where events go; either may be NULL. Borrowed until _free. */
void culm_gnn_training_watch(struct culm_gnn_training *training, struct culm_sink *log,
                             struct culm_sink *screen);
/* What a run would do, after all its checks; writes nothing. The caller's to free with json_decref. */
enum culm_status culm_gnn_training_plan(const struct culm_gnn_training *training,
                                        struct json_t **ret_plan, struct culm_error *error);
/* Trains to the end; the exit code of the command. Once. */
int culm_gnn_training_go(struct culm_gnn_training *training, struct culm_error *ret_error);
/* The first time the run ends so that it can be resumed, the second time at once. From any thread,
 * and from a signal's handler. */
void culm_gnn_training_stop(struct culm_gnn_training *training);
/* After _go. */
const struct culm_summary *culm_gnn_training_summary(const struct culm_gnn_training *training);
bool culm_gnn_training_fired(const struct culm_gnn_training *training, size_t fault);

/* What `--resume` may change, in words; and the reference of all keys: a Markdown table, or lines for a
 * terminal. The caller frees both. NULL: out of memory. */
char *culm_gnn_training_resumable_keys(void);
char *culm_gnn_training_reference(bool markdown);

/* A server or a worker that somebody starts by hand, or on another machine. Borrowed for the call. */
struct culm_gnn_join_options {
    const char *role;               /* "server", "worker" */
    const char *address;            /* of the launcher: "HOST:PORT", or as net/address.h has it */
    const char *token_file;         /* DIR/token of the run, or a copy */
    const char *listen, *advertise; /* "HOST:PORT"; NULL: as culm_worker_options says */
    bool insecure;                  /* `listen` may be reached from other machines */
};
/* Works until the run is over, or its launcher is gone; the exit code. */
int culm_gnn_join(const struct culm_gnn_join_options *options, struct culm_error *ret_error);

/* A worker that takes jobs of a Gearman server ("HOST:PORT"), one after the other. Does not return
 * unless something is wrong from the beginning. */
enum culm_status culm_gnn_work_for(const char *server, struct culm_error *error);

/* The hidden command `gnn function`: a worker as a function of AWS Lambda. Returns the exit code. */
int culm_gnn_function_main(void);
/* The hidden command: a node of a run, as the launcher starts it. Returns the exit code. */
int culm_gnn_node_main(int argc, char **argv);

#endif

/*
 * What the commands that start a run add to culm/train.h, culm/gnn.h and culm/merge.h: faults and
 * traces, by which people try what a run stands; sinks in the place of functions; the exit code of the
 * command; and what a terminal wants to know of a run before it starts. Nothing here prints.
 *
 * As in culm.h: objects are used by one thread at a time; what is returned by pointer lives as long
 * as the object.
 */
#ifndef CULM_RUN_LAUNCHES_H
#define CULM_RUN_LAUNCHES_H

#include "base/status.h"

#include <culm.h>
#include <jansson.h>

struct culm_sink;
struct culm_summary;

struct culm_candidate;
struct culm_leader_fault;

/* Of a process that leads for a time, as one of several (run/lead.h): the run's id, and `stand` with stand_ctx as in
 * culm_launcher_options. */
struct culm_reigning {
    const struct culm_leader_fault *fault; /* run/leader_fault.h; NULL: none */
    const char *run;
    enum culm_status (*stand)(void *place, const char *config_text, const char *signature,
                              struct culm_candidate **ret_candidate, int *ret_reserved_fd,
                              struct culm_error *error);
    void *place;
};

/* All borrowed until the run's object is freed. */
struct culm_launch_extras {
    const char *const *faults; /* specifications (run/fault.h, run/gnn_fault.h) */
    size_t fault_count;
    const char *trace_path;               /* NULL: none */
    double time_scale;                    /* 0: 1 */
    bool dry;                             /* to plan alone: a run may be in `dir` */
    bool shared;                          /* only its keys are made: it may be led anywhere */
    const struct culm_reigning *reigning; /* NULL: it leads for good */
};

/* "key=value" as it stands on a command line; its form is judged with the rest. */
enum culm_status culm_config_add(struct culm_config *config, const char *set,
                                 struct culm_error *error);

/* Draws a token for a run on several machines into a new file (launch/token.h). CULM_ERR_EXISTS: there is
 * a file. */
enum culm_status culm_token_new(const char *path, struct culm_error *error);

/* --- train -------------------------------------------------------------------------------------- */

/* culm_training_new with extras; NULL: none. */
enum culm_status culm_training_make(const struct culm_config *config,
                                    const struct culm_training_options *options,
                                    const struct culm_launch_extras *extras,
                                    struct culm_training **ret_training, struct culm_error *error);

/* Makes the keys of a run of that name at a store (run/cluster.h), for others to lead; nothing is started, and nothing written
 * elsewhere. If there is such a run already, that is fine, if it has this configuration; one that was stopped goes on with
 * `resume`. CULM_ERR_CONFIG: it has another; CULM_ERR_STOPPED: it was stopped. */
enum culm_status culm_training_create(struct culm_training *training, const char *store,
                                      const char *name, const char *token_file, bool resume,
                                      struct culm_error *error);
/* Whether a `--fault` is of who leads, and whether that is right: CULM_ERR_CONFIG. */
bool culm_leader_fault_is(const char *text);
enum culm_status culm_leader_fault_check(const char *text, struct culm_error *error);
/* Whether a run may have that name: CULM_ERR_ARGUMENT. */
enum culm_status culm_cluster_check_name(const char *name, struct culm_error *error);

/* What its configuration comes to, for people. */
struct culm_training_shape {
    const char *arch, *redundancy;
    bool redundant; /* it is not "none" */
    int64_t pipelines, stages, lanes, micros_per_lane, steps;
};
struct culm_training_shape culm_training_shape_of(const struct culm_training *training);

/* Sinks of the events, borrowed until it has run, in the place of the function of the options: `log`
 * gets all, `screen` not those warnings that were told by the function for warnings. */
void culm_training_watch(struct culm_training *training, struct culm_sink *log,
                         struct culm_sink *screen);
/* This process is to end, and others may lead (launch/launcher.h). Any thread; signal handlers too. */
void culm_training_resign(struct culm_training *training);
/* culm_training_run, but the exit code of the command, and an error without a text where there is
 * nothing to say. */
int culm_training_go(struct culm_training *training, struct culm_error *ret_error);
/* Of what was run. */
const struct culm_summary *culm_training_summary(const struct culm_training *training);
/* Whether a fault fired; true also where nothing was started that it could have hit. */
bool culm_training_fired(const struct culm_training *training, size_t fault);

/* --- gnn train: the same ------------------------------------------------------------------------ */

enum culm_status culm_gnn_training_make(const struct culm_config *config,
                                        const struct culm_gnn_training_options *options,
                                        const struct culm_launch_extras *extras,
                                        struct culm_gnn_training **ret_training,
                                        struct culm_error *error);
enum culm_status culm_gnn_training_create(struct culm_gnn_training *training, const char *store,
                                          const char *name, const char *token_file, bool resume,
                                          struct culm_error *error);
/* The roles (interval/role.h) of processes of a machine that has at most `most` in each of those that the configuration asks for; how
 * many there are, at most `size`. */
int32_t culm_gnn_training_roles(const struct culm_gnn_training *training, int64_t most,
                                uint32_t *ret_role, int32_t size);
int64_t culm_gnn_training_epochs(const struct culm_gnn_training *training);
void culm_gnn_training_watch(struct culm_gnn_training *training, struct culm_sink *log,
                             struct culm_sink *screen);
void culm_gnn_training_resign(struct culm_gnn_training *training);
int culm_gnn_training_go(struct culm_gnn_training *training, struct culm_error *ret_error);
const struct culm_summary *culm_gnn_training_summary(const struct culm_gnn_training *training);
bool culm_gnn_training_fired(const struct culm_gnn_training *training, size_t fault);

/* --- merge -------------------------------------------------------------------------------------- */

/* Sends events to `sink` in the place of the function of the options. Borrowed until
 * culm_merging_free; NULL: none. */
void culm_merging_watch(struct culm_merging *merging, struct culm_sink *sink);
/* Of one that is to go on: whether its package has what the workload asks for, from a merge that has
 * ended. False also if that cannot be read: to run it says why. */
bool culm_merging_is_settled(const struct culm_merging *merging);
/* The same workload with this target for all queries, for the caller to free; NULL: it is that. */
enum culm_status culm_merge_for_target(const struct culm_config *workload, double target,
                                       struct culm_config **ret_workload, struct culm_error *error);
/* What the package in `dir` saves, and how well its queries answer: the event `curve`. target: 0: the
 * workload's own. */
enum culm_status culm_merge_curve(const char *dir, double target, json_t **ret_json,
                                  struct culm_error *error);

#endif

/*
 * The launcher: the process of a run that starts all others, whatever the run's job is.
 *
 * It claims the run directory, writes events, starts processes in their roles and lets them in, runs
 * the actor that leads, and puts away what it made. What is computed, and what can be wrong with it,
 * is the job's. The job calls what follows in this order, and does its own in between:
 *
 *     culm_launcher_new      nothing is written; warnings may be said from here on
 *                              the job checks its configuration, its inputs and its plan
 *     culm_launcher_check    the trace
 *     culm_launcher_stand    where several may lead: until this process does (candidate.h)
 *     culm_launcher_claim    DIR is locked
 *                              the job finds out where a resumed run goes on
 *     culm_launcher_begin    DIR/config.yaml and DIR/logs: from here on it is a run
 *                              the job writes its own files
 *     culm_launcher_recall   which nodes may still be there when the launcher before was killed (roll.h); for jobs
 *                            whose nodes outlive it
 *     culm_launcher_open     DIR/events.jsonl, and the host, whose world, agent and pool there are now
 *                              the job makes the actor that leads
 *     culm_launcher_start    start, the warnings so far and the job's first events are told
 *     culm_launcher_run      processes come and go, until the actor has left and all have ended
 *                              the job frees its actor, and what that works with
 *     culm_launcher_free     at whichever of these it ended
 *
 * The other end, what each process that it starts does, is participant.h. Training is the job of
 * train_launch.c.
 *
 * It prints nothing: events go to sinks, warnings to a function as well, and errors are returned. It
 * leaves signals alone. Thread: one for all of this, which lives as long as the processes.
 */
#ifndef CULM_LAUNCH_LAUNCHER_H
#define CULM_LAUNCH_LAUNCHER_H

#include "cluster/host.h"
#include "launch/candidate.h"
#include "launch/token.h"
#include "report/summary.h"
#include "store/apart.h"

#define CULM_RUN_ID_SIZE 17 /* 16 hexadecimal digits */

struct culm_launcher;

/* What whoever starts the run says, the same for every job. All borrowed until _free. */
struct culm_launcher_options {
    const char *dir;                      /* checked (rundir.h), not yet claimed */
    bool resume;                          /* a run is there */
    bool accept_inputs;                   /* of a resumed run: inputs may have changed */
    bool from_start;                      /* of a resumed run: see resume.h */
    char run[CULM_RUN_ID_SIZE];           /* random */
    char token[CULM_TOKEN_SIZE];          /* random, until `own_token` */
    bool own_token;                       /* somebody has a file of it: DIR/token is not written */
    const char *program;                  /* processes are `program [arguments] words ...` */
    const char *const *program_arguments; /* up to a NULL; NULL: none */
    const char *const *fault_texts;       /* as given; a process reads its own again */
    size_t fault_count;
    const char *trace_path; /* NULL: none */
    double time_scale;      /* of the trace; 0: 1 */

    /* Where several share a store of keys, and each may lead (candidate.h): stands, and returns once this process leads. The
     * candidate is the launcher's then, and so is the place that *ret_reserved_fd has for the host. Called by
     * culm_launcher_stand with the configuration and the signature (cluster/host.h). NULL: this process leads for good. */
    enum culm_status (*stand)(void *stand_ctx, const char *config_text, const char *signature,
                              struct culm_candidate **ret_candidate, int *ret_reserved_fd,
                              struct culm_error *error);
    void *stand_ctx;

    struct culm_storage *storage; /* where checkpoints are kept too (uploads.h); NULL: nowhere */
    int64_t stored, stored_keep;  /* the newest that it has, -1: none; how many stay there */

    int stop_fd;              /* culm_launcher_stop and _abort, for the host; 0: nobody asks */
    struct culm_sink *log;    /* is handed every event, as events.jsonl is; NULL: none */
    struct culm_sink *screen; /* the same without those warnings that `warn` was told; NULL: none */
    /* One line without an end, as soon as it is known; NULL: nobody listens. */
    void (*warn)(void *ctx, const char *text);
    void *ctx;
};

/* What a process is to do in the run; the numbers are those that the actor gives its agent. */
struct culm_launcher_role {
    const char *name; /* as events and faults call it; NULL: the job has no such role */
    /* Up to a NULL: which command of the program it is, before what participant.h says. */
    const char *const *words;
};

/* What came of a run. */
struct culm_launcher_result {
    struct culm_summary summary; /* of all its events */
    bool *fired;                 /* [fault_count]; NULL: nothing was started */
};

/* What the job says. All borrowed until _free, as `job` is. */
struct culm_launcher_job {
    const struct culm_launcher_role *role; /* [role_count], by number */
    uint32_t role_count;
    uint32_t trace_role;                   /* of the processes that a trace names */
    const struct culm_agent_fault *faults; /* [fault_count] of the options */
    struct culm_launcher_result *result;   /* initialised; NULL: _open will not be called */
    /* An event is about to be told; what is told from within (culm_launcher_tell_at) comes before it.
     * Also of those. Of the last one, "done", when all processes have ended. NULL: never mind. */
    void (*before)(void *job, const json_t *event);
    void *job;
};

/* What lets processes in; host.h says more of each. Borrowed until _free. */
struct culm_launcher_doors {
    const char *listen;    /* NULL: this machine alone */
    const char *advertise; /* where processes call, if that is another address; NULL: it is not */
    bool plain;            /* between machines nothing is encrypted: host.h */
    /* Newcomers, which people start (participant.h), find the token in DIR/token, which none but its
     * owner can read, and which is gone with the run, or have it already. Whether one may come in the actor says. */
    bool newcomers;
    bool depot; /* they send their parts of checkpoints, and fetch checkpoints (depot.h) */
    const char *signature; /* in the event start too */
    /* For all in that role, and all newcomers (and what an engine starts) in it. NULL: nothing is
     * told. */
    bool (*brief)(void *job, uint32_t role, bool newcomer, struct culm_buf *out);
    size_t payload_max;
    size_t pool_bytes; /* for received payloads; 0: 256 MB */
    int64_t alive_ms;  /* 0: 1000 */
    int32_t max_nodes; /* of a trace, or for newcomers */
    int32_t trace_max; /* of a trace, beside other roles; 0: max_nodes */
    int64_t start_limit_ms;
    struct culm_engine *engine; /* starts the processes of engine_role; NULL: the launcher does */
    uint32_t engine_role;
};

/* "ROLE:INDEX", such as "server:0", for a field of culm_fault_field: the number of the role, times
 * 2^32, and the index of a process in it, as culm_agent_fault has them. False: it is neither. */
bool culm_launcher_read_place(const struct culm_launcher_role *role, uint32_t role_count,
                              const char *text, int64_t *ret_value);

/* Draws the run and the token, and makes stop_fd; the rest is the caller's. Release it, also after a
 * failure. */
enum culm_status culm_launcher_options_init(struct culm_launcher_options *options,
                                            struct culm_error *error);
void culm_launcher_options_release(struct culm_launcher_options *options);
/* Asks the run to stop, however often it is called, or to end at once. Any thread; signal handlers
 * too. */
void culm_launcher_stop(const struct culm_launcher_options *options);
void culm_launcher_abort(const struct culm_launcher_options *options);
/* This process is to end, and others may lead (cluster/host.h: CULM_HOST_RESIGN). The same. */
void culm_launcher_resign(const struct culm_launcher_options *options);
/* Whether one of these was called, and no host has heard of it: before it runs. Any thread. */
bool culm_launcher_stop_asked(const struct culm_launcher_options *options);

void culm_launcher_result_init(struct culm_launcher_result *result,
                               const struct culm_summary_job *job);
void culm_launcher_result_release(struct culm_launcher_result *result); /* fine on a zeroed one */

/* CULM_ERR_MEMORY. */
enum culm_status culm_launcher_new(const struct culm_launcher_options *options,
                                   const struct culm_launcher_job *job,
                                   struct culm_launcher **ret_launcher, struct culm_error *error);
/* Told at once, and in events as soon as there are some. One line, as errors are. */
void culm_launcher_warn(struct culm_launcher *launcher, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Reads the trace, if there is one. */
enum culm_status culm_launcher_check(struct culm_launcher *launcher, struct culm_error *error);
enum culm_status culm_launcher_claim(struct culm_launcher *launcher, struct culm_error *error);
enum culm_status culm_launcher_begin(struct culm_launcher *launcher, const char *config_text,
                                     struct culm_error *error);
/* Of one that is not to lead for good: stands, until it leads. Before _claim. CULM_ERR_STOPPED: the run is over; CULM_ERR_CLOSED:
 * this process is to end. */
enum culm_status culm_launcher_stand(struct culm_launcher *launcher, const char *config_text,
                                     const char *signature, struct culm_error *error);
/* Where deeds are written (net/leader.h); NULL: nowhere. */
struct culm_record *culm_launcher_record(struct culm_launcher *launcher);
/* What the last commit says that was written there; NULL: there is no record. */
const char *culm_launcher_committed(const struct culm_launcher *launcher);
/* Where checkpoints are to be kept before they count, and are found (store/apart.h); after _open. NULL: nowhere. */
struct culm_apart *culm_launcher_apart(struct culm_launcher *launcher);
/* Of one that is not to lead for good, after _stand: the step of the newest checkpoint that counts; 0: there is none. */
int64_t culm_launcher_saved(struct culm_launcher *launcher);
/* How many nodes from elsewhere took part when the run's launcher was killed, and were not told to end. After _claim. */
int32_t culm_launcher_left(const struct culm_launcher *launcher);
/* Before _open: this launcher leads, and keeps the roll. `with_them`: those are called, and go on; else they end by
 * themselves. Then the term and the nodes, for the actor (net/leader.h); *ret_known is borrowed until _free. */
enum culm_status culm_launcher_recall(struct culm_launcher *launcher, bool with_them,
                                      struct culm_error *error);
uint64_t culm_launcher_term(const struct culm_launcher *launcher,
                            const struct culm_known_node **ret_known, int32_t *ret_count);
enum culm_status culm_launcher_open(struct culm_launcher *launcher,
                                    const struct culm_launcher_doors *doors,
                                    struct culm_error *error);

/* Replaces DIR/plan.json, after _begin; NULL: out of memory. Any thread. */
enum culm_status culm_launcher_write_plan(const struct culm_launcher *launcher, json_t *take_plan,
                                          struct culm_error *error);

/* After _open, until _free. */
struct culm_world *culm_launcher_world(struct culm_launcher *launcher);
struct culm_agent *culm_launcher_agent(struct culm_launcher *launcher);
struct culm_blob_pool *culm_launcher_pool(struct culm_launcher *launcher);
/* Where nodes from elsewhere call: what is advertised, or else listened at, which may be all addresses of the machine. */
const char *culm_launcher_address(const struct culm_launcher *launcher);

/* Tells start{run, config_sha256, signature, job (the summary's), and `more`, an object; NULL:
 * nothing}, then warnings. */
void culm_launcher_start(struct culm_launcher *launcher, const char *config_sha256,
                         const json_t *more);
/* The event plan: what the plan says, behind event, t_ms and view. */
json_t *culm_launcher_plan_event(json_t *take_plan);
/* Tells an event, which is complete; of the actor, the world does it. */
void culm_launcher_tell(struct culm_launcher *launcher, json_t *event);
/* The same at the time and in the view of another one. */
void culm_launcher_tell_at(struct culm_launcher *launcher, json_t *event, const json_t *at);

/* Of a run that goes on from a checkpoint (""; from none) which the storage may not have yet: sends it there. After _start. */
void culm_launcher_send(struct culm_launcher *launcher, const char *path);

/* The result is not what an undisturbed run would come to, and why, in a word: as the event done
 * says. Until _run. */
void culm_launcher_inexact(struct culm_launcher *launcher, const char *why);

/* Adds to what processes were told in the brief, also those that come later: culm_host_add_news, from any
 * thread, from _open to _free. */
void culm_launcher_news(struct culm_launcher *launcher, const void *news, size_t len);

/* Runs the actor until it leaves; its exit code, as culm_host_run. One that was stopped (75)
 * without a checkpoint of all that was committed is 1, with an error that says what has to be done
 * again. Its event done comes last, when all processes have ended, with faults_fired and exact. The
 * result is whole then. */
int culm_launcher_run(struct culm_launcher *launcher, const struct culm_actor_ops *ops, void *actor,
                      struct culm_error *ret_error);
void culm_launcher_free(struct culm_launcher *launcher); /* NULL is fine */

#endif

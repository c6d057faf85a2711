/* Shared by the files of the launcher; nobody else includes it. See launcher.h. */
#ifndef CULM_LAUNCH_LAUNCHER_INTERNAL_H
#define CULM_LAUNCH_LAUNCHER_INTERNAL_H

#include "launch/candidate.h"
#include "launch/depot.h"
#include "launch/launcher.h"
#include "launch/roll.h"
#include "launch/rundir.h"
#include "launch/stored.h"
#include "launch/uploads.h"
#include "launch/warnings.h"

struct culm_launcher {
    const struct culm_launcher_options *o;
    struct culm_launcher_job job;
    struct culm_launcher_doors doors;
    struct culm_warnings warnings;
    struct culm_trace trace;
    struct culm_rundir dir;
    bool claimed;
    char logs[CULM_PATH_MAX];
    struct culm_sink *sink; /* events.jsonl and the summary */
    bool sink_failed;
    json_t *done; /* the last event, until processes have ended */
    /* Of steps, or whatever the job calls them. 0: none in this run. */
    int64_t committed, saved; /* the one committed last; the newest that a checkpoint holds */
    json_t *latest;           /* the event told last; NULL: none */
    json_t *inexact;          /* words; NULL: none */
    struct culm_agent_fault *faults;
    struct culm_blob_pool *pool;
    struct culm_host *host;
    struct culm_roll roll;
    struct culm_known_node *known; /* [roll.count when this began] */
    int32_t known_count;
    bool calls;                       /* the roll is kept, here or at a store */
    struct culm_candidate *candidate; /* NULL: it leads for good */
    int reserved_fd;                  /* until the host has it; 0: none */
    bool committed_once;              /* and the candidate has heard of it */
    int64_t stored;                   /* the newest that the storage had at first; -1: none */
    struct culm_apart *apart;
    bool has_token; /* DIR/token is there */
    struct culm_depot_keeper *depot;
    struct culm_uploads *uploads; /* NULL: no storage */
};

/* --- launcher_events.c --- */

enum culm_status launcher_open_sinks(struct culm_launcher *launcher, struct culm_error *error);
/* The host's sink. */
void launcher_hear(void *launcher, json_t *event);
/* An event `error`, at the time of the last event; the text is ASCII. */
void launcher_tell_error(struct culm_launcher *launcher, const struct culm_error *error);
/* Waits until the storage has what was sent, and tells of it; not if somebody asks the run to stop. */
void launcher_await_uploads(struct culm_launcher *launcher);
/* The event done, if it has come: all processes have ended. */
void launcher_tell_done(struct culm_launcher *launcher);

#endif

/*
 * Evaluation beside training, of either job: checkpoints that are due are evaluated by a process of
 * its own, one at a time, so that neither protocol nor workers know of it.
 *
 * The process is `culm eval DIR --weights CHECKPOINT --json`, with `checkpoint.best` also `--best`:
 * it keeps the best weights itself. It goes by what the checkpoint says of configuration and inputs;
 * its output goes to DIR/logs. It ends with the launcher's thread that started it, killed or not.
 * Until it has ended, its checkpoint has a second name (DIR/logs/evaluated), and so may be removed
 * meanwhile. Of the checkpoints that come due while another one is evaluated the newest waits, and is
 * next unless it has been removed by then; the others are left out. Thread: one at a time.
 */
#ifndef CULM_RUN_EVAL_WATCH_H
#define CULM_RUN_EVAL_WATCH_H

#include "base/file.h"
#include "store/config.h"

#include <jansson.h>
#include <sys/types.h>

struct culm_eval_watch {
    bool graph;      /* `culm gnn eval`; versions are epochs */
    int64_t every;   /* 0: nothing is due */
    int64_t last;    /* is due in any case */
    int64_t samples; /* 0: all */
    enum culm_best best;
    const char *dir;
    const char *program; /* culm */
    pid_t pid;           /* 0: none runs */
    int64_t step;
    char output[CULM_PATH_MAX], log[CULM_PATH_MAX];
    int64_t waiting_step; /* 0: none waits */
    char waiting[CULM_PATH_MAX];
};

/* An event of the run is about to be told: evaluations that have ended are told first (`tell`, which
 * borrows both events, at the time of `next`), "done" waits for the one that runs and the one that
 * waits, and a checkpoint may be due. */
void culm_eval_watch_before(struct culm_eval_watch *watch, const json_t *next,
                            void (*tell)(void *ctx, json_t *event, const json_t *next), void *ctx);
/* An event of the run: a checkpoint may be due. */
void culm_eval_watch_event(struct culm_eval_watch *watch, const json_t *event);
/* The event of an evaluation that has ended: {"event":"eval","step" or "epoch","ok","loss",
 * "accuracy",...}, with "message" in place of results when it failed; NULL: none has. With `wait`,
 * waits for one that runs. Starts the one that waited: the end calls it until it gives NULL. The
 * caller's. */
json_t *culm_eval_watch_result(struct culm_eval_watch *watch, bool wait);
/* Ends the one that runs, if any, and forgets the one that waits: for every end of a run. */
void culm_eval_watch_stop(struct culm_eval_watch *watch);

#endif

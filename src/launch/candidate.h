/*
 * A candidate for leader of a run (crew/lead.h) in a process: a thread that asks a store of keys, so that nobody waits for it.
 *
 *     culm_candidate_new
 *     culm_candidate_await     until it leads, or the run is over; what there is then is its *reign*
 *     culm_candidate_serve     from here on whoever leads hears of its deeds, and that another one does
 *     culm_candidate_free      another one may lead at once
 *
 * One reign each: one that was deposed is freed, and a new one stands.
 *
 * Thread: the owner's, unless said otherwise. What it tells comes on its own thread, which must not call back into it.
 */
#ifndef CULM_LAUNCH_CANDIDATE_H
#define CULM_LAUNCH_CANDIDATE_H

#include "cluster/host.h"
#include "net/keys.h"
#include "net/leader.h"

#define CULM_CANDIDATE_RUN_MAX 128 /* of the name of a run, with its NUL */

struct culm_candidate;

struct culm_candidate_options {
    struct culm_keys *keys;      /* taken, also by a failure, as the next one is */
    struct culm_keys *more_keys; /* the same store, for who watches the one that leads (sentry.h) */
    const char *run;             /* its name; borrowed until _free, as all below */
    const char *address;         /* where it lets nodes in once it leads */
    const char *
        agent; /* 8 letters for all who stand for the same machine, one after the other; NULL: it stands alone */
    int64_t lease_ms, most, end_ms; /* as in crew/lead.h */
    /* The store has not answered for so long, and why; 0, "": it has again. From its thread; NULL: never mind. */
    void (*away)(void *ctx, int64_t ms, const char *why);
    void *ctx;
};

/* What there was when it began to lead. */
struct culm_reign {
    uint64_t term;
    struct culm_host_node *node; /* [count] who takes part, by id */
    int32_t count;
    int32_t first_node; /* ids from here on have not been given */
    int64_t saved;      /* the newest checkpoint that counts; 0: none */
    char
        committed[CULM_DEED_ABOUT_MAX]; /* what the last CULM_DEED_COMMIT says; "": there is none */
};

struct culm_candidate_ops {
    size_t size;
    void (*written)(void *ctx, enum culm_deed deed); /* one that the record was asked for */
    void (*entered)(void *ctx, int32_t node);        /* culm_candidate_enter */
    void (*deposed)(void *ctx);                      /* once; nothing is told after it */
    void (*away)(void *ctx, int64_t ms);             /* as in crew/lead.h */
    void (*asked)(void *ctx);                        /* once: somebody wants the run to stop */
};

/* CULM_ERR_MEMORY. */
enum culm_status culm_candidate_new(const struct culm_candidate_options *options,
                                    struct culm_candidate **ret_candidate,
                                    struct culm_error *error);
/* CULM_OK: it leads. CULM_ERR_STOPPED: the run is over, *ret_how. CULM_ERR_CLOSED: `stop_fd` (0: none) can be read. */
enum culm_status culm_candidate_await(struct culm_candidate *candidate, int stop_fd,
                                      enum culm_deed *ret_how);
/* After CULM_OK; until _free. */
const struct culm_reign *culm_candidate_reign(const struct culm_candidate *candidate);
/* After CULM_OK. What has happened since is told at once. */
void culm_candidate_serve(struct culm_candidate *candidate, const struct culm_candidate_ops *ops,
                          void *ctx);
/* For the actor that leads (net/leader.h). Any thread, one at a time. */
struct culm_record *culm_candidate_record(struct culm_candidate *candidate);
/* That the node takes part; `entered` follows, in their order. False: out of memory. Any thread. */
bool culm_candidate_enter(struct culm_candidate *candidate, const struct culm_host_node *node);
/* That it is gone. Any thread. */
void culm_candidate_gone(struct culm_candidate *candidate, int32_t node);
/* The newest checkpoint that counts; and something was committed: culm_lead_saved, culm_lead_committed. Any thread. */
void culm_candidate_saved(struct culm_candidate *candidate, int64_t step);
void culm_candidate_committed(struct culm_candidate *candidate);
/* NULL is fine. */
void culm_candidate_free(struct culm_candidate *candidate);

#endif

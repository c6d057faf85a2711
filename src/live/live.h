/*
 * An edge that runs: many models on live video in little memory, in this process.
 *
 * Frames come from what the workload names, or from the program, for the feeds that it says it posts.
 * Signals are left alone.
 *
 * Thread: culm_live_run is for one, which is that of the loop until the run has ended. It calls the
 * functions of the options, and starts other threads, which have its signal mask. Models are read, timed
 * and let go of before, in culm_live_prepare: in the main thread of a process, since glibc gives back to
 * the system what that one frees, and of what others free not all. culm_live_stop and culm_live_again may
 * be called by any thread and from a signal handler, before, during and after the run; culm_live_post and
 * culm_live_end by any thread, likewise.
 */
#ifndef CULM_LIVE_LIVE_H
#define CULM_LIVE_LIVE_H

#include <sys/types.h>

#include "report/sink.h"

#include <culm/prediction.h>

struct culm_live;

/* What a frame of a query was answered with. */
struct culm_live_answer {
    const char *query, *feed;
    int64_t frame; /* its number in the feed */
    int64_t of;    /* the frame that was looked at: this one, or an older one; -1: none yet */
    uint64_t at_ns, due_ns; /* when the frame came, and when its answer was due */
    const struct culm_prediction *prediction;
};

struct culm_live_options { /* borrowed until culm_live_free */
    const char *workload;  /* its file, which is read again by culm_live_again; of messages, too */
    const char *text;      /* [len] what it holds now */
    size_t len;
    const char *const *sets; /* "key.sub=value" */
    size_t set_count;
    const char *package; /* folder; NULL: none */
    const char *profile; /* NULL: measure what is not known */
    double for_s;        /* 0: until all feeds have ended or it is stopped */
    const char *out;     /* NULL: beside the workload */
    /* Feeds whose frames are posted; their `file` is never looked at. */
    const char *const *posted;
    size_t posted_count;
    /* Called by the thread of the loop. `answer` may be NULL. */
    struct culm_sink *events;
    void (*begun)(void *ctx); /* everything is ready, and frames are taken from now on */
    void (*answer)(void *ctx, const struct culm_live_answer *answer);
    void *ctx;
};

/* Reads the workload and opens its models; writes nothing and starts nothing. CULM_ERR_CONFIG, also:
 * a feed that is said to be posted is not there. */
enum culm_status culm_live_open(const struct culm_live_options *options, struct culm_live **ret_run,
                                struct culm_error *error);
/* Claims the folder `out`, times models that no profile knows, and makes a plan. To be called once; after a
 * failure, the folder is as it was. Ends soon, and well, if the run is stopped. */
enum culm_status culm_live_prepare(struct culm_live *run, struct culm_error *error);
/* Runs what is prepared until its time is up, it is stopped or all feeds have ended. To be called once. */
enum culm_status culm_live_run(struct culm_live *run, struct culm_error *error);
/* Of one that is prepared: the folder that it writes, and whether its workload wants its package to be
 * merged on (edge.remerge). */
const char *culm_live_out(const struct culm_live *run);
bool culm_live_remerges(const struct culm_live *run);
/* A child process that is to go on beside the run, of which DIR/remerge.log tells: a `warning` says when it
 * has ended. Before the run. */
void culm_live_beside(struct culm_live *run, pid_t pid);
/* After the run: it; 0: it has ended, and been waited for. */
pid_t culm_live_is_beside(const struct culm_live *run);
void culm_live_stop(struct culm_live *run);
/* Has the workload read again. */
void culm_live_again(struct culm_live *run);

/* Posts a frame of a posted feed; its pixels are copied, and slots that are all taken are no error.
 * taken_ns: by culm_clock_ns; 0: now. *ret_frame: its number; -1: it was left out, since frames come
 * faster than the workload wants them. CULM_ERR_ARGUMENT: the feed is not posted, or the picture is not
 * one. CULM_ERR_CONFIG: the feed's crop is not inside of it. CULM_ERR_AGAIN: the run has not begun, or
 * a thousand frames are on their way.
 * CULM_ERR_CLOSED: the run or the feed has ended, or the workload has it no more. */
enum culm_status culm_live_post(struct culm_live *run, const char *feed,
                                const struct culm_picture *picture, int64_t *ret_frame,
                                struct culm_error *error);
/* No more frames of the feed will come. Errors as of culm_live_post. */
enum culm_status culm_live_end(struct culm_live *run, const char *feed, struct culm_error *error);

/* How the run goes, as JSON text that the caller frees: the event `done` as it would be now or, at its end,
 * was. Any thread but that of the loop. CULM_ERR_AGAIN: it has not begun; CULM_ERR_CLOSED: it failed. */
enum culm_status culm_live_report(struct culm_live *run, char **ret_json, struct culm_error *error);

/* Nobody is in any of these functions, nor will be. NULL is fine. */
void culm_live_free(struct culm_live *run);

#endif

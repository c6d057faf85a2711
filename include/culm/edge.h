/*
 * The edge with Culm: many models on live video, in the memory of few, inside a program.
 *
 *     struct culm_error error;
 *     struct culm_config *workload = NULL;
 *     struct culm_edge *edge = NULL;
 *     const char *const posted[] = {"hall"};
 *     const struct culm_edge_options options = {
 *         .size = sizeof options, .dir = "runs/hall", .posted = posted, .posted_count = 1};
 *     struct culm_edge_answer answer = {.size = sizeof answer};
 *     struct culm_picture picture = {.size = sizeof picture, .width = 640, .height = 480, .channels = 3};
 *     if (culm_config_open("workload.yaml", &workload, &error) ||
 *         culm_edge_open(workload, &options, &edge, &error) || culm_edge_start(edge, &error)) {
 *         fprintf(stderr, "%s\n", error.text);
 *     }
 *     while (edge && camera_read(&picture.pixels)) {
 *         culm_edge_post(edge, "hall", &picture, NULL, &error);
 *         while (culm_edge_take_answer(edge, 0, &answer, &error) == CULM_OK) {
 *             printf("%s, frame %lld: %d\n", answer.query, (long long)answer.frame, answer.prediction->count);
 *         }
 *     }
 *     culm_edge_close(edge);
 *     culm_config_free(workload);
 *
 * A workload names feeds, and queries: which model answers for the frames of which feed, and by when
 * (docs/edge.md; `culm help config edge` lists its keys). A run does for a program what `culm edge run`
 * does for a user: the same plans, events, files in `dir` and answers. Beside the feeds that the workload
 * reads itself (files, cameras, streams), it takes frames that the program posts.
 *
 * Threads. Once started, a run has threads of its own, in which all signals are blocked but those that
 * a fault raises. A program may have several runs at once, in different folders. Any thread may call
 * culm_edge_post, culm_edge_end, culm_edge_report, culm_edge_stop and culm_edge_reload at any time between
 * culm_edge_open and culm_edge_close, and a signal handler the last two of these. culm_edge_take_answer is
 * for one thread at a time; culm_edge_open, _start, _wait and _close are for the object's owner.
 *
 * examples/embed/edge.c is a whole program, and edge.py does the same in Python. What <culm.h> says of
 * errors, ownership and versions holds here.
 */
#ifndef CULM_EDGE_H
#define CULM_EDGE_H

#include <stddef.h>
#include <stdint.h>

#include <culm/config.h>
#include <culm/prediction.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- runs --------------------------------------------------------------------------------------- */

struct culm_edge;

struct culm_edge_options {
    size_t size; /* sizeof(struct culm_edge_options) */
    /* The folder for answers, events and the profile, which is created if need be. NULL:
     * "runs/NAME-edge", by the name of the workload's file. */
    const char *dir;
    const char *package; /* of culm/merge.h, a folder; NULL: the models as they are */
    const char *profile; /* how long models run and how fast tensors load; NULL: it is measured */
    double seconds;      /* after which the run ends; 0: once all feeds have ended */
    /* Names of feeds of the workload whose frames the program posts. Their `file` is not looked at,
     * but stands in answers; `fps` and `crop` hold for posted frames too. */
    const char *const *posted;
    size_t posted_count;
    /* Receives every event (docs/formats.md, "Events"), warnings among them, as the line that is
     * written to events.jsonl, without its end of line. A thread of the run calls it, and does
     * nothing else meanwhile; of the functions here it may call culm_edge_stop and
     * culm_edge_reload. May be NULL. */
    void (*event)(void *context, const char *json);
    void *context; /* passed to `event` */
    /* How many answers wait for culm_edge_take_answer, at most; further ones push out the oldest. 0:
     * 1024; -1: none are kept. */
    int64_t answers;
};

/* Reads the workload and opens its models; writes nothing and starts nothing. The workload and what
 * the options point to are copied. The memory limit is the workload's (`edge.memory`).
 * CULM_ERR_CONFIG: a key, a value or a model is wrong; `posted` has a name that is not a feed's; or a
 * posted feed has `labels: folders`. */
CULM_API enum culm_status culm_edge_open(const struct culm_config *workload,
                                         const struct culm_edge_options *options,
                                         struct culm_edge **ret_edge, struct culm_error *error);
/* Starts the run, once per object, and returns when it takes frames: models that no profile knows have
 * been timed, and a plan has been made, both in the calling thread. (Let that be the main one: glibc
 * returns to the system what it frees, and of what other threads free not all.) CULM_ERR_CONFIG: the
 * limit is below what a model needs, or the package is of another workload. CULM_ERR_NOT_FOUND: there is
 * no such package. CULM_ERR_EXISTS: another run is at work in `dir`, or the run of another job is there.
 * After an error nothing runs, and `dir` is as it was, or gone if it was not there. */
CULM_API enum culm_status culm_edge_start(struct culm_edge *edge, struct culm_error *error);
/* Waits until the run has ended, by itself or after culm_edge_stop, and returns how: with CULM_OK also
 * if it was stopped. CULM_ERR_ARGUMENT: it was not started. */
CULM_API enum culm_status culm_edge_wait(struct culm_edge *edge, struct culm_error *error);
/* Asks the run to end. It finishes what it computes, and drops frames that wait. Before or during
 * culm_edge_start: the run ends as soon as it has begun. */
CULM_API void culm_edge_stop(struct culm_edge *edge);
/* Has the workload's file read again: queries and feeds come and go as it says, all of them or, if
 * something is wrong, none; the event `workload` says which (docs/edge.md). What was set with
 * culm_config_set before culm_edge_open stays set. Frames that wait for a query or a feed that goes get
 * no answer of it, nor do those that are posted while their feed is replaced by another of its name. */
CULM_API void culm_edge_reload(struct culm_edge *edge);
/* Stops the run, waits for its threads, and frees it. NULL is fine. */
CULM_API void culm_edge_close(struct culm_edge *edge);

/* --- frames ------------------------------------------------------------------------------------- */

/* Hands over a frame of a feed of `posted`. The pixels are copied before it returns, in the sizes that
 * the queries read; it never waits for a model. The deadline of the answer counts from
 * picture->taken_ns. A time before that of the previous frame counts as that one, and a time in the
 * future as now.
 *
 * *ret_frame, which may be NULL: the number of the frame in its feed, from 0, by which answers name it. It
 * is -1 if the frame was left out, since frames come faster than the feed's `fps`. Such a frame has a
 * number too, but no answer.
 *
 * Overload is not an error. A frame that finds the memory for waiting frames full, or that cannot be
 * answered in time, is dropped: events and culm_edge_report count it, and an older answer stands in for
 * it.
 *
 * CULM_ERR_ARGUMENT: the feed is not one of `posted`, or the picture cannot be one. CULM_ERR_CONFIG: the
 * feed's `crop` is not inside the picture. CULM_ERR_AGAIN: the run has not been started, or is about to
 * begin; or frames come faster than they can be counted, a thousand at once: this one was not taken.
 * CULM_ERR_CLOSED: the run has ended, the feed was ended, or the workload has it no more. */
CULM_API enum culm_status culm_edge_post(struct culm_edge *edge, const char *feed,
                                         const struct culm_picture *picture, int64_t *ret_frame,
                                         struct culm_error *error);
/* Says that no more frames of the feed will be posted. A run whose feeds have all ended answers what
 * waits, and ends. Errors as of culm_edge_post. */
CULM_API enum culm_status culm_edge_end(struct culm_edge *edge, const char *feed,
                                        struct culm_error *error);

/* --- answers ------------------------------------------------------------------------------------ */

enum culm_edge_answered {
    CULM_EDGE_FRESH = 1, /* the model has looked at this frame, and was done in time */
    CULM_EDGE_STALE = 2, /* the frame was dropped: this is the latest answer before */
    CULM_EDGE_NONE = 3,  /* the frame was dropped, and there is no answer yet: an empty one */
};

/* What a query says of a frame. */
struct culm_edge_answer {
    size_t size; /* sizeof(struct culm_edge_answer), set by the caller */
    const char *query, *feed;
    int64_t frame;     /* its number in the feed */
    int64_t of;        /* the number of the frame that was looked at; -1: none */
    int64_t answered;  /* enum culm_edge_answered */
    uint64_t taken_ns; /* when the frame came, by CLOCK_MONOTONIC */
    uint64_t due_ns;   /* when its answer was due */
    /* Of classes the five best. Its `file` is that of the workload, its `frame` as above. */
    const struct culm_prediction *prediction;
    int64_t lost; /* answers that were pushed out since the one that was taken before */
};
/* Takes the oldest answer that waits, of any query: one for each frame and each query of its feed, in
 * the order in which they were settled. Waits for up to `wait_ms`; -1: as long as it takes. What it points
 * to lives until the next call, or culm_edge_close. CULM_ERR_AGAIN: none has come. CULM_ERR_CLOSED: all
 * were taken, and the run has ended. CULM_ERR_ARGUMENT: it was not started, or none are kept. */
CULM_API enum culm_status culm_edge_take_answer(struct culm_edge *edge, int64_t wait_ms,
                                                struct culm_edge_answer *ret_answer,
                                                struct culm_error *error);

/* How the run goes: the JSON object of the event `done` as it would be now or, once the run has ended, was
 * (docs/formats.md): for each query the frames, and those that were answered in time, dropped and late;
 * and the memory that the run holds and may hold. The caller frees it with culm_text_free.
 * CULM_ERR_AGAIN: the run has not begun. */
CULM_API enum culm_status culm_edge_report(struct culm_edge *edge, char **ret_json,
                                           struct culm_error *error);

#ifdef __cplusplus
}
#endif

#endif

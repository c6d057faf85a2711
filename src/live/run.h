/*
 * The inside of `culm edge run`: the whole of a run, and what the thread of the loop does with it.
 * Nobody else includes this, nor the headers of the other threads:
 *
 *     executor.h  the compute thread runs models on the parameters where they lie
 *     loader.h    the I/O thread reads tensors into the arena
 *     feed.h      a thread for each feed reads frames, paces them and stretches them into the arena
 *     post.h      or threads of the program post them
 *     planner.h   a thread works out a better plan
 *     reload.h    a thread reads the workload again
 *
 * The scheduler makes its decisions on the loop thread. Queries, feeds, sources and units keep their
 * numbers until the run ends; one that has gone is marked.
 *
 * Thread: the loop's, unless a function or a member says otherwise.
 */
#ifndef CULM_LIVE_RUN_H
#define CULM_LIVE_RUN_H

#include "base/wall.h"
#include "cluster/alone.h"
#include "edge/drift.h"
#include "edge/scheduler.h"
#include "launch/rundir.h"
#include "live/arena.h"
#include "live/executor.h"
#include "live/feed.h"
#include "live/live.h"
#include "live/loader.h"
#include "live/loads.h"
#include "live/planner.h"
#include "live/post.h"
#include "live/reload.h"
#include "live/scored.h"
#include "net/address.h"
#include "query/prediction.h"
#include "report/journal.h"
#include "report/sink.h"

#include <stdio.h>

/* A ring of answers to the latest frames, to be compared with others. */
#define CULM_LIVE_RING 32
struct live_ring {
    int64_t frame[CULM_LIVE_RING]; /* number + 1; 0: none */
    struct culm_answer answer[CULM_LIVE_RING];
    int32_t width[CULM_LIVE_RING];
};

/* What a check of a merged query has seen so far: shares that are wrong, summed up over frames. */
struct live_check {
    int64_t frames;
    double wrong, own; /* of its merged weights; of its original, where labels say what is right */
    int64_t wanted, missed, added; /* by its merged weights */
    bool labels;
};

/* How a merged query's answers differed on the frames that merging held out; count 0: not known. */
struct live_record {
    double *wrong; /* [count] owned */
    int64_t count;
    double step; /* frames of the feed from one to the next */
};

/* An answer that is drawn on its frame when the run has ended. */
#define CULM_LIVE_PICTURES 3
struct live_picture {
    int64_t source; /* the frame's number in the file */
    struct culm_answer answer;
};

/* A query of the workload; or a hidden query, which runs the original model of a merged query on
 * samples to watch it for drift. */
struct live_query {
    struct culm_live_entry *entry; /* in one of the catalogs */
    int32_t feed;
    bool gone;
    double deadline_ms, score, target; /* from the workload that was taken up last */
    float score_now;                   /* score, as of the layout in force; compute thread */
    int32_t sizes, size[CULM_EDGE_SIZES_MAX];
    struct live_program program[CULM_EDGE_SIZES_MAX];
    double took_ms[CULM_EDGE_SIZES_MAX]; /* of a batch in this run, smoothed; 0: none yet */
    double ran_ms[CULM_EDGE_SIZES_MAX];  /* the total of all batches, */
    int64_t ran[CULM_EDGE_SIZES_MAX];    /* and how many they were */
    /* The share of a batch's time until each cut was reached; smoothed, 0: none yet. */
    double took_share[CULM_LIVE_CUTS_MAX][CULM_EDGE_SIZES_MAX];
    struct culm_live_trunk trunk; /* in the layout in force */
    int32_t *source;              /* [entry->part_count] in the newest layout; owned */
    /* [entry->part_count] addresses of its parts: in the layout in force, and in the next one. */
    const float **at, **next_at;
    struct culm_answer answer[CULM_EDGE_VISIT_MAX]; /* of the batch that runs, or ran last */
    /* Twins are queries that run the same numbers on the same feed, in the layout in force: a bit
     * for each. What one computes answers all of them; `ahead` is what the last batch of a twin
     * means for this query. */
    uint64_t twins;
    struct culm_answer ahead[CULM_EDGE_VISIT_MAX];
    int64_t ahead_frame[CULM_EDGE_VISIT_MAX];
    int32_t ahead_count;
    struct culm_answer latest;
    int64_t latest_frame; /* -1: none yet */
    uint64_t answered_ns; /* when it last was answered for itself; 0: not yet */
    json_t *why;          /* how many frames were dropped, by the reason; owned; NULL: none */
    struct culm_journal *out;
    bool made_out; /* the file was not there before */
    /* Of all frames, with the older answer that stood in for a dropped one: on labels, or else on
     * the original's answers to samples. */
    struct culm_live_scored accuracy;
    bool by_folder; /* the label of a frame is the number of its folder */
    int32_t *label; /* [label_count] by a frame's number in the file; owned; NULL: none */
    int64_t label_count;
    struct culm_labels right; /* labels where answers are boxes or points, by the same number */
    /* [entry->part_count] the sources of its own weights, and those that the package has for it;
     * owned */
    int32_t *original, *merged;
    bool own_tensors;               /* both are its own tensors, which this run has written */
    bool unwatched;                 /* it is merged, and there is no room for its original */
    bool told_unwatched;            /* an event has said so */
    bool unmeasured;                /* the round is not used, since nobody has measured it */
    bool retrained, told_retrained; /* its model is not the one that the package was made of */
    bool assumed;                   /* what checks vary by is not known, so it is assumed */
    bool told_other;                /* an event has said that an answer is not finite */
    bool told;                      /* an event `query` has been published since it came */
    bool plain;                     /* the choice of forms gave it its own weights */
    int32_t original_of, shadow;    /* the query whose original it is; its own original; -1: none */
    bool reverted;                  /* drift took it back to its own weights */
    /* What the model said of recent frames; what they were answered with, which may be an older
     * answer. NULL where nothing is compared. */
    struct live_ring *ring, *given;
    struct live_check check;       /* under way */
    struct culm_edge_drift checks; /* those before it, as far as they count */
    struct live_record record;
    struct culm_edge_drift_null null; /* by the record, */
    uint64_t null_period_ns;          /* at this period of the feed; 0: not worked out yet */
    bool swapped, next_swapped; /* in the layout in force, and in the next one: it runs its original
                                 * weights, and its hidden query the merged ones */
    double promised;            /* the share of the original's answers that it must give */
    double own_accuracy, merged_accuracy; /* as merging last measured; negative: it has not */
    int samples;        /* file + 1 of frames with which merging may resume; 0: none */
    int64_t sampled;    /* how many frames are in it */
    uint64_t sample_ns; /* once reverted: when the next frame may be kept */
    int32_t pictures;
    struct live_picture picture[CULM_LIVE_PICTURES];
};

/* What the queries of the workload need in memory, each tensor once: as the layout has it, and as it
 * would be on their own weights. */
struct live_saving {
    double laid, own;
};

/* How the run goes, for other threads, which ask the loop to say it. */
struct live_status {
    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t told;
    bool begun, over;
    uint64_t asked, answered; /* questions so far */
    char *text;               /* the last answer; owned */
};

struct culm_http;
struct culm_receiver;

/* What monitors are told. */
struct live_monitor {
    struct culm_http *http;         /* NULL: none */
    int dir_fd;                     /* of the run's folder; -1: none */
    bool listens;                   /* at DIR/socket */
    char deaf[CULM_ERROR_MAX];      /* why it does not; "": it does */
    char health[CULM_ADDRESS_SIZE]; /* where monitors of other machines call; "": nowhere */
    uint64_t look_ns;               /* when the next look is due; the loop's */
    pthread_mutex_t lock;           /* guards the rest */
    const char *state;              /* preparing, running, ending */
    char *text, *metrics;           /* the last look, all but its state; owned; NULL: none yet */
    char ill[160];                  /* why the run is not well; "": it is */
    uint64_t at_ns;                 /* of that look */
};

struct culm_live {
    struct culm_edge_exec exec; /* first */
    const struct culm_live_options *o;
    /* [0]: the workload at the start; then one for each reload from which a query or feed came. */
    struct culm_live_catalog *catalog[CULM_EDGE_QUERIES_MAX + CULM_EDGE_FEEDS_MAX + 2];
    int32_t catalogs;
    struct live_query query[CULM_EDGE_QUERIES_MAX];
    int32_t query_count;
    /* Of the boxes that any of them wants (culm_box_least), as of the layout in force: what is
     * computed for one may be read by others, by a twin or behind a common prefix. Compute thread. */
    float least;
    struct live_feed feed[CULM_EDGE_FEEDS_MAX];
    int32_t feed_count;
    struct live_posted *posted; /* [posted_count] owned */
    size_t posted_count;
    struct culm_live_store store;
    /* Addresses of units; only of those in layouts that are run, not merely planned with. */
    struct culm_live_places unit;
    struct live_tensor *tensor; /* [store.source_count] */
    int32_t tensor_count, tensor_capacity;
    pthread_mutex_t lock; /* guards store, unit and tensor, which the I/O thread reads */
    struct culm_live_arena arena;
    char *activations_at, *next_activations_at;     /* in the layout in force; in the next one */
    size_t activations_room, next_activations_room; /* addresses there */
    size_t activations_held, activations_wanted;    /* in memory; needed by the next batch */
    struct live_kept kept;
    /* How many cuts the last batch skipped; -1: all of it, since a twin had answered for it. */
    int32_t from;
    uint64_t reached_ns[CULM_LIVE_CUTS_MAX]; /* when it reached the cuts after that */
    bool changed;                            /* a new layout is needed */
    bool again;                              /* the workload is to be read again */
    bool asked, asked_again;                 /* to stop; to read it again. Atomic */
    bool mend;                               /* own tensors are to be checked */
    struct live_reader reader;
    uint64_t round_ns;                /* no new round is looked for before that */
    char round_error[CULM_ERROR_MAX]; /* of the last round that was refused, as it was told */
    uint64_t timed_ns;                /* when run times were last compared */
    struct culm_device *device;
    struct culm_blob_pool *headers;   /* of struct live_frame */
    size_t frames_held;               /* bytes of all slots that are in memory */
    struct culm_prediction_room room; /* for the line that is being written */
    char out[CULM_PATH_MAX];
    struct culm_rundir dir;         /* `out`, claimed */
    bool stops;                     /* atomic: the run ends, and loads no longer wait */
    bool uncalibrated;              /* asked to stop before all models had been timed */
    const char *package;            /* NULL: none */
    pthread_mutex_t originals_lock; /* held while a tensor is written to `originals` */
    pthread_mutex_t models_lock;    /* held while a running query's model is asked for something */
    char originals[CULM_PATH_MAX];  /* a package of the tensors that the given one lacks */
    bool own_originals;             /* it was not there when the run began */
    int64_t round;                  /* of the package; -1: none */
    /* Bytes of the layers of the package's models; and with each tensor counted once. */
    int64_t layer_bytes, layer_distinct;
    char round_digest[CULM_SHA256_HEX];
    struct live_saving saving, next_saving; /* of the layout in force, and of the next one, bytes */
    struct live_saving saved;               /* bytes times ns until saving_ns */
    uint64_t saving_ns;
    bool told_assumed;       /* an event has said what checks for drift assume */
    int64_t told_unmeasured; /* the round of which an event has said that it is not used, and 1 */
    struct culm_live_laid *laid, *next; /* the layout in force; the next one, NULL: none */
    struct culm_edge_plan plan, next_plan;
    uint64_t plain;              /* a bit for each query that was last chosen to run plain */
    bool next_is_quick;          /* next_plan was made in haste, while frames waited */
    struct live_planner planner; /* works out a better one */
    size_t limit_bytes;
    double rate_mb_per_s;  /* at which tensors load; 0: as fast as files can be read */
    uint64_t line_free_ns; /* when the last load would be over at that rate; I/O thread */
    char *part;            /* CULM_LIVE_PART bytes, page-aligned; for the reading thread */
    struct live_spool spool;
    /* What loads took; [1]: those in the run of what had been read before. */
    struct culm_live_loads loads[2];
    bool read_again;          /* the last load belongs to [1] */
    struct culm_alone *alone; /* atomic for those who wake it */
    struct culm_edge_scheduler *scheduler;
    struct culm_receiver *receiver[CULM_RECEIVERS_MAX]; /* of answers, beside files */
    int32_t receiver_count;
    struct culm_journal_limits limits; /* of files of answers */
    bool no_files;                     /* answers go to receivers alone */
    struct culm_journal *events;       /* events.jsonl; NULL: not begun */
    uint64_t follow_ns;                /* when files are looked for the next time */
    struct culm_error failed;          /* the first error for which the run ends */
    uint64_t began_ns;
    char began[CULM_WALL_TEXT]; /* the same, by the wall clock */
    struct live_status status;
    bool stands;  /* it has been prepared, and is not over */
    pid_t beside; /* a process that merges for it; 0: none */
    struct live_monitor monitor;
};

/* run.c */
/* What the package saves, for events: the bytes of its models' layers, the same with each tensor
 * counted once, and the digest of the round; a JSON null if there is no package. */
json_t *live_package(const struct culm_live *run);
/* Returns free heap memory to the system; reading models leaves much of it, and an edge box has
 * little. */
void live_trim(void);

/* The event `done`, of which the scheduler has made the first part. */
void live_fill_done(struct culm_live *run, json_t *event);

/* status.c */
void live_status_init(struct live_status *status);
void live_status_release(struct live_status *status);
/* Answers those who have asked. */
void live_tell_status(struct culm_live *run);
/* The event `done`, which is the answer from now on. */
void live_keep_status(struct culm_live *run, const json_t *event);
/* The loop has begun; and nobody will answer any more. */
void live_begin_status(struct culm_live *run);
void live_end_status(struct culm_live *run);

/* looks.c */
/* How the run goes, for monitors; `ill`, of 160 bytes: why it is not well, "": it is. NULL: out of memory. */
json_t *live_look_at(struct culm_live *run, char *ret_ill);

/* monitor.c */
void live_monitor_init(struct live_monitor *monitor);
void live_monitor_release(struct live_monitor *monitor);
/* Monitors may call from now on: at the socket DIR/socket, and where `edge.health` says. CULM_ERR_CONFIG: nobody can
 * listen there. A folder in which no socket can be is warned of when the run has begun. */
enum culm_status live_begin_monitor(struct culm_live *run, struct culm_error *error);
/* Looks how the run goes, once a second. */
void live_look(struct culm_live *run);
/* Says once when the process that merges for it has ended. */
void live_look_beside(struct culm_live *run);
/* The loop is over; and all is. */
void live_ends(struct culm_live *run);
void live_end_monitor(struct culm_live *run);

/* pictures.c */
/* Keeps the query's latest answer, which is for that frame of the file, if a picture of it is
 * wanted. */
void live_keep(struct live_query *query, int64_t source);
/* Draws what was kept, as DIR/pictures/QUERY-FRAME.png. To be called once the feeds have stopped.
 */
void live_pictures(struct culm_live *run);

/* change.c */
/* Takes up the package's new round as a whole, or publishes why not. */
void live_round(struct culm_live *run);
/* Makes a new layout if queries were reverted, or run times or feed rates have changed. */
void live_settle(struct culm_live *run);
/* Calls `change`, which may be NULL, with run->lock held, then makes a layout of the result and
 * hands it to the scheduler, with `plan` or, if that is NULL, a quickly made one. On failure
 * everything is as it was before. */
enum culm_status live_try(struct culm_live *run,
                          enum culm_status (*change)(struct culm_live *run,
                                                     struct culm_error *error),
                          const struct culm_edge_plan *plan, struct culm_error *error);

/* drift.c */
/* Adds, updates or marks as gone the hidden originals, so that exactly the queries that run merged
 * have one. */
enum culm_status live_shadows(struct culm_live *run, struct culm_error *error);
/* Publishes, once for each, which merged queries have no original beside them; and once, that what
 * checks vary by is not known of some. */
void live_tell_unwatched(struct culm_live *run);
/* Says whether the query's hidden one has the merged weights in the layout now in force. */
void live_swap(struct culm_live *run, struct live_query *query, bool swapped);
/* Discards what the checks of a query have seen so far. */
void live_forget_checks(struct live_query *query);
/* Takes in the answer that a query, or an original, has just computed for a frame. */
void live_compare(struct culm_live *run, int32_t query, int64_t frame, const struct live_frame *of,
                  const struct culm_answer *answer);
/* Keeps a frame that a query, or an original, has answered if merging may want it. */
void live_sample(struct culm_live *run, int32_t query, const struct live_frame *frame);
/* Takes in what a query's frame was answered with, whether fresh or older. */
void live_given(struct culm_live *run, int32_t query, int64_t frame, int32_t width,
                const struct culm_answer *answer);

/* queries.c */
/* Adds a query. of: the query whose original it is to be; -1: none, it is a query of the workload,
 * and its answers are written. */
enum culm_status live_open(struct culm_live *run, struct culm_live_entry *entry, int32_t of,
                           int32_t feed, int32_t *ret_query, struct culm_error *error);
/* At the start of a run: opens all queries and feeds of the catalog. */
enum culm_status live_take(struct culm_live *run, struct culm_live_catalog *catalog,
                           struct culm_error *error);
/* Opens the files to which the answers of new queries are written. */
enum culm_status live_outs(struct culm_live *run, struct culm_error *error);
/* Writes DIR/workload.yaml: the newest workload that was taken up (remerge.c). */
enum culm_status live_write_workload(struct culm_live *run, struct culm_error *error);
/* Removes the file of a query that is not taken up after all, if it was made for it. */
void live_take_back_out(const struct culm_live *run, const struct live_query *query);
void live_release_query(struct live_query *query);

/* receivers.c */
/* Begins to send to the receivers of the workload. CULM_ERR_CONFIG: one is none; CULM_ERR_MACHINE: a library
 * is not installed. */
enum culm_status live_open_receivers(struct culm_live *run, struct culm_error *error);
/* Gives all of them the answer, to which it adds the query; `line` may be NULL, for want of memory. */
void live_send_answer(struct culm_live *run, const struct live_query *query, json_t *line);
/* Tells, once each, when one begins to cost answers, and when it takes them again. */
void live_hear_receivers(struct culm_live *run);
/* [{"to", "state", "sent", "lost", "waiting"}] */
json_t *live_receivers(struct culm_live *run);
/* Waits for what is on its way, and not for long. */
void live_end_receivers(struct culm_live *run, bool at_once);

/* journals.c */
/* Publishes `warning`. */
void live_warn(struct culm_live *run, const char *text);
/* What files of answers may take from now on. */
void live_limit_files(struct culm_live *run, const struct culm_answers_config *config);
/* Writes the answer's line, or counts it as lost; NULL: there was no memory for it. */
void live_write_answer(struct culm_live *run, struct live_query *query, const char *text_or_null);
enum culm_status live_open_events(struct culm_live *run, const char *path,
                                  struct culm_error *error);
/* The same of an event, which everyone else who is to hear it hears in any case. */
void live_write_event(struct culm_live *run, const json_t *event, bool last);
/* Looks, once a second or at once, whether files of answers and events are still at their paths, and goes on
 * with new ones where they are not; also takes up what the workload now says of their sizes. */
void live_follow_files(struct culm_live *run, bool now);
/* Adds to the event `done` what could not be written. */
void live_fill_lost(const struct culm_live *run, json_t *done);

/* sources.c */
/* Sets the sources of every query, from the package's newest round or else its own tensors, which
 * it writes if need be; then as live_wear. */
enum culm_status live_sources(struct culm_live *run, struct culm_error *error);
/* Puts every query on its own weights or on those of the package, as was chosen and as drift
 * demands, and updates the originals to match. */
enum culm_status live_wear(struct culm_live *run, struct culm_error *error);
/* The same after run->plain has been chosen anew. */
enum culm_status live_take_forms(struct culm_live *run, struct culm_error *error);

/* layout.c */
/* Makes a layout of all queries and feeds. Once there is an arena, also gives addresses to
 * everything in it. CULM_ERR_MEMORY, also if none are left; the layout in force is not affected. */
enum culm_status live_lay(struct culm_live *run, struct culm_live_laid **ret_laid,
                          struct culm_error *error);
/* The same without addresses, for planning. */
enum culm_status live_lay_to_plan(struct culm_live *run, struct culm_live_laid **ret_laid,
                                  struct culm_error *error);
/* Puts the addresses, scores and cuts of run->laid in force. Nothing may be running. */
void live_count(struct culm_live *run);
/* The largest activations of any query, including what is kept between batches. */
size_t live_activations(const struct culm_live_laid *laid);
/* Sets in `times` the shares of a run until each cut that this run has measured for the size. */
void live_shares(const struct live_query *query, struct culm_live_times *times, int32_t size);
/* Adds what the layout in force has saved until now to run->saved. */
void live_count_saving(struct culm_live *run);
void live_release(struct culm_live *run);

/* calibrate.c */
/* Loads and times each model whose run times are not known. */
enum culm_status live_calibrate(struct culm_live *run, struct culm_error *error);

/* Publishes `query` for a query that runs under the latest layout. */
void live_tell_query(struct culm_live *run, int32_t q);
void live_publish(struct culm_live *run, json_t *take_event);

#endif

/*
 * `culm edge run`, from inside: what its files share. Nobody else includes it.
 *
 * The scheduler decides on the loop's thread. Feeds are threads that read frames, pace them and
 * stretch them into the arena. Tensors are read into the arena on the I/O thread; models run on the
 * compute thread, on parameters at the addresses where they lie. Queries, feeds, sources and units
 * keep their numbers until the end; one that has gone is marked.
 */
#ifndef CULM_RUN_EDGE_RUN_H
#define CULM_RUN_EDGE_RUN_H

#include "cluster/alone.h"
#include "data/feed.h"
#include "edge/arena.h"
#include "edge/drift.h"
#include "edge/loads.h"
#include "edge/scheduler.h"
#include "graph/stage.h"
#include "report/sink.h"
#include "run/edge_catalog.h"
#include "run/edge_commands.h"
#include "run/edge_forms.h"
#include "run/prediction.h"
#include "run/right.h"
#include "run/rundir.h"
#include "vision/boxes.h"
#include "vision/picture.h"

#include <pthread.h>
#include <stdio.h>

/* Of a tensor that is run on in another order than it is read in. */
#define CULM_EDGE_PART ((size_t)1 << 18)
#define CULM_EDGE_TOP 5 /* classes of an answer that are written, as culm predict does */
#define CULM_EDGE_FRAME_SLOTS (CULM_EDGE_VISIT_MAX + 3)

/* One batch size of a model, ready to run. */
struct edge_program {
    struct culm_graph *graph;
    struct culm_stage *stage;
    int32_t *part;       /* [stage parameters] which of the entry's parts */
    const float **param; /* [stage parameters] addresses, set before a run */
    /* What crosses each cut of the query's trunk; of the layout that counts. */
    int32_t crossing[CULM_EDGE_CUTS_MAX][CULM_EDGE_CROSSING_MAX];
    size_t image_bytes, activation_bytes, scratch_bytes, output_bytes; /* each rounded to 64 */
};

/* Answers to the last frames, for comparison. */
#define CULM_EDGE_RING 32
struct edge_ring {
    int64_t frame[CULM_EDGE_RING]; /* number + 1; 0: none */
    struct culm_answer answer[CULM_EDGE_RING];
    int32_t width[CULM_EDGE_RING];
};

/* An answer that is drawn when the run has ended. */
#define CULM_EDGE_PICTURES 3
struct edge_picture {
    int64_t source; /* frame of the file */
    struct culm_answer answer;
};

/* Labels of a query to come, of any thread; as struct edge_query has them. */
struct edge_labels {
    bool by_folder;
    uint8_t *label;
    int64_t label_count;
    struct culm_right right;
};

/* A query of the workload, or the original model of one that was merged, which looks at samples. */
struct edge_query {
    struct culm_edge_entry *entry; /* in one of the catalogs */
    int32_t feed;
    bool gone;
    double deadline_ms, score, target; /* as the newest text that was taken up has them */
    float score_now;                   /* of the layout that counts; compute thread */
    int32_t sizes, size[CULM_EDGE_SIZES_MAX];
    struct edge_program program[CULM_EDGE_SIZES_MAX];
    double took_ms[CULM_EDGE_SIZES_MAX]; /* measured while running, smoothed; 0: not yet */
    double ran_ms[CULM_EDGE_SIZES_MAX];  /* all together, */
    int64_t ran[CULM_EDGE_SIZES_MAX];    /* of so many batches */
    /* The share of it until each cut was reached, likewise. */
    double took_share[CULM_EDGE_CUTS_MAX][CULM_EDGE_SIZES_MAX];
    struct culm_edge_trunk trunk; /* of the layout that counts */
    int32_t *source;              /* [entry->part_count], of the newest layout; owned */
    const float **at, **next_at;  /* [entry->part_count] addresses; of the layout to come */
    struct culm_answer answer[CULM_EDGE_VISIT_MAX]; /* of the batch that runs */
    /* Queries that run the same numbers on the same feed, in the layout that counts; bits. What one
     * computes is an answer for all of them: what the last batch of one of them said here. */
    uint64_t twins;
    struct culm_answer ahead[CULM_EDGE_VISIT_MAX];
    int64_t ahead_frame[CULM_EDGE_VISIT_MAX];
    int32_t ahead_count;
    struct culm_answer latest;
    int64_t latest_frame; /* -1: none yet */
    FILE *out;
    /* Of all answers, late ones by what stood instead: on labels, or on the original's answers to
     * samples; NULL: nothing to compare. */
    struct culm_accuracy *accuracy;
    bool by_folder; /* labels are numbers of folders */
    uint8_t *label; /* [label_count] of the feed's frames, by source; NULL: none; owned */
    int64_t label_count;
    struct culm_right right; /* of boxes and points, by source */
    /* [entry->part_count] sources of its own weights, and of those that the package has for it;
     * owned */
    int32_t *original, *merged;
    bool own_tensors;            /* both are of these, which have been written */
    bool plain;                  /* it has its own weights, as that was chosen */
    int32_t original_of, shadow; /* whose original it is; who is its original; -1 */
    bool reverted;               /* to its own weights, until there is a new round */
    /* What it said; what was answered, which may be older. NULL where nothing is compared. */
    struct edge_ring *ring, *given;
    struct culm_accuracy *drift;   /* of samples so far: right by labels, else by the original, */
    struct culm_accuracy *own;     /* and what the original is right in, by labels */
    struct culm_edge_drift checks; /* that are told from chance */
    double promised;               /* share of the original's answers */
    double own_accuracy, merged_accuracy; /* that merging measured last; negative: it has not */
    int samples;        /* file + 1 of frames that merging may begin again with; 0: none */
    int64_t sampled;    /* frames in it */
    uint64_t sample_ns; /* when the next is kept, once it has gone back */
    int32_t pictures;
    struct edge_picture picture[CULM_EDGE_PICTURES];
};

/* What tells a file from what it was, or from another in its place. */
struct edge_stamp {
    uint64_t device, inode, size;
    int64_t modified_ns, changed_ns;
};

/* A source as a package has it. */
struct edge_tensor {
    struct culm_package_tensor of;
    bool turned; /* in memory it is as culm_graph_turn makes it */
    /* Its digest was compared when its file was that one; of whoever reads. */
    bool verified;
    struct edge_stamp stamp;
};

/* What the last batch left at the front of the activations' memory. */
struct edge_kept {
    int32_t cuts, size, count; /* cuts 0: nothing */
    uint64_t id[CULM_EDGE_CUTS_MAX];
    size_t end[CULM_EDGE_CUTS_MAX]; /* of what crosses it */
    int64_t frame[CULM_EDGE_VISIT_MAX];
};

/* What goes along with a frame's pixels. */
struct edge_frame {
    int64_t source;                /* in the file */
    int32_t width, height, folder; /* its number; -1: none */
    uint8_t *pixels;               /* of each input size of its feed, one after the other */
};

/* A file that has no name: units of many small tensors, each in one piece. Of whoever reads. */
struct edge_spool {
    int file;  /* + 1; 0: none yet */
    off_t *at; /* [count] where the unit is; -1: not there */
    int32_t count, capacity;
    bool failed; /* nothing more is written to it */
};

struct edge_input {
    int32_t width, height, channels;
    size_t offset;
};

struct edge_feed {
    struct culm_edge_running *run;
    struct culm_feed_config *config;
    int32_t number;
    bool gone, started, joined;
    bool counted;   /* frames is what its file has, or -1: that cannot be told */
    int64_t frames; /* only of use where labels are read */
    pthread_t thread;
    int stop;           /* atomic */
    uint64_t period_ns; /* that is planned with */
    /* From frame to frame as they come, where that is not ours to say; 0: not known. Atomic. */
    uint64_t seen_ns;
    size_t frame_bytes;
    struct edge_input input[CULM_EDGE_QUERIES_MAX];
    int32_t inputs;
    char *slots_at; /* addresses of all slots' pixels, a whole number of pages each */
    /* struct edge_frame; free when nobody else has it. */
    struct culm_blob *slot[CULM_EDGE_FRAME_SLOTS];
    bool held[CULM_EDGE_FRAME_SLOTS]; /* its pixels are in memory */
    int32_t slots;                    /* of these are used */
    pthread_mutex_t slots_lock;       /* of slot, held and slots */
    pthread_mutex_t lock;
    char said[CULM_ERROR_MAX]; /* under the lock; to be told, "": nothing */
    bool failed, ended; /* before `ended`, not at its end; loop thread: it was told that it ended */
    /* Once its thread has been joined: why it failed, and whether it gave a frame before. */
    struct culm_error why;
    bool any;
};

/* Layouts to choose from [edge_forms.h], as `culm edge plan` has them; and the same with originals
 * that look at samples, for the plan. Without addresses; owned. */
struct edge_choices {
    struct culm_edge_laid *laid[CULM_EDGE_FORMS_MAX], *sampled[CULM_EDGE_FORMS_MAX];
    uint64_t plain[CULM_EDGE_FORMS_MAX];
    int32_t count;
};

/* Thinks of what is to be run, and of a better plan, on a thread of its own while the one that was
 * made quickly is run. */
struct edge_planner {
    bool wanted; /* for the layout that counts; loop thread, as all but what the thread is given */
    bool thinks;
    pthread_t thread;
    int stop, done; /* atomic */
    const struct culm_edge_catalog *catalog;
    struct edge_choices choices;
    int32_t chosen;
    struct culm_edge_plan plan;
    enum culm_status status;
    struct culm_error error;
};

/* Programs of a model that is new, made before anything of it is taken up. */
struct edge_ready {
    const struct culm_edge_entry *entry;
    struct edge_program program[CULM_EDGE_SIZES_MAX];
    bool taken;
    /* [parts of the entry] its own tensors, which are written where the run keeps those; NULL: they
     * are not */
    struct culm_package_tensor *tensor;
};

/* Labels of a query, read before anything of it is taken up. */
struct edge_labels_read {
    const struct culm_edge_entry *entry; /* NULL: they were not, or have been taken */
    struct edge_labels labels;
    enum culm_status status;
    struct culm_error error;
};

/* Own tensors of a query, which may have to be written again. */
struct edge_own {
    const struct culm_edge_entry *entry;
    int32_t *source; /* [parts of the entry]; -1: the package has it; owned */
};

/* Reads the workload again, on a thread of its own, or looks after own tensors alone. */
struct edge_reader {
    bool reads; /* loop thread, as all but what the thread is given */
    pthread_t thread;
    int stop, done;                          /* atomic */
    const struct culm_edge_command *command; /* NULL: the workload is not read */
    struct culm_edge_running *run;           /* for culm_edge_running_mend */
    struct edge_own own[CULM_EDGE_QUERIES_MAX];
    int32_t own_count;
    struct {
        const struct culm_feed_config *config;
        int64_t frames;
    } known[CULM_EDGE_FEEDS_MAX]; /* of feeds that are there */
    int32_t known_count;
    const struct culm_edge_entry *running[CULM_EDGE_QUERIES_MAX]; /* of queries that are there */
    int32_t running_count;
    const struct culm_edge_catalog *first; /* of the run: which sizes are run */
    const char *package, *originals;       /* of the run; NULL: no package */
    pthread_mutex_t *lock;                 /* while a tensor is written */
    struct culm_edge_catalog *catalog;
    struct edge_ready *ready; /* [ready_count] of its models that are new */
    int32_t ready_count;
    struct edge_labels_read *labels;   /* [queries of the catalog]; NULL: none was read */
    bool counted[CULM_EDGE_FEEDS_MAX]; /* of its feeds, and then */
    int64_t frames[CULM_EDGE_FEEDS_MAX];
    enum culm_status status;
    struct culm_error error;
};

struct culm_edge_running {
    struct culm_edge_exec exec; /* first */
    const struct culm_edge_command *command;
    /* [0]: as it began; then of each reload that some query or feed is from. */
    struct culm_edge_catalog *catalog[CULM_EDGE_QUERIES_MAX + CULM_EDGE_FEEDS_MAX + 2];
    int32_t catalogs;
    struct edge_query query[CULM_EDGE_QUERIES_MAX];
    int32_t query_count;
    struct edge_feed feed[CULM_EDGE_FEEDS_MAX];
    int32_t feed_count;
    struct culm_edge_store store;
    /* Addresses of the store's units that some layout lists, not only to plan. */
    struct culm_edge_places unit;
    struct edge_tensor *tensor; /* [store.source_count] */
    int32_t tensor_count, tensor_capacity;
    pthread_mutex_t lock; /* of the store and what goes with it: the I/O thread reads it */
    struct culm_edge_arena arena;
    char *activations_at, *next_activations_at;     /* the next: of the layout to come */
    size_t activations_room, next_activations_room; /* of addresses */
    size_t activations_held, activations_wanted; /* in memory; what whoever runs next brings in */
    struct edge_kept kept;
    int32_t from; /* of the batch that was run last: cuts behind it; -1: a twin had answered */
    uint64_t reached_ns[CULM_EDGE_CUTS_MAX]; /* when it came to the others */
    bool changed;                            /* something asks for a new layout */
    bool again;                              /* the workload is to be read again */
    bool mend;                               /* own tensors are to be looked at */
    struct edge_reader reader;
    uint64_t round_ns; /* a round is not looked at before */
    uint64_t timed_ns; /* when run times were compared last */
    struct culm_device *device;
    struct culm_blob_pool *headers;
    struct culm_prediction_room room; /* of the line that is being written */
    char out[CULM_PATH_MAX];
    struct culm_rundir dir;         /* that, held */
    bool stops;                     /* atomic: no load is waited for any more */
    bool uncalibrated;              /* it was asked to stop before it knew how long models take */
    const char *package;            /* NULL: none */
    pthread_mutex_t originals_lock; /* while a tensor is written there */
    pthread_mutex_t models_lock;    /* while a model of a query that is there is asked for more */
    char originals[CULM_PATH_MAX];  /* a package of what the given one does not have */
    int64_t round;                  /* of the package; -1: none */
    int64_t layer_bytes, layer_distinct; /* of its models' layers; what is left of them when each
                                            tensor counts once */
    char round_digest[CULM_SHA256_HEX];
    struct culm_edge_laid *laid, *next; /* that counts; that is to come */
    struct culm_edge_plan plan, next_plan;
    uint64_t plain;              /* queries that get their own weights, by what was chosen last */
    bool next_is_quick;          /* the plan to come was made while frames waited */
    struct edge_planner planner; /* of a better one */
    size_t limit_bytes;
    double rate_mb_per_s;  /* of loads; 0: as fast as files are read */
    uint64_t line_free_ns; /* when the line at that rate is free again; I/O thread */
    char *part;            /* CULM_EDGE_PART bytes, whole pages; of whoever reads */
    struct edge_spool spool;
    /* What they took; [1]: in the run, of what had been read before. */
    struct culm_edge_loads loads[2];
    bool read_again; /* the last one was of that */
    struct culm_alone *alone;
    struct culm_edge_scheduler *scheduler;
    struct culm_sink *sink;
    int ended_feeds;
    struct culm_error failed; /* the first that writing met */
};

/* edge_run.c */
/* What the package saves, for events: bytes of layers of its models, and of these each tensor once,
 * and which round that is; null: there is none. */
json_t *culm_edge_running_package(const struct culm_edge_running *run);
/* What models were read with goes back to the system: an edge box has little. */
void culm_edge_running_trim(void);

/* edge_run_load.c */
/* Reads a unit to its address, at the rate, and notes whether it had been read before. One thread
 * at a time. */
enum culm_status culm_edge_running_read(struct culm_edge_running *run, int32_t unit,
                                        struct culm_error *error);
/* Whether the file of a source is the one that was last read and found right. The store is not locked;
 * any thread. */
bool culm_edge_running_intact(struct culm_edge_running *run, int32_t source);
/* Units of many small tensors in the layout that counts are put in one piece, before anything runs:
 * one by one, none stays. */
enum culm_status culm_edge_running_gather(struct culm_edge_running *run, struct culm_error *error);
/* What loads take: as measured, else as the profile says. 0 MB/s: as fast as can be. */
void culm_edge_running_loading(const struct culm_edge_running *run, double *ret_ms,
                               double *ret_mb_per_s);

/* edge_run_exec.c */
extern const struct culm_edge_exec_ops culm_edge_running_ops;
/* Runs the query on what lies in the activations' memory as its images, or from cut `from` - 1 on,
 * on what was kept there. ret_ns[cuts]: when each later cut was reached, from the beginning on. */
void culm_edge_running_compute(struct culm_edge_running *run, struct edge_query *query,
                               int32_t size, int32_t from, uint64_t *ret_ns);
/* What is right on a frame, by the labels of the query; -1: it has none there. */
int32_t culm_edge_running_label(const struct edge_query *query, const struct edge_frame *frame);
/* Where answers are boxes or points; NULL: nothing is known of the frame. */
const struct culm_answer *culm_edge_running_right(const struct edge_query *query,
                                                  const struct edge_frame *frame);
/* A frame as the query's model reads it. */
struct culm_frame culm_edge_running_pixels(const struct culm_edge_running *run,
                                           const struct edge_query *query,
                                           const struct edge_frame *frame);
/* Activations come into memory, as many as the scheduler wants: before a program runs, on its
 * thread, so that the loop need not wait for the pages. */
enum culm_status culm_edge_running_hold(struct culm_edge_running *run, struct culm_error *error);

/* edge_run_pictures.c */
/* The query's latest answer, of that frame of its file, is kept if one is wanted. */
void culm_edge_running_keep(struct edge_query *query, int64_t source);
/* Draws those that were kept, as DIR/pictures/QUERY-FRAME.png. After the feeds have been stopped.
 */
void culm_edge_running_pictures(struct culm_edge_running *run);

/* edge_run_feed.c */
/* Feeds that have none yet get their threads; none in a run that was asked to stop before it began:
 * the loop hears frames before signals. */
enum culm_status culm_edge_running_feeds(struct culm_edge_running *run, struct culm_error *error);
void culm_edge_running_stop_feeds(struct culm_edge_running *run);
/* As many slots as the plan says have memory. Loop thread. */
enum culm_status culm_edge_running_slots(struct culm_edge_running *run, struct culm_error *error);
/* Tells what feeds have to say. Loop thread. */
void culm_edge_running_hear(struct culm_edge_running *run);
/* When feeds have been stopped: the error of the first one, if none has ever given a frame and each
 * has said why. */
enum culm_status culm_edge_running_any_frame(const struct culm_edge_running *run,
                                             struct culm_error *error);
/* Likewise: if the run has ended since each feed that it had last failed, be it after many frames. */
enum culm_status culm_edge_running_any_feed(const struct culm_edge_running *run,
                                            struct culm_error *error);

/* edge_run_change.c */
/* A new round of the package is taken up whole or not at all. */
void culm_edge_running_round(struct culm_edge_running *run);
/* What has changed by itself: drift, run times, how fast feeds are. */
void culm_edge_running_settle(struct culm_edge_running *run);
/* `change` with the store locked; then a layout of what it has made, with that plan if there is
 * one. On failure all is as it was. */
enum culm_status culm_edge_running_try(struct culm_edge_running *run,
                                       enum culm_status (*change)(struct culm_edge_running *run,
                                                                  struct culm_error *error),
                                       const struct culm_edge_plan *plan, struct culm_error *error);

/* edge_run_reload.c */
/* Has the workload read if that is wanted, and takes up what was read, whole or not at all, unless
 * a layout is to come. */
void culm_edge_running_reload(struct culm_edge_running *run);
/* When all feeds have ended: tells of a text that comes too late. */
void culm_edge_running_drop_text(struct culm_edge_running *run);
void culm_edge_running_stop_reading(struct culm_edge_running *run);

/* edge_run_planner.c */
/* To ask a culm_edge_stop: whether the program was asked to stop; whether the int at `stop` is set.
 */
bool culm_edge_running_signalled(const void *ctx);
bool culm_edge_running_stopped(const void *stop);
/* This thread, and what it starts, has the processor when models do not want it. */
void culm_edge_running_give_way(int nice);
/* What to run, and by which plan; only while nothing runs. The former is noted in run->plain. */
enum culm_status culm_edge_running_choose(struct culm_edge_running *run,
                                          struct culm_edge_plan *ret_plan,
                                          struct culm_error *error);
/* Has a better plan thought out where one was made quickly, and takes it up when it is there. */
void culm_edge_running_replan(struct culm_edge_running *run);
void culm_edge_running_stop_planner(struct culm_edge_running *run);
/* An event of the plan that counts. */
void culm_edge_running_tell_plan(struct culm_edge_running *run);
/* edge_run_drift.c */
/* Queries that were merged have their originals beside them, as the round and drift want it. */
enum culm_status culm_edge_running_shadows(struct culm_edge_running *run, struct culm_error *error);
/* What its checks have seen so far does not count any more. */
void culm_edge_running_forget_checks(struct edge_query *query);
/* A frame's fresh answer, of a query or of an original. */
void culm_edge_running_compare(struct culm_edge_running *run, int32_t query, int64_t frame,
                               const struct edge_frame *of, const struct culm_answer *answer);
/* A frame that a query, or an original, has answered: it is kept if merging may want it. */
void culm_edge_running_sample(struct culm_edge_running *run, int32_t query,
                              const struct edge_frame *frame);
/* What a query's frame was answered with, be it fresh or not. */
void culm_edge_running_given(struct culm_edge_running *run, int32_t query, int64_t frame,
                             int32_t width, const struct culm_answer *answer);

/* edge_run_sources.c */
/* On any thread: the model's own tensors are written to `dir`, a package; ret_tensor[part_count],
 * the caller's to free. */
enum culm_status culm_edge_write_own(const struct culm_edge_entry *entry, const char *dir,
                                     pthread_mutex_t *lock, struct culm_package_tensor **ret_tensor,
                                     struct culm_error *error);
/* On any thread, the store not locked: of a query's own tensors those are written again whose files are
 * gone or were changed; where that fails, loads say what is wrong. stop: as of culm_edge_running_stopped. */
void culm_edge_running_mend(struct culm_edge_running *run, const struct edge_own *own,
                            const int *stop);

/* edge_run_queries.c */
/* On any thread: the model's programs, to be taken by the query that is opened next with this
 * entry. */
enum culm_status culm_edge_ready_make(const struct culm_edge_catalog *first,
                                      struct culm_edge_entry *entry, struct edge_ready *ready);
void culm_edge_ready_release(struct edge_ready *ready); /* fine on a zeroed one */
/* On any thread: the labels that the query's configuration names, of a feed with so many frames; -1:
 * that is not known. */
enum culm_status culm_edge_labels_read(const struct culm_edge_entry *entry, const char *feed,
                                       int64_t frames, struct edge_labels *labels,
                                       struct culm_error *error);
void culm_edge_labels_release(struct edge_labels *labels); /* fine on a zeroed one */
/* `of`: whose original it is to be; -1: a query of the workload, whose answers are written. */
enum culm_status culm_edge_running_open(struct culm_edge_running *run,
                                        struct culm_edge_entry *entry, int32_t of, int32_t feed,
                                        int32_t *ret_query, struct culm_error *error);
void culm_edge_running_open_feed(struct culm_edge_running *run, struct culm_feed_config *config,
                                 int32_t feed);
void culm_edge_running_add_input(struct edge_feed *feed, const struct culm_vision_input *input);
void culm_edge_running_round_frame(struct edge_feed *feed);
/* Queries and feeds of the catalog are taken up; others go. */
enum culm_status culm_edge_running_take(struct culm_edge_running *run,
                                        struct culm_edge_catalog *catalog,
                                        struct culm_error *error);
/* How many frames a file has; -1: that cannot be told, or not without losing some, or it is asked
 * to stop. What is wrong with it is told when its frames are wanted. To count those of a clip takes
 * long. Any thread. */
int64_t culm_edge_running_frames(const struct culm_feed_config *config,
                                 const struct culm_edge_stop *stop);
/* Opens what the answers of new queries are written to. */
enum culm_status culm_edge_running_outs(struct culm_edge_running *run, struct culm_error *error);
void culm_edge_running_release_query(struct edge_query *query);

/* edge_run_sources.c */
/* Sources of every query from the package's round that counts, or its own tensors. */
enum culm_status culm_edge_running_sources(struct culm_edge_running *run, struct culm_error *error);
/* Queries have their own weights, or those of the package, as chosen and as drift wants it. */
enum culm_status culm_edge_running_wear(struct culm_edge_running *run, struct culm_error *error);
/* The same once `run->plain` was chosen. */
enum culm_status culm_edge_running_take_forms(struct culm_edge_running *run,
                                              struct culm_error *error);
/* With the store locked, and no layout to come. Release them after a failure too. */
enum culm_status culm_edge_running_choices(struct culm_edge_running *run,
                                           struct edge_choices *choices, struct culm_error *error);
void culm_edge_running_release_choices(struct edge_choices *choices);

/* edge_run_layout.c */
/* A layout of it all. Once there is an arena, also addresses for all that it may put there:
 * CULM_ERR_MEMORY when there are none left, and what counts goes on. */
enum culm_status culm_edge_running_lay(struct culm_edge_running *run,
                                       struct culm_edge_laid **ret_laid, struct culm_error *error);
/* The same to plan with: without addresses. */
enum culm_status culm_edge_running_lay_to_plan(struct culm_edge_running *run,
                                               struct culm_edge_laid **ret_laid,
                                               struct culm_error *error);
/* The addresses and scores of what was laid last count from now on. Nothing runs. */
void culm_edge_running_count(struct culm_edge_running *run);
/* The most that any query's activations take, with what is kept between batches. */
size_t culm_edge_running_activations(const struct culm_edge_laid *laid);
/* Notes what shares of a run were measured, or else are thought, until each cut is reached. */
void culm_edge_running_shares(const struct edge_query *query, struct culm_edge_times *times,
                              int32_t size);
void culm_edge_running_release(struct culm_edge_running *run);

/* edge_run_calibrate.c */
/* Loads each model and runs it, where no profile says how long that takes. */
enum culm_status culm_edge_running_calibrate(struct culm_edge_running *run,
                                             struct culm_error *error);

void culm_edge_running_publish(struct culm_edge_running *run, json_t *take_event);

#endif

/*
 * The inside of `culm edge run`: what its files share. Nobody else includes this.
 *
 * The scheduler makes its decisions on the loop thread. Each feed has a thread that reads frames,
 * paces them and stretches them into the arena. The I/O thread reads tensors into the arena, and
 * the compute thread runs models on the parameters where they lie. Other threads plan, and read the
 * workload again. Queries, feeds, sources and units keep their numbers until the run ends; one that
 * has gone is marked.
 *
 * Thread: the loop's, unless a function or a member says otherwise.
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

/* A tensor whose numbers have another order in memory than in its file is read in pieces of this
 * size. */
#define CULM_EDGE_PART ((size_t)1 << 18)
#define CULM_EDGE_TOP 5 /* how many classes of an answer are written; as culm predict does */
#define CULM_EDGE_FRAME_SLOTS (CULM_EDGE_VISIT_MAX + 3)

/* A model compiled for one batch size, ready to run. */
struct edge_program {
    struct culm_graph *graph;
    struct culm_stage *stage;
    int32_t *part;       /* [stage parameters] which part of the entry each one is */
    const float **param; /* [stage parameters] addresses, set before each run */
    /* The values that cross each cut of the query's trunk, in the layout in force. */
    int32_t crossing[CULM_EDGE_CUTS_MAX][CULM_EDGE_CROSSING_MAX];
    size_t image_bytes, activation_bytes, scratch_bytes, output_bytes; /* each rounded up to 64 */
};

/* A ring of answers to the latest frames, to be compared with others. */
#define CULM_EDGE_RING 32
struct edge_ring {
    int64_t frame[CULM_EDGE_RING]; /* number + 1; 0: none */
    struct culm_answer answer[CULM_EDGE_RING];
    int32_t width[CULM_EDGE_RING];
};

/* An answer that is drawn on its frame when the run has ended. */
#define CULM_EDGE_PICTURES 3
struct edge_picture {
    int64_t source; /* the frame's number in the file */
    struct culm_answer answer;
};

/* Labels read for a query that may not be there yet, on any thread; the members are those of struct
 * edge_query. */
struct edge_labels {
    bool by_folder;
    uint8_t *label;
    int64_t label_count;
    struct culm_right right;
};

/* A query of the workload; or a hidden query, which runs the original model of a merged query on
 * samples to watch it for drift. */
struct edge_query {
    struct culm_edge_entry *entry; /* in one of the catalogs */
    int32_t feed;
    bool gone;
    double deadline_ms, score, target; /* from the workload that was taken up last */
    float score_now;                   /* score, as of the layout in force; compute thread */
    int32_t sizes, size[CULM_EDGE_SIZES_MAX];
    struct edge_program program[CULM_EDGE_SIZES_MAX];
    double took_ms[CULM_EDGE_SIZES_MAX]; /* of a batch in this run, smoothed; 0: none yet */
    double ran_ms[CULM_EDGE_SIZES_MAX];  /* the total of all batches, */
    int64_t ran[CULM_EDGE_SIZES_MAX];    /* and how many they were */
    /* The share of a batch's time until each cut was reached; smoothed, 0: none yet. */
    double took_share[CULM_EDGE_CUTS_MAX][CULM_EDGE_SIZES_MAX];
    struct culm_edge_trunk trunk; /* in the layout in force */
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
    FILE *out;
    bool made_out; /* the file was not there before */
    /* Of all frames, with the older answer that stood in for a dropped one: on labels, or else on
     * the original's answers to samples. NULL: nothing has been compared. */
    struct culm_accuracy *accuracy;
    bool by_folder; /* the label of a frame is the number of its folder */
    uint8_t *label; /* [label_count] by a frame's number in the file; owned; NULL: none */
    int64_t label_count;
    struct culm_right right; /* labels where answers are boxes or points, by the same number */
    /* [entry->part_count] the sources of its own weights, and those that the package has for it;
     * owned */
    int32_t *original, *merged;
    bool own_tensors;            /* both are its own tensors, which this run has written */
    bool unwatched;              /* it is merged, and there is no room for its original */
    bool told_unwatched;         /* an event has said so */
    bool told_other;             /* an event has said that an answer is not finite */
    bool told;                   /* an event `query` has been published since it came */
    bool plain;                  /* the choice of forms gave it its own weights */
    int32_t original_of, shadow; /* the query whose original it is; its own original; -1: none */
    bool reverted;               /* drift took it back to its own weights until the next round */
    /* What the model said of recent frames; what they were answered with, which may be an older
     * answer. NULL where nothing is compared. */
    struct edge_ring *ring, *given;
    struct culm_accuracy *drift;   /* of the check under way: by labels, else by the original */
    struct culm_accuracy *own;     /* of the original by labels, on the same frames */
    struct culm_edge_drift checks; /* the checks pooled so far */
    double promised;               /* the share of the original's answers that it must give */
    double own_accuracy, merged_accuracy; /* as merging last measured; negative: it has not */
    int samples;        /* file + 1 of frames with which merging may resume; 0: none */
    int64_t sampled;    /* how many frames are in it */
    uint64_t sample_ns; /* once reverted: when the next frame may be kept */
    int32_t pictures;
    struct edge_picture picture[CULM_EDGE_PICTURES];
};

/* Tells whether a file has changed or been replaced by another. */
struct edge_stamp {
    uint64_t device, inode, size;
    int64_t modified_ns, changed_ns;
};

/* A source as it lies in a package. */
struct edge_tensor {
    struct culm_package_tensor of;
    bool turned; /* in memory it has the order that culm_graph_turn makes */
    /* The digest was right when the file had this stamp. Guarded by the run's lock. */
    bool verified;
    struct edge_stamp stamp;
};

/* What the last batch left at the front of the activations' memory, for another query to continue
 * from. */
struct edge_kept {
    int32_t cuts, size, count; /* cuts 0: nothing; size: an index; count: frames */
    uint64_t id[CULM_EDGE_CUTS_MAX];
    size_t end[CULM_EDGE_CUTS_MAX]; /* where what crosses the cut ends */
    int64_t frame[CULM_EDGE_VISIT_MAX];
};

/* A frame: its pixels, and what else has to be known of it. */
struct edge_frame {
    int64_t source;                /* its number in the file */
    int32_t width, height, folder; /* as recorded; folder: the number of its folder, -1: none */
    uint8_t *pixels;               /* stretched to each input size of its feed, one by one */
};

/* An unnamed file that holds units of many small tensors, each in one piece. Only the thread that
 * reads units uses it. */
struct edge_spool {
    int file;  /* descriptor + 1; 0: none yet */
    off_t *at; /* [count] where each unit begins; -1: it is not there */
    int32_t count, capacity;
    bool failed; /* a write has failed: nothing more is written */
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
    bool counted;   /* `frames` is valid */
    int64_t frames; /* in the file; -1: that cannot be told. Needed to read labels only */
    pthread_t thread;
    int stop;           /* atomic */
    uint64_t period_ns; /* the period that plans assume */
    /* The measured period of a live feed, which sets its own pace; 0: not known. Atomic. */
    uint64_t seen_ns;
    size_t frame_bytes;
    struct edge_input input[CULM_EDGE_QUERIES_MAX];
    int32_t inputs;
    char *slots_at; /* addresses for the pixels of all slots, whole pages for each */
    /* Each holds a struct edge_frame. A slot is free when nobody else has a reference. */
    struct culm_blob *slot[CULM_EDGE_FRAME_SLOTS];
    bool held[CULM_EDGE_FRAME_SLOTS]; /* its pixels are in memory */
    int32_t slots, slots_held;        /* how many there are to be, and are */
    pthread_mutex_t slots_lock;       /* guards these four */
    pthread_mutex_t lock;
    char said[CULM_ERROR_MAX]; /* a message to publish, "": none; guarded by lock */
    char left_out[400];        /* a warning to publish, likewise */
    /* failed: it ended with an error, set before `ended`. ended: its end was published; loop thread
     * only. */
    bool failed, ended;
    /* Valid once its thread was joined: why it failed; whether it has ever given a frame. */
    struct culm_error why;
    bool any;
};

/* Layouts to choose from [edge_forms.h], the same ones as for `culm edge plan`; and each of them
 * with the originals that look at samples added, from which the plan is then made. They have no
 * addresses. Owned. */
struct edge_choices {
    struct culm_edge_laid *laid[CULM_EDGE_FORMS_MAX], *sampled[CULM_EDGE_FORMS_MAX];
    uint64_t plain[CULM_EDGE_FORMS_MAX];
    int32_t count;
};

/* Works out which forms to run and a better plan, on a thread of its own, while the run goes on by
 * a plan that was made quickly. The loop thread owns all of it but what the planning thread was
 * given. */
struct edge_planner {
    bool wanted; /* the layout in force has a quick plan */
    bool thinks; /* the thread is there */
    pthread_t thread;
    int stop, done; /* atomic */
    const struct culm_edge_catalog *catalog;
    struct edge_choices choices;
    int32_t chosen;
    struct culm_edge_plan plan;
    enum culm_status status;
    struct culm_error error;
};

/* What is prepared for a new model before it is taken up. */
struct edge_ready {
    const struct culm_edge_entry *entry;
    struct edge_program program[CULM_EDGE_SIZES_MAX];
    bool taken; /* the programs */
    /* [parts of the entry] its own tensors, once written to the run's `originals`; NULL: they are
     * not */
    struct culm_package_tensor *tensor;
};

/* Labels of a query, read before it is taken up. */
struct edge_labels_read {
    const struct culm_edge_entry *entry; /* NULL: none were read, or they have been taken */
    struct edge_labels labels;
    enum culm_status status;
    struct culm_error error;
};

/* The tensors that a run wrote for a query, which may have to be written again. */
struct edge_own {
    const struct culm_edge_entry *entry;
    int32_t *source; /* [parts of the entry]; -1: the package has it; owned */
};

/* Reads the workload again on a thread of its own, and rewrites own tensors that were damaged; or
 * does the latter alone. The loop thread owns all of it but what the reading thread has been given.
 */
struct edge_reader {
    bool reads; /* the thread is there */
    pthread_t thread;
    int stop, done;                          /* atomic */
    const struct culm_edge_command *command; /* NULL: only look after own tensors */
    struct culm_edge_running *run;           /* for culm_edge_running_mend */
    struct edge_own own[CULM_EDGE_QUERIES_MAX];
    int32_t own_count;
    struct {
        const struct culm_feed_config *config;
        int64_t frames;
    } known[CULM_EDGE_FEEDS_MAX]; /* how many frames the present feeds have */
    int32_t known_count;
    const struct culm_feed_config *going[CULM_EDGE_FEEDS_MAX]; /* feeds that run; borrowed */
    int32_t going_count;
    const struct culm_edge_entry *running[CULM_EDGE_QUERIES_MAX]; /* the present queries */
    int32_t running_count;
    const struct culm_edge_catalog *first; /* the run's first one, which fixes the batch sizes */
    const char *package, *originals;       /* the run's; package NULL: none */
    pthread_mutex_t *lock;                 /* held while a tensor is written */
    struct culm_edge_catalog *catalog;     /* the workload as it was read */
    struct edge_ready *ready;              /* [ready_count] for the models in it that are new */
    int32_t ready_count;
    struct edge_labels_read *labels;   /* [queries of the catalog]; NULL: none were read */
    bool counted[CULM_EDGE_FEEDS_MAX]; /* by feed of the catalog: frames is valid */
    int64_t frames[CULM_EDGE_FEEDS_MAX];
    enum culm_status status;
    struct culm_error error;
};

struct culm_edge_running {
    struct culm_edge_exec exec; /* first */
    const struct culm_edge_command *command;
    /* [0]: the workload at the start; then one for each reload from which a query or feed came. */
    struct culm_edge_catalog *catalog[CULM_EDGE_QUERIES_MAX + CULM_EDGE_FEEDS_MAX + 2];
    int32_t catalogs;
    struct edge_query query[CULM_EDGE_QUERIES_MAX];
    int32_t query_count;
    /* Of the boxes that any of them wants (culm_box_least), as of the layout in force: what is
     * computed for one may be read by others, by a twin or behind a common prefix. Compute thread. */
    float least;
    struct edge_feed feed[CULM_EDGE_FEEDS_MAX];
    int32_t feed_count;
    struct culm_edge_store store;
    /* Addresses of units; only of those in layouts that are run, not merely planned with. */
    struct culm_edge_places unit;
    struct edge_tensor *tensor; /* [store.source_count] */
    int32_t tensor_count, tensor_capacity;
    pthread_mutex_t lock; /* guards store, unit and tensor, which the I/O thread reads */
    struct culm_edge_arena arena;
    char *activations_at, *next_activations_at;     /* in the layout in force; in the next one */
    size_t activations_room, next_activations_room; /* addresses there */
    size_t activations_held, activations_wanted;    /* in memory; needed by the next batch */
    struct edge_kept kept;
    /* How many cuts the last batch skipped; -1: all of it, since a twin had answered for it. */
    int32_t from;
    uint64_t reached_ns[CULM_EDGE_CUTS_MAX]; /* when it reached the cuts after that */
    bool changed;                            /* a new layout is needed */
    bool again;                              /* the workload is to be read again */
    bool mend;                               /* own tensors are to be checked */
    struct edge_reader reader;
    uint64_t round_ns;                /* no new round is looked for before that */
    char round_error[CULM_ERROR_MAX]; /* of the last round that was refused, as it was told */
    uint64_t timed_ns;                /* when run times were last compared */
    struct culm_device *device;
    struct culm_blob_pool *headers;   /* of struct edge_frame */
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
    struct culm_edge_laid *laid, *next; /* the layout in force; the next one, NULL: none */
    struct culm_edge_plan plan, next_plan;
    uint64_t plain;              /* a bit for each query that was last chosen to run plain */
    bool next_is_quick;          /* next_plan was made in haste, while frames waited */
    struct edge_planner planner; /* works out a better one */
    size_t limit_bytes;
    double rate_mb_per_s;  /* at which tensors load; 0: as fast as files can be read */
    uint64_t line_free_ns; /* when the last load would be over at that rate; I/O thread */
    char *part;            /* CULM_EDGE_PART bytes, page-aligned; for the reading thread */
    struct edge_spool spool;
    /* What loads took; [1]: those in the run of what had been read before. */
    struct culm_edge_loads loads[2];
    bool read_again; /* the last load belongs to [1] */
    struct culm_alone *alone;
    struct culm_edge_scheduler *scheduler;
    struct culm_sink *sink;
    struct culm_error failed; /* the first error in writing results */
};

/* edge_run.c */
/* What the package saves, for events: the bytes of its models' layers, the same with each tensor
 * counted once, and the digest of the round; a JSON null if there is no package. */
json_t *culm_edge_running_package(const struct culm_edge_running *run);
/* Returns free heap memory to the system; reading models leaves much of it, and an edge box has
 * little. */
void culm_edge_running_trim(void);

/* edge_run_load.c */
/* Reads a unit to its address, no faster than the rate, and sets run->read_again. One thread at a
 * time. */
enum culm_status culm_edge_running_read(struct culm_edge_running *run, int32_t unit,
                                        struct culm_error *error);
/* Whether the file of a source is still the one whose digest was found right. Any thread; the
 * caller must not hold run->lock. */
bool culm_edge_running_intact(struct culm_edge_running *run, int32_t source);
/* Copies each unit of several small tensors in the layout in force to the spool, so that it can be
 * read in one piece. To be called before anything runs; evicts each unit again. */
enum culm_status culm_edge_running_gather(struct culm_edge_running *run, struct culm_error *error);
/* How long loads take: as edge.load_mb_per_s says, else as measured, else as the profile says. 0
 * MB/s: bytes take no time. */
void culm_edge_running_loading(const struct culm_edge_running *run, double *ret_ms,
                               double *ret_mb_per_s);

/* edge_run_exec.c */
extern const struct culm_edge_exec_ops culm_edge_running_ops;
/* Runs a batch of the query: with `from` 0 on the images in the activations' memory, else from cut
 * `from` - 1 on, with what is kept in front of them. ret_ns[cuts]: for each cut from `from` on, how
 * long it took to reach it. Compute thread. */
void culm_edge_running_compute(struct culm_edge_running *run, struct edge_query *query,
                               int32_t size, int32_t from, uint64_t *ret_ns);
/* The label of a frame for the query; -1: it has none. */
int32_t culm_edge_running_label(const struct edge_query *query, const struct edge_frame *frame);
/* The same where answers are boxes or points; NULL: it has none. */
const struct culm_answer *culm_edge_running_right(const struct edge_query *query,
                                                  const struct edge_frame *frame);
/* A frame at the input size of the query's model; borrows the pixels. */
struct culm_frame culm_edge_running_pixels(const struct culm_edge_running *run,
                                           const struct edge_query *query,
                                           const struct edge_frame *frame);
/* Makes as much activation memory resident as the scheduler has asked for. Called on the compute
 * thread before a batch, so that the loop does not have to wait for the pages. CULM_ERR_MEMORY. */
enum culm_status culm_edge_running_hold(struct culm_edge_running *run, struct culm_error *error);

/* edge_run_pictures.c */
/* Keeps the query's latest answer, which is for that frame of the file, if a picture of it is
 * wanted. */
void culm_edge_running_keep(struct edge_query *query, int64_t source);
/* Draws what was kept, as DIR/pictures/QUERY-FRAME.png. To be called once the feeds have stopped.
 */
void culm_edge_running_pictures(struct culm_edge_running *run);

/* edge_run_slots.c */
/* Gives back the pixels of frames beyond what the plan says, as far as nobody uses them, and gives
 * every feed memory for as many slots as it says, as far as that leaves room: to be called again
 * until it does. */
enum culm_status culm_edge_running_slots(struct culm_edge_running *run, struct culm_error *error);

/* edge_run_feed.c */
/* Starts the threads of feeds that have none yet. Starts none if the run was asked to stop before
 * it began, since the loop would handle frames before the signal. CULM_ERR_MEMORY. */
enum culm_status culm_edge_running_feeds(struct culm_edge_running *run, struct culm_error *error);
void culm_edge_running_stop_feeds(struct culm_edge_running *run);
/* Publishes what feeds have to say. */
void culm_edge_running_hear(struct culm_edge_running *run);
/* To be called once the feeds have stopped: fails with the error of the first feed if every feed
 * failed without giving a single frame. */
enum culm_status culm_edge_running_any_frame(const struct culm_edge_running *run,
                                             struct culm_error *error);
/* Likewise: fails if the run ended because every feed that was left has failed, even if that was
 * after many frames. */
enum culm_status culm_edge_running_any_feed(const struct culm_edge_running *run,
                                            struct culm_error *error);

/* edge_run_change.c */
/* Takes up the package's new round as a whole, or publishes why not. */
void culm_edge_running_round(struct culm_edge_running *run);
/* Makes a new layout if queries were reverted, or run times or feed rates have changed. */
void culm_edge_running_settle(struct culm_edge_running *run);
/* Calls `change`, which may be NULL, with run->lock held, then makes a layout of the result and
 * hands it to the scheduler, with `plan` or, if that is NULL, a quickly made one. On failure
 * everything is as it was before. */
enum culm_status culm_edge_running_try(struct culm_edge_running *run,
                                       enum culm_status (*change)(struct culm_edge_running *run,
                                                                  struct culm_error *error),
                                       const struct culm_edge_plan *plan, struct culm_error *error);

/* edge_run_reload.c */
/* Begins to read the workload if run->again asks for it, and takes up, as a whole or not at all,
 * what has been read. Does nothing while another layout is pending. */
void culm_edge_running_reload(struct culm_edge_running *run);
/* To be called when the run ends: publishes that a workload being read came too late. */
void culm_edge_running_drop_text(struct culm_edge_running *run);
void culm_edge_running_stop_reading(struct culm_edge_running *run);

/* edge_run_planner.c */
/* For a struct culm_edge_stop: whether the process was asked to stop; whether the int at `stop` is
 * set. Any thread. */
bool culm_edge_running_signalled(const void *ctx);
bool culm_edge_running_stopped(const void *stop);
/* Lowers the priority of the calling thread, and of what it starts, below that of models. */
void culm_edge_running_give_way(int nice);
/* Chooses which queries run plain, which it sets in run->plain, and a plan. To be called only while
 * nothing runs. */
enum culm_status culm_edge_running_choose(struct culm_edge_running *run,
                                          struct culm_edge_plan *ret_plan,
                                          struct culm_error *error);
/* Starts to work out a better plan if the present one was made quickly, and takes the better one up
 * when it is ready. */
void culm_edge_running_replan(struct culm_edge_running *run);
void culm_edge_running_stop_planner(struct culm_edge_running *run);
/* Publishes the plan in force. */
void culm_edge_running_tell_plan(struct culm_edge_running *run);
/* edge_run_drift.c */
/* Adds, updates or marks as gone the hidden originals, so that exactly the queries that run merged
 * have one. */
enum culm_status culm_edge_running_shadows(struct culm_edge_running *run, struct culm_error *error);
/* Publishes, once for each, which merged queries have no original beside them. */
void culm_edge_running_tell_unwatched(struct culm_edge_running *run);
/* Discards what the checks of a query have seen so far. */
void culm_edge_running_forget_checks(struct edge_query *query);
/* Takes in the answer that a query, or an original, has just computed for a frame. */
void culm_edge_running_compare(struct culm_edge_running *run, int32_t query, int64_t frame,
                               const struct edge_frame *of, const struct culm_answer *answer);
/* Keeps a frame that a query, or an original, has answered if merging may want it. */
void culm_edge_running_sample(struct culm_edge_running *run, int32_t query,
                              const struct edge_frame *frame);
/* Takes in what a query's frame was answered with, whether fresh or older. */
void culm_edge_running_given(struct culm_edge_running *run, int32_t query, int64_t frame,
                             int32_t width, const struct culm_answer *answer);

/* edge_run_sources.c */
/* Writes the model's own tensors to the package `dir`. lock: held while each is written.
 * *ret_tensor: [part_count], for the caller to free. Any thread. */
enum culm_status culm_edge_write_own(const struct culm_edge_entry *entry, const char *dir,
                                     pthread_mutex_t *lock, struct culm_package_tensor **ret_tensor,
                                     struct culm_error *error);
/* Writes those of a query's own tensors again whose files are gone or have changed. If that fails,
 * the next load says why. stop: as for culm_edge_running_stopped. Any thread; the caller must not
 * hold run->lock. */
void culm_edge_running_mend(struct culm_edge_running *run, const struct edge_own *own,
                            const int *stop);

/* edge_run_queries.c */
/* Compiles a model's programs, for the next query that is opened with this entry to take. Any
 * thread. */
enum culm_status culm_edge_ready_make(const struct culm_edge_catalog *first,
                                      struct culm_edge_entry *entry, struct edge_ready *ready);
void culm_edge_ready_release(struct edge_ready *ready); /* fine on a zeroed one */
/* Reads the labels that the query's configuration names, for a feed of `frames` frames; -1: their
 * number is not known. Any thread. */
enum culm_status culm_edge_labels_read(const struct culm_edge_entry *entry,
                                       const struct culm_feed_config *feed, int64_t frames,
                                       struct edge_labels *labels, struct culm_error *error);
void culm_edge_labels_release(struct edge_labels *labels); /* fine on a zeroed one */
/* Adds a query. of: the query whose original it is to be; -1: none, it is a query of the workload,
 * and its answers are written. */
enum culm_status culm_edge_running_open(struct culm_edge_running *run,
                                        struct culm_edge_entry *entry, int32_t of, int32_t feed,
                                        int32_t *ret_query, struct culm_error *error);
void culm_edge_running_open_feed(struct culm_edge_running *run, struct culm_feed_config *config,
                                 int32_t feed);
void culm_edge_running_add_input(struct edge_feed *feed, const struct culm_vision_input *input);
void culm_edge_running_round_frame(struct edge_feed *feed);
/* At the start of a run: opens all queries and feeds of the catalog. */
enum culm_status culm_edge_running_take(struct culm_edge_running *run,
                                        struct culm_edge_catalog *catalog,
                                        struct culm_error *error);
/* How many frames a feed's file has; -1: that cannot be told, or not without consuming frames, or
 * it was asked to stop. Errors are left to be reported when frames are wanted. Takes long for a
 * clip. Any thread. */
int64_t culm_edge_running_frames(const struct culm_feed_config *config,
                                 const struct culm_edge_stop *stop);
/* Opens the files to which the answers of new queries are written. */
enum culm_status culm_edge_running_outs(struct culm_edge_running *run, struct culm_error *error);
/* Removes the file of a query that is not taken up after all, if it was made for it. */
void culm_edge_running_take_back_out(const struct culm_edge_running *run,
                                     const struct edge_query *query);
void culm_edge_running_release_query(struct edge_query *query);

/* edge_run_sources.c */
/* Sets the sources of every query, from the package's newest round or else its own tensors, which
 * it writes if need be; then as culm_edge_running_wear. */
enum culm_status culm_edge_running_sources(struct culm_edge_running *run, struct culm_error *error);
/* Puts every query on its own weights or on those of the package, as was chosen and as drift
 * demands, and updates the originals to match. */
enum culm_status culm_edge_running_wear(struct culm_edge_running *run, struct culm_error *error);
/* The same after run->plain has been chosen anew. */
enum culm_status culm_edge_running_take_forms(struct culm_edge_running *run,
                                              struct culm_error *error);
/* Makes the layouts to choose from. The caller holds run->lock, or no other thread runs, and no
 * layout is pending. Must be released after a failure too. */
enum culm_status culm_edge_running_choices(struct culm_edge_running *run,
                                           struct edge_choices *choices, struct culm_error *error);
void culm_edge_running_release_choices(struct edge_choices *choices);

/* edge_run_layout.c */
/* Makes a layout of all queries and feeds. Once there is an arena, also gives addresses to
 * everything in it. CULM_ERR_MEMORY, also if none are left; the layout in force is not affected. */
enum culm_status culm_edge_running_lay(struct culm_edge_running *run,
                                       struct culm_edge_laid **ret_laid, struct culm_error *error);
/* The same without addresses, for planning. */
enum culm_status culm_edge_running_lay_to_plan(struct culm_edge_running *run,
                                               struct culm_edge_laid **ret_laid,
                                               struct culm_error *error);
/* Puts the addresses, scores and cuts of run->laid in force. Nothing may be running. */
void culm_edge_running_count(struct culm_edge_running *run);
/* The largest activations of any query, including what is kept between batches. */
size_t culm_edge_running_activations(const struct culm_edge_laid *laid);
/* Sets in `times` the shares of a run until each cut that this run has measured for the size. */
void culm_edge_running_shares(const struct edge_query *query, struct culm_edge_times *times,
                              int32_t size);
void culm_edge_running_release(struct culm_edge_running *run);

/* edge_run_calibrate.c */
/* Loads and times each model whose run times are not known. */
enum culm_status culm_edge_running_calibrate(struct culm_edge_running *run,
                                             struct culm_error *error);

/* Publishes `query` for a query that runs under the latest layout. */
void culm_edge_running_tell_query(struct culm_edge_running *run, int32_t q);
void culm_edge_running_publish(struct culm_edge_running *run, json_t *take_event);

#endif

/*
 * The thread that reads the workload again, and rewrites own tensors that were damaged.
 *
 * Thread: the loop's, unless a function says otherwise.
 */
#ifndef CULM_LIVE_RELOAD_H
#define CULM_LIVE_RELOAD_H

#include "base/stop.h"
#include "live/catalog.h"
#include "live/executor.h"
#include "live/live.h"
#include "query/labels.h"

#include <pthread.h>

struct culm_live;

/* Labels read for a query that may not be there yet, on any thread; the members are those of struct
 * live_query. */
struct live_labels {
    bool by_folder;
    int32_t *label;
    int64_t label_count;
    struct culm_labels right;
};

/* What is prepared for a new model before it is taken up. */
struct live_ready {
    const struct culm_live_entry *entry;
    struct live_program program[CULM_EDGE_SIZES_MAX];
    bool taken; /* the programs */
    /* [parts of the entry] its own tensors, once written to the run's `originals`; NULL: they are
     * not */
    struct culm_package_tensor *tensor;
};

/* Labels of a query, read before it is taken up. */
struct live_labels_read {
    const struct culm_live_entry *entry; /* NULL: none were read, or they have been taken */
    struct live_labels labels;
    enum culm_status status;
    struct culm_error error;
};

/* The tensors that a run wrote for a query, which may have to be written again. */
struct live_own {
    const struct culm_live_entry *entry;
    int32_t *source; /* [parts of the entry]; -1: the package has it; owned */
};

/* Reads the workload again on a thread of its own, and rewrites own tensors that were damaged; or
 * does the latter alone. The loop thread owns all of it but what the reading thread has been given.
 */
struct live_reader {
    bool reads; /* the thread is there */
    pthread_t thread;
    int stop, done;                    /* atomic */
    const struct culm_live_options *o; /* NULL: only look after own tensors */
    struct culm_live *run;             /* for live_mend */
    struct live_own own[CULM_EDGE_QUERIES_MAX];
    int32_t own_count;
    struct {
        struct culm_feed_config config;
        int64_t frames;
    } known[CULM_EDGE_FEEDS_MAX]; /* how many frames the present feeds have */
    int32_t known_count;
    struct culm_feed_config
        going[CULM_EDGE_FEEDS_MAX]; /* feeds that run; their texts are borrowed */
    int32_t going_count;
    const struct culm_live_entry *running[CULM_EDGE_QUERIES_MAX]; /* the present queries */
    int32_t running_count;
    const struct culm_live_catalog *first; /* the run's first one, which fixes the batch sizes */
    const char *package, *originals;       /* the run's; package NULL: none */
    pthread_mutex_t *lock;                 /* held while a tensor is written */
    struct culm_live_catalog *catalog;     /* the workload as it was read */
    struct live_ready *ready;              /* [ready_count] for the models in it that are new */
    int32_t ready_count;
    struct live_labels_read *labels;   /* [queries of the catalog]; NULL: none were read */
    bool counted[CULM_EDGE_FEEDS_MAX]; /* by feed of the catalog: frames is valid */
    int64_t frames[CULM_EDGE_FEEDS_MAX];
    enum culm_status status;
    struct culm_error error;
};

/* reload.c */
/* Begins to read the workload if run->again asks for it, and takes up, as a whole or not at all,
 * what has been read. Does nothing while another layout is pending. */
void live_reload(struct culm_live *run);
/* To be called when the run ends: publishes that a workload being read came too late. */
void live_drop_text(struct culm_live *run);
void live_stop_reading(struct culm_live *run);

/* sources.c */
/* Writes the model's own tensors to the package `dir`. lock: held while each is written.
 * *ret_tensor: [part_count], for the caller to free. Any thread. */
enum culm_status live_write_own(const struct culm_live_entry *entry, const char *dir,
                                pthread_mutex_t *lock, struct culm_package_tensor **ret_tensor,
                                struct culm_error *error);
/* Writes those of a query's own tensors again whose files are gone or have changed. If that fails,
 * the next load says why. stop: as for live_stopped. Any thread; the caller must not
 * hold run->lock. */
void live_mend(struct culm_live *run, const struct live_own *own, const int *stop);

/* queries.c */
/* Compiles a model's programs, for the next query that is opened with this entry to take. Any
 * thread. */
enum culm_status live_ready_make(const struct culm_live_catalog *first,
                                 struct culm_live_entry *entry, struct live_ready *ready);
void live_ready_release(struct live_ready *ready); /* fine on a zeroed one */
/* Reads the labels that the query's configuration names, for a feed of `frames` frames; -1: their
 * number is not known. Any thread. */
enum culm_status live_read_labels(const struct culm_live_entry *entry,
                                  const struct culm_feed_config *feed, int64_t frames,
                                  struct live_labels *labels, struct culm_error *error);
void live_labels_release(struct live_labels *labels); /* fine on a zeroed one */
/* How many frames a feed's file has; -1: that cannot be told, or not without consuming frames, or
 * it was asked to stop. Errors are left to be reported when frames are wanted. Takes long for a
 * clip. Any thread. */
int64_t live_frames(const struct culm_feed_config *config, const struct culm_stop *stop);

#endif

/* Shared by the files of a merge, and by no others. */
#ifndef CULM_RUN_MERGE_INTERNAL_H
#define CULM_RUN_MERGE_INTERNAL_H

#include "launch/rundir.h"
#include "merge/search_seed.h"
#include "query/package.h"
#include "report/sink.h"
#include "run/launches.h"
#include "run/merge_inputs.h"

#include <culm/merge.h>
#include <stdatomic.h>

struct culm_merging {
    struct culm_merging_options options; /* its dir is `path` */
    char path[CULM_PATH_MAX];
    struct culm_workload workload;
    struct culm_merge_inputs in;
    struct culm_rundir dir;
    bool claimed;
    struct culm_sink *log, *watch;
    struct culm_function_sink function; /* of the options; `watch`, unless that is another */
    bool ran;
    bool sink_failed; /* the log or the watcher */
    uint64_t began_ns;
    struct culm_device *device;
    struct culm_share share;
    struct culm_merge_model **models;
    struct culm_judge *judge;        /* [queries] */
    struct culm_search_query *query; /* [queries] */
    struct culm_answer **wanted;     /* [queries][frames checked]: originals' answers */
    bool *may;                       /* [models]: whether it may be merged */
    int64_t have;                    /* current round that a resumed run found; -1: none */
    int64_t have_saves;              /* what it saves, in bytes */
    bool have_measured;              /* it is the last round of a run that ended */
    bool changed;                    /* queries or frames are not those of the package so far */
    int64_t after;                   /* rounds behind this one are by the present ones */
    /* They go on from that one (merge_from.c): the round, and what is kept of it. */
    bool goes_on;
    bool *again; /* [queries]: its frames, labels, score or target are others than then */
    struct culm_package_round from; /* zeroed until it is read */
    int32_t *of;                    /* [models]: the query of `from` with the same model; -1 */
    bool *tried;                    /* [models] */
    struct culm_search_seed seed;
    int64_t counts; /* the current round of the package; -1: none yet */
    bool apart;     /* found other rounds than an earlier run, having had other time */
    atomic_bool stopped;
};

/* Measured on frames that were held out. */
/* Boxes of a detector at the query's score, by class. */
struct merging_tally {
    struct culm_accuracy_count *of; /* [count] owned; NULL: not taken */
    int32_t count;
};

struct culm_merging_measured {
    double *original, *merged;   /* [queries] accuracies */
    double *agreed;              /* [queries] share of the original's answers that it gives */
    struct culm_answer **wanted; /* [queries][held out]: the originals' answers */
    /* [queries][counted[q]]: how its answers differ from these, evenly thinned out; owned */
    struct culm_package_sample **sample;
    int32_t *counted;
    double *overlap; /* [queries] of detectors: mean of the boxes that it finds, with those of its
                        original; -1: none */
    struct merging_tally *was,
        *is; /* [queries] of detectors: as originals, and as they ship; owned */
};

static inline enum culm_status merging_no_memory(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "merging: out of memory");
}

/* merge_events.c */

void merging_event(struct culm_merging *m, const char *name, json_t *take_members);
void merging_warn(struct culm_merging *m, const char *text);
/* The names of the queries whose models share something. */
json_t *merging_sharing(const struct culm_merging *m, const struct culm_share *share);
/* Processor seconds of this process, which do not depend on how busy the machine is. */
double merging_cpu_s(void);
/* For culm_search_ops. */
void merging_tell_attempt(void *ctx, int32_t round, int32_t group, const struct culm_search *search,
                          const char *way);
void merging_tell_check(void *ctx, int32_t round, const struct culm_search_query *query, bool ok);
void merging_tell_step(void *ctx, int64_t step, int64_t steps, double loss);

/* merge_rounds.c */

/* Describes everything as it is now as a round, which the caller releases, even after a failure.
 * `measured`: measurements to include; NULL: none yet. */
enum culm_status merging_round(const struct culm_merging *m, int64_t number,
                               const struct culm_merging_measured *measured,
                               struct culm_package_round *round, struct culm_error *error);
/* Writes the tensors of such a round that are not stored and intact yet. *ret_bytes: the bytes
 * written. */
enum culm_status merging_put(const struct culm_merging *m, const struct culm_package_round *round,
                             uint64_t *ret_bytes, struct culm_error *error);
/* Does that, and makes the round the current one. While there is no room for one that was worked
 * for, it waits and tries again, until it is stopped or some minutes have passed. */
enum culm_status merging_publish(struct culm_merging *m, const struct culm_package_round *round,
                                 uint64_t *ret_bytes, struct culm_error *error);
/* Publishes round 0, the originals; a resumed run only writes what is missing of it. */
enum culm_status merging_begin_rounds(struct culm_merging *m, struct culm_error *error);
/* The number that the search's round `round` gets in the package. */
static inline int64_t merging_number(const struct culm_merging *m, int32_t round) {
    return m->apart ? m->counts + 1 : m->after + round;
}
/* For culm_search_ops. */
enum culm_status merging_ship(void *ctx, int32_t round, struct culm_error *error);
enum culm_status merging_keep(void *ctx, const void *data, size_t len, struct culm_error *error);
enum culm_status merging_recall(void *ctx, void **ret_data, size_t *ret_len,
                                struct culm_error *error);

/* merge_promise.c */

/* Why the original's accuracy on these frames says nothing, as a clause for a message; `wanted`:
 * how many things are right there. */
const char *merging_nothing(const struct culm_merge_frames *frames, int64_t wanted);

/* Measures all queries on the frames that were held out, lets those that miss their targets give up
 * layers, or all of them, ships the result and reports it. */
enum culm_status merging_finish(struct culm_merging *m, struct culm_error *error);

/* merge_give_up.c */

/* Lets a model that misses a target on the frames that were held out share fewer layers, of at most
 * `most` bytes (0: as many as before), judged on frames that were set aside for this and those that
 * are checked. It may share none then. *ret_bytes: of the layers that it shares. */
enum culm_status merging_give_up(struct culm_merging *m, int32_t model, int64_t most,
                                 int64_t *ret_bytes, struct culm_error *error);

/* Whether a query meets its target on the frames set aside and those held out together, with its
 * model as it is now. `held`: its original's answers to those held out; *original: its accuracy there, and
 * then on all of them. *ret_accuracy: set only if frames were set aside. */
enum culm_status merging_unseen(struct culm_merging *m, size_t q, const struct culm_answer *held,
                                double *original, double *ret_accuracy, bool *ret_ok,
                                struct culm_error *error);

/* merge_classes.c */

/* Takes what the judge has counted last. */
enum culm_status merging_tally_take(const struct culm_judge *judge, struct merging_tally *tally,
                                    struct culm_error *error);
/* Publishes `classes`, and a warning of those of which nothing is found any more. */
void merging_tally_tell(struct culm_merging *m, size_t q, const struct merging_tally *was,
                        const struct merging_tally *is);

/* merge_show.c */

/* The workload that a configuration is. */
enum culm_status merging_load(const struct culm_config *config, struct culm_workload *ret_workload,
                              struct culm_error *error);

/* merge_from.c */

/* Compares the queries and their frames with those of the package so far. */
enum culm_status merging_compare(struct culm_merging *m, const struct culm_workload *before,
                                 struct culm_error *error);
/* Whether query number `of` of a round (-1: none) was made of that model. */
bool merging_is_of(const struct culm_merging *m, const struct culm_package_round *round, int32_t of,
                   int32_t model);
/* Whether the round has any of the queries, if only under another name. */
bool merging_has_any(const struct culm_merging *m, const struct culm_package_round *round);
/* Whether the round has other queries, or queries of other models. */
bool merging_has_changed(const struct culm_merging *m, const struct culm_package_round *round);
/* DIR/after says behind which round rounds are by the present queries and frames, and what has
 * changed; absent if nothing ever has. */
enum culm_status merging_write_after(struct culm_merging *m, struct culm_error *error);
enum culm_status merging_read_after(struct culm_merging *m, struct culm_error *error);
/* Reads what is kept, and tells. *ret_seed: borrowed, or NULL. */
enum culm_status merging_go_on(struct culm_merging *m, struct culm_search_seed **ret_seed,
                               struct culm_error *error);
/* Gives a query, whose parameters are there, the measurement of the round that merging goes on
 * from, if it is as it was then. */
void merging_take_measured(const struct culm_merging *m, size_t q,
                           const struct culm_package_round *round,
                           struct culm_package_query *query);
void merging_from_release(struct culm_merging *m);

/* merge_folder.c */

/* A package can only be continued with the method that it was started with, and its settings.
 * CULM_ERR_CONFIG otherwise. */
enum culm_status merging_same_workload(struct culm_merging *m, struct culm_error *error);
enum culm_status merging_claim(struct culm_merging *m, struct culm_error *error);
/* To call once all feeds have been read: writes what a resumed run is about. If a feed is wrong,
 * the package stays as it was. */
enum culm_status merging_begin(struct culm_merging *m, struct culm_error *error);
/* Removes what a run that was not resumed and has written no package yet has left behind. */
void merging_take_back(struct culm_merging *m);

#endif

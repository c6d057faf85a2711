/* Shared by the files of a merge; nobody else includes it. */
#ifndef CULM_RUN_MERGE_INTERNAL_H
#define CULM_RUN_MERGE_INTERNAL_H

#include "merge/package.h"
#include "merge/search.h"
#include "run/merge_commands.h"
#include "run/merge_inputs.h"
#include "run/rundir.h"

#include <signal.h>

struct culm_merging {
    struct culm_merging_options options;
    struct culm_workload workload;
    struct culm_merge_inputs in;
    struct culm_rundir dir;
    bool claimed;
    struct culm_sink *log, *watch;
    bool sink_failed; /* one of them */
    uint64_t began_ns;
    struct culm_device *device;
    struct culm_share share;
    struct culm_merge_model **models;
    struct culm_judge *judge;        /* [queries] */
    struct culm_search_query *query; /* [queries] */
    struct culm_answer **wanted;     /* [queries][frames that are checked] */
    bool *may;                       /* [models] */
    int64_t have;                    /* the round of the package that a resumed run found; -1 */
    int64_t have_saves;              /* bytes */
    bool have_measured;              /* that round is the last one of a run that ended */
    bool other_frames;               /* than those that the package was merged by so far */
    int64_t after;                   /* the round from which on rounds are of these frames */
    int64_t counts;                  /* the round of the package that counts; -1: none yet */
    bool apart; /* the search has come to other rounds than those that it found: with other time */
    volatile sig_atomic_t stopped;
};

/* On frames that were held out. */
struct culm_merging_measured {
    double *original, *merged;   /* [queries] accuracies */
    double *agreed;              /* [queries] of the merged one, by what the original answers */
    struct culm_answer **wanted; /* [queries][held out] that */
};

static inline enum culm_status culm_merging_no_memory(struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_MEMORY, "merging: out of memory");
}

/* merge_events.c */

void culm_merging_event(struct culm_merging *m, const char *name, json_t *take_members);
void culm_merging_warn(struct culm_merging *m, const char *text);
/* Names of the queries whose models share something. */
json_t *culm_merging_sharing(const struct culm_merging *m, const struct culm_share *share);
/* Seconds that processors worked for this process: what a busy machine does not change. */
double culm_merging_cpu_s(void);
/* Of culm_search_ops. */
void culm_merging_tell_attempt(void *ctx, int32_t round, int32_t group,
                               const struct culm_search *search, const char *way);
void culm_merging_tell_check(void *ctx, int32_t round, const struct culm_search_query *query,
                             bool ok);
void culm_merging_tell_step(void *ctx, int64_t step, int64_t steps, double loss);

/* merge_rounds.c */

/* Everything as it is now, as a round that the caller releases, also after a failure. `measured`: with what was measured at the
 * end; NULL: not yet. */
enum culm_status culm_merging_round(const struct culm_merging *m, int64_t number,
                                    const struct culm_merging_measured *measured,
                                    struct culm_package_round *round, struct culm_error *error);
/* Writes the tensors of such a round, but for those that are there as they should be. ret_bytes: what was written. */
enum culm_status culm_merging_put(const struct culm_merging *m,
                                  const struct culm_package_round *round, uint64_t *ret_bytes,
                                  struct culm_error *error);
/* The same, and it is the round that counts from then on. */
enum culm_status culm_merging_publish(struct culm_merging *m,
                                      const struct culm_package_round *round, uint64_t *ret_bytes,
                                      struct culm_error *error);
/* Round 0, the originals, which a resumed run finds. */
enum culm_status culm_merging_begin_rounds(struct culm_merging *m, struct culm_error *error);
/* The number in the package of the search's next round. */
int64_t culm_merging_number(const struct culm_merging *m, int32_t round);
/* Of culm_search_ops. */
enum culm_status culm_merging_ship(void *ctx, int32_t round, struct culm_error *error);
enum culm_status culm_merging_keep(void *ctx, const void *data, size_t len,
                                   struct culm_error *error);
enum culm_status culm_merging_recall(void *ctx, void **ret_data, size_t *ret_len,
                                     struct culm_error *error);

/* merge_promise.c */

/* Why the original's accuracy on such frames, where `wanted` things are right, says nothing; goes on with
 * which frames these are. */
const char *culm_merging_nothing(const struct culm_merge_frames *frames, int64_t wanted);

/* Measures all queries on frames that were held out, reverts those that miss, ships that, and says it. */
enum culm_status culm_merging_finish(struct culm_merging *m, struct culm_error *error);

/* merge_folder.c */

/* A package that is there goes on only with the models and the method that it began with. */
enum culm_status culm_merging_same_workload(struct culm_merging *m, struct culm_error *error);
enum culm_status culm_merging_claim(struct culm_merging *m, struct culm_error *error);
/* Feeds can be read. What a resumed run is about is written now: with a feed that is wrong all stays as it
 * was. */
enum culm_status culm_merging_begin(struct culm_merging *m, struct culm_error *error);
/* A run that was not resumed and has not come as far as a package leaves nothing. */
void culm_merging_take_back(struct culm_merging *m);

#endif

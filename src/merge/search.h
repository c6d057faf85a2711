/*
 * The search for what to share: attempts, checks, and what ships.
 *
 * An attempt shares some layers, finds weights for them, and checks every query on frames that are
 * neither fitted to nor held out. A result that meets its targets ships at once, as a round.
 * Attempts, checks and rounds are reported through `ops`, which also says when to stop.
 *
 * `culm`, for each group of models that belong together (search_groups.h), on aligned channels
 * (align.h):
 *   1. One model keeps its weights, and the others build on its layers (search_adopt.c), first
 *      without training, then with it (search_alone.h). One that cannot shares as many layers as
 *      need no training (search_some.h). If none can build on the model chosen first, others are
 *      tried in its place.
 *   2. If that leaves more than 3 % of what the group could save: all layers are shared jointly,
 *      fitted by least squares (fit.h). If that loses too much, only the layers that lose least
 *      for the bytes they save, as many as meet the targets. Then everything is trained, block by
 *      block (search_blocks.h) and as a whole (search_train.c); models that would miss their
 *      targets stop sharing some layers, and the next attempt shares fewer.
 *   3. Layers that do nothing in a model that builds on another are given the weights of any
 *      other layer, and in the end layers of the same model are tied (search_ties.h).
 * The objectness of detectors is adjusted before each check. At every check the models that meet
 * their targets ship without those that do not, if that saves more than what shipped before.
 *
 * `stem`: the longest common prefix, with the first model's weights and batch norms; half as long
 * for as long as targets are missed. `max`: every instance, with the first model's weights,
 * whatever the accuracy; it ships even if targets are missed. `none`: nothing. `gemel`,
 * `gemel-fixed`: see search_gemel.h.
 *
 * Thread: the device's.
 */
#ifndef CULM_MERGE_SEARCH_H
#define CULM_MERGE_SEARCH_H

#include "merge/fit.h"
#include "merge/judge.h"
#include "query/workload.h"

struct culm_search_query {
    const char *name;
    int32_t model;
    struct culm_judge *judge; /* of `model`, with the query's score; borrowed */
    struct culm_merge_frames check;
    const struct culm_answer *wanted; /* [check.count]: what the original answers */
    double original, target;          /* the original's accuracy on `check`; share to keep */
    double now;                       /* accuracy at the last check */
};

struct culm_search;

struct culm_search_ops {
    /* An attempt begins. `group` counts the attempts of a round from 0; for GEMEL, those of the
     * search. */
    void (*attempt)(void *ctx, int32_t round, int32_t group, const struct culm_search *search,
                    const char *way);
    void (*check)(void *ctx, int32_t round, const struct culm_search_query *query, bool ok);
    /* Makes the models as they are now durable, as round `round`. */
    enum culm_status (*ship)(void *ctx, int32_t round, struct culm_error *error);
    /* Reports a step of training. */
    void (*step)(void *ctx, int64_t step, int64_t steps, double loss);
    bool (*stop)(void *ctx); /* true: the search ends with CULM_ERR_STOPPED */
    /* The share of the available time that is used up; from 1 on no new attempt begins. */
    double (*spent)(void *ctx);
    /* For a search that goes on in another process. `keep` durably stores these bytes in place of
     * the previous ones; `recall` returns those stored last, or NULL if there are none, for the
     * caller to free. Both may be NULL: then a search always starts over, and arrives at the same
     * result. */
    enum culm_status (*keep)(void *ctx, const void *data, size_t len, struct culm_error *error);
    enum culm_status (*recall)(void *ctx, void **ret_data, size_t *ret_len,
                               struct culm_error *error);
};

struct culm_search_seed;

struct culm_search {
    struct culm_merge_model **models;
    int32_t count;
    struct culm_share *share;
    const struct culm_merge_frames *frames; /* [count]: to fit to */
    struct culm_search_query *query;
    int32_t query_count;
    const bool *may; /* [count]: whether the model may be merged */
    const struct culm_merge_config *config;
    struct culm_device *device;
    const struct culm_search_ops *ops;
    void *ctx;
    /* What `culm` goes on from (search_seed.h); NULL: the originals. Borrowed, and changed. */
    struct culm_search_seed *seed;
    int32_t round; /* the last that shipped; 0: none */
    int32_t tried; /* attempts since then */
    double until;  /* share of the time after which no attempt begins; 0: all of it */
};

/* Runs the search of config->method. Afterwards models and share are as shipped last; if nothing
 * shipped, the originals, sharing nothing. CULM_ERR_STOPPED if ops->stop said so; errors of
 * `ops`. */
enum culm_status culm_search_run(struct culm_search *search, struct culm_error *error);

/* After a search, lets a model that misses a target on query.check share fewer layers: as many as
 * meet all targets of its queries there without further training, of at most `most` bytes together,
 * and none if that is none. Its other weights are fitted anew. The other models keep theirs.
 * *ret_bytes: of the layers that it shares then. Reports attempts and checks. */
enum culm_status culm_search_give_up(struct culm_search *search, int32_t model, int64_t most,
                                     int64_t *ret_bytes, struct culm_error *error);

#endif

/*
 * What is to be shared: attempts, checks, and what ships.
 *
 * Models are merged for queries. An attempt shares some layers, makes their weights, and checks every
 * query on frames that are neither fitted to nor held out. What meets all targets ships at once, as a
 * round. What is tried, checked and shipped is told to `ops`, which also says when to stop.
 *
 * `culm`: channels aligned (align.h); each group of models that belong together for itself (search_groups.h).
 * Models take over the layers of one of them (search_adopt.c), which is another where nobody can build on the first as it is: first
 * without training, then with it (search_alone.c). Where
 * that leaves more than a little: everything at once, without training; if that is too much, the layers
 * that lose least for their bytes (fit.h), as many as go; then training of everything, block by block
 * (search_blocks.h) and jointly (search_train.c), in which layers of models that would not meet their targets leave; of
 * less, where that comes nowhere near. Detectors are checked as sure of their boxes as is best. At each check, what
 * meets its targets ships without the models that do not, if that saves more than what shipped before. Layers that are
 * idle in a model that took over another's share with any, and in the end those of one model with each other
 * (search_ties.h).
 * `stem`: the longest common prefix, with the first model's weights and batch norms, frozen; its half
 * while queries miss their targets. `max`: every instance, with the first model's weights, whatever
 * becomes of accuracy. `none`: nothing.
 * Thread: the device's.
 */
#ifndef CULM_MERGE_SEARCH_H
#define CULM_MERGE_SEARCH_H

#include "merge/fit.h"
#include "merge/judge.h"
#include "merge/workload.h"

struct culm_search_query {
    const char *name;
    int32_t model;
    struct culm_judge *judge; /* of the model, with the query's score; borrowed */
    struct culm_merge_frames check;
    const struct culm_answer *wanted; /* [check.count] */
    double original, target;          /* accuracy of the original there; share of it */
    double now;                       /* of the last check */
};

struct culm_search;

struct culm_search_ops {
    /* An attempt begins: `group` counts from 0 in its round; those of GEMEL, from 0 in the search. */
    void (*attempt)(void *ctx, int32_t round, int32_t group, const struct culm_search *search,
                    const char *way);
    void (*check)(void *ctx, int32_t round, const struct culm_search_query *query, bool ok);
    /* Everything meets its target: makes it durable. */
    enum culm_status (*ship)(void *ctx, int32_t round, struct culm_error *error);
    /* Steps of training, for whoever watches. */
    void (*step)(void *ctx, int64_t step, int64_t steps, double loss);
    bool (*stop)(void *ctx); /* CULM_ERR_STOPPED then */
    /* Share of the available time that is gone; from 1 on no new attempt begins. */
    double (*spent)(void *ctx);
    /* What a search needs to go on in another process: keeps these bytes, durably, in place of those
     * before; gives back what was kept last, NULL for nothing, which the caller frees. Both may be NULL:
     * then a search always starts over, and comes to the same result. */
    enum culm_status (*keep)(void *ctx, const void *data, size_t len, struct culm_error *error);
    enum culm_status (*recall)(void *ctx, void **ret_data, size_t *ret_len,
                               struct culm_error *error);
};

struct culm_search {
    struct culm_merge_model **models;
    int32_t count;
    struct culm_share *share;
    const struct culm_merge_frames *frames; /* [count] to fit to */
    struct culm_search_query *query;
    int32_t query_count;
    const bool *may; /* [count] models that may be merged */
    const struct culm_merge_config *config;
    struct culm_device *device;
    const struct culm_search_ops *ops;
    void *ctx;
    int32_t round; /* of the last that shipped; 0: none */
    int32_t tried; /* attempts since then */
    double until;  /* share of the time after which nothing begins; 0: all of it */
};

/* At the end models and share are what shipped last: the originals, and nothing, if nothing did. */
enum culm_status culm_search(struct culm_search *search, struct culm_error *error);

#endif

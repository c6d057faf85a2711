/*
 * GEMEL's search (NSDI 2023): which layers to try next, given how the last attempt went.
 *
 * Groups of instances (match.h) are tried in the order of what they would save. An attempt shares
 * what is confirmed and what is on trial; whoever runs the training reports which models met their
 * targets. For those models the trial is confirmed. Of what failed for the others the first half is
 * tried again, unless the next group promises to save more.
 *
 *     culm_gemel_begin(&gemel, &match, &groups, fixed, error);
 *     while (!culm_gemel_over(&gemel)) {
 *         train culm_gemel_pool(&gemel), which share culm_gemel_shared(&gemel, i) of instance i;
 *         culm_gemel_tried(&gemel, the models that met their targets);
 *     }
 *
 * `fixed` repairs three defects of the published loop: an instance that only one model is left in
 * is neither tried nor confirmed; a model succeeds only together with the models that it shares
 * confirmed layers with, unless these can do with the new values, since otherwise the layer would
 * no longer be the same in both; and if many models fail together, half of the models are tried
 * again before half of the layers.
 *
 * Sets of models are masks: bit i is model i, of at most 64. The search sees no weights and no
 * clock. Thread: one.
 */
#ifndef CULM_MERGE_GEMEL_H
#define CULM_MERGE_GEMEL_H

#include "base/buf.h"
#include "merge/match.h"

struct culm_gemel_item {
    int32_t instance;
    uint64_t models;
};

struct culm_gemel {
    const struct culm_match *match;         /* borrowed */
    const struct culm_match_groups *groups; /* borrowed */
    bool fixed;
    uint64_t *confirmed;           /* [instances]: the models for which it is confirmed */
    struct culm_gemel_item *trial; /* [trial_count]: what this attempt tries */
    int32_t trial_count;           /* 0: the search is over */
    int32_t next;                  /* in groups->order: where the next group starts */
    int32_t attempts;
};

/* Call culm_gemel_release even after a failure. CULM_ERR_UNSUPPORTED: more than 64 models;
 * CULM_ERR_MEMORY. */
enum culm_status culm_gemel_begin(struct culm_gemel *gemel, const struct culm_match *match,
                                  const struct culm_match_groups *groups, bool fixed,
                                  struct culm_error *error);
void culm_gemel_release(struct culm_gemel *gemel); /* fine on a zeroed struct */

bool culm_gemel_over(const struct culm_gemel *gemel);
/* Which models share an instance in this attempt: those that it is confirmed for or on trial for.
 * At most one bit set: nobody shares it. Once the search is over: what is confirmed. */
uint64_t culm_gemel_shared(const struct culm_gemel *gemel, int32_t instance);
/* Which models are trained: those with something on trial, and those that share a layer with
 * them. */
uint64_t culm_gemel_pool(const struct culm_gemel *gemel);
/* Bytes that the trial would save on top of what is confirmed, if only `set` succeeded. */
int64_t culm_gemel_worth(const struct culm_gemel *gemel, uint64_t set);
/* The models of `met` that may be confirmed; all of them unless `fixed` is set. `held`: models that
 * did not meet their targets in this attempt, but would with their own layers as before and the new
 * values of the layers that are confirmed for them. */
uint64_t culm_gemel_sound(const struct culm_gemel *gemel, uint64_t met, uint64_t held);
/* Reports how the attempt went. With `fixed`, `met` has to come from culm_gemel_sound.
 * nearest[nearest_count]: the pool's models, nearest to its target first; may be NULL. */
void culm_gemel_tried(struct culm_gemel *gemel, uint64_t met, const int32_t *nearest,
                      int32_t nearest_count);
int64_t culm_gemel_saved(const struct culm_gemel *gemel); /* bytes saved by what is confirmed */

/* Saves the search as text and restores it, to continue in another process. Text that belongs to
 * another match or was tampered with: CULM_ERR_FORMAT, and `gemel` is as after culm_gemel_begin. */
enum culm_status culm_gemel_write(const struct culm_gemel *gemel, struct culm_buf *out,
                                  struct culm_error *error);
enum culm_status culm_gemel_read(struct culm_gemel *gemel, const char *text, size_t len,
                                 struct culm_error *error);

#endif

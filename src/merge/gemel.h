/*
 * GEMEL's search (NSDI 2023): which layers are tried together next, given how the last attempt went.
 *
 * Groups of instances (match.h) come in the order of what they would save. An attempt shares what is
 * confirmed and what is on trial; whoever trains says which models answer well enough then. For those
 * the trial is confirmed; of what failed for the others the first half is tried again, unless the next
 * group promises more.
 *
 *     culm_gemel_begin(&gemel, &match, &groups, fixed, error);
 *     while (!culm_gemel_over(&gemel)) {
 *         train culm_gemel_pool(&gemel), which share culm_gemel_shared(&gemel, i) of instance i;
 *         culm_gemel_tried(&gemel, the models that met their targets);
 *     }
 *
 * `fixed` leaves out what is amiss in the published loop: instances with one model left are neither
 * tried nor confirmed; models succeed only if those that they share confirmed layers with can do with
 * the new numbers of these, since otherwise they would keep others; where many models fail together,
 * half of them are tried again, before half of the layers.
 *
 * Sets of models are masks: bit i is model i, of at most 64. No numbers and no time. Thread: one.
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
    uint64_t *confirmed;           /* [instances] */
    struct culm_gemel_item *trial; /* [trial_count] */
    int32_t trial_count;           /* 0: the search is over */
    int32_t next;                  /* in groups->order: where the next group begins */
    int32_t attempts;
};

/* The caller releases it, also after a failure. CULM_ERR_UNSUPPORTED: more than 64 models. */
enum culm_status culm_gemel_begin(struct culm_gemel *gemel, const struct culm_match *match,
                                  const struct culm_match_groups *groups, bool fixed,
                                  struct culm_error *error);
void culm_gemel_release(struct culm_gemel *gemel); /* fine on a zeroed struct */

bool culm_gemel_over(const struct culm_gemel *gemel);
/* Which models share an instance in this attempt: what is confirmed and what is on trial; 0 or one bit:
 * nobody shares it. Once the search is over, what is confirmed. */
uint64_t culm_gemel_shared(const struct culm_gemel *gemel, int32_t instance);
/* Which models are trained: those on trial, and all that share a layer with one of them. */
uint64_t culm_gemel_pool(const struct culm_gemel *gemel);
/* What the trial would save beyond what is confirmed, if the models in `set` alone succeeded. */
int64_t culm_gemel_worth(const struct culm_gemel *gemel, uint64_t set);
/* Of `met`, those that may be confirmed: all of it, unless `fixed` (above). `held`: models that are not
 * in `met`, but answer well enough with all their own layers as before and the new numbers of those
 * that are confirmed. */
uint64_t culm_gemel_sound(const struct culm_gemel *gemel, uint64_t met, uint64_t held);
/* How the attempt went; nearest[models]: the models of the pool, those that are nearest to their targets
 * first, or NULL. `fixed`: met is what culm_gemel_sound gave. */
void culm_gemel_tried(struct culm_gemel *gemel, uint64_t met, const int32_t *nearest,
                      int32_t nearest_count);
int64_t culm_gemel_saved(const struct culm_gemel *gemel); /* bytes, by what is confirmed */

/* All of it as text, and back: for a search that goes on in another process. Of another match, or
 * altered: CULM_ERR_FORMAT, and `gemel` is as it was after culm_gemel_begin. */
enum culm_status culm_gemel_write(const struct culm_gemel *gemel, struct culm_buf *out,
                                  struct culm_error *error);
enum culm_status culm_gemel_read(struct culm_gemel *gemel, const char *text, size_t len,
                                 struct culm_error *error);

#endif

/*
 * What the models of a workload answer on frames of their feeds, and how good it is to answer only
 * some of the frames: the others get the latest answer there is.
 *
 * Taken are the last frames of a feed, `merge.held_out` of it, which merging never sees. What is
 * right there is what labels say, or else what the original answers. Thread: one.
 */
#ifndef CULM_RUN_EDGE_ANSWERS_H
#define CULM_RUN_EDGE_ANSWERS_H

#include "run/edge_catalog.h"
#include "run/right.h"
#include "vision/boxes.h"

/* Frames of a feed at most, of those that were held out. */
#define CULM_EDGE_ANSWERS_FRAMES 600

struct culm_edge_taken {  /* of a feed */
    int64_t first, count; /* frames of the file */
    int64_t frames;       /* of the whole feed; -1: more than are counted */
    int32_t width;        /* of a frame */
    /* Frames a second, as recorded; 0: pictures that do not follow one another in time. */
    double rate;
};

struct culm_edge_answers {
    struct culm_edge_taken taken[CULM_EDGE_FEEDS_MAX];
    /* [count of the feed]; NULL: no model is there. */
    struct culm_answer *answer[CULM_EDGE_QUERIES_MAX];
    int32_t *label[CULM_EDGE_QUERIES_MAX]; /* [count]; NULL: none */
    /* Of all frames, where answers are boxes or points. */
    struct culm_right right[CULM_EDGE_QUERIES_MAX];
};

/* Of the originals, on `most` frames of each feed at most; where a model or its weights are not
 * there, the query has none. Release it also after a failure. */
enum culm_status culm_edge_answers_read(const struct culm_edge_catalog *catalog, int64_t most,
                                        struct culm_edge_answers *answers,
                                        struct culm_error *error);
/* Of the models of a package, on the same frames; no labels. A query that it does not have, or has
 * as it was, is answered by the original: NULL. */
enum culm_status culm_edge_answers_packed(const struct culm_edge_catalog *catalog, const char *dir,
                                          const struct culm_edge_answers *originals,
                                          struct culm_edge_answers *answers,
                                          struct culm_error *error);
void culm_edge_answers_release(const struct culm_edge_catalog *catalog,
                               struct culm_edge_answers *answers); /* fine on a zeroed struct */

/* The accuracy of a query's stream of `frames` at `fps`, of which those that are marked in
 * answered[frames] are answered by `given` (NULL: the originals) and the others with the latest
 * answer before them. The taken frames come over and over. CULM_ERR_NOT_FOUND, error untouched:
 * nothing can be said. */
enum culm_status culm_edge_answers_accuracy(const struct culm_edge_catalog *catalog,
                                            const struct culm_edge_answers *originals,
                                            const struct culm_edge_answers *given, int32_t query,
                                            const uint8_t *answered, int64_t frames, double fps,
                                            double *ret_accuracy, struct culm_error *error);

#endif

/*
 * What the models of a workload answer on frames of their feeds, and how accurate a stream is in
 * which only some frames are answered in time and the others get the latest answer before them.
 *
 * Frames are taken from the end of a feed that merging never sees (`merge.held_out`). In a clip without
 * labels it is found by time. Of an address that may have no end (query/feeds.h) they are taken from its beginning. What is right
 * is what labels say or, without labels, what the original answers.
 *
 * Thread: one.
 */
#ifndef CULM_LIVE_ANSWERS_H
#define CULM_LIVE_ANSWERS_H

#include "live/catalog.h"
#include "query/labels.h"
#include "vision/boxes.h"

/* By default, the most frames to take of a feed. */
#define CULM_LIVE_ANSWERS_FRAMES 600

struct culm_live_taken {  /* the frames taken of one feed */
    double from_s;        /* where they begin, in seconds; 0: they are found by number */
    int64_t first, count; /* from there; count 0: no model asked for any */
    int64_t frames;       /* of the whole feed; -1: not known, and there are no labels */
    /* Frames a second of the recording; 0: pictures that do not follow one another in time. */
    double rate;
};

struct culm_live_answers {
    struct culm_live_taken taken[CULM_EDGE_FEEDS_MAX];
    int32_t *width[CULM_EDGE_FEEDS_MAX]; /* [count of the feed] of a frame; NULL: none was run on */
    /* [count of the feed]; NULL: the query has no model, or none of these weights. */
    struct culm_answer *answer[CULM_EDGE_QUERIES_MAX];
    int32_t *label[CULM_EDGE_QUERIES_MAX]; /* [count of the feed]; NULL: none */
    /* Labels of all frames of the feed, where answers are boxes or points. */
    struct culm_labels right[CULM_EDGE_QUERIES_MAX];
};

/* Runs the originals on at most `most` frames of each feed, and reads their labels. A query whose
 * model or weights are missing gets no answers. Must be released after a failure too. */
enum culm_status culm_live_answers_read(const struct culm_live_catalog *catalog, int64_t most,
                                        struct culm_live_answers *answers,
                                        struct culm_error *error);
/* Runs the models of the package `dir` on the same frames; reads no labels. A query that the
 * package lacks or has left unchanged gets no answers: those of the original are to be used. Must
 * be released after a failure too. */
enum culm_status culm_live_answers_packed(const struct culm_live_catalog *catalog, const char *dir,
                                          const struct culm_live_answers *originals,
                                          struct culm_live_answers *answers,
                                          struct culm_error *error);
void culm_live_answers_release(const struct culm_live_catalog *catalog,
                               struct culm_live_answers *answers); /* fine on a zeroed struct */

/* The accuracy of a query on a stream of `frames` frames at `fps`, which shows the taken frames
 * over and over. Frames marked in answered[frames] get the answers of `given` (NULL: the
 * originals), the others the latest answer before them. CULM_ERR_NOT_FOUND, with `error` untouched:
 * there is nothing to compare with. CULM_ERR_MEMORY. */
enum culm_status culm_live_answers_accuracy(const struct culm_live_catalog *catalog,
                                            const struct culm_live_answers *originals,
                                            const struct culm_live_answers *given, int32_t query,
                                            const uint8_t *answered, int64_t frames, double fps,
                                            double *ret_accuracy, struct culm_error *error);

#endif

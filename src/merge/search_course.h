/*
 * What training one model (search_alone.h) and training several jointly (search_train.c) have in
 * common: the schedule of the learning rate, and how a model that misses its targets gives up
 * layers.
 *
 * Private to search.h.
 */
#ifndef CULM_MERGE_SEARCH_COURSE_H
#define CULM_MERGE_SEARCH_COURSE_H

#include "merge/search.h"

/* The learning rate of a step: rises during the first steps of all (`taken`: steps so far) and
 * falls to a twentieth of `first` while `done` goes from 0 to 1. */
double search_course_rate(double first, int64_t taken, double done);

struct search_leaving {
    void *ctx;
    /* Whether `layer` should be given up before `other`; if neither should, the model's first
     * goes. */
    bool (*before)(void *ctx, int32_t layer, int32_t other);
    /* The layer has been given up. Its instance may have only one member left, which is then not
     * shared any more. */
    void (*left)(void *ctx, int32_t layer);
};

/* Gives up layers of a model one after another until `bytes` of them are gone. False: the model
 * shared fewer bytes, and shares nothing now. */
bool search_course_let_go(const struct culm_search *s, int32_t model, double bytes,
                          const struct search_leaving *leaving);

#endif

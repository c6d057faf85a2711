/*
 * What training alone (search_alone.h) and training jointly (search_train.c) have in common: how the rate goes, and how a
 * model that does not meet its targets lets layers go. Inside of search.h; not for others.
 */
#ifndef CULM_MERGE_SEARCH_COURSE_H
#define CULM_MERGE_SEARCH_COURSE_H

#include "merge/search.h"

/* The rate of a step: it grows over the first steps of all, `taken` so far, and falls to a twentieth of `first` while `done`
 * goes from 0 to 1. */
double search_course_rate(double first, int64_t taken, double done);

struct search_leaving {
    void *ctx;
    /* Whether a layer of the model leaves before another; of those of which neither does, the first of the model. */
    bool (*before)(void *ctx, int32_t layer, int32_t other);
    /* It has left: it may be that its instance is shared by nobody now. */
    void (*left)(void *ctx, int32_t layer);
};

/* Of the layers that a model shares one after another leaves, until so many bytes have. False: that is all of them. */
bool search_course_let_go(const struct culm_search *s, int32_t model, double bytes,
                          const struct search_leaving *leaving);

#endif

/*
 * Sharing only some of the layers that one model could share, without training: as many as keep its
 * targets.
 *
 * Each layer that takes over weights is tried alone, on frames to fit to: how much of what the
 * original puts out there would be lost. Layers are ordered by the bytes that they save for that,
 * and a search by halves finds how many of them, best first, the model can take over. Everything
 * else of the model, batch norms above all, starts from its original and is fitted to make up for
 * them (culm_fit_alone).
 *
 * Private to search.h.
 */
#ifndef CULM_MERGE_SEARCH_SOME_H
#define CULM_MERGE_SEARCH_SOME_H

#include "merge/search.h"

struct search_some {
    int32_t model;
    /* [layers of the model]: those that may share. They have to be entered in `share`, and the
     * model's values of them have to be the weights that they share. */
    const bool *may;
    int64_t most;  /* limit on the bytes of these; 0: none */
    int32_t tries; /* limit on how often the model is fitted and checked */
    /* Called when more layers than before meet all targets, with models, share and the accuracy of
     * the queries as they are then. NULL: not called. */
    enum culm_status (*found)(void *ctx, struct culm_error *error);
    void *ctx;
};

/* Afterwards the model shares the most layers that met its targets on query.check, *ret_bytes of
 * them; if there are none, it shares nothing and has its original's values, with its channels as
 * they were aligned. The accuracy of its queries is as checked. */
enum culm_status search_some(struct culm_search *s, const struct search_some *some,
                             int64_t *ret_bytes, struct culm_error *error);

#endif

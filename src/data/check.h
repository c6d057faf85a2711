/*
 * Looking at all samples before they are needed: which cannot be used, and why.
 *
 * Opening a source looks at what it can see cheaply: the lines of pairs, labels, ids of token files
 * that are not too large. Whether a picture can be decoded is seen when it is. Here every sample is
 * made as training would make it, on several threads.
 * Thread: any; what is told is told by the calling thread, sorted by file and place.
 */
#ifndef CULM_DATA_CHECK_H
#define CULM_DATA_CHECK_H

#include "data/source.h"

#define CULM_CHECK_FIRST 100 /* samples that tell how long all take */

struct culm_check_options {
    int threads;   /* at least 1 */
    double most_s; /* where the first samples say that it takes longer, it ends there; 0: never */
    /* Now and then; `total` in samples. NULL: not told. */
    void (*progress)(void *ctx, int64_t done, int64_t total);
    culm_data_bad_fn *bad;
    void *ctx;
};
struct culm_check_result {
    int64_t samples;  /* those left out among them */
    int64_t left_out; /* by the list; nothing is told of them */
    int64_t bad;      /* told that no sample can be made of it */
    int64_t doubtful; /* told that it is usable */
    bool all;         /* false: only the first ones were looked at */
    double all_s;     /* what all would take, or took */
};

/* The samples of an open source: what culm_source_is_unseen says has not been looked at. A bad sample
 * is no failure. CULM_ERR_MEMORY, CULM_ERR_CHANGED: a file is not as it was pinned. */
enum culm_status culm_check_source(const struct culm_source *source,
                                   const struct culm_check_options *options,
                                   struct culm_check_result *ret_result, struct culm_error *error);
/* All of what the options name, held out or not; text is looked at for bytes that are not UTF-8, too.
 * Fails where opening fails for another reason than single samples. */
enum culm_status culm_check_data(const struct culm_source_options *source,
                                 const struct culm_check_options *options,
                                 struct culm_check_result *ret_result, struct culm_error *error);

#endif

/*
 * Checkpoints of a run whose leader is not the last one: they count once they are kept where the next one finds them, apart
 * from the directory of whoever leads now.
 *
 * Thread: any; calls wait.
 */
#ifndef CULM_STORE_APART_H
#define CULM_STORE_APART_H

#include "base/file.h"

#include <stdint.h>

struct culm_apart;

struct culm_apart_ops {
    size_t size;
    /* The whole checkpoint at `path`, of `step`, is there when this returns CULM_OK; else it does not count. */
    enum culm_status (*keep)(struct culm_apart *apart, int64_t step, const char *path,
                             struct culm_error *error);
    /* The newest whole one, up to `most`. CULM_ERR_NOT_FOUND: there is none; CULM_ERR_FORMAT: none is whole. */
    enum culm_status (*find)(struct culm_apart *apart, int64_t most, int64_t *ret_step,
                             struct culm_error *error);
    /* Fetches it to where run_dir has its own, unless it is there. */
    enum culm_status (*fetch)(struct culm_apart *apart, const char *run_dir, int64_t step,
                              struct culm_error *error);
    /* It is not the run's: it is not there any more, and another one of that step may be kept. */
    enum culm_status (*forget)(struct culm_apart *apart, int64_t step, struct culm_error *error);
    /* A folder whose events.jsonl has those of the reigns before, as far as the newest one tells; there is none if it does not. */
    enum culm_status (*before)(struct culm_apart *apart, char ret_dir[CULM_PATH_MAX],
                               struct culm_error *error);
};

struct culm_apart { /* first member of an implementation */
    const struct culm_apart_ops *ops;
};

#endif

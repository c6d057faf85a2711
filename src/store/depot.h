/*
 * A depot: a run's checkpoints, for a node that does not see the run directory. It writes its pieces into a folder of its
 * own and sends them, and loads from copies that it fetches there.
 *
 * Thread: one at a time for each object; any. Calls wait until they are done.
 */
#ifndef CULM_STORE_DEPOT_H
#define CULM_STORE_DEPOT_H

#include "store/checkpoint.h"

struct culm_depot;

struct culm_depot_ops {
    size_t size;
    /* Sends a piece that was written to the temporary checkpoint of `step` in run_dir, to that of the run, or of the folder
     * `to` that was named for a step that is held; "": none. Errors as of writing it there: CULM_ERR_IO, ... */
    enum culm_status (*put)(struct culm_depot *depot, const char *run_dir, int64_t step,
                            const struct culm_piece *piece, const char *to,
                            const struct culm_read_hook *hook, struct culm_error *error);
    /* Fetches the run's checkpoint of `step`, whole, to where run_dir has its own; others there go. The same one, by its
     * manifest, stays. CULM_ERR_NOT_FOUND, CULM_ERR_FORMAT (of what is there), CULM_ERR_IO, CULM_ERR_CLOSED. */
    enum culm_status (*get)(struct culm_depot *depot, const char *run_dir, int64_t step,
                            char ret_path[CULM_PATH_MAX], const struct culm_read_hook *hook,
                            struct culm_error *error);
};

struct culm_depot { /* first member of an implementation */
    const struct culm_depot_ops *ops;
};

/* What executors do, with a depot and without one (NULL), where run_dir is the run's. Errors are as above. */

/* Where a piece is written: in the folder `to` that was named ("": none), or in run_dir; with a depot, always in run_dir. */
const char *culm_depot_folder(const struct culm_depot *depot, const char *run_dir, const char *to);
/* With a depot, sends the piece that was written there, if that went well (`written`), and leaves nothing of it behind. Returns
 * `written` where it did not. */
enum culm_status culm_depot_hand_over(struct culm_depot *depot, const char *run_dir, int64_t step,
                                      enum culm_status written, const struct culm_piece *piece,
                                      const char *to, const struct culm_read_hook *hook,
                                      struct culm_error *error);
/* The run's checkpoint of `step`: where it was fetched to; without a depot, `path`, where the run has it. */
enum culm_status culm_depot_find(struct culm_depot *depot, const char *run_dir, int64_t step,
                                 const char *path, char ret_path[CULM_PATH_MAX],
                                 const struct culm_read_hook *hook, struct culm_error *error);

#endif

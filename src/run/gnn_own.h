/*
 * What a run on a graph left in its directory, held against what a later command finds: its cut,
 * which decides the order of sums; the files of its graph; the weights that it ended with.
 *
 * A command opens the run's setup with `cut` and `pins`, and has the result checked. What the
 * directory does not record is not compared: older versions recorded less, and a run that has not
 * ended has no weights to compare with.
 *
 * Thread: the caller's.
 */
#ifndef CULM_RUN_GNN_OWN_H
#define CULM_RUN_GNN_OWN_H

#include "base/file.h"
#include "base/pins.h"
#include "gnn/setup.h"

struct culm_gnn_own {
    const char
        *dir; /* borrowed; NULL in a zeroed struct: there is no run, and nothing to compare */
    struct culm_gnn_cut cut; /* its path is `path` */
    const char *advice;      /* where files have changed; borrowed; NULL: to put them back */
    struct culm_pins *pins;  /* owned; the files that are opened with them */
    char path[CULM_PATH_MAX];
};

/* Of the run in `dir`. The struct must not move afterwards. */
enum culm_status culm_gnn_own_find(const char *dir, struct culm_gnn_own *own,
                                   struct culm_error *error);
/* What opening the run's graph with `cut` and `pins` came to, in `opened`, `setup` and `error`: if
 * that is not the run's graph, or not its cut, CULM_ERR_CONFIG instead, with an error that says so.
 * ret_note[CULM_ERROR_MAX]: a warning, or "". */
enum culm_status culm_gnn_own_check(const struct culm_gnn_own *own, enum culm_status opened,
                                    const struct culm_gnn_setup *setup, char *ret_note,
                                    struct culm_error *error);
/* CULM_ERR_CONFIG if the run in `dir` ended with weights of another hash. */
enum culm_status culm_gnn_own_check_weights(const char *dir, const char *sha256,
                                            struct culm_error *error);
/* After the setup is closed. Fine on a zeroed struct. */
void culm_gnn_own_release(struct culm_gnn_own *own);

#endif

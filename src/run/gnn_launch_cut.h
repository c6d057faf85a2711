/*
 * The cut of the graph of a launch (gnn_launch.h): where it comes from, and that it is the run's.
 *
 * Thread: the caller's.
 */
#ifndef CULM_RUN_GNN_LAUNCH_CUT_H
#define CULM_RUN_GNN_LAUNCH_CUT_H

#include "gnn/setup.h"
#include "run/gnn_launch.h"

/* Reads the graph, whose files are pinned, and cuts it, or takes the cut that the options name. A resumed run has the one that it was
 * begun with, in its directory; where several may lead, it is made anew. The SHA-256 is that of culm_gnn_cut_sha256. The caller closes
 * *ret_setup. CULM_ERR_STOPPED: the run was asked to stop. */
enum culm_status culm_gnn_launch_open(const struct culm_gnn_launch_options *o,
                                      struct culm_pins *pins, struct culm_gnn_setup **ret_setup,
                                      char ret_sha256[CULM_SHA256_HEX], struct culm_error *error);
/* Checks that the plan in the file at `path` (NULL: there is none) is the one that this configuration leads to with the same cut. */
enum culm_status culm_gnn_launch_compare_plan(const char *path, const struct culm_gnn_plan *plan,
                                              const char *sha256, struct culm_error *error);
/* Of one of several that may lead: that its cut is the one of plan.json, which comes from whoever created the run. */
enum culm_status culm_gnn_launch_check_cut(const struct culm_gnn_launch_options *o,
                                           const char *sha256, struct culm_error *error);
/* Writes the cut, for nodes that start from now on, and for --resume; what a resumed run has stays. */
enum culm_status culm_gnn_launch_write_cut(const struct culm_launcher_options *run,
                                           const struct culm_gnn_setup *setup,
                                           struct culm_error *error);

#endif

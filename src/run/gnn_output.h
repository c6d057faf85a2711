/*
 * What a command on graphs may write its result to. Thread: any.
 */
#ifndef CULM_RUN_GNN_OUTPUT_H
#define CULM_RUN_GNN_OUTPUT_H

#include "base/status.h"

/* CULM_ERR_CONFIG if `path` is not for a plain file (as culm_file_may_write), lies in the folder of
 * a graph, or is a file of a run. To be asked before work is done for it. */
enum culm_status culm_gnn_output_check(const char *path, struct culm_error *error);

#endif

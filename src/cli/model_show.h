/*
 * What a model costs before it is trained: parameters, FLOPs, memory, and the stages it is cut
 * into.
 *
 * Thread: the caller's.
 */
#ifndef CULM_CLI_MODEL_SHOW_H
#define CULM_CLI_MODEL_SHOW_H

#include "base/status.h"

/* Prints one line, or one JSON object: {"name","parameters","flops_per_sample","memory_bytes",
 * "activation_bytes","activation_bytes_recompute","blocks"} and, with `stages`, "stages":
 * [{"first","last","parameters","flops","activation_bytes","boundary_bytes"}], cut into as many as
 * the configuration says, four for a name. FLOPs and activations are of one sample. */
enum culm_status culm_model_show(const char *name_or_path, bool stages, bool json,
                                 struct culm_error *error);

#endif

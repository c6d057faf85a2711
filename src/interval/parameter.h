/*
 * A parameter server: an actor that is a holder (holder.h) and nothing else. Thread: the actor's.
 */
#ifndef CULM_INTERVAL_PARAMETER_H
#define CULM_INTERVAL_PARAMETER_H

#include "interval/self.h"

struct culm_gnn_parameter;

struct culm_gnn_parameter *
culm_gnn_parameter_new(const struct culm_gnn_node_options *options); /* NULL: out of memory */
void culm_gnn_parameter_free(struct culm_gnn_parameter *parameter);  /* NULL is fine */
/* The version of the state that it holds under its view; -1: none. */
int64_t culm_gnn_parameter_version(const struct culm_gnn_parameter *parameter);
extern const struct culm_actor_ops culm_gnn_parameter_actor;

#endif

/*
 * The engine `gearman`: a job for each worker that is wanted, at a job server. Whoever runs `culm gnn
 * worker --gearman HOST:PORT` takes such jobs; one is the life of a worker: it calls the run's
 * launcher with the token that the job carries, and the job is done when it has left. The job of one
 * that is lost is handed on by the job server, and whoever gets it takes the place of any worker that
 * is awaited. A job server that goes away is asked again until it is back; workers that have come do
 * not need it.
 */
#ifndef CULM_RUN_GEARMAN_ENGINE_H
#define CULM_RUN_GEARMAN_ENGINE_H

#include "cluster/engine.h"
#include "gnn/config.h"

/* CULM_ERR_CONFIG, CULM_ERR_MACHINE: no libgearman; CULM_ERR_IO: no job server answers. */
enum culm_status culm_gearman_engine_new(const struct culm_gnn_config *config,
                                         struct culm_engine **ret_engine, struct culm_error *error);

#endif

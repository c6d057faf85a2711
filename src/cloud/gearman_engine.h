/*
 * The engine `gearman` (cluster/engine.h): submits a job to a Gearman job server for each worker
 * that is wanted. Processes started as `culm gnn worker --gearman HOST:PORT` take these jobs. A job
 * is the life of one worker: it joins the run with the address and the token in the job, and the
 * job is complete when it has left. If the process is lost, the job server hands the job on, and
 * the process that gets it becomes any worker that is awaited. If the job server is lost, the
 * engine keeps trying to reach it; workers that have joined do not need it.
 *
 * Thread: see cluster/engine.h.
 */
#ifndef CULM_CLOUD_GEARMAN_ENGINE_H
#define CULM_CLOUD_GEARMAN_ENGINE_H

#include "cluster/engine.h"

/* `address`: "HOST:PORT", as configured; borrowed during the call. CULM_ERR_CONFIG; CULM_ERR_MACHINE: libgearman is not installed; CULM_ERR_IO: the job server does
 * not answer. */
enum culm_status culm_gearman_engine_new(const char *address, struct culm_engine **ret_engine,
                                         struct culm_error *error);

#endif

/* A worker that gets its runs from a job server. Thread: the caller's. */
#ifndef CULM_RUN_GEARMAN_WORKER_H
#define CULM_RUN_GEARMAN_WORKER_H

#include "base/status.h"

/* Takes the jobs of gearman_engine.h, one after the other, and does not return unless something is
 * wrong from the beginning: CULM_ERR_CONFIG, CULM_ERR_MACHINE, CULM_ERR_IO. server: "HOST:PORT". A job
 * that does not go well, and a job server that goes away, are told of on standard error. */
enum culm_status culm_gearman_work(const char *server, struct culm_error *error);

#endif

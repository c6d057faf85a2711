/* A worker that gets its runs from a Gearman job server. Thread: the caller's. */
#ifndef CULM_RUN_GEARMAN_WORKER_H
#define CULM_RUN_GEARMAN_WORKER_H

#include "base/status.h"

/* Takes one job of gearman_engine.h after the other. Returns only if it fails at the start:
 * CULM_ERR_CONFIG, CULM_ERR_MACHINE, CULM_ERR_IO. server: "HOST:PORT". Writes failed jobs, and the
 * loss of the job server, to standard error. */
enum culm_status culm_gearman_work(const char *server, struct culm_error *error);

#endif

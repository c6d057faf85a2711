/*
 * Signs of life of a worker that prepares: between WELCOME and READY its one thread makes the plan
 * and opens what the run reads, which may take longer than any fixed limit.
 *
 * A thread of its own sends PREPARING four times a second while the preparing thread gets on: its
 * processor time has moved. One that is frozen, or waits for a disk that does not answer, falls
 * silent, and the coordinator's start_limit_ms ends it. Internal to the room. Thread: that of the
 * caller, which sends nothing on the socket between start and stop.
 */
#ifndef CULM_CLUSTER_PREPARING_H
#define CULM_CLUSTER_PREPARING_H

#include "base/status.h"

struct culm_preparing;

/* Borrows the socket. */
enum culm_status culm_preparing_start(int fd, struct culm_preparing **ret_preparing,
                                      struct culm_error *error);
/* Afterwards the socket is the caller's. NULL is fine. */
void culm_preparing_stop(struct culm_preparing *preparing);

#endif

/*
 * Signs of life of a worker that prepares: between WELCOME and READY, its only thread makes the
 * plan and opens the files of the run, which may take longer than any fixed limit.
 *
 * A helper thread sends PREPARING four times a second as long as the preparing thread makes
 * progress, that is, uses processor time. A worker that is frozen, or waits for a disk that does
 * not answer, falls silent, and is ended by the coordinator's start_limit_ms. Internal to the room.
 *
 * Thread: the preparing one, which must not use the socket between start and stop.
 */
#ifndef CULM_CLUSTER_PREPARING_H
#define CULM_CLUSTER_PREPARING_H

#include "base/status.h"

struct culm_preparing;

/* Borrows the socket until _stop. */
enum culm_status culm_preparing_start(int fd, struct culm_preparing **ret_preparing,
                                      struct culm_error *error);
/* Stops the helper thread. NULL is fine. */
void culm_preparing_stop(struct culm_preparing *preparing);

#endif

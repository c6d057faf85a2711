/*
 * Signs of life of a worker that prepares: between WELCOME and READY, its only thread makes the
 * plan and opens the files of the run, which may take longer than any fixed limit.
 *
 * Meanwhile the leader may send news of the brief.
 *
 * A helper thread sends PREPARING four times a second as long as the preparing thread makes
 * progress, that is, uses processor time. A worker that is frozen, or waits for a disk that does
 * not answer, falls silent, and is ended by the leader's start_limit_ms. Internal to the room.
 *
 * It also calls `readable` whenever there is something to read, for as long as that returns true.
 *
 * Thread: the preparing one, which must not use the channel between start and stop; `readable` is
 * called from the helper thread.
 */
#ifndef CULM_CLUSTER_PREPARING_H
#define CULM_CLUSTER_PREPARING_H

#include "net/channel.h"

struct culm_preparing;

/* Borrows the channel until _stop. */
enum culm_status culm_preparing_start(struct culm_channel *channel, bool (*readable)(void *ctx),
                                      void *ctx, struct culm_preparing **ret_preparing,
                                      struct culm_error *error);
/* Stops the helper thread. NULL is fine. */
void culm_preparing_stop(struct culm_preparing *preparing);

#endif

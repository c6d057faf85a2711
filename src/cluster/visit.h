/*
 * Visits: a connection to a leader's process for something else than to take part, made by who waits. It is the one that
 * a newcomer makes: the same address, TLS, and proofs that both sides know the token (handshake.h).
 *
 * Thread: any; blocks.
 */
#ifndef CULM_CLUSTER_VISIT_H
#define CULM_CLUSTER_VISIT_H

#include "net/channel.h"

/* Tries for up to 30 s. Errors as of culm_worker_new; *ret_channel is the caller's to close. */
enum culm_status culm_visit(const char *address, const char *token,
                            struct culm_channel *ret_channel, struct culm_error *error);

#endif

/*
 * A channel: a connected socket, with TLS or without, for who waits: before a loop takes it over, or instead of one.
 *
 * Each call waits until it is done or deadline_ns (CLOCK_MONOTONIC) has passed. CULM_ERR_CLOSED, CULM_ERR_TIMEOUT and
 * CULM_ERR_IO are those of culm_socket_read; CULM_ERR_CONFIG: TLS refuses, see tls.h. Thread: one at a time; any.
 */
#ifndef CULM_NET_CHANNEL_H
#define CULM_NET_CHANNEL_H

#include "net/tls.h"

struct culm_channel {
    int fd;               /* -1: none */
    struct culm_tls *tls; /* NULL: none */
};

enum culm_status culm_channel_read(struct culm_channel *channel, void *data, size_t len,
                                   uint64_t deadline_ns, struct culm_error *error);
enum culm_status culm_channel_write(struct culm_channel *channel, const void *data, size_t len,
                                    uint64_t deadline_ns, struct culm_error *error);
/* Something can be read although the socket has nothing. */
bool culm_channel_holds(const struct culm_channel *channel);
void culm_channel_close(
    struct culm_channel *channel); /* there is none from then on; fine if there was none */

#endif

/*
 * A fabric: how the room `cluster` reaches time and streams.
 *
 * Who is a member, who may come in and who is lost is decided by state machines that know only this
 * table, so that they run in the simulated world as they do over sockets. Listening belongs to
 * whoever implements it: it hands over each stream that comes in. Nothing here calls back before it
 * returns. Thread: the loop's.
 */
#ifndef CULM_NET_FABRIC_H
#define CULM_NET_FABRIC_H

#include "net/stream.h"

struct culm_fabric;

struct culm_fabric_ops {
    size_t size;
    uint64_t (*now_ns)(struct culm_fabric *fabric); /* monotonic */
    /* Starts to connect; the stream can be written to when that is done, and its `connected` tells
     * what became of it. Errors as of culm_socket_connect. */
    enum culm_status (*connect)(struct culm_fabric *fabric, const char *address,
                                struct culm_stream **ret_stream, struct culm_error *error);
    /* Bytes that nobody can tell beforehand; at most 256. */
    enum culm_status (*random)(struct culm_fabric *fabric, void *ret_bytes, size_t len);
    /* The one alarm of the fabric's owner rings once, after delay_ns, in place of an earlier one;
     * CULM_NEVER: not at all. */
    void (*alarm)(struct culm_fabric *fabric, uint64_t delay_ns);
};

struct culm_fabric { /* first member of an implementation */
    const struct culm_fabric_ops *ops;
};

#endif

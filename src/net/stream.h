/*
 * A stream: bytes both ways between two processes, as a connection needs it.
 *
 * Two things implement this table: a socket on a libuv loop (below) and a stream of the simulated
 * fabric (sim/fabric.c), so that everything above bytes is the same code in both. Nothing here
 * blocks except `wait`. `ready` comes from the loop only, never from within a call; it may close
 * the stream. Thread: the loop's.
 */
#ifndef CULM_NET_STREAM_H
#define CULM_NET_STREAM_H

#include "net/channel.h"

#include <uv.h>

#define CULM_STREAM_READ 1
#define CULM_STREAM_WRITE 2

struct culm_stream;

struct culm_stream_ops {
    size_t size;
    /* Bytes moved; at least one, but for a read of 0: the other side sends no more. -EAGAIN: not
     * now; any other -errno: the stream is broken. */
    ssize_t (*read)(struct culm_stream *stream, const struct iovec *to, int count);
    ssize_t (*write)(struct culm_stream *stream, const struct iovec *from, int count);
    /* What became of a connect, once it can be written to: 0 or an errno. */
    int (*connected)(struct culm_stream *stream);
    /* Nothing more is written, or (both) read. The other side finds the end. */
    void (*shutdown)(struct culm_stream *stream, bool both);
    /* Calls `ready` whenever one of these events has come, until told otherwise; 0: never. */
    void (*watch)(struct culm_stream *stream, int events);
    /* Waits for an event; false when deadline_ns (of now_ns) has passed. */
    bool (*wait)(struct culm_stream *stream, int events, uint64_t deadline_ns);
    uint64_t (*now_ns)(struct culm_stream *stream); /* monotonic */
    /* Closes it now; `gone`, from the loop, says that no call of it is on the stack any more. */
    void (*close)(struct culm_stream *stream, void (*gone)(void *ctx), void *ctx);
    /* As `close`, but hands its socket over to who waits; NULL: it has none. */
    void (*release)(struct culm_stream *stream, struct culm_channel *ret_channel,
                    void (*gone)(void *ctx), void *ctx);
};

struct culm_stream { /* first member of an implementation */
    const struct culm_stream_ops *ops;
    void (*ready)(void *ctx); /* set, with ctx, before the first watch */
    void *ctx;
};

/* Who may come in, and how. */
struct culm_stream_door {
    const char
        *token; /* key of TLS (tls.h); NULL: none speaks it. Borrowed for as long as the stream */
    bool plain; /* from other machines, too, without TLS; from this one always */
};

/* Takes the non-blocking socket, and the TLS over it (NULL: none); they are closed also when this fails. */
enum culm_status culm_stream_socket_new(uv_loop_t *loop, int take_fd, struct culm_tls *take_tls,
                                        struct culm_stream **ret_stream, struct culm_error *error);
/* The same of one that was accepted: its first byte says whether it speaks TLS. */
enum culm_status culm_stream_socket_accepted(uv_loop_t *loop, int take_fd,
                                             const struct culm_stream_door *door,
                                             struct culm_stream **ret_stream,
                                             struct culm_error *error);

#endif

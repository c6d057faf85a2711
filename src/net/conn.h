/*
 * A connection: frames over one stream (a socket on a libuv loop, or one of the simulated fabric).
 *
 * The queue of what is to be written is ours, not libuv's, so that a caller can finish it, or the
 * first part of it, at once (culm_conn_flush): a worker that is to die at an exact byte needs that.
 * Frames arrive in the order sent, but that those that yield wait until no others do. send, flush and close never call back; `message` and `closed`
 * come from the loop, or from culm_conn_pump. After `closed`, or after culm_conn_close, nothing
 * comes. Thread: the loop's.
 */
#ifndef CULM_NET_CONN_H
#define CULM_NET_CONN_H

#include "net/frame.h"
#include "net/stream.h"

struct culm_conn;

struct culm_conn_ops {
    /* The callee may close the connection. */
    void (*message)(void *ctx, struct culm_conn *conn, const struct culm_message *message);
    /* End of stream, a reader that does not read (CULM_ERR_CLOSED), a connect that failed
     * (culm_socket_connect_status), TLS that refuses (CULM_ERR_CONFIG), garbage (CULM_ERR_FORMAT), pool or memory exhausted
     * (CULM_ERR_MEMORY). Comes at most once; the callee calls culm_conn_close. */
    void (*closed)(void *ctx, struct culm_conn *conn, const struct culm_error *why);
};

struct culm_conn_options {
    uv_loop_t *loop;             /* culm_conn_new's only */
    struct culm_blob_pool *pool; /* for received payloads */
    size_t meta_max, payload_max;
    size_t turn_bytes;    /* a direction, in one turn of the loop; 0: 8 MB */
    size_t scratch_bytes; /* what is read at once beside a payload; 0: 64 KB */
    const struct culm_conn_ops *ops;
    void *ctx;
};

/* Takes the socket, which may still be connecting; it is closed also when this fails. */
enum culm_status culm_conn_new(const struct culm_conn_options *options, int take_fd,
                               bool connecting, struct culm_conn **ret_conn,
                               struct culm_error *error);
/* The same over any stream, which is taken. */
enum culm_status culm_conn_over(const struct culm_conn_options *options,
                                struct culm_stream *take_stream, bool connecting,
                                struct culm_conn **ret_conn, struct culm_error *error);
/* As culm_conn_close, but hands over the socket below, when all that is queued has been written. False: it has none, or
 * deadline_ns passed first; it is closed all the same. Nothing must have come behind the last message. */
bool culm_conn_release(struct culm_conn *conn, uint64_t deadline_ns,
                       struct culm_channel *ret_channel);
/* Closes the stream now; the memory goes when the loop has run once more. NULL is fine. */
void culm_conn_close(struct culm_conn *conn);

/* The limits for what is received from now on. */
void culm_conn_limits(struct culm_conn *conn, size_t meta_max, size_t payload_max);

#define CULM_CONN_HEADS_MAX ((size_t)64 << 20)
/* Copies the meta, references the payload until written. The frame is dropped and the connection
 * ends, which `closed` tells in time, when the link is broken, memory is out, meta_bytes is over
 * CULM_FRAME_META_MAX, or copies of CULM_CONN_HEADS_MAX bytes wait for the other side to read. */
void culm_conn_send(struct culm_conn *conn, const struct culm_message *message);
/* While corked, send only queues. */
void culm_conn_cork(struct culm_conn *conn, bool corked);
size_t culm_conn_queued(const struct culm_conn *conn); /* bytes that the system has not taken */
/* Writes, waiting as long as it takes, until only keep_bytes are queued. False: deadline_ns
 * (of the stream's clock) passed or the link broke. */
bool culm_conn_flush(struct culm_conn *conn, size_t keep_bytes, uint64_t deadline_ns);
/* Flushes, says that nothing more comes, and waits for the other side to close: only then is it
 * certain that all was received. What comes meanwhile is thrown away. Ends at deadline_ns at the latest, and
 * when the other side has taken nothing for quiet_ns. */
void culm_conn_linger(struct culm_conn *conn, uint64_t quiet_ns, uint64_t deadline_ns);
/* Once the queue is written, tells the other side that nothing more comes. */
void culm_conn_finish(struct culm_conn *conn);
/* Handles what has been received, before the loop would: all of it when the other side is gone, at
 * most 64 MB when it goes on sending. */
void culm_conn_pump(struct culm_conn *conn);
/* Flushes, waits until something can be read, and handles at most one frame, or its beginning: what
 * comes behind it is the loop's. False: deadline_ns passed, or the link broke. */
bool culm_conn_hear(struct culm_conn *conn, uint64_t deadline_ns);

#endif

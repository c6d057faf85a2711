/*
 * A connection over a stream.
 *
 *     send ─▶ queue of entries (header + meta | payload slice) ─▶ write, up to IOV_COUNT at once
 *     read ─▶ [rest of the payload in progress | scratch] ─▶ frame reader ─▶ message
 *
 * A write error only marks the link broken and shuts it down, so that the reading side finds the
 * end, after whatever had still arrived: the loop alone reports. One turn of the loop moves a
 * bounded number of bytes a direction, so that one busy peer does not starve timers and others.
 */
#include "net/conn.h"

#include "net/socket.h"
#include "net/tls.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define IOV_COUNT 32
#define SCRATCH_BYTES ((size_t)64 << 10)
#define TURN_BYTES ((size_t)8 << 20)
#define OFFERED_BYTES                                                                              \
    ((size_t)64                                                                                    \
     << 10) /* at the front that the stream may have taken already: more than a record of TLS */
#define PUMP_BYTES ((size_t)64 << 20) /* more than the system holds of one that is gone */

struct entry {
    struct entry *next;
    struct culm_blob *payload; /* NULL: none */
    size_t payload_offset, payload_bytes;
    size_t head_bytes;
    bool yields;
    uint8_t head[]; /* header, meta */
};

struct culm_conn {
    struct culm_stream *stream;
    struct culm_conn_options o;
    struct culm_frame_reader reader;
    struct entry *first, **last;
    size_t first_written; /* bytes of the first entry that are gone */
    size_t queued;
    size_t heads;          /* bytes copied into the queue */
    size_t yielding;       /* entries that yield */
    uint64_t delivered;    /* messages */
    struct culm_error why; /* of a link that we broke; CULM_OK: the other side says */
    bool connecting;       /* not yet writable for the first time */
    bool corked;           /* send leaves the writing to flush */
    bool broken;           /* nothing can be written any more */
    bool finishing;        /* shut down writing when the queue is empty */
    bool reported;         /* closed was called */
    bool closing;          /* culm_conn_close was called */
    uint8_t scratch[];     /* [o.scratch_bytes] */
};

static void update_watch(struct culm_conn *conn) {
    int events = conn->connecting ? 0 : CULM_STREAM_READ;
    if (conn->connecting || (conn->queued && !conn->broken)) {
        events |= CULM_STREAM_WRITE;
    }
    if (!conn->closing && !conn->reported) {
        conn->stream->ops->watch(conn->stream, events);
    }
}

static void drop_first(struct culm_conn *conn) {
    struct entry *entry = conn->first;
    conn->first = entry->next;
    if (!conn->first) {
        conn->last = &conn->first;
    }
    conn->first_written = 0;
    conn->heads -= sizeof *entry + entry->head_bytes;
    conn->yielding -= entry->yields;
    culm_blob_unref(entry->payload);
    free(entry);
}

static void drop_queue(struct culm_conn *conn) {
    while (conn->first) {
        drop_first(conn);
    }
    conn->queued = 0;
}

static void break_link(struct culm_conn *conn) {
    conn->broken = true;
    drop_queue(conn);
    conn->stream->ops->shutdown(conn->stream, true);
}

/* --- writing --- */

static int gather(const struct culm_conn *conn, size_t limit, struct iovec *iov) {
    int count = 0;
    size_t skip = conn->first_written;
    for (struct entry *e = conn->first; e && limit && count + 2 <= IOV_COUNT; e = e->next) {
        const struct iovec parts[2] = {
            {e->head, e->head_bytes},
            {e->payload ? (uint8_t *)e->payload->data + e->payload_offset : NULL,
             e->payload_bytes}};
        for (int i = 0; i < 2 && limit; i++) {
            if (skip >= parts[i].iov_len) {
                skip -= parts[i].iov_len;
                continue;
            }
            size_t len = parts[i].iov_len - skip;
            iov[count].iov_base = (uint8_t *)parts[i].iov_base + skip;
            iov[count].iov_len = len < limit ? len : limit;
            limit -= iov[count++].iov_len;
            skip = 0;
        }
    }
    return count;
}

static void written(struct culm_conn *conn, size_t bytes) {
    conn->queued -= bytes;
    conn->first_written += bytes;
    while (conn->first &&
           conn->first_written >= conn->first->head_bytes + conn->first->payload_bytes) {
        size_t rest = conn->first_written - (conn->first->head_bytes + conn->first->payload_bytes);
        drop_first(conn);
        conn->first_written = rest;
    }
}

/* One write of at most `limit` bytes. False: not now, or never (broken). */
static bool write_some(struct culm_conn *conn, size_t limit, size_t *ret_bytes) {
    struct iovec iov[IOV_COUNT];
    ssize_t put = conn->stream->ops->write(conn->stream, iov, gather(conn, limit, iov));
    if (put < 0) {
        if (put != -EAGAIN) {
            break_link(conn);
        }
        return false;
    }
    written(conn, (size_t)put);
    *ret_bytes = (size_t)put;
    return true;
}

static void finish_if_empty(struct culm_conn *conn) {
    if (conn->finishing && !conn->queued && !conn->broken && !conn->connecting) {
        conn->broken = true;
        conn->stream->ops->shutdown(conn->stream, false);
    }
}

static void write_turn(struct culm_conn *conn) {
    size_t turn = 0, bytes;
    size_t limit = conn->o.turn_bytes;
    while (conn->queued && turn < limit && write_some(conn, limit, &bytes)) {
        turn += bytes;
    }
    finish_if_empty(conn);
}

/* NULL: says why. */
static struct entry *entry_new(struct culm_conn *conn, size_t meta_bytes) {
    size_t head_bytes = CULM_FRAME_HEADER_BYTES + meta_bytes;
    if (meta_bytes > CULM_FRAME_META_MAX) {
        culm_error_set(&conn->why, CULM_ERR_INTERNAL,
                       "a message has %zu bytes beside its payload, over the limit of %u",
                       meta_bytes, CULM_FRAME_META_MAX);
        return NULL;
    }
    if (conn->heads + sizeof(struct entry) + head_bytes > CULM_CONN_HEADS_MAX) {
        culm_error_set(&conn->why, CULM_ERR_CLOSED,
                       "the other side does not read: more than %zu MB wait for it",
                       CULM_CONN_HEADS_MAX >> 20);
        return NULL;
    }
    struct entry *entry = malloc(sizeof *entry + head_bytes);
    if (!entry) {
        culm_error_set(&conn->why, CULM_ERR_MEMORY, "out of memory for a message");
        return NULL;
    }
    *entry = (struct entry){.head_bytes = head_bytes};
    conn->heads += sizeof *entry + head_bytes;
    return entry;
}

/* Behind all, or before the first one that yields. What is at the front stays there: the stream may have looked at it. */
static void put_in(struct culm_conn *conn, struct entry *entry) {
    struct entry **at = entry->yields || conn->yielding == 0 ? conn->last : &conn->first;
    for (size_t before = 0;
         *at && !((*at)->yields && before >= OFFERED_BYTES + conn->first_written);
         at = &(*at)->next) {
        before += (*at)->head_bytes + (*at)->payload_bytes;
    }
    entry->next = *at;
    *at = entry;
    if (!entry->next) {
        conn->last = &entry->next;
    }
    conn->yielding += entry->yields;
    conn->queued += entry->head_bytes + entry->payload_bytes;
}

void culm_conn_send(struct culm_conn *conn, const struct culm_message *message) {
    if (conn->broken || conn->closing || conn->finishing) {
        return;
    }
    struct entry *entry = entry_new(conn, message->meta_bytes);
    if (!entry) {
        break_link(conn);
        return;
    }
    if (message->payload && message->payload_bytes) {
        entry->payload = culm_blob_ref(message->payload);
        entry->payload_offset = message->payload_offset;
        entry->payload_bytes = message->payload_bytes;
    }
    culm_frame_header_encode(message, entry->head);
    if (message->meta_bytes) {
        memcpy(entry->head + CULM_FRAME_HEADER_BYTES, message->meta, message->meta_bytes);
    }
    bool idle = !conn->queued && !conn->connecting && !conn->corked;
    entry->yields = message->yields;
    put_in(conn, entry);
    if (idle) {
        size_t bytes;
        (void)write_some(conn, conn->o.turn_bytes, &bytes); /* what is left waits for the loop */
    }
    update_watch(conn);
}

void culm_conn_cork(struct culm_conn *conn, bool corked) { conn->corked = corked; }

size_t culm_conn_queued(const struct culm_conn *conn) { return conn->queued; }

static bool wait_connected(struct culm_conn *conn, uint64_t deadline_ns) {
    if (conn->connecting) {
        if (!conn->stream->ops->wait(conn->stream, CULM_STREAM_WRITE, deadline_ns) ||
            conn->stream->ops->connected(conn->stream)) {
            return false;
        }
        conn->connecting = false;
    }
    return true;
}

bool culm_conn_flush(struct culm_conn *conn, size_t keep_bytes, uint64_t deadline_ns) {
    if (conn->closing || !wait_connected(conn, deadline_ns)) {
        return false;
    }
    bool in_time = true;
    while (conn->queued > keep_bytes && in_time && !conn->broken) {
        size_t bytes;
        if (!write_some(conn, conn->queued - keep_bytes, &bytes) && !conn->broken) {
            in_time = conn->stream->ops->wait(conn->stream, CULM_STREAM_WRITE, deadline_ns);
        }
    }
    update_watch(conn);
    return in_time && !conn->broken;
}

static uint64_t min64(uint64_t a, uint64_t b) { return a < b ? a : b; }

void culm_conn_linger(struct culm_conn *conn, uint64_t quiet_ns, uint64_t deadline_ns) {
    const struct culm_stream_ops *ops = conn->stream->ops;
    bool goes = true;
    while (goes && conn->queued > 0) {
        size_t keep = conn->queued > SCRATCH_BYTES ? conn->queued - SCRATCH_BYTES : 0;
        goes =
            culm_conn_flush(conn, keep, min64(deadline_ns, ops->now_ns(conn->stream) + quiet_ns));
    }
    if (!goes || !culm_conn_flush(conn, 0, deadline_ns)) { /* also: that it is connected */
        return;
    }
    deadline_ns = min64(deadline_ns, ops->now_ns(conn->stream) + quiet_ns);
    const struct iovec away = {conn->scratch, conn->o.scratch_bytes};
    ops->shutdown(conn->stream, false);
    conn->broken = true;
    ssize_t got;
    do {
        if (!ops->wait(conn->stream, CULM_STREAM_READ, deadline_ns)) {
            return;
        }
        got = ops->read(conn->stream, &away, 1);
    } while ((got > 0 && ops->now_ns(conn->stream) < deadline_ns) || got == -EAGAIN);
}

void culm_conn_finish(struct culm_conn *conn) {
    conn->finishing = true;
    finish_if_empty(conn);
}

/* --- reading --- */

static void report(struct culm_conn *conn, const struct culm_error *why) {
    if (!conn->reported && !conn->closing) {
        conn->reported = true;
        conn->broken = true;
        drop_queue(conn);
        conn->stream->ops->watch(conn->stream, 0);
        conn->o.ops->closed(conn->o.ctx, conn, conn->why.status == CULM_OK ? why : &conn->why);
    }
}

static bool dead(const struct culm_conn *conn) { return conn->closing || conn->reported; }

static void deliver(struct culm_conn *conn, const struct culm_message *message) {
    conn->delivered++;
    conn->o.ops->message(conn->o.ctx, conn, message);
}

static void parse(struct culm_conn *conn, const uint8_t *data, size_t len) {
    for (size_t at = 0; at < len && !dead(conn);) {
        const struct culm_message *message;
        struct culm_error error;
        size_t used;
        if (culm_frame_reader_feed(&conn->reader, data + at, len - at, &used, &message, &error) !=
            CULM_OK) {
            report(conn, &error);
            return;
        }
        at += used;
        if (message) {
            deliver(conn, message);
        }
    }
}

/* One read of at most `most` bytes beside a payload in progress; false when there was nothing to get
 * or the connection is over. */
static bool read_some(struct culm_conn *conn, size_t most, size_t *ret_bytes) {
    uint8_t *payload = NULL;
    size_t space = culm_frame_reader_space(&conn->reader, &payload);
    struct iovec iov[2] = {{payload, space}, {conn->scratch, most}};
    int first = !space, count = (space > 0) + (most > 0);
    ssize_t got = conn->stream->ops->read(conn->stream, iov + first, count);
    if (got <= 0) {
        if (got == -EAGAIN) {
            return false;
        }
        struct culm_error error;
        if (got < 0) {
            (void)culm_tls_error((int)-got, &error);
        } else {
            culm_error_set(&error, CULM_ERR_CLOSED, "the other side closed the connection");
        }
        report(conn, &error);
        return false;
    }
    *ret_bytes = (size_t)got;
    size_t direct = (size_t)got < space ? (size_t)got : space;
    if (direct) {
        const struct culm_message *message;
        struct culm_error error;
        if (culm_frame_reader_wrote(&conn->reader, direct, &message, &error) != CULM_OK) {
            report(conn, &error);
            return false;
        }
        if (message) {
            deliver(conn, message);
        }
    }
    parse(conn, conn->scratch, (size_t)got - direct);
    return true;
}

static void read_turn(struct culm_conn *conn, size_t limit) {
    size_t turn = 0, bytes;
    while (!dead(conn) && turn < limit && read_some(conn, conn->o.scratch_bytes, &bytes)) {
        turn += bytes;
    }
}

void culm_conn_pump(struct culm_conn *conn) {
    if (!conn->connecting) {
        read_turn(conn, PUMP_BYTES);
    }
}

bool culm_conn_hear(struct culm_conn *conn, uint64_t deadline_ns) {
    if (!culm_conn_flush(conn, 0, deadline_ns) ||
        !conn->stream->ops->wait(conn->stream, CULM_STREAM_READ, deadline_ns)) {
        return false;
    }
    uint64_t before = conn->delivered;
    bool more = true;
    while (more && !dead(conn) && conn->delivered == before) {
        uint8_t *payload;
        size_t bytes, wants = culm_frame_reader_wants(&conn->reader);
        if (culm_frame_reader_space(&conn->reader, &payload)) {
            wants = 0; /* it is read to where it belongs */
        }
        more =
            read_some(conn, wants < conn->o.scratch_bytes ? wants : conn->o.scratch_bytes, &bytes);
    }
    return true;
}

static void connected(struct culm_conn *conn) {
    int cause = conn->stream->ops->connected(conn->stream);
    if (cause) {
        struct culm_error error;
        culm_error_errno(&error, cause, "connect");
        error.status = culm_socket_connect_status(cause);
        report(conn, &error);
        return;
    }
    conn->connecting = false;
}

static void on_ready(void *ctx) {
    struct culm_conn *conn = ctx;
    if (conn->connecting) {
        connected(conn);
    }
    if (!dead(conn) && conn->queued) {
        write_turn(conn);
    }
    if (!dead(conn)) {
        read_turn(conn, conn->o.turn_bytes);
    }
    if (!dead(conn)) {
        update_watch(conn);
    }
}

/* --- life --- */

enum culm_status culm_conn_over(const struct culm_conn_options *options,
                                struct culm_stream *take_stream, bool connecting,
                                struct culm_conn **ret_conn, struct culm_error *error) {
    size_t scratch_bytes = options->scratch_bytes ? options->scratch_bytes : SCRATCH_BYTES;
    struct culm_conn *conn = malloc(sizeof *conn + scratch_bytes);
    if (!conn) {
        take_stream->ops->close(take_stream, NULL, NULL);
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a connection");
    }
    memset(conn, 0, offsetof(struct culm_conn, scratch));
    conn->o = *options;
    conn->o.turn_bytes = options->turn_bytes ? options->turn_bytes : TURN_BYTES;
    conn->o.scratch_bytes = scratch_bytes;
    conn->stream = take_stream;
    conn->connecting = connecting;
    conn->last = &conn->first;
    culm_frame_reader_init(&conn->reader, options->pool, options->meta_max, options->payload_max);
    take_stream->ready = on_ready;
    take_stream->ctx = conn;
    update_watch(conn);
    *ret_conn = conn;
    return CULM_OK;
}

enum culm_status culm_conn_new(const struct culm_conn_options *options, int take_fd,
                               bool connecting, struct culm_conn **ret_conn,
                               struct culm_error *error) {
    struct culm_stream *stream = NULL;
    enum culm_status status = culm_stream_socket_new(options->loop, take_fd, NULL, &stream, error);
    return status == CULM_OK ? culm_conn_over(options, stream, connecting, ret_conn, error)
                             : status;
}

void culm_conn_limits(struct culm_conn *conn, size_t meta_max, size_t payload_max) {
    conn->reader.meta_max = meta_max;
    conn->reader.payload_max = payload_max;
}

static void on_gone(void *ctx) {
    struct culm_conn *conn = ctx;
    culm_frame_reader_release(&conn->reader);
    free(conn);
}

bool culm_conn_release(struct culm_conn *conn, uint64_t deadline_ns,
                       struct culm_channel *ret_channel) {
    const struct culm_stream_ops *ops = conn->stream->ops;
    if (conn->closing || !ops->release || !culm_conn_flush(conn, 0, deadline_ns)) {
        culm_conn_close(conn);
        return false;
    }
    conn->closing = true;
    drop_queue(conn);
    ops->release(conn->stream, ret_channel, on_gone, conn);
    return true;
}

void culm_conn_close(struct culm_conn *conn) {
    if (!conn || conn->closing) {
        return;
    }
    conn->closing = true;
    drop_queue(conn);
    conn->stream->ops->close(conn->stream, on_gone, conn);
}

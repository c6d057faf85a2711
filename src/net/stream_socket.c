/* A stream over a socket, watched by uv_poll. See stream.h. */
#include "net/socket.h"
#include "net/stream.h"
#include "net/tls.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define TLS_HANDSHAKE 0x16 /* the first byte of TLS; that of a frame is another one */

struct socket_stream {
    struct culm_stream stream; /* first */
    uv_poll_t poll;
    uv_timer_t held; /* something can be read that the socket does not know of */
    int handles;     /* of these, still to be closed */
    int fd;
    int asked;            /* of us, */
    int events;           /* and of the poll */
    struct culm_tls *tls; /* NULL: none, or not yet */
    struct culm_stream_door door;
    bool undecided; /* nothing has come: it may be TLS */
    void (*gone)(void *ctx);
    void *gone_ctx;
};

static struct socket_stream *self(struct culm_stream *stream) {
    return (struct socket_stream *)stream;
}

/* --- what TLS holds --- */

static void on_held(uv_timer_t *timer) {
    struct socket_stream *s = timer->data;
    s->stream.ready(s->stream.ctx);
}

static bool holds(const struct socket_stream *s, int events) {
    return s->tls && events & CULM_STREAM_READ && culm_tls_holds(s->tls);
}

/* The socket does not know of it. */
static void watch_held(struct socket_stream *s) {
    if (holds(s, s->asked)) {
        uv_timer_start(&s->held, on_held, 0, 0);
    } else {
        uv_timer_stop(&s->held);
    }
}

/* --- the table --- */

/* What its first byte says, once that has come. 0, or as read. */
static ssize_t decide(struct socket_stream *s) {
    uint8_t first;
    ssize_t got;
    do {
        got = recv(s->fd, &first, 1, MSG_PEEK | MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    if (got < 0) {
        return -errno;
    }
    if (got > 0 && first == TLS_HANDSHAKE && s->door.token) {
        enum culm_status status = culm_tls_new(s->fd, s->door.token, false, &s->tls, NULL);
        s->undecided = status != CULM_OK;
        return status == CULM_OK ? 0 : -ENOMEM;
    }
    if (got > 0 && !s->door.plain && !culm_socket_stays(s->fd, NULL)) {
        return -EKEYREJECTED;
    }
    s->undecided = false;
    return 0;
}

static ssize_t stream_read(struct culm_stream *stream, const struct iovec *to, int count) {
    struct socket_stream *s = self(stream);
    struct msghdr in = {.msg_iov = (struct iovec *)to, .msg_iovlen = (size_t)count};
    ssize_t got = s->undecided ? decide(s) : 0;
    if (got < 0) {
        return got;
    }
    if (s->tls) {
        got = culm_tls_read(s->tls, to, count);
        watch_held(s);
        return got;
    }
    do {
        got = recvmsg(s->fd, &in, MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    return got < 0 ? -errno : got;
}

static ssize_t stream_write(struct culm_stream *stream, const struct iovec *from, int count) {
    const struct socket_stream *s = self(stream);
    struct msghdr out = {.msg_iov = (struct iovec *)from, .msg_iovlen = (size_t)count};
    ssize_t put;
    if (s->undecided) { /* who calls speaks first */
        return -EAGAIN;
    }
    if (s->tls) {
        return culm_tls_write(s->tls, from, count);
    }
    do {
        put = sendmsg(s->fd, &out, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (put < 0 && errno == EINTR);
    return put < 0 ? -errno : put;
}

static int stream_connected(struct culm_stream *stream) {
    return culm_socket_error(self(stream)->fd);
}

static void stream_shutdown(struct culm_stream *stream, bool both) {
    if (self(stream)->tls && !both) {
        culm_tls_finish(self(stream)->tls);
    }
    (void)shutdown(self(stream)->fd, both ? SHUT_RDWR : SHUT_WR);
}

static void on_poll(uv_poll_t *poll, int status, int events) {
    struct socket_stream *s = poll->data;
    if (status < 0) { /* a reset: the loop has stopped to watch; the socket calls say which */
        s->events = 0;
    }
    (void)events; /* each direction finds out for itself whether it can go on */
    s->stream.ready(s->stream.ctx);
}

static void stream_watch(struct culm_stream *stream, int events) {
    struct socket_stream *s = self(stream);
    s->asked = events;
    watch_held(s);
    events = s->tls ? culm_tls_waits(s->tls, events) : events;
    if (events == s->events) {
        return;
    }
    s->events = events;
    if (events) {
        int wanted = (events & CULM_STREAM_READ ? UV_READABLE : 0) |
                     (events & CULM_STREAM_WRITE ? UV_WRITABLE : 0);
        int failed = uv_poll_start(&s->poll, wanted, on_poll);
        assert(!failed && "the loop already watches this socket");
        (void)failed;
    } else {
        uv_poll_stop(&s->poll);
    }
}

static bool stream_wait(struct culm_stream *stream, int events, uint64_t deadline_ns) {
    const struct socket_stream *s = self(stream);
    if (holds(s, events)) {
        return true;
    }
    events = s->tls ? culm_tls_waits(s->tls, events) : events;
    int wanted =
        (events & CULM_STREAM_READ ? POLLIN : 0) | (events & CULM_STREAM_WRITE ? POLLOUT : 0);
    return culm_socket_wait(s->fd, (short)wanted, deadline_ns);
}

static uint64_t stream_now(struct culm_stream *stream) {
    (void)stream;
    return culm_clock_ns();
}

static void on_closed(uv_handle_t *handle) {
    struct socket_stream *s = handle->data;
    if (--s->handles > 0) {
        return;
    }
    if (s->gone) {
        s->gone(s->gone_ctx);
    }
    free(s);
}

static void stream_release(struct culm_stream *stream, struct culm_channel *ret_channel,
                           void (*gone)(void *ctx), void *ctx) {
    struct socket_stream *s = self(stream);
    s->gone = gone;
    s->gone_ctx = ctx;
    uv_close((uv_handle_t *)&s->poll, on_closed);
    uv_close((uv_handle_t *)&s->held, on_closed);
    *ret_channel = (struct culm_channel){s->fd, s->tls};
    s->fd = -1;
    s->tls = NULL;
}

static void stream_close(struct culm_stream *stream, void (*gone)(void *ctx), void *ctx) {
    struct culm_channel channel;
    stream_release(stream, &channel, gone, ctx);
    culm_channel_close(&channel);
}

static const struct culm_stream_ops socket_ops = {
    .size = sizeof socket_ops,
    .read = stream_read,
    .write = stream_write,
    .connected = stream_connected,
    .shutdown = stream_shutdown,
    .watch = stream_watch,
    .wait = stream_wait,
    .now_ns = stream_now,
    .close = stream_close,
    .release = stream_release,
};

enum culm_status culm_stream_socket_new(uv_loop_t *loop, int take_fd, struct culm_tls *take_tls,
                                        struct culm_stream **ret_stream, struct culm_error *error) {
    struct socket_stream *s = calloc(1, sizeof *s);
    int failed = s ? uv_poll_init(loop, &s->poll, take_fd) : 0;
    if (!s || failed) {
        culm_tls_free(take_tls);
        close(take_fd);
        free(s);
        return s ? culm_error_set(error, CULM_ERR_IO, "watch a connection: %s", uv_strerror(failed))
                 : culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a connection");
    }
    uv_timer_init(loop, &s->held);
    s->handles = 2;
    s->stream.ops = &socket_ops;
    s->fd = take_fd;
    s->tls = take_tls;
    s->poll.data = s->held.data = s;
    *ret_stream = &s->stream;
    return CULM_OK;
}

enum culm_status culm_stream_socket_accepted(uv_loop_t *loop, int take_fd,
                                             const struct culm_stream_door *door,
                                             struct culm_stream **ret_stream,
                                             struct culm_error *error) {
    enum culm_status status = culm_stream_socket_new(loop, take_fd, NULL, ret_stream, error);
    if (status == CULM_OK) {
        struct socket_stream *s = self(*ret_stream);
        s->door = *door;
        s->undecided = true;
    }
    return status;
}

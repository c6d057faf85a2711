/* A stream over a socket, watched by uv_poll. See stream.h. */
#include "net/socket.h"
#include "net/stream.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

struct socket_stream {
    struct culm_stream stream; /* first */
    uv_poll_t poll;
    int fd;
    int events; /* asked of the poll */
    void (*gone)(void *ctx);
    void *gone_ctx;
};

static struct socket_stream *self(struct culm_stream *stream) {
    return (struct socket_stream *)stream;
}

static ssize_t stream_read(struct culm_stream *stream, const struct iovec *to, int count) {
    struct msghdr in = {.msg_iov = (struct iovec *)to, .msg_iovlen = (size_t)count};
    ssize_t got;
    do {
        got = recvmsg(self(stream)->fd, &in, MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    return got < 0 ? -errno : got;
}

static ssize_t stream_write(struct culm_stream *stream, const struct iovec *from, int count) {
    struct msghdr out = {.msg_iov = (struct iovec *)from, .msg_iovlen = (size_t)count};
    ssize_t put;
    do {
        put = sendmsg(self(stream)->fd, &out, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (put < 0 && errno == EINTR);
    return put < 0 ? -errno : put;
}

static int stream_connected(struct culm_stream *stream) {
    return culm_socket_error(self(stream)->fd);
}

static void stream_shutdown(struct culm_stream *stream, bool both) {
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
    int wanted =
        (events & CULM_STREAM_READ ? POLLIN : 0) | (events & CULM_STREAM_WRITE ? POLLOUT : 0);
    return culm_socket_wait(self(stream)->fd, (short)wanted, deadline_ns);
}

static uint64_t stream_now(struct culm_stream *stream) {
    (void)stream;
    return culm_clock_ns();
}

static void on_closed(uv_handle_t *handle) {
    struct socket_stream *s = handle->data;
    if (s->gone) {
        s->gone(s->gone_ctx);
    }
    free(s);
}

static void stream_close(struct culm_stream *stream, void (*gone)(void *ctx), void *ctx) {
    struct socket_stream *s = self(stream);
    s->gone = gone;
    s->gone_ctx = ctx;
    uv_close((uv_handle_t *)&s->poll, on_closed);
    close(s->fd);
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
};

enum culm_status culm_stream_socket_new(uv_loop_t *loop, int take_fd,
                                        struct culm_stream **ret_stream, struct culm_error *error) {
    struct socket_stream *s = calloc(1, sizeof *s);
    if (!s) {
        close(take_fd);
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a connection");
    }
    int failed = uv_poll_init(loop, &s->poll, take_fd);
    if (failed) {
        close(take_fd);
        free(s);
        return culm_error_set(error, CULM_ERR_IO, "watch a connection: %s", uv_strerror(failed));
    }
    s->stream.ops = &socket_ops;
    s->fd = take_fd;
    s->poll.data = s;
    *ret_stream = &s->stream;
    return CULM_OK;
}

/* Waiting reads and writes. See channel.h. */
#include "net/channel.h"

#include "net/socket.h"
#include "net/stream.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

static bool wait_for(const struct culm_channel *channel, int events, uint64_t deadline_ns) {
    int wanted = culm_tls_waits(channel->tls, events);
    return culm_socket_wait(channel->fd,
                            (short)((wanted & CULM_STREAM_READ ? POLLIN : 0) |
                                    (wanted & CULM_STREAM_WRITE ? POLLOUT : 0)),
                            deadline_ns);
}

/* After -EAGAIN: CULM_OK, it may be tried again. */
static enum culm_status after(const struct culm_channel *channel, ssize_t done, int events,
                              uint64_t deadline_ns, struct culm_error *error) {
    if (done == 0) {
        return culm_error_set(error, CULM_ERR_CLOSED, "the other side closed the connection");
    }
    if (done != -EAGAIN) {
        return culm_tls_error((int)-done, error);
    }
    return wait_for(channel, events, deadline_ns)
               ? CULM_OK
               : culm_error_set(error, CULM_ERR_TIMEOUT, "the other side does not answer");
}

/* All of it, by one of the two that move bytes. */
static enum culm_status move(const struct culm_channel *channel,
                             ssize_t (*some)(struct culm_tls *, const struct iovec *, int),
                             int events, struct iovec rest, uint64_t deadline_ns,
                             struct culm_error *error) {
    enum culm_status status = CULM_OK;
    while (rest.iov_len && status == CULM_OK) {
        ssize_t done = some(channel->tls, &rest, 1);
        if (done > 0) {
            rest.iov_base = (uint8_t *)rest.iov_base + done;
            rest.iov_len -= (size_t)done;
        } else {
            status = after(channel, done, events, deadline_ns, error);
        }
    }
    return status;
}

enum culm_status culm_channel_read(struct culm_channel *channel, void *data, size_t len,
                                   uint64_t deadline_ns, struct culm_error *error) {
    return channel->tls ? move(channel, culm_tls_read, CULM_STREAM_READ, (struct iovec){data, len},
                               deadline_ns, error)
                        : culm_socket_read(channel->fd, data, len, deadline_ns, error);
}

enum culm_status culm_channel_write(struct culm_channel *channel, const void *data, size_t len,
                                    uint64_t deadline_ns, struct culm_error *error) {
    return channel->tls ? move(channel, culm_tls_write, CULM_STREAM_WRITE,
                               (struct iovec){(void *)data, len}, deadline_ns, error)
                        : culm_socket_write(channel->fd, data, len, deadline_ns, error);
}

bool culm_channel_holds(const struct culm_channel *channel) {
    return channel->tls && culm_tls_holds(channel->tls);
}

void culm_channel_close(struct culm_channel *channel) {
    culm_tls_free(channel->tls);
    channel->tls = NULL;
    if (channel->fd >= 0) {
        close(channel->fd);
        channel->fd = -1;
    }
}

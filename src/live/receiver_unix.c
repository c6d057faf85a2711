/*
 * Lines to a program that listens at a Unix stream socket: connected, written, nothing read. A line is never cut: what is
 * left of one that was begun goes first, and is begun anew on another connection. See receiver_way.h.
 */
#include "live/receiver_way.h"

#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define LOOK_MS 50

struct to_unix {
    struct culm_way way;
    struct sockaddr_un at;
    const int *stop;
    int fd;
    size_t begun; /* bytes of the first line that are written */
};

static struct to_unix *self(struct culm_way *way) { return (struct to_unix *)way; }

static enum culm_status call(struct culm_way *way, uint64_t until_ns, struct culm_error *error) {
    struct to_unix *to = self(way);
    (void)until_ns; /* it does not take time */
    to->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (to->fd < 0 || connect(to->fd, (struct sockaddr *)&to->at, sizeof to->at) != 0) {
        const int cause = errno;
        if (to->fd >= 0) {
            close(to->fd);
        }
        to->fd = -1;
        return culm_error_errno(error, cause, "connect");
    }
    to->begun = 0;
    return CULM_OK;
}

static void hang_up(struct culm_way *way) {
    struct to_unix *to = self(way);
    if (to->fd >= 0) {
        close(to->fd);
    }
    to->fd = -1;
    to->begun = 0;
}

/* False: it is time, or all is to end. */
static bool wait_to_write(struct to_unix *to, uint64_t until_ns) {
    struct pollfd one = {.fd = to->fd, .events = POLLOUT};
    while (culm_clock_ns() < until_ns && !__atomic_load_n(to->stop, __ATOMIC_ACQUIRE)) {
        if (poll(&one, 1, LOOK_MS) > 0) {
            return true;
        }
    }
    return false;
}

static enum culm_status send_lines(struct culm_way *way, const struct culm_line *lines,
                                   size_t count, uint64_t until_ns, size_t *ret_taken,
                                   struct culm_error *error) {
    struct to_unix *to = self(way);
    *ret_taken = 0;
    while (*ret_taken < count) {
        const struct culm_line *line = &lines[*ret_taken];
        const ssize_t n = send(to->fd, line->text + to->begun, line->len - to->begun,
                               MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n >= 0) {
            to->begun += (size_t)n;
            *ret_taken += to->begun == line->len;
            to->begun = to->begun == line->len ? 0 : to->begun;
        } else if (errno != EAGAIN && errno != EINTR) {
            return culm_error_errno(error, errno, "write");
        } else if (!wait_to_write(to, until_ns)) {
            return *ret_taken > 0 ? CULM_OK
                                  : culm_error_set(error, CULM_ERR_AGAIN,
                                                   "it is connected, and reads nothing");
        }
    }
    return CULM_OK;
}

/* Whoever listened may have gone while there was nothing to say. */
static enum culm_status look(struct culm_way *way, struct culm_error *error) {
    struct to_unix *to = self(way);
    struct pollfd one = {.fd = to->fd, .events = 0};
    return poll(&one, 1, 0) > 0 && (one.revents & (POLLHUP | POLLERR))
               ? culm_error_set(error, CULM_ERR_CLOSED, "the other side has hung up")
               : CULM_OK;
}

static void free_way(struct culm_way *way) {
    hang_up(way);
    free(way);
}

enum culm_status culm_way_unix(const char *path, const int *stop, struct culm_way **ret_way,
                               struct culm_error *error) {
    static const struct culm_way_ops ops = {sizeof ops, call, send_lines, look, hang_up, free_way};
    struct to_unix *to = calloc(1, sizeof *to);
    if (!to) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for answers");
    }
    *to = (struct to_unix){.way.ops = &ops, .at.sun_family = AF_UNIX, .stop = stop, .fd = -1};
    if (strlen(path) >= sizeof to->at.sun_path) {
        free(to);
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "'unix:%.120s...' is longer than the %zu bytes that a socket's path "
                              "may have",
                              path, sizeof to->at.sun_path - 1);
    }
    memcpy(to->at.sun_path, path, strlen(path) + 1);
    *ret_way = &to->way;
    return CULM_OK;
}

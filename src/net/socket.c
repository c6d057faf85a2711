/* Thin layer over the socket calls: flags set once, EINTR retried, errors named. */
#include "net/socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static enum culm_status address(const char *host, int port, struct sockaddr_in *ret_address,
                                struct culm_error *error) {
    *ret_address = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    if (port < 0 || port > 65535 || inet_pton(AF_INET, host, &ret_address->sin_addr) != 1) {
        return culm_error_set(
            error, CULM_ERR_CONFIG,
            "'%.100s', port %d: not an address; give four numbers with dots and a "
            "port up to 65535",
            host, port);
    }
    return CULM_OK;
}

static enum culm_status open_socket(int *ret_fd, struct culm_error *error) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return culm_error_errno(error, errno, "open a socket");
    }
    *ret_fd = fd;
    return CULM_OK;
}

static void no_delay(int fd) {
    int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

enum culm_status culm_socket_listen(const char *host, int *ret_fd, int *ret_port,
                                    struct culm_error *error) {
    struct sockaddr_in at;
    socklen_t len = sizeof at;
    int fd = -1;
    enum culm_status status = address(host, 0, &at, error);
    if (status == CULM_OK) {
        status = open_socket(&fd, error);
    }
    if (status != CULM_OK) {
        return status;
    }
    if (bind(fd, (struct sockaddr *)&at, sizeof at) || listen(fd, SOMAXCONN) ||
        getsockname(fd, (struct sockaddr *)&at, &len)) {
        status = culm_error_errno(error, errno, "listen on '%.100s'", host);
        close(fd);
        return status;
    }
    *ret_fd = fd;
    *ret_port = ntohs(at.sin_port);
    return CULM_OK;
}

enum culm_status culm_socket_accept(int listen_fd, int *ret_fd, struct culm_error *error) {
    int fd = -1;
    do {
        fd = accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    } while (fd < 0 && errno == EINTR);
    if (fd < 0) {
        bool nobody = errno == EAGAIN || errno == ECONNABORTED;
        return nobody ? CULM_ERR_AGAIN : culm_error_errno(error, errno, "accept a connection");
    }
    no_delay(fd);
    *ret_fd = fd;
    return CULM_OK;
}

enum culm_status culm_socket_connect(const char *host, int port, int *ret_fd,
                                     struct culm_error *error) {
    struct sockaddr_in to;
    int fd = -1;
    enum culm_status status = address(host, port, &to, error);
    if (status == CULM_OK) {
        status = open_socket(&fd, error);
    }
    if (status != CULM_OK) {
        return status;
    }
    no_delay(fd);
    if (connect(fd, (struct sockaddr *)&to, sizeof to) && errno != EINPROGRESS) {
        status = culm_error_errno(error, errno, "connect to %s, port %d", host, port);
        close(fd);
        return status;
    }
    *ret_fd = fd;
    return CULM_OK;
}

int culm_socket_error(int fd) {
    int error = 0;
    socklen_t len = sizeof error;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) ? errno : error;
}

bool culm_socket_wait(int fd, short events, uint64_t deadline_ns) {
    for (;;) {
        uint64_t now = culm_clock_ns();
        uint64_t left_ms = now >= deadline_ns ? 0 : (deadline_ns - now + 999999) / 1000000;
        struct pollfd one = {.fd = fd, .events = events};
        int ready = poll(&one, 1, left_ms > 60000 ? 60000 : (int)left_ms);
        if (ready > 0) {
            return true;
        }
        if ((ready == 0 && culm_clock_ns() >= deadline_ns) || (ready < 0 && errno != EINTR)) {
            return false;
        }
    }
}

/* What to make of a recv or send that gave `got`; CULM_ERR_AGAIN: try again. */
static enum culm_status after(int fd, ssize_t got, short events, uint64_t deadline_ns,
                              struct culm_error *error) {
    if (got == 0) {
        return culm_error_set(error, CULM_ERR_CLOSED, "the other side closed the connection");
    }
    if (errno == EINTR) {
        return CULM_ERR_AGAIN;
    }
    if (errno != EAGAIN) {
        int cause = errno;
        culm_error_errno(error, cause, "%s", events == POLLIN ? "receive" : "send");
        if (error && (cause == ECONNRESET || cause == EPIPE)) {
            error->status = CULM_ERR_CLOSED;
        }
        return cause == ECONNRESET || cause == EPIPE ? CULM_ERR_CLOSED : CULM_ERR_IO;
    }
    return culm_socket_wait(fd, events, deadline_ns)
               ? CULM_ERR_AGAIN
               : culm_error_set(error, CULM_ERR_TIMEOUT, "the other side does not answer");
}

enum culm_status culm_socket_read(int fd, void *data, size_t len, uint64_t deadline_ns,
                                  struct culm_error *error) {
    for (size_t at = 0; at < len;) {
        ssize_t got = recv(fd, (char *)data + at, len - at, 0);
        if (got > 0) {
            at += (size_t)got;
            continue;
        }
        enum culm_status status = after(fd, got, POLLIN, deadline_ns, error);
        if (status != CULM_ERR_AGAIN) {
            return status;
        }
    }
    return CULM_OK;
}

enum culm_status culm_socket_write(int fd, const void *data, size_t len, uint64_t deadline_ns,
                                   struct culm_error *error) {
    for (size_t at = 0; at < len;) {
        ssize_t put = send(fd, (const char *)data + at, len - at, MSG_NOSIGNAL);
        if (put > 0) {
            at += (size_t)put;
            continue;
        }
        enum culm_status status = after(fd, put, POLLOUT, deadline_ns, error);
        if (status != CULM_ERR_AGAIN) {
            return status;
        }
    }
    return CULM_OK;
}

uint64_t culm_clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

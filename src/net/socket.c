/* Thin layer over the socket calls: options set once, EINTR retried, errors named. */
#include "net/socket.h"

#include "base/hex.h"
#include "base/secret.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define UNIX "unix:"
#define IDLE_S 15 /* a link that says nothing is probed from then on, */
#define PROBE_S 5 /* so often */
#define PROBES 3
#define UNACKNOWLEDGED_MS 60000
#define LOCK_TRIES 1000
#define LOCK_PAUSE_NS 1000000

struct where {
    union {
        struct sockaddr any;
        struct sockaddr_un local;
        struct sockaddr_in inet;
        struct sockaddr_in6 inet6;
    };
    socklen_t len;
};

static void where_unix(const struct culm_address *address, struct where *ret_where) {
    size_t len = strlen(address->host);
    bool path =
        address->kind == CULM_ADDRESS_PATH; /* else after a zero: a name of no file system */
    ret_where->local = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(ret_where->local.sun_path + !path, address->host, len);
    ret_where->len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len);
}

static enum culm_status where_of(const struct culm_address *address, struct where *ret_where,
                                 struct culm_error *error) {
    switch (address->kind) {
    case CULM_ADDRESS_LOCAL:
    case CULM_ADDRESS_PATH: where_unix(address, ret_where); return CULM_OK;
    case CULM_ADDRESS_IPV4:
        ret_where->inet =
            (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(address->port)};
        ret_where->len = sizeof ret_where->inet;
        (void)inet_pton(AF_INET, address->host, &ret_where->inet.sin_addr);
        return CULM_OK;
    case CULM_ADDRESS_IPV6:
        ret_where->inet6 =
            (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(address->port)};
        ret_where->len = sizeof ret_where->inet6;
        (void)inet_pton(AF_INET6, address->host, &ret_where->inet6.sin6_addr);
        return CULM_OK;
    case CULM_ADDRESS_NAME: break;
    }
    return culm_error_set(error, CULM_ERR_CONFIG,
                          "'%.100s' is the name of a host, and must be looked up first",
                          address->host);
}

static enum culm_status parse(const char *text, struct where *ret_where, struct culm_error *error) {
    struct culm_address address;
    enum culm_status status = culm_address_parse(text, &address, error);
    return status == CULM_OK ? where_of(&address, ret_where, error) : status;
}

static void address_of(const struct where *where, struct culm_address *ret_address) {
    *ret_address = (struct culm_address){.kind = CULM_ADDRESS_LOCAL};
    if (where->any.sa_family == AF_INET) {
        ret_address->kind = CULM_ADDRESS_IPV4;
        ret_address->port = ntohs(where->inet.sin_port);
        (void)inet_ntop(AF_INET, &where->inet.sin_addr, ret_address->host,
                        sizeof ret_address->host);
    } else if (where->any.sa_family == AF_INET6) {
        ret_address->kind = CULM_ADDRESS_IPV6;
        ret_address->port = ntohs(where->inet6.sin6_port);
        (void)inet_ntop(AF_INET6, &where->inet6.sin6_addr, ret_address->host,
                        sizeof ret_address->host);
    } else if (where->len > offsetof(struct sockaddr_un, sun_path) + 1) {
        bool path = where->local.sun_path[0] != '\0';
        size_t len = where->len - offsetof(struct sockaddr_un, sun_path) - 1;
        ret_address->kind = path ? CULM_ADDRESS_PATH : CULM_ADDRESS_LOCAL;
        snprintf(ret_address->host, sizeof ret_address->host, "%.*s", (int)len,
                 where->local.sun_path + !path);
    }
}

static enum culm_status open_socket(const struct where *where, int *ret_fd,
                                    struct culm_error *error) {
    int fd = socket(where->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        enum culm_status status = culm_socket_connect_status(errno);
        culm_error_errno(error, errno, "open a socket");
        if (error) {
            error->status = status;
        }
        return status;
    }
    *ret_fd = fd;
    return CULM_OK;
}

static int family(int fd) {
    int domain = AF_UNSPEC;
    socklen_t len = sizeof domain;
    (void)getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len);
    return domain;
}

static void set(int fd, int level, int option, int value) {
    (void)setsockopt(fd, level, option, &value, sizeof value);
}

static void tune(int fd) {
    if (family(fd) != AF_UNIX) {
        set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
        set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
        set(fd, IPPROTO_TCP, TCP_KEEPIDLE, IDLE_S);
        set(fd, IPPROTO_TCP, TCP_KEEPINTVL, PROBE_S);
        set(fd, IPPROTO_TCP, TCP_KEEPCNT, PROBES);
        set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, UNACKNOWLEDGED_MS);
    }
}

/* Nobody can tell beforehand which name will be taken, and so take it. */
static enum culm_status random_name(struct where *where, struct culm_error *error) {
    uint8_t bytes[16];
    char *at = where->local.sun_path + 1;
    enum culm_status status = culm_secret_random(bytes, sizeof bytes, error);
    if (status == CULM_OK) {
        at += sprintf(at, "culm-");
        culm_hex(bytes, sizeof bytes, at);
        at += 2 * sizeof bytes;
        where->len = (socklen_t)(at - (char *)&where->local);
    }
    return status;
}

/* An address means what it says: [::] is not IPv4 too. A port that is asked for may be one that an
 * earlier listener has just left. */
static void tune_listener(int fd, const struct where *at) {
    if (at->any.sa_family == AF_INET6) {
        set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
    }
    if (at->any.sa_family != AF_UNIX) {
        set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    }
}

/* --- files of listeners --- */

static bool has_file(const struct where *where) {
    return where->any.sa_family == AF_UNIX && where->len > offsetof(struct sockaddr_un, sun_path) &&
           where->local.sun_path[0];
}

/* Those who look whether a file is left over, or put one there, take turns: a lock of its folder, which
 * leaves no trace. One who cannot have it within a second goes on without. -1: there is none. */
static int lock_folder(const struct where *where) {
    char path[sizeof where->local.sun_path];
    snprintf(path, sizeof path, "%s", where->local.sun_path);
    char *end = strrchr(path, '/');
    end[end == path] = '\0';
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) && i < LOCK_TRIES; i++) {
        (void)nanosleep(&(struct timespec){.tv_nsec = LOCK_PAUSE_NS}, NULL);
    }
    return fd;
}

static void unlock_folder(int fd) {
    if (fd >= 0) {
        close(fd);
    }
}

/* The file of one that was killed, or has just been closed: a socket at which nobody listens. True: it
 * is gone. Under the lock. */
static bool remove_left_over(const struct where *where) {
    struct stat file;
    if (lstat(where->local.sun_path, &file) || !S_ISSOCK(file.st_mode)) {
        return false;
    }
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return false;
    }
    bool nobody = connect(fd, &where->any, where->len) && errno == ECONNREFUSED;
    close(fd);
    return nobody && unlink(where->local.sun_path) == 0;
}

static int bind_to(int fd, const struct where *at, bool listens) {
    int lock = has_file(at) ? lock_folder(at) : -1;
    int failed = bind(fd, &at->any, at->len) ? errno : 0;
    if (failed == EADDRINUSE && has_file(at) && remove_left_over(at)) {
        failed = bind(fd, &at->any, at->len) ? errno : 0;
    }
    if (!failed && listens) {
        failed = listen(fd, SOMAXCONN) ? errno : 0;
    }
    unlock_folder(lock);
    return failed;
}

static enum culm_status bind_at(struct where *at, const char *told, bool listens, int *ret_fd,
                                char ret_address[CULM_ADDRESS_SIZE], struct culm_error *error) {
    struct culm_address address;
    int fd = -1;
    enum culm_status status = open_socket(at, &fd, error);
    if (status != CULM_OK) {
        return status;
    }
    tune_listener(fd, at);
    int failed = bind_to(fd, at, listens);
    if (!failed && at->any.sa_family != AF_UNIX && getsockname(fd, &at->any, &at->len)) {
        failed = errno;
    }
    if (failed) {
        status = culm_error_errno(error, failed, "listen on '%.100s'", told);
        culm_socket_close_listener(fd);
        return status;
    }
    *ret_fd = fd;
    address_of(at, &address);
    culm_address_print(&address, ret_address);
    return CULM_OK;
}

enum culm_status culm_socket_listen(const char *address, int *ret_fd,
                                    char ret_address[CULM_ADDRESS_SIZE], struct culm_error *error) {
    struct where at;
    enum culm_status status = parse(address, &at, error);
    if (status == CULM_OK && !strcmp(address, UNIX)) {
        status = random_name(&at, error);
    }
    return status == CULM_OK ? bind_at(&at, address, true, ret_fd, ret_address, error) : status;
}

enum culm_status culm_socket_reserve(const char *where, int *ret_fd,
                                     char ret_address[CULM_ADDRESS_SIZE],
                                     struct culm_error *error) {
    struct where at;
    enum culm_status status = parse(where, &at, error);
    if (status == CULM_OK && at.any.sa_family == AF_UNIX) {
        status =
            culm_error_set(error, CULM_ERR_CONFIG, "'%.100s' is no address of a network", where);
    }
    return status == CULM_OK ? bind_at(&at, where, false, ret_fd, ret_address, error) : status;
}

enum culm_status culm_socket_listen_there(int fd, struct culm_error *error) {
    return listen(fd, SOMAXCONN) ? culm_error_errno(error, errno, "listen") : CULM_OK;
}

void culm_socket_close_listener(int take_fd) {
    struct where at = {.len = sizeof at.local};
    bool file = getsockname(take_fd, &at.any, &at.len) == 0 && has_file(&at);
    close(take_fd);
    if (file) { /* which may be a successor's by now, if somebody had removed ours */
        int lock = lock_folder(&at);
        (void)remove_left_over(&at);
        unlock_folder(lock);
    }
}

enum culm_status culm_socket_local(int fd, struct culm_address *ret_address,
                                   struct culm_error *error) {
    struct where at = {.len = sizeof at.local};
    if (getsockname(fd, &at.any, &at.len)) {
        return culm_error_errno(error, errno, "find our own address");
    }
    address_of(&at, ret_address);
    return CULM_OK;
}

static bool peer(int fd, struct ucred *ret_peer) {
    socklen_t len = sizeof *ret_peer;
    return family(fd) == AF_UNIX && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, ret_peer, &len) == 0 &&
           len == sizeof *ret_peer;
}

int64_t culm_socket_peer_pid(int fd) {
    struct ucred other;
    return peer(fd, &other) && other.pid > 0 ? (int64_t)other.pid : 0;
}

void culm_socket_peer_host(int fd, char ret_host[CULM_ADDRESS_HOST_SIZE]) {
    struct where at = {.len = sizeof at.local};
    struct culm_address address = {0};
    if (family(fd) != AF_UNIX && getpeername(fd, &at.any, &at.len) == 0) {
        address_of(&at, &address);
    }
    memcpy(ret_host, address.host, sizeof address.host);
}

/* Whoever calls itself by an address of the network does not leave the machine, either. */
bool culm_socket_stays(int fd, const struct culm_address *peer_or_null) {
    struct where at = {.len = sizeof at.local};
    struct culm_address local = {0}, other = {0};
    if (family(fd) == AF_UNIX) {
        return true;
    }
    if (peer_or_null) {
        other = *peer_or_null;
    } else if (getpeername(fd, &at.any, &at.len) == 0) {
        address_of(&at, &other);
    } else {
        return false;
    }
    return culm_address_is_loopback(&other) ||
           (culm_socket_local(fd, &local, NULL) == CULM_OK && other.host[0] &&
            strcmp(local.host, other.host) == 0);
}

/* TCP does not tell; there the proof of the token alone decides. */
static bool same_user(int fd) {
    struct ucred other;
    return family(fd) != AF_UNIX || (peer(fd, &other) && other.uid == geteuid());
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
    if (!same_user(fd)) {
        close(fd);
        return culm_error_set(error, CULM_ERR_CLOSED, "a process of another user called");
    }
    tune(fd);
    *ret_fd = fd;
    return CULM_OK;
}

static enum culm_status connect_failed(int fd, int cause, const char *address,
                                       struct culm_error *error) {
    enum culm_status status = culm_socket_connect_status(cause);
    culm_error_errno(error, cause, "connect to '%.100s'", address);
    if (error) {
        error->status = status;
    }
    close(fd);
    return status;
}

enum culm_status culm_socket_connect(const char *address, int *ret_fd, struct culm_error *error) {
    struct where to;
    int fd = -1;
    enum culm_status status = parse(address, &to, error);
    if (status == CULM_OK) {
        status = open_socket(&to, &fd, error);
    }
    if (status != CULM_OK) {
        return status;
    }
    tune(fd);
    if (connect(fd, &to.any, to.len) && errno != EINPROGRESS) {
        return connect_failed(fd, errno, address, error);
    }
    if (!same_user(fd)) {
        close(fd);
        return culm_error_set(error, CULM_ERR_NOT_FOUND,
                              "connect to '%.100s': another user listens there", address);
    }
    *ret_fd = fd;
    return CULM_OK;
}

int culm_socket_error(int fd) {
    int error = 0;
    socklen_t len = sizeof error;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) ? errno : error;
}

enum culm_status culm_socket_connect_status(int cause) {
    switch (cause) {
    case 0: return CULM_OK;
    case ENOENT: /* nor is there its file */
    case ECONNREFUSED: return CULM_ERR_NOT_FOUND;
    case EAGAIN:
    case EINTR:
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
    case EADDRINUSE:
    case EADDRNOTAVAIL:
    case ECONNABORTED:
    case ECONNRESET:
    case ETIMEDOUT:
    case ENETDOWN:
    case ENETUNREACH:
    case EHOSTDOWN:
    case EHOSTUNREACH: return CULM_ERR_AGAIN;
    default: return CULM_ERR_IO;
    }
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

void culm_socket_raise_limit(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit); /* what is left is what there was */
    }
}

/* A datagram's socket picks the way without a packet. */
enum culm_status culm_socket_toward(const char *text, char ret_host[CULM_ADDRESS_HOST_SIZE],
                                    struct culm_error *error) {
    struct culm_address address, number, local;
    struct where at;
    char told[CULM_ADDRESS_SIZE];
    size_t count;
    enum culm_status status = culm_address_parse(text, &address, error);
    if (status || (status = culm_address_resolve(&address, &number, 1, &count, error))) {
        return status;
    }
    culm_address_print(&number, told);
    if ((status = parse(told, &at, error))) {
        return status;
    }
    const int fd = socket(at.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, &at.any, at.len)) {
        status = culm_error_errno(error, errno, "find the way to '%.100s'", text);
    } else {
        status = culm_socket_local(fd, &local, error);
    }
    if (fd >= 0) {
        close(fd);
    }
    if (status == CULM_OK) {
        snprintf(ret_host, CULM_ADDRESS_HOST_SIZE, "%s", local.host);
    }
    return status;
}

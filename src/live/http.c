/*
 * A loop over poll(2): listeners, connections and what wakes it. See http.h.
 *
 * A connection reads until its request is complete, writes the answer, and then waits for the other side to
 * close, so that bytes that nobody has read (a body) do not cut the answer off.
 */
#include "live/http.h"

#include "base/clock.h"
#include "base/stops.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BODY_MAX ((size_t)4 << 20)
#define REST_MS 100 /* after accepting has failed, for want of descriptors */
#define NICE 10
#define TURN 8 /* connections that are let in at a time */

enum step { FREE, READS, WRITES, CLOSES };

struct client {
    enum step step;
    int fd;
    uint64_t since_ns, until_ns;
    size_t len; /* of the request so far */
    char request[CULM_HTTP_REQUEST_MAX];
    struct culm_buf out;
    size_t written;
};

struct culm_http {
    struct culm_http_options o;
    int wake;
    pthread_t thread;
    uint64_t rest_until_ns; /* nobody is let in before that */
    struct client client[CULM_HTTP_LISTENERS][CULM_HTTP_PLACES];
};

/* --- one connection --- */

static void drop(struct client *client) {
    close(client->fd);
    culm_buf_release(&client->out);
    client->step = FREE;
}

static const char *words_of(int code) {
    return code == 200   ? "OK"
           : code == 404 ? "Not Found"
           : code == 405 ? "Method Not Allowed"
           : code == 431 ? "Request Header Fields Too Large"
           : code == 503 ? "Service Unavailable"
                         : "Bad Request";
}

static void respond(struct client *client, int code, const char *type, const struct culm_buf *body,
                    bool head) {
    const size_t len = body && !body->failed ? body->len : 0;
    culm_buf_init(&client->out, BODY_MAX + 1024);
    culm_buf_printf(&client->out,
                    "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n%s"
                    "Cache-Control: no-store\r\nConnection: close\r\n\r\n",
                    code, words_of(code), type, len, code == 405 ? "Allow: GET, HEAD\r\n" : "");
    if (len > 0 && !head) {
        culm_buf_bytes(&client->out, body->data, len);
    }
    client->written = 0;
    client->step = WRITES;
}

static void refuse(struct client *client, int code) {
    struct culm_buf body;
    culm_buf_init(&body, 64);
    culm_buf_printf(&body, "%s\n", words_of(code));
    respond(client, code, "text/plain; charset=utf-8", &body, false);
    culm_buf_release(&body);
}

/* The request line is all that matters. */
static void answer(struct culm_http *http, struct client *client) {
    const char *type = "text/plain; charset=utf-8";
    char *line = client->request;
    line[strcspn(line, "\r\n")] = '\0';
    const bool get = strncmp(line, "GET ", 4) == 0, head = strncmp(line, "HEAD ", 5) == 0;
    char *path = strchr(line, ' ');
    if (!path || path == line || path[1] != '/') {
        refuse(client, 400);
        return;
    }
    if (!get && !head) {
        refuse(client, 405);
        return;
    }
    path++;
    path[strcspn(path, " ?#")] = '\0';
    struct culm_buf body;
    culm_buf_init(&body, BODY_MAX);
    const int code = http->o.answer(http->o.ctx, path, &type, &body);
    if (code == 404) {
        refuse(client, code);
    } else {
        respond(client, body.failed ? 503 : code, type, &body, head);
    }
    culm_buf_release(&body);
}

static bool is_complete(const struct client *client) {
    return strstr(client->request, "\r\n\r\n") || strstr(client->request, "\n\n");
}

static void read_on(struct culm_http *http, struct client *client) {
    const ssize_t n = recv(client->fd, client->request + client->len,
                           sizeof client->request - 1 - client->len, MSG_DONTWAIT);
    if (n <= 0) {
        if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
            drop(client);
        }
        return;
    }
    client->len += (size_t)n;
    client->request[client->len] = '\0';
    if (memchr(client->request, '\0', client->len)) {
        refuse(client, 400);
    } else if (is_complete(client)) {
        answer(http, client);
    } else if (client->len == sizeof client->request - 1) {
        refuse(client, 431);
    }
}

static void write_on(struct client *client) {
    if (client->out.failed) {
        drop(client);
        return;
    }
    const ssize_t n = send(client->fd, client->out.data + client->written,
                           client->out.len - client->written, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0) {
        if (errno != EAGAIN && errno != EINTR) {
            drop(client);
        }
        return;
    }
    client->written += (size_t)n;
    if (client->written == client->out.len) {
        (void)shutdown(client->fd, SHUT_WR);
        client->step = CLOSES;
    }
}

static void close_on(struct client *client) {
    char unread[1024];
    const ssize_t n = recv(client->fd, unread, sizeof unread, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
        drop(client);
    }
}

/* --- all of them --- */

/* A place; who has had one the longest gives it up. */
static struct client *place_of(struct culm_http *http, int listener) {
    struct client *first = http->client[listener];
    for (int i = 0; i < CULM_HTTP_PLACES; i++) {
        struct client *client = &http->client[listener][i];
        if (client->step == FREE) {
            return client;
        }
        first = client->since_ns < first->since_ns ? client : first;
    }
    drop(first);
    return first;
}

static void let_in(struct culm_http *http, int listener) {
    for (int i = 0; i < TURN; i++) {
        const int fd =
            accept4(http->o.listener[listener], NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && (errno == EAGAIN || errno == ECONNABORTED || errno == EINTR)) {
            return;
        }
        const uint64_t now = culm_clock_ns();
        if (fd < 0) {
            http->rest_until_ns = now + REST_MS * UINT64_C(1000000);
            return;
        }
        struct client *client = place_of(http, listener);
        client->step = READS;
        client->fd = fd;
        client->since_ns = now;
        client->until_ns = now + http->o.limit_ms * UINT64_C(1000000);
        client->len = 0;
        culm_buf_init(&client->out, BODY_MAX);
        read_on(http, client); /* most send at once */
    }
}

static void serve(struct culm_http *http, struct client *client, short events, uint64_t now) {
    if (client->step != FREE && now >= client->until_ns) {
        drop(client);
    } else if (client->step == READS && events) {
        read_on(http, client);
    } else if (client->step == CLOSES && events) {
        close_on(client);
    }
    if (client->step == WRITES) {
        write_on(client);
    }
}

/* How long to wait: until the first connection has had its time. */
static int wait_ms(const struct culm_http *http, uint64_t now) {
    uint64_t until = UINT64_MAX;
    if (http->rest_until_ns > now) {
        until = http->rest_until_ns;
    }
    for (int l = 0; l < CULM_HTTP_LISTENERS; l++) {
        for (int i = 0; i < CULM_HTTP_PLACES; i++) {
            const struct client *client = &http->client[l][i];
            until = client->step != FREE && client->until_ns < until ? client->until_ns : until;
        }
    }
    return until == UINT64_MAX ? -1 : until <= now ? 0 : (int)((until - now) / 1000000 + 1);
}

static void *serve_all(void *arg) {
    struct culm_http *http = arg;
    struct pollfd poll_of[1 + CULM_HTTP_LISTENERS * (1 + CULM_HTTP_PLACES)];
#ifdef __linux__
    (void)setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICE);
#endif
    for (;;) {
        nfds_t count = 1;
        uint64_t now = culm_clock_ns();
        poll_of[0] = (struct pollfd){.fd = http->wake, .events = POLLIN};
        for (int l = 0; l < CULM_HTTP_LISTENERS; l++) { /* a negative number is passed over */
            const int fd = now >= http->rest_until_ns ? http->o.listener[l] : -1;
            poll_of[count++] = (struct pollfd){.fd = fd, .events = POLLIN};
            for (int i = 0; i < CULM_HTTP_PLACES; i++) {
                const struct client *client = &http->client[l][i];
                poll_of[count++] =
                    (struct pollfd){.fd = client->step == FREE ? -1 : client->fd,
                                    .events = client->step == WRITES ? POLLOUT : POLLIN};
            }
        }
        (void)poll(poll_of, count, wait_ms(http, now));
        if (poll_of[0].revents) {
            return NULL;
        }
        now = culm_clock_ns();
        for (int l = 0; l < CULM_HTTP_LISTENERS; l++) {
            const struct pollfd *of = &poll_of[1 + l * (1 + CULM_HTTP_PLACES)];
            for (int i = 0; i < CULM_HTTP_PLACES; i++) {
                serve(http, &http->client[l][i], of[1 + i].revents, now);
            }
            if (of->revents) {
                let_in(http, l);
            }
        }
    }
}

static void release(struct culm_http *http) {
    for (int l = 0; l < CULM_HTTP_LISTENERS; l++) {
        for (int i = 0; i < CULM_HTTP_PLACES; i++) {
            if (http->client[l][i].step != FREE) {
                drop(&http->client[l][i]);
            }
        }
        if (http->o.listener[l] >= 0) {
            close(http->o.listener[l]);
        }
    }
    if (http->wake >= 0) {
        close(http->wake);
    }
    free(http);
}

enum culm_status culm_http_new(const struct culm_http_options *options, struct culm_http **ret_http,
                               struct culm_error *error) {
    struct culm_http *http = calloc(1, sizeof *http);
    sigset_t before;
    if (!http) {
        for (int l = 0; l < CULM_HTTP_LISTENERS; l++) {
            if (options->listener[l] >= 0) {
                close(options->listener[l]);
            }
        }
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a server");
    }
    http->o = *options;
    http->o.limit_ms = options->limit_ms ? options->limit_ms : CULM_HTTP_LIMIT_MS;
    http->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    culm_signals_hold(&before);
    const bool begun = http->wake >= 0 && pthread_create(&http->thread, NULL, serve_all, http) == 0;
    culm_signals_let(&before);
    if (!begun) {
        release(http);
        return culm_error_set(error, CULM_ERR_MEMORY, "cannot start a thread for a server");
    }
    *ret_http = http;
    return CULM_OK;
}

void culm_http_free(struct culm_http *http) {
    const uint64_t one = 1;
    if (!http) {
        return;
    }
    (void)!write(http->wake, &one, sizeof one);
    pthread_join(http->thread, NULL);
    release(http);
}

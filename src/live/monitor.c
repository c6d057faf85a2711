/*
 * What monitors ask, and where: DIR/socket for this machine (`culm edge status`), and `edge.health` for others.
 * Both speak HTTP:
 *
 *     /status   how the run goes, as JSON
 *     /healthz  200 and "ok", or 503 and why not
 *     /metrics  figures, as Prometheus reads them
 *
 * The loop leaves a look at the run once a second; the server's thread gives away the last one, and says
 * that the run is frozen if it is old. A socket, not a file: it needs no room on a full disk and wears none
 * out, and whoever connects knows whether somebody is there.
 */
#include "live/http.h"
#include "live/metrics.h"
#include "live/run.h"

#include "base/clock.h"
#include "net/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define SOCKET "socket"
#define LOOK_NS UINT64_C(1000000000)
#define FROZEN_NS UINT64_C(10000000000) /* a look that is older: the loop stands still */
#define TEXT "text/plain; charset=utf-8"
#define METRICS "text/plain; version=0.0.4; charset=utf-8"

void live_monitor_init(struct live_monitor *monitor) {
    *monitor = (struct live_monitor){.dir_fd = -1, .state = "preparing"};
    pthread_mutex_init(&monitor->lock, NULL);
}

void live_monitor_release(struct live_monitor *monitor) {
    pthread_mutex_destroy(&monitor->lock);
    free(monitor->text);
    free(monitor->metrics);
}

/* --- the server's thread --- */

/* With the lock held. */
static const char *ill_of(const struct live_monitor *monitor, double age_s) {
    const bool runs = strcmp(monitor->state, "running") == 0;
    return !runs ? monitor->state : age_s * 1e9 > (double)FROZEN_NS ? "frozen" : monitor->ill;
}

static int answer(void *ctx, const char *path, const char **ret_type, struct culm_buf *body) {
    struct live_monitor *monitor = ctx;
    int code = 200;
    pthread_mutex_lock(&monitor->lock);
    const double age_s = monitor->at_ns ? (double)(culm_clock_ns() - monitor->at_ns) / 1e9 : 0.0;
    const char *ill = ill_of(monitor, age_s);
    const bool frozen = strcmp(ill, "frozen") == 0;
    if (strcmp(path, "/status") == 0) {
        *ret_type = "application/json";
        culm_buf_printf(body, "{\"state\":\"%s\",\"ill\":%s%s%s,\"age_s\":%.3f%s%s\n",
                        frozen ? "frozen" : monitor->state, ill[0] ? "\"" : "",
                        ill[0] ? ill : "null", ill[0] ? "\"" : "", age_s, monitor->text ? "," : "}",
                        monitor->text ? monitor->text + 1 : "");
    } else if (strcmp(path, "/healthz") == 0) {
        code = ill[0] ? 503 : 200;
        culm_buf_printf(body, "%s\n", ill[0] ? ill : "ok");
    } else if (strcmp(path, "/metrics") == 0) {
        *ret_type = METRICS;
        culm_live_metrics_begin(body, !ill[0], age_s);
        culm_buf_printf(body, "%s", monitor->metrics ? monitor->metrics : "");
    } else {
        code = 404;
    }
    pthread_mutex_unlock(&monitor->lock);
    return code;
}

/* --- where it listens --- */

/* A socket of that name in the folder, however long the folder's path is. The folder is ours, so what another run
 * has left there goes. */
static int listen_in(int dir_fd, const char *dir, struct culm_error *error) {
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    struct stat info;
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    snprintf(at.sun_path, sizeof at.sun_path, "/proc/self/fd/%d/" SOCKET, dir_fd);
    if (fstatat(dir_fd, SOCKET, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISSOCK(info.st_mode)) {
        (void)unlinkat(dir_fd, SOCKET, 0);
    }
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) != 0 || listen(fd, SOMAXCONN) != 0) {
        (void)culm_error_errno(error, errno, "listen at '%s/" SOCKET "'", dir);
        if (fd >= 0) {
            close(fd);
        }
        return -1;
    }
    return fd;
}

/* "PORT" and "localhost:PORT" are of this machine; ":PORT" is any of its addresses. */
static enum culm_status full_address(const char *text, char ret_text[CULM_ADDRESS_SIZE],
                                     struct culm_error *error) {
    struct culm_address address, number;
    size_t count;
    const bool port = text[0] && text[strspn(text, "0123456789")] == '\0';
    const int len = snprintf(ret_text, CULM_ADDRESS_SIZE, "tcp:%s%s",
                             port             ? "127.0.0.1:"
                             : text[0] == ':' ? "0.0.0.0"
                                              : "",
                             text);
    if (len >= CULM_ADDRESS_SIZE) {
        return culm_error_set(error, CULM_ERR_CONFIG, "'%.60s...' is too long", text);
    }
    enum culm_status status = culm_address_parse(ret_text, &address, error);
    status = status ? status : culm_address_resolve(&address, &number, 1, &count, error);
    if (status == CULM_OK) {
        culm_address_print(&number, ret_text);
    }
    return status;
}

static enum culm_status listen_for_all(const char *text, int *ret_fd,
                                       char ret_address[CULM_ADDRESS_SIZE],
                                       struct culm_error *error) {
    char where[CULM_ADDRESS_SIZE];
    struct culm_error why;
    enum culm_status status = full_address(text, where, &why);
    status = status ? status : culm_socket_listen(where, ret_fd, ret_address, &why);
    if (status != CULM_OK) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "edge.health: '%.100s': %s; name an address of this machine as "
                              "HOST:PORT, and a port that nobody uses",
                              text, why.text);
    }
    memmove(ret_address, ret_address + 4, strlen(ret_address + 4) + 1); /* without "tcp:" */
    return CULM_OK;
}

enum culm_status live_begin_monitor(struct culm_live *run, struct culm_error *error) {
    struct live_monitor *monitor = &run->monitor;
    const char *health = run->catalog[0]->workload.edge.health;
    struct culm_http_options options = {.listener = {-1, -1}, .answer = answer, .ctx = monitor};
    struct culm_error why;
    if (health) {
        enum culm_status status =
            listen_for_all(health, &options.listener[1], monitor->health, error);
        if (status != CULM_OK) {
            return status;
        }
    }
    monitor->dir_fd = open(run->out, O_PATH | O_DIRECTORY | O_CLOEXEC);
    options.listener[0] = monitor->dir_fd < 0
                              ? (culm_error_errno(&why, errno, "open '%s'", run->out), -1)
                              : listen_in(monitor->dir_fd, run->out, &why);
    monitor->listens = options.listener[0] >= 0;
    if (!monitor->listens) {
        snprintf(monitor->deaf, sizeof monitor->deaf, "%s", why.text);
    }
    return monitor->listens || health ? culm_http_new(&options, &monitor->http, error) : CULM_OK;
}

void live_end_monitor(struct culm_live *run) {
    struct live_monitor *monitor = &run->monitor;
    if (monitor->listens) {
        (void)unlinkat(monitor->dir_fd, SOCKET, 0);
        monitor->listens = false;
    }
    culm_http_free(monitor->http);
    monitor->http = NULL;
    if (monitor->dir_fd >= 0) {
        close(monitor->dir_fd);
        monitor->dir_fd = -1;
    }
}

/* --- the loop --- */

static void give(struct live_monitor *monitor, const char *state, char *take_text,
                 char *take_metrics, const char *ill) {
    pthread_mutex_lock(&monitor->lock);
    char *text = monitor->text, *metrics = monitor->metrics;
    monitor->state = state;
    monitor->text = take_text;
    monitor->metrics = take_metrics;
    snprintf(monitor->ill, sizeof monitor->ill, "%s", ill);
    monitor->at_ns = culm_clock_ns();
    pthread_mutex_unlock(&monitor->lock);
    free(text);
    free(metrics);
}

void live_look(struct culm_live *run) {
    struct live_monitor *monitor = &run->monitor;
    const uint64_t now = culm_clock_ns();
    char ill[sizeof monitor->ill];
    if (now < monitor->look_ns || run->stops) {
        return;
    }
    if (monitor->look_ns == 0 && monitor->deaf[0]) {
        char text[CULM_ERROR_MAX + 80];
        snprintf(text, sizeof text, "%s; 'culm edge status' cannot ask this run", monitor->deaf);
        live_warn(run, text);
    }
    monitor->look_ns = now + LOOK_NS;
    live_look_beside(run);
    json_t *look = monitor->http ? live_look_at(run, ill) : NULL;
    char *text = look ? json_dumps(look, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    char *metrics = look ? culm_live_metrics(look) : NULL;
    json_decref(look);
    if (text && metrics) {
        give(monitor, "running", text, metrics, ill);
    } else { /* out of memory: the last look has to do */
        free(text);
        free(metrics);
    }
}

void live_ends(struct culm_live *run) {
    pthread_mutex_lock(&run->monitor.lock);
    run->monitor.state = "ending";
    pthread_mutex_unlock(&run->monitor.lock);
}

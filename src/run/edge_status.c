/* Asks a run how it goes, or looks at what it has left. See edge_status.h. */
#include "run/edge_status.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "launch/rundir.h"
#include "report/sink.h"
#include "report/summary.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define ANSWER_MAX ((size_t)4 << 20)
#define ANSWER_NS UINT64_C(3000000000) /* a run that is well answers at once */
#define BEGIN_NS UINT64_C(1000000000)  /* from the claim of a folder until somebody listens in it */
#define LAST_MAX (1 << 20)             /* bytes of the last event */

/* --- asking --- */

/* A connection to the run's socket; -1: nobody listens there. */
static int call(const char *dir) {
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    const int folder = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) {
        return -1;
    }
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    snprintf(at.sun_path, sizeof at.sun_path, "/proc/self/fd/%d/socket", folder);
    const bool there = fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof at) == 0;
    close(folder);
    if (fd >= 0 && !there) {
        close(fd);
    }
    return there ? fd : -1;
}

static bool wait_for(int fd, short events, uint64_t until_ns) {
    struct pollfd one = {.fd = fd, .events = events};
    for (;;) {
        const uint64_t now = culm_clock_ns();
        const int n = now < until_ns ? poll(&one, 1, (int)((until_ns - now) / 1000000) + 1) : 0;
        if (n >= 0 || errno != EINTR) {
            return n > 0;
        }
    }
}

/* What is answered, until the end; NULL: nothing in time. */
static char *listen_to(int fd) {
    static const char request[] = "GET /status HTTP/1.1\r\nHost: culm\r\n\r\n";
    const uint64_t until = culm_clock_ns() + ANSWER_NS;
    struct culm_buf answer;
    char part[16384];
    ssize_t n = send(fd, request, sizeof request - 1, MSG_NOSIGNAL);
    bool whole = n == (ssize_t)(sizeof request - 1);
    culm_buf_init(&answer, ANSWER_MAX);
    while (whole && !answer.failed && n != 0) {
        whole = wait_for(fd, POLLIN, until);
        n = whole ? recv(fd, part, sizeof part, 0) : 0;
        if (n > 0) {
            culm_buf_bytes(&answer, part, (size_t)n);
        }
        whole = whole && (n >= 0 || errno == EAGAIN || errno == EINTR);
    }
    if (!whole) {
        culm_buf_release(&answer);
        return NULL;
    }
    return culm_buf_take_text(&answer);
}

/* NULL: it does not answer, or not sensibly. */
static json_t *ask(int take_fd) {
    char *text = listen_to(take_fd);
    const char *body = text ? strstr(text, "\r\n\r\n") : NULL;
    json_t *status = body ? json_loads(body + 4, 0, NULL) : NULL;
    free(text);
    close(take_fd);
    return status;
}

/* --- what is left --- */

/* The last line of the file, or NULL. */
static json_t *last_event(const char *path, struct stat *ret_info) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    json_t *event = NULL;
    if (fd < 0) {
        return NULL;
    }
    if (fstat(fd, ret_info) == 0 && S_ISREG(ret_info->st_mode)) {
        const size_t size =
            ret_info->st_size < LAST_MAX ? (size_t)ret_info->st_size : (size_t)LAST_MAX;
        char *text = calloc(1, size + 1);
        const ssize_t n = text ? pread(fd, text, size, ret_info->st_size - (off_t)size) : 0;
        if (n > 1 && text[n - 1] == '\n') {
            text[n - 1] = '\0';
            const char *before = strrchr(text, '\n');
            event = json_loads(before ? before + 1 : text, 0, NULL);
        }
        free(text);
    }
    close(fd);
    return event;
}

static json_t *left_by(const char *dir) {
    char path[CULM_PATH_MAX], last[32] = "";
    struct stat info = {0};
    struct tm day;
    json_t *status = json_object();
    if (culm_path_format(path, NULL, "%s/events.jsonl", dir) != CULM_OK) {
        return status;
    }
    json_t *event = last_event(path, &info);
    const bool done = strcmp(culm_event_text(event, "event", ""), "done") == 0;
    json_object_set_new(status, "state", json_string(done ? "ended" : "dead"));
    json_object_set_new(status, "ill",
                        done ? json_null()
                             : json_string("its process is gone, and has not said 'done': it was "
                                           "killed, or its machine went off"));
    if (gmtime_r(&info.st_mtim.tv_sec, &day) &&
        strftime(last, sizeof last, "%Y-%m-%dT%H:%M:%SZ", &day) > 0) {
        json_object_set_new(status, "last", json_string(last));
    }
    if (done) {
        json_object_del(event, "event");
        json_object_del(event, "t_ms");
        json_object_update_missing(status, event);
    }
    json_decref(event);
    return status;
}

/* --- from outside --- */

static bool is_edge(const char *dir, struct culm_error *error) {
    char job[CULM_SUMMARY_JOB_NAME] = "";
    if (culm_summary_job_name(dir, job, error) != CULM_OK) {
        return false;
    }
    if (strcmp(job, "edge") != 0) {
        (void)culm_error_set(error, CULM_ERR_CONFIG,
                             "'%.200s' has a run of culm %s; culm edge status tells of culm edge "
                             "run",
                             dir, job[0] ? job : "train");
    }
    return strcmp(job, "edge") == 0;
}

static bool has_socket(const char *dir) {
    char path[CULM_PATH_MAX];
    struct stat info;
    return culm_path_format(path, NULL, "%s/socket", dir) == CULM_OK && lstat(path, &info) == 0 &&
           S_ISSOCK(info.st_mode);
}

bool culm_edge_status_is_there(const char *dir) { return has_socket(dir) || is_edge(dir, NULL); }

static json_t *stuck(const char *state, int64_t pid, const char *why) {
    return json_pack("{s:s, s:s, s:I}", "state", state, "ill", why, "pid", (json_int_t)pid);
}

enum culm_status culm_edge_status(const char *dir, json_t **ret_status, struct culm_error *error) {
    const struct timespec pause = {.tv_nsec = 50000000};
    const uint64_t until = culm_clock_ns() + BEGIN_NS;
    struct culm_error why = {0};
    if (!has_socket(dir) && !is_edge(dir, &why)) {
        return why.status == CULM_ERR_CONFIG
                   ? culm_error_set(error, CULM_ERR_CONFIG, "%s", why.text)
                   : culm_error_set(error, CULM_ERR_NOT_FOUND,
                                    "'%.200s' is not the directory of a run of culm edge; name "
                                    "what its --out said, or runs/NAME-edge",
                                    dir);
    }
    int64_t pid;
    int fd;
    while ((fd = call(dir)) < 0 && (pid = culm_rundir_pid(dir)) > 0 && culm_clock_ns() < until) {
        (void)nanosleep(&pause, NULL);
    }
    json_t *status = fd >= 0 ? ask(fd) : NULL;
    if (!status) {
        pid = culm_rundir_pid(dir);
        status = pid <= 0 ? left_by(dir)
                 : fd >= 0
                     ? stuck("frozen", pid, "its process does not answer: it was stopped, or hangs")
                     : stuck("silent", pid, "its process is there, and nobody listens at 'socket'");
    }
    *ret_status = status;
    return status ? CULM_OK : culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
}

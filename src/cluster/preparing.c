/* Signs of life while a worker prepares. See preparing.h. */
#include "cluster/preparing.h"

#include "cluster/wire.h"
#include "net/frame.h"
#include "net/socket.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define BEAT_NS 250000000ull
#define WRITE_NS 30000000000ull

struct culm_preparing {
    struct culm_channel *channel;
    int wake_fd; /* an eventfd, to stop */
    bool (*readable)(void *ctx);
    void *ctx;
    clockid_t clock; /* processor time of the thread that prepares */
    pthread_t thread;
};

static uint64_t spent_ns(const struct culm_preparing *p) {
    struct timespec t = {0};
    (void)clock_gettime(p->clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* False: it is over. Calls `readable` meanwhile; *ret_deaf: it does not want to be called again. */
static bool wait_a_beat(struct culm_preparing *p, bool *ret_deaf) {
    for (uint64_t due = culm_clock_ns() + BEAT_NS;;) {
        struct pollfd fds[] = {{.fd = p->wake_fd, .events = POLLIN},
                               {.fd = *ret_deaf ? -1 : p->channel->fd, .events = POLLIN}};
        bool held = !*ret_deaf && culm_channel_holds(p->channel);
        uint64_t now = culm_clock_ns();
        if (now >= due) {
            return true;
        }
        if (poll(fds, 2, held ? 0 : (int)((due - now) / 1000000) + 1) <= 0 && !held) {
            continue;
        }
        if (fds[0].revents) {
            return false;
        }
        *ret_deaf = !p->readable(p->ctx);
    }
}

static void *beat(void *arg) {
    struct culm_preparing *p = arg;
    uint8_t frame[CULM_FRAME_HEADER_BYTES];
    uint64_t before = spent_ns(p);
    culm_frame_header_encode(&(struct culm_message){.type = CULM_WIRE_PREPARING}, frame);
    bool deaf = false;
    while (wait_a_beat(p, &deaf)) {
        uint64_t now = spent_ns(p);
        if (now != before && culm_channel_write(p->channel, frame, sizeof frame,
                                                culm_clock_ns() + WRITE_NS, NULL) != CULM_OK) {
            break; /* the worker's next message will fail as well, and report the error */
        }
        before = now;
    }
    return NULL;
}

enum culm_status culm_preparing_start(struct culm_channel *channel, bool (*readable)(void *ctx),
                                      void *ctx, struct culm_preparing **ret_preparing,
                                      struct culm_error *error) {
    struct culm_preparing *p = calloc(1, sizeof *p);
    if (!p) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a thread");
    }
    *p = (struct culm_preparing){.channel = channel, .readable = readable, .ctx = ctx};
    p->wake_fd = eventfd(0, EFD_CLOEXEC);
    int failed = p->wake_fd < 0 ? errno : pthread_getcpuclockid(pthread_self(), &p->clock);
    failed = failed ? failed : pthread_create(&p->thread, NULL, beat, p);
    if (failed) {
        if (p->wake_fd >= 0) {
            close(p->wake_fd);
        }
        free(p);
        return culm_error_errno(error, failed, "start a thread");
    }
    *ret_preparing = p;
    return CULM_OK;
}

void culm_preparing_stop(struct culm_preparing *p) {
    if (!p) {
        return;
    }
    (void)eventfd_write(p->wake_fd, 1);
    pthread_join(p->thread, NULL);
    close(p->wake_fd);
    free(p);
}

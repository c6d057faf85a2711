/* Signs of life while a worker prepares. See preparing.h. */
#include "cluster/preparing.h"

#include "cluster/wire.h"
#include "net/frame.h"
#include "net/socket.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#define BEAT_NS 250000000ull
#define WRITE_NS 30000000000ull

struct culm_preparing {
    int fd;
    clockid_t clock; /* processor time of the thread that prepares */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool stop; /* under the lock */
};

static uint64_t spent_ns(const struct culm_preparing *p) {
    struct timespec t = {0};
    (void)clock_gettime(p->clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* False: it is over. */
static bool wait_a_beat(struct culm_preparing *p) {
    uint64_t due = culm_clock_ns() + BEAT_NS;
    const struct timespec until = {(time_t)(due / 1000000000u), (long)(due % 1000000000u)};
    pthread_mutex_lock(&p->lock);
    while (!p->stop && pthread_cond_timedwait(&p->wake, &p->lock, &until) != ETIMEDOUT) {
    }
    bool stop = p->stop;
    pthread_mutex_unlock(&p->lock);
    return !stop;
}

static void *beat(void *arg) {
    struct culm_preparing *p = arg;
    uint8_t frame[CULM_FRAME_HEADER_BYTES];
    uint64_t before = spent_ns(p);
    culm_frame_header_encode(&(struct culm_message){.type = CULM_WIRE_PREPARING}, frame);
    while (wait_a_beat(p)) {
        uint64_t now = spent_ns(p);
        if (now != before && culm_socket_write(p->fd, frame, sizeof frame,
                                               culm_clock_ns() + WRITE_NS, NULL) != CULM_OK) {
            break; /* the worker's next message will fail as well, and report the error */
        }
        before = now;
    }
    return NULL;
}

enum culm_status culm_preparing_start(int fd, struct culm_preparing **ret_preparing,
                                      struct culm_error *error) {
    struct culm_preparing *p = calloc(1, sizeof *p);
    pthread_condattr_t attr;
    if (!p) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a thread");
    }
    p->fd = fd;
    int failed = pthread_getcpuclockid(pthread_self(), &p->clock);
    pthread_mutex_init(&p->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&p->wake, &attr);
    pthread_condattr_destroy(&attr);
    failed = failed ? failed : pthread_create(&p->thread, NULL, beat, p);
    if (failed) {
        pthread_cond_destroy(&p->wake);
        pthread_mutex_destroy(&p->lock);
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
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_signal(&p->wake);
    pthread_mutex_unlock(&p->lock);
    pthread_join(p->thread, NULL);
    pthread_cond_destroy(&p->wake);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

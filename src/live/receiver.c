/*
 * The queue of a receiver, and its thread. See receiver.h.
 *
 * Lines that are on their way are the thread's alone, and stay in the queue's count until they have arrived, so
 * that there is one limit for all; the queue is shared. One that makes the receiver hang up again and again is
 * lost, so that it does not hold up the others. A thread that cannot be ended in time (a name is being looked up)
 * is left behind, and frees what it holds once it is done.
 */
#include "live/receiver.h"

#include "base/clock.h"
#include "base/stops.h"
#include "base/url.h"
#include "edge/outage.h"
#include "live/receiver_way.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CONNECT_NS UINT64_C(5000000000)
#define SEND_NS UINT64_C(10000000000)
#define IDLE_MS 500
#define TRIES 3       /* of a line; more may be its own fault */
#define LEAVE_MS 2000 /* for a thread that is to end now */
#define MS UINT64_C(1000000)

struct culm_receiver {
    struct culm_way *way; /* the thread's, as the next three */
    bool connected;
    struct culm_line flight[CULM_RECEIVER_BATCH];
    size_t flying;
    int tries; /* how often the first line has been on its way in vain */
    pthread_t thread;
    bool ended; /* by the loop */
    char to[CULM_RECEIVER_SHOWN];
    int stop;             /* atomic: what is not sent by now is not sent any more */
    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t moved;
    struct culm_line *ring; /* [CULM_RECEIVER_LINES] */
    size_t first, count;
    size_t bytes, flight_bytes, flight_lines; /* of those that wait; of those on their way */
    bool closed, over; /* no more lines come; the thread has ended, or soon will without a word */
    int holders;       /* the loop and the thread */
    struct culm_edge_outage outage;
    int64_t sent, lost;
    char down[CULM_ERROR_MAX];
    bool up;
};

/* --- the queue; with the lock held --- */

static void lose_oldest(struct culm_receiver *receiver) {
    struct culm_line *line = &receiver->ring[receiver->first];
    receiver->bytes -= line->len;
    receiver->first = (receiver->first + 1) % CULM_RECEIVER_LINES;
    receiver->count--;
    receiver->lost++;
    free(line->text);
}

static bool is_full(const struct culm_receiver *receiver, size_t more) {
    return receiver->count + receiver->flight_lines == CULM_RECEIVER_LINES ||
           receiver->bytes + receiver->flight_bytes + more > CULM_RECEIVER_BYTES;
}

/* Takes lines out of the queue, as many as may travel together. */
static void take_off(struct culm_receiver *receiver) {
    size_t bytes = 0;
    while (receiver->count > 0 && receiver->flying < CULM_RECEIVER_BATCH) {
        const struct culm_line line = receiver->ring[receiver->first];
        if (receiver->flying > 0 && bytes + line.len > CULM_RECEIVER_BATCH_BYTES) {
            break;
        }
        receiver->flight[receiver->flying++] = line;
        receiver->first = (receiver->first + 1) % CULM_RECEIVER_LINES;
        receiver->count--;
        receiver->bytes -= line.len;
        bytes += line.len;
    }
    receiver->flight_bytes = bytes;
    receiver->flight_lines = receiver->flying;
}

/* The first lines on their way have arrived, or are lost. */
static void land(struct culm_receiver *receiver, size_t lines, bool arrived) {
    for (size_t i = 0; i < lines; i++) {
        receiver->flight_bytes -= receiver->flight[i].len;
        free(receiver->flight[i].text);
    }
    *(arrived ? &receiver->sent : &receiver->lost) += (int64_t)lines;
    receiver->flying -= lines;
    receiver->flight_lines = receiver->flying;
    memmove(receiver->flight, receiver->flight + lines,
            receiver->flying * sizeof *receiver->flight);
}

/* Lines that have not arrived wait again, so that they are the first to give way. There is room for them: they
 * were counted all the time. */
static void put_back(struct culm_receiver *receiver) {
    while (receiver->flying > 0) {
        const struct culm_line line = receiver->flight[--receiver->flying];
        receiver->first = (receiver->first + CULM_RECEIVER_LINES - 1) % CULM_RECEIVER_LINES;
        receiver->ring[receiver->first] = line;
        receiver->count++;
        receiver->bytes += line.len;
    }
    receiver->flight_bytes = receiver->flight_lines = 0;
}

/* --- the thread --- */

static bool stops(struct culm_receiver *receiver) {
    return __atomic_load_n(&receiver->stop, __ATOMIC_ACQUIRE);
}

static struct timespec after_ms(uint64_t ms) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    const uint64_t ns = (uint64_t)at.tv_nsec + ms % 1000 * MS;
    at.tv_sec += (time_t)(ms / 1000 + ns / 1000000000);
    at.tv_nsec = (long)(ns % 1000000000);
    return at;
}

/* With the lock held. Until something happens, at most for so long. */
static void wait_for(struct culm_receiver *receiver, uint64_t ms) {
    const struct timespec at = after_ms(ms);
    (void)pthread_cond_timedwait(&receiver->moved, &receiver->lock, &at);
}

/* It takes no lines, for this reason. Returns when to try again. */
static uint64_t go_down(struct culm_receiver *receiver, const struct culm_error *why) {
    bool goes_down;
    pthread_mutex_lock(&receiver->lock);
    const uint64_t at = culm_edge_outage_fails(&receiver->outage, culm_clock_ns(), &goes_down);
    if (goes_down) {
        culm_url_show(why->text, receiver->down, sizeof receiver->down);
    }
    pthread_mutex_unlock(&receiver->lock);
    return at;
}

static void come_up(struct culm_receiver *receiver) {
    uint64_t after_ns;
    pthread_mutex_lock(&receiver->lock);
    receiver->up |= culm_edge_outage_frame(&receiver->outage, culm_clock_ns(), &after_ns);
    pthread_mutex_unlock(&receiver->lock);
}

static void hang_up(struct culm_receiver *receiver) {
    if (receiver->connected && receiver->way->ops->hang_up) {
        receiver->way->ops->hang_up(receiver->way);
    }
    receiver->connected = false;
}

static enum culm_status connect_to(struct culm_receiver *receiver, struct culm_error *error) {
    const struct culm_way_ops *ops = receiver->way->ops;
    enum culm_status status = CULM_OK;
    if (!receiver->connected && ops->connect) {
        status = ops->connect(receiver->way, culm_clock_ns() + CONNECT_NS, error);
    }
    receiver->connected = status == CULM_OK;
    return status;
}

/* Sends what is on its way, or what waits. Returns when to try again; 0: at once. */
static uint64_t send_some(struct culm_receiver *receiver) {
    const struct culm_way_ops *ops = receiver->way->ops;
    struct culm_error why = {0};
    size_t taken = 0;
    enum culm_status status = connect_to(receiver, &why);
    if (status != CULM_OK) {
        return go_down(receiver, &why);
    }
    pthread_mutex_lock(&receiver->lock);
    if (receiver->flying == 0) {
        take_off(receiver);
    }
    pthread_mutex_unlock(&receiver->lock);
    if (receiver->flying == 0) {
        status = ops->idle ? ops->idle(receiver->way, &why) : CULM_OK;
    } else {
        status = ops->send(receiver->way, receiver->flight, receiver->flying,
                           culm_clock_ns() + SEND_NS, &taken, &why);
    }
    if (taken > 0) {
        come_up(receiver);
    }
    pthread_mutex_lock(&receiver->lock);
    land(receiver, taken, true);
    receiver->tries = taken > 0 ? 0 : receiver->tries;
    if (status == CULM_ERR_FORMAT) {
        land(receiver, receiver->flying, false);
    } else if (status != CULM_OK && status != CULM_ERR_AGAIN) {
        receiver->tries += receiver->flying > 0 && ops->connect;
        if (receiver->tries >= TRIES) {
            land(receiver, 1, false);
            receiver->tries = 0;
        }
        put_back(receiver);
    }
    pthread_mutex_unlock(&receiver->lock);
    if (status == CULM_OK) {
        return 0;
    }
    if (status != CULM_ERR_AGAIN && status != CULM_ERR_FORMAT) {
        hang_up(receiver);
    }
    const uint64_t at = go_down(receiver, &why);
    return status == CULM_ERR_AGAIN ? 0 : at;
}

static void release(struct culm_receiver *receiver) {
    while (receiver->count > 0) {
        lose_oldest(receiver);
    }
    for (size_t i = 0; i < receiver->flying; i++) {
        free(receiver->flight[i].text);
    }
    if (receiver->way) {
        receiver->way->ops->free(receiver->way);
    }
    pthread_cond_destroy(&receiver->moved);
    pthread_mutex_destroy(&receiver->lock);
    free(receiver->ring);
    free(receiver);
}

static void let_go(struct culm_receiver *receiver) {
    pthread_mutex_lock(&receiver->lock);
    const bool last = --receiver->holders == 0;
    pthread_mutex_unlock(&receiver->lock);
    if (last) {
        release(receiver);
    }
}

static void *serve(void *arg) {
    struct culm_receiver *receiver = arg;
    bool done = false;
    uint64_t again = 0;
    while (!stops(receiver) && !done) {
        pthread_mutex_lock(&receiver->lock);
        const uint64_t now = culm_clock_ns();
        if (now < again) {
            wait_for(receiver, (again - now) / MS + 1);
        } else if (receiver->count == 0 && receiver->flying == 0 && !receiver->closed) {
            wait_for(receiver, IDLE_MS);
        }
        done = receiver->closed && receiver->count == 0 && receiver->flying == 0;
        pthread_mutex_unlock(&receiver->lock);
        if (!done && !stops(receiver) && culm_clock_ns() >= again) {
            again = send_some(receiver);
        }
    }
    hang_up(receiver);
    pthread_mutex_lock(&receiver->lock);
    receiver->over = true;
    pthread_cond_broadcast(&receiver->moved);
    pthread_mutex_unlock(&receiver->lock);
    let_go(receiver);
    return NULL;
}

/* --- from outside --- */

#define UNIX "unix:"
#define MQTT "mqtt://"

static bool begins(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

static bool is_http(const char *to) { return begins(to, "http://") || begins(to, "https://"); }

enum culm_status culm_receiver_check(const char *to, struct culm_error *error) {
    char shown[CULM_RECEIVER_SHOWN];
    culm_url_show(to, shown, sizeof shown);
    if (begins(to, MQTT)) {
        return culm_way_mqtt_check(to, error);
    }
    if ((begins(to, UNIX) && to[strlen(UNIX)]) ||
        (is_http(to) && strstr(to, "://")[3] && strstr(to, "://")[3] != '/')) {
        return CULM_OK;
    }
    return culm_error_set(error, CULM_ERR_CONFIG,
                          "'%.100s' is none of file, unix:PATH, http://HOST/..., https://HOST/... "
                          "and mqtt://HOST/TOPIC",
                          shown);
}

static enum culm_status make_way(struct culm_receiver *receiver, const char *to,
                                 struct culm_error *error) {
    return begins(to, UNIX)
               ? culm_way_unix(to + strlen(UNIX), &receiver->stop, &receiver->way, error)
           : begins(to, MQTT) ? culm_way_mqtt(to, &receiver->stop, &receiver->way, error)
                              : culm_way_http(to, &receiver->stop, &receiver->way, error);
}

enum culm_status culm_receiver_new(const char *to, struct culm_receiver **ret_receiver,
                                   struct culm_error *error) {
    struct culm_receiver *receiver = calloc(1, sizeof *receiver);
    pthread_condattr_t monotonic;
    sigset_t before;
    if (!receiver) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for answers");
    }
    culm_url_show(to, receiver->to, sizeof receiver->to);
    pthread_mutex_init(&receiver->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&receiver->moved, &monotonic);
    pthread_condattr_destroy(&monotonic);
    receiver->holders = 2;
    receiver->ring = calloc(CULM_RECEIVER_LINES, sizeof *receiver->ring);
    enum culm_status status =
        receiver->ring ? make_way(receiver, to, error)
                       : culm_error_set(error, CULM_ERR_MEMORY, "out of memory for answers");
    if (status == CULM_OK) {
        culm_signals_hold(&before);
        if (pthread_create(&receiver->thread, NULL, serve, receiver) != 0) {
            status = culm_error_set(error, CULM_ERR_MEMORY, "cannot start a thread for answers");
        }
        culm_signals_let(&before);
    }
    if (status != CULM_OK) {
        release(receiver);
        culm_error_prefix(error, "answers.to");
        return status;
    }
    *ret_receiver = receiver;
    return CULM_OK;
}

void culm_receiver_put(struct culm_receiver *receiver, const char *line) {
    const size_t len = line ? strlen(line) : 0;
    char *text = line ? malloc(len + 2) : NULL;
    if (text) {
        memcpy(text, line, len);
        memcpy(text + len, "\n", 2);
    }
    pthread_mutex_lock(&receiver->lock);
    while (text && receiver->count > 0 && is_full(receiver, len + 1)) {
        lose_oldest(receiver);
    }
    if (!text || receiver->closed || is_full(receiver, len + 1)) {
        receiver->lost++;
        free(text);
    } else {
        const size_t at = (receiver->first + receiver->count++) % CULM_RECEIVER_LINES;
        receiver->ring[at] = (struct culm_line){text, len + 1};
        receiver->bytes += len + 1;
        if (!receiver->outage.down) {
            pthread_cond_broadcast(&receiver->moved);
        }
    }
    pthread_mutex_unlock(&receiver->lock);
}

void culm_receiver_look(struct culm_receiver *receiver, bool news,
                        struct culm_receiver_look *ret_look) {
    pthread_mutex_lock(&receiver->lock);
    *ret_look =
        (struct culm_receiver_look){.state = receiver->outage.down ? "down"
                                             : receiver->sent > 0  ? "up"
                                                                   : "waiting",
                                    .sent = receiver->sent,
                                    .lost = receiver->lost,
                                    .waiting = (int64_t)(receiver->count + receiver->flight_lines),
                                    .up = receiver->up};
    memcpy(ret_look->to, receiver->to, sizeof ret_look->to);
    memcpy(ret_look->down, receiver->down, sizeof ret_look->down);
    if (news) {
        receiver->down[0] = '\0';
        receiver->up = false;
    }
    pthread_mutex_unlock(&receiver->lock);
}

void culm_receiver_close(struct culm_receiver *receiver) {
    pthread_mutex_lock(&receiver->lock);
    receiver->closed = true;
    pthread_cond_broadcast(&receiver->moved);
    pthread_mutex_unlock(&receiver->lock);
}

void culm_receiver_end(struct culm_receiver *receiver, uint64_t until_ns) {
    const uint64_t now = culm_clock_ns(), wait_ms = until_ns > now ? (until_ns - now) / MS : 0;
    const struct timespec until = after_ms(wait_ms), last = after_ms(wait_ms + LEAVE_MS);
    int late = 0;
    if (receiver->ended) {
        return;
    }
    receiver->ended = true;
    culm_receiver_close(receiver);
    pthread_mutex_lock(&receiver->lock);
    while (!receiver->over && late == 0 && !receiver->outage.down) {
        late = pthread_cond_timedwait(&receiver->moved, &receiver->lock, &until);
    }
    __atomic_store_n(&receiver->stop, 1, __ATOMIC_RELEASE);
    pthread_cond_broadcast(&receiver->moved);
    for (late = 0; !receiver->over && late == 0;) {
        late = pthread_cond_timedwait(&receiver->moved, &receiver->lock, &last);
    }
    while (receiver->count > 0) {
        lose_oldest(receiver);
    }
    if (receiver->over) { /* else the thread still has them, and nobody will know */
        land(receiver, receiver->flying, false);
    } else {
        receiver->lost += (int64_t)receiver->flight_lines;
        receiver->flight_lines = 0;
    }
    pthread_mutex_unlock(&receiver->lock);
}

void culm_receiver_free(struct culm_receiver *receiver) {
    if (!receiver) {
        return;
    }
    culm_receiver_end(receiver, 0);
    pthread_mutex_lock(&receiver->lock);
    const bool over = receiver->over;
    pthread_mutex_unlock(&receiver->lock);
    const pthread_t thread = receiver->thread;
    let_go(receiver);
    if (over) {
        pthread_join(thread, NULL);
    } else {
        pthread_detach(thread);
    }
}

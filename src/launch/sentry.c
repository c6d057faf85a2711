/* See sentry.h. */
#include "launch/sentry.h"

#include "base/clock.h"
#include "net/socket.h"

#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LOOK_NS 100000000ull  /* how soon it notices that it is to watch another one */
#define CALL_NS 1000000000ull /* for which it waits for an answer to a call */
#define TRIES 3               /* of what it asks the store */

struct culm_sentry {
    struct culm_keys *keys;
    const char *run;
    pthread_t thread;
    pthread_mutex_t lock; /* protects what follows */
    pthread_cond_t more;
    bool quits;
    uint64_t term; /* of whom it watches; 0: nobody */
    char address[CULM_ADDRESS_SIZE];
};

static bool still(struct culm_sentry *s, uint64_t term) {
    pthread_mutex_lock(&s->lock);
    const bool same = !s->quits && s->term == term;
    pthread_mutex_unlock(&s->lock);
    return same;
}

/* CULM_OK: *ret_fd is connected. CULM_ERR_NOT_FOUND: its machine refuses. Others: nothing is known. */
static enum culm_status call(const char *text, int *ret_fd) {
    struct culm_address address, number;
    char told[CULM_ADDRESS_SIZE];
    size_t count;
    int fd = -1;
    enum culm_status status = culm_address_parse(text, &address, NULL);
    if (status || (status = culm_address_resolve(&address, &number, 1, &count, NULL))) {
        return CULM_ERR_AGAIN; /* a name that is not known says nothing of a process */
    }
    culm_address_print(&number, told);
    status = culm_socket_connect(told, &fd, NULL);
    if (status == CULM_OK) {
        status = culm_socket_wait(fd, POLLOUT, culm_clock_ns() + CALL_NS)
                     ? culm_socket_connect_status(culm_socket_error(fd))
                     : CULM_ERR_AGAIN;
    }
    if (status != CULM_OK && fd >= 0) {
        close(fd);
    }
    *ret_fd = fd;
    return status;
}

/* Until the connection has ended: true. Nothing is said over it, so that the other side may end it, which is no news. */
static bool await_end(struct culm_sentry *s, uint64_t term, int fd) {
    char ignored[256];
    while (still(s, term)) {
        if (!culm_socket_wait(fd, POLLIN, culm_clock_ns() + LOOK_NS)) {
            continue;
        }
        const ssize_t got = read(fd, ignored, sizeof ignored);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
            return true;
        }
    }
    return false;
}

/* The lease on which the key of that term hangs; 0: another one leads, or nobody. */
static enum culm_status lease_of(struct culm_sentry *s, uint64_t term, int64_t *ret_lease) {
    char prefix[CULM_KEYS_KEY_MAX];
    struct culm_keys_list list = {0};
    struct culm_error ignored;
    snprintf(prefix, sizeof prefix, "%s/leader", s->run);
    *ret_lease = 0;
    const enum culm_status status = s->keys->ops->list(s->keys, prefix, NULL, &list, &ignored);
    const struct culm_keys_pair *key = status == CULM_OK ? culm_keys_find(&list, prefix) : NULL;
    json_t *json = key ? json_loadb(key->value, key->len, 0, NULL) : NULL;
    if (key && (uint64_t)json_integer_value(json_object_get(json, "term")) == term) {
        *ret_lease = key->lease;
    }
    json_decref(json);
    culm_keys_list_release(&list);
    return status;
}

/* If the store does not answer now, the lease ends by itself. */
static void end_lease(struct culm_sentry *s, uint64_t term) {
    struct culm_error ignored;
    int64_t lease = 0;
    enum culm_status status = CULM_ERR_AGAIN;
    for (int i = 0; i < TRIES && status != CULM_OK && still(s, term); i++) {
        status = lease_of(s, term, &lease);
        if (status == CULM_OK && lease) {
            status = s->keys->ops->revoke(s->keys, lease, &ignored);
        }
    }
}

static void rest(void) {
    const struct timespec pause = {.tv_nsec = (long)LOOK_NS};
    (void)nanosleep(&pause, NULL);
}

/* One that has not been reached once may not let anybody in yet. */
static void watch(struct culm_sentry *s, uint64_t term, const char *address) {
    bool reached = false;
    while (still(s, term)) {
        int fd;
        const enum culm_status status = call(address, &fd);
        if (status == CULM_OK) {
            reached = true;
            const bool ended = await_end(s, term, fd);
            close(fd);
            if (!ended) {
                return;
            }
        } else if (status == CULM_ERR_NOT_FOUND && reached) {
            end_lease(s, term);
            return;
        } else {
            rest();
        }
    }
}

static void *work(void *ctx) {
    struct culm_sentry *s = ctx;
    uint64_t seen = 0;
    pthread_mutex_lock(&s->lock);
    while (!s->quits) {
        if (s->term == 0 || s->term == seen) {
            pthread_cond_wait(&s->more, &s->lock);
            continue;
        }
        char address[CULM_ADDRESS_SIZE];
        seen = s->term;
        memcpy(address, s->address, sizeof address);
        pthread_mutex_unlock(&s->lock);
        watch(s, seen, address);
        pthread_mutex_lock(&s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

void culm_sentry_watch(struct culm_sentry *s, uint64_t term, const char *address) {
    pthread_mutex_lock(&s->lock);
    if (term != s->term) {
        s->term = term;
        snprintf(s->address, sizeof s->address, "%s", address);
        pthread_cond_signal(&s->more);
    }
    pthread_mutex_unlock(&s->lock);
}

enum culm_status culm_sentry_new(struct culm_keys *keys, const char *run,
                                 struct culm_sentry **ret_sentry, struct culm_error *error) {
    struct culm_sentry *s = calloc(1, sizeof *s);
    if (!s) {
        culm_keys_close(keys);
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    }
    s->keys = keys;
    s->run = run;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->more, NULL);
    const int failed = pthread_create(&s->thread, NULL, work, s);
    if (failed) {
        culm_keys_close(keys);
        pthread_cond_destroy(&s->more);
        pthread_mutex_destroy(&s->lock);
        free(s);
        return culm_error_set(error, CULM_ERR_MEMORY, "start a thread: %s", strerror(failed));
    }
    *ret_sentry = s;
    return CULM_OK;
}

void culm_sentry_free(struct culm_sentry *s) {
    if (!s) {
        return;
    }
    pthread_mutex_lock(&s->lock);
    s->quits = true;
    pthread_cond_signal(&s->more);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    culm_keys_close(s->keys);
    pthread_cond_destroy(&s->more);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

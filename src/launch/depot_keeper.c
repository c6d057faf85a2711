/* The launcher's side of a depot: a thread for each visit. See depot.h. */
#include "launch/depot.h"

#include "launch/depot_wire.h"
#include "net/socket.h"
#include "store/checkpoint_room.h"
#include "store/manifest.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define VISITS_MAX 32 /* at a time */

struct visit {
    struct culm_depot_keeper *keeper;
    struct culm_channel channel;
    pthread_t thread;
    enum { FREE, SERVED, OVER } state; /* OVER: its thread is to be joined */
};

struct culm_depot_keeper {
    const char *run_dir;
    struct culm_apart *apart;
    pthread_mutex_t lock; /* protects states, and the channels of those who are served */
    struct visit visit[VISITS_MAX];
};

static enum culm_status answer(struct visit *v, enum culm_status what, uint64_t bytes,
                               const char *text) {
    struct culm_depot_answer said = {.status = what, .bytes = bytes};
    struct culm_buf message;
    snprintf(said.text, sizeof said.text, "%s", text);
    culm_buf_init(&message, CULM_DEPOT_MESSAGE_MAX);
    culm_depot_answer_encode(&said, &message);
    enum culm_status status = culm_depot_say(&v->channel, &message, NULL);
    culm_buf_release(&message);
    return status;
}

/* --- PUT --- */

/* The folder of the temporary checkpoint; another one than the run's only if somebody has named it to the run. */
static enum culm_status folder_of(const struct visit *v, const struct culm_depot_request *r,
                                  char ret_dir[CULM_PATH_MAX], struct culm_error *error) {
    char asked[CULM_PATH_MAX];
    const char *base = r->to[0] ? r->to : v->keeper->run_dir;
    if (r->to[0] && (!culm_rescue_asked(v->keeper->run_dir, asked) || strcmp(asked, r->to) != 0)) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "'%.200s' is not where this run may write checkpoints", r->to);
    }
    enum culm_status status =
        culm_checkpoint_name(base, CULM_CHECKPOINT_TMP, r->step, ret_dir, error);
    return status == CULM_OK ? culm_dir_make(NULL, ret_dir, error) : status;
}

static enum culm_status receive(struct visit *v, struct culm_file *file, uint64_t bytes,
                                struct culm_error *error) {
    uint8_t *chunk = malloc(CULM_DEPOT_CHUNK);
    enum culm_status status =
        chunk ? CULM_OK : culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    while (bytes > 0 && status == CULM_OK) {
        const size_t len = bytes < CULM_DEPOT_CHUNK ? (size_t)bytes : CULM_DEPOT_CHUNK;
        status = culm_channel_read(&v->channel, chunk, len, culm_clock_ns() + CULM_DEPOT_SILENCE_NS,
                                   error);
        if (status == CULM_OK) {
            status = culm_file_append(file, chunk, len, error);
            bytes -= len;
        }
    }
    free(chunk);
    return status;
}

static enum culm_status put(struct visit *v, const struct culm_depot_request *r,
                            struct culm_error *error) {
    char dir[CULM_PATH_MAX], path[CULM_PATH_MAX];
    struct culm_file file;
    enum culm_status status = folder_of(v, r, dir, error);
    if (status == CULM_OK) {
        status = culm_path_format(path, error, "%s/%s", dir, r->file);
    }
    if (status == CULM_OK) {
        status = culm_file_create(NULL, path, &file, error);
    }
    if (status != CULM_OK) {
        return status;
    }
    status = answer(v, CULM_OK, 0, "");
    if (status == CULM_OK) {
        status = receive(v, &file, r->bytes, error);
    }
    if (status != CULM_OK) {
        culm_file_abandon(&file);
        return status;
    }
    return culm_file_finish(&file, error);
}

/* --- GET --- */

static enum culm_status open_part(const struct visit *v, const struct culm_depot_request *r,
                                  int *ret_fd, uint64_t *ret_bytes, struct culm_error *error) {
    char dir[CULM_PATH_MAX], path[CULM_PATH_MAX];
    struct stat info;
    struct culm_apart *apart = v->keeper->apart;
    enum culm_status status = culm_checkpoint_path(v->keeper->run_dir, r->step, dir, error);
    if (status == CULM_OK && apart) {
        status = apart->ops->fetch(apart, v->keeper->run_dir, r->step, error);
        if (status == CULM_ERR_AGAIN) { /* the node is to come again, as one that is shown out */
            status = error->status = CULM_ERR_CLOSED;
        }
    }
    if (status == CULM_OK) {
        status = culm_path_format(path, error, "%s/%s", dir, r->file);
    }
    if (status != CULM_OK) {
        return status;
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
        const int cause = errno;
        culm_error_errno(error, cause, "open '%.300s'", path);
        return error->status = cause == ENOENT ? CULM_ERR_NOT_FOUND : CULM_ERR_IO;
    }
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        close(fd);
        return culm_error_set(error, CULM_ERR_FORMAT, "'%.300s' is no plain file", path);
    }
    *ret_fd = fd;
    *ret_bytes = (uint64_t)info.st_size;
    return CULM_OK;
}

/* Whole lines, as they are written. */
static enum culm_status open_events(const struct visit *v, const struct culm_depot_request *r,
                                    int *ret_fd, uint64_t *ret_bytes, struct culm_error *error) {
    char path[CULM_PATH_MAX];
    struct stat info;
    enum culm_status status = culm_path_format(path, error, "%s/events.jsonl", v->keeper->run_dir);
    if (status != CULM_OK) {
        return status;
    }
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &info) != 0 || lseek(fd, (off_t)r->bytes, SEEK_SET) < 0) {
        status = culm_error_errno(error, errno, "read '%.300s'", path);
        if (fd >= 0) {
            close(fd);
        }
        return status;
    }
    *ret_fd = fd;
    *ret_bytes = (uint64_t)info.st_size > r->bytes ? (uint64_t)info.st_size - r->bytes : 0;
    return CULM_OK;
}

/* What cannot be read any more ends the connection: the other side finds bytes missing. */
static void send_part(struct visit *v, int fd, uint64_t bytes) {
    uint8_t *chunk = malloc(CULM_DEPOT_CHUNK);
    bool on = chunk != NULL;
    while (bytes > 0 && on) {
        const size_t len = bytes < CULM_DEPOT_CHUNK ? (size_t)bytes : CULM_DEPOT_CHUNK;
        ssize_t got;
        do {
            got = read(fd, chunk, len);
        } while (got < 0 && errno == EINTR);
        on =
            got > 0 && culm_channel_write(&v->channel, chunk, (size_t)got,
                                          culm_clock_ns() + CULM_DEPOT_SILENCE_NS, NULL) == CULM_OK;
        bytes -= on ? (uint64_t)got : 0;
    }
    free(chunk);
}

/* --- visits --- */

static void serve(struct visit *v) {
    uint8_t data[CULM_DEPOT_MESSAGE_MAX];
    struct culm_depot_request request;
    struct culm_error error = {0};
    size_t len;
    if (culm_depot_hear(&v->channel, data, &len, NULL) != CULM_OK) {
        return;
    }
    if (!culm_depot_request_decode(data, len, &request)) {
        (void)answer(v, CULM_ERR_FORMAT, 0, "the launcher does not know what is asked of it");
        return;
    }
    if (request.verb == CULM_DEPOT_PUT) {
        enum culm_status status = put(v, &request, &error);
        (void)answer(v, status, 0, error.text);
        return;
    }
    int fd = -1;
    uint64_t bytes = 0;
    enum culm_status status = request.verb == CULM_DEPOT_EVENTS
                                  ? open_events(v, &request, &fd, &bytes, &error)
                                  : open_part(v, &request, &fd, &bytes, &error);
    if (status != CULM_OK) {
        (void)answer(v, status, 0, error.text);
        return;
    }
    if (answer(v, CULM_OK, bytes, "") == CULM_OK) {
        send_part(v, fd, bytes);
    }
    close(fd);
}

static void *work(void *ctx) {
    struct visit *v = ctx;
    serve(v);
    pthread_mutex_lock(&v->keeper->lock);
    culm_channel_close(&v->channel);
    v->state = OVER;
    pthread_mutex_unlock(&v->keeper->lock);
    return NULL;
}

/* The lock is held. NULL: as many as may be are served. */
static struct visit *find_place(struct culm_depot_keeper *keeper) {
    for (int32_t i = 0; i < VISITS_MAX; i++) {
        struct visit *v = &keeper->visit[i];
        if (v->state == OVER) {
            pthread_join(v->thread, NULL);
            v->state = FREE;
        }
        if (v->state == FREE) {
            return v;
        }
    }
    return NULL;
}

struct culm_depot_keeper *culm_depot_keeper_new(const char *run_dir, struct culm_apart *apart) {
    struct culm_depot_keeper *keeper = calloc(1, sizeof *keeper);
    if (keeper) {
        keeper->run_dir = run_dir;
        keeper->apart = apart;
        pthread_mutex_init(&keeper->lock, NULL);
    }
    return keeper;
}

void culm_depot_keeper_visit(struct culm_depot_keeper *keeper, struct culm_channel *take_channel) {
    pthread_mutex_lock(&keeper->lock);
    struct visit *v = find_place(keeper);
    if (v) {
        *v = (struct visit){.keeper = keeper, .channel = *take_channel, .state = SERVED};
        if (pthread_create(&v->thread, NULL, work, v) != 0) {
            v->state = FREE;
            v = NULL;
        }
    }
    if (!v) {
        culm_channel_close(take_channel);
    }
    pthread_mutex_unlock(&keeper->lock);
}

void culm_depot_keeper_free(struct culm_depot_keeper *keeper) {
    if (!keeper) {
        return;
    }
    bool there[VISITS_MAX];
    pthread_mutex_lock(&keeper->lock);
    for (int32_t i = 0; i < VISITS_MAX; i++) {
        there[i] = keeper->visit[i].state != FREE;
        if (keeper->visit[i].state == SERVED) {
            (void)shutdown(keeper->visit[i].channel.fd, SHUT_RDWR); /* its thread finds the end */
        }
    }
    pthread_mutex_unlock(&keeper->lock);
    for (int32_t i = 0; i < VISITS_MAX; i++) {
        if (there[i]) {
            pthread_join(keeper->visit[i].thread, NULL);
        }
    }
    pthread_mutex_destroy(&keeper->lock);
    free(keeper);
}

/* The node's side of a depot: a visit for each file. See depot.h. */
#include "launch/depot.h"

#include "cluster/visit.h"
#include "launch/depot_wire.h"
#include "net/socket.h"
#include "store/manifest.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BUSY_NS                                                                                    \
    3600000000000ull /* for so long it is tried again if the launcher serves many others */
#define PAUSE_NS 50000000ull
#define PAUSE_MOST_NS 1000000000ull

struct far_depot {
    struct culm_depot depot; /* first */
    const char *token;
    uint64_t patience_ns;
    pthread_mutex_t lock; /* protects the address */
    char address[CULM_ADDRESS_SIZE];
};

static void tell_moved(const struct culm_read_hook *hook, size_t bytes) {
    if (hook && hook->moved) {
        hook->moved(hook->ctx, bytes);
    }
}

/* What the launcher answers is an error of this side, too. */
static enum culm_status hear_answer(struct culm_channel *channel, uint64_t *ret_bytes,
                                    struct culm_error *error) {
    uint8_t data[CULM_DEPOT_MESSAGE_MAX];
    struct culm_depot_answer said;
    size_t len;
    enum culm_status status = culm_depot_hear(channel, data, &len, error);
    if (status != CULM_OK) {
        return status;
    }
    if (!culm_depot_answer_decode(data, len, &said)) {
        return culm_error_set(error, CULM_ERR_FORMAT, "the launcher's answer is none");
    }
    *ret_bytes = said.bytes;
    return said.status == CULM_OK ? CULM_OK : culm_error_set(error, said.status, "%s", said.text);
}

static enum culm_status ask(struct far_depot *depot, const struct culm_depot_request *request,
                            struct culm_channel *ret_channel, uint64_t *ret_bytes,
                            struct culm_error *error) {
    struct culm_channel channel = {.fd = -1};
    struct culm_buf message;
    char address[CULM_ADDRESS_SIZE];
    pthread_mutex_lock(&depot->lock);
    memcpy(address, depot->address, sizeof address);
    pthread_mutex_unlock(&depot->lock);
    enum culm_status status = culm_visit(address, depot->token, &channel, error);
    if (status != CULM_OK) {
        return status;
    }
    culm_buf_init(&message, CULM_DEPOT_MESSAGE_MAX);
    culm_depot_request_encode(request, &message);
    status = culm_depot_say(&channel, &message, error);
    culm_buf_release(&message);
    if (status == CULM_OK) {
        status = hear_answer(&channel, ret_bytes, error);
    }
    if (status != CULM_OK) {
        culm_channel_close(&channel);
        return status;
    }
    *ret_channel = channel;
    return CULM_OK;
}

/* Shown out before it is answered: as many as may be are served. Nobody there: whoever leads may come back, or another one. */
static bool may_come_again(const struct far_depot *depot, enum culm_status status,
                           const struct culm_error *why, uint64_t begun, uint64_t pause) {
    const bool shown_out = status == CULM_ERR_CLOSED && why->status == CULM_ERR_CLOSED;
    const bool nobody =
        (status == CULM_ERR_CLOSED || status == CULM_ERR_TIMEOUT) && why->status != CULM_ERR_CONFIG;
    const uint64_t passed = culm_clock_ns() + pause - begun;
    return (shown_out && passed < BUSY_NS) || (nobody && passed < depot->patience_ns);
}

/* Opens a visit. */
static enum culm_status visit(struct far_depot *depot, const struct culm_depot_request *request,
                              const struct culm_read_hook *hook, struct culm_channel *ret_channel,
                              uint64_t *ret_bytes, struct culm_error *error) {
    const uint64_t begun = culm_clock_ns();
    uint64_t pause = PAUSE_NS;
    for (;;) {
        struct culm_error why = {0};
        enum culm_status status = ask(depot, request, ret_channel, ret_bytes, &why);
        if (status == CULM_OK || !may_come_again(depot, status, &why, begun, pause)) {
            if (status != CULM_OK && error) {
                *error = why;
            }
            return status;
        }
        const struct timespec rest = {.tv_sec = (time_t)(pause / 1000000000u),
                                      .tv_nsec = (long)(pause % 1000000000u)};
        (void)nanosleep(&rest, NULL);
        tell_moved(hook, 1); /* the other side is there */
        pause = 2 * pause < PAUSE_MOST_NS ? 2 * pause : PAUSE_MOST_NS;
    }
}

/* --- put --- */

static enum culm_status send_file(struct culm_channel *channel, int fd, const char *path,
                                  uint64_t bytes, const struct culm_read_hook *hook,
                                  struct culm_error *error) {
    uint8_t *chunk = malloc(CULM_DEPOT_CHUNK);
    enum culm_status status =
        chunk ? CULM_OK : culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    while (bytes > 0 && status == CULM_OK) {
        ssize_t got = read(fd, chunk, bytes < CULM_DEPOT_CHUNK ? (size_t)bytes : CULM_DEPOT_CHUNK);
        if (got <= 0) {
            if (got < 0 && errno == EINTR) {
                continue;
            }
            status = culm_error_set(error, CULM_ERR_IO, "read '%.300s': %s", path,
                                    got < 0 ? strerror(errno) : "it is shorter than it was");
            break;
        }
        status = culm_channel_write(channel, chunk, (size_t)got,
                                    culm_clock_ns() + CULM_DEPOT_SILENCE_NS, error);
        bytes -= (uint64_t)got;
        tell_moved(hook, (size_t)got);
    }
    free(chunk);
    return status;
}

static enum culm_status far_put(struct culm_depot *depot, const char *run_dir, int64_t step,
                                const struct culm_piece *piece, const char *to,
                                const struct culm_read_hook *hook, struct culm_error *error) {
    char dir[CULM_PATH_MAX], path[CULM_PATH_MAX];
    struct culm_depot_request request = {
        .verb = CULM_DEPOT_PUT, .step = step, .bytes = piece->bytes};
    struct culm_channel channel = {.fd = -1};
    uint64_t none;
    snprintf(request.file, sizeof request.file, "%s", piece->file);
    snprintf(request.to, sizeof request.to, "%s", to);
    enum culm_status status = culm_checkpoint_name(run_dir, CULM_CHECKPOINT_TMP, step, dir, error);
    if (status == CULM_OK) {
        status = culm_path_format(path, error, "%s/%s", dir, piece->file);
    }
    if (status != CULM_OK) {
        return status;
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return culm_error_set(error, CULM_ERR_IO, "open '%.300s': %s", path, strerror(errno));
    }
    status = visit((struct far_depot *)depot, &request, hook, &channel, &none, error);
    if (status == CULM_OK) {
        status = send_file(&channel, fd, path, piece->bytes, hook, error);
        /* Who does not read any more has said why. */
        struct culm_error why = {0};
        enum culm_status heard = status == CULM_OK || status == CULM_ERR_CLOSED
                                     ? hear_answer(&channel, &none, &why)
                                     : status;
        if (why.text[0] && (status == CULM_OK || heard != CULM_ERR_CLOSED)) {
            status = heard;
            *error = why;
        }
    }
    culm_channel_close(&channel);
    close(fd);
    return status;
}

/* --- get --- */

static enum culm_status receive_file(struct culm_channel *channel, const char *path, uint64_t bytes,
                                     const struct culm_read_hook *hook, struct culm_error *error) {
    struct culm_file file;
    uint8_t *chunk = malloc(CULM_DEPOT_CHUNK);
    enum culm_status status = chunk ? culm_file_create(NULL, path, &file, error)
                                    : culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    if (status != CULM_OK) {
        free(chunk);
        return status;
    }
    while (bytes > 0 && status == CULM_OK) {
        const size_t len = bytes < CULM_DEPOT_CHUNK ? (size_t)bytes : CULM_DEPOT_CHUNK;
        status =
            culm_channel_read(channel, chunk, len, culm_clock_ns() + CULM_DEPOT_SILENCE_NS, error);
        if (status == CULM_OK) {
            status = culm_file_append(&file, chunk, len, error);
            bytes -= len;
            tell_moved(hook, len);
        }
    }
    free(chunk);
    if (status != CULM_OK) {
        culm_file_abandon(&file);
        return status;
    }
    return culm_file_finish(&file, error);
}

static enum culm_status fetch(struct culm_depot *depot, const char *dir, int64_t step,
                              const char *name, const struct culm_read_hook *hook,
                              struct culm_error *error) {
    char path[CULM_PATH_MAX];
    struct culm_depot_request request = {.verb = CULM_DEPOT_GET, .step = step};
    struct culm_channel channel = {.fd = -1};
    uint64_t bytes;
    snprintf(request.file, sizeof request.file, "%s", name);
    enum culm_status status = culm_path_format(path, error, "%s/%s", dir, name);
    if (status == CULM_OK) {
        status = visit((struct far_depot *)depot, &request, hook, &channel, &bytes, error);
    }
    if (status == CULM_OK) {
        status = receive_file(&channel, path, bytes, hook, error);
    }
    culm_channel_close(&channel);
    return status;
}

static enum culm_status fetch_pieces(struct culm_depot *depot, const char *dir, int64_t step,
                                     const struct culm_read_hook *hook, struct culm_error *error) {
    struct culm_manifest manifest;
    enum culm_status status = culm_manifest_read_alone(dir, &manifest, error);
    if (status != CULM_OK) {
        return status;
    }
    for (size_t i = 0; i < manifest.piece_count && status == CULM_OK; i++) {
        status = fetch(depot, dir, step, manifest.piece[i].file, hook, error);
    }
    culm_manifest_release(&manifest);
    return status;
}

/* Does DIR have the manifest that was fetched to FRESH, and its pieces? */
static bool is_there(const char *dir, const char *fresh, int64_t step) {
    struct culm_manifest have = {0}, want = {0};
    bool same = culm_checkpoint_check(dir, step, false, NULL) == CULM_OK &&
                culm_manifest_read(dir, &have, NULL) == CULM_OK &&
                culm_manifest_read_alone(fresh, &want, NULL) == CULM_OK &&
                json_equal(have.json, want.json);
    culm_manifest_release(&have);
    culm_manifest_release(&want);
    return same;
}

/* The temporary one of this step, in place of all that is there. */
static enum culm_status replace_all(struct culm_depot *depot, const char *run_dir,
                                    const char *fresh, int64_t step, const char *path,
                                    const struct culm_read_hook *hook, struct culm_error *error) {
    char all[CULM_PATH_MAX], other[CULM_PATH_MAX];
    struct culm_names names = {0};
    enum culm_status status = culm_path_format(all, error, "%s/checkpoints", run_dir);
    status = status ? status : culm_dir_list(all, &names, error);
    for (size_t i = 0; i < names.count && status == CULM_OK; i++) {
        status = culm_path_format(other, error, "%s/%s", all, names.name[i]);
        if (status == CULM_OK && strcmp(other, fresh) != 0) {
            status = culm_tree_remove(NULL, other, error);
        }
    }
    culm_names_release(&names);
    status = status ? status : fetch_pieces(depot, fresh, step, hook, error);
    return status ? status : culm_file_rename(NULL, fresh, path, error);
}

/* A checkpoint of that step may be another one, of an earlier run or made anew: the manifest, which has the hash of each
 * piece, says whether it is. */
static enum culm_status get_once(struct culm_depot *depot, const char *run_dir, int64_t step,
                                 char ret_path[CULM_PATH_MAX], const struct culm_read_hook *hook,
                                 struct culm_error *error) {
    char fresh[CULM_PATH_MAX];
    enum culm_status status;
    if ((status = culm_checkpoint_path(run_dir, step, ret_path, error)) ||
        (status = culm_checkpoint_name(run_dir, CULM_CHECKPOINT_TMP, step, fresh, error)) ||
        (status = culm_tree_remove(NULL, fresh, error)) ||
        (status = culm_dir_make(NULL, fresh, error)) ||
        (status = fetch(depot, fresh, step, "manifest.json", hook, error)) ||
        (status = is_there(ret_path, fresh, step)
                      ? culm_tree_remove(NULL, fresh, error)
                      : replace_all(depot, run_dir, fresh, step, ret_path, hook, error))) {
        return status;
    }
    return CULM_OK;
}

/* Anew, if the launcher is gone in the middle of it. */
static enum culm_status far_get(struct culm_depot *depot, const char *run_dir, int64_t step,
                                char ret_path[CULM_PATH_MAX], const struct culm_read_hook *hook,
                                struct culm_error *error) {
    const struct timespec rest = {.tv_nsec = PAUSE_NS};
    const uint64_t until = culm_clock_ns() + ((const struct far_depot *)depot)->patience_ns;
    enum culm_status status = get_once(depot, run_dir, step, ret_path, hook, error);
    while (status == CULM_ERR_CLOSED && culm_clock_ns() < until) {
        (void)nanosleep(&rest, NULL);
        status = get_once(depot, run_dir, step, ret_path, hook, error);
    }
    return status ? culm_error_prefix(error, "fetch the checkpoint of step %lld from the launcher",
                                      (long long)step)
                  : CULM_OK;
}

/* --- events --- */

static enum culm_status append(struct culm_channel *channel, FILE *out, const char *path,
                               uint64_t bytes, struct culm_error *error) {
    uint8_t chunk[1 << 14];
    enum culm_status status = CULM_OK;
    while (bytes > 0 && status == CULM_OK) {
        const size_t len = bytes < sizeof chunk ? (size_t)bytes : sizeof chunk;
        status =
            culm_channel_read(channel, chunk, len, culm_clock_ns() + CULM_DEPOT_SILENCE_NS, error);
        if (status == CULM_OK && fwrite(chunk, 1, len, out) != len) {
            status = culm_error_errno(error, errno, "write '%.300s'", path);
        }
        bytes -= len;
    }
    return status;
}

enum culm_status culm_depot_far_events(const char *address, const char *token, const char *path,
                                       struct culm_error *error) {
    struct culm_depot *far = culm_depot_far_new(address, token, 0);
    struct culm_channel channel = {.fd = -1};
    struct culm_depot_request request = {.verb = CULM_DEPOT_EVENTS, .file = "events.jsonl"};
    FILE *out = fopen(path, "ae");
    uint64_t bytes = 0;
    enum culm_status status = CULM_OK;
    if (!far) {
        status = culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    } else if (!out) {
        status = culm_error_errno(error, errno, "open '%.300s'", path);
    } else {
        request.bytes = (uint64_t)ftell(out);
        status = ask((struct far_depot *)far, &request, &channel, &bytes, error);
    }
    if (status == CULM_OK) {
        status = append(&channel, out, path, bytes, error);
    }
    if (out && fclose(out) && status == CULM_OK) {
        status = culm_error_errno(error, errno, "write '%.300s'", path);
    }
    culm_channel_close(&channel);
    culm_depot_far_free(far);
    return status;
}

static const struct culm_depot_ops far_ops = {
    .size = sizeof far_ops, .put = far_put, .get = far_get};

struct culm_depot *culm_depot_far_new(const char *address, const char *token, int64_t patience_ms) {
    struct far_depot *depot = calloc(1, sizeof *depot);
    if (!depot) {
        return NULL;
    }
    *depot = (struct far_depot){
        .depot.ops = &far_ops, .token = token, .patience_ns = (uint64_t)patience_ms * 1000000u};
    pthread_mutex_init(&depot->lock, NULL);
    culm_depot_far_move(&depot->depot, address);
    return &depot->depot;
}

void culm_depot_far_move(struct culm_depot *far, const char *address) {
    struct far_depot *depot = (struct far_depot *)far;
    pthread_mutex_lock(&depot->lock);
    snprintf(depot->address, sizeof depot->address, "%s", address);
    pthread_mutex_unlock(&depot->lock);
}

void culm_depot_far_free(struct culm_depot *depot) {
    if (depot) {
        pthread_mutex_destroy(&((struct far_depot *)depot)->lock);
    }
    free(depot);
}

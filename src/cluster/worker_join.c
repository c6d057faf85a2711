/*
 * A worker's world: joins the coordinator, before the loop runs. See worker.h.
 *
 * Each attempt is a new connection. If it cannot be made for lack of resources, or ends before it
 * is answered (a crowd may have pushed it out), another attempt follows, until the deadline. A
 * refusal is final, and so is that nobody is there. The worker then prepares from the brief, and
 * reports that it is ready.
 */
#include "cluster/worker_internal.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define JOIN_NS (30 * SECOND)
#define READY_NS (30 * SECOND)
#define PAUSE_NS (SECOND / 100)
#define PAUSE_MAX_NS (SECOND / 2)
#define NUMBERS_MAX 8          /* addresses of the coordinator's name that are tried, at most */
#define NUMBER_NS (5 * SECOND) /* time limit for each of them but the last */

static enum culm_status say(int fd, uint16_t type, const struct culm_buf *meta,
                            uint64_t deadline_ns, struct culm_error *error) {
    uint8_t header[CULM_FRAME_HEADER_BYTES];
    if (meta->failed) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a handshake");
    }
    culm_frame_header_encode(
        &(struct culm_message){.type = type, .meta_bytes = (uint32_t)meta->len, .meta = meta->data},
        header);
    enum culm_status status = culm_socket_write(fd, header, sizeof header, deadline_ns, error);
    return status == CULM_OK ? culm_socket_write(fd, meta->data, meta->len, deadline_ns, error)
                             : status;
}

/* Reads the rest of a frame whose header has been read, and nothing beyond it. */
static enum culm_status hear_rest(int fd, struct culm_frame_reader *reader, uint64_t deadline_ns,
                                  const struct culm_message **ret_message,
                                  struct culm_error *error) {
    uint8_t bytes[CULM_WIRE_HELLO_MAX], *at;
    size_t rest = reader->message.meta_bytes, used;
    enum culm_status status = CULM_OK;
    if (rest) {
        status = culm_socket_read(fd, bytes, rest, deadline_ns, error);
    }
    if (status == CULM_OK && rest) {
        status = culm_frame_reader_feed(reader, bytes, rest, &used, ret_message, error);
    }
    while (status == CULM_OK && (rest = culm_frame_reader_space(reader, &at)) > 0) {
        status = culm_socket_read(fd, at, rest, deadline_ns, error);
        if (status == CULM_OK) {
            status = culm_frame_reader_wrote(reader, rest, ret_message, error);
        }
    }
    return status;
}

/* Reads exactly one frame, so that what follows is left for the loop. The message belongs to the
 * reader. */
static enum culm_status hear(int fd, struct culm_frame_reader *reader, uint64_t deadline_ns,
                             const struct culm_message **ret_message, struct culm_error *error) {
    uint8_t header[CULM_FRAME_HEADER_BYTES];
    const struct culm_message *message = NULL;
    size_t used;
    enum culm_status status = culm_socket_read(fd, header, sizeof header, deadline_ns, error);
    if (status == CULM_OK) {
        status = culm_frame_reader_feed(reader, header, sizeof header, &used, &message, error);
    }
    if (status == CULM_OK && !message) {
        status = hear_rest(fd, reader, deadline_ns, &message, error);
    }
    if (status == CULM_OK) {
        *ret_message = message;
    }
    return status;
}

static enum culm_status prove(struct culm_worker *worker, const struct culm_handshake *handshake,
                              uint64_t deadline_ns, struct culm_error *error) {
    struct culm_introduction introduction = {0};
    struct culm_buf meta;
    introduction.role = worker->o.node == CULM_NEWCOMER ? worker->o.role : 0;
    memcpy(introduction.address, worker->address, sizeof introduction.address);
    snprintf(introduction.name, sizeof introduction.name, "%s",
             worker->o.name ? worker->o.name : "");
    culm_buf_init(&meta, CULM_WIRE_HELLO_MAX);
    culm_handshake_proof(handshake, &introduction, &meta);
    enum culm_status status =
        say(worker->coordinator_fd, CULM_WIRE_PROOF, &meta, deadline_ns, error);
    culm_buf_release(&meta);
    return status;
}

static enum culm_status greet(struct culm_worker *worker, const struct culm_handshake *handshake,
                              uint64_t deadline_ns, struct culm_error *error) {
    struct culm_buf meta;
    culm_buf_init(&meta, CULM_WIRE_HELLO_MAX);
    culm_handshake_hello(handshake, &meta);
    enum culm_status status =
        say(worker->coordinator_fd, CULM_WIRE_HELLO, &meta, deadline_ns, error);
    culm_buf_release(&meta);
    return status;
}

static enum culm_status read_answer(struct culm_worker *worker, const struct culm_message *answer,
                                    int64_t *ret_pid, struct culm_error *error) {
    struct culm_reader meta = culm_reader_of(answer->meta, answer->meta_bytes);
    struct culm_welcome welcome;
    char text[CULM_WIRE_TEXT_MAX];
    if (answer->type == CULM_WIRE_WELCOME && culm_welcome_decode(answer, &welcome)) {
        if (worker->o.node == CULM_NEWCOMER) {
            worker->o.node = welcome.node;
            worker->o.role = welcome.role;
        } else {
            *ret_pid = welcome.pid;
        }
        worker->brief = culm_blob_ref(answer->payload);
        return CULM_OK;
    }
    if (answer->type == CULM_WIRE_REFUSED) {
        culm_read_string(&meta, text, sizeof text);
        return culm_error_set(error, CULM_ERR_CONFIG, "refused: %s", text);
    }
    return culm_error_set(error, CULM_ERR_FORMAT,
                          "the coordinator answered with a message of unknown type %04x",
                          answer->type);
}

/* Cleans up after a failed attempt. The listener is closed too: the next attempt may use another
 * local address, at which the listener then has to be. */
static void hang_up(struct culm_worker *worker) {
    if (worker->coordinator_fd >= 0) {
        close(worker->coordinator_fd);
        worker->coordinator_fd = -1;
    }
    culm_worker_listen_stop(worker);
}

static enum culm_status connect_to(struct culm_worker *worker, const struct culm_address *number,
                                   uint64_t deadline_ns, struct culm_error *error) {
    char text[CULM_ADDRESS_SIZE];
    culm_address_print(number, text);
    enum culm_status status = culm_socket_connect(text, &worker->coordinator_fd, error);
    if (status != CULM_OK) {
        return status;
    }
    if (!culm_socket_wait(worker->coordinator_fd, POLLOUT, deadline_ns)) {
        return culm_error_set(error, CULM_ERR_TIMEOUT, "the other side does not answer");
    }
    int cause = culm_socket_error(worker->coordinator_fd);
    if (cause) {
        culm_error_errno(error, cause, "connect");
    }
    return culm_socket_connect_status(cause);
}

/* If none of a name's addresses can be reached, the error with the most weight decides: that nobody
 * listens is final; that it may work later leads to another attempt; otherwise the first one
 * counts. */
static int weight(enum culm_status why) {
    return why == CULM_ERR_NOT_FOUND ? 2 : why == CULM_ERR_AGAIN;
}

/* Tries the addresses of the name in turn. */
static enum culm_status reach(struct culm_worker *worker, uint64_t deadline_ns,
                              struct culm_error *error) {
    struct culm_address address, number[NUMBERS_MAX];
    size_t count = 0;
    enum culm_status status = culm_address_parse(worker->o.address, &address, error);
    if (status == CULM_OK) {
        status = culm_address_resolve(&address, number, NUMBERS_MAX, &count, error);
    }
    for (size_t i = 0; i < count; i++) {
        uint64_t until_ns = i + 1 < count ? culm_clock_ns() + NUMBER_NS : deadline_ns;
        struct culm_error why = {0};
        hang_up(worker);
        enum culm_status one =
            connect_to(worker, &number[i], until_ns < deadline_ns ? until_ns : deadline_ns, &why);
        if (one == CULM_OK) {
            return CULM_OK;
        }
        if (i == 0 || weight(one) > weight(status)) {
            status = one;
            if (error) {
                *error = why;
            }
        }
    }
    return status;
}

static enum culm_status shake_hands(struct culm_worker *worker, struct culm_frame_reader *reader,
                                    uint64_t deadline_ns, int64_t *ret_pid,
                                    struct culm_error *error) {
    uint8_t nonce[CULM_NONCE_BYTES];
    struct culm_handshake handshake;
    const struct culm_message *message;
    enum culm_status status = culm_secret_random(nonce, sizeof nonce, error);
    if (status != CULM_OK) {
        return status;
    }
    culm_handshake_call(&handshake, worker->o.token, worker->o.node, CULM_LEADER, nonce);
    if ((status = reach(worker, deadline_ns, error)) ||
        (status = culm_worker_listen(worker, error)) ||
        (status = greet(worker, &handshake, deadline_ns, error)) ||
        (status = hear(worker->coordinator_fd, reader, deadline_ns, &message, error))) {
        return status;
    }
    if (message->type == CULM_WIRE_REFUSED) {
        return read_answer(worker, message, ret_pid, error);
    }
    if ((status = culm_handshake_challenged(&handshake, message, error)) ||
        (status = prove(worker, &handshake, deadline_ns, error))) {
        return status;
    }
    reader->payload_max = CULM_WIRE_BRIEF_MAX; /* now that the coordinator has proved itself */
    status = hear(worker->coordinator_fd, reader, deadline_ns, &message, error);
    return status == CULM_OK ? read_answer(worker, message, ret_pid, error) : status;
}

/* Makes one attempt. CULM_ERR_AGAIN, CULM_ERR_CLOSED: another one may succeed. */
static enum culm_status attempt(struct culm_worker *worker, uint64_t deadline_ns, int64_t *ret_pid,
                                struct culm_error *error) {
    struct culm_frame_reader reader;
    culm_frame_reader_init(&reader, worker->brief_pool, CULM_WIRE_HELLO_MAX, 0);
    enum culm_status status = shake_hands(worker, &reader, deadline_ns, ret_pid, error);
    culm_frame_reader_release(&reader);
    return status;
}

/* If the coordinator is our parent, asks the kernel to kill us when it dies; otherwise the end of
 * the connection tells us. It was alive when it answered, so if it still is our parent afterwards,
 * nothing was missed. Not for newcomers (coordinator_pid 0): the pid of a coordinator on another
 * machine may happen to be that of their parent. */
static enum culm_status die_with_parent(int64_t coordinator_pid, struct culm_error *error) {
    if (!coordinator_pid || getppid() != (pid_t)coordinator_pid) {
        return CULM_OK;
    }
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != (pid_t)coordinator_pid) {
        return culm_error_set(error, CULM_ERR_CLOSED, "the coordinator is gone");
    }
    return CULM_OK;
}

static enum culm_status call(struct culm_worker *worker, int64_t *ret_pid,
                             struct culm_error *error) {
    uint64_t deadline = culm_clock_ns() + JOIN_NS, pause = PAUSE_NS;
    for (;;) {
        enum culm_status status = attempt(worker, deadline, ret_pid, error);
        if ((status != CULM_ERR_AGAIN && status != CULM_ERR_CLOSED) ||
            culm_clock_ns() + pause > deadline) {
            return status;
        }
        hang_up(worker);
        const struct timespec rest = {.tv_nsec = (long)pause};
        (void)nanosleep(&rest, NULL);
        pause = 2 * pause < PAUSE_MAX_NS ? 2 * pause : PAUSE_MAX_NS;
    }
}

enum culm_status culm_worker_join(struct culm_worker *worker, struct culm_error *error) {
    int64_t pid = 0;
    enum culm_status status = call(worker, &pid, error);
    if (status == CULM_OK) {
        status = die_with_parent(pid, error);
    }
    if (status == CULM_OK) {
        status = culm_preparing_start(worker->coordinator_fd, &worker->preparing, error);
    }
    enum culm_status why = status;
    if (status == CULM_ERR_CONFIG || status == CULM_ERR_NOT_FOUND || status == CULM_ERR_AGAIN) {
        status = CULM_ERR_CLOSED;
    }
    if (status != CULM_OK && error) {
        error->status = why;
        culm_error_prefix(error, "join the coordinator at '%s'", worker->o.address);
    }
    return status;
}

enum culm_status culm_worker_say_ready(struct culm_worker *worker, const struct culm_ready *ready,
                                       struct culm_error *error) {
    culm_preparing_stop(worker->preparing);
    worker->preparing = NULL;
    struct culm_buf meta;
    culm_buf_init(&meta, CULM_WIRE_HELLO_MAX);
    culm_ready_encode(ready, &meta);
    enum culm_status status =
        say(worker->coordinator_fd, CULM_WIRE_READY, &meta, culm_clock_ns() + READY_NS, error);
    culm_buf_release(&meta);
    return status;
}

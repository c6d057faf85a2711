/*
 * A worker's world: joins the leader, before the loop runs. See worker.h.
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
#define NUMBERS_MAX 8          /* addresses of the leader's name that are tried, at most */
#define NUMBER_NS (5 * SECOND) /* time limit for each of them but the last */

static enum culm_status say(struct culm_channel *leader, uint16_t type, const struct culm_buf *meta,
                            uint64_t deadline_ns, struct culm_error *error) {
    uint8_t header[CULM_FRAME_HEADER_BYTES];
    if (meta->failed) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a handshake");
    }
    culm_frame_header_encode(
        &(struct culm_message){.type = type, .meta_bytes = (uint32_t)meta->len, .meta = meta->data},
        header);
    enum culm_status status = culm_channel_write(leader, header, sizeof header, deadline_ns, error);
    return status == CULM_OK ? culm_channel_write(leader, meta->data, meta->len, deadline_ns, error)
                             : status;
}

/* Reads the rest of a frame whose header has been read, and nothing beyond it. */
static enum culm_status hear_rest(struct culm_channel *leader, struct culm_frame_reader *reader,
                                  uint64_t deadline_ns, const struct culm_message **ret_message,
                                  struct culm_error *error) {
    uint8_t bytes[CULM_WIRE_HELLO_MAX], *at;
    size_t rest = reader->message.meta_bytes, used;
    enum culm_status status = CULM_OK;
    if (rest) {
        status = culm_channel_read(leader, bytes, rest, deadline_ns, error);
    }
    if (status == CULM_OK && rest) {
        status = culm_frame_reader_feed(reader, bytes, rest, &used, ret_message, error);
    }
    while (status == CULM_OK && (rest = culm_frame_reader_space(reader, &at)) > 0) {
        status = culm_channel_read(leader, at, rest, deadline_ns, error);
        if (status == CULM_OK) {
            status = culm_frame_reader_wrote(reader, rest, ret_message, error);
        }
    }
    return status;
}

/* Reads exactly one frame, so that what follows is left for the loop. The message belongs to the
 * reader. */
static enum culm_status hear(struct culm_channel *leader, struct culm_frame_reader *reader,
                             uint64_t deadline_ns, const struct culm_message **ret_message,
                             struct culm_error *error) {
    uint8_t header[CULM_FRAME_HEADER_BYTES];
    const struct culm_message *message = NULL;
    size_t used;
    enum culm_status status = culm_channel_read(leader, header, sizeof header, deadline_ns, error);
    if (status == CULM_OK) {
        status = culm_frame_reader_feed(reader, header, sizeof header, &used, &message, error);
    }
    if (status == CULM_OK && !message) {
        status = hear_rest(leader, reader, deadline_ns, &message, error);
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
    snprintf(introduction.zone, sizeof introduction.zone, "%s",
             worker->o.zone ? worker->o.zone : "");
    (void)gethostname(introduction.host, sizeof introduction.host - 1);
    culm_buf_init(&meta, CULM_WIRE_HELLO_MAX);
    culm_handshake_proof(handshake, &introduction, &meta);
    enum culm_status status = say(&worker->leader, CULM_WIRE_PROOF, &meta, deadline_ns, error);
    culm_buf_release(&meta);
    return status;
}

static enum culm_status greet(struct culm_worker *worker, const struct culm_handshake *handshake,
                              uint64_t deadline_ns, struct culm_error *error) {
    struct culm_buf meta;
    culm_buf_init(&meta, CULM_WIRE_HELLO_MAX);
    culm_handshake_hello(handshake, &meta);
    enum culm_status status = say(&worker->leader, CULM_WIRE_HELLO, &meta, deadline_ns, error);
    culm_buf_release(&meta);
    return status;
}

/* Any answer but the one that is hoped for. */
static enum culm_status refusal(const struct culm_message *answer, struct culm_error *error) {
    struct culm_reader meta = culm_reader_of(answer->meta, answer->meta_bytes);
    char text[CULM_WIRE_TEXT_MAX];
    if (answer->type == CULM_WIRE_REFUSED) {
        culm_read_string(&meta, text, sizeof text);
        return culm_error_set(error,
                              culm_read_u8(&meta) ? CULM_ERR_NOT_FOUND /* no run to come to */
                                                  : CULM_ERR_CONFIG,
                              "refused: %s", text);
    }
    return culm_error_set(error, CULM_ERR_FORMAT,
                          "the leader answered with a message of unknown type %04x", answer->type);
}

static enum culm_status read_answer(struct culm_worker *worker, const struct culm_message *answer,
                                    int64_t *ret_pid, struct culm_error *error) {
    struct culm_welcome welcome;
    if (answer->type == CULM_WIRE_WELCOME && culm_welcome_decode(answer, &welcome)) {
        culm_real_fabric_guard(&worker->fabric, worker->o.token, welcome.plain);
        if (worker->o.node == CULM_NEWCOMER && welcome.plain && !worker->o.plain) {
            return culm_error_set(error, CULM_ERR_CONFIG,
                                  "the run encrypts nothing between machines, since it was started "
                                  "with --insecure; give --insecure here too if your network is "
                                  "private");
        }
        if (worker->o.node == CULM_NEWCOMER) {
            worker->o.role = welcome.role;
        } else {
            *ret_pid = welcome.pid;
        }
        worker->brief = culm_blob_ref(answer->payload);
        return CULM_OK;
    }
    return refusal(answer, error);
}

/* Cleans up after a failed attempt. The listener is closed too: the next attempt may use another
 * local address, at which the listener then has to be. */
static void hang_up(struct culm_worker *worker) {
    culm_channel_close(&worker->leader);
    worker_listen_stop(worker);
}

/* A newcomer encrypts also what seems to stay on this machine: the address may be that of a tunnel. */
static enum culm_status secure(struct culm_worker *worker, const struct culm_address *number,
                               struct culm_error *error) {
    bool comes = worker->o.node < 0 && culm_address_is_tcp(number);
    return comes || !culm_socket_stays(worker->leader.fd, number)
               ? culm_tls_new(worker->leader.fd, worker->o.token, true, &worker->leader.tls, error)
               : CULM_OK;
}

static enum culm_status connect_to(struct culm_worker *worker, const struct culm_address *number,
                                   uint64_t deadline_ns, struct culm_error *error) {
    char text[CULM_ADDRESS_SIZE];
    culm_address_print(number, text);
    enum culm_status status = culm_socket_connect(text, &worker->leader.fd, error);
    if (status != CULM_OK) {
        return status;
    }
    if (!culm_socket_wait(worker->leader.fd, POLLOUT, deadline_ns)) {
        return culm_error_set(error, CULM_ERR_TIMEOUT, "the other side does not answer");
    }
    int cause = culm_socket_error(worker->leader.fd);
    if (cause) {
        culm_error_errno(error, cause, "connect");
        return culm_socket_connect_status(cause);
    }
    return secure(worker, number, error);
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
    if ((status = reach(worker, deadline_ns, error)) || (status = worker_listen(worker, error)) ||
        (status = greet(worker, &handshake, deadline_ns, error)) ||
        (status = hear(&worker->leader, reader, deadline_ns, &message, error))) {
        return status;
    }
    if (message->type == CULM_WIRE_REFUSED) {
        return read_answer(worker, message, ret_pid, error);
    }
    if ((status = culm_handshake_challenged(&handshake, message, error)) ||
        (status = prove(worker, &handshake, deadline_ns, error))) {
        return status;
    }
    reader->payload_max = CULM_WIRE_BRIEF_MAX; /* now that the leader has proved itself */
    status = hear(&worker->leader, reader, deadline_ns, &message, error);
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

/* If the leader is our parent, asks the kernel to kill us when it dies; otherwise the end of
 * the connection tells us. It was alive when it answered, so if it still is our parent afterwards,
 * nothing was missed. Not for newcomers (leader_pid 0): the pid of a leader on another
 * machine may happen to be that of their parent. */
static enum culm_status die_with_parent(int64_t leader_pid, struct culm_error *error) {
    if (!leader_pid || getppid() != (pid_t)leader_pid) {
        return CULM_OK;
    }
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != (pid_t)leader_pid) {
        return culm_error_set(error, CULM_ERR_CLOSED, "the leader is gone");
    }
    return CULM_OK;
}

enum culm_status worker_call(struct culm_worker *worker, int64_t *ret_pid,
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

/* News while this worker prepares. Nothing else is sent meanwhile; whatever follows finds the end of the
 * connection, too. */
static bool hear_news(void *ctx) {
    struct culm_worker *worker = ctx;
    struct culm_frame_reader reader;
    const struct culm_message *message;
    culm_frame_reader_init(&reader, NULL, CULM_WIRE_HELLO_MAX, 0);
    enum culm_status status =
        hear(&worker->leader, &reader, culm_clock_ns() + READY_NS, &message, NULL);
    bool news = status == CULM_OK && message->type == CULM_WIRE_NEWS;
    if (worker->o.news) {
        worker->o.news(worker->o.news_ctx, news ? message->meta : NULL,
                       news ? message->meta_bytes : 0);
    }
    culm_frame_reader_release(&reader);
    return news;
}

enum culm_status worker_join(struct culm_worker *worker, struct culm_error *error) {
    int64_t pid = 0;
    enum culm_status status = worker_call(worker, &pid, error);
    if (status == CULM_OK) {
        status = die_with_parent(pid, error);
    }
    if (status == CULM_OK) {
        status =
            culm_preparing_start(&worker->leader, hear_news, worker, &worker->preparing, error);
    }
    enum culm_status why = status;
    if (status == CULM_ERR_CONFIG || status == CULM_ERR_NOT_FOUND || status == CULM_ERR_AGAIN) {
        status = CULM_ERR_CLOSED;
    }
    if (status != CULM_OK && error) {
        error->status = why;
        culm_error_prefix(error, "join the leader at '%s'", worker->o.address);
    }
    return status;
}

enum culm_status worker_say_ready(struct culm_worker *worker, const struct culm_ready *ready,
                                  struct culm_error *error) {
    culm_preparing_stop(worker->preparing);
    worker->preparing = NULL;
    struct culm_buf meta;
    culm_buf_init(&meta, CULM_WIRE_HELLO_MAX);
    culm_ready_encode(ready, &meta);
    enum culm_status status =
        say(&worker->leader, CULM_WIRE_READY, &meta, culm_clock_ns() + READY_NS, error);
    culm_buf_release(&meta);
    return status;
}

enum culm_status worker_await_id(struct culm_worker *worker, struct culm_error *error) {
    struct culm_frame_reader reader;
    const struct culm_message *message;
    uint64_t deadline = culm_clock_ns() + (uint64_t)worker->ready.orphan_ms * (SECOND / 1000);
    culm_frame_reader_init(&reader, NULL, CULM_WIRE_HELLO_MAX, 0);
    enum culm_status status = CULM_OK;
    do {
        status = hear(&worker->leader, &reader, deadline, &message, error);
        if (status == CULM_OK && message->type == CULM_WIRE_NEWS && worker->o.news) {
            worker->o.news(worker->o.news_ctx, message->meta, message->meta_bytes);
        }
    } while (status == CULM_OK && message->type == CULM_WIRE_NEWS);
    if (status == CULM_OK &&
        (message->type != CULM_WIRE_ADMITTED || !culm_admitted_decode(message, &worker->o.node))) {
        status = refusal(message, error) != CULM_ERR_FORMAT ? CULM_ERR_CLOSED : CULM_ERR_FORMAT;
    } else if (status == CULM_ERR_CLOSED && error) {
        culm_error_prefix(error, "the leader is gone, or has put this node out");
    }
    culm_frame_reader_release(&reader);
    return status;
}

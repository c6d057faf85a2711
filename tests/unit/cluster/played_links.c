#include "played_links.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MS 1000000ull

/* --- streams --- */

static ssize_t line_read(struct culm_stream *stream, const struct iovec *to, int count) {
    struct line *line = (struct line *)stream;
    size_t got = 0;
    for (int i = 0; i < count; i++) {
        size_t left = line->there.len - line->there_read;
        size_t most = to[i].iov_len < left ? to[i].iov_len : left;
        if (most) {
            memcpy(to[i].iov_base, line->there.data + line->there_read, most);
        }
        line->there_read += most;
        got += most;
    }
    return got || line->hung_up ? (ssize_t)got : -EAGAIN;
}

static ssize_t line_write(struct culm_stream *stream, const struct iovec *from, int count) {
    struct line *line = (struct line *)stream;
    size_t put = 0;
    for (int i = 0; i < count; i++) {
        culm_buf_bytes(&line->here, from[i].iov_base, from[i].iov_len);
        put += from[i].iov_len;
    }
    assert_false(line->here.failed);
    return (ssize_t)put;
}

static int line_connected(struct culm_stream *stream) {
    return ((struct line *)stream)->played->connected;
}

static void line_shutdown(struct culm_stream *stream, bool both) {
    ((struct line *)stream)->hung_up |= both;
}

static void line_watch(struct culm_stream *stream, int events) {
    ((struct line *)stream)->events = events;
}

static bool line_wait(struct culm_stream *stream, int events, uint64_t deadline_ns) {
    (void)stream;
    (void)events;
    (void)deadline_ns;
    return false;
}

static uint64_t line_now_ns(struct culm_stream *stream) {
    return ((struct line *)stream)->played->now_ns;
}

static void line_close(struct culm_stream *stream, void (*gone)(void *ctx), void *ctx) {
    struct line *line = (struct line *)stream;
    line->closed = true;
    line->events = 0;
    line->gone = gone;
    line->gone_ctx = ctx;
}

/* There is no socket to hand over. */
static void line_release(struct culm_stream *stream, struct culm_channel *ret_channel,
                         void (*gone)(void *ctx), void *ctx) {
    *ret_channel = (struct culm_channel){.fd = -1};
    line_close(stream, gone, ctx);
}

static const struct culm_stream_ops stream_ops = {.size = sizeof stream_ops,
                                                  .read = line_read,
                                                  .write = line_write,
                                                  .connected = line_connected,
                                                  .shutdown = line_shutdown,
                                                  .watch = line_watch,
                                                  .wait = line_wait,
                                                  .now_ns = line_now_ns,
                                                  .close = line_close,
                                                  .release = line_release};

struct line *played_line(struct played *played) {
    struct line *line = calloc(1, sizeof *line);
    assert_non_null(line);
    assert_true(played->lines < PLAYED_LINES);
    line->stream.ops = &stream_ops;
    line->played = played;
    culm_buf_init(&line->there, (size_t)1 << 30);
    culm_buf_init(&line->here, (size_t)1 << 30);
    culm_frame_reader_init(&line->reader, played->pool, CULM_FRAME_META_MAX, 1 << 20);
    played->line[played->lines++] = line;
    return line;
}

/* --- the fabric --- */

static struct played *of(struct culm_fabric *fabric) { return (struct played *)fabric; }

static uint64_t now_ns(struct culm_fabric *fabric) { return of(fabric)->now_ns; }

static enum culm_status connect_to(struct culm_fabric *fabric, const char *address,
                                   struct culm_stream **ret_stream, struct culm_error *error) {
    struct played *played = of(fabric);
    played->calls++;
    if (played->connect != CULM_OK) {
        return culm_error_set(error, played->connect, "as the test says");
    }
    struct line *line = played_line(played);
    snprintf(line->address, sizeof line->address, "%s", address);
    *ret_stream = &line->stream;
    return CULM_OK;
}

static enum culm_status random_bytes(struct culm_fabric *fabric, void *ret_bytes, size_t len) {
    memset(ret_bytes, 7, len);
    return of(fabric)->random;
}

static void alarm_at(struct culm_fabric *fabric, uint64_t delay_ns) {
    struct played *played = of(fabric);
    played->alarm_ns = delay_ns == CULM_NEVER ? CULM_NEVER : played->now_ns + delay_ns;
}

static const struct culm_fabric_ops fabric_ops = {.size = sizeof fabric_ops,
                                                  .now_ns = now_ns,
                                                  .connect = connect_to,
                                                  .random = random_bytes,
                                                  .alarm = alarm_at};

void played_begin(struct played *played) {
    *played =
        (struct played){.fabric.ops = &fabric_ops, .now_ns = 5000 * MS, .alarm_ns = CULM_NEVER};
    played->pool = culm_blob_pool_new(1 << 20);
    assert_non_null(played->pool);
}

static void collect(struct line *line) {
    if (line->gone) {
        line->gone(line->gone_ctx);
        line->gone = NULL;
    }
}

void played_end(struct played *played) {
    for (int32_t i = 0; i < played->lines; i++) {
        struct line *line = played->line[i];
        assert_true(line->closed);
        collect(line);
        culm_frame_reader_release(&line->reader);
        culm_buf_release(&line->there);
        culm_buf_release(&line->here);
        free(line);
    }
    culm_blob_pool_free(played->pool);
}

void played_turn(struct played *played) {
    for (int32_t i = 0; i < played->lines; i++) {
        struct line *line = played->line[i];
        bool reads = line->there.len > line->there_read || line->hung_up;
        if (line->events & CULM_STREAM_WRITE || (line->events & CULM_STREAM_READ && reads)) {
            line->stream.ready(line->stream.ctx);
        }
    }
    for (int32_t i = 0; i < played->lines; i++) {
        collect(played->line[i]);
    }
}

struct line *played_called(struct played *played, const char *address) {
    for (int32_t i = played->lines - 1; i >= 0; i--) {
        if (!strcmp(played->line[i]->address, address) && !played->line[i]->closed) {
            return played->line[i];
        }
    }
    return NULL;
}

/* --- the other end --- */

void line_say(struct line *line, uint16_t type, const struct culm_buf *meta) {
    uint8_t header[CULM_FRAME_HEADER_BYTES];
    const struct culm_message message = {.type = type,
                                         .meta = meta ? meta->data : NULL,
                                         .meta_bytes = meta ? (uint32_t)meta->len : 0};
    culm_frame_header_encode(&message, header);
    culm_buf_bytes(&line->there, header, sizeof header);
    if (message.meta_bytes) {
        culm_buf_bytes(&line->there, message.meta, message.meta_bytes);
    }
}

const struct culm_message *line_hear(struct line *line) {
    const struct culm_message *message = NULL;
    while (!message && line->here_read < line->here.len) {
        size_t used;
        assert_int_equal(culm_frame_reader_feed(&line->reader, line->here.data + line->here_read,
                                                line->here.len - line->here_read, &used, &message,
                                                NULL),
                         CULM_OK);
        line->here_read += used;
    }
    return message;
}

void line_hang_up(struct line *line) { line->hung_up = true; }

static void say(struct line *line, uint16_t type, struct culm_buf *meta) {
    line_say(line, type, meta);
    culm_buf_release(meta);
    played_turn(line->played);
}

void line_challenge(struct line *line, const char *token, int32_t node) {
    static const uint8_t nonce[CULM_NONCE_BYTES] = {1};
    struct culm_buf meta;
    culm_handshake_listen(&line->handshake, token, node, nonce);
    assert_int_equal(culm_handshake_greeted(&line->handshake, line_hear(line), NULL), CULM_OK);
    culm_buf_init(&meta, CULM_WIRE_HELLO_MAX);
    culm_handshake_challenge(&line->handshake, &meta);
    say(line, CULM_WIRE_CHALLENGE, &meta);
}

void line_greet(struct line *line, int32_t caller, int32_t called) {
    static const uint8_t nonce[CULM_NONCE_BYTES] = {2};
    struct culm_buf meta;
    culm_handshake_call(&line->handshake, PLAYED_TOKEN, caller, called, nonce);
    culm_buf_init(&meta, CULM_WIRE_HELLO_MAX);
    culm_handshake_hello(&line->handshake, &meta);
    say(line, CULM_WIRE_HELLO, &meta);
}

void line_answer(struct line *line, const char *token, const char *address) {
    struct culm_introduction introduction = {0};
    struct culm_buf meta;
    snprintf(introduction.address, sizeof introduction.address, "%s", address);
    assert_int_equal(culm_handshake_challenged(&line->handshake, line_hear(line), NULL), CULM_OK);
    line->handshake.token = token;
    culm_buf_init(&meta, CULM_WIRE_HELLO_MAX);
    culm_handshake_proof(&line->handshake, &introduction, &meta);
    say(line, CULM_WIRE_PROOF, &meta);
}

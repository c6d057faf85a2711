/*
 * TLS with a token: what passes between the two ends is none of what they say; who has another token, or a certificate in
 * place of one, is refused by both; a changed byte, a repeated recording, an end; pieces of any size through a full
 * socket; new keys.
 */
#include "net/tls.h"

#include "net/channel.h"
#include "net/socket.h"
#include "net/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define PATIENCE 60000000000ull /* only a fault meets it */

/* Two ends, and what lies between them: bytes are carried by hand. */
struct wire {
    int end[2], middle[2];
    struct culm_tls *tls[2];
    uint8_t seen[1 << 16]; /* what the calling side has sent */
    size_t seen_bytes;
};

static void pair(int fd[2]) {
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
}

static void open_wire(struct wire *w, const char *caller, const char *listener) {
    int a[2], b[2];
    memset(w, 0, sizeof *w);
    pair(a);
    pair(b);
    w->end[0] = a[0], w->middle[0] = a[1], w->end[1] = b[0], w->middle[1] = b[1];
    assert_int_equal(culm_tls_new(w->end[0], caller, true, &w->tls[0], NULL), CULM_OK);
    if (listener) {
        assert_int_equal(culm_tls_new(w->end[1], listener, false, &w->tls[1], NULL), CULM_OK);
    }
}

static void close_wire(struct wire *w) {
    for (int i = 0; i < 2; i++) {
        culm_tls_free(w->tls[i]);
        close(w->end[i]);
        close(w->middle[i]);
    }
}

/* What one end has sent, on to the other, with one bit of it changed (flip: which byte; -1: none). */
static size_t carry(struct wire *w, int from, ssize_t flip) {
    uint8_t bytes[1 << 15];
    ssize_t got = recv(w->middle[from], bytes, sizeof bytes, MSG_DONTWAIT);
    if (got <= 0) {
        return 0;
    }
    if (flip >= 0 && flip < got) {
        bytes[flip] ^= 4;
    }
    if (from == 0 && w->seen_bytes + (size_t)got <= sizeof w->seen) {
        memcpy(w->seen + w->seen_bytes, bytes, (size_t)got);
        w->seen_bytes += (size_t)got;
    }
    assert_int_equal(send(w->middle[!from], bytes, (size_t)got, MSG_NOSIGNAL), got);
    return (size_t)got;
}

static ssize_t hear(struct wire *w, int side) {
    uint8_t byte;
    return culm_tls_read(w->tls[side], &(struct iovec){&byte, 1}, 1);
}

/* Both sides, in turn, until neither says anything more; ret: what each heard last. */
static void shake_hands(struct wire *w, ssize_t ret[2]) {
    for (int turn = 0; turn < 8; turn++) {
        ret[turn % 2] = hear(w, turn % 2);
        (void)carry(w, turn % 2, -1);
    }
}

static void say(struct wire *w, int side, const void *data, size_t len) {
    assert_int_equal(culm_tls_write(w->tls[side], &(struct iovec){(void *)data, len}, 1), len);
}

static void assert_heard(struct wire *w, int side, const char *text) {
    char bytes[64] = "";
    assert_int_equal(culm_tls_read(w->tls[side], &(struct iovec){bytes, sizeof bytes}, 1),
                     strlen(text));
    assert_string_equal(bytes, text);
}

static void what_is_said_cannot_be_seen(void **state) {
    static const char secret[] = "the weights of a stage, and a token";
    struct wire w;
    ssize_t heard[2];
    (void)state;
    open_wire(&w, "a token of the run", "a token of the run");
    shake_hands(&w, heard);
    assert_int_equal(heard[0], -EAGAIN);
    assert_int_equal(heard[1], -EAGAIN);
    say(&w, 0, secret, strlen(secret));
    assert_true(carry(&w, 0, -1) > strlen(secret));
    assert_heard(&w, 1, secret);
    say(&w, 1, "yes", 3);
    (void)carry(&w, 1, -1);
    assert_heard(&w, 0, "yes");
    assert_null(memmem(w.seen, w.seen_bytes, "weights", 7));
    assert_null(memmem(w.seen, w.seen_bytes, "token", 5));
    close_wire(&w);
}

static void another_token_is_refused_by_both(void **state) {
    struct wire w;
    ssize_t heard[2];
    struct culm_error error;
    (void)state;
    open_wire(&w, "token of one run", "token of another");
    shake_hands(&w, heard);
    assert_int_equal(heard[0], -EKEYREJECTED);
    assert_int_equal(heard[1], -EKEYREJECTED);
    assert_int_equal(culm_tls_write(w.tls[0], &(struct iovec){"x", 1}, 1), -EKEYREJECTED);
    assert_int_equal(culm_tls_error(EKEYREJECTED, &error), CULM_ERR_CONFIG);
    assert_non_null(strstr(error.text, "wrong token"));
    close_wire(&w);
}

/* As whoever has taken the address of a run, and waits for callers. */
static SSL *with_certificate(SSL_CTX **ret_context, int fd) {
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = X509_new();
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    assert_true(key && certificate && context);
    X509_set_version(certificate, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC,
                               (const unsigned char *)"culm", -1, -1, 0);
    X509_set_issuer_name(certificate, X509_get_subject_name(certificate));
    X509_set_pubkey(certificate, key);
    assert_true(X509_sign(certificate, key, EVP_sha256()) > 0);
    assert_int_equal(SSL_CTX_use_certificate(context, certificate), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey(context, key), 1);
    X509_free(certificate);
    EVP_PKEY_free(key);
    SSL *ssl = SSL_new(context);
    SSL_set_fd(ssl, fd);
    SSL_set_accept_state(ssl);
    *ret_context = context;
    return ssl;
}

static void a_certificate_opens_nothing(void **state) {
    struct wire w;
    SSL_CTX *context;
    (void)state;
    open_wire(&w, "token", NULL);
    SSL *other = with_certificate(&context, w.end[1]);
    ssize_t heard = 0;
    for (int turn = 0; turn < 4; turn++) {
        heard = hear(&w, 0);
        (void)carry(&w, 0, -1);
        (void)SSL_do_handshake(other);
        (void)carry(&w, 1, -1);
    }
    assert_int_equal(heard, -EKEYREJECTED);
    assert_int_equal(SSL_is_init_finished(other), 0);
    SSL_free(other);
    SSL_CTX_free(context);
    close_wire(&w);
}

static void a_changed_byte_ends_it(void **state) {
    (void)state;
    for (ssize_t at = 0; at < 40; at += 13) {
        struct wire w;
        ssize_t heard[2];
        open_wire(&w, "token", "token");
        shake_hands(&w, heard);
        say(&w, 0, "0123456789012345678901234567890", 31);
        assert_true(carry(&w, 0, at) > 31);
        ssize_t got = hear(&w, 1);
        assert_true(got == -EBADMSG || got == -EAGAIN); /* a length that is never reached */
        assert_true(got == -EBADMSG || at < 5);
        close_wire(&w);
    }
}

static void a_recording_opens_nothing(void **state) {
    struct wire w, again;
    ssize_t heard[2];
    (void)state;
    open_wire(&w, "token", "token");
    shake_hands(&w, heard);
    say(&w, 0, "let me in", 9);
    (void)carry(&w, 0, -1);
    assert_heard(&w, 1, "let me in");
    open_wire(&again, "token", "token");
    assert_int_equal(send(again.middle[1], w.seen, w.seen_bytes, 0), w.seen_bytes);
    ssize_t got = -EAGAIN;
    for (int turn = 0; turn < 4 && got == -EAGAIN; turn++) {
        got = hear(&again, 1);
    }
    assert_int_equal(got, -EKEYREJECTED);
    close_wire(&again);
    close_wire(&w);
}

static void something_else_is_refused(void **state) {
    struct wire w;
    (void)state;
    open_wire(&w, "token", "token");
    assert_int_equal(send(w.middle[1], "GET / HTTP/1.1\r\n\r\n", 18, 0), 18);
    assert_int_equal(hear(&w, 1), -EKEYREJECTED);
    assert_int_equal(hear(&w, 0), -EAGAIN);
    assert_int_equal(send(w.middle[0], "HTTP/1.1 400 Bad Request\r\n\r\n", 28, 0), 28);
    assert_int_equal(hear(&w, 0), -EKEYREJECTED);
    close_wire(&w);
}

static void the_end_is_heard(void **state) {
    struct wire w;
    ssize_t heard[2];
    (void)state;
    open_wire(&w, "token", "token");
    shake_hands(&w, heard);
    say(&w, 0, "last", 4);
    culm_tls_finish(w.tls[0]);
    (void)carry(&w, 0, -1);
    assert_heard(&w, 1, "last");
    assert_int_equal(hear(&w, 1), 0);
    close_wire(&w);
    open_wire(&w, "token", "token"); /* one that is killed says nothing */
    shake_hands(&w, heard);
    shutdown(w.middle[1], SHUT_WR);
    assert_int_equal(hear(&w, 1), 0);
    close_wire(&w);
}

#define MANY ((size_t)3 << 20)

/* Offers what is left in pieces that grow and shrink, also after a piece was not taken. */
static void pieces_through_a_full_socket(void **state) {
    int fd[2];
    struct culm_tls *tls[2];
    uint8_t *sent = malloc(MANY), *got = malloc(MANY);
    size_t put = 0, taken = 0, full = 0;
    (void)state;
    pair(fd);
    assert_true(sent && got);
    for (size_t i = 0; i < MANY; i++) {
        sent[i] = (uint8_t)(i * 2654435761u >> 13);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(culm_tls_new(fd[i], "token", i == 0, &tls[i], NULL), CULM_OK);
        culm_tls_renew_after(tls[i], 7);
    }
    for (uint32_t turn = 0; taken < MANY; turn++) {
        size_t wants = 1 + turn * 7919u % 40000u;
        size_t half = wants / 2 < MANY - put ? wants / 2 : MANY - put;
        size_t rest = wants - wants / 2 < MANY - put - half ? wants - wants / 2 : MANY - put - half;
        const struct iovec from[] = {{sent + put, half}, {sent + put + half, rest}};
        ssize_t done = put < MANY ? culm_tls_write(tls[0], from, 2) : 0;
        assert_true(done >= 0 || done == -EAGAIN);
        assert_true(done <= (ssize_t)(half + rest));
        put += done > 0 ? (size_t)done : 0;
        full += done == -EAGAIN;
        if (turn % 16 == 0 || done == -EAGAIN) {
            size_t space = 1 + turn * 104729u % 70000u;
            space = space < MANY - taken ? space : MANY - taken;
            ssize_t heard = culm_tls_read(tls[1], &(struct iovec){got + taken, space}, 1);
            assert_true(heard > 0 || heard == -EAGAIN);
            taken += heard > 0 ? (size_t)heard : 0;
        }
    }
    assert_true(full > 10);
    assert_memory_equal(sent, got, MANY);
    for (int i = 0; i < 2; i++) {
        culm_tls_free(tls[i]);
        close(fd[i]);
    }
    free(sent);
    free(got);
}

/* --- waiting --- */

static void *answer(void *arg) {
    struct culm_channel *channel = arg;
    uint8_t *bytes = malloc(MANY);
    enum culm_status status =
        culm_channel_read(channel, bytes, MANY, culm_clock_ns() + PATIENCE, NULL);
    if (status == CULM_OK) {
        status = culm_channel_write(channel, bytes, MANY, culm_clock_ns() + PATIENCE, NULL);
    }
    free(bytes);
    return (void *)(intptr_t)status;
}

static void a_channel_waits(void **state) {
    int fd[2];
    struct culm_channel side[2];
    pthread_t thread;
    void *status;
    uint8_t *sent = calloc(1, MANY), *got = malloc(MANY), byte;
    struct culm_error error;
    (void)state;
    pair(fd);
    for (int i = 0; i < 2; i++) {
        side[i] = (struct culm_channel){.fd = fd[i]};
        assert_int_equal(culm_tls_new(fd[i], "token", i == 0, &side[i].tls, NULL), CULM_OK);
    }
    assert_int_equal(culm_channel_read(&side[0], &byte, 1, culm_clock_ns() + 50000000, &error),
                     CULM_ERR_TIMEOUT);
    pthread_create(&thread, NULL, answer, &side[1]);
    memset(sent, 7, MANY / 2);
    assert_int_equal(culm_channel_write(&side[0], sent, MANY, culm_clock_ns() + PATIENCE, NULL),
                     CULM_OK);
    assert_int_equal(culm_channel_read(&side[0], got, MANY, culm_clock_ns() + PATIENCE, NULL),
                     CULM_OK);
    assert_memory_equal(sent, got, MANY);
    pthread_join(thread, &status);
    assert_int_equal((intptr_t)status, CULM_OK);
    culm_channel_close(&side[1]);
    assert_int_equal(culm_channel_read(&side[0], &byte, 1, culm_clock_ns() + PATIENCE, &error),
                     CULM_ERR_CLOSED);
    culm_channel_close(&side[0]);
    assert_int_equal(side[0].fd, -1);
    free(sent);
    free(got);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_said_cannot_be_seen),
        cmocka_unit_test(another_token_is_refused_by_both),
        cmocka_unit_test(a_certificate_opens_nothing),
        cmocka_unit_test(a_changed_byte_ends_it),
        cmocka_unit_test(a_recording_opens_nothing),
        cmocka_unit_test(something_else_is_refused),
        cmocka_unit_test(the_end_is_heard),
        cmocka_unit_test(pieces_through_a_full_socket),
        cmocka_unit_test(a_channel_waits),
    };
    return cmocka_run_group_tests_name("net/tls", tests, NULL, NULL);
}

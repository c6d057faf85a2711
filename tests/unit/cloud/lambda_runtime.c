/*
 * The client of the Runtime API, against a service that says what it is told to, whole and in pieces.
 */
#include "cloud/lambda_runtime.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define NEXT                                                                                       \
    "Lambda-Runtime-Aws-Request-Id: 8476a536-e9f4-11e8-9739-2dfe598c3fcd\r\n"                      \
    "Lambda-Runtime-Deadline-Ms: 1542409706888\r\n"

/* Answers one request. */
struct service {
    int listen_fd;
    const char *answer;
    size_t bytes, piece; /* sent at once; 0: all */
    pthread_t thread;
    char request[4096];
    struct culm_lambda_runtime runtime;
};

static void *serve(void *ctx) {
    struct service *s = ctx;
    size_t len = 0, wanted = 0;
    int fd = accept(s->listen_fd, NULL, NULL);
    ssize_t got = 1;
    const char *end = NULL;
    while (got > 0 && (!end || len < wanted)) {
        got = recv(fd, s->request + len, sizeof s->request - 1 - len, 0);
        len += got > 0 ? (size_t)got : 0;
        s->request[len] = '\0';
        end = strstr(s->request, "\r\n\r\n");
        const char *length = strstr(s->request, "Content-Length: ");
        wanted =
            end ? (size_t)(end + 4 - s->request) + (length ? strtoul(length + 16, NULL, 10) : 0)
                : 0;
    }
    size_t piece = s->piece ? s->piece : s->bytes;
    for (size_t at = 0; at < s->bytes; at += piece) {
        size_t rest = s->bytes - at < piece ? s->bytes - at : piece;
        if (send(fd, s->answer + at, rest, MSG_NOSIGNAL) < 0) {
            break;
        }
        if (s->piece) {
            usleep(200); /* so that it comes in pieces */
        }
    }
    close(fd);
    return NULL;
}

static void begin(struct service *s, const char *answer, size_t bytes, size_t piece) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    char api[64];
    *s = (struct service){.answer = answer, .bytes = bytes, .piece = piece};
    s->listen_fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(s->listen_fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(s->listen_fd, 1), 0);
    assert_int_equal(getsockname(s->listen_fd, (struct sockaddr *)&address, &len), 0);
    snprintf(api, sizeof api, "127.0.0.1:%d", ntohs(address.sin_port));
    assert_int_equal(culm_lambda_runtime_init(&s->runtime, api, NULL), CULM_OK);
    assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
}

static void end(struct service *s) {
    pthread_join(s->thread, NULL);
    close(s->listen_fd);
}

static enum culm_status next_of(const char *answer, size_t bytes, size_t piece,
                                struct culm_lambda_invocation *ret_invocation) {
    struct service s;
    struct culm_error error = {0};
    begin(&s, answer, bytes, piece);
    enum culm_status status = culm_lambda_next(&s.runtime, ret_invocation, &error);
    end(&s);
    assert_non_null(
        strstr(s.request, "GET /2018-06-01/runtime/invocation/next HTTP/1.1\r\nHost: "));
    assert_int_equal(status != CULM_OK, error.text[0] != '\0');
    assert_null(strchr(error.text, '\n'));
    return status;
}

static void check_event(const char *answer, const char *event) {
    for (size_t piece = 0; piece < 4; piece++) {
        struct culm_lambda_invocation got;
        assert_int_equal(next_of(answer, strlen(answer), piece, &got), CULM_OK);
        assert_string_equal(got.event, event);
        assert_int_equal(got.event_bytes, strlen(event));
        assert_string_equal(got.id, "8476a536-e9f4-11e8-9739-2dfe598c3fcd");
        assert_int_equal(got.deadline_ms, 1542409706888);
        culm_lambda_invocation_release(&got);
    }
}

static void an_event_comes_in_any_form(void **state) {
    (void)state;
    check_event("HTTP/1.1 200 OK\r\n" NEXT "Content-Length: 7\r\n\r\n{\"a\":1}", "{\"a\":1}");
    check_event("HTTP/1.1 200 OK\r\ncontent-length:7  \r\n" NEXT "\r\n{\"a\":1}and more",
                "{\"a\":1}");
    check_event("HTTP/1.0 200 OK\r\n" NEXT "\r\n{\"a\":1}", "{\"a\":1}"); /* until the end */
    check_event("HTTP/1.1 200 OK\r\n" NEXT
                "Transfer-Encoding: chunked\r\n\r\n3\r\n{\"a\r\n4;x=y\r\n\":1}\r\n0\r\n\r\n",
                "{\"a\":1}");
    check_event("HTTP/1.1 200 OK\r\n" NEXT "Content-Length: 0\r\n\r\n", "");
}

static void what_is_no_answer_is_an_error(void **state) {
    (void)state;
    static const char *const answers[] = {
        "",
        "HTTP/1.1 200 OK\r\n",
        "SSH-2.0-x\r\n\r\n",
        "HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", /* no id */
        "HTTP/1.1 200 OK\r\nLambda-Runtime-Aws-Request-Id: a\r\nContent-Length: 2\r\n\r\n{}",
        "HTTP/1.1 200 OK\r\nLambda-Runtime-Aws-Request-Id: ../../init\r\n"
        "Lambda-Runtime-Deadline-Ms: 1\r\nContent-Length: 2\r\n\r\n{}",
        "HTTP/1.1 200 OK\r\nLambda-Runtime-Aws-Request-Id: a\r\n"
        "Lambda-Runtime-Deadline-Ms: soon\r\nContent-Length: 2\r\n\r\n{}",
        "HTTP/1.1 200 OK\r\n" NEXT "Content-Length: 8\r\n\r\n{\"a\":1}", /* cut short */
        "HTTP/1.1 200 OK\r\n" NEXT "Content-Length: -1\r\n\r\n{}",
        "HTTP/1.1 200 OK\r\n" NEXT "Content-Length: 99999999999999999999\r\n\r\n{}",
        "HTTP/1.1 200 OK\r\n" NEXT "Content-Length: 6291457\r\n\r\n{}", /* more than 6 MB */
        "HTTP/1.1 200 OK\r\n" NEXT "Content-Length: 2x\r\n\r\n{}",
        "HTTP/1.1 200 OK\r\n" NEXT "Transfer-Encoding: chunked\r\n\r\n3\r\n{}",
        "HTTP/1.1 200 OK\r\n" NEXT "Transfer-Encoding: chunked\r\n\r\n\r\n\r\n",
        "HTTP/1.1 200 OK\r\n" NEXT "Transfer-Encoding: chunked\r\n\r\n-3\r\n{}",
        "HTTP/1.1 200 OK\r\n" NEXT "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n{}",
        "HTTP/1.1 200 OK\r\n" NEXT "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n",
    };
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        for (size_t piece = 0; piece < 3; piece++) {
            struct culm_lambda_invocation got;
            if (next_of(answers[i], strlen(answers[i]), piece, &got) == CULM_OK) {
                fail_msg("'%s' was taken for an answer", answers[i]);
            }
        }
    }
    struct culm_lambda_invocation got;
    char *endless = malloc(200000);
    memset(endless, 'x', 200000); /* a head without an end */
    memcpy(endless, "HTTP/1.1 200 OK\r\nA: ", 20);
    assert_int_equal(next_of(endless, 200000, 0, &got), CULM_ERR_FORMAT);
    free(endless);
}

static void answers_go_where_they_belong(void **state) {
    (void)state;
    static const char taken[] = "HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\n\r\n{}";
    static const char not_taken[] = "HTTP/1.1 413 Too large\r\nContent-Length: 2\r\n\r\n{}";
    struct service s;
    struct culm_error error;
    begin(&s, taken, strlen(taken), 0);
    assert_int_equal(culm_lambda_answer(&s.runtime, "a-1", "{\"x\":2}", &error), CULM_OK);
    end(&s);
    assert_non_null(strstr(s.request, "POST /2018-06-01/runtime/invocation/a-1/response HTTP/1.1"));
    assert_non_null(strstr(s.request, "Content-Length: 7\r\n\r\n{\"x\":2}"));
    begin(&s, not_taken, strlen(not_taken), 0);
    assert_int_equal(culm_lambda_answer(&s.runtime, "a-1", "{}", &error), CULM_ERR_IO);
    end(&s);
    begin(&s, taken, strlen(taken), 0);
    assert_int_equal(culm_lambda_fail(&s.runtime, "a-1", "Culm.Join", "no \"way\"\n", &error),
                     CULM_OK);
    end(&s);
    assert_non_null(strstr(s.request, "POST /2018-06-01/runtime/invocation/a-1/error HTTP/1.1"));
    assert_non_null(strstr(s.request, "Lambda-Runtime-Function-Error-Type: Culm.Join\r\n"));
    assert_non_null(strstr(s.request, "\"errorMessage\":\"no \\\"way\\\"\\n\""));
    begin(&s, taken, strlen(taken), 0);
    assert_int_equal(culm_lambda_fail(&s.runtime, NULL, "Culm.Machine", "no", &error), CULM_OK);
    end(&s);
    assert_non_null(strstr(s.request, "POST /2018-06-01/runtime/init/error HTTP/1.1"));
}

static void addresses(void **state) {
    (void)state;
    struct culm_lambda_runtime runtime;
    struct culm_error error;
    assert_int_equal(culm_lambda_runtime_init(&runtime, "127.0.0.1:9001", &error), CULM_OK);
    assert_string_equal(runtime.address, "tcp:127.0.0.1:9001");
    static const char *const wrong[] = {"", "127.0.0.1", "http://127.0.0.1:9001", "127.0.0.1:x"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_not_equal(culm_lambda_runtime_init(&runtime, wrong[i], &error), CULM_OK);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_event_comes_in_any_form),
        cmocka_unit_test(what_is_no_answer_is_an_error),
        cmocka_unit_test(answers_go_where_they_belong),
        cmocka_unit_test(addresses),
    };
    return cmocka_run_group_tests_name("cloud/lambda_runtime", tests, NULL, NULL);
}

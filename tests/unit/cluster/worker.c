/* The world of a worker: how it joins, and how it and its peers find each other. */
#include "worker_played.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void one_that_leaves_at_its_start(void **state) {
    (void)state;
    struct joined w = join(7);
    assert_int_equal(part(&w), 7);
}

static void a_silent_connection_is_shown_out(void **state) {
    (void)state;
    struct joined w = join_as((struct setting){.hello_ms = HELLO_MS});
    int fd;
    char byte;
    uint64_t since = culm_clock_ns();
    assert_int_equal(culm_socket_connect(w.introduction.address, &fd, NULL), CULM_OK);
    assert_int_equal(culm_socket_read(fd, &byte, 1, since + PATIENCE, NULL), CULM_ERR_CLOSED);
    assert_true(culm_clock_ns() - since > HELLO_MS * SECOND / 1000);
    close(fd);
    assert_int_equal(part(&w), 1);
}

/* --- the leader that is none --- */

/* It took the address over, and does not know the token. */
static void a_leader_without_the_token_learns_nothing(void **state) {
    (void)state;
    struct joined w = start(0);
    struct culm_handshake handshake;
    struct culm_buf meta;
    struct frame frame;
    w.fd = accept_one(w.listen_fd);
    culm_handshake_listen(&handshake, "another", CULM_LEADER, nonce);
    assert_true(hear(w.fd, &frame));
    assert_null(memmem(frame.message.meta, frame.message.meta_bytes, TOKEN, strlen(TOKEN)));
    assert_int_equal(culm_handshake_greeted(&handshake, &frame.message, NULL), CULM_OK);
    culm_buf_init(&meta, CULM_WIRE_HELLO_MAX);
    culm_handshake_challenge(&handshake, &meta);
    say(w.fd, CULM_WIRE_CHALLENGE, &meta);
    assert_false(hear(w.fd, &frame)); /* no proof comes */
    assert_int_equal(part(&w), 99);
}

/* One whose connection was ended before it was answered calls again; one that was refused does not.
 */
static void a_worker_calls_until_it_is_answered(void **state) {
    (void)state;
    struct joined w = start(0);
    for (int i = 0; i < 3; i++) {
        close(accept_one(w.listen_fd));
    }
    w.fd = accept_one(w.listen_fd);
    prove(w.fd, &w.introduction);
    close(w.fd); /* still not answered */
    w.fd = accept_one(w.listen_fd);
    prove(w.fd, &w.introduction);
    struct culm_buf meta;
    culm_buf_init(&meta, CULM_WIRE_HELLO_MAX);
    culm_buf_string(&meta, "not today");
    say(w.fd, CULM_WIRE_REFUSED, &meta);
    assert_int_equal(part(&w), 99);
}

/* One that comes when the run is about to end has not been refused for what it is. */
static void a_run_that_ends_is_not_there(void **state) {
    (void)state;
    for (uint8_t ending = 0; ending < 2; ending++) {
        struct joined w = start(0);
        struct culm_buf meta;
        w.fd = accept_one(w.listen_fd);
        prove(w.fd, &w.introduction);
        culm_buf_init(&meta, CULM_WIRE_HELLO_MAX);
        culm_buf_string(&meta, "not today");
        culm_buf_u8(&meta, ending);
        say(w.fd, CULM_WIRE_REFUSED, &meta);
        assert_int_equal(part(&w), ending ? NOT_THERE : 99);
    }
}

static void a_leader_that_is_gone_is_not_waited_for(void **state) {
    (void)state;
    /* One that waits takes its thirty seconds each time; a machine may be busy many times. */
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 20 && least >= 15 * SECOND; i++) {
        uint64_t since = culm_clock_ns();
        struct joined w = start(0);
        close(w.listen_fd);
        w.listen_fd = w.fd = -1;
        assert_int_equal(part(&w), 99);
        uint64_t took = culm_clock_ns() - since;
        least = took < least ? took : least;
    }
    assert_true(least < 15 * SECOND);
}

/* --- a leader that says nothing --- */

static void one_that_hears_nothing_ends_itself(void **state) {
    (void)state;
    uint64_t since = culm_clock_ns();
    struct joined w = join_as((struct setting){.orphan_ms = 400});
    char words[CULM_ERROR_MAX];
    assert_int_equal(end_of(&w, words, sizeof words), 1);
    assert_true(culm_clock_ns() - since >= 4 * SECOND / 10);
    assert_non_null(strstr(words, "the leader has said nothing for 400 ms"));
}

/* Any word will do, and what came while the worker was frozen counts. False: this process itself stood still for so long that the worker
 * ended, for silence. */
static bool words_are_enough(int64_t orphan_ms) {
    struct joined w = join_as((struct setting){.orphan_ms = orphan_ms});
    uint64_t limit = (uint64_t)orphan_ms * SECOND / 1000;
    bool ended = false;
    for (int i = 0; i < 10 && !ended; i++) {
        ended = culm_socket_wait(w.fd, READABLE, culm_clock_ns() + limit / 8);
        if (!ended) {
            say_nothing(w.fd, (enum what)CULM_WIRE_ALIVE);
        }
    }
    kill(w.pid, SIGSTOP);
    ended = ended || culm_socket_wait(w.fd, READABLE, culm_clock_ns() + limit * 6 / 5);
    if (ended) {
        char words[CULM_ERROR_MAX];
        kill(w.pid, SIGCONT);
        assert_int_equal(end_of(&w, words, sizeof words), 1);
        assert_non_null(strstr(words, "the leader has said nothing for"));
        return false;
    }
    order(&w, ALIVE);
    kill(w.pid, SIGCONT);
    assert_int_equal(answer(&w), ALIVE);
    assert_int_equal(part(&w), 1);
    return true;
}

static void a_word_now_and_then_is_enough(void **state) {
    (void)state;
    bool enough = false;
    for (int64_t orphan_ms = 2500; !enough && orphan_ms < 100000; orphan_ms *= 2) {
        enough = words_are_enough(orphan_ms);
    }
    assert_true(enough);
}

/* --- peers --- */

static void only_who_knows_the_token_is_a_peer(void **state) {
    (void)state;
    struct joined w = join(0);
    int wrong = connect_to(&w), right = connect_to(&w), again = connect_to(&w);
    assert_false(call("another", wrong));
    assert_true(call(TOKEN, right));
    assert_false(call(TOKEN, again)); /* it is there already */
    close(wrong);
    close(right);
    close(again);
    assert_int_equal(answer(&w), LOST);
    assert_int_equal(part(&w), 1);
}

#define CROWD 300 /* more than a worker keeps */

static void a_peer_gets_in_through_a_crowd(void **state) {
    (void)state;
    struct joined w = join(0);
    int idle[CROWD];
    for (int i = 0; i < CROWD; i++) {
        idle[i] = connect_to(&w);
    }
    int fd = connect_to(&w);
    assert_true(call(TOKEN, fd));
    close(fd);
    for (int i = 0; i < CROWD; i++) {
        close(idle[i]);
    }
    assert_int_equal(answer(&w), LOST);
    assert_int_equal(part(&w), 1);
}

/* Its listener accepts no more, for lack of room or of time, and the call is made again. */
static void a_full_queue_costs_a_retry(void **state) {
    (void)state;
    struct joined w = join(0);
    int listener = listen_as_peer(&w), fill[8], count = 0;
    struct sockaddr_storage at;
    socklen_t len = sizeof at;
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &len), 0);
    for (;; count++) {
        assert_true(count < 8);
        fill[count] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
        if (connect(fill[count], (struct sockaddr *)&at, len)) {
            assert_int_equal(errno, EAGAIN);
            break;
        }
    }
    order(&w, SEND);
    order(&w, ALIVE); /* answered when the first call has failed */
    assert_int_equal(answer(&w), ALIVE);
    for (int i = 0; i < count; i++) {
        close(accept_one(listener));
    }
    int fd = accept_one(listener);
    let_in(fd);
    order(&w, ALIVE);
    assert_int_equal(answer(&w), ALIVE); /* and not LOST */
    for (int i = 0; i <= count; i++) {
        close(fill[i]);
    }
    close(listener);
    close(fd);
    assert_int_equal(answer(&w), LOST);
    assert_int_equal(part(&w), 1);
}

static void no_descriptors_cost_a_retry(void **state) {
    (void)state;
    struct joined w = join(0);
    int listener = listen_as_peer(&w);
    order(&w, LOWER);
    order(&w, SEND);
    order(&w, ALIVE);
    assert_int_equal(answer(&w), ALIVE);
    order(&w, RAISE);
    int fd = accept_one(listener);
    let_in(fd);
    close(fd);
    close(listener);
    assert_int_equal(answer(&w), LOST);
    assert_int_equal(part(&w), 1);
}

/* In a crowd its place was taken by the next, before it was let in. */
static void one_that_was_shown_out_calls_again(void **state) {
    (void)state;
    struct joined w = join(0);
    int listener = listen_as_peer(&w);
    order(&w, SEND);
    for (int i = 0; i < 3; i++) {
        close(accept_one(listener));
    }
    int fd = accept_one(listener);
    let_in(fd);
    close(fd);
    close(listener);
    assert_int_equal(answer(&w), LOST);
    assert_int_equal(part(&w), 1);
}

/* It is there, and nobody answers. */
static void a_black_hole_is_given_up(void **state) {
    (void)state;
    struct joined w = join_as((struct setting){.dial_ms = DIAL_MS});
    int listener = listen_as_peer(&w);
    uint64_t since = culm_clock_ns();
    order(&w, SEND);
    assert_int_equal(answer(&w), LOST);
    assert_true(culm_clock_ns() - since >= DIAL_MS * SECOND / 1000);
    close(listener);
    assert_int_equal(part(&w), 1);
}

/* One who took a dead peer's place hears nothing of what was meant for it. */
static void a_listener_without_the_token_gets_nothing(void **state) {
    (void)state;
    struct joined w = join(0);
    int listener = listen_as_peer(&w);
    struct culm_handshake handshake;
    struct culm_buf meta;
    struct frame frame;
    uint64_t since = culm_clock_ns();
    order(&w, SEND);
    int fd = accept_one(listener);
    culm_handshake_listen(&handshake, "another", PEER, nonce);
    assert_true(hear(fd, &frame));
    assert_int_equal(culm_handshake_greeted(&handshake, &frame.message, NULL), CULM_OK);
    culm_buf_init(&meta, CULM_WIRE_HELLO_MAX);
    culm_handshake_challenge(&handshake, &meta);
    say(fd, CULM_WIRE_CHALLENGE, &meta);
    assert_false(hear(fd, &frame));
    assert_int_equal(answer(&w), LOST);
    assert_true(culm_clock_ns() - since <
                LONG_MS / 2 * (SECOND / 1000)); /* it is not called again */
    close(fd);
    close(listener);
    assert_int_equal(part(&w), 1);
}

/* No memory for what a peer sends: the leader hears of it, and so does who reads the log. */
static void one_without_memory_says_so(void **state) {
    (void)state;
    struct joined w = join_as((struct setting){.pool_bytes = 4096});
    static uint8_t bytes[100000];
    struct culm_blob blob = {.data = bytes, .size_bytes = sizeof bytes};
    uint8_t header[CULM_FRAME_HEADER_BYTES];
    char words[CULM_ERROR_MAX];
    struct culm_ready why;
    struct frame frame;
    int fd = connect_to(&w);
    assert_true(call(TOKEN, fd));
    culm_frame_header_encode(
        &(struct culm_message){.type = DATA, .payload = &blob, .payload_bytes = sizeof bytes},
        header);
    assert_int_equal(culm_socket_write(fd, header, sizeof header, culm_clock_ns() + PATIENCE, NULL),
                     CULM_OK);
    assert_true(hear(w.fd, &frame));
    assert_int_equal(frame.message.type, CULM_WIRE_FAILED);
    assert_true(culm_ready_decode(&frame.message, &why));
    assert_int_equal(why.status, CULM_ERR_MEMORY);
    assert_non_null(strstr(why.text, "receive from node 9: no room for a payload of 100000 bytes"));
    close(w.fd);
    w.fd = -1;
    assert_int_equal(end_of(&w, words, sizeof words), 4);
    assert_string_equal(words, why.text);
    close(fd);
}

int main(void) {
    culm_socket_raise_limit();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_leaves_at_its_start),
        cmocka_unit_test(a_silent_connection_is_shown_out),
        cmocka_unit_test(a_leader_without_the_token_learns_nothing),
        cmocka_unit_test(a_worker_calls_until_it_is_answered),
        cmocka_unit_test(a_run_that_ends_is_not_there),
        cmocka_unit_test(a_leader_that_is_gone_is_not_waited_for),
        cmocka_unit_test(one_that_hears_nothing_ends_itself),
        cmocka_unit_test(a_word_now_and_then_is_enough),
        cmocka_unit_test(only_who_knows_the_token_is_a_peer),
        cmocka_unit_test(a_peer_gets_in_through_a_crowd),
        cmocka_unit_test(a_full_queue_costs_a_retry),
        cmocka_unit_test(no_descriptors_cost_a_retry),
        cmocka_unit_test(one_that_was_shown_out_calls_again),
        cmocka_unit_test(a_black_hole_is_given_up),
        cmocka_unit_test(a_listener_without_the_token_gets_nothing),
        cmocka_unit_test(one_without_memory_says_so),
    };
    return cmocka_run_group_tests_name("cluster/worker", tests, NULL, NULL);
}

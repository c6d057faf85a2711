/*
 * What workers are told, in real processes: the brief, from one place in memory for all of them; and what is said after it, all of it,
 * once, in order, whenever they come.
 */
#include "toy_test.h"

#include "cluster/handshake.h"
#include "net/frame.h"
#include "net/socket.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* --- the brief --- */

static void one_more_or_end(struct test *t, int32_t node, const struct culm_node_info *info) {
    (void)info;
    if (t->ups == t->start) {
        assert_int_equal(t->briefs[false], 1);
        assert_int_equal(culm_host_add_news(t->host, "x", 1), CULM_OK);
        t->world->ops->timer(t->world, 0, SECOND / 10); /* the news is told */
    } else if (node == t->start) {
        test_finish(t);
    }
}

static void start_one_more(struct test *t) { t->agent->ops->start(t->agent, ROLE); }

/* Until there is news, which may be in a brief too. */
static void one_brief_serves_all(void **state) {
    (void)state;
    RUN(.start = 4, .bad = -1, .on_up = one_more_or_end, .on_timer = start_one_more);
    assert_int_equal(t.code, 0);
    assert_int_equal(t.briefs[false], 2);
    assert_int_equal(t.briefs[true], 0);
    test_release(&t, 0);
}

static void end_when_the_other_is_up(struct test *t) {
    if (t->ups == 1 && t->exits == 1) {
        test_finish(t);
    }
}

static void the_other_is_up(struct test *t, int32_t node, const struct culm_node_info *info) {
    (void)node;
    (void)info;
    end_when_the_other_is_up(t);
}

static void refused_for_memory(struct test *t, int32_t node, const struct culm_error *why) {
    assert_false(t->up[node]);
    assert_non_null(why);
    assert_int_equal(why->status, CULM_ERR_MEMORY);
    end_when_the_other_is_up(t);
}

static void no_memory_for_one_refuses_that_one(void **state) {
    (void)state;
    char words[1024];
    RUN(.start = 2, .bad = -1, .no_briefs = 1, .on_up = the_other_is_up,
        .on_exit = refused_for_memory);
    assert_int_equal(t.code, 0);
    assert_int_equal(t.error_events, 1);
    assert_non_null(strstr(t.error_text, "the brief for this worker does not fit"));
    test_read_log(&t, t.up[0], words, sizeof words);
    assert_non_null(strstr(words, "refused: the brief for this worker does not fit"));
    test_release(&t, 0);
}

#define HELD 20
static int held[HELD];
static pthread_t holder;

static void say(int fd, uint16_t type, struct culm_buf *meta) {
    uint8_t header[CULM_FRAME_HEADER_BYTES];
    const struct culm_message message = {
        .type = type, .meta = meta->data, .meta_bytes = (uint32_t)meta->len};
    culm_frame_header_encode(&message, header);
    uint64_t deadline = culm_clock_ns() + SOON;
    assert_int_equal(culm_socket_write(fd, header, sizeof header, deadline, NULL), CULM_OK);
    assert_int_equal(culm_socket_write(fd, meta->data, meta->len, deadline, NULL), CULM_OK);
    culm_buf_clear(meta);
}

/* Proves that it knows the token, and reads nothing of what it is answered. */
static void hold(const char *address, int *ret_fd) {
    const uint8_t nonce[CULM_NONCE_BYTES] = {1};
    const struct culm_introduction introduction = {.role = TOY_WANTED};
    uint8_t bytes[CULM_FRAME_HEADER_BYTES + CULM_WIRE_HELLO_MAX];
    struct culm_handshake handshake;
    struct culm_frame_reader reader;
    const struct culm_message *message = NULL;
    struct culm_buf meta;
    culm_buf_init(&meta, CULM_WIRE_HELLO_MAX);
    assert_int_equal(culm_socket_connect(address, ret_fd, NULL), CULM_OK);
    culm_handshake_call(&handshake, TOY_TOKEN, CULM_NEWCOMER, CULM_LEADER, nonce);
    culm_handshake_hello(&handshake, &meta);
    say(*ret_fd, CULM_WIRE_HELLO, &meta);
    culm_frame_reader_init(&reader, NULL, CULM_WIRE_HELLO_MAX, 0);
    while (!message) {
        size_t used;
        assert_int_equal(culm_socket_read(*ret_fd, bytes, 1, culm_clock_ns() + SOON, NULL),
                         CULM_OK);
        assert_int_equal(culm_frame_reader_feed(&reader, bytes, 1, &used, &message, NULL), CULM_OK);
    }
    assert_int_equal(culm_handshake_challenged(&handshake, message, NULL), CULM_OK);
    culm_handshake_proof(&handshake, &introduction, &meta);
    say(*ret_fd, CULM_WIRE_PROOF, &meta);
    culm_frame_reader_release(&reader);
    culm_buf_release(&meta);
}

static void *hold_all(void *arg) {
    struct test *t = arg;
    for (int i = 0; i < HELD; i++) {
        hold(culm_host_address(t->host), &held[i]);
    }
    return NULL;
}

static void callers_hold(struct test *t) {
    assert_int_equal(pthread_create(&holder, NULL, hold_all, t), 0);
    t->world->ops->timer(t->world, 0, SECOND / 100);
}

/* When all have been sent for: then a worker is started. */
static void start_behind_them(struct test *t) {
    if (pthread_tryjoin_np(holder, NULL) == 0) {
        t->agent->ops->start(t->agent, ROLE);
    } else {
        t->world->ops->timer(t->world, 0, SECOND / 100);
    }
}

static void gets_in(struct test *t, int32_t node, const struct culm_node_info *info) {
    (void)node;
    (void)info;
    test_finish(t);
}

/* Room for two briefs: one of newcomers, and one of those that are started here. */
static void callers_that_do_not_read_take_one_brief(void **state) {
    (void)state;
    struct culm_blob_pool_stats stats;
    RUN(.bad = -1, .pool_bytes = 2 * TOY_BRIEF + TOY_MB, .all_started = callers_hold,
        .on_timer = start_behind_them, .on_up = gets_in);
    assert_int_equal(t.code, 0);
    assert_int_equal(t.ups, 1);
    culm_blob_pool_stats_of(t.pool, &stats);
    assert_int_equal(stats.peak_bytes / TOY_BRIEF, 2);
    for (int i = 0; i < HELD; i++) {
        close(held[i]);
    }
    test_release(&t, 0);
}

static void *talk_nonsense(void *arg) {
    static const char nonsense[64] = "this is not a frame";
    struct test *t = arg;
    uint64_t deadline = culm_clock_ns() + SOON;
    for (int i = 0; i < 3; i++) {
        uint8_t byte;
        hold(culm_host_address(t->host), &held[i]);
        assert_int_equal(culm_socket_write(held[i], nonsense, sizeof nonsense, deadline, NULL),
                         CULM_OK);
        while (culm_socket_read(held[i], &byte, 1, deadline, NULL) == CULM_OK) {
        }
        close(held[i]);
    }
    return NULL;
}

static void callers_talk_nonsense(struct test *t) {
    assert_int_equal(pthread_create(&holder, NULL, talk_nonsense, t), 0);
    t->world->ops->timer(t->world, 0, SECOND / 100);
}

static void end_behind_them(struct test *t) {
    if (pthread_tryjoin_np(holder, NULL) == 0) {
        test_finish(t);
    } else {
        t->world->ops->timer(t->world, 0, SECOND / 100);
    }
}

static void what_is_alike_is_told_once(void **state) {
    (void)state;
    RUN(.bad = -1, .all_started = callers_talk_nonsense, .on_timer = end_behind_them);
    assert_int_equal(t.code, 0);
    assert_int_equal(t.ups + t.exits, 0);
    assert_non_null(strstr(t.error_text, "newcomer ''"));
    assert_int_equal(t.error_events, 1);
    test_release(&t, 0);
}

/* --- news --- */

static void tell(struct test *t, const char *text) {
    assert_int_equal(culm_host_add_news(t->host, text, strlen(text)), CULM_OK);
}

static void before_anybody_is_ready(struct test *t) { tell(t, "one "); }

static void *another_thread(void *arg) {
    tell(arg, "two ");
    tell(arg, "three");
    return NULL;
}

static void ask(struct test *t) {
    for (int32_t node = 0; node < t->start; node++) {
        test_order(t, node, TOY_STATUS, (struct toy_order){0});
    }
}

/* From a thread of another kind, while all are up; then a while, for that is not the loop's. */
static void while_they_work(struct test *t) {
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, another_thread, t), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    ask(t);
}

static int32_t done; /* have heard it all */

static void heard(struct test *t, int32_t node, const struct toy_report *report) {
    static const char all[] = "one two three";
    assert_memory_equal(report->news, all, strlen(report->news));
    if (strlen(report->news) < strlen(all)) { /* the question was faster */
        test_order(t, node, TOY_STATUS, (struct toy_order){0});
    } else if (++done == t->start) {
        test_finish(t);
    }
}

static void all_hear_it(void **state) {
    (void)state;
    done = 0;
    RUN(.start = 3, .bad = -1, .all_started = before_anybody_is_ready, .all_up = while_they_work,
        .on_report = heard);
    assert_int_equal(t.code, 0);
    assert_int_equal(done, 3);
    test_release(&t, 0);
}

static void tell_one(struct test *t) { tell(t, "one"); }

static void then_it_is_up(struct test *t, int32_t node, const struct toy_report *report) {
    (void)node;
    assert_string_equal(report->news, "one"); /* once */
    test_finish(t);
}

static void tell_when_it_prepares(struct test *t) {
    if (t->briefs[false] == 0) {
        t->world->ops->timer(t->world, 0, SECOND / 100);
    } else {
        tell_one(t);
    }
}

/* What it cannot prepare without is told before it is ready: it is there already, or comes meanwhile. */
static void one_that_prepares_hears_it(void **state) {
    (void)state;
    for (int meanwhile = 0; meanwhile < 2; meanwhile++) {
        RUN(.start = 1, .bad = -1, .mode = "curious",
            .all_started = meanwhile ? tell_when_it_prepares : tell_one,
            .on_timer = tell_when_it_prepares, .all_up = ask, .on_report = then_it_is_up);
        assert_int_equal(t.code, 0);
        test_release(&t, 0);
    }
}

static void a_newcomer_comes(struct test *t) {
    test_came.count = 0;
    test_come(t, "curious", TOY_TOKEN, "guest");
    tell_one(t);
}

static void one_that_comes_hears_it(void **state) {
    (void)state;
    char words[1024];
    RUN(.bad = -1, .all_started = a_newcomer_comes, .on_up = gets_in);
    assert_int_equal(t.code, 0);
    assert_int_equal(test_came_end(0, words, sizeof words), 1);
    test_release(&t, 0);
}

static bool too_long;

static void say_too_much(struct test *t) {
    static const char much[CULM_HOST_NEWS_MAX + 1];
    too_long = culm_host_add_news(t->host, much, sizeof much) == CULM_ERR_ARGUMENT;
    test_finish(t);
}

static void more_than_fits_is_refused(void **state) {
    (void)state;
    RUN(.start = 1, .bad = -1, .all_up = say_too_much);
    assert_true(too_long);
    test_release(&t, 0);
}

int toy_launcher(const char *mode) {
    (void)mode;
    return 2;
}

int main(int argc, char **argv) {
    if (argc > 1) {
        return toy_main(argc, argv);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_brief_serves_all),
        cmocka_unit_test(no_memory_for_one_refuses_that_one),
        cmocka_unit_test(callers_that_do_not_read_take_one_brief),
        cmocka_unit_test(what_is_alike_is_told_once),
        cmocka_unit_test(all_hear_it),
        cmocka_unit_test(one_that_prepares_hears_it),
        cmocka_unit_test(one_that_comes_hears_it),
        cmocka_unit_test(more_than_fits_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Another one leads: a member alone whom leaders call, and a roster alone that calls nodes; the test holds the other ends. */
#include "expect_mark.h"

#include "cluster/member.h"
#include "cluster/roster.h"

#include "played_links.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MS 1000000ull
#define NODE 3
#define DATA 1 /* a type of the actors' messages */

struct fixture {
    struct played played;
    struct culm_member *member;
    struct culm_roster *roster;
    int32_t ended, heard, up, gone, absent;
    uint64_t led, deposed;
    bool refuses; /* those who promise */
};

/* What the other end is told next of that kind; NULL: nothing. Others are passed over. */
static const struct culm_message *told(struct line *line, uint16_t type) {
    const struct culm_message *message;
    while ((message = line_hear(line)) && message->type != type) {
    }
    return message;
}

static void say_number(struct line *line, uint16_t type, uint64_t number) {
    struct culm_buf meta;
    culm_buf_init(&meta, CULM_WIRE_HELLO_MAX);
    culm_buf_u64(&meta, number);
    if (type == CULM_WIRE_TAKE_OVER) {
        culm_buf_string(&meta, "new leader");
    }
    line_say(line, type, &meta);
    culm_buf_release(&meta);
    played_turn(line->played);
}

static void say(struct line *line, uint16_t type) {
    line_say(line, type, NULL);
    played_turn(line->played);
}

/* --- whom leaders call --- */

static void on_joined(void *ctx, int64_t pid) {
    (void)ctx;
    (void)pid;
}

static void on_message(void *ctx, int32_t from, const struct culm_message *message) {
    struct fixture *f = ctx;
    assert_int_equal(from, CULM_LEADER);
    assert_int_equal(message->type, DATA);
    f->heard++;
}

static void on_lost(void *ctx, int32_t node) {
    (void)ctx;
    (void)node;
}

static void on_ended(void *ctx, const struct culm_error *why) {
    struct fixture *f = ctx;
    (void)why;
    f->ended++;
}

static void on_led(void *ctx, uint64_t term, const char *address) {
    assert_string_equal(address, "new leader");
    ((struct fixture *)ctx)->led = term;
}

static const struct culm_member_ops member_ops = {
    .joined = on_joined, .message = on_message, .lost = on_lost, .ended = on_ended, .led = on_led};

/* One that has been let in; `known`: and of whom others know. Returns the line to its leader. */
static struct line *join(struct fixture *f, bool known) {
    *f = (struct fixture){0};
    played_begin(&f->played);
    const struct culm_member_options options = {.fabric = &f->played.fabric,
                                                .leader = "leader",
                                                .address = "self",
                                                .token = PLAYED_TOKEN,
                                                .node = NODE,
                                                .signature = "of a kind",
                                                .pool = f->played.pool,
                                                .payload_max = 1 << 20,
                                                .orphan_ms = 400,
                                                .outlives = true,
                                                .ops = &member_ops,
                                                .ctx = f};
    f->member = culm_member_new(&options);
    assert_non_null(f->member);
    culm_member_join(f->member);
    played_turn(&f->played);
    struct line *line = played_called(&f->played, "leader");
    line_challenge(line, PLAYED_TOKEN, CULM_LEADER);
    const struct culm_welcome welcome = {.pid = 1, .node = NODE};
    struct culm_buf meta;
    culm_buf_init(&meta, CULM_WIRE_HELLO_MAX);
    culm_welcome_encode(&welcome, &meta);
    line_say(line, CULM_WIRE_WELCOME, &meta);
    culm_buf_release(&meta);
    played_turn(&f->played);
    if (known) {
        say(line, CULM_WIRE_BOOK);
    }
    return line;
}

/* A leader calls, and proves that it knows the token. */
static struct line *called(struct fixture *f) {
    struct line *line = played_line(&f->played);
    culm_member_accepted(f->member, &line->stream);
    line_greet(line, CULM_LEADER, NODE);
    line_answer(line, PLAYED_TOKEN, "");
    played_turn(&f->played);
    return line;
}

static void release_member(struct fixture *f) {
    culm_member_free(f->member);
    played_end(&f->played);
}

/* Lets its alarm ring until then. */
static void pass(struct fixture *f, uint64_t ms) {
    const uint64_t until = f->played.now_ns + ms * MS;
    while (!f->ended && f->played.alarm_ns <= until) {
        f->played.now_ns =
            f->played.alarm_ns > f->played.now_ns ? f->played.alarm_ns : f->played.now_ns;
        culm_member_alarm(f->member);
        played_turn(&f->played);
    }
    f->played.now_ns = until;
}

static void a_member_promises_another_leader(void **state) {
    (void)state;
    EXPECT_MARK(cluster_leader_is_deposed);
    EXPECT_MARK(cluster_deposed_goes_on);
    struct fixture f;
    struct line *first = join(&f, true), *second = called(&f);
    say_number(second, CULM_WIRE_TAKE_OVER, 2);
    assert_int_equal(f.led, 2);
    assert_int_equal(culm_member_term(f.member), 2);
    struct culm_ready ready;
    assert_true(culm_ready_decode(told(second, CULM_WIRE_PROMISED), &ready));
    assert_string_equal(ready.signature, "of a kind");
    uint64_t term;
    assert_true(culm_term_decode(told(first, CULM_WIRE_DEPOSED), &term));
    assert_int_equal(term, 2);
    say(first, DATA); /* it has not read that yet */
    assert_int_equal(f.heard, 0);
    say(second, DATA);
    assert_int_equal(f.heard, 1);
    line_hang_up(first);
    played_turn(&f.played);
    const struct culm_message message = {.type = DATA};
    culm_member_send(f.member, CULM_LEADER, &message);
    assert_non_null(told(second, DATA));
    release_member(&f);
}

static void a_member_answers_the_same_leader_again(void **state) {
    (void)state;
    struct fixture f;
    (void)join(&f, true);
    struct line *once = called(&f);
    say_number(once, CULM_WIRE_TAKE_OVER, 2);
    f.led = 0;
    struct line *again = called(&f); /* the connection broke, and only the leader has seen that */
    say_number(again, CULM_WIRE_TAKE_OVER, 2);
    assert_int_equal(f.led, 2);
    assert_non_null(told(again, CULM_WIRE_PROMISED));
    release_member(&f);
}

static void a_member_tells_one_of_a_lower_term(void **state) {
    (void)state;
    EXPECT_MARK(cluster_claim_is_of_a_lower_term);
    struct fixture f;
    (void)join(&f, true);
    struct line *third = called(&f);
    say_number(third, CULM_WIRE_TAKE_OVER, 3);
    struct line *second = called(&f);
    say_number(second, CULM_WIRE_TAKE_OVER, 2);
    assert_int_equal(culm_member_term(f.member), 3);
    uint64_t term;
    assert_true(culm_term_decode(told(second, CULM_WIRE_DEPOSED), &term));
    assert_int_equal(term, 3);
    assert_null(told(second, CULM_WIRE_PROMISED));
    release_member(&f);
}

static void a_claim_that_is_none(void **state) {
    (void)state;
    EXPECT_MARK(cluster_claim_is_malformed);
    struct fixture f;
    (void)join(&f, true);
    struct line *line = called(&f);
    say_number(line, CULM_WIRE_TAKE_OVER, 0); /* there is no such term */
    assert_true(line->closed);
    assert_int_equal(f.led, 0);
    release_member(&f);
}

/* Whoever takes over does not know of it. */
static void a_member_of_whom_nobody_knows(void **state) {
    (void)state;
    EXPECT_MARK(cluster_nobody_may_take_over);
    struct fixture f;
    struct line *first = join(&f, false);
    struct line *line = called(&f);
    assert_true(line->closed);
    line_hang_up(first); /* and it does not outlive its leader */
    played_turn(&f.played);
    assert_int_equal(f.ended, 1);
    release_member(&f);
}

static void a_member_outlives_its_leader(void **state) {
    (void)state;
    EXPECT_MARK(cluster_outlives_its_leader);
    struct fixture f;
    line_hang_up(join(&f, true));
    played_turn(&f.played);
    pass(&f, 300);
    assert_int_equal(f.ended, 0);
    say_number(called(&f), CULM_WIRE_TAKE_OVER, 2);
    pass(&f, 300); /* from then on its patience begins anew */
    assert_int_equal(f.ended, 0);
    pass(&f, 300);
    assert_int_equal(f.ended, 1);
    release_member(&f);
}

/* --- one that calls --- */

static bool check(void *ctx, const struct culm_caller *caller, struct culm_error *ret_error) {
    (void)ctx;
    (void)caller;
    (void)ret_error;
    return true;
}

static bool is_ready(void *ctx, int32_t *node, const struct culm_ready *ready,
                     struct culm_error *ret_error) {
    const struct fixture *f = ctx;
    assert_int_equal(*node, NODE);
    (void)ready;
    culm_error_set(ret_error, CULM_ERR_CONFIG, "of another build");
    return !f->refuses;
}

static void up(void *ctx, int32_t node, const struct culm_ready *ready) {
    struct fixture *f = ctx;
    assert_int_equal(node, NODE);
    assert_string_equal(ready->signature, "of a kind");
    f->up++;
}

static void message(void *ctx, int32_t node, const struct culm_message *said) {
    struct fixture *f = ctx;
    (void)said;
    assert_int_equal(node, NODE);
    f->heard++;
}

static void eof(void *ctx, int32_t node, const struct culm_error *why) {
    struct fixture *f = ctx;
    (void)why;
    assert_int_equal(node, NODE);
    f->gone++;
}

static void absent(void *ctx, int32_t node, const struct culm_error *why) {
    struct fixture *f = ctx;
    (void)why;
    assert_int_equal(node, NODE);
    f->absent++;
}

static void deposed(void *ctx, uint64_t term) { ((struct fixture *)ctx)->deposed = term; }

static const struct culm_roster_ops roster_ops = {.check = check,
                                                  .ready = is_ready,
                                                  .up = up,
                                                  .message = message,
                                                  .eof = eof,
                                                  .absent = absent,
                                                  .deposed = deposed};

/* One that leads in term 2, and has called a node. */
static struct line *call(struct fixture *f) {
    *f = (struct fixture){0};
    played_begin(&f->played);
    const struct culm_roster_options options = {.fabric = &f->played.fabric,
                                                .token = PLAYED_TOKEN,
                                                .term = 2,
                                                .pool = f->played.pool,
                                                .payload_max = 1 << 20,
                                                .ops = &roster_ops,
                                                .address = "leader",
                                                .ctx = f};
    f->roster = culm_roster_new(&options);
    assert_non_null(f->roster);
    assert_true(culm_roster_call(f->roster, NODE, "node"));
    played_turn(&f->played);
    return played_called(&f->played, "node");
}

static void release_roster(struct fixture *f) {
    culm_roster_free(f->roster);
    played_end(&f->played);
}

static void promise(struct line *line) {
    struct culm_ready ready = {.status = CULM_OK, .signature = "of a kind"};
    struct culm_buf meta;
    line_challenge(line, PLAYED_TOKEN, NODE);
    say(line, CULM_WIRE_WELCOME);
    struct culm_claim claim;
    assert_true(culm_claim_decode(told(line, CULM_WIRE_TAKE_OVER), &claim));
    assert_int_equal(claim.term, 2);
    assert_string_equal(claim.address, "leader");
    culm_buf_init(&meta, CULM_WIRE_HELLO_MAX);
    culm_ready_encode(&ready, &meta);
    line_say(line, CULM_WIRE_PROMISED, &meta);
    culm_buf_release(&meta);
    played_turn(line->played);
}

static void a_node_that_is_called_takes_part(void **state) {
    (void)state;
    struct fixture f;
    struct line *line = call(&f);
    promise(line);
    assert_int_equal(f.up, 1);
    say(line, DATA);
    assert_int_equal(f.heard, 1);
    line_hang_up(line);
    played_turn(&f.played);
    assert_int_equal(f.gone, 1);
    release_roster(&f);
}

static void a_node_that_hangs_up_is_called_again(void **state) {
    (void)state;
    EXPECT_MARK(cluster_node_is_called_again);
    struct fixture f;
    line_hang_up(call(&f));
    played_turn(&f.played);
    assert_null(played_called(&f.played, "node"));
    f.played.now_ns = f.played.alarm_ns + 10 * MS;
    culm_roster_alarm(f.roster);
    played_turn(&f.played);
    promise(played_called(&f.played, "node"));
    assert_int_equal(f.up, 1);
    release_roster(&f);
}

static void a_node_that_is_called_no_more(void **state) {
    (void)state;
    struct fixture f;
    line_hang_up(call(&f));
    played_turn(&f.played);
    culm_roster_uncall(f.roster, NODE);
    f.played.now_ns += 1000 * MS;
    culm_roster_alarm(f.roster);
    played_turn(&f.played);
    assert_null(played_called(&f.played, "node"));
    assert_int_equal(f.absent, 0);
    release_roster(&f);
}

/* Somebody else listens there now. */
static void a_node_that_does_not_know_the_token(void **state) {
    (void)state;
    EXPECT_MARK(cluster_node_that_is_called_is_not_there);
    struct fixture f;
    struct line *line = call(&f);
    line_challenge(line, "another", NODE);
    assert_int_equal(f.absent, 1);
    assert_true(line->closed);
    release_roster(&f);
}

static void a_node_that_is_of_another_build(void **state) {
    (void)state;
    EXPECT_MARK(cluster_promise_is_not_taken);
    struct fixture f;
    struct line *line = call(&f);
    f.refuses = true;
    promise(line);
    assert_int_equal(f.up, 0);
    assert_int_equal(f.absent, 1);
    assert_true(line->closed);
    release_roster(&f);
}

static void a_leader_hears_of_a_higher_term(void **state) {
    (void)state;
    EXPECT_MARK(cluster_another_one_leads);
    struct fixture f;
    struct line *line = call(&f);
    line_challenge(line, PLAYED_TOKEN, NODE);
    say(line, CULM_WIRE_WELCOME);
    say_number(line, CULM_WIRE_DEPOSED, 2); /* its own is not news */
    assert_int_equal(f.deposed, 0);
    say_number(line, CULM_WIRE_DEPOSED, 3);
    assert_int_equal(f.deposed, 3);
    assert_int_equal(f.up, 0);
    release_roster(&f);
}

static void a_leader_hears_of_it_from_one_that_took_part(void **state) {
    (void)state;
    EXPECT_MARK(cluster_another_one_leads);
    struct fixture f;
    struct line *line = call(&f);
    promise(line);
    say_number(line, CULM_WIRE_DEPOSED, 7);
    assert_int_equal(f.deposed, 7);
    release_roster(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_member_promises_another_leader),
        cmocka_unit_test(a_member_answers_the_same_leader_again),
        cmocka_unit_test(a_member_tells_one_of_a_lower_term),
        cmocka_unit_test(a_claim_that_is_none),
        cmocka_unit_test(a_member_of_whom_nobody_knows),
        cmocka_unit_test(a_member_outlives_its_leader),
        cmocka_unit_test(a_node_that_is_called_takes_part),
        cmocka_unit_test(a_node_that_hangs_up_is_called_again),
        cmocka_unit_test(a_node_that_is_called_no_more),
        cmocka_unit_test(a_node_that_does_not_know_the_token),
        cmocka_unit_test(a_node_that_is_of_another_build),
        cmocka_unit_test(a_leader_hears_of_a_higher_term),
        cmocka_unit_test(a_leader_hears_of_it_from_one_that_took_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

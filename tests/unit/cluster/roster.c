/* A roster alone, of whose links the test holds the other ends: who is not let in, declines, goes on after a refusal, or ends in between. */
#include "expect_mark.h"

#include "cluster/roster.h"

#include "played_links.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define NODE 3
#define DATA 1 /* a type of the actors' messages */

struct fixture {
    struct played played;
    struct culm_roster *roster;
    int32_t up, heard, failed, gone, visits;
    bool lets_in, makes_briefs, takes_ready, takes_later, ends;
    const char *origin; /* of callers; NULL: this machine */
    int32_t refused, unsaid;
    char refused_of[200];
    struct culm_error why; /* of who has gone */
};

static bool check(void *ctx, const struct culm_caller *caller, struct culm_error *ret_error) {
    struct fixture *f = ctx;
    (void)caller;
    culm_error_set(ret_error, f->ends ? CULM_ERR_CLOSED : CULM_ERR_CONFIG, "not awaited");
    return f->lets_in;
}

static bool brief(void *ctx, int32_t node, struct culm_blob **ret_brief,
                  struct culm_error *ret_error) {
    struct fixture *f = ctx;
    (void)node;
    (void)ret_brief;
    culm_error_set(ret_error, CULM_ERR_MEMORY, "no memory for a brief");
    return f->makes_briefs;
}

static bool is_ready(void *ctx, int32_t *node, const struct culm_ready *ready,
                     struct culm_error *ret_error) {
    struct fixture *f = ctx;
    (void)node;
    (void)ready;
    culm_error_set(ret_error,
                   f->takes_later ? CULM_ERR_AGAIN
                   : f->ends      ? CULM_ERR_CLOSED
                                  : CULM_ERR_CONFIG,
                   "of another kind");
    return f->takes_ready && !f->takes_later;
}

static void up(void *ctx, int32_t node, const struct culm_ready *ready) {
    struct fixture *f = ctx;
    (void)node;
    (void)ready;
    f->up++;
}

static void message(void *ctx, int32_t node, const struct culm_message *said) {
    struct fixture *f = ctx;
    (void)node;
    (void)said;
    f->heard++;
}

static void failed(void *ctx, int32_t node, const struct culm_ready *why) {
    struct fixture *f = ctx;
    (void)node;
    assert_string_equal(why->text, "no memory");
    f->failed++;
}

static void eof(void *ctx, int32_t node, const struct culm_error *why) {
    struct fixture *f = ctx;
    assert_int_equal(node, NODE);
    f->gone++;
    f->why = *why;
}

static void visit(void *ctx, struct culm_channel *take_channel) {
    struct fixture *f = ctx;
    assert_int_equal(take_channel->fd, -1);
    f->visits++;
}

static void refused(void *ctx, const char *origin, const char *reason, int32_t unsaid) {
    struct fixture *f = ctx;
    f->refused++;
    f->unsaid = unsaid;
    snprintf(f->refused_of, sizeof f->refused_of, "%s: %s", origin, reason);
}

static const struct culm_roster_ops ops = {.check = check,
                                           .brief = brief,
                                           .ready = is_ready,
                                           .up = up,
                                           .message = message,
                                           .failed = failed,
                                           .refused = refused,
                                           .eof = eof};

static const struct culm_roster_ops ops_with_visits = {
    .check = check, .visit = visit, .up = up, .message = message, .eof = eof};

static void begin_with(struct fixture *f, const struct culm_roster_ops *how) {
    *f = (struct fixture){.lets_in = true, .makes_briefs = true, .takes_ready = true};
    played_begin(&f->played);
    const struct culm_roster_options options = {.fabric = &f->played.fabric,
                                                .token = PLAYED_TOKEN,
                                                .pid = 1,
                                                .pool = f->played.pool,
                                                .payload_max = 1 << 20,
                                                .ops = how,
                                                .ctx = f};
    f->roster = culm_roster_new(&options);
    assert_non_null(f->roster);
}

static void begin(struct fixture *f) { begin_with(f, &ops); }

static void end(struct fixture *f) {
    culm_roster_free(f->roster);
    played_end(&f->played);
}

static struct line *accepted(struct fixture *f) {
    struct line *line = played_line(&f->played);
    culm_roster_accepted(f->roster, &line->stream, 0, f->origin ? f->origin : "");
    return line;
}

static struct line *comes(struct fixture *f, int32_t node, const char *token) {
    struct line *line = accepted(f);
    line_greet(line, node, CULM_LEADER);
    line_answer(line, token, "somewhere");
    return line;
}

static void say_ready(struct line *line, uint16_t type, enum culm_status status, const char *text) {
    struct culm_ready ready = {.status = status};
    struct culm_buf meta;
    snprintf(ready.text, sizeof ready.text, "%s", text);
    culm_buf_init(&meta, CULM_WIRE_HELLO_MAX);
    culm_ready_encode(&ready, &meta);
    line_say(line, type, &meta);
    culm_buf_release(&meta);
    played_turn(line->played);
}

static struct line *joins(struct fixture *f) {
    struct line *line = comes(f, NODE, PLAYED_TOKEN);
    assert_int_equal(line_hear(line)->type, CULM_WIRE_WELCOME);
    say_ready(line, CULM_WIRE_READY, CULM_OK, "");
    assert_int_equal(f->up, 1);
    return line;
}

/* `ending`: because there will soon be no run to come to. */
static void assert_refused_as(struct line *line, const char *text, bool ending) {
    char why[CULM_WIRE_TEXT_MAX];
    const struct culm_message *said = line_hear(line);
    assert_non_null(said);
    assert_int_equal(said->type, CULM_WIRE_REFUSED);
    struct culm_reader reader = culm_reader_of(said->meta, said->meta_bytes);
    culm_read_string(&reader, why, sizeof why);
    assert_non_null(strstr(why, text));
    assert_int_equal(culm_read_u8(&reader), ending);
}

static void assert_refused(struct line *line, const char *text) {
    assert_refused_as(line, text, false);
}

/* --- who is refused --- */

static void a_greeting_for_another(void **state) {
    (void)state;
    EXPECT_MARK(cluster_greeting_is_refused);
    struct fixture f;
    begin(&f);
    struct line *line = accepted(&f);
    line_greet(line, NODE, NODE + 1);
    assert_refused(line, "");
    end(&f);
}

static void a_worker_of_another_run(void **state) {
    (void)state;
    EXPECT_MARK(cluster_proof_is_refused);
    struct fixture f;
    begin(&f);
    assert_refused(comes(&f, NODE, "another"), "token");
    end(&f);
}

static void a_worker_that_is_not_awaited(void **state) {
    (void)state;
    EXPECT_MARK(cluster_worker_is_not_let_in);
    struct fixture f;
    begin(&f);
    f.lets_in = false;
    assert_refused(comes(&f, NODE, PLAYED_TOKEN), "not awaited");
    end(&f);
}

static void one_that_comes_when_the_run_is_about_to_end(void **state) {
    (void)state;
    struct fixture f;
    begin(&f);
    f.ends = true;
    f.lets_in = false;
    assert_refused_as(comes(&f, NODE, PLAYED_TOKEN), "not awaited", true);
    f.lets_in = true; /* it comes just in time, and takes long to be ready */
    f.takes_ready = false;
    struct line *line = comes(&f, NODE, PLAYED_TOKEN);
    assert_int_equal(line_hear(line)->type, CULM_WIRE_WELCOME);
    say_ready(line, CULM_WIRE_READY, CULM_OK, "");
    assert_refused_as(line, "of another kind", true);
    end(&f);
}

static void a_newcomer_where_none_is_let_in(void **state) {
    (void)state;
    EXPECT_MARK(cluster_no_newcomers);
    struct fixture f;
    begin(&f);
    assert_refused(comes(&f, CULM_NEWCOMER, PLAYED_TOKEN), "no newcomers");
    end(&f);
}

static void a_visitor_where_there_is_nothing_for_it(void **state) {
    (void)state;
    EXPECT_MARK(cluster_no_visitors);
    struct fixture f;
    begin(&f);
    assert_refused(comes(&f, CULM_VISITOR, PLAYED_TOKEN), "nothing for visitors");
    end(&f);
}

/* Its connection goes to who serves it, once it has proved that it knows the token; no node is known of it. */
static void a_visitor(void **state) {
    (void)state;
    EXPECT_MARK(cluster_visitor_is_welcome);
    struct fixture f;
    begin_with(&f, &ops_with_visits);
    assert_refused(comes(&f, CULM_VISITOR, "of another run"), "token");
    assert_int_equal(f.visits, 0);
    for (int32_t i = 1; i <= 3; i++) {
        const struct line *line = comes(&f, CULM_VISITOR, PLAYED_TOKEN);
        assert_int_equal(f.visits, i);
        assert_true(line->closed); /* the roster has no more to do with it */
    }
    assert_int_equal(f.up + f.heard + f.gone, 0);
    end(&f);
}

static void a_node_that_is_there(void **state) {
    (void)state;
    EXPECT_MARK(cluster_node_is_there_already);
    struct fixture f;
    begin(&f);
    struct line *line = joins(&f);
    assert_refused(comes(&f, NODE, PLAYED_TOKEN), "not expected");
    assert_false(line->closed);
    end(&f);
}

static void a_refused_one_goes_on(void **state) {
    (void)state;
    EXPECT_MARK(cluster_refused_goes_on);
    struct fixture f;
    begin(&f);
    struct line *line = comes(&f, NODE, "another");
    assert_refused(line, "token");
    line_greet(line, NODE, CULM_LEADER);
    assert_null(line_hear(line));
    end(&f);
}

/* --- who is refused again and again --- */

static bool hears_refusal(struct fixture *f, struct line *line, uint64_t ms) {
    f->played.now_ns += ms * 1000000u;
    culm_roster_alarm(f->roster);
    played_turn(&f->played);
    const struct culm_message *said = line_hear(line);
    return said && said->type == CULM_WIRE_REFUSED;
}

/* The first at once, then later and later, up to five seconds; others are not kept waiting. */
static void newcomers_wait_for_their_refusals(void **state) {
    (void)state;
    EXPECT_MARK(cluster_refusal_is_held_back);
    struct fixture f;
    begin(&f);
    f.origin = "10.0.0.1";
    assert_refused(comes(&f, CULM_NEWCOMER, PLAYED_TOKEN), "no newcomers");
    for (uint64_t ms = 100, turn = 0; turn < 8; ms *= 2, turn++) {
        uint64_t pause = ms < 5000 ? ms : 5000;
        struct line *line = comes(&f, CULM_NEWCOMER, PLAYED_TOKEN);
        assert_false(hears_refusal(&f, line, pause - 1));
        assert_int_not_equal(f.played.alarm_ns, CULM_NEVER);
        assert_true(hears_refusal(&f, line, 1));
    }
    (void)joins(&f); /* one that is let in, from the same machine */
    f.origin = "10.0.0.2";
    assert_refused(comes(&f, CULM_NEWCOMER, PLAYED_TOKEN), "no newcomers");
    f.origin = "10.0.0.1";
    f.played.now_ns += 60000000001u;
    assert_refused(comes(&f, CULM_NEWCOMER, PLAYED_TOKEN), "no newcomers"); /* it is forgotten */
    end(&f);
}

/* Of each machine the first one is told of, and of all at most one a second: a flood does not fill the events. */
static void refusals_are_told_of(void **state) {
    (void)state;
    EXPECT_MARK(cluster_refusal_is_told);
    struct fixture f;
    begin(&f);
    f.played.now_ns += 1000000000u;
    (void)comes(&f, CULM_NEWCOMER, PLAYED_TOKEN);
    assert_int_equal(f.refused, 0); /* it is of this machine: who has started it hears of it */
    f.origin = "10.0.0.1";
    (void)comes(&f, NODE, "another");
    assert_int_equal(f.refused, 1);
    assert_non_null(strstr(f.refused_of, "10.0.0.1: "));
    for (int i = 0; i < 5; i++) {
        (void)comes(&f, NODE, "another");
    }
    f.origin = "10.0.0.2";
    (void)comes(&f, CULM_NEWCOMER, PLAYED_TOKEN);
    assert_int_equal(f.refused, 1);
    f.played.now_ns += 1000000001u;
    f.origin = "10.0.0.3";
    (void)comes(&f, CULM_NEWCOMER, PLAYED_TOKEN);
    assert_int_equal(f.refused, 2);
    assert_int_equal(f.unsaid, 6);
    assert_non_null(strstr(f.refused_of, "10.0.0.3: this run lets in no newcomers"));
    end(&f);
}

/* It hangs up before it is told. */
static void one_does_not_wait(void **state) {
    (void)state;
    EXPECT_MARK(cluster_refusal_is_held_back);
    struct fixture f;
    begin(&f);
    for (int i = 0; i < 3; i++) {
        line_hang_up(comes(&f, CULM_NEWCOMER, PLAYED_TOKEN));
        played_turn(&f.played);
    }
    f.played.now_ns += 1000000000;
    culm_roster_alarm(f.roster);
    end(&f);
}

/* --- while a worker prepares --- */

static void no_brief(void **state) {
    (void)state;
    EXPECT_MARK(cluster_brief_was_not_made);
    struct fixture f;
    begin(&f);
    f.makes_briefs = false;
    assert_refused(comes(&f, NODE, PLAYED_TOKEN), "no memory for a brief");
    end(&f);
}

static void neither_prepares_nor_is_ready(void **state) {
    (void)state;
    EXPECT_MARK(cluster_worker_neither_prepares_nor_is_ready);
    struct fixture f;
    begin(&f);
    struct line *line = comes(&f, NODE, PLAYED_TOKEN);
    assert_int_equal(line_hear(line)->type, CULM_WIRE_WELCOME);
    line_say(line, DATA, NULL);
    played_turn(&f.played);
    assert_refused(line, "same version");
    assert_int_equal(f.heard, 0);
    end(&f);
}

static void is_ready_and_may_not_take_part(void **state) {
    (void)state;
    EXPECT_MARK(cluster_ready_is_refused);
    struct fixture f;
    begin(&f);
    f.takes_ready = false;
    struct line *line = comes(&f, NODE, PLAYED_TOKEN);
    assert_int_equal(line_hear(line)->type, CULM_WIRE_WELCOME);
    say_ready(line, CULM_WIRE_READY, CULM_OK, "");
    assert_refused(line, "of another kind");
    assert_int_equal(f.up, 0);
    end(&f);
}

/* That it takes part is written down somewhere first. */
static void is_ready_and_waits_to_be_admitted(void **state) {
    (void)state;
    EXPECT_MARK(cluster_admission_takes_a_while);
    struct fixture f;
    begin(&f);
    f.takes_later = true;
    struct line *line = comes(&f, NODE, PLAYED_TOKEN);
    assert_int_equal(line_hear(line)->type, CULM_WIRE_WELCOME);
    say_ready(line, CULM_WIRE_READY, CULM_OK, "");
    for (int32_t i = 0; i < 3; i++) { /* it does not know that it waits */
        line_say(line, DATA, NULL);
    }
    played_turn(&f.played);
    assert_int_equal(f.up, 0);
    assert_int_equal(f.heard, 0);
    culm_roster_admit(f.roster, NODE + 1); /* somebody else */
    assert_int_equal(f.up, 0);
    culm_roster_admit(f.roster, NODE);
    culm_roster_admit(f.roster, NODE);
    assert_int_equal(f.up, 1);
    assert_int_equal(f.heard, 3);
    assert_int_equal(line_hear(line)->type, CULM_WIRE_BOOK);
    end(&f);
}

static bool enroll(void *ctx, const struct culm_caller *caller, int32_t *ret_node,
                   uint32_t *ret_role, struct culm_error *ret_error) {
    (void)ctx;
    (void)caller;
    (void)ret_error;
    *ret_node = CULM_NEWCOMER - 1;
    *ret_role = 0;
    return true;
}

static bool is_ready_later(void *ctx, int32_t *node, const struct culm_ready *ready,
                           struct culm_error *ret_error) {
    (void)ctx;
    (void)ready;
    *node = NODE;
    culm_error_set(ret_error, CULM_ERR_AGAIN, "later");
    return false;
}

/* It has an id from then on, and hears of it when it is admitted; news it hears at once. */
static void a_newcomer_waits_to_be_admitted(void **state) {
    (void)state;
    const struct culm_roster_ops later = {
        .enroll = enroll, .ready = is_ready_later, .up = up, .message = message, .eof = eof};
    struct fixture f;
    begin_with(&f, &later);
    struct line *line = comes(&f, CULM_NEWCOMER, PLAYED_TOKEN);
    assert_int_equal(line_hear(line)->type, CULM_WIRE_WELCOME);
    say_ready(line, CULM_WIRE_READY, CULM_OK, "");
    assert_null(line_hear(line));
    culm_roster_news_all(f.roster, "news", 4);
    assert_int_equal(line_hear(line)->type, CULM_WIRE_NEWS);
    culm_roster_admit(f.roster, NODE);
    assert_int_equal(line_hear(line)->type, CULM_WIRE_ADMITTED);
    assert_int_equal(f.up, 1);
    line_hang_up(line);
    played_turn(&f.played);
    assert_int_equal(f.gone, 1);
    comes(&f, CULM_NEWCOMER, PLAYED_TOKEN); /* one waits when the roster is freed */
    end(&f);
}

static void says_too_much_before_it_is_admitted(void **state) {
    (void)state;
    EXPECT_MARK(cluster_says_too_much_before_it_is_admitted);
    struct fixture f;
    begin(&f);
    f.takes_later = true;
    struct line *line = comes(&f, NODE, PLAYED_TOKEN);
    struct culm_buf meta;
    culm_buf_init(&meta, 2000);
    culm_buf_printf(&meta, "%1999s", "");
    assert_int_equal(line_hear(line)->type, CULM_WIRE_WELCOME);
    say_ready(line, CULM_WIRE_READY, CULM_OK, "");
    for (int32_t i = 0; i < 600; i++) {
        line_say(line, DATA, &meta);
        played_turn(&f.played);
    }
    assert_refused(line, "it says too much before it takes part");
    culm_buf_release(&meta);
    end(&f);
}

static void waits_to_be_admitted_and_goes(void **state) {
    (void)state;
    struct fixture f;
    begin(&f);
    f.takes_later = true;
    struct line *line = comes(&f, NODE, PLAYED_TOKEN);
    assert_int_equal(line_hear(line)->type, CULM_WIRE_WELCOME);
    say_ready(line, CULM_WIRE_READY, CULM_OK, "");
    say_ready(line, CULM_WIRE_READY, CULM_OK, ""); /* once is enough */
    assert_refused(line, "this worker neither prepares nor is ready; is it of the same version?");
    culm_roster_admit(f.roster, NODE);
    assert_int_equal(f.up, 0);
    end(&f);
}

/* It does not go, though it was told: its connection is closed, and whoever started it hears of that. */
static void one_that_was_known_is_shown_out(void **state) {
    (void)state;
    EXPECT_MARK(cluster_refused_is_shown_out);
    struct fixture f;
    begin(&f);
    f.takes_ready = false;
    struct line *line = comes(&f, NODE, PLAYED_TOKEN);
    assert_int_equal(line_hear(line)->type, CULM_WIRE_WELCOME);
    say_ready(line, CULM_WIRE_READY, CULM_OK, "");
    assert_refused(line, "of another kind");
    for (int turn = 0; turn < 2; turn++) {
        assert_int_equal(f.gone, 0);
        assert_int_not_equal(f.played.alarm_ns, CULM_NEVER);
        f.played.now_ns += 6000000000u; /* the limit is ten seconds */
        culm_roster_alarm(f.roster);
        played_turn(&f.played);
    }
    assert_true(line->closed);
    assert_int_equal(f.gone, 1);
    assert_int_equal(f.why.status, CULM_ERR_TIMEOUT);
    assert_true(f.played.alarm_ns == CULM_NEVER);
    end(&f);
}

static void a_worker_declines(void **state) {
    (void)state;
    EXPECT_MARK(cluster_worker_declines);
    struct fixture f;
    begin(&f);
    struct line *line = comes(&f, NODE, PLAYED_TOKEN);
    say_ready(line, CULM_WIRE_READY, CULM_ERR_MEMORY, "no memory");
    assert_int_equal(f.up, 0);
    end(&f);
}

/* --- ends --- */

static void a_worker_says_why_and_goes(void **state) {
    (void)state;
    EXPECT_MARK(cluster_last_words_are_heard);
    EXPECT_MARK(cluster_worker_is_gone);
    struct fixture f;
    begin(&f);
    struct line *line = joins(&f);
    say_ready(line, CULM_WIRE_FAILED, CULM_ERR_MEMORY, "no memory");
    assert_int_equal(f.failed, 1);
    line_hang_up(line);
    played_turn(&f.played);
    assert_int_equal(f.gone, 1);
    assert_false(culm_roster_end(f.roster, NODE));
    assert_int_equal(f.gone, 1);
    end(&f);
}

/* What it sent is heard first; its link need not have ended, for a child of it may have it. */
static void a_process_ends_and_its_link_does_not(void **state) {
    (void)state;
    EXPECT_MARK(cluster_process_ended_but_not_its_link);
    struct fixture f;
    begin(&f);
    struct line *line = joins(&f);
    line_say(line, DATA, NULL);
    assert_true(culm_roster_end(f.roster, NODE));
    assert_int_equal(f.heard, 1);
    assert_int_equal(f.gone, 1);
    assert_true(line->closed);
    end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_greeting_for_another),
        cmocka_unit_test(a_worker_of_another_run),
        cmocka_unit_test(a_worker_that_is_not_awaited),
        cmocka_unit_test(one_that_comes_when_the_run_is_about_to_end),
        cmocka_unit_test(a_newcomer_where_none_is_let_in),
        cmocka_unit_test(a_visitor_where_there_is_nothing_for_it),
        cmocka_unit_test(a_visitor),
        cmocka_unit_test(a_node_that_is_there),
        cmocka_unit_test(a_refused_one_goes_on),
        cmocka_unit_test(newcomers_wait_for_their_refusals),
        cmocka_unit_test(refusals_are_told_of),
        cmocka_unit_test(one_does_not_wait),
        cmocka_unit_test(no_brief),
        cmocka_unit_test(neither_prepares_nor_is_ready),
        cmocka_unit_test(is_ready_and_may_not_take_part),
        cmocka_unit_test(is_ready_and_waits_to_be_admitted),
        cmocka_unit_test(waits_to_be_admitted_and_goes),
        cmocka_unit_test(a_newcomer_waits_to_be_admitted),
        cmocka_unit_test(says_too_much_before_it_is_admitted),
        cmocka_unit_test(one_that_was_known_is_shown_out),
        cmocka_unit_test(a_worker_declines),
        cmocka_unit_test(a_worker_says_why_and_goes),
        cmocka_unit_test(a_process_ends_and_its_link_does_not),
    };
    return cmocka_run_group_tests_name("cluster/roster", tests, NULL, NULL);
}

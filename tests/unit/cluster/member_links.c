/* A member alone, of whose links the test holds the other ends: a leader and peers that are not there, refuse, hang up, know another
 * token, or come and go in an order that is not the usual one. */
#include "expect_mark.h"

#include "cluster/member.h"

#include "played_links.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MS 1000000ull
#define SELF 3
#define PEER 5
#define DATA 1 /* a type of the actors' messages */

struct fixture {
    struct played played;
    struct culm_member *member;
    int32_t joined, ended, lost, heard;
    struct culm_error why;
    bool cut; /* from the store, as its agent says */
};

static void on_joined(void *ctx, int64_t pid) {
    struct fixture *f = ctx;
    (void)pid;
    f->joined++;
}

static void on_message(void *ctx, int32_t from, const struct culm_message *message) {
    struct fixture *f = ctx;
    (void)from;
    (void)message;
    f->heard++;
}

static void on_lost(void *ctx, int32_t node) {
    struct fixture *f = ctx;
    assert_int_equal(node, PEER);
    f->lost++;
}

static void on_ended(void *ctx, const struct culm_error *why) {
    struct fixture *f = ctx;
    f->ended++;
    f->why = *why;
}

static bool on_stranded(void *ctx, int64_t for_ms) {
    const struct fixture *f = ctx;
    assert_true(for_ms > 100); /* it looks again earlier */
    return f->cut;
}

static const struct culm_member_ops ops = {.joined = on_joined,
                                           .message = on_message,
                                           .lost = on_lost,
                                           .ended = on_ended,
                                           .stranded = on_stranded};

static void begin(struct fixture *f, const char *address) {
    *f = (struct fixture){0};
    played_begin(&f->played);
    const struct culm_member_options options = {.fabric = &f->played.fabric,
                                                .leader = "leader",
                                                .address = address,
                                                .token = PLAYED_TOKEN,
                                                .node = SELF,
                                                .pool = f->played.pool,
                                                .payload_max = 1 << 20,
                                                .join_limit_ms = 1000,
                                                .orphan_ms = 400,
                                                .stranded_ms = 2000,
                                                .dial_limit_ms = 1000,
                                                .ops = &ops,
                                                .ctx = f};
    f->member = culm_member_new(&options);
    assert_non_null(f->member);
    culm_member_join(f->member);
}

static void end(struct fixture *f) {
    culm_member_free(f->member);
    played_end(&f->played);
}

static void turn(struct fixture *f) { played_turn(&f->played); }

/* So much time passes, in which its alarm rings when it is due. */
static void pass(struct fixture *f, uint64_t ms) {
    const uint64_t until = f->played.now_ns + ms * MS;
    while (!f->ended && f->played.alarm_ns <= until) {
        f->played.now_ns =
            f->played.alarm_ns > f->played.now_ns ? f->played.alarm_ns : f->played.now_ns;
        culm_member_alarm(f->member);
        turn(f);
    }
    f->played.now_ns = until;
}

static struct line *leader(struct fixture *f) { return played_called(&f->played, "leader"); }
static struct line *peer(struct fixture *f) { return played_called(&f->played, "peer"); }

static void welcome(struct line *line) {
    const struct culm_welcome said = {.pid = 1, .node = SELF};
    struct culm_buf meta;
    culm_buf_init(&meta, CULM_WIRE_HELLO_MAX);
    culm_welcome_encode(&said, &meta);
    line_say(line, CULM_WIRE_WELCOME, &meta);
    culm_buf_release(&meta);
    played_turn(line->played);
}

static void refuse(struct line *line) {
    struct culm_buf meta;
    culm_buf_init(&meta, CULM_WIRE_HELLO_MAX);
    culm_buf_string(&meta, "not today");
    line_say(line, CULM_WIRE_REFUSED, &meta);
    culm_buf_release(&meta);
    played_turn(line->played);
}

static void book(struct fixture *f, const char *address) {
    struct culm_buf meta;
    culm_buf_init(&meta, CULM_WIRE_HELLO_MAX);
    struct culm_entry entry = {.node = PEER};
    snprintf(entry.address, sizeof entry.address, "%s", address);
    culm_entry_encode(&entry, &meta);
    line_say(leader(f), CULM_WIRE_BOOK, &meta);
    culm_buf_release(&meta);
    turn(f);
}

/* It has been let in, and knows of a peer at that address. */
static void join(struct fixture *f, const char *own, const char *address) {
    begin(f, own);
    turn(f);
    line_challenge(leader(f), PLAYED_TOKEN, CULM_LEADER);
    welcome(leader(f));
    assert_int_equal(f->joined, 1);
    book(f, address);
}

static void sends(struct fixture *f) {
    const struct culm_message message = {.type = DATA};
    culm_member_send(f->member, PEER, &message);
    turn(f);
}

static int32_t data(struct line *line) { /* how many messages of the actors came over it */
    int32_t count = 0;
    for (const struct culm_message *message; (message = line_hear(line));) {
        count += message->type == DATA;
    }
    return count;
}

/* The peer calls, and is let in. */
static struct line *comes_in(struct fixture *f, const char *address) {
    struct line *line = played_line(&f->played);
    culm_member_accepted(f->member, &line->stream);
    line_greet(line, PEER, SELF);
    line_answer(line, PLAYED_TOKEN, address);
    return line;
}

/* It calls the peer, which lets it in. */
static struct line *goes_out(struct fixture *f) {
    sends(f);
    struct line *line = peer(f);
    line_challenge(line, PLAYED_TOKEN, PEER);
    line_say(line, CULM_WIRE_WELCOME, NULL);
    turn(f);
    return line;
}

/* --- the leader --- */

static void a_leader_that_is_busy_is_called_again(void **state) {
    (void)state;
    EXPECT_MARK(cluster_leader_hung_up_before_welcome);
    EXPECT_MARK(cluster_leader_is_called_again);
    struct fixture f;
    begin(&f, "self");
    turn(&f);
    line_hang_up(leader(&f));
    turn(&f);
    assert_null(leader(&f));
    pass(&f, 20);
    assert_non_null(leader(&f));
    assert_int_equal(f.ended, 0);
    end(&f);
}

static void a_leader_that_does_not_answer(void **state) {
    (void)state;
    EXPECT_MARK(cluster_leader_does_not_answer);
    struct fixture f;
    begin(&f, "self");
    pass(&f, 1100);
    assert_int_equal(f.ended, 1);
    assert_int_equal(f.why.status, CULM_ERR_TIMEOUT);
    end(&f);
}

static void a_leader_that_is_not_there(void **state) {
    (void)state;
    EXPECT_MARK(cluster_join_failed_for_good);
    struct fixture f;
    begin(&f, "self");
    f.played.connected = 111; /* ECONNREFUSED */
    turn(&f);
    assert_int_equal(f.ended, 1);
    assert_int_equal(f.why.status, CULM_ERR_CLOSED);
    end(&f);
}

static void a_leader_of_another_run(void **state) {
    (void)state;
    EXPECT_MARK(cluster_leader_does_not_know_the_token);
    struct fixture f;
    begin(&f, "self");
    turn(&f);
    struct line *line = leader(&f);
    line_challenge(line, "another", CULM_LEADER);
    assert_int_equal(data(line), 0); /* and no proof */
    assert_int_equal(f.ended, 1);
    end(&f);
}

static void a_leader_refuses(void **state) {
    (void)state;
    EXPECT_MARK(cluster_leader_refuses);
    struct fixture f;
    begin(&f, "self");
    turn(&f);
    refuse(leader(&f));
    assert_int_equal(f.ended, 1);
    assert_string_equal(f.why.text, "refused: not today");
    end(&f);
}

static void a_leader_answers_something_else(void **state) {
    (void)state;
    EXPECT_MARK(cluster_leader_answers_something_else);
    struct fixture f;
    begin(&f, "self");
    turn(&f);
    line_challenge(leader(&f), PLAYED_TOKEN, CULM_LEADER);
    line_say(leader(&f), CULM_WIRE_ALIVE, NULL);
    turn(&f);
    assert_int_equal(f.ended, 1);
    assert_int_equal(f.why.status, CULM_ERR_FORMAT);
    end(&f);
}

static void a_leader_refuses_later(void **state) {
    (void)state;
    EXPECT_MARK(cluster_leader_refuses_later);
    struct fixture f;
    join(&f, "self", "peer");
    refuse(leader(&f));
    assert_int_equal(f.ended, 1);
    assert_string_equal(f.why.text, "refused: not today");
    end(&f);
}

static void a_leader_goes(void **state) {
    (void)state;
    EXPECT_MARK(cluster_leader_is_gone);
    struct fixture f;
    join(&f, "self", "peer");
    line_hang_up(leader(&f));
    turn(&f);
    assert_int_equal(f.ended, 1);
    assert_int_equal(f.why.status, CULM_ERR_CLOSED);
    end(&f);
}

static void a_leader_falls_silent(void **state) {
    (void)state;
    EXPECT_MARK(cluster_orphaned);
    struct fixture f;
    join(&f, "self", "peer");
    pass(&f, 600);
    assert_int_equal(f.ended, 1);
    end(&f);
}

/* While nobody could call, silence does not count; but for a while only. */
static void no_leader_can_call(void **state) {
    (void)state;
    EXPECT_MARK(cluster_silence_does_not_count);
    struct fixture f;
    join(&f, "self", "peer");
    f.cut = true;
    pass(&f, 1500);
    assert_int_equal(f.ended, 0);
    f.cut = false;
    pass(&f, 300);
    assert_int_equal(f.ended, 0);
    pass(&f, 300);
    assert_int_equal(f.ended, 1);
    end(&f);
    join(&f, "self", "peer");
    f.cut = true;
    pass(&f, 2300);
    assert_int_equal(f.ended, 0);
    line_say(leader(&f), CULM_WIRE_ALIVE, NULL);
    turn(&f);
    pass(&f, 2300); /* anew */
    assert_int_equal(f.ended, 0);
    pass(&f, 400);
    assert_int_equal(f.ended, 1);
    end(&f);
}

/* What the leader said while this process stood still counts. */
static void a_member_slept(void **state) {
    (void)state;
    EXPECT_MARK(cluster_slept_while_the_leader_spoke);
    struct fixture f;
    join(&f, "self", "peer");
    line_say(leader(&f), CULM_WIRE_ALIVE, NULL);
    f.played.now_ns += 60000 * MS;
    culm_member_alarm(f.member);
    assert_int_equal(f.ended, 0);
    end(&f);
}

static void a_book_is_malformed(void **state) {
    (void)state;
    EXPECT_MARK(cluster_book_is_malformed);
    EXPECT_MARK(cluster_last_words_are_said);
    struct fixture f;
    join(&f, "self", "peer");
    struct line *line = leader(&f);
    (void)data(line);
    struct culm_buf meta;
    culm_buf_init(&meta, CULM_WIRE_HELLO_MAX);
    culm_buf_u8(&meta, 1);
    line_say(line, CULM_WIRE_BOOK, &meta);
    culm_buf_release(&meta);
    turn(&f);
    assert_int_equal(f.ended, 1);
    const struct culm_message *said = line_hear(line);
    assert_non_null(said);
    assert_int_equal(said->type, CULM_WIRE_FAILED);
    end(&f);
}

static void no_memory_for_a_message(void **state) {
    (void)state;
    EXPECT_MARK(cluster_no_memory_for_what_came);
    struct fixture f;
    join(&f, "self", "peer");
    struct line *line = comes_in(&f, "peer");
    culm_blob_pool_fail(f.played.pool, 0);
    static const uint8_t bytes[100];
    uint8_t header[CULM_FRAME_HEADER_BYTES];
    struct culm_blob *blob = NULL;
    struct culm_blob_pool *other = culm_blob_pool_new(1 << 20);
    assert_int_equal(culm_blob_pool_get(other, sizeof bytes, &blob), CULM_OK);
    memcpy(blob->data, bytes, sizeof bytes);
    culm_frame_header_encode(
        &(struct culm_message){.type = DATA, .payload = blob, .payload_bytes = sizeof bytes},
        header);
    culm_buf_bytes(&line->there, header, sizeof header);
    culm_buf_bytes(&line->there, bytes, sizeof bytes);
    culm_blob_unref(blob);
    culm_blob_pool_free(other);
    turn(&f);
    assert_int_equal(f.ended, 1);
    assert_int_equal(f.why.status, CULM_ERR_MEMORY);
    end(&f);
}

/* --- peers --- */

static void a_peer_that_is_busy_is_called_again(void **state) {
    (void)state;
    EXPECT_MARK(cluster_peer_hung_up_before_welcome);
    EXPECT_MARK(cluster_peer_is_dialed_again);
    EXPECT_MARK(cluster_held_frames_are_sent);
    struct fixture f;
    join(&f, "self", "peer");
    sends(&f);
    line_hang_up(peer(&f));
    turn(&f);
    sends(&f);
    pass(&f, 30);
    struct line *line = goes_out(&f);
    assert_int_equal(data(line), 3);
    assert_int_equal(f.lost, 0);
    end(&f);
}

static void a_peer_that_is_not_there(void **state) {
    (void)state;
    EXPECT_MARK(cluster_peer_is_not_there);
    EXPECT_MARK(cluster_held_frames_are_dropped);
    EXPECT_MARK(cluster_given_up_is_told_at_the_alarm);
    EXPECT_MARK(cluster_frame_for_a_lost_or_unknown_one);
    struct fixture f;
    join(&f, "self", "peer");
    f.played.connected = 111; /* ECONNREFUSED */
    sends(&f);
    assert_int_equal(f.lost, 0); /* not from within what it was called from */
    pass(&f, 0);
    assert_int_equal(f.lost, 1);
    int32_t calls = f.played.calls;
    sends(&f);
    assert_int_equal(f.played.calls, calls);
    end(&f);
}

static void a_peer_does_not_answer(void **state) {
    (void)state;
    EXPECT_MARK(cluster_peer_was_dialed_for_too_long);
    struct fixture f;
    join(&f, "self", "peer");
    sends(&f);
    for (int32_t i = 0; i < 6 && !f.lost; i++) {
        line_say(leader(&f), CULM_WIRE_ALIVE, NULL);
        turn(&f);
        pass(&f, 200);
    }
    assert_int_equal(f.lost, 1);
    assert_int_equal(f.ended, 0);
    end(&f);
}

static void a_peer_of_another_run(void **state) {
    (void)state;
    EXPECT_MARK(cluster_peer_does_not_know_the_token);
    struct fixture f;
    join(&f, "self", "peer");
    sends(&f);
    line_challenge(peer(&f), "another", PEER);
    pass(&f, 0);
    assert_int_equal(f.lost, 1);
    end(&f);
}

static void a_peer_goes(void **state) {
    (void)state;
    EXPECT_MARK(cluster_peer_is_gone);
    struct fixture f;
    join(&f, "self", "peer");
    line_hang_up(goes_out(&f));
    turn(&f);
    assert_int_equal(f.lost, 1);
    end(&f);
}

/* The link to it breaks while its own has still something to say, and its end behind it: it is lost once. */
static void a_peer_goes_on_both_links(void **state) {
    (void)state;
    EXPECT_MARK(cluster_lost_one_hung_up_meanwhile);
    struct fixture f;
    join(&f, "self", "peer");
    struct line *out = goes_out(&f), *in = comes_in(&f, "peer");
    line_say(in, DATA, NULL);
    line_hang_up(in);
    line_hang_up(out);
    turn(&f);
    assert_int_equal(f.heard, 1);
    assert_int_equal(f.lost, 1);
    end(&f);
}

static void a_peer_reads_nothing(void **state) {
    (void)state;
    EXPECT_MARK(cluster_too_much_is_held);
    struct fixture f;
    static uint8_t meta[CULM_FRAME_META_MAX];
    const struct culm_message message = {.type = DATA, .meta = meta, .meta_bytes = sizeof meta};
    join(&f, "self", "peer");
    for (int32_t i = 0; i < 64; i++) {
        culm_member_send(f.member, PEER, &message);
    }
    pass(&f, 0);
    assert_int_equal(f.lost, 1);
    end(&f);
}

static void a_peer_answers_over_our_link(void **state) {
    (void)state;
    EXPECT_MARK(cluster_peer_answers_over_our_link);
    struct fixture f;
    join(&f, "self", "peer");
    line_say(goes_out(&f), DATA, NULL);
    turn(&f);
    assert_int_equal(f.heard, 0);
    end(&f);
}

/* --- peers that come in --- */

static void a_caller_of_another_run(void **state) {
    (void)state;
    EXPECT_MARK(cluster_caller_does_not_know_the_token);
    struct fixture f;
    join(&f, "self", "peer");
    struct line *line = played_line(&f.played);
    culm_member_accepted(f.member, &line->stream);
    line_greet(line, PEER, SELF);
    line_answer(line, "another", "peer");
    assert_true(line->closed);
    end(&f);
}

static void a_caller_that_is_there_already(void **state) {
    (void)state;
    EXPECT_MARK(cluster_caller_is_not_wanted);
    struct fixture f;
    join(&f, "self", "peer");
    struct line *first = comes_in(&f, "peer"), *again = comes_in(&f, "peer");
    assert_false(first->closed);
    assert_true(again->closed);
    assert_int_equal(f.lost, 0);
    end(&f);
}

/* It called, was let in and went before the book told of it: it is lost once, and not known anew. */
static void the_book_has_one_that_was_lost(void **state) {
    (void)state;
    EXPECT_MARK(cluster_book_has_one_that_was_lost);
    struct fixture f;
    begin(&f, "self");
    turn(&f);
    line_challenge(leader(&f), PLAYED_TOKEN, CULM_LEADER);
    welcome(leader(&f));
    line_hang_up(comes_in(&f, "peer"));
    turn(&f);
    assert_int_equal(f.lost, 1);
    book(&f, "peer");
    sends(&f);
    assert_null(peer(&f));
    assert_true(comes_in(&f, "peer")->closed);
    assert_int_equal(f.lost, 1);
    end(&f);
}

/* Ids may be any: memory depends on how many peers are known. */
static void a_peer_with_the_highest_id(void **state) {
    (void)state;
    struct fixture f;
    join(&f, "self", "peer");
    struct line *line = played_line(&f.played);
    culm_member_accepted(f.member, &line->stream);
    line_greet(line, CULM_NODE_IDS - 1, SELF);
    line_answer(line, PLAYED_TOKEN, "far");
    assert_false(line->closed);
    assert_int_equal(culm_member_next(f.member, PEER + 1), CULM_NODE_IDS - 1);
    end(&f);
}

/* --- members that others cannot call --- */

static void a_peer_that_has_to_call(void **state) {
    (void)state;
    EXPECT_MARK(cluster_peer_has_to_call);
    EXPECT_MARK(cluster_caller_is_answered_over_its_link);
    struct fixture f;
    join(&f, "self", "");
    int32_t calls = f.played.calls;
    sends(&f);
    assert_int_equal(f.played.calls, calls);
    assert_int_equal(data(comes_in(&f, "")), 1);
    end(&f);
}

static void two_that_cannot_be_called(void **state) {
    (void)state;
    EXPECT_MARK(cluster_neither_can_call);
    struct fixture f;
    join(&f, "", "");
    sends(&f);
    pass(&f, 0);
    assert_int_equal(f.lost, 1);
    end(&f);
}

static void one_that_cannot_be_called_calls_everyone(void **state) {
    (void)state;
    EXPECT_MARK(cluster_calls_everyone);
    struct fixture f;
    join(&f, "", "peer");
    assert_non_null(peer(&f));
    end(&f);
}

/* One at a loopback address cannot be called from elsewhere: it calls those whom all can call, and hears them over that link. */
static void one_that_is_near_calls_those_elsewhere(void **state) {
    (void)state;
    struct fixture f;
    join(&f, "tcp:127.0.0.1:5", "tcp:192.0.2.1:6");
    assert_non_null(played_called(&f.played, "tcp:192.0.2.1:6"));
    end(&f);
    join(&f, "tcp:127.0.0.1:5", "tcp:127.0.0.1:6");
    assert_null(played_called(&f.played, "tcp:127.0.0.1:6"));
    end(&f);
    join(&f, "tcp:192.0.2.2:5", "tcp:192.0.2.1:6");
    assert_null(played_called(&f.played, "tcp:192.0.2.1:6"));
    end(&f);
}

static void one_elsewhere_waits_for_one_that_is_near(void **state) {
    (void)state;
    EXPECT_MARK(cluster_peer_is_near_somebody_else);
    EXPECT_MARK(cluster_peer_has_to_call);
    EXPECT_MARK(cluster_caller_is_answered_over_its_link);
    struct fixture f;
    join(&f, "tcp:192.0.2.1:6", "tcp:127.0.0.1:5");
    sends(&f);
    assert_null(played_called(&f.played, "tcp:127.0.0.1:5"));
    struct line *line = comes_in(&f, "tcp:127.0.0.1:5");
    assert_int_equal(data(line), 1);
    end(&f);
}

/* --- links that nobody knows yet --- */

static void silent_links_are_closed(void **state) {
    (void)state;
    EXPECT_MARK(cluster_silent_link_is_closed);
    struct fixture f;
    begin(&f, "self");
    struct line *line = played_line(&f.played);
    culm_member_accepted(f.member, &line->stream);
    f.played.now_ns += 10001 * MS;
    culm_member_alarm(f.member);
    assert_true(line->closed);
    end(&f);
}

static void a_crowd_pushes_the_oldest_out(void **state) {
    (void)state;
    EXPECT_MARK(cluster_crowd_pushes_the_oldest_out);
    struct fixture f;
    begin(&f, "self");
    struct line *line[257];
    for (int32_t i = 0; i < 257; i++) {
        line[i] = played_line(&f.played);
        culm_member_accepted(f.member, &line[i]->stream);
    }
    assert_true(line[0]->closed);
    assert_false(line[1]->closed);
    assert_true(culm_member_evict(f.member));
    assert_true(line[1]->closed);
    end(&f);
}

static void no_random_numbers(void **state) {
    (void)state;
    EXPECT_MARK(cluster_no_random_numbers_for_a_caller);
    EXPECT_MARK(cluster_no_random_numbers_to_call);
    struct fixture f;
    join(&f, "self", "peer");
    f.played.random = CULM_ERR_IO;
    struct line *line = played_line(&f.played);
    culm_member_accepted(f.member, &line->stream);
    assert_true(line->closed);
    sends(&f);
    pass(&f, 0);
    assert_int_equal(f.lost, 1);
    end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_leader_that_is_busy_is_called_again),
        cmocka_unit_test(a_leader_that_does_not_answer),
        cmocka_unit_test(a_leader_that_is_not_there),
        cmocka_unit_test(a_leader_of_another_run),
        cmocka_unit_test(a_leader_refuses),
        cmocka_unit_test(a_leader_answers_something_else),
        cmocka_unit_test(a_leader_refuses_later),
        cmocka_unit_test(a_leader_goes),
        cmocka_unit_test(a_leader_falls_silent),
        cmocka_unit_test(no_leader_can_call),
        cmocka_unit_test(a_member_slept),
        cmocka_unit_test(a_book_is_malformed),
        cmocka_unit_test(no_memory_for_a_message),
        cmocka_unit_test(a_peer_that_is_busy_is_called_again),
        cmocka_unit_test(a_peer_that_is_not_there),
        cmocka_unit_test(a_peer_does_not_answer),
        cmocka_unit_test(a_peer_of_another_run),
        cmocka_unit_test(a_peer_goes),
        cmocka_unit_test(a_peer_goes_on_both_links),
        cmocka_unit_test(a_peer_reads_nothing),
        cmocka_unit_test(a_peer_answers_over_our_link),
        cmocka_unit_test(a_caller_of_another_run),
        cmocka_unit_test(a_caller_that_is_there_already),
        cmocka_unit_test(the_book_has_one_that_was_lost),
        cmocka_unit_test(a_peer_with_the_highest_id),
        cmocka_unit_test(a_peer_that_has_to_call),
        cmocka_unit_test(two_that_cannot_be_called),
        cmocka_unit_test(one_that_cannot_be_called_calls_everyone),
        cmocka_unit_test(one_that_is_near_calls_those_elsewhere),
        cmocka_unit_test(one_elsewhere_waits_for_one_that_is_near),
        cmocka_unit_test(silent_links_are_closed),
        cmocka_unit_test(a_crowd_pushes_the_oldest_out),
        cmocka_unit_test(no_random_numbers),
    };
    return cmocka_run_group_tests_name("cluster/member_links", tests, NULL, NULL);
}

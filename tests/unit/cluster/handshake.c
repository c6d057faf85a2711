/*
 * The handshake as an attacker sees it: who does not know the token learns nothing from either side
 * and passes for nobody, whatever was recorded, cut, turned around or changed.
 */
#include "cluster/handshake.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define TOKEN "0123456789abcdef0123456789abcdef"

/* A frame on the way. */
struct frame {
    struct culm_buf meta;
    struct culm_message message;
};

struct talk {
    struct culm_handshake caller, listener;
    struct frame hello, challenge, proof;
    struct culm_introduction said, heard;
};

static void draw(uint8_t nonce[CULM_NONCE_BYTES]) {
    assert_int_equal(culm_secret_random(nonce, CULM_NONCE_BYTES, NULL), CULM_OK);
}

static void seal(struct frame *frame, uint16_t type) {
    assert_false(frame->meta.failed);
    frame->message = (struct culm_message){
        .type = type, .meta = frame->meta.data, .meta_bytes = (uint32_t)frame->meta.len};
}

static void begin(struct talk *t, const char *caller_token, const char *listener_token) {
    uint8_t nonce[CULM_NONCE_BYTES];
    *t = (struct talk){
        .said = {.address = "unix:here", .name = "name", .host = "host", .zone = "zone"}};
    culm_buf_init(&t->hello.meta, CULM_WIRE_HELLO_MAX);
    culm_buf_init(&t->challenge.meta, CULM_WIRE_HELLO_MAX);
    culm_buf_init(&t->proof.meta, CULM_WIRE_HELLO_MAX);
    draw(nonce);
    culm_handshake_call(&t->caller, caller_token, 3, 5, nonce);
    culm_handshake_hello(&t->caller, &t->hello.meta);
    seal(&t->hello, CULM_WIRE_HELLO);
    draw(nonce);
    culm_handshake_listen(&t->listener, listener_token, 5, nonce);
}

static void challenge(struct talk *t) {
    assert_int_equal(culm_handshake_greeted(&t->listener, &t->hello.message, NULL), CULM_OK);
    culm_handshake_challenge(&t->listener, &t->challenge.meta);
    seal(&t->challenge, CULM_WIRE_CHALLENGE);
}

static void prove(struct talk *t) {
    culm_handshake_proof(&t->caller, &t->said, &t->proof.meta);
    seal(&t->proof, CULM_WIRE_PROOF);
}

static enum culm_status challenged(struct talk *t) {
    return culm_handshake_challenged(&t->caller, &t->challenge.message, NULL);
}

static enum culm_status proved(struct talk *t, const struct frame *proof) {
    return culm_handshake_proved(&t->listener, &proof->message, &t->heard, NULL);
}

static void whole(struct talk *t) {
    begin(t, TOKEN, TOKEN);
    challenge(t);
    assert_int_equal(challenged(t), CULM_OK);
    prove(t);
    assert_int_equal(proved(t, &t->proof), CULM_OK);
}

static void end(struct talk *t) {
    culm_buf_release(&t->hello.meta);
    culm_buf_release(&t->challenge.meta);
    culm_buf_release(&t->proof.meta);
}

static bool holds_token(const struct frame *frame) {
    return memmem(frame->meta.data, frame->meta.len, TOKEN, strlen(TOKEN)) != NULL;
}

static void two_that_know_the_token_believe_each_other(void **state) {
    (void)state;
    struct talk t;
    whole(&t);
    assert_int_equal(t.listener.caller, 3);
    assert_string_equal(t.heard.address, "unix:here");
    assert_string_equal(t.heard.name, "name");
    assert_string_equal(t.heard.host, "host");
    assert_string_equal(t.heard.zone, "zone");
    assert_false(holds_token(&t.hello) || holds_token(&t.challenge) || holds_token(&t.proof));
    end(&t);
}

static void a_listener_without_the_token_is_found_out(void **state) {
    (void)state;
    struct talk t;
    begin(&t, TOKEN, "another");
    challenge(&t);
    assert_int_equal(challenged(&t), CULM_ERR_CONFIG);
    assert_false(t.caller.greeted);
    end(&t);
}

/* It does not care what the listener is, and goes on. */
static void a_caller_without_the_token_is_found_out(void **state) {
    (void)state;
    struct talk t;
    begin(&t, "another", TOKEN);
    challenge(&t);
    assert_int_equal(challenged(&t), CULM_ERR_CONFIG);
    memcpy(t.caller.listener_nonce, t.listener.listener_nonce, CULM_NONCE_BYTES);
    prove(&t);
    assert_int_equal(proved(&t, &t.proof), CULM_ERR_CONFIG);
    end(&t);
}

/* All that one connection said is of no use in the next. */
static void what_was_recorded_proves_nothing(void **state) {
    (void)state;
    struct talk old, t;
    whole(&old);
    begin(&t, TOKEN, TOKEN);
    assert_int_equal(culm_handshake_greeted(&t.listener, &old.hello.message, NULL), CULM_OK);
    assert_int_equal(proved(&t, &old.proof), CULM_ERR_CONFIG);
    assert_int_equal(culm_handshake_challenged(&t.caller, &old.challenge.message, NULL),
                     CULM_ERR_CONFIG);
    end(&old);
    end(&t);
}

/* One who only knows how to ask sends each side's words back to it. */
static void what_a_side_said_is_no_answer_to_it(void **state) {
    (void)state;
    struct talk t;
    begin(&t, TOKEN, TOKEN);
    challenge(&t);
    /* The listener's own MAC as the proof of a caller: of one that gives no introduction, and of
     * one whose introduction it is not. */
    struct frame mirror;
    culm_buf_init(&mirror.meta, CULM_WIRE_HELLO_MAX);
    for (int i = 0; i < 2; i++) {
        culm_buf_string(&mirror.meta, "");
    }
    culm_buf_u32(&mirror.meta, 0);
    for (int i = 0; i < 2; i++) {
        culm_buf_string(&mirror.meta, "");
    }
    culm_buf_bytes(&mirror.meta, t.challenge.meta.data + CULM_NONCE_BYTES, CULM_MAC_BYTES);
    seal(&mirror, CULM_WIRE_PROOF);
    assert_int_equal(proved(&t, &mirror), CULM_ERR_CONFIG);
    /* A proof as the challenge of somebody's own call. */
    assert_int_equal(challenged(&t), CULM_OK);
    prove(&t);
    struct culm_handshake call;
    culm_handshake_call(&call, TOKEN, 3, 5, t.caller.caller_nonce);
    culm_buf_clear(&mirror.meta);
    culm_buf_bytes(&mirror.meta, t.listener.listener_nonce, CULM_NONCE_BYTES);
    culm_buf_bytes(&mirror.meta, t.proof.meta.data + t.proof.meta.len - CULM_MAC_BYTES,
                   CULM_MAC_BYTES);
    seal(&mirror, CULM_WIRE_CHALLENGE);
    assert_int_equal(culm_handshake_challenged(&call, &mirror.message, NULL), CULM_ERR_CONFIG);
    culm_buf_release(&mirror.meta);
    end(&t);
}

/* A proof for one node is none for another, on either side. */
static void a_proof_is_for_these_two_only(void **state) {
    (void)state;
    struct talk t;
    whole(&t);
    t.listener.caller = 4;
    assert_int_equal(proved(&t, &t.proof), CULM_ERR_CONFIG);
    t.listener.caller = 3;
    t.listener.listener = CULM_LEADER;
    assert_int_equal(proved(&t, &t.proof), CULM_ERR_CONFIG);
    t.listener.listener = 5;
    assert_int_equal(proved(&t, &t.proof), CULM_OK);

    struct culm_handshake other;
    culm_handshake_call(&other, TOKEN, 3, 6, t.caller.caller_nonce);
    assert_int_equal(culm_handshake_challenged(&other, &t.challenge.message, NULL),
                     CULM_ERR_CONFIG);
    culm_handshake_call(&other, TOKEN, 2, 5, t.caller.caller_nonce);
    assert_int_equal(culm_handshake_challenged(&other, &t.challenge.message, NULL),
                     CULM_ERR_CONFIG);
    end(&t);
}

static void a_hello_for_another_is_refused(void **state) {
    (void)state;
    struct talk t;
    uint8_t nonce[CULM_NONCE_BYTES];
    begin(&t, TOKEN, TOKEN);
    draw(nonce);
    culm_handshake_listen(&t.listener, TOKEN, 6, nonce);
    assert_int_equal(culm_handshake_greeted(&t.listener, &t.hello.message, NULL), CULM_ERR_FORMAT);
    end(&t);
}

/* As a newcomer one may only call the leader, and what proves a newcomer proves no node. */
static void a_newcomer_is_nobody_else(void **state) {
    (void)state;
    struct talk t;
    uint8_t nonce[CULM_NONCE_BYTES];
    begin(&t, TOKEN, TOKEN);
    draw(nonce);
    for (int to_leader = 0; to_leader < 2; to_leader++) {
        int32_t listener = to_leader ? CULM_LEADER : 5;
        culm_handshake_call(&t.caller, TOKEN, CULM_NEWCOMER, listener, nonce);
        culm_buf_clear(&t.hello.meta);
        culm_handshake_hello(&t.caller, &t.hello.meta);
        seal(&t.hello, CULM_WIRE_HELLO);
        culm_handshake_listen(&t.listener, TOKEN, listener, nonce);
        assert_int_equal(culm_handshake_greeted(&t.listener, &t.hello.message, NULL),
                         to_leader ? CULM_OK : CULM_ERR_FORMAT);
    }
    culm_handshake_challenge(&t.listener, &t.challenge.meta);
    seal(&t.challenge, CULM_WIRE_CHALLENGE);
    assert_int_equal(challenged(&t), CULM_OK);
    t.said.role = 9;
    prove(&t);
    for (int32_t node = -3; node < 8; node++) {
        t.listener.caller = node;
        assert_int_equal(proved(&t, &t.proof), node == CULM_NEWCOMER ? CULM_OK : CULM_ERR_CONFIG);
    }
    assert_int_equal(t.heard.role, 9);
    /* Nor in another connection, where the leader has drawn another number. */
    t.listener.caller = CULM_NEWCOMER;
    t.listener.listener_nonce[0] ^= 1;
    assert_int_equal(proved(&t, &t.proof), CULM_ERR_CONFIG);
    end(&t);
}

static void any_changed_bit_is_noticed(void **state) {
    (void)state;
    struct talk t;
    whole(&t);
    for (size_t bit = 0; bit < 8 * t.proof.meta.len; bit++) {
        t.proof.meta.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_int_not_equal(proved(&t, &t.proof), CULM_OK);
        t.proof.meta.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    for (size_t bit = 0; bit < 8 * t.challenge.meta.len; bit++) {
        t.caller.greeted = false;
        t.challenge.meta.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_int_not_equal(challenged(&t), CULM_OK);
        t.challenge.meta.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    t.caller.greeted = false;
    assert_int_equal(challenged(&t), CULM_OK);
    end(&t);
}

static void frames_out_of_turn_or_cut_are_refused(void **state) {
    (void)state;
    struct talk t;
    whole(&t);
    assert_int_equal(culm_handshake_greeted(&t.listener, &t.hello.message, NULL), CULM_ERR_FORMAT);
    assert_int_equal(challenged(&t), CULM_ERR_FORMAT);
    t.listener.greeted = false;
    assert_int_equal(proved(&t, &t.proof), CULM_ERR_FORMAT);
    t.listener.greeted = true;
    for (uint32_t len = 0; len < (uint32_t)t.proof.meta.len; len++) {
        t.proof.message.meta_bytes = len;
        assert_int_equal(proved(&t, &t.proof), CULM_ERR_FORMAT);
    }
    t.caller.greeted = false;
    for (uint32_t len = 0; len < (uint32_t)t.challenge.meta.len; len++) {
        t.challenge.message.meta_bytes = len;
        assert_int_equal(challenged(&t), CULM_ERR_FORMAT);
    }
    end(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_that_know_the_token_believe_each_other),
        cmocka_unit_test(a_listener_without_the_token_is_found_out),
        cmocka_unit_test(a_caller_without_the_token_is_found_out),
        cmocka_unit_test(what_was_recorded_proves_nothing),
        cmocka_unit_test(what_a_side_said_is_no_answer_to_it),
        cmocka_unit_test(a_proof_is_for_these_two_only),
        cmocka_unit_test(a_hello_for_another_is_refused),
        cmocka_unit_test(a_newcomer_is_nobody_else),
        cmocka_unit_test(any_changed_bit_is_noticed),
        cmocka_unit_test(frames_out_of_turn_or_cut_are_refused),
    };
    return cmocka_run_group_tests_name("cluster/handshake", tests, NULL, NULL);
}

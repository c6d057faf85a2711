/*
 * Who leads (crew/lead.h): small cases of candidates at one store (lead_world.h), and then worlds that are drawn from seeds, in
 * which besides, once the faults are over, one that is able to brings the run to its end. `lead SEED` says what becomes of one.
 */
#include "crew/lead.h"

#include "expect_mark.h"
#include "lead_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SEEDS 400

static int begin(void **state) {
    (void)state;
    begin_world(1);
    return 0;
}

static int end(void **state) {
    (void)state;
    return end_world();
}

/* --- cases --- */

static void until_led(size_t i) {
    for (size_t ms = 0; ms < 20 * LEASE_MS && !w.member[i].leads; ms++) {
        one_ms();
    }
    assert_true(w.member[i].leads);
}

static void want(size_t i, enum culm_deed deed) {
    struct member *m = &w.member[i];
    m->deed = deed;
    m->deed_due = true;
    write_deed(m);
}

static void test_one_leads_and_the_other_takes_over(void **state) {
    (void)state;
    EXPECT_MARK(crew_lead_has_the_key);
    join("a", true);
    until_led(0);
    join("b", true);
    go_on(5 * LEASE_MS);
    assert_true(w.member[0].leads && !w.member[1].leads);
    kill_member(0);
    const uint64_t killed = w.now_ms;
    until_led(1);
    assert_in_range(w.now_ms - killed, LEASE_MS / 2, LEASE_MS + 1000);
    assert_int_equal(w.member[1].term, 2);
}

static void test_two_stand_at_once(void **state) {
    (void)state;
    EXPECT_MARK(crew_lead_another_was_faster);
    for (uint64_t seed = 1; seed <= 50; seed++) {
        begin_world(seed);
        join("a", true);
        join("b", true);
        go_on(LEASE_MS);
        assert_int_equal(w.member[0].leads + w.member[1].leads, 1);
        assert_false(end_world());
    }
}

static void test_a_dead_leader_is_replaced_at_once(void **state) {
    (void)state;
    EXPECT_MARK(crew_lead_revokes_the_lease_of_a_dead_leader);
    w.lease_ms = 4 * LEASE_MS;
    join("a", true);
    until_led(0);
    join("b", true);
    go_on(2 * LEASE_MS + 10); /* the lease was just kept */
    kill_member(0);
    const uint64_t killed = w.now_ms;
    culm_lead_refused(w.member[1].lead, 1);
    w.next = NOT_DONE; /* and is asked for again */
    until_led(1);
    assert_in_range(w.now_ms - killed, 0, 550 + 400);
}

/* What is said of one that led before is not held against who leads now. */
static void test_refused_by_one_that_led_before(void **state) {
    (void)state;
    join("a", true);
    until_led(0);
    kill_member(0);
    join("b", true);
    until_led(1);
    join("c", true);
    go_on(100);
    culm_lead_refused(w.member[2].lead, 1);
    go_on(5 * LEASE_MS);
    assert_true(w.member[1].leads);
    assert_int_equal(w.member[2].reigns, 0);
}

static void test_frozen_too_long(void **state) {
    (void)state;
    EXPECT_MARK(crew_lead_lease_has_ended);
    join("a", true);
    until_led(0);
    join("b", true);
    w.member[0].frozen_until_ms = w.now_ms + 5 * LEASE_MS;
    until_led(1);
    go_on(5 * LEASE_MS);
    assert_false(w.member[0].leads);
}

/* What one that wakes up does before it has heard that it leads no more comes to nothing. */
static void test_a_deed_of_one_that_was_frozen(void **state) {
    (void)state;
    join("a", true);
    until_led(0);
    join("b", true);
    want(0, CULM_DEED_DONE);
    w.member[0].frozen_until_ms = w.now_ms + 5 * LEASE_MS;
    until_led(1);
    go_on(5 * LEASE_MS);
    assert_int_equal(w.member[0].written, 0);
    assert_false(w.member[0].leads);
    assert_null(in_store("r/done"));
}

static void test_the_key_without_an_answer(void **state) {
    (void)state;
    EXPECT_MARK(crew_lead_store_does_not_answer);
    EXPECT_MARK(crew_lead_made_the_key_without_an_answer);
    join("a", true);
    while (!in_store("r/stand/a")) {
        one_ms();
    }
    w.next = NO_ANSWER;
    until_led(0);
    assert_int_equal(w.member[0].term, 1);
}

/* One that comes to the store when others have led meanwhile, and nobody does. */
static void test_the_key_too_late(void **state) {
    (void)state;
    join("a", true);
    while (!in_store("r/stand/a")) {
        one_ms();
    }
    w.next = DONE_LATE;
    w.late_ms = 8 * LEASE_MS;
    until_led(0);
    const uint64_t late_ms = w.late[0].ms;
    assert_true(late_ms > w.now_ms);
    join("b", true);
    go_on(LEASE_MS);
    culm_lead_give_up(w.member[0].lead);
    until_led(1);
    culm_lead_stand(w.member[0].lead);
    go_on(late_ms - w.now_ms - LEASE_MS - 10);
    kill_member(1); /* its lease ends a third of it later at the earliest */
    go_on(660);
    w.member[0].frozen_until_ms = late_ms + 50;
    go_on(late_ms - w.now_ms + 1);
    assert_null(in_store("r/leader"));
    until_led(0);
    assert_int_equal(w.member[0].term, 3);
}

static void test_frozen_when_it_had_the_key(void **state) {
    (void)state;
    join("a", true);
    while (!in_store("r/leader")) {
        one_ms();
    }
    w.member[0].frozen_until_ms = w.now_ms + 5 * LEASE_MS;
    join("b", true);
    go_on(10 * LEASE_MS);
    assert_int_equal(w.member[0].reigns, 0);
    assert_true(w.member[1].leads);
}

/* The lease goes on, and the key does not. */
static void test_makes_way_too_late(void **state) {
    (void)state;
    join("a", true);
    join("b", true);
    go_on(LEASE_MS);
    const size_t leader = w.member[1].leads;
    w.next = DONE_LATE;
    culm_lead_give_up(w.member[leader].lead);
    go_on(5 * LEASE_MS);
    assert_false(w.member[leader].leads);
    assert_true(w.member[!leader].leads);
}

static void test_a_deed_without_an_answer(void **state) {
    (void)state;
    EXPECT_MARK(crew_lead_deed_was_written_without_an_answer);
    join("a", true);
    until_led(0);
    w.next = NO_ANSWER;
    want(0, CULM_DEED_ROLL_BACK);
    go_on(LEASE_MS);
    assert_int_equal(w.member[0].written, 1);
    assert_int_equal(in_store("r/back")->created, in_store("r/back")->changed); /* once */
    w.next = NOT_DONE;
    want(0, CULM_DEED_STOP);
    go_on(LEASE_MS);
    assert_int_equal(w.member[0].written, 2);
    assert_non_null(in_store("r/stop"));
}

/* Any number at a time, which is more than one transaction takes. */
static void test_many_take_part(void **state) {
    (void)state;
    join("a", true);
    until_led(0);
    w.next = NO_ANSWER;
    for (int32_t i = 0; i < 10; i++) {
        enter_node(&w.member[0], i, false);
    }
    enter_node(&w.member[0], 3, true);
    go_on(LEASE_MS);
    assert_int_equal(w.member[0].entered, 11);
    assert_non_null(in_store("r/node/9"));
    assert_null(in_store("r/node/3"));
    w.memory->away = true;
    enter_node(&w.member[0], 10, false);
    go_on(LEASE_MS / 2);
    assert_int_equal(w.member[0].entered, 11);
    w.memory->away = false;
    go_on(LEASE_MS);
    assert_int_equal(w.member[0].entered, 12);
}

/* Who has slept, and leads no more, lets in nobody. */
static void test_a_node_of_one_that_was_frozen(void **state) {
    (void)state;
    join("a", true);
    until_led(0);
    join("b", true);
    go_on(LEASE_MS);
    w.member[0].frozen_until_ms = w.now_ms + 3 * LEASE_MS;
    until_led(1);
    w.member[0].frozen_until_ms = w.now_ms;
    enter_node(&w.member[0], 7, false);
    go_on(2 * LEASE_MS);
    assert_int_equal(w.member[0].entered, 0);
    assert_null(in_store("r/node/7"));
}

/* A deed that comes to the store after a later one leaves that one alone. */
static void test_a_deed_that_comes_late(void **state) {
    (void)state;
    join("a", true);
    until_led(0);
    for (int32_t i = 1; i <= 20; i++) {
        w.next = DONE_LATE;
        want(0, CULM_DEED_ROLL_BACK);
        go_on(700);
        assert_int_equal(w.member[0].written, 2 * i - 1);
        want(0, CULM_DEED_ROLL_BACK);
        go_on(2 * LEASE_MS);
        assert_int_equal(number_in(in_store("r/back")->value, "\"number\":"), 2 * i);
    }
}

/* Who takes part is written once, whatever becomes of the answers; an id is not given again when its node is gone. */
static void test_who_takes_part(void **state) {
    (void)state;
    EXPECT_MARK(crew_lead_entry_was_written_without_an_answer);
    static const enum fault faults[] = {HEALTHY, NOT_DONE, NO_ANSWER, DONE_LATE};
    join("a", true);
    until_led(0);
    for (int32_t i = 0; i < 8; i++) {
        char key[32];
        snprintf(key, sizeof key, "r/node/%d", (int)i);
        w.next = faults[i % 4];
        enter_node(&w.member[0], i, false);
        go_on(700);
        assert_int_equal(w.member[0].entered, 2 * i + 1);
        assert_non_null(in_store(key));
        w.next = faults[i / 2];
        enter_node(&w.member[0], i, true);
        go_on(2 * LEASE_MS);
        assert_int_equal(w.member[0].entered, 2 * i + 2);
        assert_null(in_store(key));
    }
    assert_string_equal(in_store("r/ids")->value, "8");
}

/* Two wait beside the one that leads, and when they lead or are gone, another one does; all could lead if nobody waited. */
static void test_enough_wait(void **state) {
    (void)state;
    EXPECT_MARK(crew_lead_enough_wait);
    w.most = 2;
    join("a", true);
    until_led(0);
    for (int32_t i = 1; i < 6; i++) {
        const char id[] = {(char)('a' + i), 0};
        join(id, true);
        go_on(LEASE_MS);
        assert_int_equal(w.member[i].led_term, i < 3 ? 1 : 0); /* it watches only if it waits */
    }
    assert_non_null(in_store("r/stand/c"));
    assert_null(in_store("r/stand/d"));
    kill_member(1);
    go_on(3 * LEASE_MS);
    assert_true((in_store("r/stand/d") != NULL) + (in_store("r/stand/e") != NULL) +
                    (in_store("r/stand/f") != NULL) >=
                1);
    for (size_t i = 0; i < 3; i++) {
        kill_member(i);
    }
    go_on(4 * LEASE_MS);
    assert_int_equal(w.member[3].leads + w.member[4].leads + w.member[5].leads, 1);
}

/* All that have come before anybody led are in the list: it is left to those who have waited longest, and the others ask little. */
static void test_too_many_wait(void **state) {
    (void)state;
    EXPECT_MARK(crew_lead_withdraws);
    w.most = 2;
    w.memory->away = true;
    for (int32_t i = 0; i < 8; i++) {
        const char id[] = {(char)('a' + i), 0};
        join(id, true);
    }
    go_on(LEASE_MS);
    w.memory->away = false;
    go_on(3 * LEASE_MS);
    uint64_t term = 0, waiting = 0;
    int64_t questions = 0;
    const size_t leader = has_key(&term);
    assert_true(leader < 8);
    for (size_t i = 0; i < 8; i++) {
        char key[16];
        snprintf(key, sizeof key, "r/stand/%s", w.member[i].id);
        waiting += i != leader && in_store(key);
    }
    assert_int_equal(waiting, 2);
    assert_int_equal(w.memory->lease_count, 3);
    for (size_t i = 0; i < 8; i++) {
        questions -= w.member[i].led_term == 0 && i != leader ? w.member[i].questions : 0;
    }
    go_on(10 * LEASE_MS);
    for (size_t i = 0; i < 8; i++) {
        questions += w.member[i].led_term == 0 && i != leader ? w.member[i].questions : 0;
    }
    assert_in_range(questions, 5, 5 * 12); /* of five, in ten leases */
    kill_member(leader);
    go_on(3 * LEASE_MS);
    assert_true(has_key(&term) < 8);
    assert_int_equal(w.memory->lease_count, 3);
}

/* The newest checkpoint is written, whatever becomes of the answers, and one that comes late does not undo a later one. */
static void test_the_newest_checkpoint(void **state) {
    (void)state;
    static const enum fault faults[] = {HEALTHY, NOT_DONE, NO_ANSWER, DONE_LATE};
    join("a", true);
    until_led(0);
    for (int64_t i = 1; i <= 8; i++) {
        w.next = faults[i % 4];
        culm_lead_saved(w.member[0].lead, 5 * i);
        go_on(5);
        culm_lead_saved(w.member[0].lead, 5 * i + 1);
        go_on(2 * LEASE_MS);
        assert_int_equal(number_in(in_store("r/saved")->value, "\"step\":"), 5 * i + 1);
    }
    w.member[0].frozen_until_ms = w.now_ms + 3 * LEASE_MS;
    culm_lead_saved(w.member[0].lead, 1000); /* of one that is deposed by then */
    go_on(5 * LEASE_MS);
    assert_int_equal(number_in(in_store("r/saved")->value, "\"step\":"), 41);
}

static void test_somebody_wants_it_to_stop(void **state) {
    (void)state;
    const struct culm_keys_change change = {"r/ask", "stop", 4, 0};
    const struct culm_keys_transaction what = {NULL, 0, &change, 1};
    bool happened;
    int64_t revision;
    struct culm_error error;
    join("a", true);
    until_led(0);
    go_on(LEASE_MS);
    assert_false(w.member[0].was_asked);
    assert_int_equal(w.keys->ops->transact(w.keys, &what, &happened, &revision, &error), CULM_OK);
    go_on(LEASE_MS / 3 + 50);
    assert_true(w.member[0].was_asked);
    kill_member(0);
    join("b", true); /* the next one hears of it too */
    until_led(1);
    go_on(LEASE_MS / 3 + 50);
    assert_true(w.member[1].was_asked);
}

static void test_it_makes_way(void **state) {
    (void)state;
    EXPECT_MARK(crew_lead_makes_way);
    join("a", false);
    until_led(0);
    culm_lead_give_up(w.member[0].lead); /* nobody else waits */
    go_on(LEASE_MS);
    assert_true(w.member[0].leads);
    join("b", true);
    go_on(LEASE_MS);
    culm_lead_give_up(w.member[0].lead);
    w.member[1].frozen_until_ms = w.now_ms + LEASE_MS / 2;
    while (w.member[0].leads) {
        one_ms();
    }
    culm_lead_stand(w.member[0].lead);
    until_led(1);
    assert_int_equal(w.member[1].term, 2); /* it was waited for */
    assert_non_null(in_store("r/idle"));
    culm_lead_give_up(w.member[1].lead); /* nobody waits who has not led in vain */
    go_on(LEASE_MS);
    assert_true(w.member[1].leads);
    culm_lead_committed(w.member[1].lead);
    go_on(LEASE_MS);
    assert_null(in_store("r/idle"));
}

/* Whoever stands for the same machine later has led in vain, too: two machines do not make way to each other for ever. */
static void test_one_after_the_other(void **state) {
    (void)state;
    join("aa-1", false);
    until_led(0);
    join("bb-1", true);
    go_on(LEASE_MS);
    culm_lead_give_up(w.member[0].lead);
    while (w.member[0].leads) {
        one_ms();
    }
    until_led(1);
    join("aa-2", true);
    go_on(LEASE_MS);
    culm_lead_give_up(w.member[1].lead);
    go_on(LEASE_MS);
    assert_true(w.member[1].leads);
    join("cc-1", true);
    go_on(LEASE_MS);
    culm_lead_give_up(w.member[1].lead);
    until_led(3);
}

/* What is to be written after it has given up is written if nobody else waits, and by nobody if somebody does. */
static void test_it_makes_way_before_it_writes(void **state) {
    (void)state;
    for (int32_t others = 0; others < 2; others++) {
        if (others) {
            join("b", false);
            go_on(LEASE_MS);
        } else {
            join("a", false);
            until_led(0);
        }
        const int32_t written = w.member[0].written;
        culm_lead_give_up(w.member[0].lead);
        want(0, CULM_DEED_ROLL_BACK);
        go_on(LEASE_MS);
        assert_int_equal(w.member[0].leads, !others);
        assert_int_equal(w.member[0].written, written + !others);
    }
}

static void test_the_store_is_away(void **state) {
    (void)state;
    join("a", true);
    until_led(0);
    w.memory->away = true;
    go_on(LEASE_MS / 2);
    assert_in_range(w.member[0].away_ms, 1, LEASE_MS);
    w.memory->away = false;
    go_on(LEASE_MS / 2);
    assert_int_equal(w.member[0].away_ms, 0);
    assert_true(w.member[0].leads);
    assert_int_equal(w.member[0].reigns, 1);
}

/* The key may still be there when the store is back: it does not lead by that once more. */
static void test_it_gives_up_by_itself(void **state) {
    (void)state;
    EXPECT_MARK(crew_lead_gives_up_by_itself);
    w.lease_ms = 4 * LEASE_MS;
    w.end_ms = 2 * LEASE_MS;
    join("a", true);
    until_led(0);
    w.owners = true; /* deposed, it stands again */
    w.member[0].act_ms = NEVER;
    w.memory->away = true;
    go_on(LEASE_MS);
    assert_true(w.member[0].leads);
    for (size_t ms = 0; ms < 4 * LEASE_MS && w.member[0].leads; ms++) {
        one_ms();
    }
    assert_false(w.member[0].leads);
    w.memory->away = false;
    w.memory->lease[0].ends_ns = (w.now_ms + LEASE_MS) * 1000000; /* a store that was away itself */
    until_led(0);
    assert_int_equal(w.member[0].term, 2);
}

static void test_the_end(void **state) {
    (void)state;
    join("a", true);
    join("b", true);
    go_on(LEASE_MS);
    const size_t leader = w.member[1].leads;
    want(leader, CULM_DEED_DONE);
    go_on(LEASE_MS);
    assert_int_equal(w.member[leader].written, 1);
    assert_true(w.member[!leader].over);
    kill_member(leader);
    join("c", true);
    go_on(3 * LEASE_MS);
    assert_true(w.member[2].over);
}

/* --- drawn worlds --- */

static size_t any_alive(void) {
    size_t at = draw(w.count);
    for (size_t i = 0; i < w.count && !w.member[at].alive; i++) {
        at = (at + 1) % w.count;
    }
    return at;
}

static void someone_is_killed(void) {
    const size_t at = any_alive();
    uint64_t term = 0;
    char id[16];
    if (w.count == MEMBERS) {
        return;
    }
    look_at_leases();
    const bool had_key = has_key(&term) == at;
    kill_member(at);
    snprintf(id, sizeof id, "%c", 'a' + (char)w.count);
    join(id, w.member[at].able); /* so that one is able at all times */
    if (had_key && draw(2)) {
        for (size_t i = 0; i < w.count; i++) {
            if (w.member[i].alive) {
                culm_lead_refused(w.member[i].lead, term);
            }
        }
    }
}

static void a_fault(void) {
    struct member *m = &w.member[any_alive()];
    switch (draw(6)) {
    case 0: someone_is_killed(); break;
    case 1:
        m->frozen_until_ms = w.now_ms + draw(3 * LEASE_MS);
        say(m, "is frozen until", m->frozen_until_ms);
        break;
    case 2: w.memory->away = !w.memory->away; break;
    case 3: w.memory->away = false; break;
    default: w.next = (enum fault)(NOT_DONE + draw(3)); break;
    }
}

static bool all_is_over(void) {
    for (size_t i = 0; i < w.count; i++) {
        if (w.member[i].alive && !w.member[i].over && !w.member[i].ended) {
            return false;
        }
    }
    return true;
}

static void run_seed(uint64_t seed) {
    begin_world(seed);
    w.owners = true;
    w.most = draw(3);
    const size_t count = 1 + draw(4);
    for (size_t i = 0; i < count; i++) {
        const char id[] = {(char)('a' + i), 0};
        join(id, i == 0 || draw(2));
    }
    uint64_t next = draw(1000);
    while (w.now_ms < SECONDS_OF_FAULTS * 1000 && !w.wrong[0]) {
        if (w.now_ms >= next) {
            a_fault();
            next = w.now_ms + draw(draw(4) ? 1000 : 100);
        }
        one_ms();
    }
    w.memory->away = false;
    w.next = HEALTHY;
    for (size_t ms = 0; ms < 40000 && !all_is_over() && !w.wrong[0]; ms++) {
        one_ms();
    }
    if (!all_is_over()) {
        wrong("does not come to an end", 0);
    }
}

static void test_seeds(void **state) {
    (void)state;
    uint64_t reigns = 0, seeds_failed = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        run_seed(seed);
        for (size_t i = 0; i < w.count; i++) {
            reigns += (uint64_t)w.member[i].reigns;
        }
        if (end_world()) {
            print_error("seed %llu\n", (unsigned long long)seed);
            seeds_failed++;
        }
    }
    assert_int_equal(seeds_failed, 0);
    assert_true(reigns > 3 * SEEDS);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_one_leads_and_the_other_takes_over, begin, end),
        cmocka_unit_test_setup_teardown(test_two_stand_at_once, begin, end),
        cmocka_unit_test_setup_teardown(test_a_dead_leader_is_replaced_at_once, begin, end),
        cmocka_unit_test_setup_teardown(test_refused_by_one_that_led_before, begin, end),
        cmocka_unit_test_setup_teardown(test_frozen_too_long, begin, end),
        cmocka_unit_test_setup_teardown(test_a_deed_of_one_that_was_frozen, begin, end),
        cmocka_unit_test_setup_teardown(test_the_key_without_an_answer, begin, end),
        cmocka_unit_test_setup_teardown(test_the_key_too_late, begin, end),
        cmocka_unit_test_setup_teardown(test_frozen_when_it_had_the_key, begin, end),
        cmocka_unit_test_setup_teardown(test_makes_way_too_late, begin, end),
        cmocka_unit_test_setup_teardown(test_a_deed_without_an_answer, begin, end),
        cmocka_unit_test_setup_teardown(test_many_take_part, begin, end),
        cmocka_unit_test_setup_teardown(test_a_node_of_one_that_was_frozen, begin, end),
        cmocka_unit_test_setup_teardown(test_a_deed_that_comes_late, begin, end),
        cmocka_unit_test_setup_teardown(test_who_takes_part, begin, end),
        cmocka_unit_test_setup_teardown(test_the_newest_checkpoint, begin, end),
        cmocka_unit_test_setup_teardown(test_enough_wait, begin, end),
        cmocka_unit_test_setup_teardown(test_too_many_wait, begin, end),
        cmocka_unit_test_setup_teardown(test_somebody_wants_it_to_stop, begin, end),
        cmocka_unit_test_setup_teardown(test_it_makes_way, begin, end),
        cmocka_unit_test_setup_teardown(test_one_after_the_other, begin, end),
        cmocka_unit_test_setup_teardown(test_it_makes_way_before_it_writes, begin, end),
        cmocka_unit_test_setup_teardown(test_the_store_is_away, begin, end),
        cmocka_unit_test_setup_teardown(test_it_gives_up_by_itself, begin, end),
        cmocka_unit_test_setup_teardown(test_the_end, begin, end),
        cmocka_unit_test_setup_teardown(test_seeds, begin, end),
    };
    if (argc == 2) {
        w.verbose = true;
        run_seed(strtoull(argv[1], NULL, 10));
        for (size_t i = 0; i < w.memory->list.count; i++) {
            printf("%s = %s\n", w.memory->list.pair[i].key, w.memory->list.pair[i].value);
        }
        for (size_t i = 0; i < w.count; i++) {
            const struct member *m = &w.member[i];
            printf("%s:%s%s%s%s%s\n", m->id, m->alive ? " alive" : "", m->able ? " able" : "",
                   m->leads ? " leads" : "", m->over ? " over" : "", m->deed_due ? " writes" : "");
        }
        return end_world();
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}

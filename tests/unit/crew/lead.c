/*
 * Who leads (crew/lead.h): candidates that stand for it at one store, on a clock of our own, a millisecond at a time. They die, freeze,
 * lose their answers and their leases, and have questions answered long after they gave them up; small cases, and then worlds that
 * are drawn from seeds. `lead SEED` says what becomes of one.
 *
 * What holds in all of them: no two lead in one term, terms rise, what cannot be taken back is done by who has the key and by nobody
 * after the end, a deed is written if and only if who asked for it hears so or leads no more, and once the faults are over
 * one that is able to brings the run to its end.
 */
#include "crew/lead.h"

#include "base/rng.h"
#include "expect_mark.h"
#include "sim/keys_memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MS 1000000ull
#define LEASE_MS 1000
#define MEMBERS 8
#define NEVER UINT64_MAX
#define SECONDS_OF_FAULTS 20
#define SEEDS 400

enum fault { HEALTHY, NOT_DONE, NO_ANSWER, DONE_LATE };

struct member {
    struct culm_lead *lead;
    char id[16];
    bool alive, able, leads, over, ended, asks; /* ended: it has written so itself */
    uint64_t frozen_until_ms, timer_ms, term;
    /* The question that is being answered. */
    struct culm_lead_question *question;
    uint64_t asked_ms, at_store_ms, back_ms; /* NEVER: not yet known */
    bool answered, not_done;
    enum fault fault;
    /* What its run does next. */
    uint64_t act_ms;
    bool deed_due;
    enum culm_deed deed;
    int32_t committed, written, reigns;
    uint64_t asked_deeds, done_deeds; /* numbers of the last one */
    int64_t away_ms;
};

/* A transaction that comes to the store when nobody waits for it any more. */
struct late {
    struct culm_lead_question question;
    size_t asker;
    uint64_t ms; /* 0: there is none */
};

static struct world {
    uint64_t now_ms, random;
    int64_t lease_ms; /* of those who join */
    struct culm_keys *keys;
    struct culm_keys_memory *memory;
    struct member member[MEMBERS];
    size_t count;
    struct late late[4];
    uint64_t reign[1000]; /* which member led in that term, and one */
    bool owners;          /* the runs of those who lead act by themselves */
    enum fault next;      /* of the next transaction, or revocation */
    uint64_t late_ms;     /* by which one is late; 0: drawn */
    bool verbose;
    char wrong[200];
} w;

static void wrong(const char *what, size_t member) {
    if (!w.wrong[0]) {
        snprintf(w.wrong, sizeof w.wrong, "%s: %s, after %llu ms", what, w.member[member].id,
                 (unsigned long long)w.now_ms);
    }
}

static void say(const struct member *m, const char *what, uint64_t number) {
    if (w.verbose) {
        printf("%6llu %s %s %llu\n", (unsigned long long)w.now_ms, m->id, what,
               (unsigned long long)number);
    }
}

static uint64_t now_ns(void *ctx) {
    (void)ctx;
    return (w.now_ms + 1) * MS;
}

static void pass(void *ctx, uint64_t ns) {
    (void)ctx;
    (void)ns;
    abort(); /* questions that wait are kept here */
}

static uint64_t draw(uint64_t below) { return culm_rng_below(&w.random, below); }

/* --- the store --- */

static const struct culm_keys_pair *in_store(const char *key) {
    return culm_keys_find(&w.memory->list, key);
}

static uint64_t number_in(const char *value, const char *name) {
    const char *at = strstr(value, name);
    return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

/* Who has the key now, and in which term; MEMBERS: nobody. */
static size_t has_key(uint64_t *ret_term) {
    const struct culm_keys_pair *key = in_store("r/leader");
    for (size_t i = 0; key && i < w.count; i++) {
        char id[32];
        snprintf(id, sizeof id, "\"%s\"", w.member[i].id);
        if (strstr(key->value, id)) {
            *ret_term = number_in(key->value, "\"term\":");
            return i;
        }
    }
    return MEMBERS;
}

/* Leases have ended as of now, whoever looks. */
static void look_at_leases(void) {
    struct culm_keys_list list = {0};
    struct culm_error error;
    const bool away = w.memory->away;
    w.memory->away = false;
    assert_int_equal(w.keys->ops->list(w.keys, "r/", &list, &error), CULM_OK);
    w.memory->away = away;
    culm_keys_list_release(&list);
}

static void judge(size_t asker, const struct culm_lead_question *q, size_t before, uint64_t term,
                  uint64_t last_term, bool ended) {
    for (size_t i = 0; q->yes && i < q->what.change_count; i++) {
        const struct culm_keys_change *change = &q->what.change[i];
        const bool deed = strcmp(change->key, "r/back") == 0 ||
                          strcmp(change->key, "r/stop") == 0 || strcmp(change->key, "r/done") == 0;
        if (strcmp(change->key, "r/leader") == 0 && change->value &&
            (before != MEMBERS || number_in(change->value, "\"term\":") != last_term + 1 ||
             ended)) {
            wrong("made the key out of turn", asker);
        }
        if (deed && (before != asker || number_in(change->value, "\"term\":") != term)) {
            wrong("did what only the leader may", asker);
        }
        if (deed && ended) {
            wrong("did something after the end", asker);
        }
        if (deed && asker < w.count) {
            w.member[asker].done_deeds = number_in(change->value, "\"number\":");
        }
    }
}

static void at_store(size_t asker, struct culm_lead_question *q) {
    uint64_t term = 0;
    look_at_leases();
    const size_t before = has_key(&term);
    const struct culm_keys_pair *last = in_store("r/term");
    const uint64_t last_term = last ? strtoull(last->value, NULL, 10) : 0;
    const bool ended = in_store("r/done") || in_store("r/stop");
    const struct culm_keys_pair *back = in_store("r/back");
    const uint64_t number = back ? number_in(back->value, "\"number\":") : 0;
    const uint64_t of_term = back ? number_in(back->value, "\"term\":") : 0;
    culm_lead_question_answer(q, w.keys);
    if (q->kind == CULM_LEAD_TRANSACT) {
        judge(asker, q, before, term, last_term, ended);
    }
    back = in_store("r/back");
    if (back && (number_in(back->value, "\"term\":") < of_term ||
                 (number_in(back->value, "\"term\":") == of_term &&
                  number_in(back->value, "\"number\":") < number))) {
        wrong("an earlier deed undid a later one", asker);
    }
}

/* --- a candidate's surroundings --- */

static struct member *self(void *ctx) { return ctx; }

static size_t number_of(const struct member *m) { return (size_t)(m - w.member); }

static void ask(void *ctx, struct culm_lead_question *question) {
    struct member *m = self(ctx);
    if (m->asks) {
        wrong("asks two things at once", number_of(m));
    }
    m->asks = true;
    m->answered = false;
    m->question = question;
    m->asked_ms = w.now_ms;
    m->at_store_ms = w.now_ms + 1 + draw(3);
    m->back_ms = NEVER;
    m->fault = HEALTHY;
    if (question->kind == CULM_LEAD_TRANSACT || question->kind == CULM_LEAD_REVOKE) {
        m->fault = w.next;
        w.next = HEALTHY;
    }
}

static void set_timer(void *ctx, int64_t ms) { self(ctx)->timer_ms = w.now_ms + (uint64_t)ms + 1; }

static void leads(void *ctx, uint64_t term, const struct culm_keys_list *list) {
    struct member *m = self(ctx);
    say(m, "leads", term);
    if (m->leads || w.reign[term % 1000]) {
        wrong("leads in a term that was led in", number_of(m));
    }
    if (culm_keys_find(list, "r/done") || culm_keys_find(list, "r/stop")) {
        wrong("leads what is over", number_of(m));
    }
    w.reign[term % 1000] = number_of(m) + 1;
    m->leads = true;
    m->term = term;
    m->reigns++;
    m->deed_due = false;
    m->act_ms = w.now_ms + 50 + draw(1000);
}

static void written(void *ctx, enum culm_deed deed) {
    struct member *m = self(ctx);
    say(m, "has written", deed);
    if (!m->deed_due || deed != m->deed || m->done_deeds != m->asked_deeds) {
        wrong("hears of a deed that is not done", number_of(m));
    }
    m->deed_due = false;
    m->written++;
    m->ended = deed != CULM_DEED_ROLL_BACK;
}

static void deposed(void *ctx) {
    struct member *m = self(ctx);
    say(m, "is deposed", m->term);
    m->leads = m->deed_due = false;
    m->timer_ms = NEVER;
    m->act_ms = w.now_ms; /* it stands again */
}

static void over(void *ctx, enum culm_deed how) {
    struct member *m = self(ctx);
    say(m, "hears that it is over", how);
    if (m->over || (!in_store("r/done") && !in_store("r/stop"))) {
        wrong("hears of an end that is none", number_of(m));
    }
    m->over = true;
    m->leads = false;
}

static void away(void *ctx, int64_t ms) { self(ctx)->away_ms = ms; }

static const struct culm_lead_ops lead_ops = {sizeof lead_ops, now_ns,  ask,  set_timer, leads,
                                              written,         deposed, over, away};

static void join(const char *id, bool able) {
    struct member *m = &w.member[w.count++];
    *m = (struct member){
        .alive = true, .able = able, .timer_ms = NEVER, .act_ms = NEVER, .back_ms = NEVER};
    snprintf(m->id, sizeof m->id, "%s", id);
    const struct culm_lead_options options = {.run = "r",
                                              .id = m->id,
                                              .address = "127.0.0.1:1",
                                              .lease_ms = w.lease_ms,
                                              .random = draw(UINT64_MAX),
                                              .ops = &lead_ops,
                                              .ctx = m};
    m->lead = culm_lead_new(&options);
    assert_non_null(m->lead);
    culm_lead_stand(m->lead);
}

static void kill_member(size_t i) {
    say(&w.member[i], "is killed", 0);
    w.member[i].alive = w.member[i].leads = false;
}

/* --- a millisecond --- */

static void put_off(size_t i, const struct culm_lead_question *q) {
    struct late *late = w.late;
    while (late < w.late + sizeof w.late / sizeof *w.late && late->ms) {
        late++;
    }
    if (late == w.late + sizeof w.late / sizeof *w.late) {
        return;
    }
    *late = (struct late){*q, i, w.now_ms + (w.late_ms ? w.late_ms : 1 + draw(2 * LEASE_MS))};
    late->question.list = (struct culm_keys_list){0};
    late->question.what.condition = late->question.condition;
    late->question.what.change = late->question.change;
    for (size_t k = 0; k < CULM_LEAD_CHANGES;
         k++) { /* of the copy itself, not of what it is one of */
        late->question.condition[k].key = late->question.key[k];
        late->question.change[k].key = late->question.key[CULM_LEAD_CHANGES + k];
        late->question.change[k].value = q->change[k].value ? late->question.value[k] : NULL;
    }
    say(&w.member[i], "will be heard late", late->ms);
}

static void to_store(size_t i) {
    struct member *m = &w.member[i];
    struct culm_lead_question *q = m->question;
    if (q->kind == CULM_LEAD_WAIT && m->fault == HEALTHY && !w.memory->away) {
        look_at_leases();
        q->yes = w.memory->list.revision > q->revision;
        q->status = CULM_OK;
        if (!q->yes && w.now_ms < m->asked_ms + (uint64_t)q->ms) {
            return; /* it is held back */
        }
    } else if (m->fault == NOT_DONE || m->fault == DONE_LATE) {
        if (m->fault == DONE_LATE && q->kind == CULM_LEAD_TRANSACT) {
            put_off(i, q);
        }
        q->status = CULM_ERR_AGAIN;
    } else if (q->kind == CULM_LEAD_WAIT) {
        q->status = CULM_ERR_AGAIN;
    } else {
        at_store(i, q);
        if (m->fault == NO_ANSWER) {
            culm_keys_list_release(&q->list);
            q->status = CULM_ERR_AGAIN;
        }
    }
    m->answered = true;
    m->back_ms = w.now_ms + (q->status == CULM_ERR_AGAIN ? 100 : 1) + draw(3);
}

static void write_deed(struct member *m) {
    m->asked_deeds++;
    culm_lead_write(m->lead, m->deed, m->committed);
}

/* What the run of one that leads does, and one that was deposed. */
static void act(size_t i) {
    struct member *m = &w.member[i];
    m->act_ms = w.now_ms + 50 + draw(500);
    if (!m->leads) {
        m->act_ms = NEVER;
        culm_lead_stand(m->lead);
    } else if (m->ended) {
        m->act_ms = NEVER; /* it has ended the run */
    } else if (!m->able) {
        culm_lead_give_up(m->lead);
    } else if (!m->deed_due && (m->committed == 0 || draw(3))) {
        m->committed++;
        culm_lead_committed(m->lead);
        m->deed_due = draw(2);
        m->deed = CULM_DEED_ROLL_BACK;
        if (m->deed_due) {
            write_deed(m);
        }
    } else if (!m->deed_due) {
        m->deed_due = true;
        m->deed = w.now_ms < SECONDS_OF_FAULTS * 1000 && draw(8) ? CULM_DEED_ROLL_BACK
                  : draw(4)                                      ? CULM_DEED_DONE
                                                                 : CULM_DEED_STOP;
        write_deed(m);
    }
}

static void step_member(size_t i) {
    struct member *m = &w.member[i];
    if (m->asks && !m->answered && w.now_ms >= m->at_store_ms) {
        to_store(i); /* whether it is alive or not: it is under way */
    }
    if (!m->alive || w.now_ms < m->frozen_until_ms) {
        return;
    }
    if (m->asks && m->answered && w.now_ms >= m->back_ms) {
        m->asks = false;
        culm_lead_answered(m->lead);
    }
    if (w.now_ms >= m->timer_ms) {
        m->timer_ms = NEVER;
        culm_lead_tick(m->lead);
    }
    if (w.owners && w.now_ms >= m->act_ms && !m->over) {
        act(i);
    }
}

static void one_ms(void) {
    w.now_ms++;
    for (size_t i = 0; i < sizeof w.late / sizeof *w.late; i++) {
        if (w.late[i].ms && w.now_ms >= w.late[i].ms) {
            w.late[i].ms = 0;
            at_store(w.late[i].asker, &w.late[i].question);
        }
    }
    for (size_t i = 0; i < w.count; i++) {
        step_member(i);
    }
}

static void go_on(uint64_t ms) {
    for (uint64_t i = 0; i < ms; i++) {
        one_ms();
    }
}

static void begin_world(uint64_t seed) {
    w = (struct world){.random = seed, .lease_ms = LEASE_MS, .verbose = w.verbose};
    w.memory = culm_keys_memory_new(now_ns, pass, NULL);
    assert_non_null(w.memory);
    w.keys = &w.memory->keys;
}

static int begin(void **state) {
    (void)state;
    begin_world(1);
    return 0;
}

static int end(void **state) {
    (void)state;
    for (size_t i = 0; i < w.count; i++) {
        culm_lead_free(w.member[i].lead);
    }
    culm_keys_close(w.keys);
    if (w.wrong[0]) {
        print_error("%s\n", w.wrong);
    }
    return w.wrong[0] != 0;
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
        if (seed < 50) {
            assert_int_equal(end(NULL), 0);
        }
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
        if (end(NULL)) {
            print_error("seed %llu\n", (unsigned long long)seed);
            seeds_failed++;
        }
    }
    begin_world(1);
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
        cmocka_unit_test_setup_teardown(test_a_deed_that_comes_late, begin, end),
        cmocka_unit_test_setup_teardown(test_it_makes_way, begin, end),
        cmocka_unit_test_setup_teardown(test_the_store_is_away, begin, end),
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
        return end(NULL);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The surroundings of candidates for leader: see lead_world.h. */
#include "lead_world.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MS 1000000ull

struct world w;

void wrong(const char *what, size_t member) {
    if (!w.wrong[0]) {
        snprintf(w.wrong, sizeof w.wrong, "%s: %s, after %llu ms", what, w.member[member].id,
                 (unsigned long long)w.now_ms);
    }
}

void say(const struct member *m, const char *what, uint64_t number) {
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

uint64_t draw(uint64_t below) { return culm_rng_below(&w.random, below); }

/* --- the store --- */

const struct culm_keys_pair *in_store(const char *key) {
    return culm_keys_find(&w.memory->list, key);
}

uint64_t number_in(const char *value, const char *name) {
    const char *at = strstr(value, name);
    return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

/* Who has the key now, and in which term; MEMBERS: nobody. */
size_t has_key(uint64_t *ret_term) {
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

void look_at_leases(void) {
    struct culm_keys_list list = {0};
    struct culm_error error;
    const bool away = w.memory->away;
    w.memory->away = false;
    assert_int_equal(w.keys->ops->list(w.keys, "r/", NULL, &list, &error), CULM_OK);
    w.memory->away = away;
    culm_keys_list_release(&list);
}

/* Once more the same one says it if it had no answer. */
static void judge_entry(size_t asker, const struct culm_keys_change *change, size_t before) {
    const int32_t node = atoi(change->key + strlen("r/node/"));
    if (before != asker) {
        wrong("lets a node in, or out, and does not lead", asker);
    }
    if (change->value && w.given[node % 1000] && w.given[node % 1000] != asker + 1) {
        wrong("gives an id twice", asker);
    }
    w.given[node % 1000] = asker + 1;
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
        if (strncmp(change->key, "r/node/", 7) == 0) {
            judge_entry(asker, change, before);
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
    m->questions++;
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
    m->here = 0;
    const struct culm_keys_pair *ids = culm_keys_find(list, "r/ids");
    m->next_node = ids ? atoi(ids->value) : 0;
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
    m->leads = m->deed_due = m->was_asked = false;
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

static void entered(void *ctx, int32_t node) {
    struct member *m = self(ctx);
    say(m, "has entered", (uint64_t)node);
    if (w.given[node % 1000] != number_of(m) + 1) {
        wrong("hears of a node that is not entered", number_of(m));
    }
    m->entered++;
}

static void led(void *ctx, const char *value_or_null) {
    struct member *m = self(ctx);
    m->led_term = value_or_null ? number_in(value_or_null, "\"term\":") : 0;
}

static void asked(void *ctx) {
    struct member *m = self(ctx);
    if (m->was_asked || !in_store("r/ask")) {
        wrong("is asked for nothing", number_of(m));
    }
    m->was_asked = true;
}

static const struct culm_lead_ops lead_ops = {sizeof lead_ops, now_ns,  ask,     set_timer,
                                              leads,           led,     written, entered,
                                              asked,           deposed, over,    away};

void join(const char *id, bool able) {
    struct member *m = &w.member[w.count++];
    *m = (struct member){
        .alive = true, .able = able, .timer_ms = NEVER, .act_ms = NEVER, .back_ms = NEVER};
    snprintf(m->id, sizeof m->id, "%s", id);
    const struct culm_lead_options options = {.run = "r",
                                              .id = m->id,
                                              .address = "127.0.0.1:1",
                                              .lease_ms = w.lease_ms,
                                              .end_ms = w.end_ms,
                                              .most = w.most,
                                              .random = draw(UINT64_MAX),
                                              .ops = &lead_ops,
                                              .ctx = m};
    m->lead = culm_lead_new(&options);
    assert_non_null(m->lead);
    culm_lead_stand(m->lead);
}

void kill_member(size_t i) {
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
        q->yes = culm_keys_memory_changed(w.memory, q->prefix, q->revision);
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

void write_deed(struct member *m) {
    m->asked_deeds++;
    culm_lead_write(m->lead, m->deed, m->committed, "");
}

void enter_node(struct member *m, int32_t node, bool gone) {
    char value[64];
    snprintf(value, sizeof value, "{\"node\":%d,\"by\":\"%s\"}", (int)node, m->id);
    assert_true(culm_lead_enter(m->lead, node, gone ? NULL : value));
}

static void let_in_or_out(struct member *m) {
    if (m->here) { /* few stay, or lists of them would take all the time */
        enter_node(m, m->here, true);
        m->here = 0;
    } else {
        m->here = m->next_node++;
        enter_node(m, m->here, false);
    }
}

/* What the run of one that leads does, and one that was deposed. */
static void act(size_t i) {
    struct member *m = &w.member[i];
    m->act_ms = w.now_ms + 50 + draw(500);
    for (uint64_t more = m->leads && !m->ended && draw(4) == 0 ? 1 + draw(4) : 0; more > 0;
         more--) {
        let_in_or_out(m);
    }
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

void one_ms(void) {
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

void go_on(uint64_t ms) {
    for (uint64_t i = 0; i < ms; i++) {
        one_ms();
    }
}

static void leave_world(void) {
    for (size_t i = 0; i < w.count; i++) {
        culm_lead_free(w.member[i].lead);
    }
    w.count = 0;
    culm_keys_close(w.keys);
    w.keys = NULL;
}

void begin_world(uint64_t seed) {
    leave_world();
    w = (struct world){.random = seed, .lease_ms = LEASE_MS, .verbose = w.verbose};
    w.memory = culm_keys_memory_new(now_ns, pass, NULL);
    assert_non_null(w.memory);
    w.keys = &w.memory->keys;
}

bool end_world(void) {
    leave_world();
    if (w.wrong[0]) {
        fprintf(stderr, "%s\n", w.wrong);
    }
    return w.wrong[0] != 0;
}

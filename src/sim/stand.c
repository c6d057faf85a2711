/*
 * Those who may lead a simulated world: candidates (crew/lead.h) at one store of keys, on the virtual clock.
 *
 * A candidate is an agent of its own, with a process in which it leads. If that leaves, because another one leads, the candidate goes
 * on in a new one; if it dies, or stands still, so does the candidate. What is on its way to the store gets there in any case.
 *
 * A question takes a while to the store, and its answer a while back. It may be late, or not be done, or be done and not be answered,
 * or be done long after its asker has given it up: as the world's seed says, in the first time of a run. The store may be away for
 * all, or for one. What is done there is judged: terms rise, and what cannot be taken back is done by who has the key; what is
 * committed follows on what was, or on what all have gone back to since.
 */
#include "base/rng.h"
#include "crew/lead.h"
#include "sim/keys_memory.h"
#include "sim/sim_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS 1000000ull
#define RUN "r"
#define OVER_NS 2000000000ull /* in which who has written the end may say so itself */

enum fault { HEALTHY, NOT_DONE, NO_ANSWER, DONE_LATE, SLOW, FAULTS };

struct candidate {
    struct culm_sim *sim;
    struct culm_lead *lead;
    struct process *process; /* that leads, or is to */
    char id[16], address[32];
    struct culm_lead_question *question; /* that was asked last */
    enum fault fault;                    /* of it */
    bool held;                           /* it waits at the store for a change */
    uint64_t asked_ns, holds, timers, cut_until_ns;
};

struct sim_store {
    struct culm_sim *sim;
    struct culm_keys_memory *memory;
    struct candidate *candidate[CULM_SIM_LEADERS];
    int32_t count;
    uint64_t random, away_until_ns;
    int64_t committed,
        back; /* the last one; where they have gone back to since; -1: none; nowhere */
    char about[CULM_DEED_ABOUT_MAX];
    char wrong[160];
};

/* One that comes when nobody waits for it any more. */
struct late {
    struct candidate *from;
    struct culm_lead_question question;
};

static uint64_t draw(struct sim_store *store, uint64_t bound) {
    return culm_rng_below(&store->random, bound);
}

static uint64_t delay_of(struct sim_store *store) {
    return store->sim->o.store_ns / 4 + draw(store, store->sim->o.store_ns / 2 + 1);
}

__attribute__((format(printf, 2, 3))) static void wrong(struct sim_store *store, const char *format,
                                                        ...) {
    va_list args;
    va_start(args, format);
    if (!store->wrong[0]) {
        vsnprintf(store->wrong, sizeof store->wrong, format, args);
    }
    va_end(args);
}

static bool is_away(const struct candidate *c) {
    const uint64_t now = c->sim->now_ns;
    return now < c->sim->store->away_until_ns || now < c->cut_until_ns;
}

/* Whether what happens has to wait, or never does. */
static bool is_absent(const struct candidate *c, const struct happen *happen) {
    const struct process *process = c->process;
    if (!process->alive || process->frozen_until_ns == CULM_NEVER) {
        return true;
    }
    if (process->frozen_until_ns > c->sim->now_ns) {
        sim_schedule(c->sim, process->frozen_until_ns, *happen);
        return true;
    }
    return false;
}

/* --- what is in the store --- */

/* As whoever lists keys does; here a single one, since this is done for every question. */
static void look_at_leases(struct sim_store *store) {
    static const char *const few[] = {"leader", NULL};
    struct culm_keys *keys = &store->memory->keys;
    struct culm_keys_list list;
    struct culm_error error;
    if (keys->ops->list(keys, RUN "/", few, &list, &error) != CULM_OK) {
        abort();
    }
    culm_keys_list_release(&list);
}

static const struct culm_keys_pair *pair_of(const struct sim_store *store, const char *key) {
    return culm_keys_find(&store->memory->list, key);
}

static uint64_t number_in(const char *value, const char *name) {
    const char *at = strstr(value, name);
    return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

/* The term in which that candidate has the key; 0: it has not. */
static uint64_t has_key(const struct sim_store *store, const struct candidate *c) {
    const struct culm_keys_pair *key = pair_of(store, RUN "/leader");
    char id[32];
    snprintf(id, sizeof id, "\"id\":\"%s\"", c->id);
    return key && strstr(key->value, id) ? number_in(key->value, "\"term\":") : 0;
}

static bool is_over(const struct sim_store *store) {
    return pair_of(store, RUN "/done") || pair_of(store, RUN "/stop");
}

/* Who has led in that term; NULL: nobody has got to it. */
static struct process *of_term(const struct culm_sim *sim, uint64_t term) {
    for (int32_t i = -1; i < sim->later_count; i++) {
        struct process *process = i < 0 ? sim->process[0] : sim->later[i];
        if (process->term == term) {
            return process;
        }
    }
    return NULL;
}

/* What a deed has to say for more. */
static void about_in(const char *value, char ret_about[CULM_DEED_ABOUT_MAX]) {
    static const char name[] = "\"about\":\"";
    const char *at = strstr(value, name);
    at = at ? at + strlen(name) : "";
    snprintf(ret_about, CULM_DEED_ABOUT_MAX, "%.*s", (int)strcspn(at, "\""), at);
}

/* As it was before: the term in which the asker had the key, whether anybody had, and the last term. */
struct before {
    uint64_t term, last;
    bool any, over;
};

static void judge(struct candidate *from, const struct culm_keys_change *change,
                  const struct before *before) {
    struct sim_store *store = from->sim->store;
    const char *key = change->key;
    const uint64_t term = change->value ? number_in(change->value, "\"term\":") : 0;
    const bool deed = strcmp(key, RUN "/back") == 0 || strcmp(key, RUN "/stop") == 0 ||
                      strcmp(key, RUN "/done") == 0 || strcmp(key, RUN "/commit") == 0;
    const bool commit = strcmp(key, RUN "/commit") == 0;
    const bool node = strncmp(key, RUN "/node/", strlen(RUN "/node/")) == 0;
    if (strcmp(key, RUN "/leader") == 0 && change->value &&
        (before->any || before->over || term != before->last + 1)) {
        wrong(store, "%s made the leader's key out of turn", from->id);
    }
    if ((deed || node) && (before->term == 0 || (change->value && term != before->term))) {
        wrong(store, "%s wrote %s, and has not the key of that term", from->id, key);
    }
    if (deed && before->over) {
        wrong(store, "%s wrote %s after the end", from->id, key);
    }
    const int64_t step = deed ? (int64_t)number_in(change->value, "\"step\":") : 0;
    if (commit && store->committed >= 0 && step != store->committed + 1 &&
        step != store->back + 1) {
        wrong(store, "%s committed %lld after %lld", from->id, (long long)step,
              (long long)store->committed);
    }
    if (commit) {
        store->committed = step;
        store->back = -1;
    } else if (strcmp(key, RUN "/back") == 0) {
        store->back = step;
    }
    const enum culm_deed done = strcmp(key, RUN "/back") == 0   ? CULM_DEED_ROLL_BACK
                                : strcmp(key, RUN "/stop") == 0 ? CULM_DEED_STOP
                                : commit                        ? CULM_DEED_COMMIT
                                                                : CULM_DEED_DONE;
    if (deed && from->sim->o.deed) {
        char about[CULM_DEED_ABOUT_MAX];
        about_in(change->value, about);
        from->sim->o.deed(from->sim->o.event_context, done, term, step, about);
    }
    struct process *leader = deed ? of_term(from->sim, term) : NULL;
    if (leader) {
        leader->done[done]++;
        (void)sim_moment(leader, CULM_SIM_WRITTEN, done);
    }
    if (node && change->value && from->process->term == term) {
        (void)sim_moment(from->process, CULM_SIM_WRITTEN, CULM_SIM_ADMITS);
    }
}

static void do_it(struct candidate *from, struct culm_lead_question *q) {
    struct sim_store *store = from->sim->store;
    look_at_leases(store);
    const struct culm_keys_pair *last = pair_of(store, RUN "/term");
    const struct before before = {.term = has_key(store, from),
                                  .last = last ? strtoull(last->value, NULL, 10) : 0,
                                  .any = pair_of(store, RUN "/leader") != NULL,
                                  .over = is_over(store)};
    culm_lead_question_answer(q, &store->memory->keys);
    for (size_t i = 0; q->kind == CULM_LEAD_TRANSACT && q->status == CULM_OK && q->yes &&
                       i < q->what.change_count;
         i++) {
        judge(from, &q->what.change[i], &before);
    }
}

/* --- questions --- */

static void on_answer(struct culm_sim *sim, const struct happen *happen) {
    struct candidate *c = happen->of;
    (void)sim;
    if (!is_absent(c, happen)) {
        culm_lead_answered(c->lead);
    }
}

static void reply(struct candidate *c) {
    struct sim_store *store = c->sim->store;
    uint64_t delay = delay_of(store);
    if (c->question->status == CULM_ERR_AGAIN) { /* it waits in vain for a while */
        delay += draw(store, (uint64_t)c->sim->o.lease_ms * MS / 4);
    } else if (c->fault == SLOW) {
        delay += draw(store, (uint64_t)c->sim->o.lease_ms * MS * 3 / 2);
    }
    sim_schedule(c->sim, c->sim->now_ns + delay, (struct happen){.call = on_answer, .of = c});
}

static void no_answer(struct candidate *c) {
    c->held = false;
    culm_keys_list_release(&c->question->list);
    c->question->status = CULM_ERR_AGAIN;
    reply(c);
}

static void on_look(struct culm_sim *sim, const struct happen *happen);

/* One that waits for a change is held until there is one. */
static void hold(struct candidate *c) {
    struct sim_store *store = c->sim->store;
    struct culm_lead_question *q = c->question;
    const uint64_t until = c->asked_ns + (uint64_t)q->ms * MS;
    if (is_away(c)) {
        no_answer(c);
        return;
    }
    look_at_leases(store);
    q->yes = culm_keys_memory_changed(store->memory, q->prefix, q->revision);
    if (q->yes || c->sim->now_ns >= until) {
        q->status = CULM_OK;
        c->held = false;
        reply(c);
        return;
    }
    uint64_t at = until;
    for (size_t i = 0; i < store->memory->lease_count; i++) {
        at = store->memory->lease[i].ends_ns < at ? store->memory->lease[i].ends_ns : at;
    }
    c->held = true;
    sim_schedule(c->sim, at, (struct happen){.call = on_look, .of = c, .number = ++c->holds});
}

static void on_look(struct culm_sim *sim, const struct happen *happen) {
    struct candidate *c = happen->of;
    (void)sim;
    if (c->held && c->holds == happen->number) {
        hold(c);
    }
}

static void look_all(struct sim_store *store) {
    for (int32_t i = 0; i < store->count; i++) {
        if (store->candidate[i]->held) {
            hold(store->candidate[i]);
        }
    }
}

static void on_late(struct culm_sim *sim, const struct happen *happen) {
    struct late *late = happen->of;
    if (sim->now_ns >= sim->store->away_until_ns) {
        do_it(late->from, &late->question);
        look_all(sim->store);
    }
    free(late);
}

static void put_off(struct candidate *c) {
    struct sim_store *store = c->sim->store;
    struct late *late = malloc(sizeof *late);
    if (!late) {
        abort();
    }
    *late = (struct late){c, *c->question};
    struct culm_lead_question *q = &late->question;
    q->list = (struct culm_keys_list){0};
    q->what.condition = q->condition;
    q->what.change = q->change;
    for (size_t k = 0; k < CULM_LEAD_CHANGES; k++) { /* of the copy, not of what it is one of */
        q->condition[k].key = q->key[k];
        q->change[k].key = q->key[CULM_LEAD_CHANGES + k];
        q->change[k].value = q->change[k].value ? q->value[k] : NULL;
    }
    sim_schedule(c->sim, c->sim->now_ns + MS + draw(store, (uint64_t)c->sim->o.lease_ms * MS * 6),
                 (struct happen){.call = on_late, .of = late});
}

static void on_arrival(struct culm_sim *sim, const struct happen *happen) {
    struct candidate *c = happen->of;
    if (is_away(c) || c->fault == NOT_DONE) {
        no_answer(c);
        return;
    }
    if (c->fault == DONE_LATE) {
        culm_sim_log(sim, "what %s asks the store comes there late", c->id);
        put_off(c);
        no_answer(c);
        return;
    }
    if (c->question->kind == CULM_LEAD_WAIT) {
        hold(c);
        return;
    }
    do_it(c, c->question);
    if (c->fault == NO_ANSWER) {
        culm_sim_log(sim, "what %s asks the store is done and not answered", c->id);
        no_answer(c);
    } else {
        reply(c);
    }
    look_all(sim->store);
}

/* --- a candidate's surroundings --- */

static uint64_t now_ns(void *ctx) { return ((const struct candidate *)ctx)->sim->now_ns; }

static void ask(void *ctx, struct culm_lead_question *question) {
    struct candidate *c = ctx;
    struct sim_store *store = c->sim->store;
    const bool faulty = c->sim->now_ns < c->sim->o.store_faults_ns &&
                        draw(store, 100) < c->sim->o.store_fault_percent;
    c->question = question;
    c->asked_ns = c->sim->now_ns;
    c->held = false;
    c->fault = faulty ? (enum fault)(NOT_DONE + draw(store, FAULTS - NOT_DONE)) : HEALTHY;
    c->fault = c->fault == DONE_LATE && question->kind != CULM_LEAD_TRANSACT ? NOT_DONE : c->fault;
    const uint64_t slow =
        c->fault == SLOW && draw(store, 2) ? draw(store, (uint64_t)c->sim->o.lease_ms * MS) : 0;
    sim_schedule(c->sim, c->sim->now_ns + delay_of(store) + slow,
                 (struct happen){.call = on_arrival, .of = c});
}

static void on_tick(struct culm_sim *sim, const struct happen *happen) {
    struct candidate *c = happen->of;
    (void)sim;
    if (c->timers == happen->number && !is_absent(c, happen)) {
        culm_lead_tick(c->lead);
    }
}

static void set_timer(void *ctx, int64_t ms) {
    struct candidate *c = ctx;
    sim_schedule(c->sim, c->sim->now_ns + (uint64_t)ms * MS + MS,
                 (struct happen){.call = on_tick, .of = c, .number = ++c->timers});
}

/* Who takes part, as the list of all keys says. */
static void note_known(struct culm_sim *sim, const struct culm_keys_list *list) {
    static const char prefix[] = RUN "/node/";
    free(sim->known);
    sim->known_count = 0;
    sim->known = calloc(list->count + 1, sizeof *sim->known);
    for (size_t i = 0; i < list->count && sim->known; i++) {
        const char *key = list->pair[i].key;
        if (strncmp(key, prefix, strlen(prefix)) == 0) {
            const int32_t node = (int32_t)strtol(key + strlen(prefix), NULL, 10);
            sim->known[sim->known_count++] =
                (struct culm_known_node){node, sim_info_of(sim_process(sim, node))};
        }
    }
}

static void leads(void *ctx, uint64_t term, const struct culm_keys_list *list) {
    struct candidate *c = ctx;
    struct culm_sim *sim = c->sim;
    culm_sim_log(sim, "%s leads in term %llu, as %d", c->id, (unsigned long long)term,
                 c->process->id);
    sim_lead(sim, c->process, term);
    note_known(sim, list);
    const struct culm_sim_reign reign = sim_reign_of(sim, c->process);
    sim->o.leads(sim->o.event_context, &reign);
}

static void written(void *ctx, enum culm_deed deed) {
    struct candidate *c = ctx;
    if (!c->process->roster) {
        return; /* the one that asked for it has left */
    }
    if (c->process->deeds[deed] >= c->process->done[deed]) {
        wrong(c->sim->store, "%s hears that it has written what the store has not", c->id);
    }
    sim_written(c->process, deed);
}

static void entered(void *ctx, int32_t node) {
    struct candidate *c = ctx;
    char key[32];
    snprintf(key, sizeof key, RUN "/node/%d", node);
    struct process *worker = sim_process(c->sim, node);
    if (!pair_of(c->sim->store, key)) { /* that it is gone, or it has gone at once */
        if (!worker->told_gone) {
            wrong(c->sim->store, "%s hears that node %d takes part, and the store does not", c->id,
                  node);
        }
        return;
    }
    worker->admitted = true;
    if (c->process->roster &&
        sim_moment(c->process, CULM_SIM_KNOWS, CULM_SIM_ADMITS)) { /* nothing, if it has gone */
        culm_roster_admit(c->process->roster, node);
    }
}

static void deposed(void *ctx) {
    struct candidate *c = ctx;
    culm_sim_log(c->sim, "%s leads no more", c->id);
    struct process *leader = c->process;
    if (leader->roster) {
        sim_depose(leader);
    }
    if (leader->roster && c->process == leader) { /* it has not begun yet */
        sim_stand_left(leader);
        culm_sim_kill(c->sim, leader->id);
    }
    culm_lead_stand(c->lead);
}

static void away(void *ctx, int64_t ms) {
    const struct candidate *c = ctx;
    if (c->process->started && !c->process->left && c->process->ops->leads->away) {
        c->process->ops->leads->away(c->process->actor, ms);
    }
}

static void on_over(struct culm_sim *sim, const struct happen *happen) {
    if (!sim->leader_left) {
        sim->leader_left = true;
        sim->over = (int)happen->number + 1;
        sim->exit_code = happen->number == CULM_DEED_STOP ? 75 : 0;
    }
}

static void over(void *ctx, enum culm_deed how) {
    struct candidate *c = ctx;
    culm_sim_log(c->sim, "%s hears that the run is over", c->id);
    sim_schedule(c->sim, c->sim->now_ns + OVER_NS,
                 (struct happen){.call = on_over, .number = (uint64_t)how});
}

static const struct culm_lead_ops lead_ops = {.size = sizeof lead_ops,
                                              .now_ns = now_ns,
                                              .ask = ask,
                                              .timer = set_timer,
                                              .leads = leads,
                                              .written = written,
                                              .entered = entered,
                                              .deposed = deposed,
                                              .over = over,
                                              .away = away};

/* --- for the world --- */

void sim_stand_write(struct process *leader, enum culm_deed deed, int64_t step, const char *about) {
    struct candidate *c = leader->candidate;
    if (c->process == leader && culm_lead_leads(c->lead)) {
        culm_lead_write(c->lead, deed, step, about);
    }
}

const char *sim_stand_committed(struct culm_sim *sim) {
    struct sim_store *store = sim->store;
    if (!store) {
        return "";
    }
    culm_lead_about(&store->memory->list, RUN, CULM_DEED_COMMIT, store->about);
    return store->about;
}

void sim_stand_give_up(struct process *leader) {
    struct candidate *c = leader->candidate;
    if (c->process == leader && culm_lead_leads(c->lead)) {
        culm_sim_log(c->sim, "%s gives up", c->id);
        culm_lead_give_up(c->lead);
    }
}

bool sim_stand_admit(struct process *leader, const struct process *worker) {
    struct candidate *c = leader->candidate;
    char about[64];
    snprintf(about, sizeof about, "{\"term\":%llu,\"role\":%u}", (unsigned long long)leader->term,
             worker->role);
    return c->process == leader && culm_lead_leads(c->lead) &&
           culm_lead_enter(c->lead, worker->id, about);
}

void sim_stand_gone(struct process *leader, struct process *worker) {
    struct candidate *c = leader->candidate;
    if (c && worker->admitted && c->process == leader && culm_lead_leads(c->lead)) {
        worker->told_gone = culm_lead_enter(c->lead, worker->id, NULL);
    }
}

void sim_stand_left(struct process *leader) {
    struct candidate *c = leader->candidate;
    struct process *next = c && c->process == leader ? sim_leader_new(leader->sim) : NULL;
    if (next) {
        next->candidate = c;
        c->process = next;
    }
}

static uint64_t now_of_store(void *ctx) { return ((const struct sim_store *)ctx)->sim->now_ns; }

static void never(void *ctx, uint64_t ns) {
    (void)ctx;
    (void)ns;
    abort(); /* those who wait are held here */
}

bool sim_stand_begin(struct culm_sim *sim) {
    struct sim_store *store = calloc(1, sizeof *store);
    if (!store) {
        return false;
    }
    sim->store = store;
    store->sim = sim;
    store->random = culm_rng_mix(sim->o.seed, 3);
    store->committed = store->back = -1;
    store->memory = culm_keys_memory_new(now_of_store, never, store);
    return store->memory != NULL;
}

void sim_stand_end(struct culm_sim *sim) {
    struct sim_store *store = sim->store;
    if (!store) {
        return;
    }
    for (size_t i = 0; i < sim->heap_count; i++) {
        if (sim->heap[i].call == on_late) {
            free(sim->heap[i].of);
        }
    }
    for (int32_t i = 0; i < store->count; i++) {
        culm_lead_free(store->candidate[i]->lead);
        free(store->candidate[i]);
    }
    if (store->memory) {
        culm_keys_close(&store->memory->keys);
    }
    free(store);
}

void sim_stand_join(struct culm_sim *sim, struct process *process) {
    struct sim_store *store = sim->store;
    struct candidate *c = calloc(1, sizeof *c);
    if (!c) {
        abort();
    }
    c->sim = sim;
    c->process = process;
    process->candidate = c;
    snprintf(c->id, sizeof c->id, "c%d", store->count);
    snprintf(c->address, sizeof c->address, CULM_SIM_ADDRESS, process->id);
    const struct culm_lead_options options = {.run = RUN,
                                              .id = c->id,
                                              .address = c->address,
                                              .lease_ms = sim->o.lease_ms,
                                              .most = (int64_t)(sim->o.seed % 3), /* 0: any */
                                              .end_ms = sim->o.store_end_ms,
                                              .random = draw(store, UINT64_MAX),
                                              .ops = &lead_ops,
                                              .ctx = c};
    c->lead = culm_lead_new(&options);
    if (!c->lead) {
        abort();
    }
    store->candidate[store->count++] = c;
    culm_lead_stand(c->lead);
}

/* --- from outside --- */

bool culm_sim_candidate(struct culm_sim *sim) {
    struct process *process = sim_leader_new(sim);
    if (process) {
        culm_sim_log(sim, "another candidate comes, %d", process->id);
        sim_stand_join(sim, process);
    }
    return process != NULL;
}

void culm_sim_store_away(struct culm_sim *sim, uint64_t for_ns) {
    culm_sim_log(sim, "the store is away for %.1f ms", (double)for_ns / 1e6);
    sim->store->away_until_ns = sim->now_ns + for_ns;
}

bool culm_sim_store_is_away(const struct culm_sim *sim) {
    return sim->store && sim->now_ns < sim->store->away_until_ns;
}

void culm_sim_store_cut(struct culm_sim *sim, int32_t process, uint64_t for_ns) {
    struct candidate *c = sim_process(sim, process)->candidate;
    culm_sim_log(sim, "%s is cut from the store for %.1f ms", c->id,
                 for_ns == CULM_NEVER ? -1.0 : (double)for_ns / 1e6);
    c->cut_until_ns = for_ns == CULM_NEVER ? CULM_NEVER : sim->now_ns + for_ns;
}

static void on_refused(struct culm_sim *sim, const struct happen *happen) {
    struct candidate *c = happen->of;
    if (!is_absent(c, happen)) {
        culm_sim_log(sim, "%s finds that the leader is not there", c->id);
        culm_lead_refused(c->lead, happen->number);
    }
}

void culm_sim_refused(struct culm_sim *sim, int32_t id) {
    const struct process *dead = sim_process(sim, id);
    struct sim_store *store = sim->store;
    for (int32_t i = 0; i < store->count && dead->term > 0; i++) {
        if (store->candidate[i]->process->alive) {
            sim_schedule(sim, sim->now_ns + MS + draw(store, 20 * MS),
                         (struct happen){
                             .call = on_refused, .of = store->candidate[i], .number = dead->term});
        }
    }
}

bool culm_sim_may(const struct culm_sim *sim, int32_t id) {
    const struct process *process = sim_process(sim, id);
    if (!sim->store) {
        return process == sim->leads;
    }
    look_at_leases(sim->store);
    return process->candidate->process == process && !is_away(process->candidate) &&
           process->term > 0 && has_key(sim->store, process->candidate) == process->term;
}

bool culm_sim_over(const struct culm_sim *sim, enum culm_deed *ret_how) {
    if (sim->over) {
        *ret_how = (enum culm_deed)(sim->over - 1);
    }
    return sim->over != 0;
}

const char *culm_sim_wrong(const struct culm_sim *sim) {
    return sim->store && sim->store->wrong[0] ? sim->store->wrong : NULL;
}

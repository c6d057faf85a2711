/* One question after another. See lead.h. */
#include "crew/lead.h"

#include "base/grow.h"
#include "base/mark.h"
#include "base/rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS 1000000ull
#define PAUSE_MS 200 /* before a store that has not answered is asked again */
#define JITTER_MS 50
#define ABOUT ",\"about\":\""
#define WAIT_MS 500        /* at most, so that what it is told meanwhile is not left lying; */
#define CROWD_WAIT_MS 2000 /* of one that does not wait for the key */
#define CROWD_LOOK 3       /* leases, between two looks of it */
#define CROWD_JITTER_MS 1000

/* What the question that is being answered is asked for. */
enum doing {
    NOTHING,
    GRANTING,    /* a lease */
    LOOKING,     /* what there is */
    ENTERING,    /* the list of those who wait */
    WAITING,     /* for a change */
    KEEPING,     /* the lease */
    STANDING,    /* making the key */
    TAKING,      /* looks at what there is, since it has the key */
    WRITING,     /* a deed */
    NOTING,      /* who takes part, or is gone */
    SAVING,      /* which checkpoint is the newest */
    CHECKING,    /* whether it is written, and whether the key is still there */
    WITHDRAWING, /* from the list of those who wait */
    CLEARING,    /* the list of those who led in vain */
    YIELDING,    /* the key */
    REVOKING,    /* the lease of one that is not there */
};

/* Besides deeds, whose keys one that comes late must not undo either: */
enum { SAVED = CULM_DEEDS, CULM_LEAD_DEEDS };

static const char *const deed_name[CULM_LEAD_DEEDS] = {[CULM_DEED_ROLL_BACK] = "back",
                                                       [CULM_DEED_STOP] = "stop",
                                                       [CULM_DEED_DONE] = "done",
                                                       [CULM_DEED_COMMIT] = "commit",
                                                       [SAVED] = "saved"};

/* The keys that are looked at, in order: nobody reads the configuration of a run once a second. */
static const char *const of_leaders[] = {"ask",  "back",   "commit", "done",  "idle",
                                         "ids",  "leader", "node/",  "saved", "stand/",
                                         "stop", "term",   NULL};
static const char *const of_others[] = {"done", "idle", "leader", "stand/", "stop", "term", NULL};

struct culm_lead {
    struct culm_lead_options o;
    struct culm_lead_question question;
    enum doing doing;
    bool stands; /* it waits for the key, or leads */
    bool leads, entered;
    int64_t lease, lease_ms;
    int64_t key_created;
    uint64_t term, kept_ns; /* when the lease was kept last, */
    uint64_t looked_ns;     /* and, without one, whether more are to wait */
    uint64_t away_ns;       /* since when the store has not answered; 0: it has */
    int64_t revision;       /* of what it has seen last */
    bool deed_due, gives_up, clears;
    bool deed_asked; /* it may be written */
    enum culm_deed deed;
    char deed_value[CULM_LEAD_TEXT_MAX];
    /* Of the key of that deed, as it was seen last: one that comes late does not undo a later one. */
    int64_t deed_created[CULM_LEAD_DEEDS], deed_changed[CULM_LEAD_DEEDS];
    struct culm_lead_entry {
        int32_t node;
        char value[CULM_LEAD_TEXT_MAX]; /* "": it is gone */
    } * entry;                          /* who takes part, or does no more, to be written */
    int32_t entry_count, entry_capacity;
    int32_t noting; /* so many of them, the first */
    /* Of the key `ids`, as of that of a deed. */
    int64_t ids_created, ids_changed, ids_next, noted_next;
    bool was_asked, saved_due;
    char saved_value[CULM_LEAD_TEXT_MAX];
    uint64_t writes, random;
    uint64_t refused_term; /* of a leader that is not there; 0: none is known of */
};

/* --- questions --- */

void culm_lead_question_answer(struct culm_lead_question *q, struct culm_keys *keys) {
    int64_t revision = 0;
    q->yes = false;
    switch (q->kind) {
    case CULM_LEAD_GRANT:
        q->status = keys->ops->grant(keys, q->ms, &q->lease, &q->ms, &q->error);
        break;
    case CULM_LEAD_KEEP: q->status = keys->ops->keep(keys, q->lease, &q->error); break;
    case CULM_LEAD_REVOKE: q->status = keys->ops->revoke(keys, q->lease, &q->error); break;
    case CULM_LEAD_LIST:
        q->status = keys->ops->list(keys, q->prefix, q->rest, &q->list, &q->error);
        break;
    case CULM_LEAD_WAIT:
        q->status = keys->ops->wait(keys, q->prefix, q->revision, q->ms, &q->yes, &q->error);
        break;
    case CULM_LEAD_TRANSACT:
        q->status = keys->ops->transact(keys, &q->what, &q->yes, &revision, &q->error);
        q->revision = revision;
        break;
    }
}

static void ask(struct culm_lead *lead, enum doing doing, enum culm_lead_kind kind) {
    struct culm_lead_question *q = &lead->question;
    q->kind = kind;
    q->status = CULM_OK;
    culm_keys_list_release(&q->list);
    snprintf(q->prefix, sizeof q->prefix, "%s/%s", lead->o.run,
             kind == CULM_LEAD_WAIT ? "leader" : "");
    q->rest = lead->leads || doing == TAKING ? of_leaders : of_others;
    q->what.condition = q->condition;
    q->what.change = q->change;
    lead->doing = doing;
    lead->o.ops->ask(lead->o.ctx, q);
}

static void begin_transaction(struct culm_lead *lead) {
    lead->question.what = (struct culm_keys_transaction){0};
}

static const char *key_in(struct culm_lead *lead, size_t at, const char *name, const char *more) {
    char *key = lead->question.key[at];
    snprintf(key, sizeof lead->question.key[at], "%s/%s%s", lead->o.run, name, more);
    return key;
}

/* It is there since that revision, 0: is not there; and was changed last in that one, 0: whenever. */
static void when(struct culm_lead *lead, const char *name, int64_t created, int64_t changed) {
    struct culm_lead_question *q = &lead->question;
    const size_t at = q->what.condition_count++;
    q->condition[at] = (struct culm_keys_condition){key_in(lead, at, name, ""), created, changed};
}

/* `value` NULL: it is removed. */
static void then_put(struct culm_lead *lead, const char *name, const char *more, const char *value,
                     int64_t lease) {
    struct culm_lead_question *q = &lead->question;
    const size_t at = q->what.change_count++;
    if (value) {
        snprintf(q->value[at], sizeof q->value[at], "%s", value);
    }
    q->change[at] =
        (struct culm_keys_change){key_in(lead, CULM_LEAD_CHANGES + at, name, more),
                                  value ? q->value[at] : NULL, value ? strlen(value) : 0, lease};
}

/* --- what there is --- */

static const struct culm_keys_pair *pair_of(const struct culm_lead *lead, const char *name) {
    char key[CULM_LEAD_RUN_MAX + 96];
    snprintf(key, sizeof key, "%s/%s", lead->o.run, name);
    return culm_keys_find(&lead->question.list, key);
}

/* Is that candidate in the list of those who have led in vain, or one that stood for the same machine before it? The list is
 * "ID,ID,"; of an id, what is in front of a '-' is the machine's. */
static bool is_idle(const struct culm_lead *lead, const char *id) {
    const struct culm_keys_pair *idle = pair_of(lead, "idle");
    const size_t len = strcspn(id, "-");
    for (const char *at = idle ? idle->value : ""; *at; at += strcspn(at, ",") + 1) {
        if (strncmp(at, id, len) == 0 && (at[len] == ',' || at[len] == '-')) {
            return true;
        }
        if (!strchr(at, ',')) {
            break;
        }
    }
    return false;
}

/* The id of the candidate that waits, as pair `i` of the list says; NULL: that says something else. */
static const char *who_waits(const struct culm_lead *lead, size_t i) {
    char prefix[CULM_LEAD_RUN_MAX + 16];
    const int len = snprintf(prefix, sizeof prefix, "%s/stand/", lead->o.run);
    const char *key = lead->question.list.pair[i].key;
    return strncmp(key, prefix, (size_t)len) == 0 ? key + len : NULL;
}

/* Whether as many wait as are to, beside this one, or longer than it. Those who have led in vain keep nobody from waiting, who may
 * be able to. */
static bool enough_wait(const struct culm_lead *lead, const struct culm_keys_pair *key) {
    char own[CULM_LEAD_RUN_MAX + 16];
    snprintf(own, sizeof own, "stand/%s", lead->o.id);
    const struct culm_keys_pair *mine = lead->entered ? pair_of(lead, own) : NULL;
    int64_t count = 0;
    for (size_t i = 0; i < lead->question.list.count; i++) {
        const struct culm_keys_pair *pair = &lead->question.list.pair[i];
        const char *id = who_waits(lead, i);
        char quoted[CULM_LEAD_RUN_MAX];
        snprintf(quoted, sizeof quoted, "\"%s\"", id ? id : "");
        count += id && !is_idle(lead, id) && !strstr(key->value, quoted) &&
                 (!mine || pair->created < mine->created);
    }
    return lead->o.most > 0 && count >= lead->o.most && !(mine && is_idle(lead, lead->o.id));
}

/* Does another one wait who has not led in vain? */
static bool another_waits(const struct culm_lead *lead) {
    for (size_t i = 0; i < lead->question.list.count; i++) {
        const char *id = who_waits(lead, i);
        if (id && strcmp(id, lead->o.id) != 0 && !is_idle(lead, id)) {
            return true;
        }
    }
    return false;
}

static uint64_t last_term(const struct culm_lead *lead) {
    const struct culm_keys_pair *term = pair_of(lead, "term");
    return term ? strtoull(term->value, NULL, 10) : 0;
}

static void note_deeds(struct culm_lead *lead) {
    for (size_t i = 0; i < CULM_LEAD_DEEDS; i++) {
        const struct culm_keys_pair *deed = pair_of(lead, deed_name[i]);
        lead->deed_created[i] = deed ? deed->created : 0;
        lead->deed_changed[i] = deed ? deed->changed : 0;
    }
    const struct culm_keys_pair *ids = pair_of(lead, "ids");
    lead->ids_created = ids ? ids->created : 0;
    lead->ids_changed = ids ? ids->changed : 0;
    lead->ids_next = ids ? (int64_t)strtoull(ids->value, NULL, 10) : 0;
}

static void entry_name(int32_t node, char ret_name[32]) {
    snprintf(ret_name, 32, "node/%d", (int)node);
}

/* As the list says. */
static bool is_entered(const struct culm_lead *lead, const struct culm_lead_entry *entry) {
    char name[32];
    entry_name(entry->node, name);
    const struct culm_keys_pair *pair = pair_of(lead, name);
    return entry->value[0] ? pair && strcmp(pair->value, entry->value) == 0 : !pair;
}

/* Whether the key is this candidate's, made in this reign or in one that it has not heard of. */
static bool is_mine(const struct culm_lead *lead, const struct culm_keys_pair *key) {
    return key && lead->lease && key->lease == lead->lease;
}

/* --- steps --- */

static void look(struct culm_lead *lead) { ask(lead, LOOKING, CULM_LEAD_LIST); }

static void grant(struct culm_lead *lead) {
    lead->question.ms = lead->o.lease_ms;
    ask(lead, GRANTING, CULM_LEAD_GRANT);
}

static void rest(struct culm_lead *lead, int64_t ms) {
    lead->doing = NOTHING;
    lead->o.ops->timer(lead->o.ctx, ms);
}

static void enter(struct culm_lead *lead) {
    begin_transaction(lead);
    then_put(lead, "stand/", lead->o.id, lead->o.address, lead->lease);
    ask(lead, ENTERING, CULM_LEAD_TRANSACT);
}

static void wait(struct culm_lead *lead) {
    const int64_t third = lead->lease_ms / 3;
    lead->refused_term = 0; /* of one that led before */
    lead->question.ms = !lead->lease ? CROWD_WAIT_MS : third < WAIT_MS ? third : WAIT_MS;
    lead->question.revision = lead->revision;
    ask(lead, WAITING, CULM_LEAD_WAIT);
}

/* Its lease ends, and its key in the list with it. */
static void withdraw(struct culm_lead *lead) {
    lead->question.lease = lead->lease;
    ask(lead, WITHDRAWING, CULM_LEAD_REVOKE);
}

static void keep(struct culm_lead *lead) {
    lead->question.lease = lead->lease;
    ask(lead, KEEPING, CULM_LEAD_KEEP);
}

static void stand(struct culm_lead *lead) {
    const struct culm_keys_pair *last = pair_of(lead, "term");
    char value[CULM_LEAD_TEXT_MAX], term[32];
    lead->term = last_term(lead) + 1;
    snprintf(term, sizeof term, "%llu", (unsigned long long)lead->term);
    snprintf(value, sizeof value, "{\"term\":%s,\"id\":\"%s\",\"address\":\"%s\"}", term,
             lead->o.id, lead->o.address);
    const int64_t created = last ? last->created : 0, changed = last ? last->changed : 0;
    begin_transaction(lead);
    when(lead, "leader", 0, 0);
    when(lead, "term", created, changed); /* nobody has led since, and ended the run perhaps */
    then_put(lead, "leader", "", value, lead->lease);
    then_put(lead, "term", "", term, 0);
    ask(lead, STANDING, CULM_LEAD_TRANSACT);
}

static void write_key(struct culm_lead *lead, int which, const char *value, enum doing doing) {
    begin_transaction(lead);
    when(lead, "leader", lead->key_created, 0);
    when(lead, deed_name[which], lead->deed_created[which], lead->deed_changed[which]);
    then_put(lead, deed_name[which], "", value, 0);
    ask(lead, doing, CULM_LEAD_TRANSACT);
}

static void is_written(struct culm_lead *lead, int which, int64_t revision) {
    lead->deed_changed[which] = revision;
    if (!lead->deed_created[which]) {
        lead->deed_created[which] = revision;
    }
}

static void write_deed(struct culm_lead *lead) {
    lead->deed_asked = true;
    write_key(lead, (int)lead->deed, lead->deed_value, WRITING);
}

/* Whether no entry before that one is of the same node. */
static bool is_first_of(const struct culm_lead *lead, int32_t at) {
    int32_t i = 0;
    while (lead->entry[i].node != lead->entry[at].node) {
        i++;
    }
    return i == at;
}

/* As many as one transaction takes; of one node one thing at a time. What comes late does not bring one back that is gone: the key of
 * all ids has changed since. */
static void write_entries(struct culm_lead *lead) {
    int64_t next = lead->ids_next;
    bool comes = false;
    begin_transaction(lead);
    when(lead, "leader", lead->key_created, 0);
    lead->noting = 0;
    while (lead->noting < lead->entry_count && lead->noting < CULM_LEAD_CHANGES - 1 &&
           is_first_of(lead, lead->noting)) {
        const struct culm_lead_entry *entry = &lead->entry[lead->noting++];
        char name[32];
        entry_name(entry->node, name);
        then_put(lead, name, "", entry->value[0] ? entry->value : NULL, 0);
        comes = comes || entry->value[0];
        next = entry->value[0] && entry->node >= next ? (int64_t)entry->node + 1 : next;
    }
    lead->noted_next = comes ? next : 0;
    if (comes) {
        char value[32];
        snprintf(value, sizeof value, "%lld", (long long)next);
        when(lead, "ids", lead->ids_created, lead->ids_changed);
        then_put(lead, "ids", "", value, 0);
    }
    ask(lead, NOTING, CULM_LEAD_TRANSACT);
}

static void clear_idle(struct culm_lead *lead) {
    begin_transaction(lead);
    when(lead, "leader", lead->key_created, 0);
    then_put(lead, "idle", "", NULL, 0);
    ask(lead, CLEARING, CULM_LEAD_TRANSACT);
}

/* Those who have led in vain and still wait, and this one. */
static void add_to_idle(const struct culm_lead *lead, char *value, size_t size) {
    size_t len = (size_t)snprintf(value, size, "%s,", lead->o.id);
    for (size_t i = 0; i < lead->question.list.count; i++) {
        const char *id = who_waits(lead, i);
        if (id && strcmp(id, lead->o.id) != 0 && is_idle(lead, id) &&
            len + strlen(id) + 2 <= size) {
            len += (size_t)snprintf(value + len, size - len, "%s,", id);
        }
    }
}

static void yield(struct culm_lead *lead) {
    char value[CULM_LEAD_TEXT_MAX];
    add_to_idle(lead, value, sizeof value);
    begin_transaction(lead);
    when(lead, "leader", lead->key_created, 0);
    then_put(lead, "leader", "", NULL, 0);
    then_put(lead, "idle", "", value, 0);
    ask(lead, YIELDING, CULM_LEAD_TRANSACT);
}

static void fall(struct culm_lead *lead) {
    lead->leads = lead->stands = lead->deed_due = lead->gives_up = lead->clears = false;
    lead->was_asked = lead->saved_due = false;
    lead->entry_count = lead->noting = 0;
    lead->doing = NOTHING;
    lead->o.ops->deposed(lead->o.ctx);
}

static void take(struct culm_lead *lead) {
    CULM_MARK(crew_lead_has_the_key);
    ask(lead, TAKING, CULM_LEAD_LIST); /* what was written until then is there now */
}

/* While it leads: what is due, else it rests until the lease is to be kept. */
static void go_on(struct culm_lead *lead) {
    const uint64_t now = lead->o.ops->now_ns(lead->o.ctx);
    const uint64_t third = (uint64_t)lead->lease_ms * MS / 3;
    if (now >= lead->kept_ns + third) {
        keep(lead);
    } else if (lead->gives_up && !(lead->deed_due && lead->deed_asked)) {
        ask(lead, CHECKING, CULM_LEAD_LIST); /* whether another one waits */
    } else if (lead->deed_due) {
        write_deed(lead);
    } else if (lead->entry_count > 0) {
        write_entries(lead);
    } else if (lead->saved_due) {
        write_key(lead, SAVED, lead->saved_value, SAVING);
    } else if (lead->clears) {
        clear_idle(lead);
    } else {
        rest(lead, (int64_t)((lead->kept_ns + third - now) / MS) + 1);
    }
}

/* --- answers --- */

/* Nothing is known of what was asked: it is looked for, soon. */
static void unanswered(struct culm_lead *lead) {
    const uint64_t now = lead->o.ops->now_ns(lead->o.ctx);
    lead->away_ns = lead->away_ns ? lead->away_ns : now;
    const int64_t ms = (int64_t)((now - lead->away_ns) / MS) + 1;
    if (lead->leads && lead->o.end_ms && ms > lead->o.end_ms) {
        CULM_MARK(crew_lead_gives_up_by_itself);
        lead->lease = 0; /* it does not lead once more with the key that hangs on it */
        lead->entered = false;
        fall(lead);
        return;
    }
    CULM_MARK(crew_lead_store_does_not_answer);
    rest(lead, PAUSE_MS);
    if (lead->o.ops->away) {
        lead->o.ops->away(lead->o.ctx, ms);
    }
}

static void answered(struct culm_lead *lead) {
    if (lead->away_ns && lead->o.ops->away) {
        lead->away_ns = 0;
        lead->o.ops->away(lead->o.ctx, 0);
    }
    lead->away_ns = 0;
}

static bool is_over(struct culm_lead *lead) {
    const bool done = pair_of(lead, "done") != NULL, stopped = pair_of(lead, "stop") != NULL;
    if (!lead->leads && (done || stopped)) {
        lead->stands = false;
        lead->doing = NOTHING;
        lead->o.ops->over(lead->o.ctx, done ? CULM_DEED_DONE : CULM_DEED_STOP);
    }
    return !lead->stands;
}

/* It has seen what there is, and does not lead. */
static void seen(struct culm_lead *lead) {
    const struct culm_keys_pair *key = pair_of(lead, "leader");
    lead->revision = lead->question.list.revision;
    if (is_over(lead)) {
        return;
    }
    if (lead->o.ops->led && !is_mine(lead, key)) {
        lead->o.ops->led(lead->o.ctx, key && lead->entered ? key->value : NULL);
    }
    if (is_mine(lead, key)) {
        CULM_MARK(crew_lead_made_the_key_without_an_answer);
        lead->key_created = key->created;
        lead->term = last_term(lead);
        take(lead);
    } else if (key && enough_wait(lead, key)) {
        CULM_MARK(crew_lead_enough_wait);
        lead->looked_ns = lead->o.ops->now_ns(lead->o.ctx);
        if (lead->lease) {
            CULM_MARK(crew_lead_withdraws);
            withdraw(lead);
        } else {
            wait(lead);
        }
    } else if (!lead->lease) {
        grant(lead);
    } else if (!lead->entered) {
        enter(lead);
    } else if (key && key->lease && lead->refused_term == last_term(lead)) {
        CULM_MARK(crew_lead_revokes_the_lease_of_a_dead_leader);
        lead->question.lease = key->lease;
        ask(lead, REVOKING, CULM_LEAD_REVOKE);
    } else if (key || (is_idle(lead, lead->o.id) && another_waits(lead))) {
        wait(lead);
    } else {
        stand(lead);
    }
}

/* Those of the last transaction are. More may follow from within. */
static void entered(struct culm_lead *lead) {
    int32_t count = lead->noting;
    lead->noting = 0;
    for (; count > 0 && lead->leads; count--) {
        const int32_t node = lead->entry[0].node;
        memmove(lead->entry, lead->entry + 1, (size_t)--lead->entry_count * sizeof *lead->entry);
        lead->o.ops->entered(lead->o.ctx, node);
    }
}

static void tell_asked(struct culm_lead *lead) {
    if (!lead->was_asked && pair_of(lead, "ask")) {
        lead->was_asked = true;
        if (lead->o.ops->asked) {
            lead->o.ops->asked(lead->o.ctx);
        }
    }
}

/* It leads, and looks whether that is so, for a deed that it does not know of, or to make way. */
static void checked(struct culm_lead *lead) {
    const struct culm_keys_pair *key = pair_of(lead, "leader");
    const struct culm_keys_pair *deed = pair_of(lead, deed_name[lead->deed]);
    note_deeds(lead);
    if (is_mine(lead, key)) {
        tell_asked(lead);
    }
    if (lead->deed_due && deed && strcmp(deed->value, lead->deed_value) == 0) {
        CULM_MARK(crew_lead_deed_was_written_without_an_answer);
        lead->deed_due = false;
        lead->o.ops->written(lead->o.ctx, lead->deed);
        if (lead->stands && lead->doing == CHECKING) {
            go_on(lead);
        }
    } else if (!is_mine(lead, key)) {
        fall(lead);
    } else if (lead->noting > 0 && is_entered(lead, &lead->entry[lead->noting - 1])) {
        CULM_MARK(crew_lead_entry_was_written_without_an_answer); /* with those before it */
        entered(lead);
        if (lead->stands && lead->doing == CHECKING) {
            go_on(lead);
        }
    } else if (lead->gives_up && !(lead->deed_due && lead->deed_asked)) {
        lead->gives_up = false;
        if (another_waits(lead)) {
            CULM_MARK(crew_lead_makes_way);
            yield(lead);
        } else {
            go_on(lead);
        }
    } else {
        go_on(lead);
    }
}

static void took(struct culm_lead *lead) {
    const struct culm_keys_pair *key = pair_of(lead, "leader");
    if (!is_mine(lead, key)) { /* it slept */
        fall(lead);
        return;
    }
    lead->key_created = key->created;
    note_deeds(lead);
    lead->leads = true;
    lead->doing = NOTHING;
    lead->o.ops->leads(lead->o.ctx, lead->term, &lead->question.list);
    if (lead->stands && lead->doing == NOTHING) {
        go_on(lead);
    }
}

/* Of one that does not wait for the key: those who do have it before all the others look. */
static void waited_in_the_crowd(struct culm_lead *lead, bool changed) {
    const uint64_t now = lead->o.ops->now_ns(lead->o.ctx);
    if (changed || now >= lead->looked_ns + CROWD_LOOK * (uint64_t)lead->o.lease_ms * MS) {
        rest(lead, (int64_t)culm_rng_below(&lead->random, CROWD_JITTER_MS));
    } else {
        wait(lead);
    }
}

/* Nothing has changed, or something has. */
static void waited(struct culm_lead *lead, bool changed) {
    const uint64_t now = lead->o.ops->now_ns(lead->o.ctx);
    if (!lead->lease) {
        waited_in_the_crowd(lead, changed);
    } else if (now >= lead->kept_ns + (uint64_t)lead->lease_ms * MS / 3) {
        keep(lead);
    } else if (changed || lead->refused_term) {
        look(lead);
    } else {
        wait(lead);
    }
}

static void lease_ended(struct culm_lead *lead) {
    CULM_MARK(crew_lead_lease_has_ended);
    lead->lease = 0;
    lead->entered = false;
    if (lead->leads) {
        fall(lead);
    } else {
        look(lead);
    }
}

/* What was asked has an answer. */
static void go(struct culm_lead *lead) {
    const struct culm_lead_question *q = &lead->question;
    switch (lead->doing) {
    case GRANTING:
        lead->lease = q->lease;
        lead->lease_ms = q->ms;
        lead->kept_ns = lead->o.ops->now_ns(lead->o.ctx);
        enter(lead);
        break;
    case KEEPING:
        lead->kept_ns = lead->o.ops->now_ns(lead->o.ctx);
        if (lead->leads) {
            ask(lead, CHECKING, CULM_LEAD_LIST); /* the lease may be there without the key */
        } else {
            look(lead);
        }
        break;
    case ENTERING:
        lead->entered = true;
        look(lead);
        break;
    case WAITING: waited(lead, q->yes); break;
    case STANDING:
        if (q->yes) {
            lead->key_created = q->revision;
            take(lead);
        } else {
            CULM_MARK(crew_lead_another_was_faster);
            look(lead);
        }
        break;
    case WRITING:
        if (!q->yes) {
            ask(lead, CHECKING, CULM_LEAD_LIST);
            break;
        }
        lead->deed_due = false;
        is_written(lead, (int)lead->deed, q->revision);
        lead->doing = NOTHING;
        lead->o.ops->written(lead->o.ctx, lead->deed);
        if (lead->leads && lead->doing == NOTHING) {
            go_on(lead);
        }
        break;
    case NOTING:
        if (!q->yes) {
            ask(lead, CHECKING, CULM_LEAD_LIST);
            break;
        }
        if (lead->noted_next) {
            lead->ids_changed = q->revision;
            lead->ids_created = lead->ids_created ? lead->ids_created : q->revision;
            lead->ids_next = lead->noted_next;
        }
        lead->doing = NOTHING;
        entered(lead);
        if (lead->leads && lead->doing == NOTHING) {
            go_on(lead);
        }
        break;
    case SAVING:
        if (!q->yes) {
            ask(lead, CHECKING, CULM_LEAD_LIST); /* and it is written again */
            break;
        }
        is_written(lead, SAVED, q->revision);
        /* A newer one may have come meanwhile. */
        lead->saved_due = strcmp(lead->saved_value, lead->question.value[0]) != 0;
        go_on(lead);
        break;
    case WITHDRAWING:
        lead->lease = 0;
        lead->entered = false;
        wait(lead);
        break;
    case CLEARING:
        lead->clears = false;
        if (q->yes) {
            go_on(lead);
        } else {
            ask(lead, CHECKING, CULM_LEAD_LIST);
        }
        break;
    case YIELDING:
        if (q->yes) {
            fall(lead);
        } else {
            ask(lead, CHECKING, CULM_LEAD_LIST);
        }
        break;
    case REVOKING:
        lead->refused_term = 0;
        look(lead);
        break;
    case LOOKING: seen(lead); break;
    case TAKING: took(lead); break;
    case CHECKING: checked(lead); break;
    case NOTHING: break;
    }
}

void culm_lead_answered(struct culm_lead *lead) {
    const enum culm_status status = lead->question.status;
    if (lead->doing == NOTHING) {
        return;
    }
    if (!lead->stands) {
        lead->doing = NOTHING;
        return;
    }
    if (status == CULM_OK) {
        answered(lead);
        go(lead);
    } else if (status == CULM_ERR_NOT_FOUND) {
        answered(lead);
        lease_ended(lead);
    } else {
        unanswered(lead);
    }
}

void culm_lead_tick(struct culm_lead *lead) {
    if (!lead->stands || lead->doing != NOTHING) {
        return;
    }
    if (lead->leads && lead->away_ns) { /* whether what was asked has happened */
        ask(lead, CHECKING, CULM_LEAD_LIST);
    } else if (lead->leads) {
        go_on(lead);
    } else {
        look(lead);
    }
}

/* --- from outside --- */

struct culm_lead *culm_lead_new(const struct culm_lead_options *options) {
    struct culm_lead *lead = calloc(1, sizeof *lead);
    if (lead) {
        lead->o = *options;
        lead->random = options->random;
    }
    return lead;
}

void culm_lead_free(struct culm_lead *lead) {
    if (lead) {
        culm_keys_list_release(&lead->question.list);
        free(lead->entry);
        free(lead);
    }
}

void culm_lead_stand(struct culm_lead *lead) {
    lead->stands = true;
    lead->leads = false;
    if (lead->doing == NOTHING) {
        rest(lead, (int64_t)culm_rng_below(&lead->random, JITTER_MS));
    }
}

void culm_lead_write(struct culm_lead *lead, enum culm_deed deed, int64_t step, const char *about) {
    lead->deed = deed;
    lead->deed_due = true;
    lead->deed_asked = false;
    snprintf(lead->deed_value, sizeof lead->deed_value,
             "{\"step\":%lld,\"term\":%llu,\"number\":%llu%s%.*s%s}", (long long)step,
             (unsigned long long)lead->term, (unsigned long long)++lead->writes,
             about[0] ? ABOUT : "", CULM_DEED_ABOUT_MAX - 1, about, about[0] ? "\"" : "");
    if (lead->doing == NOTHING) {
        lead->o.ops->timer(lead->o.ctx, 0);
    }
}

void culm_lead_about(const struct culm_keys_list *list, const char *run, enum culm_deed deed,
                     char ret_about[CULM_DEED_ABOUT_MAX]) {
    char key[CULM_LEAD_RUN_MAX + 16];
    snprintf(key, sizeof key, "%s/%s", run, deed_name[deed]);
    const struct culm_keys_pair *pair = culm_keys_find(list, key);
    const char *about = pair ? strstr(pair->value, ABOUT) : NULL;
    about = about ? about + strlen(ABOUT) : "";
    snprintf(ret_about, CULM_DEED_ABOUT_MAX, "%.*s", (int)strcspn(about, "\""), about);
}

bool culm_lead_enter(struct culm_lead *lead, int32_t node, const char *value_or_null) {
    if (!CULM_GROW(lead->entry, lead->entry_capacity, lead->entry_count + 1)) {
        return false;
    }
    struct culm_lead_entry *entry = &lead->entry[lead->entry_count++];
    entry->node = node;
    snprintf(entry->value, sizeof entry->value, "%s", value_or_null ? value_or_null : "");
    if (lead->doing == NOTHING) {
        lead->o.ops->timer(lead->o.ctx, 0);
    }
    return true;
}

void culm_lead_saved(struct culm_lead *lead, int64_t step) {
    lead->saved_due = lead->leads;
    snprintf(lead->saved_value, sizeof lead->saved_value, "{\"step\":%lld,\"term\":%llu}",
             (long long)step, (unsigned long long)lead->term);
    if (lead->saved_due && lead->doing == NOTHING) {
        lead->o.ops->timer(lead->o.ctx, 0);
    }
}

void culm_lead_committed(struct culm_lead *lead) {
    lead->clears = lead->leads;
    if (lead->clears && lead->doing == NOTHING) {
        lead->o.ops->timer(lead->o.ctx, 0);
    }
}

void culm_lead_give_up(struct culm_lead *lead) {
    lead->gives_up = lead->leads;
    if (lead->gives_up && lead->doing == NOTHING) {
        lead->o.ops->timer(lead->o.ctx, 0);
    }
}

/* What it waits for ends soon by itself, and then it looks. */
void culm_lead_refused(struct culm_lead *lead, uint64_t term) { lead->refused_term = term; }

bool culm_lead_leads(const struct culm_lead *lead) { return lead->leads; }

int64_t culm_lead_lease(const struct culm_lead *lead) { return lead->lease; }

const char *culm_lead_problem(const struct culm_lead *lead) { return lead->question.error.text; }

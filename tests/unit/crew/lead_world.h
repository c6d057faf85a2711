#ifndef LEAD_WORLD_H
#define LEAD_WORLD_H

/*
 * The surroundings of candidates for leader (crew/lead.h): one store, a clock of our own that goes a millisecond at a time, and
 * members that die, freeze, lose their answers and have questions answered long after they gave them up. There is one world
 * at a time, `w`, which is open to the cases.
 *
 * What holds in all of them, and is `wrong` where it does not: no two lead in one term, terms rise, what cannot be taken back is
 * done by who has the key and by nobody after the end, and a deed is written if and only if who asked for it hears so or leads
 * no more.
 */
#include "crew/lead.h"
#include "sim/keys_memory.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LEASE_MS 1000
#define MEMBERS 8
#define NEVER UINT64_MAX
#define SECONDS_OF_FAULTS 20 /* of drawn worlds; those who lead write no last deed as long */

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
    int64_t questions; /* so far */
    enum fault fault;
    /* What its run does next. */
    uint64_t act_ms;
    bool deed_due;
    enum culm_deed deed;
    int32_t committed, written, reigns;
    uint64_t asked_deeds, done_deeds; /* numbers of the last one */
    int64_t away_ms;
    uint64_t led_term; /* of the one that leads, as it has been told while it waits; 0: nobody */
    /* Who takes part. */
    bool was_asked;
    int32_t entered, next_node; /* how often it has heard that one is written */
    int32_t here;               /* the last one that it has entered, and not taken out; 0: none */
};

/* A transaction that comes to the store when nobody waits for it any more. */
struct late {
    struct culm_lead_question question;
    size_t asker;
    uint64_t ms; /* 0: there is none */
};

struct world {
    uint64_t now_ms, random;
    int64_t lease_ms, most, end_ms; /* of those who join */
    struct culm_keys *keys;
    struct culm_keys_memory *memory;
    struct member member[MEMBERS];
    size_t count;
    struct late late[4];
    uint64_t reign[1000]; /* which member led in that term, and one */
    size_t given[1000];   /* who has given that id, and one; 0: nobody */
    bool owners;          /* the runs of those who lead act by themselves */
    enum fault next;      /* of the next transaction, or revocation */
    uint64_t late_ms;     /* by which one is late; 0: drawn */
    bool verbose;
    char wrong[200];
};

extern struct world w;

/* Begins a world, in place of the one before, of which nothing is left. */
void begin_world(uint64_t seed);

/* Ends it; whether something was wrong, which is printed. */
bool end_world(void);

/* Notes the first thing that goes wrong; `member` is who did it. */
void wrong(const char *what, size_t member);

/* Says what a member does, where somebody listens (`w.verbose`). */
void say(const struct member *m, const char *what, uint64_t number);

/* A number below that, drawn from the world's seed. */
uint64_t draw(uint64_t below);

/* The pair of that key at the store; NULL: there is none. The store's own. */
const struct culm_keys_pair *in_store(const char *key);

/* The number that follows `name` in a value; 0: there is none. */
uint64_t number_in(const char *value, const char *name);

/* Leases have ended as of now, whoever looks. */
void look_at_leases(void);

/* Who has the leader's key now, and in which term (not set if nobody has it); MEMBERS: nobody. */
size_t has_key(uint64_t *ret_term);

/* A new member of that name, alive; able: it may lead. */
void join(const char *id, bool able);

void kill_member(size_t i);

/* The member's run writes the deed that it wants, once its leader is not busy. */
void write_deed(struct member *m);

/* It writes that the node takes part, or is gone. */
void enter_node(struct member *m, int32_t node, bool gone);

/* A millisecond, and several. */
void one_ms(void);
void go_on(uint64_t ms);

#endif

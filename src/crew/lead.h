/*
 * Who leads a run, among processes that share a store of keys (net/keys.h), for any protocol: a candidate stands, waits, leads, and
 * is deposed. What cannot be taken back (net/leader.h: culm_deed) is a transaction that compares the key of the one who leads, so
 * that it is done by that one or by nobody, whatever anyone believes.
 *
 *     RUN/leader       {"term":3,"id":...,"address":...}, on a lease: ends with who leads
 *     RUN/term         of the last one, so that terms only rise
 *     RUN/stand/ID     who waits, on a lease: not all that could, but enough
 *     RUN/idle         who has led without committing anything, since somebody has, and whoever stands for the same machine after
 *                      it: stands only when nobody else waits
 *     RUN/node/ID      who takes part; a number
 *     RUN/ids          the first that has not been given: none is given twice
 *     RUN/saved        the newest checkpoint that counts
 *     RUN/ask          somebody wants the run to stop
 *     RUN/back, RUN/stop, RUN/done, RUN/commit
 *
 * No answer is no failure: what may have been done is looked for, and done again if it was not. A candidate asks one question at a
 * time; its owner has it answered elsewhere, and says when.
 *
 *     start ──▶ waits ──the key is free──▶ leads ──its lease has ended, somebody else has the key──▶ deposed
 *                 └──── the run is done, or was stopped ──▶ over
 *
 * Deposed, it may start again. If enough wait longer than it, it has no lease, and no place among them: it looks once in a while,
 * and when RUN/leader changes, after the others. Thread: the owner's.
 */
#ifndef CULM_CREW_LEAD_H
#define CULM_CREW_LEAD_H

#include "net/keys.h"
#include "net/leader.h"

#define CULM_LEAD_RUN_MAX 128
#define CULM_LEAD_TEXT_MAX 1024
#define CULM_LEAD_CHANGES 4

struct culm_lead;

enum culm_lead_kind {
    CULM_LEAD_GRANT,
    CULM_LEAD_KEEP,
    CULM_LEAD_REVOKE,
    CULM_LEAD_LIST,
    CULM_LEAD_WAIT,
    CULM_LEAD_TRANSACT,
};

/* For the store. Filled in by the candidate; the rest by culm_lead_question_answer. */
struct culm_lead_question {
    enum culm_lead_kind kind;
    int64_t lease, ms, revision;
    char prefix[CULM_LEAD_RUN_MAX + 16];
    const char *const *rest; /* of the keys to be listed */
    struct culm_keys_transaction what;
    struct culm_keys_condition condition[CULM_LEAD_CHANGES];
    struct culm_keys_change change[CULM_LEAD_CHANGES];
    char key[2 * CULM_LEAD_CHANGES][CULM_LEAD_RUN_MAX + 96];
    char value[CULM_LEAD_CHANGES][CULM_LEAD_TEXT_MAX];
    enum culm_status status;
    struct culm_error error;
    bool yes; /* it has happened; it has changed */
    struct culm_keys_list list;
};

/* Asks the store, and waits for the answer. Thread: any; nobody else may touch the question meanwhile. */
void culm_lead_question_answer(struct culm_lead_question *question, struct culm_keys *keys);

struct culm_lead_ops {
    size_t size;
    uint64_t (*now_ns)(void *ctx); /* goes on while the machine sleeps */
    /* Has it answered; then culm_lead_answered, but not from within. */
    void (*ask)(void *ctx, struct culm_lead_question *question);
    /* Calls culm_lead_tick after so many milliseconds; a later call replaces it. */
    void (*timer)(void *ctx, int64_t ms);
    /* It leads: nobody else does anything that cannot be taken back, until `deposed`. `list`: all keys of the run, as they were after
     * it had begun to; borrowed. */
    void (*leads)(void *ctx, uint64_t term, const struct culm_keys_list *list);
    /* Another one leads, as its key says (its value, borrowed), while this one waits; NULL: nobody. NULL is fine. */
    void (*led)(void *ctx, const char *value_or_null);
    /* A deed is written, as was asked. */
    void (*written)(void *ctx, enum culm_deed deed);
    /* It is written that the node takes part, or is gone. NULL: culm_lead_enter is not called. */
    void (*entered)(void *ctx, int32_t node);
    /* While it leads: somebody wants the run to stop. Once, within a third of the lease. NULL is fine. */
    void (*asked)(void *ctx);
    /* It leads no more; or never has: culm_lead_stand may follow. */
    void (*deposed)(void *ctx);
    /* The run is done (CULM_DEED_DONE), or was stopped. Nothing follows. */
    void (*over)(void *ctx, enum culm_deed how);
    /* The store has not answered for so long, each time that it was asked in vain; 0: it has again. NULL is fine. */
    void (*away)(void *ctx, int64_t ms);
};

struct culm_lead_options {
    const char *run; /* borrowed for life, as all here; without '/' */
    const char *
        id; /* of this candidate, as no other has it: no '/', ',' or '"'; "MACHINE-REST" if one stands for it after another */
    const char *address; /* where it lets nodes in; no '"' */
    int64_t lease_ms;
    /* That the store does not answer, after which one that leads gives it up by itself: it is `deposed`, and its key ends with its
     * lease. 0: never. */
    int64_t end_ms;
    int64_t
        most; /* candidates beside the one that leads, so that a store with many nodes has little to do; 0: any number */
    uint64_t random; /* so that two do not stand at the same moment again and again */
    const struct culm_lead_ops *ops;
    void *ctx;
};

struct culm_lead *culm_lead_new(const struct culm_lead_options *options); /* NULL: out of memory */
/* Not while a question is being answered. NULL is fine. */
void culm_lead_free(struct culm_lead *lead);
/* Begins to stand: once, and after each `deposed`. */
void culm_lead_stand(struct culm_lead *lead);
void culm_lead_answered(struct culm_lead *lead);
void culm_lead_tick(struct culm_lead *lead);

/* While it leads: one at a time, until `written` or `deposed`. */
void culm_lead_write(struct culm_lead *lead, enum culm_deed deed, int64_t step, const char *about);
/* What the deed had to say for more, as the list has it; "": nothing, or there is none. */
void culm_lead_about(const struct culm_keys_list *list, const char *run, enum culm_deed deed,
                     char ret_about[CULM_DEED_ABOUT_MAX]);
/* While it leads: that the node takes part, with this value; NULL: is gone. Any number at a time, beside a deed, each until
 * `entered` or `deposed`; of one node in their order. Fewer than CULM_LEAD_TEXT_MAX bytes. False: out of memory. */
bool culm_lead_enter(struct culm_lead *lead, int32_t node, const char *value_or_null);
/* While it leads: the newest checkpoint that counts is that of this step. Nobody is told when it is written. */
void culm_lead_saved(struct culm_lead *lead, int64_t step);
/* Something was committed under it: it has not led in vain. */
void culm_lead_committed(struct culm_lead *lead);
/* It cannot bring the run on by itself: another one is to try, if one waits who has not. `deposed` follows, or nothing; and no deed
 * that is asked for from now on is written before it has been found out which. */
void culm_lead_give_up(struct culm_lead *lead);
/* The process that leads in that term is not there, as its own machine says: another one may lead at once. */
void culm_lead_refused(struct culm_lead *lead, uint64_t term);
bool culm_lead_leads(const struct culm_lead *lead);
/* The lease on which what it has hangs, to be ended when it goes; 0: none. */
int64_t culm_lead_lease(const struct culm_lead *lead);
/* Why the store was asked in vain: for `away`. */
const char *culm_lead_problem(const struct culm_lead *lead);

#endif

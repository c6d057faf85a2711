/*
 * A leader's half of a crew: who is there, who is silent or stuck, which starts fail, which links are broken,
 * what is stalled, who is waited for, and when that is the end. What is computed, and who has which part in it,
 * is the owner's: a protocol's leader, whose first member is a struct culm_crew and which gives its world the
 * functions at the end of this header.
 *
 *     start ──▶ joined ──▶ came ──▶ (lose: a cause) ──▶ lost ──▶ ended, forgotten
 *       │                                                │
 *       └── ended: a start that failed ──▶ another, later each time ◀── a replacement, when it is due
 *
 * A leader that takes over from another one knows who took part, and awaits them: for those whom it awaits nothing is asked for,
 * and as long as the owner has not found out what there is (`taking`), nobody is silent or stuck.
 *
 * What ends a run: starts that fail, before anything is committed; wait_ms without what it needs; a task that
 * fails alike wherever it is tried (failures.h), or that nobody finishes (patience.h); stalls that are nobody's
 * fault (stall.h).
 *
 * Files: crew.c those who are there; starts.c starts and replacements; wait.c who is waited for; watch.c silence,
 * stuck tasks, and what is looked at in every tick; links.c broken links; ask.c stalls; take.c a leader that takes over.
 *
 * Functions may end the run (`left`), or lose mates, upon which the owner is called: whoever goes on after them
 * looks again. Pointers to mates are good until the next tick.
 * Thread: the actor's.
 */
#ifndef CULM_CREW_CREW_H
#define CULM_CREW_CREW_H

#include "base/ids.h"
#include "crew/failures.h"
#include "crew/patience.h"
#include "crew/pulse.h"
#include "crew/settings.h"
#include "crew/stall.h"
#include "crew/tell.h"
#include "crew/words.h"
#include "net/leader.h"

#define CULM_CREW_ROLES_MAX 4
/* Of starts that fail, before anything is committed: then the run ends. */
#define CULM_CREW_START_ROUNDS 5

enum { CULM_CREW_TICK, CULM_CREW_DUE, CULM_CREW_REVIEW }; /* timers of the actor */

/* Why a mate is lost, as the event "lost" says it. */
enum culm_cause {
    CULM_CAUSE_EOF,       /* its connection ended */
    CULM_CAUSE_EXIT,      /* its process ended */
    CULM_CAUSE_HEARTBEAT, /* it was silent */
    CULM_CAUSE_STUCK,     /* it does not finish a task */
    CULM_CAUSE_STALLED,   /* what others sent to it, or it to others, does not arrive */
    CULM_CAUSE_FAILED,    /* it said that it cannot go on */
    CULM_CAUSE_DIFFERS,   /* what it has is not what it should be */
    CULM_CAUSE_REMOVED,   /* a preemption trace took it away */
    CULM_CAUSE_PEER,      /* it and others cannot reach each other */
    CULM_CAUSE_LEFT,      /* it asked to leave, and was let go: no loss */
};
const char *culm_cause_name(enum culm_cause cause);

/* One that has joined; the owner's struct begins with it. */
struct culm_mate {
    int32_t id; /* its node */
    uint32_t role;
    bool alive;    /* in the run; false: lost */
    bool ended;    /* its process or connection has ended: nothing more can come of it */
    bool fenced;   /* lost, spoke again, and was told so */
    bool leaving;  /* it goes as it said, or was told: watched, but no longer counted */
    bool asks;     /* it asked to leave, and until it is `released` its end is a loss */
    bool released; /* it was told that it may end */
    bool newcomer; /* nobody in the run has started it */
    bool worked;   /* it has done something that it was there for */
    bool answered; /* the last ASK */
    bool known;    /* it took part under another leader */
    bool awaited;  /* and has not promised this one yet */
    bool kept;     /* it is silent, and may have the last copy of something */
    bool reported; /* to a leader that takes over (take.h): */
    uint64_t reported_view;
    int64_t reported_first;
    int64_t pid;     /* 0: not known */
    uint64_t origin; /* the machine that it is on, as far as that is known: 0: this one */
    uint64_t zone;   /* where that is; 0: it does not say */
    char name[64], host[CULM_PLACE_SIZE], zone_name[CULM_PLACE_SIZE];
    uint64_t joined_ns, heard_ns;
    int64_t lost_version;  /* the one that was committed last when it was lost */
    uint64_t kill_ns;      /* when to end a suspect; CULM_NEVER */
    bool of_failed_round;  /* some that were asked for with it had failed by then */
    int32_t failed_before; /* rounds of starts of its role that had failed when it joined */
    struct culm_heartbeat beat;
    uint64_t task_began_ns; /* of the task in `beat` */
    struct culm_ids broken; /* other ends of its broken links, and nothing beside them */
    /* Broken links of which it is the end that stayed, for no better reason than its age; and when that was
     * last. */
    int32_t outlived;
    uint64_t outlived_ns;
};

struct culm_crew;

/* What the owner is asked and told. */
struct culm_crew_ops {
    size_t size; /* sizeof(struct culm_crew_ops), for versioning */
    /* Of the owner's struct for a mate, which is all zero but for its first member. */
    size_t mate_bytes;
    const char *noun;            /* what a mate is called in texts: "worker", "node" */
    enum culm_cause unreachable; /* of one who goes because of a broken link */
    /* It has joined: the event, and what follows. Not of one that was awaited. */
    void (*came)(struct culm_crew *crew, struct culm_mate *mate);
    /* It is lost, and no longer `alive`: the event (culm_crew_lost_event), and what follows. */
    void (*lost)(struct culm_crew *crew, struct culm_mate *mate, enum culm_cause cause,
                 const char *why_or_null);
    /* It has gone, as it said (culm_crew_let_go), and is no loss. NULL: nobody goes like that. */
    void (*went)(struct culm_crew *crew, struct culm_mate *mate);
    /* It asks to leave, and is `leaving` from now on: it goes on, gets no part when parts are next dealt out, and is released
     * (culm_crew_release_mate) as soon as the run can do without it. Also while this leader takes over. */
    void (*leaves)(struct culm_crew *crew, struct culm_mate *mate);
    /* Frees what belongs to it, beside itself. NULL: nothing does. */
    void (*forget)(struct culm_crew *crew, struct culm_mate *mate);
    /* The deed has been written down. NULL: none is. */
    void (*written)(struct culm_crew *crew, enum culm_deed deed);
    /* A message of the protocol's own, of one who is alive. */
    void (*message)(struct culm_crew *crew, struct culm_mate *mate,
                    const struct culm_message *message);
    /* It has failed with that status, and is about to be lost. True: that has been dealt with, or means nothing
     * any more, and is not to be counted. NULL: it always counts. */
    bool (*failed)(struct culm_crew *crew, struct culm_mate *mate,
                   const struct culm_failed *failed);
    /* Whether the run stands still for want of another of that role. */
    bool (*lacks)(const struct culm_crew *crew, uint32_t role);
    /* Whether it can go on without any. NULL: of no role. */
    bool (*does_without)(const struct culm_crew *crew, uint32_t role);
    /* Whether there is something of which no other copy is left that is heard, as this one may have it: what, in words. It is waited
     * for then, though it is silent. NULL: nobody is. */
    bool (*last_copy)(const struct culm_crew *crew, const struct culm_mate *mate, char *ret_what,
                      size_t size);
    /* Of two equally suspicious ones, whether `a` goes. */
    bool (*rather)(const struct culm_mate *a, const struct culm_mate *b);
    /* The version that was committed last; where the run is, in words: "step 12". */
    int64_t (*version)(const struct culm_crew *crew);
    void (*name_place)(const struct culm_crew *crew, char *ret_text, size_t size);
    /* A task, in words; and, after "raise cluster.stuck_ms, or ", what makes such tasks shorter. */
    void (*name_task)(int32_t kind, int32_t part, char *ret_text, size_t size);
    const char *shorter;
    /* Asked for by culm_crew_review_soon. NULL: it never is. */
    void (*review)(struct culm_crew *crew, const char *why);
    /* At every tick, before stalls are looked for. */
    void (*tick)(struct culm_crew *crew, uint64_t now_ns);
    /* `cut_off` has changed: while it is set nothing is to be committed; what was is to be saved. NULL: it is looked at. */
    void (*cut)(struct culm_crew *crew);
    /* The run has ended, and everyone is about to be told END. NULL: it looks at `left`. */
    void (*over)(struct culm_crew *crew);
    /* wait_ms are over: ends the run. */
    void (*in_vain)(struct culm_crew *crew, uint32_t role);
    /* --- stalls: see ask.c --- */
    /* Whether it should be moving; a number that changes with whatever shows that it does. */
    bool (*watched)(struct culm_crew *crew);
    int64_t (*progress)(const struct culm_crew *crew);
    /* Whether this one is asked, or was. NULL: all are. */
    bool (*asked)(const struct culm_crew *crew, const struct culm_mate *mate);
    void (*forget_answer)(struct culm_crew *crew, struct culm_mate *mate);
    /* Who is to go, by the answers: `silent` if there is one, who has not answered; NULL: nobody can be blamed.
     * Publishes the event. */
    struct culm_mate *(*judge)(struct culm_crew *crew, struct culm_mate *silent_or_null,
                               int64_t silent_ms);
    /* Nobody was to blame: everybody is to say once more what it has. */
    void (*nobody)(struct culm_crew *crew, const char *why);
};

/* Those of a role: how many are wanted, and what was done about it. */
struct culm_crew_role {
    const char *name; /* "worker" */
    int32_t wanted;   /* at once */
    int32_t present;  /* alive, and not leaving */
    int32_t here;     /* of those, the ones that the agent has started */
    int32_t starting; /* asked for, and neither joined nor ended yet */
    int32_t never;    /* lost, and not to be replaced */
    uint64_t *due_ns; /* [due_count] when another is to be asked for, the earliest first */
    int32_t due_count, due_capacity;
    int32_t failed_rounds;    /* of starts, since one has worked */
    int32_t round_left;       /* starts of the last such round that may still fail */
    struct culm_error failed; /* why the last one did; status CULM_OK: it gave no reason */
    bool waits;               /* the run waits for it, and has said so */
    uint64_t until_ns;        /* and until when */
    int32_t need, have;       /* as it said */
    char why[160];
};

/* A link of which one end said that it is broken. */
struct culm_crew_link {
    int32_t a, b;
    uint64_t since_ns;
};

/* A leader that takes over: take.h. */
struct culm_crew_take {
    uint64_t began_ns;
    int32_t asked;      /* who is to show its view; -1: nobody yet */
    uint64_t asked_for; /* the view that is wanted */
    bool shown;         /* it has */
    bool told;          /* that it waits */
};

struct culm_crew {
    const struct culm_crew_ops *ops;
    struct culm_teller tell;
    struct culm_agent *agent;
    struct culm_crew_settings settings;
    /* The owner's to set: */
    int32_t most;               /* mates alive at once, beyond whom none is let in; 0: any */
    bool closing;               /* the run is about to end: nobody is started any more */
    bool traced;                /* nodes come and go by a preemption trace: none is started here */
    bool open;                  /* newcomers may come, at any time: nobody knows that none will */
    struct culm_record *record; /* NULL: nobody else can lead, and deeds need not be written */
    int64_t orphan_ms;          /* with `record`: after which a node without a leader has ended */
    bool taking;                /* it takes over, and does not know yet what there is */
    int32_t here_most;          /* of a role at once that the agent is asked for; by default any */
    bool names_roles;           /* events say the role */
    uint64_t
        view; /* its number, of which events carry the lower half: the upper one is of the term */
    /* The crew's: */
    bool writing;             /* a deed is being written */
    uint64_t led_ns, vain_ns; /* since when it leads; when it last gave up in vain */
    struct culm_crew_take take;
    bool cut_off; /* what decides who leads has not answered for store_ms: another one may lead */
    bool resigns; /* this process is to end: another one is to lead, if one waits */
    bool resign_due;         /* a round has been committed since it is so */
    uint64_t resigned_ns;    /* when that was asked for last */
    bool left;               /* the run is over: nothing more is to be done */
    struct culm_ids mates;   /* struct culm_mate, the lost ones too */
    int32_t alive, suspects; /* how many of them; lost ones whose process is to be ended later */
    struct culm_crew_role role[CULM_CREW_ROLES_MAX];
    uint32_t roles;
    struct culm_patience patience;
    struct culm_failures failures;
    struct culm_stall stall;
    struct culm_crew_link *link;
    int32_t link_count, link_capacity;
    double *pause_ms; /* of those that were made up for */
    int32_t pause_count, pause_capacity;
    const char *review_why; /* of the review that is due; NULL: none is */
    int64_t lost;           /* losses so far */
    bool committed;         /* something was, since the leader began */
    /* Something was since the last tick: in the next, the lost that have ended are forgotten. */
    bool forgets;
    uint64_t tick_ns; /* the last one; 0: none yet */
    bool slept_round; /* it has not been heard for a while in this round: it slept itself */
};

/* Pointers are borrowed for life. `version`: with which the run begins; tasks of `kinds` kinds, in `parts` parts
 * each, are watched (patience.h). Roles are added after this. */
void culm_crew_init(struct culm_crew *crew, const struct culm_crew_ops *ops,
                    struct culm_world *world, struct culm_agent *agent,
                    const struct culm_crew_settings *settings, size_t meta_max, int64_t version,
                    int32_t kinds, int32_t parts);
/* In the order of their numbers; `name` is a constant. */
void culm_crew_add_role(struct culm_crew *crew, const char *name, int32_t wanted);
void culm_crew_release(struct culm_crew *crew);

/* --- speaking --- */

uint64_t culm_crew_now(const struct culm_crew *crew);
/* As in tell.h; a message that cannot be encoded ends the run. */
struct culm_buf *culm_crew_meta(struct culm_crew *crew);
void culm_crew_send(struct culm_crew *crew, int32_t to, uint16_t type);
void culm_crew_send_all(struct culm_crew *crew, uint16_t type); /* who is alive */
/* Publishes it, with "view" added. NULL (out of memory) is fine. */
void culm_crew_event(struct culm_crew *crew, json_t *take_event_or_null);
/* What every event "lost" has; NULL: out of memory. */
json_t *culm_crew_lost_event(const struct culm_crew *crew, const struct culm_mate *mate,
                             enum culm_cause cause, const char *why_or_null);
/* It cannot bring the run on by itself just now. Where others may lead, and it has led for longer than it takes to find out who is
 * there, one of them is to try: it may reach whom this one does not. */
void culm_crew_is_vain(struct culm_crew *crew);
/* A round has been committed, and the view after it was made: if it resigns, another one is to lead from now on. */
void culm_crew_boundary(struct culm_crew *crew);
/* True: the deed is being written, and ops->written follows. False: it need not be. Not while one is (`writing`). */
bool culm_crew_write(struct culm_crew *crew, enum culm_deed deed, int64_t step);
/* The same of CULM_DEED_COMMIT, with more of it. */
bool culm_crew_write_commit(struct culm_crew *crew, int64_t version, const char *about);
/* Leads no more, and says nothing to anyone: another one leads, in that term. */
void culm_crew_give_way(struct culm_crew *crew, uint64_t term);
/* Ends the run: tells everyone END, and leaves. Nothing if it has ended. */
void culm_crew_leave(struct culm_crew *crew, int exit_code, const struct culm_error *error_or_null);
/* The same with an error, which is published. */
void culm_crew_fail(struct culm_crew *crew, enum culm_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* --- who is there --- */

/* The one at a place below mates.count, by id. */
static inline struct culm_mate *culm_crew_at(const struct culm_crew *crew, int32_t place) {
    return crew->mates.thing[place];
}
/* NULL: it has never joined, or was forgotten. */
struct culm_mate *culm_crew_find(const struct culm_crew *crew, int32_t id);
/* Those of a role that count: alive and not leaving; of all roles. */
int32_t culm_crew_present(const struct culm_crew *crew, uint32_t role);
int32_t culm_crew_alive(const struct culm_crew *crew);
/* One that took part under another leader; before culm_crew_begin. False: out of memory. */
bool culm_crew_await(struct culm_crew *crew, const struct culm_known_node *known);
/* Whether it has said nothing for so long. */
bool culm_crew_is_silent(const struct culm_crew *crew, const struct culm_mate *mate, int64_t ms);
/* Whether a copy that it has counts for those who are silent: it was heard within the last third of suspect_ms. */
bool culm_crew_is_heard(const struct culm_crew *crew, const struct culm_mate *mate);
/* Whether it has been silent for so long that it has ended, if it is without a leader. */
bool culm_crew_has_ended(const struct culm_crew *crew, const struct culm_mate *mate);
/* Puts it out of the run, which goes on without it. Its process is ended: later, if it is only silent, so that
 * one that wakes up is told why; a moment later, if it leaves by itself; else now. Nothing if it is lost already. */
void culm_crew_lose(struct culm_crew *crew, struct culm_mate *mate, enum culm_cause cause,
                    const char *why_or_null);
/* It cannot go on, as it said, or as the owner has found out: it is lost, and if others have failed alike, that
 * ends the run. */
void culm_crew_failed(struct culm_crew *crew, struct culm_mate *mate,
                      const struct culm_failed *failed);
/* It goes, as it said: it no longer counts, and another one may come in its place. */
void culm_crew_let_go(struct culm_crew *crew, struct culm_mate *mate);
/* One that asks to leave is told that it may: it is out of the run, and no loss. The event is the owner's. */
void culm_crew_release_mate(struct culm_crew *crew, struct culm_mate *mate);
/* A loss has been made up for: how long the run was without. The median of all such pauses, and the longest; 0: there
 * was none. */
void culm_crew_recovered(struct culm_crew *crew, double pause_ms);
void culm_crew_pauses(struct culm_crew *crew, double *ret_median_ms, double *ret_longest_ms);
/* `version` has been committed, and the round has taken so long: tasks get on, and the lost that have ended are
 * forgotten, in the next tick. */
void culm_crew_committed(struct culm_crew *crew, int64_t version, double round_ms);

/* Who has which part is worked out once, when everything that has happened by now has been taken in: nodes that are
 * lost at the same moment cost one view. `why` is a constant; the first one counts. */
void culm_crew_review_soon(struct culm_crew *crew, const char *why);
/* The review that is due, if one is: for owners, before they go by who has which part. */
void culm_crew_review_now(struct culm_crew *crew);

/* --- starts.c --- */

/* So many of the role are wanted from now on. */
void culm_crew_want(struct culm_crew *crew, uint32_t role, int32_t count);
/* Those of the role that are due later are due now; or, if starts have failed, after their pause. */
void culm_crew_hurry(struct culm_crew *crew, uint32_t role);
/* Asks for those that are due. */
void culm_crew_start_due(struct culm_crew *crew);
/* It has done something that it was there for: starts of its role work. */
void culm_crew_worked(struct culm_crew *crew, struct culm_mate *mate);
/* Whether none of the role is on its way: none starts, none is due, and no trace brings any. */
bool culm_crew_nobody_comes(const struct culm_crew *crew, uint32_t role);
/* Asked for, or to be. */
int32_t culm_crew_coming(const struct culm_crew *crew, uint32_t role);

/* --- wait.c --- */

/* The run waits: there are `have` of `need`. Said by an event when that is news. */
void culm_crew_wait(struct culm_crew *crew, uint32_t role, int32_t need, int32_t have,
                    const char *why_or_null);
void culm_crew_wait_over(struct culm_crew *crew, uint32_t role);
/* With what status a run ends that has waited for one in vain, when it had begun: what it lacks is a process, whatever
 * the last one that did not start has said of itself; only inputs that have changed are to be called that. */
enum culm_status culm_crew_vain_status(const struct culm_crew *crew, uint32_t role);

/* --- ask.c --- */

/* Whether an answer to question `question` of this one counts; from now on it has answered. */
bool culm_crew_answers(struct culm_crew *crew, struct culm_mate *mate, uint64_t question);

/* --- for the tables of the owner's actor, whose pointer is the crew's --- */

/* To be called in `start`: asks for all that are wanted, and ticks. */
void culm_crew_begin(struct culm_crew *crew);
void culm_crew_on_message(void *actor, int32_t from, const struct culm_message *message);
void culm_crew_on_lost(void *actor, int32_t node);
void culm_crew_on_timer(void *actor, uint32_t timer);
/* Adds "host" and "zone" to its event `joined`, where they are known. */
void culm_crew_add_place(json_t *event, const struct culm_mate *mate);
void culm_crew_on_joined(void *actor, int32_t node, const struct culm_node_info *info);
void culm_crew_on_ended(void *actor, int32_t node, const struct culm_error *why);
void culm_crew_on_removed(void *actor, int32_t node);
void culm_crew_on_written(void *actor, enum culm_deed deed);
void culm_crew_on_deposed(void *actor, uint64_t term);
void culm_crew_on_away(void *actor, int64_t ms);
void culm_crew_on_resign(void *actor);
/* Whether there is room for a newcomer in that role; else the error says why not. */
bool culm_crew_has_room(const struct culm_crew *crew, uint32_t role, struct culm_error *ret_error);

#endif

/*
 * What only a leader has. It is told which nodes join, which are gone, and when somebody asks the
 * run to stop; and it may have nodes started and ended.
 *
 * An actor leads when its table names a culm_leader_ops (world.h), and can start nodes when whoever
 * made it gave it an agent: one without has neither. A *role* says what a node is to do in the run.
 * Roles are numbers of the protocol's own, as phases are; a world carries them and knows no more.
 *
 * A node that was started joins by itself. A *newcomer* is one that nobody here started: it knows the
 * token, asks, and is given a role if the leader says so, and an id when it is ready.
 *
 * Of one node its leader hears `joined`, then messages, then `lost` (world.h), then `ended`; of one
 * that was started and never joined only `ended`; of a newcomer that never joined nothing.
 *
 * A leader may be made in place of another one, which is dead or believed to be: with a higher *term*, and with a
 * list of the nodes that took part (culm_known_node). The world calls each of them; of one that promises to hear no
 * lower term the leader hears `joined`, of one that is not there `lost`, and of one that cannot be reached nothing.
 * Thread: the leader's loop.
 */
#ifndef CULM_NET_LEADER_H
#define CULM_NET_LEADER_H

#include "base/status.h"

struct culm_agent;

#define CULM_NO_ROLE UINT32_MAX

/* Starts and ends nodes: on one machine, or by forwarding to many. */
struct culm_agent_ops {
    size_t size; /* sizeof(struct culm_agent_ops), for versioning */
    /* Asks for one more node. It joins, or, if it ends before or has not joined in a time of the
     * agent's own, it is killed, and `ended` is all that comes of it. Never calls back. */
    void (*start)(struct culm_agent *agent, uint32_t role);
    /* SIGKILLs its process, if it still runs; of a newcomer, which has no process here, ends the
     * connection, upon which it ends itself. Never calls back. */
    void (*end)(struct culm_agent *agent, int32_t node);
    /* The role in which the node was started, until the leader has been told of its end;
     * CULM_NO_ROLE: it was not started here. */
    uint32_t (*role)(struct culm_agent *agent, int32_t node);
};

struct culm_agent { /* first member of an implementation */
    const struct culm_agent_ops *ops;
};

#define CULM_PLACE_SIZE 64 /* of the name of a machine, or of a zone */

/* Borrowed for the length of the call. */
struct culm_node_info {
    uint32_t role;
    int64_t pid;      /* 0 when not known */
    const char *name; /* host or trace name; never NULL */
    const char *signature;
    /* The machine that it is on, and where that is, as it says; NULL or "": it does not say. */
    const char *host, *zone;
    /* The same for all nodes of one machine, and for no others; "": the leader's. NULL: not known; it is named after it. */
    const char *machine;
};

/* What cannot be taken back, and is therefore written down where only one at a time may lead, before anyone is told. (That a
 * node takes part is such a thing too: `joined` comes after it.) */
enum culm_deed {
    CULM_DEED_ROLL_BACK, /* all load an older version; or, after a leader that is gone, any */
    CULM_DEED_STOP,      /* the run is stopped */
    CULM_DEED_DONE,
    CULM_DEED_COMMIT, /* a version, where what is redone has other bits: then that is what there is of it */
};

#define CULM_DEEDS (CULM_DEED_COMMIT + 1)

#define CULM_DEED_ABOUT_MAX 900 /* characters, with the NUL */

struct culm_record;

struct culm_record_ops {
    size_t size;
    /* Writes it, if this leader is still the one that leads; `written` follows. `about`: more of it, for who leads next, without '"' and
     * backslashes; "": nothing. One at a time. Never calls back. */
    void (*write)(struct culm_record *record, enum culm_deed deed, int64_t step, const char *about);
    /* It cannot bring the run on by itself, having tried: another one is to, if one waits who has not. `deposed` follows then; else
     * nothing, and what is to be written after this is. Never calls back. NULL: there are no others. */
    void (*give_up)(struct culm_record *record);
};

struct culm_record { /* first member of an implementation */
    const struct culm_record_ops *ops;
};

/* One that took part under another leader. */
struct culm_known_node {
    int32_t node;
    struct culm_node_info info;
};

struct culm_leader_ops {
    size_t size;
    /* It is ready, and may be given work. */
    void (*joined)(void *leader, int32_t node, const struct culm_node_info *info);
    /* Its process has ended or, if it is a newcomer, its connection. `why`: what a node that never
     * joined declined for; NULL: it gave no reason. */
    void (*ended)(void *leader, int32_t node, const struct culm_error *why);
    /* It was killed without warning, by a preemption trace. */
    void (*removed)(void *leader, int32_t node);
    /* SIGINT, SIGTERM: to end, so that the run can be resumed. */
    void (*stop)(void *leader);
    /* A newcomer that knows the token asks to come in, in the role that *role names. True: it may, in
     * the role that *role names then, and `joined` follows once it is ready. False:
     * *ret_error says why not, in words that it is told. Changes nothing yet: the newcomer may still
     * not come. NULL: this run starts all its nodes itself, and lets in nobody else. */
    bool (*admits)(void *leader, const struct culm_node_info *info, uint32_t *role,
                   struct culm_error *ret_error);
    /* The deed is written down. Where it could not be, since another one leads, `deposed` comes instead. NULL: it
     * writes none. */
    void (*written)(void *leader, enum culm_deed deed);
    /* Another one leads, in that term (0: not known): this one is to say and do nothing more. NULL: nobody ever takes
     * over. */
    void (*deposed)(void *leader, uint64_t term);
    /* What decides who leads has not answered for so many milliseconds, each time that it was asked in vain; 0: it has again. NULL: as
     * for `deposed`. */
    void (*away)(void *leader, int64_t ms);
    /* This process is to end: another one is to lead, from the end of the round that is in progress, if one waits. NULL: none ever does. */
    void (*resign)(void *leader);
};

#endif

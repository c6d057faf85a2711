/*
 * What only the one who leads has: it is told who joins and who is gone, what people ask for, and
 * it may have nodes started and ended.
 *
 * An actor leads when its table names a culm_leader_ops (world.h), and can start nodes when whoever
 * made it gave it an agent: one without has neither. A *role* says what a node is to do in the run.
 * Roles are numbers of the protocol's own, as phases are; a world carries them and knows no more.
 *
 * Of one node its leader hears `joined`, then messages, then `lost` (world.h), then `ended`; of one
 * that never joined only `ended`. Thread: the leader's loop.
 */
#ifndef CULM_NET_LEADER_H
#define CULM_NET_LEADER_H

#include "base/status.h"

struct culm_agent;

/* Whoever can start and end nodes: one for a machine, or one that speaks to many. */
struct culm_agent_ops {
    size_t size; /* sizeof(struct culm_agent_ops), for versioning */
    /* Asks for one more node. It joins, or, if it ends before or has not joined in a time of the
     * agent's own, it is killed, and `ended` is all that comes of it. Never calls back. */
    void (*start)(struct culm_agent *agent, uint32_t role);
    /* SIGKILLs its process, if it still runs. Never calls back. */
    void (*end)(struct culm_agent *agent, int32_t node);
};

struct culm_agent { /* first member of an implementation */
    const struct culm_agent_ops *ops;
};

/* Borrowed for the length of the call. */
struct culm_node_info {
    uint32_t role;
    int64_t pid;      /* 0 when not known */
    const char *name; /* host or trace name; never NULL */
    const char *signature;
};

struct culm_leader_ops {
    size_t size;
    /* It is ready, and may be given work. */
    void (*joined)(void *leader, int32_t node, const struct culm_node_info *info);
    /* Its process has ended. why: of one that never joined, what it declined for; NULL: nothing. */
    void (*ended)(void *leader, int32_t node, const struct culm_error *why);
    /* It was killed without warning, by a preemption trace. */
    void (*removed)(void *leader, int32_t node);
    /* SIGINT, SIGTERM: to end, so that the run can be resumed. */
    void (*stop)(void *leader);
};

#endif

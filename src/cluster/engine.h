/*
 * An engine starts the nodes of one role elsewhere than as processes on the agent's machine, for
 * instance as functions of a cloud service, or through a job queue. Without one, the agent
 * (agent.h) starts them itself; users know that as `engine: local`.
 *
 * Such a node runs this same program. Through the engine it gets an address, the run's token, and a
 * name, which is culm_engine_node_name of its start, and nothing else. It connects to the address,
 * proves that it knows the token, and asks to join as a newcomer (net/leader.h).
 *
 *     agent:   start(7) ──▶ engine ··· elsewhere: a process joins as "lambda-7" ──▶ agent: node 7
 *     engine:  ended(7) ──▶ agent, once that process is known to have ended, or not to come
 *
 * The contract between engine, agent and leader:
 *
 * - Each start has a number, which is the id of the node it is for; it is requested once. Starts
 *   are interchangeable: a process that arrives becomes the node of its own start if that is still
 *   awaited, otherwise of any other awaited start. If none is awaited, it is refused. So a start
 *   that is delivered twice makes one node only, and one that a job queue hands on after a loss may
 *   make another node.
 * - A node that has arrived lives as long as its connection. `end` means that it is no longer
 *   wanted, or has gone. Its connection is closed, upon which the process leaves that run.
 * - The agent waits without limit for a start that has neither led to a node nor been ended. It is
 *   up to the engine to give up and report culm_engine_ended. While an engine only waits (for room,
 *   or because a service throttles it), the start has not ended. culm_engine_ended has no effect on
 *   a node that has arrived or has been ended.
 * - A start that ends without a node is reported to the leader as a failed start, with the reason
 *   as an event "error". The leader asks for another, or does without.
 *
 * Thread: `open`, `start`, `came`, `end` and `close` are called on the loop's thread. They must
 * neither block nor report. Reports may be made from any other thread, or later from the loop.
 */
#ifndef CULM_CLUSTER_ENGINE_H
#define CULM_CLUSTER_ENGINE_H

#include "base/status.h"

#include <stdint.h>

/* For reports of an engine: any thread, from `open` until `close` has returned. */
struct culm_engine_report;
/* Start `number` has ended, or will not lead to a node. why NULL or why->text "": no known reason.
 */
void culm_engine_ended(struct culm_engine_report *report, int32_t number,
                       const struct culm_error *why);
/* Reports an error that ends nothing, as an event "error"; those that are equal except for numbers
 * are merged. */
void culm_engine_complain(struct culm_engine_report *report, const struct culm_error *error);

/* A node that is to be started. Borrowed during the call. */
struct culm_engine_start {
    int32_t number;
    uint32_t role;
    const char *name;    /* under which the node asks to join */
    const char *address; /* that it connects to; net/address.h */
    const char *token;
};

struct culm_engine;

struct culm_engine_ops {
    size_t size;      /* sizeof(struct culm_engine_ops), for versioning */
    const char *name; /* such as "lambda"; only letters */
    /* The run begins. From now on the engine may report. */
    enum culm_status (*open)(struct culm_engine *engine, struct culm_engine_report *report,
                             struct culm_error *error);
    void (*start)(struct culm_engine *engine, const struct culm_engine_start *start);
    /* The node of that start has arrived. May be NULL. */
    void (*came)(struct culm_engine *engine, int32_t number);
    /* The node is no longer wanted, or its connection has ended. Called at most once per start. */
    void (*end)(struct culm_engine *engine, int32_t number);
    /* When it returns, the engine makes no more reports and has no threads. Also called if `open`
     * failed. */
    void (*close)(struct culm_engine *engine);
    void (*free)(struct culm_engine *engine); /* after close, or never opened; not NULL */
};

struct culm_engine { /* first member of an implementation */
    const struct culm_engine_ops *ops;
};

static inline void culm_engine_free(struct culm_engine *engine) { /* NULL is fine */
    if (engine) {
        engine->ops->free(engine);
    }
}

#define CULM_ENGINE_NAME_SIZE 48
/* The name of a start's node, such as "lambda-7". */
void culm_engine_node_name(const struct culm_engine *engine, int32_t number,
                           char ret_name[CULM_ENGINE_NAME_SIZE]);
/* The number in such a name; -1: it is not a name of this engine. */
int32_t culm_engine_number(const struct culm_engine *engine, const char *name);

#endif

/*
 * An engine: starts nodes of one role somewhere else than as processes of this machine's agent, such as
 * in a service that runs functions or behind a queue of jobs. Without one, the agent (agent.h) starts
 * them itself: that is the engine `local`.
 *
 * Wherever it runs, such a node is this program. It is told where to call, the run's token and its
 * name, which is culm_engine_node_name of the start that it is for; it dials out, proves that it knows
 * the token, and asks to come in as a newcomer (net/leader.h). Nothing else is sent through an engine.
 *
 *     agent:   start(7) ──▶ engine ··· somewhere: a process that calls as "lambda-7" ──▶ agent: node 7
 *     engine:  ended(7) ──▶ agent, when that process is known to have ended or never to come
 *
 * What the table promises to whoever implements it, and to the one who leads:
 *
 * - Each start has a number, which is the id that its node gets, and is asked for once. All starts are
 *   alike: who comes is taken for the node of its own start if that is still awaited, else for any
 *   other that is. One that comes when nobody is awaited is turned away with one line. So a start that
 *   is delivered twice makes one node, and one that is handed on after a loss may make another.
 * - A node that has come lives as long as its connection. `end` means that it is no longer wanted, or
 *   gone; its connection is closed, upon which the process leaves (and is then free for the next start).
 * - A start that was not followed by a node, and was not ended, is awaited for ever: the engine says
 *   `ended` for it, in a time of its own. That an engine waits (for room, for a service that is
 *   throttled) is no end. `ended` of a node that has come, or of an ended one, changes nothing.
 * - A start that has ended without a node is told to the leader as any start that failed, with *why*
 *   as an event "error"; the leader asks for another, or does without.
 *
 * Thread: `open`, `start`, `came`, `end` and `close` are called on the loop's thread, must not block
 * and must not report from within; reports may come from any thread.
 */
#ifndef CULM_CLUSTER_ENGINE_H
#define CULM_CLUSTER_ENGINE_H

#include "base/status.h"

#include <stdint.h>

/* How an engine tells what becomes of starts: any thread, from `open` until `close` has returned. */
struct culm_engine_report;
/* Start `number` has ended, or nothing will come of it; why->text "" or why NULL: as it should be. */
void culm_engine_ended(struct culm_engine_report *report, int32_t number,
                       const struct culm_error *why);
/* Something that people should know, and that ends nothing: an event "error". What equals the one
 * before, but for numbers, is not repeated. */
void culm_engine_complain(struct culm_engine_report *report, const struct culm_error *error);

/* A node that is to be started. Borrowed for the length of the call. */
struct culm_engine_start {
    int32_t number;
    uint32_t role;
    const char *name;    /* by which the node asks to come in */
    const char *address; /* where it calls: net/address.h */
    const char *token;
};

struct culm_engine;

struct culm_engine_ops {
    size_t size;      /* sizeof(struct culm_engine_ops), for versioning */
    const char *name; /* "lambda"; letters alone */
    /* The run begins. From here on it may report. */
    enum culm_status (*open)(struct culm_engine *engine, struct culm_engine_report *report,
                             struct culm_error *error);
    void (*start)(struct culm_engine *engine, const struct culm_engine_start *start);
    /* The node of that start is there: it has proved who it is. NULL: never mind. */
    void (*came)(struct culm_engine *engine, int32_t number);
    /* It is no longer wanted, or its connection has ended. Once for each start. */
    void (*end)(struct culm_engine *engine, int32_t number);
    /* Nothing is reported any more, and no thread of it runs. Also if `open` failed or was not called. */
    void (*close)(struct culm_engine *engine);
    void (*free)(struct culm_engine *engine); /* closed; NULL is not given */
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
/* "lambda-7". */
void culm_engine_node_name(const struct culm_engine *engine, int32_t number,
                           char ret_name[CULM_ENGINE_NAME_SIZE]);
/* The number in such a name; -1: it is not one of this engine. */
int32_t culm_engine_number(const struct culm_engine *engine, const char *name);

#endif

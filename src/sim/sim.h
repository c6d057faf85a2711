/*
 * The simulated world: virtual clock, network and processes in one thread, from one seed.
 *
 * It implements the world table for one coordinator and any number of workers. Frames of a link
 * keep their order and take random times; a death loses a random suffix of what is on the wire (the
 * torn frame included); a frozen worker does nothing, and what others send it waits. Jobs take
 * virtual time and are executed when it is over. Everything random comes from the seed, so a
 * history is replayed by its number alone.
 *
 * Thread: one.
 */
#ifndef CULM_SIM_SIM_H
#define CULM_SIM_SIM_H

#include "net/world.h"

struct culm_sim;

/* Makes an actor for worker `id`, in `world`. */
struct culm_sim_factory {
    void *context;
    const struct culm_actor_ops *ops;
    void *(*make)(void *context, int32_t id, struct culm_world *world); /* NULL: failure */
    void (*destroy)(void *context, int32_t id, void *actor);
};

struct culm_sim_options {
    uint64_t seed;
    uint64_t latency_ns, jitter_ns; /* of a frame: latency + uniform in [0, jitter) */
    uint64_t job_ns, io_ns; /* of a job without a cost of its own: uniform in [1/2, 3/2) of this */
    uint64_t spawn_ns;      /* until an asked-for worker joins: uniform in [1/2, 3/2) */
    int32_t spawn_max;      /* alive at once; the coordinator may not ask for more */
    uint32_t start_fail_percent; /* of workers asked for that end before they join */
    struct culm_sim_factory worker;
    const struct culm_actor_ops *coordinator_ops;
    /* Told of every event published, after "t_ms" was added; borrows it. */
    void (*event)(void *context, json_t *event);
    void *event_context;
    /* Asked at every fault point of a worker; may call culm_sim_kill or culm_sim_freeze. May be
     * NULL. */
    void (*fault)(void *context, int32_t node, const struct culm_fault_point *point);
    bool log; /* print what happens, readably, on standard output */
};

struct culm_sim *culm_sim_new(const struct culm_sim_options *options); /* NULL: out of memory */
void culm_sim_free(struct culm_sim *sim);
struct culm_world *culm_sim_coordinator_world(struct culm_sim *sim);
/* Gives the coordinator's actor; must be called before the first step. Borrowed. */
void culm_sim_coordinator(struct culm_sim *sim, void *actor);

/* Runs the next event. False: nothing is left to happen, or the coordinator has left. */
bool culm_sim_step(struct culm_sim *sim);
uint64_t culm_sim_now(const struct culm_sim *sim);
uint64_t culm_sim_random(struct culm_sim *sim,
                         uint64_t bound); /* of a stream apart from the network's */
bool culm_sim_left(const struct culm_sim *sim, int *ret_exit_code, const char **ret_error);

void culm_sim_kill(struct culm_sim *sim, int32_t node);
/* Its tasks end no more; it talks on. */
void culm_sim_stick(struct culm_sim *sim, int32_t node);
/* Nothing passes between two workers any more, and both see that. */
void culm_sim_cut(struct culm_sim *sim, int32_t one, int32_t other);
void culm_sim_freeze(struct culm_sim *sim, int32_t node,
                     uint64_t for_ns); /* CULM_NEVER: for good */
/* A worker that nobody asked for, as a preemption trace adds one. */
void culm_sim_add(struct culm_sim *sim);
void culm_sim_request(struct culm_sim *sim, enum culm_request request, int32_t node);
/* The actor of a worker that lives, frozen or not; NULL otherwise. */
void *culm_sim_worker(const struct culm_sim *sim, int32_t node);
/* The same, also of one that has ended: what it last was. NULL: there never was one. */
void *culm_sim_remains(const struct culm_sim *sim, int32_t node);
bool culm_sim_started(const struct culm_sim *sim, int32_t node); /* has said hello */
/* How often more than spawn_max workers were asked for. */
int64_t culm_sim_refused(const struct culm_sim *sim);
bool culm_sim_frozen(const struct culm_sim *sim, int32_t node);
int32_t culm_sim_worker_count(const struct culm_sim *sim); /* ever started: ids are below it */

#endif

/*
 * Virtual time: a world with one actor, the scheduler, in which jobs take exactly as long as they
 * are said to take and feeds send frames without pixels. It is part of planning, and smaller than the
 * simulated world of src/sim: no links, no processes, no random numbers. Plans are tried in it;
 * tests can make things go wrong in it.
 *
 * Things that happen at the same moment happen in a fixed order: first jobs end, then timers fire,
 * then feeds send, by number.
 *
 * Thread: one.
 */
#ifndef CULM_EDGE_VIRTUAL_H
#define CULM_EDGE_VIRTUAL_H

#include "edge/scheduler.h"

struct culm_edge_virtual;

struct culm_edge_virtual_options {
    const struct culm_edge_layout *layout; /* borrowed */
    const struct culm_edge_plan *plan;
    int64_t frames;              /* of each feed, which ends then; 0: no limit */
    uint64_t for_ns;             /* when to stop the scheduler; 0: never */
    struct culm_edge_exec *exec; /* NULL: jobs do nothing */
    void *context;               /* for the calls below */
    /* How long a job takes; NULL: cost_ns. It may set job->status, with which the job ends if exec
     * is NULL. */
    uint64_t (*cost)(void *context, struct culm_job *job, bool load);
    void (*event)(void *context, json_t *event); /* borrows it; NULL: the scheduler is quiet */
    /* Called when a query's frame is settled, if exec is NULL. May be NULL. */
    void (*settled)(void *context, int32_t query, int64_t frame, bool in_time);
};

struct culm_edge_virtual *
culm_edge_virtual_new(const struct culm_edge_virtual_options *options); /* NULL: out of memory */
void culm_edge_virtual_free(struct culm_edge_virtual *virtual);
/* Lets the next thing happen. False: the actor has left, or nothing is left to happen. */
bool culm_edge_virtual_step(struct culm_edge_virtual *virtual);
uint64_t culm_edge_virtual_now(const struct culm_edge_virtual *virtual);
bool culm_edge_virtual_left(const struct culm_edge_virtual *virtual);
struct culm_edge_scheduler *culm_edge_virtual_scheduler(struct culm_edge_virtual *virtual);

/* To make feeds irregular: begin one at a time of choice, as every feed of a new layout must be;
 * end one; hold one up; have one send frames all at once. */
void culm_edge_virtual_feed_from(struct culm_edge_virtual *virtual, int32_t feed, uint64_t at_ns,
                                 int64_t frames);
void culm_edge_virtual_feed_end(struct culm_edge_virtual *virtual, int32_t feed);
void culm_edge_virtual_feed_stall(struct culm_edge_virtual *virtual, int32_t feed, uint64_t for_ns);
void culm_edge_virtual_feed_burst(struct culm_edge_virtual *virtual, int32_t feed, int32_t frames);
/* From now on feeds send at the rates of this layout. */
void culm_edge_virtual_layout(struct culm_edge_virtual *virtual,
                              const struct culm_edge_layout *layout);

/* Plays a whole run. ret_totals[query_count] and ret_memory may be NULL. CULM_ERR_MEMORY. */
enum culm_status culm_edge_virtual_run(const struct culm_edge_virtual_options *options,
                                       struct culm_edge_totals *ret_totals,
                                       struct culm_edge_memory *ret_memory);

#endif

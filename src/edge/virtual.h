/*
 * Virtual time: a world with one actor, the scheduler, in which jobs take as long as they are said
 * to take and feeds send frames without pictures. For plans, and for tests, which can have things
 * go wrong.
 *
 * What happens at the same moment happens in a fixed order: jobs end, then timers, then frames by
 * feed.
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
    int64_t frames;              /* of each feed, then it ends; 0: as many as come in for_ns */
    uint64_t for_ns;             /* 0: no limit */
    struct culm_edge_exec *exec; /* NULL: nothing is done */
    void *context;
    /* How long a job takes. What it sets the status to is there when the job is executed, at its
     * end. NULL: cost_ns. */
    uint64_t (*cost)(void *context, struct culm_job *job, bool load);
    void (*event)(void *context, json_t *event); /* borrowed; NULL: nothing is published */
    /* A query's frame is settled; only where exec is NULL. NULL: nobody is told. */
    void (*settled)(void *context, int32_t query, int64_t frame, bool in_time);
};

struct culm_edge_virtual *
culm_edge_virtual_new(const struct culm_edge_virtual_options *options); /* NULL: out of memory */
void culm_edge_virtual_free(struct culm_edge_virtual *virtual);
/* The next thing happens. False: the actor has left, or nothing is left to happen. */
bool culm_edge_virtual_step(struct culm_edge_virtual *virtual);
uint64_t culm_edge_virtual_now(const struct culm_edge_virtual *virtual);
bool culm_edge_virtual_left(const struct culm_edge_virtual *virtual);
struct culm_edge_scheduler *culm_edge_virtual_scheduler(struct culm_edge_virtual *virtual);

/* Feeds that are not steady. A feed of a new layout begins with culm_edge_virtual_feed_from. */
void culm_edge_virtual_feed_from(struct culm_edge_virtual *virtual, int32_t feed, uint64_t at_ns,
                                 int64_t frames);
void culm_edge_virtual_feed_end(struct culm_edge_virtual *virtual, int32_t feed);
void culm_edge_virtual_feed_stall(struct culm_edge_virtual *virtual, int32_t feed, uint64_t for_ns);
void culm_edge_virtual_feed_burst(struct culm_edge_virtual *virtual, int32_t feed, int32_t frames);
/* From now on feeds send as this layout says. */
void culm_edge_virtual_layout(struct culm_edge_virtual *virtual,
                              const struct culm_edge_layout *layout);

/* A whole run without faults. ret_totals[query_count], ret_memory may be NULL. */
enum culm_status culm_edge_virtual_run(const struct culm_edge_virtual_options *options,
                                       struct culm_edge_totals *ret_totals,
                                       struct culm_edge_memory *ret_memory);

#endif

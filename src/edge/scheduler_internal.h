/* State and functions shared by the files of the scheduler alone. */
#ifndef CULM_EDGE_SCHEDULER_INTERNAL_H
#define CULM_EDGE_SCHEDULER_INTERNAL_H

#include "edge/residency.h"
#include "edge/scheduler.h"

#define CULM_EDGE_SLOTS_MAX (CULM_EDGE_VISIT_MAX + 1)

/* A frame that is held in memory. */
struct waiting_frame {
    int64_t number;
    uint64_t at_ns;
    struct culm_blob *blob;
    uint64_t pending; /* a bit for each query that has yet to look at it */
    uint64_t in_run;  /* a bit for each query in whose batch it is */
};

struct feed_state {
    struct waiting_frame slot[CULM_EDGE_SLOTS_MAX]; /* [count] oldest first */
    int32_t count;
    int64_t seen; /* frames that have arrived */
    uint64_t last_ns;
    bool there, ended;
};

struct query_state {
    struct culm_edge_totals totals;
    uint64_t answered_ns; /* when it last answered in time; before that, when it was added */
    uint64_t looked_ns;   /* if it samples: at_ns of the first frame of the last burst, */
    int32_t burst_left;   /* and how many frames of that burst are still to come */
    uint64_t retry_ns;    /* nothing is loaded for it before that */
    int32_t failures;     /* loads that failed in a row */
    bool was_there;       /* all of its tensors, at some time */
    int32_t passed_over;  /* how often that cost it frames since its last visit */
    int64_t dropped_then; /* totals.dropped when it was last visited or passed over */
    size_t load_bytes;    /* loaded, but not yet published */
};

struct culm_edge_scheduler {
    struct culm_edge_scheduler_options o;
    struct culm_edge_plan plan;
    const struct culm_edge_layout *layout;
    struct culm_edge_residency residency;
    struct query_state query[CULM_EDGE_QUERIES_MAX];
    struct feed_state feed[CULM_EDGE_FEEDS_MAX];
    int32_t *victim; /* [tensor_count] */
    size_t activation_bytes, frame_bytes, most_bytes;
    bool frames_over; /* frames hold more than the layout says */
    struct culm_edge_memory totals;
    struct culm_edge_load load;
    struct culm_edge_batch batch;
    bool loading, running;
    uint64_t run_end_ns, load_end_ns; /* as expected */
    size_t kept_bytes; /* how much of the activations' start is still as the last batch left it */
    int32_t cursor;    /* the place in the order whose turn is next */
    int32_t target;    /* the query to visit next, for which tensors are loaded; -1: none */
    bool waits;        /* the target waits for a frame that has not arrived yet */
    uint64_t wait_ns;  /* when its visit must begin at the latest */
    int32_t visiting, left; /* the visit in progress, -1: none; frames that it may still take */
    /* Since when nothing runs although a frame lacks nothing but tensors; 0: that is not so. */
    uint64_t idle_since_ns;
    uint64_t begin_ns;
    bool stopping, ended;
    /* The layout to switch to once nothing runs and nothing is being loaded; next NULL: none. */
    const struct culm_edge_layout *next;
    struct culm_edge_plan next_plan;
    struct culm_edge_residency next_residency;
    int32_t *next_victim;
};

/* scheduler_choice.c */

/* When the next burst of a query that samples may begin. */
uint64_t scheduler_burst_ns(const struct culm_edge_scheduler *scheduler,
                            const struct culm_edge_query *of, const struct query_state *state);
/* When the query could start: all its tensors loaded, and nothing running. */
uint64_t scheduler_ready_ns(const struct culm_edge_scheduler *scheduler, int32_t query,
                            uint64_t now_ns);
/* How many waiting frames a batch of one begun at `at_ns` could answer in time. */
int32_t scheduler_in_time(const struct culm_edge_scheduler *scheduler, int32_t query,
                          uint64_t at_ns);
/* Sets target, waits and wait_ns. */
void scheduler_choose_target(struct culm_edge_scheduler *scheduler, uint64_t now_ns);
/* The query, whether or not it is its turn, that saves most by continuing from what the last batch
 * has computed; -1: there is none that would not cost the visit in progress or the target a frame.
 */
int32_t scheduler_choose_kin(const struct culm_edge_scheduler *scheduler, uint64_t now_ns);
/* A query that may run now, while the target cannot yet; -1: none. */
int32_t scheduler_choose_filler(const struct culm_edge_scheduler *scheduler, uint64_t now_ns);
/* Composes a batch of at most `most` frames: sets exec, query, count, look, shared_prefix and
 * expected_ns of ret_batch. Returns the index of its size, or -1: no frame would be in time.
 * scheduler->batch must still be the previous batch. */
int32_t scheduler_choose_batch(const struct culm_edge_scheduler *scheduler, int32_t query,
                               int32_t most, uint64_t now_ns, struct culm_edge_batch *ret_batch);
/* How many bytes at the start of the activations the query could continue from if it ran next; 0:
 * it would begin with the frames. */
size_t scheduler_kept_for(const struct culm_edge_scheduler *scheduler, int32_t query,
                          uint64_t now_ns);
/* ret_turn[CULM_EDGE_QUERIES_MAX]: how many visits come before each query's next one, counted from
 * the target if there is one; CULM_EDGE_QUERIES_MAX if the query is not in the plan. */
void scheduler_turns(const struct culm_edge_scheduler *scheduler, int32_t *ret_turn);
bool scheduler_all_there(const struct culm_edge_scheduler *scheduler, int32_t query);

/* scheduler_events.c */

void scheduler_publish(struct culm_edge_scheduler *scheduler, json_t *take_event);
/* event: "load" or "evict". */
void scheduler_say_moved(struct culm_edge_scheduler *scheduler, const char *event, int32_t query,
                         size_t bytes);
/* why: why the frame was dropped; NULL: it was answered at done_ns. */
void scheduler_say_frame(struct culm_edge_scheduler *scheduler, int32_t query,
                         const struct culm_edge_look *look, uint64_t done_ns, const char *why);

/* scheduler_frames.c */

void scheduler_hear_frame(struct culm_edge_scheduler *scheduler, int32_t from,
                          const struct culm_message *message);
void scheduler_drop(struct culm_edge_scheduler *scheduler, int32_t query,
                    const struct culm_edge_look *look, const char *why);
/* Drops the frames that can no longer be answered in time. Returns when the next one will be too
 * old; CULM_NEVER: there is none. */
uint64_t scheduler_drop_too_old(struct culm_edge_scheduler *scheduler, uint64_t now_ns);
/* Frees the frames that no query still waits for or uses. */
void scheduler_forget_seen(struct feed_state *feed);
/* Marks the frames of scheduler->batch as in use, or as no longer in use. */
void scheduler_mark_run(struct culm_edge_scheduler *scheduler, bool begins);
/* After a switch of layouts: discards frames that only queries or feeds now gone would have used.
 */
void scheduler_forget_gone(struct culm_edge_scheduler *scheduler);

/* scheduler_memory.c */

/* Sets frame_bytes: what the layout says, or more if frames of the one before are still in use. */
void scheduler_count_frames(struct culm_edge_scheduler *scheduler);
/* Updates the maximum of memory in use. */
void scheduler_count_bytes(struct culm_edge_scheduler *scheduler);
/* What the limit leaves for tensors beside the frames and `activations` bytes. */
size_t scheduler_room_beside(const struct culm_edge_scheduler *scheduler, size_t activations);
void scheduler_set_activations(struct culm_edge_scheduler *scheduler, size_t bytes);
/* Publishes the loads of all queries that do not have all of their tensors yet. */
void scheduler_say_loads(struct culm_edge_scheduler *scheduler);
/* Evicts the first `count` tensors of victim[]. */
void scheduler_evict(struct culm_edge_scheduler *scheduler, int32_t count);
/* Evicts until at most `most_bytes` of tensors are left. pinned: a bit for each query whose tensors
 * must stay; before: as in culm_edge_residency_victims. False: not possible now, nothing evicted.
 */
bool scheduler_make_room(struct culm_edge_scheduler *scheduler, size_t most_bytes, uint64_t pinned,
                         int32_t before);
/* Begins to load the next tensor that the target lacks, if room can be made. */
void scheduler_try_load(struct culm_edge_scheduler *scheduler, uint64_t now_ns);
void scheduler_load_done(struct culm_edge_scheduler *scheduler);

static inline size_t scheduler_bytes_now(const struct culm_edge_scheduler *scheduler) {
    return scheduler->residency.bytes + scheduler->activation_bytes + scheduler->frame_bytes;
}

static inline uint64_t scheduler_now_ns(const struct culm_edge_scheduler *scheduler) {
    return scheduler->o.world->ops->now_ns(scheduler->o.world);
}

static inline const struct culm_edge_query *
scheduler_query_of(const struct culm_edge_scheduler *scheduler, int32_t query) {
    return &scheduler->layout->query[query];
}

static inline uint64_t scheduler_due_ns(const struct culm_edge_scheduler *scheduler, int32_t query,
                                        const struct waiting_frame *frame) {
    return frame->at_ns + scheduler->layout->query[query].deadline_ns;
}

#endif

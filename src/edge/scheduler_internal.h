/* Shared by the files of the scheduler; nobody else includes it. */
#ifndef CULM_EDGE_SCHEDULER_INTERNAL_H
#define CULM_EDGE_SCHEDULER_INTERNAL_H

#include "edge/residency.h"
#include "edge/scheduler.h"

#define CULM_EDGE_SLOTS_MAX (CULM_EDGE_VISIT_MAX + 1)

/* A frame that is there. */
struct waiting_frame {
    int64_t number;
    uint64_t at_ns;
    struct culm_blob *blob;
    uint64_t pending; /* bit: query that has yet to see it */
    uint64_t in_run;  /* bit: query that a batch is run for */
};

struct feed_state {
    struct waiting_frame slot[CULM_EDGE_SLOTS_MAX]; /* [count] oldest first */
    int32_t count;
    int64_t seen; /* frames that came */
    uint64_t last_ns;
    bool there, ended;
};

struct query_state {
    struct culm_edge_totals totals;
    uint64_t answered_ns; /* last, in time; or when it came */
    uint64_t looked_ns;   /* where it samples: at_ns of the first frame of the last burst, */
    int32_t burst_left;   /* and how many it will still look at */
    uint64_t retry_ns;    /* nothing is loaded for it before */
    int32_t failures;     /* to load, one after the other */
    int32_t passed_over;  /* since its last visit, and it lost frames by it */
    int64_t dropped_then; /* totals.dropped when it was passed over last */
    size_t load_bytes;    /* brought in and not yet told */
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
    struct culm_edge_memory totals;
    struct culm_edge_load load;
    struct culm_edge_batch batch;
    bool loading, running;
    uint64_t run_end_ns, load_end_ns; /* as expected */
    size_t kept_bytes; /* of the activations, from their beginning: as the last batch left them */
    int32_t cursor;    /* of the order: whose turn is next */
    int32_t target;    /* who is visited next, and loaded for; -1: nobody */
    bool waits;        /* the target waits for a frame that is not there yet */
    uint64_t wait_ns;  /* until when it has to be begun */
    int32_t visiting, left; /* frames that this visit may still take; -1 */
    uint64_t idle_since_ns; /* nothing runs and a frame lacks only tensors, since then; 0: not so */
    uint64_t begin_ns;
    bool stopping, ended;
    /* What comes once nothing runs and nothing is being loaded; next NULL: nothing. */
    const struct culm_edge_layout *next;
    struct culm_edge_plan next_plan;
    struct culm_edge_residency next_residency;
    int32_t *next_victim;
};

/* scheduler_choice.c */

/* When the next burst of one that samples may begin. */
uint64_t culm_edge_burst_ns(const struct culm_edge_scheduler *scheduler,
                            const struct culm_edge_query *of, const struct query_state *state);
/* When it can be ready: tensors there, nothing running. */
uint64_t culm_edge_ready_ns(const struct culm_edge_scheduler *scheduler, int32_t query,
                            uint64_t now_ns);
/* Frames that could be answered in time, one at a time, by a batch begun at `at_ns`. */
int32_t culm_edge_in_time(const struct culm_edge_scheduler *scheduler, int32_t query,
                          uint64_t at_ns);
/* Sets target, waits and wait_ns. */
void culm_edge_choose_target(struct culm_edge_scheduler *scheduler, uint64_t now_ns);
/* Who goes on from what the batch before has made, where that saves most, though its turn is
 * another one; -1: nobody, or the visit in progress or the target would lose a frame by it. */
int32_t culm_edge_choose_kin(const struct culm_edge_scheduler *scheduler, uint64_t now_ns);
/* Who may run now, while the target cannot; -1: nobody. */
int32_t culm_edge_choose_filler(const struct culm_edge_scheduler *scheduler, uint64_t now_ns);
/* Fills batch.query, count, look, shared_prefix, expected_ns; returns which size, or -1: nothing
 * would be in time. `most`: frames. The batch before is still in `batch`. */
int32_t culm_edge_choose_batch(const struct culm_edge_scheduler *scheduler, int32_t query,
                               int32_t most, uint64_t now_ns, struct culm_edge_batch *ret_batch);
/* Of the activations, what the query could begin with if it ran next; 0: it begins with frames. */
size_t culm_edge_kept_for(const struct culm_edge_scheduler *scheduler, int32_t query,
                          uint64_t now_ns);
/* Visits until each query's next one; 0: it runs, or is visited next. */
void culm_edge_turns(const struct culm_edge_scheduler *scheduler, int32_t *ret_turn);
bool culm_edge_all_there(const struct culm_edge_scheduler *scheduler, int32_t query);

/* scheduler_events.c */

void culm_edge_publish(struct culm_edge_scheduler *scheduler, json_t *take_event);
/* "load" or "evict" of so many bytes. */
void culm_edge_say_moved(struct culm_edge_scheduler *scheduler, const char *event, int32_t query,
                         size_t bytes);
/* why: it was dropped; NULL: it was answered. */
void culm_edge_say_frame(struct culm_edge_scheduler *scheduler, int32_t query,
                         const struct culm_edge_look *look, uint64_t done_ns, const char *why);
void culm_edge_say_done(struct culm_edge_scheduler *scheduler, uint64_t now_ns);

/* scheduler_frames.c */

void culm_edge_hear_frame(struct culm_edge_scheduler *scheduler, int32_t from,
                          const struct culm_message *message);
void culm_edge_drop(struct culm_edge_scheduler *scheduler, int32_t query,
                    const struct culm_edge_look *look, const char *why);
/* Whether some frames are too old now; returns when the next will be. */
uint64_t culm_edge_drop_too_old(struct culm_edge_scheduler *scheduler, uint64_t now_ns);
/* Frames that nobody has yet to look at go. */
void culm_edge_forget_seen(struct feed_state *feed);
/* Frames of the batch are being looked at, or no longer. */
void culm_edge_mark_run(struct culm_edge_scheduler *scheduler, bool begins);
/* After another layout was taken: nobody wants the answers of those who are gone. */
void culm_edge_forget_gone(struct culm_edge_scheduler *scheduler);

/* scheduler_memory.c */

size_t culm_edge_bytes_now(const struct culm_edge_scheduler *scheduler);
/* Notes the most that there was. */
void culm_edge_count_bytes(struct culm_edge_scheduler *scheduler);
/* For tensors, beside frames and these activations. */
size_t culm_edge_room_beside(const struct culm_edge_scheduler *scheduler, size_t activations);
void culm_edge_set_activations(struct culm_edge_scheduler *scheduler, size_t bytes);
/* The first `count` of victim[]. */
void culm_edge_evict(struct culm_edge_scheduler *scheduler, int32_t count);
/* At most so many bytes of tensors stay. `pinned`: bits of queries whose tensors must; `before`:
 * only those go whose turn is later. False: not now. */
bool culm_edge_make_room(struct culm_edge_scheduler *scheduler, size_t most_bytes, uint64_t pinned,
                         int32_t before);
/* Brings in the next tensor that the target lacks, if there is room. */
void culm_edge_try_load(struct culm_edge_scheduler *scheduler, uint64_t now_ns);
void culm_edge_load_done(struct culm_edge_scheduler *scheduler);

static inline uint64_t culm_edge_now_ns(const struct culm_edge_scheduler *scheduler) {
    return scheduler->o.world->ops->now_ns(scheduler->o.world);
}

static inline const struct culm_edge_query *
culm_edge_query_of(const struct culm_edge_scheduler *scheduler, int32_t query) {
    return &scheduler->layout->query[query];
}

static inline uint64_t culm_edge_due_ns(const struct culm_edge_scheduler *scheduler, int32_t query,
                                        const struct waiting_frame *frame) {
    return frame->at_ns + scheduler->layout->query[query].deadline_ns;
}

#endif

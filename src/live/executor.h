/*
 * The thread that computes: runs models on frames, with the parameters where they lie.
 *
 * Thread: the compute thread's, unless a function says otherwise; of live_ops, edge/exec.h says it.
 */
#ifndef CULM_LIVE_EXECUTOR_H
#define CULM_LIVE_EXECUTOR_H

#include "edge/exec.h"
#include "graph/stage.h"
#include "live/prefix.h"
#include "vision/boxes.h"
#include "vision/picture.h"

struct culm_live;
struct live_frame;
struct live_query;

#define CULM_LIVE_TOP 5 /* how many classes of an answer are written; as culm predict does */

/* A model compiled for one batch size, ready to run. */
struct live_program {
    struct culm_graph *graph;
    struct culm_stage *stage;
    int32_t *part;       /* [stage parameters] which part of the entry each one is */
    const float **param; /* [stage parameters] addresses, set before each run */
    /* The values that cross each cut of the query's trunk, in the layout in force. */
    int32_t crossing[CULM_LIVE_CUTS_MAX][CULM_LIVE_CROSSING_MAX];
    size_t image_bytes, activation_bytes, scratch_bytes, output_bytes; /* each rounded up to 64 */
};

/* What the last batch left at the front of the activations' memory, for another query to continue
 * from. */
struct live_kept {
    int32_t cuts, size, count; /* cuts 0: nothing; size: an index; count: frames */
    uint64_t id[CULM_LIVE_CUTS_MAX];
    size_t end[CULM_LIVE_CUTS_MAX]; /* where what crosses the cut ends */
    int64_t frame[CULM_EDGE_VISIT_MAX];
};

extern const struct culm_edge_exec_ops live_ops;
/* Runs a batch of the query: with `from` 0 on the images in the activations' memory, else from cut
 * `from` - 1 on, with what is kept in front of them. ret_ns[cuts]: for each cut from `from` on, how
 * long it took to reach it. */
void live_compute(struct culm_live *run, struct live_query *query, int32_t size, int32_t from,
                  uint64_t *ret_ns);
/* The label of a frame for the query; -1: it has none. The loop's thread. */
int32_t live_label(const struct live_query *query, const struct live_frame *frame);
/* The same where answers are boxes or points; NULL: it has none. The loop's thread. */
const struct culm_answer *live_right(const struct live_query *query,
                                     const struct live_frame *frame);
/* A frame at the input size of the query's model; borrows the pixels. Any thread. */
struct culm_frame live_pixels(const struct culm_live *run, const struct live_query *query,
                              const struct live_frame *frame);
/* Makes as much activation memory resident as the scheduler has asked for. Called before a batch, so
 * that the loop does not have to wait for the pages. CULM_ERR_MEMORY. */
enum culm_status live_hold(struct culm_live *run, struct culm_error *error);

#endif

/*
 * Queries on live video, as counts and sizes: what the scheduler knows of them.
 *
 * A *query* runs one model on every frame of one feed, and wants each answer within its deadline of
 * the moment at which the frame came. Its model is a list of *tensors*, which it may share with
 * other queries; memory is counted by tensors, each once. A *feed* sends frames at a steady rate.
 * Frames of a feed are numbered 0, 1, 2, ...
 *
 * Numbers of queries, feeds and tensors stay what they are while a run goes on: one that has gone
 * is marked, and what comes is put behind. Names and numbers of weights are not here.
 *
 * Thread: constant while in use.
 */
#ifndef CULM_EDGE_LAYOUT_H
#define CULM_EDGE_LAYOUT_H

#include "base/status.h"

#define CULM_EDGE_QUERIES_MAX 64
#define CULM_EDGE_FEEDS_MAX 64
#define CULM_EDGE_SIZES_MAX 8
#define CULM_EDGE_PREFIX_MAX 4
/* Frames that a visit of a query may take, in several batches. */
#define CULM_EDGE_VISIT_MAX 16

struct culm_edge_feed {
    uint64_t period_ns; /* from frame to frame */
    size_t frame_bytes; /* of a frame that waits */
    bool gone;
};

/* The first part of a model. Two queries whose part has the same id compute the same on a frame,
 * and leave it at the same place. */
struct culm_edge_prefix {
    uint64_t id;                          /* not 0 */
    uint64_t run_ns[CULM_EDGE_SIZES_MAX]; /* of this part and those before */
    /* Of the activations, from their beginning: what must stay as it is for another query to go on
     * from there. Whole pages. */
    size_t keep_bytes[CULM_EDGE_SIZES_MAX];
};

struct culm_edge_query {
    char name[65]; /* as a workload's */
    int32_t feed;
    uint64_t deadline_ns; /* from a frame's coming to its answer */
    /* One that samples: every so often it looks at `burst` frames in a row, first after `after_ns`,
     * and then no more, since each time its tensors have to come. 0: it looks at every frame. */
    uint64_t every_ns, after_ns;
    int32_t burst;
    int32_t batches; /* sizes that may be run, at least one: ascending, the first is 1 */
    int32_t batch[CULM_EDGE_SIZES_MAX];
    uint64_t run_ns[CULM_EDGE_SIZES_MAX];
    size_t activation_bytes[CULM_EDGE_SIZES_MAX];
    int32_t tensor_count;
    const int32_t *tensor; /* ascending, each once */
    int32_t prefixes;      /* shorter ones first */
    struct culm_edge_prefix prefix[CULM_EDGE_PREFIX_MAX];
    bool gone;
};

struct culm_edge_layout {
    int32_t query_count, feed_count, tensor_count;
    const struct culm_edge_query *query;
    const struct culm_edge_feed *feed;
    const size_t *tensor_bytes;
    uint64_t load_ns;        /* of any load, however small */
    double load_ns_per_byte; /* 0: loading takes no time */
    size_t limit_bytes;      /* of tensors, activations and frames together */
};

static inline uint64_t culm_edge_load_ns(const struct culm_edge_layout *layout, size_t bytes) {
    return layout->load_ns + (uint64_t)(layout->load_ns_per_byte * (double)bytes);
}

/* CULM_ERR_ARGUMENT: it contradicts itself. CULM_ERR_CONFIG: some query cannot run within
 * limit_bytes, even alone, one frame at a time; the line says which, and what it takes. */
enum culm_status culm_edge_layout_check(const struct culm_edge_layout *layout,
                                        struct culm_error *error);

/* The longest prefix of `query` (an index of its list) that `other` has, too, on the same feed; -1:
 * none. */
int32_t culm_edge_prefix_of_both(const struct culm_edge_layout *layout, int32_t query,
                                 int32_t other);

/* Bytes of the tensors of one query; and of those of all, each once. */
size_t culm_edge_query_bytes(const struct culm_edge_layout *layout, int32_t query);
size_t culm_edge_distinct_bytes(const struct culm_edge_layout *layout);
/* Frames of each feed that somebody looks at: `slots` that are there, and one that is just coming.
 */
size_t culm_edge_frames_bytes(const struct culm_edge_layout *layout, int32_t slots);

#define CULM_EDGE_SLOTS_MIN 2 /* a frame that is looked at, and one that waits */

/* Memory that is worth giving. At the least, each query can run when nothing else is there, one
 * frame at a time; at the most, all tensors stay. Both with CULM_EDGE_SLOTS_MIN frames of every
 * feed. */
void culm_edge_memory_range(const struct culm_edge_layout *layout, size_t *ret_least,
                            size_t *ret_most);

#endif

/*
 * Queries on live video as the scheduler knows them: as counts, sizes and times.
 *
 * A *query* runs one model on every frame of one feed; each answer is due a deadline after its
 * frame arrived. Its model is a list of *tensors*, which it may share with other queries; a shared
 * tensor takes memory only once. A *feed* sends frames at a steady rate, numbered 0, 1, 2, ...
 *
 * Queries, feeds and tensors keep their indices for as long as a run lasts: one that has gone is
 * marked, and new ones are appended. A layout holds neither the names nor the values of weights.
 *
 * Thread: any; constant while in use.
 */
#ifndef CULM_EDGE_LAYOUT_H
#define CULM_EDGE_LAYOUT_H

#include "base/status.h"

#define CULM_EDGE_QUERIES_MAX 64
#define CULM_EDGE_FEEDS_MAX 64
#define CULM_EDGE_SIZES_MAX 8
#define CULM_EDGE_PREFIX_MAX 4
/* The most frames that one visit to a query may take, over several batches. */
#define CULM_EDGE_VISIT_MAX 16

struct culm_edge_feed {
    uint64_t period_ns; /* from one frame to the next */
    size_t frame_bytes; /* what a waiting frame takes */
    bool gone;
};

/* The first part of a model. Two queries that have a prefix with the same id compute the same from
 * a frame up to there, and leave the result at the same place. */
struct culm_edge_prefix {
    uint64_t id;                          /* not 0 */
    uint64_t run_ns[CULM_EDGE_SIZES_MAX]; /* from the start of the model to the prefix's end */
    /* How much of the activations' memory, counted from its start, must stay untouched for another
     * query to continue from there. Whole pages. */
    size_t keep_bytes[CULM_EDGE_SIZES_MAX];
};

struct culm_edge_query {
    char name[65]; /* as long as in a workload */
    int32_t feed;
    uint64_t deadline_ns; /* from a frame's arrival to its answer */
    /* A query that samples looks at a burst of `burst` frames in a row every `every_ns`, first at
     * `after_ns`: in bursts, since its tensors have to be loaded each time. every_ns 0: it looks at
     * every frame. */
    uint64_t every_ns, after_ns;
    int32_t burst;
    int32_t batches; /* how many batch sizes may be run, at least one; ascending, the first is 1 */
    int32_t batch[CULM_EDGE_SIZES_MAX];
    uint64_t run_ns[CULM_EDGE_SIZES_MAX];
    size_t activation_bytes[CULM_EDGE_SIZES_MAX];
    int32_t tensor_count;
    const int32_t *tensor; /* [tensor_count] indices, ascending, without duplicates; borrowed */
    bool pin;              /* what has been loaded of it is never evicted */
    bool preload;     /* it is loaded at the start, before anything else; a pinned one is, too */
    int32_t prefixes; /* shortest first */
    struct culm_edge_prefix prefix[CULM_EDGE_PREFIX_MAX];
    bool gone;
};

struct culm_edge_layout {
    int32_t query_count, feed_count, tensor_count;
    const struct culm_edge_query *query;
    const struct culm_edge_feed *feed;
    const size_t *tensor_bytes;
    uint64_t load_ns;        /* what any load takes, however small */
    double load_ns_per_byte; /* 0: loading takes no time */
    size_t limit_bytes;      /* for tensors, activations and frames together */
};

static inline uint64_t culm_edge_load_ns(const struct culm_edge_layout *layout, size_t bytes) {
    return layout->load_ns + (uint64_t)(layout->load_ns_per_byte * (double)bytes);
}

/* CULM_ERR_ARGUMENT: the layout is inconsistent. CULM_ERR_CONFIG: a query does not fit into
 * limit_bytes even alone, beside what is pinned, and one frame at a time; the error says which, and
 * how much it needs. */
enum culm_status culm_edge_layout_check(const struct culm_edge_layout *layout,
                                        struct culm_error *error);

/* The longest prefix of `query`, as an index of its list, that `other` has as well on the same
 * feed; -1: none. */
int32_t culm_edge_prefix_of_both(const struct culm_edge_layout *layout, int32_t query,
                                 int32_t other);

/* The bytes of one query's tensors; and those of all queries' tensors, each counted once. */
size_t culm_edge_query_bytes(const struct culm_edge_layout *layout, int32_t query);
size_t culm_edge_distinct_bytes(const struct culm_edge_layout *layout);
/* The queries that are pinned, a bit for each; and the bytes of a query's tensors and of theirs, each
 * counted once: what has to be in memory while it runs. */
uint64_t culm_edge_pins(const struct culm_edge_layout *layout);
size_t culm_edge_need_bytes(const struct culm_edge_layout *layout, int32_t query);
/* The bytes that frames take: for each feed that some query watches, `slots` frames that are there
 * and one that is just arriving. */
size_t culm_edge_frames_bytes(const struct culm_edge_layout *layout, int32_t slots);

#define CULM_EDGE_SLOTS_MIN 2 /* a frame in a batch, and one that waits */

/* The range within which a limit makes sense. With ret_least, each query can run one frame at a
 * time while it alone is loaded, beside what is pinned; with ret_most, all tensors stay in memory beside the largest
 * activations. Both allow for CULM_EDGE_SLOTS_MIN frames of every watched feed. */
void culm_edge_memory_range(const struct culm_edge_layout *layout, size_t *ret_least,
                            size_t *ret_most);

#endif

/* Playing plans through. See rehearsal.h. */
#include "edge/rehearsal.h"

#include "edge/virtual.h"

#include <stdlib.h>

#define FRAMES 60             /* a short rehearsal lasts for so many frames of the slowest query, */
#define NS_MIN 2000000000ull  /* but at least so long */
#define NS_MAX 12000000000ull /* and at most so long, */
#define WORK 3000000.0        /* and frames x (queries + 1) x 40 is at most this */
#define FRAME_WORK 500        /* the work of a frame is this x (queries + 1) */
#define LASTING 5             /* a long rehearsal lasts so many times as long */
#define SAME_SHARE 0.01       /* shares that round to the same step count as equal, */
#define SAME_MEAN 0.001       /* and so do means */

static int ascending(const void *a, const void *b) {
    double one = *(const double *)a, other = *(const double *)b;
    return (one > other) - (one < other);
}

/* How long a short rehearsal lasts; and how many frames arrive per ns, for all queries together. */
static uint64_t span_of(const struct culm_edge_layout *layout, const struct culm_edge_plan *plan,
                        double *ret_frames_per_ns) {
    uint64_t slowest = 0;
    double frames_per_ns = 0;
    for (int32_t i = 0; i < plan->count; i++) {
        const struct culm_edge_query *query = &layout->query[plan->order[i]];
        uint64_t period = layout->feed[query->feed].period_ns;
        period = period > query->every_ns ? period : query->every_ns;
        slowest = period > slowest ? period : slowest;
        frames_per_ns += 1 / (double)period;
    }
    uint64_t span = slowest * FRAMES;
    span = span < NS_MIN ? NS_MIN : span > NS_MAX ? NS_MAX : span;
    *ret_frames_per_ns = frames_per_ns;
    double most = WORK / (frames_per_ns * (plan->count + 1) * 40);
    return (double)span > most ? (uint64_t)most : span;
}

int64_t culm_edge_rehearsal_work(const struct culm_edge_layout *layout,
                                 const struct culm_edge_plan *plan) {
    double frames_per_ns, span = (double)span_of(layout, plan, &frames_per_ns);
    return (int64_t)(span * (1 + LASTING) * frames_per_ns * (plan->count + 1) * FRAME_WORK);
}

int64_t culm_edge_rehearsal_brief_work(int64_t work) { return work / (1 + LASTING); }

static enum culm_status play(const struct culm_edge_virtual_options *options,
                             struct culm_edge_rehearsal *ret_rehearsal) {
    const struct culm_edge_layout *layout = options->layout;
    const struct culm_edge_plan *plan = options->plan;
    struct culm_edge_totals totals[CULM_EDGE_QUERIES_MAX];
    enum culm_status status = culm_edge_virtual_run(options, totals, NULL);
    struct culm_edge_rehearsal rehearsal = {0};
    for (int32_t i = 0; status == CULM_OK && i < plan->count; i++) {
        const struct culm_edge_totals *of = &totals[plan->order[i]];
        if (!layout->query[plan->order[i]].every_ns) { /* samples do not matter */
            double share = of->frames ? (double)of->processed / (double)of->frames : 1;
            rehearsal.share[rehearsal.count++] = share;
            rehearsal.mean += share;
        }
    }
    rehearsal.mean /= rehearsal.count > 0 ? rehearsal.count : 1;
    qsort(rehearsal.share, (size_t)rehearsal.count, sizeof(double), ascending);
    *ret_rehearsal = rehearsal;
    return status;
}

enum culm_status culm_edge_rehearsal_run(const struct culm_edge_layout *layout,
                                         const struct culm_edge_plan *plan, bool lasting,
                                         struct culm_edge_rehearsal *ret_rehearsal) {
    double frames_per_ns;
    const struct culm_edge_virtual_options options = {
        .layout = layout,
        .plan = plan,
        .for_ns = span_of(layout, plan, &frames_per_ns) * (lasting ? LASTING : 1)};
    return play(&options, ret_rehearsal);
}

enum culm_status culm_edge_rehearsal_of_frames(const struct culm_edge_layout *layout,
                                               const struct culm_edge_plan *plan, int64_t frames,
                                               struct culm_edge_rehearsal *ret_rehearsal) {
    const struct culm_edge_virtual_options options = {
        .layout = layout, .plan = plan, .frames = frames};
    return play(&options, ret_rehearsal);
}

/* The step nearest to a share. */
static int64_t step_of(double share, double step) { return (int64_t)(share / step + 0.5); }

bool culm_edge_rehearsal_better(const struct culm_edge_rehearsal *one,
                                const struct culm_edge_rehearsal *other) {
    for (int32_t i = 0; i < one->count; i++) {
        int64_t by = step_of(one->share[i], SAME_SHARE) - step_of(other->share[i], SAME_SHARE);
        if (by != 0) {
            return by > 0;
        }
    }
    return step_of(one->mean, SAME_MEAN) > step_of(other->mean, SAME_MEAN);
}

bool culm_edge_rehearsal_whole(const struct culm_edge_rehearsal *rehearsal) {
    return rehearsal->count == 0 || rehearsal->share[0] > 1 - SAME_MEAN / 2;
}

/*
 * Calibration: loads and times each model that no profile knows, before anything else runs.
 */
#include "live/run.h"

#include "base/clock.h"
#include "base/grow.h"

#include <string.h>

#define CALIBRATED 3

static enum culm_status calibrate_query(struct culm_live *run, int32_t q,
                                        struct culm_error *error) {
    struct live_query *query = &run->query[q];
    const struct culm_edge_query *of = &run->laid->query[q];
    struct culm_live_times *times = &query->entry->times;
    size_t frames = culm_edge_frames_bytes(&run->laid->layout, CULM_EDGE_SLOTS_MIN);
    size_t own = culm_edge_query_bytes(&run->laid->layout, q);
    enum culm_status status = CULM_OK;
    int32_t held = 0;
    for (; held < of->tensor_count && status == CULM_OK; held++) {
        uint64_t begin = culm_clock_ns();
        status = live_read(run, of->tensor[held], error);
        if (status == CULM_OK) {
            culm_live_loads_add(&run->loads[false], run->laid->bytes[of->tensor[held]],
                                culm_clock_ns() - begin);
        }
    }
    held -= status != CULM_OK;
    for (int32_t b = 0; b < query->sizes && status == CULM_OK; b++) {
        double took[CALIBRATED], share[CULM_LIVE_CUTS_MAX][CALIBRATED];
        uint64_t reached_ns[CULM_LIVE_CUTS_MAX];
        if (times->run_ms[b] > 0 || own + frames + of->activation_bytes[b] > run->limit_bytes) {
            continue;
        }
        if (live_asked(run)) {
            times->run_ms[b] = 1; /* not measured: the caller sees that the run is to stop */
            continue;
        }
        run->exec.ops->activations(&run->exec, of->activation_bytes[b]);
        status = live_hold(run, error);
        for (int i = -1; i < CALIBRATED && status == CULM_OK; i++) { /* -1 is a warm-up */
            uint64_t begin = culm_clock_ns();
            live_compute(run, query, b, 0, reached_ns);
            double ns = (double)(culm_clock_ns() - begin);
            took[i < 0 ? 0 : i] = ns / 1e6;
            for (int32_t c = 0; c < query->trunk.cuts; c++) {
                share[c][i < 0 ? 0 : i] = (double)reached_ns[c] / ns;
            }
        }
        times->run_ms[b] = status == CULM_OK ? culm_median(took, CALIBRATED) : 0;
        for (int32_t c = 0; c < query->trunk.cuts && status == CULM_OK; c++) {
            culm_live_times_set_share(times, query->trunk.cut[c].operators, b,
                                      culm_median(share[c], CALIBRATED));
        }
    }
    run->exec.ops->activations(&run->exec, 0);
    for (int32_t i = 0; i < held; i++) {
        run->exec.ops->evict(&run->exec, of->tensor[i]);
    }
    /* Sizes that do not fit are never run, so any time will do: that of running frame by frame. */
    for (int32_t b = 1; b < query->sizes; b++) {
        if (times->run_ms[b] <= 0) {
            times->run_ms[b] = times->run_ms[0] * query->size[b];
        }
    }
    return status;
}

enum culm_status live_calibrate(struct culm_live *run, struct culm_error *error) {
    enum culm_status status = CULM_OK;
    const double rate_mb_per_s = run->rate_mb_per_s;
    run->rate_mb_per_s = 0; /* run times are wanted; at a low rate, loading could take hours */
    run->uncalibrated = live_asked(run);
    for (int32_t q = 0; q < run->query_count && status == CULM_OK; q++) {
        struct live_query *query = &run->query[q];
        bool known = query->gone;
        for (int32_t other = 0; other < q && !known; other++) { /* the same files take as long */
            if (strcmp(run->query[other].entry->identity, query->entry->identity) == 0) {
                query->entry->times = run->query[other].entry->times;
            }
        }
        for (int32_t b = 0; b < query->sizes; b++) {
            known |= b == query->sizes - 1 && query->entry->times.run_ms[b] > 0;
        }
        for (int32_t b = 0; b < query->sizes && run->uncalibrated && !known; b++) {
            query->entry->times.run_ms[b] = 1; /* any number will do: nothing will be run */
        }
        status = known || run->uncalibrated ? CULM_OK : calibrate_query(run, q, error);
        run->uncalibrated |= live_asked(run);
    }
    run->rate_mb_per_s = rate_mb_per_s;
    return status;
}

/*
 * How long loads take, estimated from those so far: a fixed time for each load and a time per byte.
 *
 * Thread: the caller's.
 */
#ifndef CULM_LIVE_LOADS_H
#define CULM_LIVE_LOADS_H

#include <stddef.h>
#include <stdint.h>

/* Sums over the loads so far, from which a line is fitted. */
struct culm_live_loads {
    int64_t count;
    double bytes, ms, bytes_bytes, bytes_ms;
};
void culm_live_loads_add(struct culm_live_loads *loads, size_t bytes, uint64_t took_ns);
/* Fits the time that any load takes, however small, and the rate at which its bytes come in
 * addition, by least squares and such that the total time matches what was measured. Needs at
 * least one load. 0 MB/s: bytes take no time. */
void culm_live_loads_fit(const struct culm_live_loads *loads, double *ret_ms, double *ret_mb_per_s);

#endif

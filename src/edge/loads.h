/*
 * How long loads take, judging by those so far: so much each, and so much a byte.
 *
 * Thread: the caller's.
 */
#ifndef CULM_EDGE_LOADS_H
#define CULM_EDGE_LOADS_H

#include <stddef.h>
#include <stdint.h>

/* What loads took, as sums. */
struct culm_edge_loads {
    int64_t count;
    double bytes, ms, bytes_bytes, bytes_ms;
};
void culm_edge_loads_add(struct culm_edge_loads *loads, size_t bytes, uint64_t took_ns);
/* What a load takes however small it is, and how fast its bytes come beside that, by least squares,
 * so that all together take as long as they did. There is at least one. 0 MB/s: bytes take no time.
 */
void culm_edge_loads_fit(const struct culm_edge_loads *loads, double *ret_ms, double *ret_mb_per_s);

#endif

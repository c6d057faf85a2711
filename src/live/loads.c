/* A line through the times of loads. See loads.h. */
#include "live/loads.h"

void culm_live_loads_add(struct culm_live_loads *loads, size_t bytes, uint64_t took_ns) {
    double size = (double)bytes, ms = (double)took_ns / 1e6;
    loads->count++;
    loads->bytes += size;
    loads->ms += ms;
    loads->bytes_bytes += size * size;
    loads->bytes_ms += size * ms;
}

void culm_live_loads_fit(const struct culm_live_loads *loads, double *ret_ms,
                         double *ret_mb_per_s) {
    double count = (double)loads->count;
    double spread = count * loads->bytes_bytes - loads->bytes * loads->bytes;
    double slope = loads->bytes > 0 ? loads->ms / loads->bytes : 0; /* ms a byte */
    if (spread > 1e-9 * count * loads->bytes_bytes) {
        double fitted = (count * loads->bytes_ms - loads->bytes * loads->ms) / spread;
        slope = fitted < 0 ? 0 : fitted < slope ? fitted : slope;
    }
    *ret_ms = (loads->ms - slope * loads->bytes) / count;
    *ret_ms = *ret_ms > 0 ? *ret_ms : 0;
    *ret_mb_per_s = slope > 0 ? 1e-3 / slope : 0;
}

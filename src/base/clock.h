/* The clock of deadlines and durations: it never goes back. Thread: any. */
#ifndef CULM_BASE_CLOCK_H
#define CULM_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

uint64_t culm_clock_ns(void); /* CLOCK_MONOTONIC */

/* For whoever looks every now and then who has been silent for longer than a limit. True: this process, or
 * its machine, has stood still since the last look, so nobody could be heard, and all have a whole limit
 * more; in half of one nobody could be missed. *looked_ns: of the last look, 0 before the first one. */
static inline bool culm_clock_stood_still(uint64_t *looked_ns, uint64_t now_ns, uint64_t limit_ns) {
    bool still = *looked_ns > 0 && now_ns > *looked_ns && now_ns - *looked_ns > limit_ns / 2;
    *looked_ns = now_ns;
    return still;
}

#endif

/* How long to wait before a service is asked again. Thread: any. */
#ifndef CULM_CLOUD_PAUSE_H
#define CULM_CLOUD_PAUSE_H

#include "base/rng.h"

/* A time that doubles with each pause up to `most_ms`, shortened at random (by `seed`) by up to half, so that many that were refused
 * at once do not come again at once. */
static inline uint64_t culm_cloud_pause_ms(uint64_t first_ms, uint64_t most_ms, uint64_t seed,
                                           uint32_t pauses) {
    uint64_t ms = first_ms << (pauses < 8 ? pauses : 8);
    ms = ms > most_ms ? most_ms : ms;
    return ms - culm_rng_mix(seed, pauses) % (ms / 2);
}

#endif

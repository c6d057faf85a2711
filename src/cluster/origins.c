/* See origins.h. */
#include "cluster/origins.h"

#include <stdio.h>
#include <string.h>

#define ORIGIN_FORGOTTEN_NS 60000000000ull /* without a refusal */
#define PAUSE_NS 100000000ull              /* of the second refusal; doubled by each */
#define PAUSE_MOST_NS 5000000000ull
#define SAID_NS 1000000000ull /* between two refusals of which something is said */

static struct culm_origin *origin_of(struct culm_origins *origins, const char *host,
                                     uint64_t now_ns) {
    struct culm_origin *oldest = &origins->origin[0];
    for (int32_t i = 0; i < CULM_ORIGINS; i++) {
        struct culm_origin *origin = &origins->origin[i];
        if (origin->refusals && strcmp(origin->host, host) == 0) {
            return origin;
        }
        oldest = !origin->refusals || (oldest->refusals && origin->last_ns < oldest->last_ns)
                     ? origin
                     : oldest;
    }
    *oldest = (struct culm_origin){.last_ns = now_ns};
    snprintf(oldest->host, sizeof oldest->host, "%s", host);
    return oldest;
}

/* Counts one that is refused now: the how manyth of its machine. */
static int32_t count(struct culm_origin *origin, uint64_t now_ns) {
    if (now_ns > origin->last_ns + ORIGIN_FORGOTTEN_NS) {
        origin->refusals = 0;
    }
    origin->last_ns = now_ns;
    return ++origin->refusals;
}

bool culm_refusals_say(struct culm_refusals *refusals, const char *host, uint64_t now_ns,
                       int32_t *ret_unsaid) {
    const bool first = count(origin_of(&refusals->origins, host, now_ns), now_ns) == 1;
    if (!first || (refusals->said_ns && now_ns < refusals->said_ns + SAID_NS)) {
        refusals->unsaid++;
        return false;
    }
    *ret_unsaid = refusals->unsaid;
    refusals->unsaid = 0;
    refusals->said_ns = now_ns;
    return true;
}

uint64_t culm_origins_pause(struct culm_origins *origins, const char *host, uint64_t now_ns,
                            uint64_t most_ns) {
    struct culm_origin *origin = origin_of(origins, host, now_ns);
    const uint64_t most = most_ns < PAUSE_MOST_NS ? most_ns : PAUSE_MOST_NS;
    uint64_t pause = PAUSE_NS;
    if (count(origin, now_ns) == 1) {
        return 0;
    }
    for (int32_t i = 2; i < origin->refusals && pause < most; i++) {
        pause *= 2;
    }
    return pause < most ? pause : most;
}

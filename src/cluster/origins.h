/*
 * Machines from which newcomers come that are refused: those of one that comes again and again wait for the answer, longer each time.
 * Thread: the owner's. Internal to the room.
 */
#ifndef CULM_CLUSTER_ORIGINS_H
#define CULM_CLUSTER_ORIGINS_H

#include "net/address.h"

#include <stdbool.h>
#include <stdint.h>

#define CULM_ORIGINS 64 /* that were refused lately and are remembered, at most */

struct culm_origins { /* zeroed at first */
    struct culm_origin {
        char host[CULM_ADDRESS_HOST_SIZE];
        int32_t refusals; /* 0: the place is free */
        uint64_t last_ns;
    } origin[CULM_ORIGINS];
};

/* Of which refusals something is said: the first one of a machine, and at most one a second of all, however many
 * come from however many machines. */
struct culm_refusals { /* zeroed at first */
    struct culm_origins origins;
    uint64_t said_ns;
    int32_t unsaid; /* since then */
};

/* One from there is refused now: whether it is said; *ret_unsaid: how many were not, since the last one that was. */
bool culm_refusals_say(struct culm_refusals *refusals, const char *host, uint64_t now_ns,
                       int32_t *ret_unsaid);

/* How long a newcomer from there waits for its refusal, which is counted; at most most_ns. */
uint64_t culm_origins_pause(struct culm_origins *origins, const char *host, uint64_t now_ns,
                            uint64_t most_ns);

#endif

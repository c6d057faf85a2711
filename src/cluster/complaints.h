/*
 * Errors that come again and again, such as those of a process that something starts anew whenever it
 * ends: one of a kind is said at once, and later ones are counted, and said together once a minute.
 * Two are of a kind if their texts are equal except for numbers; a few kinds are known at a time.
 * No clock of its own. Thread: none of its own. Internal to the room.
 */
#ifndef CULM_CLUSTER_COMPLAINTS_H
#define CULM_CLUSTER_COMPLAINTS_H

#include "base/status.h"

#include <stdint.h>

#define CULM_COMPLAINTS_KINDS 8
#define CULM_COMPLAINTS_AGAIN_NS 60000000000ull

struct culm_complaints { /* zeroed: nothing was said */
    struct {
        char text[CULM_ERROR_MAX];
        uint64_t said_ns;
        int64_t more; /* of its kind since, which were not said */
    } kind[CULM_COMPLAINTS_KINDS];
    int32_t next; /* the kind that makes room for another */
};

/* Whether to say it now. If some of its kind were not, their number is added to its text. */
bool culm_complaints_hear(struct culm_complaints *complaints, struct culm_error *error,
                          uint64_t now_ns);

#endif

/*
 * Connections of those who have not proved who they are, oldest first.
 *
 * There is room for a number of them; the next one takes the place of the oldest, so that no crowd
 * of silent ones keeps out who has something to say: a handshake takes less than a millisecond, and
 * one whose place was taken calls again. Embed the struct. Thread: the loop's. Internal to the
 * room.
 */
#ifndef CULM_CLUSTER_GUESTS_H
#define CULM_CLUSTER_GUESTS_H

#include <stdint.h>

struct culm_guest {
    struct culm_guest *older, *newer;
    uint64_t since_ns;
};

struct culm_guests {
    struct culm_guest *oldest, *newest;
    int32_t count;
};

void culm_guests_add(struct culm_guests *guests, struct culm_guest *guest, uint64_t now_ns);
void culm_guests_remove(struct culm_guests *guests, struct culm_guest *guest);

#endif

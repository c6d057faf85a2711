/*
 * How an actor with peers speaks: a message is encoded into the teller's buffer, then sent, to one or to many.
 * Of a node, see self.h; of a leader, crew.h. Thread: the actor's.
 */
#ifndef CULM_CREW_TELL_H
#define CULM_CREW_TELL_H

#include "base/buf.h"
#include "net/world.h"

struct culm_teller {
    struct culm_world *world;
    struct culm_buf meta;
};

/* `world` is borrowed for life; no message may have more than `meta_max` bytes beside its payload. */
void culm_teller_init(struct culm_teller *teller, struct culm_world *world, size_t meta_max);
void culm_teller_release(struct culm_teller *teller);
uint64_t culm_tell_now(const struct culm_teller *teller);
/* Where a message is encoded, emptied. Good until the next call. */
struct culm_buf *culm_tell_meta(struct culm_teller *teller);
/* Sends what the buffer holds, with `size_bytes` of `payload` from `offset_bytes` (NULL: none), which is
 * referenced until written. May be called again for another receiver of the same. False: it could not be
 * encoded, for want of memory, and nothing is sent. */
bool culm_tell(struct culm_teller *teller, int32_t to, uint16_t type, struct culm_blob *payload,
               size_t offset_bytes, size_t size_bytes);
/* The same, of what may wait for all that has been and will be sent to that receiver and does not yield. */
bool culm_tell_yielding(struct culm_teller *teller, int32_t to, uint16_t type,
                        struct culm_blob *payload, size_t offset_bytes, size_t size_bytes);
/* Sets a timer to fire after so many milliseconds. */
void culm_tell_timer(struct culm_teller *teller, uint32_t timer, int64_t ms);

#endif

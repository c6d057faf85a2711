/*
 * A node's half of a crew: it speaks, says that it is alive and how long it has been at its task, fails, and
 * leaves. The first member of a protocol's node, or of what its nodes have in common. Thread: the actor's.
 */
#ifndef CULM_CREW_SELF_H
#define CULM_CREW_SELF_H

#include "crew/pulse.h"
#include "crew/tell.h"
#include "crew/words.h"

#define CULM_SELF_TIMER_HEARTBEAT 0 /* the actor's timer of that number is for culm_self_beat */

#define CULM_SELF_RELEASED 112 /* what it leaves with when it has asked to, and is let go */

struct culm_self {
    struct culm_teller tell;
    struct culm_pulse pulse;
    int32_t id;
    int64_t progress;  /* changes with whatever shows that it gets on; the owner counts it up */
    bool left;         /* the world has been told to leave: nothing more is to be done */
    bool leaving;      /* it has asked to be let go, */
    int64_t within_ms; /* and said within what time */
    bool stops; /* leaves with CULM_ERR_STOPPED when the run was stopped; else as when it is done */
};

void culm_self_init(struct culm_self *self, struct culm_world *world, int32_t id,
                    int64_t heartbeat_ms, size_t meta_max);
void culm_self_release(struct culm_self *self);
uint64_t culm_self_now(const struct culm_self *self);
/* As in tell.h. A message that cannot be encoded is the end of the node. */
struct culm_buf *culm_self_meta(struct culm_self *self);
void culm_self_send(struct culm_self *self, int32_t to, uint16_t type, struct culm_blob *payload,
                    size_t offset_bytes, size_t size_bytes);
/* culm_tell_yielding. */
void culm_self_send_yielding(struct culm_self *self, int32_t to, uint16_t type,
                             struct culm_blob *payload, size_t offset_bytes, size_t size_bytes);
/* To the leader, without a payload. */
void culm_self_tell(struct culm_self *self, uint16_t type);

/* Tells the leader that this node cannot go on, and why, and leaves. Does nothing if it has left
 * already. Tasks that run are dropped when they end. */
void culm_self_fail(struct culm_self *self, enum culm_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Leaves, since all is done. */
void culm_self_leave(struct culm_self *self);
/* For the actor's `leave` (net/world.h): asks the leader to be let go. It goes on as before until it hears RELEASED. */
void culm_self_ask_leave(struct culm_self *self, int64_t within_ms);
/* Another one leads, and has been told what there is here: it has to hear that this node wants to leave, too. */
void culm_self_ask_again(struct culm_self *self);
/* To be called first in the actor's message function. True: it was END, FENCED or RELEASED, and the node has left, or
 * it had left before. */
bool culm_self_heard(struct culm_self *self, int32_t from, const struct culm_message *message);
/* Tells the leader that a peer cannot be reached. */
void culm_self_complain(struct culm_self *self, int32_t peer);

/* Passes a fault point. May not return, or return late. */
void culm_self_point(struct culm_self *self, uint32_t phase, int64_t step, int64_t part);
/* Says that it is alive, what it is at and for how long, and sets the timer for the next time. At the start,
 * then by that timer only. */
void culm_self_beat(struct culm_self *self);
/* The line has begun a task; has ended it: if it ended well, and how long it took is news, says TOOK. */
void culm_self_begins(struct culm_self *self, int32_t line, int32_t kind, int32_t part);
void culm_self_ends(struct culm_self *self, int32_t line, bool well);

#endif

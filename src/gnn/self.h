/*
 * What servers, parameter servers and workers have in common: a world, an executor, and how they
 * talk. The first member of each. Thread: as the actor.
 */
#ifndef CULM_GNN_SELF_H
#define CULM_GNN_SELF_H

#include "gnn/message.h"
#include "gnn/pace.h"
#include "gnn/phase.h"

/* What an actor that does not lead is made with; borrowed as long as it lives. */
struct culm_gnn_node_options {
    struct culm_world *world;
    struct culm_gnn_exec *exec;
    const struct culm_gnn_layout *layout;
    struct culm_blob_pool *pool; /* for sums */
    int32_t id;
    int64_t beat_ms; /* between two signs of life */
    struct culm_gnn_pace pace;
};

#define CULM_GNN_QUEUE_MAX 4 /* a server's own task, and those of its holder */

struct culm_gnn_self {
    struct culm_gnn_node_options o;
    struct culm_buf meta;
    struct culm_gnn_view view;                       /* number 0: none yet */
    struct culm_pulse pulse;                         /* line 0 computes, line 1 writes files */
    int64_t progress;                                /* tasks done and messages that came */
    struct culm_gnn_task *queue[CULM_GNN_QUEUE_MAX]; /* given to the compute thread, in order */
    int32_t queue_count;
    struct culm_gnn_traffic *traffic; /* by node, up to the last that has any */
    int32_t traffic_count, traffic_capacity;
    int32_t *gone; /* nodes that this one can no longer reach, or never could */
    int32_t gone_count, gone_capacity;
    bool left;
};

enum { CULM_GNN_TIMER_BEAT, CULM_GNN_TIMER_WATCH, CULM_GNN_TIMER_LEAVE, CULM_GNN_TIMER_LATE };

void culm_gnn_self_init(struct culm_gnn_self *self, const struct culm_gnn_node_options *options);
void culm_gnn_self_release(struct culm_gnn_self *self);
/* The next message's meta bytes, to be encoded into. */
struct culm_buf *culm_gnn_meta(struct culm_gnn_self *self);
/* Sends what was encoded; payload NULL: none. */
void culm_gnn_send(struct culm_gnn_self *self, int32_t to, enum culm_gnn_message_type type,
                   struct culm_blob *payload);
/* The same with a part of a blob, to a peer. */
void culm_gnn_send_part(struct culm_gnn_self *self, int32_t to, enum culm_gnn_message_type type,
                        struct culm_blob *payload, size_t offset_bytes, size_t size_bytes);
/* Says why to the leader, and leaves. */
void culm_gnn_fail(struct culm_gnn_self *self, enum culm_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The fault point `phase` of an epoch; interval -1: the phase has none. */
void culm_gnn_point(struct culm_gnn_self *self, enum culm_gnn_phase phase, int64_t epoch,
                    int64_t interval);
/* A sign of life, now and every beat_ms: what runs, and for how long. */
void culm_gnn_beat(struct culm_gnn_self *self);
/* Runs a task off the loop; it must live until job_done. At most CULM_GNN_QUEUE_MAX at once, and one
 * for files. */
void culm_gnn_run(struct culm_gnn_self *self, struct culm_gnn_task *task);
void culm_gnn_run_io(struct culm_gnn_self *self, struct culm_gnn_task *task);
/* A job has ended: first thing in job_done. */
void culm_gnn_ran(struct culm_gnn_self *self, const struct culm_job *job);
/* A message has come: first thing in message. True: that was all there is to do with it. */
bool culm_gnn_heard(struct culm_gnn_self *self, int32_t from, const struct culm_message *message);
/* Takes over a newer view. False: it is malformed (and the actor has left) or not newer. */
bool culm_gnn_enter(struct culm_gnn_self *self, const struct culm_message *message);
/* Takes over what comes after an epoch that is committed. False: it is malformed, or not of the epoch
 * that is next. */
bool culm_gnn_hear_commit(struct culm_gnn_self *self, const struct culm_message *message,
                          struct culm_gnn_commit *ret_commit);
/* The run is over. */
void culm_gnn_leave(struct culm_gnn_self *self);
/* Notes that a node cannot be reached. */
void culm_gnn_gone(struct culm_gnn_self *self, int32_t node);
bool culm_gnn_is_gone(const struct culm_gnn_self *self, int32_t node);
/* The first noted node, from `*at` on, that the view counts on; -1: there is none. *at begins at 0. */
int32_t culm_gnn_next_gone(const struct culm_gnn_self *self, int32_t *at);
/* Tells the leader of all of them: for nodes that others count on. */
void culm_gnn_tell_gone(struct culm_gnn_self *self);
/* A reference to the received payload, which must be of that size. NULL: it is not. */
struct culm_blob *culm_gnn_payload(const struct culm_message *message);

#endif

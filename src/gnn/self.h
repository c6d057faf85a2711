/*
 * The part that servers, parameter servers and workers have in common: the world, the executor,
 * the current view, heartbeats, and messages. It is the first member of each of these actors.
 * Thread: the actor's.
 */
#ifndef CULM_GNN_SELF_H
#define CULM_GNN_SELF_H

#include "gnn/message.h"
#include "gnn/pace.h"
#include "gnn/phase.h"

/* What servers, parameter servers and workers are made with. Pointers are borrowed for life. */
struct culm_gnn_node_options {
    struct culm_world *world;
    struct culm_gnn_exec *exec;
    const struct culm_gnn_layout *layout;
    struct culm_blob_pool *pool; /* for sums */
    int32_t id;
    int64_t beat_ms; /* between two heartbeats */
    int64_t gone_ms; /* WORKER: how long it waits for the leader to settle a lost link; 0: 5 s */
    struct culm_gnn_pace pace;
};

#define CULM_GNN_QUEUE_MAX 4 /* enough for a server's own task and those of its holder */

struct culm_gnn_self {
    struct culm_gnn_node_options o;
    struct culm_buf meta;
    struct culm_gnn_view view;                       /* number 0: none yet */
    struct culm_pulse pulse;                         /* line 0: compute; line 1: files */
    int64_t progress;                                /* tasks done and messages received */
    struct culm_gnn_task *queue[CULM_GNN_QUEUE_MAX]; /* tasks of the compute thread, in order */
    int32_t queue_count;
    struct culm_gnn_traffic *traffic; /* indexed by node, up to the last that has any */
    int32_t traffic_count, traffic_capacity;
    int32_t *gone; /* nodes that cannot be reached */
    int32_t gone_count, gone_capacity;
    bool left; /* the world has been told to leave: nothing more is to be done */
};

enum { CULM_GNN_TIMER_BEAT, CULM_GNN_TIMER_WATCH, CULM_GNN_TIMER_LEAVE, CULM_GNN_TIMER_LATE };

void culm_gnn_self_init(struct culm_gnn_self *self, const struct culm_gnn_node_options *options);
void culm_gnn_self_release(struct culm_gnn_self *self);
/* The buffer for the meta bytes of the next message, emptied. */
struct culm_buf *culm_gnn_meta(struct culm_gnn_self *self);
/* Sends a message with the meta bytes that were encoded. payload NULL: none. */
void culm_gnn_send(struct culm_gnn_self *self, int32_t to, enum culm_gnn_message_type type,
                   struct culm_blob *payload);
/* The same with a part of a blob as payload. */
void culm_gnn_send_part(struct culm_gnn_self *self, int32_t to, enum culm_gnn_message_type type,
                        struct culm_blob *payload, size_t offset_bytes, size_t size_bytes);
/* Tells the leader why the node fails, and leaves. */
void culm_gnn_fail(struct culm_gnn_self *self, enum culm_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Passes the fault point `phase` of an epoch; interval -1: the phase has none. */
void culm_gnn_point(struct culm_gnn_self *self, enum culm_gnn_phase phase, int64_t epoch,
                    int64_t interval);
/* Sends a heartbeat, which says what task runs and for how long, and sets CULM_GNN_TIMER_BEAT for
 * the next. */
void culm_gnn_beat(struct culm_gnn_self *self);
/* Runs a task on the compute thread, or on the one for files. It must live until job_done. At most
 * CULM_GNN_QUEUE_MAX at once, and one for files. */
void culm_gnn_run(struct culm_gnn_self *self, struct culm_gnn_task *task);
void culm_gnn_run_io(struct culm_gnn_self *self, struct culm_gnn_task *task);
/* To be called first in job_done. */
void culm_gnn_ran(struct culm_gnn_self *self, const struct culm_job *job);
/* To be called first in the actor's message function. True: the message has been dealt with. */
bool culm_gnn_heard(struct culm_gnn_self *self, int32_t from, const struct culm_message *message);
/* Makes a newer view the current one. False: it is malformed (the actor fails), or not newer. */
bool culm_gnn_enter(struct culm_gnn_self *self, const struct culm_message *message);
/* Goes on to the next epoch upon a COMMIT. False: the message is malformed, or not of the current
 * attempt and epoch. */
bool culm_gnn_hear_commit(struct culm_gnn_self *self, const struct culm_message *message,
                          struct culm_gnn_commit *ret_commit);
/* Leaves with exit code 0. */
void culm_gnn_leave(struct culm_gnn_self *self);
/* Notes that a node cannot be reached. */
void culm_gnn_gone(struct culm_gnn_self *self, int32_t node);
bool culm_gnn_is_gone(const struct culm_gnn_self *self, int32_t node);
/* Iterates over the noted nodes that own or hold something under the current view; -1: no more.
 * *at must be 0 before the first call. */
int32_t culm_gnn_next_gone(const struct culm_gnn_self *self, int32_t *at);
/* Reports all of these to the leader. For servers and parameter servers; a worker that cannot reach
 * one fails instead (worker.c). */
void culm_gnn_tell_gone(struct culm_gnn_self *self);
/* A new reference to the received payload; NULL: there is none. Its size is not checked. */
struct culm_blob *culm_gnn_payload(const struct culm_message *message);

#endif

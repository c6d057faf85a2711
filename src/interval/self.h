/*
 * The part that servers, parameter servers and workers have in common: the world, the executor,
 * the current view, heartbeats, and messages. It is the first member of each of these actors.
 * Thread: the actor's.
 */
#ifndef CULM_INTERVAL_SELF_H
#define CULM_INTERVAL_SELF_H

#include "base/ids.h"
#include "crew/self.h"
#include "interval/message.h"
#include "interval/pace.h"
#include "interval/phase.h"

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
    bool stops; /* crew/self.h */
};

#define CULM_GNN_QUEUE_MAX 4 /* enough for a server's own task and those of its holder */

struct culm_gnn_self {
    struct culm_self
        node; /* its pulse: line 0: compute; line 1: files; progress: tasks done, messages got */
    struct culm_gnn_node_options o;
    struct culm_gnn_view view;    /* number 0: none yet, nor owners */
    struct culm_gnn_view next;    /* scratch for one that comes */
    struct culm_gnn_curve *curve; /* what it can tell of epochs */
    bool anew; /* the view is the first of another leader, who is told everything once more */
    struct culm_gnn_task *queue[CULM_GNN_QUEUE_MAX]; /* tasks of the compute thread, in order */
    int32_t queue_count;
    struct culm_ids traffic; /* struct culm_gnn_traffic, by node that can be reached */
    struct culm_ids gone;    /* nodes that cannot */
    struct culm_ids missing; /* those of them that own or hold something under the view */
    int32_t *named;          /* [named_count] all that do, rising */
    int32_t named_count;
};

enum {
    CULM_GNN_TIMER_BEAT = CULM_SELF_TIMER_HEARTBEAT,
    CULM_GNN_TIMER_WATCH,
    CULM_GNN_TIMER_LEAVE,
    CULM_GNN_TIMER_LATE
};

void culm_gnn_self_init(struct culm_gnn_self *self, const struct culm_gnn_node_options *options);
void culm_gnn_self_release(struct culm_gnn_self *self);
/* As culm_self_send, and counted. */
void culm_gnn_send(struct culm_gnn_self *self, int32_t to, enum culm_gnn_message_type type,
                   struct culm_blob *payload);
/* The same with a part of a blob as payload. */
void culm_gnn_send_part(struct culm_gnn_self *self, int32_t to, enum culm_gnn_message_type type,
                        struct culm_blob *payload, size_t offset_bytes, size_t size_bytes);
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
/* Tells a leader that takes over what there is here: `state` has `holds`, `version`, `digest`, `diverged` and `since`. */
void culm_gnn_report(struct culm_gnn_self *self, struct culm_gnn_report *state);
/* Notes that a node cannot be reached. */
void culm_gnn_gone(struct culm_gnn_self *self, int32_t node);
bool culm_gnn_is_gone(const struct culm_gnn_self *self, int32_t node);
/* Iterates over the noted nodes that own or hold something under the current view, each once; -1: no
 * more. *at must be 0 before the first call. */
int32_t culm_gnn_next_gone(const struct culm_gnn_self *self, int32_t *at);
/* Reports all of these to the leader. For servers and parameter servers; a worker that cannot reach
 * one fails instead (worker.c). */
void culm_gnn_tell_gone(struct culm_gnn_self *self);
/* A new reference to the received payload; NULL: there is none. Its size is not checked. */
struct culm_blob *culm_gnn_payload(const struct culm_message *message);

#endif

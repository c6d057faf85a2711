/*
 * A holder: keeps the weights and what the optimizer keeps of them, and steps when the whole gradient
 * of an epoch is there. A parameter server is one; where there is only one of these, a server is a
 * second, so that the state is never in one place alone.
 *
 *     VIEW: it loads, or is sent a copy ──▶ HOLDS version v
 *     GRADIENT, of every stage, from all intervals ──▶ STEP ──▶ HOLDS version v + 1
 *     COMMIT: the version before is forgotten; SAVE, if it is asked to
 *
 * All holders get the same sums and step alike, so what they say of a version is compared by the
 * leader. A holder is at most one version ahead of the last commit, and keeps the weights of the
 * version before until then: an interval that is lost meanwhile is done again with them.
 *
 * It is part of an actor, which passes on what comes. Thread: the actor's.
 */
#ifndef CULM_GNN_HOLDER_H
#define CULM_GNN_HOLDER_H

#include "gnn/self.h"
#include "ledger/fold.h"

struct culm_gnn_holder;

/* `self` is borrowed. NULL: out of memory. */
struct culm_gnn_holder *culm_gnn_holder_new(struct culm_gnn_self *self);
void culm_gnn_holder_free(struct culm_gnn_holder *holder); /* NULL is fine */
/* self->view is new. */
void culm_gnn_holder_view(struct culm_gnn_holder *holder);
void culm_gnn_holder_commit(struct culm_gnn_holder *holder, const struct culm_gnn_commit *commit);
/* GET, GRADIENT, STATE, WEIGHTS of another holder; others are left alone. */
void culm_gnn_holder_message(struct culm_gnn_holder *holder, int32_t from,
                             const struct culm_message *message);
/* True when the job was one of its own. */
bool culm_gnn_holder_job_done(struct culm_gnn_holder *holder, struct culm_job *job);
/* The weights of that version, for the actor itself: a reference; NULL: not now. */
struct culm_blob *culm_gnn_holder_weights(const struct culm_gnn_holder *holder, int64_t version);
/* What it holds: -1: nothing. */
int64_t culm_gnn_holder_version(const struct culm_gnn_holder *holder);

#endif

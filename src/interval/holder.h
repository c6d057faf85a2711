/*
 * A holder: keeps the state (the weights and the optimizer's values), and updates it once the whole
 * gradient of an epoch has arrived. Every parameter server is a holder. If there is only one, a
 * server is a holder as well, so that the state is never in one place only.
 *
 *     VIEW: loads the state, or is sent a copy ──▶ HOLDS version v
 *     GRADIENT of every stage, over all intervals ──▶ STEP ──▶ HOLDS version v + 1
 *     SAVE: writes a piece of a checkpoint, and says so (SAVED); the leader publishes it
 *     COMMIT: may go on to the next version
 *
 * All holders get the same sums and compute the same update; the leader compares their digests. A
 * holder is at most one version ahead of the last commit. It also keeps the weights of earlier
 * versions, as many as staleness asks for: the epoch of an interval whose server is lost is
 * repeated with the same weights.
 *
 * A holder is a part of an actor, which passes messages on to it. Thread: the actor's.
 */
#ifndef CULM_INTERVAL_HOLDER_H
#define CULM_INTERVAL_HOLDER_H

#include "interval/self.h"
#include "ledger/fold.h"

struct culm_gnn_holder;

/* `self` is borrowed. NULL: out of memory. */
struct culm_gnn_holder *culm_gnn_holder_new(struct culm_gnn_self *self);
void culm_gnn_holder_free(struct culm_gnn_holder *holder); /* NULL is fine */
/* self->view has changed. */
void culm_gnn_holder_view(struct culm_gnn_holder *holder);
void culm_gnn_holder_commit(struct culm_gnn_holder *holder, const struct culm_gnn_commit *commit);
/* Handles GET, GRADIENT, STATE, and WEIGHTS from another holder, and SAVE from the leader; ignores
 * other types. */
void culm_gnn_holder_message(struct culm_gnn_holder *holder, int32_t from,
                             const struct culm_message *message);
/* True if the job was the holder's; then it has been dealt with. */
bool culm_gnn_holder_job_done(struct culm_gnn_holder *holder, struct culm_job *job);
/* A new reference to the weights of that version, for the actor itself; NULL: they are not here. */
struct culm_blob *culm_gnn_holder_weights(const struct culm_gnn_holder *holder, int64_t version);
/* What it has, for a leader that takes over. */
void culm_gnn_holder_report(struct culm_gnn_holder *holder, struct culm_gnn_report *ret_report);
/* The version of the state that it holds under its view; -1: none. */
int64_t culm_gnn_holder_version(const struct culm_gnn_holder *holder);

#endif

/*
 * `--fault leader,...`: what a process that leads does to itself, and where; for runs that others may lead next (lead.h).
 *
 *     leader,step=S[,phase=P][,how=kill|stop][,for_ms=N]
 *
 * Phases: `prepared` (all are, none is told) `commit` (half are told) `view` (half are told) `take_over` (half have answered) `save` (half
 * are told) `publish` (whole here, not where the next leader finds it) `transaction` (a deed is written, nobody is told). Each is that of
 * step S, or the first after it. Without `phase` it is `commit`.
 *
 * It stands between the leader and its world, and sees what passes. Thread: the leader's, but that of publishing.
 */
#ifndef CULM_RUN_LEADER_FAULT_H
#define CULM_RUN_LEADER_FAULT_H

#include "cluster/fault.h"
#include "net/leader.h"
#include "net/world.h"
#include "run/launches.h"
#include "store/apart.h"

/* Numbered as in the table of leader_fault.c. */
enum culm_leader_phase {
    CULM_LEADER_PREPARED,
    CULM_LEADER_COMMIT,
    CULM_LEADER_VIEW,
    CULM_LEADER_TAKE_OVER,
    CULM_LEADER_SAVE,
    CULM_LEADER_PUBLISH,
    CULM_LEADER_TRANSACTION,
};

struct culm_leader_fault {
    enum culm_leader_phase phase;
    int64_t step;
    enum culm_fault_how how;
    int64_t for_ms; /* 0: for good */
};

/* CULM_ERR_CONFIG, as culm_fault_parse. */
enum culm_status culm_leader_fault_parse(const char *text, struct culm_leader_fault *ret_fault,
                                         struct culm_error *error);

/* One at a time in a process. `nodes` and `stages` of the run: half of these are told. What is returned is used in the place of what is given, until
 * the process ends; nothing is freed. */
void culm_leader_fault_arm(const struct culm_leader_fault *fault, int64_t nodes, int64_t stages);
struct culm_world *culm_leader_fault_world(struct culm_world *real);
struct culm_apart *culm_leader_fault_apart(struct culm_apart *real_or_null);
const struct culm_actor_ops *culm_leader_fault_actor(const struct culm_actor_ops *real);

#endif

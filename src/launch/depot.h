/*
 * The two sides of a depot (store/depot.h) between a launcher, which has the run directory, and nodes that do not see it.
 * Each piece and each file of a checkpoint is a visit (cluster/visit.h): a connection of its own to the address at which
 * the launcher lets nodes in, encrypted as theirs. The leader's thread touches neither files nor these bytes.
 */
#ifndef CULM_LAUNCH_DEPOT_H
#define CULM_LAUNCH_DEPOT_H

#include "net/channel.h"
#include "store/apart.h"
#include "store/depot.h"

/* --- the launcher's side --- */

struct culm_depot_keeper;

/* Borrows both. `apart`: where those are fetched from that are not in run_dir; NULL: nowhere. NULL: out of memory. */
struct culm_depot_keeper *culm_depot_keeper_new(const char *run_dir, struct culm_apart *apart);
/* Serves a visitor on a thread of its own, or, when as many as may be are served, shows it out: it comes again. Does not
 * wait. Any thread. */
void culm_depot_keeper_visit(struct culm_depot_keeper *keeper, struct culm_channel *take_channel);
/* Ends all visits, and waits for their threads. NULL is fine. */
void culm_depot_keeper_free(struct culm_depot_keeper *keeper);

/* --- the node's side --- */

/* Where the launcher listens, and the run's token, which is borrowed. For `patience_ms` a launcher that is not there is asked
 * again: it, or another one, may come back. NULL: out of memory. */
struct culm_depot *culm_depot_far_new(const char *address, const char *token, int64_t patience_ms);
/* Adds to the file at `path`, which is made if it is not there, what the events of the launcher there have beyond its length. Asks once.
 * CULM_ERR_CLOSED: nobody is there, or does not know the token (error->status CULM_ERR_CONFIG). */
enum culm_status culm_depot_far_events(const char *address, const char *token, const char *path,
                                       struct culm_error *error);
/* Another launcher has it from now on. Any thread. */
void culm_depot_far_move(struct culm_depot *depot, const char *address);
void culm_depot_far_free(struct culm_depot *depot); /* NULL is fine */

#endif

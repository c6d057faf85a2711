/*
 * Watches the process that leads a run, for one that may lead next (crew/lead.h): a connection to where it lets nodes in. When
 * that has ended, and its machine refuses another one, the process is not there any more, and its lease is revoked: nobody
 * has to wait for its end. A machine that does not answer says nothing, and is left to the lease.
 *
 * A thread of its own, with a handle of the store of its own. Thread: any.
 */
#ifndef CULM_LAUNCH_SENTRY_H
#define CULM_LAUNCH_SENTRY_H

#include "net/keys.h"

#include <stdint.h>

struct culm_sentry;

/* `keys` is taken, also by a failure; `run` is borrowed. CULM_ERR_MEMORY. */
enum culm_status culm_sentry_new(struct culm_keys *keys, const char *run,
                                 struct culm_sentry **ret_sentry, struct culm_error *error);
/* Who leads now; 0, "": nobody, or this process. */
void culm_sentry_watch(struct culm_sentry *sentry, uint64_t term, const char *address);
/* Within a second. NULL is fine. */
void culm_sentry_free(struct culm_sentry *sentry);

#endif

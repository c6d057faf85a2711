/*
 * A relay: a sink that hands events to another from a thread of its own, so that whoever tells events
 * does not wait for whoever reads them. A person may put the terminal on hold, or page through a pipe
 * and go to lunch; a run goes on meanwhile.
 *
 * Thread: one at a time. The other sink sees the relay's thread alone.
 */
#ifndef CULM_REPORT_RELAY_H
#define CULM_REPORT_RELAY_H

#include "report/sink.h"

/* Events that may wait. Those that come when so many do are left out, which is a failure. */
#define CULM_RELAY_EVENTS 16384

/* An event is copied. A failure to hand one on is returned for one that comes later, once. The event
 * `done` is the last one: it returns when all have been handed on, with the failure that nobody has been
 * told of. Freeing the relay waits for the same, and frees the other sink. NULL: out of memory or of
 * threads; then that is freed as well. */
struct culm_sink *culm_sink_relay_new(struct culm_sink *take_sink);

#endif

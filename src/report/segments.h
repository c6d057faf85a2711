/*
 * The events of a run in several files.
 *
 * A file of events that has given way to a newer one is renamed, and the newer one begins with a copy of
 * the run's `start`, which has `"repeated":true`. Thread: the caller's.
 */
#ifndef CULM_REPORT_SEGMENTS_H
#define CULM_REPORT_SEGMENTS_H

#include "report/sink.h"

/* As culm_events_read, of all that is left of the events of the run whose events.jsonl is in `dir`; with one `start`. */
enum culm_status culm_events_read_run(const char *dir,
                                      enum culm_status (*each)(void *context, const json_t *event,
                                                               struct culm_error *error),
                                      void *context, struct culm_error *error);

#endif

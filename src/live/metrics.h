/*
 * How a run goes, as Prometheus reads it (text format 0.0.4).
 *
 * Names begin with culm_edge_, times are in seconds, sizes in bytes; counters end in _total and begin anew with the
 * run. What is not known is left out. Thread: any.
 */
#ifndef CULM_LIVE_METRICS_H
#define CULM_LIVE_METRICS_H

#include "base/buf.h"

#include <jansson.h>
#include <stdbool.h>

/* What is known in any case: whether the run is well, and how old the rest is. */
void culm_live_metrics_begin(struct culm_buf *out, bool well, double age_s);
/* The rest, of a look at the run. The caller's; NULL: out of memory. */
char *culm_live_metrics(const json_t *look);

#endif

/*
 * Processes that the system has killed for want of memory: their end looks like that of any that is killed, and
 * only a counter of the whole machine tells. Thread: any.
 */
#ifndef CULM_CLUSTER_OOM_H
#define CULM_CLUSTER_OOM_H

#include <stdint.h>

/* How many there have been since the machine was started, as a file in the format of /proc/vmstat says; -1: it
 * does not say. */
int64_t culm_oom_kills(const char *path);

#endif

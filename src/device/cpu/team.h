/* The thread team behind culm_cpu_run; the calling thread is thread 0 of it. */
#ifndef CULM_DEVICE_CPU_TEAM_H
#define CULM_DEVICE_CPU_TEAM_H

#include "device/cpu/internal.h"

enum culm_status culm_cpu_team_new(int threads, struct culm_cpu_team **ret_team,
                                   struct culm_error *error);
void culm_cpu_team_free(struct culm_cpu_team *team); /* NULL is fine */

#endif

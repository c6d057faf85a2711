/* The thread pool behind culm_cpu_run; the calling thread is thread 0 of it. */
#ifndef CULM_DEVICE_CPU_POOL_H
#define CULM_DEVICE_CPU_POOL_H

#include "device/cpu/internal.h"

enum culm_status culm_pool_threads_new(int threads, struct culm_pool_threads **ret_pool,
                                       struct culm_error *error);
void culm_pool_threads_free(struct culm_pool_threads *pool); /* NULL is fine */

#endif

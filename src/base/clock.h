/* The clock of deadlines and durations: it never goes back. Thread: any. */
#ifndef CULM_BASE_CLOCK_H
#define CULM_BASE_CLOCK_H

#include <stdint.h>

uint64_t culm_clock_ns(void); /* CLOCK_MONOTONIC */

#endif

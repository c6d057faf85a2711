/*
 * The time of day, to be written down. Whatever is measured or waited for goes by clock.h.
 *
 * Thread: any.
 */
#ifndef CULM_BASE_WALL_H
#define CULM_BASE_WALL_H

#include <stdint.h>

#define CULM_WALL_TEXT 32

/* When it was or will be that time of culm_clock_ns, as RFC 3339 has it, in UTC and to the
 * millisecond: "2026-11-30T06:57:32.125Z". */
void culm_wall_text(uint64_t clock_ns, char ret_text[CULM_WALL_TEXT]);

#endif

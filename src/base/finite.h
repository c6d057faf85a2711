/* Numbers that say something: neither NaN nor infinite. Thread: any. */
#ifndef CULM_BASE_FINITE_H
#define CULM_BASE_FINITE_H

#include <stdint.h>

/* The index of the first that is NaN or infinite; -1: all are finite. */
int64_t culm_finite_find_other(const float *data, int64_t count);
/* What such a number is called: "NaN", "infinity". */
const char *culm_finite_other_name(float value);

#endif

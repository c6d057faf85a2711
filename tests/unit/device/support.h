/*
 * For the support matrix: an operator's reference, which takes the place of its kernel in a run of
 * a graph whose values are all f32. Thread: any.
 */
#ifndef CULM_TESTS_DEVICE_SUPPORT_H
#define CULM_TESTS_DEVICE_SUPPORT_H

#include "graph/ops.h"

struct support_reference {
    const struct culm_op *op;
    void (*execute)(const struct culm_operands *operands);
};

extern const struct support_reference support_references[]; /* ended by a NULL op */

#endif

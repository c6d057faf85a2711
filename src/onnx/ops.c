/* The tables of operators, as one. See ops.h. */
#include "onnx/ops.h"

#include <string.h>

const struct culm_onnx_op *culm_onnx_op_find(const char *name) {
    static const struct culm_onnx_op *const tables[] = {culm_onnx_ops_shape, culm_onnx_ops_gather,
                                                        culm_onnx_ops_math, culm_onnx_ops_net};
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++) {
        for (const struct culm_onnx_op *op = tables[t]; op->name; op++) {
            if (strcmp(op->name, name) == 0) {
                return op;
            }
        }
    }
    return NULL;
}

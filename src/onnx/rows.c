/* The table of rows. See rows.h. */
#include "onnx/rows.h"

/* clang-format off */
static const struct culm_onnx_row rows[] = {
    {&culm_op_activation,           culm_onnx_write_activation,        culm_onnx_build_pointwise},
    {&culm_op_adaptive_avgpool,     culm_onnx_write_adaptive_avgpool,  NULL},
    {&culm_op_add,                  culm_onnx_write_add,               NULL},
    {&culm_op_affine,               culm_onnx_write_affine,            culm_onnx_build_pointwise},
    {&culm_op_attention,            culm_onnx_write_attention,         culm_onnx_build_attention},
    {&culm_op_avgpool,              culm_onnx_write_avgpool,           NULL},
    {&culm_op_bahdanau,             NULL,                              NULL},
    {&culm_op_batchnorm,            culm_onnx_write_batchnorm,         culm_onnx_build_batchnorm},
    {&culm_op_binary,               culm_onnx_write_binary,            NULL},
    {&culm_op_concat,               culm_onnx_write_concat,            NULL},
    {&culm_op_conv,                 culm_onnx_write_conv,              NULL},
    {&culm_op_cross_entropy,        NULL,                              NULL}, /* losses: left out */
    {&culm_op_dropout,              culm_onnx_write_dropout,           culm_onnx_build_pointwise},
    {&culm_op_embedding,            culm_onnx_write_embedding,         NULL},
    {&culm_op_gather_rows,          culm_onnx_write_gather_rows,       culm_onnx_build_gather_rows},
    {&culm_op_heads,                NULL,                              NULL},
    {&culm_op_hidden,               NULL,                              NULL},
    {&culm_op_layernorm,            culm_onnx_write_layernorm,         culm_onnx_build_layernorm},
    {&culm_op_linear,               culm_onnx_write_linear,            culm_onnx_build_linear},
    {&culm_op_lookup,               culm_onnx_write_lookup,            culm_onnx_build_lookup},
    {&culm_op_lstm,                 NULL,                              NULL},
    {&culm_op_matmul,               culm_onnx_write_matmul,            NULL},
    {&culm_op_maxpool,              culm_onnx_write_maxpool,           NULL},
    {&culm_op_pad,                  culm_onnx_write_pad,               NULL},
    {&culm_op_permute,              culm_onnx_write_permute,           NULL},
    {&culm_op_positions,            culm_onnx_write_positions,         culm_onnx_build_positions},
    {&culm_op_reduce,               culm_onnx_write_reduce,            NULL},
    {&culm_op_reshape,              culm_onnx_write_reshape,           culm_onnx_build_reshape},
    {&culm_op_residual,             culm_onnx_write_residual,          culm_onnx_build_residual},
    {&culm_op_resize,               culm_onnx_write_resize,            NULL},
    {&culm_op_slice,                culm_onnx_write_slice,             culm_onnx_build_slice},
    {&culm_op_softmax,              culm_onnx_write_softmax,           NULL},
    {&culm_op_sparse_linear,        NULL,                              NULL},
    {&culm_op_squared_error,        NULL,                              NULL}, /* losses: left out */
    {0},
};
/* clang-format on */

const struct culm_onnx_row *culm_onnx_rows(void) { return rows; }

const struct culm_onnx_row *culm_onnx_row_of(const struct culm_op *op) {
    for (const struct culm_onnx_row *row = rows; row->op; row++) {
        if (row->op == op) {
            return row;
        }
    }
    return NULL;
}

/*
 * How our operators are written to and built from ONNX: one row for each operator that a model can
 * have (gradients have none). A test compares the rows with the table of operators. To export an
 * operator, or to let passes create it, put its functions into its row and nowhere else.
 *
 * Private to src/onnx.
 */
#ifndef CULM_ONNX_ROWS_H
#define CULM_ONNX_ROWS_H

#include "onnx/build.h"
#include "onnx/export.h"

/* Writes a node; calls culm_onnx_cannot if ONNX has no equivalent. */
typedef void culm_onnx_writer(struct culm_onnx_exporter *e, const struct culm_node_desc *node);
/* Builds the operator that a node of domain CULM_ONNX_OURS stands for. */
typedef enum culm_status culm_onnx_builder(struct culm_onnx_build *build,
                                           const struct culm_onnx_node *node);

struct culm_onnx_row {
    const struct culm_op *op;
    culm_onnx_writer *write;  /* NULL: cannot be exported */
    culm_onnx_builder *build; /* NULL: passes create no such node */
};

const struct culm_onnx_row *culm_onnx_row_of(const struct culm_op *op); /* NULL: none */
const struct culm_onnx_row *culm_onnx_rows(void); /* a row without op ends them */

/* export_ops.c */
culm_onnx_writer culm_onnx_write_activation, culm_onnx_write_dropout, culm_onnx_write_affine,
    culm_onnx_write_residual, culm_onnx_write_add, culm_onnx_write_binary, culm_onnx_write_linear,
    culm_onnx_write_embedding, culm_onnx_write_lookup, culm_onnx_write_positions,
    culm_onnx_write_gather_rows, culm_onnx_write_layernorm, culm_onnx_write_softmax,
    culm_onnx_write_matmul, culm_onnx_write_reduce, culm_onnx_write_reshape,
    culm_onnx_write_permute, culm_onnx_write_concat, culm_onnx_write_slice;
/* export_net.c */
culm_onnx_writer culm_onnx_write_conv, culm_onnx_write_maxpool, culm_onnx_write_avgpool,
    culm_onnx_write_adaptive_avgpool, culm_onnx_write_batchnorm, culm_onnx_write_pad,
    culm_onnx_write_resize, culm_onnx_write_attention;
/* build_rows.c; pointwise: activation, dropout, affine */
culm_onnx_builder culm_onnx_build_linear, culm_onnx_build_lookup, culm_onnx_build_positions,
    culm_onnx_build_layernorm, culm_onnx_build_attention, culm_onnx_build_batchnorm,
    culm_onnx_build_pointwise, culm_onnx_build_residual, culm_onnx_build_reshape,
    culm_onnx_build_slice, culm_onnx_build_gather_rows;
/* The same; made by passes, of several operators. */
culm_onnx_builder culm_onnx_build_row, culm_onnx_build_token, culm_onnx_build_drop_sample,
    culm_onnx_build_shuffle;

#endif

/* The passes, in the order in which they run. See pass.h. */
#include "onnx/pass.h"

enum culm_status culm_onnx_passes(struct culm_onnx_graph *graph, bool inference,
                                  struct culm_onnx_notes *notes, struct culm_error *error) {
    bool fine = true;
    /* Each round can use what the one before has uncovered: products behind a reshape, transposes
     * that meet their inverse. */
    for (int round = 0; round < 3 && fine; round++) {
        fine = culm_onnx_simplify(graph, inference) && culm_onnx_fuse_pointwise(graph, inference) &&
               culm_onnx_fuse_norm(graph, inference) && culm_onnx_fuse_linear(graph, notes) &&
               culm_onnx_simplify(graph, inference) && culm_onnx_fuse_attention(graph) &&
               culm_onnx_simplify(graph, inference) && culm_onnx_fuse_embedding(graph) &&
               culm_onnx_fuse_shuffles(graph);
    }
    fine = fine && culm_onnx_simplify(graph, inference) && culm_onnx_fuse_activations(graph);
    if (fine) {
        culm_onnx_shorten_joins(graph);
    }
    return fine ? CULM_OK
                : culm_error_set(error, CULM_ERR_MEMORY, "onnx '%s': out of memory", graph->path);
}

/* The builder: node after node, by the row of its operator. See build.h. */
#include "onnx/rows.h"

#include "onnx/ops.h"

#include <stdlib.h>
#include <string.h>

/* Nodes made by passes that take several operators of ours. */
static const struct {
    const char *op;
    culm_onnx_builder *build;
} several[] = {{"row", culm_onnx_build_row},
               {"token", culm_onnx_build_token},
               {"drop_sample", culm_onnx_build_drop_sample},
               {"shuffle", culm_onnx_build_shuffle}};

static culm_onnx_builder *builder_of(const struct culm_onnx_node *node) {
    if (strcmp(node->domain, CULM_ONNX_OURS) != 0) {
        return culm_onnx_build_node;
    }
    for (size_t i = 0; i < sizeof several / sizeof *several; i++) {
        if (strcmp(node->op, several[i].op) == 0) {
            return several[i].build;
        }
    }
    const struct culm_op *op = culm_op_find(node->op);
    const struct culm_onnx_row *made = op ? culm_onnx_row_of(op) : NULL;
    return made && made->build ? made->build : culm_onnx_build_node;
}

static enum culm_status build_one(struct culm_onnx_build *build,
                                  const struct culm_onnx_node *node) {
    for (int32_t i = 0; i < node->inputs; i++) { /* what depends on samples stays per sample */
        int32_t input = culm_onnx_input(build->file, node, i);
        if (input >= 0 && build->made[input].batched) {
            for (int32_t k = 0; k < node->outputs; k++) {
                if (node->output[k] >= 0) {
                    build->made[node->output[k]].batched = true;
                    build->made[node->output[k]].other_rows |= build->made[input].other_rows;
                }
            }
        }
    }
    return builder_of(node)(build, node);
}

/* Whether a node computes integers: masks and indices, which passes have dealt with. */
static bool is_arithmetic(const struct culm_onnx_build *build, const struct culm_onnx_node *node) {
    int type = node->output[0] < 0 ? 0 : build->file->value[node->output[0]].type;
    return type != CULM_ONNX_UNKNOWN && !culm_onnx_is_real(type);
}

enum culm_status culm_onnx_build_nodes(struct culm_onnx_build *build) {
    struct culm_onnx_graph *file = build->file;
    size_t count = (size_t)file->value_count + 1;
    build->made = malloc(count * sizeof *build->made);
    build->param = malloc(count * sizeof *build->param);
    if (!build->made || !build->param) {
        return culm_error_set(build->error, CULM_ERR_MEMORY, "onnx '%s': out of memory",
                              file->path);
    }
    for (int32_t i = 0; i < file->value_count; i++) { /* the optimizer's names for what it folded */
        const struct culm_onnx_value *v = &file->value[i];
        build->merged |= v->kind == CULM_ONNX_INITIALIZER && strncmp(v->name, "val_", 4) == 0;
    }
    for (size_t i = 0; i < count; i++) {
        build->made[i] = (struct culm_onnx_made){.plain = -1, .image = -1};
        build->param[i] = -1;
    }
    enum culm_status status = culm_onnx_build_inputs(build);
    for (int32_t i = 0; i < file->node_count && status == CULM_OK; i++) {
        const struct culm_onnx_node *node = &file->node[i];
        if (!node->dead && !is_arithmetic(build, node)) {
            status = node->output[0] < 0 ? culm_onnx_unsupported(build, node, "has no first output")
                                         : build_one(build, node);
        }
    }
    if (status == CULM_OK) {
        status = culm_onnx_build_losses(build);
    }
    if (status == CULM_OK && build->untied) {
        culm_onnx_note(build->notes,
                       "%d tensors of equal numbers had been merged with others and are parameters "
                       "of their own again; export with optimize=False to keep their names",
                       build->untied);
    }
    return status;
}

/*
 * Fuzz target: an ONNX file from memory. Any bytes are refused with one line, or give a graph in
 * which every value, node and tensor can be looked at. Importing it is refused with one line, or
 * gives a model whose every node is in order and whose every weight can be read, and which can be
 * compiled or is refused. Whatever the file, it is refused as input (exit code 3).
 */
#include "fuzz.h"

#include "graph/ops.h"
#include "graph/stage.h"
#include "onnx/graph.h"
#include "onnx/onnx.h"

#include <string.h>

static void check_tensor(const struct culm_onnx_tensor *tensor) {
    if (tensor->data) {
        FUZZ_REQUIRE(tensor->bytes ==
                         (uint64_t)tensor->elements * culm_onnx_type_bytes(tensor->type),
                     "'%s'", tensor->name);
        uint8_t sum = 0; /* the sanitizer sees a read outside */
        for (uint64_t i = 0; i < tensor->bytes; i++) {
            sum ^= ((const volatile uint8_t *)tensor->data)[i];
        }
        (void)sum;
    }
}

static void check_graph(struct culm_onnx_graph *graph) {
    char text[128];
    for (int32_t i = 0; i < graph->value_count; i++) {
        const struct culm_onnx_value *value = &graph->value[i];
        FUZZ_REQUIRE(value->name[0] && !strchr(value->name, '\n'), "value %d", i);
        FUZZ_REQUIRE(culm_onnx_shape_text(value, text, sizeof text) == text, "value %d", i);
        if (value->data) {
            check_tensor(value->data);
        }
        FUZZ_REQUIRE(culm_onnx_find(graph, value->name) >= 0, "'%s'", value->name);
    }
    for (int32_t i = 0; i < graph->node_count; i++) {
        const struct culm_onnx_node *node = &graph->node[i];
        for (int32_t k = 0; k < node->inputs; k++) {
            const struct culm_onnx_node *maker = culm_onnx_maker(graph, node->input[k]);
            FUZZ_REQUIRE(!maker || maker < node, "node %d", i);
        }
        for (int32_t k = 0; k < node->attributes; k++) {
            if (node->attribute[k].t) {
                check_tensor(node->attribute[k].t);
            }
        }
    }
    culm_onnx_count_uses(graph);
}

static void check_model(const struct culm_onnx_model *model, const struct culm_graph *graph) {
    for (int32_t i = 0; i < graph->node_count; i++) {
        const struct culm_node_desc *node = &graph->node[i];
        FUZZ_REQUIRE(node->block >= 0 && node->block < graph->blocks &&
                         (i == 0 || node->block >= graph->node[i - 1].block),
                     "node %d: block %d of %d", i, node->block, graph->blocks);
        for (int32_t k = 0; k < CULM_NODE_INPUTS_MAX; k++) {
            FUZZ_REQUIRE(node->input[k] < graph->value_count, "node %d", i);
        }
    }
    for (int32_t i = 0; i < graph->param_count; i++) {
        const struct culm_param *param = &graph->param[i];
        float *data = malloc((size_t)culm_elements(&param->shape) * sizeof *data);
        FUZZ_REQUIRE(data && culm_onnx_weights_read(model, param->name, param->shape.rank,
                                                    param->shape.dim, data, NULL) == CULM_OK,
                     "'%s'", param->name);
        free(data);
    }
}

/* What comes of it can be differentiated and placed, or is refused as input. */
static void check_stage(const struct culm_graph *graph) {
    struct culm_stage *stage = NULL;
    struct culm_error error = {0};
    const struct culm_stage_options options = {.forward_only = graph->output_count > 0};
    enum culm_status status = culm_stages_compile(graph, 1, &options, &stage, &error);
    FUZZ_REQUIRE(status == CULM_OK || (error.text[0] && culm_status_exit_code(status) == 3),
                 "%s: '%s'", culm_status_name(status), error.text);
    culm_stage_free(stage);
}

/* From what has been read, which stays as it is. */
static void check_import(const struct culm_onnx_graph *file, bool inference, bool tables) {
    const struct culm_onnx_options options = {.batch = 3,
                                              .context = 8,
                                              .height = 16,
                                              .width = 16,
                                              .inference = inference,
                                              .tables = tables,
                                              .classes = 2,
                                              .every_row = tables,
                                              .memory_bytes_max = (uint64_t)1 << 22};
    struct culm_onnx_model *model = NULL;
    struct culm_graph *graph = NULL;
    struct culm_error error = {0};
    enum culm_status status = culm_onnx_import_graph(file, &options, &model, &graph, &error);
    if (status != CULM_OK) {
        FUZZ_REQUIRE(!graph && error.text[0] && !strchr(error.text, '\n'), "message: '%s'",
                     error.text);
        FUZZ_REQUIRE(error.status == status &&
                         (status == CULM_ERR_MEMORY || culm_status_exit_code(status) == 3),
                     "%s: '%s'", culm_status_name(status), error.text);
        return;
    }
    check_model(model, graph);
    check_stage(graph);
    culm_onnx_model_free(model);
    culm_graph_free(graph);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct culm_onnx_graph *graph = NULL;
    struct culm_error error = {0};
    if (culm_onnx_graph_parse(data, size, "fuzz", &graph, &error) != CULM_OK) {
        FUZZ_REQUIRE(!graph && error.text[0] && !strchr(error.text, '\n'), "message: '%s'",
                     error.text);
        return 0;
    }
    check_import(graph, false, false);
    check_import(graph, true, false);
    check_import(graph, true, true);
    check_graph(graph);
    culm_onnx_graph_close(graph);
    return 0;
}

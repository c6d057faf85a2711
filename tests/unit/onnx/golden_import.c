/*
 * Imported models against PyTorch: stands between tests/unit/model/golden.c and what it calls, so
 * that the graph and its weights come from PyTorch's export (CULM_ONNX names the file) and
 * everything else is as for models built here: logits, losses, all gradients, ten losses, bits.
 *
 * The build file renames the two functions where golden.c and golden_run.c call them. A name of the
 * vectors that the export calls otherwise (tied tensors have two) is found by its numbers.
 */
#undef culm_model_build
#undef culm_safetensors_find
#include "model/model.h"
#include "onnx/graph.h"
#include "onnx/onnx.h"
#include "store/safetensors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum culm_status golden_import(enum culm_arch arch, const struct culm_model_options *options,
                               struct culm_graph **ret_graph, struct culm_error *error);
const struct culm_safetensors_entry *golden_find(const struct culm_safetensors *file,
                                                 const char *name);

static struct culm_onnx_graph *opened; /* of the last import */
static struct culm_onnx_model *model;  /* of it */

/* From a file that others have been imported from, which makes no difference. */
static enum culm_status import(const char *path, const struct culm_onnx_options *how,
                               struct culm_graph **ret_graph, struct culm_error *error) {
    struct culm_onnx_options other = *how;
    struct culm_onnx_model *first = NULL;
    struct culm_graph *graph = NULL;
    other.inference = !how->inference;
    other.batch = how->batch + 1;
    enum culm_status status = culm_onnx_graph_open(path, &opened, error);
    if (status == CULM_OK &&
        culm_onnx_import_graph(opened, &other, &first, &graph, NULL) == CULM_OK) {
        culm_graph_free(graph);
        culm_onnx_model_free(first);
    }
    return status == CULM_OK ? culm_onnx_import_graph(opened, how, &model, ret_graph, error)
                             : status;
}

enum culm_status golden_import(enum culm_arch arch, const struct culm_model_options *options,
                               struct culm_graph **ret_graph, struct culm_error *error) {
    const struct culm_onnx_options how = {.batch = options->batch,
                                          .context = options->context,
                                          .masked = options->masked,
                                          .inference = options->inference,
                                          .evaluate = options->evaluate};
    const char *path = getenv("CULM_ONNX");
    (void)arch;
    assert_non_null(path);
    culm_onnx_model_free(model);
    culm_onnx_graph_close(opened);
    model = NULL;
    opened = NULL;
    enum culm_status status = import(path, &how, ret_graph, error);
    for (int32_t i = 0; status == CULM_OK && i < (*ret_graph)->node_count; i++) {
        if (options->dropout == 0) { /* the file has some */
            (*ret_graph)->node[i].attributes.dropout = 0;
        } else if (strcmp((*ret_graph)->node[i].op->name, "attention") == 0 && !how.inference &&
                   !how.evaluate && !strstr(path, "optimized")) {
            assert_true((*ret_graph)->node[i].attributes.dropout > 0);
        }
    }
    return status;
}

const struct culm_safetensors_entry *golden_find(const struct culm_safetensors *file,
                                                 const char *name) {
    const struct culm_safetensors_entry *entry = culm_safetensors_find(file, name);
    const char *dot = strchr(name, '.');
    bool of_param = dot && (!strncmp(name, "weight.", 7) || !strncmp(name, "grad.", 5) ||
                            !strncmp(name, "final.", 6));
    if (entry && strncmp(name, "weight.", 7) != 0) {
        return entry;
    }
    for (size_t i = 0; of_param && i < culm_safetensors_count(file); i++) {
        const struct culm_safetensors_entry *weight = culm_safetensors_at(file, i);
        if (strncmp(weight->name, "weight.", 7) != 0 || (entry && entry != weight)) {
            continue;
        }
        float *data = calloc((size_t)weight->elements, sizeof *data);
        assert_non_null(data);
        bool same = culm_onnx_weights_read(model, dot + 1, weight->rank, weight->shape, data,
                                           NULL) == CULM_OK &&
                    memcmp(data, weight->data, weight->bytes) == 0;
        free(data);
        if (same) {
            char other[160];
            snprintf(other, sizeof other, "%.*s%s", (int)(dot + 1 - name), name, weight->name + 7);
            return culm_safetensors_find(file, other);
        }
    }
    return NULL;
}

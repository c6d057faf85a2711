/* Import: from a file to a graph, and the weights for it. See onnx.h. */
#include "base/finite.h"
#include "onnx/build.h"
#include "onnx/fold.h"
#include "onnx/ops.h"
#include "onnx/pass.h"

#include <stdlib.h>
#include <string.h>

struct culm_onnx_model {
    struct culm_onnx_graph *file;
    struct culm_onnx_name *name; /* sorted */
    int32_t name_count;
    struct culm_onnx_notes notes;
};

static int compare_names(const void *a, const void *b) {
    return strcmp(((const struct culm_onnx_name *)a)->name,
                  ((const struct culm_onnx_name *)b)->name);
}

static enum culm_status check_options(const struct culm_onnx_graph *file,
                                      const struct culm_onnx_options *o, struct culm_error *error) {
    const int64_t most = (int64_t)1 << 30;
    if (o->batch < 1 || o->batch > most || o->context < 0 || o->context > most || o->height < 0 ||
        o->height > most || o->width < 0 || o->width > most || o->masked < 0 || o->masked > most) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "onnx '%s': batch %lld, context %lld, image %lld x %lld, masked %lld "
                              "are not possible",
                              file->path, (long long)o->batch, (long long)o->context,
                              (long long)o->height, (long long)o->width, (long long)o->masked);
    }
    return CULM_OK;
}

/* A transposed copy of a table that is also looked up, which the exporter has computed: the two
 * become one again. */
static void tie_transposes(struct culm_onnx_graph *file) {
    for (int32_t i = 0; i < file->node_count; i++) {
        struct culm_onnx_node *node = &file->node[i];
        int32_t w =
            node->dead || !culm_onnx_is_ours(node, "linear") ? -1 : culm_onnx_input(file, node, 1);
        for (int32_t k = 0; k < i && w >= 0; k++) {
            const struct culm_onnx_node *other = &file->node[k];
            int32_t table = other->dead || !culm_onnx_is_ours(other, "lookup")
                                ? -1
                                : culm_onnx_input(file, other, 1);
            const struct culm_onnx_tensor *a = file->value[w].data;
            const struct culm_onnx_tensor *t = table < 0 ? NULL : file->value[table].data;
            if (!t || table == w || t->type != a->type || t->dim[0] != a->dim[1] ||
                t->dim[1] != a->dim[0]) {
                continue;
            }
            bool same = true;
            for (int64_t x = 0; x < a->elements && same; x++) {
                int64_t row = x / a->dim[1], column = x % a->dim[1];
                same = culm_onnx_get_real(a, x) == culm_onnx_get_real(t, column * t->dim[1] + row);
            }
            if (same) {
                node->input[1] = table;
                node->culm.transposed = !node->culm.transposed;
                break;
            }
        }
    }
    culm_onnx_count_uses(file);
}

static enum culm_status build(struct culm_onnx_model *model, struct culm_graph *graph,
                              const struct culm_onnx_options *options, struct culm_error *error) {
    struct culm_onnx_build b = {.file = model->file,
                                .graph = graph,
                                .options = options,
                                .notes = &model->notes,
                                .error = error};
    enum culm_status status = culm_onnx_build_nodes(&b);
    if (status == CULM_OK) {
        status = culm_onnx_blocks(graph, error);
    }
    if (status == CULM_ERR_INTERNAL) { /* the file describes an impossible graph */
        culm_error_prefix(error, "onnx '%s'", model->file->path);
        status = CULM_ERR_UNSUPPORTED;
        if (error) {
            error->status = status;
        }
    }
    free(b.made);
    free(b.param);
    model->name = b.name;
    model->name_count = b.name_count;
    if (b.name_count) {
        qsort(b.name, (size_t)b.name_count, sizeof *b.name, compare_names);
    }
    for (int32_t i = 1; i < b.name_count && status == CULM_OK; i++) {
        if (strcmp(b.name[i - 1].name, b.name[i].name) == 0) {
            status = culm_error_set(error, CULM_ERR_FORMAT, "onnx '%s': two parameters are '%s'",
                                    model->file->path, b.name[i].name);
        }
    }
    return status;
}

static enum culm_status import(struct culm_onnx_graph *file,
                               const struct culm_onnx_options *options,
                               struct culm_onnx_model **ret_model, struct culm_graph **ret_graph,
                               struct culm_error *error) {
    struct culm_onnx_model *model = calloc(1, sizeof *model);
    struct culm_graph *graph = culm_graph_new(culm_device_default());
    const struct culm_onnx_sizes sizes = {.batch = options->batch,
                                          .context = options->context,
                                          .height = options->height,
                                          .width = options->width,
                                          .live_bytes_max = options->memory_bytes_max,
                                          .total_bytes_max = options->memory_bytes_max * 16};
    bool frozen = options->inference || options->evaluate;
    enum culm_status status = CULM_OK;
    if (!model || !graph) {
        status = culm_error_set(error, CULM_ERR_MEMORY, "onnx '%s': out of memory", file->path);
        culm_onnx_graph_close(file);
        file = NULL;
    }
    if (status == CULM_OK) {
        model->file = file;
        status = check_options(file, options, error);
    }
    if (status == CULM_OK) {
        status = culm_onnx_fold(file, &sizes, error);
    }
    if (status == CULM_OK && options->tables) {
        culm_onnx_cut_choice(file, options->classes, &model->notes);
        if (!culm_onnx_simplify(file, frozen) || !culm_onnx_flatten(file)) {
            status = culm_error_set(error, CULM_ERR_MEMORY, "onnx '%s': out of memory", file->path);
        }
    }
    if (status == CULM_OK) {
        status = culm_onnx_passes(file, frozen, &model->notes, error);
    }
    if (status == CULM_OK) {
        tie_transposes(file);
        if (!options->keep_masks) {
            culm_onnx_drop_masks(file, &model->notes);
        }
    }
    if (status == CULM_OK && !options->tables &&
        (!culm_onnx_cut_ends(file, &model->notes) ||
         (!options->every_row && !culm_onnx_gather_rows(file, options->masked)))) {
        status = culm_error_set(error, CULM_ERR_MEMORY, "onnx '%s': out of memory", file->path);
    }
    if (status == CULM_OK) {
        status = culm_onnx_say_unsupported(file, build(model, graph, options, error), error);
    }
    if (status != CULM_OK) {
        culm_onnx_model_free(model);
        culm_graph_free(graph);
        return status;
    }
    *ret_model = model;
    *ret_graph = graph;
    return CULM_OK;
}

enum culm_status culm_onnx_import(const char *path, const struct culm_onnx_options *options,
                                  struct culm_onnx_model **ret_model, struct culm_graph **ret_graph,
                                  struct culm_error *error) {
    struct culm_onnx_graph *file = NULL;
    enum culm_status status = culm_onnx_graph_open_pinned(path, options->pins, &file, error);
    return status == CULM_OK ? import(file, options, ret_model, ret_graph, error) : status;
}

enum culm_status culm_onnx_import_bytes(const void *data, size_t len, const char *name,
                                        const struct culm_onnx_options *options,
                                        struct culm_onnx_model **ret_model,
                                        struct culm_graph **ret_graph, struct culm_error *error) {
    struct culm_onnx_graph *file = NULL;
    enum culm_status status = culm_onnx_graph_parse(data, len, name, &file, error);
    return status == CULM_OK ? import(file, options, ret_model, ret_graph, error) : status;
}

enum culm_status culm_onnx_import_graph(const struct culm_onnx_graph *file,
                                        const struct culm_onnx_options *options,
                                        struct culm_onnx_model **ret_model,
                                        struct culm_graph **ret_graph, struct culm_error *error) {
    struct culm_onnx_graph *copy = NULL;
    enum culm_status status = culm_onnx_graph_copy(file, &copy, error);
    return status == CULM_OK ? import(copy, options, ret_model, ret_graph, error) : status;
}

void culm_onnx_model_free(struct culm_onnx_model *model) {
    if (model) {
        culm_onnx_graph_close(model->file);
        free(model->name);
        free(model);
    }
}

enum culm_status culm_onnx_weights_read(const struct culm_onnx_model *model, const char *name,
                                        int rank, const int64_t *shape, float *ret_data,
                                        struct culm_error *error) {
    const struct culm_onnx_graph *file = model->file;
    int32_t low = 0, high = model->name_count;
    int64_t elements = 1;
    while (low < high) {
        int32_t middle = (low + high) / 2;
        if (strcmp(model->name[middle].name, name) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == model->name_count || strcmp(model->name[low].name, name) != 0) {
        return culm_error_set(error, CULM_ERR_NOT_FOUND, "onnx '%s': has no weight '%s'",
                              file->path, name);
    }
    int32_t value = model->name[low].value;
    const struct culm_onnx_tensor *data = value < 0 ? NULL : file->value[value].data;
    for (int i = 0; i < rank; i++) {
        elements *= shape[i];
    }
    if (!data) {
        memset(ret_data, 0, (size_t)elements * sizeof *ret_data);
        return CULM_OK;
    }
    if (elements != data->elements) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "onnx '%s': weight '%s' has %lld elements, not %lld", file->path,
                              name, (long long)data->elements, (long long)elements);
    }
    if (data->type == CULM_ONNX_FLOAT) {
        memcpy(ret_data, data->data, (size_t)elements * sizeof *ret_data);
    }
    for (int64_t i = 0; i < elements && data->type != CULM_ONNX_FLOAT; i++) {
        ret_data[i] = (float)culm_onnx_get_real(data, i);
    }
    int64_t other = culm_finite_find_other(ret_data, elements);
    return other < 0 ? CULM_OK
                     : culm_error_set(error, CULM_ERR_CONFIG,
                                      "onnx '%.200s': tensor '%.120s' is not finite: element %lld "
                                      "of %lld is %s; export weights without such numbers",
                                      file->path, name, (long long)other, (long long)elements,
                                      culm_finite_other_name(ret_data[other]));
}

const char *culm_onnx_model_note(const struct culm_onnx_model *model, int32_t index) {
    return index >= 0 && index < model->notes.count ? model->notes.text[index] : NULL;
}

const char *culm_onnx_model_producer(const struct culm_onnx_model *model) {
    return model->file->producer;
}

int64_t culm_onnx_model_opset(const struct culm_onnx_model *model) { return model->file->opset; }

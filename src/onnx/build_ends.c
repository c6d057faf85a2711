/* Where a graph begins and ends: fields of the samples, losses and outputs. See build.h. */
#include "onnx/build.h"

#include "onnx/ops.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* How an input is used: as a mask of attention; as indices into a table. */
static void find_uses(const struct culm_onnx_build *b, int32_t input, bool *ret_mask,
                      bool *ret_ids) {
    const struct culm_onnx_graph *file = b->file;
    *ret_mask = *ret_ids = false;
    for (int32_t i = 0; i < file->node_count; i++) {
        const struct culm_onnx_node *node = &file->node[i];
        if (!node->dead) {
            *ret_mask |=
                culm_onnx_is_ours(node, "attention") && culm_onnx_input(file, node, 3) == input;
            *ret_ids |=
                culm_onnx_is_ours(node, "lookup") && culm_onnx_input(file, node, 0) == input;
        }
    }
}

static bool contains(const char *text, const char *word) { return strcasestr(text, word) != NULL; }

/* The batch that the file was exported with: the first dimension of every input. */
static enum culm_status find_batch(struct culm_onnx_build *b) {
    const struct culm_onnx_graph *file = b->file;
    b->file_batch = 0;
    for (int32_t k = 0; k < file->input_count; k++) {
        const struct culm_onnx_value *v = &file->value[file->input[k]];
        if (v->rank > 0 && v->uses > 0 && b->file_batch == 0) {
            b->file_batch = v->dim[0];
        }
        if (v->uses > 0 && (v->rank < 1 || v->rank > CULM_MAX_RANK || v->dim[0] < 1 ||
                            v->dim[0] != b->file_batch)) {
            return culm_error_set(b->error, CULM_ERR_UNSUPPORTED,
                                  "onnx '%s': input '%s' has no batch as first of at most 4 "
                                  "dimensions",
                                  file->path, v->name);
        }
    }
    return CULM_OK;
}

/* Whether an image has its channels last, as TensorFlow has them: it is turned later, before or behind
 * arithmetic that keeps its shape. With one channel that is a reshape. */
static bool channels_last(const struct culm_onnx_graph *file, int32_t input) {
    const struct culm_onnx_value *v = &file->value[input];
    int64_t c = v->dim[3];
    bool last = (c == 1 || c == 3) && v->dim[1] != 1 && v->dim[1] != 3, turned = false;
    for (int32_t i = 0; i < file->node_count && last && !turned; i++) {
        const struct culm_onnx_node *node = &file->node[i];
        int32_t x = node->dead || !node->inputs ? -1 : culm_onnx_input(file, node, 0);
        int perm[CULM_ONNX_RANK_MAX];
        if (x < 0 || node->output[0] < 0 || !culm_onnx_same_shape(file, x, input)) {
            continue;
        }
        const struct culm_onnx_value *y = &file->value[node->output[0]];
        turned = (culm_onnx_order(file, node, perm) && perm[0] == 0 && perm[1] == 3 &&
                  perm[2] == 1 && perm[3] == 2) ||
                 (c == 1 && culm_onnx_is_ours(node, "reshape") && y->rank == 4 && y->dim[1] == 1 &&
                  y->dim[2] == v->dim[1] && y->dim[3] == v->dim[2]);
    }
    return turned;
}

enum culm_status culm_onnx_build_inputs(struct culm_onnx_build *b) {
    struct culm_onnx_graph *file = b->file;
    bool tokens = false, types = false;
    enum culm_status status = find_batch(b);
    if (status != CULM_OK) {
        return status;
    }
    for (int32_t k = 0; k < file->input_count; k++) {
        int32_t input = file->input[k];
        const struct culm_onnx_value *v = &file->value[input];
        bool mask, ids, real = culm_onnx_is_real(v->type), image = real && v->rank == 4;
        const char *name = v->name;
        if (v->uses == 0) {
            continue;
        }
        find_uses(b, input, &mask, &ids);
        if (image) {
            name = "image";
        } else if (mask) {
            name = "mask";
        } else if (ids && !tokens && !contains(v->name, "type")) {
            name = "tokens";
            tokens = true;
        } else if (ids && !types) {
            name = "types";
            types = true;
        }
        struct culm_shape shape;
        bool last = image && channels_last(file, input);
        b->made[input].batched = true;
        if (strlen(name) >= sizeof((struct culm_field *)0)->name ||
            !culm_onnx_shape_here(b, input, &shape)) {
            return culm_error_set(b->error, CULM_ERR_UNSUPPORTED,
                                  "onnx '%s': input '%.60s' cannot be a field of the samples",
                                  file->path, v->name);
        }
        if (image && !last) {
            shape =
                (struct culm_shape){4, {shape.dim[0], shape.dim[2], shape.dim[3], shape.dim[1]}};
        } else if (shape.rank == 1) { /* one number a sample */
            shape = (struct culm_shape){2, {shape.dim[0], 1}};
        }
        int32_t before = b->graph->field_count;
        int32_t field = culm_graph_field(b->graph, name, real ? CULM_F32 : CULM_I32, &shape);
        if (b->graph->field_count == before) {
            return culm_error_set(b->error, CULM_ERR_UNSUPPORTED, "onnx '%s': two inputs are '%s'",
                                  file->path, name);
        }
        *(image && !last ? &b->made[input].image : &b->made[input].plain) = field;
        if (last) {
            culm_onnx_note(b->notes,
                           "input '%.60s' has its channels last, [batch, height, width, channels]; "
                           "export writes them first",
                           v->name);
        }
    }
    return culm_graph_check(b->graph, b->error);
}

int32_t culm_onnx_output_of(const struct culm_onnx_graph *file, int rank) {
    for (int32_t i = 0; i < file->output_count; i++) {
        int32_t value = culm_onnx_at(file, file->output[i]);
        const struct culm_onnx_value *v = &file->value[value];
        if (v->rank == rank && culm_onnx_is_real(v->type) && culm_onnx_maker(file, value)) {
            return i;
        }
    }
    return -1;
}

/* Its value; -1: none. */
static int32_t output_of(const struct culm_onnx_graph *file, int rank) {
    int32_t i = culm_onnx_output_of(file, rank);
    return i < 0 ? -1 : culm_onnx_at(file, file->output[i]);
}

static bool sees_both_sides(const struct culm_onnx_graph *file) {
    bool both = false;
    for (int32_t i = 0; i < file->node_count; i++) {
        const struct culm_onnx_node *node = &file->node[i];
        if (!node->dead && culm_onnx_is_ours(node, "attention")) {
            if (node->culm.causal) {
                return false;
            }
            both = true;
        }
    }
    return both;
}

bool culm_onnx_gather_rows(struct culm_onnx_graph *file, int64_t masked) {
    int32_t value = output_of(file, 3), first = -1;
    if (value < 0 || !sees_both_sides(file)) {
        return true;
    }
    for (;;) { /* goes up as long as rows are independent and nobody else uses them */
        const struct culm_onnx_node *node = culm_onnx_maker(file, value);
        bool by_row = culm_onnx_is_ours(node, "linear") || culm_onnx_is_ours(node, "activation") ||
                      culm_onnx_is_ours(node, "layernorm");
        if (!by_row || file->value[value].uses != 1) {
            break;
        }
        first = culm_onnx_index(file, node);
        value = culm_onnx_input(file, node, 0);
    }
    struct culm_onnx_value v = file->value[value];
    if (culm_onnx_is_ours(culm_onnx_maker(file, value), "gather_rows")) {
        return true; /* the file gathers rows itself, as files from export do */
    }
    if (first < 0 || v.rank != 3 || !culm_onnx_maker(file, value)) {
        return true;
    }
    masked = masked ? masked : (15 * v.dim[1] + 99) / 100;
    const struct culm_attributes attributes = {.length = masked};
    v.dim[1] = masked;
    int32_t rows = culm_onnx_insert(file, first, "gather_rows", &value, 1, &attributes, 3, v.dim);
    if (rows < 0) {
        return false;
    }
    file->node[first].input[0] = rows;
    return culm_onnx_sort(file);
}

/* `logits` is a value of the file. */
static enum culm_status loss(struct culm_onnx_build *b, int32_t logits, const char *field,
                             int64_t per_sample) {
    const struct culm_shape shape = {2, {b->options->batch, per_sample}};
    const int32_t inputs[] = {b->made[logits].plain,
                              culm_graph_field(b->graph, field, CULM_I32, &shape)};
    const struct culm_attributes attributes = {
        .smoothing = b->options->evaluate ? 0 : b->options->label_smoothing,
        .function = b->file->value[logits].end,
        .loss_only = b->options->evaluate};
    culm_layer_apply(b->graph, "cross_entropy", inputs, 2, &attributes);
    return culm_graph_check(b->graph, b->error);
}

/* Outputs that are maps, such as the heads of a detector: all of them, under their names. False:
 * some output is not a map. */
static bool maps(struct culm_onnx_build *b) {
    const struct culm_onnx_graph *file = b->file;
    for (int pass = 0; pass < 2; pass++) {
        for (int32_t i = 0; i < file->output_count; i++) {
            int32_t value = culm_onnx_at(file, file->output[i]);
            const struct culm_onnx_value *v = &file->value[value];
            if (v->rank != 4 || !culm_onnx_is_real(v->type) || !culm_onnx_maker(file, value) ||
                strlen(file->value[file->output[i]].name) >= sizeof(struct culm_output){0}.name) {
                return false;
            }
            struct culm_onnx_made *made = &b->made[value];
            if (pass && made->image < 0) {
                made->image = culm_onnx_permute(b, made->plain, 0, 2, 3, 1);
            }
            if (pass) {
                culm_graph_output(b->graph, file->value[file->output[i]].name, made->image);
            }
        }
    }
    return file->output_count > 0;
}

/* All outputs as they are. */
static enum culm_status tables(struct culm_onnx_build *b) {
    const struct culm_onnx_graph *file = b->file;
    for (int32_t i = 0; i < file->output_count; i++) {
        int32_t value = culm_onnx_at(file, file->output[i]);
        const struct culm_onnx_value *v = &file->value[value];
        const struct culm_onnx_made *made = &b->made[value];
        const char *name = file->value[file->output[i]].name;
        if (v->rank < 2 || v->rank > 3 || !culm_onnx_is_real(v->type) || made->plain < 0 ||
            strlen(name) >= sizeof(struct culm_output){0}.name) {
            char text[96];
            return culm_error_set(b->error, CULM_ERR_UNSUPPORTED,
                                  "onnx '%s': output '%.60s' is %s, which no box can be read from",
                                  file->path, name, culm_onnx_shape_text(v, text, sizeof text));
        }
        culm_graph_output(b->graph, name, made->plain);
    }
    return culm_graph_check(b->graph, b->error);
}

enum culm_status culm_onnx_build_losses(struct culm_onnx_build *b) {
    struct culm_onnx_graph *file = b->file;
    if (b->options->tables) {
        return tables(b);
    }
    int32_t rows = output_of(file, 3), classes = output_of(file, 2);
    int32_t first = rows >= 0 ? rows : classes;
    if (first < 0 && b->options->inference && maps(b)) {
        return culm_graph_check(b->graph, b->error);
    }
    if (first < 0 || b->made[first].plain < 0) {
        const struct culm_onnx_value *v = &file->value[culm_onnx_at(file, file->output[0])];
        char text[96];
        return culm_error_set(b->error, CULM_ERR_UNSUPPORTED,
                              "onnx '%s': output '%s' is %s; logits are [batch, classes] or "
                              "[batch, length, vocabulary]",
                              file->path, v->name, culm_onnx_shape_text(v, text, sizeof text));
    }
    if (b->options->inference) {
        culm_graph_output(b->graph, "logits", b->made[first].plain);
        culm_graph_output_end(b->graph, file->value[first].end);
        if (classes >= 0 && classes != first) {
            culm_graph_output(b->graph, "logits_2", b->made[classes].plain);
            culm_graph_output_end(b->graph, file->value[classes].end);
        }
        return culm_graph_check(b->graph, b->error);
    }
    enum culm_status status = CULM_OK;
    bool masked = rows >= 0 && b->made[rows].other_rows;
    if (rows >= 0) {
        const struct culm_shape *shape = &b->graph->value[b->made[rows].plain].shape;
        status = loss(b, rows, masked ? "mlm_targets" : "targets", shape->dim[1]);
    }
    if (status == CULM_OK && classes >= 0 && b->made[classes].plain >= 0) {
        status = loss(b, classes, rows >= 0 && sees_both_sides(file) ? "nsp" : "label", 1);
    }
    return status;
}

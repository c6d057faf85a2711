/*
 * Detectors that choose the best boxes themselves: cuts off the choice, so that the outputs are what
 * it is made from. Whoever reads the answers chooses anyway, with a threshold of their own.
 *
 * What is looked for is the last table of candidates [B,4 + classes,N] or [B,N,4 + classes], which
 * the file must name its classes for, in front of a TopK or NonMaxSuppression. Without one, and with
 * a single NonMaxSuppression, its boxes [B,N,4] and scores [B,classes,N], named so.
 */
#include "onnx/build.h"

#include "onnx/ops.h"

#include <stdlib.h>

#define CANDIDATES_MIN 32 /* fewer are what has been chosen */

static bool chooses(const struct culm_onnx_node *node) {
    return culm_onnx_is(node, "NonMaxSuppression") || culm_onnx_is(node, "TopK");
}

static bool is_table(const struct culm_onnx_graph *file, int32_t value, int64_t numbers) {
    const struct culm_onnx_value *v = value < 0 ? NULL : &file->value[value];
    return v && v->rank == 3 && culm_onnx_is_real(v->type) && culm_onnx_maker(file, value) &&
           ((v->dim[1] == numbers && v->dim[2] >= CANDIDATES_MIN && v->dim[2] > numbers) ||
            (v->dim[2] == numbers && v->dim[1] >= CANDIDATES_MIN && v->dim[1] > numbers));
}

static void set_outputs(struct culm_onnx_graph *file, const int32_t *value, int32_t count) {
    for (int32_t k = 0; k < file->output_count; k++) {
        file->value[culm_onnx_at(file, file->output[k])].output = false;
    }
    for (int32_t k = 0; k < count; k++) {
        file->output[k] = value[k];
        file->value[value[k]].output = true;
    }
    file->output_count = count;
    culm_onnx_count_uses(file);
}

void culm_onnx_cut_choice(struct culm_onnx_graph *file, int32_t classes,
                          struct culm_onnx_notes *notes) {
    int32_t first = -1, last_nms = -1, count = 0, table = -1;
    for (int32_t i = 0; i < file->node_count; i++) {
        const struct culm_onnx_node *node = &file->node[i];
        if (node->dead || node->domain[0]) {
            continue;
        }
        first = first < 0 && chooses(node) ? i : first;
        if (culm_onnx_is(node, "NonMaxSuppression")) {
            last_nms = i;
            count++;
        }
    }
    for (int32_t i = 0; i < first && classes > 0; i++) {
        const struct culm_onnx_node *node = &file->node[i];
        if (!node->dead && is_table(file, node->output[0], 4 + classes)) {
            table = node->output[0];
        }
    }
    if (table >= 0) {
        culm_onnx_note(notes, "what '%.60s' is chosen from is read, and chosen from here",
                       file->value[culm_onnx_at(file, file->output[0])].name);
        set_outputs(file, &table, 1);
        return;
    }
    if (count != 1 || file->output_count < 1) {
        return;
    }
    const struct culm_onnx_node *nms = &file->node[last_nms];
    int32_t from[2] = {culm_onnx_input(file, nms, 0), culm_onnx_input(file, nms, 1)};
    if (from[0] < 0 || from[1] < 0 || from[0] == from[1] || !culm_onnx_maker(file, from[0]) ||
        !culm_onnx_maker(file, from[1]) || file->value[from[0]].rank != 3 ||
        file->value[from[1]].rank != 3 || file->value[from[0]].dim[2] != 4 ||
        file->value[from[0]].dim[1] != file->value[from[1]].dim[2]) {
        return;
    }
    int32_t *room = realloc(file->output, (size_t)(file->output_count + 1) * sizeof *room);
    if (!room) {
        return; /* the operator is refused later */
    }
    file->output = room;
    const bool centre = culm_onnx_int(nms, "center_point_box", 0) != 0;
    file->value[from[0]].name = centre ? "nms_centres" : "nms_corners";
    file->value[from[1]].name = "nms_scores";
    set_outputs(file, from, 2);
}

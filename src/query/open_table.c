/* Tables of candidates for boxes, told by their shapes. See open_table.h. */
#include "query/open_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LABELS 1000 /* classes of labels that nobody names */

const char *culm_query_outputs_text(const struct culm_graph *graph,
                                    char text[CULM_QUERY_OUTPUTS_TEXT]) {
    size_t len = 0;
    text[0] = '\0';
    for (int32_t i = 0; i < graph->output_count; i++) {
        char shape[64];
        culm_shape_format(&graph->value[graph->output[i].value].shape, shape, sizeof shape);
        const int more = snprintf(text + len, CULM_QUERY_OUTPUTS_TEXT - len, "%s'%.40s' %s",
                                  i ? ", " : "", graph->output[i].name, shape);
        len += (size_t)more;
        if (len >= CULM_QUERY_OUTPUTS_TEXT - 1) {
            memcpy(text + CULM_QUERY_OUTPUTS_TEXT - 4, "...", 4);
            break;
        }
    }
    return text;
}

struct telling {
    struct culm_vision_model *model;
    const struct culm_graph *graph;
    const struct culm_table_hint *hint;
    struct culm_error *error;
};

static enum culm_status refuse(const struct telling *t, const char *why) {
    char text[CULM_QUERY_OUTPUTS_TEXT];
    return culm_error_set(t->error, CULM_ERR_CONFIG, "'%s': its outputs are %s: %s", t->model->name,
                          culm_query_outputs_text(t->graph, text), why);
}

static const struct culm_shape *shape_of(const struct culm_graph *graph, int32_t output) {
    return &graph->value[graph->output[output].value].shape;
}

/* --- one output --- */

/* One output [B,p,q] as N rows of R numbers, R < N. */
struct rows {
    int64_t count, numbers;
    bool across; /* a row lies across: [B,R,N] */
};

static struct rows rows_of(const struct culm_shape *shape) {
    const int64_t p = shape->dim[1], q = shape->dim[2];
    return p < q ? (struct rows){q, p, true} : (struct rows){p, q, false};
}

static struct culm_vision_column column(const struct rows *rows, int32_t output, int64_t from) {
    return rows->across ? (struct culm_vision_column){output, from * rows->count, 1, rows->count}
                        : (struct culm_vision_column){output, from, rows->numbers, 1};
}

static const struct culm_vision_column no_column = {.output = -1};

/* Whether so many candidates are `each` in each cell of the grids that YOLO has. */
static bool is_grid(const struct culm_vision_input *input, int64_t count, int64_t each) {
    static const int32_t strides[][4] = {
        {8, 16, 32, 0}, {16, 32, 0}, {8, 16, 32, 64}, {4, 8, 16, 32}};
    for (size_t s = 0; s < sizeof strides / sizeof *strides; s++) {
        int64_t cells = 0;
        for (int i = 0; i < 4 && strides[s][i]; i++) {
            const int64_t by = strides[s][i];
            cells += ((input->width + by - 1) / by) * ((input->height + by - 1) / by);
        }
        if (cells * each == count) {
            return true;
        }
    }
    return false;
}

static bool is_arithmetic(const struct culm_node_desc *node) {
    return node->op == &culm_op_binary || node->op == &culm_op_affine ||
           (node->op == &culm_op_activation && node->attributes.function == CULM_FUNCTION_EXP);
}

/* Whether there is arithmetic between the last layers and the output: else boxes are still offsets
 * within a grid, as YOLOX leaves them. */
static bool is_worked_out(const struct culm_graph *graph) {
    bool found = false;
    bool *wanted = calloc((size_t)graph->value_count + 1, sizeof *wanted);
    if (!wanted) {
        return false;
    }
    wanted[graph->output[0].value] = true;
    for (int32_t i = graph->node_count - 1; i >= 0 && !found; i--) {
        const struct culm_node_desc *node = &graph->node[i];
        bool here = false;
        for (int32_t k = 0; k < CULM_NODE_OUTPUTS_MAX; k++) {
            here |= node->output[k] >= 0 && wanted[node->output[k]];
        }
        found = here && is_arithmetic(node);
        const bool layer = node->op == &culm_op_conv || node->op == &culm_op_linear;
        for (int32_t k = 0; k < CULM_NODE_INPUTS_MAX && here && !layer; k++) {
            if (node->input[k] >= 0) {
                wanted[node->input[k]] = true;
            }
        }
    }
    free(wanted);
    return found;
}

static enum culm_status yolo(const struct telling *t, bool object) {
    const struct culm_shape *shape = shape_of(t->graph, 0);
    const struct rows rows = rows_of(shape);
    const int64_t classes = rows.numbers - (object ? 5 : 4);
    if (classes < 1 || classes > CULM_VISION_CLASSES_MAX) {
        return refuse(t, object ? "yolov5 has [batch, candidates, 5 + classes]"
                                : "yolov8 has [batch, 4 + classes, candidates]");
    }
    if (t->hint->classes && t->hint->classes != classes) {
        char why[160];
        snprintf(why, sizeof why,
                 "%lld numbers for each candidate, and %d classes have names: it answers with more "
                 "than boxes (%s), which is not supported",
                 (long long)rows.numbers, (int)t->hint->classes,
                 t->hint->task ? t->hint->task : "masks, key points or angles");
        return refuse(t, why);
    }
    if (!is_worked_out(t->graph)) {
        return refuse(t, "its boxes are still offsets within a grid; export it so that the file "
                         "works them out (YOLOX: --decode_in_inference)");
    }
    t->model->classes = (int32_t)classes;
    t->model->table = (struct culm_vision_table){
        .rows = rows.count,
        .count = 1,
        .box = column(&rows, 0, 0),
        .object = object ? column(&rows, 0, 4) : no_column,
        .score = column(&rows, 0, object ? 5 : 4),
        .label = no_column,
        .corners = CULM_VISION_CENTRE,
    };
    return CULM_OK;
}

/* [B,N,6]: chosen by the file. */
static enum culm_status chosen(const struct telling *t) {
    const struct culm_shape *shape = shape_of(t->graph, 0);
    const struct rows rows = {shape->dim[1], shape->dim[2], false};
    if (rows.numbers != 6) {
        return refuse(t, "boxes has [batch, candidates, 6]: corners, score and class; or two or "
                         "three outputs");
    }
    t->model->classes = t->hint->classes ? t->hint->classes : LABELS;
    t->model->table = (struct culm_vision_table){
        .rows = rows.count,
        .count = 1,
        .box = column(&rows, 0, 0),
        .object = no_column,
        .score = column(&rows, 0, 4),
        .label = column(&rows, 0, 5),
        .corners = CULM_VISION_CORNERS,
        .chosen = true,
    };
    return CULM_OK;
}

/* [B,N,4 + C] of DETR. */
static enum culm_status detr(const struct telling *t) {
    const struct culm_shape *shape = shape_of(t->graph, 0);
    const struct rows rows = {shape->dim[1], shape->dim[2], false};
    const int64_t classes = rows.numbers - 4;
    if (classes < 1 || classes > CULM_VISION_CLASSES_MAX ||
        (t->hint->classes && t->hint->classes != classes)) {
        return refuse(t, "detr has [batch, candidates, 4 + classes], or two outputs");
    }
    t->model->classes = (int32_t)classes;
    t->model->table = (struct culm_vision_table){
        .rows = rows.count,
        .count = 1,
        .box = column(&rows, 0, 0),
        .object = no_column,
        .score = column(&rows, 0, 4),
        .label = no_column,
        .corners = CULM_VISION_CENTRE,
        .fractions = true,
        .chosen = true, /* each of its candidates is for an object of its own */
    };
    return CULM_OK;
}

static enum culm_status one_output(const struct telling *t) {
    const struct culm_shape *shape = shape_of(t->graph, 0);
    const struct culm_vision_input *input = &t->model->input;
    if (shape->rank != 3) {
        return refuse(t, "boxes are [batch, candidates, numbers]");
    }
    const struct rows rows = rows_of(shape);
    const int64_t known = t->hint->classes;
    switch (t->hint->decode) {
    case CULM_DECODE_YOLOV5: return yolo(t, true);
    case CULM_DECODE_YOLOV8: return yolo(t, false);
    case CULM_DECODE_DETR: return detr(t);
    case CULM_DECODE_BOXES: return chosen(t);
    case CULM_DECODE_SSD: return refuse(t, "ssd has two outputs, boxes and scores");
    default: break;
    }
    const bool one = is_grid(input, rows.count, 1), three = is_grid(input, rows.count, 3);
    if (rows.numbers >= 6 && three && !rows.across && (!known || known == rows.numbers - 5)) {
        return yolo(t, true);
    }
    if (rows.numbers >= 5 && one && (rows.across || known == rows.numbers - 4)) {
        return yolo(t, false); /* which says what else it may have */
    }
    if (one && !rows.across) {
        return refuse(t, "whether a candidate has a score of an object beside those of its classes "
                         "cannot be told; say 'decode: yolov5' if it has (YOLOX, YOLOv6), else "
                         "'decode: yolov8'");
    }
    if (known && !rows.across && rows.numbers == 4 + known && known != 2) {
        return detr(t);
    }
    if (known && shape->dim[2] == 6 && known != 2) {
        return chosen(t);
    }
    return refuse(t, "what they mean cannot be told; if these are boxes, say how they are to be "
                     "read ('decode': yolov5, yolov8, ssd, detr or boxes)");
}

/* --- several outputs --- */

static int32_t find(const struct culm_graph *graph, const char *const *names) {
    for (int i = 0; names[i]; i++) {
        for (int32_t o = 0; o < graph->output_count; o++) {
            if (strcmp(graph->output[o].name, names[i]) == 0) {
                return o;
            }
        }
    }
    return -1;
}

/* The output whose shape is [B,count,last], `last` -1: any; -2: [B,count]. */
static int32_t find_shape(const struct culm_graph *graph, int64_t count, int64_t last,
                          int32_t but) {
    for (int32_t o = 0; o < graph->output_count; o++) {
        const struct culm_shape *shape = shape_of(graph, o);
        if (o != but && shape->rank == (last == -2 ? 2 : 3) && (!count || shape->dim[1] == count) &&
            (last < 0 || shape->dim[2] == last)) {
            return o;
        }
    }
    return -1;
}

/* Whether an output is what an operator makes, possibly turned or reshaped behind it. */
static bool made_by(const struct culm_graph *graph, int32_t output, const struct culm_op *op,
                    enum culm_function function) {
    int32_t value = graph->output[output].value;
    for (int32_t i = graph->node_count - 1; i >= 0; i--) {
        const struct culm_node_desc *node = &graph->node[i];
        if (node->output[0] != value) {
            continue;
        }
        if (node->op == op &&
            (op != &culm_op_activation || node->attributes.function == function)) {
            return true;
        }
        if (node->op != &culm_op_permute && node->op != &culm_op_reshape &&
            node->op != &culm_op_slice && node->op != &culm_op_concat) {
            return false;
        }
        value = node->input[0];
    }
    return false;
}

/* Boxes, a score and a label each. */
static enum culm_status labelled(const struct telling *t, int32_t box, int32_t score,
                                 int32_t label) {
    const bool yx = strcmp(t->graph->output[box].name, "detection_boxes") == 0;
    const struct rows four = {shape_of(t->graph, box)->dim[1], 4, false};
    const struct rows single = {four.count, 1, false};
    const enum culm_query_decode decode = t->hint->decode;
    if (decode != CULM_DECODE_AUTO && decode != CULM_DECODE_BOXES && decode != CULM_DECODE_SSD) {
        return refuse(t,
                      "boxes, scores and labels are read by 'decode: boxes' (in pixels) or 'ssd' "
                      "(as fractions)");
    }
    t->model->classes = t->hint->classes ? t->hint->classes : LABELS;
    t->model->table = (struct culm_vision_table){
        .rows = four.count,
        .count = t->graph->output_count,
        .box = column(&four, box, 0),
        .object = no_column,
        .score = column(&single, score, 0),
        .label = column(&single, label, 0),
        .corners = yx ? CULM_VISION_CORNERS_YX : CULM_VISION_CORNERS,
        .fractions = yx || decode == CULM_DECODE_SSD,
        .chosen = true,
    };
    return CULM_OK;
}

/* Boxes [B,N,4] with scores [B,N,S] or, `across`, [B,S,N]. */
static enum culm_status boxes_and_scores(const struct telling *t, int32_t box, int32_t score,
                                         bool across) {
    const struct culm_shape *of = shape_of(t->graph, score);
    const struct rows four = {shape_of(t->graph, box)->dim[1], 4, false};
    const struct rows rows = {four.count, of->dim[across ? 1 : 2], across};
    const bool softmax = made_by(t->graph, score, &culm_op_softmax, CULM_FUNCTION_NONE);
    const bool sigmoid = made_by(t->graph, score, &culm_op_activation, CULM_FUNCTION_SIGMOID);
    const char *name = t->graph->output[box].name;
    enum culm_query_decode decode = t->hint->decode;
    const int32_t known = t->hint->classes;
    struct culm_vision_table table = {
        .rows = four.count,
        .count = 2,
        .box = column(&four, box, 0),
        .object = no_column,
        .score = column(&rows, score, 0),
        .label = no_column,
        .corners = CULM_VISION_CORNERS,
    };
    if (strcmp(name, "nms_centres") == 0) {
        table.corners = CULM_VISION_CENTRE;
    } else if (strcmp(name, "nms_corners") == 0 && t->hint->corners_yx) {
        table.corners = CULM_VISION_CORNERS_YX;
    }
    if (decode == CULM_DECODE_AUTO && !across && !softmax && !sigmoid &&
        (strcmp(name, "pred_boxes") == 0 || strcmp(name, "dets") == 0)) {
        decode = CULM_DECODE_DETR;
    }
    if (decode == CULM_DECODE_DETR) {
        if (!softmax && !sigmoid && known != rows.numbers && known != rows.numbers - 1) {
            return refuse(t, "whether the last score is of no object cannot be told; give the "
                             "names of its classes (--names, 'names')");
        }
        table.corners = CULM_VISION_CENTRE;
        table.fractions = true;
        table.behind = softmax || known == rows.numbers - 1;
        table.end = softmax || sigmoid ? CULM_FUNCTION_NONE
                    : table.behind     ? CULM_FUNCTION_SOFTMAX
                                       : CULM_FUNCTION_SIGMOID;
        table.chosen = true;
    } else if (decode == CULM_DECODE_SSD) {
        table.fractions = true;
        table.before = 1;
        table.end = softmax ? CULM_FUNCTION_NONE : CULM_FUNCTION_SOFTMAX;
        if (sigmoid || known == rows.numbers) { /* no background among them */
            table.before = 0;
            table.end = sigmoid ? CULM_FUNCTION_NONE : CULM_FUNCTION_SIGMOID;
        }
        if (across) { /* NonMaxSuppression gets scores as they are */
            table.end = CULM_FUNCTION_NONE;
        }
    } else if (decode == CULM_DECODE_BOXES) {
        table.before = softmax && known == rows.numbers - 1;
    } else {
        return refuse(t,
                      decode == CULM_DECODE_AUTO
                          ? "boxes and scores, but not in which unit; say 'decode: boxes' (corners "
                            "in pixels), 'ssd' (corners as fractions, class 0 is the background) "
                            "or 'detr' (centre and size as fractions)"
                          : "boxes and scores are read by 'decode: boxes', 'ssd' or 'detr'");
    }
    t->model->classes = (int32_t)(rows.numbers - table.before - table.behind);
    t->model->table = table;
    return t->model->classes < 1 || t->model->classes > CULM_VISION_CLASSES_MAX ||
                   (known && known != t->model->classes)
               ? refuse(t, "another number of classes than has names")
               : CULM_OK;
}

static enum culm_status several_outputs(const struct telling *t) {
    static const char *const boxes[] = {"boxes",       "detection_boxes", "nms_corners",
                                        "nms_centres", "pred_boxes",      NULL};
    static const char *const scores[] = {"scores", "detection_scores", NULL};
    static const char *const labels[] = {"labels", "detection_classes", "classes", NULL};
    const struct culm_graph *graph = t->graph;
    int32_t box = find(graph, boxes);
    box = box < 0 ? find_shape(graph, 0, 4, -1) : box;
    const struct culm_shape *shape = box < 0 ? NULL : shape_of(graph, box);
    if (!shape || shape->rank != 3 || shape->dim[2] != 4) {
        return refuse(t, "no boxes [batch, candidates, 4] among them");
    }
    const int64_t count = shape->dim[1];
    const int32_t score = find(graph, scores), label = find(graph, labels);
    if (score >= 0 && label >= 0 && find_shape(graph, count, -2, -1) >= 0 &&
        culm_elements(shape_of(graph, score)) == culm_elements(shape) / 4 &&
        culm_elements(shape_of(graph, label)) == culm_elements(shape) / 4) {
        return labelled(t, box, score, label);
    }
    if (graph->output_count == 2) {
        const int32_t other = 1 - box;
        const struct culm_shape *of = shape_of(graph, other);
        if (of->rank == 3 && strncmp(graph->output[box].name, "nms_", 4) == 0 &&
            of->dim[2] == count) {
            return boxes_and_scores(t, box, other, true);
        }
        if (of->rank == 3 && of->dim[1] == count) {
            return boxes_and_scores(t, box, other, false);
        }
    }
    return refuse(t, "boxes, but no scores [batch, candidates, classes], nor scores and labels "
                     "[batch, candidates], beside them");
}

enum culm_status culm_query_table(struct culm_vision_model *model, const struct culm_graph *graph,
                                  const struct culm_table_hint *hint, struct culm_error *error) {
    const struct telling t = {model, graph, hint, error};
    for (int32_t o = 0; o < graph->output_count; o++) {
        const struct culm_value *value = &graph->value[graph->output[o].value];
        if (value->dtype != CULM_F32 || value->shape.rank < 2 ||
            value->shape.dim[0] != graph->field[0].shape.dim[0]) {
            return refuse(&t, "not all are [batch, ..]");
        }
    }
    if (graph->output_count > CULM_VISION_HEADS_MAX) {
        return refuse(&t, "too many");
    }
    model->kind = CULM_ANSWER_BOXES;
    return graph->output_count == 1 ? one_output(&t) : several_outputs(&t);
}

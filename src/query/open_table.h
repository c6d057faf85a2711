/*
 * What the outputs of a detector are that works out its boxes itself, as an ONNX file of YOLOv5 to
 * YOLOv11, SSD, RetinaNet or DETR does: a table of candidates (vision/model.h).
 *
 *     yolov8   [B,4 + C,N], or [B,N,4 + C]    centre and size in pixels, C scores
 *     yolov5   [B,N,5 + C], or [B,5 + C,N]    the same with the score of an object in front of them
 *     ssd      [B,N,4] and [B,N,1 + C]        corners as fractions, scores, the first of a background
 *     detr     [B,N,4 + C]                    centre and size as fractions, C scores
 *              [B,N,4] and [B,N,C], [B,N,C+1] logits: each by itself, or the last is of no object
 *     boxes    [B,N,6]                        corners in pixels, score, class; chosen already
 *              [B,N,4] and [B,N,C]            corners in pixels, scores
 *              [B,N,4], [B,N] and [B,N]       the same, one score and a class
 *
 * Two readings of the same numbers could both look right, so nothing is guessed: `auto` needs the
 * names of classes in the file, or the number of candidates that the strides of YOLO give.
 *
 * Private to src/query. Thread: any.
 */
#ifndef CULM_QUERY_OPEN_TABLE_H
#define CULM_QUERY_OPEN_TABLE_H

#include "query/reading.h"

struct culm_table_hint {
    enum culm_query_decode decode; /* not DARKNET, CLASSES or POINTS */
    int32_t classes;               /* that the file or the user name; 0: not known */
    const char *task;              /* that the file names: "detect", "pose", ..; NULL: none */
    bool corners_yx;               /* of NonMaxSuppression: whoever wrote the file has y first */
};

/* Sets kind, classes and table of a model whose input is known. CULM_ERR_CONFIG: it is no such
 * table, or which it is cannot be told; one line, with the shapes. */
enum culm_status culm_query_table(struct culm_vision_model *model, const struct culm_graph *graph,
                                  const struct culm_table_hint *hint, struct culm_error *error);
/* "'output0' [1,84,8400], 'b' [1,4]": the outputs of a graph, as far as there is room. */
#define CULM_QUERY_OUTPUTS_TEXT 200
const char *culm_query_outputs_text(const struct culm_graph *graph,
                                    char text[CULM_QUERY_OUTPUTS_TEXT]);

#endif

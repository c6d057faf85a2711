/*
 * Pictures that a program has in memory, and what a model says of one: boxes, classes or points.
 * culm/vision.h and culm/edge.h take these and give those.
 */
#ifndef CULM_PREDICTION_H
#define CULM_PREDICTION_H

#include <stddef.h>
#include <stdint.h>

#include <culm/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Pixels that the caller has. A model stretches them to the size that it reads, and turns colours into
 * grey or grey into colours if it has to. CULM_ERR_ARGUMENT results from a size that cannot be. */
struct culm_picture {
    size_t size;           /* sizeof(struct culm_picture) */
    const uint8_t *pixels; /* [height, width, channels] */
    int64_t width, height; /* 1 to 65500 */
    int64_t channels;      /* 3: red, green, blue; 1: grey */
    int64_t stride;        /* bytes from a row to the next; 0: width * channels */
    uint64_t taken_ns; /* when it was taken, by CLOCK_MONOTONIC; 0: now. For culm_edge_post only */
};

/* These four will stay as they are; what they point to belongs to whoever made the prediction. */

struct culm_predicted_box {
    int class_index;
    const char *name;
    double score, x, y, width, height; /* in pixels of the frame; x, y: top left corner */
};
struct culm_predicted_class {
    int class_index;
    const char *name;
    double score;
};
struct culm_predicted_point {
    double x, y;
};
/* The list of the answer's kind, possibly empty; the other two are NULL. Boxes have the best score
 * first, and so have classes. */
struct culm_prediction {
    const char *file; /* NULL: the picture is from no file */
    int64_t frame;    /* from 0 in each file */
    const struct culm_predicted_box *box;
    const struct culm_predicted_class *classes;
    const struct culm_predicted_point *point;
    int32_t count;
};
/* {"file","frame","boxes"|"classes"|"points":[..]}, as `culm predict --json` prints it, which the
 * caller frees with culm_text_free; NULL: out of memory. */
CULM_API char *culm_prediction_json(const struct culm_prediction *prediction);

#ifdef __cplusplus
}
#endif

#endif

/*
 * Whatever a command or a workload names as a model of pictures, opened as one: FILE.cfg (darknet),
 * FILE.onnx, the directory of a run, a configuration, a published name, PACKAGE:QUERY.
 *
 * How a model answers follows from the file: a darknet file gives boxes; what ends in one row of numbers
 * for each picture gives classes, or points, if these are the 136 or 196 coordinates of the landmarks of
 * a face and nobody gives names for them. Thread: as vision/model.h.
 */
#ifndef CULM_RUN_VISION_OPEN_H
#define CULM_RUN_VISION_OPEN_H

#include "vision/model.h"

struct culm_vision_normalize {
    float mean[3], deviation[3]; /* value = (x / 255 - mean) / deviation */
};
/* "none", "imagenet", or six numbers with commas: three means, three deviations. */
enum culm_status culm_vision_normalize_parse(const char *text,
                                             struct culm_vision_normalize *ret_normalize,
                                             struct culm_error *error);

struct culm_vision_open_options {
    const char *weights; /* darknet's, a safetensors file or a checkpoint; NULL: the model's own */
    const char *names;   /* of classes, one a line; NULL: those that the model brings */
    const struct culm_vision_normalize *normalize; /* NULL: what the model says */
    bool structure; /* its graph and layers alone: no weights are needed, and none can be read */
    int depth;      /* packages around it, each of whose models is in the next; 0 for callers */
};

/* Which files a model and its weights are, as a text: equal where two are the same ones, whatever paths or
 * links lead to them. weights as in the options. */
#define CULM_VISION_FILES_TEXT 8200
void culm_vision_files(const char *what, const char *weights,
                       char ret_text[CULM_VISION_FILES_TEXT]);

/* The caller frees it with culm_vision_model_free. options NULL: all default. CULM_ERR_CONFIG for what
 * is neither, or no model of pictures; the errors of the readers. */
enum culm_status culm_vision_open(const char *what, const struct culm_vision_open_options *options,
                                  struct culm_vision_model **ret_model, struct culm_error *error);

#endif

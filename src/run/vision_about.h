/*
 * Descriptions of models of pictures, and their exchange as ONNX files: for `culm model`. Nothing here
 * prints. Thread: the caller's.
 */
#ifndef CULM_RUN_VISION_ABOUT_H
#define CULM_RUN_VISION_ABOUT_H

#include "base/status.h"

struct culm_vision_about {
    char name[64];
    const char *answers; /* "boxes", "classes" or "points" */
    int classes, width, height, channels, heads;
    int64_t candidates;   /* rows of the table that boxes are read from; 0: there is none */
    const char *ends_in;  /* "softmax", "log-softmax", "sigmoid"; NULL: none of them */
    int64_t parameters;   /* trained elements */
    int tensors;          /* all parameters */
    double flops;         /* of the forward pass of a frame */
    int64_t memory_bytes; /* for answering one frame at a time */
    int64_t layer_bytes;  /* of all layers */
    struct culm_vision_about_layer {
        char name[96], signature[160];
        int64_t bytes; /* of weights and bias */
    } * layer;         /* convolutions and linear layers, in graph order */
    int32_t layers;
};
/* A model of pictures. NULL: its own weights; decode and size as culm/vision.h has them. */
struct culm_vision_which {
    const char *what, *weights, *decode, *size;
};
/* Describes any model of pictures. `check`: read its weights;
 * otherwise none are needed. */
enum culm_status culm_vision_describe_file(const struct culm_vision_which *which, bool check,
                                           struct culm_vision_about *ret_about,
                                           struct culm_error *error);
void culm_vision_about_release(struct culm_vision_about *about);
/* Whether `what` is a model of pictures by its name (FILE.cfg, FILE.onnx or PACKAGE:QUERY), to be
 * described here rather than by models.h. */
bool culm_vision_is_file(const char *what);
/* Exports the model as an ONNX file for inference, with its weights. The maps of heads become
 * outputs head0, head1, ... */
enum culm_status culm_vision_export(const struct culm_vision_which *which, const char *path,
                                    struct culm_error *error);

#endif

/*
 * Darknet detectors: a configuration (FILE.cfg) and its weights, as a model of pictures.
 *
 * Read: [net] [convolutional] (groups, dilation, batch norm), [maxpool], [avgpool], [upsample],
 * [route] (of up to 8 sections, groups), [shortcut], [scale_channels], [dropout], [yolo]; activations
 * linear, relu, leaky, relu6, logistic, swish, tanh, mish. Batch norm divides by
 * sqrt(variance + 1e-5), so channels whose variance is zero, denormal or a hair below stay finite.
 * Pictures: RGB / 255, stretched to the network's size.
 *
 * Errors are one line: "darknet 'FILE': line 12: ...". Thread: as vision/model.h.
 */
#ifndef CULM_DARKNET_DARKNET_H
#define CULM_DARKNET_DARKNET_H

#include "vision/model.h"

struct culm_darknet_options {
    const char *weights; /* NULL: FILE.weights beside FILE.cfg */
    const char *names;   /* of classes; NULL: FILE.names, or PART.names where PART is a part of
                            "..-PART-PART.cfg", the last that is there; without one, none */
    bool structure;      /* no weights are opened, and none can be read */
};

/* The caller frees it with culm_vision_model_free. options NULL: all default. CULM_ERR_CONFIG when a
 * file is missing, CULM_ERR_FORMAT or CULM_ERR_UNSUPPORTED for what is in it. */
enum culm_status culm_darknet_open(const char *path, const struct culm_darknet_options *options,
                                   struct culm_vision_model **ret_model, struct culm_error *error);

#endif

/*
 * Darknet detectors: a configuration (FILE.cfg) and its weights as a model of pictures.
 *
 * Supported sections: [net], [convolutional] (groups, dilation, batch norm), [maxpool], [avgpool],
 * [upsample], [route] (of up to 8 sections; groups), [shortcut], [scale_channels], [dropout],
 * [yolo]; activations: linear, relu, leaky, relu6, logistic, swish, tanh, mish. Batch norm divides
 * by sqrt(variance + 1e-5), so that channels stay finite whose variance is zero, denormal or
 * slightly negative. Pictures are RGB / 255, stretched to the size of the network.
 *
 * Errors are one line: "darknet 'FILE': line 12: ...". Thread: as vision/model.h.
 */
#ifndef CULM_DARKNET_DARKNET_H
#define CULM_DARKNET_DARKNET_H

#include "vision/model.h"

struct culm_darknet_options {
    const char *weights; /* NULL: FILE.weights beside FILE.cfg */
    const char *names;   /* names of classes; NULL: FILE.names or, for a FILE "..-PART-PART", the
                            last PART.names that exists; if there is none, no names */
    bool structure;      /* opens no weights; none can be read */
};

/* The caller frees the model with culm_vision_model_free. options NULL: the defaults.
 * CULM_ERR_CONFIG: a file is missing; CULM_ERR_FORMAT or CULM_ERR_UNSUPPORTED: its contents. */
enum culm_status culm_darknet_open(const char *path, const struct culm_darknet_options *options,
                                   struct culm_vision_model **ret_model, struct culm_error *error);

#endif

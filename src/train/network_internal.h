/* The parts of a network, shared by its files. Not for others. */
#ifndef CULM_TRAIN_NETWORK_INTERNAL_H
#define CULM_TRAIN_NETWORK_INTERNAL_H

#include "onnx/onnx.h"
#include "store/weights.h"
#include "train/network.h"

/* What the graph of an ONNX file depends on. */
struct network_request {
    int64_t batch, context, image, masked;
    double label_smoothing;
    enum culm_purpose purpose;
};

struct culm_network {
    const struct culm_train_config *config;
    struct culm_onnx_graph *file; /* as it was read; NULL: not an ONNX model, or let go */
    struct culm_onnx_model
        *model;               /* its import for training: whose numbers are the first weights */
    struct culm_graph *graph; /* of that import, until somebody asks for such a one; or NULL */
    struct network_request request; /* that `graph` answers */
    struct culm_weights *init;      /* model.init; NULL: none, or not opened yet */
};

/* Opens the ONNX file and imports it for training, unless that was done: `model` is there then, of
 * an ONNX model. */
enum culm_status network_import(struct culm_network *network, struct culm_error *error);

#endif

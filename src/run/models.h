/*
 * What models are and cost, and their exchange as ONNX files: for `culm model`. Nothing here prints.
 * Thread: the caller's.
 */
#ifndef CULM_RUN_MODELS_H
#define CULM_RUN_MODELS_H

#include "base/status.h"

#include <culm/infer.h>

/* The i-th published model; NULL past the last. */
const char *culm_published(size_t index);

struct culm_cost_stage {
    int32_t first_block, last_block;
    int64_t parameters;
    double flops;                            /* of a sample */
    size_t activation_bytes, boundary_bytes; /* of a micro-batch */
};

struct culm_cost {
    char name[64];
    int64_t parameters, blocks;
    int64_t batch;       /* samples in a micro-batch: the configuration's, or 1 */
    double flops;        /* of a sample */
    size_t memory_bytes; /* to train in one process, with a micro-batch */
    size_t activation_bytes, activation_bytes_recompute; /* of a sample */
    struct culm_cost_stage *stage;                       /* NULL unless asked for */
    int32_t stages;
};

/* What a published model, that of a configuration file or that of a run costs; with `stages` cut into
 * as many as the configuration says, four for a name. Release it in any case. */
enum culm_status culm_cost_compute(const char *what, bool stages, struct culm_cost *ret_cost,
                                   struct culm_error *error);
void culm_cost_release(struct culm_cost *cost);

struct culm_import_options {
    int64_t batch, context,
        image; /* samples in a micro-batch; sizes that the file leaves open, or 0 */
};

struct culm_import_field {
    const char *name, *dtype;
    int rank;
    int64_t shape[CULM_RANK_MAX];
};

/* What an ONNX file is to training. */
struct culm_import;
struct culm_import_about {
    const char *producer;
    int64_t opset, parameters;
    int32_t tensors, operators, blocks, fields, notes;
    const char *ends_in; /* "softmax", "log-softmax", "sigmoid"; NULL: none of them */
    double flops;        /* of a sample */
    size_t memory_bytes;
};
enum culm_status culm_import_open(const char *path, const struct culm_import_options *options,
                                  struct culm_import **ret_import, struct culm_error *error);
void culm_import_free(struct culm_import *import);
struct culm_import_about culm_import_describe(const struct culm_import *import);
struct culm_import_field culm_import_field_of(const struct culm_import *import, int32_t index);
const char *culm_import_note(const struct culm_import *import, int32_t index);

#define CULM_EXPORT_NOTE_SIZE 480 /* one line: what was done to weights; "": nothing */

/* Writes a published model, that of a configuration file, of a run or of a checkpoint as an ONNX
 * file. weights: as in struct culm_evaluate_arguments. ret_note is set in any case. */
enum culm_status culm_export(const char *what, const char *weights, const char *path,
                             char ret_note[CULM_EXPORT_NOTE_SIZE], struct culm_error *error);

#endif

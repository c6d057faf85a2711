/*
 * Using models with Culm: running them on arrays, and reading weights.
 *
 *     struct culm_model *model = NULL;
 *     if (culm_model_open("runs/main", NULL, &model, &error) ||
 *         culm_model_run(model, inputs, outputs, &error)) {
 *         fprintf(stderr, "%s\n", error.text);
 *     }
 *     culm_model_free(model);
 *
 * examples/embed/infer.c is a whole program, and embed.py does the same in Python. Numbers are
 * native-endian. Arrays are contiguous and row-major: the last dimension varies fastest. What
 * <culm.h> says of errors, ownership, threads and versions holds here.
 */
#ifndef CULM_INFER_H
#define CULM_INFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <culm/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- models on arrays --------------------------------------------------------------------------- */

#define CULM_RANK_MAX 8

enum culm_array_dtype {
    CULM_ARRAY_F32 = 1,
    CULM_ARRAY_I32 = 2,
    CULM_ARRAY_BF16 = 3,
    CULM_ARRAY_OTHER = 4, /* of a file, in a format that this library can copy but not interpret */
};

struct culm_array_info {
    size_t size;      /* sizeof(struct culm_array_info), set by the caller */
    const char *name; /* lives as long as the object that it was asked of */
    enum culm_array_dtype dtype;
    int32_t rank;                 /* 0: a scalar */
    int64_t shape[CULM_RANK_MAX]; /* [rank] of it */
    uint64_t bytes;               /* of the whole array */
};

struct culm_model;

struct culm_model_open_options {
    size_t size;         /* sizeof(struct culm_model_open_options) */
    const char *weights; /* as in struct culm_evaluate_arguments; NULL: see culm_model_open */
    int64_t batch;       /* the most samples that culm_model_run will take at once, up to 1048576;
                            0: 1 */
    int64_t threads;     /* 1 to 256; 0: 1 */
};

/* Opens a model. `what` is one of these, with the weights named here unless `options` name others:
 *   a run directory      those in its model.safetensors
 *   a checkpoint         its own
 *   an ONNX file         its own
 *   a YAML configuration those that training would start from
 *   a published name     "gpt2", "resnet50", ...: random ones, from seed 1, so name `weights`
 * If the `weights` of a run are a checkpoint, the configuration that it was made with applies.
 * `options` may be NULL. Images are [batch, height, width, channels], tokens are [batch, length]:
 * culm_model_input says which. Outputs are what the model answers with: logits, or what an ONNX file
 * that ends in a softmax, log-softmax or sigmoid makes of them. CULM_ERR_UNSUPPORTED: the ONNX file
 * has operators that are not supported. CULM_ERR_NOT_FOUND: the run has not ended, and no `weights`
 * are named. CULM_ERR_CHANGED: `weights` is a checkpoint, and the file of the model is no longer
 * what it was when the run began. */
CULM_API enum culm_status culm_model_open(const char *what,
                                          const struct culm_model_open_options *options,
                                          struct culm_model **ret_model, struct culm_error *error);
CULM_API void culm_model_free(struct culm_model *model);
/* These are 0 if `model` is NULL. */
CULM_API int64_t culm_model_parameter_count(const struct culm_model *model);
CULM_API int32_t culm_model_input_count(const struct culm_model *model);
CULM_API int32_t culm_model_output_count(const struct culm_model *model);
/* Name, type and shape of one input or output; `index` counts from 0. */
CULM_API enum culm_status culm_model_input(const struct culm_model *model, int32_t index,
                                           struct culm_array_info *ret_info,
                                           struct culm_error *error);
CULM_API enum culm_status culm_model_output(const struct culm_model *model, int32_t index,
                                            struct culm_array_info *ret_info,
                                            struct culm_error *error);
/* From now on, culm_model_run takes `batch` samples, from 1 to the number that the model was opened
 * for; culm_model_input and culm_model_output tell the shapes and sizes that result. The results for
 * a sample have the same bits whatever the size of the batch. CULM_ERR_UNSUPPORTED: the model is from
 * an ONNX file whose graph fixes the number of samples, as few do. After an error, the batch is what
 * it was before. */
CULM_API enum culm_status culm_model_set_batch(struct culm_model *model, int64_t batch,
                                               struct culm_error *error);
/* Runs one forward pass. inputs[i] holds input i, and outputs[i] has room for output i, each with the
 * `bytes` that its info tells, in any alignment. CULM_ERR_CONFIG: an I32 input that selects rows of a
 * table, such as token ids, holds a number that the table has no row for. */
CULM_API enum culm_status culm_model_run(struct culm_model *model, const void *const *inputs,
                                         void *const *outputs, struct culm_error *error);

/* --- text --------------------------------------------------------------------------------------- */

struct culm_generate_options {
    size_t size;         /* sizeof(struct culm_generate_options) */
    const char *prompt;  /* not empty */
    const char *weights; /* as in struct culm_model_open_options; NULL: the model's own */
    int64_t tokens;      /* to add, at most; they are bytes if the run has no tokenizer */
    double temperature;  /* below 1: likelier tokens; above 1: rarer ones; 0: 0.8 */
    uint64_t seed;       /* of the random choices */
    int64_t threads;     /* 1 to 256; 0: 1 */
    /* Not NULL. Receives the prompt, then token after token, `len` bytes each. False: it is enough. */
    bool (*text)(void *context, const void *bytes, size_t len);
    void (*warning)(void *context,
                    const char *text); /* as in every structure of options (culm.h) */
    void *context;                     /* passed to both */
};
/* Continues the prompt with the model of the run in the folder `what`, or of a checkpoint: a GPT-2, or
 * a graph of an ONNX file that reads tokens alone, with causal attention, and answers with logits
 * [batch, length, vocabulary]. CULM_ERR_CONFIG: it is not such a model, the prompt has what its
 * vocabulary lacks, or logits are not finite. */
CULM_API enum culm_status culm_generate(const char *what,
                                        const struct culm_generate_options *options,
                                        struct culm_error *error);

/* --- checkpoints and weights -------------------------------------------------------------------- */

/* The tensors of a checkpoint, of the newest checkpoint of a run, or of a safetensors file, sorted by
 * name. They never change, so any number of threads may use one object at once. */
struct culm_tensors;

/* With `verify`, checks the hashes of a checkpoint first, which means reading all of it. */
CULM_API enum culm_status culm_tensors_open(const char *path, bool verify,
                                            struct culm_tensors **ret_tensors,
                                            struct culm_error *error);
CULM_API void culm_tensors_free(struct culm_tensors *tensors);
/* The step that the checkpoint was made after; -1 if it is not a checkpoint. */
CULM_API int64_t culm_tensors_step(const struct culm_tensors *tensors);
CULM_API size_t culm_tensors_count(const struct culm_tensors *tensors);
CULM_API enum culm_status culm_tensors_info(const struct culm_tensors *tensors, size_t index,
                                            struct culm_array_info *ret_info,
                                            struct culm_error *error);
/* Finds the index of the tensor with this name. CULM_ERR_NOT_FOUND: no tensor has it. */
CULM_API enum culm_status culm_tensors_find(const struct culm_tensors *tensors, const char *name,
                                            size_t *ret_index, struct culm_error *error);
/* Copies a tensor to `ret_data`. `bytes` must be the `bytes` of its info. */
CULM_API enum culm_status culm_tensors_read(const struct culm_tensors *tensors, size_t index,
                                            void *ret_data, uint64_t bytes,
                                            struct culm_error *error);
/* Compares tensors bit by bit, and optimizer states if both have one. If *ret_same is false,
 * `difference` says in one line which tensor is the first to differ, and where; it has room for
 * `difference_size` bytes, and may be NULL if that is 0. */
CULM_API enum culm_status culm_tensors_compare(const struct culm_tensors *a,
                                               const struct culm_tensors *b, bool *ret_same,
                                               char *difference, size_t difference_size,
                                               struct culm_error *error);

#ifdef __cplusplus
}
#endif

#endif

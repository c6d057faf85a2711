/*
 * What a configuration says of a model, its optimizer and its learning rate: the sections `model`,
 * `optimizer` and `schedule`.
 *
 * Texts are owned: culm_config_release of the table that holds the section. Thread: constant after
 * loading.
 */
#ifndef CULM_MODEL_CONFIG_H
#define CULM_MODEL_CONFIG_H

#include "base/config.h"
#include "model/model.h"
#include "model/optimizer.h"

/* What the kernels can take; a test holds them against the device. */
#define CULM_MODEL_MAX_WIDTH 16384
#define CULM_MODEL_MAX_HEAD 256
#define CULM_MODEL_MAX_CONTEXT 32768

/* What happens to tensors of `init` that the model has no place for. */
enum culm_init_unused { CULM_INIT_UNUSED_REFUSE, CULM_INIT_UNUSED_IGNORE };
extern const char *const culm_init_unused_names[];
#define CULM_INIT_UNUSED_DOC                                                                       \
    "what to do with tensors of `model.init` that the model lacks or has in another shape: "       \
    "`refuse` them, or `ignore` and name them"
#define CULM_INIT_DOC                                                                              \
    "weights to start from: a safetensors file, the index of its shards or their folder, a "       \
    "checkpoint, or a run"

/* The options of a published model where none are given. */
struct culm_model_config {
    enum culm_arch arch; /* CULM_ARCH_ONNX: the graph in `file` */
    char *name;          /* of a preset; NULL: none */
    char *file;          /* an ONNX file; NULL: none */
    char *init;          /* initial weights (store/weights.h); NULL: none */
    enum culm_init_unused init_unused;
    struct culm_model_options options; /* onnx: 0 where the file says it */
};
extern const struct culm_config_table culm_model_config_table;

/* ADAM has its weight decay in the gradient, and is not one of `optimizer.name`. */
enum culm_optimizer { CULM_OPTIMIZER_ADAMW, CULM_OPTIMIZER_SGD, CULM_OPTIMIZER_ADAM };

struct culm_optimizer_config {
    enum culm_optimizer name;
    double lr, beta1, beta2, eps, weight_decay, clip_norm;
    double momentum; /* sgd */
    bool nesterov;
};
extern const struct culm_config_table culm_optimizer_config_table;

struct culm_schedule_config {
    enum culm_schedule_kind name;
    int64_t warmup;
    double min_lr;
    int64_t every; /* step */
    double gamma;
};
extern const struct culm_config_table culm_schedule_config_table;

#endif

/*
 * The configuration of `culm train`, as README.md lists it: plain data with every default filled
 * in and every value checked.
 *
 * Lists of paths are owned by the struct. Everything else is in place. Thread: constant after
 * loading.
 */
#ifndef CULM_TRAIN_CONFIG_H
#define CULM_TRAIN_CONFIG_H

#include "base/pins.h"
#include "model/model.h"

/* What the kernels, and messages of a bounded size, can take; plan.c holds them against the device.
 */
#define CULM_TRAIN_MAX_WIDTH 16384
#define CULM_TRAIN_MAX_HEAD 256
#define CULM_TRAIN_MAX_CONTEXT 32768
#define CULM_TRAIN_MAX_ROWS (1 << 20)
#define CULM_TRAIN_MAX_MICROS 4096

enum culm_redundancy { CULM_REDUNDANCY_NONE, CULM_REDUNDANCY_LAZY, CULM_REDUNDANCY_EAGER };

struct culm_model_config {
    char arch[32]; /* "gpt2", ...; "onnx": the graph in `file` */
    char **name;   /* of a preset; at most one */
    size_t name_count;
    char **file; /* an ONNX file; at most one */
    size_t file_count;
    char **init; /* safetensors with initial weights; at most one */
    size_t init_count;
    char **blocks; /* decimal; at most 4 */
    size_t block_count;
    struct culm_model_options options; /* `blocks` filled in */
};

enum culm_normalize { CULM_NORMALIZE_NONE, CULM_NORMALIZE_IMAGENET, CULM_NORMALIZE_CUSTOM };

struct culm_data_config {
    char kind[16]; /* culm_source_kind_name */
    char **paths;
    size_t path_count;
    char **tokenizer;
    size_t tokenizer_count;
    char masked_of[16];
    double held_out;
    char crop[16]; /* center, padded, resized */
    int64_t padding, resize;
    bool flip;
    enum culm_normalize normalize;
    double mean, std;
};

struct culm_batch_config {
    int64_t global, micro, lanes; /* in samples; lanes a count */
};

struct culm_optimizer_config {
    char name[16]; /* "adamw", "sgd" */
    double lr, beta1, beta2, eps, weight_decay, clip_norm;
    double momentum; /* sgd */
    bool nesterov;
};

struct culm_schedule_config {
    char name[16]; /* culm_schedule_kind_of */
    int64_t warmup;
    double min_lr;
    int64_t every; /* step */
    double gamma;
};

struct culm_checkpoint_config {
    int64_t every, keep; /* every 0: only at the end */
};

struct culm_eval_config {
    int64_t every, samples; /* every 0: never; samples 0: all that are held out */
};

enum culm_recompute { CULM_RECOMPUTE_NONE, CULM_RECOMPUTE_BLOCK, CULM_RECOMPUTE_AUTO };

struct culm_cluster_config {
    int64_t heartbeat_ms, suspect_ms, kill_suspect_ms, replace_ms, join_ms, wait_ms, stuck_ms,
        orphan_ms, max_nodes;
};

struct culm_train_config {
    struct culm_model_config model;
    struct culm_data_config data;
    struct culm_batch_config batch;
    int64_t pipelines, stages;
    enum culm_redundancy redundancy;
    char precision[8]; /* "f32", "bf16" */
    char kernels[16];  /* "default", "trial" */
    char cuts[16];     /* "analytic", "measured" */
    enum culm_recompute recompute;
    int64_t memory_mb; /* what a worker may take; 0: what the machine has, shared out */
    int64_t threads;   /* per worker */
    uint64_t seed;
    int64_t steps;
    struct culm_optimizer_config optimizer;
    struct culm_schedule_config schedule;
    struct culm_checkpoint_config checkpoint;
    struct culm_eval_config eval;
    struct culm_cluster_config cluster;
    /* Not a key: what the files it names must hold, wherever they are opened; NULL: whatever they
     * do. Borrowed. */
    struct culm_pins *pins;
};

/* Loads `path` (YAML), then applies `sets` ("key.sub=value") in order. Errors read `FILE:LINE: key:
 * what is wrong; what is allowed` (`--set: key: ...` for a set). On failure *ret_config is
 * untouched. */
enum culm_status culm_train_config_load(const char *path, const char *const *sets, size_t set_count,
                                        struct culm_train_config *ret_config,
                                        struct culm_error *error);
/* The same from text; `name` is the FILE of the messages. (Workers get the launcher's configuration
 * this way; so does a fuzzer.) */
enum culm_status culm_train_config_parse(const char *text, size_t len, const char *name,
                                         const char *const *sets, size_t set_count,
                                         struct culm_train_config *ret_config,
                                         struct culm_error *error);
void culm_train_config_release(struct culm_train_config *config);

/* Writes every key as YAML that parses back to the same configuration (doubles in the fewest
 * digits that read back to the same number).
 * Caller frees. NULL: out of memory. */
char *culm_train_config_dump(const struct culm_train_config *config);

/* What `--resume` may change, in words: keys, and sections of keys. */
#define CULM_TRAIN_RESUMABLE                                                                       \
    "pipelines, stages, redundancy, cuts, recompute, memory_mb, threads, checkpoint, eval and "    \
    "cluster"

/* CULM_ERR_CONFIG, naming the key, when `now` changes anything that `--resume` may not change (all
 * but CULM_TRAIN_RESUMABLE). */
enum culm_status culm_train_config_resumable(const struct culm_train_config *before,
                                             const struct culm_train_config *now,
                                             struct culm_error *error);

/* The reference of all keys: a Markdown table (as in README.md), or lines for a terminal. Caller
 * frees. NULL: out of memory. */
char *culm_train_config_reference(bool markdown);

/* The values of `model` and `data` as the rooms below take them. The paths are borrowed. */
struct culm_source_options;
void culm_train_config_source(const struct culm_train_config *config, bool held_out,
                              struct culm_source_options *ret_options);

const char *culm_redundancy_name(enum culm_redundancy redundancy);

#endif

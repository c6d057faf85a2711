/*
 * Culm: training on machines that may be lost at any moment, and using the models that result.
 *
 *     struct culm_error error;
 *     struct culm_config *config = NULL;
 *     struct culm_training *training = NULL;
 *     if (culm_config_open("main.yaml", &config, &error) ||
 *         culm_training_new(config, &(struct culm_training_options){
 *             .size = sizeof(struct culm_training_options), .dir = "runs/main"}, &training, &error) ||
 *         culm_training_run(training, &error)) {
 *         fprintf(stderr, "%s\n", error.text);
 *     }
 *     culm_training_free(training);
 *     culm_config_free(config);
 *
 * WHAT HOLDS EVERYWHERE
 *
 * Errors. A function that can fail returns `enum culm_status`, in which CULM_OK is 0, and fills the
 * caller's `struct culm_error` with one line for a person: what failed, where, and what to do about
 * it. `error` may be NULL. What `ret_` arguments point to is as it was after a call unless the
 * function has succeeded; culm_training_plan alone has an exception. A wrong argument (a NULL
 * object, an index out of range) results in CULM_ERR_ARGUMENT or, from a function that returns no
 * status, in the value that stands for "nothing".
 *
 * Ownership. The caller owns what a function creates, and frees it with the function named for that;
 * these functions accept NULL. Strings and arrays that a function returns by pointer belong to the
 * object and live as long as it does. Strings that are passed in are copied.
 *
 * Threads. One thread at a time may use an object, unless a function says otherwise. Any number of
 * threads may use different objects at once.
 *
 * The process. The library prints nothing, never ends the process, installs no signal handler and
 * leaves the signal masks of the caller's threads alone; whenever it changes the floating-point mode
 * of a thread, it restores it. It starts threads and, to train, processes; and it raises the soft
 * limit on open files.
 *
 * Compatibility. A structure that the caller fills begins with `size`, which the caller sets to its
 * sizeof. Later versions add members at the end, where 0 means what this version does. A structure
 * that the library fills begins with `size` too, and the library writes no more than that. Names,
 * values of enumerations, and what is promised here will stay.
 *
 * Numbers are native-endian. Arrays are contiguous and row-major: the last dimension varies fastest.
 */
#ifndef CULM_H
#define CULM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <culm/status.h> /* enum culm_status, struct culm_error, and two functions on them */

#ifdef __cplusplus
extern "C" {
#endif

/* --- version ------------------------------------------------------------------------------------ */

/* "0.1.0": the version of the library that is linked. CULM_VERSION_NUMBER is that of the header. */
CULM_API const char *culm_version(void);
#define CULM_VERSION_NUMBER 100 /* 10000 * major + 100 * minor + patch */

/* --- configurations ----------------------------------------------------------------------------- */

/* The configuration of a training run: values of some of the keys that `culm help config` lists. */
struct culm_config;

/* Opens a YAML file, or reads `len` bytes of YAML, which messages then call `name`. Whether keys and
 * values are right is not checked yet. */
CULM_API enum culm_status culm_config_open(const char *path, struct culm_config **ret_config,
                                           struct culm_error *error);
CULM_API enum culm_status culm_config_read(const char *text, size_t len, const char *name,
                                           struct culm_config **ret_config,
                                           struct culm_error *error);
CULM_API void culm_config_free(struct culm_config *config);
/* Sets a key, such as "steps" or "optimizer.lr", to a value written as in YAML. The last value set
 * wins. It is checked together with all others, by culm_config_check and by every function that uses
 * the configuration. */
CULM_API enum culm_status culm_config_set(struct culm_config *config, const char *key,
                                          const char *value, struct culm_error *error);
/* Checks that every key is known, that its value has the right type and is in range, and that the
 * values fit each other. If not: CULM_ERR_CONFIG, with "FILE:LINE: key: what is wrong; what is
 * allowed", or "--set: ..." for a key that was set. */
CULM_API enum culm_status culm_config_check(struct culm_config *config, struct culm_error *error);
/* Checks the configuration, and returns it as YAML with every default filled in; read back, it is
 * the same configuration. The text lives until the configuration is changed or freed. */
CULM_API enum culm_status culm_config_text(struct culm_config *config, const char **ret_text,
                                           struct culm_error *error);

/* --- training ----------------------------------------------------------------------------------- */

struct culm_training;

struct culm_training_options {
    size_t size;     /* sizeof(struct culm_training_options) */
    const char *dir; /* the run directory, which is created; one that holds a run needs `resume` */
    bool resume;     /* continue the run in `dir` */
    /* The `culm` program, which is started once for each worker; without a '/', it is looked up in
     * PATH. NULL: the one that was installed with this library, otherwise "culm" in PATH. */
    const char *program;
    /* If not NULL, `program` is a program of the caller's own, which calls culm_worker_main with all
     * its arguments from "worker" on. These arguments, ended by NULL, come before those that the
     * library adds. `eval.every` is then refused, since evaluations need the `culm` program. */
    const char *const *program_arguments;
    const char *plan; /* a plan.json whose choices this run adopts; NULL: none */
    /* Receives every event, as the line that is written to events.jsonl, without its end of line
     * (docs/formats.md, "Events"). The thread in culm_training_run calls it. It may call
     * culm_training_stop, but no other function with this training. May be NULL. */
    void (*event)(void *context, const char *json);
    /* Receives, as one line, what is no error but worth knowing, as soon as it is found; it becomes
     * an event later. May be NULL. */
    void (*warning)(void *context, const char *text);
    void *context; /* passed to both */
    /* With `resume`: go on with inputs that have changed since the run began; and, if no checkpoint
     * of it is whole though it had some, do it all again. 0: no. */
    int accept_inputs, from_start;
};

/* Checks the configuration, the options and the run directory; writes nothing and starts nothing.
 * (culm_training_plan checks data, model and first weights, and so does culm_training_run before it
 * writes.) The configuration is copied. CULM_ERR_EXISTS: `dir` holds a run, and `resume` is not set.
 * CULM_ERR_CONFIG: something is wrong, or differs from the run to be resumed where it must not.
 * CULM_ERR_NOT_FOUND: the `culm` program was not found. */
CULM_API enum culm_status culm_training_new(struct culm_config *config,
                                            const struct culm_training_options *options,
                                            struct culm_training **ret_training,
                                            struct culm_error *error);
/* Returns what the run would do (stages, parameters, bytes of memory of a worker), as the JSON object
 * of the event `plan`. It lives until the next call or culm_training_free. CULM_ERR_MEMORY: the run
 * does not fit the machine, or `memory_mb`; *ret_json is set even then, and says what it needs. */
CULM_API enum culm_status culm_training_plan(struct culm_training *training, const char **ret_json,
                                             struct culm_error *error);
/* Trains to the end: claims the run directory, starts workers, and replaces those that are lost. May
 * be called once per object. CULM_ERR_STOPPED: culm_training_stop was called; a checkpoint holds all
 * steps that were committed. Whatever it returns, no worker is left running. */
CULM_API enum culm_status culm_training_run(struct culm_training *training,
                                            struct culm_error *error);
/* Asks the run to write a checkpoint and end, as soon as it can, however often it is called. May be
 * called by any thread, from a signal handler, and before or after culm_training_run. */
CULM_API void culm_training_stop(struct culm_training *training);
/* Ends the run at once. What was committed since the last checkpoint has to be done again, which
 * makes culm_training_run fail with CULM_ERR_AGAIN, unless there is nothing. From the same places as
 * culm_training_stop. */
CULM_API void culm_training_abort(struct culm_training *training);
CULM_API void culm_training_free(struct culm_training *training);

/* Runs a worker in this process until the launcher ends it, and returns the exit code for the
 * process. argv[0] is "worker", as the launcher passed it. This is the only function that prints: to
 * standard error, which the launcher has redirected to the worker's log. The launcher has started the
 * process with signals blocked that end runs (SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU). */
CULM_API int culm_worker_main(int argc, char **argv);

/* --- runs --------------------------------------------------------------------------------------- */

/* What a run has done so far, according to its events. */
struct culm_summary_info {
    size_t size; /* sizeof(struct culm_summary_info), set by the caller */
    bool done;
    int64_t steps;  /* that are done and were not rolled back */
    double loss;    /* of the last of these steps; NaN if there is none */
    int64_t losses; /* of workers */
    int64_t rollbacks, steps_redone;
    int64_t samples_lost, samples_repeated; /* -1 until the run is done */
    double pause_ms_median, pause_ms_max;   /* after losses; 0 if there was no pause */
    double rate_per_s; /* tokens per second, or samples where there are none; median over steps */
    char weights_sha256[72], state_sha256[72]; /* 64 digits and a NUL; "" until the run is done */
    /* Where the time of all its launches went (docs/formats.md); goodput is the useful share, 1 if
     * there was no time. */
    double goodput, useful_ms, redone_ms, paused_ms, waiting_ms, saving_ms;
};
/* CULM_ERR_NOT_FOUND: `dir` holds no run. */
CULM_API enum culm_status culm_run_summary(const char *dir, struct culm_summary_info *ret_summary,
                                           struct culm_error *error);

/* --- evaluation --------------------------------------------------------------------------------- */

struct culm_evaluate_arguments {
    size_t size; /* sizeof(struct culm_evaluate_arguments) */
    /* A safetensors file, the index of its shards or their folder, a checkpoint, or a run; of a run
     * also "best": its best.safetensors. NULL: culm_run_evaluate takes the run's model.safetensors,
     * culm_evaluate_model the weights that the configuration names. */
    const char *weights;
    const char *const *paths; /* files to evaluate on, whole; NULL: the held-out samples */
    size_t path_count;
    int64_t samples; /* evaluates at most this many; 0: all */
    int64_t threads; /* 1 to 256; 0: 1 */
};
struct culm_evaluate_result {
    size_t size;       /* sizeof(struct culm_evaluate_result), set by the caller */
    int64_t samples;   /* how many were evaluated */
    int64_t counted;   /* tokens or labels in them that are not padding */
    double loss;       /* mean over `counted` */
    double accuracy;   /* share of `counted` for which the largest logit is that of the target */
    double perplexity; /* e to the power of the loss; 0 unless the model predicts tokens */
};
/* Evaluates the model of a configuration. If `arguments` is NULL, all of them have their defaults. */
CULM_API enum culm_status culm_evaluate_model(struct culm_config *config,
                                              const struct culm_evaluate_arguments *arguments,
                                              struct culm_evaluate_result *ret_result,
                                              struct culm_error *error);
/* Evaluates the model of the run in `dir`, or of a checkpoint. If `weights` is a checkpoint, the
 * configuration that it was made with applies. CULM_ERR_CHANGED: without `paths`, the files that
 * the run reads no longer hold what they held when it began. CULM_ERR_NOT_FOUND: the run has not
 * ended, and `weights` is NULL. CULM_ERR_CONFIG: the weights are not of this model, or they or the
 * loss are not finite. */
CULM_API enum culm_status culm_run_evaluate(const char *dir,
                                            const struct culm_evaluate_arguments *arguments,
                                            struct culm_evaluate_result *ret_result,
                                            struct culm_error *error);

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

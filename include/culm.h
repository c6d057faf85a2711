/*
 * Culm: training on machines that may be lost at any moment, and the models that come of it.
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
 * Errors. A function that can fail returns `enum culm_status`, CULM_OK being 0, and fills a caller's
 * `struct culm_error` with one line for a person: what, where, what to do. `error` may be NULL. What
 * a function returns through a `ret_` argument is written only on success, unless it says otherwise.
 * Wrong arguments (a NULL object, an index out of range) are CULM_ERR_ARGUMENT, or the value that
 * means "nothing" where a function returns no status.
 *
 * Ownership. What a function makes is the caller's, to be freed by the function named with it; free
 * functions take NULL. Texts and arrays that a function returns by pointer belong to the object and
 * live as long as it does. Texts that are passed in are copied.
 *
 * Threads. An object is used by one thread at a time, unless a function says otherwise; different
 * objects by any number of threads at once.
 *
 * The process. The library prints nothing, never ends the process, installs no signal handler,
 * changes no signal mask of the caller's threads and no floating-point mode that it does not put
 * back. It starts threads and, for training, processes; and raises the soft limit of open files.
 *
 * Compatibility. Structures that the caller fills begin with `size`, set to sizeof: later versions
 * add members behind, and take 0 there as what this version does. Structures that the library fills
 * likewise begin with `size`, and no more than that is written. Names, values of enumerations and
 * what is said here are kept.
 *
 * Numbers are native-endian; arrays are contiguous and row-major, the last dimension varying fastest.
 */
#ifndef CULM_H
#define CULM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef CULM_API
#define CULM_API __attribute__((visibility("default")))
#endif

/* --- status and errors -------------------------------------------------------------------------- */

/* Grouped by what is lost. Later versions may add values. */
enum culm_status {
    CULM_OK = 0,
    /* The call: nothing changed, the caller may try again or otherwise. */
    CULM_ERR_ARGUMENT,    /* an argument that no call may have */
    CULM_ERR_CONFIG,      /* a configuration or an input is wrong */
    CULM_ERR_FORMAT,      /* a file does not have the form that it should have */
    CULM_ERR_NOT_FOUND,   /* there is no such thing */
    CULM_ERR_EXISTS,      /* it is there already, and is not overwritten */
    CULM_ERR_UNSUPPORTED, /* what is asked for is right, but this library cannot do it */
    CULM_ERR_AGAIN,       /* not now */
    /* The link or the machine. */
    CULM_ERR_CLOSED,  /* the other side is gone */
    CULM_ERR_IO,      /* the system refused: a full disk, no permission, ... */
    CULM_ERR_MEMORY,  /* out of memory, or over a limit that was given */
    CULM_ERR_TIMEOUT, /* it took too long */
    CULM_ERR_MACHINE, /* this processor or build lacks something */
    /* The job. */
    CULM_ERR_CHANGED,  /* an input is no longer what the run began with */
    CULM_ERR_INTERNAL, /* the library broke a promise of its own: please report it */
    CULM_ERR_STOPPED,  /* the run was stopped, and can be resumed */
};

#define CULM_ERROR_MAX 512

struct culm_error {
    enum culm_status status;
    char text[CULM_ERROR_MAX]; /* one line without an end, NUL-terminated; what is too long is cut */
};

/* "ok", "config", ...; never NULL. */
CULM_API const char *culm_status_name(enum culm_status status);
/* The exit code of the `culm` program for it: 0, 1, 2, 3, 4 or 75 (README.md). */
CULM_API int culm_status_exit_code(enum culm_status status);
/* "0.1.0". Of the library that is linked; CULM_VERSION_NUMBER is the header's. */
CULM_API const char *culm_version(void);
#define CULM_VERSION_NUMBER 100 /* 10000 * major + 100 * minor + patch */

/* --- configurations ----------------------------------------------------------------------------- */

/* The keys of a training run (`culm help config` lists them), not all of them given yet. */
struct culm_config;

/* From a YAML file; or from `len` bytes of YAML, called `name` in messages. Nothing of
 * it is judged yet. */
CULM_API enum culm_status culm_config_open(const char *path, struct culm_config **ret_config,
                                           struct culm_error *error);
CULM_API enum culm_status culm_config_read(const char *text, size_t len, const char *name,
                                           struct culm_config **ret_config,
                                           struct culm_error *error);
CULM_API void culm_config_free(struct culm_config *config);
/* Sets a key, "steps" or "optimizer.lr", to a value written as in YAML. What is set later wins. It
 * is judged with all others: by culm_config_check, and by whoever takes the configuration. */
CULM_API enum culm_status culm_config_set(struct culm_config *config, const char *key,
                                          const char *value, struct culm_error *error);
/* Whether all keys are known, of the right type, in range and fit each other. CULM_ERR_CONFIG:
 * "FILE:LINE: key: what is wrong; what is allowed" ("--set: ..." for a key that was set). */
CULM_API enum culm_status culm_config_check(struct culm_config *config, struct culm_error *error);
/* All keys with every default filled in, as YAML that reads back to the same; checks first. The
 * text lives until the configuration is changed or freed. */
CULM_API enum culm_status culm_config_text(struct culm_config *config, const char **ret_text,
                                           struct culm_error *error);

/* --- training ----------------------------------------------------------------------------------- */

struct culm_training;

struct culm_training_options {
    size_t size;     /* sizeof(struct culm_training_options) */
    const char *dir; /* the run directory; made. A run that is there is refused without `resume` */
    bool resume;     /* go on with the run in `dir` */
    /* The `culm` program, which workers are processes of; NULL: the one that was installed with this
     * library, else that in PATH. With `program_arguments` (NULL-terminated, may be NULL) between
     * its name and what the library adds: a program of the caller's own that calls culm_worker_main
     * with all arguments from "worker" on. Then `eval.every`
     * is refused: evaluations need the `culm` program. */
    const char *program;
    const char *const *program_arguments;
    const char *plan; /* a plan.json whose choices are taken over; NULL: none */
    /* Every event, as the line that events.jsonl gets, without its end (README.md, "Events"). Called
     * by the thread in culm_training_run; it may call culm_training_stop and nothing else of this
     * training. NULL: nobody listens. */
    void (*event)(void *context, const char *json);
    /* What is not an error but should be known, as soon as it is; also an event later. One line. */
    void (*warning)(void *context, const char *text);
    void *context;
};

/* Checks configuration, options and run directory; writes nothing and starts nothing. (Data, model
 * and first weights are checked by culm_training_plan, and by culm_training_run before it writes.)
 * The configuration is copied. CULM_ERR_EXISTS: there is a run in `dir`, and `resume` is not set.
 * CULM_ERR_CONFIG: something is wrong, or `resume` would change what a run may not change.
 * CULM_ERR_NOT_FOUND: the `culm` program. */
CULM_API enum culm_status culm_training_new(struct culm_config *config,
                                            const struct culm_training_options *options,
                                            struct culm_training **ret_training,
                                            struct culm_error *error);
/* What it would do: stages, parameters, memory of a worker in bytes, as the JSON object of the event
 * `plan`; it lives until the next call or culm_training_free. CULM_ERR_MEMORY: it cannot fit the
 * machine, or `memory_mb`; *ret_json is set then too, and says what it would need. */
CULM_API enum culm_status culm_training_plan(struct culm_training *training, const char **ret_json,
                                             struct culm_error *error);
/* Trains to the end: claims the run directory, starts workers, and replaces those that are lost.
 * Once per object. CULM_ERR_STOPPED: culm_training_stop was called; all that was committed is in a
 * checkpoint. Whatever it returns, no worker is left. */
CULM_API enum culm_status culm_training_run(struct culm_training *training,
                                            struct culm_error *error);
/* Asks a run to end with a checkpoint, as soon as it can. Any thread, also before or after
 * culm_training_run, and in a signal handler. */
CULM_API void culm_training_stop(struct culm_training *training);
CULM_API void culm_training_free(struct culm_training *training);

/* Runs a worker in this process until its launcher ends it, and returns the exit code that the
 * process should have. argv[0] is "worker", as the launcher wrote it. This function alone prints, on
 * standard error, which the launcher has led to the log of the worker; and it ignores SIGINT. */
CULM_API int culm_worker_main(int argc, char **argv);

/* --- runs --------------------------------------------------------------------------------------- */

/* What came of a run so far, from its events. */
struct culm_summary_info {
    size_t size; /* sizeof(struct culm_summary_info), set by the caller */
    bool done;
    int64_t steps;  /* done, in the history that counts */
    double loss;    /* of the last of them; NaN: none */
    int64_t losses; /* of workers */
    int64_t rollbacks, steps_redone;
    int64_t samples_lost, samples_repeated; /* -1: it is not done */
    double pause_ms_median, pause_ms_max;   /* 0: there was none */
    double rate_per_s;                      /* median over steps, of tokens, or of samples */
    char weights_sha256[72], state_sha256[72]; /* 64 digits and a NUL; "" unless it is done */
};
CULM_API enum culm_status culm_run_summary(const char *dir, struct culm_summary_info *ret_summary,
                                           struct culm_error *error);

/* --- evaluation --------------------------------------------------------------------------------- */

struct culm_evaluate_arguments {
    size_t size;         /* sizeof(struct culm_evaluate_arguments) */
    const char *weights; /* a safetensors file or a checkpoint; NULL: what the configuration names */
    const char *const *paths; /* files whose samples are all used; NULL: those that are held out */
    size_t path_count;
    int64_t samples; /* at most so many; 0: all */
    int64_t threads; /* 1 to 256; 0: 1 */
};
struct culm_evaluate_result {
    size_t size;       /* sizeof(struct culm_evaluate_result), set by the caller */
    int64_t samples;   /* that were evaluated */
    int64_t counted;   /* rows: tokens or labels that are not padding */
    double loss;       /* mean over these */
    double accuracy;   /* share of these whose largest logit is that of the target */
    double perplexity; /* e to the loss; 0 unless the model predicts tokens */
};
/* Evaluates the model of a configuration. `arguments` may be NULL: all defaults. */
CULM_API enum culm_status culm_evaluate_model(struct culm_config *config,
                                              const struct culm_evaluate_arguments *arguments,
                                              struct culm_evaluate_result *ret_result,
                                              struct culm_error *error);
/* Evaluates the model of the run in `dir`: its model.safetensors, or `weights`. A checkpoint brings
 * the configuration that it was made with, and without `paths` the files that the run read must hold
 * what they held then: CULM_ERR_CHANGED. CULM_ERR_NOT_FOUND: the run has not ended, and no weights
 * are named. */
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
    CULM_ARRAY_OTHER = 4, /* a tensor of a file in a format that this library only names */
};

struct culm_array_info {
    size_t size;      /* sizeof(struct culm_array_info), set by the caller */
    const char *name; /* lives as long as the object that was asked */
    enum culm_array_dtype dtype;
    int32_t rank; /* 0: a scalar */
    int64_t shape[CULM_RANK_MAX];
    uint64_t bytes; /* of the whole array */
};

struct culm_model;

struct culm_model_open_options {
    size_t size;         /* sizeof(struct culm_model_open_options) */
    const char *weights; /* a safetensors file or a checkpoint; NULL: see culm_model_open */
    int64_t batch;       /* most samples in one call of culm_model_run; 0: 1 */
    int64_t threads;     /* 1 to 256; 0: 1 */
};

/* `what`, and whose weights it has unless `options` name others:
 *   a run directory      those of its model.safetensors. A checkpoint that `options` name brings
 *                        the configuration that it was made with
 *   an ONNX file         its own
 *   a configuration      those that it starts from (YAML)
 *   a published name     "gpt2", "resnet50", ...: drawn from seed 1, so give `weights`
 * `options` may be NULL. Images are [batch, height, width, channels], tokens [batch, length]; the
 * arrays say so. CULM_ERR_UNSUPPORTED: a file with operators that are not supported.
 * CULM_ERR_NOT_FOUND: a run that has not ended, and no `weights`. CULM_ERR_CHANGED: `weights` is a
 * checkpoint, and the model's file is no longer what its run began with. */
CULM_API enum culm_status culm_model_open(const char *what,
                                          const struct culm_model_open_options *options,
                                          struct culm_model **ret_model, struct culm_error *error);
CULM_API void culm_model_free(struct culm_model *model);
CULM_API int64_t culm_model_parameter_count(const struct culm_model *model); /* 0: NULL */
CULM_API int32_t culm_model_input_count(const struct culm_model *model);
CULM_API int32_t culm_model_output_count(const struct culm_model *model);
CULM_API enum culm_status culm_model_input(const struct culm_model *model, int32_t index,
                                           struct culm_array_info *ret_info,
                                           struct culm_error *error);
CULM_API enum culm_status culm_model_output(const struct culm_model *model, int32_t index,
                                            struct culm_array_info *ret_info,
                                            struct culm_error *error);
/* From now on culm_model_run takes `batch` samples, 1 to as many as the model was opened for, and
 * culm_model_input and culm_model_output say the shapes and bytes that follow. A sample has the same
 * bits in a batch of any size. CULM_ERR_UNSUPPORTED, for a few models from ONNX files: the file's graph
 * holds one number of samples alone. After an error the batch is as before. */
CULM_API enum culm_status culm_model_set_batch(struct culm_model *model, int64_t batch,
                                               struct culm_error *error);
/* One forward pass. inputs[i] has the bytes of input i, outputs[i] room for those of output i; any
 * alignment. Numbers of I32 inputs that choose a row (tokens) must be below how many there are:
 * CULM_ERR_CONFIG. */
CULM_API enum culm_status culm_model_run(struct culm_model *model, const void *const *inputs,
                                         void *const *outputs, struct culm_error *error);

/* --- checkpoints and weights -------------------------------------------------------------------- */

/* The tensors of a checkpoint, of the newest checkpoint of a run, or of a safetensors file, sorted by
 * name. Constant: any number of threads may read. */
struct culm_tensors;

/* `verify`: hashes of a checkpoint are compared first, which reads all of it. */
CULM_API enum culm_status culm_tensors_open(const char *path, bool verify,
                                            struct culm_tensors **ret_tensors,
                                            struct culm_error *error);
CULM_API void culm_tensors_free(struct culm_tensors *tensors);
CULM_API int64_t culm_tensors_step(const struct culm_tensors *tensors); /* -1: not a checkpoint */
CULM_API size_t culm_tensors_count(const struct culm_tensors *tensors);
CULM_API enum culm_status culm_tensors_info(const struct culm_tensors *tensors, size_t index,
                                            struct culm_array_info *ret_info,
                                            struct culm_error *error);
/* The index of a name; CULM_ERR_NOT_FOUND. */
CULM_API enum culm_status culm_tensors_find(const struct culm_tensors *tensors, const char *name,
                                            size_t *ret_index, struct culm_error *error);
/* Copies a tensor; `bytes` must be its own. */
CULM_API enum culm_status culm_tensors_read(const struct culm_tensors *tensors, size_t index,
                                            void *ret_data, uint64_t bytes,
                                            struct culm_error *error);
/* Compares bit by bit, optimizer state too where both have it. *ret_same false: `difference` (of
 * `difference_size` bytes, may be NULL) says in one line which tensor differs first, and where. */
CULM_API enum culm_status culm_tensors_compare(const struct culm_tensors *a,
                                               const struct culm_tensors *b, bool *ret_same,
                                               char *difference, size_t difference_size,
                                               struct culm_error *error);

#ifdef __cplusplus
}
#endif

#endif

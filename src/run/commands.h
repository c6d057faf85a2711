/*
 * What the commands of `culm` need of src/run beside culm.h, and the only header of this room that
 * src/cli includes. What is worked out here is printed there: nothing here prints.
 *
 * As in culm.h: objects are used by one thread at a time; what is returned by pointer lives as long
 * as the object.
 */
#ifndef CULM_RUN_COMMANDS_H
#define CULM_RUN_COMMANDS_H

#include "base/config.h"
#include "base/status.h"

#include <culm.h>
#include <jansson.h>

struct culm_sink;
struct culm_summary;

/* One line for the user of what is not an error, such as parameters that model.init lacks; "": there
 * is nothing to say. What carries one has it set also after a failure. */
#define CULM_COMMAND_NOTE_SIZE 480
#define CULM_COMMAND_LEFT_OUT_SIZE 400

/* The commit that this was built of. */
const char *culm_commit(void);

/* --- configurations ----------------------------------------------------------------------------- */

/* Adds "key=value" as it stands on a command line; its form is judged with the rest. */
enum culm_status culm_config_add(struct culm_config *config, const char *set,
                                 struct culm_error *error);
/* What `--resume` may change, in words; and the reference of all keys: a Markdown table, or lines for
 * a terminal. The caller frees both. NULL: out of memory. */
char *culm_config_resumable_keys(void);
char *culm_config_setting_keys(void); /* what --set may change then as well */
char *culm_config_reference(bool markdown);
/* The same key by key. */
void culm_config_keys(culm_config_visit visit, void *ctx);

/* --- train -------------------------------------------------------------------------------------- */

/* What `culm train` can ask for besides. All borrowed until culm_training_free. */
struct culm_training_extras {
    const char *const *faults; /* specifications (run/fault.h) */
    size_t fault_count;
    const char *trace_path; /* NULL: none */
    double time_scale;      /* 0: 1 */
    bool dry;               /* culm_training_plan alone: a run may be in `dir` */
};

/* culm_training_new with extras; NULL: none. */
enum culm_status culm_training_make(const struct culm_config *config,
                                    const struct culm_training_options *options,
                                    const struct culm_training_extras *extras,
                                    struct culm_training **ret_training, struct culm_error *error);

/* What its configuration comes to, for people. */
struct culm_training_shape {
    const char *arch, *redundancy;
    bool redundant; /* it is not "none" */
    int64_t pipelines, stages, lanes, micros_per_lane, steps;
};
struct culm_training_shape culm_training_shape(const struct culm_training *training);

/* Sinks of the events, borrowed until it has run, in the place of the function of the options: `log`
 * gets all, `screen` not those warnings that were told by the function for warnings. */
void culm_training_watch(struct culm_training *training, struct culm_sink *log,
                         struct culm_sink *screen);
/* culm_training_run, but the exit code of the command, and an error without a text where there is
 * nothing to say. */
int culm_training_go(struct culm_training *training, struct culm_error *ret_error);
/* Of what was run. */
const struct culm_summary *culm_training_summary(const struct culm_training *training);
/* Whether a fault fired; true also where nothing was started that it could have hit. */
bool culm_training_fired(const struct culm_training *training, size_t fault);

/* --- eval --------------------------------------------------------------------------------------- */

struct culm_evaluation {
    int64_t samples;
    int64_t counted;   /* rows: tokens or labels that are no padding */
    double loss;       /* mean over the counted rows */
    double accuracy;   /* share of the counted rows whose largest logit is the target's */
    double perplexity; /* e^loss; 0 unless the model predicts tokens */
    bool best;         /* the weights were kept as best.safetensors: `best` of the options */
    char note[CULM_COMMAND_NOTE_SIZE];
    char left_out[CULM_COMMAND_LEFT_OUT_SIZE]; /* which files of the data; "": none */
};

extern const char *const culm_eval_measures[]; /* "none", "loss", "accuracy", NULL */

struct culm_eval_options {
    /* A file, its shards, a checkpoint, or a run (store/weights.h); of a run "best": its
     * best.safetensors; NULL: the model's own. */
    const char *weights;
    const char *const *sets; /* "key=value" */
    size_t set_count;
    const char *const *paths; /* all samples of these files instead of the held-out ones */
    size_t path_count;
    int64_t samples; /* at most so many; 0: all */
    int threads;
    int best; /* of a run: a measure, by which weights that are better than those of its
                 best.safetensors take their place; 0: none */
};

/* Of a configuration file, a run or a checkpoint. A checkpoint of the run brings its configuration
 * and, without sets and paths, what its files must hold. CULM_ERR_CONFIG: nothing is held out, and
 * there are no paths; or the loss is not finite. */
enum culm_status culm_eval(const char *what, const struct culm_eval_options *options,
                           struct culm_evaluation *ret_evaluation, struct culm_error *error);

/* --- generate ----------------------------------------------------------------------------------- */

struct culm_generate_options {
    const char *prompt;             /* not empty */
    const char *weights;            /* as for culm_eval */
    void (*note)(const char *text); /* told once, before the prompt, if there is one */
    int64_t tokens;
    double temperature;
    uint64_t seed;
    int threads;
    /* The prompt, then token after token, as bytes. */
    void (*say)(void *ctx, const void *bytes, size_t len);
    void *ctx;
};

/* Continues the prompt with the model of the run in `dir`, or of a checkpoint: a GPT-2, or whatever
 * graph of an ONNX file reads tokens alone, sees only what is before and answers with logits. */
enum culm_status culm_generate(const char *dir, const struct culm_generate_options *options,
                               struct culm_error *error);

/* --- bench -------------------------------------------------------------------------------------- */

extern const char *const culm_bench_dtypes[], *const culm_bench_recomputes[]; /* ended by NULL */

struct culm_bench_options {
    int64_t batch, context; /* 0: of the configuration */
    int dtype, recompute;   /* of the words above; -1: of the configuration */
    int threads;
    int64_t iters;
    bool ops; /* time operators */
};

struct culm_bench_op {
    const char *name;
    int32_t calls; /* in a step, like the rest */
    double seconds, flops;
};

struct culm_bench {
    char name[64];
    const char *dtype;
    int threads;
    int64_t batch;
    double median_s, least_s; /* of a step */
    int64_t tokens;           /* of a batch; 0: it is images */
    double flops, flops_done; /* of a step: as the layers define them; what is really done */
    double peak_gflops;       /* the highest rate of a product, or of a step */
    int64_t peak_memory_bytes;
    struct culm_bench_op *op; /* the slowest first; NULL unless asked for */
    size_t op_count;
    char note[CULM_COMMAND_NOTE_SIZE];
};

/* Measures the training step of a published model or of a configuration file, in this process.
 * Release the result in any case. */
enum culm_status culm_bench(const char *what, const struct culm_bench_options *options,
                            struct culm_bench *ret_bench, struct culm_error *error);
void culm_bench_release(struct culm_bench *bench);

/* --- models ------------------------------------------------------------------------------------- */

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
enum culm_status culm_cost(const char *what, bool stages, struct culm_cost *ret_cost,
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
struct culm_import_about culm_import_about(const struct culm_import *import);
struct culm_import_field culm_import_field(const struct culm_import *import, int32_t index);
const char *culm_import_note(const struct culm_import *import, int32_t index);

/* Writes a published model, that of a configuration file, of a run or of a checkpoint as an ONNX
 * file. weights: as for culm_eval. ret_note is set in any case. */
enum culm_status culm_export(const char *what, const char *weights, const char *path,
                             char ret_note[CULM_COMMAND_NOTE_SIZE], struct culm_error *error);

/* --- data check ------------------------------------------------------------------------------- */

struct culm_bad_sample {
    const char *file;
    int64_t line;  /* of a text, from 1; -1: it is none */
    int64_t index; /* of what the file has, from 0; -1: the file as a whole, or a line */
    const char *why;
};
struct culm_data_check_options {
    const char *const *sets; /* "key=value" */
    size_t set_count;
    const char *out; /* a list for data.skip, with what is in it now; NULL: none */
    int threads;     /* 0: one a processor */
    /* Called by the calling thread, once for each, sorted; then how far it is, now and then. */
    void (*bad)(void *ctx, const struct culm_bad_sample *bad);
    void (*progress)(void *ctx, int64_t done, int64_t total);
    void *ctx;
};
struct culm_data_check_result {
    int64_t samples;  /* held out or not; those left out among them */
    int64_t left_out; /* by data.skip */
    int64_t bad;      /* told */
};
/* Makes every sample that a configuration names, as training would. Bad ones are no failure; data
 * that cannot be opened is. */
enum culm_status culm_data_check(const char *config_path,
                                 const struct culm_data_check_options *options,
                                 struct culm_data_check_result *ret_result,
                                 struct culm_error *error);

/* --- ckpt --------------------------------------------------------------------------------------- */

struct culm_tensors_piece {
    const char *file, *sha256;
    uint64_t bytes, tensors;
};

struct culm_tensors_about {
    const char *path;    /* of the checkpoint or the file itself */
    const char *warning; /* why a newer checkpoint of the run was passed over; "" */
    bool checkpoint;     /* else what follows up to `pieces` is empty */
    uint64_t samples, seed;
    const char *signature, *config;
    json_t *choices; /* borrowed; NULL: none */
    size_t pieces;
    bool has_state;
    int64_t parameters;
    size_t parameter_tensors, state_tensors;
};
struct culm_tensors_about culm_tensors_about(const struct culm_tensors *tensors);
struct culm_tensors_piece culm_tensors_piece(const struct culm_tensors *tensors, size_t index);
/* "F32", "F16", ... */
const char *culm_tensors_dtype(const struct culm_tensors *tensors, size_t index);
/* Hashes are defined over F32: "" where there is none. */
void culm_tensors_hashes(const struct culm_tensors *tensors, char ret_weights[65],
                         char ret_state[65]);

struct culm_weights_exported {
    size_t tensors;
    int64_t parameters;
    char path[512];               /* of the file, the index, the folder or the checkpoint */
    char warning[CULM_ERROR_MAX]; /* why a newer checkpoint of the run was passed over; "" */
};
/* Writes the weights that a path leads to (store/weights.h) as one safetensors file, F32.
 * CULM_ERR_CONFIG: there are none, a number is not finite, or `out` is not for a file, or one of a
 * run. */
enum culm_status culm_weights_to_file(const char *path, const char *out,
                                      struct culm_weights_exported *ret_exported,
                                      struct culm_error *error);

struct culm_rescued {
    int64_t step;
    char path[512]; /* of what was saved: a checkpoint, or the model of one that was saved before */
};
/* Names the folder `to`, which is made if need be, to the run at work in `dir` for the steps that it
 * holds because they find no room, and waits until they are saved. CULM_ERR_NOT_FOUND: no run is at
 * work there, it holds nothing, or it ended without saving; CULM_ERR_EXISTS: `to` is not an empty
 * folder; CULM_ERR_TIMEOUT: a minute was not enough. */
enum culm_status culm_rescue(const char *dir, const char *to, struct culm_rescued *ret_rescued,
                             struct culm_error *error);

struct culm_tensors_difference {
    bool differ;
    char text[512];        /* which tensor differs first, and where; one line */
    size_t weights, state; /* tensors that are equal, up to there */
};
/* Compares weights, and optimizer state where both have it; steps it does not look at. */
enum culm_status culm_tensors_differ(const struct culm_tensors *a, const struct culm_tensors *b,
                                     struct culm_tensors_difference *ret_difference,
                                     struct culm_error *error);

#endif

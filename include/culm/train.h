/*
 * Training with Culm, on machines that may be lost at any moment, and what came of it.
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
 * examples/embed/train.c is a whole program. What <culm.h> says of errors, ownership, threads and
 * versions holds here.
 */
#ifndef CULM_TRAIN_H
#define CULM_TRAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <culm/config.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- configurations ----------------------------------------------------------------------------- */

/* Checks a configuration as that of a training run, whose keys `culm help config` lists: every key is
 * known, its value has the right type and is in range, and the values fit each other. If not:
 * CULM_ERR_CONFIG. */
CULM_API enum culm_status culm_config_check(struct culm_config *config, struct culm_error *error);
/* The same, and returns it as YAML with every default filled in; read back, it is
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
    /* As in every structure of options (culm.h). The thread in culm_training_run calls `event`. A
     * warning becomes an event later. Either may call culm_training_stop and culm_training_abort. */
    void (*event)(void *context, const char *json);
    void (*warning)(void *context, const char *text);
    void *context;
    /* With `resume`: go on with inputs that have changed since the run began; and, if no checkpoint
     * of it is whole though it had some, do it all again. 0: no. */
    int accept_inputs, from_start;
    /* "HOST:PORT" (":PORT": all addresses of this machine) where `culm node` may join from other machines, and the address that it calls, if that is another. NULL:
     * nobody may. What goes between machines is encrypted (TLS 1.3, the token as its key) unless `insecure` is set.
     * `token_file` has the token of those who join (`culm keys new`), and is read at once; NULL: one is drawn, and written
     * to DIR/token for as long as the run lasts. */
    const char *listen, *advertise, *token_file;
    int insecure;
    /* With `listen`, if limit_workers is not 0: at most so many processes on this machine; 0: none, only those who join. */
    int limit_workers;
    int64_t workers;
};

/* Checks the configuration, the options and the run directory; starts nothing, and writes nothing, but with
 * `checkpoint.to`: that is asked whether it lets us write, and with `resume` a checkpoint there that is newer than what
 * `dir` has is fetched first, for as long as its bytes take (CULM_ERR_AGAIN: it is not to be reached).
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

enum culm_evaluate_by { CULM_EVALUATE_BY_LOSS = 1, CULM_EVALUATE_BY_ACCURACY = 2 };

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
    /* "key=value", as after `culm eval --set`: keys of the configuration that are changed before. */
    const char *const *settings;
    size_t setting_count;
    /* As in every structure of options (culm.h): what was done to weights, which data is left out. */
    void (*warning)(void *context, const char *text);
    void *context;
    /* Of a run: weights that are better than those of its best.safetensors take the place of that:
     * by CULM_EVALUATE_BY_LOSS, or by CULM_EVALUATE_BY_ACCURACY. 0: nothing is kept. */
    int64_t best;
};
struct culm_evaluate_result {
    size_t size;       /* sizeof(struct culm_evaluate_result), set by the caller */
    int64_t samples;   /* how many were evaluated */
    int64_t counted;   /* tokens or labels in them that are not padding */
    double loss;       /* mean over `counted` */
    double accuracy;   /* share of `counted` for which the largest logit is that of the target */
    double perplexity; /* e to the power of the loss; 0 unless the model predicts tokens */
    int64_t best;      /* 1: the weights were kept as best.safetensors */
};
/* Evaluates the model of `what`: a configuration file, with the weights that training would start
 * from; a run, with its final ones; or a checkpoint, with the configuration that it was made with. If
 * `arguments` is NULL, all of them have their defaults, here and below. Errors as of culm_run_evaluate.
 */
CULM_API enum culm_status culm_evaluate(const char *what,
                                        const struct culm_evaluate_arguments *arguments,
                                        struct culm_evaluate_result *ret_result,
                                        struct culm_error *error);
/* Evaluates the model of a configuration, which has no run for the `best` weights. */
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

#ifdef __cplusplus
}
#endif

#endif

/* Evaluating a model. See evaluate.h. */
#include "run/evaluate.h"

#include "base/exact.h"
#include "run/best.h"
#include "run/public.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *const culm_eval_measures[] = {
    [CULM_BEST_NONE] = "none", [CULM_BEST_LOSS] = "loss", [CULM_BEST_ACCURACY] = "accuracy", NULL};

static enum culm_status open_source(const struct culm_train_config *config,
                                    const struct culm_names *classes,
                                    const struct culm_evaluate_options *options,
                                    struct culm_source **ret_source, struct culm_error *error) {
    struct culm_source_options source;
    culm_train_config_source(config, true, &source);
    source.class_names = (const char *const *)classes->name;
    source.class_name_count = classes->count;
    if (options->path_count > 0) {
        source.paths = options->paths;
        source.path_count = options->path_count;
        source.held_out = 0;
        source.split = CULM_SPLIT_TRAIN;
        source.skip = NULL; /* it is of the configuration's own files */
    } else if (source.held_out <= 0) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "nothing is held out to evaluate on; set data.held_out, for example "
                              "0.05, or name files with --data");
    }
    return culm_source_open(&source, ret_source, error);
}

/* Rows behind the last sample do not count: their targets are padding. */
static void blank(const struct culm_runner *runner, int64_t from) {
    static const char *const targets[] = {"targets", "label", "mlm_targets", "nsp"};
    for (int32_t f = 0; f < runner->graph->field_count; f++) {
        const struct culm_field *field = &runner->graph->field[f];
        for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
            if (strcmp(field->name, targets[i]) == 0) {
                int64_t each = culm_elements(&field->shape) / runner->batch;
                int32_t *data = runner->field[f];
                for (int64_t e = from * each; e < runner->batch * each; e++) {
                    data[e] = -1;
                }
            }
        }
    }
}

/* The first sample from `from` on that is not left out. */
static int64_t next_sample(const struct culm_source *source, int64_t from) {
    while (culm_order_left_out_has(culm_source_left_out(source), from)) {
        from++;
    }
    return from;
}

/* *next is the first sample that has not been read. Rows behind the last one have the first one's. */
static enum culm_status fill(const struct culm_runner *runner, const struct culm_source *source,
                             int64_t *next, int64_t count, struct culm_error *error) {
    const struct culm_source_field *fields = culm_source_fields(source);
    int64_t first = next_sample(source, *next);
    for (int64_t i = 0; i < runner->batch; i++) {
        int64_t sample = i < count ? next_sample(source, *next) : first;
        *next = i < count ? sample + 1 : *next;
        void *to[CULM_SOURCE_FIELDS_MAX] = {NULL};
        for (int32_t f = 0; f < runner->graph->field_count; f++) {
            int32_t s = culm_source_find(source, runner->graph->field[f].name);
            to[s] = (char *)runner->field[f] + (size_t)i * fields[s].size_bytes;
        }
        const struct culm_source_item item = {sample, (uint64_t)sample};
        enum culm_status status = culm_source_fill(source, item, to, error);
        if (status != CULM_OK) {
            return status;
        }
    }
    blank(runner, count);
    return CULM_OK;
}

static bool predicts_tokens(const struct culm_graph *graph) {
    for (int32_t f = 0; f < graph->field_count; f++) {
        if (strcmp(graph->field[f].name, "targets") == 0) {
            return true;
        }
    }
    return false;
}

static enum culm_status run(const struct culm_runner *runner, const struct culm_source *source,
                            int64_t samples, struct culm_evaluation *ret,
                            struct culm_error *error) {
    double loss = 0, rows_per_sample = 1;
    int64_t counted = 0, correct = 0, next = 0;
    for (int64_t first = 0; first < samples; first += runner->batch) {
        int64_t left = samples - first, count = left < runner->batch ? left : runner->batch;
        enum culm_status status = fill(runner, source, &next, count, error);
        if (status != CULM_OK) {
            return status;
        }
        struct culm_stage_run stage_run = culm_runner_run(runner);
        (void)culm_stage_forward(runner->stage, runner->device, &stage_run); /* it ends */
        loss += stage_run.loss.loss;
        counted += stage_run.loss.counted;
        correct += stage_run.loss.correct;
        rows_per_sample = (double)stage_run.loss.rows / (double)runner->batch;
    }
    struct culm_evaluation evaluation = {.samples = samples, .counted = counted};
    if (counted > 0) {
        evaluation.loss = loss * rows_per_sample / (double)counted;
        evaluation.accuracy = (double)correct / (double)counted;
        evaluation.perplexity =
            predicts_tokens(runner->graph) ? culm_exact_exp(evaluation.loss) : 0;
    }
    if (!isfinite(evaluation.loss)) { /* numbers that say nothing are no answer */
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "the loss is not finite (%s); the weights or the data make numbers "
                              "that are too large",
                              isnan(evaluation.loss) ? "NaN" : "infinity");
    }
    *ret = evaluation;
    return CULM_OK;
}

enum culm_status culm_evaluate(struct culm_subject *subject,
                               const struct culm_evaluate_options *options,
                               struct culm_evaluation *ret_evaluation, struct culm_error *error) {
    const struct culm_runner_options how = {
        .batch = subject->batch, .purpose = CULM_FOR_LOSS, .threads = options->threads};
    struct culm_source *source = NULL;
    struct culm_runner runner = {0};
    char note[CULM_NETWORK_NOTE_SIZE] = "";
    enum culm_status status;
    if ((status = culm_runner_init(&runner, subject->network, &how, error)) ||
        (status = culm_network_check_trainable(runner.graph, error)) ||
        (status = open_source(&subject->config, &subject->classes, options, &source, error)) ||
        (status = culm_network_check_source(runner.graph, source, error)) ||
        (status = culm_subject_load(subject, &runner, note, error))) {
        goto out;
    }
    int64_t samples = culm_source_samples(source) -
                      (int64_t)culm_order_left_out_count(culm_source_left_out(source));
    samples = options->samples > 0 && options->samples < samples ? options->samples : samples;
    status = run(&runner, source, samples, ret_evaluation, error);
    snprintf(ret_evaluation->left_out, sizeof ret_evaluation->left_out, "%s",
             culm_source_note(source));
out:
    culm_subject_advise(subject, status, error);
    memcpy(ret_evaluation->note, note, sizeof note);
    culm_runner_release(&runner);
    culm_source_free(source);
    return status;
}

enum culm_status culm_eval(const char *what, const struct culm_eval_options *options,
                           struct culm_evaluation *ret_evaluation, struct culm_error *error) {
    const struct culm_subject_options named = {
        .kinds = CULM_SUBJECT_CONFIG | CULM_SUBJECT_RUN,
        .weights = options->weights,
        .sets = options->sets,
        .set_count = options->set_count,
        .leave = "add --set model.init_unused=ignore",
        .other_data = options->set_count > 0 || options->path_count > 0,
    };
    const struct culm_evaluate_options how = {
        .paths = options->paths,
        .path_count = options->path_count,
        .samples = options->samples,
        .threads = options->threads,
    };
    struct culm_subject subject;
    if (options->best != CULM_BEST_NONE && !culm_weights_is_run(what)) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "'%.300s' is not the folder of a run, which a best.safetensors is "
                              "kept in; leave --best out",
                              what);
    }
    enum culm_status status = culm_subject_open(what, &named, &subject, error);
    if (status == CULM_OK) {
        status = culm_evaluate(&subject, &how, ret_evaluation, error);
        if (status == CULM_OK && options->best != CULM_BEST_NONE) {
            const struct culm_best_found found = {ret_evaluation->loss, ret_evaluation->accuracy,
                                                  ret_evaluation->samples};
            status = culm_best_keep(what, subject.opened, (enum culm_best)options->best, &found,
                                    &ret_evaluation->best, error);
        }
        culm_subject_close(&subject);
    }
    return status;
}

/* --- culm.h --- */

/* Opens what is to be evaluated with the weights of the arguments: either way of culm.h. */
struct opening {
    const struct culm_config *config; /* NULL: the run in `dir` */
    const char *dir;
};

static enum culm_status open_for(const struct opening *opening,
                                 const struct culm_evaluate_arguments *arguments,
                                 struct culm_subject *subject, struct culm_error *error) {
    const struct culm_subject_options run = {.kinds = CULM_SUBJECT_RUN,
                                             .weights = arguments->weights,
                                             .other_data = arguments->path_count > 0};
    return opening->config
               ? culm_subject_open_config(opening->config, arguments->weights, subject, error)
               : culm_subject_open(opening->dir, &run, subject, error);
}

static enum culm_status evaluate_public(const struct opening *opening,
                                        const struct culm_evaluate_arguments *arguments,
                                        struct culm_evaluate_result *ret_result,
                                        struct culm_error *error) {
    struct culm_evaluate_arguments own = {.size = sizeof own};
    struct culm_evaluation evaluation;
    struct culm_subject subject;
    enum culm_status status =
        arguments ? culm_public_take(&own, sizeof own, arguments, "culm_evaluate_arguments", error)
                  : CULM_OK;
    if (status == CULM_OK) {
        status = culm_public_room(ret_result, "culm_evaluate_result", error);
    }
    if (status == CULM_OK &&
        !(status = culm_public_check(own.samples, INT64_MAX, "culm_evaluate_arguments: samples",
                                     error))) {
        status = culm_public_check(own.threads, CULM_PUBLIC_THREADS_MAX,
                                   "culm_evaluate_arguments: threads", error);
    }
    for (size_t i = 0; status == CULM_OK && i < own.path_count; i++) {
        if (!own.paths || !own.paths[i]) {
            status = culm_error_set(error, CULM_ERR_ARGUMENT,
                                    "culm_evaluate_arguments: path %zu of %zu is NULL", i + 1,
                                    (size_t)own.path_count);
        }
    }
    if (status != CULM_OK || (status = open_for(opening, &own, &subject, error)) != CULM_OK) {
        return status;
    }
    const struct culm_evaluate_options options = {
        .paths = own.paths,
        .path_count = own.path_count,
        .samples = own.samples,
        .threads = own.threads ? (int)own.threads : 1,
    };
    status = culm_evaluate(&subject, &options, &evaluation, error);
    culm_subject_close(&subject);
    if (status != CULM_OK) {
        return status;
    }
    const struct culm_evaluate_result result = {
        .samples = evaluation.samples,
        .counted = evaluation.counted,
        .loss = evaluation.loss,
        .accuracy = evaluation.accuracy,
        .perplexity = evaluation.perplexity,
    };
    return culm_public_fill(ret_result, &result, sizeof result, "culm_evaluate_result", error);
}

enum culm_status culm_evaluate_model(struct culm_config *config,
                                     const struct culm_evaluate_arguments *arguments,
                                     struct culm_evaluate_result *ret_result,
                                     struct culm_error *error) {
    if (!config) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "culm_evaluate_model: config is NULL");
    }
    return evaluate_public(&(struct opening){.config = config}, arguments, ret_result, error);
}

enum culm_status culm_run_evaluate(const char *dir, const struct culm_evaluate_arguments *arguments,
                                   struct culm_evaluate_result *ret_result,
                                   struct culm_error *error) {
    enum culm_status status = culm_public_check_dir(dir, "culm_run_evaluate", error);
    return status ? status
                  : evaluate_public(&(struct opening){.dir = dir}, arguments, ret_result, error);
}

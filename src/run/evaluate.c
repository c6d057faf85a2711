/*
 * Loss, accuracy and perplexity of a model on samples that it has not been trained on. See culm/train.h.
 */
#include "query/subject.h"

#include "base/exact.h"
#include "run/public.h"
#include "store/best.h"

#include <assert.h>
#include <culm/train.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define LEFT_OUT_SIZE 400

static_assert(CULM_EVALUATE_BY_LOSS == (int)CULM_BEST_LOSS &&
                  CULM_EVALUATE_BY_ACCURACY == (int)CULM_BEST_ACCURACY,
              "as best.h calls them");

struct evaluation {
    struct culm_evaluate_result result;
    char note[CULM_NETWORK_NOTE_SIZE]; /* what was done to weights; "" */
    char left_out[LEFT_OUT_SIZE];      /* which files of the data are; "": none */
};

static enum culm_status open_source(const struct culm_train_config *config,
                                    const struct culm_names *classes,
                                    const struct culm_evaluate_arguments *options,
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
                            int64_t samples, struct culm_evaluate_result *ret,
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
    struct culm_evaluate_result evaluation = {.samples = samples, .counted = counted};
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

/* The configuration's batch.micro samples at a time, in the order of the data. CULM_ERR_CONFIG when
 * nothing is held out and no paths are given. */
static enum culm_status evaluate(struct culm_subject *subject,
                                 const struct culm_evaluate_arguments *arguments,
                                 struct evaluation *ret_evaluation, struct culm_error *error) {
    const struct culm_runner_options how = {
        .batch = subject->batch, .purpose = CULM_FOR_LOSS, .threads = (int)arguments->threads};
    struct culm_source *source = NULL;
    struct culm_runner runner = {0};
    char note[CULM_NETWORK_NOTE_SIZE] = "";
    enum culm_status status;
    if ((status = culm_runner_init(&runner, subject->network, &how, error)) ||
        (status = culm_network_check_trainable(runner.graph, error)) ||
        (status = open_source(&subject->config, &subject->classes, arguments, &source, error)) ||
        (status = culm_network_check_source(runner.graph, source, error)) ||
        (status = culm_subject_load(subject, &runner, note, error))) {
        goto out;
    }
    int64_t samples = culm_source_samples(source) -
                      (int64_t)culm_order_left_out_count(culm_source_left_out(source));
    samples = arguments->samples > 0 && arguments->samples < samples ? arguments->samples : samples;
    status = run(&runner, source, samples, &ret_evaluation->result, error);
    snprintf(ret_evaluation->left_out, sizeof ret_evaluation->left_out, "%s",
             culm_source_note(source));
    memcpy(ret_evaluation->note, note, sizeof note);
out:
    culm_subject_advise(subject, status, error);
    culm_runner_release(&runner);
    culm_source_free(source);
    return status;
}

/* What is to be evaluated. */
struct opening {
    const struct culm_config *config; /* NULL: what is named */
    const char *what;
    unsigned kinds;    /* CULM_SUBJECT_* of `what` */
    const char *leave; /* of the subject's options */
};

/* The caller's, with the settings. */
static enum culm_status open_config(const struct culm_config *config,
                                    const struct culm_evaluate_arguments *arguments,
                                    struct culm_subject *subject, struct culm_error *error) {
    struct culm_config *own = culm_config_copy(config);
    enum culm_status status =
        own ? CULM_OK : culm_error_set(error, CULM_ERR_MEMORY, "out of memory");
    for (size_t i = 0; i < arguments->setting_count && status == CULM_OK; i++) {
        status = culm_config_append(own, arguments->settings[i], error);
    }
    if (status == CULM_OK) {
        status = culm_subject_open_config(own, arguments->weights, subject, error);
    }
    culm_config_free(own);
    return status;
}

static enum culm_status open_for(const struct opening *opening,
                                 const struct culm_evaluate_arguments *arguments,
                                 struct culm_subject *subject, struct culm_error *error) {
    const struct culm_subject_options named = {.kinds = opening->kinds,
                                               .weights = arguments->weights,
                                               .sets = arguments->settings,
                                               .set_count = arguments->setting_count,
                                               .leave = opening->leave,
                                               .other_data = arguments->setting_count > 0 ||
                                                             arguments->path_count > 0};
    return opening->config ? open_config(opening->config, arguments, subject, error)
                           : culm_subject_open(opening->what, &named, subject, error);
}

static enum culm_status keep_best(const struct opening *opening, enum culm_best by,
                                  const struct culm_subject *subject,
                                  struct culm_evaluate_result *result, struct culm_error *error) {
    const struct culm_best_found found = {result->loss, result->accuracy, result->samples};
    bool kept = false;
    enum culm_status status =
        culm_best_keep(opening->what, subject->opened, by, &found, &kept, error);
    result->best = kept;
    return status;
}

static enum culm_status check_texts(const char *const *texts, size_t count, const char *name,
                                    struct culm_error *error) {
    for (size_t i = 0; i < count; i++) {
        if (!texts || !texts[i]) {
            return culm_error_set(error, CULM_ERR_ARGUMENT,
                                  "culm_evaluate_arguments: %s %zu of %zu is NULL", name, i + 1,
                                  count);
        }
    }
    return CULM_OK;
}

static enum culm_status check(const struct opening *opening,
                              const struct culm_evaluate_arguments *arguments,
                              struct culm_error *error) {
    enum culm_status status;
    if ((status = culm_public_check(arguments->samples, INT64_MAX,
                                    "culm_evaluate_arguments: samples", error)) ||
        (status = culm_public_check(arguments->threads, CULM_PUBLIC_THREADS_MAX,
                                    "culm_evaluate_arguments: threads", error)) ||
        (status = culm_public_check(arguments->best, CULM_EVALUATE_BY_ACCURACY,
                                    "culm_evaluate_arguments: best", error)) ||
        (status = check_texts(arguments->paths, arguments->path_count, "path", error)) ||
        (status = check_texts(arguments->settings, arguments->setting_count, "setting", error))) {
        return status;
    }
    if (arguments->best && (opening->config || !culm_weights_is_run(opening->what))) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "'%.300s' is not the folder of a run, which a best.safetensors is "
                              "kept in; leave --best out",
                              opening->config ? opening->config->name : opening->what);
    }
    return CULM_OK;
}

static void tell(const struct culm_evaluate_arguments *arguments,
                 const struct evaluation *evaluation) {
    const char *const texts[] = {evaluation->note, evaluation->left_out};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (texts[i][0] && arguments->warning) {
            arguments->warning(arguments->context, texts[i]);
        }
    }
}

static enum culm_status evaluate_opening(const struct opening *opening,
                                         const struct culm_evaluate_arguments *arguments,
                                         struct culm_evaluate_result *ret_result,
                                         struct culm_error *error) {
    struct culm_evaluate_arguments own = {.size = sizeof own};
    struct evaluation evaluation = {0};
    struct culm_subject subject;
    enum culm_status status =
        arguments ? culm_public_take(&own, sizeof own, arguments, "culm_evaluate_arguments", error)
                  : CULM_OK;
    if (status != CULM_OK ||
        (status = culm_public_room(ret_result, "culm_evaluate_result", error)) ||
        (status = check(opening, &own, error)) ||
        (status = open_for(opening, &own, &subject, error))) {
        return status;
    }
    own.threads = own.threads ? own.threads : 1;
    status = evaluate(&subject, &own, &evaluation, error);
    if (status == CULM_OK && own.best) {
        status = keep_best(opening, (enum culm_best)own.best, &subject, &evaluation.result, error);
    }
    culm_subject_close(&subject);
    if (status != CULM_OK) {
        return status;
    }
    tell(&own, &evaluation);
    return culm_public_fill(ret_result, &evaluation.result, sizeof evaluation.result,
                            "culm_evaluate_result", error);
}

enum culm_status culm_evaluate(const char *what, const struct culm_evaluate_arguments *arguments,
                               struct culm_evaluate_result *ret_result, struct culm_error *error) {
    const struct opening opening = {.what = what,
                                    .kinds = CULM_SUBJECT_CONFIG | CULM_SUBJECT_RUN,
                                    .leave = "add --set model.init_unused=ignore"};
    enum culm_status status = culm_public_check_path(what, "culm_evaluate", error);
    return status ? status : evaluate_opening(&opening, arguments, ret_result, error);
}

enum culm_status culm_evaluate_model(struct culm_config *config,
                                     const struct culm_evaluate_arguments *arguments,
                                     struct culm_evaluate_result *ret_result,
                                     struct culm_error *error) {
    if (!config) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "culm_evaluate_model: config is NULL");
    }
    return evaluate_opening(&(struct opening){.config = config}, arguments, ret_result, error);
}

enum culm_status culm_run_evaluate(const char *dir, const struct culm_evaluate_arguments *arguments,
                                   struct culm_evaluate_result *ret_result,
                                   struct culm_error *error) {
    const struct opening opening = {.what = dir, .kinds = CULM_SUBJECT_RUN};
    enum culm_status status = culm_public_check_dir(dir, "culm_run_evaluate", error);
    return status ? status : evaluate_opening(&opening, arguments, ret_result, error);
}

/*
 * The keys of `culm train`: the sections of the rooms and what belongs to the whole, joined; and the
 * checks between sections.
 *
 * Nothing else in the program knows a key's name, default or range: `--set`, config.yaml in the run
 * directory, `culm help config` and docs/configuration.md all come from these rows.
 */
#include "train/config.h"

#include "base/config.h"
#include "pipeline/layout.h"

#include <stdio.h>
#include <stdlib.h>

#define FREE CULM_CONFIG_RESUMABLE

/* --- eval --- */

#define NODES 8 /* at a time, if nobody says how many, and that is enough */
_Static_assert(CULM_MAX_NODES == CULM_CREW_NODES_MAX, "as many as cluster.max_nodes may be");

#define E struct culm_eval_config
static const struct culm_config_row eval_rows[] = {
    CULM_CONFIG_INT("every", E, every, "0", 0, 1000000000, FREE,
                    "steps between evaluations on the held-out samples, a multiple of "
                    "`checkpoint.every`; 0: never. One evaluation runs at a time; if several "
                    "checkpoints come due meanwhile, only the newest is evaluated"),
    CULM_CONFIG_INT("samples", E, samples, "0", 0, 1000000000, FREE,
                    "number of held-out samples in an evaluation; 0: all"),
};
static const struct culm_config_table eval_table = {CULM_CONFIG_ROWS(eval_rows, E)};

/* --- the whole --- */

const char *const culm_recompute_names[] = {[CULM_RECOMPUTE_NONE] = "none",
                                            [CULM_RECOMPUTE_BLOCK] = "block",
                                            [CULM_RECOMPUTE_AUTO] = "auto",
                                            NULL};
static const char *const kernels_names[] = {
    [CULM_KERNELS_DEFAULT] = "default", [CULM_KERNELS_TRIAL] = "trial", NULL};
static const char *const cuts_names[] = {
    [CULM_CUTS_ANALYTIC] = "analytic", [CULM_CUTS_MEASURED] = "measured", NULL};

#define T struct culm_train_config
static const struct culm_config_row rows[] = {
    CULM_CONFIG_SECTION("model", T, model, &culm_model_config_table),
    CULM_CONFIG_SECTION("data", T, data, &culm_data_config_table),
    CULM_CONFIG_SECTION("batch", T, batch, &culm_batch_config_table),
    CULM_CONFIG_INT("pipelines", T, pipelines, "2", 1, CULM_PIPELINE_MAX_MICROS, FREE,
                    "copies of the model that train side by side; at most `batch.lanes`"),
    CULM_CONFIG_INT("stages", T, stages, "3", 1, CULM_MAX_STAGES, FREE,
                    "parts that the model is cut into, each on its own worker; at most as many as "
                    "the model has blocks (`culm model show`)"),
    CULM_CONFIG_ENUM("redundancy", T, redundancy, "eager", culm_redundancy_names, FREE,
                     "how the stage of a lost worker survives: `lazy`: a neighbour keeps a copy of "
                     "its state; `eager`: the neighbour also runs its forward passes ahead of "
                     "time; `none`: only copies in other pipelines, or the last checkpoint"),
    CULM_CONFIG_ENUM("precision", T, precision, "f32", culm_precision_names, 0,
                     "number format of activations and matrix products; weights, sums and the "
                     "optimizer stay f32"),
    CULM_CONFIG_ENUM("kernels", T, kernels, "default", kernels_names, 0,
                     "how the algorithm of each convolution is chosen: `default`: by a rule; "
                     "`trial`: the fastest in a trial before step 1 (a run to be compared takes "
                     "the same choice with `--plan`)"),
    CULM_CONFIG_ENUM("cuts", T, cuts, "analytic", cuts_names, FREE,
                     "how the boundaries between stages are chosen: `analytic`: by the computed "
                     "cost of operators; `measured`: by their time in a trial"),
    CULM_CONFIG_ENUM("recompute", T, recompute, "none", culm_recompute_names, FREE,
                     "compute activations again in the backward pass instead of keeping them: "
                     "`block`: always; `auto`: if the plan would not fit into `memory_mb`"),
    CULM_CONFIG_INT("memory_mb", T, memory_mb, "0", 0, 1 << 30, FREE,
                    "megabytes of memory that each worker may use; 0: the machine's memory, "
                    "divided among the workers"),
    CULM_CONFIG_INT("threads", T, threads, "1", 1, 256, FREE, "compute threads of each worker"),
    CULM_CONFIG_U64("seed", T, seed, "1", 0,
                    "seed of the initial weights, the order of samples, and dropout"),
    CULM_CONFIG_INT("steps", T, steps, NULL, 0, 1000000000, CULM_CONFIG_SETTING,
                    "optimizer steps to train for; 0 writes the initial model"),
    CULM_CONFIG_SECTION("optimizer", T, optimizer, &culm_optimizer_config_table),
    CULM_CONFIG_SECTION("schedule", T, schedule, &culm_schedule_config_table),
    CULM_CONFIG_SECTION("checkpoint", T, checkpoint, &culm_checkpoint_config_table),
    CULM_CONFIG_SECTION("eval", T, eval, &eval_table),
    CULM_CONFIG_SECTION("cluster", T, cluster, &culm_crew_config_table),
};

/* What each architecture learns from; an ONNX file's inputs say it themselves: none. */
static const unsigned kinds_of[CULM_ARCH_COUNT] = {
    [CULM_ARCH_GPT2] = 1u << CULM_SOURCE_TEXT | 1u << CULM_SOURCE_TOKENS,
    [CULM_ARCH_BERT] = 1u << CULM_SOURCE_MASKED,
    [CULM_ARCH_RESNET] = 1u << CULM_SOURCE_IMAGES,
    [CULM_ARCH_VGG] = 1u << CULM_SOURCE_IMAGES,
    [CULM_ARCH_ALEXNET] = 1u << CULM_SOURCE_IMAGES,
    [CULM_ARCH_GNMT] = 1u << CULM_SOURCE_PAIRS,
};

static enum culm_status check_data(const T *c, const struct culm_config_place *place,
                                   struct culm_error *error) {
    const struct culm_model_options *m = &c->model.options;
    bool transformer = c->model.arch == CULM_ARCH_GPT2 || c->model.arch == CULM_ARCH_BERT;
    unsigned kinds = kinds_of[c->model.arch];
    if (transformer && m->vocab < 256 && c->data.kind == CULM_SOURCE_TEXT &&
        c->data.tokenizer_count == 0) {
        return culm_config_refuse(
            place, CULM_CONFIG_KEYS("model.vocab", "data.kind"), error,
            "vocab %lld is too small for text, which has 256 bytes; allowed: 256 or more",
            (long long)m->vocab);
    }
    if (kinds && !(kinds & 1u << c->data.kind)) {
        const char *names[CULM_SOURCE_KIND_COUNT + 1] = {NULL};
        char allowed[80];
        size_t count = 0;
        for (int i = 0; i < CULM_SOURCE_KIND_COUNT; i++) {
            if (kinds & 1u << i) {
                names[count++] = culm_source_kind_names[i];
            }
        }
        culm_words_list(names, allowed, sizeof allowed);
        return culm_config_refuse(place, CULM_CONFIG_KEYS("data.kind", "model.arch", "model.name"),
                                  error, "'arch: %s' does not learn from '%s'; allowed: %s",
                                  culm_arch_names[c->model.arch],
                                  culm_source_kind_names[c->data.kind], allowed);
    }
    return CULM_OK;
}

static enum culm_status check_eval(const T *c, const struct culm_config_place *place,
                                   struct culm_error *error) {
    if (c->eval.every > 0 && (c->checkpoint.every < 1 || c->eval.every % c->checkpoint.every)) {
        return culm_config_refuse(
            place, CULM_CONFIG_KEYS("eval.every", "checkpoint.every"), error,
            "every %lld is not a multiple of checkpoint.every %lld, and what is evaluated is a "
            "checkpoint; allowed: a multiple of it",
            (long long)c->eval.every, (long long)c->checkpoint.every);
    }
    if (c->checkpoint.best != CULM_BEST_NONE && c->eval.every == 0) {
        return culm_config_refuse(place, CULM_CONFIG_KEYS("checkpoint.best", "eval.every"), error,
                                  "'best: %s' needs evaluations, and there are none; set "
                                  "eval.every, or leave it out",
                                  culm_best_names[c->checkpoint.best]);
    }
    if (c->eval.every > 0 && c->data.held_out <= 0) {
        return culm_config_refuse(
            place, CULM_CONFIG_KEYS("eval.every", "data.held_out"), error,
            "nothing is held out to evaluate on; set data.held_out, for example 0.05");
    }
    return CULM_OK;
}

static enum culm_status check_batch(const T *c, const struct culm_config_place *place,
                                    struct culm_error *error) {
    if (c->pipelines > c->batch.lanes) {
        return culm_config_refuse(place, CULM_CONFIG_KEYS("pipelines", "batch.lanes"), error,
                                  "%lld pipelines for %lld lanes, and a pipeline runs whole lanes; "
                                  "allowed: 1 to %lld",
                                  (long long)c->pipelines, (long long)c->batch.lanes,
                                  (long long)c->batch.lanes);
    }
    if (c->batch.micro * c->model.options.context > CULM_TRAIN_MAX_ROWS) {
        return culm_config_refuse(
            place, CULM_CONFIG_KEYS("batch.micro", "model.context"), error,
            "micro %lld * context %lld tokens in a micro-batch; allowed: up to %d",
            (long long)c->batch.micro, (long long)c->model.options.context, CULM_TRAIN_MAX_ROWS);
    }
    return CULM_OK;
}

/* As many workers as there are roles, where nobody says how many. */
static void fill_nodes(T *c) {
    int64_t roles = c->pipelines * c->stages;
    c->any_nodes = c->cluster.max_nodes == 0;
    if (c->any_nodes) {
        c->cluster.max_nodes = roles > NODES && roles <= CULM_MAX_NODES ? roles : NODES;
    }
}

static enum culm_status check_roles(const T *c, const struct culm_config_place *place,
                                    struct culm_error *error) {
    if (c->model.arch == CULM_ARCH_GPT2 && c->stages > c->model.options.layers) {
        return culm_config_refuse(
            place, CULM_CONFIG_KEYS("stages", "model.layers"), error,
            "%lld stages for %lld layers, and each needs one; allowed: 1 to %lld",
            (long long)c->stages, (long long)c->model.options.layers,
            (long long)c->model.options.layers);
    }
    if (c->pipelines * c->stages > CULM_MAX_NODES) {
        return culm_config_refuse(place, CULM_CONFIG_KEYS("pipelines", "stages"), error,
                                  "%lld pipelines * %lld stages need %lld workers; allowed: up to "
                                  "%d workers",
                                  (long long)c->pipelines, (long long)c->stages,
                                  (long long)(c->pipelines * c->stages), CULM_MAX_NODES);
    }
    if (c->pipelines * c->stages > c->cluster.max_nodes) {
        return culm_config_refuse(
            place, CULM_CONFIG_KEYS("cluster.max_nodes", "pipelines", "stages"), error,
            "%lld pipelines * %lld stages need %lld workers, max_nodes is %lld; allowed: "
            "cluster.max_nodes from %lld",
            (long long)c->pipelines, (long long)c->stages, (long long)(c->pipelines * c->stages),
            (long long)c->cluster.max_nodes, (long long)(c->pipelines * c->stages));
    }
    return CULM_OK;
}

static enum culm_status finish(void *object, const struct culm_config_place *place,
                               struct culm_error *error) {
    struct culm_train_config *config = object;
    enum culm_status status;
    if ((status = check_data(config, place, error)) ||
        (status = check_eval(config, place, error)) ||
        (status = check_batch(config, place, error))) {
        return status;
    }
    fill_nodes(config);
    return check_roles(config, place, error);
}

const struct culm_config_table culm_train_config_table = {CULM_CONFIG_ROWS(rows, T),
                                                          .finish = finish};

enum culm_status culm_train_config_parse(const char *text, size_t len, const char *name,
                                         const char *const *sets, size_t set_count,
                                         struct culm_train_config *ret_config,
                                         struct culm_error *error) {
    return culm_config_parse(&culm_train_config_table, text, len, name, sets, set_count, ret_config,
                             error);
}

enum culm_status culm_train_config_load(const char *path, const char *const *sets, size_t set_count,
                                        struct culm_train_config *ret_config,
                                        struct culm_error *error) {
    return culm_config_load(&culm_train_config_table, path, sets, set_count, ret_config, error);
}

void culm_train_config_release(struct culm_train_config *config) {
    culm_config_release(&culm_train_config_table, config);
}

char *culm_train_config_dump(const struct culm_train_config *config) {
    return culm_config_dump_text(&culm_train_config_table, config);
}

char *culm_train_config_reference(bool markdown) {
    return culm_config_document_text(&culm_train_config_table, markdown);
}

void culm_train_config_each(culm_config_visit visit, void *ctx) {
    culm_config_each(&culm_train_config_table, visit, ctx);
}

enum culm_status culm_train_config_resumable(const struct culm_train_config *before,
                                             const struct culm_train_config *now,
                                             unsigned more_flags, struct culm_error *error) {
    return culm_config_resumable(&culm_train_config_table, before, now, more_flags, error);
}

char *culm_train_config_setting_keys(void) {
    return culm_config_setting_text(&culm_train_config_table);
}

char *culm_train_config_resumable_keys(void) {
    return culm_config_resumable_text(&culm_train_config_table);
}

void culm_train_config_source(const struct culm_train_config *config, bool held_out,
                              struct culm_source_options *ret_options) {
    const struct culm_model_options *model = &config->model.options;
    *ret_options = (struct culm_source_options){
        .context = model->context,
        .source_context = model->source,
        .vocab = model->vocab,
        .masked = model->masked,
        .height = model->image,
        .width = model->image,
        .channels = model->channels ? model->channels : 3,
        .classes = model->classes ? model->classes : 1000,
        .augment = !held_out,
        .pins = config->pins,
        .split = held_out ? CULM_SPLIT_HELD_OUT : CULM_SPLIT_TRAIN,
        .seed = config->seed,
    };
    culm_data_config_source(&config->data, ret_options);
}

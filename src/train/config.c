/*
 * The table of `culm train`'s keys, and the checks between keys.
 *
 * Nothing else in the program knows a key's name, default or range: `--set`, config.yaml in the run
 * directory, `culm help config` and the reference in README.md all come from these rows.
 */
#include "train/config.h"

#include "base/config.h"
#include "base/file.h"
#include "data/source.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define T struct culm_train_config
#define FREE CULM_CONFIG_RESUMABLE
#define DAY_MS 86400000
#define MAX_NODES 256
#define SUSPECT_BEATS 3 /* a suspect has missed two, and the third is late */

#define MODEL_INT(name_, value_, min_, max_, doc_)                                                 \
    CULM_CONFIG_INT("model." #name_, T, model.options.name_, value_, min_, max_, 0, doc_)
#define MODEL_BOOL(name_, doc_)                                                                    \
    CULM_CONFIG_BOOL("model." #name_, T, model.options.name_, "false", 0, doc_)

static const struct culm_config_row rows[] = {
    CULM_CONFIG_WORD("model.arch", T, model.arch, "gpt2", "gpt2|bert|resnet|vgg|alexnet|gnmt|onnx",
                     0,
                     "the architecture; a size not given is that of its first published model "
                     "(`culm model list`), for gpt2 the default below; `onnx`: the graph in "
                     "`model.file`, which alone means it"),
    CULM_CONFIG_TEXTS("model.name", T, model.name, "a name",
                      "a published model (`culm model list`): what is not given below is as there"),
    CULM_CONFIG_TEXTS("model.file", T, model.file, "a file",
                      "an ONNX file exported in training mode; sizes that are not given are the "
                      "file's"),
    CULM_CONFIG_TEXTS("model.init", T, model.init, "a file",
                      "a safetensors file with the weights to start from"),
    MODEL_INT(layers, "6", 0, 1024,
              "transformer blocks; depth of a ResNet or VGG; LSTM layers of each side"),
    MODEL_INT(width, "256", 0, CULM_TRAIN_MAX_WIDTH,
              "size of the residual stream, a multiple of `model.heads`; of every LSTM; channels "
              "after the first convolution"),
    MODEL_INT(heads, "8", 0, 1024, "attention heads"),
    MODEL_INT(context, "128", 0, CULM_TRAIN_MAX_CONTEXT, "tokens in a sample"),
    MODEL_INT(vocab, "256", 0, 16777216,
              "size of the vocabulary; at least 256 for `data.kind: text` of bytes"),
    CULM_CONFIG_REAL("model.dropout", T, model.options.dropout, "0.1", 0, 1, CULM_CONFIG_BELOW,
                     "share of values that dropout sets to zero"),
    MODEL_INT(hidden, "0", 0, CULM_TRAIN_MAX_WIDTH * 4,
              "features inside the MLP, or in the hidden classifier layers; 0: as published"),
    MODEL_INT(positions, "0", 0, CULM_TRAIN_MAX_CONTEXT,
              "rows of the position table; 0: `model.context`"),
    MODEL_INT(types, "0", 0, 1024, "bert: kinds of segments; 0: 2"),
    MODEL_INT(masked, "0", 0, CULM_TRAIN_MAX_CONTEXT,
              "bert: predicted tokens in a sample; 0: 15 % of `model.context`"),
    MODEL_INT(image, "0", 0, 4096, "height and width of the images; 0: as published"),
    MODEL_INT(channels, "0", 0, 3, "1: grey, 3: colour; 0: 3"),
    MODEL_INT(classes, "0", 0, 1000000, "of the classifier; 0: 1000"),
    CULM_CONFIG_TEXTS("model.blocks", T, model.blocks, "up to four numbers",
                      "resnet: residual blocks of each of at most four stages, instead of "
                      "`model.layers`"),
    MODEL_BOOL(bottleneck, "resnet with `model.blocks`: bottleneck blocks"),
    MODEL_BOOL(small_stem, "resnet: begin with a 3x3 convolution of stride 1, for small images"),
    MODEL_BOOL(batch_norm, "vgg: with batch norm"),
    MODEL_INT(pool, "0", 0, 64,
              "vgg, alexnet: height and width that the classifier sees; 0: as published"),
    MODEL_INT(source, "0", 0, CULM_TRAIN_MAX_CONTEXT,
              "gnmt: tokens in a source sentence; 0: `model.context`"),
    CULM_CONFIG_REAL("model.label_smoothing", T, model.options.label_smoothing, "0", 0, 1,
                     CULM_CONFIG_BELOW, "share of a target that goes to all classes"),
    MODEL_BOOL(share_embedding, "gnmt: one table for source and target"),

    CULM_CONFIG_WORD("data.kind", T, data.kind, "text", "text|tokens|images|pairs|masked", 0,
                     "what the files are: text, token ids, labelled images, sentence pairs, text "
                     "to be masked"),
    CULM_CONFIG_PATHS("data.path", T, data.paths, NULL, 0,
                      "a file or a list of files, relative to the current directory; images: a "
                      "folder of folders, or IDX images and labels"),
    CULM_CONFIG_TEXTS("data.tokenizer", T, data.tokenizer, "a file or a list of files",
                      "`[vocab.json, merges.txt]`, `tokenizer.json`, `vocab.txt`, or their folder; "
                      "none: a byte is a token, in `data.kind: pairs` a word"),
    CULM_CONFIG_WORD("data.masked_of", T, data.masked_of, "text", "text|tokens", 0,
                     "`data.kind: masked`: what the files are"),
    CULM_CONFIG_REAL("data.held_out", T, data.held_out, "0", 0, 1, CULM_CONFIG_BELOW,
                     "share of the samples, the last ones, kept out of training for evaluation"),
    CULM_CONFIG_WORD("data.crop", T, data.crop, "center", "center|padded|resized", 0,
                     "how training takes a window out of an image: the middle, a random one of "
                     "the image with `data.padding` around, a random part resized"),
    CULM_CONFIG_INT("data.padding", T, data.padding, "4", 0, 1024, 0,
                    "black pixels around an image for `data.crop: padded`"),
    CULM_CONFIG_INT("data.resize", T, data.resize, "0", 0, 8192, 0,
                    "shorter side before the middle is cut out; 0: what the window needs"),
    CULM_CONFIG_BOOL("data.flip", T, data.flip, "false", 0, "mirror half of the training images"),
    CULM_CONFIG_ENUM("data.normalize", T, data.normalize, "none", "none|imagenet|custom", 0,
                     "(x / 255 - mean) / std, with ImageNet's figures or with `data.mean` and "
                     "`data.std`"),
    CULM_CONFIG_REAL("data.mean", T, data.mean, "0.5", -1000, 1000, 0, "of every channel"),
    CULM_CONFIG_REAL("data.std", T, data.std, "0.5", 0, 1000, CULM_CONFIG_ABOVE,
                     "of every channel"),

    CULM_CONFIG_INT("batch.global", T, batch.global, "32", 1, 1048576, 0,
                    "samples in a step; a multiple of `batch.micro`"),
    CULM_CONFIG_INT("batch.micro", T, batch.micro, "4", 1, 1048576, 0, "samples in a micro-batch"),
    CULM_CONFIG_INT("batch.lanes", T, batch.lanes, "4", 1, 64, 0,
                    "fixed pieces of the global batch that pipelines share out; divides "
                    "`batch.global` / `batch.micro`"),

    CULM_CONFIG_INT("pipelines", T, pipelines, "2", 1, 64, FREE,
                    "copies of the model that work side by side; at most `batch.lanes`"),
    CULM_CONFIG_INT("stages", T, stages, "3", 1, 64, FREE,
                    "pieces the model is cut into; at most the blocks of the model (`culm model "
                    "show`)"),
    CULM_CONFIG_ENUM("redundancy", T, redundancy, "eager", "none|lazy|eager", FREE,
                     "what a worker does ahead of a neighbour's loss"),
    CULM_CONFIG_WORD("precision", T, precision, "f32", "f32|bf16", 0,
                     "number format of activations and products; weights, sums and the optimizer "
                     "stay f32"),
    CULM_CONFIG_WORD("kernels", T, kernels, "default", "default|trial", 0,
                     "algorithm of each convolution: by a rule, or the fastest in a trial before "
                     "step 1, which a comparison run takes over with --plan"),
    CULM_CONFIG_WORD("cuts", T, cuts, "analytic", "analytic|measured", FREE,
                     "where stages end: by what operators should cost, or by what they take in a "
                     "trial"),
    CULM_CONFIG_ENUM("recompute", T, recompute, "none", "none|block|auto", FREE,
                     "compute activations again in backward instead of keeping them; `auto`: when "
                     "the plan does not fit `memory_mb`"),
    CULM_CONFIG_INT("memory_mb", T, memory_mb, "0", 0, 1 << 30, FREE,
                    "megabytes that a worker may take; 0: the machine's, shared out among workers"),
    CULM_CONFIG_INT("threads", T, threads, "1", 1, 256, FREE, "compute threads of each worker"),
    CULM_CONFIG_U64("seed", T, seed, "1", 0,
                    "of the initial weights, the order of samples and dropout"),
    CULM_CONFIG_INT("steps", T, steps, NULL, 0, 1000000000, 0,
                    "optimizer steps; 0 writes the initial model"),

    CULM_CONFIG_WORD("optimizer.name", T, optimizer.name, "adamw", "adamw|sgd", 0, "the optimizer"),
    CULM_CONFIG_REAL("optimizer.lr", T, optimizer.lr, "0.001", 0, INFINITY, 0,
                     "highest learning rate"),
    CULM_CONFIG_REAL("optimizer.beta1", T, optimizer.beta1, "0.9", 0, 1, CULM_CONFIG_BELOW,
                     "decay of the first moment"),
    CULM_CONFIG_REAL("optimizer.beta2", T, optimizer.beta2, "0.95", 0, 1, CULM_CONFIG_BELOW,
                     "decay of the second moment"),
    CULM_CONFIG_REAL("optimizer.eps", T, optimizer.eps, "1e-08", 0, INFINITY, CULM_CONFIG_ABOVE,
                     "added to the denominator"),
    CULM_CONFIG_REAL("optimizer.weight_decay", T, optimizer.weight_decay, "0.1", 0, INFINITY, 0,
                     "of tensors with two dimensions or more"),
    CULM_CONFIG_REAL("optimizer.momentum", T, optimizer.momentum, "0.9", 0, 1, CULM_CONFIG_BELOW,
                     "of sgd"),
    CULM_CONFIG_BOOL("optimizer.nesterov", T, optimizer.nesterov, "false", 0,
                     "sgd: look ahead along the momentum"),
    CULM_CONFIG_REAL("optimizer.clip_norm", T, optimizer.clip_norm, "1", 0, INFINITY, 0,
                     "highest global gradient norm; 0 turns clipping off"),

    CULM_CONFIG_WORD("schedule.name", T, schedule.name, "cosine", "cosine|constant|linear|step", 0,
                     "course of the learning rate"),
    CULM_CONFIG_INT("schedule.warmup", T, schedule.warmup, "10", 0, 1000000000, 0,
                    "steps of linear warm-up (all but constant)"),
    CULM_CONFIG_REAL("schedule.min_lr", T, schedule.min_lr, "0.0001", 0, INFINITY, 0,
                     "learning rate of the last step (cosine, linear); the lowest (step)"),
    CULM_CONFIG_INT("schedule.every", T, schedule.every, "0", 0, 1000000000, 0,
                    "step: steps between two falls of the learning rate; 0: it does not fall"),
    CULM_CONFIG_REAL("schedule.gamma", T, schedule.gamma, "0.1", 0, 1, 0,
                     "step: what a fall multiplies the learning rate by"),

    CULM_CONFIG_INT("checkpoint.every", T, checkpoint.every, "20", 0, 1000000000, FREE,
                    "steps between checkpoints; 0: only at the end"),
    CULM_CONFIG_INT("checkpoint.keep", T, checkpoint.keep, "2", 1, 1000000, FREE,
                    "checkpoints kept; older ones are removed"),

    CULM_CONFIG_INT("eval.every", T, eval.every, "0", 0, 1000000000, FREE,
                    "steps between evaluations on the held-out samples; a multiple of "
                    "`checkpoint.every`; 0: never. One runs at a time; of those that come due "
                    "meanwhile only the newest follows"),
    CULM_CONFIG_INT("eval.samples", T, eval.samples, "0", 0, 1000000000, FREE,
                    "how many of them; 0: all"),

    CULM_CONFIG_INT("cluster.heartbeat_ms", T, cluster.heartbeat_ms, "200", 1, DAY_MS, FREE,
                    "time between two signs of life"),
    CULM_CONFIG_INT("cluster.suspect_ms", T, cluster.suspect_ms, "3000", 2, DAY_MS, FREE,
                    "silence after which a worker is put out of the view; at least three times "
                    "`cluster.heartbeat_ms`"),
    CULM_CONFIG_INT("cluster.kill_suspect_ms", T, cluster.kill_suspect_ms, "10000", 0, DAY_MS, FREE,
                    "time from there until its process is killed"),
    CULM_CONFIG_INT("cluster.replace_ms", T, cluster.replace_ms, "500", -1, DAY_MS, FREE,
                    "time until a lost worker is replaced; -1: never"),
    CULM_CONFIG_INT("cluster.join_ms", T, cluster.join_ms, "10000", 1, DAY_MS, FREE,
                    "how long a step waits for a joining worker"),
    CULM_CONFIG_INT("cluster.wait_ms", T, cluster.wait_ms, "600000", 1, DAY_MS, FREE,
                    "how long training waits for workers it cannot do without"),
    CULM_CONFIG_INT("cluster.stuck_ms", T, cluster.stuck_ms, "30000", 1, DAY_MS, FREE,
                    "how long a worker may live without finishing a task that is due; the limit "
                    "grows with what such tasks take, and when it was too short"),
    CULM_CONFIG_INT("cluster.orphan_ms", T, cluster.orphan_ms, "60000", 10, DAY_MS, FREE,
                    "silence of the launcher after which a worker ends itself, at least "
                    "`cluster.suspect_ms`"),
    CULM_CONFIG_INT("cluster.max_nodes", T, cluster.max_nodes, "8", 1, MAX_NODES, FREE,
                    "workers at once; at least `pipelines` * `stages`, and that many where it is "
                    "not given"),
};

#define LAID_OUT_AS_PATHS(type_, first_, count_)                                                   \
    _Static_assert(offsetof(type_, count_) ==                                                      \
                       offsetof(type_, first_) + offsetof(struct culm_config_paths, count),        \
                   #first_ " and " #count_ " are laid out as struct culm_config_paths")
LAID_OUT_AS_PATHS(struct culm_data_config, paths, path_count);
LAID_OUT_AS_PATHS(struct culm_data_config, tokenizer, tokenizer_count);
LAID_OUT_AS_PATHS(struct culm_model_config, name, name_count);
LAID_OUT_AS_PATHS(struct culm_model_config, file, file_count);
LAID_OUT_AS_PATHS(struct culm_model_config, init, init_count);
LAID_OUT_AS_PATHS(struct culm_model_config, blocks, block_count);
_Static_assert(sizeof(enum culm_redundancy) == sizeof(int), "read and written as an int");

static const struct culm_config_table table = {
    .rows = rows,
    .count = sizeof rows / sizeof *rows,
    .object_bytes = sizeof(struct culm_train_config),
};

#define REFUSE(...) culm_config_refuse(&table, o, keys, error, __VA_ARGS__)
#define KEYS(...) const char *const keys[] = {__VA_ARGS__, NULL}

/* --- the model: a preset's values where none are given --- */

static size_t row_of(const char *key) {
    size_t i = 0;
    while (strcmp(rows[i].key, key) != 0) {
        i++;
    }
    return i;
}

static enum culm_status fill_blocks(struct culm_train_config *c,
                                    const struct culm_config_origins *o, struct culm_error *error) {
    KEYS("model.blocks");
    if (c->model.block_count > 4) {
        return REFUSE("%zu stages; allowed: at most 4", c->model.block_count);
    }
    for (size_t i = 0; i < c->model.block_count; i++) {
        char *end;
        long count = strtol(c->model.blocks[i], &end, 10);
        if (*end || count < 1 || count > 1024) {
            return REFUSE("'%.40s' is no number of blocks; allowed: 1 to 1024", c->model.blocks[i]);
        }
        c->model.options.blocks[i] = count;
    }
    return CULM_OK;
}

static const struct culm_model_preset *first_of(const char *arch) {
    const struct culm_model_preset *preset;
    for (size_t i = 0; (preset = culm_model_preset(i)); i++) {
        if (strcmp(preset->arch, arch) == 0) {
            return preset;
        }
    }
    return NULL;
}

/* GPT-2's keys have defaults of their own; every other family starts from its first preset. */
static enum culm_status fill_model(struct culm_train_config *c, const struct culm_config_origins *o,
                                   struct culm_error *error) {
    struct culm_model_config *m = &c->model;
    const struct culm_model_preset *preset = NULL;
    static const char *const of_file[] = {"model.context", "model.vocab"};
    if (m->name_count > 0) {
        KEYS("model.name");
        preset = m->name_count == 1 ? culm_model_preset_find(m->name[0]) : NULL;
        if (!preset) {
            return REFUSE("'%.60s' is not known; 'culm model list' names the models", m->name[0]);
        }
        if (culm_config_given(o, row_of("model.arch")) && strcmp(preset->arch, m->arch) != 0) {
            return REFUSE("%s is a model of 'arch: %s', not %s; leave model.arch out", m->name[0],
                          preset->arch, m->arch);
        }
        snprintf(m->arch, sizeof m->arch, "%s", preset->arch);
    } else if (m->file_count == 1 && !culm_config_given(o, row_of("model.arch"))) {
        snprintf(m->arch, sizeof m->arch, "onnx");
    } else if (strcmp(m->arch, "gpt2") != 0) {
        preset = first_of(m->arch);
    }
    bool onnx = strcmp(m->arch, "onnx") == 0;
    size_t begin = offsetof(T, model.options), end = begin + sizeof m->options;
    for (size_t i = 0; preset && i < table.count; i++) {
        const struct culm_config_row *row = &rows[i];
        if (row->offset >= begin && row->offset < end && !culm_config_given(o, i)) {
            memcpy((char *)c + row->offset, (const char *)&preset->options + (row->offset - begin),
                   row->size);
        }
    }
    if (preset && !culm_config_given(o, row_of("model.blocks"))) {
        memcpy(m->options.blocks, preset->options.blocks, sizeof m->options.blocks);
    }
    /* the graph in the file says what is not given: culm_network_complete */
    for (size_t i = 0; onnx && i < sizeof of_file / sizeof *of_file; i++) {
        if (!culm_config_given(o, row_of(of_file[i]))) {
            *(int64_t *)((char *)c + rows[row_of(of_file[i])].offset) = 0;
        }
    }
    if (onnx != (m->file_count == 1)) {
        KEYS("model.file", "model.arch");
        return REFUSE("'arch: onnx' and one 'file: FILE.onnx' go together; give both or none");
    }
    if (m->init_count > 1) {
        KEYS("model.init");
        return REFUSE("%zu files; allowed: one", m->init_count);
    }
    return fill_blocks(c, o, error);
}

static bool is_text_model(const struct culm_train_config *c) {
    return strcmp(c->model.arch, "gpt2") == 0 || strcmp(c->model.arch, "bert") == 0;
}

/* What each architecture learns from; an ONNX file's inputs say it themselves. */
static const char *kinds_of(const char *arch) {
    return strcmp(arch, "gpt2") == 0   ? "text, tokens"
           : strcmp(arch, "bert") == 0 ? "masked"
           : strcmp(arch, "gnmt") == 0 ? "pairs"
           : strcmp(arch, "onnx") == 0 ? NULL
                                       : "images";
}

static enum culm_status check_kind(const struct culm_train_config *c,
                                   const struct culm_config_origins *o, struct culm_error *error) {
    const char *kinds = kinds_of(c->model.arch);
    if (kinds && !strstr(kinds, c->data.kind)) {
        KEYS("data.kind", "model.arch", "model.name");
        return REFUSE("'arch: %s' does not learn from '%s'; allowed: %s", c->model.arch,
                      c->data.kind, kinds);
    }
    return CULM_OK;
}

static enum culm_status check_model(const struct culm_train_config *c,
                                    const struct culm_config_origins *o, struct culm_error *error) {
    const struct culm_model_options *m = &c->model.options;
    const struct {
        const char *key;
        int64_t value;
    } sizes[] = {{"model.layers", m->layers},
                 {"model.width", m->width},
                 {"model.heads", m->heads},
                 {"model.context", m->context},
                 {"model.vocab", m->vocab}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && is_text_model(c); i++) {
        if (sizes[i].value < 1) {
            KEYS(sizes[i].key, "model.arch");
            return REFUSE("%lld makes no model of 'arch: %s'; allowed: 1 or more",
                          (long long)sizes[i].value, c->model.arch);
        }
    }
    if (is_text_model(c) && m->width % m->heads) {
        KEYS("model.heads", "model.width");
        return REFUSE("width %lld is not a multiple of heads %lld; allowed: heads that divide the "
                      "width",
                      (long long)m->width, (long long)m->heads);
    }
    if (is_text_model(c) && m->width / m->heads > CULM_TRAIN_MAX_HEAD) {
        KEYS("model.heads", "model.width");
        return REFUSE("width %lld in %lld heads makes heads of %lld; allowed: heads of up to %d",
                      (long long)m->width, (long long)m->heads, (long long)(m->width / m->heads),
                      CULM_TRAIN_MAX_HEAD);
    }
    if (is_text_model(c) && m->vocab < 256 && strcmp(c->data.kind, "text") == 0 &&
        c->data.tokenizer_count == 0) {
        KEYS("model.vocab", "data.kind");
        return REFUSE("vocab %lld is too small for text, which has 256 bytes; allowed: 256 or more",
                      (long long)m->vocab);
    }
    if (c->eval.every > 0 && (c->checkpoint.every < 1 || c->eval.every % c->checkpoint.every)) {
        KEYS("eval.every", "checkpoint.every");
        return REFUSE(
            "every %lld is not a multiple of checkpoint.every %lld, and what is evaluated "
            "is a checkpoint; allowed: a multiple of it",
            (long long)c->eval.every, (long long)c->checkpoint.every);
    }
    if (c->eval.every > 0 && c->data.held_out <= 0) {
        KEYS("eval.every", "data.held_out");
        return REFUSE("nothing is held out to evaluate on; set data.held_out, for example 0.05");
    }
    return CULM_OK;
}

static enum culm_status check_batch(const struct culm_train_config *c,
                                    const struct culm_config_origins *o, struct culm_error *error) {
    if (c->batch.global % c->batch.micro) {
        KEYS("batch.micro", "batch.global");
        return REFUSE("global %lld is not a multiple of micro %lld; allowed: micro that divides "
                      "global",
                      (long long)c->batch.global, (long long)c->batch.micro);
    }
    int64_t micros = c->batch.global / c->batch.micro;
    if (micros % c->batch.lanes) {
        KEYS("batch.lanes", "batch.micro", "batch.global");
        return REFUSE("%lld micro-batches (global / micro) do not share out over %lld lanes; "
                      "allowed: lanes that divide %lld",
                      (long long)micros, (long long)c->batch.lanes, (long long)micros);
    }
    if (c->pipelines > c->batch.lanes) {
        KEYS("pipelines", "batch.lanes");
        return REFUSE("%lld pipelines for %lld lanes, and a pipeline runs whole lanes; allowed: 1 "
                      "to %lld",
                      (long long)c->pipelines, (long long)c->batch.lanes,
                      (long long)c->batch.lanes);
    }
    if (c->batch.global / c->batch.micro > CULM_TRAIN_MAX_MICROS) {
        KEYS("batch.micro", "batch.global");
        return REFUSE("%lld micro-batches (global / micro); allowed: up to %d",
                      (long long)(c->batch.global / c->batch.micro), CULM_TRAIN_MAX_MICROS);
    }
    if (c->batch.micro * c->model.options.context > CULM_TRAIN_MAX_ROWS) {
        KEYS("batch.micro", "model.context");
        return REFUSE("micro %lld * context %lld tokens in a micro-batch; allowed: up to %d",
                      (long long)c->batch.micro, (long long)c->model.options.context,
                      CULM_TRAIN_MAX_ROWS);
    }
    return CULM_OK;
}

/* As many workers as there are roles, where nobody says how many. */
static void fill_nodes(struct culm_train_config *c, const struct culm_config_origins *o) {
    int64_t roles = c->pipelines * c->stages;
    if (!culm_config_given(o, row_of("cluster.max_nodes")) && c->cluster.max_nodes < roles &&
        roles <= MAX_NODES) {
        c->cluster.max_nodes = roles;
    }
}

static enum culm_status check_cluster(const struct culm_train_config *c,
                                      const struct culm_config_origins *o,
                                      struct culm_error *error) {
    if (strcmp(c->model.arch, "gpt2") == 0 && c->stages > c->model.options.layers) {
        KEYS("stages", "model.layers");
        return REFUSE("%lld stages for %lld layers, and each needs one; allowed: 1 to %lld",
                      (long long)c->stages, (long long)c->model.options.layers,
                      (long long)c->model.options.layers);
    }
    if (c->pipelines * c->stages > c->cluster.max_nodes) {
        KEYS("cluster.max_nodes", "pipelines", "stages");
        return REFUSE("%lld pipelines * %lld stages need %lld workers, max_nodes is %lld; allowed: "
                      "cluster.max_nodes from %lld",
                      (long long)c->pipelines, (long long)c->stages,
                      (long long)(c->pipelines * c->stages), (long long)c->cluster.max_nodes,
                      (long long)(c->pipelines * c->stages));
    }
    if (c->cluster.suspect_ms < SUSPECT_BEATS * c->cluster.heartbeat_ms) {
        KEYS("cluster.suspect_ms", "cluster.heartbeat_ms");
        return REFUSE("suspect_ms %lld would suspect workers whose heartbeat is a little late; "
                      "allowed: from %d times heartbeat_ms, which is %lld",
                      (long long)c->cluster.suspect_ms, SUSPECT_BEATS,
                      (long long)c->cluster.heartbeat_ms);
    }
    return CULM_OK;
}

enum culm_status culm_train_config_parse(const char *text, size_t len, const char *name,
                                         const char *const *sets, size_t set_count,
                                         struct culm_train_config *ret_config,
                                         struct culm_error *error) {
    struct culm_train_config config;
    struct culm_config_origins origins;
    enum culm_status status =
        culm_config_parse(&table, text, len, name, sets, set_count, &config, &origins, error);
    if (status != CULM_OK) {
        return status;
    }
    status = fill_model(&config, &origins, error);
    if (status == CULM_OK) {
        status = check_model(&config, &origins, error);
    }
    if (status == CULM_OK) {
        status = check_kind(&config, &origins, error);
    }
    if (status == CULM_OK) {
        status = check_batch(&config, &origins, error);
    }
    if (status == CULM_OK) {
        fill_nodes(&config, &origins);
        status = check_cluster(&config, &origins, error);
    }
    if (status != CULM_OK) {
        culm_train_config_release(&config);
        return status;
    }
    *ret_config = config;
    return CULM_OK;
}

enum culm_status culm_train_config_load(const char *path, const char *const *sets, size_t set_count,
                                        struct culm_train_config *ret_config,
                                        struct culm_error *error) {
    char *text;
    size_t len;
    enum culm_status status = culm_file_read(NULL, path, CULM_YAML_MAX_BYTES, &text, &len, error);
    if (status == CULM_OK) {
        status = culm_train_config_parse(text, len, path, sets, set_count, ret_config, error);
        free(text);
    }
    return status;
}

void culm_train_config_release(struct culm_train_config *config) {
    culm_config_release(&table, config);
}

char *culm_train_config_dump(const struct culm_train_config *config) {
    struct culm_buf out;
    culm_buf_init(&out, 4 * CULM_YAML_MAX_BYTES);
    culm_config_dump(&table, config, &out);
    culm_buf_u8(&out, 0);
    if (out.failed) {
        culm_buf_release(&out);
    }
    return (char *)out.data;
}

char *culm_train_config_reference(bool markdown) {
    struct culm_buf out;
    culm_buf_init(&out, 1u << 20);
    culm_config_document(&table, markdown, &out);
    culm_buf_u8(&out, 0);
    if (out.failed) {
        culm_buf_release(&out);
    }
    return (char *)out.data;
}

/* As in a dump, cut to what fits a message. */
static void show_value(const struct culm_config_row *row, const struct culm_train_config *config,
                       char *buffer, size_t size) {
    struct culm_buf out;
    culm_buf_init(&out, 4 * CULM_YAML_MAX_BYTES);
    culm_config_dump_value(row, config, &out);
    size_t len = out.len < size ? out.len : size - 1;
    for (size_t i = 0; i < len; i++) {
        buffer[i] = (char)out.data[i];
    }
    buffer[len] = '\0';
    culm_buf_release(&out);
}

enum culm_status culm_train_config_resumable(const struct culm_train_config *before,
                                             const struct culm_train_config *now,
                                             struct culm_error *error) {
    const struct culm_config_row *row =
        culm_config_difference(&table, before, now, CULM_CONFIG_RESUMABLE);
    if (!row) {
        return CULM_OK;
    }
    char was[80], is[80];
    show_value(row, before, was, sizeof was);
    show_value(row, now, is, sizeof is);
    return culm_error_set(
        error, CULM_ERR_CONFIG,
        "%s: the run has %s, this configuration %s; --resume may change only " CULM_TRAIN_RESUMABLE
        " settings",
        row->key, was, is);
}

void culm_train_config_source(const struct culm_train_config *config, bool held_out,
                              struct culm_source_options *ret_options) {
    const struct culm_model_options *model = &config->model.options;
    const struct culm_data_config *data = &config->data;
    static const double imagenet_mean[3] = {0.485, 0.456, 0.406};
    static const double imagenet_std[3] = {0.229, 0.224, 0.225};
    *ret_options = (struct culm_source_options){
        .kind = (enum culm_source_kind)culm_source_kind_of(data->kind),
        .paths = (const char *const *)data->paths,
        .path_count = data->path_count,
        .tokenizer = (const char *const *)data->tokenizer,
        .tokenizer_count = data->tokenizer_count,
        .context = model->context,
        .source_context = model->source,
        .vocab = model->vocab,
        .masked = model->masked,
        .height = model->image,
        .width = model->image,
        .channels = model->channels ? model->channels : 3,
        .classes = model->classes ? model->classes : 1000,
        .resize = data->resize,
        .crop = strcmp(data->crop, "padded") == 0    ? CULM_CROP_PADDED
                : strcmp(data->crop, "resized") == 0 ? CULM_CROP_RESIZED
                                                     : CULM_CROP_CENTER,
        .padding = data->padding,
        .flip = data->flip,
        .augment = !held_out,
        .masked_of = strcmp(data->masked_of, "tokens") == 0 ? CULM_SOURCE_TOKENS : CULM_SOURCE_TEXT,
        .pins = config->pins,
        .held_out = data->held_out,
        .split = held_out ? CULM_SPLIT_HELD_OUT : CULM_SPLIT_TRAIN,
        .seed = config->seed,
    };
    for (int i = 0; i < 3 && data->normalize != CULM_NORMALIZE_NONE; i++) {
        bool custom = data->normalize == CULM_NORMALIZE_CUSTOM;
        ret_options->mean[i] = custom ? data->mean : imagenet_mean[i];
        ret_options->std[i] = custom ? data->std : imagenet_std[i];
    }
}

const char *culm_redundancy_name(enum culm_redundancy redundancy) {
    switch (redundancy) {
    case CULM_REDUNDANCY_NONE: return "none";
    case CULM_REDUNDANCY_LAZY: return "lazy";
    case CULM_REDUNDANCY_EAGER: return "eager";
    }
    return "unknown";
}

/* The rows of `model`, `optimizer` and `schedule`; a preset's values where none are given. */
#include "model/config.h"

#include <math.h>
#include <string.h>

/* --- model --- */

#define M struct culm_model_config
#define MODEL_INT(name_, value_, min_, max_, doc_)                                                 \
    CULM_CONFIG_INT(#name_, M, options.name_, value_, min_, max_, 0, doc_)
#define MODEL_BOOL(name_, doc_) CULM_CONFIG_BOOL(#name_, M, options.name_, "false", 0, doc_)
#define MODEL_TEXT(name_, allowed_, doc_)                                                          \
    CULM_CONFIG_TEXT(#name_, M, name_, "", allowed_, CULM_CONFIG_EMPTY, doc_)

const char *const culm_init_unused_names[] = {
    [CULM_INIT_UNUSED_REFUSE] = "refuse", [CULM_INIT_UNUSED_IGNORE] = "ignore", NULL};

static const struct culm_config_row model_rows[] = {
    CULM_CONFIG_ENUM("arch", M, arch, "gpt2", culm_arch_names, 0,
                     "architecture of the model; sizes that are not given are those of the "
                     "family's first published model (`culm model list`) or, for gpt2, the "
                     "defaults below; `onnx`, which `model.file` implies: the graph in that file"),
    MODEL_TEXT(
        name, "a name",
        "published model to build (`culm model list`); sizes that are given override its own"),
    MODEL_TEXT(file, "a file",
               "ONNX file to train, exported in training mode; sizes that are not given are taken "
               "from the file"),
    MODEL_TEXT(init, "a file or a folder", CULM_INIT_DOC),
    CULM_CONFIG_ENUM("init_unused", M, init_unused, "refuse", culm_init_unused_names, 0,
                     CULM_INIT_UNUSED_DOC),
    MODEL_INT(layers, "6", 0, 1024,
              "transformer blocks; depth of a ResNet or VGG; LSTM layers in the encoder and in the "
              "decoder"),
    MODEL_INT(width, "256", 0, CULM_MODEL_MAX_WIDTH,
              "size of the residual stream, a multiple of `model.heads`; gnmt: of every LSTM; "
              "images: channels after the first convolution"),
    MODEL_INT(heads, "8", 0, 1024, "attention heads in each transformer block"),
    MODEL_INT(context, "128", 0, CULM_MODEL_MAX_CONTEXT, "tokens in a sample"),
    MODEL_INT(vocab, "256", 0, 16777216,
              "number of tokens in the vocabulary; at least 256 for `data.kind: text` without a "
              "tokenizer"),
    CULM_CONFIG_REAL("dropout", M, options.dropout, "0.1", 0, 1, CULM_CONFIG_BELOW,
                     "share of values that dropout sets to zero"),
    MODEL_INT(hidden, "0", 0, CULM_MODEL_MAX_WIDTH * 4,
              "features in the hidden layer of the MLP, or in the hidden layers of the classifier; "
              "0: as published"),
    MODEL_INT(positions, "0", 0, CULM_MODEL_MAX_CONTEXT,
              "rows of the position table; 0: as many as `model.context`"),
    MODEL_INT(types, "0", 0, 1024, "bert: number of segment types; 0: 2"),
    MODEL_INT(masked, "0", 0, CULM_MODEL_MAX_CONTEXT,
              "bert: number of tokens to predict in a sample; 0: 15 % of `model.context`"),
    MODEL_INT(image, "0", 0, 4096, "height and width of the images in pixels; 0: as published"),
    MODEL_INT(channels, "0", 0, 3, "channels of the images: 1 for grey, 3 for colour; 0: 3"),
    MODEL_INT(classes, "0", 0, 1000000, "number of classes; 0: 1000"),
    CULM_CONFIG_INTS(
        "blocks", M, options.blocks, 1, 1024, "up to four numbers", 0,
        "resnet: residual blocks in each of up to four stages, as a list; replaces `model.layers`"),
    MODEL_BOOL(bottleneck, "resnet with `model.blocks`: use bottleneck blocks"),
    MODEL_BOOL(small_stem, "resnet: begin with a 3x3 convolution of stride 1, for small images"),
    CULM_CONFIG_ENUM("shortcut", M, options.shortcut, "conv", culm_shortcut_names, 0,
                     "resnet: shortcut where the size changes: `conv`: a 1x1 convolution; `pad`: "
                     "every other pixel, with zeros for the new channels, half on either side"),
    MODEL_BOOL(batch_norm, "vgg: use batch norm after each convolution"),
    MODEL_INT(pool, "0", 0, 64,
              "vgg, alexnet: height and width of the feature map that the classifier sees; 0: as "
              "published"),
    MODEL_INT(source, "0", 0, CULM_MODEL_MAX_CONTEXT,
              "gnmt: tokens in a source sentence; 0: as many as `model.context`"),
    CULM_CONFIG_REAL("label_smoothing", M, options.label_smoothing, "0", 0, 1, CULM_CONFIG_BELOW,
                     "share of the target probability that is spread over all classes"),
    MODEL_BOOL(share_embedding, "gnmt: use one embedding table for source and target"),
};

static const struct culm_model_preset *first_of(enum culm_arch arch) {
    const struct culm_model_preset *preset;
    for (size_t i = 0; (preset = culm_model_preset_at(i)); i++) {
        if (preset->arch == arch) {
            return preset;
        }
    }
    return NULL;
}

/* Of options that are given nowhere. */
static void take_options(M *model, const struct culm_model_options *from,
                         const struct culm_config_place *place) {
    size_t begin = offsetof(M, options), end = begin + sizeof model->options;
    for (size_t i = 0; i < sizeof model_rows / sizeof *model_rows; i++) {
        const struct culm_config_row *row = &model_rows[i];
        if (row->offset >= begin && row->offset < end && !culm_config_given(place, row->key)) {
            memcpy((char *)model + row->offset, (const char *)from + (row->offset - begin),
                   row->size);
        }
    }
}

/* GPT-2's keys have defaults of their own; every other family starts from its first preset. */
static enum culm_status fill(M *m, const struct culm_config_place *place,
                             struct culm_error *error) {
    const struct culm_model_preset *preset = NULL;
    bool arch_given = culm_config_given(place, "arch");
    if (m->name) {
        preset = culm_model_preset_find(m->name);
        if (!preset) {
            return culm_config_refuse(place, CULM_CONFIG_KEYS("name"), error,
                                      "'%.60s' is not known; 'culm model list' names the models",
                                      m->name);
        }
        if (arch_given && preset->arch != m->arch) {
            return culm_config_refuse(place, CULM_CONFIG_KEYS("name"), error,
                                      "%s is a model of 'arch: %s', not %s; leave model.arch out",
                                      m->name, culm_arch_names[preset->arch],
                                      culm_arch_names[m->arch]);
        }
        m->arch = preset->arch;
    } else if (m->file && !arch_given) {
        m->arch = CULM_ARCH_ONNX;
    } else if (m->arch != CULM_ARCH_GPT2) {
        preset = first_of(m->arch);
    }
    if (preset) {
        take_options(m, &preset->options, place);
    }
    /* the graph in the file says what is not given: culm_network_open */
    if (m->arch == CULM_ARCH_ONNX && !culm_config_given(place, "context")) {
        m->options.context = 0;
    }
    if (m->arch == CULM_ARCH_ONNX && !culm_config_given(place, "vocab")) {
        m->options.vocab = 0;
    }
    if ((m->arch == CULM_ARCH_ONNX) != (m->file != NULL)) {
        return culm_config_refuse(
            place, CULM_CONFIG_KEYS("file", "arch"), error,
            "'arch: onnx' and one 'file: FILE.onnx' go together; give both or none");
    }
    return CULM_OK;
}

static enum culm_status check_transformer(const M *m, const struct culm_config_place *place,
                                          struct culm_error *error) {
    const struct culm_model_options *o = &m->options;
    const struct {
        const char *key;
        int64_t value;
    } sizes[] = {{"layers", o->layers},
                 {"width", o->width},
                 {"heads", o->heads},
                 {"context", o->context},
                 {"vocab", o->vocab}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i].value < 1) {
            return culm_config_refuse(place, CULM_CONFIG_KEYS(sizes[i].key, "arch"), error,
                                      "%lld is not possible for 'arch: %s'; allowed: 1 or more",
                                      (long long)sizes[i].value, culm_arch_names[m->arch]);
        }
    }
    if (o->width % o->heads) {
        return culm_config_refuse(place, CULM_CONFIG_KEYS("heads", "width"), error,
                                  "width %lld is not a multiple of heads %lld; allowed: heads that "
                                  "divide the width",
                                  (long long)o->width, (long long)o->heads);
    }
    if (o->width / o->heads > CULM_MODEL_MAX_HEAD) {
        return culm_config_refuse(
            place, CULM_CONFIG_KEYS("heads", "width"), error,
            "width %lld in %lld heads makes heads of %lld; allowed: heads of up to %d",
            (long long)o->width, (long long)o->heads, (long long)(o->width / o->heads),
            CULM_MODEL_MAX_HEAD);
    }
    return CULM_OK;
}

static enum culm_status finish_model(void *object, const struct culm_config_place *place,
                                     struct culm_error *error) {
    struct culm_model_config *m = object;
    enum culm_status status = fill(m, place, error);
    if (status == CULM_OK && m->options.channels == 2) {
        return culm_config_refuse(place, CULM_CONFIG_KEYS("channels"), error,
                                  "images do not have 2 channels; allowed: 1 (grey), 3 (colour), "
                                  "0 (the default)");
    }
    if (status == CULM_OK && (m->arch == CULM_ARCH_GPT2 || m->arch == CULM_ARCH_BERT)) {
        status = check_transformer(m, place, error);
    }
    return status;
}

const struct culm_config_table culm_model_config_table = {CULM_CONFIG_ROWS(model_rows, M),
                                                          .finish = finish_model};

/* --- optimizer --- */

/* Not the kind: what one keeps of a tensor, another cannot go on with. */
#define SET CULM_CONFIG_SETTING

#define O struct culm_optimizer_config
static const char *const optimizer_names[] = {"adamw", "sgd", NULL};
static const struct culm_config_row optimizer_rows[] = {
    CULM_CONFIG_ENUM("name", O, name, "adamw", optimizer_names, 0,
                     "which optimizer updates the weights"),
    CULM_CONFIG_REAL("lr", O, lr, "0.001", 0, INFINITY, SET,
                     "highest learning rate, reached after the warm-up"),
    CULM_CONFIG_REAL("beta1", O, beta1, "0.9", 0, 1, CULM_CONFIG_BELOW | SET,
                     "adamw: decay of the first moment"),
    CULM_CONFIG_REAL("beta2", O, beta2, "0.95", 0, 1, CULM_CONFIG_BELOW | SET,
                     "adamw: decay of the second moment"),
    CULM_CONFIG_REAL("eps", O, eps, "1e-08", 0, INFINITY, CULM_CONFIG_ABOVE | SET,
                     "adamw: constant added to the denominator"),
    CULM_CONFIG_REAL("weight_decay", O, weight_decay, "0.1", 0, INFINITY, SET,
                     "weight decay of tensors with two or more dimensions"),
    CULM_CONFIG_REAL("momentum", O, momentum, "0.9", 0, 1, CULM_CONFIG_BELOW | SET,
                     "sgd: momentum"),
    CULM_CONFIG_BOOL("nesterov", O, nesterov, "false", SET, "sgd: use Nesterov momentum"),
    CULM_CONFIG_REAL("clip_norm", O, clip_norm, "1", 0, INFINITY, SET,
                     "largest global norm of the gradient, to which a larger one is scaled down; "
                     "0: no clipping"),
};
const struct culm_config_table culm_optimizer_config_table = {CULM_CONFIG_ROWS(optimizer_rows, O)};

/* --- schedule --- */

#define S struct culm_schedule_config
static const struct culm_config_row schedule_rows[] = {
    CULM_CONFIG_ENUM("name", S, name, "cosine", culm_schedule_names, SET,
                     "how the learning rate changes over the steps"),
    CULM_CONFIG_INT(
        "warmup", S, warmup, "10", 0, 1000000000, SET,
        "steps over which the learning rate rises from zero; not with `schedule.name: constant`"),
    CULM_CONFIG_REAL("min_lr", S, min_lr, "0.0001", 0, INFINITY, SET,
                     "learning rate of the last step with `schedule.name: cosine` or `linear`; "
                     "lowest learning rate with `step`"),
    CULM_CONFIG_INT(
        "every", S, every, "0", 0, 1000000000, SET,
        "`schedule.name: step`: steps between two drops of the learning rate; 0: it never drops"),
    CULM_CONFIG_REAL(
        "gamma", S, gamma, "0.1", 0, 1, SET,
        "`schedule.name: step`: factor by which each drop multiplies the learning rate"),
};
const struct culm_config_table culm_schedule_config_table = {CULM_CONFIG_ROWS(schedule_rows, S)};

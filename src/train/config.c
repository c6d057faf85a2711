/*
 * The table of `culm train`'s keys, and the checks between keys.
 *
 * Nothing else in the program knows a key's name, default or range: `--set`, config.yaml in the run
 * directory, `culm help config` and the reference in README.md all come from these rows.
 */
#include "train/config.h"

#include "base/config.h"
#include "base/file.h"

#include <math.h>
#include <stdlib.h>

#define T struct culm_train_config
#define FREE CULM_CONFIG_RESUMABLE
#define DAY_MS 86400000

static const struct culm_config_row rows[] = {
    CULM_CONFIG_WORD("model.arch", T, model.arch, "gpt2", "gpt2", 0, "the architecture"),
    CULM_CONFIG_INT("model.layers", T, model.layers, "6", 1, 1024, 0, "transformer blocks"),
    CULM_CONFIG_INT("model.width", T, model.width, "256", 1, CULM_TRAIN_MAX_WIDTH, 0,
                    "size of the residual stream; a multiple of `model.heads`"),
    CULM_CONFIG_INT("model.heads", T, model.heads, "8", 1, 1024, 0, "attention heads"),
    CULM_CONFIG_INT("model.context", T, model.context, "128", 1, CULM_TRAIN_MAX_CONTEXT, 0,
                    "tokens in a sample"),
    CULM_CONFIG_INT("model.vocab", T, model.vocab, "256", 2, 16777216, 0,
                    "size of the vocabulary; at least 256 for `data.kind: text`"),
    CULM_CONFIG_REAL("model.dropout", T, model.dropout, "0.1", 0, 1, CULM_CONFIG_BELOW,
                     "share of values that dropout sets to zero"),

    CULM_CONFIG_WORD("data.kind", T, data.kind, "text", "text", 0,
                     "how the files are read: as bytes, one token each"),
    CULM_CONFIG_PATHS("data.path", T, data.paths, NULL, 0,
                      "a file or a list of files, relative to the current directory"),

    CULM_CONFIG_INT("batch.global", T, batch.global, "32", 1, 1048576, 0,
                    "samples in a step; a multiple of `batch.micro`"),
    CULM_CONFIG_INT("batch.micro", T, batch.micro, "4", 1, 1048576, 0, "samples in a micro-batch"),
    CULM_CONFIG_INT("batch.lanes", T, batch.lanes, "4", 1, 64, 0,
                    "fixed pieces of the global batch that pipelines share out; divides "
                    "`batch.global` / `batch.micro`"),

    CULM_CONFIG_INT("pipelines", T, pipelines, "2", 1, 64, FREE,
                    "copies of the model that work side by side; at most `batch.lanes`"),
    CULM_CONFIG_INT("stages", T, stages, "3", 1, 64, FREE,
                    "pieces the model is cut into; at most `model.layers`"),
    CULM_CONFIG_ENUM("redundancy", T, redundancy, "eager", "none|lazy|eager", FREE,
                     "what a worker does ahead of a neighbour's loss"),
    CULM_CONFIG_WORD("precision", T, precision, "f32", "f32", 0, "number format"),
    CULM_CONFIG_INT("threads", T, threads, "1", 1, 256, FREE, "compute threads of each worker"),
    CULM_CONFIG_U64("seed", T, seed, "1", 0,
                    "of the initial weights, the order of samples and dropout"),
    CULM_CONFIG_INT("steps", T, steps, NULL, 0, 1000000000, 0,
                    "optimizer steps; 0 writes the initial model"),

    CULM_CONFIG_WORD("optimizer.name", T, optimizer.name, "adamw", "adamw", 0, "the optimizer"),
    CULM_CONFIG_REAL("optimizer.lr", T, optimizer.lr, "0.001", 0, INFINITY, 0,
                     "highest learning rate"),
    CULM_CONFIG_REAL("optimizer.beta1", T, optimizer.beta1, "0.9", 0, 1, CULM_CONFIG_BELOW,
                     "decay of the first moment"),
    CULM_CONFIG_REAL("optimizer.beta2", T, optimizer.beta2, "0.95", 0, 1, CULM_CONFIG_BELOW,
                     "decay of the second moment"),
    CULM_CONFIG_REAL("optimizer.eps", T, optimizer.eps, "1e-08", 0, INFINITY, CULM_CONFIG_ABOVE,
                     "added to the denominator"),
    CULM_CONFIG_REAL("optimizer.weight_decay", T, optimizer.weight_decay, "0.1", 0, INFINITY, 0,
                     "of tensors with two dimensions"),
    CULM_CONFIG_REAL("optimizer.clip_norm", T, optimizer.clip_norm, "1", 0, INFINITY, 0,
                     "highest global gradient norm; 0 turns clipping off"),

    CULM_CONFIG_WORD("schedule.name", T, schedule.name, "cosine", "cosine|constant", 0,
                     "course of the learning rate"),
    CULM_CONFIG_INT("schedule.warmup", T, schedule.warmup, "10", 0, 1000000000, 0,
                    "steps of linear warm-up (cosine)"),
    CULM_CONFIG_REAL("schedule.min_lr", T, schedule.min_lr, "0.0001", 0, INFINITY, 0,
                     "learning rate of the last step (cosine)"),

    CULM_CONFIG_INT("checkpoint.every", T, checkpoint.every, "20", 0, 1000000000, FREE,
                    "steps between checkpoints; 0: only at the end"),
    CULM_CONFIG_INT("checkpoint.keep", T, checkpoint.keep, "2", 1, 1000000, FREE,
                    "checkpoints kept; older ones are removed"),

    CULM_CONFIG_INT("cluster.heartbeat_ms", T, cluster.heartbeat_ms, "200", 1, DAY_MS, FREE,
                    "time between two signs of life"),
    CULM_CONFIG_INT("cluster.suspect_ms", T, cluster.suspect_ms, "3000", 2, DAY_MS, FREE,
                    "silence after which a worker is put out of the view; more than "
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
                    "how long a worker may live without finishing a task that is due"),
    CULM_CONFIG_INT("cluster.max_nodes", T, cluster.max_nodes, "8", 1, 256, FREE,
                    "workers at once; at least `pipelines` * `stages`"),
};

_Static_assert(offsetof(struct culm_data_config, path_count) ==
                   offsetof(struct culm_data_config, paths) +
                       offsetof(struct culm_config_paths, count),
               "paths and path_count are laid out as struct culm_config_paths");
_Static_assert(sizeof(enum culm_redundancy) == sizeof(int), "read and written as an int");

static const struct culm_config_table table = {
    .rows = rows,
    .count = sizeof rows / sizeof *rows,
    .object_bytes = sizeof(struct culm_train_config),
};

#define REFUSE(...) culm_config_refuse(&table, o, keys, error, __VA_ARGS__)
#define KEYS(...) const char *const keys[] = {__VA_ARGS__, NULL}

static enum culm_status check_model(const struct culm_train_config *c,
                                    const struct culm_config_origins *o, struct culm_error *error) {
    if (c->model.width % c->model.heads) {
        KEYS("model.heads", "model.width");
        return REFUSE("width %lld is not a multiple of heads %lld; allowed: heads that divide the "
                      "width",
                      (long long)c->model.width, (long long)c->model.heads);
    }
    if (c->model.width / c->model.heads > CULM_TRAIN_MAX_HEAD) {
        KEYS("model.heads", "model.width");
        return REFUSE("width %lld in %lld heads makes heads of %lld; allowed: heads of up to %d",
                      (long long)c->model.width, (long long)c->model.heads,
                      (long long)(c->model.width / c->model.heads), CULM_TRAIN_MAX_HEAD);
    }
    if (c->model.vocab < 256) {
        KEYS("model.vocab", "data.kind");
        return REFUSE("vocab %lld is too small for text, which has 256 bytes; allowed: 256 or more",
                      (long long)c->model.vocab);
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
    if (c->batch.micro * c->model.context > CULM_TRAIN_MAX_ROWS) {
        KEYS("batch.micro", "model.context");
        return REFUSE("micro %lld * context %lld tokens in a micro-batch; allowed: up to %d",
                      (long long)c->batch.micro, (long long)c->model.context, CULM_TRAIN_MAX_ROWS);
    }
    return CULM_OK;
}

static enum culm_status check_cluster(const struct culm_train_config *c,
                                      const struct culm_config_origins *o,
                                      struct culm_error *error) {
    if (c->stages > c->model.layers) {
        KEYS("stages", "model.layers");
        return REFUSE("%lld stages for %lld layers, and each needs one; allowed: 1 to %lld",
                      (long long)c->stages, (long long)c->model.layers, (long long)c->model.layers);
    }
    if (c->pipelines * c->stages > c->cluster.max_nodes) {
        KEYS("cluster.max_nodes", "pipelines", "stages");
        return REFUSE("%lld pipelines * %lld stages need %lld workers, max_nodes is %lld; allowed: "
                      "cluster.max_nodes from %lld",
                      (long long)c->pipelines, (long long)c->stages,
                      (long long)(c->pipelines * c->stages), (long long)c->cluster.max_nodes,
                      (long long)(c->pipelines * c->stages));
    }
    if (c->cluster.suspect_ms <= c->cluster.heartbeat_ms) {
        KEYS("cluster.suspect_ms", "cluster.heartbeat_ms");
        return REFUSE("suspect_ms %lld would suspect every worker between two heartbeats; allowed: "
                      "more than heartbeat_ms, which is %lld",
                      (long long)c->cluster.suspect_ms, (long long)c->cluster.heartbeat_ms);
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
    status = check_model(&config, &origins, error);
    if (status == CULM_OK) {
        status = check_batch(&config, &origins, error);
    }
    if (status == CULM_OK) {
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
    return culm_error_set(error, CULM_ERR_CONFIG,
                          "%s: the run has %s, this configuration %s; --resume may change only "
                          "pipelines, stages, redundancy, threads, cluster and checkpoint settings",
                          row->key, was, is);
}

const char *culm_redundancy_name(enum culm_redundancy redundancy) {
    switch (redundancy) {
    case CULM_REDUNDANCY_NONE: return "none";
    case CULM_REDUNDANCY_LAZY: return "lazy";
    case CULM_REDUNDANCY_EAGER: return "eager";
    }
    return "unknown";
}

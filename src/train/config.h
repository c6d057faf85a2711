/*
 * The configuration of `culm train`, as docs/configuration.md lists it: plain data with every
 * default filled in and every value checked.
 *
 * Texts are owned by the struct. Everything else is in place. Thread: constant after
 * loading.
 */
#ifndef CULM_TRAIN_CONFIG_H
#define CULM_TRAIN_CONFIG_H

#include "base/pins.h"
#include "crew/config.h"
#include "data/config.h"
#include "graph/precision.h"
#include "model/config.h"
#include "pipeline/config.h"
#include "pipeline/settings.h"
#include "store/config.h"

/* What the kernels can take; a test holds it against the device. */
#define CULM_TRAIN_MAX_ROWS (1 << 20)

struct culm_eval_config {
    int64_t every, samples; /* every 0: never; samples 0: all that are held out */
};

enum culm_recompute { CULM_RECOMPUTE_NONE, CULM_RECOMPUTE_BLOCK, CULM_RECOMPUTE_AUTO };
extern const char *const culm_recompute_names[];
enum culm_kernels { CULM_KERNELS_DEFAULT, CULM_KERNELS_TRIAL };
enum culm_cuts { CULM_CUTS_ANALYTIC, CULM_CUTS_MEASURED };

struct culm_train_spans;

struct culm_train_config {
    struct culm_model_config model;
    struct culm_data_config data;
    struct culm_batch_config batch;
    int64_t pipelines, stages;
    enum culm_redundancy redundancy;
    enum culm_precision precision;
    enum culm_kernels kernels;
    enum culm_cuts cuts;
    enum culm_recompute recompute;
    int64_t memory_mb; /* what a worker may take; 0: what the machine has, shared out */
    int64_t threads;   /* per worker */
    uint64_t seed;
    int64_t steps;
    struct culm_optimizer_config optimizer;
    struct culm_schedule_config schedule;
    struct culm_checkpoint_config checkpoint;
    struct culm_eval_config eval;
    struct culm_crew_config cluster;
    bool any_nodes; /* nobody has said how many there may be */
    /* Not a key: what the files it names must hold, wherever they are opened; NULL: whatever they
     * do. Borrowed. */
    struct culm_pins *pins;
    /* Not a key either: which settings steps before were done with, where a resumed run was given
     * others (train/spans.h); NULL: all with these. Borrowed. */
    const struct culm_train_spans *spans;
};

/* Loads `path` (YAML), then applies `sets` ("key.sub=value") in order. Errors read `FILE:LINE: key:
 * what is wrong; what is allowed` (`--set: key: ...` for a set). On failure *ret_config is
 * untouched. */
enum culm_status culm_train_config_load(const char *path, const char *const *sets, size_t set_count,
                                        struct culm_train_config *ret_config,
                                        struct culm_error *error);
/* The same from text; `name` is the FILE of the messages. (Workers get the launcher's configuration
 * this way; so does a fuzzer.) */
enum culm_status culm_train_config_parse(const char *text, size_t len, const char *name,
                                         const char *const *sets, size_t set_count,
                                         struct culm_train_config *ret_config,
                                         struct culm_error *error);
void culm_train_config_release(struct culm_train_config *config);

/* Writes every key as YAML that parses back to the same configuration (doubles in the fewest
 * digits that read back to the same number).
 * Caller frees. NULL: out of memory. */
char *culm_train_config_dump(const struct culm_train_config *config);

/* What `--resume` may change, in words: "pipelines, ..., eval and cluster". These are the keys whose
 * rows say so, and the sections that consist of such. Caller frees. NULL: out of memory. */
char *culm_train_config_resumable_keys(void);
/* In the same way, what `--set` may change then as well. */
char *culm_train_config_setting_keys(void);

/* CULM_ERR_CONFIG, naming the key, when `now` changes anything else, and no key with one of
 * `more_flags` (base/config.h). */
enum culm_status culm_train_config_resumable(const struct culm_train_config *before,
                                             const struct culm_train_config *now,
                                             unsigned more_flags, struct culm_error *error);
/* Its rows, for what compares any two. */
extern const struct culm_config_table culm_train_config_table;

/* The reference of all keys: a Markdown table (as in docs/configuration.md), or lines for a
 * terminal. Caller frees. NULL: out of memory. */
char *culm_train_config_reference(bool markdown);
/* The same key by key. */
void culm_train_config_each(culm_config_visit visit, void *ctx);

/* The values of `model` and `data` as the rooms below take them. The paths are borrowed. */
void culm_train_config_source(const struct culm_train_config *config, bool held_out,
                              struct culm_source_options *ret_options);

#endif

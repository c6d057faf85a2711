/*
 * What a command or a program names as a model: a published name, a configuration file, an ONNX file,
 * or the directory of a run; with the weights that belong to it. All that run one model without
 * training open it here.
 *
 * A checkpoint of a run brings the configuration that it was made with, and what the files that the
 * run read held (base/pins.h): what is computed is then of that run, whatever has become of config.yaml
 * and of the files since. Thread: the caller's.
 */
#ifndef CULM_RUN_SUBJECT_H
#define CULM_RUN_SUBJECT_H

#include "base/file.h"
#include "run/config.h"
#include "train/inputs.h"
#include "train/runner.h"

enum { /* what may be named */
       CULM_SUBJECT_NAME = 1,
       CULM_SUBJECT_CONFIG = 2,
       CULM_SUBJECT_ONNX = 4,
       CULM_SUBJECT_RUN = 8
};

struct culm_subject_options {
    unsigned kinds;
    const char *weights;     /* a safetensors file or a checkpoint; NULL: the subject's own */
    const char *const *sets; /* as in culm_train_config_load */
    size_t set_count;
    bool other_data; /* files of the caller's: a checkpoint's list of inputs does not count */
    bool structure;  /* no numbers are needed: a run may be without them */
};
/* Sets for one process: what a configuration says of pipelines, stages and lanes becomes 1 each. */
#define CULM_SUBJECT_ALONE_COUNT 3
extern const char *const culm_subject_alone[CULM_SUBJECT_ALONE_COUNT];

struct culm_subject {
    char name[64];
    bool named;                      /* a published model, not a configuration */
    struct culm_train_config config; /* owned */
    struct culm_inputs inputs;       /* without pins where no checkpoint has a list */
    char plan_path[CULM_PATH_MAX];   /* where their digests are looked for */
    struct culm_network *network;
    char weights[CULM_PATH_MAX]; /* safetensors or checkpoint; "": what the network starts from */
    int64_t batch;               /* the configuration's micro-batch; 1 for a name */
};

/* The struct must stay where it is until culm_subject_close, which is fine after a failure too.
 * CULM_ERR_CONFIG for what is neither a known name nor a readable configuration; CULM_ERR_NOT_FOUND
 * for a run that has not ended, unless `weights` are given. */
enum culm_status culm_subject_open(const char *what, const struct culm_subject_options *options,
                                   struct culm_subject *subject, struct culm_error *error);
/* Of a configuration in the making. `weights` may be NULL. */
enum culm_status culm_subject_open_config(const struct culm_config *config, const char *weights,
                                          struct culm_subject *subject, struct culm_error *error);
void culm_subject_close(struct culm_subject *subject);

/* The subject's weights, into a runner of its network. ret_note is as in culm_runner_begin. The
 * network's files are let go: all graphs should have been asked for. */
enum culm_status culm_subject_load(struct culm_subject *subject, struct culm_runner *runner,
                                   char ret_note[CULM_NETWORK_NOTE_SIZE], struct culm_error *error);

#endif

/*
 * What a command or a program names as a model: a published name, a configuration file, an ONNX
 * file, the directory of a run, or a checkpoint; together with its weights. Whatever runs a single
 * model without training opens it here.
 *
 * A checkpoint of a run comes with the configuration that it was made with, and with what the run's
 * input files held (base/pins.h). So results are those of that run, whatever has happened to
 * config.yaml and to the files since.
 *
 * Thread: the caller's.
 */
#ifndef CULM_QUERY_SUBJECT_H
#define CULM_QUERY_SUBJECT_H

#include "base/file.h"
#include "query/config.h"
#include "store/inputs.h"
#include "train/runner.h"

#define CULM_SUBJECT_BEST "best" /* weights: DIR/best.safetensors */

enum { /* what may be named, as a mask */
       CULM_SUBJECT_NAME = 1,
       CULM_SUBJECT_CONFIG = 2,
       CULM_SUBJECT_ONNX = 4,
       CULM_SUBJECT_RUN = 8 /* or a checkpoint */
};

struct culm_subject_options {
    unsigned kinds;
    const char *weights; /* as in store/weights.h, or of a run "best"; NULL: the subject's own */
    const char *leave;   /* how a user leaves out what has no place: store/weights.h; or NULL */
    const char *const *sets; /* as in culm_train_config_load */
    size_t set_count;
    bool other_data; /* the caller has data of its own: ignore a checkpoint's list of inputs */
    bool structure;  /* no weights are needed: a run may be without them */
};
/* `sets` for a single process: the configuration's pipelines, stages and lanes become 1. */
#define CULM_SUBJECT_ALONE_COUNT 3
extern const char *const culm_subject_alone[CULM_SUBJECT_ALONE_COUNT];

struct culm_subject {
    char name[64];
    bool named;                      /* a published model, not a configuration */
    struct culm_train_config config; /* owned */
    struct culm_inputs inputs;       /* empty if there is no checkpoint with a list */
    struct culm_names classes;       /* names, of a run on images in folders; none otherwise */
    char plan_path[CULM_PATH_MAX];   /* where the digests of inputs are looked for */
    struct culm_network *network;
    char weights[CULM_PATH_MAX]; /* as in store/weights.h; "": what the network starts from */
    const char *leave;           /* of the options */
    bool config_too;             /* a configuration could have been named, too */
    struct culm_weights *opened; /* those, once they were loaded; NULL: not, or there are none */
    int64_t batch;               /* the configuration's micro-batch; 1 for a published name */
};

/* The struct must not move until culm_subject_close, which is fine after a failure too.
 * CULM_ERR_CONFIG: neither a published name nor a readable configuration; CULM_ERR_NOT_FOUND: a run
 * that has not ended, and no `weights` are given. */
enum culm_status culm_subject_open(const char *what, const struct culm_subject_options *options,
                                   struct culm_subject *subject, struct culm_error *error);
/* The same for a configuration under construction. weights may be NULL. */
enum culm_status culm_subject_open_config(const struct culm_config *config, const char *weights,
                                          struct culm_subject *subject, struct culm_error *error);
void culm_subject_close(struct culm_subject *subject);
/* Of a subject that was opened: where its inputs have changed, `error` comes to say how it is used with
 * what is there now. Returns the status. */
enum culm_status culm_subject_advise(const struct culm_subject *subject, enum culm_status status,
                                     struct culm_error *error);

/* Opens `weights`, which the subject must have, for a graph of its network. ret_note: see
 * culm_network_check_file. */
enum culm_status culm_subject_weights(const struct culm_subject *subject,
                                      const struct culm_graph *graph,
                                      struct culm_weights **ret_weights,
                                      char ret_note[CULM_NETWORK_NOTE_SIZE],
                                      struct culm_error *error);
/* Loads the subject's weights into a runner of its network. ret_note: what is to be told. Closes
 * the network's files, so all graphs should have been built before. The weights stay open until
 * culm_subject_close. */
enum culm_status culm_subject_load(struct culm_subject *subject, struct culm_runner *runner,
                                   char ret_note[CULM_NETWORK_NOTE_SIZE], struct culm_error *error);

#endif

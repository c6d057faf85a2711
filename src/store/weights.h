/*
 * Weights, wherever they are:
 *
 *     FILE.safetensors             one file
 *     NAME.safetensors.index.json  the shards that it lists: {"weight_map": {NAME: FILE, ...}}
 *     a folder                     its model.safetensors, or what its index lists, or its only
 *                                  *.safetensors, or all of NAME-00001-of-0000N.safetensors
 *     a checkpoint                 without the state of the optimizer
 *     a run                        its model.safetensors, or until it has one its newest checkpoint
 *
 * Published files call a tensor in several ways. A name is found as it is, with or without the first
 * part that published models have ("transformer.", "bert."), behind what all names of the file begin
 * with ("model.", "module."; parts without digits), and with the gamma and beta of the first layer norms.
 *
 * All numbers are given as float32 (store/safetensors.h), and are finite. Thread: constant after it
 * is opened.
 */
#ifndef CULM_STORE_WEIGHTS_H
#define CULM_STORE_WEIGHTS_H

#include "store/checkpoint.h"

struct culm_weights;

/* What is behind a path, without opening it: its kind, and where it is. */
enum culm_weights_kind {
    CULM_WEIGHTS_FILE,       /* or what cannot be told apart from one */
    CULM_WEIGHTS_SHARDS,     /* an index, or a folder */
    CULM_WEIGHTS_CHECKPOINT, /* its folder */
};
struct culm_weights_place {
    enum culm_weights_kind kind;
    char path[CULM_PATH_MAX];     /* of the file, the index, the folder or the checkpoint */
    bool newest;                  /* the newest checkpoint of a run, which was named */
    char warning[CULM_ERROR_MAX]; /* why a newer checkpoint of a run was passed over; "" */
};
/* With sealed `pins` what they have of a run, else as above. CULM_ERR_CONFIG: a folder with no
 * weights in it, or with several and no way to choose. */
enum culm_status culm_weights_locate(const char *path, const struct culm_pins *pins,
                                     struct culm_weights_place *ret_place,
                                     struct culm_error *error);
/* The folder has a manifest.json: a checkpoint; a config.yaml or checkpoints: a run. */
bool culm_weights_is_checkpoint(const char *path);
bool culm_weights_is_run(const char *path);

/* `pins` is borrowed, and what is read holds what was pinned; NULL: whatever it does. A checkpoint is
 * compared with its hashes, unless the pins are sealed. */
enum culm_status culm_weights_open(const char *path, struct culm_pins *pins,
                                   struct culm_weights **ret_weights, struct culm_error *error);
/* The same of a checkpoint that has been compared with its hashes. */
enum culm_status culm_weights_open_compared(const char *path, struct culm_weights **ret_weights,
                                            struct culm_error *error);
void culm_weights_close(struct culm_weights *weights); /* NULL is fine */

/* Where they were found: the path as it was given, or what culm_weights_locate made of it. */
const struct culm_weights_place *culm_weights_where(const struct culm_weights *weights);
/* Of a checkpoint; NULL: it is none. */
const struct culm_checkpoint_info *culm_weights_info(const struct culm_weights *weights);
size_t culm_weights_count(const struct culm_weights *weights);
/* Sorted by name, bytewise. */
const struct culm_safetensors_entry *culm_weights_at(const struct culm_weights *weights,
                                                     size_t index);
/* By a model's name for it; NULL: there is none. */
const struct culm_safetensors_entry *culm_weights_find(const struct culm_weights *weights,
                                                       const char *name);
/* Fills ret_data by a model's name. CULM_ERR_NOT_FOUND; CULM_ERR_FORMAT: another shape or dtype;
 * CULM_ERR_CONFIG: a number is not finite. */
enum culm_status culm_weights_read(const struct culm_weights *weights, const char *name, int rank,
                                   const int64_t *shape, float *ret_data, struct culm_error *error);
/* Reads all that is real: CULM_ERR_CONFIG names the first tensor that has a number that is not
 * finite. */
enum culm_status culm_weights_check_finite(const struct culm_weights *weights,
                                           struct culm_error *error);
/* Replaces `path` by one file with all tensors as F32 under the names that they have. */
enum culm_status culm_weights_export(struct culm_fs *fs, const struct culm_weights *weights,
                                     const char *path, const struct culm_metadata *metadata,
                                     size_t metadata_count, struct culm_error *error);

/* --- what a model needs ---------------------------------------------------------------------- */

struct culm_weights_need {
    const char *name;
    int rank;
    const int64_t *shape;
};

struct culm_weights_rules {
    const char *what;   /* in messages: "model.init" */
    bool all;           /* refuse weights that lack some of what is needed */
    const char *source; /* else: where what is lacking comes from, "the seed" */
    bool ignore;        /* leave out what has no place, or another shape */
    const char
        *leave; /* how a user makes it so: "set model.init_unused: ignore"; NULL: in no way */
};

/* How many tensors have no place among the needs, and are not of what published files have beside
 * their weights (masks, counters, copies of a tensor that has a place). */
enum culm_status culm_weights_idle(const struct culm_weights *weights,
                                   const struct culm_weights_need *need, size_t count,
                                   size_t *ret_idle, struct culm_error *error);

#define CULM_WEIGHTS_NOTE_SIZE 480
/* Whether they are the weights of a model that needs these; `place` are further tensors that it may
 * have. CULM_ERR_CONFIG says what is not as the rules want it: none is there, some are lacking, or
 * have another shape or no place. ret_note is one line for the user: what is lacking or left out,
 * and what was done to names and numbers; "": nothing to say. */
enum culm_status culm_weights_check(const struct culm_weights *weights,
                                    const struct culm_weights_need *need, size_t count,
                                    const struct culm_weights_need *place, size_t place_count,
                                    const struct culm_weights_rules *rules,
                                    char ret_note[CULM_WEIGHTS_NOTE_SIZE],
                                    struct culm_error *error);

#endif

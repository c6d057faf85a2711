/*
 * The manifest of a checkpoint directory, and what the names beside it mean. For this room's own
 * use.
 *
 * {"format": "culm-checkpoint-1", "step": 20, "samples": 640, "seed": "1", "signature": "...",
 *  "config": "...", "pieces": [{"file": "stage-0.safetensors", "stage": 0, "node": 3, "bytes": ...,
 *  "sha256": "...", "tensors": 21}], "inputs": {...}}
 *
 * The owner of a piece is in its file's name, and once more, as {KIND: N}, beside it.
 *
 * The seed is a string because JSON numbers do not hold 64 bits everywhere. Thread: any.
 */
#ifndef CULM_STORE_MANIFEST_H
#define CULM_STORE_MANIFEST_H

#include "store/checkpoint.h"

#include <jansson.h>

struct culm_manifest {
    struct culm_checkpoint_info info; /* texts belong to `json` */
    struct culm_piece *piece;
    size_t piece_count;
    json_t *json;
};

enum culm_status culm_manifest_write(struct culm_fs *fs, const char *dir,
                                     const struct culm_checkpoint_info *info,
                                     const struct culm_piece *pieces, size_t count,
                                     struct culm_error *error);
/* Reads DIR/manifest.json and compares the sizes of the pieces. Errors name the directory. */
enum culm_status culm_manifest_read(const char *dir, struct culm_manifest *ret_manifest,
                                    struct culm_error *error);
/* Without a look at the pieces, which may not be there yet. */
enum culm_status culm_manifest_read_alone(const char *dir, struct culm_manifest *ret_manifest,
                                          struct culm_error *error);
void culm_manifest_release(struct culm_manifest *manifest); /* fine on a zeroed struct */

/* RUN/checkpoints/PREFIXstep-%08d; prefix "" for published ones. */
enum culm_status culm_checkpoint_name(const char *run_dir, const char *prefix, int64_t step,
                                      char ret_path[CULM_PATH_MAX], struct culm_error *error);
/* True when `name` is PREFIXstep-N with at least 8 digits and nothing more. */
bool culm_checkpoint_name_is(const char *name, const char *prefix, int64_t *ret_step);

/* CULM_OK when DIR's manifest says `step` and the pieces have their sizes; hashes with `verify`. */
enum culm_status culm_checkpoint_check(const char *dir, int64_t step, bool verify,
                                       struct culm_error *error);

#define CULM_CHECKPOINT_TMP ".tmp-"        /* being written */
#define CULM_CHECKPOINT_OLD ".old-"        /* set aside while the same step is published again */
#define CULM_CHECKPOINT_TRASH ".trash-"    /* being removed */
#define CULM_CHECKPOINT_WEIGHTS "weights-" /* the weights alone */

/* Removes a published checkpoint so that no reader ever sees half of it. */
enum culm_status culm_checkpoint_remove(struct culm_fs *fs, const char *run_dir, int64_t step,
                                        struct culm_error *error);

#endif

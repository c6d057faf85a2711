/*
 * What `culm ckpt` says of tensors and does with them, beside culm/infer.h. Nothing here prints. As there:
 * what is returned by pointer lives as long as the object. Thread: the caller's.
 */
#ifndef CULM_RUN_CKPT_H
#define CULM_RUN_CKPT_H

#include "base/status.h"

#include <culm/infer.h>
#include <jansson.h>

struct culm_tensors_piece {
    const char *file, *sha256;
    uint64_t bytes, tensors;
};

struct culm_tensors_about {
    const char *path;    /* of the checkpoint or the file itself */
    const char *warning; /* why a newer checkpoint of the run was passed over; "" */
    bool checkpoint;     /* else what follows up to `pieces` is empty */
    uint64_t samples, seed;
    const char *signature, *config;
    json_t *choices; /* borrowed; NULL: none */
    size_t pieces;
    bool has_state;
    int64_t parameters;
    size_t parameter_tensors, state_tensors;
};
struct culm_tensors_about culm_tensors_describe(const struct culm_tensors *tensors);
struct culm_tensors_piece culm_tensors_piece_of(const struct culm_tensors *tensors, size_t index);
/* "F32", "F16", ... */
const char *culm_tensors_dtype(const struct culm_tensors *tensors, size_t index);
/* Hashes are defined over F32: "" where there is none. */
void culm_tensors_hashes(const struct culm_tensors *tensors, char ret_weights[65],
                         char ret_state[65]);

struct culm_weights_exported {
    size_t tensors;
    int64_t parameters;
    char path[512];               /* of the file, the index, the folder or the checkpoint */
    char warning[CULM_ERROR_MAX]; /* why a newer checkpoint of the run was passed over; "" */
};
/* Writes the weights that a path leads to (store/weights.h) as one safetensors file, F32.
 * CULM_ERR_CONFIG: there are none, a number is not finite, or `out` is not for a file, or one of a
 * run. */
enum culm_status culm_weights_to_file(const char *path, const char *out,
                                      struct culm_weights_exported *ret_exported,
                                      struct culm_error *error);

struct culm_rescued {
    int64_t step;
    char path[512]; /* of what was saved: a checkpoint, or the model of one that was saved before */
};
/* Names the folder `to`, which is made if need be, to the run at work in `dir` for the steps that it
 * holds because they find no room, and waits until they are saved. CULM_ERR_NOT_FOUND: no run is at
 * work there, it holds nothing, or it ended without saving; CULM_ERR_EXISTS: `to` is not an empty
 * folder; CULM_ERR_TIMEOUT: a minute was not enough. */
enum culm_status culm_rescue(const char *dir, const char *to, struct culm_rescued *ret_rescued,
                             struct culm_error *error);

/* --- checkpoints of a run directory, or kept apart from it (store/archive.h) --- */

/* A folder or "s3://BUCKET/PREFIX"; the others NULL: as the environment says. */
struct culm_ckpt_place {
    const char *path, *endpoint, *region;
};
/* Whether checkpoints are kept there apart from their run. */
bool culm_ckpt_is_apart(const struct culm_ckpt_place *place);

struct culm_ckpt_listed {
    int64_t step;
    uint64_t bytes;
    bool whole;
    char why[CULM_ERROR_MAX]; /* of one that is not */
};
/* All that are there, by step; the caller frees. CULM_ERR_NOT_FOUND: there is no such folder. */
enum culm_status culm_ckpt_list(const struct culm_ckpt_place *place,
                                struct culm_ckpt_listed **ret_listed, size_t *ret_count,
                                struct culm_error *error);
/* Keeps the newest whole one and those before it, `keep` (>= 1) in all; older ones go. Of a run directory CULM_ERR_EXISTS: a
 * run is at work there, and does that itself. CULM_ERR_NOT_FOUND: none is whole. */
enum culm_status culm_ckpt_prune(const struct culm_ckpt_place *place, int64_t keep,
                                 size_t *ret_removed, struct culm_error *error);

/* What `path` leads to as files: what is kept apart is fetched into a temporary folder, which release removes. */
struct culm_ckpt_files {
    char path[512];
    char folder[64];              /* "": nothing was fetched */
    char warning[CULM_ERROR_MAX]; /* why a newer one was passed over; "" */
};
/* `step`: which one; -1: the newest that is whole. */
enum culm_status culm_ckpt_fetch(const struct culm_ckpt_place *place, int64_t step,
                                 struct culm_ckpt_files *ret_files, struct culm_error *error);
void culm_ckpt_files_release(struct culm_ckpt_files *files); /* fine on a zeroed one */

struct culm_tensors_difference {
    bool differ;
    char text[512];        /* which tensor differs first, and where; one line */
    size_t weights, state; /* tensors that are equal, up to there */
};
/* Compares weights, and optimizer state where both have it; steps it does not look at. */
enum culm_status culm_tensors_differ(const struct culm_tensors *a, const struct culm_tensors *b,
                                     struct culm_tensors_difference *ret_difference,
                                     struct culm_error *error);

#endif

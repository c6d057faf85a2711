/*
 * Checkpoints: a run's state on disk, whole or absent.
 *
 *     RUN/checkpoints/step-00000020/manifest.json          what it is, pieces with size and SHA-256
 *                                   stage-0.safetensors    NAME, NAME.exp_avg, NAME.exp_avg_sq
 *                                   stage-1.safetensors
 *     RUN/checkpoints/.tmp-step-00000040/stage-1.node-4.safetensors       being written
 *     RUN/checkpoints/weights-step-00000040/...                           the weights alone
 *
 * What is saved belongs to *owners*, named KIND-N: here stages of a model, elsewhere whatever a job
 * divides its state into. Workers write pieces under the temporary name, each its own file with its
 * node id. Then the leader alone publishes: it gives the pieces their final names, adds the
 * manifest, syncs everything, and renames the directory. A crash at any point leaves the old
 * checkpoints and at most temporaries. Where a step is published again (redone after a roll-back),
 * the old directory is first set aside as `.old-step-N`, which readers accept while there is no
 * whole `step-N`.
 *
 * Tensors are found by name over all pieces, so the owners that read need not be those that wrote;
 * a tensor that several hold is stored once, by the caller's choice of owner.
 *
 * Thread: functions that write may run on any thread, one writer per file; publish, discard, prune
 * and clean on one thread of one process. An open checkpoint is constant.
 */
#ifndef CULM_STORE_CHECKPOINT_H
#define CULM_STORE_CHECKPOINT_H

#include "store/safetensors.h"

#define CULM_CHECKPOINT_FORMAT "culm-checkpoint-1"

struct culm_checkpoint_info {
    int64_t step;
    uint64_t samples; /* positions of the sample stream consumed */
    uint64_t seed;
    const char *signature;   /* of the run that wrote it; resuming under another one is the caller's
                               warning */
    const char *config;      /* YAML */
    struct json_t *choices;  /* of the plan, as in plan.json; NULL: not recorded. Publishing borrows
                               it; of an open checkpoint it belongs to that. */
    struct json_t *inputs;   /* what the run reads (store/inputs.h), in the same way */
    struct json_t *progress; /* what else the job goes on with, in the same way */
};

/* "KIND-N": up to 15 lower case letters (not "node" or another word of the manifest), and a number up
 * to 999999999. */
#define CULM_OWNER_SIZE 32

/* "stage-7" is kind "stage", number 7. False: not the name of an owner; the outputs are untouched. */
bool culm_owner_split(const char *owner, char ret_kind[CULM_OWNER_SIZE], int32_t *ret_number);

struct culm_piece {
    char owner[CULM_OWNER_SIZE];
    int32_t node;
    char file[64]; /* while temporary: "OWNER.node-K.safetensors"; then "OWNER.safetensors" */
    uint64_t bytes;
    char sha256[CULM_SHA256_HEX];
    uint64_t tensors;
};

/* ---- writing ------------------------------------------------------------------------------- */

/* Writes and syncs one owner's tensors under the temporary name; makes the directories. `hook` may
 * be NULL. Nothing is left of the file on failure. CULM_ERR_ARGUMENT: not the name of an owner. */
enum culm_status culm_checkpoint_write_piece(struct culm_fs *fs, const char *run_dir, int64_t step,
                                             const char *owner, int32_t node,
                                             const struct culm_tensor_ref *tensors, size_t count,
                                             const struct culm_write_hook *hook,
                                             struct culm_piece *ret_piece,
                                             struct culm_error *error);
/* Makes `step` durable from exactly these pieces, one an owner; temporaries of other writers go. It
 * reads back headers and sizes first, so a missing or cut piece, or a tensor stored twice, is
 * refused. On failure the checkpoint is not there (after a failing last sync of a directory it may
 * be, whole), the older ones are, and the temporaries wait for discard. */
enum culm_status culm_checkpoint_publish(struct culm_fs *fs, const char *run_dir,
                                         const struct culm_checkpoint_info *info,
                                         const struct culm_piece *pieces, size_t count,
                                         struct culm_error *error);
/* The same for pieces without the state of the optimizer, where there is no room for more: they
 * become RUN/checkpoints/weights-step-N, from which nothing can be resumed, and which goes with the
 * next prune after a step as late. Readers of weights take its path. */
enum culm_status culm_checkpoint_publish_weights(struct culm_fs *fs, const char *run_dir,
                                                 const struct culm_checkpoint_info *info,
                                                 const struct culm_piece *pieces, size_t count,
                                                 struct culm_error *error);
enum culm_status culm_checkpoint_weights_path(const char *run_dir, int64_t step,
                                              char ret_path[CULM_PATH_MAX],
                                              struct culm_error *error);
/* Gives up a checkpoint that was being written: removes its temporaries. */
enum culm_status culm_checkpoint_discard(struct culm_fs *fs, const char *run_dir, int64_t step,
                                         struct culm_error *error);
/* After `step` was published: keeps it and the newest whole ones before it, `keep` (>= 1) in all.
 * Removes the older ones, those of later steps (of a history that was rolled back because they
 * could not be read), and temporaries of `step` and before. */
enum culm_status culm_checkpoint_prune(struct culm_fs *fs, const char *run_dir, int64_t step,
                                       int64_t keep, struct culm_error *error);
/* When a run starts or resumes and nobody writes: removes every temporary, finishes what a crash
 * interrupted. A run directory without checkpoints is fine. */
enum culm_status culm_checkpoint_clean(struct culm_fs *fs, const char *run_dir,
                                       struct culm_error *error);
/* The same while `step` alone is to be written: a node that was still at an earlier one when that was
 * given up may have left its part behind. Those of `step` and later stay. */
enum culm_status culm_checkpoint_clean_before(struct culm_fs *fs, const char *run_dir, int64_t step,
                                              struct culm_error *error);

/* ---- reading ------------------------------------------------------------------------------- */

/* The newest checkpoint that is whole: manifest and sizes agree and, with `verify`, all hashes. A
 * broken one is skipped; ret_warning (may be NULL) then says why about the newest such one, and is
 * empty otherwise. CULM_ERR_NOT_FOUND when there is none, CULM_ERR_FORMAT when none is whole. */
enum culm_status culm_checkpoint_latest(const char *run_dir, bool verify, int64_t *ret_step,
                                        char ret_path[CULM_PATH_MAX],
                                        char ret_warning[CULM_ERROR_MAX], struct culm_error *error);
/* The same, of those up to `most`, with all hashes. */
enum culm_status culm_checkpoint_latest_to(const char *run_dir, int64_t most, int64_t *ret_step,
                                           char ret_path[CULM_PATH_MAX], struct culm_error *error);
/* The newest of weights alone that is of a later step than `after`, and whole. False: there is
 * none, and ret_path is untouched. */
bool culm_checkpoint_latest_weights(const char *run_dir, int64_t after,
                                    char ret_path[CULM_PATH_MAX]);
/* "RUN/checkpoints/step-00000020". */
enum culm_status culm_checkpoint_path(const char *run_dir, int64_t step,
                                      char ret_path[CULM_PATH_MAX], struct culm_error *error);

struct culm_checkpoint;

/* `path`: the checkpoint's own directory. Checks manifest, sizes and the form of every piece; with
 * `verify` also the hashes (reads all bytes). */
enum culm_status culm_checkpoint_open(const char *path, bool verify,
                                      struct culm_checkpoint **ret_checkpoint,
                                      struct culm_error *error);
/* The same; manifest and pieces hold what was pinned (base/pins.h). `pins` is borrowed; may be
 * NULL. */
enum culm_status culm_checkpoint_open_pinned(const char *path, bool verify, struct culm_pins *pins,
                                             struct culm_checkpoint **ret_checkpoint,
                                             struct culm_error *error);
void culm_checkpoint_close(struct culm_checkpoint *checkpoint); /* NULL is fine */

/* Told of bytes that were read, from time to time, by the thread that reads. */
struct culm_read_hook {
    void (*moved)(void *ctx, size_t bytes);
    void *ctx;
};
/* Compares the piece that has this tensor with its hash, the first time that one of its tensors is
 * asked for: whoever needs some pieces reads those alone. Not while another thread uses the
 * checkpoint. `hook` may be NULL. CULM_ERR_NOT_FOUND: no such tensor; CULM_ERR_FORMAT: damaged. */
enum culm_status culm_checkpoint_verify(struct culm_checkpoint *checkpoint, const char *name,
                                        const struct culm_read_hook *hook,
                                        struct culm_error *error);

/* Texts live as long as the checkpoint is open. */
const struct culm_checkpoint_info *
culm_checkpoint_info_of(const struct culm_checkpoint *checkpoint);
size_t culm_checkpoint_piece_count(const struct culm_checkpoint *checkpoint);
const struct culm_piece *culm_checkpoint_piece(const struct culm_checkpoint *checkpoint,
                                               size_t index);
size_t culm_checkpoint_count(const struct culm_checkpoint *checkpoint);
/* All tensors of all pieces, sorted by name bytewise. */
const struct culm_safetensors_entry *culm_checkpoint_at(const struct culm_checkpoint *checkpoint,
                                                        size_t index);
/* NULL: no such tensor. */
const struct culm_safetensors_entry *culm_checkpoint_find(const struct culm_checkpoint *checkpoint,
                                                          const char *name);
/* Copies an F32 tensor of exactly this shape. CULM_ERR_NOT_FOUND, or CULM_ERR_FORMAT for another
 * shape. */
enum culm_status culm_checkpoint_tensor(const struct culm_checkpoint *checkpoint, const char *name,
                                        int rank, const int64_t *shape, float *ret_data,
                                        struct culm_error *error);

/* NAME.exp_avg or NAME.exp_avg_sq. */
bool culm_checkpoint_is_state(const char *tensor_name);

/* weights: SHA-256 over the tensors that are no optimizer state, sorted by name, of name, NUL and
 * bytes. state: the same over NAME.exp_avg and NAME.exp_avg_sq (sorted by these whole names), then
 * the step as little-endian u64. */
enum culm_status culm_checkpoint_hashes(const struct culm_checkpoint *checkpoint,
                                        char ret_weights[CULM_SHA256_HEX],
                                        char ret_state[CULM_SHA256_HEX], struct culm_error *error);
/* The same over any entries sorted by name, for files that are no checkpoint. `state` chooses. */
enum culm_status culm_tensors_hash(const struct culm_safetensors_entry *const *entries,
                                   size_t count, bool state, int64_t step,
                                   char ret_hex[CULM_SHA256_HEX], struct culm_error *error);

/* Replaces `path` by the weights alone under the names they have, metadata {"format": "pt"}. */
enum culm_status culm_checkpoint_export_model(struct culm_fs *fs,
                                              const struct culm_checkpoint *checkpoint,
                                              const char *path, struct culm_error *error);

/* What a run ends with: the hashes of its last checkpoint, in the folder `path`, and its weights as
 * RUN_DIR/model.safetensors. */
enum culm_status culm_checkpoint_conclude(const char *path, const char *run_dir,
                                          char ret_weights[CULM_SHA256_HEX],
                                          char ret_state[CULM_SHA256_HEX],
                                          struct culm_error *error);

#endif

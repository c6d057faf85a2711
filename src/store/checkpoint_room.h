/*
 * Room for checkpoints: what they take, which older ones give way, and where else they may go.
 *
 * A run that has finished steps which it cannot save *holds* them: its processes keep the state, and
 * RUN/lock, which has its block already on a full disk, says so in a second line. Whoever wants may
 * then name another folder there in a third line (`culm ckpt rescue`), where the checkpoint goes; a
 * link in RUN/checkpoints leads to it.
 *
 *     4711                      the process that has the run (launch/rundir.h)
 *     holds 40 21600000         step, bytes that it needs
 *     to /mnt/other/rescued
 *
 * Thread: as in checkpoint.h, whoever publishes.
 */
#ifndef CULM_STORE_CHECKPOINT_ROOM_H
#define CULM_STORE_CHECKPOINT_ROOM_H

#include "base/room.h"
#include "store/checkpoint.h"

/* Bytes on disk of a checkpoint whose pieces have so many bytes of numbers and so many tensors, and
 * whose manifest has texts of so many bytes; a little more rather than less. */
uint64_t culm_checkpoint_room_of(uint64_t number_bytes, size_t tensors, size_t pieces,
                                 size_t text_bytes);

struct culm_checkpoint_room {
    uint64_t free_bytes; /* when others had given way */
    int64_t given_way;   /* checkpoints that were removed for it */
    bool fits;
};

/* Removes checkpoints that are older than the newest whole one, the oldest first, until `bytes` are
 * free; one at least with `one`, where a write failed though there seemed to be room. Never the
 * newest whole one. Room that cannot be looked at is enough. */
enum culm_status culm_checkpoint_make_room(struct culm_fs *fs, const char *run_dir, uint64_t bytes,
                                           bool one, struct culm_checkpoint_room *ret_room,
                                           struct culm_error *error);

/* What a run is told of its room before it starts: `checkpoint_bytes` each, `keep` of them and one
 * being written, and a model at the end. Those that are there already count as room. "": enough. */
void culm_checkpoint_room_note(const char *run_dir, uint64_t checkpoint_bytes, uint64_t model_bytes,
                               int64_t keep, char ret_note[CULM_ERROR_MAX]);

/* --- held, and asked for --- */

/* The run's: notes in RUN/lock that it holds a step; again is fine. */
enum culm_status culm_rescue_hold(const char *run_dir, int64_t step, uint64_t bytes,
                                  struct culm_error *error);
/* The folder that somebody has named since; false: none. */
bool culm_rescue_asked(const char *run_dir, char ret_to[CULM_PATH_MAX]);
/* Nothing is held any more. */
void culm_rescue_over(const char *run_dir);

/* The other side's. The step that the run holds; CULM_ERR_NOT_FOUND: none, or nobody is at work
 * there. */
enum culm_status culm_rescue_holds(const char *run_dir, int64_t *ret_step,
                                   struct culm_error *error);
#define CULM_RESCUE_PATH_MAX                                                                       \
    480 /* with its NUL; messages carry it with a checkpoint's name behind */
/* Names a folder, by an absolute path, to a run that holds a step. CULM_ERR_EXISTS: another one was
 * named already. */
enum culm_status culm_rescue_ask(const char *run_dir, const char *to, struct culm_error *error);

/* culm_checkpoint_conclude, for which older checkpoints give way. Where there is still no room for
 * the model, it goes to the folder that somebody has named; else the step is held, and the error
 * says what to do. */
enum culm_status culm_rescue_conclude(const char *path, const char *run_dir, int64_t step,
                                      char ret_weights[CULM_SHA256_HEX],
                                      char ret_state[CULM_SHA256_HEX], struct culm_error *error);

/* Looks: in the folder that somebody has named, else in the run's, where older checkpoints give
 * way; one at least with `failed`. ret_to: the folder; "": the run's. The note says what is lacking
 * and what to do. */
enum culm_room_for culm_rescue_look(const char *run_dir, const char *unit, int64_t step,
                                    uint64_t all_bytes, uint64_t weights_bytes, bool failed,
                                    char ret_to[CULM_PATH_MAX], char ret_note[CULM_ERROR_MAX]);

/* Older checkpoints give way to the next one, or do not need to. The note says so where *told is not
 * that already; "": nothing new. Returns whether there is room for it. */
bool culm_checkpoint_look_ahead(const char *run_dir, uint64_t bytes, bool failed, int *told,
                                char ret_note[CULM_ERROR_MAX]);

/* RUN/checkpoints/step-N leads to the checkpoint in the other folder. */
enum culm_status culm_rescue_link(struct culm_fs *fs, const char *run_dir, const char *to,
                                  int64_t step, struct culm_error *error);

#endif

/*
 * Control messages of training between the leader and one node: a struct each, and its encoding into a
 * frame's meta bytes.
 *
 * VIEW, COMMIT, PREPARED and DIGESTS are in message.h, WAITS in waits.h; those of any job in crew/words.h.
 * Decoders check every bound that does not depend on the run; a malformed message is
 * CULM_ERR_FORMAT, and *ret is untouched. A stage or a node that is told still has to be looked at
 * by who knows the run. Thread: none of their own.
 */
#ifndef CULM_PIPELINE_CONTROL_H
#define CULM_PIPELINE_CONTROL_H

#include "base/buf.h"
#include "crew/words.h"
#include "pipeline/exec.h"
#include "pipeline/view.h"

#define CULM_CONTROL_TEXT_MAX 1024

/* --- leader to node --- */

/* Write this stage as it is at `version`. */
struct culm_save {
    int64_t version;
    int32_t attempt; /* of a checkpoint; counts all of the run */
    int32_t stage;
    bool weights;             /* them alone, without the rest of the state */
    char to[CULM_SOURCE_MAX]; /* the folder; "": the run's */
};

/* --- node to leader --- */

/* All that the LOAD view `view` says it holds is loaded. */
struct culm_loaded {
    uint64_t view;
    int64_t version;
};

/* It cannot load the checkpoint of the LOAD view `view`. */
struct culm_unloaded {
    uint64_t view;
    enum culm_status status; /* not CULM_OK */
    char why[CULM_CONTROL_TEXT_MAX];
};

/* The whole of a transfer has come; the copy is of `version`, which is that before the iteration in progress. */
struct culm_joined {
    int64_t version;
    uint32_t transfer;
    int64_t bytes, took_ms; /* of state, and since it was first to have this copy */
};

/* What became of a SAVE. */
struct culm_saved {
    int64_t version;
    int32_t attempt, stage;
    enum culm_status status;
    char piece[CULM_PIECE_TEXT_MAX]; /* CULM_OK: what was written; else "" */
    char why[CULM_CONTROL_TEXT_MAX]; /* CULM_OK: ""; else why it was not */
};

/* Where a new owner's state is from, from the best to the worst. */
enum culm_origin {
    CULM_ORIGIN_SHADOW,     /* it was the shadow, or stood in for it */
    CULM_ORIGIN_PEER,       /* another pipeline, to which the lanes went */
    CULM_ORIGIN_CHECKPOINT, /* or the seed: everyone has loaded */
};

/* The first task at a stage that a view has given to this node is done. */
struct culm_taken_over {
    uint64_t view;
    int32_t stage;
    enum culm_origin origin;
    int64_t redone; /* tasks of the owner before that are done again */
};

/* A task found that memory of this node is not what was put there. It does nothing any more. */
struct culm_damaged {
    int64_t iteration; /* of the task */
    int32_t stage;
    char why[CULM_CONTROL_TEXT_MAX];
};

/* One pair each. */
#define CULM_CONTROL(name)                                                                         \
    void culm_##name##_encode(const struct culm_##name *name, struct culm_buf *buf);               \
    enum culm_status culm_##name##_decode(const uint8_t *meta, size_t len,                         \
                                          struct culm_##name *ret_##name);
CULM_CONTROL(save)
CULM_CONTROL(loaded)
CULM_CONTROL(unloaded)
CULM_CONTROL(joined)
CULM_CONTROL(saved)
CULM_CONTROL(taken_over)
CULM_CONTROL(damaged)
#undef CULM_CONTROL

#endif

/*
 * Messages of the protocol: their types, and a struct and an encoding into a frame's meta bytes for
 * those that nodes send each other and those that carry what an iteration comes to. The small ones
 * between a node and the leader are in control.h, those of any job in crew/words.h.
 *
 * Data frames carry a payload and are pure functions of what their meta bytes say (a key): whoever
 * sends one, and under whatever view, the bytes are the same. Control frames that depend on a view
 * carry its number and count only in it. Decoders check every bound; a malformed message is
 * CULM_ERR_FORMAT and has no effect. Thread: none of their own.
 */
#ifndef CULM_PIPELINE_MESSAGE_H
#define CULM_PIPELINE_MESSAGE_H

#include "base/bits.h"
#include "base/buf.h"
#include "crew/words.h"
#include "pipeline/view.h"

enum culm_message_type {
    /* data, node to node */
    CULM_MSG_ACTIVATION = CULM_WORD_OWN,
    CULM_MSG_GRADIENT,
    CULM_MSG_SUM,
    CULM_MSG_REDUCED,
    CULM_MSG_STATE,
    /* control, node to node */
    CULM_MSG_HAVE,
    /* control, leader to node; control.h but for the first two */
    CULM_MSG_VIEW,
    CULM_MSG_COMMIT,
    CULM_MSG_SAVE,
    CULM_MSG_SHOW, /* to one that has reported: report.h */
    /* control, node to leader; control.h but for the first three */
    CULM_MSG_PREPARED,
    CULM_MSG_DIGESTS, /* of the state that a holder has come to */
    CULM_MSG_WAITS,   /* the answer to CULM_WORD_ASK: waits.h */
    CULM_MSG_LOADED,
    CULM_MSG_UNLOADED,
    CULM_MSG_JOINED,
    CULM_MSG_SAVED,
    CULM_MSG_TAKEN_OVER,
    CULM_MSG_DAMAGED,
    CULM_MSG_REPORT, /* what it has, to a leader that takes over: report.h; to SHOW it answers VIEW, CURVE */
    CULM_MSG_CURVE, /* and from a leader to one that comes, ahead of its first view */
    /* of copies that nobody waits for (node_learn.c), node to node; the first carries a payload */
    CULM_MSG_LESSON, /* as REDUCED, to one that does not hold the stage yet */
    CULM_MSG_WANT,
    CULM_MSG_LEARN,
};

#define CULM_META_MAX (1u << 20)

/* Which life of which iteration a data frame is of; others do not count. */
struct culm_moment {
    int64_t iteration;
    uint64_t attempt; /* culm_view.attempt */
};

/* ACTIVATION: what enters `stage`. GRADIENT: of the output of `stage`. */
struct culm_boundary {
    struct culm_moment at;
    int32_t stage, micro;
};

/* SUM: of a gradient, over a node of the lane tree. */
struct culm_sum {
    struct culm_moment at;
    int32_t grad, tree_node;
};

/* REDUCED: a gradient summed over all lanes. */
struct culm_reduced {
    struct culm_moment at;
    int32_t grad;
};

/* STATE: a slice of one tensor of a stage, with its optimizer state, as it is at `version`. */
struct culm_state {
    int64_t version;
    uint32_t transfer;
    int32_t index, slice; /* of the stage's params; of that tensor */
    uint64_t digest;
};

/* WANT: the destination of a transfer asks its source for a STATE. */
struct culm_want {
    uint64_t view; /* that it is in */
    uint32_t transfer;
    int32_t index, slice;
};

/* LEARN: which gradients one that is sent copies wants as LESSON of this iteration and those that follow. A later
 * word takes the place of an earlier. */
struct culm_learn {
    uint64_t view; /* that it is in */
    int64_t got;   /* lessons that have come from the receiver of this */
    int32_t grads; /* of the run */
    uint8_t *grad; /* [grads] 1: wanted */
};

/* What a node has at the moment it entered a view: bits by micro-batch, grads and lanes. */
struct culm_have {
    uint64_t view;
    int64_t iteration;
    int32_t stages, micros, grads, lane_words;
    uint8_t *activation; /* [stages * micros] 1: ACTIVATION(stage, micro) is not needed */
    uint8_t *gradient;   /* [stages * micros] 1: GRADIENT(stage, micro) is not needed */
    uint8_t *reduced;    /* [grads] 1: REDUCED(grad) is not needed */
    uint64_t *lanes;     /* [grads * lane_words] lanes whose sums this node has as reducer of the
                            grad (base/bits.h); none once it is reduced */
};
static inline uint64_t *culm_have_lanes(const struct culm_have *have, int32_t grad) {
    return have->lanes + (size_t)grad * (size_t)have->lane_words;
}

struct culm_commit {
    uint64_t view;
    struct culm_content content;
    /* Beside it: */
    int64_t published; /* the newest checkpoint is of that version */
    struct culm_totals totals;
};

struct culm_prepared {
    uint64_t view;
    int64_t iteration;
    struct culm_stage_set stages;
    double loss;               /* valid when the last stage is in `stages` */
    int64_t samples;           /* as above */
    double weight;             /* as above: share of the rows that count */
    int32_t params, of_stages; /* of the run */
    double *norm;              /* [params] squared; NaN where this node has none */
    uint64_t *ids; /* [of_stages] of `stages`: which samples were read for it (ledger/order.h);
                      0: it reads none */
};

/* What the state of a holder is at `version`, tensor by tensor: what it stepped to, loaded or was
 * sent. Holders of a tensor at a version say the same bits, or one of them is damaged. */
struct culm_digests {
    uint64_t view;
    int64_t version;
    struct culm_stage_set stages; /* of which it tells */
    int32_t params, of_stages;    /* of the run */
    uint64_t *digest;             /* [params]; 0 where it tells of none */
};

void culm_boundary_encode(const struct culm_boundary *boundary, struct culm_buf *buf);
enum culm_status culm_boundary_decode(const uint8_t *meta, size_t len,
                                      struct culm_boundary *ret_boundary);

void culm_sum_encode(const struct culm_sum *sum, struct culm_buf *buf);
enum culm_status culm_sum_decode(const uint8_t *meta, size_t len, struct culm_sum *ret_sum);

void culm_reduced_encode(const struct culm_reduced *reduced, struct culm_buf *buf);
enum culm_status culm_reduced_decode(const uint8_t *meta, size_t len,
                                     struct culm_reduced *ret_reduced);

void culm_state_encode(const struct culm_state *state, struct culm_buf *buf);
enum culm_status culm_state_decode(const uint8_t *meta, size_t len, struct culm_state *ret_state);

void culm_want_encode(const struct culm_want *want, struct culm_buf *buf);
enum culm_status culm_want_decode(const uint8_t *meta, size_t len, struct culm_want *ret_want);

void culm_learn_encode(const struct culm_learn *learn, struct culm_buf *buf);
/* `grads` and `grad` of *ret_learn are the caller's; another count is refused. */
enum culm_status culm_learn_decode(const uint8_t *meta, size_t len, struct culm_learn *ret_learn);

enum culm_status culm_have_init(struct culm_have *have, int32_t stages, int32_t micros,
                                int32_t grads, int32_t lanes);
void culm_have_release(struct culm_have *have);
void culm_have_encode(const struct culm_have *have, struct culm_buf *buf);
/* `ret_have` is initialised with the run's sizes; others than these are refused. */
enum culm_status culm_have_decode(const uint8_t *meta, size_t len, struct culm_have *ret_have);

/* view_message.c. The view for those who know `known`: what has changed since. NULL: for those who know none. */
void culm_view_encode(const struct culm_view *view, const struct culm_view *known,
                      const struct culm_run_shape *shape, struct culm_buf *buf);
/* `known`: the view that is known here; NULL, or number 0: none. CULM_ERR_FORMAT also if the changes are to another
 * one; CULM_ERR_MEMORY. `ret_view` is one of the run, or zeroed, and not `known`. */
enum culm_status culm_view_decode(const uint8_t *meta, size_t len, const struct culm_view *known,
                                  const struct culm_run_shape *shape, struct culm_view *ret_view);

void culm_commit_encode(const struct culm_commit *commit, struct culm_buf *buf);
enum culm_status culm_commit_decode(const uint8_t *meta, size_t len,
                                    struct culm_commit *ret_commit);

void culm_prepared_encode(const struct culm_prepared *prepared, struct culm_buf *buf);
/* `params`, `of_stages`, `norm` and `ids` of *ret_prepared are the caller's; other counts are refused. */
enum culm_status culm_prepared_decode(const uint8_t *meta, size_t len,
                                      struct culm_prepared *ret_prepared);

void culm_digests_encode(const struct culm_digests *digests, struct culm_buf *buf);
/* `params`, `of_stages` and `digest` of *ret_digests are the caller's; other counts are refused. */
enum culm_status culm_digests_decode(const uint8_t *meta, size_t len,
                                     struct culm_digests *ret_digests);

#endif

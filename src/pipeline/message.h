/*
 * Messages of the protocol: their types, and a struct and an encoding into a frame's meta bytes for
 * those that nodes send each other and those that carry what an iteration comes to. The small ones
 * between a node and the coordinator are in control.h.
 *
 * Data frames carry a payload and are pure functions of their key (iteration, kind, where): whoever
 * sends one, and under whatever view, the bytes are the same. Control frames that depend on a view
 * carry its number and count only in it. Decoders check every bound; a malformed message is
 * CULM_ERR_FORMAT and has no effect. Thread: none of their own.
 */
#ifndef CULM_PIPELINE_MESSAGE_H
#define CULM_PIPELINE_MESSAGE_H

#include "base/buf.h"
#include "pipeline/view.h"

enum culm_message_type {
    /* data, node to node */
    CULM_MSG_ACTIVATION = 1, /* stage it enters, micro */
    CULM_MSG_GRADIENT,       /* of the output of `stage`, micro */
    CULM_MSG_SUM,            /* grad, tree node */
    CULM_MSG_REDUCED,        /* grad */
    CULM_MSG_STATE,          /* transfer, param index in the stage; version in `iteration` */
    /* control, node to node */
    CULM_MSG_HAVE,
    /* control, coordinator to node; control.h but for the first two */
    CULM_MSG_VIEW,
    CULM_MSG_COMMIT,
    CULM_MSG_SAVE,
    CULM_MSG_FENCED,
    CULM_MSG_END, /* without content: the run is over */
    CULM_MSG_ASK,
    /* control, node to coordinator; control.h but for the first three */
    CULM_MSG_PREPARED,
    CULM_MSG_DIGESTS, /* of the state that a holder has come to */
    CULM_MSG_WAITS,   /* the answer to ASK: waits.h */
    CULM_MSG_HEARTBEAT,
    CULM_MSG_TOOK,
    CULM_MSG_LOADED,
    CULM_MSG_UNLOADED,
    CULM_MSG_JOINED,
    CULM_MSG_SAVED,
    CULM_MSG_TAKEN_OVER,
    CULM_MSG_PEER_LOST,
    CULM_MSG_FAILED,
    CULM_MSG_DAMAGED,
};

#define CULM_META_MAX (1u << 20)

/* Key of a data frame. */
struct culm_data_key {
    int64_t iteration;
    int32_t where;    /* stage; grad; or index of the param */
    int32_t which;    /* micro; tree node; or transfer id */
    uint32_t attempt; /* at the iteration: culm_view.attempt */
    uint64_t digest;  /* STATE only */
};

/* What a node has at the moment it entered a view: bits by micro-batch, grads and lanes. */
struct culm_have {
    uint64_t view;
    int64_t iteration;
    int32_t stages, micros, grads;
    uint8_t *activation; /* [stages * micros] 1: ACTIVATION(stage, micro) is not needed */
    uint8_t *gradient;   /* [stages * micros] 1: GRADIENT(stage, micro) is not needed */
    uint8_t *reduced;    /* [grads] 1: REDUCED(grad) is not needed */
    uint64_t *lanes;     /* [grads] lanes whose sums this node has as reducer of the grad */
};

struct culm_commit {
    uint64_t view;
    int64_t iteration;
    double clip, loss;
};

struct culm_prepared {
    uint64_t view;
    int64_t iteration;
    uint64_t stages;
    double loss;     /* valid when the last stage is in `stages` */
    int64_t samples; /* as above */
    double weight;   /* as above: share of the rows that count */
    int32_t params;
    double *norm;                  /* [params] squared; NaN where this node has none */
    uint64_t ids[CULM_MAX_STAGES]; /* of `stages`: which samples were read for it (ledger/order.h);
                                      0: it reads none */
};

/* What the state of a holder is at `version`, tensor by tensor: what it stepped to, loaded or was
 * sent. Holders of a tensor at a version say the same bits, or one of them is damaged. */
struct culm_digests {
    uint64_t view;
    int64_t version;
    uint64_t stages; /* of which it tells */
    int32_t params;
    uint64_t *digest; /* [params]; 0 where it tells of none */
};

void culm_data_key_encode(const struct culm_data_key *key, struct culm_buf *buf);
enum culm_status culm_data_key_decode(const uint8_t *meta, size_t len,
                                      struct culm_data_key *ret_key);

enum culm_status culm_have_init(struct culm_have *have, int32_t stages, int32_t micros,
                                int32_t grads);
void culm_have_release(struct culm_have *have);
void culm_have_encode(const struct culm_have *have, struct culm_buf *buf);
/* `ret_have` is initialised with the run's sizes; others than these are refused. */
enum culm_status culm_have_decode(const uint8_t *meta, size_t len, struct culm_have *ret_have);

void culm_view_encode(const struct culm_view *view, struct culm_buf *buf);
enum culm_status culm_view_decode(const uint8_t *meta, size_t len,
                                  const struct culm_run_shape *shape, struct culm_view *ret_view);

void culm_commit_encode(const struct culm_commit *commit, struct culm_buf *buf);
enum culm_status culm_commit_decode(const uint8_t *meta, size_t len,
                                    struct culm_commit *ret_commit);

void culm_prepared_encode(const struct culm_prepared *prepared, struct culm_buf *buf);
/* `ret_prepared->params` and `norm` are the caller's; another count is refused. */
enum culm_status culm_prepared_decode(const uint8_t *meta, size_t len,
                                      struct culm_prepared *ret_prepared);

void culm_digests_encode(const struct culm_digests *digests, struct culm_buf *buf);
/* `ret_digests->params` and `digest` are the caller's; another count is refused. */
enum culm_status culm_digests_decode(const uint8_t *meta, size_t len,
                                     struct culm_digests *ret_digests);

#endif

/*
 * WAITS: what a node has and has not, said when the leader asks why nothing moves.
 *
 * It is a HAVE with what a HAVE leaves out: whose HAVE has not come, and which lanes are summed.
 * Encoded into meta bytes; decoders check every bound. Thread: none of its own.
 */
#ifndef CULM_PIPELINE_WAITS_H
#define CULM_PIPELINE_WAITS_H

#include "pipeline/message.h"

struct culm_waits {
    uint64_t question;    /* of the ASK that it answers */
    uint64_t *lanes_done; /* [stages * lane_words] lanes whose sums are whole (base/bits.h) */
    int32_t deaf_count, deaf_capacity;
    int32_t *deaf;         /* peers whose HAVE of this view has not come */
    struct culm_have have; /* owned; view and iteration too */
};

static inline uint64_t *culm_waits_lanes(const struct culm_waits *waits, int32_t stage) {
    return waits->lanes_done + (size_t)stage * (size_t)waits->have.lane_words;
}

/* NULL: out of memory. */
struct culm_waits *culm_waits_new(int32_t stages, int32_t micros, int32_t grads, int32_t lanes);
void culm_waits_free(struct culm_waits *waits); /* NULL is fine */
/* One more that has not come. False: out of memory. */
bool culm_waits_add_deaf(struct culm_waits *waits, int32_t node);
/* `have` is encoded in place of waits->have. */
void culm_waits_encode(const struct culm_waits *waits, const struct culm_have *have,
                       struct culm_buf *buf);
/* `ret_waits` has the sizes of the run; others are refused. CULM_ERR_FORMAT, CULM_ERR_MEMORY. */
enum culm_status culm_waits_decode(const uint8_t *meta, size_t len, struct culm_waits *ret_waits);

#endif

/*
 * WAITS: what a node has and has not, said when the coordinator asks why nothing moves.
 *
 * It is a HAVE with what a HAVE leaves out: whose HAVE has not come, and which lanes are summed.
 * Encoded into meta bytes; decoders check every bound. Thread: none of its own.
 */
#ifndef CULM_PIPELINE_WAITS_H
#define CULM_PIPELINE_WAITS_H

#include "pipeline/message.h"

struct culm_waits {
    uint64_t question;                    /* of the ASK that it answers */
    uint64_t lanes_done[CULM_MAX_STAGES]; /* lanes whose sums are whole, by stage */
    int32_t deaf_count;
    int32_t deaf[CULM_MAX_NODES]; /* peers whose HAVE of this view has not come */
    struct culm_have have;        /* owned; view and iteration too */
};

/* NULL: out of memory. */
struct culm_waits *culm_waits_new(int32_t stages, int32_t micros, int32_t grads);
void culm_waits_free(struct culm_waits *waits); /* NULL is fine */
/* `have` is encoded in place of waits->have. */
void culm_waits_encode(const struct culm_waits *waits, const struct culm_have *have,
                       struct culm_buf *buf);
/* `ret_waits` has the sizes of the run; others are refused. */
enum culm_status culm_waits_decode(const uint8_t *meta, size_t len, struct culm_waits *ret_waits);

#endif

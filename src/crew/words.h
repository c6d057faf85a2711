/*
 * Messages that are of no job: between a leader and any of its nodes. A struct each, and its encoding into a
 * frame's meta bytes.
 *
 * HEARTBEAT and TOOK are in pulse.h. What a node answers to ASK is its protocol's own.
 * Decoders check every bound that does not depend on the run; a malformed message is CULM_ERR_FORMAT, and
 * *ret is untouched. Thread: none of their own.
 */
#ifndef CULM_CREW_WORDS_H
#define CULM_CREW_WORDS_H

#include "base/buf.h"
#include "base/status.h"

enum culm_word {
    /* leader to node */
    CULM_WORD_ASK = 1,
    CULM_WORD_FENCED,
    CULM_WORD_END, /* the run is over: leave */
    /* node to leader */
    CULM_WORD_HEARTBEAT,
    CULM_WORD_TOOK,
    CULM_WORD_PEER_LOST,
    CULM_WORD_FAILED,
    CULM_WORD_NOTICE,
    /* leader to node */
    CULM_WORD_RELEASED, /* it may end, as it asked; empty */
    CULM_WORD_OWN = 16, /* a protocol's own messages begin here */
};

/* Nothing moves: what have you? */
struct culm_ask {
    uint64_t question;
};

/* The run is over. */
struct culm_end {
    int32_t code; /* what its launcher ends with: 0 to 255 */
};

/* The node was put out of the run, and ends. */
struct culm_fenced {
    char why[CULM_ERROR_MAX];
};

/* The connection to a peer has ended, or cannot be had. */
struct culm_peer_lost {
    int32_t node;
};

/* It cannot go on, and ends. */
struct culm_failed {
    enum culm_status status; /* not CULM_OK */
    char why[CULM_ERROR_MAX];
};

/* It is to end, and asks to be let go first. */
struct culm_notice {
    int64_t within_ms; /* after which it ends in any case; 0 or more */
};

/* For decoders: a number in [low, high], a status, one of something that went wrong; anything else fails
 * the reader. */
int32_t culm_read_within(struct culm_reader *in, int32_t low, int32_t high);
enum culm_status culm_read_status(struct culm_reader *in);
enum culm_status culm_read_failure(struct culm_reader *in);

/* One pair each. */
#define CULM_WORD(name)                                                                            \
    void culm_##name##_encode(const struct culm_##name *name, struct culm_buf *buf);               \
    enum culm_status culm_##name##_decode(const uint8_t *meta, size_t len,                         \
                                          struct culm_##name *ret_##name);
CULM_WORD(ask)
CULM_WORD(end)
CULM_WORD(fenced)
CULM_WORD(peer_lost)
CULM_WORD(failed)
CULM_WORD(notice)
#undef CULM_WORD

#endif

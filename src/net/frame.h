/*
 * Frames: how a message looks on a byte stream.
 *
 *     magic u32 | type u16 | zero u16 | meta_bytes u32 | header's checksum u32 |
 *     payload_bytes u64 | checksum u64 of what follows | meta | payload
 *     ──────────── 32 bytes, little-endian ───────────
 *
 * A frame that was damaged on its way is refused (base/checksum.h): the sums that sockets and
 * networks keep are 16 or 32 bits, or none at all, and training would go on with the damage. The
 * header has a sum of its own, so that a damaged length is not waited for.
 * The reader takes the stream in chunks of any size. The limits are checked as soon as the header
 * is whole, before anything is allocated, so that the other side cannot make us take more than
 * meta_max + payload_max bytes. A payload goes into a blob of the reader's pool; its bytes may be
 * received straight into that blob (culm_frame_reader_space). After an error the stream is lost:
 * there is no way to find the next frame. Thread: none of their own.
 */
#ifndef CULM_NET_FRAME_H
#define CULM_NET_FRAME_H

#include "base/checksum.h"
#include "net/world.h"

#define CULM_FRAME_MAGIC 0x6d6c7543u /* "Culm" */
#define CULM_FRAME_HEADER_BYTES 32
#define CULM_FRAME_META_MAX (1u << 20)

/* Reads meta and payload. */
void culm_frame_header_encode(const struct culm_message *message,
                              uint8_t ret_header[CULM_FRAME_HEADER_BYTES]);

/* Puts right the header's own checksum; for tests that change one. */
void culm_frame_header_seal(uint8_t header[CULM_FRAME_HEADER_BYTES]);

struct culm_frame_reader {
    struct culm_blob_pool *pool; /* borrowed */
    size_t meta_max, payload_max;
    uint8_t header[CULM_FRAME_HEADER_BYTES];
    size_t header_got, meta_got, payload_got;
    uint8_t *meta;
    size_t meta_capacity;
    struct culm_message message; /* of the frame in progress; owns its payload */
    bool header_done, complete;
    uint64_t wanted;          /* checksum */
    struct culm_checksum sum; /* of meta and payload, as far as they came */
};

/* meta_max: at most CULM_FRAME_META_MAX. payload_max 0: frames have no payload. */
void culm_frame_reader_init(struct culm_frame_reader *reader, struct culm_blob_pool *pool,
                            size_t meta_max, size_t payload_max);
void culm_frame_reader_release(struct culm_frame_reader *reader);

/* Takes bytes until one frame is whole or none are left. *ret_message is that frame or NULL; it is
 * valid until the next call on the reader. CULM_ERR_FORMAT: not a frame, damaged, or over a limit;
 * CULM_ERR_MEMORY: the pool is exhausted. Both end the stream. */
enum culm_status culm_frame_reader_feed(struct culm_frame_reader *reader, const uint8_t *data,
                                        size_t len, size_t *ret_used,
                                        const struct culm_message **ret_message,
                                        struct culm_error *error);
/* How many bytes may be read without any of the frame after the one in progress; at least 1. More are
 * wanted when they have come, unless a frame is whole then. */
size_t culm_frame_reader_wants(const struct culm_frame_reader *reader);
/* Where the rest of the payload in progress may be written; 0 bytes when none is in progress. */
size_t culm_frame_reader_space(struct culm_frame_reader *reader, uint8_t **ret_at);
/* `len` bytes were written there. *ret_message: the frame that this completes, or NULL; valid as
 * above. CULM_ERR_FORMAT: as above. */
enum culm_status culm_frame_reader_wrote(struct culm_frame_reader *reader, size_t len,
                                         const struct culm_message **ret_message,
                                         struct culm_error *error);

#endif

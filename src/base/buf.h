/*
 * Growable byte buffers with a mandatory maximum, and a bounds-checked little-endian reader over
 * bytes.
 *
 * Writers: an append past `max_bytes`, or out of memory, sets `failed` and changes nothing more;
 * check it once at the end. Readers: a read past the end sets `failed` and yields zeros; check it
 * once at the end. So encoders and decoders are straight lines without a branch per field. Thread:
 * none of their own.
 */
#ifndef CULM_BASE_BUF_H
#define CULM_BASE_BUF_H

#include "base/status.h"

struct culm_buf {
    uint8_t *data;
    size_t len, capacity, max_bytes;
    bool failed;
};

void culm_buf_init(struct culm_buf *buf, size_t max_bytes);
void culm_buf_release(struct culm_buf *buf);
void culm_buf_clear(struct culm_buf *buf); /* len = 0, failed = false; keeps the memory */
void culm_buf_bytes(struct culm_buf *buf, const void *data, size_t len);
void culm_buf_printf(struct culm_buf *buf, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void culm_buf_u8(struct culm_buf *buf, uint8_t value);
void culm_buf_u32(struct culm_buf *buf, uint32_t value);
void culm_buf_u64(struct culm_buf *buf, uint64_t value);
void culm_buf_i32(struct culm_buf *buf, int32_t value);
void culm_buf_f64(struct culm_buf *buf, double value);
/* Seven bits a byte, the lowest first: the smaller, the shorter. */
void culm_buf_varint(struct culm_buf *buf, uint64_t value);
void culm_buf_string(struct culm_buf *buf, const char *text); /* u32 length, bytes */
/* Ends what was written with a NUL and hands it over: the caller frees it. NULL when anything
 * failed. The buffer is as after init. */
char *culm_buf_take_text(struct culm_buf *buf);

struct culm_reader {
    const uint8_t *data;
    size_t len, at;
    bool failed;
};

struct culm_reader culm_reader_of(const void *data, size_t len);
uint8_t culm_read_u8(struct culm_reader *reader);
uint32_t culm_read_u32(struct culm_reader *reader);
uint64_t culm_read_u64(struct culm_reader *reader);
int32_t culm_read_i32(struct culm_reader *reader);
/* A u64 that counts something: above CULM_COUNT_MAX fails the reader, so that those of all nodes can be
 * added up. */
#define CULM_COUNT_MAX (UINT64_C(1) << 48)
int64_t culm_read_count(struct culm_reader *reader);
double culm_read_f64(struct culm_reader *reader);
/* As culm_buf_varint writes it; one that is longer than it need be, or above `most`, fails the reader. */
uint64_t culm_read_varint(struct culm_reader *reader, uint64_t most);
void culm_read_bytes(struct culm_reader *reader, void *ret_data, size_t len);
/* Copies at most size-1 bytes and a NUL; a longer string fails the reader. */
void culm_read_string(struct culm_reader *reader, char *ret_text, size_t size);
/* True when nothing failed and every byte was read. */
bool culm_reader_done(const struct culm_reader *reader);

#endif

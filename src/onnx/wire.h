/*
 * The wire format of protocol buffers, as far as ONNX needs it: a cursor over borrowed bytes that
 * yields field after field, and a writer into a growable buffer.
 *
 * A field is a number and one of four kinds: a varint, 4 bytes, 8 bytes, or a run of bytes (a
 * string, a message, packed numbers). Nothing is copied and there is no recursion, so reading costs
 * no memory. A read past the end, field number 0 or a group sets `failed`, and `at` is where; check
 * it once, after culm_wire_next has returned false.
 *
 * Thread: any; a cursor belongs to one thread at a time.
 */
#ifndef CULM_ONNX_WIRE_H
#define CULM_ONNX_WIRE_H

#include "base/buf.h"

enum culm_wire_kind {
    CULM_WIRE_VARINT = 0,
    CULM_WIRE_FIXED64 = 1,
    CULM_WIRE_BYTES = 2,
    CULM_WIRE_FIXED32 = 5
};

struct culm_wire {
    const uint8_t *at, *end;
    bool failed;
};

struct culm_wire_field {
    uint32_t number;
    enum culm_wire_kind kind;
    uint64_t value;      /* VARINT; the bits of FIXED32 and FIXED64 */
    const uint8_t *data; /* BYTES */
    size_t len;
};

struct culm_wire culm_wire_of(const void *data, size_t len);
/* The next field. False at the end, or after a failure. */
bool culm_wire_next(struct culm_wire *wire, struct culm_wire_field *ret_field);
/* The next varint of a packed run; 0 after a failure. */
uint64_t culm_wire_varint(struct culm_wire *wire);
/* The message inside a BYTES field. */
struct culm_wire culm_wire_inside(const struct culm_wire_field *field);
float culm_wire_float(uint64_t bits);

void culm_wire_put_varint(struct culm_buf *buf, uint32_t number, uint64_t value);
void culm_wire_put_float(struct culm_buf *buf, uint32_t number, float value);
void culm_wire_put_bytes(struct culm_buf *buf, uint32_t number, const void *data, size_t len);
void culm_wire_put_text(struct culm_buf *buf, uint32_t number, const char *text);
/* The head of a BYTES field; the caller appends its `len` bytes. */
void culm_wire_put_head(struct culm_buf *buf, uint32_t number, uint64_t len);

#endif

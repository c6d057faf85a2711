/* The wire format of protocol buffers. See wire.h. */
#include "onnx/wire.h"

#include <string.h>

struct culm_wire culm_wire_of(const void *data, size_t len) {
    static const uint8_t none[1];
    const uint8_t *at = data ? data : none;
    return (struct culm_wire){.at = at, .end = at + len};
}

uint64_t culm_wire_varint(struct culm_wire *wire) {
    uint64_t value = 0;
    const uint8_t *at = wire->at;
    for (int shift = 0; shift < 70 && !wire->failed; shift += 7) {
        if (at == wire->end) {
            break;
        }
        uint8_t byte = *at++;
        if (shift == 63 && byte > 1) {
            break;
        }
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            wire->at = at;
            return value;
        }
    }
    wire->failed = true;
    return 0;
}

static bool take(struct culm_wire *wire, uint64_t len, const uint8_t **ret_data) {
    if (wire->failed || len > (uint64_t)(wire->end - wire->at)) {
        wire->failed = true;
        return false;
    }
    *ret_data = wire->at;
    wire->at += len;
    return true;
}

bool culm_wire_next(struct culm_wire *wire, struct culm_wire_field *ret_field) {
    if (wire->failed || wire->at == wire->end) {
        return false;
    }
    const uint8_t *start = wire->at, *data;
    uint64_t key = culm_wire_varint(wire);
    *ret_field = (struct culm_wire_field){.number = (uint32_t)(key >> 3)};
    if (wire->failed || key >> 32 || key >> 3 == 0) {
        wire->at = start;
        wire->failed = true;
        return false;
    }
    switch (key & 7) {
    case CULM_WIRE_VARINT: ret_field->value = culm_wire_varint(wire); break;
    case CULM_WIRE_FIXED64:
        if (take(wire, 8, &data)) {
            memcpy(&ret_field->value, data, 8);
        }
        break;
    case CULM_WIRE_BYTES:
        ret_field->len = culm_wire_varint(wire);
        take(wire, ret_field->len, &ret_field->data);
        break;
    case CULM_WIRE_FIXED32:
        if (take(wire, 4, &data)) {
            uint32_t bits;
            memcpy(&bits, data, 4);
            ret_field->value = bits;
        }
        break;
    default: wire->failed = true; break;
    }
    ret_field->kind = (enum culm_wire_kind)(key & 7);
    if (wire->failed) {
        wire->at = start;
    }
    return !wire->failed;
}

struct culm_wire culm_wire_inside(const struct culm_wire_field *field) {
    return culm_wire_of(field->data, field->kind == CULM_WIRE_BYTES ? field->len : 0);
}

float culm_wire_float(uint64_t bits) {
    uint32_t low = (uint32_t)bits;
    float value;
    memcpy(&value, &low, 4);
    return value;
}

static void put_raw_varint(struct culm_buf *buf, uint64_t value) {
    uint8_t bytes[10];
    size_t len = 0;
    for (; value >= 0x80; value >>= 7) {
        bytes[len++] = (uint8_t)(value | 0x80);
    }
    bytes[len++] = (uint8_t)value;
    culm_buf_bytes(buf, bytes, len);
}

void culm_wire_put_varint(struct culm_buf *buf, uint32_t number, uint64_t value) {
    put_raw_varint(buf, (uint64_t)number << 3 | CULM_WIRE_VARINT);
    put_raw_varint(buf, value);
}

void culm_wire_put_float(struct culm_buf *buf, uint32_t number, float value) {
    put_raw_varint(buf, (uint64_t)number << 3 | CULM_WIRE_FIXED32);
    culm_buf_bytes(buf, &value, 4);
}

void culm_wire_put_head(struct culm_buf *buf, uint32_t number, uint64_t len) {
    put_raw_varint(buf, (uint64_t)number << 3 | CULM_WIRE_BYTES);
    put_raw_varint(buf, len);
}

void culm_wire_put_bytes(struct culm_buf *buf, uint32_t number, const void *data, size_t len) {
    culm_wire_put_head(buf, number, len);
    culm_buf_bytes(buf, data, len);
}

void culm_wire_put_text(struct culm_buf *buf, uint32_t number, const char *text) {
    culm_wire_put_bytes(buf, number, text, strlen(text));
}

/* Growable buffers and the reader. Little-endian on every machine. */
#include "base/buf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void culm_buf_init(struct culm_buf *buf, size_t max_bytes) {
    *buf = (struct culm_buf){.max_bytes = max_bytes};
}

void culm_buf_release(struct culm_buf *buf) {
    free(buf->data);
    culm_buf_init(buf, buf->max_bytes);
}

char *culm_buf_take_text(struct culm_buf *buf) {
    culm_buf_u8(buf, 0);
    char *text = buf->failed ? NULL : (char *)buf->data;
    if (text) {
        buf->data = NULL;
    }
    culm_buf_release(buf);
    return text;
}

void culm_buf_clear(struct culm_buf *buf) {
    buf->len = 0;
    buf->failed = false;
}

/* Makes room for `more` bytes and returns where they go, or NULL. */
static uint8_t *grow(struct culm_buf *buf, size_t more) {
    if (buf->failed || more > buf->max_bytes - buf->len) {
        buf->failed = true;
        return NULL;
    }
    size_t need = buf->len + more;
    if (need > buf->capacity) {
        size_t capacity = buf->capacity ? buf->capacity : 64;
        while (capacity < need) {
            capacity *= 2;
        }
        uint8_t *data = realloc(buf->data, capacity);
        if (!data) {
            buf->failed = true;
            return NULL;
        }
        buf->data = data;
        buf->capacity = capacity;
    }
    uint8_t *at = buf->data + buf->len;
    buf->len = need;
    return at;
}

void culm_buf_bytes(struct culm_buf *buf, const void *data, size_t len) {
    uint8_t *at = grow(buf, len);
    if (at && len) {
        memcpy(at, data, len);
    }
}

void culm_buf_printf(struct culm_buf *buf, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int wanted = vsnprintf(NULL, 0, format, args);
    va_end(args);
    uint8_t *at = wanted < 0 ? NULL : grow(buf, (size_t)wanted + 1);
    if (at) {
        vsnprintf((char *)at, (size_t)wanted + 1, format, again);
        buf->len--; /* the NUL stays behind the text, uncounted */
    }
    va_end(again);
}

static void put(struct culm_buf *buf, uint64_t value, size_t bytes) {
    uint8_t *at = grow(buf, bytes);
    for (size_t i = 0; at && i < bytes; i++) {
        at[i] = (uint8_t)(value >> (8 * i));
    }
}

void culm_buf_u8(struct culm_buf *buf, uint8_t value) { put(buf, value, 1); }
void culm_buf_u32(struct culm_buf *buf, uint32_t value) { put(buf, value, 4); }
void culm_buf_u64(struct culm_buf *buf, uint64_t value) { put(buf, value, 8); }
void culm_buf_i32(struct culm_buf *buf, int32_t value) { put(buf, (uint32_t)value, 4); }

void culm_buf_f64(struct culm_buf *buf, double value) {
    uint64_t bits;
    memcpy(&bits, &value, 8);
    put(buf, bits, 8);
}

void culm_buf_varint(struct culm_buf *buf, uint64_t value) {
    for (; value > 0x7f; value >>= 7) {
        culm_buf_u8(buf, (uint8_t)(0x80 | (value & 0x7f)));
    }
    culm_buf_u8(buf, (uint8_t)value);
}

void culm_buf_string(struct culm_buf *buf, const char *text) {
    size_t len = strlen(text);
    culm_buf_u32(buf, (uint32_t)len);
    culm_buf_bytes(buf, text, len);
}

struct culm_reader culm_reader_of(const void *data, size_t len) {
    return (struct culm_reader){.data = data, .len = len};
}

static const uint8_t *take(struct culm_reader *reader, size_t bytes) {
    if (reader->failed || bytes > reader->len - reader->at) {
        reader->failed = true;
        return NULL;
    }
    const uint8_t *at = reader->data + reader->at;
    reader->at += bytes;
    return at;
}

static uint64_t get(struct culm_reader *reader, size_t bytes) {
    const uint8_t *at = take(reader, bytes);
    uint64_t value = 0;
    for (size_t i = 0; at && i < bytes; i++) {
        value |= (uint64_t)at[i] << (8 * i);
    }
    return value;
}

uint8_t culm_read_u8(struct culm_reader *reader) { return (uint8_t)get(reader, 1); }
uint32_t culm_read_u32(struct culm_reader *reader) { return (uint32_t)get(reader, 4); }
uint64_t culm_read_u64(struct culm_reader *reader) { return get(reader, 8); }
int32_t culm_read_i32(struct culm_reader *reader) { return (int32_t)(uint32_t)get(reader, 4); }

int64_t culm_read_count(struct culm_reader *reader) {
    uint64_t value = culm_read_u64(reader);
    if (value > CULM_COUNT_MAX) {
        reader->failed = true;
        return 0;
    }
    return (int64_t)value;
}

double culm_read_f64(struct culm_reader *reader) {
    uint64_t bits = get(reader, 8);
    double value;
    memcpy(&value, &bits, 8);
    return value;
}

uint64_t culm_read_varint(struct culm_reader *reader, uint64_t most) {
    uint64_t value = 0;
    uint8_t byte = 0x80;
    for (int shift = 0; byte & 0x80; shift += 7) {
        byte = culm_read_u8(reader);
        const uint64_t bits = byte & 0x7f;
        reader->failed |= shift > 63 || (shift == 63 && bits > 1) || (shift > 0 && byte == 0);
        if (reader->failed) {
            return 0;
        }
        value |= bits << shift;
    }
    reader->failed |= value > most;
    return reader->failed ? 0 : value;
}

void culm_read_bytes(struct culm_reader *reader, void *ret_data, size_t len) {
    const uint8_t *at = take(reader, len);
    if (at && len) {
        memcpy(ret_data, at, len);
    } else if (len) {
        memset(ret_data, 0, len);
    }
}

void culm_read_string(struct culm_reader *reader, char *ret_text, size_t size) {
    uint32_t len = culm_read_u32(reader);
    if (len >= size) {
        reader->failed = true;
    }
    ret_text[0] = '\0';
    const uint8_t *at = reader->failed ? NULL : take(reader, len);
    if (at) {
        memcpy(ret_text, at, len);
        ret_text[len] = '\0';
    }
}

bool culm_reader_done(const struct culm_reader *reader) {
    return !reader->failed && reader->at == reader->len;
}

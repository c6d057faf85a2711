/* What the fuzz targets of messages share: the first byte chooses the decoder, and one message has one form. */
#ifndef CULM_TESTS_FUZZ_MESSAGES_H
#define CULM_TESTS_FUZZ_MESSAGES_H

#include "fuzz.h"

#include "base/buf.h"

#include <stdlib.h>
#include <string.h>

/* Of one kind of message: what is decoded of these bytes is written into the buffer. */
typedef void fuzz_decoder(const uint8_t *data, size_t size, struct culm_buf *buf);

/* The bytes written are those read. */
static inline void require_same(const struct culm_buf *buf, const uint8_t *data, size_t size) {
    FUZZ_REQUIRE(!buf->failed && buf->len == size && !memcmp(buf->data, data, size),
                 "%zu bytes became %zu", size, buf->len);
}

static inline int fuzz_message(const uint8_t *data, size_t size, fuzz_decoder *const *decoder,
                               size_t count, size_t meta_max) {
    if (size == 0) {
        return 0;
    }
    struct culm_buf buf;
    culm_buf_init(&buf, meta_max);
    uint8_t *exact = malloc(size); /* so that a sanitizer sees the first byte past the end */
    if (exact) {
        memcpy(exact, data + 1, size - 1);
        decoder[data[0] % count](exact, size - 1, &buf);
    }
    free(exact);
    culm_buf_release(&buf);
    return 0;
}

#endif

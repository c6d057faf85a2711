/* What any decoder of a message must stand: every cut, one byte more, and noise. */
#ifndef CULM_TESTS_PIPELINE_DECODERS_H
#define CULM_TESTS_PIPELINE_DECODERS_H

#include "base/buf.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef enum culm_status (*decode_fn)(const uint8_t *meta, size_t len);

/* Every proper prefix, and one byte more, are refused. From a copy of exact size, so that reading
 * past the end is seen by a sanitizer. */
static inline void check_cuts(const struct culm_buf *buf, decode_fn decode) {
    assert_false(buf->failed);
    for (size_t len = 0; len <= buf->len + 1; len++) {
        uint8_t *copy = calloc(len ? len : 1, 1);
        assert_non_null(copy);
        memcpy(copy, buf->data, len < buf->len ? len : buf->len);
        enum culm_status status = decode(copy, len);
        free(copy);
        assert_int_equal(status, len == buf->len ? CULM_OK : CULM_ERR_FORMAT);
    }
}

static inline void check_noise(const struct culm_buf *buf, decode_fn decode, uint64_t seed) {
    uint64_t random = culm_rng_mix(seed, buf->len);
    for (int round = 0; round < 3000; round++) {
        size_t len = culm_rng_below(&random, buf->len + 9);
        uint8_t *noise = malloc(len + 1);
        assert_non_null(noise);
        bool wild = culm_rng_below(&random, 2);
        for (size_t i = 0; i < len; i++) {
            noise[i] = wild || i >= buf->len ? (uint8_t)culm_rng_next(&random) : buf->data[i];
        }
        for (int k = 0; k < 4 && len; k++) {
            noise[culm_rng_below(&random, len)] = (uint8_t)culm_rng_next(&random);
        }
        (void)decode(noise, len); /* whatever it says, it reads and writes inside its room */
        free(noise);
    }
}

#endif

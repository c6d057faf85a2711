/* Encoding and decoding of WAITS. See waits.h. */
#include "pipeline/waits.h"

#include "base/grow.h"

#include <stdlib.h>

struct culm_waits *culm_waits_new(int32_t stages, int32_t micros, int32_t grads, int32_t lanes) {
    struct culm_waits *waits = calloc(1, sizeof *waits);
    if (waits && culm_have_init(&waits->have, stages, micros, grads, lanes) == CULM_OK) {
        waits->lanes_done =
            calloc((size_t)stages * (size_t)waits->have.lane_words, sizeof *waits->lanes_done);
    }
    if (!waits || !waits->lanes_done) {
        culm_waits_free(waits);
        return NULL;
    }
    return waits;
}

void culm_waits_free(struct culm_waits *waits) {
    if (waits) {
        culm_have_release(&waits->have);
        free(waits->lanes_done);
        free(waits->deaf);
        free(waits);
    }
}

bool culm_waits_add_deaf(struct culm_waits *waits, int32_t node) {
    if (!CULM_GROW(waits->deaf, waits->deaf_capacity, waits->deaf_count + 1)) {
        return false;
    }
    waits->deaf[waits->deaf_count++] = node;
    return true;
}

void culm_waits_encode(const struct culm_waits *waits, const struct culm_have *have,
                       struct culm_buf *buf) {
    culm_buf_u64(buf, waits->question);
    culm_buf_i32(buf, have->stages);
    for (int32_t i = 0; i < have->stages * have->lane_words; i++) {
        culm_buf_u64(buf, waits->lanes_done[i]);
    }
    culm_buf_i32(buf, waits->deaf_count);
    for (int32_t i = 0; i < waits->deaf_count; i++) {
        culm_buf_i32(buf, waits->deaf[i]);
    }
    culm_have_encode(have, buf);
}

enum culm_status culm_waits_decode(const uint8_t *meta, size_t len, struct culm_waits *ret_waits) {
    struct culm_reader in = culm_reader_of(meta, len);
    ret_waits->question = culm_read_u64(&in);
    if (culm_read_i32(&in) != ret_waits->have.stages || in.failed) {
        return CULM_ERR_FORMAT;
    }
    for (int32_t i = 0; i < ret_waits->have.stages * ret_waits->have.lane_words; i++) {
        ret_waits->lanes_done[i] = culm_read_u64(&in);
    }
    int32_t count = culm_read_i32(&in);
    if (in.failed || count < 0 || count > CULM_MAX_NODES) {
        return CULM_ERR_FORMAT;
    }
    ret_waits->deaf_count = 0;
    for (int32_t i = 0; i < count && !in.failed; i++) {
        if (!culm_waits_add_deaf(ret_waits, culm_read_i32(&in))) {
            return CULM_ERR_MEMORY;
        }
    }
    if (in.failed) {
        return CULM_ERR_FORMAT;
    }
    return culm_have_decode(meta + in.at, len - in.at, &ret_waits->have);
}

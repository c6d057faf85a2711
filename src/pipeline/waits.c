/* Encoding and decoding of WAITS. See waits.h. */
#include "pipeline/waits.h"

#include <stdlib.h>

struct culm_waits *culm_waits_new(int32_t stages, int32_t micros, int32_t grads) {
    struct culm_waits *waits = calloc(1, sizeof *waits);
    if (waits && culm_have_init(&waits->have, stages, micros, grads) != CULM_OK) {
        free(waits);
        return NULL;
    }
    return waits;
}

void culm_waits_free(struct culm_waits *waits) {
    if (waits) {
        culm_have_release(&waits->have);
        free(waits);
    }
}

void culm_waits_encode(const struct culm_waits *waits, const struct culm_have *have,
                       struct culm_buf *buf) {
    culm_buf_u64(buf, waits->question);
    culm_buf_i32(buf, have->stages);
    for (int32_t s = 0; s < have->stages; s++) {
        culm_buf_u64(buf, waits->lanes_done[s]);
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
    for (int32_t s = 0; s < ret_waits->have.stages; s++) {
        ret_waits->lanes_done[s] = culm_read_u64(&in);
    }
    int32_t count = culm_read_i32(&in);
    if (in.failed || count < 0 || count > CULM_MAX_NODES) {
        return CULM_ERR_FORMAT;
    }
    ret_waits->deaf_count = count;
    for (int32_t i = 0; i < count; i++) {
        ret_waits->deaf[i] = culm_read_i32(&in);
    }
    if (in.failed) {
        return CULM_ERR_FORMAT;
    }
    return culm_have_decode(meta + in.at, len - in.at, &ret_waits->have);
}

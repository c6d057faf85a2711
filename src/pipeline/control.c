/* Encoding and decoding of control messages, in pairs. See control.h. */
#include "pipeline/control.h"

void culm_save_encode(const struct culm_save *save, struct culm_buf *buf) {
    culm_buf_u64(buf, (uint64_t)save->version);
    culm_buf_i32(buf, save->attempt);
    culm_buf_i32(buf, save->stage);
    culm_buf_i32(buf, save->weights);
    culm_buf_string(buf, save->to);
}

enum culm_status culm_save_decode(const uint8_t *meta, size_t len, struct culm_save *ret_save) {
    struct culm_reader in = culm_reader_of(meta, len);
    struct culm_save save = {0};
    save.version = culm_read_count(&in);
    save.attempt = culm_read_i32(&in);
    save.stage = culm_read_i32(&in);
    save.weights = culm_read_within(&in, 0, 1) == 1;
    culm_read_string(&in, save.to, sizeof save.to);
    if (!culm_reader_done(&in)) {
        return CULM_ERR_FORMAT;
    }
    *ret_save = save;
    return CULM_OK;
}

void culm_loaded_encode(const struct culm_loaded *loaded, struct culm_buf *buf) {
    culm_buf_u64(buf, loaded->view);
    culm_buf_u64(buf, (uint64_t)loaded->version);
}

enum culm_status culm_loaded_decode(const uint8_t *meta, size_t len,
                                    struct culm_loaded *ret_loaded) {
    struct culm_reader in = culm_reader_of(meta, len);
    struct culm_loaded loaded = {0};
    loaded.view = culm_read_u64(&in);
    loaded.version = culm_read_count(&in);
    if (!culm_reader_done(&in)) {
        return CULM_ERR_FORMAT;
    }
    *ret_loaded = loaded;
    return CULM_OK;
}

void culm_unloaded_encode(const struct culm_unloaded *unloaded, struct culm_buf *buf) {
    culm_buf_u64(buf, unloaded->view);
    culm_buf_i32(buf, (int32_t)unloaded->status);
    culm_buf_string(buf, unloaded->why);
}

enum culm_status culm_unloaded_decode(const uint8_t *meta, size_t len,
                                      struct culm_unloaded *ret_unloaded) {
    struct culm_reader in = culm_reader_of(meta, len);
    struct culm_unloaded unloaded = {0};
    unloaded.view = culm_read_u64(&in);
    unloaded.status = culm_read_failure(&in);
    culm_read_string(&in, unloaded.why, sizeof unloaded.why);
    if (!culm_reader_done(&in)) {
        return CULM_ERR_FORMAT;
    }
    *ret_unloaded = unloaded;
    return CULM_OK;
}

void culm_joined_encode(const struct culm_joined *joined, struct culm_buf *buf) {
    culm_buf_u64(buf, (uint64_t)joined->version);
    culm_buf_u32(buf, joined->transfer);
    culm_buf_u64(buf, (uint64_t)joined->bytes);
    culm_buf_u64(buf, (uint64_t)joined->took_ms);
}

enum culm_status culm_joined_decode(const uint8_t *meta, size_t len,
                                    struct culm_joined *ret_joined) {
    struct culm_reader in = culm_reader_of(meta, len);
    struct culm_joined joined = {0};
    joined.version = culm_read_count(&in);
    joined.transfer = culm_read_u32(&in);
    joined.bytes = culm_read_count(&in);
    joined.took_ms = culm_read_count(&in);
    if (!culm_reader_done(&in)) {
        return CULM_ERR_FORMAT;
    }
    *ret_joined = joined;
    return CULM_OK;
}

void culm_saved_encode(const struct culm_saved *saved, struct culm_buf *buf) {
    culm_buf_u64(buf, (uint64_t)saved->version);
    culm_buf_i32(buf, saved->attempt);
    culm_buf_i32(buf, saved->stage);
    culm_buf_i32(buf, (int32_t)saved->status);
    culm_buf_string(buf, saved->piece);
    culm_buf_string(buf, saved->why);
}

enum culm_status culm_saved_decode(const uint8_t *meta, size_t len, struct culm_saved *ret_saved) {
    struct culm_reader in = culm_reader_of(meta, len);
    struct culm_saved saved = {0};
    saved.version = culm_read_count(&in);
    saved.attempt = culm_read_i32(&in);
    saved.stage = culm_read_i32(&in);
    saved.status = culm_read_status(&in);
    culm_read_string(&in, saved.piece, sizeof saved.piece);
    culm_read_string(&in, saved.why, sizeof saved.why);
    if (!culm_reader_done(&in)) {
        return CULM_ERR_FORMAT;
    }
    *ret_saved = saved;
    return CULM_OK;
}

void culm_taken_over_encode(const struct culm_taken_over *taken_over, struct culm_buf *buf) {
    culm_buf_u64(buf, taken_over->view);
    culm_buf_i32(buf, taken_over->stage);
    culm_buf_i32(buf, (int32_t)taken_over->origin);
    culm_buf_u64(buf, (uint64_t)taken_over->redone);
}

enum culm_status culm_taken_over_decode(const uint8_t *meta, size_t len,
                                        struct culm_taken_over *ret_taken_over) {
    struct culm_reader in = culm_reader_of(meta, len);
    struct culm_taken_over taken_over = {0};
    taken_over.view = culm_read_u64(&in);
    taken_over.stage = culm_read_i32(&in);
    taken_over.origin =
        (enum culm_origin)culm_read_within(&in, CULM_ORIGIN_SHADOW, CULM_ORIGIN_CHECKPOINT);
    taken_over.redone = culm_read_count(&in);
    if (!culm_reader_done(&in)) {
        return CULM_ERR_FORMAT;
    }
    *ret_taken_over = taken_over;
    return CULM_OK;
}

void culm_damaged_encode(const struct culm_damaged *damaged, struct culm_buf *buf) {
    culm_buf_u64(buf, (uint64_t)damaged->iteration);
    culm_buf_i32(buf, damaged->stage);
    culm_buf_string(buf, damaged->why);
}

enum culm_status culm_damaged_decode(const uint8_t *meta, size_t len,
                                     struct culm_damaged *ret_damaged) {
    struct culm_reader in = culm_reader_of(meta, len);
    struct culm_damaged damaged = {0};
    damaged.iteration = culm_read_count(&in);
    damaged.stage = culm_read_i32(&in);
    culm_read_string(&in, damaged.why, sizeof damaged.why);
    if (!culm_reader_done(&in)) {
        return CULM_ERR_FORMAT;
    }
    *ret_damaged = damaged;
    return CULM_OK;
}

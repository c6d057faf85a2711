/* Encoding and decoding of the words of a crew, in pairs. See words.h. */
#include "crew/words.h"

int32_t culm_read_within(struct culm_reader *in, int32_t low, int32_t high) {
    int32_t value = culm_read_i32(in);
    if (value < low || value > high) {
        in->failed = true;
        return low;
    }
    return value;
}

enum culm_status culm_read_status(struct culm_reader *in) {
    return (enum culm_status)culm_read_within(in, CULM_OK, CULM_ERR_STOPPED);
}

enum culm_status culm_read_failure(struct culm_reader *in) {
    return (enum culm_status)culm_read_within(in, CULM_OK + 1, CULM_ERR_STOPPED);
}

void culm_end_encode(const struct culm_end *end, struct culm_buf *buf) {
    culm_buf_i32(buf, end->code);
}

enum culm_status culm_end_decode(const uint8_t *meta, size_t len, struct culm_end *ret_end) {
    struct culm_reader in = culm_reader_of(meta, len);
    struct culm_end end = {0};
    end.code = culm_read_within(&in, 0, 255);
    if (!culm_reader_done(&in)) {
        return CULM_ERR_FORMAT;
    }
    *ret_end = end;
    return CULM_OK;
}

void culm_ask_encode(const struct culm_ask *ask, struct culm_buf *buf) {
    culm_buf_u64(buf, ask->question);
}

enum culm_status culm_ask_decode(const uint8_t *meta, size_t len, struct culm_ask *ret_ask) {
    struct culm_reader in = culm_reader_of(meta, len);
    struct culm_ask ask = {0};
    ask.question = culm_read_u64(&in);
    if (!culm_reader_done(&in)) {
        return CULM_ERR_FORMAT;
    }
    *ret_ask = ask;
    return CULM_OK;
}

void culm_fenced_encode(const struct culm_fenced *fenced, struct culm_buf *buf) {
    culm_buf_string(buf, fenced->why);
}

enum culm_status culm_fenced_decode(const uint8_t *meta, size_t len,
                                    struct culm_fenced *ret_fenced) {
    struct culm_reader in = culm_reader_of(meta, len);
    struct culm_fenced fenced = {0};
    culm_read_string(&in, fenced.why, sizeof fenced.why);
    if (!culm_reader_done(&in)) {
        return CULM_ERR_FORMAT;
    }
    *ret_fenced = fenced;
    return CULM_OK;
}

void culm_peer_lost_encode(const struct culm_peer_lost *peer_lost, struct culm_buf *buf) {
    culm_buf_i32(buf, peer_lost->node);
}

enum culm_status culm_peer_lost_decode(const uint8_t *meta, size_t len,
                                       struct culm_peer_lost *ret_peer_lost) {
    struct culm_reader in = culm_reader_of(meta, len);
    struct culm_peer_lost peer_lost = {0};
    peer_lost.node = culm_read_within(&in, 0, INT32_MAX);
    if (!culm_reader_done(&in)) {
        return CULM_ERR_FORMAT;
    }
    *ret_peer_lost = peer_lost;
    return CULM_OK;
}

void culm_failed_encode(const struct culm_failed *failed, struct culm_buf *buf) {
    culm_buf_i32(buf, (int32_t)failed->status);
    culm_buf_string(buf, failed->why);
}

enum culm_status culm_failed_decode(const uint8_t *meta, size_t len,
                                    struct culm_failed *ret_failed) {
    struct culm_reader in = culm_reader_of(meta, len);
    struct culm_failed failed = {0};
    failed.status = culm_read_failure(&in);
    culm_read_string(&in, failed.why, sizeof failed.why);
    if (!culm_reader_done(&in)) {
        return CULM_ERR_FORMAT;
    }
    *ret_failed = failed;
    return CULM_OK;
}

void culm_notice_encode(const struct culm_notice *notice, struct culm_buf *buf) {
    culm_buf_u64(buf, (uint64_t)notice->within_ms);
}

enum culm_status culm_notice_decode(const uint8_t *meta, size_t len,
                                    struct culm_notice *ret_notice) {
    struct culm_reader in = culm_reader_of(meta, len);
    struct culm_notice notice = {0};
    notice.within_ms = culm_read_count(&in);
    if (!culm_reader_done(&in)) {
        return CULM_ERR_FORMAT;
    }
    *ret_notice = notice;
    return CULM_OK;
}

/* Straight-line encoders and decoders; a value out of range makes a decode fail. */
#include "cluster/wire.h"

#include <string.h>

void culm_welcome_encode(const struct culm_welcome *welcome, struct culm_buf *buf) {
    culm_buf_u64(buf, (uint64_t)welcome->pid);
    culm_buf_i32(buf, welcome->node);
    culm_buf_u32(buf, welcome->role);
    culm_buf_u8(buf, welcome->plain);
}

bool culm_welcome_decode(const struct culm_message *message, struct culm_welcome *ret_welcome) {
    struct culm_reader reader = culm_reader_of(message->meta, message->meta_bytes);
    struct culm_welcome welcome = {.pid = (int64_t)culm_read_u64(&reader)};
    welcome.node = culm_read_i32(&reader);
    welcome.role = culm_read_u32(&reader);
    welcome.plain = culm_read_u8(&reader) != 0;
    bool known = welcome.node >= 0 && welcome.node < CULM_NODE_IDS;
    if (!culm_reader_done(&reader) ||
        (!known && welcome.node != CULM_NEWCOMER && welcome.node != CULM_VISITOR)) {
        return false;
    }
    *ret_welcome = welcome;
    return true;
}

bool culm_admitted_decode(const struct culm_message *message, int32_t *ret_node) {
    struct culm_reader reader = culm_reader_of(message->meta, message->meta_bytes);
    int32_t node = culm_read_i32(&reader);
    if (!culm_reader_done(&reader) || node < 0 || node >= CULM_NODE_IDS) {
        return false;
    }
    *ret_node = node;
    return true;
}

void culm_claim_encode(const struct culm_claim *claim, struct culm_buf *buf) {
    culm_buf_u64(buf, claim->term);
    culm_buf_string(buf, claim->address);
}

bool culm_claim_decode(const struct culm_message *message, struct culm_claim *ret_claim) {
    struct culm_reader reader = culm_reader_of(message->meta, message->meta_bytes);
    struct culm_claim claim = {.term = culm_read_u64(&reader)};
    culm_read_string(&reader, claim.address, sizeof claim.address);
    if (!culm_reader_done(&reader) || claim.term == 0) {
        return false;
    }
    *ret_claim = claim;
    return true;
}

bool culm_term_decode(const struct culm_message *message, uint64_t *ret_term) {
    struct culm_reader reader = culm_reader_of(message->meta, message->meta_bytes);
    uint64_t term = culm_read_u64(&reader);
    if (!culm_reader_done(&reader) || term == 0) {
        return false;
    }
    *ret_term = term;
    return true;
}

void culm_ready_encode(const struct culm_ready *ready, struct culm_buf *buf) {
    culm_buf_i32(buf, (int32_t)ready->status);
    culm_buf_string(buf, ready->signature);
    culm_buf_string(buf, ready->text);
}

bool culm_ready_decode(const struct culm_message *message, struct culm_ready *ret_ready) {
    struct culm_reader reader = culm_reader_of(message->meta, message->meta_bytes);
    struct culm_ready ready;
    int32_t status = culm_read_i32(&reader);
    culm_read_string(&reader, ready.signature, sizeof ready.signature);
    culm_read_string(&reader, ready.text, sizeof ready.text);
    if (!culm_reader_done(&reader) || status < CULM_OK || status > CULM_ERR_INTERNAL) {
        return false;
    }
    ready.status = (enum culm_status)status;
    *ret_ready = ready;
    return true;
}

void culm_entry_encode(const struct culm_entry *entry, struct culm_buf *buf) {
    culm_buf_i32(buf, entry->node);
    culm_buf_string(buf, entry->address);
}

bool culm_entry_decode(struct culm_reader *reader, struct culm_entry *ret_entry) {
    if (reader->at == reader->len) {
        return false;
    }
    struct culm_entry entry = {.node = culm_read_i32(reader)};
    culm_read_string(reader, entry.address, sizeof entry.address);
    if (reader->failed || entry.node < 0 || entry.node >= CULM_NODE_IDS) {
        reader->failed = true;
        return false;
    }
    *ret_entry = entry;
    return true;
}

/* Straight-line encoders and decoders; a value out of range makes a decode fail. */
#include "cluster/wire.h"

#include <string.h>

void culm_hello_encode(const struct culm_hello *hello, struct culm_buf *buf) {
    culm_buf_string(buf, hello->token);
    culm_buf_i32(buf, hello->node);
    culm_buf_i32(buf, hello->port);
    culm_buf_u64(buf, (uint64_t)hello->pid);
    culm_buf_string(buf, hello->name);
}

static bool in_range(int32_t node, int32_t port) {
    return node >= 0 && node < CULM_WIRE_NODES_MAX && port > 0 && port < 65536;
}

bool culm_hello_decode(const struct culm_message *message, struct culm_hello *ret_hello) {
    struct culm_reader reader = culm_reader_of(message->meta, message->meta_bytes);
    struct culm_hello hello;
    culm_read_string(&reader, hello.token, sizeof hello.token);
    hello.node = culm_read_i32(&reader);
    hello.port = culm_read_i32(&reader);
    hello.pid = (int64_t)culm_read_u64(&reader);
    culm_read_string(&reader, hello.name, sizeof hello.name);
    if (!culm_reader_done(&reader) || !in_range(hello.node, hello.port)) {
        return false;
    }
    *ret_hello = hello;
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

void culm_address_encode(const struct culm_address *address, struct culm_buf *buf) {
    culm_buf_i32(buf, address->node);
    culm_buf_i32(buf, address->port);
}

bool culm_address_decode(struct culm_reader *reader, struct culm_address *ret_address) {
    if (reader->at == reader->len) {
        return false;
    }
    struct culm_address address = {.node = culm_read_i32(reader)};
    address.port = culm_read_i32(reader);
    if (reader->failed || !in_range(address.node, address.port)) {
        reader->failed = true;
        return false;
    }
    *ret_address = address;
    return true;
}

bool culm_token_equal(const char *a, const char *b) {
    size_t len = strlen(a);
    if (strlen(b) != len) {
        return false;
    }
    unsigned differs = 0;
    for (size_t i = 0; i < len; i++) {
        differs |= (unsigned)(a[i] ^ b[i]);
    }
    return differs == 0;
}

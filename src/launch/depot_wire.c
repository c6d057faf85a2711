/* Messages of a visit to a depot. See depot_wire.h. */
#include "launch/depot_wire.h"

#include "net/socket.h"

#include <ctype.h>
#include <string.h>

static bool is_plain_name(const char *name) {
    for (const char *at = name; *at; at++) {
        if (!isascii(*at) || (!isalnum((unsigned char)*at) && !strchr(".-_", *at))) {
            return false;
        }
    }
    return name[0] && name[0] != '.';
}

void culm_depot_request_encode(const struct culm_depot_request *request, struct culm_buf *buf) {
    culm_buf_u8(buf, (uint8_t)request->verb);
    culm_buf_u64(buf, (uint64_t)request->step);
    culm_buf_string(buf, request->file);
    culm_buf_string(buf, request->to);
    culm_buf_u64(buf, request->bytes);
}

bool culm_depot_request_decode(const void *data, size_t len,
                               struct culm_depot_request *ret_request) {
    struct culm_reader in = culm_reader_of(data, len);
    struct culm_depot_request request = {0};
    const uint8_t verb = culm_read_u8(&in);
    request.step = culm_read_count(&in);
    culm_read_string(&in, request.file, sizeof request.file);
    culm_read_string(&in, request.to, sizeof request.to);
    request.bytes = (uint64_t)culm_read_count(&in);
    if (!culm_reader_done(&in) || verb < CULM_DEPOT_PUT || verb > CULM_DEPOT_EVENTS ||
        !is_plain_name(request.file)) {
        return false;
    }
    request.verb = (enum culm_depot_verb)verb;
    *ret_request = request;
    return true;
}

void culm_depot_answer_encode(const struct culm_depot_answer *answer, struct culm_buf *buf) {
    culm_buf_i32(buf, (int32_t)answer->status);
    culm_buf_u64(buf, answer->bytes);
    culm_buf_string(buf, answer->text);
}

bool culm_depot_answer_decode(const void *data, size_t len, struct culm_depot_answer *ret_answer) {
    struct culm_reader in = culm_reader_of(data, len);
    struct culm_depot_answer answer = {.status = (enum culm_status)culm_read_i32(&in)};
    answer.bytes = (uint64_t)culm_read_count(&in);
    culm_read_string(&in, answer.text, sizeof answer.text);
    if (!culm_reader_done(&in)) {
        return false;
    }
    *ret_answer = answer;
    return true;
}

enum culm_status culm_depot_say(struct culm_channel *channel, const struct culm_buf *message,
                                struct culm_error *error) {
    const uint64_t deadline = culm_clock_ns() + CULM_DEPOT_SILENCE_NS;
    struct culm_buf head;
    culm_buf_init(&head, sizeof(uint32_t));
    culm_buf_u32(&head, (uint32_t)message->len);
    enum culm_status status =
        head.failed || message->failed
            ? culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a message")
            : culm_channel_write(channel, head.data, head.len, deadline, error);
    culm_buf_release(&head);
    return status == CULM_OK
               ? culm_channel_write(channel, message->data, message->len, deadline, error)
               : status;
}

enum culm_status culm_depot_hear(struct culm_channel *channel,
                                 uint8_t ret_data[CULM_DEPOT_MESSAGE_MAX], size_t *ret_len,
                                 struct culm_error *error) {
    const uint64_t deadline = culm_clock_ns() + CULM_DEPOT_SILENCE_NS;
    uint8_t head[sizeof(uint32_t)];
    enum culm_status status = culm_channel_read(channel, head, sizeof head, deadline, error);
    if (status != CULM_OK) {
        return status;
    }
    struct culm_reader in = culm_reader_of(head, sizeof head);
    const size_t len = culm_read_u32(&in);
    if (len == 0 || len > CULM_DEPOT_MESSAGE_MAX) {
        return culm_error_set(error, CULM_ERR_FORMAT, "a message of %zu bytes; 1 to %d", len,
                              CULM_DEPOT_MESSAGE_MAX);
    }
    *ret_len = len;
    return culm_channel_read(channel, ret_data, len, deadline, error);
}

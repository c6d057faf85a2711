/* The frame reader: header, then meta, then payload, each filled by whatever has come. */
#include "net/frame.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static void put(uint8_t *at, uint64_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        at[i] = (uint8_t)(value >> (8 * i));
    }
}

static uint64_t get(const uint8_t *at, size_t bytes) {
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++) {
        value |= (uint64_t)at[i] << (8 * i);
    }
    return value;
}

/* Of all but where it stands. */
static uint32_t header_sum(const uint8_t *header) {
    uint8_t all[CULM_FRAME_HEADER_BYTES];
    memcpy(all, header, sizeof all);
    memset(all + 12, 0, 4);
    return (uint32_t)culm_checksum_of(all, sizeof all);
}

void culm_frame_header_seal(uint8_t header[CULM_FRAME_HEADER_BYTES]) {
    put(header + 12, header_sum(header), 4);
}

void culm_frame_header_encode(const struct culm_message *message,
                              uint8_t ret_header[CULM_FRAME_HEADER_BYTES]) {
    put(ret_header, CULM_FRAME_MAGIC, 4);
    put(ret_header + 4, message->type, 2);
    put(ret_header + 6, 0, 2);
    size_t payload_bytes = message->payload ? message->payload_bytes : 0;
    struct culm_checksum sum;
    culm_checksum_init(&sum);
    assert(message->meta || !message->meta_bytes);
    culm_checksum_add(&sum, message->meta, message->meta_bytes);
    if (payload_bytes) {
        culm_checksum_add(&sum, (const uint8_t *)message->payload->data + message->payload_offset,
                          payload_bytes);
    }
    put(ret_header + 8, message->meta_bytes, 4);
    put(ret_header + 16, payload_bytes, 8);
    put(ret_header + 24, culm_checksum_value(&sum), 8);
    culm_frame_header_seal(ret_header);
}

void culm_frame_reader_init(struct culm_frame_reader *reader, struct culm_blob_pool *pool,
                            size_t meta_max, size_t payload_max) {
    assert(meta_max <= CULM_FRAME_META_MAX);
    *reader =
        (struct culm_frame_reader){.pool = pool, .meta_max = meta_max, .payload_max = payload_max};
}

void culm_frame_reader_release(struct culm_frame_reader *reader) {
    culm_blob_clear(&reader->message.payload);
    free(reader->meta);
    reader->meta = NULL;
    reader->meta_capacity = 0;
}

static enum culm_status check_start(const struct culm_frame_reader *reader,
                                    struct culm_error *error) {
    uint32_t magic = (uint32_t)get(reader->header, 4), zero = (uint32_t)get(reader->header + 6, 2);
    if (magic != CULM_FRAME_MAGIC || zero != 0) {
        return culm_error_set(error, CULM_ERR_FORMAT,
                              "not a frame: it begins with %08x; is the other side culm?", magic);
    }
    return CULM_OK;
}

static enum culm_status start_frame(struct culm_frame_reader *reader, struct culm_error *error) {
    const uint8_t *h = reader->header;
    uint32_t meta_bytes = (uint32_t)get(h + 8, 4);
    uint64_t payload_bytes = get(h + 16, 8);
    if (get(h + 12, 4) != header_sum(h)) {
        return culm_error_set(error, CULM_ERR_FORMAT,
                              "the header of a frame was damaged on its way, or the other side is "
                              "of another version");
    }
    if (meta_bytes > reader->meta_max || payload_bytes > reader->payload_max) {
        return culm_error_set(
            error, CULM_ERR_FORMAT, "a frame of %u + %llu bytes is over the limit of %zu + %zu",
            meta_bytes, (unsigned long long)payload_bytes, reader->meta_max, reader->payload_max);
    }
    if (meta_bytes > reader->meta_capacity) {
        uint8_t *meta = realloc(reader->meta, meta_bytes);
        if (!meta) {
            return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for %u bytes of a frame",
                                  meta_bytes);
        }
        reader->meta = meta;
        reader->meta_capacity = meta_bytes;
    }
    struct culm_blob *payload = NULL;
    if (payload_bytes &&
        culm_blob_pool_get(reader->pool, (size_t)payload_bytes, &payload) != CULM_OK) {
        return culm_error_set(error, CULM_ERR_MEMORY,
                              "no room for a payload of %llu bytes within the memory limit",
                              (unsigned long long)payload_bytes);
    }
    reader->message = (struct culm_message){
        .type = (uint16_t)get(h + 4, 2),
        .meta_bytes = meta_bytes,
        .meta = reader->meta,
        .payload = payload,
        .payload_bytes = (size_t)payload_bytes,
    };
    reader->wanted = get(h + 24, 8);
    culm_checksum_init(&reader->sum);
    reader->header_done = true;
    return CULM_OK;
}

static void next_frame(struct culm_frame_reader *reader) {
    culm_blob_clear(&reader->message.payload);
    reader->header_got = reader->meta_got = reader->payload_got = 0;
    reader->header_done = reader->complete = false;
}

/* `sum` may be NULL. */
static size_t take(uint8_t *to, size_t *got, size_t want, const uint8_t *data, size_t len,
                   struct culm_checksum *sum) {
    size_t some = want - *got < len ? want - *got : len;
    if (some) {
        memcpy(to + *got, data, some);
        *got += some;
        if (sum) {
            culm_checksum_add(sum, data, some);
        }
    }
    return some;
}

/* More came. */
static enum culm_status whole(struct culm_frame_reader *reader,
                              const struct culm_message **ret_message, struct culm_error *error) {
    reader->complete = reader->header_done && reader->meta_got == reader->message.meta_bytes &&
                       reader->payload_got == reader->message.payload_bytes;
    if (reader->complete && culm_checksum_value(&reader->sum) != reader->wanted) {
        return culm_error_set(
            error, CULM_ERR_FORMAT, "a frame of type %u with %u + %zu bytes was damaged on its way",
            reader->message.type, reader->message.meta_bytes, reader->message.payload_bytes);
    }
    *ret_message = reader->complete ? &reader->message : NULL;
    return CULM_OK;
}

enum culm_status culm_frame_reader_feed(struct culm_frame_reader *reader, const uint8_t *data,
                                        size_t len, size_t *ret_used,
                                        const struct culm_message **ret_message,
                                        struct culm_error *error) {
    size_t used = 0;
    if (reader->complete) {
        next_frame(reader);
    }
    if (!reader->header_done) {
        used += take(reader->header, &reader->header_got, CULM_FRAME_HEADER_BYTES, data, len, NULL);
        enum culm_status status = CULM_OK;
        if (reader->header_got >= 8) { /* what is not a frame may be too short for a header */
            status = check_start(reader, error);
        }
        if (status == CULM_OK && reader->header_got == CULM_FRAME_HEADER_BYTES) {
            status = start_frame(reader, error);
        }
        if (status != CULM_OK) {
            return status;
        }
    }
    if (reader->header_done) {
        used += take(reader->meta, &reader->meta_got, reader->message.meta_bytes, data + used,
                     len - used, &reader->sum);
        if (reader->meta_got == reader->message.meta_bytes && reader->message.payload) {
            used += take(reader->message.payload->data, &reader->payload_got,
                         reader->message.payload_bytes, data + used, len - used, &reader->sum);
        }
    }
    *ret_used = used;
    return whole(reader, ret_message, error);
}

size_t culm_frame_reader_wants(const struct culm_frame_reader *reader) {
    if (reader->complete || !reader->header_done) {
        return CULM_FRAME_HEADER_BYTES - (reader->complete ? 0 : reader->header_got);
    }
    return reader->message.meta_bytes - reader->meta_got + reader->message.payload_bytes -
           reader->payload_got;
}

size_t culm_frame_reader_space(struct culm_frame_reader *reader, uint8_t **ret_at) {
    if (reader->complete || !reader->header_done || !reader->message.payload ||
        reader->meta_got < reader->message.meta_bytes) {
        return 0;
    }
    *ret_at = (uint8_t *)reader->message.payload->data + reader->payload_got;
    return reader->message.payload_bytes - reader->payload_got;
}

enum culm_status culm_frame_reader_wrote(struct culm_frame_reader *reader, size_t len,
                                         const struct culm_message **ret_message,
                                         struct culm_error *error) {
    culm_checksum_add(&reader->sum, (uint8_t *)reader->message.payload->data + reader->payload_got,
                      len);
    reader->payload_got += len;
    assert(reader->payload_got <= reader->message.payload_bytes);
    return whole(reader, ret_message, error);
}

/*
 * Fuzz target: a byte stream from anyone. Whatever the bytes and however they are cut, the
 * frame reader gives the same frames or refuses with a message, stays within its limits, and the
 * worlds' own messages among the frames decode or do not.
 *
 * The first byte says how the rest is cut into chunks. The bytes are read as they are, and again
 * with the checksums put right, which no fuzzer finds.
 */
#include "fuzz.h"

#include "cluster/handshake.h"
#include "net/address.h"
#include "net/frame.h"

#include <stdlib.h>
#include <string.h>

#define META_MAX 4096
#define PAYLOAD_MAX 65536

struct outcome {
    size_t frames;
    uint64_t sum;
    enum culm_status status;
};

static void mix(struct outcome *outcome, const void *data, size_t len) {
    for (size_t i = 0; i < len; i++) {
        outcome->sum = outcome->sum * 1099511628211u + ((const uint8_t *)data)[i] + 1;
    }
}

/* Each side takes it, before and after the first frame that it awaits. */
static void see_handshake(const struct culm_message *message) {
    static const uint8_t nonce[CULM_NONCE_BYTES];
    struct culm_handshake caller, listener;
    struct culm_introduction introduction;
    culm_handshake_call(&caller, "token", 1, 2, nonce);
    FUZZ_REQUIRE(culm_handshake_challenged(&caller, message, NULL) != CULM_OK, "a proof by chance");
    culm_handshake_listen(&listener, "token", 2, nonce);
    if (culm_handshake_greeted(&listener, message, NULL) == CULM_OK) {
        FUZZ_REQUIRE(listener.caller >= 0 && listener.caller < CULM_NODE_IDS, "node %d",
                     listener.caller);
    }
    struct culm_handshake leader;
    culm_handshake_listen(&leader, "token", CULM_LEADER, nonce);
    if (culm_handshake_greeted(&leader, message, NULL) == CULM_OK) {
        FUZZ_REQUIRE(leader.caller == CULM_NEWCOMER ||
                         (leader.caller >= 0 && leader.caller < CULM_NODE_IDS),
                     "node %d", leader.caller);
    }
    listener.greeted = true;
    FUZZ_REQUIRE(culm_handshake_proved(&listener, message, &introduction, NULL) != CULM_OK,
                 "a proof by chance");
}

/* What is believed has one spelling. */
static void see_address(const char *text) {
    struct culm_address address, again;
    char printed[CULM_ADDRESS_SIZE];
    if (culm_address_parse(text, &address, NULL) == CULM_OK) {
        culm_address_print(&address, printed);
        FUZZ_REQUIRE(culm_address_parse(printed, &again, NULL) == CULM_OK &&
                         again.kind == address.kind && !strcmp(again.host, address.host) &&
                         again.port == address.port,
                     "'%s' became '%s'", text, printed);
    }
}

static void see(struct outcome *outcome, const struct culm_message *message) {
    struct culm_entry entry;
    FUZZ_REQUIRE(message->meta_bytes <= META_MAX && message->payload_bytes <= PAYLOAD_MAX,
                 "%u + %zu bytes", message->meta_bytes, message->payload_bytes);
    outcome->frames++;
    mix(outcome, &message->type, sizeof message->type);
    mix(outcome, message->meta, message->meta_bytes);
    if (message->payload) {
        mix(outcome, message->payload->data, message->payload_bytes);
    }
    see_handshake(message);
    struct culm_ready ready;
    if (culm_ready_decode(message, &ready)) {
        FUZZ_REQUIRE(ready.status >= CULM_OK && ready.status <= CULM_ERR_INTERNAL, "status %d",
                     (int)ready.status);
        mix(outcome, ready.text, strlen(ready.text));
        mix(outcome, ready.signature, strlen(ready.signature));
    }
    struct culm_welcome welcome;
    if (culm_welcome_decode(message, &welcome)) {
        FUZZ_REQUIRE(welcome.node == CULM_NEWCOMER ||
                         (welcome.node >= 0 && welcome.node < CULM_NODE_IDS),
                     "node %d", welcome.node);
        mix(outcome, &welcome.role, sizeof welcome.role);
    }
    int32_t node;
    if (culm_admitted_decode(message, &node)) {
        FUZZ_REQUIRE(node >= 0 && node < CULM_NODE_IDS, "node %d", node);
    }
    struct culm_reader reader = culm_reader_of(message->meta, message->meta_bytes);
    while (culm_entry_decode(&reader, &entry)) {
        FUZZ_REQUIRE(entry.node >= 0 && entry.node < CULM_NODE_IDS, "node %d", entry.node);
        see_address(entry.address);
    }
}

static struct outcome read_all(struct culm_blob_pool *pool, const uint8_t *data, size_t size,
                               size_t chunk) {
    struct culm_frame_reader reader;
    struct outcome outcome = {0};
    culm_frame_reader_init(&reader, pool, META_MAX, PAYLOAD_MAX);
    for (size_t at = 0; at < size && outcome.status == CULM_OK;) {
        size_t some = size - at < chunk ? size - at : chunk, used;
        const struct culm_message *message = NULL;
        struct culm_error error = {0};
        uint8_t *direct;
        size_t space = culm_frame_reader_space(&reader, &direct);
        if (space && chunk % 2) {
            used = some < space ? some : space;
            memcpy(direct, data + at, used);
            outcome.status = culm_frame_reader_wrote(&reader, used, &message, &error);
        } else {
            outcome.status =
                culm_frame_reader_feed(&reader, data + at, some, &used, &message, &error);
        }
        if (outcome.status != CULM_OK) {
            FUZZ_REQUIRE(error.text[0], "no message");
            break;
        }
        FUZZ_REQUIRE(used > 0, "no progress at %zu", at);
        at += used;
        if (message) {
            see(&outcome, message);
        }
    }
    culm_frame_reader_release(&reader);
    return outcome;
}

static void mend(uint8_t *data, size_t size) {
    for (size_t at = 0; size - at >= CULM_FRAME_HEADER_BYTES;) {
        uint32_t meta_bytes;
        uint64_t payload_bytes;
        memcpy(&meta_bytes, data + at + 8, sizeof meta_bytes);
        memcpy(&payload_bytes, data + at + 16, sizeof payload_bytes);
        uint8_t *body = data + at + CULM_FRAME_HEADER_BYTES;
        size_t left = size - at - CULM_FRAME_HEADER_BYTES;
        bool whole = meta_bytes <= left && payload_bytes <= left - meta_bytes;
        struct culm_blob blob = {.data = body};
        struct culm_message message = {.meta_bytes = whole ? meta_bytes : 0,
                                       .meta = body,
                                       .payload = &blob,
                                       .payload_offset = whole ? meta_bytes : 0,
                                       .payload_bytes = whole ? (size_t)payload_bytes : 0};
        memcpy(&message.type, data + at + 4, sizeof message.type);
        if (whole && data[at] == 'C') {
            culm_frame_header_encode(&message, data + at);
        } else if (!whole) {
            culm_frame_header_seal(data + at);
        }
        at += CULM_FRAME_HEADER_BYTES + (whole ? meta_bytes + (size_t)payload_bytes : left);
    }
}

static void both_ways(const uint8_t *data, size_t size, size_t chunk) {
    struct culm_blob_pool *pool = culm_blob_pool_new(0);
    struct outcome whole = read_all(pool, data, size, size + 1);
    struct outcome cut = read_all(pool, data, size, chunk);
    FUZZ_REQUIRE(whole.frames == cut.frames && whole.sum == cut.sum && whole.status == cut.status,
                 "%zu and %zu frames", whole.frames, cut.frames);
    culm_blob_pool_free(pool);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) {
        return 0;
    }
    both_ways(data + 1, size - 1, (size_t)data[0] + 1);
    uint8_t *mended = malloc(size);
    if (mended) {
        memcpy(mended, data, size);
        mend(mended + 1, size - 1);
        both_ways(mended + 1, size - 1, (size_t)data[0] + 1);
        free(mended);
    }
    return 0;
}

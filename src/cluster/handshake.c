/* Encoders and decoders of the handshake, and the input of its MACs. See handshake.h. */
#include "cluster/handshake.h"

#include <string.h>

#define MAC_INPUT_MAX (CULM_WIRE_TEXT_MAX + CULM_ADDRESS_SIZE + 256)

/* Strings carry their lengths, so that two different inputs never give the same bytes. */
static bool mac(const struct culm_handshake *h, const struct culm_introduction *introduction,
                uint8_t ret_mac[CULM_MAC_BYTES]) {
    struct culm_buf input;
    culm_buf_init(&input, MAC_INPUT_MAX);
    culm_buf_string(&input,
                    introduction ? "culm handshake 1, caller" : "culm handshake 1, listener");
    culm_buf_i32(&input, h->caller);
    culm_buf_i32(&input, h->listener);
    culm_buf_bytes(&input, h->caller_nonce, CULM_NONCE_BYTES);
    culm_buf_bytes(&input, h->listener_nonce, CULM_NONCE_BYTES);
    if (introduction) {
        culm_buf_string(&input, introduction->address);
        culm_buf_string(&input, introduction->name);
        culm_buf_u32(&input, introduction->role);
        culm_buf_string(&input, introduction->host);
        culm_buf_string(&input, introduction->zone);
    }
    bool done = !input.failed && culm_secret_mac(h->token, strlen(h->token), input.data, input.len,
                                                 ret_mac) == CULM_OK;
    culm_buf_release(&input);
    return done;
}

static void put_mac(const struct culm_handshake *h, const struct culm_introduction *introduction,
                    struct culm_buf *meta) {
    uint8_t bytes[CULM_MAC_BYTES];
    if (mac(h, introduction, bytes)) {
        culm_buf_bytes(meta, bytes, sizeof bytes);
    } else {
        meta->failed = true;
    }
}

static bool right_mac(const struct culm_handshake *h, const struct culm_introduction *introduction,
                      const uint8_t said[CULM_MAC_BYTES]) {
    uint8_t bytes[CULM_MAC_BYTES];
    return mac(h, introduction, bytes) && culm_secret_equal(bytes, said);
}

/* --- the caller --- */

void culm_handshake_call(struct culm_handshake *handshake, const char *borrow_token, int32_t caller,
                         int32_t listener, const uint8_t nonce[CULM_NONCE_BYTES]) {
    *handshake =
        (struct culm_handshake){.token = borrow_token, .caller = caller, .listener = listener};
    memcpy(handshake->caller_nonce, nonce, CULM_NONCE_BYTES);
}

void culm_handshake_hello(const struct culm_handshake *handshake, struct culm_buf *meta) {
    culm_buf_i32(meta, handshake->caller);
    culm_buf_i32(meta, handshake->listener);
    culm_buf_bytes(meta, handshake->caller_nonce, CULM_NONCE_BYTES);
}

enum culm_status culm_handshake_challenged(struct culm_handshake *handshake,
                                           const struct culm_message *challenge,
                                           struct culm_error *error) {
    struct culm_reader reader = culm_reader_of(challenge->meta, challenge->meta_bytes);
    uint8_t nonce[CULM_NONCE_BYTES], said[CULM_MAC_BYTES];
    culm_read_bytes(&reader, nonce, sizeof nonce);
    culm_read_bytes(&reader, said, sizeof said);
    if (challenge->type != CULM_WIRE_CHALLENGE || handshake->greeted ||
        !culm_reader_done(&reader)) {
        return culm_error_set(
            error, CULM_ERR_FORMAT,
            "the other side does not answer as culm does; is it culm, of the same version?");
    }
    memcpy(handshake->listener_nonce, nonce, sizeof nonce);
    if (!right_mac(handshake, NULL, said)) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "wrong token: that address belongs to another run");
    }
    handshake->greeted = true;
    return CULM_OK;
}

void culm_handshake_proof(const struct culm_handshake *handshake,
                          const struct culm_introduction *introduction, struct culm_buf *meta) {
    culm_buf_string(meta, introduction->address);
    culm_buf_string(meta, introduction->name);
    culm_buf_u32(meta, introduction->role);
    culm_buf_string(meta, introduction->host);
    culm_buf_string(meta, introduction->zone);
    put_mac(handshake, introduction, meta);
}

/* --- the listener --- */

void culm_handshake_listen(struct culm_handshake *handshake, const char *borrow_token,
                           int32_t listener, const uint8_t nonce[CULM_NONCE_BYTES]) {
    *handshake = (struct culm_handshake){.token = borrow_token, .listener = listener};
    memcpy(handshake->listener_nonce, nonce, CULM_NONCE_BYTES);
}

/* Whether this id may call this listener. */
static bool may_call(int32_t caller, int32_t listener) {
    return (caller >= 0 && caller < CULM_NODE_IDS) || (caller == CULM_LEADER && listener >= 0) ||
           ((caller == CULM_NEWCOMER || caller == CULM_VISITOR) && listener == CULM_LEADER);
}

enum culm_status culm_handshake_greeted(struct culm_handshake *handshake,
                                        const struct culm_message *hello,
                                        struct culm_error *error) {
    struct culm_reader reader = culm_reader_of(hello->meta, hello->meta_bytes);
    uint8_t nonce[CULM_NONCE_BYTES];
    int32_t caller = culm_read_i32(&reader);
    int32_t listener = culm_read_i32(&reader);
    culm_read_bytes(&reader, nonce, sizeof nonce);
    if (hello->type != CULM_WIRE_HELLO || handshake->greeted || !culm_reader_done(&reader) ||
        !may_call(caller, listener) || listener != handshake->listener) {
        return culm_error_set(
            error, CULM_ERR_FORMAT,
            "the connection does not begin with a hello; is this worker of the same version?");
    }
    handshake->caller = caller;
    memcpy(handshake->caller_nonce, nonce, sizeof nonce);
    handshake->greeted = true;
    return CULM_OK;
}

void culm_handshake_challenge(const struct culm_handshake *handshake, struct culm_buf *meta) {
    culm_buf_bytes(meta, handshake->listener_nonce, CULM_NONCE_BYTES);
    put_mac(handshake, NULL, meta);
}

enum culm_status culm_handshake_proved(const struct culm_handshake *handshake,
                                       const struct culm_message *proof,
                                       struct culm_introduction *ret_introduction,
                                       struct culm_error *error) {
    struct culm_reader reader = culm_reader_of(proof->meta, proof->meta_bytes);
    struct culm_introduction introduction = {0};
    uint8_t said[CULM_MAC_BYTES];
    culm_read_string(&reader, introduction.address, sizeof introduction.address);
    culm_read_string(&reader, introduction.name, sizeof introduction.name);
    introduction.role = culm_read_u32(&reader);
    culm_read_string(&reader, introduction.host, sizeof introduction.host);
    culm_read_string(&reader, introduction.zone, sizeof introduction.zone);
    culm_read_bytes(&reader, said, sizeof said);
    if (proof->type != CULM_WIRE_PROOF || !handshake->greeted || !culm_reader_done(&reader)) {
        return culm_error_set(
            error, CULM_ERR_FORMAT,
            "the hello is not followed by a proof; is this worker of the same version?");
    }
    if (!right_mac(handshake, &introduction, said)) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "wrong token: this worker belongs to another run");
    }
    *ret_introduction = introduction;
    return CULM_OK;
}

/*
 * Who calls, and who answers: each side proves that it knows the run's token, which is never sent.
 *
 *     caller ── HELLO: who calls whom, nonce a ────────────────────────────▶ listener
 *     caller ◀─ CHALLENGE: nonce b, MAC(token; "listener", ids, a, b) ────── listener
 *     caller ── PROOF: introduction, MAC(token; "caller", ids, a, b, it) ──▶ listener
 *     caller ◀─ WELCOME, or REFUSED: why, and the end of the connection ──── listener
 *
 * A newcomer calls the leader as CULM_NEWCOMER, and WELCOME tells it which node it is; its proof is
 * of no use to come in as any other.
 *
 * The caller says nothing but its id before the listener has proved itself, so whoever took over an
 * address that was a coordinator's or a peer's learns nothing from it. Ids, nonces and the whole
 * introduction are under the MAC: no proof can be used for another node, in another connection or
 * in the other direction. What comes after is not under a MAC: on one machine nobody sits between
 * the two ends; a network needs TLS around this.
 *
 * No I/O here; nonces are the caller's to give. Thread: none of its own. Internal to the room.
 */
#ifndef CULM_CLUSTER_HANDSHAKE_H
#define CULM_CLUSTER_HANDSHAKE_H

#include "base/secret.h"
#include "cluster/wire.h"

#define CULM_NONCE_BYTES 32

struct culm_handshake {
    const char *token;        /* borrowed */
    int32_t caller, listener; /* node ids; the listener may be CULM_LEADER, and the caller of that
                                 CULM_NEWCOMER */
    uint8_t caller_nonce[CULM_NONCE_BYTES], listener_nonce[CULM_NONCE_BYTES];
    bool greeted; /* both ids and nonces are known */
};

/* What a caller says of itself. */
struct culm_introduction {
    char address[CULM_ADDRESS_SIZE]; /* where it listens for its peers */
    char name[CULM_WIRE_TEXT_MAX];   /* for the coordinator */
    uint32_t role;                   /* the one that a newcomer asks for; else 0 */
};

/* --- the caller --- */

void culm_handshake_call(struct culm_handshake *handshake, const char *borrow_token, int32_t caller,
                         int32_t listener, const uint8_t nonce[CULM_NONCE_BYTES]);
void culm_handshake_hello(const struct culm_handshake *handshake, struct culm_buf *meta);
/* CULM_ERR_FORMAT: no challenge; CULM_ERR_CONFIG: by one that does not know the token. */
enum culm_status culm_handshake_challenged(struct culm_handshake *handshake,
                                           const struct culm_message *challenge,
                                           struct culm_error *error);
void culm_handshake_proof(const struct culm_handshake *handshake,
                          const struct culm_introduction *introduction, struct culm_buf *meta);

/* --- the listener --- */

void culm_handshake_listen(struct culm_handshake *handshake, const char *borrow_token,
                           int32_t listener, const uint8_t nonce[CULM_NONCE_BYTES]);
/* CULM_ERR_FORMAT: no hello, or one for somebody else. */
enum culm_status culm_handshake_greeted(struct culm_handshake *handshake,
                                        const struct culm_message *hello, struct culm_error *error);
void culm_handshake_challenge(const struct culm_handshake *handshake, struct culm_buf *meta);
/* CULM_ERR_FORMAT: no proof; CULM_ERR_CONFIG: by one that does not know the token. Afterwards
 * `caller` is who it says. */
enum culm_status culm_handshake_proved(const struct culm_handshake *handshake,
                                       const struct culm_message *proof,
                                       struct culm_introduction *ret_introduction,
                                       struct culm_error *error);

#endif

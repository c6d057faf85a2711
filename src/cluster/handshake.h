/*
 * The handshake of a connection: each side proves that it knows the run's token, which is never
 * sent.
 *
 *     caller ── HELLO: who calls whom, nonce a ────────────────────────────▶ listener
 *     caller ◀─ CHALLENGE: nonce b, MAC(token; "listener", ids, a, b) ────── listener
 *     caller ── PROOF: introduction, MAC(token; "caller", ids, a, b, it) ──▶ listener
 *     caller ◀─ WELCOME, or REFUSED: why, and the end of the connection ──── listener
 *
 * A newcomer calls the leader as CULM_NEWCOMER, and WELCOME tells it its id; its proof cannot be
 * used to get in as any other node.
 *
 * Until the listener has proved itself, the caller reveals nothing but ids and a nonce, so whoever
 * has taken over the address of a leader or a peer learns nothing. The MAC covers ids, nonces
 * and the whole introduction, so a proof is of no use for another node, on another connection, or
 * in the other direction. Frames after the handshake have no MAC: on one machine nobody sits
 * between the two ends; between machines TLS is around it, handshake included (net/tls.h).
 *
 * No I/O; nonces are supplied by the user of this file. Thread: any. Internal to the room.
 */
#ifndef CULM_CLUSTER_HANDSHAKE_H
#define CULM_CLUSTER_HANDSHAKE_H

#include "base/secret.h"
#include "cluster/wire.h"
#include "net/leader.h"

#define CULM_NONCE_BYTES 32

struct culm_handshake {
    const char *token;        /* borrowed */
    int32_t caller, listener; /* node ids; or CULM_NEWCOMER, CULM_VISITOR that call CULM_LEADER */
    uint8_t caller_nonce[CULM_NONCE_BYTES], listener_nonce[CULM_NONCE_BYTES];
    bool greeted; /* both ids and nonces are known */
};

/* What a caller says about itself. */
struct culm_introduction {
    char address[CULM_ADDRESS_SIZE]; /* where it listens for peers; "": nowhere */
    char name[CULM_WIRE_TEXT_MAX];   /* for the leader */
    char host[CULM_PLACE_SIZE],
        zone[CULM_PLACE_SIZE]; /* what its machine is called, and where that is; "": it does not say */
    uint32_t role;             /* that a newcomer asks for; else 0 */
};

/* --- the caller --- */

void culm_handshake_call(struct culm_handshake *handshake, const char *borrow_token, int32_t caller,
                         int32_t listener, const uint8_t nonce[CULM_NONCE_BYTES]);
void culm_handshake_hello(const struct culm_handshake *handshake, struct culm_buf *meta);
/* CULM_ERR_FORMAT: it is not a challenge; CULM_ERR_CONFIG: the listener does not know the token. */
enum culm_status culm_handshake_challenged(struct culm_handshake *handshake,
                                           const struct culm_message *challenge,
                                           struct culm_error *error);
void culm_handshake_proof(const struct culm_handshake *handshake,
                          const struct culm_introduction *introduction, struct culm_buf *meta);

/* --- the listener --- */

void culm_handshake_listen(struct culm_handshake *handshake, const char *borrow_token,
                           int32_t listener, const uint8_t nonce[CULM_NONCE_BYTES]);
/* CULM_ERR_FORMAT: it is not a hello, or one for somebody else. */
enum culm_status culm_handshake_greeted(struct culm_handshake *handshake,
                                        const struct culm_message *hello, struct culm_error *error);
void culm_handshake_challenge(const struct culm_handshake *handshake, struct culm_buf *meta);
/* CULM_ERR_FORMAT: it is not a proof; CULM_ERR_CONFIG: the caller does not know the token. On
 * success, handshake->caller is proved. */
enum culm_status culm_handshake_proved(const struct culm_handshake *handshake,
                                       const struct culm_message *proof,
                                       struct culm_introduction *ret_introduction,
                                       struct culm_error *error);

#endif

/*
 * What the worlds say to each other, on the same connections as the actors' messages.
 *
 *     worker ─ HELLO, PROOF ─▶ coordinator     (handshake.h)    worker ─ HELLO, PROOF ─▶ worker
 *     worker ◀─ CHALLENGE, WELCOME (the brief) ──               worker ◀ CHALLENGE, WELCOME ─
 *     worker ── PREPARING ... ──▶              while it opens    (then data; see member.h)
 *     worker ── READY ──▶                      what the brief names; or why it is not
 *     worker ◀─ BOOK (everybody) ──
 *     worker ◀─ BOOK (one) ──                  at every later join
 *     worker ◀─ NEWS ──                        what the brief would say by now
 *     worker ◀─ ALIVE ──                       now and then, once it is ready
 *     worker ── FAILED ──▶                     why it ends by itself
 *     worker ◀─ REFUSED ──                     and the end of the connection
 *
 * The brief is the payload of WELCOME: bytes that this room does not look into. Only a worker that
 * is ready is a peer of others.
 *
 * Types from CULM_WIRE_FIRST are the worlds'; those below are the actors'. Internal to the room.
 */
#ifndef CULM_CLUSTER_WIRE_H
#define CULM_CLUSTER_WIRE_H

#include "base/buf.h"
#include "net/socket.h"
#include "net/world.h"

enum culm_wire {
    CULM_WIRE_FIRST = 0xff00,
    CULM_WIRE_HELLO = CULM_WIRE_FIRST,
    CULM_WIRE_WELCOME, /* of a coordinator: struct culm_welcome, and the brief */
    CULM_WIRE_REFUSED,
    CULM_WIRE_BOOK,
    CULM_WIRE_CHALLENGE,
    CULM_WIRE_PREPARING,
    CULM_WIRE_READY,
    CULM_WIRE_PROOF,
    CULM_WIRE_ALIVE,  /* the coordinator has nothing else to say, but it is there */
    CULM_WIRE_FAILED, /* as READY, of a worker that is at its end: why */
    CULM_WIRE_NEWS,   /* of a coordinator: bytes that this room does not look into */
};

#define CULM_WIRE_TOKEN_MAX 128
#define CULM_WIRE_TEXT_MAX 512
#define CULM_WIRE_HELLO_MAX 2048 /* bytes of meta of any but BOOK */
#define CULM_WIRE_BRIEF_MAX ((size_t)64 << 20)
/* How long a connection, or one that was refused, may last without a proof. */
#define CULM_WIRE_HELLO_NS(limit_ms) ((uint64_t)((limit_ms) ? (limit_ms) : 10000) * 1000000u)
#define CULM_WIRE_NODES_MAX 100000 /* node ids are below */

/* What the coordinator says to one that it lets in. */
struct culm_welcome {
    int64_t pid; /* its own */
    int32_t node;
    uint32_t role; /* of a newcomer; else 0: it was told when it was started */
};

void culm_welcome_encode(const struct culm_welcome *welcome, struct culm_buf *buf);
bool culm_welcome_decode(const struct culm_message *message, struct culm_welcome *ret_welcome);

struct culm_ready {
    enum culm_status status; /* not CULM_OK: it cannot work, and ends */
    char signature[CULM_WIRE_TEXT_MAX];
    char text[CULM_WIRE_TEXT_MAX]; /* why not */
};

void culm_ready_encode(const struct culm_ready *ready, struct culm_buf *buf);
bool culm_ready_decode(const struct culm_message *message, struct culm_ready *ret_ready);

/* Where a node listens for its peers. */
struct culm_entry {
    int32_t node;
    char address[CULM_ADDRESS_SIZE];
};
void culm_entry_encode(const struct culm_entry *entry, struct culm_buf *buf);
/* A BOOK is any number of entries. False: *at is the end, or what follows is none. */
bool culm_entry_decode(struct culm_reader *reader, struct culm_entry *ret_entry);

#endif

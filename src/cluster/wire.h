/*
 * The messages of the worlds, which share connections with the actors' messages.
 *
 *     worker ─ HELLO, PROOF ─▶ leader     (handshake.h)    worker ─ HELLO, PROOF ─▶ worker
 *     worker ◀─ CHALLENGE, WELCOME (the brief) ──               worker ◀ CHALLENGE, WELCOME ─
 *     worker ── PREPARING ... ──▶              while it prepares   (then data; see member.h)
 *     worker ── READY ──▶                      it has prepared, or why it declines
 *     worker ◀─ ADMITTED (its id) ──           a newcomer, which had none so far
 *     worker ◀─ BOOK (everybody) ──
 *     worker ◀─ BOOK (one) ──                  at every later join
 *     worker ◀─ NEWS ──                        additions to the brief, from WELCOME on
 *     worker ◀─ ALIVE ──                       if there is nothing else to send, once it is ready
 *     worker ── FAILED ──▶                     why it ends by itself
 *     worker ◀─ REFUSED ──                     and the end of the connection
 *
 *     leader ─ HELLO, PROOF ─▶ worker          another one leads now, and calls those who took part before
 *     leader ◀─ CHALLENGE, WELCOME ──
 *     leader ── TAKE_OVER (its term, where it lets nodes in) ──▶
 *     leader ◀─ PROMISED ──                    from now on it hears no leader of a lower term, each of
 *                                              which is told DEPOSED, as who calls with a lower term is
 *
 * The brief is the payload of WELCOME; its content is opaque here. A worker is a peer of others
 * only once it is ready.
 *
 * Types from CULM_WIRE_FIRST on belong to the worlds, those below to the actors. Thread: any.
 * Internal to the room.
 */
#ifndef CULM_CLUSTER_WIRE_H
#define CULM_CLUSTER_WIRE_H

#include "base/buf.h"
#include "net/socket.h"
#include "net/world.h"

enum culm_wire {
    CULM_WIRE_FIRST = 0xff00,
    CULM_WIRE_HELLO = CULM_WIRE_FIRST,
    CULM_WIRE_WELCOME, /* from a leader: struct culm_welcome, and the brief as payload */
    CULM_WIRE_REFUSED,
    CULM_WIRE_BOOK,
    CULM_WIRE_CHALLENGE,
    CULM_WIRE_PREPARING,
    CULM_WIRE_READY,
    CULM_WIRE_PROOF,
    CULM_WIRE_ALIVE,     /* the leader is alive, and has nothing else to send */
    CULM_WIRE_FAILED,    /* struct culm_ready: why a worker is about to end by itself */
    CULM_WIRE_NEWS,      /* from a leader: opaque bytes */
    CULM_WIRE_ADMITTED,  /* from a leader: a newcomer's id, i32 */
    CULM_WIRE_TAKE_OVER, /* from a leader that calls a node: struct culm_claim */
    CULM_WIRE_PROMISED,  /* the answer: struct culm_ready */
    CULM_WIRE_DEPOSED,   /* to a leader: another one's term, which is higher, u64 */
};

#define CULM_WIRE_TOKEN_MAX 128
#define CULM_WIRE_TEXT_MAX 512
#define CULM_WIRE_HELLO_MAX 2048 /* most meta bytes of any of these messages but BOOK */
#define CULM_WIRE_BRIEF_MAX ((size_t)64 << 20)
/* How long an unproved or refused connection may last. */
#define CULM_WIRE_HELLO_NS(limit_ms) ((uint64_t)((limit_ms) ? (limit_ms) : 10000) * 1000000u)

/* Who calls the leader's process for something else than to take part: its connection is handed over to whoever serves
 * such visits (host.h). Its proof is of no use for anything else. */
#define CULM_VISITOR INT32_MIN

/* What the leader tells a worker that it lets in. */
struct culm_welcome {
    int64_t pid; /* of the leader */
    int32_t
        node; /* CULM_NEWCOMER: it gets its id when it is ready (CULM_WIRE_ADMITTED); CULM_VISITOR */
    uint32_t role; /* of a newcomer; 0 for others, which know it from their start */
    bool plain;    /* between machines of this run nothing is encrypted */
};

void culm_welcome_encode(const struct culm_welcome *welcome, struct culm_buf *buf);
bool culm_welcome_decode(const struct culm_message *message, struct culm_welcome *ret_welcome);

bool culm_admitted_decode(const struct culm_message *message, int32_t *ret_node);
/* TAKE_OVER. */
struct culm_claim {
    uint64_t term; /* not 0 */
    char address[CULM_ADDRESS_SIZE];
};
void culm_claim_encode(const struct culm_claim *claim, struct culm_buf *buf);
bool culm_claim_decode(const struct culm_message *message, struct culm_claim *ret_claim);
/* DEPOSED. */
bool culm_term_decode(const struct culm_message *message, uint64_t *ret_term);

struct culm_ready {
    enum culm_status status; /* not CULM_OK: the worker cannot take part, and ends */
    char signature[CULM_WIRE_TEXT_MAX];
    char text[CULM_WIRE_TEXT_MAX]; /* the reason */
};

void culm_ready_encode(const struct culm_ready *ready, struct culm_buf *buf);
bool culm_ready_decode(const struct culm_message *message, struct culm_ready *ret_ready);

/* Where a node listens for its peers; address "": nowhere. */
struct culm_entry {
    int32_t node;
    char address[CULM_ADDRESS_SIZE];
};
void culm_entry_encode(const struct culm_entry *entry, struct culm_buf *buf);
/* The next entry of a BOOK, which is any number of them. False: there are no more, or it is
 * malformed (reader->failed). */
bool culm_entry_decode(struct culm_reader *reader, struct culm_entry *ret_entry);

#endif

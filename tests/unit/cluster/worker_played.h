/*
 * The world of a worker alone, for tests: the test speaks the leader's and a peer's side by
 * hand, and the worker's side is a child process whose actor leaves at its start, or does what the
 * leader's messages say. Failures end the test (cmocka). Thread: the test's.
 */
#ifndef TESTS_UNIT_CLUSTER_WORKER_PLAYED_H
#define TESTS_UNIT_CLUSTER_WORKER_PLAYED_H

#include "cluster/handshake.h"
#include "cluster/worker.h"
#include "net/frame.h"

#include <stdlib.h>

#define SECOND 1000000000ull
#define READABLE 1 /* POLLIN */
#define TOKEN "token"

#define PEER 9                  /* whose side the test speaks */
#define LONG_MS 600000          /* no limit that a test is about: only a fault meets it */
#define PATIENCE (600 * SECOND) /* the test's own, likewise */
#define DIAL_MS 600             /* a limit for dialing that is to be met */
#define HELLO_MS 300            /* and for who calls to prove itself */

enum what {
    SEND = 1, /* to the worker: send a frame to the peer */
    LOWER,    /* to the worker: there are no descriptors left */
    RAISE,    /* to the worker: there are again */
    LOST,     /* from the worker: the peer is lost */
    ALIVE,    /* both ways: is it? */
    DATA,     /* between the worker and the peer */
    HEARD,    /* from the worker: the peer has said DATA */
    FAULT,    /* to the worker: a fault fires, before which all that was sent leaves */
    NESTED,   /* from the worker: it heard something while it was busy with something else */
};

struct setting {
    int leave;                            /* at the start, with this code; 0: stays */
    int64_t orphan_ms, dial_ms, hello_ms; /* 0: LONG_MS */
    size_t pool_bytes;                    /* 0: no limit */
    int words;                            /* where its last words go */
    bool calls_only;
};

struct frame {
    struct culm_message message;
    uint8_t bytes[CULM_FRAME_HEADER_BYTES + CULM_WIRE_HELLO_MAX];
};

struct joined {
    pid_t pid;
    int listen_fd, fd, words;
    struct culm_introduction introduction;
};

#define NOT_THERE 97 /* an exit code: there is no run to come to */

extern const uint8_t nonce[CULM_NONCE_BYTES]; /* of the test's side */

int accept_one(int listen_fd);
/* False: the other side closed. */
bool hear(int fd, struct frame *ret_frame);
void say(int fd, uint16_t type, struct culm_buf *meta);
void say_nothing(int fd, enum what what);

/* The leader's side of the handshake, up to the proof; and what follows it. */
void prove(int fd, struct culm_introduction *ret_introduction);
void welcome(int fd);

/* A worker that calls; false: nobody can listen there on this machine. */
bool start_at(const char *where, struct setting setting, struct joined *ret_joined);
struct joined start_as(struct setting setting);
struct joined start(int leave);
/* One that has been let in. */
struct joined join_as(struct setting setting);
struct joined join(int leave);
/* The exit code, and what it said last. */
int end_of(struct joined *w, char *ret_words, size_t size);
/* Ends the leader's side; the exit code. */
int part(struct joined *w);

void order(const struct joined *w, enum what what);
/* Waits for the next message of the worker's actor. */
enum what answer(const struct joined *w);

/* The test's side of the peer, as one who calls, and may be called at `address`. */
bool call_from(const char *address, const char *token, int fd);
bool call(const char *token, int fd);
int connect_to(const struct joined *w);
/* Tells the worker where the peer is: at an entry, at a listener of the test's, or nowhere. */
void tell_entry(const struct joined *w, const struct culm_entry *entry);
int listen_as_peer(const struct joined *w);
void caller_as_peer(const struct joined *w);
/* As one who is called: lets it in and hears its frame. */
void let_in(int fd);
/* Or lets it in, and says DATA in the same breath. */
void let_in_with_data(int fd);

#endif

/*
 * A receiver of answers beside the run's files: a program at a Unix socket, an HTTP server, an MQTT broker.
 *
 * It may be slow, hang or be away, and costs answers, never frames or memory: lines wait in a queue with a limit, of
 * which the oldest give way, and a thread sends them. What ends or fails is tried again after 1 s to 30 s, for ever.
 * A line counts as sent when the receiver has acknowledged it (a Unix socket: has taken it); after a failure, lines
 * that it may have got are sent again.
 *
 * Thread: one at a time, the loop's.
 */
#ifndef CULM_LIVE_RECEIVER_H
#define CULM_LIVE_RECEIVER_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CULM_RECEIVER_BYTES ((size_t)4 << 20) /* that wait */
#define CULM_RECEIVER_LINES 16384
#define CULM_RECEIVER_BATCH 64 /* lines that are on their way at a time, */
#define CULM_RECEIVER_BATCH_BYTES ((size_t)256 << 10)
#define CULM_RECEIVER_SHOWN 256

struct culm_receiver;

/* to: an address as the workload has it, which was checked. CULM_ERR_MACHINE: a library that it needs is not installed.
 * CULM_ERR_MEMORY. */
enum culm_status culm_receiver_new(const char *to, struct culm_receiver **ret_receiver,
                                   struct culm_error *error);
/* Copies the line, which has no end. Never waits for the receiver. */
void culm_receiver_put(struct culm_receiver *receiver, const char *line);

struct culm_receiver_look {
    char to[CULM_RECEIVER_SHOWN]; /* without passwords */
    const char *state;            /* up, down, waiting: nothing has been sent yet */
    int64_t sent, lost, waiting;
    /* Of news, each told once for each outage. */
    char down[CULM_ERROR_MAX]; /* why it does not take answers; "": nothing new */
    bool up;                   /* it takes them again */
};
/* news: whether what is new counts as told. */
void culm_receiver_look(struct culm_receiver *receiver, bool news,
                        struct culm_receiver_look *ret_look);

/* No more lines come. */
void culm_receiver_close(struct culm_receiver *receiver);
/* Closes it, and waits until what waits has been sent, at most until then (culm_clock_ns), if it takes answers at all; the rest is lost.
 * Returns two seconds later at the latest. */
void culm_receiver_end(struct culm_receiver *receiver, uint64_t until_ns);
void culm_receiver_free(struct culm_receiver *receiver); /* ends it, too; NULL is fine */

/* Whether it is the address of a receiver: unix:PATH, http://..., https://..., mqtt://HOST[:PORT]/TOPIC. CULM_ERR_CONFIG. */
enum culm_status culm_receiver_check(const char *to, struct culm_error *error);

#endif

/*
 * A fabric in memory, for a member or a roster alone: the test holds the other end of each of its streams, moves the clock and plays
 * whoever is there. The test calls `played_turn` where a loop would have a turn; before that nothing arrives.
 */
#ifndef CULM_TESTS_UNIT_CLUSTER_PLAYED_LINKS_H
#define CULM_TESTS_UNIT_CLUSTER_PLAYED_LINKS_H

#include "cluster/handshake.h"
#include "net/fabric.h"
#include "net/frame.h"

#define PLAYED_LINES 1100
#define PLAYED_TOKEN "token"

struct line {
    struct culm_stream stream; /* first member: the end of the member or roster */
    struct played *played;
    struct culm_buf there, here; /* bytes to the member or roster, and from it */
    size_t there_read, here_read;
    struct culm_frame_reader reader;
    struct culm_handshake handshake;
    char address[64]; /* that was called; "": it came in */
    int events;
    bool hung_up; /* by the test */
    bool closed;  /* by the member or roster */
    void (*gone)(void *ctx);
    void *gone_ctx;
};

struct played {
    struct culm_fabric fabric; /* first member */
    uint64_t now_ns, alarm_ns;
    enum culm_status connect; /* what becomes of it at once */
    int connected;            /* what is found out about it later: an errno */
    enum culm_status random;
    struct culm_blob_pool *pool;
    struct line *line[PLAYED_LINES];
    int32_t lines, calls;
};

void played_begin(struct played *played);
/* After the member or roster was freed. */
void played_end(struct played *played);
void played_turn(struct played *played);
struct line *played_line(struct played *played); /* one that comes in */
/* The last one that it opened to the address and has not closed; NULL: there is none. */
struct line *played_called(struct played *played, const char *address);

/* --- the other end of a line --- */

void line_say(struct line *line, uint16_t type,
              const struct culm_buf *meta); /* NULL: nothing but the type */
/* The next frame; NULL: there is none. Valid until the next call. */
const struct culm_message *line_hear(struct line *line);
void line_hang_up(struct line *line);
/* The node that was called challenges whoever called it, with that token. */
void line_challenge(struct line *line, const char *token, int32_t node);
/* The caller greets; then it answers the challenge with a proof, with that token, and says where it listens. */
void line_greet(struct line *line, int32_t caller, int32_t called);
void line_answer(struct line *line, const char *token, const char *address);

#endif

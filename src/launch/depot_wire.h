/*
 * What is said in a visit to a depot (depot.h): one request on each connection, then its answers.
 *
 *     node ── PUT step, file, folder, bytes ──▶ launcher      node ── GET step, file ──▶ launcher
 *     node ◀── go on, or why not ──                           node ◀── its bytes, or why not ──
 *     node ── the bytes ──▶                                   node ◀── so many bytes ──
 *     node ◀── written and synced, or why not ──
 *
 *     anybody with the token ── EVENTS, bytes that it has ──▶ launcher
 *     it ◀── how many more there are, and these: of the run's events.jsonl ──
 *
 * Each message is its length (u32) and the fields, little-endian. Thread: any. Internal to the room.
 */
#ifndef CULM_LAUNCH_DEPOT_WIRE_H
#define CULM_LAUNCH_DEPOT_WIRE_H

#include "base/buf.h"
#include "base/file.h"
#include "net/channel.h"

#define CULM_DEPOT_MESSAGE_MAX 8192
#define CULM_DEPOT_FILE_MAX 64
#define CULM_DEPOT_SILENCE_NS 60000000000ull /* after which the other side is gone */
#define CULM_DEPOT_CHUNK ((size_t)256 << 10)

enum culm_depot_verb { CULM_DEPOT_PUT = 1, CULM_DEPOT_GET, CULM_DEPOT_EVENTS };

struct culm_depot_request {
    enum culm_depot_verb verb;
    int64_t step;
    char file[CULM_DEPOT_FILE_MAX]; /* a name in a checkpoint's folder */
    char to[CULM_PATH_MAX];         /* PUT */
    uint64_t bytes;                 /* PUT, EVENTS */
};

struct culm_depot_answer {
    enum culm_status status;
    uint64_t bytes; /* GET, EVENTS */
    char text[CULM_ERROR_MAX];
};

void culm_depot_request_encode(const struct culm_depot_request *request, struct culm_buf *buf);
/* False: it is none. A file is a plain name: letters, digits, '.', '-' and '_', and no '.' first. */
bool culm_depot_request_decode(const void *data, size_t len,
                               struct culm_depot_request *ret_request);
void culm_depot_answer_encode(const struct culm_depot_answer *answer, struct culm_buf *buf);
bool culm_depot_answer_decode(const void *data, size_t len, struct culm_depot_answer *ret_answer);

/* Waits for CULM_DEPOT_SILENCE_NS at most. Errors as of culm_channel_read and _write; CULM_ERR_FORMAT. */
enum culm_status culm_depot_say(struct culm_channel *channel, const struct culm_buf *message,
                                struct culm_error *error);
enum culm_status culm_depot_hear(struct culm_channel *channel,
                                 uint8_t ret_data[CULM_DEPOT_MESSAGE_MAX], size_t *ret_len,
                                 struct culm_error *error);

#endif

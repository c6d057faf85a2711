/* Internal to data: ffmpeg as a feed's child. */
#ifndef CULM_DATA_FEED_INTERNAL_H
#define CULM_DATA_FEED_INTERNAL_H

#include "data/feed.h"

#include <sys/types.h>

/* A child that writes PPM pictures, one after the other, into a pipe. */
struct feed_child {
    pid_t pid; /* 0: none */
    int out, said;
    char *buffer;                 /* what has come of the next picture */
    size_t len, capacity, wanted; /* wanted: header and pixels; 0: the header is not whole */
    size_t header;
    int32_t width, height;
    uint64_t heard_ns;  /* of the last byte, but for the time in which we were stopped */
    uint64_t looked_ns; /* when somebody looked for more the last time */
    char last[256];     /* the last line that it said */
    size_t last_len;
    bool line_ended;
};

/* CULM_ERR_MACHINE: it is not installed. `as_recorded`: a file as slowly as a camera gave it. */
enum culm_status feed_child_start(struct feed_child *child, const char *name, const char *file,
                                  bool as_recorded, struct culm_error *error);
/* Gives the processes and pipes back; the buffer stays. */
void feed_child_stop(struct feed_child *child);
void feed_child_release(struct feed_child *child);
/* Until a whole picture is in the buffer, at `header`, or the child has ended, which is CULM_ERR_CLOSED
 * when it ended well. `frames` came before. */
enum culm_status feed_child_read(struct feed_child *child, const char *name, int64_t frames,
                                 int wait_ms, int stall_ms, struct culm_error *error);
/* Makes room for the next one. */
void feed_child_take(struct feed_child *child);

#endif

/* Internal to src/data: ffmpeg as the child process of a feed. */
#ifndef CULM_DATA_FEED_INTERNAL_H
#define CULM_DATA_FEED_INTERNAL_H

#include "data/feed.h"

#include <sys/types.h>

/* A child that writes PPM pictures, one after the other, into a pipe. */
struct feed_child {
    pid_t pid; /* 0: none */
    int out, said;
    char *buffer;                 /* what has arrived of the next picture */
    size_t len, capacity, wanted; /* wanted: header and pixels; 0: header incomplete */
    size_t header;                /* bytes of the header */
    int32_t width, height;
    uint64_t heard_ns;  /* when the last byte came, put off by any time in which we were stopped */
    uint64_t looked_ns; /* when we last looked for more */
    char first[512];    /* the first line that it wrote to standard error; "": no whole one */
    char last[1024];    /* the last one */
    size_t last_len;
    bool line_ended;
    bool said_ended; /* it has closed standard error */
};

/* What it is to give. Everything is borrowed. */
struct feed_child_how {
    const char *name, *file; /* name: for messages */
    bool as_recorded;        /* a regular file comes at the speed at which it was recorded */
    double from_s, to_s;     /* to_s 0: until the end */
    int64_t every;           /* 0: all */
    double most_fps;         /* 0: as fast as they come */
    char *const *words;      /* of the workload, to open and to decode it */
    size_t word_count;
};
/* Starts ffmpeg. CULM_ERR_MACHINE: it is not installed. */
enum culm_status feed_child_start(struct feed_child *child, const struct feed_child_how *how,
                                  struct culm_error *error);
/* Starts one that counts packets, and says so in lines; 0 or an errno. The caller reads *ret_out, closes it, and
 * waits for the process. */
int feed_child_count(const struct feed_child_how *how, int *ret_out, pid_t *ret_pid);
/* Kills the process and closes its pipes; the buffer stays. */
void feed_child_stop(struct feed_child *child);
void feed_child_release(struct feed_child *child);
/* Reads until a whole picture is in the buffer; its pixels begin at buffer + header. `frames` have
 * come before, for messages. Errors as of culm_feed_next; CULM_ERR_CLOSED: the child ended well. */
enum culm_status feed_child_read(struct feed_child *child, const char *name, int64_t frames,
                                 int wait_ms, int stall_ms, struct culm_error *error);
/* Drops the picture in the buffer, to make room for the next one. */
void feed_child_take(struct feed_child *child);

#endif

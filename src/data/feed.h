/*
 * Feeds: pictures one after the other, as a camera gives them. A feed is whatever ffmpeg opens (a clip,
 * a stream, a device), a picture or a folder of pictures (PNG, JPEG; sorted by name, folders inside of
 * it in their place), or an IDX file of images.
 *
 * ffmpeg is a child process that writes raw pixels into a pipe: nothing is decoded here but PNG and
 * JPEG. It dies with the feed, or when it next writes after this program has died.
 *
 * Frames are counted from 0, and on and on where a feed loops. Nothing is dropped and, unless
 * `as_recorded` is asked for, nothing paced here: every frame of the file comes once, in its order, when it
 * is asked for.
 *
 * Thread: a feed belongs to one thread at a time.
 */
#ifndef CULM_DATA_FEED_H
#define CULM_DATA_FEED_H

#include "base/status.h"

#define CULM_FEED_STALL_MS 10000

enum culm_feed_kind { CULM_FEED_FFMPEG, CULM_FEED_PICTURES, CULM_FEED_IDX };

struct culm_feed_options {
    const char *name; /* in messages; NULL: the file */
    const char *file;
    const char
        *labels;      /* an IDX file with a label for each frame of the file; NULL or "": none, but
                           pictures in folders have the number of their folder */
    bool loop;        /* begin again at the end */
    int32_t crop[4];  /* x, y, width, height of the part that is taken; all 0: the whole */
    bool as_recorded; /* ffmpeg gives the frames of a file as fast as they were recorded */
    int stall_ms;     /* without a byte for so long ffmpeg has stalled; 0: CULM_FEED_STALL_MS */
};

struct culm_feed_frame {
    const uint8_t *data; /* rows of `width` pixels, `stride` bytes apart; until the next call */
    size_t stride;
    int32_t width, height, channels; /* channels: 3 (RGB), or 1 (grey) */
    int64_t number;                  /* from 0 */
    int64_t source;                  /* the same in the file: less than `number` in later rounds */
    int32_t label;                   /* -1: none */
    const char *file;                /* that of a picture in a folder, else the feed's */
};

struct culm_feed;

/* Whether the file is there to be read, and can begin again if it is to, as far as that can be told without
 * opening it: CULM_ERR_CONFIG. */
enum culm_status culm_feed_find(const char *name, const char *file, bool loop,
                                struct culm_error *error);
/* The options are copied. CULM_ERR_CONFIG when the file is not there, or has no picture, or labels of
 * another number; CULM_ERR_MACHINE when ffmpeg is needed and not installed; what ffmpeg says of the
 * file comes with the first frame. */
enum culm_status culm_feed_open(const struct culm_feed_options *options,
                                struct culm_feed **ret_feed, struct culm_error *error);
void culm_feed_close(struct culm_feed *feed); /* NULL is fine */
enum culm_feed_kind culm_feed_kind(const struct culm_feed *feed);
/* Whether frames come when they come, and wait in the pipe if they are not asked for: those of a
 * stream, a device or a fifo, or as recorded. */
bool culm_feed_is_live(const struct culm_feed *feed);
/* Frames in the file; -1: not known before its end. */
int64_t culm_feed_count(const struct culm_feed *feed);
/* Labels in the file of labels; -1: none was given. As many as frames, where these are known. */
int64_t culm_feed_labels(const struct culm_feed *feed);
/* The labels alone: an IDX file of one for each of `count` frames (-1: any number) of the feed `name`.
 * The caller frees *ret_labels, also after an error. */
enum culm_status culm_feed_read_labels(const char *name, const char *path, int64_t count,
                                       uint8_t **ret_labels, int64_t *ret_count,
                                       struct culm_error *error);
/* The pipe, to poll for reading; -1: there is always a next frame. It changes where a feed loops. */
int culm_feed_fd(const struct culm_feed *feed);

/* The next frame, waiting for `wait_ms` at most (-1: for good).
 *
 *     CULM_ERR_AGAIN        none has come so far
 *     CULM_ERR_CLOSED       the feed has ended
 *     CULM_ERR_TIMEOUT      it has stalled; asking again goes on waiting
 *     CULM_ERR_IO           ffmpeg was killed, or failed in mid-way; pixels could not be read
 *     CULM_ERR_CONFIG       ffmpeg cannot open it, and says why; or the frame is smaller than the crop
 *     CULM_ERR_FORMAT       one picture is damaged: asking again goes on with the next one
 *
 * Each is one line that names the feed. But for AGAIN, TIMEOUT and FORMAT, it stays so. */
enum culm_status culm_feed_next(struct culm_feed *feed, int wait_ms,
                                struct culm_feed_frame *ret_frame, struct culm_error *error);
/* Begins again with frame 0 of the file; the count goes on. */
enum culm_status culm_feed_rewind(struct culm_feed *feed, struct culm_error *error);

#endif

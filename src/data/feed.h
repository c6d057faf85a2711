/*
 * Feeds: sequences of pictures, such as a camera gives. A feed is whatever ffmpeg opens (a clip, a
 * stream, a device), a picture or a folder of pictures (JPEG, PNG, WebP; sorted by name, with
 * subfolders in their place; turned upright as their Exif data says), or an IDX file of images.
 *
 * ffmpeg runs as a child process that writes raw pixels into a pipe; only these pictures are decoded
 * here. The child is killed with the feed, or dies when it next writes after this program has died.
 *
 * A feed may be a part of a file: from one time to another, or one in so many frames. Everything counts these
 * frames then, labels too.
 *
 * Frames are numbered from 0, without starting over where a feed loops. Unless `most_fps` is set, feeds drop no frames and,
 * unless `as_recorded` is set, do not pace them: every frame of the file comes once, in order, when
 * it is asked for.
 *
 * Thread: a feed belongs to one thread at a time.
 */
#ifndef CULM_DATA_FEED_H
#define CULM_DATA_FEED_H

#include "base/status.h"
#include "base/stop.h"

#define CULM_FEED_STALL_MS 10000
#define CULM_FEED_WORDS_MAX 32

enum culm_feed_kind { CULM_FEED_FFMPEG, CULM_FEED_PICTURES, CULM_FEED_IDX };

struct culm_feed_options {
    const char *name; /* for messages; NULL: the file's */
    const char *file;
    /* An IDX file with a label for each frame. NULL or "": there is none, and the label of a
     * picture in a subfolder is the number of that folder. */
    const char *labels;
    bool loop; /* begin again at the end */
    /* The part to take, in seconds of a recording; to_s 0: until the end. Pictures count as `fps` a second. */
    double from_s, to_s;
    double fps;       /* of pictures; 0: 25 */
    int64_t every;    /* takes one in so many frames; 0: all */
    int32_t crop[4];  /* x, y, width, height of the part to take of each frame; all 0: everything */
    bool as_recorded; /* frames of a clip come at the speed at which they were recorded */
    bool
        follow; /* a folder has no end: what comes into it is taken, in the order of time, when nothing has been written to it
                  * for half a second. A feed of anything else ends as ever */
    double
        most_fps; /* of what is no file: frames that come more than twice as fast are left out before anything is done
                      * with them; 0: none are */
    char *const *words; /* for ffmpeg, before the file; they have passed culm_feed_words_check */
    size_t word_count;
    int stall_ms; /* ffmpeg counts as stalled after so long without a byte; 0: the default */
};

struct culm_feed_frame {
    const uint8_t *data; /* rows of `width` pixels, `stride` bytes apart; until the next call */
    size_t stride;
    int32_t width, height, channels; /* channels: 3 (RGB), or 1 (grey) */
    int64_t number;                  /* from 0, counting on when the feed loops */
    int64_t source;                  /* its number among the frames of the file that are taken */
    int32_t label;                   /* -1: none */
    const char *file;                /* the picture's own, or else the feed's, without secrets */
};

struct culm_feed;

/* Checks, as far as that is possible without opening it, that the file can be read and, if it is to
 * loop, that it can begin again. CULM_ERR_CONFIG: it cannot. */
enum culm_status culm_feed_find(const char *name, const char *file, bool loop,
                                struct culm_error *error);
/* Copies the options. CULM_ERR_CONFIG: the file is not there or has no pictures, the crop makes no
 * sense, or the number of labels is wrong; CULM_ERR_MACHINE: ffmpeg is needed but not installed.
 * What ffmpeg has to say about the file is reported with the first frame. */
enum culm_status culm_feed_open(const struct culm_feed_options *options,
                                struct culm_feed **ret_feed, struct culm_error *error);
void culm_feed_close(struct culm_feed *feed); /* NULL is fine */
enum culm_feed_kind culm_feed_kind_of(const struct culm_feed *feed);
/* Whether frames come at their own pace, and queue up in the pipe unless they are asked for: those
 * of a stream, a device or a fifo, and those of a clip as recorded. */
bool culm_feed_is_live(const struct culm_feed *feed);
/* How many frames the file has; -1: not known before its end, or there is none. */
int64_t culm_feed_count(const struct culm_feed *feed);
/* About how long a clip is; -1: not known without decoding it. */
struct culm_feed_length {
    int64_t frames;
    double seconds;
};
/* Looks through the packets of a file, which is as fast as it can be read; of a part of a file, and of what
 * is not read by ffmpeg, nothing is known. CULM_ERR_AGAIN: it was asked to stop (stop NULL: never). */
enum culm_status culm_feed_measure(const struct culm_feed_options *options,
                                   const struct culm_stop *stop,
                                   struct culm_feed_length *ret_length, struct culm_error *error);
/* One line that says which files of a folder are left out; "": none. */
const char *culm_feed_note(const struct culm_feed *feed);
/* How many labels the file of labels has; -1: none was given. Equals culm_feed_count where that is
 * known. */
int64_t culm_feed_labels(const struct culm_feed *feed);
/* Reads an IDX file that has one label for each of the `count` frames (-1: any number) of the feed
 * `name`. The caller sets *ret_labels to NULL first, and frees it, also after an error. */
enum culm_status culm_feed_read_labels(const char *name, const char *path, int64_t count,
                                       int32_t **ret_labels, int64_t *ret_count,
                                       struct culm_error *error);
/* Checks that each frame of the feed is a picture in a subfolder, the number of which is its label.
 * CULM_ERR_CONFIG: it is not. */
enum culm_status culm_feed_find_folders(const char *name, const char *file,
                                        struct culm_error *error);
/* The pipe to poll for the next frame; -1: no need to wait. It changes when a feed begins again. */
int culm_feed_fd(const struct culm_feed *feed);

/* The next frame, waiting for at most `wait_ms` (-1: as long as it takes).
 *
 *     CULM_ERR_AGAIN        none has come within wait_ms
 *     CULM_ERR_CLOSED       the feed has ended
 *     CULM_ERR_TIMEOUT      ffmpeg has stalled; another call goes on waiting
 *     CULM_ERR_IO           ffmpeg was killed or failed on the way, or pixels could not be read
 *     CULM_ERR_CONFIG       ffmpeg cannot open the file, and why; or the crop exceeds the frame
 *     CULM_ERR_FORMAT       one picture is damaged or cannot be read; another call goes on
 *                           with the next one
 *
 * The error is one line, which names the feed or the picture. All but AGAIN, TIMEOUT and FORMAT are
 * final: later calls fail in the same way. */
enum culm_status culm_feed_next(struct culm_feed *feed, int wait_ms,
                                struct culm_feed_frame *ret_frame, struct culm_error *error);
/* Begins again with the first frame of the file; numbers go on. A folder is listed again: new pictures come after the
 * known ones, whatever their names, and those that were found to be gone are left out. */
enum culm_status culm_feed_rewind(struct culm_feed *feed, struct culm_error *error);

/* Whether a file is a source that gives frames for as long as it is there: a stream, a device, a
 * pipe, or a device that is not there now. */
bool culm_feed_lasts(const char *file);
/* Whether it is a named pipe. Opening one anew in the middle of what is written to it is of no use,
 * since the beginning does not come again. */
bool culm_feed_is_pipe(const char *file);
/* Of a source that lasts: ends the connection. Until it is opened again, culm_feed_next fails. */
void culm_feed_hang_up(struct culm_feed *feed);
/* Connects anew, after hanging up or after the end; numbers of frames go on. */
enum culm_status culm_feed_reopen(struct culm_feed *feed, struct culm_error *error);

#endif

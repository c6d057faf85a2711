/* Feeds. See feed.h; the ffmpeg process is in feed_ffmpeg.c. */
#include "data/feed.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/url.h"
#include "data/feed_folder.h"
#include "data/feed_internal.h"
#include "data/idx.h"
#include "data/image.h"
#include "data/pictures.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define EMPTY_MS 50 /* between looks into a folder of which all pictures are gone */
#define LOOK_MS 10  /* between looks for the next picture of a folder */
#define PICTURES_FPS                                                                               \
    25.0 /* by which pictures have times, unless it is said how many a second are meant */
#define PICTURE_BYTES_MAX (1u << 28) /* the largest file of a picture */

struct culm_feed {
    enum culm_feed_kind kind;
    char *name, *file;
    char shown[CULM_PATH_MAX]; /* the file, without secrets */
    bool loop, as_recorded;
    double from_s, to_s, fps, most_fps;
    int64_t every;
    char **words; /* its own */
    size_t word_count;
    int32_t crop[4];
    int stall_ms;
    int64_t number, source;  /* of the next frame */
    struct culm_error ended; /* the final error; status OK: none so far */
    struct feed_child child;
    bool started;
    struct feed_folder pictures;
    bool follow; /* of a folder: goes on with what comes */
    struct culm_image image;
    struct culm_idx idx;
    uint8_t *pixels;
    int32_t *labels; /* NULL: none */
    int64_t label_count;
};

/* --- which frames --- */

/* Of a feed that is not read by ffmpeg: its pictures, whichever are taken. */
static int64_t all(const struct culm_feed *feed) {
    return feed->kind == CULM_FEED_PICTURES ? feed_folder_end(&feed->pictures) : feed->idx.dim[0];
}

static int64_t at_second(const struct culm_feed *feed, double second) {
    return (int64_t)ceil(second * feed->fps - 1e-6);
}

/* The place of a frame that is taken among all. */
static int64_t place_of(const struct culm_feed *feed, int64_t source) {
    return at_second(feed, feed->from_s) + source * feed->every;
}

/* The place behind the last that is taken. */
static int64_t end_of(const struct culm_feed *feed) {
    const int64_t count = all(feed), to = at_second(feed, feed->to_s);
    return feed->to_s > 0 && to < count ? to : count;
}

/* --- labels --- */

enum culm_status culm_feed_read_labels(const char *name, const char *path, int64_t count,
                                       int32_t **ret_labels, int64_t *ret_count,
                                       struct culm_error *error) {
    struct culm_idx idx = {0};
    enum culm_status status = culm_idx_open_labels(path, &idx, error);
    if (status != CULM_OK) {
        return status;
    }
    if (idx.rank != 1) {
        status = culm_error_set(error, CULM_ERR_CONFIG,
                                "feed '%s': labels '%s' is an array of rank %d; give one label for "
                                "each frame",
                                name, path, idx.rank);
    } else if (count >= 0 && idx.dim[0] != count) {
        status = culm_error_set(error, CULM_ERR_CONFIG,
                                "feed '%s': labels '%s' has %lld labels, but the feed has %lld "
                                "frames; give one label for each",
                                name, path, (long long)idx.dim[0], (long long)count);
    } else if (!(*ret_labels = malloc(((size_t)idx.dim[0] + 1) * sizeof **ret_labels))) {
        status = culm_error_set(error, CULM_ERR_MEMORY, "feed '%s': out of memory", name);
    } else {
        *ret_count = idx.dim[0];
        status = culm_idx_labels(&idx, path, *ret_labels, error);
    }
    culm_idx_release(&idx);
    return status;
}

/* --- pictures --- */

static enum culm_status picture(struct culm_feed *feed, struct culm_feed_frame *frame,
                                struct culm_error *error) {
    const int64_t place = place_of(feed, feed->source);
    char *data = NULL;
    size_t len;
    frame->file = feed_folder_path(&feed->pictures, place);
    enum culm_status status =
        culm_file_read(NULL, frame->file, PICTURE_BYTES_MAX, &data, &len, error);
    if (status == CULM_OK) {
        status = culm_image_decode(data, len, frame->file, 3, &feed->image, error);
        if (status == CULM_OK) {
            status = culm_image_turn(&feed->image, culm_image_orientation(data, len), error);
        }
    }
    free(data);
    if (status == CULM_ERR_NOT_FOUND) {
        feed_folder_is_gone(&feed->pictures, place); /* from now on it has no turn */
    }
    if (status == CULM_ERR_NOT_FOUND || status == CULM_ERR_CONFIG || status == CULM_ERR_IO) {
        status =
            CULM_ERR_FORMAT; /* gone, a link that leads nowhere, not for us to read, or a bad block */
    }
    if (status == CULM_ERR_FORMAT) { /* the next call is for the next picture */
        feed->source++;
        feed->number++;
    }
    frame->data = feed->image.data;
    frame->width = feed->image.width;
    frame->height = feed->image.height;
    frame->channels = 3;
    frame->label = feed_folder_number(&feed->pictures, place);
    return status;
}

/* --- IDX --- */

/* Whether a file is IDX, by its first bytes; a gzip file counts as such if its name
 * ends in .gz. */
static bool is_idx(const char *path) {
    uint8_t head[4] = {0};
    size_t len = strlen(path);
    FILE *file = culm_file_is_regular(path) ? fopen(path, "rbe") : NULL;
    if (!file) {
        return false;
    }
    size_t got = fread(head, 1, sizeof head, file);
    fclose(file);
    bool packed = head[0] == 0x1F && head[1] == 0x8B && len > 3 && !strcmp(path + len - 3, ".gz");
    return packed ||
           (got == 4 && !head[0] && !head[1] && head[2] == 8 && head[3] >= 1 && head[3] <= 4);
}

static enum culm_status open_idx(struct culm_feed *feed, struct culm_error *error) {
    feed->kind = CULM_FEED_IDX;
    enum culm_status status = culm_idx_open(feed->file, NULL, &feed->idx, error);
    if (status != CULM_OK) {
        return status;
    }
    const struct culm_idx *idx = &feed->idx;
    int64_t channels = idx->rank == 4 ? idx->dim[3] : 1;
    if (idx->rank < 3 || (channels != 1 && channels != 3) || idx->item_bytes > PICTURE_BYTES_MAX ||
        idx->dim[1] > CULM_IMAGE_SIDE_MAX || idx->dim[2] > CULM_IMAGE_SIDE_MAX) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "feed '%s': '%s' does not hold images; give an array [count, height, "
                              "width] or [count, height, width, 1 or 3]",
                              feed->name, feed->file);
    }
    feed->pixels = malloc((size_t)idx->item_bytes);
    return feed->pixels
               ? CULM_OK
               : culm_error_set(error, CULM_ERR_MEMORY, "feed '%s': out of memory", feed->name);
}

static enum culm_status item(struct culm_feed *feed, struct culm_feed_frame *frame,
                             struct culm_error *error) {
    frame->data = feed->pixels;
    frame->height = (int32_t)feed->idx.dim[1];
    frame->width = (int32_t)feed->idx.dim[2];
    frame->channels = feed->idx.rank == 4 ? (int32_t)feed->idx.dim[3] : 1;
    return culm_idx_read(&feed->idx, place_of(feed, feed->source), 1, feed->pixels, error);
}

/* --- ffmpeg --- */

static enum culm_status start(struct culm_feed *feed, struct culm_error *error) {
    const struct feed_child_how how = {.name = feed->name,
                                       .file = feed->file,
                                       .as_recorded = feed->as_recorded,
                                       .from_s = feed->from_s,
                                       .to_s = feed->to_s,
                                       .every = feed->every,
                                       .most_fps = feed->most_fps,
                                       .words = feed->words,
                                       .word_count = feed->word_count};
    feed->started = true;
    return feed_child_start(&feed->child, &how, error);
}

static enum culm_status ffmpeg(struct culm_feed *feed, int wait_ms, struct culm_feed_frame *frame,
                               struct culm_error *error) {
    struct feed_child *child = &feed->child;
    enum culm_status status = feed->started ? CULM_OK : start(feed, error);
    if (status == CULM_OK) {
        status = feed_child_read(child, feed->name, feed->number, wait_ms, feed->stall_ms, error);
    }
    if (status != CULM_OK) {
        return status;
    }
    frame->data = (const uint8_t *)child->buffer + child->header;
    frame->width = child->width;
    frame->height = child->height;
    frame->channels = 3;
    feed_child_take(child);
    return CULM_OK;
}

/* --- feeds --- */

/* Whether it names something that ffmpeg opens but that is not a file: "rtsp://..", "lavfi:..". */
static bool is_elsewhere(const char *file) {
    const char *colon = strchr(file, ':');
    return colon && access(file, F_OK) != 0;
}

bool culm_feed_is_pipe(const char *file) {
    struct stat about;
    return stat(file, &about) == 0 && S_ISFIFO(about.st_mode);
}

enum culm_status culm_feed_find(const char *name, const char *file, bool loop,
                                struct culm_error *error) {
    if (access(file, R_OK) != 0 && !is_elsewhere(file)) {
        return culm_error_set(error, CULM_ERR_CONFIG, "feed '%s': cannot read '%s'", name, file);
    }
    return loop && culm_feed_is_pipe(file)
               ? culm_error_set(error, CULM_ERR_CONFIG,
                                "feed '%s': '%s' is a pipe, which cannot begin again at its end; "
                                "leave out 'loop'",
                                name, file)
               : CULM_OK;
}

bool culm_feed_lasts(const char *file) {
    struct stat about;
    return stat(file, &about) == 0 ? !S_ISREG(about.st_mode) && !S_ISDIR(about.st_mode)
                                   : is_elsewhere(file) || strncmp(file, "/dev/", 5) == 0;
}

/* Whether the part that is asked for can be found in it. */
static enum culm_status has_times(const struct culm_feed *feed, struct culm_error *error) {
    return (feed->from_s > 0 || feed->to_s > 0) && culm_feed_lasts(feed->file)
               ? culm_error_set(error, CULM_ERR_CONFIG,
                                "feed '%s': '%s' is no file, so it has no part from one second to "
                                "another; leave out 'from' and 'to'; 'for_s' ends it",
                                feed->name, feed->shown)
               : CULM_OK;
}

static enum culm_status open_feed(struct culm_feed *feed, const char *labels,
                                  struct culm_error *error) {
    enum culm_status status;
    if (culm_file_is_directory(feed->file) ||
        (culm_picture_kind_of(feed->file) == CULM_PICTURE_READ &&
         culm_file_is_regular(feed->file))) {
        feed->kind = CULM_FEED_PICTURES;
        feed->follow = feed->follow && culm_file_is_directory(feed->file);
        status = feed_folder_open(&feed->pictures, feed->name, feed->file, feed->follow, error);
    } else if (is_idx(feed->file)) {
        status = open_idx(feed, error);
    } else if (!(status = culm_feed_find(feed->name, feed->file, feed->loop, error))) {
        feed->kind = CULM_FEED_FFMPEG;
        status = has_times(feed, error);
        status = status ? status : start(feed, error);
    }
    if (status == CULM_OK && culm_feed_count(feed) == 0) {
        status =
            culm_error_set(error, CULM_ERR_CONFIG,
                           "feed '%s': there is nothing from second %g on: '%s' has %lld "
                           "pictures, and %g of them are a second",
                           feed->name, feed->from_s, feed->shown, (long long)all(feed), feed->fps);
    }
    return status == CULM_OK && labels && *labels
               ? culm_feed_read_labels(feed->name, labels, culm_feed_count(feed), &feed->labels,
                                       &feed->label_count, error)
               : status;
}

static bool crop_is_possible(const int32_t crop[4]) {
    bool none = !crop[0] && !crop[1] && !crop[2] && !crop[3];
    return none || (crop[0] >= 0 && crop[1] >= 0 && crop[2] > 0 && crop[3] > 0);
}

/* False: out of memory. */
static bool copy_words(struct culm_feed *feed, const struct culm_feed_options *options) {
    feed->words = calloc(options->word_count + 1, sizeof *feed->words);
    for (size_t i = 0; i < options->word_count && feed->words; i++) {
        if (!(feed->words[i] = strdup(options->words[i]))) {
            return false;
        }
        feed->word_count++;
    }
    return feed->words != NULL;
}

enum culm_status culm_feed_open(const struct culm_feed_options *options,
                                struct culm_feed **ret_feed, struct culm_error *error) {
    const char *name = options->name ? options->name : options->file;
    char shown[CULM_PATH_MAX];
    struct culm_feed *feed = calloc(1, sizeof *feed);
    culm_url_show(name, shown, sizeof shown);
    name = shown;
    if (!feed || !(feed->name = strdup(name)) || !(feed->file = strdup(options->file)) ||
        !copy_words(feed, options)) {
        culm_feed_close(feed);
        return culm_error_set(error, CULM_ERR_MEMORY, "feed '%s': out of memory", name);
    }
    culm_url_show(feed->file, feed->shown, sizeof feed->shown);
    feed->loop = options->loop;
    feed->as_recorded = options->as_recorded;
    feed->follow = options->follow && options->to_s <= 0;
    feed->from_s = options->from_s;
    feed->to_s = options->to_s;
    feed->fps = options->fps > 0 ? options->fps : PICTURES_FPS;
    feed->every = options->every > 1 ? options->every : 1;
    feed->most_fps = culm_feed_lasts(feed->file) ? options->most_fps : 0;
    feed->stall_ms = options->stall_ms > 0 ? options->stall_ms : CULM_FEED_STALL_MS;
    memcpy(feed->crop, options->crop, sizeof feed->crop);
    enum culm_status status =
        crop_is_possible(feed->crop)
            ? open_feed(feed, options->labels, error)
            : culm_error_set(error, CULM_ERR_CONFIG,
                             "feed '%s': a crop must be x, y, width and height in pixels, with the "
                             "last two above 0",
                             name);
    if (status != CULM_OK) {
        culm_feed_close(feed);
        return status;
    }
    *ret_feed = feed;
    return CULM_OK;
}

void culm_feed_close(struct culm_feed *feed) {
    if (feed) {
        feed_child_release(&feed->child);
        feed_folder_release(&feed->pictures);
        culm_image_release(&feed->image);
        culm_idx_release(&feed->idx);
        free(feed->pixels);
        for (size_t i = 0; i < feed->word_count; i++) {
            free(feed->words[i]);
        }
        free(feed->words);
        free(feed->labels);
        free(feed->name);
        free(feed->file);
        free(feed);
    }
}

enum culm_feed_kind culm_feed_kind_of(const struct culm_feed *feed) { return feed->kind; }

const char *culm_feed_note(const struct culm_feed *feed) { return feed->pictures.note; }

int64_t culm_feed_labels(const struct culm_feed *feed) {
    return feed->labels ? feed->label_count : -1;
}

enum culm_status culm_feed_find_folders(const char *name, const char *file,
                                        struct culm_error *error) {
    const struct culm_feed_options options = {.name = name, .file = file};
    struct culm_feed *feed = NULL;
    bool labelled = culm_file_is_directory(file);
    enum culm_status status = labelled ? culm_feed_open(&options, &feed, error) : CULM_OK;
    for (int64_t i = 0; status == CULM_OK && labelled && i < culm_feed_count(feed); i++) {
        labelled = feed_folder_number(&feed->pictures, place_of(feed, i)) >= 0;
    }
    culm_feed_close(feed);
    return status || labelled
               ? status
               : culm_error_set(error, CULM_ERR_CONFIG,
                                "feed '%s': 'labels: folders' needs a folder with a folder of "
                                "pictures for each class, which '%s' is not",
                                name, file);
}

bool culm_feed_is_live(const struct culm_feed *feed) {
    return feed->kind == CULM_FEED_FFMPEG &&
           (feed->as_recorded || !culm_file_is_regular(feed->file));
}

int64_t culm_feed_count(const struct culm_feed *feed) {
    if (feed->follow || feed->kind == CULM_FEED_FFMPEG) {
        return -1;
    }
    const int64_t to = end_of(feed), from = place_of(feed, 0);
    return to > from ? (to - from - 1) / feed->every + 1 : 0;
}

int culm_feed_fd(const struct culm_feed *feed) {
    return feed->kind == CULM_FEED_FFMPEG && feed->child.pid > 0 ? feed->child.out : -1;
}

static enum culm_status apply_crop(const struct culm_feed *feed, struct culm_feed_frame *frame,
                                   struct culm_error *error) {
    const int32_t *crop = feed->crop;
    frame->stride = (size_t)frame->width * (size_t)frame->channels;
    if (!crop[2]) {
        return CULM_OK;
    }
    if (crop[2] > frame->width - crop[0] || crop[3] > frame->height - crop[1]) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "feed '%s': frame %lld is %d x %d, and the crop reaches to %lld x "
                              "%lld",
                              feed->name, (long long)frame->number, (int)frame->width,
                              (int)frame->height, (long long)crop[0] + crop[2],
                              (long long)crop[1] + crop[3]);
    }
    frame->data += (size_t)crop[1] * frame->stride + (size_t)crop[0] * (size_t)frame->channels;
    frame->width = crop[2];
    frame->height = crop[3];
    return CULM_OK;
}

/* The end of a feed whose frames can be counted. */
static enum culm_status at_end(struct culm_feed *feed, struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_CLOSED, "feed '%s': it ended after %lld frames",
                          feed->name, (long long)feed->number);
}

enum culm_status culm_feed_rewind(struct culm_feed *feed, struct culm_error *error) {
    feed->source = 0;
    feed->ended = (struct culm_error){0};
    if (feed->kind == CULM_FEED_PICTURES) {
        feed_folder_grow(&feed->pictures, feed->name, feed->file);
    }
    if (feed->kind != CULM_FEED_FFMPEG) {
        return CULM_OK;
    }
    feed_child_stop(&feed->child);
    return start(feed, error);
}

void culm_feed_hang_up(struct culm_feed *feed) {
    feed_child_stop(&feed->child);
    culm_error_set(&feed->ended, CULM_ERR_CLOSED, "feed '%s': it is not connected", feed->name);
    feed->ended.status = CULM_ERR_CLOSED;
}

enum culm_status culm_feed_reopen(struct culm_feed *feed, struct culm_error *error) {
    feed->ended = (struct culm_error){0};
    feed_child_stop(&feed->child);
    return start(feed, error);
}

/* Pictures that are known to be gone have no turn. */
static void pass_gone(struct culm_feed *feed) {
    int64_t place = place_of(feed, feed->source);
    while (place < end_of(feed) && feed_folder_is_known_gone(&feed->pictures, place)) {
        place = place_of(feed, ++feed->source);
    }
}

/* Waits for another picture of a folder. */
static bool comes(struct culm_feed *feed, int wait_ms) {
    const uint64_t began = culm_clock_ns();
    while (place_of(feed, feed->source) >= feed_folder_end(&feed->pictures)) {
        const uint64_t waited_ms = (culm_clock_ns() - began) / 1000000;
        const struct timespec pause = {0, LOOK_MS * 1000000};
        feed_folder_follow(&feed->pictures, feed->name, feed->file, place_of(feed, feed->source));
        if (place_of(feed, feed->source) < feed_folder_end(&feed->pictures)) {
            break;
        }
        if (wait_ms >= 0 && waited_ms >= (uint64_t)wait_ms) {
            return false;
        }
        nanosleep(&pause, NULL);
    }
    return true;
}

static enum culm_status next(struct culm_feed *feed, int wait_ms, struct culm_feed_frame *frame,
                             struct culm_error *error) {
    if (feed->kind == CULM_FEED_PICTURES) {
        pass_gone(feed);
    }
    if (feed->follow && !comes(feed, wait_ms)) {
        return culm_error_set(error, CULM_ERR_AGAIN, "feed '%s': no picture so far", feed->name);
    }
    *frame = (struct culm_feed_frame){
        .number = feed->number, .source = feed->source, .label = -1, .file = feed->shown};
    int64_t count = culm_feed_count(feed);
    if (count >= 0 && feed->source >= count) {
        return at_end(feed, error);
    }
    return feed->kind == CULM_FEED_PICTURES ? picture(feed, frame, error)
           : feed->kind == CULM_FEED_IDX    ? item(feed, frame, error)
                                            : ffmpeg(feed, wait_ms, frame, error);
}

enum culm_status culm_feed_next(struct culm_feed *feed, int wait_ms,
                                struct culm_feed_frame *ret_frame, struct culm_error *error) {
    if (feed->ended.status != CULM_OK) {
        return culm_error_set(error, feed->ended.status, "%s", feed->ended.text);
    }
    struct culm_error own = {0};
    enum culm_status status = next(feed, wait_ms, ret_frame, &own);
    const bool folder =
        feed->kind == CULM_FEED_PICTURES && feed->loop && culm_file_is_directory(feed->file);
    if (status == CULM_ERR_CLOSED && feed->loop && (feed->source > 0 || folder)) {
        status = culm_feed_rewind(feed, &own);
        status = status == CULM_OK ? next(feed, wait_ms, ret_frame, &own) : status;
        if (status == CULM_ERR_CLOSED && folder) { /* all are gone; there may be others soon */
            const struct timespec pause = {0, EMPTY_MS * 1000000};
            nanosleep(&pause, NULL);
            status =
                culm_error_set(&own, CULM_ERR_AGAIN, "feed '%s': no picture is left", feed->name);
        }
    }
    if (status == CULM_OK) {
        status = apply_crop(feed, ret_frame, &own);
    }
    if (status == CULM_OK) {
        if (feed->labels) {
            ret_frame->label =
                ret_frame->source < feed->label_count ? feed->labels[ret_frame->source] : -1;
        }
        feed->number++;
        feed->source++;
        return CULM_OK;
    }
    bool goes_on =
        status == CULM_ERR_AGAIN || status == CULM_ERR_TIMEOUT || status == CULM_ERR_FORMAT;
    if (!goes_on) {
        feed->ended = own;
        feed->ended.status = status;
    }
    return culm_error_set(error, status, "%s", own.text);
}

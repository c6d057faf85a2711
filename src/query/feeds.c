/* See feeds.h. */
#include "query/feeds.h"

#include <string.h>
#include <sys/stat.h>

#define LOOK_MS 100 /* how often it is asked whether to stop */

struct culm_feed_options culm_feed_options_of(const struct culm_feed_config *config,
                                              const char *labels) {
    struct culm_feed_options options = {.name = config->name,
                                        .file = config->file,
                                        .stall_ms = (int)config->stall_ms,
                                        .from_s = config->from,
                                        .to_s = config->to,
                                        .every = config->every,
                                        .fps = config->fps,
                                        .words = config->options,
                                        .word_count = config->option_count};
    if (config->for_s > 0 && (config->to <= 0 || config->from + config->for_s < config->to)) {
        options.to_s = config->from + config->for_s;
    }
    options.labels = labels && strcmp(labels, "folders") != 0 ? labels : NULL;
    for (int i = 0; i < 4; i++) {
        options.crop[i] = (int32_t)config->crop[i];
    }
    return options;
}

bool culm_feed_comes_once(const char *file) {
    static const char *const streams[] = {
        "rtsp:", "rtsps:", "rtp:", "udp:", "tcp:", "srt:", "rtmp:", "unix:"};
    struct stat there;
    if (stat(file, &there) == 0) {
        return !S_ISREG(there.st_mode) && !S_ISDIR(there.st_mode);
    }
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++) {
        if (strncmp(file, streams[i], strlen(streams[i])) == 0) {
            return true;
        }
    }
    return false;
}

enum culm_status culm_feed_next_whole(struct culm_feed *feed, struct culm_feed_frame *ret_frame,
                                      struct culm_error *error) {
    enum culm_status status;
    do {
        status = culm_feed_next(feed, -1, ret_frame, error);
    } while (status == CULM_ERR_AGAIN);
    return status;
}

/* The next frame, or CULM_ERR_AGAIN when it is asked to stop. */
static enum culm_status next_unless(const struct culm_stop *stop, struct culm_feed *feed,
                                    struct culm_error *error) {
    struct culm_feed_frame frame;
    while (!stop->asked(stop->ctx)) {
        enum culm_status status = culm_feed_next(feed, LOOK_MS, &frame, error);
        if (status != CULM_ERR_AGAIN && status != CULM_ERR_TIMEOUT) {
            return status;
        }
    }
    return culm_error_set(error, CULM_ERR_AGAIN, "asked to stop");
}

enum culm_status culm_feed_count_whole(struct culm_feed *feed, const struct culm_stop *stop,
                                       int64_t *ret_count, struct culm_error *error) {
    struct culm_feed_frame frame;
    enum culm_status status = CULM_OK;
    int64_t count = culm_feed_count(feed);
    if (count < 0) {
        const bool may_be_endless = culm_feed_is_live(feed);
        for (count = 0; !may_be_endless || count < CULM_FEED_COUNTED_MAX; count++) {
            status =
                stop ? next_unless(stop, feed, error) : culm_feed_next_whole(feed, &frame, error);
            if (status != CULM_OK) {
                break;
            }
        }
        status = status == CULM_ERR_CLOSED ? CULM_OK : status;
    }
    *ret_count = count;
    return status;
}

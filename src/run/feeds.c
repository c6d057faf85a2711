/* See feeds.h. */
#include "run/feeds.h"

#include <string.h>

struct culm_feed_options culm_feed_options_of(const struct culm_feed_config *config,
                                              const char *labels) {
    struct culm_feed_options options = {.name = config->name, .file = config->file};
    options.labels = labels && strcmp(labels, "folders") != 0 ? labels : NULL;
    for (int i = 0; i < 4; i++) {
        options.crop[i] = (int32_t)config->crop[i];
    }
    return options;
}

enum culm_status culm_feed_next_whole(struct culm_feed *feed, struct culm_feed_frame *ret_frame,
                                      struct culm_error *error) {
    enum culm_status status;
    do {
        status = culm_feed_next(feed, -1, ret_frame, error);
    } while (status == CULM_ERR_AGAIN);
    return status;
}

enum culm_status culm_feed_count_whole(struct culm_feed *feed, int64_t most, int64_t *ret_count,
                                       struct culm_error *error) {
    struct culm_feed_frame frame;
    enum culm_status status = CULM_OK;
    int64_t count = culm_feed_count(feed);
    if (count < 0) {
        for (count = 0; count < most && !(status = culm_feed_next_whole(feed, &frame, error));
             count++) {
        }
        status = status == CULM_ERR_CLOSED ? CULM_OK : status;
    }
    *ret_count = count;
    return status;
}

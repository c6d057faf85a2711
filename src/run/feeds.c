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

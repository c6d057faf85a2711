/* Frames that the program posts. See post.h. */
#include "live/post.h"
#include "live/run.h"

#include "base/clock.h"
#include "query/picture.h"

#include <stdlib.h>
#include <string.h>

/* Frames on their way to the loop, with pixels or without: whoever posts them without a pause must not
 * fill the memory. */
#define WAITING_MAX 1024

/* --- entries --- */

enum culm_status live_make_posted(struct culm_live *run, struct culm_error *error) {
    const struct culm_live_options *o = run->o;
    run->posted = calloc(o->posted_count + 1, sizeof *run->posted);
    if (!run->posted) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for feeds");
    }
    for (; run->posted_count < o->posted_count; run->posted_count++) {
        run->posted[run->posted_count].name = o->posted[run->posted_count];
        pthread_mutex_init(&run->posted[run->posted_count].lock, NULL);
    }
    return CULM_OK;
}

void live_release_posted(struct culm_live *run) {
    for (size_t i = 0; i < run->posted_count; i++) {
        pthread_mutex_destroy(&run->posted[i].lock);
    }
    free(run->posted);
}

struct live_posted *live_posted_of(const struct culm_live *run, const char *feed) {
    for (size_t i = 0; i < run->posted_count; i++) {
        if (strcmp(run->posted[i].name, feed) == 0) {
            return &run->posted[i];
        }
    }
    return NULL;
}

bool live_is_posted(const struct culm_live_options *options, const char *feed) {
    for (size_t i = 0; i < options->posted_count; i++) {
        if (strcmp(options->posted[i], feed) == 0) {
            return true;
        }
    }
    return false;
}

enum culm_status live_check_posted(const struct culm_live_options *options,
                                   const struct culm_workload *workload, struct culm_error *error) {
    for (size_t q = 0; q < workload->query_count; q++) {
        const struct culm_query_config *query = &workload->queries[q];
        if (query->labels && strcmp(query->labels, "folders") == 0 &&
            live_is_posted(options, query->feed)) {
            return culm_error_set(error, CULM_ERR_CONFIG,
                                  "query '%s': 'labels: folders' needs a folder with a folder of "
                                  "pictures for each class, and the frames of feed '%s' are posted",
                                  query->name, query->feed);
        }
    }
    return CULM_OK;
}

/* The feed that takes frames, if there is one, has ended. With the lock held. */
static void detach(const struct culm_live *run, struct live_posted *posted) {
    if (posted->feed) {
        (void)culm_alone_lost(run->alone, posted->feed->number);
        posted->feed = NULL;
    }
}

/* --- the loop's end --- */

void live_begin_posts(struct live_feed *feed) {
    struct live_posted *posted = feed->posted;
    pthread_mutex_lock(&posted->lock);
    posted->begun = true;
    posted->pace = (struct live_pace){0};
    detach(feed->run, posted);
    posted->feed = feed;
    if (posted->ended) {
        detach(feed->run, posted);
    }
    pthread_mutex_unlock(&posted->lock);
}

void live_drop_posts(struct live_feed *feed) {
    struct live_posted *posted = feed->posted;
    pthread_mutex_lock(&posted->lock);
    if (posted->feed == feed) {
        detach(feed->run, posted);
    }
    pthread_mutex_unlock(&posted->lock);
}

void live_end_posts(struct culm_live *run) {
    for (size_t i = 0; i < run->posted_count; i++) {
        pthread_mutex_lock(&run->posted[i].lock);
        run->posted[i].feed = NULL;
        run->posted[i].over = true;
        pthread_mutex_unlock(&run->posted[i].lock);
    }
}

/* --- the program's end --- */

/* Of a feed that takes no frames now. */
static enum culm_status refuse(const struct live_posted *posted, struct culm_error *error) {
    return posted->over ? culm_error_set(error, CULM_ERR_CLOSED, "feed '%s': the run has ended",
                                         posted->name)
           : posted->ended
               ? culm_error_set(error, CULM_ERR_CLOSED, "feed '%s': it was ended", posted->name)
           : posted->begun ? culm_error_set(error, CULM_ERR_CLOSED,
                                            "feed '%s': the workload has it no more", posted->name)
                           : culm_error_set(error, CULM_ERR_AGAIN,
                                            "feed '%s': the run has not begun", posted->name);
}

static enum culm_status crop(const struct live_feed *feed, struct culm_frame *frame,
                             struct culm_error *error) {
    const int64_t *part = feed->config->crop;
    if (part[2] == 0) {
        return CULM_OK;
    }
    if (part[2] > frame->width - part[0] || part[3] > frame->height - part[1]) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "feed '%s': the picture is %d x %d, and the crop reaches to %lld x "
                              "%lld",
                              feed->config->name, (int)frame->width, (int)frame->height,
                              (long long)(part[0] + part[2]), (long long)(part[1] + part[3]));
    }
    frame->data += (size_t)part[1] * frame->stride + (size_t)(part[0] * frame->channels);
    frame->width = (int32_t)part[2];
    frame->height = (int32_t)part[3];
    return CULM_OK;
}

static enum culm_status take(struct live_posted *posted, const struct culm_picture *picture,
                             struct culm_frame *pixels, int64_t *ret_frame,
                             struct culm_error *error) {
    struct live_feed *feed = posted->feed;
    const uint64_t now = culm_clock_ns();
    uint64_t at = picture->taken_ns && picture->taken_ns < now ? picture->taken_ns : now;
    enum culm_status status = feed ? crop(feed, pixels, error) : refuse(posted, error);
    if (status != CULM_OK) {
        return status;
    }
    if (culm_alone_count_waiting(feed->run->alone) >= WAITING_MAX) {
        return culm_error_set(error, CULM_ERR_AGAIN,
                              "feed '%s': frames come faster than they can be counted",
                              posted->name);
    }
    at = at < posted->at_ns ? posted->at_ns : at;
    posted->at_ns = at;
    const struct culm_feed_frame frame = {.data = pixels->data,
                                          .stride = pixels->stride,
                                          .width = pixels->width,
                                          .height = pixels->height,
                                          .channels = pixels->channels,
                                          .number = posted->number,
                                          .source = posted->number,
                                          .label = -1};
    posted->number++;
    feed->any = true;
    if (!live_take_frame(feed, &posted->pace, at)) {
        *ret_frame = -1;
        return CULM_OK;
    }
    if (!live_hand_over(feed, &frame, at)) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a frame");
    }
    *ret_frame = frame.number;
    return CULM_OK;
}

static enum culm_status find(const struct culm_live *run, const char *feed,
                             struct live_posted **ret_posted, struct culm_error *error) {
    *ret_posted = live_posted_of(run, feed);
    return *ret_posted ? CULM_OK
                       : culm_error_set(error, CULM_ERR_ARGUMENT,
                                        "feed '%.100s' is not one whose frames are posted", feed);
}

enum culm_status culm_live_post(struct culm_live *run, const char *feed,
                                const struct culm_picture *picture, int64_t *ret_frame,
                                struct culm_error *error) {
    struct culm_frame pixels;
    struct live_posted *posted;
    enum culm_status status = find(run, feed, &posted, error);
    if (status == CULM_OK) {
        status = culm_picture_frame_of(picture, &pixels, error);
    }
    if (status == CULM_OK) {
        pthread_mutex_lock(&posted->lock);
        status = take(posted, picture, &pixels, ret_frame, error);
        pthread_mutex_unlock(&posted->lock);
    }
    return status;
}

enum culm_status culm_live_end(struct culm_live *run, const char *feed, struct culm_error *error) {
    struct live_posted *posted;
    enum culm_status status = find(run, feed, &posted, error);
    if (status != CULM_OK) {
        return status;
    }
    pthread_mutex_lock(&posted->lock);
    if (posted->feed) {
        detach(run, posted);
        posted->ended = true;
    } else {
        status = refuse(posted, error);
    }
    pthread_mutex_unlock(&posted->lock);
    return status;
}

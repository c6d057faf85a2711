/*
 * Pictures of a few frames with their answers drawn in, for the page of the run. While the run goes
 * on, only answers are kept; when it has ended, the frames are read from the file again. A feed
 * that is not a file, such as a camera, has no pictures. Pictures are an extra: one that cannot be
 * made is left out.
 */
#include "live/run.h"

#include "base/file.h"
#include "query/feeds.h"
#include "query/picture.h"

#include <stdlib.h>
#include <string.h>

/* How many frames of a file are read again at most; and from which frame on each picture may be. */
enum { LAST = 600 };
static const int64_t from[CULM_LIVE_PICTURES] = {0, 50, 300};

static bool copy_answer(const struct culm_answer *answer, struct culm_answer *ret_copy) {
    *ret_copy = (struct culm_answer){.kind = answer->kind};
    size_t boxes = (size_t)answer->box_count, points = (size_t)answer->point_count;
    ret_copy->box = boxes ? malloc(boxes * sizeof *answer->box) : NULL;
    ret_copy->point = points ? malloc(points * sizeof *answer->point) : NULL;
    if ((boxes && !ret_copy->box) || (points && !ret_copy->point)) {
        culm_answer_release(ret_copy);
        return false;
    }
    if (boxes) {
        memcpy(ret_copy->box, answer->box, boxes * sizeof *answer->box);
    }
    if (points) {
        memcpy(ret_copy->point, answer->point, points * sizeof *answer->point);
    }
    ret_copy->box_count = ret_copy->box_capacity = (int32_t)boxes;
    ret_copy->point_count = ret_copy->point_capacity = (int32_t)points;
    return true;
}

void live_keep(struct live_query *query, int64_t source) {
    const struct culm_answer *answer = &query->latest;
    if (query->pictures < CULM_LIVE_PICTURES && source < LAST && source >= from[query->pictures] &&
        (query->pictures == 0 || source > query->picture[query->pictures - 1].source) &&
        answer->box_count + answer->point_count > 0) {
        struct live_picture *picture = &query->picture[query->pictures];
        picture->source = source;
        query->pictures += copy_answer(answer, &picture->answer);
    }
}

static void draw(const struct culm_live *run, const struct culm_feed_frame *frame, int32_t feed) {
    for (int32_t q = 0; q < run->query_count; q++) {
        const struct live_query *query = &run->query[q];
        for (int32_t p = 0; p < query->pictures && query->feed == feed; p++) {
            char path[CULM_PATH_MAX];
            if (query->picture[p].source == frame->source &&
                culm_path_format(path, NULL, "%s/pictures/%s-%04lld.png", run->out,
                                 query->entry->config->name, (long long)frame->source) == CULM_OK) {
                (void)culm_picture_write(path, frame, query->entry->model,
                                         &query->picture[p].answer, NULL);
            }
        }
    }
}

static void draw_feed(const struct culm_live *run, int32_t number) {
    const struct culm_feed_config *config = run->feed[number].config;
    const struct culm_feed_options options = culm_feed_options_of(config, NULL);
    int64_t last = -1;
    for (int32_t q = 0; q < run->query_count; q++) {
        const struct live_query *query = &run->query[q];
        if (query->feed == number && query->pictures > 0 &&
            query->picture[query->pictures - 1].source > last) {
            last = query->picture[query->pictures - 1].source;
        }
    }
    struct culm_feed *feed;
    if (last < 0 || run->feed[number].posted ||
        !(culm_file_is_regular(config->file) || culm_file_is_directory(config->file)) ||
        culm_feed_open(&options, &feed, NULL) != CULM_OK) {
        return;
    }
    struct culm_feed_frame frame = {.source = -1};
    while (frame.source < last && culm_feed_next(feed, -1, &frame, NULL) == CULM_OK) {
        draw(run, &frame, number);
    }
    culm_feed_close(feed);
}

/* Removes the pictures of an earlier run, QUERY-0123.png. Other files there are not ours. */
static void remove_old(const struct culm_live *run, const char *folder) {
    struct culm_names names = {0};
    if (culm_dir_list(folder, &names, NULL) != CULM_OK) {
        return;
    }
    for (size_t i = 0; i < names.count; i++) {
        const char *name = names.name[i];
        for (int32_t q = 0; q < run->query_count; q++) {
            const char *query = run->query[q].entry->config->name;
            size_t len = strlen(query), digits = 0;
            if (strncmp(name, query, len) == 0 && name[len] == '-') {
                digits = strspn(name + len + 1, "0123456789");
            }
            char path[CULM_PATH_MAX];
            if (digits > 0 && strcmp(name + len + 1 + digits, ".png") == 0 &&
                culm_path_format(path, NULL, "%s/%s", folder, name) == CULM_OK) {
                (void)culm_file_remove(NULL, path, NULL);
                break;
            }
        }
    }
    culm_names_release(&names);
}

void live_pictures(struct culm_live *run) {
    char path[CULM_PATH_MAX];
    if (culm_path_format(path, NULL, "%s/pictures", run->out) == CULM_OK &&
        culm_dir_make(NULL, path, NULL) == CULM_OK) {
        remove_old(run, path);
        for (int32_t f = 0; f < run->feed_count; f++) {
            draw_feed(run, f);
        }
    }
}

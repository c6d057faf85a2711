/* Old and new frames in one IDX file. See merge_mix.h. */
#include "run/merge_mix.h"

#include "base/file.h"
#include "data/idx.h"
#include "query/feeds.h"
#include "vision/picture.h"

#include <stdlib.h>
#include <string.h>

struct mixing {
    const struct culm_feed_config *config;
    const struct culm_vision_input *input; /* of the query; its size is that of the new frames */
    struct culm_idx fresh;
    struct culm_feed *feed;
    int64_t height, width, channels;
    int64_t total, passed; /* frames of the feed, and how many of these it has given */
    uint8_t *frame;        /* [height, width, channels] */
    struct culm_file file;
    const struct culm_stop *stop;
};

int64_t culm_merge_mix_count(const char *path) {
    struct culm_idx idx;
    int64_t count = 0;
    if (culm_idx_open(path, NULL, &idx, NULL) == CULM_OK) {
        count = idx.rank >= 3 ? idx.dim[0] : 0;
        culm_idx_release(&idx);
    }
    return count;
}

static enum culm_status open_fresh(struct mixing *m, const char *path, struct culm_error *error) {
    const struct culm_vision_input *input = m->input;
    enum culm_status status = culm_idx_open(path, NULL, &m->fresh, error);
    if (status == CULM_OK && (m->fresh.rank < 3 || m->fresh.dim[0] < 1)) {
        status = culm_error_set(error, CULM_ERR_FORMAT, "'%s' has no frames", path);
    }
    if (status == CULM_OK) {
        m->height = m->fresh.dim[1];
        m->width = m->fresh.dim[2];
        m->channels = m->fresh.rank == 4 ? m->fresh.dim[3] : 1;
        if (m->width != input->width || m->height != input->height ||
            m->channels != input->channels) {
            status = culm_error_set(error, CULM_ERR_FORMAT,
                                    "'%s' has frames of %lld x %lld, and its query reads %d x %d",
                                    path, (long long)m->width, (long long)m->height,
                                    (int)input->width, (int)input->height);
        }
    }
    if (status == CULM_OK) {
        m->frame = malloc((size_t)m->fresh.item_bytes + 1);
        status = m->frame ? CULM_OK
                          : culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a frame");
    }
    return status;
}

static enum culm_status open_feed(struct mixing *m, struct culm_error *error) {
    const struct culm_feed_options options = culm_feed_options_of(m->config, NULL);
    return culm_feed_open(&options, &m->feed, error);
}

/* Counts the frames of the feed, and opens it once more. */
static enum culm_status open_old(struct mixing *m, struct culm_error *error) {
    enum culm_status status = open_feed(m, error);
    status = status ? status : culm_feed_count_whole(m->feed, m->stop, &m->total, error);
    culm_feed_close(m->feed);
    m->feed = NULL;
    return status ? status : open_feed(m, error);
}

/* Puts frame number `i` of `count` that are taken of the feed into m->frame. *ret_there: false if the
 * feed has come to its end before. */
static enum culm_status take_old(struct mixing *m, int64_t i, int64_t count, bool *ret_there,
                                 struct culm_error *error) {
    const int64_t at = i * m->total / count;
    struct culm_feed_frame frame;
    enum culm_status status = CULM_OK;
    *ret_there = false;
    while (status == CULM_OK && m->passed <= at) {
        status = culm_stop_asked(m->stop) ? culm_error_set(error, CULM_ERR_STOPPED, "stopped")
                                          : culm_feed_next_whole(m->feed, &frame, error);
        m->passed++;
        if (status == CULM_ERR_FORMAT && culm_feed_kind_of(m->feed) == CULM_FEED_PICTURES) {
            status = CULM_OK; /* a damaged picture costs itself alone */
            *ret_there = false;
        } else {
            *ret_there = status == CULM_OK;
        }
    }
    if (status == CULM_OK && *ret_there) {
        const struct culm_frame picture = {frame.data, frame.stride, frame.width, frame.height,
                                           frame.channels};
        culm_vision_stretch(m->input, &picture, m->frame);
    }
    return status == CULM_ERR_CLOSED ? CULM_OK : status;
}

static enum culm_status append_head(struct mixing *m, int64_t count, struct culm_error *error) {
    const int rank = m->channels == 1 ? 3 : 4;
    const int64_t dim[] = {count, m->height, m->width, m->channels};
    uint8_t head[20] = {0, 0, 8, (uint8_t)rank};
    for (int i = 0; i < 4 * rank; i++) {
        head[4 + i] = (uint8_t)(dim[i / 4] >> (24 - 8 * (i % 4)));
    }
    return culm_file_append(&m->file, head, 4 + 4 * (size_t)rank, error);
}

/* The next frame of the file is an old one if, of these, a smaller share is there. */
static bool is_old(int64_t olds, int64_t old_count, int64_t news, int64_t new_count) {
    return news == new_count || (olds < old_count && olds * new_count <= news * old_count);
}

static enum culm_status write_frames(struct mixing *m, int64_t old_count, int64_t new_count,
                                     struct culm_error *error) {
    int64_t olds = 0, news = 0;
    enum culm_status status = append_head(m, old_count + new_count, error);
    while (status == CULM_OK && olds + news < old_count + new_count) {
        const bool old = is_old(olds, old_count, news, new_count);
        bool there = true;
        status =
            old ? take_old(m, olds, old_count, &there, error)
                : culm_idx_read(&m->fresh, news * m->fresh.dim[0] / new_count, 1, m->frame, error);
        if (status == CULM_OK && !there) { /* its place is a new one's */
            status = culm_idx_read(&m->fresh, olds % m->fresh.dim[0], 1, m->frame, error);
        }
        status = status ? status
                        : culm_file_append(&m->file, m->frame,
                                           (size_t)(m->height * m->width * m->channels), error);
        olds += old;
        news += !old;
    }
    return status;
}

enum culm_status culm_merge_mix(const struct culm_feed_config *old, const char *fresh,
                                const struct culm_vision_input *input, const char *to,
                                const struct culm_stop *stop, struct culm_merge_mixed *ret_mixed,
                                struct culm_error *error) {
    struct mixing m = {.config = old, .input = input, .stop = stop};
    int64_t old_count = 0, new_count = 0;
    enum culm_status status = open_fresh(&m, fresh, error);
    status = status ? status : open_old(&m, error);
    if (status == CULM_OK) {
        const int64_t most = CULM_MERGE_MIX_FRAMES / 2;
        new_count = m.fresh.dim[0] < most ? m.fresh.dim[0] : most;
        old_count = CULM_MERGE_MIX_FRAMES - new_count;
        old_count = old_count < m.total ? old_count : m.total;
        status = culm_file_create_beside(NULL, to, &m.file, error);
    }
    if (status == CULM_OK && (status = write_frames(&m, old_count, new_count, error))) {
        culm_file_abandon(&m.file);
    } else if (status == CULM_OK) {
        status = culm_file_finish(&m.file, error);
        status = status ? status : culm_file_rename(NULL, m.file.path, to, error);
    }
    culm_feed_close(m.feed);
    culm_idx_release(&m.fresh);
    free(m.frame);
    if (status == CULM_ERR_AGAIN) { /* while frames were counted */
        status = culm_error_set(error, CULM_ERR_STOPPED, "stopped");
    }
    if (status == CULM_OK) {
        *ret_mixed = (struct culm_merge_mixed){old_count, new_count};
    }
    return status;
}

/* Predictions of models of pictures on files, frame by frame: culm_vision_predict_files of culm/vision.h. */
#include "base/file.h"
#include "data/feed.h"
#include "data/pictures.h"
#include "query/picture.h"
#include "run/public.h"
#include "run/vision.h"

#include <stdio.h>
#include <string.h>

struct predicting {
    const struct culm_vision_files_options *options;
    struct culm_vision *vision;
    int64_t end;        /* -1: all frames */
    size_t file, files; /* the one that is read, from 0, and how many there are */
    int64_t good, bad;  /* pictures */
    struct culm_error first_bad;
};

/* --- answers --- */

static enum culm_status tell(struct predicting *p, const char *file, int64_t frame,
                             struct culm_error *error) {
    struct culm_vision *vision = p->vision;
    struct culm_prediction prediction;
    enum culm_status status = culm_prediction_of(vision->model, &vision->answer, vision->top, file,
                                                 frame, &vision->room, &prediction, error);
    if (status == CULM_OK) {
        status = p->options->answer(p->options->context, &prediction, error);
    }
    return status;
}

/* DIR/STEM-0007.png; of several files, whose stems may be alike, DIR/2-STEM-0007.png of the third */
static enum culm_status draw(const struct predicting *p, const struct culm_feed_frame *frame,
                             struct culm_error *error) {
    char path[CULM_PATH_MAX];
    const char *slash = strrchr(frame->file, '/'), *stem = slash ? slash + 1 : frame->file;
    const char *dot = strrchr(stem, '.');
    int len = (int)(dot && dot != stem ? (size_t)(dot - stem) : strlen(stem));
    char number[24] = "";
    if (p->files > 1) {
        snprintf(number, sizeof number, "%zu-", p->file);
    }
    enum culm_status status =
        culm_path_format(path, error, "%s/%s%.*s-%04lld.png", p->options->draw, number, len, stem,
                         (long long)frame->number);
    if (status != CULM_OK) {
        return status;
    }
    return culm_picture_write(path, frame, p->vision->model, &p->vision->answer, error);
}

static enum culm_status look(struct predicting *p, const struct culm_feed_frame *f,
                             struct culm_error *error) {
    const struct culm_frame frame = {f->data, f->stride, f->width, f->height, f->channels};
    return vision_look(p->vision, &frame, f->file, f->number, error);
}

/* --- files --- */

/* Of several pictures, a bad one costs itself alone. */
static void pass_bad(struct predicting *p, const char *file, int64_t frame,
                     const struct culm_error *why) {
    if (!p->bad++) {
        p->first_bad = *why;
    }
    if (p->options->unreadable) {
        p->options->unreadable(p->options->context, file, frame, why->text);
    }
}

static enum culm_status read_feed(struct predicting *p, struct culm_feed *feed, const char *file,
                                  struct culm_error *error) {
    const struct culm_vision_files_options *o = p->options;
    bool several = p->files > 1 || culm_feed_count(feed) > 1;
    for (;;) {
        struct culm_feed_frame frame;
        enum culm_status status = culm_feed_next(feed, -1, &frame, error);
        if (status == CULM_ERR_FORMAT && several && culm_feed_kind_of(feed) == CULM_FEED_PICTURES) {
            if (frame.number >= o->first) {
                pass_bad(p, frame.file, frame.number, error);
            }
            if (p->end >= 0 && frame.number + 1 >= p->end) {
                return CULM_OK;
            }
            continue;
        }
        if (status == CULM_ERR_CLOSED) {
            return frame.number > o->first
                       ? CULM_OK
                       : culm_error_set(error, CULM_ERR_CONFIG,
                                        "'%s': it has %lld frames, and none of those asked for",
                                        file, (long long)frame.number);
        }
        if (status != CULM_OK) {
            return status;
        }
        if (frame.number < o->first) {
            continue;
        }
        status = look(p, &frame, error);
        if (status == CULM_OK) {
            status = tell(p, frame.file, frame.number, error);
        }
        if (status == CULM_OK && o->draw) {
            status = draw(p, &frame, error);
        }
        if (status != CULM_OK) {
            return status;
        }
        p->good += culm_feed_kind_of(feed) == CULM_FEED_PICTURES;
        if (p->end >= 0 && frame.number + 1 >= p->end) {
            return CULM_OK;
        }
    }
}

static enum culm_status say_bad(const struct predicting *p, struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_FORMAT, "%lld of %lld pictures cannot be read%s: %s",
                          (long long)p->bad, (long long)(p->bad + p->good),
                          p->good ? ", the others are answered" : "", p->first_bad.text);
}

static void warn(const struct predicting *p, const char *text) {
    if (p->options->warning && text[0]) {
        p->options->warning(p->options->context, text);
    }
}

static enum culm_status run(struct predicting *p, const char *const *files,
                            struct culm_error *error) {
    const struct culm_vision_files_options *o = p->options;
    enum culm_status status = o->draw ? culm_dir_make(NULL, o->draw, error) : CULM_OK;
    if (status != CULM_OK) {
        return status;
    }
    warn(p, p->vision->model->note);
    for (size_t i = 0; i < p->files && status == CULM_OK; i++) {
        const struct culm_feed_options feed_options = {.file = files[i]};
        struct culm_feed *feed = NULL;
        p->file = i;
        status = culm_feed_open(&feed_options, &feed, error);
        if (status == CULM_ERR_CONFIG && p->files > 1 &&
            culm_picture_kind_of(files[i]) == CULM_PICTURE_READ) {
            pass_bad(p, files[i], 0, error);
            status = CULM_OK;
            continue;
        }
        if (status == CULM_OK) {
            warn(p, culm_feed_note(feed));
            status = read_feed(p, feed, files[i], error);
        }
        culm_feed_close(feed);
    }
    return status == CULM_OK && p->bad ? say_bad(p, error) : status;
}

enum culm_status culm_vision_predict_files(struct culm_vision *vision, const char *const *files,
                                           size_t count,
                                           const struct culm_vision_files_options *options,
                                           struct culm_error *error) {
    struct culm_vision_files_options own;
    struct culm_error found = {0}; /* texts of it are told, whether the caller asks or not */
    if (!vision || (!files && count > 0)) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "culm_vision_predict_files: an argument is NULL");
    }
    enum culm_status status =
        culm_public_take(&own, sizeof own, options, "culm_vision_files_options", error);
    if (status == CULM_OK) {
        status = culm_public_check(own.first, INT64_MAX, "culm_vision_files_options: first", error);
    }
    if (status == CULM_OK) {
        status = culm_public_check(own.end, INT64_MAX, "culm_vision_files_options: end", error);
    }
    if (status != CULM_OK) {
        return status;
    }
    if (!own.answer || (own.end && own.end <= own.first)) {
        return culm_error_set(error, CULM_ERR_ARGUMENT, "culm_vision_files_options: %s",
                              own.answer ? "end is not behind first" : "answer is NULL");
    }
    for (size_t i = 0; i < count; i++) {
        if (!files[i]) {
            return culm_error_set(error, CULM_ERR_ARGUMENT,
                                  "culm_vision_predict_files: files[%zu]: NULL", i);
        }
    }
    struct predicting p = {
        .options = &own, .vision = vision, .end = own.end ? own.end : -1, .files = count};
    status = run(&p, files, &found);
    if (status != CULM_OK && error) {
        *error = found;
    }
    return status ? culm_public_return(status, error) : CULM_OK;
}

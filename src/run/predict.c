/* Predictions of models of pictures, frame by frame. See vision_commands.h. */
#include "run/vision_commands.h"

#include "base/file.h"
#include "data/feed.h"
#include "data/pictures.h"
#include "run/picture.h"
#include "run/prediction.h"
#include "run/vision_open.h"
#include "vision/runner.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum culm_status culm_predict_frames(const char *text, int64_t *ret_first, int64_t *ret_end,
                                     struct culm_error *error) {
    char *end = (char *)(uintptr_t)text;
    int64_t first = 0, last = -1;
    bool right = *text >= '0' && *text <= '9';
    errno = 0;
    if (right) {
        first = strtoll(text, &end, 10);
        last = first < INT64_MAX ? first + 1 : first;
    }
    if ((right || *text == ':') && *end == ':') {
        const char *second = end + 1;
        right = (*second >= '0' && *second <= '9') || (!*second && text[0] != ':');
        last = *second ? strtoll(second, &end, 10) : -1;
        end += !*second;
    }
    if (!right || *end || errno || (last >= 0 && last <= first)) {
        return culm_error_set(error, CULM_ERR_ARGUMENT,
                              "frames '%.40s': write A:B for frames A to B - 1, counted from 0, A: "
                              "for all from A, or A for one",
                              text);
    }
    *ret_first = first;
    *ret_end = last;
    return CULM_OK;
}

struct predicting {
    const struct culm_predict_options *options;
    struct culm_vision_model *model;
    struct culm_device *device;
    struct culm_vision_runner runner;
    struct culm_answer answer;
    culm_predict_fn *told;
    void *ctx;
    struct culm_prediction_room room;
    size_t file, files; /* the one that is read, from 0, and how many there are */
    int64_t good, bad;  /* pictures */
    struct culm_error first_bad;
};

/* --- answers --- */

static enum culm_status tell(struct predicting *p, const char *file, int64_t frame,
                             struct culm_error *error) {
    struct culm_prediction prediction;
    enum culm_status status = culm_prediction_of(p->model, &p->answer, p->options->top, file, frame,
                                                 &p->room, &prediction, error);
    return status ? status : p->told(p->ctx, &prediction, error);
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
    return culm_picture_write(path, frame, p->model, &p->answer, error);
}

/* Numbers that say nothing are no answer. */
static enum culm_status check_finite(const struct predicting *p, const struct culm_feed_frame *f,
                                     struct culm_error *error) {
    return p->answer.other
               ? culm_error_set(error, CULM_ERR_CONFIG,
                                "'%.200s' frame %lld: the model's answer is not finite (%s); its "
                                "weights or --normalize make numbers that are too large",
                                f->file, (long long)f->number, p->answer.other)
               : CULM_OK;
}

static enum culm_status answer(struct predicting *p, const struct culm_feed_frame *f,
                               struct culm_error *error) {
    const struct culm_frame frame = {f->data, f->stride, f->width, f->height, f->channels};
    culm_vision_fill(&p->model->input, &frame, p->runner.image);
    culm_vision_runner_run(&p->runner);
    enum culm_status status = culm_vision_runner_answer(
        &p->runner, p->model, 0, f->width, f->height, (float)p->options->score, &p->answer, error);
    return status == CULM_OK ? check_finite(p, f, error) : status;
}

/* --- files --- */

/* Of several pictures, a bad one costs itself alone. */
static void pass_bad(struct predicting *p, const char *file, int64_t frame,
                     const struct culm_error *why) {
    if (!p->bad++) {
        p->first_bad = *why;
    }
    if (p->options->bad) {
        p->options->bad(p->ctx, file, frame, why->text);
    }
}

static enum culm_status read_feed(struct predicting *p, struct culm_feed *feed, const char *file,
                                  struct culm_error *error) {
    const struct culm_predict_options *o = p->options;
    bool several = p->files > 1 || culm_feed_count(feed) > 1;
    for (;;) {
        struct culm_feed_frame frame;
        enum culm_status status = culm_feed_next(feed, -1, &frame, error);
        if (status == CULM_ERR_FORMAT && several && culm_feed_kind(feed) == CULM_FEED_PICTURES) {
            if (frame.number >= o->first) {
                pass_bad(p, frame.file, frame.number, error);
            }
            if (o->end >= 0 && frame.number + 1 >= o->end) {
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
        if ((status = answer(p, &frame, error)) ||
            (status = tell(p, frame.file, frame.number, error)) ||
            (o->draw && (status = draw(p, &frame, error)))) {
            return status;
        }
        p->good += culm_feed_kind(feed) == CULM_FEED_PICTURES;
        if (o->end >= 0 && frame.number + 1 >= o->end) {
            return CULM_OK;
        }
    }
}

static enum culm_status say_bad(const struct predicting *p, struct culm_error *error) {
    return culm_error_set(error, CULM_ERR_FORMAT, "%lld of %lld pictures cannot be read%s: %s",
                          (long long)p->bad, (long long)(p->bad + p->good),
                          p->good ? ", the others are answered" : "", p->first_bad.text);
}

static enum culm_status run(struct predicting *p, const char *what, const char *const *files,
                            size_t count, struct culm_error *error) {
    const struct culm_predict_options *o = p->options;
    struct culm_vision_normalize normalize;
    const struct culm_vision_open_options how = {
        .weights = o->weights, .names = o->names, .normalize = o->normalize ? &normalize : NULL};
    enum culm_status status;
    if ((o->normalize && (status = culm_vision_normalize_parse(o->normalize, &normalize, error))) ||
        (status = culm_vision_open(what, &how, &p->model, error)) ||
        (status = culm_device_new(o->threads, &p->device, error)) ||
        (status =
             culm_vision_runner_init(&p->runner, p->model, 1, (float)o->score, p->device, error)) ||
        (o->draw && (status = culm_dir_make(NULL, o->draw, error)))) {
        return status;
    }
    if (o->note && p->model->note[0]) {
        o->note(p->ctx, p->model->note);
    }
    for (size_t i = 0; i < count && status == CULM_OK; i++) {
        const struct culm_feed_options feed_options = {.file = files[i]};
        struct culm_feed *feed = NULL;
        p->file = i;
        status = culm_feed_open(&feed_options, &feed, error);
        if (status == CULM_ERR_CONFIG && count > 1 &&
            culm_picture_kind(files[i]) == CULM_PICTURE_READ) {
            pass_bad(p, files[i], 0, error);
            status = CULM_OK;
            continue;
        }
        if (status == CULM_OK && o->note && culm_feed_note(feed)[0]) {
            o->note(p->ctx, culm_feed_note(feed));
        }
        if (status == CULM_OK) {
            status = read_feed(p, feed, files[i], error);
        }
        culm_feed_close(feed);
    }
    return status == CULM_OK && p->bad ? say_bad(p, error) : status;
}

enum culm_status culm_predict(const char *what, const char *const *files, size_t count,
                              const struct culm_predict_options *options, culm_predict_fn *told,
                              void *ctx, struct culm_error *error) {
    struct predicting p = {.options = options, .told = told, .ctx = ctx, .files = count};
    enum culm_status status = run(&p, what, files, count, error);
    culm_vision_runner_release(&p.runner);
    culm_device_free(p.device);
    culm_vision_model_free(p.model);
    culm_answer_release(&p.answer);
    culm_prediction_room_release(&p.room);
    return status;
}

/*
 * Models of pictures with Culm: what they see in pictures of the program, in files and in clips.
 *
 *     struct culm_error error;
 *     struct culm_vision *vision = NULL;
 *     const struct culm_prediction *seen;
 *     const struct culm_picture picture = {
 *         .size = sizeof picture, .pixels = pixels, .width = 640, .height = 480, .channels = 3};
 *     if (culm_vision_open("body.cfg", NULL, &vision, &error) ||
 *         culm_vision_predict(vision, &picture, &seen, &error)) {
 *         fprintf(stderr, "%s\n", error.text);
 *     } else {
 *         for (int32_t i = 0; seen->box && i < seen->count; i++) {
 *             printf("%s %.2f\n", seen->box[i].name, seen->box[i].score);
 *         }
 *     }
 *     culm_vision_free(vision);
 *
 * examples/embed/vision.c is a whole program. Many models on live video, in little memory and in time,
 * are the business of culm/edge.h. What <culm.h> says of errors, ownership, threads and versions holds
 * here; a model has threads of its own, as many as the options say.
 */
#ifndef CULM_VISION_H
#define CULM_VISION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <culm/prediction.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- models ------------------------------------------------------------------------------------- */

struct culm_vision;

struct culm_vision_options {
    size_t size; /* sizeof(struct culm_vision_options) */
    /* Of FILE.cfg a darknet file of weights; otherwise a safetensors file, the index of its shards or
     * their folder, a checkpoint, or a run, of which "best" is its best.safetensors. NULL: the model's
     * own. */
    const char *weights;
    const char *names; /* a file with the names of the classes, one a line; NULL: the model's own */
    /* How a pixel x becomes a number, (x / 255 - mean) / deviation: "none", "imagenet", "bytes" (0 to
     * 255 as they are), or three means and three deviations with commas between them. NULL: as the model says. */
    const char *normalize;
    double score;    /* boxes below it are left out; 0: 0.25; negative: none is */
    int64_t top;     /* how many classes are told, the best; 0: 5 */
    int64_t threads; /* 1 to 256; 0: 1 */
    /* What the outputs of FILE.onnx are: "auto", "darknet", "yolov5", "yolov8", "ssd", "detr", "boxes",
     * "classes" or "points". NULL: auto, as the file says; what cannot be told apart is refused. */
    const char *decode;
    const char
        *input_size;    /* "WIDTHxHEIGHT", where FILE.onnx leaves it open; NULL: as the file says */
    const char *fit;    /* "auto", "stretch" or "letterbox"; NULL: auto */
    const char *colors; /* the order that the model reads: "rgb" or "bgr"; NULL: rgb */
};

/* Opens a model. `what` is one of these:
 *   FILE.cfg             of darknet, with FILE.weights beside it
 *   FILE.onnx
 *   a run, a checkpoint or a YAML configuration of culm/train.h
 *   a published name     "resnet50", ...: random weights, so name some
 *   PACKAGE:QUERY        of culm/merge.h: the query's model, with the weights of the package
 * `options` may be NULL. CULM_ERR_CONFIG: it is none of these, or not a model of pictures.
 * CULM_ERR_UNSUPPORTED: it has operators that are not supported. */
CULM_API enum culm_status culm_vision_open(const char *what,
                                           const struct culm_vision_options *options,
                                           struct culm_vision **ret_vision,
                                           struct culm_error *error);
CULM_API void culm_vision_free(struct culm_vision *vision);

/* Texts live as long as the model. */
struct culm_vision_info {
    size_t size;           /* sizeof(struct culm_vision_info), set by the caller */
    const char *name;      /* of its file, without folder and extension */
    const char *answers;   /* with "boxes", "classes" or "points" */
    int64_t classes;       /* or points */
    int64_t width, height; /* to which pictures are stretched */
    int64_t channels;      /* 3, or 1: it looks at grey pictures */
    int64_t parameters;    /* trained elements */
    int64_t memory_bytes;  /* that it takes in this process */
    const char
        *note; /* what was done to its weights when they were read, in one line; "": nothing */
};
CULM_API enum culm_status culm_vision_describe(const struct culm_vision *vision,
                                               struct culm_vision_info *ret_info,
                                               struct culm_error *error);
/* The name of a class, from 0; NULL: it has none, or there is no such class. */
CULM_API const char *culm_vision_class_of(const struct culm_vision *vision, int64_t index);

/* --- predictions -------------------------------------------------------------------------------- */

/* Looks at one picture, in the calling thread and those of the model. The prediction has no file; its
 * `frame` counts the pictures of the program. It lives until the next call with this model.
 * CULM_ERR_CONFIG: the answer is not finite, since the weights or `normalize` make numbers that are too
 * large. CULM_ERR_ARGUMENT: a picture that cannot be one. */
CULM_API enum culm_status culm_vision_predict(struct culm_vision *vision,
                                              const struct culm_picture *picture,
                                              const struct culm_prediction **ret_prediction,
                                              struct culm_error *error);

struct culm_vision_files_options {
    size_t size;      /* sizeof(struct culm_vision_files_options) */
    int64_t first;    /* of each file the frames from `first`, counted from 0, */
    int64_t end;      /* to `end` - 1; 0: all from `first` on */
    const char *draw; /* a folder for frames with what was seen drawn in, PNG files; NULL: none */
    /* Called for each frame, with a prediction that is valid during the call. What it returns but
     * CULM_OK ends culm_vision_predict_files, which returns it, with the error that it has filled. */
    enum culm_status (*answer)(void *context, const struct culm_prediction *prediction,
                               struct culm_error *error);
    /* A picture of several cannot be read: one line says why. May be NULL. */
    void (*unreadable)(void *context, const char *file, int64_t frame, const char *why);
    /* As in every structure of options (culm.h): the model's note, and which files of a folder are
     * left out. */
    void (*warning)(void *context, const char *text);
    void *context; /* passed to all three */
};
/* Looks at frame after frame of files: pictures (JPEG, PNG, WebP), folders of pictures, IDX files of
 * images, and whatever ffmpeg opens, if it is installed. CULM_ERR_CONFIG: a file is not there, has none
 * of the frames, or an answer is not finite. CULM_ERR_FORMAT: of several pictures some cannot be read;
 * the others were answered. CULM_ERR_MACHINE: ffmpeg is needed, and not installed. */
CULM_API enum culm_status culm_vision_predict_files(struct culm_vision *vision,
                                                    const char *const *files, size_t count,
                                                    const struct culm_vision_files_options *options,
                                                    struct culm_error *error);

#ifdef __cplusplus
}
#endif

#endif

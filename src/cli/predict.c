/*
 * `culm predict MODEL FILE...`: boxes, classes or points in pictures and clips.
 */
#include "cli/command.h"
#include "cli/frames.h"
#include "cli/options.h"

#include "base/json.h"

#include <culm/vision.h>
#include <jansson.h>
#include <stdio.h>

struct values {
    const char *weights, *names, *normalize, *frames, *draw;
    const char *decode, *size, *fit, *colors;
    double score;
    int64_t threads, top;
    bool json;
};

static const struct culm_option options[] = {
    CULM_OPTION("names", TEXT, "FILE", struct values, names,
                "names of the classes, one per line (default: the names beside the model)"),
    CULM_OPTION("weights", TEXT, "PATH", struct values, weights,
                "the model's weights: for FILE.cfg a file; otherwise a safetensors file, the index "
                "of its shards or their folder, a checkpoint, or a run; best: DIR/best.safetensors "
                "(default: its own)"),
    CULM_OPTION("normalize", TEXT, "HOW", struct values, normalize,
                "none, imagenet, bytes (0 to 255 as they are), or three means and three deviations "
                "with commas between them: (x "
                "/ 255 - mean) / deviation (default: what the model says, or none)"),
    CULM_OPTION(
        "decode", TEXT, "WHAT", struct values, decode,
        "what the outputs of FILE.onnx are: auto, darknet, yolov5, yolov8, ssd, detr, boxes, "
        "classes or points (default: auto, as the file says)"),
    CULM_OPTION("size", TEXT, "WxH", struct values, size,
                "size of the input of a FILE.onnx that leaves it open (default: as the file says)"),
    CULM_OPTION(
        "fit", TEXT, "HOW", struct values, fit,
        "how frames get into the input: stretch, or letterbox: in their own proportions, with "
        "grey around them (default: auto, letterbox for yolov5 and yolov8)"),
    CULM_OPTION("colors", TEXT, "ORDER", struct values, colors,
                "rgb or bgr: the order of colours that the model reads (default: rgb)"),
    CULM_OPTION("frames", TEXT, "A:B", struct values, frames,
                "frames A to B - 1 of each file, counted from 0; 'A:' is all from A on, 'A' is one "
                "(default: all)"),
    CULM_OPTION("score", SHARE, "S", struct values, score,
                "leaves out boxes whose score is below S (default: 0.25)"),
    CULM_OPTION("top", INT, "N", struct values, top, "how many classes to print (default: 5)"),
    CULM_OPTION("draw", TEXT, "DIR", struct values, draw,
                "writes each frame with its boxes or points to DIR as a PNG file"),
    CULM_OPTION("threads", INT, "N", struct values, threads, "compute threads (default: 2)",
                .most = CULM_OPTION_THREADS_MAX),
    CULM_OPTION("json", FLAG, NULL, struct values, json, "prints one JSON object per frame"),
};

const struct culm_usage culm_usage_predict = {
    .command = "predict",
    .arguments = "MODEL FILE...",
    .min_arguments = 2,
    .max_arguments = CULM_ARGUMENTS_MAX,
    .summary = "Prints the boxes, classes or points that a model finds in pictures and clips",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .details =
        "MODEL is FILE.cfg (darknet, with FILE.weights beside it), FILE.onnx, a configuration, "
        "the\n"
        "folder of a run, a checkpoint, or PACKAGE:QUERY (culm merge). FILE is a picture (JPEG, "
        "PNG,\n"
        "WebP), a folder of pictures, an IDX file of images, or whatever ffmpeg opens, if it is\n"
        "installed. Frames are stretched to the size that the model reads, unless --fit says "
        "otherwise.\n\n"
        "x and y of a box are its top left corner, in pixels of the frame.\n\n"
        "Of several pictures, one that cannot be read is reported, the rest are answered, and the\n"
        "exit code is 3.\n",
};

static void print_text(const struct culm_prediction *p) {
    printf("%s frame %lld:", p->file, (long long)p->frame);
    for (int32_t i = 0; i < p->count; i++) {
        if (p->box) {
            printf("%s %s %.2f at %.0f,%.0f %.0f x %.0f", i ? ";" : "", p->box[i].name,
                   p->box[i].score, p->box[i].x, p->box[i].y, p->box[i].width, p->box[i].height);
        } else if (p->classes) {
            printf("%s %s %.2f", i ? "," : "", p->classes[i].name, p->classes[i].score);
        } else {
            printf(" %.1f,%.1f", p->point[i].x, p->point[i].y);
        }
    }
    printf("%s\n", p->count ? "" : " nothing");
}

static enum culm_status tell(void *ctx, const struct culm_prediction *prediction,
                             struct culm_error *error) {
    const struct values *v = ctx;
    if (v->json) {
        culm_cli_print_line(culm_prediction_json(prediction));
    } else {
        print_text(prediction);
    }
    return culm_cli_flush(error);
}

static void note(void *ctx, const char *text) {
    (void)ctx;
    culm_cli_note("predict", text);
}

static void unreadable(void *ctx, const char *file, int64_t frame, const char *why) {
    const struct values *v = ctx;
    if (v->json) {
        culm_cli_print_json(json_pack("{s:o, s:I, s:o}", "file", culm_json_text(file), "frame",
                                      (json_int_t)frame, "error", culm_json_text(why)));
    } else {
        culm_cli_note("predict", why);
    }
}

static enum culm_status run(const struct culm_arguments *arguments, void *values, int *ret_code,
                            struct culm_error *error) {
    const struct values *v = values;
    const struct culm_vision_options how = {.size = sizeof how,
                                            .weights = v->weights,
                                            .names = v->names,
                                            .normalize = v->normalize,
                                            .score = v->score > 0 ? v->score : -1,
                                            .top = v->top < 65536 ? v->top : 65536,
                                            .threads = v->threads,
                                            .decode = v->decode,
                                            .input_size = v->size,
                                            .fit = v->fit,
                                            .colors = v->colors};
    struct culm_vision_files_options on = {.size = sizeof on,
                                           .draw = v->draw,
                                           .answer = tell,
                                           .unreadable = unreadable,
                                           .warning = note,
                                           .context = values};
    struct culm_vision *vision = NULL;
    enum culm_status status =
        v->frames ? culm_cli_read_frames(v->frames, &on.first, &on.end, error) : CULM_OK;
    (void)ret_code;
    if (status == CULM_OK) {
        status = culm_vision_open(arguments->items[0], &how, &vision, error);
    }
    if (status == CULM_OK) {
        status = culm_vision_predict_files(vision, arguments->items + 1, arguments->count - 1, &on,
                                           error);
    }
    culm_vision_free(vision);
    return status;
}

int culm_cli_predict(int argc, char **argv) {
    struct values values = {.score = 0.25, .threads = 2, .top = 5};
    return culm_cli_run(&culm_usage_predict, argc, argv, &values, run);
}

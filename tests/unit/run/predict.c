/*
 * What `culm predict` says: of a small detector and a small classifier that are made here; and, with
 * CULM_EDGE (the folder of models and expected outputs), of eleven detectors on twelve frames, of
 * classifiers on 2,000 images and of networks of faces, against other programs. Without it those are
 * skipped.
 */
#include "../folder.h"

#include "data/feed.h"
#include "data/image.h"
#include "data/image_write.h"
#include "run/bench_infer.h"
#include "run/vision_about.h"

#include <culm/vision.h>
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const char *edge(void) {
    const char *path = getenv("CULM_EDGE");
    if (!path || !*path) {
        print_message("no models: set CULM_EDGE to their folder\n");
        skip();
    }
    return path;
}

static void ok(enum culm_status status, const struct culm_error *error) {
    if (status != CULM_OK) {
        fail_msg("%s", error->text);
    }
}

static const char *inside(const char *name) {
    static char path[4][8192];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

static void put(const char *name, const void *data, size_t len) {
    FILE *file = fopen(inside(name), "wbe");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

/* --- all that was said --- */

enum { SAID_MAX = 2048, LIST_MAX = 136 };
struct said {
    int frames;
    int64_t frame[SAID_MAX];
    int32_t count[SAID_MAX];
    int best[SAID_MAX]; /* class of the first */
    char name[SAID_MAX][32];
    struct culm_predicted_box box[LIST_MAX]; /* of the last frame */
    char box_name[LIST_MAX][32];
    struct culm_predicted_point point[LIST_MAX];
};
static struct said said;

static enum culm_status hear(void *ctx, const struct culm_prediction *p, struct culm_error *error) {
    (void)ctx;
    (void)error;
    assert_true(said.frames < SAID_MAX && p->count <= LIST_MAX);
    assert_int_equal(!!p->box + !!p->classes + !!p->point, 1);
    int i = said.frames++;
    said.frame[i] = p->frame;
    said.count[i] = p->count;
    if (p->count && !p->point) {
        said.best[i] = p->box ? p->box[0].class_index : p->classes[0].class_index;
        snprintf(said.name[i], 32, "%s", p->box ? p->box[0].name : p->classes[0].name);
    }
    if (p->box) {
        memcpy(said.box, p->box, (size_t)p->count * sizeof *p->box);
        for (int32_t b = 0; b < p->count; b++) {
            snprintf(said.box_name[b], 32, "%s", p->box[b].name);
            said.box[b].name = said.box_name[b];
        }
    } else if (p->point) {
        memcpy(said.point, p->point, (size_t)p->count * sizeof *p->point);
    }
    return CULM_OK;
}

struct how {
    const char *names, *normalize, *draw;
    int64_t first, end;
    double score;
};

static struct how usual(void) { return (struct how){.score = 0.25}; }

static enum culm_status predict_files(const char *model, const char *const *files, size_t count,
                                      const struct how *how, struct culm_error *error) {
    const struct culm_vision_options open = {.size = sizeof open,
                                             .names = how->names,
                                             .normalize = how->normalize,
                                             .score = how->score,
                                             .top = 3,
                                             .threads = 2};
    const struct culm_vision_files_options on = {
        .size = sizeof on, .first = how->first, .end = how->end, .draw = how->draw, .answer = hear};
    struct culm_vision *vision = NULL;
    enum culm_status status = culm_vision_open(model, &open, &vision, error);
    said.frames = 0;
    status = status ? status : culm_vision_predict_files(vision, files, count, &on, error);
    culm_vision_free(vision);
    return status;
}

static enum culm_status predict(const char *model, const char *file, const struct how *how,
                                struct culm_error *error) {
    return predict_files(model, &file, 1, how, error);
}

/* --- a detector that looks at the colour of each of 2 x 2 cells --- */

static void make_detector(void) {
    static const char cfg[] = "[net]\nwidth=4\nheight=4\nchannels=3\n"
                              "[maxpool]\nsize=2\nstride=2\n"
                              "[convolutional]\nfilters=7\nsize=1\nactivation=linear\n"
                              "[yolo]\nanchors=2,2\nclasses=2\n";
    float w[5 + 7 + 21] = {0}; /* header, biases, [7,3] */
    const int32_t header[] = {0, 2, 0};
    memcpy(w, header, sizeof header);
    float *bias = w + 5, *weight = w + 12;
    bias[4] = -4;
    weight[4 * 3 + 0] = weight[4 * 3 + 1] = 12; /* an object where there is red or green */
    bias[5] = bias[6] = -6;
    weight[5 * 3 + 0] = weight[6 * 3 + 1] = 12;
    put("net-two.cfg", cfg, sizeof cfg - 1);
    put("net-two.weights", w, sizeof w);
    put("two.names", "red\ngreen\n", 10);
    uint8_t pixels[8 * 8 * 3] = {0};
    for (int i = 0; i < 16; i++) {
        pixels[3 * ((i / 4) * 8 + 4 + i % 4)] = 255;         /* top right: red */
        pixels[3 * ((4 + i / 4) * 8 + i % 4) + 1] = 255;     /* bottom left: green */
        pixels[3 * ((4 + i / 4) * 8 + 4 + i % 4) + 2] = 255; /* bottom right: blue */
    }
    struct culm_error error = {0};
    ok(culm_image_write_png(inside("squares.png"), pixels, 8, 8, &error), &error);
}

static void test_detector(void **state) {
    (void)state;
    struct how options = usual();
    struct culm_error error = {0};
    options.draw = inside("drawn");
    ok(predict(inside("net-two.cfg"), inside("squares.png"), &options, &error), &error);
    assert_int_equal(said.frames, 1);
    assert_int_equal(said.count[0], 2);
    for (int i = 0; i < 2; i++) {
        bool red = said.box[i].class_index == 0;
        assert_string_equal(said.box[i].name, red ? "red" : "green");
        assert_float_equal(said.box[i].score, 1 / (1 + exp(-8)) / (1 + exp(-6)), 1e-5);
        assert_float_equal(said.box[i].x, red ? 4 : 0, 1e-3);
        assert_float_equal(said.box[i].y, red ? 0 : 4, 1e-3);
        assert_float_equal(said.box[i].width, 4, 1e-3);
    }
    /* the frame with its boxes is a picture that can be read */
    char *data;
    size_t len;
    struct culm_image image = {0};
    ok(culm_file_read(NULL, inside("drawn/squares-0000.png"), 1 << 20, &data, &len, &error),
       &error);
    ok(culm_image_decode(data, len, "drawn", 3, &image, &error), &error);
    assert_int_equal(image.width, 8);
    assert_int_equal(image.height, 8);
    free(data);
    culm_image_release(&image);
    /* files of one name, each with a picture of its own */
    options.draw = inside("drawn");
    const char *both[] = {inside("squares.png"), inside("squares.png")};
    ok(predict_files(inside("net-two.cfg"), both, 2, &options, &error), &error);
    assert_int_equal(access(inside("drawn/0-squares-0000.png"), F_OK), 0);
    assert_int_equal(access(inside("drawn/1-squares-0000.png"), F_OK), 0);
    options.draw = NULL;
    options.score = 0.9999;
    ok(predict(inside("net-two.cfg"), inside("squares.png"), &options, &error), &error);
    assert_int_equal(said.count[0], 0);
}

/* As an ONNX file it says the same, with the configuration beside it; without, it is refused. */
static void exported(const char *given_cfg, const char *given_picture) {
    char model[4096], picture[4096];
    snprintf(model, sizeof model, "%s", given_cfg);
    snprintf(picture, sizeof picture, "%s", given_picture);
    struct how options = usual();
    struct culm_error error = {0};
    char *text;
    size_t len;
    ok(culm_vision_export(&(struct culm_vision_which){.what = model}, inside("out.onnx"), &error),
       &error);
    remove(inside("out.cfg"));
    assert_int_equal(predict(inside("out.onnx"), picture, &options, &error), CULM_ERR_CONFIG);
    assert_non_null(strstr(error.text, "beside it"));
    ok(culm_file_read(NULL, model, 1 << 20, &text, &len, &error), &error);
    put("out.cfg", text, len);
    free(text);
    ok(predict(model, picture, &options, &error), &error);
    struct said first = said;
    ok(predict(inside("out.onnx"), picture, &options, &error), &error);
    assert_int_equal(said.count[0], first.count[0]);
    assert_true(said.count[0] > 0);
    for (int32_t i = 0; i < said.count[0]; i++) {
        assert_int_equal(said.box[i].class_index, first.box[i].class_index);
        assert_float_equal(said.box[i].score, first.box[i].score, 1e-4);
        assert_float_equal(said.box[i].x, first.box[i].x, 1e-2);
        assert_float_equal(said.box[i].height, first.box[i].height, 1e-2);
    }
}

static void test_export(void **state) {
    (void)state;
    exported(inside("net-two.cfg"), inside("squares.png"));
    struct culm_vision_about about;
    struct culm_error error = {0};
    ok(culm_vision_describe_file(&(struct culm_vision_which){.what = inside("net-two.cfg")}, true,
                                 &about, &error),
       &error);
    assert_string_equal(about.answers, "boxes");
    assert_int_equal(about.layers, 1);
    assert_int_equal(about.layer_bytes, 28 * 4);
    assert_int_equal(about.heads, 1);
    culm_vision_about_release(&about);
    remove(inside("lone.weights"));
    char *text;
    size_t len;
    ok(culm_file_read(NULL, inside("net-two.cfg"), 1 << 20, &text, &len, &error), &error);
    put("lone.cfg", text, len);
    free(text);
    ok(culm_vision_describe_file(&(struct culm_vision_which){.what = inside("lone.cfg")}, false,
                                 &about, &error),
       &error);
    culm_vision_about_release(&about);
    assert_int_equal(
        culm_vision_describe_file(&(struct culm_vision_which){.what = inside("lone.cfg")}, true,
                                  &about, &error),
        CULM_ERR_CONFIG);
    assert_non_null(strstr(error.text, "lone.weights"));
}

/* The same of a published detector, with upsampled maps, batch norm and all. */
static void test_export_published(void **state) {
    (void)state;
    char cfg[4096], picture[4096];
    snprintf(cfg, sizeof cfg, "%s/detectors/yolo-fastest-1.1-coco.cfg", edge());
    snprintf(picture, sizeof picture, "%s/golden/frames/classroom-0020.png", edge());
    exported(cfg, picture);
}

static void test_frames(void **state) {
    (void)state;
    struct culm_error error = {0};
    /* images of an IDX file: 4 grey ones */
    uint8_t idx[16 + 4 * 16] = {0, 0, 8, 3, 0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0, 4};
    memset(idx + 16 + 2 * 16, 255, 16);
    put("images", idx, sizeof idx);
    struct how options = usual();
    options.first = 1;
    options.end = 3;
    ok(predict(inside("net-two.cfg"), inside("images"), &options, &error), &error);
    assert_int_equal(said.frames, 2);
    assert_int_equal(said.frame[0], 1);
    assert_int_equal(said.count[0], 0);
    assert_int_equal(said.count[1], 8); /* white is red and green */
    options.first = 4;
    options.end = 0;
    assert_int_equal(predict(inside("net-two.cfg"), inside("images"), &options, &error),
                     CULM_ERR_CONFIG);
    assert_non_null(strstr(error.text, "it has 4 frames, and none of those asked for"));
}

/* --- a classifier of a configuration --- */

static void test_classifier(void **state) {
    (void)state;
    static const char yaml[] =
        "model: {arch: resnet, blocks: [1], small_stem: true, width: 8, image: 16, classes: 4}\n"
        "data: {kind: images, path: none, normalize: imagenet}\nsteps: 1\n";
    struct how options = usual();
    struct culm_error error = {0};
    put("small.yaml", yaml, sizeof yaml - 1);
    ok(predict(inside("small.yaml"), inside("squares.png"), &options, &error), &error);
    assert_int_equal(said.frames, 1);
    assert_int_equal(said.count[0], 3);
    assert_true(said.name[0][0] == 'c'); /* class N */
    put("four.names", "a\nb\nc\nd\n", 8);
    options.names = inside("four.names");
    ok(predict(inside("small.yaml"), inside("squares.png"), &options, &error), &error);
    assert_int_equal(said.name[0][0], 'a' + said.best[0]);
    options.names = inside("two.names");
    assert_int_equal(predict(inside("small.yaml"), inside("squares.png"), &options, &error),
                     CULM_ERR_CONFIG);
    options.names = NULL;
    options.normalize = "0,0,0,1,0,1";
    assert_int_equal(predict(inside("small.yaml"), inside("squares.png"), &options, &error),
                     CULM_ERR_CONFIG);
    static const char text[] = "model: {arch: gpt2, layers: 1, width: 16, heads: 2, context: 8}\n"
                               "data: {kind: text, path: none}\nsteps: 1\n";
    put("text.yaml", text, sizeof text - 1);
    options.normalize = NULL;
    assert_int_equal(predict(inside("text.yaml"), inside("squares.png"), &options, &error),
                     CULM_ERR_CONFIG);
    assert_non_null(strstr(error.text, "not a model of pictures"));
    struct culm_infer_bench bench;
    const struct culm_infer_options how = {.batch = 2, .threads = 1, .iters = 3, .layers = true};
    ok(culm_bench_infer(inside("net-two.cfg"), &how, &bench, &error), &error);
    assert_true(bench.median_s > 0 && bench.least_s <= bench.median_s);
    assert_string_equal(bench.name, "net-two");
    assert_true(bench.parameter_bytes >= 28 * 4 && bench.activation_bytes > 0);
    double flops = 0;
    assert_true(bench.layer_count > 0);
    for (int32_t i = 0; i < bench.layer_count; i++) {
        const struct culm_infer_layer *layer = &bench.layer[i];
        assert_true(layer->seconds >= 0 && layer->bytes > 0 && layer->kind[0]);
        assert_int_equal(layer->in[0], 2);
        flops += layer->flops;
    }
    assert_true(fabs(flops - 2 * bench.flops) <= 1e-6 * flops);
    assert_int_equal(bench.layer[0].in[3], 3);
    culm_infer_bench_release(&bench);
    /* what a picture shows, and in no batch more of it */
    static const struct {
        double score, boxes;
        int64_t batch;
    } seen[] = {{0.25, 2, 1}, {0.25, 2, 3}, {0.9999, 0, 1}, {1, 0, 1}};
    char picture[4096];
    snprintf(picture, sizeof picture, "%s", inside("squares.png"));
    for (int i = 0; i < 4; i++) {
        const struct culm_infer_options look = {.batch = seen[i].batch,
                                                .threads = 1,
                                                .iters = 3,
                                                .feed = picture,
                                                .score = seen[i].score};
        ok(culm_bench_infer(inside("net-two.cfg"), &look, &bench, &error), &error);
        assert_true(bench.answer_least_s > 0 && bench.answer_least_s <= bench.answer_median_s);
        assert_float_equal(bench.answers, seen[i].boxes, 0);
        culm_infer_bench_release(&bench);
    }
    const struct culm_infer_options blind = {.threads = 1, .iters = 1, .feed = "nowhere.png"};
    assert_int_equal(culm_bench_infer(inside("net-two.cfg"), &blind, &bench, &error),
                     CULM_ERR_CONFIG);
    assert_non_null(strstr(error.text, "nowhere.png"));
    culm_infer_bench_release(&bench);
}

/* --- against other programs --- */

static json_t *load(const char *path) {
    json_error_t about;
    json_t *json = json_load_file(path, 0, &about);
    if (!json) {
        fail_msg("%s: %s", path, about.text);
    }
    return json;
}

#define SCORE_OFF 0.01
#define PIXELS_OFF 1.5

/* Whether some box of the list is this one. */
static bool is_there(json_t *wanted, const struct culm_predicted_box *b) {
    size_t i;
    json_t *row;
    json_array_foreach(wanted, i, row) {
        const double have[] = {b->score, b->x, b->y, b->width, b->height};
        bool same = json_integer_value(json_array_get(row, 0)) == b->class_index &&
                    strcmp(json_string_value(json_array_get(row, 1)), b->name) == 0;
        for (size_t k = 0; k < 5 && same; k++) {
            double off = fabs(json_number_value(json_array_get(row, k + 2)) - have[k]);
            same = off <= (k == 0 ? SCORE_OFF : PIXELS_OFF);
        }
        if (same) {
            return true;
        }
    }
    return false;
}

static int compare_boxes(json_t *wanted, const char *model, const char *frame) {
    int wrong = 0;
    for (int32_t i = 0; i < said.count[0]; i++) {
        const struct culm_predicted_box *b = &said.box[i];
        if (!is_there(wanted, b) && b->score >= 0.25 + SCORE_OFF) {
            printf("# %s on %s: %s %.4f at %.2f,%.2f is not among the expected\n", model, frame,
                   b->name, b->score, b->x, b->y);
            wrong++;
        }
    }
    size_t i;
    json_t *row;
    json_array_foreach(wanted, i, row) {
        bool found = json_number_value(json_array_get(row, 2)) < 0.25 + SCORE_OFF;
        json_t *one = json_pack("[O]", row);
        for (int32_t k = 0; k < said.count[0] && !found; k++) {
            found = is_there(one, &said.box[k]);
        }
        json_decref(one);
        if (!found) {
            printf("# %s on %s: %s %.4f is missing\n", model, frame,
                   json_string_value(json_array_get(row, 1)),
                   json_number_value(json_array_get(row, 2)));
            wrong++;
        }
    }
    return wrong;
}

static void test_detections(void **state) {
    (void)state;
    const char *root = edge();
    char path[4096], cfg[4096];
    snprintf(path, sizeof path, "%s/golden/detections.json", root);
    json_t *golden = load(path), *frames, *rows;
    const char *model, *frame;
    int wrong = 0, compared = 0, boxes = 0;
    struct how options = usual();
    struct culm_error error = {0};
    json_object_foreach(json_object_get(golden, "detections"), model, frames) {
        snprintf(cfg, sizeof cfg, "%s/detectors/%s.cfg", root, model);
        json_object_foreach(frames, frame, rows) {
            snprintf(path, sizeof path, "%s/golden/frames/%s.png", root, frame);
            ok(predict(cfg, path, &options, &error), &error);
            wrong += compare_boxes(rows, model, frame);
            boxes += (int)json_array_size(rows);
            compared++;
        }
    }
    json_decref(golden);
    printf("# %d boxes on %d pairs of model and frame, %d wrong\n", boxes, compared, wrong);
    assert_int_equal(compared, 11 * 12);
    assert_true(boxes > 100);
    assert_int_equal(wrong, 0);
}

/* Frames of clips by ffmpeg are those of the pictures, but for the last bits of another ffmpeg. */
static void test_clips(void **state) {
    (void)state;
    const char *root = edge();
    if (system("ffmpeg -version >/dev/null 2>&1") != 0) {
        print_message("ffmpeg is not installed\n");
        skip();
    }
    static const struct {
        const char *clip, *picture;
        int64_t frame;
    } cases[] = {{"classroom.gif", "classroom-0040", 40},
                 {"store-aisle-detection.gif", "store-aisle-detection-0055", 55},
                 {"bottle-detection.mp4", "bottle-detection-0100", 100}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char clip[4096], picture[4096];
        struct culm_error error = {0};
        struct culm_feed *feeds[2] = {NULL};
        struct culm_feed_frame frame[2];
        snprintf(clip, sizeof clip, "%s/clips/%s", root, cases[i].clip);
        snprintf(picture, sizeof picture, "%s/golden/frames/%s.png", root, cases[i].picture);
        const struct culm_feed_options of[] = {{.file = clip}, {.file = picture}};
        for (int k = 0; k < 2; k++) {
            ok(culm_feed_open(&of[k], &feeds[k], &error), &error);
            for (int64_t n = 0; n <= (k ? 0 : cases[i].frame); n++) {
                ok(culm_feed_next(feeds[k], -1, &frame[k], &error), &error);
            }
        }
        assert_int_equal(frame[0].number, cases[i].frame);
        assert_int_equal(frame[0].width, frame[1].width);
        assert_int_equal(frame[0].height, frame[1].height);
        int worst = 0;
        for (int32_t b = 0; b < frame[0].width * frame[0].height * 3; b++) {
            int off = abs(frame[0].data[b] - frame[1].data[b]);
            worst = off > worst ? off : worst;
        }
        printf("# %s: %d\n", cases[i].clip, worst);
        assert_true(worst <= 2);
        culm_feed_close(feeds[0]);
        culm_feed_close(feeds[1]);
    }
}

static void test_faces(void **state) {
    (void)state;
    const char *root = edge();
    char path[4096], model[4096];
    snprintf(path, sizeof path, "%s/golden/classifiers.json", root);
    json_t *golden = load(path);
    json_t *face = json_object_get(golden, "face"), *rows, *row;
    const char *name;
    size_t i;
    struct how options = usual();
    struct culm_error error = {0};
    options.normalize = "0.48149804,0.40901176,0.40901176,1,1,1";
    char normalize[128]; /* their figures, in 255ths */
    snprintf(normalize, sizeof normalize, "%.9g,%.9g,%.9g,1,1,1", 122.782 / 255, 117.001 / 255,
             104.298 / 255);
    options.normalize = normalize;
    json_object_foreach(json_object_get(face, "models"), name, rows) {
        snprintf(model, sizeof model, "%s/classifiers/%s.onnx", root, name);
        json_array_foreach(rows, i, row) {
            snprintf(path, sizeof path, "%s/golden/frames/%s", root,
                     json_string_value(json_array_get(json_object_get(face, "inputs"), i)));
            ok(predict(model, path, &options, &error), &error);
            if (json_array_size(row) == 7) {
                int best = 0;
                for (size_t k = 1; k < 7; k++) {
                    best = json_number_value(json_array_get(row, k)) >
                                   json_number_value(json_array_get(row, (size_t)best))
                               ? (int)k
                               : best;
                }
                assert_int_equal(said.best[0], best);
                continue;
            }
            assert_int_equal(said.count[0], 68);
            for (size_t k = 0; k < 136; k++) {
                double want = json_number_value(json_array_get(row, k)) * 112;
                double have = k % 2 ? said.point[k / 2].y : said.point[k / 2].x;
                assert_true(fabs(have - want) < 0.01);
            }
        }
    }
    json_decref(golden);
}

/* Classes of the first `count` frames of a file; ties aside, which the expected logits say: there are
 * none among these. */
static int wrong_classes(const char *model, const char *file, const char *expected, int count) {
    struct how options = usual();
    struct culm_error error = {0};
    int wrong = 0;
    options.end = count;
    options.normalize = "imagenet";
    ok(predict(model, file, &options, &error), &error);
    assert_int_equal(said.frames, count);
    for (int i = 0; i < count; i++) {
        wrong += said.best[i] != expected[i] - '0';
    }
    return wrong;
}

static void make_resnet(const char *root, int blocks, char ret_path[4096]) {
    char text[8192];
    int len = snprintf(text, sizeof text,
                       "model: {arch: resnet, blocks: [%d, %d, %d], small_stem: true, width: 16, "
                       "image: 32, classes: 10, shortcut: pad, init: "
                       "%s/classifiers/cifar10-resnet%d.safetensors}\n"
                       "data: {kind: images, path: none, normalize: imagenet}\nsteps: 1\n",
                       blocks, blocks, blocks, root, 6 * blocks + 2);
    put("resnet.yaml", text, (size_t)len);
    snprintf(ret_path, 4096, "%s", inside("resnet.yaml"));
}

/* How many images ResNet-20 is shown; a sanitizer sees as much in a tenth of them. */
#ifdef __SANITIZE_ADDRESS__
#define IMAGES 100
#else
#define IMAGES 1000
#endif

/* ResNet-20 on all images, from safetensors and from ONNX; the others on some, unless CULM_EDGE_ALL is
 * set. */
static void test_resnets(void **state) {
    (void)state;
    const char *root = edge();
    bool all = getenv("CULM_EDGE_ALL") != NULL;
    char path[4096], model[4096], command[20000];
    static const char *const classes[] = {"airplane", "automobile", "bird",  "cat",  "deer",
                                          "dog",      "frog",       "horse", "ship", "truck"};
    snprintf(path, sizeof path, "%s/golden/classifiers.json", root);
    json_t *golden = load(path);
    json_t *models = json_object_get(json_object_get(golden, "cifar10"), "models");
    snprintf(command, sizeof command, "tar -xzf %s/images/cifar10-jpeg-test.tar.gz -C %s", root,
             folder);
    bool jpeg = system(command) == 0;
    for (int blocks = 3; blocks <= 9; blocks += 2) {
        char name[64];
        snprintf(name, sizeof name, "cifar10-resnet%d", 6 * blocks + 2);
        json_t *of = json_object_get(models, name);
        const char *clean = json_string_value(json_object_get(of, "clean_classes"));
        const char *worse = json_string_value(json_object_get(of, "jpeg_classes"));
        int count = all ? 1000 : blocks == 3 ? IMAGES : IMAGES / 10, wrong;
        assert_true(clean && worse && strlen(clean) == 1000 && strlen(worse) == 1000);
        make_resnet(root, blocks, model);
        snprintf(path, sizeof path, "%s/images/cifar10-clean-images-idx4-ubyte.gz", root);
        wrong = wrong_classes(model, path, clean, count);
        for (int c = 0; c < IMAGES / 100 && jpeg && (blocks == 3 || all); c++) {
            snprintf(path, sizeof path, "%s/test/%s", folder, classes[c]);
            if (!culm_file_is_directory(path)) {
                snprintf(path, sizeof path, "%s/%s", folder, classes[c]);
            }
            wrong += wrong_classes(model, path, worse + 100 * c, 100);
        }
        printf("# %s: %d wrong\n", name, wrong);
        assert_int_equal(wrong, 0);
        if (blocks == 3) {
            snprintf(model, sizeof model, "%s/classifiers/cifar10-resnet20.onnx", root);
            snprintf(path, sizeof path, "%s/images/cifar10-clean-images-idx4-ubyte.gz", root);
            assert_int_equal(wrong_classes(model, path, clean, 200), 0);
        }
    }
    json_decref(golden);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_detector),
        cmocka_unit_test(test_export),
        cmocka_unit_test(test_export_published),
        cmocka_unit_test(test_frames),
        cmocka_unit_test(test_classifier),
        cmocka_unit_test(test_detections),
        cmocka_unit_test(test_clips),
        cmocka_unit_test(test_faces),
        cmocka_unit_test(test_resnets),
    };
    if (make_folder(NULL) != 0) {
        return 1;
    }
    make_detector();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return drop_folder(NULL) != 0 ? 1 : failed;
}

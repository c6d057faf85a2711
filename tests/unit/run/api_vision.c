/* culm/vision.h from a program of its own, with a detector that is made here: pictures of the program,
 * files, and what is refused. */
#include <culm/vision.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "api_call.h"
#include "api_detector.h"
#include "api_place.h"

static struct culm_vision *detector(const struct culm_vision_options *options) {
    struct culm_vision *vision = NULL;
    make_detector();
    MUST(culm_vision_open("two.cfg", options, &vision, &error));
    return vision;
}

static void pictures_of_the_program(void **state) {
    (void)state;
    const struct culm_vision_options options = {.size = sizeof options, .names = "colours"};
    struct culm_vision *vision = detector(&options);
    uint8_t pixels[SIDE * SIDE * 3], spread[SIDE * (SIDE * 3 + 5)], grey[SIDE * SIDE];
    struct culm_picture picture = {
        .size = sizeof picture, .pixels = pixels, .width = SIDE, .height = SIDE, .channels = 3};
    const struct culm_prediction *seen;
    for (int64_t i = 0; i < 4; i++) {
        paint_square(pixels, i);
        picture.pixels = pixels;
        picture.stride = 0;
        MUST(culm_vision_predict(vision, &picture, &seen, &error));
        assert_null(seen->file);
        assert_int_equal(seen->frame, 2 * i); /* it counts them */
        assert_int_equal(seen->count, 1);
        assert_null(seen->classes);
        assert_null(seen->point);
        assert_string_equal(seen->box[0].name, "red");
        assert_true((seen->box[0].x > 2) == (i % 2 == 1) && (seen->box[0].y > 2) == (i / 2 == 1));
        const struct culm_predicted_box first = seen->box[0];
        memset(spread, 255, sizeof spread); /* anything may be between rows */
        for (int y = 0; y < SIDE; y++) {
            memcpy(spread + y * (SIDE * 3 + 5), pixels + y * SIDE * 3, SIDE * 3);
        }
        picture.pixels = spread;
        picture.stride = SIDE * 3 + 5;
        MUST(culm_vision_predict(vision, &picture, &seen, &error));
        assert_int_equal(seen->count, 1);
        assert_true(seen->box[0].score == first.score && seen->box[0].x == first.x &&
                    seen->box[0].y == first.y);
    }
    memset(grey, 255, sizeof grey); /* white: red and green everywhere */
    picture = (struct culm_picture){
        .size = sizeof picture, .pixels = grey, .width = SIDE, .height = SIDE, .channels = 1};
    MUST(culm_vision_predict(vision, &picture, &seen, &error));
    assert_int_equal(seen->count, 8);
    char *json = culm_prediction_json(seen);
    assert_non_null(strstr(json, "{\"file\":null,\"frame\":"));
    assert_non_null(strstr(json, "\"boxes\":[{\"class\":"));
    culm_text_free(json);
    culm_vision_free(vision);
}

static void what_a_model_is(void **state) {
    (void)state;
    struct culm_vision *vision = detector(NULL);
    struct culm_vision_info info = {.size = sizeof info};
    MUST(culm_vision_describe(vision, &info, &error));
    assert_string_equal(info.name, "two");
    assert_string_equal(info.answers, "boxes");
    assert_int_equal(info.classes, 2);
    assert_int_equal(info.width, 4);
    assert_int_equal(info.height, 4);
    assert_int_equal(info.channels, 3);
    assert_int_equal(info.parameters, 28);
    assert_true(info.memory_bytes > 28 * 4);
    assert_string_equal(info.note, "");
    assert_null(culm_vision_class_of(vision, 0));
    culm_vision_free(vision);
    const struct culm_vision_options options = {.size = sizeof options, .names = "colours"};
    vision = detector(&options);
    assert_string_equal(culm_vision_class_of(vision, 1), "green");
    assert_null(culm_vision_class_of(vision, 2));
    assert_null(culm_vision_class_of(vision, -1));
    assert_null(culm_vision_class_of(NULL, 0));
    culm_vision_free(vision);
}

/* The score below which boxes are left out; of classes the best. */
static void less_or_more_of_an_answer(void **state) {
    (void)state;
    static const char small[] =
        "model: {arch: resnet, blocks: [1], small_stem: true, width: 8, image: 16, classes: 4}\n"
        "data: {kind: images, path: none}\nsteps: 1\n";
    static const struct {
        double score;
        int32_t boxes;
    } scores[] = {{0, 1}, {0.9999, 0}, {1, 0}, {-1, 8}};
    uint8_t pixels[SIDE * SIDE * 3];
    const struct culm_picture picture = {
        .size = sizeof picture, .pixels = pixels, .width = SIDE, .height = SIDE, .channels = 3};
    const struct culm_prediction *seen;
    struct culm_vision *vision = NULL;
    paint_square(pixels, 0);
    for (size_t i = 0; i < sizeof scores / sizeof *scores; i++) {
        const struct culm_vision_options options = {.size = sizeof options,
                                                    .score = scores[i].score};
        vision = detector(&options);
        MUST(culm_vision_predict(vision, &picture, &seen, &error));
        assert_int_equal(seen->count, scores[i].boxes);
        culm_vision_free(vision);
    }
    put_file("small.yaml", small, sizeof small - 1);
    for (int64_t top = 0; top < 6; top++) {
        const struct culm_vision_options options = {.size = sizeof options, .top = top};
        MUST(culm_vision_open("small.yaml", &options, &vision, &error));
        MUST(culm_vision_predict(vision, &picture, &seen, &error));
        assert_non_null(seen->classes);
        assert_int_equal(seen->count, top == 0 || top > 4 ? 4 : top);
        for (int32_t c = 1; c < seen->count; c++) {
            assert_true(seen->classes[c - 1].score >= seen->classes[c].score);
        }
        culm_vision_free(vision);
    }
}

/* --- files --- */

struct heard {
    int answers, unreadable, warnings, until;
    char file[64];
};

static enum culm_status hear(void *context, const struct culm_prediction *prediction,
                             struct culm_error *ret_error) {
    struct heard *heard = context;
    snprintf(heard->file, sizeof heard->file, "%s", prediction->file);
    if (++heard->answers == heard->until) {
        ret_error->status = CULM_ERR_STOPPED;
        snprintf(ret_error->text, sizeof ret_error->text, "enough");
        return CULM_ERR_STOPPED;
    }
    return CULM_OK;
}

static void hear_unreadable(void *context, const char *file, int64_t frame, const char *why) {
    struct heard *heard = context;
    heard->unreadable++;
    assert_int_equal(frame, 1);
    assert_non_null(strstr(file, "b.png"));
    assert_true(why[0] != 0);
}

static void hear_warning(void *context, const char *text) {
    struct heard *heard = context;
    heard->warnings++;
    assert_non_null(strstr(text, "c.txt"));
}

static void files_are_looked_at(void **state) {
    (void)state;
    static const uint8_t png[] = {
        /* 1 x 1, black */
        0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48,
        0x44, 0x52, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x01, 0x08, 0x02, 0x00, 0x00,
        0x00, 0x90, 0x77, 0x53, 0xde, 0x00, 0x00, 0x00, 0x0c, 0x49, 0x44, 0x41, 0x54, 0x78,
        0x9c, 0x63, 0x60, 0x60, 0x60, 0x00, 0x00, 0x00, 0x04, 0x00, 0x01, 0xf6, 0x17, 0x38,
        0x55, 0x00, 0x00, 0x00, 0x00, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82};
    const char *const folder[] = {"pictures"}, *const none[] = {"nowhere.png"};
    struct culm_vision *vision = detector(NULL);
    struct heard heard = {0};
    struct culm_vision_files_options options = {.size = sizeof options,
                                                .answer = hear,
                                                .unreadable = hear_unreadable,
                                                .warning = hear_warning,
                                                .context = &heard};
    assert_int_equal(mkdir("pictures", 0700), 0);
    put_file("pictures/a.png", png, sizeof png);
    put_file("pictures/b.png", png, sizeof png / 2);
    put_file("pictures/c.png", png, sizeof png);
    put_file("pictures/c.txt", "x", 1);
    FAILS(CULM_ERR_FORMAT, culm_vision_predict_files(vision, folder, 1, &options, &error));
    assert_non_null(strstr(error.text, "1 of 3 pictures cannot be read"));
    assert_int_equal(heard.answers, 2);
    assert_int_equal(heard.unreadable, 1);
    assert_int_equal(heard.warnings, 1);
    assert_string_equal(heard.file, "pictures/c.png");
    heard = (struct heard){.until = 1}; /* what the function returns ends it */
    FAILS(CULM_ERR_STOPPED, culm_vision_predict_files(vision, folder, 1, &options, &error));
    assert_string_equal(error.text, "enough");
    assert_int_equal(heard.answers, 1);
    assert_int_equal(culm_vision_predict_files(vision, folder, 1, &options, NULL), CULM_ERR_FORMAT);
    options.first = 2;
    heard = (struct heard){0};
    options.draw = "drawn";
    MUST(culm_vision_predict_files(vision, folder, 1, &options, &error));
    assert_int_equal(heard.answers, 1);
    assert_int_equal(access("drawn/c-0002.png", F_OK), 0);
    options.first = 0;
    options.end = 1;
    MUST(culm_vision_predict_files(vision, folder, 1, &options, &error));
    assert_int_equal(heard.answers, 2);
    options.end = 0;
    FAILS(CULM_ERR_CONFIG, culm_vision_predict_files(vision, none, 1, &options, &error));
    assert_non_null(strstr(error.text, "nowhere.png"));
    culm_vision_free(vision);
}

/* --- what is refused --- */

static void wrong_arguments(void **state) {
    (void)state;
    static const uint8_t pixels[SIDE * SIDE * 3];
    const struct culm_picture good = {
        .size = sizeof good, .pixels = pixels, .width = SIDE, .height = SIDE, .channels = 3};
    static const struct culm_vision_options wrong[] = {
        {.threads = 257}, {.threads = -1}, {.top = -1}, {.score = 2}};
    const char *const files[] = {"a.png"}, *const none[] = {NULL};
    struct culm_vision *vision = detector(NULL), *made = NULL;
    struct culm_vision_info info = {0};
    struct culm_vision_files_options options = {.size = sizeof options};
    const struct culm_prediction *seen = NULL;
    struct culm_picture bad[6] = {good, good, good, good, good, good};
    bad[0].pixels = NULL;
    bad[1].width = 65501;
    bad[2].height = 0;
    bad[3].channels = 2;
    bad[4].stride = 1;
    bad[5].size = 0;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        FAILS(CULM_ERR_ARGUMENT, culm_vision_predict(vision, &bad[i], &seen, &error));
    }
    FAILS(CULM_ERR_ARGUMENT, culm_vision_predict(NULL, &good, &seen, &error));
    FAILS(CULM_ERR_ARGUMENT, culm_vision_predict(vision, NULL, &seen, &error));
    FAILS(CULM_ERR_ARGUMENT, culm_vision_predict(vision, &good, NULL, &error));
    assert_null(seen);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct culm_vision_options option = wrong[i];
        option.size = sizeof option;
        FAILS(CULM_ERR_ARGUMENT, culm_vision_open("two.cfg", &option, &made, &error));
    }
    const struct culm_vision_options other = {.size = sizeof other, .normalize = "1,2"};
    FAILS(CULM_ERR_CONFIG, culm_vision_open("two.cfg", &other, &made, &error));
    FAILS(CULM_ERR_ARGUMENT, culm_vision_open(NULL, NULL, &made, &error));
    FAILS(CULM_ERR_ARGUMENT, culm_vision_open("two.cfg", NULL, NULL, &error));
    FAILS(CULM_ERR_CONFIG, culm_vision_open("none.cfg", NULL, &made, &error));
    assert_null(made);
    FAILS(CULM_ERR_ARGUMENT, culm_vision_describe(NULL, &info, &error));
    FAILS(CULM_ERR_ARGUMENT, culm_vision_describe(vision, &info, &error));
    FAILS(CULM_ERR_ARGUMENT, culm_vision_predict_files(vision, files, 1, &options, &error));
    options.answer = hear;
    FAILS(CULM_ERR_ARGUMENT, culm_vision_predict_files(NULL, files, 1, &options, &error));
    FAILS(CULM_ERR_ARGUMENT, culm_vision_predict_files(vision, NULL, 1, &options, &error));
    FAILS(CULM_ERR_ARGUMENT, culm_vision_predict_files(vision, none, 1, &options, &error));
    FAILS(CULM_ERR_ARGUMENT, culm_vision_predict_files(vision, files, 1, NULL, &error));
    options.first = -1;
    FAILS(CULM_ERR_ARGUMENT, culm_vision_predict_files(vision, files, 1, &options, &error));
    options.first = 2;
    options.end = 2;
    FAILS(CULM_ERR_ARGUMENT, culm_vision_predict_files(vision, files, 1, &options, &error));
    culm_vision_free(vision);
    culm_vision_free(NULL);
}

/* Numbers that say nothing are no answer. */
static void an_answer_that_is_not_finite(void **state) {
    (void)state;
    static const uint8_t pixels[SIDE * SIDE * 3];
    const struct culm_picture picture = {
        .size = sizeof picture, .pixels = pixels, .width = SIDE, .height = SIDE, .channels = 3};
    const struct culm_prediction *seen = NULL;
    struct culm_vision *vision = NULL;
    make_detector();
    FILE *file = fopen("two.weights", "r+b");
    assert_non_null(file);
    const uint32_t nan = 0x7fc00000u;
    for (int i = 0; i < 7; i++) {
        assert_int_equal(fseek(file, 4 * (5 + i), SEEK_SET), 0);
        assert_int_equal(fwrite(&nan, sizeof nan, 1, file), 1);
    }
    assert_int_equal(fclose(file), 0);
    enum culm_status status = culm_vision_open("two.cfg", NULL, &vision, &error);
    status = status ? status : culm_vision_predict(vision, &picture, &seen, &error);
    assert_true(status == CULM_ERR_CONFIG || status == CULM_ERR_FORMAT);
    assert_null(seen);
    culm_vision_free(vision);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_PLACE(pictures_of_the_program),   IN_PLACE(what_a_model_is),
        IN_PLACE(less_or_more_of_an_answer), IN_PLACE(files_are_looked_at),
        IN_PLACE(wrong_arguments),           IN_PLACE(an_answer_that_is_not_finite),
    };
    return cmocka_run_group_tests_name("run/api_vision", tests, NULL, NULL);
}
